//! By which names the server may be addressed.
//!
//! A browser on the operator's own machine reaches a loopback address, whatever page it shows. If a page
//! has its own name point to 127.0.0.1 (DNS rebinding), the browser even lets it read the answers. Only
//! the name in the request gives it away.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;

/// The names under which requests are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// All of them.
    Any,
    /// Those of this machine itself, and these.
    Named(Vec<String>),
}

impl Hosts {
    /// On a loopback address, and if names are given, only those and this machine's own are accepted.
    pub(crate) fn of(listen: SocketAddr, names: &[String]) -> Self {
        if names.is_empty() && !listen.ip().is_loopback() {
            return Self::Any;
        }
        Self::Named(names.iter().map(|name| plain(name)).collect())
    }

    /// Whether a request to this authority (`host` or `host:port`) is meant for this server.
    pub(super) fn accept(&self, authority: &str) -> bool {
        let Self::Named(names) = self else {
            return true;
        };
        let Ok(authority) = authority.parse::<Authority>() else {
            return false;
        };
        let host = plain(authority.host());
        host == "localhost"
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
            || names.contains(&host)
    }
}

/// Case, a final full stop and the brackets of IPv6 make no difference.
fn plain(host: &str) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.trim_end_matches('.').to_ascii_lowercase()
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
    fn elsewhere_every_name_counts_unless_some_are_given() {
        let everywhere: SocketAddr = ([0, 0, 0, 0], 50051).into();
        assert!(Hosts::of(everywhere, &[]).accept("anything"));
        let named = Hosts::of(everywhere, &["qa.example.org".to_owned()]);
        assert!(named.accept("qa.example.org") && named.accept("localhost"));
        assert!(!named.accept("anything"));
    }
}
