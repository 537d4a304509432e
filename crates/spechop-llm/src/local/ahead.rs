//! Tokens that may come next, known without the model: from a draft of the text, else from the prompt, in
//! which the names of a question stand that the text is about to repeat.
//!
//! The model reads several of them in one call and says after each which token follows. As long as that
//! is the one that was guessed, it counts as written. So the text is the model's, and a call that reads four
//! tokens takes less time than four calls that write one.
//!
//! Whether that is so hangs on the processor and on the format of the weights: on one that knows AVX2 alone,
//! four rows of some formats take nearly four times as long as one. So it is measured as it goes
//! ([`Pays`]), and done as long as it pays.
//!
//! Source: the one-pass validation of drafted calls in speculative tool calls (arXiv 2512.15834,
//! algorithm 5), and looking a prompt up for what follows.

use std::ops::Range;
use std::time::Duration;

use llama_cpp_2::token::LlamaToken;
use spechop_types::Chance;

use super::slots::CHUNK_TOKENS;

/// The matrix kernels take so many rows at a time: fewer are read one by one, and nothing is gained.
const ROWS: usize = 4;
/// Rows of a call that follows calls in which every guess held, or of one for a likely draft.
const ROWS_MAX: usize = CHUNK_TOKENS;
/// A draft with such a chance is read at once as far as a call can hold it. If it holds, to feel one's way by four,
/// eight and sixteen rows takes up to 1.4 times as long (bench `steps`); if not, the long call was for nothing.
const LIKELY: f64 = 0.8;
/// Fewer guesses are not worth a call of four rows.
const GUESSES_MIN: usize = 2;

/// If it does not pay, it is tried again behind so many occasions.
const TRY_AGAIN: u32 = 64;
/// How much of a new measurement goes into a running mean.
const MEAN_STEP: f32 = 1.0 / 8.0;

/// Where guesses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Draft,
    Prompt,
}

/// A call of several rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// What is read anyway, the guesses, and padding.
    pub(super) tokens: Vec<LlamaToken>,
    /// How many are read anyway: the latest token, or the rest of a prompt.
    pub(super) read: usize,
    /// How many are guesses.
    pub(super) guesses: usize,
    pub(super) source: Source,
}

impl Rows {
    /// Those after which it is of interest what the model says.
    pub(super) fn judged(&self) -> Range<usize> {
        self.read - 1..self.read + self.guesses
    }
}

/// Whether calls of several rows pay: by what they took and brought so far, beside calls for one token.
#[derive(Debug, Default)]
pub(super) struct Pays {
    /// Seconds of a call for one token.
    one: Mean,
    /// Seconds of a call, by its rows.
    several: [Mean; ROWS_MAX / ROWS],
    /// Tokens that a call of four rows has brought, by the source of its guesses.
    brought: [Mean; 2],
    /// Occasions that were passed by, by source.
    passed: [u32; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean(Option<f32>);

impl Mean {
    fn add(&mut self, new: f32) {
        let old = self.0.unwrap_or(new);
        self.0 = Some(old + (new - old) * MEAN_STEP);
    }
}

impl Pays {
    /// A call for one token took so long.
    pub(super) fn took_one(&mut self, time: Duration) {
        self.one.add(time.as_secs_f32());
    }

    /// Such a call took so long and brought so many tokens.
    pub(super) fn took(&mut self, rows: &Rows, time: Duration, brought: usize) {
        self.several[rows.tokens.len() / ROWS - 1].add(time.as_secs_f32());
        // As many as of four rows: longer calls are for what is likely to hold.
        self.brought[rows.source as usize].add(brought.min(ROWS) as f32);
    }

    /// Whether to make such a call, as far as is known. What is not known is tried.
    pub(super) fn is_worth(&mut self, rows: &Rows) -> bool {
        let Some(pays) = self.known(rows.source, rows.tokens.len() / ROWS) else {
            return true;
        };
        let passed = &mut self.passed[rows.source as usize];
        *passed = if pays || *passed >= TRY_AGAIN {
            0
        } else {
            *passed + 1
        };
        pays || *passed == 0
    }

    /// Whether calls of four rows with guesses of a draft pay, as far as is known.
    pub(super) fn drafts_pay(&self) -> bool {
        self.known(Source::Draft, 1).unwrap_or(true)
    }

    /// Whether such calls pay, if that is known; they have so many times four rows.
    fn known(&self, source: Source, fours: usize) -> Option<bool> {
        let (one, brought) = (self.one.0?, self.brought[source as usize].0?);
        let several = self.several[fours - 1].0?;
        Some(brought * fours as f32 * one > several)
    }
}

/// The whole text as somebody guesses it.
#[derive(Debug)]
pub(super) struct Drafted {
    pub(super) tokens: Vec<LlamaToken>,
    /// How likely the text is to be that, if somebody has counted.
    pub(super) chance: Option<Chance>,
}

/// What may be written next, of one generation.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The likeliest first; those with which what is written begins.
    drafts: Vec<Drafted>,
    /// How many tokens have been written.
    along: usize,
    /// The latest two tokens that were written, the latest one last.
    latest: [Option<LlamaToken>; 2],
    /// Rows of the next call.
    rows: usize,
    /// The next token is to be written by itself.
    is_alone: bool,
}

impl Ahead {
    /// Nothing is written yet.
    pub(super) fn new(drafts: Vec<Drafted>) -> Self {
        Self {
            drafts,
            along: 0,
            latest: [None; 2],
            rows: ROWS,
            is_alone: false,
        }
    }

    /// The model has written this.
    pub(super) fn wrote(&mut self, token: LlamaToken) {
        self.latest = [self.latest[1], Some(token)];
        self.is_alone = false;
        self.drafts
            .retain(|draft| draft.tokens.get(self.along) == Some(&token));
        self.along += 1;
    }

    /// Of a call's guesses, all held, or not.
    pub(super) fn judged(&mut self, all_held: bool) {
        self.rows = match all_held {
            true => (self.rows * 2).min(ROWS_MAX),
            false => ROWS,
        };
    }

    /// The next token is a close call: it is written by itself, as it would be without guesses.
    pub(super) fn alone(&mut self) {
        self.is_alone = true;
    }

    /// The latest token and what may follow it; `room` more can be written. `None` if that is too little.
    pub(super) fn rows(&self, prompt: &[LlamaToken], room: usize) -> Option<Rows> {
        let latest = self.latest[1]?;
        if self.is_alone {
            return None;
        }
        let (source, follows, most) = match self.drafts.first() {
            Some(draft) => {
                let most = if self.is_likely() {
                    ROWS_MAX
                } else {
                    self.rows
                };
                (Source::Draft, &draft.tokens[self.along..], most)
            }
            None => (Source::Prompt, self.found(prompt), ROWS),
        };
        // The padding must fit, too.
        let most = most.min((room + 1) / ROWS * ROWS);
        let guesses = follows
            .len()
            .min(most.saturating_sub(1))
            .min(room.saturating_sub(1));
        if guesses < GUESSES_MIN {
            return None;
        }
        let mut tokens = Vec::with_capacity(most);
        tokens.push(latest);
        tokens.extend(&follows[..guesses]);
        tokens.resize(tokens.len().next_multiple_of(ROWS), latest);
        Some(Rows {
            tokens,
            read: 1,
            guesses,
            source,
        })
    }

    /// The rest of a prompt in one call, and behind it the beginning of the draft, if drafts are wanted and there
    /// is one: as much as the call can hold of a likely one, else what fills the last four rows. Without a draft
    /// a row is added to three, which take longer than four. `room` tokens can be written.
    pub(super) fn ending(&self, rest: &[LlamaToken], room: usize, drafts: bool) -> Rows {
        let draft = self.drafts.first().filter(|_| drafts);
        let draft = draft.map_or(&[][..], |draft| &draft.tokens);
        let most = match rest.len().next_multiple_of(ROWS) - rest.len() {
            _ if self.is_likely() => ROWS_MAX.saturating_sub(rest.len()),
            // Nothing is free; but the draft would have the next call to itself.
            0 => ROWS,
            free => free,
        };
        let guesses = draft.len().min(most).min(room.saturating_sub(1));
        let mut tokens = [rest, &draft[..guesses]].concat();
        if let Some(last) = tokens.last().copied()
            && (guesses > 0 || tokens.len() % ROWS == ROWS - 1)
        {
            tokens.resize(tokens.len().next_multiple_of(ROWS), last);
        }
        // The padding must fit, too.
        if tokens.len() > rest.len() + room {
            return self.ending(rest, room, false);
        }
        Rows {
            tokens,
            read: rest.len(),
            guesses,
            source: Source::Draft,
        }
    }

    /// Whether the first draft is worth a long call. One that nobody has counted is if it is what is left: of
    /// endings, each begins in its own way.
    fn is_likely(&self) -> bool {
        match &self.drafts[..] {
            [] => false,
            [only] if only.chance.is_none() => self.along > 0,
            [first, ..] => first.chance.is_some_and(|chance| chance.share() >= LIKELY),
        }
    }

    /// What follows the latest two tokens where they stand together last in the prompt.
    fn found<'a>(&self, prompt: &'a [LlamaToken]) -> &'a [LlamaToken] {
        let [Some(first), Some(second)] = self.latest else {
            return &[];
        };
        let at = prompt.windows(2).rposition(|pair| pair == [first, second]);
        at.map_or(&[], |at| &prompt[at + 2..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: &[i32]) -> Vec<LlamaToken> {
        ids.iter().map(|id| LlamaToken::new(*id)).collect()
    }

    fn after(draft: &[i32], written: &[i32]) -> Ahead {
        after_any(&[draft], written)
    }

    fn after_any(drafts: &[&[i32]], written: &[i32]) -> Ahead {
        after_likely(drafts, Some(Chance::EVEN), written)
    }

    fn after_likely(drafts: &[&[i32]], chance: Option<Chance>, written: &[i32]) -> Ahead {
        let drafts = drafts.iter().map(|draft| Drafted {
            tokens: tokens(draft),
            chance,
        });
        let mut ahead = Ahead::new(drafts.collect());
        written
            .iter()
            .for_each(|id| ahead.wrote(LlamaToken::new(*id)));
        ahead
    }

    #[track_caller]
    fn check(ahead: &Ahead, prompt: &[i32], room: usize, expected: Option<(&[i32], usize)>) {
        let expected = expected.map(|(rows, guesses)| (tokens(rows), guesses));
        let rows = ahead.rows(&tokens(prompt), room);
        assert_eq!(rows.map(|rows| (rows.tokens, rows.guesses)), expected);
    }

    #[test]
    fn it_is_done_as_long_as_it_pays() {
        let rows = |source, count: usize| Rows {
            tokens: tokens(&vec![1; count]),
            read: 1,
            guesses: 3,
            source,
        };
        let (draft, prompt) = (rows(Source::Draft, 4), rows(Source::Prompt, 4));
        let ms = Duration::from_millis;
        let mut pays = Pays::default();
        // Nothing is known.
        assert!(pays.is_worth(&draft));
        pays.took(&draft, ms(36), 4);
        assert!(pays.is_worth(&draft));
        pays.took_one(ms(10));
        assert!(pays.is_worth(&draft) && pays.is_worth(&prompt));
        // Three tokens are there sooner one by one.
        pays.took(&prompt, ms(36), 3);
        assert!(pays.is_worth(&draft) && !pays.is_worth(&prompt));
        assert!(pays.is_worth(&rows(Source::Draft, 8)));
        let tried = (0..200).filter(|_| pays.is_worth(&prompt)).count();
        assert_eq!(tried, 3);
        // On a machine whose kernels take four rows in the time of two.
        for _ in 0..40 {
            pays.took(&draft, ms(20), 4);
        }
        assert!(pays.is_worth(&prompt));
    }

    #[test]
    fn a_draft_goes_on_for_as_long_as_it_holds() {
        let draft = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        check(&after(&draft, &[]), &[], 99, None);
        check(&after(&draft, &[1]), &[], 99, Some((&[1, 2, 3, 4], 3)));
        let mut ahead = after(&draft, &[1]);
        ahead.judged(true);
        check(&ahead, &[], 99, Some((&[1, 2, 3, 4, 5, 6, 7, 8], 7)));
        check(&ahead, &[], 4, Some((&[1, 2, 3, 4], 3)));
        ahead.judged(false);
        check(&ahead, &[], 99, Some((&[1, 2, 3, 4], 3)));
        // Whole rows, and none for a single guess.
        check(
            &after(&draft, &draft[..7]),
            &[],
            99,
            Some((&[7, 8, 9, 7], 2)),
        );
        check(&after(&draft, &draft[..8]), &[], 99, None);
        check(&after(&draft, &[1]), &[], 2, None);
        // Another word, and the draft is of no use any more.
        check(&after(&draft, &[1, 3, 3]), &[], 99, None);
        let mut ahead = after(&draft, &[1]);
        ahead.alone();
        check(&ahead, &[], 99, None);
        ahead.wrote(LlamaToken::new(2));
        check(&ahead, &[], 99, Some((&[2, 3, 4, 5], 3)));
    }

    #[test]
    fn a_likely_draft_is_read_at_once() {
        let draft: Vec<i32> = (1..=40).collect();
        let after = |chance, written| after_likely(&[&draft], Some(Chance::of(chance)), written);
        check(&after(0.9, &[1]), &[], 99, Some((&draft[..32], 31)));
        check(&after(0.9, &[1]), &[], 14, Some((&draft[..12], 11)));
        check(&after(0.7, &[1]), &[], 99, Some((&draft[..4], 3)));
        // Of two that nobody has counted, the one that is left.
        let other = [1, 7, 7, 7];
        let of_two = |written| after_likely(&[&draft, &other], None, written);
        check(&of_two(&[1]), &[], 99, Some((&draft[..4], 3)));
        check(&of_two(&[1, 2]), &[], 99, Some((&draft[1..33], 31)));
        assert_eq!(of_two(&[]).ending(&tokens(&[7]), 99, true).guesses, 3);
        // Behind the prompt, as much as its last call can hold.
        for (chance, rest, room, guesses) in [
            (0.9, 5, 99, 27),
            (0.9, 5, 11, 10),
            (0.9, 32, 99, 0),
            (0.7, 5, 99, 3),
        ] {
            let rows = after(chance, &[]).ending(&tokens(&vec![7; rest]), room, true);
            assert_eq!(
                (rows.read, rows.guesses),
                (rest, guesses),
                "{chance} {rest}"
            );
            assert!(rows.tokens.len() <= 32 && rows.tokens.len().is_multiple_of(4));
        }
    }

    #[test]
    fn the_last_rows_of_a_prompt_are_filled() {
        let draft = [7, 8, 9, 10, 11, 12];
        for (drafts, rest, room, filled, guesses) in [
            (true, &[1][..], 99, &[1, 7, 8, 9][..], 3),
            (true, &[1, 2, 3], 99, &[1, 2, 3, 7], 1),
            (true, &[1, 2, 3, 4], 99, &[1, 2, 3, 4, 7, 8, 9, 10], 4),
            (true, &[1, 2, 3, 4, 5], 99, &[1, 2, 3, 4, 5, 7, 8, 9], 3),
            // The last token is the model's own.
            (true, &[1], 3, &[1, 7, 8, 8], 2),
            (true, &[1], 2, &[1], 0),
            (true, &[1], 1, &[1], 0),
            (true, &[1, 2, 3], 1, &[1, 2, 3, 3], 0),
            (false, &[1, 2, 3], 99, &[1, 2, 3, 3], 0),
            (false, &[1, 2], 99, &[1, 2], 0),
            (false, &[1, 2, 3, 4], 99, &[1, 2, 3, 4], 0),
        ] {
            let rows = after(&draft, &[]).ending(&tokens(rest), room, drafts);
            assert_eq!((rows.tokens, rows.guesses), (tokens(filled), guesses));
            assert_eq!(rows.read, rest.len());
        }
        let none = after(&[], &[]).ending(&tokens(&[1]), 99, true);
        assert_eq!((none.tokens, none.guesses), (tokens(&[1]), 0));
    }

    #[test]
    fn of_several_drafts_the_first_one_that_holds_goes_on() {
        let drafts: [&[i32]; 4] = [&[1, 2, 3, 4], &[], &[5, 6, 7, 8], &[5, 6, 9, 8]];
        for (written, expected) in [
            (&[1][..], Some(&[1, 2, 3, 4][..])),
            (&[5], Some(&[5, 6, 7, 8])),
            (&[5, 6], Some(&[6, 7, 8, 6])),
            (&[5, 6, 9], None),
            (&[5, 7], None),
            (&[2], None),
        ] {
            let guesses = |rows: &[i32]| rows.len() - usize::from(rows.ends_with(&[6]));
            let expected = expected.map(|rows| (rows, guesses(rows) - 1));
            check(&after_any(&drafts, written), &[], 99, expected);
        }
    }

    #[test]
    fn without_a_draft_it_is_looked_for_in_the_prompt() {
        let prompt = [7, 8, 1, 7, 8, 2, 3, 4, 5];
        check(&after(&[], &[7]), &prompt, 99, None);
        check(&after(&[], &[7, 8]), &prompt, 99, Some((&[8, 2, 3, 4], 3)));
        check(
            &after(&[9, 9], &[7, 8]),
            &prompt,
            99,
            Some((&[8, 2, 3, 4], 3)),
        );
        check(&after(&[], &[2, 3]), &prompt, 99, Some((&[3, 4, 5, 3], 2)));
        check(&after(&[], &[3, 4]), &prompt, 99, None);
        check(&after(&[], &[8, 7]), &prompt, 99, None);
    }
}
