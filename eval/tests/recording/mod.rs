//! A question to record over scripted ports, in any variant, and what is told of its answer.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{Agent, AgentError, Ports, Report, Settings, StageLimits};
use spechop_eval::{
    Bundle, BundleInfo, Dataset, HopKind, Machine, Parts, Question, RecordError, Recorder, Row,
    Variant,
};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::CommitKind;
use spechop_window::Policy;

/// For how long the simulator keeps an orphan.
const ORPHAN: Duration = Duration::from_secs(10);

pub fn variant(text: &str) -> Variant {
    text.parse().unwrap()
}

/// Words of several bytes, and more white space than the ports are told of.
pub fn question(hop_budget: u32) -> Question {
    Question {
        id: "q0".into(),
        dataset: Dataset::Wiki,
        kind: "bridge".into(),
        text: " Who is the mother of  the director of Żółć? ".into(),
        answers: vec!["fact".into()],
        titles: Vec::new(),
        hops: Vec::new(),
        hop_budget,
    }
}

pub fn info() -> BundleInfo {
    BundleInfo {
        system: "scripted".into(),
        dataset: Dataset::Wiki,
        questions: 0,
        seed: 1,
        passages: 5,
        parts: BTreeMap::from([("planner".into(), "abc".into())]),
        commits: vec!["c1".into()],
        machine: Machine {
            cores: 2,
            cpu: "any".into(),
        },
        commands: vec!["a test".into()],
    }
}

pub fn in_memory(question: Question) -> Bundle {
    Bundle::in_memory(info(), vec![question])
}

/// Begins the bundle of one question with five hops, or goes on with it.
pub fn on_disk(dir: &Path) -> Bundle {
    Bundle::record(dir, info(), &[question(5)], false).unwrap()
}

/// Every part is the script; the speculator is `hot`.
pub fn parts(ports: &ScriptedPorts) -> Parts {
    let port = Arc::new(ports.clone());
    Parts {
        planner: port.clone(),
        retriever: port.clone(),
        reader: port.clone(),
        speculators: BTreeMap::from([("hot".into(), port as _)]),
    }
}

pub fn recorder(ports: &ScriptedPorts) -> Recorder {
    Recorder::new(parts(ports))
}

/// Records the bundle's only question.
pub async fn record(
    recorder: &mut Recorder,
    bundle: &mut Bundle,
    variant: &Variant,
) -> Result<Row, RecordError> {
    recorder.record(bundle, 0, variant, None, &mut |_| {}).await
}

/// A bundle that holds whatever these variants need.
pub async fn recorded(script: &Script, question: Question, variants: &[&str]) -> Bundle {
    let mut recorder = recorder(&ScriptedPorts::new(script.clone()));
    let mut bundle = in_memory(question);
    for text in variants {
        let row = record(&mut recorder, &mut bundle, &variant(text)).await;
        row.unwrap();
    }
    bundle
}

/// The real agent, over these parts that are `speed` times faster than they should be.
pub async fn live(
    parts: Parts,
    question: &Question,
    variant: &Variant,
    speed: f64,
) -> Result<Report, AgentError> {
    let agent = Agent::new(Ports {
        planner: parts.planner,
        reader: parts.reader,
        retriever: parts.retriever,
        speculator: parts.speculators.get(variant.speculator()).cloned(),
        drafter: None,
        draft_writer: None,
    });
    assert!(!variant.unverified, "the agent always verifies");
    let usual = Settings::default().with(&variant.options);
    let settings = Settings {
        policy: Policy {
            continuous: !variant.rounds,
            guess_at_once: variant.guess_at_once,
            build_on_observations: variant.on_observations,
            drafts_max: 0,
            ..usual.policy
        },
        orphan_time: ORPHAN.div_f64(speed),
        hops_max: question.hop_budget,
        not_found_max: question.dataset.not_found_max(),
        // Recordings know none.
        limits: StageLimits::NONE,
        ..usual
    };
    let asked = spechop_types::Question::new(&question.text).unwrap();
    agent.answer(&asked, &settings, &mut |_| {}).await
}

/// Everything of an answer but its times.
#[derive(Debug, PartialEq)]
pub struct Told {
    pub answer: String,
    pub hops: Vec<ToldHop>,
    /// Of segments, targets and speculations: started, wasted, tokens, wasted tokens.
    pub calls: [[u64; 4]; 3],
    pub salvaged: u32,
}

#[derive(Debug, PartialEq)]
pub struct ToldHop {
    pub sub_question: String,
    pub answer: String,
    pub kind: HopKind,
    pub guess: Option<String>,
    pub observed: String,
    pub found: bool,
    pub titles: Vec<String>,
}

impl From<&Row> for Told {
    fn from(row: &Row) -> Self {
        let hops = row.hops.iter().map(|hop| ToldHop {
            sub_question: hop.sub_question.clone(),
            answer: hop.answer.clone(),
            kind: hop.kind,
            guess: hop.guess.clone(),
            observed: hop.observed.clone(),
            found: hop.found,
            titles: hop.titles.clone(),
        });
        let calls = [row.segments, row.targets, row.speculations];
        Self {
            answer: row.answer.clone(),
            hops: hops.collect(),
            calls: calls.map(|calls| {
                let [started, wasted] = [calls.started, calls.wasted].map(u64::from);
                [started, wasted, calls.tokens, calls.wasted_tokens]
            }),
            salvaged: row.salvaged,
        }
    }
}

impl From<&Report> for Told {
    fn from(report: &Report) -> Self {
        let hops = report.hops.iter().map(|hop| &hop.hop).map(|hop| ToldHop {
            sub_question: hop.sub_question.as_str().to_owned(),
            answer: hop.answer.to_string(),
            kind: match hop.kind {
                CommitKind::Observed => HopKind::Observed,
                CommitKind::Accepted => HopKind::Accepted,
                CommitKind::Rejected => HopKind::Rejected,
            },
            guess: hop.guess.as_ref().map(ToString::to_string),
            observed: hop.observation.answer.to_string(),
            found: hop.observation.found,
            titles: hop
                .observation
                .evidence
                .iter()
                .map(|passage| passage.title.to_string())
                .collect(),
        });
        let usage = report.usage;
        let calls = [usage.segments, usage.targets, usage.speculations];
        Self {
            answer: report.answer.to_string(),
            hops: hops.collect(),
            calls: calls.map(|calls| {
                let [started, wasted] = [calls.started, calls.wasted].map(u64::from);
                let [all, lost] = [calls.cost, calls.cost_wasted].map(|cost| cost.tokens.total());
                [started, wasted, all, lost]
            }),
            salvaged: usage.salvaged,
        }
    }
}

/// Its times in milliseconds: the latency, the final segment, and every hop's; -1 for a guess that
/// never came.
pub fn times(row: &Row) -> Vec<f64> {
    let hops = row.hops.iter().flat_map(|hop| {
        let guess = hop.speculation_ms.unwrap_or(-1.0);
        [hop.segment_ms, hop.target_ms, guess]
    });
    [row.latency_ms, row.final_ms]
        .into_iter()
        .chain(hops)
        .collect()
}

/// The same of the agent.
pub fn live_times(report: &Report, speed: f64) -> Vec<f64> {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0 * speed;
    let hops = report.hops.iter().flat_map(|hop| {
        let times = hop.times;
        let guess = times.speculation.map_or(-1.0, ms);
        [ms(times.segment), ms(times.target), guess]
    });
    [ms(report.elapsed), ms(report.final_segment)]
        .into_iter()
        .chain(hops)
        .collect()
}

pub fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}
