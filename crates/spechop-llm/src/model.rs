//! What every engine does: continue a conversation or a text, greedily, until a stop text appears.

use std::ops::{Deref, Range};
use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::{Call, PortError};
use spechop_types::{Chance, Tokens};

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The instructions.
    System,
    /// The asking side.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub text: Arc<str>,
}

/// What is to be continued. Nothing that stands in a text or a message is ever read as a control
/// token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A conversation, by the model's chat template.
    Chat(Chat),
    /// A text as it stands, without template or beginning-of-sequence token: for models that were
    /// trained on a form of their own. Only an engine in this process can be sure to do so.
    Text(Text),
}

/// A text that grows, and what of it the model has written itself.
///
/// Between what a model reads and what it writes there is a difference in the last bits: it reads many
/// tokens at once, and writes one after the other. An engine that still has what it has computed
/// while it wrote can go on from that, and must not depend on whether it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    text: Arc<str>,
    written: Arc<[Range<usize>]>,
}

impl Text {
    /// `written` are ranges of bytes, ascending.
    pub fn new(text: impl Into<Arc<str>>, written: impl Into<Arc<[Range<usize>]>>) -> Self {
        Self {
            text: text.into(),
            written: written.into(),
        }
    }

    /// Whether the model has written these bytes.
    pub(crate) fn is_written(&self, bytes: &Range<usize>) -> bool {
        let holds =
            |written: &Range<usize>| written.start <= bytes.start && bytes.end <= written.end;
        self.written.iter().any(holds)
    }
}

/// Nothing of it was written by the model.
impl<T: Into<Arc<str>>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::new(text, [])
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// A conversation to be continued with one assistant message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    /// The conversation; the last message is the user's.
    pub messages: Vec<Message>,
    /// How many leading messages are the same in every generation of this kind (instructions,
    /// worked examples): an engine may keep them processed.
    pub fixed: usize,
}

impl Prompt {
    /// All that it says, control tokens and template aside.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let (messages, text) = match self {
            Self::Chat(chat) => (chat.messages.as_slice(), None),
            Self::Text(text) => (&[] as &[_], Some(&**text)),
        };
        messages.iter().map(|message| &*message.text).chain(text)
    }
}

/// A prompt, and where to stop.
#[derive(Clone, Debug)]
pub struct Generation {
    /// What is to be continued.
    pub prompt: Prompt,
    /// Most tokens to generate, thoughts before the text aside.
    pub tokens_max: u32,
    /// Generation ends as soon as the text contains one of these; it is kept in the text.
    pub stop: &'static [&'static str],
    /// What the text may be, the likeliest first. An engine may generate it sooner for that, but it generates
    /// what it would have generated.
    pub drafts: Vec<TextDraft>,
    /// 0 is the greedy text. For any other number an engine may draw another likely text in its place, if
    /// it can; ours draws the same one whenever it is asked for.
    pub sample: u32,
}

/// A text that somebody expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDraft {
    /// The whole text, with the stop text that ends it.
    pub text: Arc<str>,
    /// How likely the text is to be just that; `None` if nobody has counted.
    pub chance: Option<Chance>,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A stop text appeared.
    Stop,
    /// The model ended its turn.
    Turn,
    /// The token limit was reached.
    Length,
}

/// What a model said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The text up to and including the stop text, if one appeared.
    pub text: String,
    /// Why it ended.
    pub end: End,
    /// The geometric mean, over its tokens, of the chance against the next likeliest token, 0.5 to 1;
    /// of a text that was drawn it may be less.
    /// `None` if the engine cannot tell.
    pub certainty: Option<Chance>,
    /// What it cost.
    pub tokens: Tokens,
}

/// A language model, decoding greedily ([`Generation::sample`] aside).
#[async_trait]
pub trait TextModel: Send + Sync {
    /// For messages and metrics: the model's name and where it runs, no secrets.
    fn name(&self) -> &str;

    /// Continues the prompt. Returns the moment a stop text is complete; dropping the future
    /// ends the generation (a remote one by closing its connection). An engine that cannot continue
    /// a bare text refuses one.
    async fn generate(&self, call: &Call, generation: Generation) -> Result<Generated, PortError>;

    /// Whether it draws other texts for other samples ([`Generation::sample`]).
    fn draws_samples(&self) -> bool {
        false
    }

    /// Makes a later generation of this kind begin sooner, without generating.
    async fn warm(&self, _call: &Call, _generation: Generation) -> Result<(), PortError> {
        Ok(())
    }
}
