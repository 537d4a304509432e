//! Which addresses may be fetched.
//!
//! Strangers write the URLs that arrive here: a search result or a redirect may point at this
//! machine, at its neighbours or at the metadata service of its cloud. Two checks, and neither is
//! enough alone:
//!
//! * [`Policy::gate`] looks at the URL, before every request and every redirect. IP literals never
//!   reach a resolver, so they are judged here; `url` has brought their decimal, octal and hex forms
//!   to one.
//! * [`Gate::admit`] looks at the addresses that a name stands for, inside the resolver of the
//!   client itself ([`crate::resolve`]). What was checked is what is connected to, so a name that
//!   means something else a moment later gains nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

/// A longer address is no address that a reader would be shown.
const URL_BYTES_MAX: usize = 8 << 10;

/// Names that mean a neighbour, whatever a resolver makes of them.
const LOCAL_NAMES: &[&str] = &["localhost", "localdomain", "local", "internal", "home.arpa"];

/// Networks of IPv4 that are not the public internet: the registry of special-purpose addresses, and
/// the one public address behind which a cloud keeps its metadata.
const SPECIAL_V4: &[(Ipv4Net, &str)] = &[
    (v4([0, 0, 0, 0], 8), "unspecified"),
    (v4([10, 0, 0, 0], 8), "private"),
    (
        v4([100, 64, 0, 0], 10),
        "shared by the clients of a carrier",
    ),
    (v4([127, 0, 0, 0], 8), "loopback"),
    (v4([168, 63, 129, 16], 32), "of a metadata service"),
    (v4([169, 254, 0, 0], 16), "link-local"),
    (v4([172, 16, 0, 0], 12), "private"),
    (v4([192, 0, 0, 0], 24), "reserved"),
    (v4([192, 0, 2, 0], 24), "of documentation"),
    (v4([192, 88, 99, 0], 24), "reserved"),
    (v4([192, 168, 0, 0], 16), "private"),
    (v4([198, 18, 0, 0], 15), "of benchmarks"),
    (v4([198, 51, 100, 0], 24), "of documentation"),
    (v4([203, 0, 113, 0], 24), "of documentation"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([255, 255, 255, 255], 32), "broadcast"),
    (v4([240, 0, 0, 0], 4), "reserved"),
];

/// Networks of IPv6 that are not the public internet, those that wrap an address of IPv4 among them:
/// whoever unwraps it may be a neighbour.
const SPECIAL_V6: &[(Ipv6Net, &str)] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "of a local NAT64"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), "of Teredo"),
    // Benchmarks, ORCHID and others; the few public ones among them serve no pages.
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "reserved"),
    (
        v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
        "of documentation",
    ),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "of 6to4"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "of documentation"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "private"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "site-local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
];

/// The only network out of which addresses of IPv6 are given to anybody.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
/// Bits before an address of IPv4 in the form of IPv6 (`::ffff:0:0/96`).
const MAPPED_BITS: u8 = 96;
/// Wraps an address of IPv4; its provider unwraps it.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length)
}

/// A network that an operator opens, e.g. an intranet: `10.0.0.0/8`, or on one port alone
/// `10.0.0.0/8:8080`, `127.0.0.1:8080`, `[fd00::]/8:8080`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Its addresses.
    pub net: IpNet,
    /// Its port; without one, every port.
    pub port: Option<u16>,
}

impl FromStr for Opening {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("{text:?} is no network such as 10.0.0.0/8, 127.0.0.1:8080 or [fd00::]/8");
        // `[fd00::]/8:80` without its brackets is `fd00::/8` and `80`.
        let (net, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((_, rest)) if !(rest.is_empty() || rest.starts_with(['/', ':'])) => {
                return Err(wrong());
            }
            Some((host, rest)) => {
                let (length, port) = rest.split_once(':').unzip();
                (format!("{host}{}", length.unwrap_or(rest)), port)
            }
            None if text.matches(':').count() == 1 => {
                let (net, port) = text.split_once(':').unzip();
                (net.unwrap_or_default().to_owned(), port)
            }
            None => (text.to_owned(), None),
        };
        let port = port.map(str::parse).transpose();
        Ok(Self {
            net: net_of(&net).ok_or_else(wrong)?,
            port: port.map_err(|_| wrong())?,
        })
    }
}

/// A network that an operator closes on every port, e.g. `203.0.113.0/24` or `203.0.113.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing(pub IpNet);

impl FromStr for Closing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<Opening>() {
            Ok(Opening { net, port: None }) => Ok(Self(net)),
            _ => Err(format!(
                "{text:?} is no network such as 203.0.113.0/24, 203.0.113.7 or 2001:db8::/32"
            )),
        }
    }
}

/// A network, or the one of a lone address. If it is one of IPv4 in the form of IPv6, it is one of IPv4, as
/// the addresses are that are compared with it.
fn net_of(text: &str) -> Option<IpNet> {
    let lone = |_| text.parse::<IpAddr>().map(IpNet::from);
    let net = text.parse::<IpNet>().or_else(lone).ok()?.trunc();
    let IpNet::V6(mapped) = net else {
        return Some(net);
    };
    let length = mapped.prefix_len().checked_sub(MAPPED_BITS);
    match (mapped.addr().to_ipv4_mapped(), length) {
        (Some(ip), Some(length)) => Ipv4Net::new(ip, length).ok().map(IpNet::V4),
        _ => Some(net),
    }
}

/// What may be fetched.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Ports of the public internet.
    pub(crate) ports: Vec<u16>,
    /// Networks that are open although they are not public.
    pub(crate) allow: Vec<Opening>,
    /// Networks that are closed although they are public or allowed.
    pub(crate) deny: Vec<Closing>,
}

/// Why an address may not be fetched, in a few words. It names no address that a name stands for:
/// that would tell a stranger how the network here is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forbidden(pub(crate) String);

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Forbidden {}

impl From<&str> for Forbidden {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl Policy {
    /// The gate through which the address may be fetched, if that is so.
    pub(crate) fn gate(&self, url: &Url) -> Result<Gate, Forbidden> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err("it is neither http nor https".into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it holds credentials".into());
        }
        if url.as_str().len() > URL_BYTES_MAX {
            return Err("it is too long".into());
        }
        let port = url.port_or_known_default().ok_or("it has no port")?;
        let gate = self.gate_of(port);
        if gate.is_shut() {
            return Err(Forbidden(format!("port {port} is closed")));
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => gate.admit(ip.into())?,
            Some(Host::Ipv6(ip)) => gate.admit(ip.into())?,
            // Where a network here is open, its names are, too: their addresses decide.
            Some(Host::Domain(name)) if gate.open.is_empty() && is_local(name) => {
                return Err("its name is that of a neighbour".into());
            }
            Some(Host::Domain(_)) => {}
            None => return Err("it has no host".into()),
        }
        Ok(gate)
    }

    /// Every gate that [`Self::gate`] may name, once each.
    pub(crate) fn gates(&self) -> Vec<Gate> {
        let named = self.allow.iter().filter_map(|opening| opening.port);
        // Port 0 stands for all that nobody names.
        let ports = self.ports.iter().copied().chain(named).chain([0]);
        let mut gates: Vec<Gate> = Vec::new();
        for gate in ports.map(|port| self.gate_of(port)) {
            if !gate.is_shut() && !gates.contains(&gate) {
                gates.push(gate);
            }
        }
        gates
    }

    fn gate_of(&self, port: u16) -> Gate {
        let open = self
            .allow
            .iter()
            .filter(|opening| opening.port.is_none_or(|open| open == port));
        Gate {
            public: self.ports.contains(&port),
            open: open.map(|opening| opening.net).collect(),
            closed: self.deny.iter().map(|closing| closing.0).collect(),
        }
    }
}

/// Which addresses may be connected to, on the ports that this gate stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gate {
    /// Whether the public internet is open.
    public: bool,
    open: Vec<IpNet>,
    closed: Vec<IpNet>,
}

impl Gate {
    /// Whether the address may be connected to.
    pub(crate) fn admit(&self, ip: IpAddr) -> Result<(), Forbidden> {
        let ip = ip.to_canonical();
        let holds = |nets: &[IpNet], ip: IpAddr| nets.iter().any(|net| net.contains(&ip));
        if holds(&self.closed, ip) || wrapped(ip).is_some_and(|ip| holds(&self.closed, ip.into())) {
            return Err("its address is closed by the operator".into());
        }
        if holds(&self.open, ip) {
            return Ok(());
        }
        if !self.public {
            return Err("its port is closed".into());
        }
        match special(ip) {
            None => Ok(()),
            Some(kind) => Err(Forbidden(format!("its address is {kind}"))),
        }
    }

    /// Whether it leads to the public internet.
    pub(crate) fn is_public(&self) -> bool {
        self.public
    }

    fn is_shut(&self) -> bool {
        !self.public && self.open.is_empty()
    }
}

/// What the address is for, if that is not the public internet.
fn special(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => special_v4(ip),
        IpAddr::V6(v6) => match wrapped(ip) {
            Some(ip) => special_v4(ip),
            None => {
                let mut special = SPECIAL_V6.iter();
                let known = special.find(|(net, _)| net.contains(&v6));
                let known = known.map(|(_, kind)| *kind);
                known.or((!GLOBAL_V6.contains(&v6)).then_some("reserved"))
            }
        },
    }
}

fn special_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let mut special = SPECIAL_V4.iter();
    let known = special.find(|(net, _)| net.contains(&ip));
    known.map(|(_, kind)| *kind)
}

/// The address of IPv4 that a translator would make of it.
fn wrapped(ip: IpAddr) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V6(ip) if NAT64.contains(&ip) => Some(Ipv4Addr::from_bits(ip.to_bits() as u32)),
        _ => None,
    }
}

/// Whether a name is one of this machine or of its network. A name without a dot is one: a search
/// domain would be added to it.
fn is_local(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let under = |local: &&str| {
        name.strip_suffix(*local)
            .is_some_and(|rest| rest.ends_with('.'))
    };
    !name.contains('.') || name == "home.arpa" || LOCAL_NAMES.iter().any(under)
}

#[cfg(test)]
mod tests;
