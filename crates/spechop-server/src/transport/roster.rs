//! Who is connected, and on whom to hang up if there are too many. A pure data structure.
//!
//! A full house must not keep new guests out: whoever only sits there makes room. First go those who
//! have never asked anything, the longest connected first; then those who have, the longest idle first.
//! A connection that works on a request is never chosen.

use std::collections::{BTreeSet, HashMap};

/// Names a connection for as long as the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineId(u64);

/// The place in the order in which idle connections go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    has_asked: bool,
    /// Number of the event that made it idle.
    since: u64,
    line: LineId,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle(Rank),
    /// So many requests are worked on.
    Working(usize),
}

/// The open connections.
#[derive(Debug)]
pub(super) struct Roster {
    most: usize,
    lines: HashMap<LineId, State>,
    idle: BTreeSet<Rank>,
    /// Counts what happens, and so orders it.
    events: u64,
}

/// What becomes of somebody who wants in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// There was room.
    Free(LineId),
    /// There is room if this other connection is closed; it has left the roster already.
    Instead(LineId, LineId),
    /// All connections work.
    Full,
}

impl Roster {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            lines: HashMap::new(),
            idle: BTreeSet::new(),
            events: 0,
        }
    }

    /// Somebody has connected.
    pub(super) fn enter(&mut self) -> Entry {
        if self.lines.len() < self.most {
            return Entry::Free(self.admit());
        }
        let Some(first) = self.idle.pop_first() else {
            return Entry::Full;
        };
        self.lines.remove(&first.line);
        Entry::Instead(self.admit(), first.line)
    }

    fn admit(&mut self) -> LineId {
        let line = LineId(self.tick());
        self.rest(line, false);
        line
    }

    /// A request has arrived whole, and is worked on until [`Roster::ended`].
    pub(super) fn began(&mut self, line: LineId) {
        match self.lines.get_mut(&line) {
            Some(State::Working(requests)) => *requests += 1,
            Some(state @ State::Idle(_)) => {
                if let State::Idle(rank) = *state {
                    self.idle.remove(&rank);
                }
                *state = State::Working(1);
            }
            // It has been hung up on meanwhile.
            None => {}
        }
    }

    /// One of its requests is over.
    pub(super) fn ended(&mut self, line: LineId) {
        match self.lines.get_mut(&line) {
            Some(State::Working(requests)) if *requests > 1 => *requests -= 1,
            Some(State::Working(_)) => self.rest(line, true),
            Some(State::Idle(_)) | None => {}
        }
    }

    /// It has hung up.
    pub(super) fn left(&mut self, line: LineId) {
        if let Some(State::Idle(rank)) = self.lines.remove(&line) {
            self.idle.remove(&rank);
        }
    }

    /// Connections that work on nothing; all of them leave the roster.
    pub(super) fn take_idle(&mut self) -> Vec<LineId> {
        let idle = std::mem::take(&mut self.idle);
        let lines: Vec<_> = idle.into_iter().map(|rank| rank.line).collect();
        for line in &lines {
            self.lines.remove(line);
        }
        lines
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    fn rest(&mut self, line: LineId, has_asked: bool) {
        let rank = Rank {
            has_asked,
            since: self.tick(),
            line,
        };
        self.idle.insert(rank);
        self.lines.insert(line, State::Idle(rank));
    }

    fn tick(&mut self) -> u64 {
        self.events += 1;
        self.events
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn enter(roster: &mut Roster) -> (LineId, Option<LineId>) {
        match roster.enter() {
            Entry::Free(line) => (line, None),
            Entry::Instead(line, other) => (line, Some(other)),
            Entry::Full => panic!("no room"),
        }
    }

    #[test]
    fn the_silent_go_first_and_those_who_work_never() {
        let mut roster = Roster::new(4);
        let [silent, asked_first, asked_last, works] =
            std::array::from_fn(|_| enter(&mut roster).0);
        roster.began(works);
        for line in [asked_first, asked_last] {
            roster.began(line);
            roster.ended(line);
        }
        let (fifth, gone) = enter(&mut roster);
        assert_eq!(gone, Some(silent));
        // The new one has asked nothing yet, so it would be next.
        assert_eq!(enter(&mut roster).1, Some(fifth));
        let (seventh, _) = enter(&mut roster);
        roster.began(seventh);
        assert_eq!(enter(&mut roster).1, Some(asked_first));
        let (ninth, _) = enter(&mut roster);
        roster.began(ninth);
        let (tenth, gone) = enter(&mut roster);
        assert_eq!(gone, Some(asked_last));
        roster.began(tenth);
        assert_eq!(roster.enter(), Entry::Full);
        roster.left(works);
        assert!(matches!(roster.enter(), Entry::Free(_)));
    }

    proptest! {
        /// Never more than allowed, nobody chosen who works, and both books agree.
        #[test]
        fn the_house_is_never_overfull(most in 1usize..6, steps in prop::collection::vec((0u8..5, 0usize..8), 1..200)) {
            let mut roster = Roster::new(most);
            let mut there: Vec<(LineId, usize)> = Vec::new();
            for (what, whom) in steps {
                let at = whom.checked_rem(there.len());
                match (what, at) {
                    (0 | 1, _) | (_, None) => match roster.enter() {
                        Entry::Free(line) => there.push((line, 0)),
                        Entry::Instead(line, gone) => {
                            let at = there.iter().position(|(line, _)| *line == gone);
                            let (_, working) = there.remove(at.unwrap());
                            prop_assert_eq!(working, 0);
                            there.push((line, 0));
                        }
                        Entry::Full => prop_assert!(there.iter().all(|(_, working)| *working > 0)),
                    },
                    (2, Some(at)) => {
                        roster.began(there[at].0);
                        there[at].1 += 1;
                    }
                    (3, Some(at)) if there[at].1 > 0 => {
                        roster.ended(there[at].0);
                        there[at].1 -= 1;
                    }
                    (_, Some(at)) => roster.left(there.remove(at).0),
                }
                prop_assert!(roster.len() <= most);
                prop_assert_eq!(roster.len(), there.len());
                let idle = there.iter().filter(|(_, working)| *working == 0).count();
                prop_assert_eq!(roster.idle.len(), idle);
            }
        }
    }
}
