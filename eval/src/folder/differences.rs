//! The differences between the run that a folder holds and the run that would be resumed.

use serde_json::Value;

use crate::{Question, RunInfo};

/// Questions that are named at most; the number of the others is said.
const NAMED_MAX: usize = 3;

/// Every circumstance that differs, with both values; the command may, and more may be wanted.
pub(super) fn differences(
    (begun, asked_then): (&RunInfo, &[Question]),
    (now, asked_now): (&RunInfo, &[Question]),
) -> Vec<String> {
    let mut found = Vec::new();
    compare("", &value(begun), &value(now), &mut found);
    if asked_then.len() == asked_now.len() {
        let pairs = asked_then.iter().zip(asked_now).enumerate();
        let differ: Vec<_> = pairs.filter(|(_, (then, now))| then != now).collect();
        for (at, (then, now)) in differ.iter().take(NAMED_MAX) {
            let what = if then.id == now.id {
                format!("question {} is not the one of that id then", now.id)
            } else {
                format!("question {} was {} and is {}", at + 1, then.id, now.id)
            };
            found.push(what);
        }
        if let Some(more @ 1..) = differ.len().checked_sub(NAMED_MAX) {
            found.push(format!("{more} more questions differ"));
        }
    }
    found
}

/// The description as it comes back from its file: numbers lose what they lose there.
fn value(info: &RunInfo) -> Value {
    let text = serde_json::to_string(info).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn compare(path: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                if path.is_empty() && matches!(key.as_str(), "command" | "wanted") {
                    continue;
                }
                let path = match path {
                    "" => key.clone(),
                    _ => format!("{path}.{key}"),
                };
                let of =
                    |map: &serde_json::Map<_, Value>| map.get(key).cloned().unwrap_or_default();
                compare(&path, &of(before), &of(after), found);
            }
        }
        _ if then == now => {}
        _ => found.push(format!("{path} was {} and is {}", said(then), said(now))),
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => "not there".to_owned(),
        value => value.to_string(),
    }
}
