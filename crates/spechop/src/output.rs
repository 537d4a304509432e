//! Results, errors and colours of every command.

use std::io::{self, ErrorKind, IsTerminal, Stdout, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::Serializer;
use spechop_config::Env;

/// The exit code by which a shell tells that SIGPIPE has ended a program: 128, and the number of the signal.
const AFTER_SIGPIPE: u8 = 128 + 13;

/// A line for people, on standard error. If nobody reads that any more, the work is done all the same;
/// `eprintln!` would end it.
macro_rules! say {
    ($($words:tt)*) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stderr(), $($words)*);
    }};
}

/// Standard output takes nothing more. Its broken pipe is a reader that is gone; that of a connection is another
/// matter.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout")]
struct Unwritten(#[source] io::Error);

/// Standard output. Its errors say that it was standard output which could not be written to.
pub(crate) struct Output(Stdout);

/// Standard output, for every command.
pub(crate) fn stdout() -> Output {
    Output(io::stdout())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(told)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(told)
    }
}

/// A path in JSON, as it is shown in a sentence: its name need not be UTF-8.
pub(crate) fn lossy<P: AsRef<Path>, S: Serializer>(path: &P, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.as_ref().display())
}

/// Whether stderr may be coloured.
pub(crate) fn has_colours(env: &Env) -> bool {
    colours(io::stderr().is_terminal(), env)
}

/// A terminal has colours, unless it is one that shows them as letters, or somebody objects as no-color.org says.
fn colours(is_terminal: bool, env: &Env) -> bool {
    is_terminal && env.get("TERM") != Some("dumb") && env.get("NO_COLOR").is_none()
}

/// An error of standard output, whoever wrote to it, as [`Output`] tells it.
pub(crate) fn told(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unwritten(error))
}

/// Says why a command failed, in one line, and how the program ends. It ends in silence if nobody reads its output, as
/// programs do that SIGPIPE ends.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    if is_unread(error) {
        return ExitCode::from(AFTER_SIGPIPE);
    }
    say!("spechop: {error:#}");
    ExitCode::FAILURE
}

/// Whether the reader of standard output is gone, as `head -1` is after the first line.
fn is_unread(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let unwritten = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let unwritten = unwritten.and_then(|told| told.downcast_ref::<Unwritten>());
        unwritten.is_some_and(|Unwritten(why)| why.kind() == ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_and_for_those_who_want_them() {
        let nobody = Env::default();
        assert!(colours(true, &nobody) && !colours(false, &nobody));
        for (objection, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            assert!(!colours(true, &Env::from_iter([(objection, value)])));
        }
    }

    #[test]
    fn a_connection_that_breaks_is_no_reader_that_is_gone() {
        let broken = || io::Error::from(ErrorKind::BrokenPipe);
        for (error, is_unread) in [(broken(), false), (told(broken()), true)] {
            let error = anyhow::Error::new(error).context("cannot write");
            assert_eq!(super::is_unread(&error), is_unread);
        }
    }

    #[test]
    fn an_output_that_takes_nothing_says_which_one_it_is() {
        let error = anyhow::Error::new(told(io::Error::other("the disk is full")));
        assert!(!is_unread(&error));
        assert_eq!(
            format!("{error:#}"),
            "cannot write to stdout: the disk is full"
        );
    }
}
