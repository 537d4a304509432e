//! By which names the server may be addressed.
//!
//! A browser on the operator's own machine reaches a loopback address, whatever page it shows. If a page
//! has its own name point to 127.0.0.1 (DNS rebinding), the browser even lets it read the answers. Only
//! the name in the request gives it away.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use spechop_ports::is_loopback;

/// The names under which requests are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// All of them.
    Any,
    /// Those of this machine itself, and these.
    Named {
        names: Vec<String>,
        /// Every address as well: nobody's name can point to one.
        addresses: bool,
    },
}

impl Hosts {
    /// On a loopback address, and if names are given, only those and this machine's own are accepted.
    /// On another address clients may also use that instead of a name, as probes of Kubernetes do.
    pub(crate) fn of(listen: SocketAddr, names: &[String]) -> Self {
        let addresses = !listen.ip().is_loopback();
        if names.is_empty() && addresses {
            return Self::Any;
        }
        let names = names.iter().map(|name| plain(name)).collect();
        Self::Named { names, addresses }
    }

    /// Whether a request to this authority (`host` or `host:port`) is meant for this server.
    pub(super) fn accept(&self, authority: &str) -> bool {
        let Self::Named { names, addresses } = self else {
            return true;
        };
        host_of(authority).is_some_and(|host| {
            is_loopback(&host) || names.contains(&host) || (*addresses && is_address(&host))
        })
    }

    /// Whether a request to this authority comes from a page of this server itself: one of the same
    /// origin. If every name counts, only a page that was called up by an address is known to be one,
    /// since a stranger's name may point here as well.
    pub(super) fn is_own_page(&self, origin: &str, authority: &str) -> bool {
        let page = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        let is_same = page.is_some_and(|page| {
            without_usual_port(page).eq_ignore_ascii_case(without_usual_port(authority))
        });
        let is_known = match self {
            Self::Named { .. } => self.accept(authority),
            Self::Any => {
                host_of(authority).is_some_and(|host| is_loopback(&host) || is_address(&host))
            }
        };
        is_same && is_known
    }
}

/// The host of an authority, if it is one.
fn host_of(authority: &str) -> Option<String> {
    let authority = authority.parse::<Authority>().ok()?;
    Some(plain(authority.host()))
}

/// Whether a plain host is an address.
fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

/// An authority without the usual port of its scheme, which may be left out.
fn without_usual_port(authority: &str) -> &str {
    let bare = authority.strip_suffix(":80");
    bare.or_else(|| authority.strip_suffix(":443"))
        .unwrap_or(authority)
}

/// Case, a final full stop, and the brackets and zeros of IPv6 make no difference.
fn plain(host: &str) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.trim_end_matches('.').to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_only_this_machines_names_count() {
        let local: SocketAddr = ([127, 0, 0, 1], 50051).into();
        let hosts = Hosts::of(local, &["QA.example.org".to_owned()]);
        for (authority, accepted) in [
            ("127.0.0.1:50051", true),
            ("127.8.0.1", true),
            ("localhost:1", true),
            ("LocalHost.", true),
            ("[::1]:50051", true),
            ("qa.example.org:443", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1", false),
            ("qa.example.org.evil.example", false),
            ("evil.example@127.0.0.1.evil.example", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(hosts.accept(authority), accepted, "{authority:?}");
        }
    }

    #[test]
    fn only_pages_of_the_server_itself_may_ask() {
        let local: SocketAddr = ([127, 0, 0, 1], 50051).into();
        let named = Hosts::of(local, &["qa.example.org".to_owned()]);
        let any = Hosts::of(([0, 0, 0, 0], 50051).into(), &[]);
        for (origin, authority, by_name, by_any) in [
            ("http://127.0.0.1:50051", "127.0.0.1:50051", true, true),
            ("http://localhost:50051", "LOCALHOST:50051", true, true),
            ("https://qa.example.org", "qa.example.org:443", true, false),
            ("http://[::1]:50051", "[::1]:50051", true, true),
            ("http://10.0.0.1:50051", "10.0.0.1:50051", false, true),
            ("http://127.0.0.1:50052", "127.0.0.1:50051", false, false),
            ("http://localhost:50051", "127.0.0.1:50051", false, false),
            ("http://evil.example", "evil.example", false, false),
            ("http://evil.example", "127.0.0.1:50051", false, false),
            ("null", "127.0.0.1:50051", false, false),
            ("", "", false, false),
        ] {
            assert_eq!(named.is_own_page(origin, authority), by_name, "{origin}");
            assert_eq!(any.is_own_page(origin, authority), by_any, "{origin}");
        }
    }

    #[test]
    fn an_address_is_no_strangers_name() {
        let remote: SocketAddr = ([192, 0, 2, 2], 50051).into();
        let hosts = Hosts::of(remote, &["qa.example.org".to_owned()]);
        for (authority, accepted) in [
            ("192.0.2.2:50051", true),
            ("192.0.2.7", true),
            ("[2001:db8::1]:50051", true),
            ("127.0.0.1:50051", true),
            ("qa.example.org", true),
            ("evil.example", false),
            ("192.0.2.2.evil.example", false),
            ("3221225986", false),
        ] {
            assert_eq!(hosts.accept(authority), accepted, "{authority}");
        }
        let own = |authority: &str| hosts.is_own_page(&format!("http://{authority}"), authority);
        assert!(own("192.0.2.2:50051") && !own("evil.example"));
    }

    #[test]
    fn an_address_may_be_written_in_several_ways() {
        let local: SocketAddr = ([127, 0, 0, 1], 50051).into();
        for written in ["2001:DB8:0:0::1", "[2001:db8::1]"] {
            let hosts = Hosts::of(local, &[written.to_owned()]);
            assert!(hosts.accept("[2001:db8::1]:443"), "{written}");
            assert!(!hosts.accept("[2001:db8::2]"), "{written}");
        }
    }

    #[test]
    fn elsewhere_every_name_counts_unless_some_are_given() {
        let everywhere: SocketAddr = ([0, 0, 0, 0], 50051).into();
        assert!(Hosts::of(everywhere, &[]).accept("anything"));
        let named = Hosts::of(everywhere, &["qa.example.org".to_owned()]);
        assert!(named.accept("qa.example.org") && named.accept("localhost"));
        assert!(!named.accept("anything"));
    }
}
