//! Shows a question while it is being answered, on stderr.

use clap::ValueEnum;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use spechop_proto::AskEvent;

use super::board::Board;
use super::line::event_line;

/// How a question is watched.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Watch {
    /// A line for each branch, redrawn in place. A pipe, a file or a terminal that cannot redraw gets only the last
    /// state.
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
        colour: bool,
    },
    /// Written once, at the end, since it cannot be redrawn.
    Last(Board),
    /// A line for each event.
    Events,
}

impl Screen {
    pub(super) fn new(watch: Watch, colour: bool) -> Self {
        match watch {
            Watch::Events => Self::Events,
            Watch::Board => Self::board(MultiProgress::new(), colour),
        }
    }

    /// `drawing` is hidden if stderr is no terminal, or one that cannot redraw.
    fn board(drawing: MultiProgress, colour: bool) -> Self {
        if drawing.is_hidden() {
            return Self::Last(Board::default());
        }
        Self::Live {
            board: Board::default(),
            drawing,
            lines: Vec::new(),
            colour,
        }
    }

    pub(super) fn show(&mut self, event: &AskEvent) {
        match self {
            Self::Events => event_line(event).iter().for_each(|line| say!("{line}")),
            Self::Last(board) => board.apply(event),
            Self::Live {
                board,
                drawing,
                lines,
                colour,
            } => {
                board.apply(event);
                let texts = board.lines(*colour);
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
                    say!();
                }
            }
            Self::Last(board) => board.lines(false).iter().for_each(|line| say!("{line}")),
            Self::Events => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressDrawTarget;
    use spechop_proto::ask_event::Event;
    use spechop_proto::{Launched, Stage};

    use super::*;

    /// As on a terminal without TERM.
    fn hidden() -> MultiProgress {
        MultiProgress::with_draw_target(ProgressDrawTarget::hidden())
    }

    #[test]
    fn where_nothing_can_be_redrawn_the_last_state_is_written() {
        assert!(matches!(Screen::board(hidden(), true), Screen::Last(_)));
    }

    #[test]
    fn colours_are_left_out_if_they_are_not_wanted() {
        for colour in [false, true] {
            let mut screen = Screen::Live {
                board: Board::default(),
                drawing: hidden(),
                lines: Vec::new(),
                colour,
            };
            screen.show(&AskEvent {
                event: Some(Event::Launched(Launched {
                    stage: Stage::Segment.into(),
                })),
                ..AskEvent::default()
            });
            let Screen::Live { lines, .. } = &screen else {
                panic!("it stays what it is");
            };
            assert_eq!(lines.len(), 1);
            assert_eq!(lines[0].message().contains('\x1b'), colour);
        }
    }
}
