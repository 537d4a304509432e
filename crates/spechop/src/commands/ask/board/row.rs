//! A line of the board: where a branch is, and how that is drawn.

use std::fmt::Write;

/// A branch at a hop.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) branch: u32,
    pub(super) hop: u32,
    pub(super) provisional: bool,
    pub(super) state: State,
    pub(super) sub_question: String,
    pub(super) guess: Option<String>,
    /// The observation, the draft, or why it failed.
    pub(super) outcome: String,
}

/// Where a branch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The planner writes.
    Writing,
    /// The look-up runs.
    Running,
    /// The look-up has answered; its turn to be compared has not come.
    Observed,
    /// The planner has written the final answer.
    Drafted,
    /// It was not done ahead of need, and waits until it is needed.
    Held,
    /// A stage failed; it may be tried again.
    Failed,
    /// Final.
    Committed,
    /// Dead.
    RolledBack,
}

impl Row {
    /// How it is drawn; `colour` adds ANSI colours.
    pub(super) fn line(&self, colour: bool) -> String {
        let (symbol, paint) = match self.state {
            State::Writing => ('✎', CYAN),
            State::Running => ('…', YELLOW),
            State::Observed => ('•', YELLOW),
            State::Drafted => ('=', CYAN),
            State::Held => ('–', GREY),
            State::Failed => ('!', RED),
            State::Committed => ('✓', GREEN),
            State::RolledBack => ('✗', GREY),
        };
        let provisional = match (self.provisional, self.state) {
            (_, State::Committed | State::RolledBack) | (false, _) => ' ',
            (true, _) => '?',
        };
        let mut line = format!("{symbol}{provisional}hop {} b{}  ", self.hop, self.branch);
        let asked = match (self.sub_question.as_str(), self.state) {
            ("", State::Writing) => "writing the next step",
            ("", State::RolledBack) if self.outcome.is_empty() => "nothing written yet",
            ("", State::Drafted | State::RolledBack) => "answer",
            (asked, _) => asked,
        };
        line.push_str(asked);
        // Writing to a string cannot fail.
        if let (Some(guess), State::Writing | State::Running | State::RolledBack) =
            (&self.guess, self.state)
        {
            let _ = write!(line, "  ~{guess}");
        }
        if !self.outcome.is_empty() {
            let _ = write!(line, "  → {}", self.outcome);
        }
        if colour {
            format!("{paint}{line}{PLAIN}")
        } else {
            line
        }
    }
}

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const GREY: &str = "\x1b[90m";
/// Ends a colour.
pub(super) const PLAIN: &str = "\x1b[0m";
