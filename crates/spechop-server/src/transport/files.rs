//! File descriptors: every connection is one, and the usual limit of 1,024 is soon reached.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the server itself may have open: models, indexes, calls to upstreams.
const OWN: u64 = 256;

/// Raises this process's limit of open files as far as so many connections need, and says how many
/// connections there may be.
pub(super) fn room_for(connections: usize) -> usize {
    let wanted = (connections as u64).saturating_add(OWN);
    fitting(raise_open_files(wanted), connections)
}

/// Raises this process's limit of open files to so many, as far as the system lets it, and says what it is then;
/// `None` is no limit. If it is refused, it stays, and whoever needs more files says so.
pub fn raise_open_files(wanted: u64) -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = raised(limit, wanted);
    match raised == limit || setrlimit(Resource::Nofile, raised).is_ok() {
        true => raised.current,
        false => limit.current,
    }
}

/// The soft limit may be raised up to the hard one. `None` is no limit.
fn raised(limit: Rlimit, wanted: u64) -> Rlimit {
    let current = limit.current.map(|current| {
        let most = limit.maximum.unwrap_or(u64::MAX);
        current.max(wanted.min(most))
    });
    Rlimit { current, ..limit }
}

fn fitting(files: Option<u64>, connections: usize) -> usize {
    let Some(files) = files else {
        return connections;
    };
    // Half for connections where there is not even room for what the server needs itself.
    let most = files.saturating_sub(OWN).max(files / 2).max(1);
    let fitting = usize::try_from(most).map_or(connections, |most| most.min(connections));
    if fitting < connections {
        tracing::warn!(
            files,
            connections = fitting,
            "the limit of open files is too low for server.connections_max: raise it (ulimit -n)"
        );
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_and_the_hard_one_kept() {
        let limit = |current, maximum| Rlimit { current, maximum };
        for (before, connections, after, room) in [
            ((Some(1024), Some(4096)), 512, Some(1024), 512),
            ((Some(1024), Some(4096)), 2000, Some(2256), 2000),
            ((Some(1024), Some(1024)), 2000, Some(1024), 768),
            ((Some(100), Some(100)), 2000, Some(100), 50),
            ((Some(1024), None), 9000, Some(9256), 9000),
            ((None, None), 9000, None, 9000),
        ] {
            let (current, maximum) = before;
            let wanted = connections as u64 + OWN;
            let raised = raised(limit(current, maximum), wanted);
            assert_eq!(raised.current, after);
            assert_eq!(raised.maximum, maximum);
            assert_eq!(fitting(raised.current, connections), room);
        }
    }
}
