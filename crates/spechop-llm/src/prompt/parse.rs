//! Reading what a model wrote: tolerant of form, strict about substance.
//!
//! A closing tag that is missing, tags inside tags, Markdown fences, labels and quotation marks are
//! all read over. What is empty, asks the whole question again, or asks about a worked example or what was
//! not found is a [`Flaw`]: worth one repair.

use std::sync::Arc;

use spechop_ports::{KnownHop, PlanRequest};
use spechop_types::{Step, SubQuestion, canonical, is_refusal, words};

use super::{PromptStyle, asks_about_nothing, tagged, whole_question};
use crate::thoughts::spoken;
use crate::{End, Generated};

/// What is wrong with an output, and what can be made of it all the same.
#[derive(Debug, PartialEq)]
pub(crate) struct Flaw<T> {
    /// For the error, if it comes to that.
    pub(crate) detail: &'static str,
    /// For the model, so that it does better.
    pub(crate) complaint: &'static str,
    /// To be used if the repair brings nothing better.
    pub(crate) fallback: Option<T>,
}

/// Longest answer that is taken from a text without tags, in characters; a longer one is prose.
const BARE_ANSWER_CHARS_MAX: usize = 300;

/// The step that a planner's output holds.
pub(crate) fn step(
    style: PromptStyle,
    request: &PlanRequest,
    generated: &Generated,
) -> Result<Step, Flaw<Step>> {
    let text = spoken(&generated.text);
    let step = match style {
        PromptStyle::Tagged => {
            tagged_step(text, generated.end, request.must_answer).map(|step| match step {
                // The wrong tag.
                Step::Answer(answer) if is_question(request, &answer) => {
                    Step::Ask(SubQuestion::new(&answer))
                }
                step => step,
            })
        }
        PromptStyle::Corag if request.must_answer => Some(Step::Answer(answer_text(text).into())),
        PromptStyle::Corag => Some(Step::Ask(SubQuestion::new(&question_text(first_line(
            text,
        ))))),
    };
    let complaint_asking = match style {
        PromptStyle::Tagged => {
            "Reply with one <question>...</question> or one <answer>...</answer>, nothing else."
        }
        PromptStyle::Corag => "Respond with one simple follow-up question only.",
    };
    let complaint_answering = match style {
        PromptStyle::Tagged => "Reply with the final answer: <answer>...</answer>.",
        PromptStyle::Corag => "Respond with a short, fitting answer only.",
    };
    match step {
        Some(Step::Answer(answer))
            if style == PromptStyle::Tagged && tagged::is_about_an_example(request, &answer) =>
        {
            Err(Flaw {
                detail: "an answer from a worked example",
                complaint: "That is from an example. Answer from the facts: <answer>...</answer>.",
                fallback: forced_answer(request, ""),
            })
        }
        Some(Step::Answer(answer)) if has_substance(&answer) => Ok(Step::Answer(answer)),
        Some(Step::Ask(asked)) if request.must_answer => Err(Flaw {
            detail: "a question where an answer was due",
            complaint: complaint_answering,
            fallback: forced_answer(request, asked.as_str()),
        }),
        Some(Step::Ask(asked)) if !asked.key().is_empty() => fresh_question(request, style, asked),
        _ if request.must_answer => Err(Flaw {
            detail: "no answer in it",
            complaint: complaint_answering,
            fallback: forced_answer(request, text),
        }),
        _ => Err(Flaw {
            detail: "neither a question nor an answer in it",
            complaint: complaint_asking,
            // Whoever copies a long question does not come to its end, not even when asked again. Later there
            // are hops to answer from.
            fallback: (request.hops.is_empty() && is_half_a_question(text, generated.end))
                .then(|| whole_question(request)),
        }),
    }
}

/// The answer in a reader's output; `None` where it says that there is none.
pub(crate) fn reading(
    style: PromptStyle,
    generated: &Generated,
) -> Result<Option<Arc<str>>, Flaw<Option<Arc<str>>>> {
    let text = spoken(&generated.text);
    let found = find_tag(text);
    let answer = match (&found, style) {
        (Some(tag), PromptStyle::Tagged) => answer_text(tag.content),
        _ => answer_text(text),
    };
    let (detail, complaint) = match style {
        PromptStyle::Tagged => (
            "no answer in it",
            "Reply with a few words from the passages: <answer>...</answer>.",
        ),
        PromptStyle::Corag => ("no answer in it", "Respond with a short answer only."),
    };
    if !has_substance(&answer) {
        return Err(Flaw {
            detail,
            complaint,
            fallback: None,
        });
    }
    let answer = (!is_refusal(&answer)).then(|| Arc::from(answer));
    // Words that go on and on hold an answer at best: better ask for it.
    let complete = match &found {
        Some(tag) => tag.closed || generated.end != End::Length,
        None => generated.end != End::Length && text.chars().count() <= BARE_ANSWER_CHARS_MAX,
    };
    if complete || answer.is_none() {
        Ok(answer)
    } else {
        Err(Flaw {
            detail: "an answer without an end",
            complaint,
            fallback: found.is_some().then_some(answer),
        })
    }
}

/// The guess in a speculator's output; `None` where it has none. Never repaired: a guess that takes
/// two calls comes too late.
pub(crate) fn guessed(generated: &Generated) -> Option<Arc<str>> {
    let said = spoken(&generated.text);
    let text = find_tag(said).map_or(said, |tag| tag.content);
    // The prompt opens the tag, so there may be nothing but its end.
    let text = text.split("</answer").next().unwrap_or(text);
    let mut guess = answer_text(first_line(text));
    if is_refusal(&guess) {
        return None;
    }
    if generated.end == End::Length {
        // Cut off in the middle of an explanation: what stands before it will do.
        let end = [", ", " (", "; ", " - ", " – "]
            .iter()
            .filter_map(|mark| guess.find(mark))
            .chain(sentence_end(&guess))
            .min();
        guess.truncate(end.unwrap_or(guess.len()));
    }
    (has_substance(&guess) && !is_refusal(&guess)).then(|| guess.into())
}

/// Words that are shortened by a full stop. "No." is one only before a number: else it is an answer.
const SHORTENED: &[&str] = &[
    "Capt", "Col", "Dr", "Ft", "Gen", "Gov", "Jr", "Lt", "Mr", "Mrs", "Ms", "Mt", "Prof", "Rev",
    "Sgt", "Sr", "St", "Vol", "vs",
];

/// Where the full stop stands that ends the first sentence. Those of "J. R. R.", "St." and "No. 9" end none.
fn sentence_end(text: &str) -> Option<usize> {
    let mut stops = text.match_indices(". ").map(|(at, _)| at);
    stops.find(|at| {
        let (before, after) = (&text[..*at], &text[*at + 2..]);
        let word = before.rsplit([' ', '.']).next().unwrap_or_default();
        let is_initial = word.chars().count() == 1 && word.ends_with(char::is_alphabetic);
        let is_number = word == "No" && after.starts_with(|c: char| c.is_ascii_digit());
        !is_initial && !is_number && !SHORTENED.contains(&word)
    })
}

fn tagged_step(text: &str, end: End, must_answer: bool) -> Option<Step> {
    let ask = |content| Step::Ask(SubQuestion::new(&question_text(content)));
    let answer = |content| Step::Answer(answer_text(content).into());
    if let Some(tag) = find_tag(text) {
        return match tag.kind {
            // Half a question is none; half an answer can be one.
            _ if tag.is_half_a_question(end) => None,
            Kind::Question => Some(ask(tag.content)),
            Kind::Answer => Some(answer(tag.content)),
        };
    }
    if end == End::Length {
        return None;
    }
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| has_substance(line));
    let last = lines.next_back()?;
    if last.ends_with('?') {
        Some(ask(last))
    } else if must_answer && last.chars().count() <= BARE_ANSWER_CHARS_MAX {
        Some(answer(last))
    } else {
        None
    }
}

fn is_half_a_question(text: &str, end: End) -> bool {
    find_tag(text).is_some_and(|tag| tag.is_half_a_question(end))
}

/// Refuses a sub-question that gets nobody further, but keeps it: a question of one hop is its own
/// sub-question, and asking twice is the agent's sign to stop.
fn fresh_question(
    request: &PlanRequest,
    style: PromptStyle,
    asked: SubQuestion,
) -> Result<Step, Flaw<Step>> {
    if asks_about_nothing(&asked) {
        return Err(Flaw {
            detail: "a question about what was not found",
            complaint: match style {
                PromptStyle::Tagged => {
                    "That asks about what was not found. Ask about a name that is known, or answer: \
                     <answer>...</answer>."
                }
                PromptStyle::Corag => {
                    "That asks about what was not found. Respond with one other simple follow-up \
                     question only."
                }
            },
            fallback: request.hops.is_empty().then(|| whole_question(request)),
        });
    }
    let detail = "the same question again";
    if request.hops.iter().any(|hop| hop.sub_question == asked) {
        return Err(Flaw {
            detail,
            complaint: match style {
                PromptStyle::Tagged => {
                    "That is known already. Ask for what is still missing, or answer: \
                     <answer>...</answer>."
                }
                PromptStyle::Corag => {
                    "That has been asked already. Respond with one other simple follow-up question \
                     only."
                }
            },
            fallback: Some(Step::Ask(asked)),
        });
    }
    if asked == SubQuestion::new(request.question.as_str()) {
        return Err(Flaw {
            detail,
            complaint: match style {
                PromptStyle::Tagged => {
                    "That is the whole question. Ask first for the one person or thing that it \
                     only describes: <question>...</question>."
                }
                PromptStyle::Corag => {
                    "That is the whole query. Respond with a simpler follow-up question about one \
                     part of it."
                }
            },
            fallback: Some(Step::Ask(asked)),
        });
    }
    if style == PromptStyle::Tagged && tagged::is_about_an_example(request, asked.as_str()) {
        // Looking the question itself up is better than nothing.
        let whole = || whole_question(request);
        return Err(Flaw {
            detail: "a question about a worked example",
            complaint: "That is about an example. Ask about a name in the question itself: \
                        <question>...</question>.",
            fallback: request.hops.is_empty().then(whole),
        });
    }
    Ok(Step::Ask(asked))
}

/// Whether an answer is a question. A title may end in a question mark, too: such an answer is a part
/// of the question, or was found.
fn is_question(request: &PlanRequest, answer: &str) -> bool {
    let key = canonical(answer);
    let question = canonical(request.question.as_str());
    let is_title = key != question && question.contains(&key);
    let was_found = |hop: &KnownHop| canonical(&hop.answer) == key;
    answer.ends_with('?') && !key.is_empty() && !is_title && !request.hops.iter().any(was_found)
}

/// What can be said when an answer is due and the model gives none: the last thing found out is
/// more often what was asked for than anything else; without a hop, the model's words.
fn forced_answer(request: &PlanRequest, said: &str) -> Option<Step> {
    let found = request.hops.iter().rev().find(|hop| has_found(hop));
    let last = found.or(request.hops.last()).map(|hop| hop.answer.clone());
    let words = answer_text(said);
    let words: Arc<str> = words
        .chars()
        .take(BARE_ANSWER_CHARS_MAX)
        .collect::<String>()
        .into();
    last.into_iter()
        .chain([words])
        .find(|answer| has_substance(answer))
        .map(Step::Answer)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Question,
    Answer,
}

/// The tag that a text ends in.
#[derive(Debug, PartialEq, Eq)]
struct Tag<'a> {
    kind: Kind,
    content: &'a str,
    closed: bool,
}

impl Tag<'_> {
    /// Whether it is a question that its tokens did not suffice for.
    fn is_half_a_question(&self, end: End) -> bool {
        self.kind == Kind::Question && !self.closed && end == End::Length
    }
}

/// The last opening tag up to the first closing tag behind it, of whatever kind: `<answer>X` and
/// `<answer>X</question>` are answers. A closing tag alone closes all that stands before it.
fn find_tag(text: &str) -> Option<Tag<'_>> {
    let marks = marks(text);
    let open = marks.iter().rposition(|mark| !mark.closing);
    let close = |from: usize| marks[from..].iter().find(|mark| mark.closing);
    match open {
        Some(at) => {
            let open = &marks[at];
            let close = close(at);
            Some(Tag {
                kind: open.kind,
                content: &text[open.end..close.map_or(text.len(), |close| close.start)],
                closed: close.is_some(),
            })
        }
        None => close(0).map(|close| Tag {
            kind: close.kind,
            content: &text[..close.start],
            closed: true,
        }),
    }
}

#[derive(Debug)]
struct Mark {
    kind: Kind,
    closing: bool,
    start: usize,
    end: usize,
}

/// All tags of a text, in whatever case, white space inside them allowed.
fn marks(text: &str) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (start, _) in text.match_indices('<') {
        let rest = text[start + 1..].trim_start();
        let (closing, rest) = match rest.strip_prefix('/') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, rest),
        };
        for (name, kind) in [("question", Kind::Question), ("answer", Kind::Answer)] {
            if let Some(head) = rest.get(..name.len())
                && head.eq_ignore_ascii_case(name)
                && let Some(rest) = rest[name.len()..].trim_start().strip_prefix('>')
            {
                marks.push(Mark {
                    kind,
                    closing,
                    start,
                    end: text.len() - rest.len(),
                });
            }
        }
    }
    marks
}

/// An answer without the wrapping that models put around it.
fn answer_text(text: &str) -> String {
    let text = bare(text);
    let labels = [
        "final answer:",
        "short answer:",
        "intermediate answer:",
        "answer:",
        "the final answer is",
        "the answer is",
    ];
    let text = strip_labels(&text, &labels);
    unquoted(text).to_owned()
}

/// A question without the wrapping that models put around it.
fn question_text(text: &str) -> String {
    let text = bare(text);
    let labels = [
        "follow-up question:",
        "next question:",
        "sub-question:",
        "intermediate query:",
        "question:",
        "query:",
    ];
    let text = strip_labels(&text, &labels);
    unquoted(text).to_owned()
}

/// Tags, fences and folds removed.
fn bare(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut from = 0;
    for mark in marks(text) {
        plain.push_str(&text[from..mark.start]);
        plain.push(' ');
        from = mark.end;
    }
    plain.push_str(&text[from..]);
    let lines = plain
        .lines()
        .filter(|line| !line.trim_start().starts_with("```"));
    lines.flat_map(words).collect::<Vec<_>>().join(" ")
}

fn strip_labels<'a>(mut text: &'a str, labels: &[&str]) -> &'a str {
    // "Final answer: the answer is X" has two.
    while let Some(label) = labels.iter().find(|label| {
        text.get(..label.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(label))
    }) {
        text = text[label.len()..].trim_start();
    }
    text
}

/// Without quotation marks, stars or backticks that enclose the whole.
fn unquoted(mut text: &str) -> &str {
    for (open, close) in [
        ("**", "**"),
        ("\"", "\""),
        ("“", "”"),
        ("`", "`"),
        ("'", "'"),
    ] {
        if let Some(inner) = text.strip_prefix(open).and_then(|t| t.strip_suffix(close))
            && !inner.contains(open)
        {
            text = inner.trim();
        }
    }
    text
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| has_substance(line)).unwrap_or("")
}

/// Something that can be looked up or compared: punctuation alone is nothing.
pub(crate) fn has_substance(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// Whether a hop has brought an answer.
pub(crate) fn has_found(hop: &KnownHop) -> bool {
    has_substance(&hop.answer) && !is_refusal(&hop.answer)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
