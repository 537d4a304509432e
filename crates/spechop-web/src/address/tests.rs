//! The registry of special addresses, its borders, and what operators write.

use super::*;

fn policy(allow: &[&str]) -> Policy {
    Policy {
        ports: vec![80, 443],
        allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
        deny: Vec::new(),
    }
}

fn allowed(policy: &Policy, url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| policy.gate(&url).is_ok())
}

#[test]
fn special_networks_are_closed_from_their_first_address_to_their_last() {
    for (first, last, before, behind) in [
        ("0.0.0.0", "0.255.255.255", None, Some("1.0.0.0")),
        (
            "10.0.0.0",
            "10.255.255.255",
            Some("9.255.255.255"),
            Some("11.0.0.0"),
        ),
        (
            "100.64.0.0",
            "100.127.255.255",
            Some("100.63.255.255"),
            Some("100.128.0.0"),
        ),
        (
            "127.0.0.0",
            "127.255.255.255",
            Some("126.255.255.255"),
            Some("128.0.0.0"),
        ),
        (
            "168.63.129.16",
            "168.63.129.16",
            Some("168.63.129.15"),
            Some("168.63.129.17"),
        ),
        (
            "169.254.0.0",
            "169.254.255.255",
            Some("169.253.255.255"),
            Some("169.255.0.0"),
        ),
        (
            "172.16.0.0",
            "172.31.255.255",
            Some("172.15.255.255"),
            Some("172.32.0.0"),
        ),
        (
            "192.0.0.0",
            "192.0.0.255",
            Some("191.255.255.255"),
            Some("192.0.1.0"),
        ),
        (
            "192.0.2.0",
            "192.0.2.255",
            Some("192.0.1.255"),
            Some("192.0.3.0"),
        ),
        (
            "192.88.99.0",
            "192.88.99.255",
            Some("192.88.98.255"),
            Some("192.88.100.0"),
        ),
        (
            "192.168.0.0",
            "192.168.255.255",
            Some("192.167.255.255"),
            Some("192.169.0.0"),
        ),
        (
            "198.18.0.0",
            "198.19.255.255",
            Some("198.17.255.255"),
            Some("198.20.0.0"),
        ),
        (
            "198.51.100.0",
            "198.51.100.255",
            Some("198.51.99.255"),
            Some("198.51.101.0"),
        ),
        (
            "203.0.113.0",
            "203.0.113.255",
            Some("203.0.112.255"),
            Some("203.0.114.0"),
        ),
        (
            "224.0.0.0",
            "255.255.255.255",
            Some("223.255.255.255"),
            None,
        ),
        ("::", "::ffff", None, None),
        ("::127.0.0.1", "::8.8.8.8", None, None),
        (
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            None,
            Some("64:ff9b::8.8.8.8"),
        ),
        (
            "64:ff9b:1::",
            "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
            None,
            None,
        ),
        ("100::", "100::ffff", None, None),
        ("1fff:ffff::", "1fff:ffff::1", None, Some("2000::")),
        (
            "2001::",
            "2001:1ff:ffff::",
            Some("2000:ffff::"),
            Some("2001:200::"),
        ),
        (
            "2001:db8::",
            "2001:db8:ffff::",
            Some("2001:db7::"),
            Some("2001:db9::"),
        ),
        (
            "2002::",
            "2002:ffff:ffff::",
            Some("2001:ffff::"),
            Some("2003::"),
        ),
        (
            "3fff::",
            "3fff:fff::",
            Some("3ffe:ffff::"),
            Some("3fff:1000::"),
        ),
        ("4000::", "fbff::", None, None),
        ("fc00::", "fdff:ffff::", None, None),
        ("fe80::", "febf:ffff::", None, None),
        ("fec0::", "feff::", None, None),
        ("ff00::", "ffff::", None, None),
    ] {
        for ip in [Some(first), Some(last)].into_iter().flatten() {
            assert!(special(ip.parse().unwrap()).is_some(), "{ip}");
        }
        for ip in [before, behind].into_iter().flatten() {
            assert_eq!(special(ip.parse().unwrap()), None, "{ip}");
        }
    }
}

#[test]
fn an_operator_opens_networks_and_closes_them() {
    let open = policy(&[
        "10.0.0.0/8",
        "127.0.0.1:8080",
        "[fd00::]/8:8443",
        "[::1]:9000",
    ]);
    for (url, expected) in [
        ("http://10.1.2.3/", true),
        ("http://10.1.2.3:5000/", true),
        ("http://[::ffff:10.1.2.3]/", true),
        ("http://11.1.2.3:5000/", false),
        ("http://11.1.2.3/", true),
        ("http://127.0.0.1:8080/", true),
        ("http://127.0.0.2:8080/", false),
        ("http://127.0.0.1/", false),
        ("https://[fd12::1]:8443/", true),
        ("https://[fd12::1]/", false),
        ("http://[::1]:9000/", true),
        ("http://[64:ff9b::10.1.2.3]/", false),
        ("http://192.168.0.1/", false),
        // Their addresses decide.
        ("http://wiki.internal/", true),
        ("http://wiki:5000/", true),
        ("http://example.org:5000/", true),
    ] {
        assert_eq!(allowed(&open, url), expected, "{url}");
    }
    let gate = open
        .gate(&Url::parse("http://wiki.internal/").unwrap())
        .unwrap();
    assert!(gate.admit("10.9.9.9".parse().unwrap()).is_ok());
    assert!(gate.admit("127.0.0.1".parse().unwrap()).is_err());
    // 80 and 443 share a gate with all ports that nobody names, public or not.
    assert_eq!(open.gates().len(), 5);

    let closed = Policy {
        deny: vec![
            "8.8.8.0/24".parse().unwrap(),
            "10.1.0.0/16".parse().unwrap(),
            "9.9.9.9".parse().unwrap(),
            "::ffff:172.16.1.0/120".parse().unwrap(),
        ],
        ..policy(&["10.0.0.0/8", "::ffff:172.16.0.0/108"])
    };
    for (url, expected) in [
        ("http://8.8.8.8/", false),
        ("http://8.8.4.4/", true),
        ("http://[::ffff:8.8.8.8]/", false),
        ("http://[64:ff9b::8.8.8.8]/", false),
        ("http://10.1.0.1/", false),
        ("http://10.2.0.1/", true),
        ("http://9.9.9.9/", false),
        ("http://9.9.9.8/", true),
        ("http://172.16.1.255/", false),
        ("http://172.16.2.0/", true),
        ("http://[::ffff:172.31.0.1]/", true),
    ] {
        assert_eq!(allowed(&closed, url), expected, "{url}");
    }
}

#[test]
fn openings_are_read_or_refused() {
    for (text, net, port) in [
        ("10.0.0.0/8", "10.0.0.0/8", None),
        ("10.1.2.3/8", "10.0.0.0/8", None),
        ("127.0.0.1", "127.0.0.1/32", None),
        ("127.0.0.1:8080", "127.0.0.1/32", Some(8080)),
        ("10.0.0.0/8:81", "10.0.0.0/8", Some(81)),
        ("::1", "::1/128", None),
        ("fd00::/8", "fd00::/8", None),
        ("[::1]", "::1/128", None),
        ("[::1]:8080", "::1/128", Some(8080)),
        ("[fd00::]/8:8080", "fd00::/8", Some(8080)),
        ("[fd00::]/8", "fd00::/8", None),
        // An address of IPv4 is compared as one.
        ("::ffff:10.1.2.3", "10.1.2.3/32", None),
        ("::ffff:10.1.2.3/104", "10.0.0.0/8", None),
        ("[::ffff:10.0.0.0]/104:8080", "10.0.0.0/8", Some(8080)),
        ("::ffff:0:0/96", "0.0.0.0/0", None),
        ("::ffff:0:0/95", "::fffe:0:0/95", None),
    ] {
        let opening: Opening = text.parse().unwrap();
        assert_eq!(
            (opening.net.to_string().as_str(), opening.port),
            (net, port),
            "{text}"
        );
    }
    for text in [
        "",
        "localhost",
        "10.0.0.0/33",
        "10.0.0.1:",
        "10.0.0.1:65536",
        "10.0.0.1:80:80",
        "[::1",
        "[::1]80",
    ] {
        let wrong = text.parse::<Opening>().unwrap_err();
        assert!(
            wrong.starts_with(&format!("{text:?} is no network")),
            "{wrong}"
        );
    }
}

#[test]
fn closings_are_read_as_openings_are_without_ports() {
    for (text, net) in [
        ("203.0.113.0/24", "203.0.113.0/24"),
        ("203.0.113.7/24", "203.0.113.0/24"),
        ("203.0.113.7", "203.0.113.7/32"),
        ("::ffff:203.0.113.0/120", "203.0.113.0/24"),
        ("2001:db8::1", "2001:db8::1/128"),
    ] {
        let closing: Closing = text.parse().unwrap();
        assert_eq!(closing.0.to_string(), net, "{text}");
    }
    for text in ["", "example.org", "203.0.113.0/33", "203.0.113.7:80"] {
        let wrong = text.parse::<Closing>().unwrap_err();
        assert!(
            wrong.starts_with(&format!("{text:?} is no network")),
            "{wrong}"
        );
    }
}
