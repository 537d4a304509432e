//! Shows a question while it is being answered, on stderr.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use spechop_proto::AskEvent;

use super::board::Board;
use super::line::event_line;

/// How a question is watched.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Watch {
    /// A line for each branch, redrawn in place. A pipe or a file gets only the last state.
    Board,
    /// A line for each event, when it happens.
    Events,
}

/// Where events are shown.
pub(super) enum Screen {
    /// Redrawn in place; one bar holds one line.
    Live {
        board: Board,
        drawing: MultiProgress,
        lines: Vec<ProgressBar>,
    },
    /// Written once, at the end, since it cannot be redrawn.
    Last(Board),
    /// A line for each event.
    Events,
}

impl Screen {
    pub(super) fn new(watch: Watch) -> Self {
        match watch {
            Watch::Events => Self::Events,
            Watch::Board if io::stderr().is_terminal() => Self::Live {
                board: Board::default(),
                drawing: MultiProgress::new(),
                lines: Vec::new(),
            },
            Watch::Board => Self::Last(Board::default()),
        }
    }

    pub(super) fn show(&mut self, event: &AskEvent) {
        match self {
            Self::Events => event_line(event).iter().for_each(|line| say(line)),
            Self::Last(board) => board.apply(event),
            Self::Live {
                board,
                drawing,
                lines,
            } => {
                board.apply(event);
                let texts = board.lines(true);
                while lines.len() < texts.len() {
                    // Cuts what is wider than the terminal, colours left out of account.
                    let style = ProgressStyle::with_template("{wide_msg}");
                    let bar = drawing.add(ProgressBar::no_length());
                    lines.push(match style {
                        Ok(style) => bar.with_style(style),
                        Err(_) => bar,
                    });
                }
                for (bar, text) in lines.iter().zip(texts) {
                    if bar.message() != text {
                        bar.set_message(text);
                    }
                }
            }
        }
    }
}

impl Drop for Screen {
    /// The last drawing stays, on lines of its own.
    fn drop(&mut self) {
        match self {
            Self::Live { lines, .. } => {
                lines.iter().for_each(ProgressBar::abandon);
                if !lines.is_empty() {
                    say("");
                }
            }
            Self::Last(board) => board.lines(false).iter().for_each(|line| say(line)),
            Self::Events => {}
        }
    }
}

fn say(line: &str) {
    // Whoever closed stderr does not want to see it.
    let _ = writeln!(io::stderr(), "{line}");
}
