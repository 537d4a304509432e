//! Audits over scripted ports, in virtual time.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};
use spechop_proto::{AskRequest, AskResponse, VerifierMode, options};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Tenant;
use tokio::task::JoinSet;

use super::*;
use crate::admission::Admission;
use crate::caller::Caller;
use crate::server_state::scripted;
use crate::tool_cache::{RETRIEVE, ToolCall};

/// A server without doors.
struct House {
    state: Arc<ServerState>,
    ports: ScriptedPorts,
}

impl House {
    fn of(script: Script, toml: &str) -> Self {
        let (state, ports) = scripted::state(script, toml);
        Self { state, ports }
    }

    async fn ask(&self, k: u32) -> AskResponse {
        let request = AskRequest {
            question: "What comes of it?".to_owned(),
            ..AskRequest::default()
        }
        .with(|asked| {
            asked.width = Some(options::Width::K(k));
            asked.verifier = VerifierMode::Paper.into();
            asked.speculator = Some("llm".to_owned());
        });
        let admission = Admission::new(Arc::clone(&self.state));
        let admitted = admission.admit(&request, &Caller::default(), None).await;
        Box::pin(admitted.unwrap().answer()).await.unwrap()
    }

    /// Audits for so long.
    async fn audit(&self, time: Duration) {
        let _ = timeout(time, self.state.audits.keep(&self.state)).await;
    }

    fn counted(&self, line: &str) -> bool {
        let text = self.state.metrics.text();
        text.lines().any(|is| is == line)
    }

    fn found(&self) -> Findings {
        self.state.audits.counts.total()
    }
}

const ALL: &str = "[audit]\nshare = 1.0\n";
const HOURS: Duration = Duration::from_secs(7200);

/// Two hops; the first guess says something else and shares its words, which is enough for the paper's
/// rules.
fn misleading() -> Script {
    let mut script = Script::steady(&[true, true], 10, 100, 5);
    script.hops[0].answer = "John Adams".to_owned();
    script.hops[0].guesses = vec!["John Quincy Adams".to_owned()];
    script
}

#[tokio::test(start_paused = true)]
async fn a_verifier_that_accepts_wrongly_is_found_out() {
    let house = House::of(misleading(), ALL);
    let answer = house.ask(3).await;
    house.audit(HOURS).await;
    let found = house.found();
    assert_eq!(
        (found.audits, found.accepts, found.false_accepts),
        (1, 1, 1)
    );
    assert_ne!(answer.answer, "so fact 1", "it was led astray");
    assert_eq!(found.differing, 1);
    assert!(house.counted("spechop_audits_total{result=\"differs\"} 1"));
    assert!(house.counted("spechop_audit_false_accepts_total 1"));
    // What it cost is nobody's: only the audit's counters know.
    assert!(house.counted("spechop_audit_calls_total{stage=\"target\"} 2"));
    assert!(house.counted("spechop_questions_total{outcome=\"answered\"} 1"));
    let wasted = "spechop_calls_total{stage=\"target\",fate=\"used\"} ";
    let text = house.state.metrics.text();
    let used = text.lines().find_map(|line| line.strip_prefix(wasted));
    assert_eq!(used.map(str::to_owned), Some(answer.hops.len().to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_agrees_shows_zero_and_its_upper_bound() {
    let house = House::of(Script::steady(&[true, true], 10, 100, 5), ALL);
    for _ in 0..10 {
        house.ask(3).await;
    }
    house.audit(HOURS).await;
    let found = house.found();
    assert_eq!((found.audits, found.differing), (10, 0));
    assert_eq!((found.accepts, found.false_accepts), (20, 0));
    let share = found.divergence().unwrap();
    assert!(
        share.value == 0.0 && share.high > 0.2 && share.high < 0.35,
        "{share:?}"
    );
    assert!(house.counted("spechop_audit_divergence{bound=\"value\"} 0.0"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_audited_unless_somebody_says_so() {
    let house = House::of(Script::steady(&[true], 10, 100, 5), "");
    house.ask(3).await;
    let started = house.ports.started();
    house.audit(HOURS).await;
    assert_eq!(house.ports.started(), started);
    assert_eq!(house.found(), Findings::default());
}

/// No answer needs what an audit calls.
#[tokio::test(start_paused = true)]
async fn what_may_not_be_called_ahead_of_need_is_not_called_by_an_audit() {
    let policy = tempfile::NamedTempFile::new().unwrap();
    let rules = [
        ("planner", "full"),
        ("reader", "full"),
        ("retriever", "never"),
    ];
    let rules = rules
        .map(|(tool, grade)| format!("{tool} = {{ grade = {grade:?}, idempotence = \"safe\" }}\n"));
    std::fs::write(policy.path(), rules.concat()).unwrap();
    let toml = format!("{ALL}[scheduler]\npolicy = {:?}\n", policy.path());
    let house = House::of(Script::steady(&[true], 10, 100, 5), &toml);
    house.ask(3).await;
    let started = house.ports.started();
    house.audit(HOURS).await;
    assert_eq!(house.ports.started(), started + 1, "the planner's");
    assert_eq!(house.found(), Findings::default());
    assert!(house.counted("spechop_audits_total{result=\"denied\"} 1"));
}

/// One place for look-ups, and questions one after the other without a pause.
async fn under_load(toml: &str) -> (Duration, House) {
    let places = "[scheduler.retriever]\ncapacity = 1\n";
    let script = Script::steady(&[true, true], 10, 1000, 5);
    let house = House::of(script, &format!("{toml}{places}"));
    let began = Instant::now();
    let questions = async {
        for _ in 0..5 {
            // Two at once: there is always somebody who waits.
            tokio::join!(house.ask(1), house.ask(1));
        }
        began.elapsed()
    };
    let took = tokio::select! {
        took = questions => took,
        never = house.state.audits.keep(&house.state) => match never {},
    };
    (took, house)
}

#[tokio::test(start_paused = true)]
async fn under_load_nothing_is_audited_and_nothing_needed_is_later() {
    let (without, _) = under_load("").await;
    let (with, house) = under_load(ALL).await;
    assert_eq!(with, without);
    assert_eq!(house.found().audits, 0);
    // When it is over, there is time.
    house.audit(HOURS).await;
    assert!(house.found().audits > 0);
}

/// An audit runs, and a question comes: the audit leaves its place at once.
#[tokio::test(start_paused = true)]
async fn an_audit_makes_room_at_once() {
    let places = "[scheduler.retriever]\ncapacity = 1\n";
    let script = || Script::steady(&[true, true], 10, 1000, 5);
    let alone = House::of(script(), places);
    let began = Instant::now();
    alone.ask(1).await;
    let expected = began.elapsed();

    let house = House::of(script(), &format!("{ALL}{places}"));
    house.ask(1).await;
    let later = async {
        // In the middle of the audit's first look-up.
        sleep(Duration::from_millis(500)).await;
        assert_eq!(house.ports.live(), 1, "the audit's");
        let began = Instant::now();
        house.ask(1).await;
        began.elapsed()
    };
    let took = tokio::select! {
        took = later => took,
        never = house.state.audits.keep(&house.state) => match never {},
    };
    assert_eq!(took, expected);
    assert!(house.counted("spechop_audits_total{result=\"load\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn audits_are_bounded_and_respect_the_quiet() {
    let toml = "[audit]\nshare = 1.0\nper_hour = 2\n";
    let house = House::of(Script::steady(&[true], 10, 100, 5), toml);
    for _ in 0..5 {
        house.ask(3).await;
    }
    house.audit(Duration::from_secs(60)).await;
    assert_eq!(house.found().audits, 2);
    assert!(house.counted("spechop_audits_total{result=\"too_many\"} 3"));
    // Another one only once the hour of the first is over.
    for (minutes, audits) in [(40, 2), (20, 3)] {
        tokio::time::advance(Duration::from_secs(minutes * 60)).await;
        house.ask(3).await;
        house.audit(Duration::from_secs(60)).await;
        assert_eq!(house.found().audits, audits, "{minutes} minutes later");
    }

    let quiet = House::of(
        Script::steady(&[true], 10, 100, 5),
        &format!("{ALL}[tenant]\nquiet = \"*\"\n"),
    );
    quiet.ask(3).await;
    quiet.audit(HOURS).await;
    assert_eq!(quiet.found().audits, 0);
    assert!(quiet.counted("spechop_audits_total{result=\"quiet\"} 1"));
}

/// Leaves an output of the answer's second look-up for so long.
fn leave(cache: &ToolCache, answer: &AskResponse, time: Duration) -> ToolCall {
    let query = answer.hops[1].sub_question.clone();
    let call = ToolCall {
        tool: RETRIEVE.to_owned(),
        arguments: Map::from_iter([("query".to_owned(), query.into())]),
    };
    let output = json!([{ "id": "1", "text": "Something else." }]);
    let put = cache.put(&Tenant::default(), call.clone(), &output, time);
    put.unwrap();
    call
}

/// The audit would look up elsewhere what the client has left.
#[tokio::test(start_paused = true)]
async fn what_rests_on_an_output_of_a_client_is_not_audited() {
    let toml = format!("{ALL}[server]\ntool_outputs = 4\n");
    let house = House::of(Script::steady(&[true, true], 10, 100, 5), &toml);
    let answer = house.ask(1).await;
    let cache = house.state.toolbox.tool_cache.as_ref().unwrap();
    leave(cache, &answer, HOURS);
    house.ask(1).await;
    house.audit(HOURS).await;
    assert_eq!(house.found().audits, 1, "the first question");
    assert!(house.counted("spechop_audits_total{result=\"left_by_client\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn what_rests_on_an_output_that_has_left_since_is_not_audited_either() {
    let toml = format!("{ALL}[server]\ntool_outputs = 4\n");
    let mut script = Script::steady(&[true, true], 10, 100, 5);
    script.final_segment = Duration::from_millis(100);
    let house = House::of(script, &toml);
    let answer = house.ask(1).await;
    let cache = house.state.toolbox.tool_cache.as_ref().unwrap();
    // The second look-up begins after 120 ms. While the answer is written, somebody sees that its time is over.
    let call = leave(cache, &answer, Duration::from_millis(130));
    let somebody = async {
        sleep(Duration::from_millis(140)).await;
        assert!(cache.output(&Tenant::default(), &call).is_none());
    };
    tokio::join!(house.ask(1), somebody);
    house.audit(HOURS).await;
    assert_eq!(house.found().audits, 1, "the first question");
    assert!(house.counted("spechop_audits_total{result=\"left_by_client\"} 1"));
}

/// An audit is no question: it needs no place, and nobody waits in line for one because of it.
#[tokio::test(start_paused = true)]
async fn an_audit_takes_no_place() {
    let toml = format!("{ALL}[server]\nquestions_max = 1\n");
    let house = House::of(Script::steady(&[true, true], 10, 100, 5), &toml);
    house.ask(3).await;
    let places = &house.state.places;
    let place = places.take(&Tenant::default()).unwrap();
    house.audit(HOURS).await;
    assert_eq!(house.found().audits, 1);
    assert_eq!((places.taken(), places.waiting()), (1, 0));
    drop(place);
    house.ask(3).await;
    let during = async {
        while house.ports.live() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!((places.taken(), places.waiting()), (0, 0));
    };
    tokio::select! {
        () = during => {}
        never = house.state.audits.keep(&house.state) => match never {},
    }
}

/// The end of the server is the end of its audit.
#[tokio::test(start_paused = true)]
async fn an_audit_ends_with_whoever_keeps_it() {
    let house = House::of(Script::steady(&[true], 10, 1000, 5), ALL);
    house.ask(1).await;
    let mut keeper = JoinSet::new();
    let state = Arc::clone(&house.state);
    keeper.spawn(async move { state.audits.keep(&state).await });
    sleep(Duration::from_millis(200)).await;
    assert_eq!(house.ports.live(), 1);
    keeper.shutdown().await;
    assert_eq!(house.ports.live(), 0);
}

#[test]
fn an_audit_is_the_standard_agent() {
    let asked = Settings {
        width: Width::UNBOUNDED,
        finish: Some(spechop_agent::Finish::default()),
        ..Settings::default()
    };
    let audit = unneeded(&asked);
    assert_eq!(audit.width.get(), NonZeroUsize::new(1));
    assert!(audit.is_unneeded && audit.wishes.fresh);
    assert!(audit.finish.is_none() && audit.life.is_none());
    assert_eq!(audit.verifier, asked.verifier);
}
