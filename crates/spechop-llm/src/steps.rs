//! A planner for a small model that was trained to plan, and speaks in lines:
//!
//! ```text
//! Question: Where was the director of Blue Kite born?
//! Who is the director of Blue Kite? => Amy Dunne
//! Where was Amy Dunne born? => Hull
//! Answer: Hull
//! ```
//!
//! The prompt is the question and the known hops, a line each, and the model writes the next line:
//! a sub-question up to the arrow, or the answer, in comparisons with a note before it.
//! `eval/train/FORMAT.md` has it byte for byte. The prompt of a step begins with the one before, so
//! that an engine computes no more than what is new.
//!
//! What follows from the hops by itself, as which of two dates is the earlier one, no model is asked.
//!
//! Nothing is repaired: such a model knows one form, and cannot do better when asked again. If the
//! output is not a valid step, the prompt is extended with `Answer:`, so the model can only complete
//! an answer.

mod closing;
mod compared;
mod concluded;
mod countries;
mod forms;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::{Call, PlanRequest, Planned, Planner, PortError};
use spechop_types::{Chance, Step, SubQuestion, Tokens, one_line};

use crate::prompt::{
    ANSWER_TOKENS_MAX, NOT_THERE, SUB_QUESTION_TOKENS_MAX, asks_about_nothing, beginning,
    has_found, has_substance, whole_question,
};
use crate::{End, Generated, Generation, Prompt, Text, TextDraft, TextModel};

/// Between a sub-question and its answer.
const ARROW: &str = " =>";

/// The first words of lines that are not hops.
const QUESTION: &str = "Question:";
const NOTE: &str = "Compare:";
const ANSWER: &str = "Answer:";

/// The ends of whatever line comes next, and of an answer.
const LINE_END: &[&str] = &[ARROW, "\n"];
const ANSWER_END: &[&str] = &["\n"];

/// Most notes before an answer. One was learnt; more are a model that has lost its way.
const NOTES_MAX: usize = 2;

/// The answer that such a model has learnt to give if it cannot know.
const UNKNOWN: &str = "unknown";

/// Plans with a model that was trained on the line format. Any other model keeps the contract of
/// [`Planner`] too, but plans badly.
#[derive(Clone)]
pub struct StepPlanner {
    model: Arc<dyn TextModel>,
    sample: u32,
    is_last: bool,
}

impl StepPlanner {
    /// Plans with `model`, which must take [`Prompt::Text`].
    pub fn new(model: Arc<dyn TextModel>) -> Self {
        Self {
            model,
            sample: 0,
            is_last: true,
        }
    }

    /// Whether it `is_last`, as it is at first: once the hops have outgrown the model's context, it answers with what was
    /// found last. If not, it fails, and another planner can have room for them.
    #[must_use]
    pub fn as_last(self, is_last: bool) -> Self {
        Self { is_last, ..self }
    }

    /// Plans what this sample says, if the model draws samples. The likeliest plan is sample 0.
    #[must_use]
    pub fn of_sample(self, sample: u32) -> Self {
        Self { sample, ..self }
    }

    /// What such a planner looks up if its model has just written this: a sub-question and its arrow. Behind
    /// a line's end no sub-question is looked for: answers end so.
    pub fn asked(text: &str) -> Option<SubQuestion> {
        match Line::of(text, End::Stop) {
            Line::Ask(asked) if text.ends_with(ARROW) => Some(asked),
            Line::Ask(_) | Line::Note(_) | Line::Answer(_) | Line::Nothing => None,
        }
    }
}

#[async_trait]
impl Planner for StepPlanner {
    async fn warm(&self, call: &Call, request: PlanRequest) -> Result<(), PortError> {
        let generation = Generation {
            prompt: prompt(&request).prompt(),
            tokens_max: SUB_QUESTION_TOKENS_MAX,
            stop: LINE_END,
            drafts: Vec::new(),
            sample: self.sample,
        };
        self.model.warm(call, generation).await
    }

    /// If the model writes no line that can be used, the question itself is looked up first of all,
    /// and later the last thing found is the answer. So it is, too, if the hops have outgrown the
    /// model's context, if it [is last](StepPlanner::as_last): that is nobody's mistake, while a question
    /// that is too long by itself is.
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let mut page = Page {
            model: &*self.model,
            sample: self.sample,
            call,
            text: prompt(&request),
            tokens: Tokens::default(),
            certainty: None,
        };
        let step = match page.step(&request).await {
            Err(PortError::TooLong { what, detail })
                if self.is_last && !request.hops.is_empty() =>
            {
                tracing::debug!(what, detail, "the hops leave no room for another step");
                None
            }
            step => step?,
        };
        Ok(Planned {
            // Of a step that it could not write it is not sure at all.
            certainty: match &step {
                Some(_) => page.certainty,
                None => Some(Chance::NONE),
            },
            step: step.unwrap_or_else(|| fallback(&request)),
            tokens: page.tokens,
        })
    }
}

/// The text so far: the prompt, and the lines that the model has added and is to go on from.
struct Page<'a> {
    model: &'a dyn TextModel,
    sample: u32,
    call: &'a Call,
    text: Lines,
    /// Of all generations.
    tokens: Tokens,
    /// Of the line that became the step, or of what was written last.
    certainty: Option<Chance>,
}

impl Page<'_> {
    /// The next step, which is the model's unless it follows from the hops; `None` where it has none.
    async fn step(&mut self, request: &PlanRequest) -> Result<Option<Step>, PortError> {
        if let Some(answer) = concluded::answer(request) {
            self.certainty = Some(Chance::CERTAIN);
            return Ok(Some(Step::Answer(answer)));
        }
        let tokens_max = if request.must_answer {
            ANSWER_TOKENS_MAX
        } else {
            SUB_QUESTION_TOKENS_MAX
        };
        let mut drafts = drafts(request);
        for _ in 0..=NOTES_MAX {
            let generated = self.write(tokens_max, LINE_END, drafts).await?;
            drafts = Vec::new();
            match Line::of(&generated.text, generated.end) {
                Line::Note(note) => {
                    let note = closing::judged(note);
                    drafts.extend(closing::answer_after(&note).map(uncounted));
                    match &note {
                        Cow::Borrowed(written) => self.text.wrote(written),
                        Cow::Owned(put_right) => self.text.read(put_right),
                    }
                    self.text.read("\n");
                }
                Line::Answer(_) if generated.end == End::Length => {
                    let left = ANSWER_TOKENS_MAX - tokens_max;
                    return self.answer(&generated.text, left).await;
                }
                Line::Answer(answer) => return Ok(answer_step(answer)),
                Line::Ask(asked) if !request.must_answer => return Ok(Some(Step::Ask(asked))),
                Line::Ask(_) | Line::Nothing => break,
            }
        }
        if request.hops.is_empty() && !request.must_answer {
            return Ok(None);
        }
        self.answer(ANSWER, ANSWER_TOKENS_MAX).await
    }

    /// Lets the model end an answer of which `begun`, its label included, is there already.
    async fn answer(&mut self, begun: &str, tokens_max: u32) -> Result<Option<Step>, PortError> {
        let mut answer = begun.to_owned();
        if tokens_max > 0 {
            self.text.read(begun);
            answer += &self.write(tokens_max, ANSWER_END, Vec::new()).await?.text;
        }
        Ok(answer_step(&answer))
    }

    async fn write(
        &mut self,
        tokens_max: u32,
        stop: &'static [&'static str],
        drafts: Vec<TextDraft>,
    ) -> Result<Generated, PortError> {
        let generation = Generation {
            prompt: self.text.prompt(),
            tokens_max,
            stop,
            drafts,
            sample: self.sample,
        };
        let generated = self.model.generate(self.call, generation).await?;
        self.tokens += generated.tokens;
        self.certainty = generated.certainty;
        Ok(generated)
    }
}

/// The lines that may come next, the likeliest first.
fn drafts(request: &PlanRequest) -> Vec<TextDraft> {
    let foreseen = request.drafts.first().filter(|_| !request.must_answer);
    // The line as such a model would write it.
    let foreseen = foreseen.map(|draft| TextDraft {
        text: format!("{}{ARROW}", draft.sub_question.as_str()).into(),
        chance: Some(draft.chance),
    });
    foreseen
        .into_iter()
        .chain(closing::lines(request).into_iter().map(uncounted))
        .collect()
}

/// Nobody has counted how often such a draft is right.
fn uncounted(text: Arc<str>) -> TextDraft {
    TextDraft { text, chance: None }
}

/// What the model wrote.
enum Line<'a> {
    /// A comparison's values side by side, for the model's own use.
    Note(&'a str),
    /// An answer with its label.
    Answer(&'a str),
    Ask(SubQuestion),
    /// Empty, half a line of something that half of is of no use, or a question about what was not found.
    Nothing,
}

impl<'a> Line<'a> {
    /// Of a text that ended so.
    fn of(text: &'a str, end: End) -> Self {
        let line = text.strip_suffix(ARROW).unwrap_or(text).trim();
        if line.starts_with(ANSWER) {
            Self::Answer(line)
        } else if end == End::Length {
            Self::Nothing
        } else if line.starts_with(NOTE) {
            Self::Note(line)
        } else {
            let asked = SubQuestion::new(&plain(line));
            if asked.key().is_empty() || asks_about_nothing(&asked) {
                Self::Nothing
            } else {
                Self::Ask(asked)
            }
        }
    }
}

/// The answer of a line, without its label and whatever an arrow may have put behind it.
fn answer_step(line: &str) -> Option<Step> {
    let mut answer = line.split(ARROW).next().unwrap_or(line);
    while let Some(rest) = answer.trim_start().strip_prefix(ANSWER) {
        answer = rest;
    }
    let answer = one_line(answer);
    has_substance(&answer).then(|| Step::Answer(answer.into()))
}

/// The step if the model has none: look the question up; and when that is done or too late, say what
/// was found last. In a chain of look-ups that is what was asked for, more often than anything else.
/// Of a question that is as long as a page only the beginning is looked up: a reader that sees a few
/// hundred tokens at once needs room for the passage, too.
pub(crate) fn fallback(request: &PlanRequest) -> Step {
    if request.hops.is_empty() && !request.must_answer {
        return whole_question(request);
    }
    let last = request.hops.iter().rev().find(|hop| has_found(hop));
    Step::Answer(last.map_or_else(|| UNKNOWN.into(), |hop| hop.answer.clone()))
}

/// A text for the model, and which of its lines are its own.
#[derive(Debug, Default)]
struct Lines {
    text: String,
    written: Vec<Range<usize>>,
}

impl Lines {
    /// What it reads.
    fn read(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// What it has written, without the stop text behind it.
    fn wrote(&mut self, text: &str) {
        let from = self.text.len();
        self.text.push_str(text);
        self.written.push(from..self.text.len());
    }

    fn prompt(&self) -> Prompt {
        Prompt::Text(Text::new(&*self.text, &*self.written))
    }
}

/// The question and the known hops, a line each.
fn prompt(request: &PlanRequest) -> Lines {
    let mut lines = Lines::default();
    lines.read(&format!(
        "{QUESTION} {}\n",
        plain(request.question.as_str())
    ));
    for hop in &request.hops {
        lines.wrote(&sub_question(hop.sub_question.as_str()));
        lines.read(&format!("{ARROW} {}\n", sub_answer(&hop.answer)));
    }
    lines
}

fn sub_question(text: &str) -> String {
    let mut text = cut(plain(text));
    // As the beginning of a line these would make it another kind of line.
    for label in [QUESTION, NOTE, ANSWER] {
        if text.starts_with(label) {
            text.insert(label.len() - 1, ' ');
        }
    }
    if text.is_empty() {
        // Its answer is of use all the same.
        text.push('?');
    }
    text
}

fn sub_answer(text: &str) -> String {
    let mut text = cut(plain(text));
    text.truncate(text.trim_end_matches([',', ' ']).len());
    if text.is_empty() {
        text.push_str(NOT_THERE);
    }
    text
}

/// One line without the arrow. All else stays as it is: no token of the text can be a control token
/// (see [`Prompt`]), and the model has learnt from texts as they are.
fn plain(text: &str) -> String {
    one_line(text).replace("=>", "->")
}

/// Sub-questions and sub-answers of the training are far shorter; a reader that rambles must not fill the
/// context.
fn cut(mut text: String) -> String {
    text.truncate(beginning(&text).len());
    text
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
