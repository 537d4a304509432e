//! Everything that is said to a language model, and how its answers are read.
//!
//! Instructions and worked examples come first and never change, so that an engine can keep them
//! processed ([`Chat::fixed`]); what varies comes last and is short. Every text from outside
//! passes through [`clean`]. The examples are invented, or known to all: none is from a data set.

mod beginning;
mod clean;
mod corag;
mod parse;
mod rewrite;
mod tagged;

use std::fmt::Write as _;
use std::sync::LazyLock;

use spechop_ports::{GuessRequest, PlanRequest, ReadRequest};
use spechop_types::{Draft, Observation, Passage, SubQuestion, canonical};

use crate::{Chat, Generation, Message, Prompt, Role, TextDraft};
use clean::{clean, clean_cut};

pub(crate) use beginning::{beginning, whole_question};
pub(crate) use parse::{Flaw, guessed, has_found, has_substance, reading, step};
pub(crate) use rewrite::{rewrite, rewritten};

/// Most tokens of a sub-question, an answer and a guess, as in the SpecHop paper.
pub(crate) const SUB_QUESTION_TOKENS_MAX: u32 = 64;
pub(crate) const ANSWER_TOKENS_MAX: u32 = 128;
const GUESS_TOKENS_MAX: u32 = 16;

/// What a reader says where the passages do not hold the answer.
pub(crate) const NOT_THERE: &str = Observation::NOTHING;

/// Whether such words stand in a sub-question, where a name belongs: nothing can be found about them.
pub(crate) fn asks_about_nothing(asked: &SubQuestion) -> bool {
    asked.key().contains(&canonical(NOT_THERE))
}

/// Most characters of a flawed output that a repair shows to the model again.
const REPAIR_CHARS_MAX: usize = 400;

/// How a generator is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PromptStyle {
    /// Worked examples and tags: for any instruction-tuned model.
    #[default]
    Tagged,
    /// Intermediate queries and answers, bare text: for models trained the CoRAG way
    /// (arXiv 2501.14342).
    Corag,
}

/// How much of the passages a reader is shown, and how much it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Most passages, best first.
    pub passages: usize,
    /// Most characters of one passage; the rest is cut off.
    pub passage_chars: usize,
    /// Most tokens of the answer.
    pub answer_tokens: u32,
    /// Whether a model that cannot take that much is shown less. If not, the reading fails, and another reader can take
    /// the whole.
    pub shortens: bool,
}

impl Default for ReadLimits {
    /// Five passages, as in the SpecHop paper, each of 2,000 characters: some 2,500 tokens in all.
    fn default() -> Self {
        Self {
            passages: 5,
            passage_chars: 2_000,
            answer_tokens: ANSWER_TOKENS_MAX,
            shortens: true,
        }
    }
}

impl ReadLimits {
    /// These limits, and what to try in turn if a model cannot take what they allow of these passages: half as
    /// many, best first, down to one, and then a half and a quarter of that one. They depend on nothing but the
    /// passages, so what is read ahead of need is what would be read for an answer. None if nothing is shown, and one
    /// if nothing is shortened.
    pub(crate) fn ever_less(self, passages: &[Passage]) -> Vec<Self> {
        let mut shown = self.passages.min(passages.len());
        let mut tries = Vec::new();
        while shown > 0 {
            tries.push(Self {
                passages: shown,
                ..self
            });
            shown /= 2;
            if !self.shortens {
                return tries;
            }
        }
        if let (Some(one), Some(best)) = (tries.last().copied(), passages.first()) {
            // Of what there is of it: half of a limit that it does not reach would be no less.
            let chars = best.text.chars().take(self.passage_chars).count();
            let parts = [chars / 2, chars / 4].into_iter();
            let parts = parts.filter(|chars| *chars > 0);
            tries.extend(parts.map(|passage_chars| Self {
                passage_chars,
                ..one
            }));
        }
        tries
    }
}

/// The paper's form (its appendix on prompts): a terse line, and four examples of a performer, an origin, a
/// date of birth, and yes or no. The answer's tag is opened for the model.
static GUESS: LazyLock<Vec<Message>> = LazyLock::new(|| {
    let examples = [
        ("Who performed the song Imagine?", "John Lennon"),
        ("Which country does the band ABBA come from?", "Sweden"),
        ("When was Marie Curie born?", "7 November 1867"),
        ("Is Mount Everest higher than K2?", "yes"),
    ];
    let mut messages = vec![message(
        Role::System,
        "You are a fast assistant. Answer from memory with a name, a date, a place, yes or no, and \
         nothing else. If you have no idea, answer: unknown"
            .to_owned(),
    )];
    for (question, answer) in examples {
        messages.push(message(Role::User, asked_for_a_guess(question)));
        messages.push(message(Role::Assistant, format!("{answer}</answer>")));
    }
    messages
});

fn asked_for_a_guess(question: &str) -> String {
    format!("<question>{question}</question>\n<answer>")
}

/// Asks for the next step.
pub(crate) fn plan(style: PromptStyle, request: &PlanRequest) -> Generation {
    match style {
        PromptStyle::Tagged => tagged::plan(request),
        PromptStyle::Corag => corag::plan(request),
    }
}

/// Asks for the answer that passages give.
pub(crate) fn read(style: PromptStyle, request: &ReadRequest, limits: ReadLimits) -> Generation {
    match style {
        PromptStyle::Tagged => tagged::read(request, limits),
        PromptStyle::Corag => corag::read(request, limits),
    }
}

/// Asks for a guess without passages: one short line.
pub(crate) fn guess(request: &GuessRequest) -> Generation {
    let text = asked_for_a_guess(&clean(request.sub_question.as_str()));
    generation(&GUESS, text, GUESS_TOKENS_MAX, &["\n", "</answer>"])
}

/// Continues a conversation: messages that never change, and one of the user.
fn generation(
    fixed: &[Message],
    text: String,
    tokens_max: u32,
    stop: &'static [&'static str],
) -> Generation {
    let mut messages = fixed.to_vec();
    messages.push(message(Role::User, text));
    Generation {
        prompt: Prompt::Chat(Chat {
            messages,
            fixed: fixed.len(),
        }),
        tokens_max,
        stop,
        drafts: Vec::new(),
        sample: 0,
    }
}

/// A sub-question as a planner of this style writes it.
pub(crate) fn written(style: PromptStyle, draft: &Draft) -> TextDraft {
    let sub_question = draft.sub_question.as_str();
    TextDraft {
        text: match style {
            PromptStyle::Tagged => format!("<question>{sub_question}</question>").into(),
            PromptStyle::Corag => sub_question.into(),
        },
        chance: Some(draft.chance),
    }
}

/// Shows the model its flawed output and says what is wrong with it.
pub(crate) fn repair(mut generation: Generation, said: &str, complaint: &str) -> Generation {
    // What it was expected to be was flawed, or it is not what the model writes.
    generation.drafts.clear();
    let mut said = clean_cut(said, REPAIR_CHARS_MAX);
    // Our own tags may stand there: they are what the model should write.
    for tag in ["question>", "answer>"] {
        said = said
            .replace(&format!("‹{tag}"), &format!("<{tag}"))
            .replace(&format!("‹/{tag}"), &format!("</{tag}"));
    }
    if said.is_empty() {
        said.push('…');
    }
    // A bare text has nobody in it to complain to: its form is its own.
    if let Prompt::Chat(chat) = &mut generation.prompt {
        chat.messages.push(message(Role::Assistant, said));
        chat.messages
            .push(message(Role::User, complaint.to_owned()));
    }
    generation
}

/// The passages, one a line, numbered.
fn evidence(passages: &[Passage], limits: ReadLimits) -> String {
    let mut text = String::new();
    for (passage, n) in passages.iter().take(limits.passages).zip(1..) {
        let title = clean_cut(&passage.title, 200);
        let body = clean_cut(&passage.text, limits.passage_chars);
        // Writing to a string does not fail.
        let _ = writeln!(text, "[{n}] {title}: {body}");
    }
    text
}

/// Instructions and worked examples, made once.
fn pinned(system: &'static str, examples: &[(&'static str, &'static str)]) -> Vec<Message> {
    let mut messages = vec![message(Role::System, system.to_owned())];
    for (user, assistant) in examples {
        messages.push(message(Role::User, (*user).to_owned()));
        messages.push(message(Role::Assistant, (*assistant).to_owned()));
    }
    messages
}

fn message(role: Role, text: String) -> Message {
    Message {
        role,
        text: text.into(),
    }
}
