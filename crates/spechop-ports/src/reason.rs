//! What a server says in the body of an error.

use serde_json::Value;
use spechop_types::one_line;

/// The reason in an error body: its `error.message`, `error`, `message` or `detail`, else the
/// body's beginning. Of a gateway that passes on what its provider has said (`error.metadata.raw`), the reason in
/// that. Short, on one line, and without `secrets`: where one is a part of another, the longer one comes first.
pub fn reason<'a>(body: &[u8], secrets: impl IntoIterator<Item = &'a str>) -> String {
    const CHARS_MAX: usize = 200;
    let text = String::from_utf8_lossy(body);
    let value = serde_json::from_str::<Value>(&text).ok();
    // Written anew, JSON of any form says a key as it is.
    let text = value
        .as_ref()
        .map_or(text, |value| value.to_string().into());
    let value = value.unwrap_or_default();
    let raw = value.pointer("/error/metadata/raw").and_then(Value::as_str);
    if let Some(raw) = raw.filter(|raw| !raw.trim().is_empty()) {
        // OpenRouter says no more of it than "Provider returned error".
        return reason(raw.as_bytes(), secrets);
    }
    let said = [
        "/error/message",
        "/error/error/message",
        // Gemini's errors are lists of one.
        "/0/error/message",
        "/message",
        "/detail",
        "/error",
    ]
    .into_iter()
    .find_map(|path| value.pointer(path)?.as_str())
    .unwrap_or(&text);
    // Of what is said, and not of the body, which may write a key otherwise; and before it is shortened: half a
    // key is still much of one.
    let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
    let said = secrets.fold(said.to_owned(), |said, secret| {
        said.replace(secret, "[key]")
    });
    let mut said: String = one_line(&said).chars().take(CHARS_MAX + 1).collect();
    if said.chars().count() > CHARS_MAX {
        said.pop();
        said.push('…');
    }
    if said.is_empty() {
        "no reason given".to_owned()
    } else {
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_reason_and_hides_the_key() {
        for (body, said) in [
            (
                r#"{"error":{"message":"no key sk-1"}}"#,
                "no key [key]".to_owned(),
            ),
            (r#"{"error":"no key sk\u002d1"}"#, "no key [key]".into()),
            (r#"{"error":"model not found"}"#, "model not found".into()),
            (r#"{"detail":"Not Found"}"#, "Not Found".into()),
            (r#"[{"error":{"message":"no"}}]"#, "no".into()),
            (
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"too\nmuch"}}}"#,
                "too much".into(),
            ),
            (
                r#"{"error":{"message":"no","metadata":{"raw":"{\"error\":\"no sk\\u002d1\"}"}}}"#,
                "no [key]".into(),
            ),
            (
                r#"{"error":{"message":"it failed","metadata":{"raw":" "}}}"#,
                "it failed".into(),
            ),
            (
                r#"{"errors":["no key sk\u002d1"]}"#,
                r#"{"errors":["no key [key]"]}"#.into(),
            ),
            ("<h1>Bad\n gateway</h1>", "<h1>Bad gateway</h1>".into()),
            // It goes to terminals.
            ("\u{1b}[31mno", "[31mno".into()),
            ("", "no reason given".into()),
            (&"é".repeat(500), "é".repeat(200) + "…"),
        ] {
            assert_eq!(reason(body.as_bytes(), Some("sk-1")), said);
        }
    }
}
