//! An account that several servers share, as it lies between them.
//!
//! ```text
//! since  when the period began
//! rows   one for each server: what it has spent in this period, what its open questions have set aside,
//!        and until when that is to be believed
//! ```
//!
//! A server writes its own row only, and always the whole of it. So a change that was made twice, or of
//! which nobody knows whether it was made, does no harm. What a server that has died had set aside counts
//! until its word runs out; what it had spent stays spent.
//!
//! Times are milliseconds of the servers' clocks, which need to agree within a few seconds. What a clock
//! wrote that was far ahead says nothing of when a period began. What was spent and set aside counts all
//! the same.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spechop_types::whole_ms;

use super::book::Amounts;

/// The version of everything that is written.
const FORMAT: u64 = 1;
/// How long a server's word is good if it says nothing more.
pub(super) const WORD: Duration = Duration::from_secs(30);

/// What servers know of an account together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cell {
    format: u64,
    since: u64,
    rows: BTreeMap<String, Row>,
}

/// What one server has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    until: u64,
    spent: Amounts,
    aside: Amounts,
}

/// What a cell says of the servers but one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// When the period began, unless it is over, or is still to come.
    pub(super) since: Option<u64>,
    pub(super) spent: Amounts,
    pub(super) aside: Amounts,
}

impl Cell {
    /// An account that nobody has used.
    pub(super) fn new(since: u64) -> Self {
        Self {
            format: FORMAT,
            since,
            rows: BTreeMap::new(),
        }
    }

    /// `None` if it is damaged, or of another version.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let cell: Self = serde_json::from_str(text).ok()?;
        (cell.format == FORMAT).then_some(cell)
    }

    pub(super) fn text(&self) -> String {
        // It has no keys but texts, and no numbers but whole ones.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether `me` has a row in it.
    pub(super) fn has(&self, me: &str) -> bool {
        self.rows.contains_key(me)
    }

    /// What everybody but `me` has of it.
    pub(super) fn others(&self, me: &str, now: u64, period: Duration) -> Others {
        let is_current = !self.is_over(now, period);
        let mut others = Others {
            since: (is_current && !self.is_to_come(now)).then_some(self.since),
            ..Others::default()
        };
        for (_, row) in self.rows.iter().filter(|(name, _)| *name != me) {
            if is_current {
                others.spent.add(row.spent);
            }
            if row.until > now {
                others.aside.add(row.aside);
            }
        }
        others
    }

    /// The same, with what `me` has of it now, in the period that began at `since`.
    pub(super) fn with(
        &self,
        me: &str,
        since: u64,
        (spent, aside): (Amounts, Amounts),
        now: u64,
        period: Duration,
    ) -> Self {
        let is_over = self.is_over(now, period);
        let mut rows = self.rows.clone();
        rows.retain(|name, row| {
            if is_over {
                row.spent = Amounts::default();
            }
            name != me && (row.spent.any() || row.aside.any() && row.until > now)
        });
        if spent.any() || aside.any() {
            let until = now.saturating_add(whole_ms(WORD));
            rows.insert(
                me.to_owned(),
                Row {
                    until,
                    spent,
                    aside,
                },
            );
        }
        Self {
            format: FORMAT,
            since: match is_over || self.is_to_come(now) {
                true => since,
                false => self.since,
            },
            rows,
        }
    }

    /// How long it means anything. Without rows it is as good as none: whoever makes up names that spend nothing
    /// leaves nothing.
    pub(super) fn keep(&self, now: u64, period: Duration) -> Duration {
        if self.rows.is_empty() {
            return WORD;
        }
        let ends = self.since.saturating_add(whole_ms(period));
        Duration::from_millis(ends.saturating_sub(now)).max(WORD) + WORD
    }

    /// Whether it was written by a clock that is far ahead, which says nothing of when a period began.
    fn is_to_come(&self, now: u64) -> bool {
        self.since > now.saturating_add(whole_ms(WORD))
    }

    fn is_over(&self, now: u64, period: Duration) -> bool {
        now.saturating_sub(self.since) >= whole_ms(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn calls(calls: u64) -> Amounts {
        Amounts([0, calls, 0, 0])
    }

    #[test]
    fn a_server_writes_its_own_row_and_reads_those_of_the_others() {
        let (start, none) = (1_000_000, Amounts::default());
        let cell = Cell::new(start).with("a", start, (calls(3), calls(2)), start, HOUR);
        let cell = cell.with("b", start + 5, (calls(4), none), start + 5, HOUR);
        let again = cell.with("b", start + 5, (calls(4), none), start + 5, HOUR);
        assert_eq!(cell, again, "it does no harm twice");
        assert_eq!(Cell::parse(&cell.text()), Some(cell.clone()));
        let told = |me: &str, now| {
            let others = cell.others(me, now, HOUR);
            (others.since, others.spent.0[1], others.aside.0[1])
        };
        assert_eq!(told("a", start + 9), (Some(start), 4, 0));
        assert_eq!(told("b", start + 9), (Some(start), 3, 2));
        assert_eq!(told("c", start + 9), (Some(start), 7, 2));
        // The word of a runs out. What it has spent stays spent until the period is over.
        assert_eq!(told("c", start + whole_ms(WORD)), (Some(start), 7, 0));
        assert_eq!(told("c", start + whole_ms(HOUR)), (None, 0, 0));
        // It was written by a clock that was ahead: what was spent counts, and nobody begins anew for it.
        assert_eq!(told("c", start - whole_ms(WORD)), (Some(start), 7, 2));
        let early = start - whole_ms(WORD) - 1;
        assert_eq!(told("c", early), (None, 7, 2));
        // The next to write says when it began, so that it ends.
        let set = cell.with("c", early, (none, none), early, HOUR);
        assert_eq!(set.others("c", early, HOUR).since, Some(early));
        assert_eq!(set.others("c", early, HOUR).spent, calls(7));
        let spent = set.others("c", early + whole_ms(HOUR), HOUR).spent;
        assert_eq!(spent, none);
    }

    #[test]
    fn a_new_period_forgets_what_was_spent_and_not_what_is_open() {
        let (start, none) = (1_000_000, Amounts::default());
        let end = start + whole_ms(HOUR);
        let cell = Cell::new(start).with("gone", start, (calls(3), calls(9)), start, HOUR);
        let cell = cell.with("a", start, (calls(3), calls(2)), end - 1, HOUR);
        let next = cell.with("b", end + 7, (none, calls(1)), end + 7, HOUR);
        let others = next.others("b", end + 8, HOUR);
        assert_eq!(others.since, Some(end + 7));
        assert_eq!((others.spent, others.aside), (none, calls(2)));
        assert_eq!(next.rows.len(), 2, "{next:?}");
        // Whoever has nothing any more has no row.
        let last = next.with("b", end + 7, (none, none), end + 9, HOUR);
        assert_eq!(last.rows.len(), 1, "{last:?}");
        assert!(last.keep(end + 9, HOUR) > HOUR - Duration::from_secs(1));
        let left = last.with("a", start, (none, none), end + 9, HOUR);
        assert_eq!(left.keep(end + 9, HOUR), WORD, "{left:?}");
    }

    #[test]
    fn what_is_no_cell_is_none() {
        let good = Cell::new(7)
            .with("a", 7, (calls(1), calls(1)), 7, HOUR)
            .text();
        assert!(Cell::parse(&good).is_some());
        for end in 0..good.len() {
            assert_eq!(Cell::parse(&good[..end]), None, "{end} bytes");
        }
        for text in [
            r#"{"format":2,"since":7,"rows":{}}"#,
            r#"{"format":1,"since":-7,"rows":{}}"#,
            r#"{"format":1,"since":7,"rows":{"a":{"until":1,"spent":[1,2,3],"aside":[0,0,0,0]}}}"#,
            r#"{"format":1,"since":7,"rows":{},"more":1}"#,
        ] {
            assert_eq!(Cell::parse(text), None, "{text}");
        }
    }
}
