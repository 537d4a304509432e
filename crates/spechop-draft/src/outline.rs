//! A trajectory with its names taken out.
//!
//! A span of a sub-question is a name if it is an earlier answer, or if it stands in the question, too, and
//! begins and ends like a name: with a capital, a digit, a bracket or a quotation mark. Longer spans go
//! first. Case and punctuation count, since drafts must have the planner's very words.
//!
//! A name that does not look like one ("will.i.am") stays in the form as words. Such a form is
//! seen with one question only, so it is never shipped.

use crate::form::{Form, Piece, Slot};
use crate::{HOPS_MAX, Trajectory};

/// Longer sub-questions are not taken apart: the search for names is quadratic.
const SUB_QUESTION_BYTES_MAX: usize = crate::DRAFT_BYTES_MAX;
/// Nor are questions of more words, for the same reason.
const QUESTION_WORDS_MAX: usize = 256;
/// A name has no more: of a text that repeats one word, each part stands in each other part.
const NAME_WORDS_MAX: usize = 32;

/// A question and its hops as forms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outline {
    pub(crate) question: Form,
    /// Each hop, and whether it found something.
    pub(crate) hops: Vec<(Form, bool)>,
}

/// A span of a sub-question that comes from elsewhere.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    from: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The bytes of the question.
    Question(usize, usize),
    /// The answer of a hop.
    Answer(u8),
}

/// The forms of a trajectory, or `None` if it is too long, or its names overlap in the question, or touch.
pub(crate) fn outline(trajectory: &Trajectory) -> Option<Outline> {
    let hops = &trajectory.hops;
    if hops.len() > HOPS_MAX
        || hops
            .iter()
            .any(|hop| hop.sub_question.len() > SUB_QUESTION_BYTES_MAX)
    {
        return None;
    }
    let question = Text::new(&trajectory.question);
    if question.words.len() > QUESTION_WORDS_MAX {
        return None;
    }
    let spans: Vec<Vec<Span>> = hops
        .iter()
        .enumerate()
        .map(|(at, hop)| {
            let answers = hops[..at]
                .iter()
                .map(|hop| if hop.found { &*hop.answer } else { "" });
            spans(&question, &Text::new(&hop.sub_question), answers)
        })
        .collect();
    let names = names(spans.iter().flatten())?;
    let number = |name: (usize, usize)| {
        let at = names.iter().position(|other| *other == name)?;
        u8::try_from(at).ok()
    };
    let in_question = names.iter().enumerate().map(|(at, (start, end))| {
        let slot = Slot::Name(u8::try_from(at).ok()?);
        Some((*start, *end, slot))
    });
    let form = cut(question.text, &in_question.collect::<Option<Vec<_>>>()?)?;
    let mut forms = Vec::with_capacity(hops.len());
    for (hop, spans) in hops.iter().zip(&spans) {
        let slots = spans.iter().map(|span| {
            let slot = match span.from {
                Source::Question(start, end) => Slot::Name(number((start, end))?),
                Source::Answer(at) => Slot::Answer(at),
            };
            Some((span.start, span.end, slot))
        });
        let slots = slots.collect::<Option<Vec<_>>>()?;
        forms.push((cut(&hop.sub_question, &slots)?, hop.found));
    }
    Some(Outline {
        question: form,
        hops: forms,
    })
}

/// The names in the question, in its order; `None` if two of them overlap.
fn names<'a>(spans: impl Iterator<Item = &'a Span>) -> Option<Vec<(usize, usize)>> {
    let mut names: Vec<_> = spans
        .filter_map(|span| match span.from {
            Source::Question(start, end) => Some((start, end)),
            Source::Answer(_) => None,
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let apart = names.windows(2).all(|two| two[0].1 <= two[1].0);
    apart.then_some(names)
}

/// A text with these bytes taken out.
fn cut(text: &str, slots: &[(usize, usize, Slot)]) -> Option<Form> {
    let mut pieces = Vec::with_capacity(slots.len() * 2 + 1);
    let mut at = 0;
    for (start, end, slot) in slots {
        pieces.push(Piece::Text(text.get(at..*start)?.into()));
        pieces.push(Piece::Slot(*slot));
        at = *end;
    }
    pieces.push(Piece::Text(text.get(at..)?.into()));
    Form::new(pieces).ok()
}

/// The spans of a sub-question that come from the question or from earlier answers, in order.
fn spans<'a>(
    question: &Text<'_>,
    asked: &Text<'_>,
    answers: impl Iterator<Item = &'a str>,
) -> Vec<Span> {
    let mut spans = Vec::new();
    for (at, answer) in answers.enumerate() {
        let Ok(at) = u8::try_from(at) else { break };
        for start in asked.occurrences(answer) {
            spans.push(Span {
                start,
                end: start + answer.len(),
                from: Source::Answer(at),
            });
        }
    }
    for i in 0..asked.words.len() {
        for k in 0..question.words.len() {
            // The first words of both are "Who" and "When".
            if i + k > 0 && asked.begins_name(i) {
                spans.extend(shared(question, k, asked, i));
            }
        }
    }
    // The longest first; of the same words a later answer, then an earlier one, then the question.
    let rank = |span: &Span| match span.from {
        Source::Answer(at) => usize::from(at) + 1,
        Source::Question(..) => 0,
    };
    spans.sort_by_key(|span| {
        let length = span.end - span.start;
        (std::cmp::Reverse((length, rank(span))), span.start)
    });
    let mut taken: Vec<Span> = Vec::new();
    for span in spans {
        if taken
            .iter()
            .all(|other| span.end <= other.start || other.end <= span.start)
        {
            taken.push(span);
        }
    }
    taken.sort_by_key(|span| span.start);
    taken
}

/// The longest name that begins at word `k` of the question and at word `i` of the sub-question.
fn shared(question: &Text<'_>, k: usize, asked: &Text<'_>, i: usize) -> Option<Span> {
    let pairs = question.words[k..].iter().zip(&asked.words[i..]);
    let mut last = None;
    for (n, ((_, to), (start, end))) in pairs.take(NAME_WORDS_MAX).enumerate() {
        // With the gap before the word, so that white space is the same, too.
        let begin = |words: &[(usize, usize)], at: usize| {
            if n == 0 {
                words[at].0
            } else {
                words[at + n - 1].1
            }
        };
        let a = &question.text[begin(&question.words, k)..*to];
        let b = &asked.text[begin(&asked.words, i)..*end];
        if a != b {
            break;
        }
        if ends_name(&asked.text[*start..*end]) {
            last = Some((*to, *end));
        }
    }
    let (to, end) = last?;
    let (from, start) = (question.words[k].0, asked.words[i].0);
    let named = asked.text[start..end].chars().any(is_capital);
    named.then_some(Span {
        start,
        end,
        from: Source::Question(from, to),
    })
}

fn is_capital(c: char) -> bool {
    c.is_uppercase() || c.is_numeric()
}

fn ends_name(word: &str) -> bool {
    word.contains(is_capital) || matches!(word, ")" | "!" | "\"" | "”" | ".")
}

/// A text and its words: runs of letters and digits, and every other character but white space alone.
struct Text<'a> {
    text: &'a str,
    words: Vec<(usize, usize)>,
}

impl<'a> Text<'a> {
    fn new(text: &'a str) -> Self {
        let mut words: Vec<(usize, usize)> = Vec::new();
        let mut in_word = false;
        for (at, c) in text.char_indices() {
            let end = at + c.len_utf8();
            let part = c.is_alphanumeric() || c == '_';
            match words.last_mut() {
                Some(word) if part && in_word => word.1 = end,
                _ if c.is_whitespace() => {}
                _ => words.push((at, end)),
            }
            in_word = part;
        }
        Self { text, words }
    }

    fn begins_name(&self, at: usize) -> bool {
        let (start, end) = self.words[at];
        let word = &self.text[start..end];
        word.contains(is_capital) || matches!(word, "(" | "\"" | "'" | "“")
    }

    /// Where a part of the text stands as whole words.
    fn occurrences<'b>(&'b self, part: &'b str) -> impl Iterator<Item = usize> + 'b {
        let starts = self.words.iter().map(|word| word.0);
        starts.filter(move |start| {
            let end = start + part.len();
            let is_end = |words: &[(usize, usize)]| words.iter().any(|word| word.1 == end);
            !part.is_empty() && self.text[*start..].starts_with(part) && is_end(&self.words)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lookup;

    /// `sub-question => answer` a line; `=>` alone: nothing found.
    fn forms(question: &str, hops: &str) -> Option<Vec<String>> {
        let lookup = |line: &str| {
            let (asked, answer) = line.trim().split_once(" =>").unwrap();
            Lookup {
                sub_question: asked.into(),
                answer: answer.trim().into(),
                found: !answer.is_empty(),
            }
        };
        let outline = outline(&Trajectory {
            question: question.into(),
            hops: hops.lines().map(lookup).collect(),
        })?;
        let hops = outline.hops.iter().map(|(form, _)| form.to_string());
        Some(
            [outline.question.to_string()]
                .into_iter()
                .chain(hops)
                .collect(),
        )
    }

    #[test]
    fn names_become_slots() {
        for (question, hops, expected) in [
            (
                "When did the director of film Live Or Die die?",
                "Who is the director of the film Live Or Die? => Eva Zu\nWhen did Eva Zu die? => 1999",
                vec![
                    "When did the director of film {q1} die?",
                    "Who is the director of the film {q1}?",
                    "When did {a1} die?",
                ],
            ),
            (
                "Who is Al Bo's maternal grandfather?",
                "Who is the mother of Al Bo? => Cy\nWho is the father of Cy? =>\nWho is Cy's father? => Di",
                vec![
                    "Who is {q1}'s maternal grandfather?",
                    "Who is the mother of {q1}?",
                    "Who is the father of {a1}?",
                    "Who is {a1}'s father?",
                ],
            ),
            (
                "Who is older, Al-Bo (singer) or É. Zola?",
                "When was Al-Bo (singer) born? => 1990\nWhen was É. Zola born? => 1840",
                vec![
                    "Who is older, {q1} or {q2}?",
                    "When was {q1} born?",
                    "When was {q2} born?",
                ],
            ),
            // The answer is in the question, too: it is the newer of the two.
            (
                "Was the king of Spain born in Spain?",
                "What is the king's country? => Spain\nWhere is Spain? => x",
                vec![
                    "Was the king of Spain born in Spain?",
                    "What is the king's country?",
                    "Where is {a1}?",
                ],
            ),
        ] {
            assert_eq!(forms(question, hops).unwrap(), expected);
        }
    }

    #[test]
    fn names_that_overlap_or_touch_are_no_pattern() {
        let overlap = "Who is the wife of Al Bo? => Cy\nWho is Bo Di? => Ed";
        assert_eq!(forms("Is Al Bo Di here?", overlap), None);
        let long = format!("Who is {}? => Cy", "x".repeat(500));
        assert_eq!(forms("Who?", &long), None);
    }

    #[test]
    fn what_is_too_long_is_no_pattern() {
        let quotes = |count| "\"".repeat(count);
        let hops = format!("{} => Cy", quotes(400));
        assert_eq!(forms(&quotes(257), &hops), None);
        let name = "Al ".repeat(NAME_WORDS_MAX);
        let hop = |rest| format!("Who is {name}{rest}? => Cy");
        let question = format!("Tell me who {name}Bo is.");
        let formed = |rest| forms(&question, &hop(rest)).unwrap()[1].clone();
        assert_eq!(formed("Di"), "Who is {q1} Di?");
        // The last word is beyond the name.
        assert_eq!(formed("Bo"), "Who is {q1} {q2}?");
    }

    #[test]
    fn nothing_that_found_nothing_is_a_name() {
        let hops = "Who is Al? =>\nWho is {Al}? => Bo";
        assert_eq!(
            forms("Tell me who Al is.", hops).unwrap(),
            ["Tell me who {q1} is.", "Who is {q1}?", "Who is {{{q1}}}?"]
        );
    }
}
