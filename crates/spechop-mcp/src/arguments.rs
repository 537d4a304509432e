//! How a question becomes the arguments of a tool.

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::failure::{Names, quoted};
use crate::options::Server;

const QUESTION: &str = "{question}";
const LIMIT: &str = "{limit}";

/// The arguments of a tool, with places for the question and for the number of passages.
///
/// A text that is just `{limit}` becomes a number. Everything is put into texts of JSON that is parsed
/// already, so no question can add an argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments(Map<String, Value>);

/// Why arguments cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArguments {
    /// They are no JSON object.
    #[error("expected a JSON object such as {{\"query\": \"{{question}}\"}}: {0}")]
    Json(String),
    /// The question is nowhere in them.
    #[error("no argument holds {{question}}, so the tool would never hear what is asked")]
    NoQuestion,
}

impl Default for Arguments {
    /// `{"query": "{question}"}`.
    fn default() -> Self {
        Self(Map::from_iter([("query".to_owned(), QUESTION.into())]))
    }
}

impl FromStr for Arguments {
    type Err = InvalidArguments;

    fn from_str(text: &str) -> Result<Self, InvalidArguments> {
        let arguments: Map<_, _> = serde_json::from_str(text)
            .map_err(|error| InvalidArguments::Json(error.to_string()))?;
        if !arguments.values().any(holds_question) {
            return Err(InvalidArguments::NoQuestion);
        }
        Ok(Self(arguments))
    }
}

impl Arguments {
    /// The arguments of one call.
    pub fn fill(&self, question: &str, limit: usize) -> Map<String, Value> {
        let filled =
            |(name, value): (&String, &Value)| (name.clone(), fill(value, question, limit));
        self.0.iter().map(filled).collect()
    }

    /// What is wrong with these arguments for a tool of `server` whose input has this JSON schema, if anything is.
    /// Only names are compared; the tool itself checks the rest.
    pub fn misfit(&self, schema: &Map<String, Value>, server: &Server) -> Option<String> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let known: Vec<&str> = properties.map_or_else(Vec::new, |properties| {
            properties.keys().map(String::as_str).collect()
        });
        let listed = || {
            let mut names = Names::default();
            names.add(known.iter().copied(), server);
            names
        };
        let required = schema.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.find(|name| !self.0.contains_key(*name)) {
            return Some(format!(
                "it needs the argument {:?}; its arguments are: {}",
                quoted(missing, server),
                listed()
            ));
        }
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        // A tool that ignores what it does not know would search for nothing.
        let unknown = self.0.iter().find(|(name, value)| {
            (closed || holds_question(value)) && !known.contains(&name.as_str())
        });
        let (name, _) = unknown.filter(|_| properties.is_some())?;
        Some(format!(
            "it has no argument {name:?}; its arguments are: {}",
            listed()
        ))
    }
}

fn holds_question(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(QUESTION),
        Value::Array(items) => items.iter().any(holds_question),
        Value::Object(fields) => fields.values().any(holds_question),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn fill(value: &Value, question: &str, limit: usize) -> Value {
    match value {
        Value::String(text) if text == LIMIT => limit.into(),
        // The question comes last: what stands in it is not replaced.
        Value::String(text) => text
            .replace(LIMIT, &limit.to_string())
            .replace(QUESTION, question)
            .into(),
        Value::Array(items) => items
            .iter()
            .map(|item| fill(item, question, limit))
            .collect(),
        Value::Object(fields) => {
            let filled =
                |(name, value): (&String, &Value)| (name.clone(), fill(value, question, limit));
            Value::Object(fields.iter().map(filled).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use spechop_web::HttpEndpoint;

    use super::*;

    fn server() -> Server {
        Server::Http(HttpEndpoint::new("notes", "http://127.0.0.1:1/mcp"))
    }

    fn filled(template: &str, question: &str) -> Value {
        let arguments: Arguments = template.parse().unwrap();
        Value::Object(arguments.fill(question, 5))
    }

    #[test]
    fn the_question_goes_where_the_template_says() {
        let check = |template, question, expected: Value| {
            assert_eq!(filled(template, question), expected, "{template}");
        };
        check(r#"{"q": "{question}"}"#, "who?", json!({ "q": "who?" }));
        check(
            r#"{"queries": [{"text": "films: {question}"}], "n": "{limit}", "note": "top {limit}", "deep": true}"#,
            "who?",
            json!({ "queries": [{ "text": "films: who?" }], "n": 5, "note": "top 5", "deep": true }),
        );
    }

    #[test]
    fn a_question_adds_no_argument_and_is_replaced_nowhere() {
        for question in [r#"x", "admin": "yes"#, "{limit}", "{question}", "\\\"\n"] {
            assert_eq!(
                filled(r#"{"q": "{question}"}"#, question),
                json!({ "q": question })
            );
        }
    }

    #[test]
    fn what_is_no_template_is_said() {
        for (template, said) in [
            ("", "expected a JSON object"),
            ("[]", "expected a JSON object"),
            (r#"{"q": "question"}"#, "no argument holds {question}"),
        ] {
            let error = template.parse::<Arguments>().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn arguments_are_compared_with_the_schema() {
        let arguments: Arguments = r#"{"query": "{question}", "n": "{limit}"}"#.parse().unwrap();
        let check = |schema: Value, expected: Option<&str>| {
            let misfit = arguments.misfit(schema.as_object().unwrap(), &server());
            assert_eq!(misfit.as_deref(), expected, "{schema}");
        };
        check(json!({}), None);
        check(json!({ "properties": { "query": {}, "n": {} } }), None);
        check(json!({ "properties": { "query": {} } }), None);
        check(
            json!({ "properties": { "query": {} }, "additionalProperties": false }),
            Some("it has no argument \"n\"; its arguments are: query"),
        );
        check(
            json!({ "properties": { "q": {}, "n": {} } }),
            Some("it has no argument \"query\"; its arguments are: n, q"),
        );
        check(
            json!({ "properties": { "query": {}, "wiki": {} }, "required": ["query", "wiki"] }),
            Some("it needs the argument \"wiki\"; its arguments are: query, wiki"),
        );
        check(
            json!({ "required": ["wiki"] }),
            Some("it needs the argument \"wiki\"; its arguments are: none"),
        );
    }

    #[test]
    fn long_names_and_many_are_not_repeated_whole() {
        let arguments = Arguments::default();
        let long = |n: usize| format!("{n}-{}", "x".repeat(10_000));
        let properties: Map<_, _> = (0..100).map(|n| (long(n), json!({}))).collect();
        for required in [json!([]), json!([long(7)])] {
            let schema = json!({ "properties": properties, "required": required });
            let schema = schema.as_object().unwrap();
            let misfit = arguments.misfit(schema, &server()).unwrap();
            assert!(misfit.len() < 10_000, "{}", misfit.len());
            assert!(misfit.ends_with("x…, …"), "{misfit}");
        }
    }
}
