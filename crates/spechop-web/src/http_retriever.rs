//! Anybody's search over passages, asked over HTTP in the form that Search-R1 and many trainers use:
//! `POST {"queries":[…],"topk":5,"return_scores":true}` → `{"result":[[{"document":{…},"score":…}]]}`.
//!
//! A SpecHop server answers so itself (`server.retrieve`), so one can hold the index for many.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use spechop_ports::{Call, PortError, Retriever};
use spechop_types::{Activity, Passage};

use crate::http::InvalidHttpEndpoint;
use crate::service::{Service, ServiceOptions};

/// The header by which a SpecHop server knows its tenants.
const TENANT: &str = "spechop-tenant";

/// The header by which whoever keeps results hears that none of them may serve.
const NOTHING_KEPT: (&str, &str) = ("cache-control", "no-cache");

/// How to ask a retriever over HTTP.
#[derive(Clone, Debug)]
pub struct HttpRetrieverOptions {
    /// Where it is, e.g. `http://10.0.0.7:8000/retrieve`.
    pub service: ServiceOptions,
    /// Whether it is told the tenant, in the header that a SpecHop server reads. Nobody else's business,
    /// so by default it is not.
    pub with_tenant: bool,
}

impl HttpRetrieverOptions {
    /// Without a key: 10 s an attempt, 30 s in all, 4 MiB an answer.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            service: ServiceOptions::new("retriever", url),
            with_tenant: false,
        }
    }
}

/// A retriever over HTTP.
#[derive(Debug)]
pub struct HttpRetriever {
    service: Service,
    with_tenant: bool,
}

impl HttpRetriever {
    /// Checks the options; connects to nothing yet.
    pub fn new(options: &HttpRetrieverOptions) -> Result<Self, InvalidHttpEndpoint> {
        Ok(Self {
            service: Service::new(&options.service)?,
            with_tenant: options.with_tenant,
        })
    }
}

#[async_trait]
impl Retriever for HttpRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let body = json!({ "queries": [query], "topk": limit, "return_scores": true });
        let tenant = call.tenant().as_str();
        let tells_tenant = self.with_tenant && !tenant.is_empty();
        let headers = [
            tells_tenant.then_some((TENANT, tenant)),
            call.is_fresh().then_some(NOTHING_KEPT),
        ];
        let headers: Vec<_> = headers.into_iter().flatten().collect();
        let parse = |body: &[u8]| parse(body, limit);
        let _scanning = call.doing(Activity::Scan);
        self.service.post(call, &headers, &body, parse).await
    }

    /// The connection is open then. No query is sent.
    async fn warm(&self, _call: &Call, _query: &str) -> Result<(), PortError> {
        self.service.warm().await;
        Ok(())
    }
}

/// Reads the answer to one query: at most `limit` passages, best first, no id twice. If a score is
/// missing, all are made up from the order.
pub fn parse(body: &[u8], limit: usize) -> Result<Vec<Passage>, String> {
    let answer: Value =
        serde_json::from_slice(body).map_err(|error| format!("no JSON: {error}"))?;
    let found = match answer.get("result") {
        Some(Value::Array(lists)) => match &lists[..] {
            [Value::Array(found)] => found,
            [_] => return Err("`result` holds no list".to_owned()),
            lists => return Err(format!("{} results for one query", lists.len())),
        },
        _ => return Err("no list `result` in it".to_owned()),
    };
    let mut passages = Vec::new();
    let mut has_scores = true;
    for (rank, item) in found.iter().enumerate() {
        let mut passage = passage(item.get("document").unwrap_or(item))
            .map_err(|what| format!("document {} has {what}", rank + 1))?;
        let score = item.get("score").and_then(Value::as_f64);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what becomes infinite is left out below"
        )]
        let score = score.map(|score| score as f32).filter(|s| s.is_finite());
        has_scores &= score.is_some();
        passage.score = score.unwrap_or_default();
        passages.push(passage);
    }
    let mut passages = Passage::distinct(passages);
    if has_scores {
        passages.sort_by(|a, b| b.score.total_cmp(&a.score));
    } else {
        let mut rank = 0.0;
        for passage in &mut passages {
            rank += 1.0;
            passage.score = 1.0 / rank;
        }
    }
    passages.truncate(limit);
    Ok(passages)
}

/// A document as Search-R1 has it (`contents` is the title in quotation marks, then the text) or with
/// fields of their own. Without an id it is known by its address, unless that is very long, or by what it says.
fn passage(document: &Value) -> Result<Passage, &'static str> {
    let field = |name: &str| document.get(name).and_then(Value::as_str);
    let contents = field("contents");
    let (title, text) = match (field("text"), contents, document.as_str()) {
        (Some(text), ..) => ("", text),
        (None, Some(contents), _) | (None, None, Some(contents)) => split(contents),
        (None, None, None) => return Err("neither `text` nor `contents`"),
    };
    let title = field("title").unwrap_or(title);
    let is_kept = |url: &&str| !url.is_empty() && url.len() <= Passage::URL_BYTES_MAX;
    let url = field("url").filter(is_kept);
    let id = match document.get("id") {
        Some(Value::String(id)) if !id.is_empty() => id.as_str().into(),
        Some(Value::Number(id)) => id.to_string().into(),
        _ => url.map_or_else(|| Passage::id_of_text(title, text), Arc::from),
    };
    Ok(Passage {
        id,
        title: title.into(),
        text: text.into(),
        url: url.map(Arc::from),
        score: 0.0,
    })
}

/// Title and text.
fn split(contents: &str) -> (&str, &str) {
    let Some((title, text)) = contents.split_once('\n') else {
        return ("", contents);
    };
    let quoted = title.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    (quoted.unwrap_or(title), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each passage as `id|title|text|url|score`.
    fn lines(answer: &Value, limit: usize) -> Result<Vec<String>, String> {
        let found = parse(answer.to_string().as_bytes(), limit)?;
        let line = |p: &Passage| {
            let url = p.url.as_deref().unwrap_or("-");
            format!("{}|{}|{}|{url}|{}", p.id, p.title, p.text, p.score)
        };
        Ok(found.iter().map(line).collect())
    }

    #[test]
    fn both_kinds_of_documents_are_read() {
        let answer = json!({ "result": [[
            { "document": { "id": "7", "contents": "\"The \"Best\"\"\nOne\nTwo" }, "score": 0.5 },
            { "document": { "id": 8, "title": "T", "text": "x", "url": "https://h/" }, "score": 0.75 },
            { "document": { "id": "7", "contents": "the same id again" }, "score": 0.25 },
            { "document": { "id": "9", "contents": "no title" }, "score": -1 },
            { "document": { "id": "10", "title": "Own", "contents": "\"First\"\nrest" }, "score": -2 },
        ]] });
        let all = [
            "8|T|x|https://h/|0.75",
            "7|The \"Best\"|One\nTwo|-|0.5",
            "9||no title|-|-1",
            "10|Own|rest|-|-2",
        ];
        assert_eq!(lines(&answer, 9).unwrap(), all);
        assert_eq!(lines(&answer, 1).unwrap(), &all[..1]);
    }

    #[test]
    fn without_scores_the_order_counts() {
        let bare = json!({ "result": [[
            { "id": "1", "contents": "\"A\"\na" },
            { "url": "https://h/", "text": "b" },
        ]] });
        assert_eq!(
            lines(&bare, 9).unwrap(),
            ["1|A|a|-|1", "https://h/||b|https://h/|0.5"]
        );
        let one_is_missing = json!({ "result": [[
            { "document": { "id": "1", "text": "a" }, "score": 0.1 },
            { "document": { "id": "2", "text": "b" }, "score": null },
            { "document": { "id": "3", "text": "c" }, "score": 1e300 },
        ]] });
        let order: Vec<_> = lines(&one_is_missing, 2).unwrap();
        assert_eq!(order, ["1||a|-|1", "2||b|-|0.5"]);
        let of_one_page = json!({ "result": [[
            { "url": "https://h/", "text": "a" },
            { "url": "https://h/", "text": "b" },
            { "url": "https://h/", "text": "a" },
        ]] });
        let [a, b] = ["a", "b"].map(|text| Passage::id_of_text("", text));
        assert_eq!(
            lines(&of_one_page, 9).unwrap(),
            [
                format!("{a}||a|https://h/|1"),
                format!("{b}||b|https://h/|0.5")
            ]
        );
    }

    #[test]
    fn a_text_without_a_name_is_known_by_what_it_says() {
        let answer = |text: &str| json!({ "result": [[text, text, "other"]] });
        let found = parse(answer("x").to_string().as_bytes(), 9).unwrap();
        assert_eq!(found.len(), 2, "the same text once");
        assert!(found[0].id.starts_with("text-"));
        let again = parse(answer("x").to_string().as_bytes(), 9).unwrap();
        assert_eq!(found, again);
    }

    #[test]
    fn an_address_that_is_very_long_is_not_kept() {
        let begin = "https://h/";
        for (url_bytes, is_kept) in [
            (Passage::URL_BYTES_MAX, true),
            (Passage::URL_BYTES_MAX + 1, false),
        ] {
            let url = format!("{begin}{}", "a".repeat(url_bytes - begin.len()));
            let answer = json!({ "result": [[{ "text": "x", "url": url }]] });
            let found = parse(answer.to_string().as_bytes(), 9).unwrap();
            assert_eq!(found[0].url.is_some(), is_kept);
            assert_eq!(*found[0].id == *url, is_kept);
        }
    }

    #[test]
    fn what_is_no_answer_to_one_query_is_said() {
        for (answer, said) in [
            (json!({}), "no list `result` in it"),
            (json!({ "result": {} }), "no list `result` in it"),
            (json!({ "result": [] }), "0 results for one query"),
            (json!({ "result": [[], []] }), "2 results for one query"),
            (json!({ "result": [{}] }), "`result` holds no list"),
            (
                json!({ "result": [["x", { "id": "1" }]] }),
                "document 2 has neither `text` nor `contents`",
            ),
        ] {
            assert_eq!(lines(&answer, 5).unwrap_err(), said);
        }
        assert!(parse(b"<html>", 5).unwrap_err().starts_with("no JSON"));
        assert_eq!(lines(&json!({ "result": [[]] }), 5), Ok(Vec::new()));
    }
}
