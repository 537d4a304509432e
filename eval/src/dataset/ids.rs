//! Lists of questions' ids, e.g. of those that no model was trained on.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::error::{At, LoadError, Place};
use super::record;
use crate::Dataset;

/// Reads the ids that a file lists for a data set: a list, or an object that has one for each data set.
/// There it may be divided into parts: then `part` takes one of them, and without it all are taken.
///
/// # Errors
///
/// The file cannot be read, says nothing of the data set or the part, or lists no id.
pub fn read_ids(
    file: &Path,
    dataset: Dataset,
    part: Option<&str>,
) -> Result<HashSet<String>, LoadError> {
    let text = record::text(file)?;
    let listed: Value = serde_json::from_str(&text).map_err(|source| LoadError::Json {
        place: Place {
            file: file.to_owned(),
            at: At::File,
        },
        source,
    })?;
    let mut found = &listed;
    for key in [Some(dataset.as_str()), part].into_iter().flatten() {
        // A bare list is about whichever data set was asked for; it has no parts.
        let Value::Object(parts) = found else {
            if part == Some(key) {
                return Err(no_such_part(file, key, &Map::new()));
            }
            continue;
        };
        found = parts
            .get(key)
            .ok_or_else(|| no_such_part(file, key, parts))?;
    }
    let lists: Vec<&Value> = match found {
        Value::Object(parts) => parts.values().collect(),
        list => vec![list],
    };
    let mut ids = HashSet::new();
    for list in lists {
        let not_ids = || LoadError::NotIds(file.to_owned());
        for id in list.as_array().ok_or_else(not_ids)? {
            ids.insert(id.as_str().ok_or_else(not_ids)?.to_owned());
        }
    }
    if ids.is_empty() {
        return Err(LoadError::NotIds(file.to_owned()));
    }
    Ok(ids)
}

fn no_such_part(file: &Path, key: &str, parts: &Map<String, Value>) -> LoadError {
    let known: Vec<&str> = parts.keys().map(String::as_str).collect();
    LoadError::NoSuchPart {
        file: file.to_owned(),
        key: key.to_owned(),
        known: if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        },
    }
}
