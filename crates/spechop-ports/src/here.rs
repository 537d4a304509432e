//! Which hosts are this machine itself.

use std::net::IpAddr;

/// Whether a host is a name of this machine itself, so that nobody in between hears what is said to
/// it. IPv6 addresses may be in brackets.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_this_machine_are_known() {
        for here in ["localhost", "127.0.0.1", "127.8.0.1", "::1", "[::1]"] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in ["localhost.example", "10.0.0.1", "0.0.0.0", "[::2]", ""] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }
}
