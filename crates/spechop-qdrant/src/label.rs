//! What a collection says about itself, and whether that fits.

use std::collections::HashMap;

use qdrant_client::qdrant::{CollectionInfo, Value, vectors_config};
use serde::{Deserialize, Serialize};
use spechop_store::{Inputs, PassageIndex};

/// The key of the label among the metadata of a collection.
const KEY: &str = "spechop";
/// The version of everything that a push writes.
const FORMAT: u64 = 1;

/// What a collection was filled with. `spechop index push` writes it, and everybody who opens the
/// collection reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    format: u64,
    /// Fingerprint of the encoder, with its prefixes.
    pub encoder: String,
    /// Components of a vector.
    pub width: usize,
    /// How the text that was encoded is made of a passage's fields, in words.
    pub text: String,
    /// SHA-256 of the corpus; of a subset of it, with a slash and that of what ranks the passages, since two subsets
    /// may be equally large.
    pub corpus_sha256: String,
    /// Share of the corpus that is in; 1 for all of it.
    pub fraction: f64,
    /// Number of passages when the push has finished.
    pub passages: usize,
    /// Whether the push has finished.
    pub complete: bool,
}

/// Why a collection cannot be used for this. Its text ends with what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misfit {
    /// It is not ours, or was made by a server that drops metadata.
    #[error(
        "it was not filled by `spechop index push`, so its encoder is unknown: name another \
         collection, and fill that"
    )]
    Unlabelled,
    /// Another version of this program filled it.
    #[error(
        "it is of format {found}, and this program knows format {FORMAT}: fill another collection \
         with `spechop index push`"
    )]
    Format { found: u64 },
    /// The label is ours and cannot be read.
    #[error("its label cannot be read ({0}): fill another collection with `spechop index push`")]
    Damaged(String),
    #[error(
        "it was filled by encoder {built_with}, but the encoder in use is {in_use}: push an index \
         of the encoder in use to another collection, and name that one"
    )]
    Encoder { built_with: String, in_use: String },
    #[error(
        "its vectors have {found} components, but those of the encoder have {wanted}: push an \
         index of the encoder in use to another collection, and name that one"
    )]
    Width { found: u64, wanted: usize },
    #[error(
        "it holds another corpus: push to another collection, and let an alias point to it once \
         the push has finished"
    )]
    Corpus,
    #[error("its push has not finished: run the same `spechop index push` again, which resumes it")]
    Unfinished,
}

impl Label {
    /// Of a collection that is about to be filled with this index.
    pub(crate) fn of(index: &PassageIndex) -> Self {
        Self::new(index.inputs(), index.rows())
    }

    fn new(inputs: &Inputs, passages: usize) -> Self {
        let subset = inputs.subset.as_ref();
        Self {
            format: FORMAT,
            encoder: inputs.encoder.clone(),
            width: inputs.width,
            text: inputs.text.clone(),
            corpus_sha256: match subset {
                None => inputs.corpus_sha256.clone(),
                Some(subset) => format!("{}/{}", inputs.corpus_sha256, subset.in_degree_sha256),
            },
            fraction: subset.map_or(1.0, |subset| subset.fraction),
            passages,
            complete: false,
        }
    }

    /// As metadata of a collection.
    pub(crate) fn metadata(&self) -> HashMap<String, Value> {
        // A struct of strings and numbers always serialises.
        let json = serde_json::to_value(self).unwrap_or_default();
        HashMap::from([(KEY.to_owned(), Value::from(json))])
    }

    /// The label of a collection.
    pub(crate) fn read(info: &CollectionInfo) -> Result<Self, Misfit> {
        let config = info.config.as_ref();
        let value = config.and_then(|config| config.metadata.get(KEY));
        let json = serde_json::Value::from(value.cloned().ok_or(Misfit::Unlabelled)?);
        match json.get("format").and_then(serde_json::Value::as_u64) {
            Some(FORMAT) => {}
            Some(found) => return Err(Misfit::Format { found }),
            None => return Err(Misfit::Damaged("it names no format".to_owned())),
        }
        serde_json::from_value(json).map_err(|error| Misfit::Damaged(error.to_string()))
    }

    /// Whether an encoder can be used to search this collection.
    pub(crate) fn fits(
        &self,
        info: &CollectionInfo,
        encoder: &str,
        width: usize,
    ) -> Result<(), Misfit> {
        if self.encoder != encoder {
            return Err(Misfit::Encoder {
                built_with: self.encoder.clone(),
                in_use: encoder.to_owned(),
            });
        }
        let found = vector_width(info).unwrap_or_default();
        if u64::try_from(width).ok() != Some(found) {
            return Err(Misfit::Width {
                found,
                wanted: width,
            });
        }
        match self.complete {
            true => Ok(()),
            false => Err(Misfit::Unfinished),
        }
    }

    /// Whether a push of `other` belongs into this collection.
    pub(crate) fn takes(&self, info: &CollectionInfo, other: &Self) -> Result<(), Misfit> {
        let mut whole = self.clone();
        whole.complete = true;
        whole.fits(info, &other.encoder, other.width)?;
        let same = Self {
            complete: other.complete,
            ..self.clone()
        };
        match same == *other {
            true => Ok(()),
            false => Err(Misfit::Corpus),
        }
    }
}

/// Components of the unnamed vector of a collection; `None` if it has none.
pub(crate) fn vector_width(info: &CollectionInfo) -> Option<u64> {
    let vectors = info
        .config
        .as_ref()?
        .params
        .as_ref()?
        .vectors_config
        .as_ref()?;
    match vectors.config.as_ref()? {
        vectors_config::Config::Params(params) => Some(params.size),
        vectors_config::Config::ParamsMap(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use qdrant_client::qdrant::{CollectionConfig, CollectionParams, VectorParams, VectorsConfig};

    use spechop_store::Subset;

    use super::*;

    fn label() -> Label {
        Label {
            format: FORMAT,
            encoder: "e5".into(),
            width: 4,
            text: "title, newline, text".into(),
            corpus_sha256: "c0".into(),
            fraction: 0.25,
            passages: 7,
            complete: true,
        }
    }

    fn info(metadata: HashMap<String, Value>, size: u64) -> CollectionInfo {
        let params = VectorParams {
            size,
            ..VectorParams::default()
        };
        let vectors = VectorsConfig {
            config: Some(vectors_config::Config::Params(params)),
        };
        CollectionInfo {
            config: Some(CollectionConfig {
                params: Some(CollectionParams {
                    vectors_config: Some(vectors),
                    ..CollectionParams::default()
                }),
                metadata,
                ..CollectionConfig::default()
            }),
            ..CollectionInfo::default()
        }
    }

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let label = label();
        assert_eq!(Label::read(&info(label.metadata(), 4)), Ok(label));
    }

    #[test]
    fn a_collection_of_somebody_else_is_not_read() {
        let of = |json: serde_json::Value| {
            let metadata = HashMap::from([(KEY.to_owned(), Value::from(json))]);
            Label::read(&info(metadata, 4)).unwrap_err()
        };
        let other = HashMap::from([("other".to_owned(), Value::from(7))]);
        assert_eq!(Label::read(&info(other, 4)), Err(Misfit::Unlabelled));
        let none = Label::read(&CollectionInfo::default());
        assert_eq!(none, Err(Misfit::Unlabelled));
        let newer = serde_json::json!({ "format": 2, "colour": "blue" });
        assert_eq!(of(newer), Misfit::Format { found: 2 });
        for json in [
            serde_json::json!("spechop"),
            serde_json::json!({ "encoder": "e5" }),
            serde_json::json!({ "format": 1, "encoder": "e5" }),
        ] {
            assert!(matches!(of(json), Misfit::Damaged(_)));
        }
    }

    #[test]
    fn only_the_encoder_that_filled_it_searches_a_finished_collection() {
        let check = |label: &Label, encoder: &str, width: usize, size: u64| {
            let info = info(label.metadata(), size);
            label.fits(&info, encoder, width).err()
        };
        let whole = label();
        assert_eq!(check(&whole, "e5", 4, 4), None);
        let other = check(&whole, "gte", 4, 4);
        assert!(matches!(other, Some(Misfit::Encoder { .. })), "{other:?}");
        for (width, size, found) in [(5, 4, 4), (4, 5, 5)] {
            let wanted = Some(Misfit::Width {
                found,
                wanted: width,
            });
            assert_eq!(check(&whole, "e5", width, size), wanted);
        }
        let mut begun = whole;
        begun.complete = false;
        assert_eq!(check(&begun, "e5", 4, 4), Some(Misfit::Unfinished));
        let info = info(begun.metadata(), 4);
        assert_eq!(label().takes(&info, &begun), Ok(()), "a push resumes it");
    }

    #[test]
    fn two_subsets_of_one_size_are_two() {
        let of = |ranks: &str| {
            let subset = Subset {
                fraction: 0.25,
                in_degree_sha256: ranks.into(),
            };
            let inputs = Inputs {
                corpus_sha256: "c0".into(),
                encoder: "e5".into(),
                width: 4,
                text: "title, newline, text".into(),
                batch_rows: 1,
                shard_rows: 7,
                subset: Some(subset),
                extended: false,
                part: None,
            };
            Label::new(&inputs, 7)
        };
        let info = info(of("r0").metadata(), 4);
        assert_eq!(of("r0").takes(&info, &of("r0")), Ok(()));
        assert_eq!(of("r0").takes(&info, &of("r1")), Err(Misfit::Corpus));
    }

    #[test]
    fn another_corpus_belongs_into_another_collection() {
        let whole = label();
        let info = info(whole.metadata(), 4);
        type Change = fn(&mut Label);
        let changes: [(Change, Misfit); 5] = [
            (|other| other.corpus_sha256 = "c1".into(), Misfit::Corpus),
            (|other| other.passages = 8, Misfit::Corpus),
            (|other| other.fraction = 1.0, Misfit::Corpus),
            (|other| other.text = "text".into(), Misfit::Corpus),
            (
                |other| other.encoder = "gte".into(),
                Misfit::Encoder {
                    built_with: "e5".into(),
                    in_use: "gte".into(),
                },
            ),
        ];
        for (change, misfit) in changes {
            let mut other = whole.clone();
            other.complete = false;
            assert_eq!(whole.takes(&info, &other), Ok(()));
            change(&mut other);
            assert_eq!(whole.takes(&info, &other), Err(misfit));
        }
    }
}
