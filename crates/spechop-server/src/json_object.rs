//! Reads what must be a JSON object. The readers that serde derives take a list of the values, too, which
//! nobody documents and which depends on the order of our fields.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::status::AskError;

/// What was read from an object, and from nothing else.
pub(crate) struct Object<T>(pub(crate) T);

/// The body of a request; `problem` is said if it cannot be read.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8], problem: &str) -> Result<T, AskError> {
    match serde_json::from_slice(body) {
        Ok(Object(read)) => Ok(read),
        Err(error) => Err(AskError::unreadable("body", problem, &error)),
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object in braces")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Line {
        words: Vec<Object<Word>>,
    }

    #[derive(Deserialize)]
    struct Word {
        text: String,
    }

    #[test]
    fn a_list_of_the_values_is_no_object() {
        let line: Line = read(br#"{"words": [{"text": "a"}]}"#, "is no line").unwrap();
        assert_eq!(line.words[0].0.text, "a");
        for (body, why) in [
            (r#"[[{"text": "a"}]]"#, "expected an object in braces"),
            (r#"{"words": [["a"]]}"#, "expected an object in braces"),
            ("7", "expected an object in braces"),
            (r#"{"words": [], "words": []}"#, "duplicate field"),
            (r#"{"words": []} x"#, "trailing characters"),
        ] {
            let error = read::<Line>(body.as_bytes(), "is no line").err().unwrap();
            let said = error.to_string();
            let is_told = said.starts_with("body: is no line: ") && said.contains(why);
            assert!(is_told, "{body}: {said}");
        }
    }
}
