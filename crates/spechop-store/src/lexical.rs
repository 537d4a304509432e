//! Words beside vectors: the scores of a search are mixed with BM25.
//!
//! ```text
//! score = cosine + weight × share        share = BM25 score / the bound of the query's scores
//! ```
//!
//! The share is from 0 to 1 whatever the length of the query and the size of the index, so one weight
//! serves all of them. Every row has its share before the scan begins, so a search stays exact: no
//! row is missed because another search did not propose it.
//!
//! Postings are built from the passages when the index is opened, and are never stored: they cannot
//! belong to other rows. `crates/spechop-lexical/benches/ranking.rs` says what that takes.

use std::fmt;
use std::str::FromStr;

use spechop_lexical::{Bm25, Builder};

use crate::error::Fault;
use crate::rows::Rows;
use crate::shard::PassageRef;

/// Fitted by `spechop eval fit-words`; docs/MEASURED.md says on what, and what it brings.
const FITTED: f32 = 0.2;
/// Search engines go by words. docs/TRIED.md, "Over a local web".
const FITTED_FOR_WEB: f32 = 0.5;
/// The postings of so many passages take three seconds of a core at the start, and 12 MB.
const PASSAGES_MAX: usize = 50_000;
/// A larger weight would leave nothing to the vectors.
const WEIGHT_MAX: f32 = 10.0;

/// How much the words of a query count beside its vector. Written `auto`, or as a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LexicalWeight {
    /// As fitted on other questions, if the index is so small that the start is not held up.
    Auto,
    /// The same, of an index that guesses what a search engine of the web finds.
    AutoForWeb,
    /// From 0, which is not at all, to 10.
    Fixed(f32),
}

impl LexicalWeight {
    /// The weight over an index of so many passages.
    pub fn over(self, passages: usize) -> f32 {
        match self {
            Self::Auto | Self::AutoForWeb if passages > PASSAGES_MAX => 0.0,
            Self::Auto => FITTED,
            Self::AutoForWeb => FITTED_FOR_WEB,
            Self::Fixed(weight) => weight,
        }
    }
}

impl fmt::Display for LexicalWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::AutoForWeb => f.write_str("auto for the web"),
            Self::Fixed(weight) => weight.fmt(f),
        }
    }
}

impl FromStr for LexicalWeight {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let weight = text.parse().ok();
        let weight = weight.filter(|weight| (0.0..=WEIGHT_MAX).contains(weight));
        weight
            .map(Self::Fixed)
            .ok_or("expected auto or a number from 0 to 10")
    }
}

/// BM25 over the passages of an index, and how much it counts.
pub(crate) struct Lexical {
    ranking: Bm25,
    weight: f32,
}

impl Lexical {
    /// Reads every passage.
    pub(crate) fn of(rows: &Rows, weight: f32) -> Result<Self, Fault> {
        Ok(Self {
            ranking: ranking(rows)?,
            weight,
        })
    }

    /// What the words of a text add to the score of every row.
    pub(crate) fn bonus(&self, text: &str) -> Vec<f32> {
        let mut bonus = self.ranking.shares(text);
        bonus.iter_mut().for_each(|share| *share *= self.weight);
        bonus
    }
}

/// BM25 over the passages, which are numbered as their rows.
pub(crate) fn ranking(rows: &Rows) -> Result<Bm25, Fault> {
    let mut builder = Builder::default();
    for row in 0..rows.count() {
        let passage = rows.passage(row)?;
        let PassageRef { title, text, .. } = passage.fields();
        builder.push(&format!("{title}\n{text}"));
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spechop_ports::{Call, Encoder, Retriever};
    use spechop_testkit::TextVectors;

    use crate::fixture::{inputs, unit_vectors};
    use crate::{IndexRetriever, IndexWriter, LexicalWeight, PassageIndex, PassageRef};

    const TEXTS: [(&str, &str); 4] = [
        (
            "Oder",
            "A river that rises in the east and ends in a lagoon.",
        ),
        ("Ruhr", "A river of the west."),
        ("Zugspitze", "A mountain of the south."),
        ("Brocken", "A mountain of the Harz, which Goethe climbed."),
    ];

    /// With an encoder that gives every query the vector of row 2.
    fn index(dir: &std::path::Path) -> (Arc<dyn Encoder>, PassageIndex) {
        let vectors = unit_vectors(5, TEXTS.len(), 64);
        // Two shards: rows are numbered over all of them.
        let mut writer = IndexWriter::open(dir, inputs(64, 3)).unwrap();
        for ((title, text), vector) in TEXTS.iter().zip(&vectors) {
            let passage = PassageRef {
                id: title,
                title,
                text,
                ..PassageRef::default()
            };
            writer.push(passage, vector).unwrap();
        }
        writer.finish().unwrap();
        let third = vectors[2].clone();
        let encoder = TextVectors::new("test-encoder", 64, move |_: &str| third.clone());
        let encoder: Arc<dyn Encoder> = Arc::new(encoder);
        (encoder, PassageIndex::open(dir).unwrap())
    }

    async fn found(weight: Option<f32>, query: &str) -> Vec<(String, f32)> {
        let dir = tempfile::tempdir().unwrap();
        let (encoder, mut index) = index(dir.path());
        if let Some(weight) = weight {
            index = index.with_words(LexicalWeight::Fixed(weight)).unwrap();
        }
        let retriever = IndexRetriever::new(encoder, Arc::new(index)).unwrap();
        let call = Call::authoritative();
        let passages = retriever.retrieve(&call, query, 9).await.unwrap();
        let named = |passage: &spechop_types::Passage| (passage.id.to_string(), passage.score);
        passages.iter().map(named).collect()
    }

    #[tokio::test]
    async fn words_count_as_much_as_the_weight_says() {
        let nearest = "Zugspitze";
        let plain = found(None, "Goethe on the Brocken").await;
        assert_eq!(plain[0].0, nearest);
        // A weight of nothing changes nothing.
        assert_eq!(found(Some(0.0), "Goethe on the Brocken").await, plain);
        let mixed = found(Some(5.0), "Goethe on the Brocken").await;
        assert_eq!(mixed[0].0, "Brocken");
        assert!(mixed.is_sorted_by(|a, b| a.1 >= b.1), "{mixed:?}");
        // The share is at most 1, and the vectors still count.
        let score = |found: &[(String, f32)], id: &str| {
            let (_, score) = found.iter().find(|(other, _)| other == id).unwrap();
            *score
        };
        for (title, _) in TEXTS {
            let bonus = score(&mixed, title) - score(&plain, title);
            assert!((0.0..=5.0).contains(&bonus), "{title} {bonus}");
        }
        // Words that no passage holds leave the order to the vectors.
        assert_eq!(found(Some(5.0), "volcano").await, plain);
        assert_eq!(found(Some(5.0), "").await, plain);
    }

    #[tokio::test]
    async fn rows_of_later_shards_have_their_own_words() {
        for (title, _) in TEXTS {
            assert_eq!(found(Some(50.0), title).await[0].0, title);
        }
    }

    #[test]
    fn words_count_by_default_if_their_postings_are_soon_made() {
        let weights = |weight: LexicalWeight| [11_655, 50_000, 50_001].map(|n| weight.over(n));
        assert_eq!(weights(LexicalWeight::Auto), [0.2, 0.2, 0.0]);
        assert_eq!(weights(LexicalWeight::AutoForWeb), [0.5, 0.5, 0.0]);
        assert_eq!(weights(LexicalWeight::Fixed(0.25)), [0.25; 3]);
        for (text, read) in [
            ("auto", Ok(LexicalWeight::Auto)),
            ("0", Ok(LexicalWeight::Fixed(0.0))),
            ("0.25", Ok(LexicalWeight::Fixed(0.25))),
            ("-1", Err(())),
            ("11", Err(())),
            ("NaN", Err(())),
            ("much", Err(())),
        ] {
            let found: Result<LexicalWeight, _> = text.parse();
            assert_eq!(found.map_err(drop), read, "{text}");
            if let Ok(weight) = read {
                assert_eq!(weight.to_string(), text);
            }
        }
    }
}
