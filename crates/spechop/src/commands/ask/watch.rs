//! Shows a question while it is being answered: redrawn in place on a terminal, else line by line.

use std::io::Write;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use spechop_proto::AskEvent;

use super::board::{Board, event_line};

/// Where events are shown: stderr.
pub(super) enum Screen {
    /// Redrawn in place; one bar holds one line.
    Terminal {
        board: Board,
        drawing: MultiProgress,
        lines: Vec<ProgressBar>,
    },
    /// A line for each event.
    Plain,
}

impl Screen {
    pub(super) fn new(terminal: bool) -> Self {
        if terminal {
            Self::Terminal {
                board: Board::default(),
                drawing: MultiProgress::new(),
                lines: Vec::new(),
            }
        } else {
            Self::Plain
        }
    }

    pub(super) fn show(&mut self, event: &AskEvent) {
        match self {
            Self::Plain => {
                if let Some(line) = event_line(event) {
                    // Whoever closed stderr does not want to see it.
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
            }
            Self::Terminal {
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
        if let Self::Terminal { lines, .. } = self {
            lines.iter().for_each(ProgressBar::abandon);
            if !lines.is_empty() {
                let _ = writeln!(std::io::stderr());
            }
        }
    }
}
