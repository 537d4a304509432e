//! Texts to tokens, prefixed and cut as the recipe says.

use std::path::Path;
use std::sync::{Arc, Weak};

use spechop_ports::PortError;
use tokenizers::Tokenizer;

use crate::describe::Described;
use crate::{OpenError, RECIPE_FILE, Recipe};

/// No text is read further than this many bytes for each token it may have. Ordinary text has four
/// to six; a megabyte of blanks must not cost a megabyte of work.
const BYTES_PER_TOKEN_MAX: usize = 64;

/// As much of `text` as so many tokens can come from.
pub(crate) fn head(text: &str, tokens_max: usize) -> &str {
    &text[..text.floor_char_boundary(tokens_max * BYTES_PER_TOKEN_MAX)]
}

/// The tokenizer of a model folder, without limits of its own: the recipe's hold.
pub(crate) fn open_tokenizer(path: &Path) -> Result<Tokenizer, OpenError> {
    let bytes = std::fs::read(path).map_err(|source| OpenError::Read {
        path: path.to_owned(),
        source,
    })?;
    let mut tokenizer =
        Tokenizer::from_bytes(bytes).map_err(|error| unusable_tokenizer(path, one_line(&error)))?;
    tokenizer.with_padding(None);
    tokenizer
        .with_truncation(None)
        .map_err(|error| unusable_tokenizer(path, one_line(&error)))?;
    Ok(tokenizer)
}

pub(crate) fn unusable_tokenizer(path: &Path, detail: String) -> OpenError {
    OpenError::Tokenizer {
        path: path.to_owned(),
        detail,
    }
}

/// The largest token id that can come out of a tokenizer.
pub(crate) fn largest_token(tokenizer: &Tokenizer) -> u32 {
    let vocabulary = tokenizer.get_vocab(true);
    vocabulary.into_values().max().unwrap_or(0)
}

/// Runs `cut` on a blocking thread. When the caller leaves, what `cut` watches goes, so that long
/// work can end early.
pub(crate) async fn off_the_runtime<C: Send + Sync + 'static, T: Send + 'static>(
    cutter: &Arc<C>,
    what: &str,
    cut: impl FnOnce(&C, &Weak<()>) -> Result<T, String> + Send + 'static,
) -> Result<T, PortError> {
    let cutter = Arc::clone(cutter);
    let wanted = Arc::new(());
    let watch = Arc::downgrade(&wanted);
    let done = tokio::task::spawn_blocking(move || cut(&cutter, &watch)).await;
    drop(wanted);
    done.map_err(|error| PortError::unavailable(what, error))?
        .map_err(|detail| PortError::refused(what, detail))
}

/// The tokenizer with the recipe's prefixes and limits around it.
pub(crate) struct TextCutter {
    tokenizer: Tokenizer,
    query_prefix: String,
    query_tokens_max: usize,
    passage_prefix: String,
    passage_tokens_max: usize,
}

impl TextCutter {
    pub(crate) fn open(path: &Path, recipe: &Recipe) -> Result<Self, OpenError> {
        let tokenizer = open_tokenizer(path)?;
        let cutter = Self {
            tokenizer,
            query_prefix: recipe.query_prefix.clone(),
            query_tokens_max: recipe.query_tokens_max,
            passage_prefix: recipe.passage_prefix.clone(),
            passage_tokens_max: recipe.passage_tokens_max,
        };
        let unusable = |detail| unusable_tokenizer(path, detail);
        let empty = cutter
            .cut("", "", recipe.query_tokens_max)
            .map_err(unusable)?;
        if empty.is_empty() {
            // Nothing to pool: the vector of an empty text would be a division by zero.
            return Err(unusable("it adds no special tokens to a text".to_owned()));
        }
        let kinds = [
            ("query", cutter.query(""), recipe.query_tokens_max),
            ("passage", cutter.passage(""), recipe.passage_tokens_max),
        ];
        for (kind, prefix, tokens_max) in kinds {
            if prefix.map_err(unusable)?.len() >= tokens_max {
                // All texts would have one vector.
                return Err(OpenError::Recipe {
                    path: path.with_file_name(RECIPE_FILE),
                    what: Recipe::WHAT,
                    detail: format!("`{kind}_prefix` fills `{kind}_tokens_max`: no text has room"),
                });
            }
        }
        Ok(cutter)
    }

    /// The tokens of a query: at least one, at most the recipe's limit.
    pub(crate) fn query(&self, text: &str) -> Result<Vec<u32>, String> {
        self.cut(&self.query_prefix, text, self.query_tokens_max)
    }

    /// The tokens of a passage: at least one, at most the recipe's limit.
    pub(crate) fn passage(&self, text: &str) -> Result<Vec<u32>, String> {
        self.cut(&self.passage_prefix, text, self.passage_tokens_max)
    }

    /// The largest token id that can come out of here.
    pub(crate) fn largest_token(&self) -> u32 {
        largest_token(&self.tokenizer)
    }

    /// Cuts ordinary tokens off the end until what is left, special tokens included, fits.
    fn cut(&self, prefix: &str, text: &str, tokens_max: usize) -> Result<Vec<u32>, String> {
        let whole = [prefix, head(text, tokens_max)].concat();
        let encoding = self
            .tokenizer
            .encode_fast(whole, true)
            .map_err(|error| one_line(&error))?;
        let special = encoding.get_special_tokens_mask();
        let special_count = special.iter().filter(|&&mark| mark == 1).count();
        let mut room = tokens_max.saturating_sub(special_count);
        let mut tokens = Vec::with_capacity(tokens_max.min(encoding.len()));
        for (&id, &mark) in encoding.get_ids().iter().zip(special) {
            if mark == 0 {
                if room == 0 {
                    continue;
                }
                room -= 1;
            }
            tokens.push(id);
        }
        Ok(tokens)
    }
}

/// An error of a library on one line.
pub(crate) fn one_line(error: &impl ToString) -> String {
    spechop_types::one_line(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pooling;
    use spechop_testkit::assets::shipped_model;

    /// Reads texts as E5 does: the shipped reader has the same tokenizer.
    fn cutter() -> TextCutter {
        open(&recipe()).expect("a tokenizer")
    }

    fn open(recipe: &Recipe) -> Result<TextCutter, OpenError> {
        let path = shipped_model("spechop-reader").join(&recipe.tokenizer);
        TextCutter::open(&path, recipe)
    }

    fn recipe() -> Recipe {
        Recipe {
            name: "bert".to_owned(),
            model: "model.onnx".to_owned(),
            tokenizer: "tokenizer.json".to_owned(),
            query_prefix: "query: ".to_owned(),
            passage_prefix: "passage: ".to_owned(),
            pooling: Pooling::Mean,
            width: 384,
            query_tokens_max: 64,
            passage_tokens_max: 512,
            alone: false,
        }
    }

    #[test]
    fn texts_are_prefixed_wrapped_and_cut() {
        let cutter = cutter();
        let (cls, sep) = (101, 102);
        // [CLS] query : who [SEP]
        assert_eq!(
            cutter.query("who").expect("tokens"),
            [cls, 23032, 1024, 2040, sep]
        );
        for (text, length) in [
            (String::new(), 4),
            ("film ".repeat(60), 64),
            ("film ".repeat(61), 64),
            ("film ".repeat(10_000), 64),
            (" ".repeat(1_000_000), 4),
            ("é".repeat(200_000), 5),
        ] {
            let tokens = cutter.query(&text).expect("tokens");
            let start: String = text.chars().take(8).collect();
            assert_eq!(tokens.len(), length, "{start:?} × {}", text.len());
            assert_eq!((tokens[0], tokens[length - 1]), (cls, sep));
        }
        let long = cutter.passage(&"film ".repeat(600)).expect("tokens");
        assert_eq!((long.len(), long[511]), (512, sep));
    }

    #[test]
    fn a_prefix_leaves_room_for_a_text() {
        // With what stands around a text, one token less than there may be, as many, and more.
        for (words, fits) in [(61, true), (62, false), (100, false)] {
            let prefixed = Recipe {
                query_prefix: "film ".repeat(words),
                ..recipe()
            };
            let said = open(&prefixed).err().map(|error| error.to_string());
            assert_eq!(said.is_none(), fits, "{words}: {said:?}");
            let names_it = |said: &String| {
                said.contains("encoder.toml") && said.contains("`query_prefix` fills")
            };
            assert!(said.iter().all(names_it), "{said:?}");
        }
    }

    #[test]
    fn special_tokens_in_a_text_do_not_outwit_the_limit() {
        let tokens = cutter().query(&"[SEP] ".repeat(100)).expect("tokens");
        assert_eq!(tokens.len(), 64);
    }
}
