//! The names by which clients may address the server. One that no request can have is a mistake: the
//! operator would otherwise hear of it from clients that are refused.

use std::net::{IpAddr, Ipv6Addr};

use super::keys::Keys;

const HOSTS: &str = "server.hosts";

/// The names of `server.hosts`, without those that are none.
pub(super) fn hosts(keys: &mut Keys<'_>) -> Vec<String> {
    let written = keys.text(HOSTS).unwrap_or_default();
    let names = written.split(',').map(str::trim);
    let (good, bad): (Vec<_>, Vec<_>) = names
        .filter(|name| !name.is_empty())
        .partition(|name| is_host(name));
    for name in bad {
        let how = match name.is_ascii() {
            true => "without scheme, port and `*`",
            false => "in ASCII, as xn--…",
        };
        keys.mistake(HOSTS, format!("`{name}` is no host name: write it {how}"));
    }
    good.into_iter().map(str::to_owned).collect()
}

/// Whether this is one host as it stands in a request: a name, or an address with or without the
/// brackets of IPv6.
fn is_host(text: &str) -> bool {
    let bracketed = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    if let Some(address) = bracketed {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    text.parse::<IpAddr>().is_ok() || (name.len() <= 253 && name.split('.').all(is_label))
}

/// Names of containers have underscores, though names of the web have none.
fn is_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=63).contains(&label.len()) && label.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_neither_scheme_nor_port_nor_wildcard() {
        for good in [
            "QA.example.org.",
            "localhost",
            "spechop_1",
            "10.0.0.1",
            "[::1]",
            "2001:db8::1",
            "xn--bcher-kva.example",
        ] {
            assert!(is_host(good), "{good}");
        }
        let long = ["x"; 128].join(".");
        for bad in [
            "",
            ".",
            "a..b",
            "qa.example.org:443",
            "10.0.0.1:443",
            "[::1]:443",
            "[::1",
            "[10.0.0.1]",
            "https://qa.example.org",
            "qa.example.org/",
            "a b",
            "*",
            "*.example.org",
            "u@h",
            "bücher.example",
            &"x".repeat(64),
            &long,
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
