//! What every implementation of a port owes its callers. Each implementation's tests run these,
//! the scripted ones of the testkit included.
//!
//! A broken promise panics with its name: these are tests that live beside the promise.
#![allow(clippy::panic, clippy::expect_used, reason = "assertions of tests")]

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::time::Duration;

use spechop_types::{Chance, Owned, Question, Step, SubQuestion, Tenant};

use crate::{
    Call, DraftWriter, Encoder, GuessRequest, Lane, PlanRequest, Planner, ReadRequest, Reader,
    Record, Remembered, Retriever, RewriteRequest, Rewriter, SearchProvider, SharedCells,
    SharedEntries, Speaker, Speculator, Swapped, TextKind, Turn, Version,
};

/// What every cache owes to tenants ([`spechop_types::Owned`]). `ask` asks the same every time, on behalf
/// of the tenant that it is given, and says what that has cost: calls made or tokens computed, never time.
///
/// Whoever asks again finds what was left behind. Another tenant pays as if nobody had asked.
pub async fn cache(ask: impl AsyncFn(Tenant) -> u64) {
    let [a, b] = ["a", "b"].map(|name| Tenant::new(name).expect("a name"));
    let first = ask(a.clone()).await;
    let again = ask(a.clone()).await;
    assert!(again < first, "nothing is kept: {again} after {first}");
    assert_eq!(ask(b.clone()).await, first, "b finds nothing of a");
    assert_eq!(ask(b).await, again, "b finds what is its own");
    assert_eq!(ask(a).await, again, "b takes nothing away from a");
}

/// Unit vectors of the promised width, the same for the same text, whoever shares the batch.
pub async fn encoder(encoder: &dyn Encoder) {
    let call = Call::authoritative();
    let text = "who directed the film";
    let alone = encoder.encode_query(&call, text).await.expect("a query");
    assert_eq!(alone.len(), encoder.width());
    let norm: f32 = alone.iter().map(|x| x * x).sum();
    assert!(
        (norm - 1.0).abs() < 1e-3,
        "a unit vector, not of norm² {norm}"
    );
    let guess = Call::new(Lane::Speculative, Chance::EVEN);
    let (again, _, _) = tokio::join!(
        encoder.encode_query(&call, text),
        encoder.encode_query(
            &call,
            "another query of quite another length, to share the batch"
        ),
        encoder.encode_query(&guess, "short"),
    );
    let again = again.expect("the same query");
    let dot: f32 = alone.iter().zip(&again).map(|(a, b)| a * b).sum();
    assert!(
        dot > 0.9999,
        "company in a batch must not change a vector: {dot}"
    );
    let batch = async |kind: TextKind, texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let count = texts.len();
        let encoded = encoder.encode(&call, kind, texts).await.expect("a batch");
        let vectors = encoded.vectors;
        assert_eq!(vectors.len(), count);
        assert!(vectors.iter().all(|v| v.len() == encoder.width()));
        vectors
    };
    let same = |one: &[f32], other: &[f32]| {
        let dot: f32 = one.iter().zip(other).map(|(a, b)| a * b).sum();
        assert!(dot > 0.999, "a batch gives the same vectors: {dot}");
    };
    let passages = batch(TextKind::Passage, &["first", "second passage"]).await;
    let second = batch(TextKind::Passage, &["second passage"]).await;
    same(&second[0], &passages[1]);
    let queries = batch(TextKind::Query, &[text, "short"]).await;
    same(&queries[0], &alone);
    batch(TextKind::Passage, &[]).await;
}

/// Drafts are not empty, whatever sample is asked for; a call that is dropped leaves nothing behind.
pub async fn draft_writer(writer: &dyn DraftWriter) {
    let call = Call::new(Lane::Speculative, Chance::EVEN);
    let request = || PlanRequest {
        question: Question::new("Who is the mother of the director of film Blue Kite?")
            .expect("a question"),
        hops: Vec::new(),
        must_answer: false,
        drafts: Vec::new(),
    };
    drop(writer.write_draft(&call, request(), 0));
    for sample in 0..2 {
        let written = writer.write_draft(&call, request(), sample).await;
        let draft = written.expect("a draft, or none").draft;
        if let Some(draft) = draft {
            assert!(!draft.sub_question.key().is_empty(), "a draft has words");
        }
    }
}

/// A question is one line with words in it; a call that is dropped leaves nothing behind.
pub async fn rewriter(rewriter: &dyn Rewriter) {
    let call = Call::authoritative();
    let request = || RewriteRequest {
        turns: vec![Turn {
            speaker: Speaker::User,
            text: "Who directed the film Blue Kite?".into(),
        }],
        question: "And when was he born?".into(),
    };
    drop(rewriter.rewrite(&call, request()));
    let rewritten = rewriter.rewrite(&call, request()).await;
    let question = rewritten.expect("a question").question;
    assert!(Question::new(&question).is_ok(), "it can be asked");
    assert!(!question.contains('\n'), "one line: {question:?}");
}

/// Entries are found as they were written, by their tenants alone; a write that is based on an older state
/// is refused; those written least recently leave. There are no entries at the beginning; vectors have
/// four components.
pub async fn shared_entries(entries: &dyn SharedEntries) {
    let [a, b] = ["a", "b"].map(|name| Tenant::new(name).expect("a name"));
    let call = Call::new(Lane::Speculative, Chance::EVEN);
    let entry = |tenant: &Tenant, answer: &str, vector: &[i8]| Remembered {
        tenant: tenant.clone(),
        asked: "Who directed Kanał?".into(),
        answer: answer.into(),
        own: Record { right: 1, wrong: 2 },
        neighbour: Record { right: 0, wrong: 3 },
        vector: (!vector.is_empty()).then(|| vector.to_vec()),
    };
    let find = async |tenant: &Tenant, key: &str| {
        let found = entries.find(&call, &Owned::new(tenant, key.into())).await;
        found.expect("an answer")
    };
    let put = async |key: &str, entry: &Remembered, before: Option<&Version>| {
        let key = Owned::new(&entry.tenant, key.into());
        let put = entries.replace(&call, &key, entry, before).await;
        put.expect("a write")
    };
    let near = async |tenant: &Tenant, vector: &[i8], most| {
        let most = NonZeroUsize::new(most).expect("some");
        let near = entries.near(&call, tenant, vector, 0.5, most).await;
        let near = near.expect("a search").into_iter();
        let answer = |(cosine, found): (f32, Remembered)| {
            assert_eq!(found.tenant, *tenant);
            (format!("{cosine:.2}"), found.answer.to_string())
        };
        near.map(answer).collect::<Vec<_>>()
    };
    let said = |cosine: &str, answer: &str| (cosine.to_owned(), answer.to_owned());

    assert_eq!(find(&a, "k").await, None);
    let first = entry(&a, "Wajda", &[127, 0, 0, 0]);
    assert!(put("k", &first, None).await);
    assert!(
        !put("k", &entry(&a, "Ford", &[]), None).await,
        "it is there"
    );
    let (found, version) = find(&a, "k").await.expect("it was written");
    assert_eq!(found, first);
    assert_eq!(find(&b, "k").await, None, "b has written nothing");
    assert!(near(&b, &[127, 0, 0, 0], 9).await.is_empty());

    // Another tenant's is another entry, and a change of one does not touch the other.
    assert!(put("k", &entry(&b, "Ford", &[0, 127, 0, 0]), None).await);
    let second = entry(&a, "Andrzej Wajda", &[127, 0, 0, 0]);
    assert!(put("k", &second, Some(&version)).await);
    let late = entry(&a, "late", &[127, 0, 0, 0]);
    assert!(!put("k", &late, Some(&version)).await, "an older state");
    assert_eq!(find(&a, "k").await.expect("it is there").0, second);
    assert_eq!(&*find(&b, "k").await.expect("it is there").0.answer, "Ford");

    let silent = entry(&a, "no vector", &[]);
    assert!(put("silent", &silent, None).await);
    assert_eq!(find(&a, "silent").await.expect("it is there").0, silent);
    assert!(put("near", &entry(&a, "near", &[100, 100, 0, 0]), None).await);
    let both = [said("1.00", "Andrzej Wajda"), said("0.71", "near")];
    assert_eq!(near(&a, &[50, 0, 0, 0], 9).await, both);
    assert_eq!(near(&a, &[50, 0, 0, 0], 1).await, both[..1]);
    assert!(near(&a, &[0, 0, 127, 0], 9).await.is_empty());

    let most = |most| NonZeroUsize::new(most).expect("some");
    assert_eq!(entries.trim(&call, most(4)).await.expect("a count"), 0);
    assert_eq!(entries.trim(&call, most(2)).await.expect("a count"), 2);
    assert_eq!((find(&b, "k").await, find(&a, "k").await), (None, None));
    assert!(find(&a, "near").await.is_some() && find(&a, "silent").await.is_some());
}

/// A change is made by whoever knows what is there, and by one of several at the same time. Names are kept
/// apart, and what is not changed is gone after its time. There is nothing at the beginning.
pub async fn shared_cells(cells: &dyn SharedCells) {
    let long = Duration::from_secs(600);
    let swap = async |name: &str, seen: Option<&str>, new: &str| {
        let swapped = cells.swap(name, seen, new, long).await;
        swapped.expect("an answer")
    };
    let read = async |name: &str| cells.read(name).await.expect("an answer");
    let other = |there: &str| Swapped::Other(Some(there.to_owned()));
    assert_eq!(read("a").await, None);
    assert_eq!(swap("a", Some("x"), "y").await, Swapped::Other(None));
    assert_eq!(swap("a", None, "one").await, Swapped::Made);
    assert_eq!(swap("a", None, "two").await, other("one"));
    assert_eq!(swap("a", Some("on"), "two").await, other("one"));
    assert_eq!(swap("a", Some("one"), "zwei: ß\n\0\"").await, Swapped::Made);
    assert_eq!(read("a").await.as_deref(), Some("zwei: ß\n\0\""));
    assert_eq!(read("a:b").await, None);
    assert_eq!(swap("a:b", None, "three").await, Swapped::Made);
    assert_eq!(read("a").await.as_deref(), Some("zwei: ß\n\0\""));

    let raced = |new| swap("raced", None, new);
    let (a, b, c, d) = tokio::join!(raced("a"), raced("b"), raced("c"), raced("d"));
    let all = [a, b, c, d];
    let made = all.iter().filter(|swapped| **swapped == Swapped::Made);
    assert_eq!(made.count(), 1, "{all:?}");

    let brief = cells.swap("brief", None, "gone soon", Duration::from_millis(1));
    assert_eq!(brief.await.expect("an answer"), Swapped::Made);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(read("brief").await, None);
}

/// At most `limit`, best first, no passage twice, the same again.
pub async fn retriever(retriever: &dyn Retriever) {
    let call = Call::authoritative();
    for limit in [0, 1, 3] {
        let hits = retriever
            .retrieve(&call, "rivers of France", limit)
            .await
            .expect("a search");
        assert!(hits.len() <= limit);
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score), "best first");
        let ids: HashSet<_> = hits.iter().map(|p| &p.id).collect();
        assert_eq!(ids.len(), hits.len(), "no passage twice");
        let again = retriever
            .retrieve(&call, "rivers of France", limit)
            .await
            .expect("the same search");
        assert_eq!(hits, again);
    }
}

/// Told to answer, it answers; what it says is never empty.
pub async fn planner(planner: &dyn Planner) {
    let call = Call::authoritative();
    let mut request = PlanRequest {
        question: Question::new("Who is the mother of the director of film Polish-Russian War?")
            .expect("a question"),
        hops: Vec::new(),
        must_answer: false,
        drafts: Vec::new(),
    };
    match planner
        .plan(&call, request.clone())
        .await
        .expect("a step")
        .step
    {
        Step::Ask(sub_question) => assert!(!sub_question.key().is_empty()),
        Step::Answer(answer) => assert!(!answer.trim().is_empty()),
    }
    request.must_answer = true;
    match planner.plan(&call, request).await.expect("an answer").step {
        Step::Answer(answer) => assert!(!answer.trim().is_empty()),
        Step::Ask(_) => panic!("a planner that must answer asked"),
    }
}

/// No passages, no answer; an answer is never empty.
pub async fn reader(reader: &dyn Reader) {
    let call = Call::authoritative();
    let request = ReadRequest {
        sub_question: SubQuestion::new("Who directed the film Polish-Russian War?"),
        passages: [].into(),
    };
    let reading = reader.read(&call, request.clone()).await;
    let reading = reading.expect("a reading");
    assert_eq!(reading.answer, None, "nothing read, nothing found");
    let limit = 3.try_into().expect("a number");
    let ranked = reader.read_ranked(&call, request, limit).await;
    let ranked = ranked.expect("a reading");
    assert!(ranked.answers.is_empty(), "nothing read, nothing found");
}

/// Guesses are never empty, never the same twice, and no more than asked for.
pub async fn speculator(speculator: &dyn Speculator) {
    for limit in [1, 3] {
        let request = GuessRequest {
            question: Question::new(
                "Who is the mother of the director of film Polish-Russian War?",
            )
            .expect("a question"),
            hops: Vec::new(),
            sub_question: SubQuestion::new("Who directed the film Polish-Russian War?"),
            passages: 5.try_into().expect("a number"),
            limit: limit.try_into().expect("a number"),
        };
        let call = Call::new(Lane::Speculative, Chance::EVEN);
        let guesses = speculator
            .guess(&call, request)
            .await
            .expect("guesses or none")
            .guesses;
        assert!(guesses.len() <= limit);
        assert!(guesses.iter().all(|guess| !guess.text.trim().is_empty()));
        let distinct: HashSet<_> = guesses.iter().map(|guess| &guess.text).collect();
        assert_eq!(distinct.len(), guesses.len(), "no guess twice");
    }
}

/// At most `limit`, http and https only, no URL twice, the same again.
pub async fn search_provider(provider: &dyn SearchProvider) {
    let call = Call::authoritative();
    for limit in [0, 1, 3] {
        let search = || provider.search(&call, "rivers of France", limit);
        let found = search().await.expect("a search");
        assert!(found.len() <= limit);
        assert!(
            found
                .iter()
                .all(|result| matches!(result.url.scheme(), "http" | "https"))
        );
        let urls: HashSet<_> = found.iter().map(|result| &result.url).collect();
        assert_eq!(urls.len(), found.len(), "no URL twice");
        assert_eq!(found, search().await.expect("the same search"));
    }
}
