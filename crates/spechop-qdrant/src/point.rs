//! A passage as a point of a collection, and back.

use std::collections::HashMap;
use std::sync::Arc;

use qdrant_client::qdrant::{PointId, PointStruct, ScoredPoint, Value, point_id::PointIdOptions};
use sha2::{Digest, Sha256};
use spechop_store::PassageRef;
use spechop_types::Passage;

/// The fields of a payload.
pub(crate) const FIELDS: [&str; 4] = ["id", "title", "text", "url"];

/// The same passage has the same point wherever and whenever it is pushed.
///
/// A hundred and twenty-eight bits of SHA-256: two passages never share a point by accident.
pub(crate) fn id(passage: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(passage).into();
    let mut uuid = String::with_capacity(36);
    for (at, byte) in digest.iter().take(16).enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            uuid.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            uuid.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    uuid
}

/// The id of a point, as a UUID; `None` if it is a number, which is none of ours.
pub(crate) fn uuid(id: PointId) -> Option<String> {
    match id.point_id_options? {
        PointIdOptions::Uuid(uuid) => Some(uuid),
        PointIdOptions::Num(_) => None,
    }
}

/// A passage with the row of its vector: int8 components, and their scale.
pub(crate) fn point(passage: PassageRef<'_>, row: &[i8], scale: f32) -> PointStruct {
    let vector: Vec<f32> = row.iter().map(|x| f32::from(*x) * scale).collect();
    let fields = [passage.id, passage.title, passage.text].map(Some);
    let fields = FIELDS
        .into_iter()
        .zip(fields.into_iter().chain([passage.url]));
    let payload: HashMap<String, Value> = fields
        .filter_map(|(name, value)| Some((name, value?)))
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    PointStruct::new(id(passage.id), vector, payload)
}

/// What was found. The error says which field of its payload cannot be used.
pub(crate) fn passage(found: &ScoredPoint) -> Result<Passage, String> {
    let field = |name: &str| {
        let value = found.payload.get(name).and_then(|value| value.as_str());
        value.map(|text| Arc::<str>::from(text.as_str()))
    };
    let needed = |name: &str| {
        field(name).ok_or_else(|| {
            format!("a point has no text `{name}`: it was not written by `spechop index push`")
        })
    };
    if !found.score.is_finite() {
        return Err("a score is no number".to_owned());
    }
    Ok(Passage {
        id: needed("id")?,
        title: needed("title")?,
        text: needed("text")?,
        url: field("url").filter(|url| !url.is_empty()),
        score: found.score,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fields: &[(&str, Value)], score: f32) -> ScoredPoint {
        let fields = fields.iter().cloned();
        ScoredPoint {
            payload: fields
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            score,
            ..ScoredPoint::default()
        }
    }

    #[test]
    fn the_id_of_a_point_never_changes() {
        // Collections in use hold these: another rule would push every passage twice.
        assert_eq!(id("2w-00017"), ID);
        assert_ne!(id(""), id(" "));
        assert_eq!(id("naïve").len(), 36);
    }

    const ID: &str = "a0ce4094-41a5-75b8-a181-00e223eddbb1";

    #[test]
    fn a_row_becomes_a_vector_and_a_passage_comes_back() {
        let stored = PassageRef {
            id: "a#1",
            title: "A",
            text: "Ä text",
            url: Some("https://h/a"),
            in_degree: Some(7),
        };
        let point = point(stored, &[2, -127, 0], 0.5);
        assert_eq!(point.id.and_then(uuid), Some(id("a#1")));
        let vectors = format!("{:?}", point.vectors);
        assert!(vectors.contains("[1.0, -63.5, 0.0]"), "{vectors}");
        let found = ScoredPoint {
            payload: point.payload,
            score: 0.25,
            ..ScoredPoint::default()
        };
        let passage = passage(&found).unwrap();
        assert_eq!(
            (&*passage.id, &*passage.title, &*passage.text),
            ("a#1", "A", "Ä text")
        );
        assert_eq!(
            (passage.url.as_deref(), passage.score),
            (Some("https://h/a"), 0.25)
        );
    }

    #[test]
    fn strange_points_are_named_and_not_believed() {
        let text = |text: &str| Value::from(text);
        let whole = [("id", text("1")), ("title", text("")), ("text", text("t"))];
        assert!(passage(&found(&whole, 0.5)).is_ok());
        assert!(passage(&found(&whole, f32::NAN)).is_err());
        for missing in 0..3 {
            let mut fields = whole.to_vec();
            let (name, _) = fields.remove(missing);
            let error = passage(&found(&fields, 0.5)).unwrap_err();
            assert!(error.contains(&format!("`{name}`")), "{error}");
            fields.push((name, Value::from(7)));
            assert!(passage(&found(&fields, 0.5)).is_err(), "{name} is a number");
        }
        let mut fields = whole.to_vec();
        fields.push(("url", text("https://example.org/")));
        let url = passage(&found(&fields, 0.5)).unwrap().url;
        assert_eq!(url.as_deref(), Some("https://example.org/"));
    }
}
