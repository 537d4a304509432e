//! Look-ups that begin while the planner writes: what they save, what they cost, what is told.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::sync::Arc;
use std::time::Duration;

use crate::asking::{line, millis, question, settings, steady, trajectory};
use parking_lot::Mutex;
use spechop_agent::{
    Agent, Journal, Policy, Ports, Report, Settings, Stopped, TraceEvent, TraceKind,
};
use spechop_ports::{DraftRequest, Drafter, Wishes};
use spechop_testkit::ScriptedPorts;
use spechop_types::{Budget, Chance, Draft, Hop, Question, SubQuestion, Tenant};

/// Drafts what it was told to, for each hop.
struct Told {
    drafts: Vec<Vec<&'static str>>,
    /// How many hops of each question it was told, and whether that was the end.
    learnt: Mutex<Vec<(usize, bool)>>,
}

impl Drafter for Told {
    fn draft(&self, request: &DraftRequest<'_>) -> Vec<Draft> {
        let drafts = self.drafts.get(request.hops.len());
        let drafts = drafts.into_iter().flatten().take(request.limit);
        let draft = |text: &&str| Draft {
            sub_question: SubQuestion::new(text),
            chance: Chance::EVEN,
        };
        drafts.map(draft).collect()
    }

    fn learn(&self, _: &Tenant, _: &Question, hops: &[Hop], ended: bool) {
        self.learnt.lock().push((hops.len(), ended));
    }
}

fn told(ports: &ScriptedPorts, drafts: &[&[&'static str]]) -> (Agent, Arc<Told>) {
    let port = Arc::new(ports.clone());
    let told = Arc::new(Told {
        drafts: drafts.iter().map(|drafts| drafts.to_vec()).collect(),
        learnt: Mutex::default(),
    });
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port.clone(),
        speculator: Some(port),
        drafter: Some(told.clone()),
        draft_writer: None,
    });
    (agent, told)
}

fn drafting(k: usize) -> Settings {
    Settings {
        policy: Policy {
            drafts_max: 2,
            ..Policy::default()
        },
        ..settings(k)
    }
}

async fn ask_with(drafts: &[&[&'static str]], settings: &Settings) -> (Report, Vec<String>) {
    let ports = steady(&[true, true]);
    let (agent, told) = told(&ports, drafts);
    let mut lines = Vec::new();
    let mut trace = |event: TraceEvent| lines.push(line(&event));
    let report = agent.answer(&question(), settings, &mut trace).await;
    let report = report.unwrap();
    assert_eq!(ports.live(), 0, "SPEC-9: calls are left");
    let ended = report.stopped == Stopped::Answered;
    assert_eq!(*told.learnt.lock(), [(report.hops.len(), ended)]);
    (report, lines)
}

const RIGHT: &[&[&str]] = &[&["q0 after nothing?"], &["q1 after fact 0?"]];

/// Each of two hops has a call, and none is left for a draft that may be wrong.
#[tokio::test(start_paused = true)]
async fn a_draft_takes_no_call_that_a_hop_may_need() {
    let settings = Settings {
        hops_max: 2,
        budget: Budget {
            target_calls: Some(2),
            ..Budget::default()
        },
        ..drafting(2)
    };
    let (report, _) = ask_with(&[&["something else?"]], &settings).await;
    assert_eq!((report.hops.len(), report.usage.targets.started), (2, 2));
}

/// Behind its last hop it might have asked on, so nothing more being asked there is no lesson.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_cut_short_teaches_no_end() {
    let short = Settings {
        hops_max: 1,
        ..drafting(2)
    };
    let (report, _) = ask_with(&[], &short).await;
    assert_eq!((report.hops.len(), report.stopped), (1, Stopped::HopBudget));
}

#[tokio::test(start_paused = true)]
async fn a_right_draft_hides_the_time_of_writing() {
    let (without, _) = ask_with(&[], &drafting(3)).await;
    let (with, lines) = ask_with(RIGHT, &drafting(3)).await;
    assert_eq!(trajectory(&with), trajectory(&without));
    // Each look-up begins with its segment, 100 ms before the planner asks for it.
    assert_eq!((millis(&with), millis(&without)), (1150, 1250));
    let counts = |report: &Report| {
        let usage = report.usage;
        (usage.drafted, usage.foreseen, usage.hidden.as_millis())
    };
    assert_eq!(counts(&with), (2, 2, 200));
    assert_eq!(counts(&without), (0, 0, 0));
    assert_eq!(with.usage.targets, without.usage.targets);
    for hop in &with.hops {
        assert_eq!(hop.draft_held, Some(true));
        assert_eq!(hop.draft_right, Some(true));
        assert_eq!(hop.foreseen.as_millis(), 100);
        assert_eq!(hop.times.target.as_millis(), 1000);
    }
    assert!(without.hops.iter().all(|hop| hop.draft_held.is_none()));
    // What was not looked up is judged as well.
    for k in [1, 3] {
        let (off, _) = ask_with(&[&["q0 after nothing?"], &["q1 after all?"]], &settings(k)).await;
        let right: Vec<_> = off.hops.iter().map(|hop| hop.draft_right).collect();
        assert_eq!(right, [Some(true), Some(false)]);
        assert!(off.hops.iter().all(|hop| hop.draft_held.is_none()));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_draft_costs_its_call_and_no_time() {
    let (without, _) = ask_with(&[], &drafting(3)).await;
    let (with, _) = ask_with(
        &[&["q0 after all?", "Q0 after nothing?"], &[]],
        &drafting(3),
    )
    .await;
    assert_eq!(trajectory(&with), trajectory(&without));
    assert_eq!(with.elapsed, without.elapsed);
    assert_eq!((with.usage.drafted, with.usage.foreseen), (2, 0));
    let targets = (with.usage.targets.started, with.usage.targets.wasted);
    assert_eq!(targets, (4, 2));
    let held: Vec<_> = with.hops.iter().map(|hop| hop.draft_held).collect();
    assert_eq!(held, [Some(false), None]);
}

#[tokio::test(start_paused = true)]
async fn the_standard_agent_and_the_quiet_one_make_no_drafts() {
    let (standard, _) = ask_with(RIGHT, &drafting(1)).await;
    assert_eq!((millis(&standard), standard.usage.drafted), (2300, 0));
    let quiet = Settings {
        wishes: Wishes {
            quiet: true,
            ..Wishes::default()
        },
        ..drafting(3)
    };
    let (quiet, lines) = ask_with(RIGHT, &quiet).await;
    assert_eq!(quiet.usage.drafted, 0);
    assert_eq!(quiet.usage.targets.started, 2);
    assert!(lines[1].contains("no target ahead"), "{lines:?}");
}

/// Neither the look-up that the head takes over nor what runs for a new head goes before what others wait for.
#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_needs_overtakes_nobody() {
    let (needed, _) = ask_with(RIGHT, &drafting(2)).await;
    let journal = Journal::default();
    let unneeded = Settings {
        is_unneeded: true,
        journal: Some(journal.clone()),
        ..drafting(2)
    };
    let (report, _) = ask_with(RIGHT, &unneeded).await;
    assert_eq!(trajectory(&report), trajectory(&needed));
    assert_eq!(report.usage.foreseen, 2);
    let calls = journal.take().calls;
    let started = report.usage.segments.started + report.usage.targets.started;
    assert!(calls.len() >= started as usize, "{calls:#?}");
    for call in calls {
        assert!(call.was_speculative && !call.is_needed, "{call:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_draft_can_be_guessed_as_well() {
    let mut settings = drafting(3);
    settings.policy.draft_guesses = true;
    let (report, lines) = ask_with(RIGHT, &settings).await;
    // The guess of the first hop is there at 50, the planner's words at 100: the second hop begins then.
    assert_eq!(millis(&report), 1100);
    assert_eq!(report.usage.foreseen, 2);
    // It is told when it is known whose guess it is.
    let guessed: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("guessed"))
        .collect();
    assert_eq!(guessed.len(), 2, "{lines:#?}");
    assert!(guessed[0].starts_with("  100 b0"), "{lines:#?}");
}

/// Ten thousand questions, each dropped somewhere on its way.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_drafts_of_cancelled_questions() {
    let ports = steady(&[true, false, true]);
    let (agent, _) = told(&ports, &[RIGHT[0], RIGHT[1], &["q2 after?", "q2"]]);
    let mut begun = 0;
    for turn in 0..10_000 {
        let limit = Duration::from_millis(turn % 1500);
        let mut drafted = false;
        let mut trace =
            |event: TraceEvent| drafted |= matches!(event.kind, TraceKind::AskedAhead { .. });
        let (question, settings) = (question(), drafting(3));
        let asked = agent.answer(&question, &settings, &mut trace);
        let _ = tokio::time::timeout(limit, asked).await;
        begun += u32::from(drafted);
        assert_eq!(ports.live(), 0, "after {limit:?}");
    }
    assert!(begun > 9_900, "{begun}");
}
