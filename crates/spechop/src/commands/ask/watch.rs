//! Shows a question while it is being answered, on stderr.

use clap::ValueEnum;
use console::Term;
use indicatif::{MultiProgress, ProgressBar};
use spechop_proto::AskEvent;

use super::board::Board;
use super::line::Lines;
use crate::bar::bar;

/// How a question is watched.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Watch {
    /// A line for each branch, redrawn in place. If the terminal has too few rows, the newest branches are shown, and
    /// all of them at the end. A pipe, a file or a terminal that cannot redraw gets only the last state.
    Board,
    /// A line for each event, when it happens.
    Events,
}

/// Where events are shown.
pub(super) enum Screen {
    /// Redrawn in place.
    Live(Live),
    /// Written once, at the end, since it cannot be redrawn.
    Last(Board),
    /// A line for each event.
    Events(Lines),
}

impl Screen {
    pub(super) fn new(watch: Watch, colour: bool) -> Self {
        match watch {
            Watch::Events => Self::Events(Lines::default()),
            Watch::Board => Self::board(MultiProgress::new(), colour),
        }
    }

    /// `drawing` is hidden if stderr is no terminal, or one that cannot redraw.
    fn board(drawing: MultiProgress, colour: bool) -> Self {
        if drawing.is_hidden() {
            return Self::Last(Board::default());
        }
        Self::Live(Live::new(drawing, rows_of_stderr, colour))
    }

    pub(super) fn show(&mut self, event: &AskEvent) {
        match self {
            Self::Events(lines) => lines.of(event).iter().for_each(|line| say!("{line}")),
            Self::Last(board) => board.apply(event),
            Self::Live(live) => live.show(event),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        match self {
            Self::Live(live) => live.end(),
            Self::Last(board) => board.lines(false).iter().for_each(|line| say!("{line}")),
            Self::Events(_) => {}
        }
    }
}

/// A board on a terminal.
pub(super) struct Live {
    board: Board,
    drawing: MultiProgress,
    /// Each holds one line.
    bars: Vec<ProgressBar>,
    /// How many rows the terminal has by now.
    rows: fn() -> u16,
    colour: bool,
}

impl Live {
    fn new(drawing: MultiProgress, rows: fn() -> u16, colour: bool) -> Self {
        Self {
            board: Board::default(),
            drawing,
            bars: Vec::new(),
            rows,
            colour,
        }
    }

    fn show(&mut self, event: &AskEvent) {
        self.board.apply(event);
        let lines = self.board.lines(self.colour);
        let texts = newest(&lines, (self.rows)());
        while self.bars.len() < texts.len() {
            // Cuts what is wider than the terminal, colours left out of account.
            self.bars.push(self.drawing.add(bar(0, "{wide_msg}")));
        }
        for bar in self.bars.drain(texts.len()..) {
            self.drawing.remove(&bar);
        }
        let mut changed = None;
        for (bar, text) in self.bars.iter().zip(texts) {
            if bar.message() != *text {
                bar.set_message(text.clone());
                changed = Some(bar);
            }
        }
        // It may have been too soon after the last drawing, and nothing may happen for seconds now.
        if let Some(bar) = changed {
            bar.force_draw();
        }
    }

    /// Leaves the whole board behind, on lines of its own.
    fn end(&mut self) {
        if self.bars.is_empty() {
            return;
        }
        for bar in self.bars.drain(..) {
            self.drawing.remove(&bar);
        }
        // The answer is printed all the same if the terminal is gone.
        let lines = self.board.lines(self.colour).join("\n");
        let _ = self.drawing.println(lines);
        say!();
    }
}

fn rows_of_stderr() -> u16 {
    Term::stderr().size().0
}

/// The newest lines, as many as a terminal with so many rows has room for: of more, it would show the oldest.
fn newest(lines: &[String], rows: u16) -> &[String] {
    let most = usize::from(rows).saturating_sub(1).max(1);
    &lines[lines.len().saturating_sub(most)..]
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use indicatif::{ProgressDrawTarget, TermLike};
    use parking_lot::Mutex;
    use spechop_proto::ask_event::Event;
    use spechop_proto::{Launched, Stage};

    use super::*;

    /// A terminal with [`ROWS`] rows.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<Drawn>>);

    #[derive(Debug, Default)]
    struct Drawn {
        /// Written, and not shown yet.
        coming: String,
        /// What is to be seen.
        shown: String,
    }

    const ROWS: u16 = 4;

    impl Terminal {
        /// A board on it, which draws at most so many times in a second, but for a burst at the beginning.
        fn board(&self, rate: u8) -> Screen {
            let target = ProgressDrawTarget::term_like_with_hz(Box::new(self.clone()), rate);
            let drawing = MultiProgress::with_draw_target(target);
            Screen::Live(Live::new(drawing, || ROWS, false))
        }

        /// The branches that are to be seen.
        fn branches(&self) -> Vec<u32> {
            let drawn = self.0.lock();
            let words = drawn.shown.split_whitespace();
            let branches = words.filter_map(|word| word.strip_prefix('b'));
            branches.filter_map(|number| number.parse().ok()).collect()
        }
    }

    /// Each drawing is written anew as a whole, so where the cursor stands does not matter.
    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }

        fn height(&self) -> u16 {
            ROWS
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().coming.push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            let mut drawn = self.0.lock();
            drawn.shown = std::mem::take(&mut drawn.coming);
            Ok(())
        }
    }

    /// A branch begins.
    fn began(branch: u32) -> AskEvent {
        AskEvent {
            branch,
            event: Some(Event::Launched(Launched {
                stage: Stage::Segment.into(),
            })),
            ..AskEvent::default()
        }
    }

    /// As on a terminal without TERM.
    fn hidden() -> MultiProgress {
        MultiProgress::with_draw_target(ProgressDrawTarget::hidden())
    }

    #[test]
    fn where_nothing_can_be_redrawn_the_last_state_is_written() {
        assert!(matches!(Screen::board(hidden(), true), Screen::Last(_)));
    }

    #[test]
    fn a_low_terminal_shows_the_newest_branches_and_at_the_end_all_of_them() {
        let terminal = Terminal::default();
        let mut screen = terminal.board(u8::MAX);
        (0..2).for_each(|branch| screen.show(&began(branch)));
        assert_eq!(terminal.branches(), [0, 1]);
        (2..9).for_each(|branch| screen.show(&began(branch)));
        assert_eq!(terminal.branches(), [6, 7, 8]);
        drop(screen);
        assert_eq!(terminal.branches(), Vec::from_iter(0..9_u32));
    }

    #[test]
    fn the_last_of_many_events_is_drawn_though_nothing_comes_behind_it() {
        let terminal = Terminal::default();
        let mut screen = terminal.board(1);
        (0..99).for_each(|branch| screen.show(&began(branch)));
        assert_eq!(terminal.branches(), [96, 97, 98]);
    }

    #[test]
    fn no_line_is_drawn_that_a_terminal_has_no_room_for() {
        let lines = ["a", "b", "c"].map(str::to_owned);
        for (rows, expected) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (100, 3)] {
            assert_eq!(newest(&lines, rows), &lines[3 - expected..], "{rows}");
        }
        assert!(newest(&[], ROWS).is_empty());
    }

    #[test]
    fn colours_are_left_out_if_they_are_not_wanted() {
        for colour in [false, true] {
            let mut live = Live::new(hidden(), || ROWS, colour);
            live.show(&began(0));
            assert_eq!(live.bars.len(), 1);
            assert_eq!(live.bars[0].message().contains('\x1b'), colour);
        }
    }
}
