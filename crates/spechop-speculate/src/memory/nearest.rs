//! Vectors of one tenant, and which of them are near.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use spechop_types::canonical_name;

/// A vector in whole numbers: a quarter of the room, and comparing two is exact. Their cosine is within
/// some thousandths of that of the vectors themselves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Vector {
    values: Box<[i8]>,
    /// One by its length; 0 of a vector without any.
    scale: f32,
}

impl Vector {
    /// From -127 to 127, in proportion.
    pub(super) fn of(components: &[f32]) -> Self {
        let most = components.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = if most > 0.0 { 127.0 / most } else { 0.0 };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "no more than 127; what is no number becomes 0"
        )]
        Self::new(
            components
                .iter()
                .map(|x| (x * scale).round() as i8)
                .collect(),
        )
    }

    pub(super) fn new(values: Vec<i8>) -> Self {
        let square = dot(&values, &values);
        let scale = if square > 0 {
            1.0 / (square as f32).sqrt()
        } else {
            0.0
        };
        Self {
            values: values.into(),
            scale,
        }
    }

    pub(super) fn values(&self) -> &[i8] {
        &self.values
    }

    fn cosine(&self, other: &Self) -> f32 {
        dot(&self.values, &other.values) as f32 * self.scale * other.scale
    }
}

/// Exact: no vector is so long that the sum would not fit.
fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).fold(0_i32, |sum, (a, b)| {
        sum.wrapping_add(i32::from(*a) * i32::from(*b))
    })
}

/// Vectors by the keys of their entries.
#[derive(Default)]
pub(super) struct Vectors {
    rows: Vec<(Arc<str>, Vector)>,
    at: HashMap<Arc<str>, usize>,
}

impl Vectors {
    pub(super) fn get(&self, key: &str) -> Option<&Vector> {
        let at = self.at.get(key)?;
        self.rows.get(*at).map(|(_, vector)| vector)
    }

    pub(super) fn insert(&mut self, key: Arc<str>, vector: Vector) {
        self.remove(&key);
        self.at.insert(Arc::clone(&key), self.rows.len());
        self.rows.push((key, vector));
    }

    pub(super) fn remove(&mut self, key: &str) {
        let Some(at) = self.at.remove(key) else {
            return;
        };
        self.rows.swap_remove(at);
        // The last one stands in its place now.
        if let Some((moved, _)) = self.rows.get(at) {
            self.at.insert(Arc::clone(moved), at);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All whose cosine is at least so much, in no order.
    pub(super) fn near(&self, to: &Vector, least: f32) -> Vec<(f32, Arc<str>)> {
        let near = self.rows.iter().filter_map(|(key, vector)| {
            let cosine = to.cosine(vector);
            (cosine >= least).then(|| (cosine, Arc::clone(key)))
        });
        near.collect()
    }
}

/// Words that begin a question with a capital letter and name nothing.
const OPENERS: [&str; 35] = [
    "a", "an", "are", "at", "by", "can", "did", "do", "does", "find", "for", "from", "had", "has",
    "have", "how", "in", "is", "list", "name", "of", "on", "tell", "the", "to", "was", "were",
    "what", "when", "where", "which", "who", "whom", "whose", "why",
];

/// The words by which a text names things: those that begin with a capital letter or hold a digit. A script
/// without small letters does not tell names from words, so there each word may be one.
pub(super) fn names(text: &str) -> BTreeSet<String> {
    let names = |word: &str| {
        word.chars().any(|c| c.is_ascii_digit())
            || word
                .chars()
                .find(|c| c.is_alphanumeric())
                .is_some_and(|first| !first.is_lowercase())
    };
    let words = text.split_whitespace().enumerate();
    let named = words.filter(|(_, word)| names(word)).map(|(at, word)| {
        // `Wajda's` names whom `Wajda` names.
        let bare = word.strip_suffix("'s").or(word.strip_suffix("’s"));
        (at, canonical_name(bare.unwrap_or(word)))
    });
    let named = named.filter(|(at, word)| *at > 0 || !OPENERS.contains(&&**word));
    named.map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_found_by_their_direction() {
        let vector = |x: f32, y: f32| Vector::of(&[x, y]);
        let mut vectors = Vectors::default();
        for (key, x, y) in [
            ("east", 2.0, 0.0),
            ("north", 0.0, 0.5),
            ("nearly", 1.0, 0.1),
        ] {
            vectors.insert(key.into(), vector(x, y));
        }
        let near = |vectors: &Vectors, least| {
            let mut near = vectors.near(&vector(0.3, 0.0), least);
            near.sort_by(|a, b| b.0.total_cmp(&a.0));
            near.into_iter()
                .map(|(_, key)| key.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(near(&vectors, 0.9), ["east", "nearly"]);
        assert_eq!(near(&vectors, 0.999), ["east"]);
        vectors.remove("east");
        vectors.remove("nobody");
        assert_eq!(near(&vectors, 0.9), ["nearly"]);
        assert!(vectors.get("north").is_some() && vectors.get("east").is_none());
        vectors.insert("nearly".into(), vector(0.0, 1.0));
        assert_eq!(near(&vectors, 0.9), [""; 0]);
        vectors.remove("nearly");
        vectors.remove("north");
        assert!(vectors.is_empty());
        // Nothing is near to nothing.
        vectors.insert("nothing".into(), vector(0.0, f32::NAN));
        assert_eq!(near(&vectors, 0.1), [""; 0]);
    }

    #[test]
    fn names_are_told_from_other_words() {
        for (text, expected) in [
            ("Who directed the film Kanał?", &["kanal"][..]),
            ("Who is Wajda's mother", &["wajda"]),
            ("who directed \"Kanał\" in 1957?", &["1957", "kanal"]),
            ("Wajda was born when?", &["wajda"]),
            ("Who's Wajda?", &["wajda"]),
            ("Who made C++?", &["c plus plus"]),
            ("Whose mother is a painter?", &[]),
            ("who is ηλία's mother?", &[]),
            ("谁 执导 电影 卡纳尔", &["卡纳尔", "执导", "电影", "谁"]),
            ("", &[]),
        ] {
            assert!(names(text).iter().eq(expected), "{text}");
        }
    }
}
