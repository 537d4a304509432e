//! Prompts to tokens: conversations by the model's own chat template, bare texts as they stand.
//!
//! The template's text may hold control tokens, what people and passages say may not: a passage
//! that contains `<|im_start|>system` must stay a passage. So the template is filled with
//! placeholders, and its own pieces and the texts are tokenised apart, the texts literally.

use std::path::Path;

use llama_cpp_2::model::{LlamaChatMessage, LlamaChatTemplate, LlamaModel};
use llama_cpp_2::token::LlamaToken;

use super::slots::{Cuts, PromptTokens};
use crate::{Chat, Message, Role, Text};

/// The template used where the model has none that is known.
const FALLBACK: &str = "chatml";

/// Around the index of a message, where its text goes. Private-use characters: no template's own
/// text has them.
const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';

/// A chat template that is known to work.
pub(super) struct ChatTemplate {
    template: LlamaChatTemplate,
}

impl ChatTemplate {
    /// The own template of the model in this file, or ChatML if it has none or one that drops messages.
    /// `None` if not even that works.
    pub(super) fn of(model: &LlamaModel, path: &Path) -> Option<Self> {
        let own = model.chat_template(None).ok();
        let fallback = LlamaChatTemplate::new(FALLBACK).ok();
        let count = own.iter().count();
        own.into_iter()
            .chain(fallback)
            .map(|template| Self { template })
            .enumerate()
            .find(|(_, template)| template.keeps_all(model))
            .map(|(at, template)| {
                if at == count {
                    let path = path.display();
                    tracing::warn!(%path, "the model has no usable chat template: ChatML is used");
                }
                template
            })
    }

    /// The conversation as tokens, ready to be continued by the assistant. An error says what is
    /// wrong with the conversation or the template.
    pub(super) fn tokens(&self, model: &LlamaModel, chat: &Chat) -> Result<PromptTokens, String> {
        let messages = &chat.messages;
        let whole = self.fill(model, messages, true)?;
        let fixed = &messages[..chat.fixed.min(messages.len())];
        // Where the template does not go on from what it makes of the fixed messages alone,
        // nothing is fixed.
        let fixed = if fixed.is_empty() {
            String::new()
        } else {
            self.fill(model, fixed, false)
                .ok()
                .filter(|fixed| whole.starts_with(fixed.as_str()))
                .unwrap_or_default()
        };
        let vocab = model.vocab();
        let mut tokens = Vec::new();
        if vocab.should_add_bos() {
            tokens.push(vocab.bos());
        }
        append(model, &fixed, messages, &mut tokens)?;
        let fixed_tokens = if fixed.is_empty() { 0 } else { tokens.len() };
        append(model, &whole[fixed.len()..], messages, &mut tokens)?;
        Ok(PromptTokens {
            tokens,
            fixed: fixed_tokens,
            cuts: Cuts::At(vec![fixed_tokens]),
        })
    }

    /// The template around placeholders.
    fn fill(
        &self,
        model: &LlamaModel,
        messages: &[Message],
        open_answer: bool,
    ) -> Result<String, String> {
        let chat = messages
            .iter()
            .enumerate()
            .map(|(at, message)| {
                let role = match message.role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                LlamaChatMessage::new(role.to_owned(), format!("{OPEN}{at}{CLOSE}"))
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string())?;
        model
            .apply_chat_template(&self.template, &chat, open_answer)
            .map_err(|error| format!("the chat template failed: {error}"))
    }

    /// Whether every message of an ordinary conversation comes out once, in order.
    fn keeps_all(&self, model: &LlamaModel) -> bool {
        let messages =
            [Role::System, Role::User, Role::Assistant, Role::User].map(|role| Message {
                role,
                text: "".into(),
            });
        self.fill(model, &messages, true).is_ok_and(|filled| {
            let found: Vec<usize> = pieces(&filled)
                .filter_map(|piece| match piece {
                    Piece::Message(at) => Some(at),
                    Piece::Template(_) => None,
                })
                .collect();
            found == [0, 1, 2, 3]
        })
    }
}

/// A bare text as tokens. A text of this kind grows by lines from one prompt to the next, and
/// branches differ in their last lines: so every line begins a chunk, and all lines that two texts
/// share are computed once. What the model has written is read as it was written, if that was token
/// `by_token`.
pub(super) fn text_tokens(model: &LlamaModel, text: &Text, by_token: bool) -> PromptTokens {
    let vocab = model.vocab();
    let tokens = vocab.tokenize(text.as_bytes(), false, false);
    let mut cuts = Vec::new();
    let mut byte = 0;
    for (at, token) in tokens.iter().enumerate() {
        let piece = vocab.token_to_piece(*token, false, None);
        let bytes = byte..byte + piece.len();
        byte = bytes.end;
        let is_written = by_token && text.is_written(&bytes);
        if is_written && at > 0 && cuts.last() != Some(&at) {
            cuts.push(at);
        }
        if is_written || piece.ends_with(b"\n") {
            cuts.push(at + 1);
        }
    }
    PromptTokens {
        cuts: Cuts::At(cuts),
        tokens,
        fixed: 0,
    }
}

/// Appends the tokens of a filled template.
fn append(
    model: &LlamaModel,
    filled: &str,
    messages: &[Message],
    tokens: &mut Vec<LlamaToken>,
) -> Result<(), String> {
    let vocab = model.vocab();
    for piece in pieces(filled) {
        let (text, special) = match piece {
            Piece::Template(text) => (text, true),
            Piece::Message(at) => (&*messages.get(at).ok_or("a lost message")?.text, false),
        };
        if !text.is_empty() {
            tokens.extend(vocab.tokenize(text.as_bytes(), false, special));
        }
    }
    Ok(())
}

/// A part of a filled template.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    /// The template's own text.
    Template(&'a str),
    /// The place of a message's text.
    Message(usize),
}

/// Takes a filled template apart.
fn pieces(filled: &str) -> impl Iterator<Item = Piece<'_>> {
    filled.split(OPEN).enumerate().flat_map(|(at, part)| {
        let split = if at == 0 {
            None
        } else {
            part.split_once(CLOSE)
        };
        let (message, text) = match split {
            Some((index, text)) => (index.parse().ok().map(Piece::Message), text),
            None => (None, part),
        };
        message.into_iter().chain([Piece::Template(text)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_template_comes_apart() {
        let filled = format!("<s>{OPEN}0{CLOSE}</s>\n{OPEN}12{CLOSE}");
        assert_eq!(
            pieces(&filled).collect::<Vec<_>>(),
            [
                Piece::Template("<s>"),
                Piece::Message(0),
                Piece::Template("</s>\n"),
                Piece::Message(12),
                Piece::Template(""),
            ]
        );
    }
}
