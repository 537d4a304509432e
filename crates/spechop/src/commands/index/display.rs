//! How far a build is, for whoever watches it.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar};
use spechop_index::Progress;
use tokio::time::Instant;

use crate::bar::bar;

/// Where nobody watches a bar, a line this often.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A bar where someone watches; elsewhere a line now and then.
pub(super) struct Display {
    bar: ProgressBar,
    started: Instant,
    line_at: Instant,
    /// Passages that an earlier run had encoded.
    before: Option<usize>,
}

impl Display {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            bar: bar(0, TEMPLATE),
            started,
            line_at: started,
            before: None,
        }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    pub(super) fn show(&mut self, progress: Progress) {
        let Progress { done, total } = progress;
        let before = match self.before {
            Some(before) => before,
            None => {
                self.started = Instant::now();
                self.bar.set_length(total as u64);
                self.bar.set_position(done as u64);
                // What was there before must not count as speed.
                self.bar.reset_eta();
                if done > 0 {
                    self.bar
                        .suspend(|| say!("resuming after {done} of {total} passages"));
                }
                *self.before.insert(done)
            }
        };
        self.bar.set_position(done as u64);
        if self.bar.is_hidden() && self.line_at.elapsed() >= LINE_EVERY && done > before {
            self.line_at = Instant::now();
            say!("{}", line(progress, done - before, self.started.elapsed()));
        }
    }
}

const TEMPLATE: &str = "{bar:32} {pos}/{len} passages, {per_sec}, {eta} left";

/// `512/6120 passages, 51.2/s, 2 minutes left`
fn line(progress: Progress, here: usize, took: Duration) -> String {
    let Progress { done, total } = progress;
    let rate = here as f64 / took.as_secs_f64().max(1e-3);
    let left = Duration::from_secs_f64(((total - done) as f64 / rate).min(1e9));
    format!(
        "{done}/{total} passages, {rate:.1}/s, {} left",
        HumanDuration(left)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_rate_and_time_left_of_this_run() {
        let progress = Progress {
            done: 512,
            total: 1012,
        };
        assert_eq!(
            line(progress, 100, Duration::from_secs(10)),
            "512/1012 passages, 10.0/s, 50 seconds left"
        );
    }
}
