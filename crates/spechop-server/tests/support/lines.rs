//! The log in memory, and processes of their own for tests that read a log.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io;
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// Whether this process runs this test alone. If not, a process of its own has run it, and it has passed.
///
/// Tests that read a log are run so: a process has one log for all threads, and remembers which of its lines
/// anybody wants.
pub(crate) fn is_alone(module: &str, test: &str) -> bool {
    const EXACT: &str = "--exact";
    if std::env::args().any(|arg| arg == EXACT) {
        return true;
    }
    let (_, module) = module.split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let ended = child.args([EXACT, &format!("{module}::{test}")]).output();
    let ended = ended.unwrap();
    // A name that is none passes as well.
    let has_run = String::from_utf8_lossy(&ended.stdout).contains("1 passed");
    assert!(ended.status.success() && has_run, "{test}: {ended:?}");
    false
}

/// What the log says, in memory.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    /// All that was said so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}
