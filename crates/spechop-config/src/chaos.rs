//! Faults on purpose.

use std::net::SocketAddr;

use spechop_ports::Faults;

use super::keys::Keys;

/// The ports that can have faults.
const PORTS: [&str; 6] = [
    "planner",
    "retriever",
    "reader",
    "speculator",
    "draft_writer",
    "rewriter",
];

/// Ports that have faults on purpose, for tests and drills.
#[derive(Clone, Debug, PartialEq)]
pub struct Chaos {
    /// Which faults, and how often.
    pub faults: Faults,
    /// The ports that have them, by name.
    pub ports: Vec<String>,
}

/// `None` unless some fault has a chance.
pub(super) fn chaos(keys: &mut Keys<'_>, listen: SocketAddr) -> Option<Chaos> {
    let mut chance = |name: &str| keys.number(&format!("chaos.{name}")).unwrap_or(0.0);
    let faults = Faults {
        late: chance("late"),
        error: chance("error"),
        hang: chance("hang"),
        garbage: chance("garbage"),
        disconnect: chance("disconnect"),
        seed: keys.integer("chaos.seed").unwrap_or(1),
        late_max: keys.millis("chaos.late_ms"),
        on: keys.millis("chaos.on_ms"),
        off: keys.millis("chaos.off_ms"),
    };
    let ports = keys.list("chaos.ports");
    for port in ports.iter().flatten() {
        if !PORTS.contains(&port.as_str()) {
            let problem = format!("`{port}` is none of {}", PORTS.join(", "));
            keys.mistake("chaos.ports", problem);
        }
    }
    let chance = faults.chance();
    // A sum of fractions may be off in its last digits.
    if chance > 1.0 + 1e-9 {
        let problem = format!("the chances of all faults are {chance} together: at most 1");
        keys.mistake("chaos", problem);
    }
    if chance <= 0.0 {
        return None;
    }
    if !listen.ip().is_loopback() {
        let problem = format!(
            "faults on purpose are for drills on one machine, and {listen} can be reached from others: \
             listen on 127.0.0.1, or leave [chaos] out"
        );
        keys.mistake("chaos", problem);
    }
    let all = || PORTS.map(str::to_owned).to_vec();
    Some(Chaos {
        faults,
        ports: ports.unwrap_or_else(all),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(listen: &str, section: &str) -> Result<Option<Chaos>, Vec<String>> {
        Keys::meaning(&format!("[chaos]\n{section}"), &[], |keys, _| {
            chaos(keys, listen.parse().unwrap())
        })
    }

    #[test]
    fn there_is_none_unless_a_fault_has_a_chance() {
        assert_eq!(read("0.0.0.0:1", "").unwrap(), None);
        assert_eq!(read("0.0.0.0:1", "seed = 4\nlate_ms = 5").unwrap(), None);
        let all = read("127.0.0.1:1", "error = 0.25\noff_ms = 500");
        let all = all.unwrap().unwrap();
        assert_eq!((all.faults.error, all.ports.len()), (0.25, PORTS.len()));
        assert_eq!(all.faults.off, Duration::from_millis(500));
        // In floating point, a little more than 1.
        let whole = "error = 0.05\nhang = 0.55\ngarbage = 0.3\ndisconnect = 0.1";
        assert!(read("127.0.0.1:1", whole).unwrap().is_some());
        let one = read("[::1]:1", "hang = 1\nports = [\"reader\"]");
        assert_eq!(one.unwrap().unwrap().ports, ["reader"]);
    }

    #[test]
    fn what_cannot_be_is_a_mistake() {
        for (listen, section, words) in [
            ("0.0.0.0:1", "error = 0.1", "can be reached from others"),
            ("10.0.0.1:1", "hang = 0.1", "for drills on one machine"),
            ("127.0.0.1:1", "error = 0.7\nhang = 0.6", "at most 1"),
            ("127.0.0.1:1", "error = 1.5", "a number from 0 to 1"),
            (
                "127.0.0.1:1",
                "ports = \"oven\"",
                "`oven` is none of planner",
            ),
        ] {
            let mistakes = read(listen, section).unwrap_err();
            assert!(
                mistakes.len() == 1 && mistakes[0].contains(words),
                "{section}: {mistakes:?}"
            );
        }
    }
}
