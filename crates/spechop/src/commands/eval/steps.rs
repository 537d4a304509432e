//! How far a long step has come: a bar, or a line now and then if nobody looks.

use indicatif::ProgressBar;

/// Things between two lines of a log.
const LOGGED_EVERY: usize = 200;

/// A step over many things.
pub(super) struct Steps {
    bar: ProgressBar,
    all: usize,
    what: &'static str,
    /// Lines that were written.
    lines: usize,
}

impl Steps {
    pub(super) fn new(all: usize, what: &'static str) -> Self {
        Self {
            bar: ProgressBar::new(all as u64),
            all,
            what,
            lines: 0,
        }
    }

    /// So many things are done.
    pub(super) fn reach(&mut self, done: usize) {
        self.bar.set_position(done as u64);
        // A log has no bar.
        if self.bar.is_hidden() && done / LOGGED_EVERY > self.lines {
            self.lines = done / LOGGED_EVERY;
            say!("{done} of {} {}", self.all, self.what);
        }
    }

    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }
}
