//! From logits to answers. Pure: `eval/train/FORMAT.md`, section "Reader", says what is computed.

use std::ops::RangeInclusive;

use spechop_types::canonical_name;

use super::boundary::{Asked, joined};
use super::pairs::Shown;

/// The classes of a passage, in the model's order.
pub(crate) const CLASSES: usize = 4;
const SPAN: usize = 0;
const YES: usize = 1;
const NO: usize = 2;
const NOT_HERE: usize = 3;

/// What the model says of one pair of sub-question and passage.
#[derive(Clone, Debug)]
pub(crate) struct Logits {
    /// One a token of the pair.
    pub(crate) start: Vec<f32>,
    /// One a token of the pair.
    pub(crate) end: Vec<f32>,
    pub(crate) classes: [f32; CLASSES],
}

/// An answer, and how well it is supported.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) answer: String,
    /// Comparable across the passages of one request: they were trained with one softmax.
    pub(crate) score: f64,
    /// Which passage of the request it was read in.
    pub(crate) passage: usize,
}

/// Readings that may be passed over, as a repetition or as no answer to the sub-question, before the
/// search ends: a passage of nothing but commas must not cost a search for each.
const PASSED_OVER_MAX: usize = 32;

/// The best answers, best first, at most `limit` of them. No two say the same, or one the other
/// and more ("the director Jan Kot" is no alternative to "Jan Kot"), and no two of one passage
/// overlap.
pub(crate) fn rank<'a>(
    passages: impl Iterator<Item = (&'a Shown, &'a Logits)>,
    asked: &'a Asked,
    answer_tokens_max: usize,
    limit: usize,
) -> Vec<Found> {
    let mut pages: Vec<Page<'_>> = passages
        .map(|(shown, logits)| Page::new(shown, logits, asked, answer_tokens_max))
        .collect();
    let mut found: Vec<Found> = Vec::new();
    let mut said: Vec<String> = Vec::new();
    for _ in 0..limit.saturating_add(PASSED_OVER_MAX) {
        if found.len() == limit {
            break;
        }
        let Some(passage) = best_page(&pages) else {
            break;
        };
        let Some((says, score)) = pages[passage].take() else {
            break;
        };
        let answer = match &says {
            Says::Word(word) => *word,
            Says::Span(_, answer) => *answer,
        };
        // In blanks, so that words are compared as wholes.
        let words = format!(" {} ", canonical_name(answer));
        let repeats = |other: &String| other.contains(&words) || words.contains(other.as_str());
        if said.iter().any(repeats) {
            continue;
        }
        said.push(words);
        found.push(Found {
            answer: joined(answer),
            score,
            passage,
        });
    }
    found
}

/// The score of a passage's best answer, if it has any.
pub(crate) fn best_score(
    shown: &Shown,
    logits: &Logits,
    asked: &Asked,
    answer_tokens_max: usize,
) -> Option<f64> {
    let page = Page::new(shown, logits, asked, answer_tokens_max);
    page.next.map(|(_, score)| score)
}

/// Where to read on: the first among equals.
fn best_page(pages: &[Page<'_>]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (at, page) in pages.iter().enumerate() {
        if let Some((_, score)) = page.next
            && best.is_none_or(|(_, most)| score > most)
        {
            best = Some((at, score));
        }
    }
    best.map(|(at, _)| at)
}

/// One passage, and what it says next.
struct Page<'a> {
    shown: &'a Shown,
    logits: &'a Logits,
    asked: &'a Asked,
    answer_tokens_max: usize,
    /// How much likelier it is that the answer is here than that it is not.
    odds: f64,
    next: Option<(Says<'a>, f64)>,
    /// What a passage that says yes or no says behind it.
    last: Option<(Says<'a>, f64)>,
    /// Tokens that are taken; one a token of the pair.
    taken: Vec<bool>,
    /// Spans that answer something else.
    refused: Vec<RangeInclusive<usize>>,
}

enum Says<'a> {
    Word(&'static str),
    /// The tokens, and what of their text is the answer.
    Span(RangeInclusive<usize>, &'a str),
}

impl<'a> Page<'a> {
    fn new(
        shown: &'a Shown,
        logits: &'a Logits,
        asked: &'a Asked,
        answer_tokens_max: usize,
    ) -> Self {
        let p = log_softmax(logits.classes);
        let mut page = Self {
            shown,
            logits,
            asked,
            answer_tokens_max,
            odds: log_sum_exp(&[p[SPAN], p[YES], p[NO]]) - p[NOT_HERE],
            next: None,
            last: None,
            taken: vec![false; logits.start.len().min(logits.end.len())],
            refused: Vec::new(),
        };
        // The likeliest, and the first among equals.
        if p[YES].max(p[NO]) <= p[SPAN] {
            page.next = page.best_answer();
        } else if let Some((_, score)) = page.best_span() {
            let (class, other) = if p[YES] >= p[NO] {
                (YES, NO)
            } else {
                (NO, YES)
            };
            let word = |class| Says::Word(if class == YES { "yes" } else { "no" });
            page.next = Some((word(class), score));
            // The scale has no place for a passage's second class; it loses by how much less
            // likely it is. This ranks guesses, never the winner, which is the likelier class.
            page.last = Some((word(other), score + p[other] - p[class]));
        }
        page
    }

    /// What it says next, which it says only once.
    fn take(&mut self) -> Option<(Says<'a>, f64)> {
        let said = self.next.take();
        self.next = match &said {
            Some((Says::Span(tokens, _), _)) => {
                self.taken[tokens.clone()].fill(true);
                self.best_answer()
            }
            _ => self.last.take(),
        };
        said
    }

    /// The best span that answers the sub-question.
    fn best_answer(&mut self) -> Option<(Says<'a>, f64)> {
        while self.refused.len() < PASSED_OVER_MAX {
            let (tokens, score) = self.best_span()?;
            let (text, len) = self.shown.from(*tokens.start(), *tokens.end());
            if let Some(answer) = self.asked.cut(self.asked.with_addition(text, len)) {
                return Some((Says::Span(tokens, answer), score));
            }
            self.refused.push(tokens);
        }
        None
    }

    /// The best span of tokens that are not taken; the earlier, then the shorter among equals.
    fn best_span(&self) -> Option<(RangeInclusive<usize>, f64)> {
        // Tokens outside the passage are no answers, whatever their logits.
        let tokens = self.shown.tokens();
        let past = tokens.end.min(self.taken.len());
        let mut best: Option<(RangeInclusive<usize>, f32)> = None;
        for first in tokens.start..past {
            let ends = first..past.min(first + self.answer_tokens_max);
            for last in ends.take_while(|&last| !self.taken[last]) {
                let score = self.logits.start[first] + self.logits.end[last];
                if best.as_ref().is_none_or(|(_, most)| score > *most)
                    && !self.refused.contains(&(first..=last))
                {
                    best = Some((first..=last, score));
                }
            }
        }
        best.map(|(tokens, score)| (tokens, f64::from(score) + self.odds))
    }
}

fn log_softmax(logits: [f32; CLASSES]) -> [f64; CLASSES] {
    let logits = logits.map(f64::from);
    let sum = log_sum_exp(&logits);
    logits.map(|logit| logit - sum)
}

fn log_sum_exp(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = values.iter().map(|value| (value - most).exp()).sum();
    most + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sure of a span, of yes, of no, and that it is not here.
    const IS_SPAN: [f32; CLASSES] = [5.0, 0.0, 0.0, 0.0];
    const IS_YES: [f32; CLASSES] = [0.0, 5.0, 4.0, 0.0];
    const IS_NO: [f32; CLASSES] = [0.0, 0.0, 5.0, 0.0];
    const IS_NOT_HERE: [f32; CLASSES] = [0.0, 0.0, 0.0, 9.0];

    /// Where passages begin: behind [CLS], two words of the question and [SEP].
    const FIRST: usize = 4;

    /// A passage of words with logits at some of them, counted from its first word. Every token
    /// outside the passage, and one behind it, has the highest logits of all.
    fn passage(
        text: &str,
        start: &[(usize, f32)],
        end: &[(usize, f32)],
        classes: [f32; CLASSES],
    ) -> (Shown, Logits) {
        let shown = Shown::of_words(text, FIRST);
        let fill = |at: &[(usize, f32)]| {
            let mut logits = vec![0.0; shown.tokens().end];
            logits[..FIRST].fill(1e3);
            logits.push(1e3);
            for &(word, logit) in at {
                logits[FIRST + word] = logit;
            }
            logits
        };
        let logits = Logits {
            start: fill(start),
            end: fill(end),
            classes,
        };
        (shown, logits)
    }

    fn both(passages: &[(Shown, Logits)]) -> impl Iterator<Item = (&Shown, &Logits)> {
        passages.iter().map(|(shown, logits)| (shown, logits))
    }

    fn ranked(passages: &[(Shown, Logits)], limit: usize) -> Vec<(String, usize)> {
        let asked = Asked::new("what is it");
        let found = rank(both(passages), &asked, 24, limit);
        assert!(found.is_sorted_by(|a, b| a.score >= b.score));
        found.into_iter().map(|f| (f.answer, f.passage)).collect()
    }

    /// The best answer of one passage.
    fn best(one: (Shown, Logits)) -> String {
        let all = ranked(&[one], 1);
        all.into_iter().next().map(|(a, _)| a).unwrap_or_default()
    }

    const TEXT: &str = "Snow White and Red is directed by Xawery Żuławski .";

    #[test]
    fn the_best_span_of_a_passage_is_its_answer() {
        for (start, end, expected) in [
            (vec![(7, 5.0)], vec![(8, 5.0)], "Xawery Żuławski"),
            (vec![(7, 5.0)], vec![(7, 5.0)], "Xawery"),
            // An end before every likely start is no end of theirs.
            (vec![(7, 5.0)], vec![(2, 4.0), (8, 3.0)], "Xawery Żuławski"),
            (vec![(7, 5.0)], vec![(2, 9.0)], "Snow White and"),
            // The sum counts, not the best start.
            (
                vec![(0, 4.0), (8, 3.0)],
                vec![(8, 5.0)],
                TEXT.trim_end_matches(" ."),
            ),
            // Equals: the earlier start, then the earlier end.
            (vec![(1, 5.0), (3, 5.0)], vec![(3, 5.0)], "White and Red"),
            (vec![(1, 5.0)], vec![(3, 5.0), (5, 5.0)], "White and Red"),
            (vec![], vec![], "Snow"),
        ] {
            assert_eq!(best(passage(TEXT, &start, &end, IS_SPAN)), expected);
        }
    }

    #[test]
    fn an_answer_is_no_longer_than_allowed() {
        let all = [passage(TEXT, &[(0, 5.0)], &[(3, 1.0), (8, 4.0)], IS_SPAN)];
        for (tokens_max, expected) in [
            (9, "Snow White and Red is directed by Xawery Żuławski"),
            (8, "Snow White and Red"),
            (4, "Snow White and Red"),
            (3, "Snow"),
            (1, "Snow"),
        ] {
            let found = rank(both(&all), &Asked::new("what is it"), tokens_max, 1);
            assert_eq!(found[0].answer, expected, "{tokens_max}");
        }
    }

    #[test]
    fn yes_and_no_come_from_the_class_and_rank_behind_it() {
        let yes = passage(TEXT, &[(0, 3.0)], &[(0, 3.0)], IS_YES);
        assert_eq!(
            ranked(&[yes], 9),
            [("yes".to_owned(), 0), ("no".to_owned(), 0)]
        );
        assert_eq!(best(passage(TEXT, &[], &[], IS_NO)), "no");
        // Equally likely: the span, as `argmax` has it.
        assert_eq!(
            best(passage("Paris", &[], &[], [1.0, 1.0, 0.0, 0.0])),
            "Paris"
        );
        // What is not here may still be the best there is.
        assert_eq!(best(passage("Paris", &[], &[], IS_NOT_HERE)), "Paris");
    }

    #[test]
    fn the_score_is_that_of_the_reference() {
        // Computed by eval/train/reader_answer.py.
        let (shown, logits) = passage("a b c", &[(1, 2.5)], &[(2, 1.25)], [2.0, -1.0, 0.5, 1.0]);
        let found = rank(both(&[(shown, logits)]), &Asked::new("what is it"), 24, 1);
        assert_eq!(found[0].answer, "b c");
        assert!(
            (found[0].score - 4.991_311_296_657_157).abs() < 1e-9,
            "{}",
            found[0].score
        );
    }

    #[test]
    fn the_passage_with_the_best_score_wins() {
        let one = || passage("Alice Smith", &[(0, 5.0)], &[(1, 5.0)], IS_SPAN);
        let other = || passage("Bob Jones", &[(0, 6.0)], &[(1, 6.0)], IS_SPAN);
        let denied = || passage("Carol King", &[(0, 9.0)], &[(1, 9.0)], IS_NOT_HERE);
        assert_eq!(
            ranked(&[one(), other(), denied()], 1),
            [("Bob Jones".into(), 1)]
        );
        // The first among equals.
        let same = passage("Dan Brown", &[(0, 5.0)], &[(1, 5.0)], IS_SPAN);
        assert_eq!(ranked(&[one(), same], 1), [("Alice Smith".into(), 0)]);
        assert_eq!(ranked(&[], 3), []);
        assert_eq!(ranked(&[one()], 0), []);
    }

    #[test]
    fn a_span_that_answers_something_else_is_passed_over() {
        let asked = Asked::new("Who is the father of Jan Kot?");
        let text = "Jan Kot , son of Ewa Lis and Olaf Kot (";
        // The likeliest repeats the sub-question, and so does the next, with a comma.
        let start = [(0, 6.0), (8, 6.5)];
        let end = [(1, 9.0), (2, 8.0), (9, 5.0)];
        let found = rank(both(&[passage(text, &start, &end, IS_SPAN)]), &asked, 24, 1);
        assert_eq!(found[0].answer, "Olaf Kot");
        let asked = Asked::new("When was Jan Kot born?");
        let one = passage(
            "in Lublin in 1848",
            &[(1, 9.0), (3, 5.0)],
            &[(1, 9.0), (3, 5.0)],
            IS_SPAN,
        );
        assert_eq!(rank(both(&[one]), &asked, 1, 9)[0].answer, "1848");
        // A yes is worth what the best span is, whatever that says.
        let yes = passage("Jan Kot", &[(0, 3.0)], &[(1, 3.0)], IS_YES);
        let found = rank(both(&[yes]), &Asked::new("Is Jan Kot dead?"), 24, 1);
        assert_eq!(found[0].answer, "yes");
        assert!(found[0].score > 6.0);
    }

    #[test]
    fn alternatives_differ() {
        let one = passage(
            "directed by Jan Kot and Ewa Lis",
            &[(2, 8.0), (5, 9.0)],
            &[(3, 8.0), (6, 9.0)],
            IS_SPAN,
        );
        // The same name in other letters, then a part of another, then a new one.
        let two = passage(
            "JAN KÓT , Lis , Olga Maj",
            &[(0, 7.0), (2, 9.0), (3, 6.0), (5, 5.0)],
            &[(1, 7.0), (2, 9.0), (3, 6.0), (6, 5.0)],
            IS_SPAN,
        );
        assert_eq!(
            ranked(&[one, two], 3),
            // The end of "Ewa Lis" is likelier than Jan Kot's, but taken.
            [
                ("Ewa Lis".into(), 0),
                ("Jan Kot".into(), 0),
                ("Olga Maj".into(), 1)
            ]
        );
    }

    #[test]
    fn the_search_for_alternatives_ends() {
        let commas = || passage(&", ".repeat(250), &[], &[], IS_SPAN);
        assert_eq!(ranked(&[commas(), commas()], 3), []);
        let word = passage("one one one one", &[], &[], IS_SPAN);
        assert_eq!(ranked(&[word], usize::MAX), [("one".into(), 0)]);
    }

    #[test]
    fn what_is_no_passage_is_no_answer() {
        // Padding is cut off before; a passage without tokens says nothing at all.
        assert_eq!(best(passage("", &[], &[], IS_SPAN)), "");
        assert_eq!(best(passage("", &[], &[], IS_YES)), "");
        assert_eq!(best(passage(", .", &[], &[], IS_SPAN)), "");
    }

    #[test]
    fn letters_of_many_bytes_stay_whole() {
        let text = "Łódź 東京 e\u{301}t\u{e9} 🦀bar";
        for (word, expected) in text.split(' ').enumerate() {
            let logits = [(word, 5.0)];
            assert_eq!(best(passage(text, &logits, &logits, IS_SPAN)), expected);
        }
    }
}
