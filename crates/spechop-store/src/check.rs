//! Checksums of an index that is too large to be read before it is opened: they are compared behind
//! that, on a thread of their own, which steps aside between blocks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use crate::rows::Rows;

/// The thread. Dropping it ends it within a block.
pub(crate) struct Checker {
    stop: Arc<AtomicBool>,
    /// `None` once somebody has waited for it.
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl Checker {
    pub(crate) fn spawn(rows: Arc<Rows>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let check = move || {
            let go_on = || {
                thread::yield_now();
                !asked.load(Relaxed)
            };
            if let Err(fault) = rows.verify(&go_on) {
                // It is told to whoever asks next, and by the vital signs.
                rows.break_down(fault);
            }
        };
        let thread = thread::Builder::new().name("index-check".into());
        Ok(Self {
            stop,
            thread: Some(thread.spawn(check)?),
        })
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in there has told nothing, and nobody believed more than before.
            let _ = thread.join();
        }
    }
}
