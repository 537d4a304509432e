//! Whole questions, played in paused time, as spans.

mod plans;
mod sampling;
mod silent;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use spechop_agent::{Agent, CallEnd, CallNote, Policy, Ports, Report, Settings, TraceKind, Width};
use spechop_ports::{Call, PortError, Retriever};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Activities, BranchId, Chance, Passage, Question, Stage, Tokens, TraceContext};
use spechop_verifier::Mode;

use super::key::Key;
use super::story::Fate;
use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Passes look-ups on, and notes for which span each was made.
struct Overheard {
    inner: ScriptedPorts,
    heard: Mutex<Vec<String>>,
}

#[async_trait]
impl Retriever for Overheard {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let parent = call.trace_headers().next().map(|(_, value)| value);
        self.heard.lock().extend(parent);
        self.inner.retrieve(call, query, limit).await
    }
}

/// A question that was answered under the eyes of a record.
struct Played {
    spans: Vec<Span>,
    report: Option<Report>,
    /// What its look-ups told upstream.
    heard: Vec<String>,
}

fn settings(k: usize) -> Settings {
    Settings {
        width: NonZeroUsize::new(k).map_or(Width::UNBOUNDED, Width::bounded),
        hops_max: 8,
        verifier: Mode::Exact,
        ..Settings::default()
    }
}

fn told(sample: f64) -> Spans {
    let otlp = Otlp {
        endpoint: "http://127.0.0.1:1".to_owned(),
        sample,
        per_second: 100,
        headers: Vec::new(),
    };
    Spans::new(Some(&otlp), SpanCounts::default())
}

/// Plays a question to its end, or for so long.
async fn play(script: Script, settings: Settings, limit: Duration) -> Played {
    play_behind(Duration::ZERO, script, settings, limit).await
}

/// The same, if a conversation is put into the question for so long before its agent begins.
async fn play_behind(
    before: Duration,
    script: Script,
    mut settings: Settings,
    limit: Duration,
) -> Played {
    let spans = told(0.0);
    let parent = TraceContext::parse(PARENT, "a=1");
    let traced = spans.trace(parent, &mut settings, SpeculatorKind::Llm);
    let mut record = traced.record.unwrap();
    if !before.is_zero() {
        tokio::time::sleep(before).await;
        record.rewritten(rewriting(before));
        record.agent_begins(before);
    }
    let ports = ScriptedPorts::new(script);
    let retriever = Arc::new(Overheard {
        inner: ports.clone(),
        heard: Mutex::default(),
    });
    let port = Arc::new(ports);
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: retriever.clone(),
        speculator: Some(port.clone()),
        drafter: Some(port),
        draft_writer: None,
    });
    let question = Question::new("Who is the mother of the director?").unwrap();
    let hear = &mut |mut event: TraceEvent| {
        event.at += before;
        record.hear(&event);
    };
    let answer = tokio::time::timeout(limit, agent.answer(&question, &settings, hear)).await;
    let report = answer.ok().map(Result::unwrap);
    if report.is_some() {
        record.ended(Outcome::Answered);
    } else {
        drop(record);
    }
    let spans = taken(spans.queue().unwrap());
    let heard = std::mem::take(&mut *retriever.heard.lock());
    Played {
        spans,
        report,
        heard,
    }
}

/// A call that has put a conversation into its question.
fn rewriting(took: Duration) -> CallNote {
    CallNote {
        number: 0,
        stage: Stage::Segment,
        lookup: None,
        branch: None,
        hop: 0,
        began: Duration::ZERO,
        ended: took,
        was_speculative: false,
        is_needed: true,
        was_kept: false,
        tokens: Tokens::default(),
        activities: Activities::default(),
        end: CallEnd::Done,
    }
}

/// The spans that wait.
fn taken(queue: &Queue) -> Vec<Span> {
    let stories = std::iter::repeat_with(|| queue.take());
    let stories = stories.take_while(|stories| !stories.is_empty()).flatten();
    let told = stories.map(|story| {
        let spans = story.tell();
        assert_eq!(spans.len(), story.len());
        spans
    });
    told.flatten().collect()
}

async fn answered(script: Script, settings: Settings) -> Played {
    play(script, settings, Duration::from_secs(3600)).await
}

/// Three hops, the last of which needs none before it; the first guess is wrong.
fn independent() -> Script {
    let mut script = Script::steady(&[false, true, true], 100, 1000, 50);
    script.hops[2].depends_on = Some(Vec::new());
    script
}

/// Of a question that ended at once: one span.
pub(super) fn empty_story() -> Story {
    Story {
        context: TraceContext::root(1, 2, true),
        parent: None,
        began: SystemTime::UNIX_EPOCH,
        elapsed: Duration::ZERO,
        outcome: Outcome::Answered,
        width: Width::UNBOUNDED,
        speculator: SpeculatorKind::Llm,
        marks: Marks::default(),
        notes: spechop_agent::Notes::default(),
        rewriting: None,
    }
}

fn text(span: &Span, key: Key) -> String {
    let named = span.attributes.iter().find(|a| a.key == key.as_str());
    let value = named.and_then(|a| a.value.clone()?.value);
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn named<'a>(spans: &'a [Span], name: &'a str) -> impl Iterator<Item = &'a Span> {
    spans.iter().filter(move |span| span.name == name)
}

fn fates(spans: &[Span], name: &str) -> BTreeMap<String, usize> {
    named(spans, name).fold(BTreeMap::new(), |mut sum, span| {
        *sum.entry(text(span, Key::Fate)).or_default() += 1;
        sum
    })
}

fn counts<const N: usize>(expected: [(Fate, usize); N]) -> BTreeMap<String, usize> {
    let named = expected.map(|(fate, number)| (fate.as_str().to_owned(), number));
    BTreeMap::from(named)
}

/// What holds for the spans of every question.
fn check(spans: &[Span]) {
    let known: BTreeSet<_> = Key::ALL.iter().map(|key| key.as_str()).collect();
    assert_eq!(known.len(), Key::ALL.len());
    let by_id: BTreeMap<_, _> = spans.iter().map(|s| (s.span_id.clone(), s)).collect();
    assert_eq!(by_id.len(), spans.len(), "no two spans have one name");
    for span in spans {
        assert_eq!(span.trace_id, spans[0].trace_id);
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert_eq!(span.trace_state, "a=1");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        let attributes = span.attributes.iter();
        let links = span.links.iter().flat_map(|link| &link.attributes);
        for attribute in attributes.chain(links) {
            assert!(known.contains(&*attribute.key), "{}", attribute.key);
        }
        for link in &span.links {
            assert!(by_id.contains_key(&link.span_id), "a link to nowhere");
        }
        if span.name == "question" {
            continue;
        }
        let parent = by_id[&span.parent_span_id];
        let expected = match &*span.name {
            "hop" | "rewriting" => "question",
            "branch" => "hop",
            // Of a plan that is not told.
            _ if text(span, Key::Branch).is_empty() => "question",
            _ => "branch",
        };
        assert_eq!(parent.name, expected);
        assert!(span.start_time_unix_nano >= parent.start_time_unix_nano);
        assert!(span.end_time_unix_nano <= spans[0].end_time_unix_nano);
    }
}

#[tokio::test(start_paused = true)]
async fn a_salvaged_look_up_is_linked_with_what_took_it_over() {
    let Played {
        spans,
        report,
        heard,
    } = answered(independent(), settings(0)).await;
    check(&spans);
    let usage = report.unwrap().usage;
    for (stage, calls) in [
        (Stage::Segment, usage.segments.started),
        (Stage::Target, usage.targets.started),
        (Stage::Speculation, usage.speculations.started),
    ] {
        let told = named(&spans, stage.as_str()).count();
        assert_eq!(told, calls as usize, "{stage}");
    }
    // The first hop's look-up was needed from the start, the second was begun behind a guess that held.
    let expected = [
        (Fate::Committed, 2),
        (Fate::RolledBack, 1),
        (Fate::Salvaged, 1),
    ];
    assert_eq!(fates(&spans, "target"), counts(expected));
    let is_salvaged = |span: &&Span| text(span, Key::Fate) == Fate::Salvaged.as_str();
    let salvaged = named(&spans, "target").find(is_salvaged).unwrap();
    assert_eq!(salvaged.links.len(), 1);
    let branch = named(&spans, "branch").find(|b| b.span_id == salvaged.links[0].span_id);
    let branch = branch.unwrap();
    assert_eq!(branch.links[0].span_id, salvaged.span_id);
    assert_ne!(branch.span_id, salvaged.parent_span_id);
    // 1,000 ms in the tool, whoever waited for it.
    let took = salvaged.end_time_unix_nano - salvaged.start_time_unix_nano;
    assert_eq!(took, 1_000_000_000);
    // Whoever was asked upstream knows the very spans.
    let targets: BTreeSet<_> = named(&spans, "target").map(|s| hex(&s.span_id)).collect();
    let asked = heard.iter().map(|parent| parent[36..52].to_owned());
    assert_eq!(asked.collect::<BTreeSet<_>>(), targets);
    assert!(heard.iter().all(|parent| parent[..36] == PARENT[..36]));
}

#[tokio::test(start_paused = true)]
async fn a_guess_that_holds_promotes_what_stands_on_it() {
    let script = Script::steady(&[true, true], 100, 1000, 50);
    let Played { spans, report, .. } = answered(script, settings(3)).await;
    check(&spans);
    assert_eq!(
        fates(&spans, "target"),
        counts([(Fate::Committed, 1), (Fate::Promoted, 1)])
    );
    assert_eq!(
        fates(&spans, "branch"),
        counts([(Fate::Committed, 1), (Fate::Promoted, 2)])
    );
    assert_eq!(fates(&spans, "speculation"), counts([(Fate::Committed, 2)]));
    let verdicts = named(&spans, "branch").map(|b| (text(b, Key::Verdict), text(b, Key::Rule)));
    let accepted = verdicts.filter(|v| *v == ("true".to_owned(), "equal".to_owned()));
    assert_eq!(accepted.count(), 2);
    let question = &spans[0];
    assert_eq!(hex(&question.parent_span_id), PARENT[36..52]);
    assert_eq!(hex(&question.trace_id), PARENT[3..35]);
    let took = Duration::from_nanos(question.end_time_unix_nano - question.start_time_unix_nano);
    assert_eq!(took, report.unwrap().elapsed);
    assert_eq!(text(question, Key::K), "3");
    assert_eq!(text(question, Key::Outcome), "answered");
    assert!(question.status.is_none());
}

/// The branch that wrote a first answer, and one of the fallback, which has answered or has failed.
fn of_two_plans(is_by_fallback: bool) -> Vec<Span> {
    let event = |branch: u32, kind: TraceKind| TraceEvent {
        at: Duration::ZERO,
        branch: BranchId(branch),
        hop: 1,
        provisional: false,
        kind,
    };
    let begins = || TraceKind::Launched {
        stage: Stage::Segment,
    };
    let of_form = Chance::NONE;
    let mut marks = Marks::default();
    marks.hear(&event(0, begins()));
    marks.hear(&event(1, TraceKind::HandedOver { of_form }));
    marks.hear(&event(1, begins()));
    if is_by_fallback {
        marks.answered_by_fallback();
    }
    let story = Story {
        marks,
        ..empty_story()
    };
    story.tell()
}

#[test]
fn of_a_question_that_was_handed_over_one_plan_counts() {
    for (is_by_fallback, expected) in [
        (true, ["unused", "committed"]),
        (false, ["committed", "unused"]),
    ] {
        let spans = of_two_plans(is_by_fallback);
        let branches = named(&spans, "branch");
        let fates: Vec<_> = branches.map(|span| text(span, Key::Fate)).collect();
        assert_eq!(fates, expected);
        assert_eq!(text(&spans[1], Key::Fate), "committed", "the hop");
    }
}

/// As a question of a conversation is.
#[tokio::test(start_paused = true)]
async fn what_was_done_before_the_agent_began_shifts_all_its_work() {
    let (before, hour) = (Duration::from_secs(5), Duration::from_secs(3600));
    let script = Script::steady(&[true, true], 100, 1000, 50);
    let Played { spans, .. } = play_behind(before, script, settings(3), hour).await;
    check(&spans);
    let begins = spans[0].start_time_unix_nano + 5_000_000_000;
    assert!(named(&spans, "target").count() > 0);
    let is_before = |span: &&Span| span.start_time_unix_nano < begins;
    let before: Vec<_> = spans[1..].iter().filter(is_before).collect();
    assert_eq!(before.len(), 1, "{before:?}");
    // What was done then has a span of its own, and is of no hop.
    assert_eq!(before[0].name, "rewriting");
    assert_eq!(before[0].end_time_unix_nano, begins);
    assert_eq!(text(before[0], Key::Fate), Fate::Committed.as_str());
    assert_eq!(text(before[0], Key::Hop), "");
}

#[tokio::test(start_paused = true)]
async fn the_standard_agent_guesses_nothing() {
    let script = Script::steady(&[true, true], 100, 1000, 50);
    let Played { spans, .. } = answered(script, settings(1)).await;
    check(&spans);
    assert_eq!(named(&spans, "speculation").count(), 0);
    assert_eq!(fates(&spans, "target"), counts([(Fate::Committed, 2)]));
    let speculative = spans.iter().map(|span| text(span, Key::Speculative));
    assert!(speculative.into_iter().all(|value| value != "true"));
}

/// The client hangs up while a look-up and the work behind its guess are under way.
#[tokio::test(start_paused = true)]
async fn a_question_that_goes_away_is_told_with_what_ran() {
    let script = Script::steady(&[true, true], 100, 1000, 50);
    let Played { spans, report, .. } = play(script, settings(3), Duration::from_millis(600)).await;
    assert!(report.is_none());
    check(&spans);
    assert_eq!(text(&spans[0], Key::Outcome), "cancelled");
    assert!(spans[0].status.is_some());
    let targets: Vec<_> = named(&spans, "target").collect();
    assert_eq!(targets.len(), 2);
    for target in targets {
        assert_eq!(text(target, Key::End), "dropped");
        assert_eq!(text(target, Key::Fate), Fate::Unused.as_str());
    }
}

/// Whatever the world does, the spans belong together.
#[tokio::test(start_paused = true)]
async fn random_questions_have_spans_that_belong_together() {
    let paper = Settings {
        policy: Policy::EAGER,
        ..settings(3)
    };
    for seed in 0..200 {
        let settings = if seed % 2 == 0 {
            settings(0)
        } else {
            paper.clone()
        };
        let Played { spans, report, .. } = answered(Script::random(seed), settings).await;
        check(&spans);
        let usage = report.unwrap().usage;
        let used = [
            Fate::Committed,
            Fate::Promoted,
            Fate::Salvaged,
            Fate::Foreseen,
        ];
        let used: usize = (used.iter())
            .filter_map(|fate| fates(&spans, "target").get(fate.as_str()).copied())
            .sum();
        let committed = (usage.targets.started - usage.targets.wasted) as usize;
        assert_eq!(used, committed, "seed {seed}");
    }
}

#[test]
fn the_documents_name_every_attribute() {
    let text = include_str!("../../../../docs/METRICS.md");
    let section = text.split("\n## Traces\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<_> = rows.map(|row| row.split('`').next().unwrap()).collect();
    let known: BTreeSet<_> = Key::ALL.iter().map(|key| key.as_str()).collect();
    assert_eq!(documented, known);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
