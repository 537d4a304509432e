//! Outputs of tool calls that a client has made itself, for the look-ups of its own tenant (arXiv 2512.15834,
//! section 4.1).
//!
//! A client that knows what will be looked up calls the tool early and leaves the output here. When a
//! question then looks up just that, the output is there at once, and the tool is not called again. An
//! output counts for as long as the client says, and for nobody but its tenant: it becomes part of answers.
//!
//! The tool that this server calls is [`RETRIEVE`]. Outputs of other tools are kept for clients that ask.
//! A planner's engine in this process asks, too, as soon as it has written a sub-question.

mod served;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use spechop_ports::{Call, Life, PortError, Retriever, ToolOutputs};
use spechop_types::{Owned, OwnedCache, Passage, Tenant};
use spechop_web::http_retriever;
use tokio::time::Instant;

use self::served::Served;
use crate::links::id_of_left;

/// The target tool. Its arguments are `{"query": "…"}`, its output is a list of documents, as `POST
/// /retrieve` gives them.
pub(crate) const RETRIEVE: &str = "retrieve";

/// Most bytes of all outputs together, their arguments included.
const BYTES_MAX: usize = 64 << 20;

/// A tool, and its arguments in one form. The cache holds it in two places, which share its texts.
type Key = (Arc<str>, Arc<str>);

/// A tool call.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    /// The tool's name.
    pub(crate) tool: String,
    /// What it is called with. The order of names does not count.
    pub(crate) arguments: Map<String, Value>,
}

/// Why an output is not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotKept {
    #[error(
        "the arguments of \"retrieve\" must be {{\"query\": \"…\"}} and nothing else: so this server calls it"
    )]
    Arguments,
    #[error(
        "the output of \"retrieve\" must be a list of documents, as POST /retrieve gives them: {0}"
    )]
    Documents(String),
    #[error("an output of {bytes} bytes is longer than the {most} that are kept")]
    TooLong { bytes: usize, most: usize },
}

struct Entry {
    /// JSON: as a tree it would take up to a hundred times as much.
    output: Arc<str>,
    /// Of the target tool: what it has found.
    passages: Option<Arc<[Passage]>>,
    until: Instant,
    bytes: usize,
}

/// The outputs of all tenants. Those that were not asked for the longest leave first.
pub(crate) struct ToolCache {
    entries: Mutex<Entries>,
    bytes_max: usize,
    served: Served,
}

struct Entries {
    all: OwnedCache<Key, Entry>,
    bytes: usize,
}

impl ToolCall {
    fn key(&self, tenant: &Tenant) -> Owned<Key> {
        let mut arguments = String::new();
        write_sorted(&Value::Object(self.arguments.clone()), &mut arguments);
        Owned::new(tenant, (self.tool.as_str().into(), arguments.into()))
    }

    fn query(query: &str) -> Self {
        let name = ("query".to_owned(), json!(query.trim()));
        Self {
            tool: RETRIEVE.to_owned(),
            arguments: Map::from_iter([name]),
        }
    }
}

impl ToolCache {
    /// Room for so many outputs; `None` if there is to be none.
    pub(crate) fn open(most: usize) -> Option<Arc<Self>> {
        Some(Arc::new(Self::new(NonZeroUsize::new(most)?)))
    }

    fn new(most: NonZeroUsize) -> Self {
        Self {
            entries: Mutex::new(Entries {
                all: OwnedCache::new(most),
                bytes: 0,
            }),
            bytes_max: BYTES_MAX,
            served: Served::default(),
        }
    }

    /// Keeps what a call has brought, for so long. What was kept of the same call goes.
    pub(crate) fn put(
        &self,
        tenant: &Tenant,
        call: ToolCall,
        output: &Value,
        time: Duration,
    ) -> Result<(), NotKept> {
        let (call, passages) = match call.tool.as_str() {
            RETRIEVE => {
                let query = match (call.arguments.len(), call.arguments.get("query")) {
                    (1, Some(Value::String(query))) if !query.trim().is_empty() => query,
                    _ => return Err(NotKept::Arguments),
                };
                (ToolCall::query(query), Some(documents(output)?))
            }
            _ => (call, None),
        };
        let key = call.key(tenant);
        let output = output.to_string();
        let found = passages.iter().flat_map(|passages| passages.iter());
        let found: usize = found.map(bytes_of).sum();
        let bytes = output.len() + found + key.item.0.len() + key.item.1.len();
        // Nobody's one output may push out all others.
        let most = self.bytes_max / 16;
        if bytes > most {
            return Err(NotKept::TooLong { bytes, most });
        }
        let now = Instant::now();
        let entry = Entry {
            output: output.into(),
            passages,
            until: now.checked_add(time).unwrap_or(now),
            bytes,
        };
        let mut entries = self.entries.lock();
        entries.bytes += bytes;
        if let Some((_, left)) = entries.all.insert(key, entry) {
            entries.bytes -= left.bytes;
        }
        while entries.bytes > self.bytes_max
            && let Some((_, left)) = entries.all.pop_oldest()
        {
            entries.bytes -= left.bytes;
        }
        Ok(())
    }

    /// What a call has brought, as JSON, if somebody of this tenant has left it and its time is not over.
    pub(crate) fn output(&self, tenant: &Tenant, call: &ToolCall) -> Option<Arc<str>> {
        let call = match (call.tool.as_str(), call.arguments.get("query")) {
            (RETRIEVE, Some(Value::String(query))) if call.arguments.len() == 1 => {
                &ToolCall::query(query)
            }
            _ => call,
        };
        self.find(&call.key(tenant), |entry| Some(Arc::clone(&entry.output)))
    }

    /// Whether an output has served this look-up of a question. It may have left since.
    pub(crate) fn has_served(&self, life: &Life, query: &str) -> bool {
        self.served.has(life, query)
    }

    fn passages(&self, tenant: &Tenant, query: &str) -> Option<Arc<[Passage]>> {
        let key = ToolCall::query(query).key(tenant);
        self.find(&key, |entry| entry.passages.clone())
    }

    fn find<T>(&self, key: &Owned<Key>, what: impl FnOnce(&Entry) -> Option<T>) -> Option<T> {
        let mut entries = self.entries.lock();
        let entry = entries.all.get(key)?;
        if Instant::now() < entry.until {
            return what(entry);
        }
        let bytes = entries.all.remove(key).map_or(0, |entry| entry.bytes);
        entries.bytes -= bytes;
        None
    }
}

impl ToolOutputs for ToolCache {
    /// What [`CachedRetriever`] would serve. An output whose time is over is left to whoever looks it up.
    fn has(&self, call: &Call, query: &str) -> bool {
        if call.is_fresh() {
            return false;
        }
        let key = ToolCall::query(query).key(call.tenant());
        let entries = self.entries.lock();
        let entry = entries.all.peek(&key);
        entry.is_some_and(|entry| Instant::now() < entry.until)
    }
}

/// What tenants have left is nobody's to read.
impl fmt::Debug for ToolCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCache").finish_non_exhaustive()
    }
}

pub(crate) fn bytes_of(passage: &Passage) -> usize {
    let url = passage.url.as_deref().unwrap_or_default();
    let texts = [&*passage.id, &passage.title, &passage.text, url];
    size_of::<Passage>() + texts.map(str::len).iter().sum::<usize>()
}

/// The documents of an output, best first. One without an address gets an identifier of ours: its own
/// may be that of another text, here or in the index, which would then be cited for it.
fn documents(output: &Value) -> Result<Arc<[Passage]>, NotKept> {
    let body = json!({ "result": [output] }).to_string();
    let mut passages =
        http_retriever::parse(body.as_bytes(), usize::MAX).map_err(NotKept::Documents)?;
    for passage in passages.iter_mut().filter(|passage| passage.url.is_none()) {
        passage.id = id_of_left(passage);
    }
    Ok(passages.into())
}

/// JSON with the names of every object in order, so that equal arguments are equal texts.
fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (at, (name, value)) in fields.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&json!(name).to_string());
                out.push(':');
                write_sorted(value, out);
            }
            out.push('}');
        }
        Value::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_sorted(value, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

/// A retriever that asks the cache first, if there is one, unless the call wants fresh results. What is
/// there needs no turn.
pub(crate) fn asked_first(
    retriever: Arc<dyn Retriever>,
    cache: Option<&Arc<ToolCache>>,
) -> Arc<dyn Retriever> {
    match cache {
        Some(cache) => Arc::new(CachedRetriever {
            inner: retriever,
            cache: Arc::clone(cache),
        }),
        None => retriever,
    }
}

struct CachedRetriever {
    inner: Arc<dyn Retriever>,
    cache: Arc<ToolCache>,
}

#[async_trait]
impl Retriever for CachedRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        if !call.is_fresh()
            && let Some(passages) = self.cache.passages(call.tenant(), query)
        {
            call.serve_kept();
            self.cache.served.note(call, query);
            return Ok(passages.iter().take(limit).cloned().collect());
        }
        self.inner.retrieve(call, query, limit).await
    }

    async fn warm(&self, call: &Call, query: &str) -> Result<(), PortError> {
        self.inner.warm(call, query).await
    }
}

#[cfg(test)]
mod tests {
    use spechop_ports::{Lane, Wishes};
    use spechop_types::Chance;

    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    fn call(tool: &str, arguments: Value) -> ToolCall {
        let Value::Object(arguments) = arguments else {
            panic!("arguments have names");
        };
        ToolCall {
            tool: tool.to_owned(),
            arguments,
        }
    }

    fn cache(most: usize) -> ToolCache {
        ToolCache::new(NonZeroUsize::new(most).unwrap())
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn equal_arguments_are_one_call_and_other_tenants_have_others() {
        let cache = cache(8);
        let (a, b) = (tenant("a"), tenant("b"));
        let put = call(
            "add",
            json!({"x": 1, "y": {"p": [1, {"s": 2, "r": 3}], "q": 0}}),
        );
        cache.put(&a, put, &json!(7), HOUR).unwrap();
        let same = call(
            "add",
            json!({"y": {"q": 0, "p": [1, {"r": 3, "s": 2}]}, "x": 1}),
        );
        assert_eq!(cache.output(&a, &same).as_deref(), Some("7"));
        assert_eq!(cache.output(&b, &same), None);
        for other in [
            call(
                "sub",
                json!({"x": 1, "y": {"p": [1, {"s": 2, "r": 3}], "q": 0}}),
            ),
            call("add", json!({"x": 1})),
            call(
                "add",
                json!({"x": 1, "y": {"p": [{"s": 2, "r": 3}, 1], "q": 0}}),
            ),
        ] {
            assert_eq!(cache.output(&a, &other), None, "{other:?}");
        }
        cache.put(&a, same.clone(), &json!(8), HOUR).unwrap();
        assert_eq!(cache.output(&a, &same).as_deref(), Some("8"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_output_lasts_as_long_as_was_said() {
        let cache = cache(8);
        let (a, now) = (tenant("a"), call("now", json!({})));
        cache
            .put(&a, now.clone(), &json!("noon"), Duration::from_secs(2))
            .unwrap();
        tokio::time::advance(Duration::from_millis(1999)).await;
        assert!(cache.output(&a, &now).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(cache.output(&a, &now).is_none());
        assert_eq!(cache.entries.lock().bytes, 0);
    }

    #[test]
    fn entries_and_bytes_are_bounded() {
        let mut cache = cache(3);
        cache.bytes_max = 1600;
        let a = tenant("a");
        let nth = |n: usize| call("get", json!({ "n": n }));
        for n in 0..5 {
            cache.put(&a, nth(n), &json!("short"), HOUR).unwrap();
        }
        let kept = |cache: &ToolCache| {
            (0..40)
                .filter(|n| cache.output(&a, &nth(*n)).is_some())
                .count()
        };
        assert_eq!(kept(&cache), 3);
        let long = json!("x".repeat(200));
        let refused = cache.put(&a, nth(9), &long, HOUR).unwrap_err();
        assert!(
            matches!(refused, NotKept::TooLong { most: 100, .. }),
            "{refused}"
        );
        let mut cache = self::cache(100);
        cache.bytes_max = 1600;
        for n in 0..40 {
            cache.put(&a, nth(n), &json!("x".repeat(70)), HOUR).unwrap();
        }
        let bytes = cache.entries.lock().bytes;
        assert!(bytes <= 1600 && bytes > 1400, "{bytes}");
        assert!(kept(&cache) < 20);
        // A document may have a name as long as a text, and keeps it if it has an address.
        let named = |length: usize| {
            let cache = self::cache(1);
            let id = "x".repeat(length);
            let found = json!([{ "id": id, "url": "https://h/", "contents": "T\nSome text." }]);
            let asked = call(RETRIEVE, json!({ "query": "q" }));
            cache.put(&a, asked, &found, HOUR).unwrap();
            cache.entries.lock().bytes
        };
        // As it was left, and as the retriever gives it.
        assert_eq!(named(1001) - named(1), 2000);
    }

    #[test]
    fn equal_names_of_different_documents_are_told_apart() {
        let cache = cache(8);
        let a = tenant("a");
        let put = |query: &str, output: Value| {
            let asked = call(RETRIEVE, json!({ "query": query }));
            cache.put(&a, asked.clone(), &output, HOUR).unwrap();
            // Whoever asks for the output gets it as it was left.
            assert_eq!(
                cache.output(&a, &asked).as_deref(),
                Some(&*output.to_string())
            );
            cache.passages(&a, query).unwrap()[0].id.to_string()
        };
        let one = put("one", json!([{ "id": "1", "text": "One." }]));
        let two = put("two", json!([{ "id": "1", "text": "Two." }]));
        assert!(one != two && ![&one, &two].contains(&&"1".to_owned()));
        assert_eq!(put("again", json!([{ "id": "1", "text": "One." }])), one);
        let of_the_web = json!([{ "id": "1", "text": "One.", "url": "https://h/" }]);
        assert_eq!(put("web", of_the_web), "1");
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_hears_of_what_a_look_up_would_be_served_and_uses_nothing() {
        let cache = cache(2);
        let put = |query: &str| {
            let asked = call(RETRIEVE, json!({ "query": query }));
            let output = json!([{ "id": "1", "text": "One." }]);
            cache.put(&tenant("a"), asked, &output, HOUR).unwrap();
        };
        let of = |name| Call::of(tenant(name), Lane::Authoritative, Chance::CERTAIN);
        let (a, b) = (of("a"), of("b"));
        let (fresh, quiet) = (true, false);
        put("one");
        put("two");
        assert!(cache.has(&a, " one ") && !cache.has(&b, "one") && !cache.has(&a, "One"));
        assert!(!cache.has(&of("a").with(Wishes { fresh, quiet }), "one"));
        put("three");
        assert!(!cache.has(&a, "one") && cache.has(&a, "two") && cache.has(&a, "three"));
        tokio::time::advance(HOUR).await;
        let key = ToolCall::query("two").key(a.tenant());
        assert!(!cache.has(&a, "two") && cache.entries.lock().all.peek(&key).is_some());
    }

    #[test]
    fn what_this_server_could_not_use_is_refused_with_the_reason() {
        let cache = cache(8);
        let a = tenant("a");
        for (arguments, output, said) in [
            (json!({}), json!([]), "{\"query\": \"…\"}"),
            (json!({"query": " "}), json!([]), "{\"query\": \"…\"}"),
            (json!({"query": 1}), json!([]), "{\"query\": \"…\"}"),
            (json!({"query": "q", "topk": 3}), json!([]), "nothing else"),
            (json!({"query": "q"}), json!("text"), "list of documents"),
            (
                json!({"query": "q"}),
                json!([{"id": "1"}]),
                "neither `text` nor",
            ),
        ] {
            let kept = cache.put(&a, call(RETRIEVE, arguments), &output, HOUR);
            let refused = kept.unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
