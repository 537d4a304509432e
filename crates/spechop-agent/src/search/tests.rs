//! Plans of one hop each: which one is the answer, what is told, and what it costs.

use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::{
    Call, PlanRequest, Planned, PortError, ReadRequest, Reader, Reading, Retriever,
};
use spechop_testkit::passage;
use spechop_types::{Budget, Money, Passage, Price, ProviderChange, Step, SubQuestion, Tokens};
use tokio::time::{sleep, timeout};

use super::*;
use crate::{CallNote, Finish, Journal, Notes, Prices, TraceKind};

mod over;

/// Asks one thing, as often as there are to be hops, and answers what was found.
struct Asks {
    what: &'static str,
    after: Duration,
    hops: usize,
}

#[async_trait]
impl Planner for Asks {
    async fn plan(&self, _: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        sleep(self.after).await;
        if self.what == "broken" {
            return Err(PortError::unavailable("the planner", "it is broken"));
        }
        Ok(Planned {
            step: match request.hops.get(self.hops - 1) {
                // With a zero more it is as sure, and another sub-question.
                None => {
                    let zeros = "0".repeat(request.hops.len());
                    Step::Ask(SubQuestion::new(&format!("{}{zeros}", self.what)))
                }
                Some(hop) => Step::Answer(hop.answer.clone()),
            },
            certainty: Some(Chance::of(0.9)),
            tokens: Tokens::default(),
        })
    }
}

/// Finds and reads what a sub-question says: "Rome 0.8" finds Rome, and is as sure as that. Every search goes to
/// another provider, and says so. A reading takes a token.
struct World;

#[async_trait]
impl Retriever for World {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        _: usize,
    ) -> Result<Vec<Passage>, PortError> {
        call.changed_provider(ProviderChange {
            from: "a".into(),
            to: "b".into(),
            why: query.into(),
        });
        Ok(vec![passage(query, "a page", query)])
    }
}

#[async_trait]
impl Reader for World {
    async fn read(&self, _: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let (answer, sure) = (request.sub_question.as_str().split_once(' ')).expect("two words");
        Ok(Reading {
            answer: Some(answer.into()),
            confidence: sure.parse().ok().map(Chance::of),
            tokens: Tokens {
                prompt: 1,
                completion: 0,
            },
        })
    }
}

fn planner(what: &'static str) -> Arc<dyn Planner> {
    of_hops(1, what)
}

fn of_hops(hops: usize, what: &'static str) -> Arc<dyn Planner> {
    let after = Duration::from_millis(10);
    Arc::new(Asks { what, after, hops })
}

/// Takes a minute for each step, and would be the surest.
fn slow() -> Arc<dyn Planner> {
    let (what, after) = ("Oslo 0.9", Duration::from_secs(60));
    let hops = 1;
    Arc::new(Asks { what, after, hops })
}

fn agent(first: &'static str) -> Agent {
    agent_of(planner(first))
}

fn agent_of(planner: Arc<dyn Planner>) -> Agent {
    Agent::new(Ports {
        planner,
        reader: Arc::new(World),
        retriever: Arc::new(World),
        speculator: None,
        drafter: None,
        draft_writer: None,
    })
}

fn question() -> Question {
    Question::new("Where is it?").expect("a question")
}

/// A target call costs a unit of money.
fn settings() -> Settings {
    Settings {
        prices: Prices {
            target: Price {
                call: Money(1),
                ..Price::default()
            },
            ..Prices::default()
        },
        ..Settings::default()
    }
}

/// Settings of a question whose answer is wanted now after so many milliseconds, and what says so.
fn wanted_after(millis: u64) -> (Settings, impl Future<Output = ()>) {
    let finish = Finish::default();
    let settings = Settings {
        finish: Some(finish.clone()),
        ..settings()
    };
    let now = async move {
        sleep(Duration::from_millis(millis)).await;
        finish.now();
    };
    (settings, now)
}

/// The answer, and the sub-questions that were told.
async fn search(
    first: &'static str,
    further: &[&'static str],
    settings: &Settings,
) -> (Report, Vec<String>) {
    let further: Vec<_> = further.iter().map(|what| planner(what)).collect();
    let mut told = Vec::new();
    let report = agent(first)
        .search(&further, &question(), settings, &mut |event| {
            if let TraceKind::Planned { sub_question, .. } = event.kind {
                told.push(sub_question.as_str().to_owned());
            }
        })
        .await;
    (report.expect("an answer"), told)
}

fn targets(report: &Report) -> (u32, u32) {
    let targets = report.usage.targets;
    (targets.started, targets.wasted)
}

fn money_wasted(report: &Report) -> u64 {
    let every = report.usage.every().into_iter();
    every.map(|calls| calls.cost_wasted.money.0).sum()
}

/// The searches that went to another provider.
fn changed(report: &Report) -> Vec<String> {
    let changes = report.provider_changes.iter();
    changes.map(|(change, _)| change.why.to_string()).collect()
}

/// The target calls by a commit: all of them, and those that were wasted.
fn by_commit(event: &TraceEvent) -> Option<(u32, u32)> {
    match &event.kind {
        TraceKind::Committed { usage, .. } => Some((usage.targets.started, usage.targets.wasted)),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_was_read_surely_is_the_answer() {
    let (report, told) = search("Rome 0.4", &["Oslo 0.9"], &settings()).await;
    assert_eq!((&*report.answer, report.plans), ("Rome", 1));
    assert_eq!((targets(&report), told), ((1, 0), vec!["Rome 0.4".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_much_surer_takes_its_place_and_alone_is_told() {
    let further = ["Bonn 0.3", "Oslo 0.9", "broken"];
    let (report, told) = search("Rome 0.1", &further, &settings()).await;
    assert_eq!((&*report.answer, report.plans), ("Oslo", 4));
    assert_eq!(told, ["Oslo 0.9"]);
    // Three plans came as far as a target call; one of them was of use.
    assert_eq!(targets(&report), (3, 2));
    assert_eq!(report.usage.cost().money, Money(3));
    assert_eq!(money_wasted(&report), 2);
    // Two steps of the first plan, then two of the others, side by side.
    assert_eq!(report.elapsed.as_millis(), 40);
    assert_eq!(report.followed.as_millis(), 20);
    assert_eq!(report.first_answer.at.as_millis(), 40);
}

#[tokio::test(start_paused = true)]
async fn the_cost_so_far_of_a_chosen_plan_holds_that_of_the_first() {
    let mut told = Vec::new();
    let hear = &mut |event: TraceEvent| told.extend(by_commit(&event));
    let further = [planner("Oslo 0.9")];
    let report = agent("Rome 0.1")
        .search(&further, &question(), &settings(), hear)
        .await
        .expect("an answer");
    assert_eq!((&*report.answer, targets(&report)), ("Oslo", (2, 1)));
    assert_eq!(told, [(2, 1)]);
}

/// The calls of both plans are noted, and the trace is that of the plan that was chosen.
#[tokio::test(start_paused = true)]
async fn no_call_of_a_plan_that_was_given_up_is_taken_for_one_of_the_answer() {
    for (further, answer) in [("Oslo 0.9", "Oslo"), ("Oslo 0.2", "Rome")] {
        let journal = Journal::default();
        let settings = Settings {
            journal: Some(journal.clone()),
            ..settings()
        };
        let mut told = Vec::new();
        let report = agent("Rome 0.1")
            .search(&[planner(further)], &question(), &settings, &mut |event| {
                told.push(event.branch);
            })
            .await
            .expect("an answer");
        assert_eq!(&*report.answer, answer);
        let notes = journal.take();
        assert_eq!(numbers(&notes), [1, 2, 3, 4, 5, 6]);
        // Each plan has two segments and a look-up, one after the other, in 20 ms.
        let half = Duration::from_millis(20);
        let (first, second) = notes.calls.split_at(3);
        assert!(first.iter().all(|call| call.ended <= half), "{first:#?}");
        assert!(second.iter().all(|call| call.began >= half), "{second:#?}");
        let is_told = |call: &CallNote| call.branch.is_some_and(|branch| told.contains(&branch));
        let (of_answer, others) = match answer {
            "Rome" => (first, second),
            _ => (second, first),
        };
        assert!(of_answer.iter().all(is_told), "{of_answer:#?}");
        assert!(!others.iter().any(is_told), "{others:#?}");
        assert!(others.iter().all(|call| call.lookup.is_none()));
        assert_eq!(notes.committed.len(), 1);
        let committed = notes.committed.first().map(|committed| committed.lookup);
        assert!(of_answer.iter().any(|call| call.lookup == committed));
        assert!(notes.taken_over.is_empty());
        assert!(told.iter().all(|branch| branch.0 < report.branches));
    }
}

/// The numbers of the calls that are noted, in order.
fn numbers(notes: &Notes) -> Vec<u64> {
    let mut numbers: Vec<_> = notes.calls.iter().map(|call| call.number).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test(start_paused = true)]
async fn one_that_is_a_little_surer_does_not() {
    let (report, told) = search("Rome 0.2", &["Oslo 0.5"], &settings()).await;
    assert_eq!((&*report.answer, report.plans), ("Rome", 2));
    assert_eq!((targets(&report), told), ((2, 1), vec!["Rome 0.2".into()]));
}

/// Settings with so many target calls.
fn limited(target_calls: u32) -> Settings {
    Settings {
        budget: Budget {
            target_calls: Some(target_calls),
            ..Budget::default()
        },
        ..settings()
    }
}

#[tokio::test(start_paused = true)]
async fn further_plans_share_what_the_first_one_leaves_of_a_budget() {
    let further = ["Bonn 0.3", "Oslo 0.9"];
    let (report, _) = search("Rome 0.1", &further, &limited(3)).await;
    assert_eq!((&*report.answer, report.plans), ("Oslo", 3));
    assert_eq!(targets(&report), (3, 2));
    // It is enough for one of them, and for none.
    let (report, _) = search("Rome 0.1", &further, &limited(2)).await;
    assert_eq!((&*report.answer, report.plans), ("Bonn", 2));
    let (report, _) = search("Rome 0.1", &further, &limited(1)).await;
    assert_eq!((&*report.answer, report.plans), ("Rome", 1));
}

/// What a budget cuts short would be followed in vain.
#[tokio::test(start_paused = true)]
async fn no_more_plans_are_followed_than_can_come_to_an_end() {
    let further = ["Oslo 0.9", "Bonn 0.8", "Bern 0.8", "Riga 0.8"].map(|what| of_hops(2, what));
    let calls = |calls| limited(calls).budget;
    let money = |money| Budget {
        money: Some(Money(money)),
        ..Budget::default()
    };
    let tokens = |tokens| Budget {
        tokens: Some(tokens),
        ..Budget::default()
    };
    let millis = |millis| Budget {
        time: Some(Duration::from_millis(millis)),
        ..Budget::default()
    };
    for (budget, plans, answer) in [
        (calls(3), 1, "Rome"),
        (calls(4), 2, "Oslo"),
        (calls(9), 4, "Oslo"),
        (calls(10), 5, "Oslo"),
        (money(3), 1, "Rome"),
        (money(4), 2, "Oslo"),
        (money(9), 4, "Oslo"),
        (money(10), 5, "Oslo"),
        (tokens(3), 1, "Rome"),
        (tokens(9), 4, "Oslo"),
        // Each plan takes 30 ms, and the further ones take them side by side.
        (millis(55), 1, "Rome"),
        (millis(65), 5, "Oslo"),
    ] {
        let agent = agent_of(of_hops(2, "Rome 0.1"));
        let settings = Settings {
            budget,
            ..settings()
        };
        let hear = &mut |_: TraceEvent| ();
        let report = agent.search(&further, &question(), &settings, hear).await;
        let report = report.expect("an answer");
        let is_so = (&*report.answer, report.plans) == (answer, plans);
        assert!(is_so, "{budget:?}: {} of {}", report.answer, report.plans);
        assert_eq!(targets(&report), (2 * plans, 2 * plans - 2), "{budget:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_the_answer_now_gets_the_first_plans() {
    let (settings, now) = wanted_after(1000);
    let (agent, question, further) = (agent("Rome 0.1"), question(), [slow()]);
    let hear = &mut |_: TraceEvent| ();
    let answer = agent.search(&further, &question, &settings, hear);
    let (report, ()) = tokio::join!(answer, now);
    let report = report.expect("an answer");
    assert_eq!((&*report.answer, report.elapsed.as_secs()), ("Rome", 1));
}

/// One had come to its end by then.
#[tokio::test(start_paused = true)]
async fn of_plans_that_came_to_nothing_changes_of_provider_are_told() {
    let (settings, now) = wanted_after(1000);
    let (agent, question) = (agent("Rome 0.1"), question());
    let further = [planner("Oslo 0.9"), slow()];
    let hear = &mut |_: TraceEvent| ();
    let answer = agent.search(&further, &question, &settings, hear);
    let (report, ()) = tokio::join!(answer, now);
    let report = report.expect("an answer");
    assert_eq!(&*report.answer, "Rome");
    assert_eq!(changed(&report), ["Rome 0.1", "Oslo 0.9"]);
}

/// A second is left for steps that take a minute each.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_plan_that_the_end_of_the_budget_cuts_short() {
    let settings = Settings {
        budget: Budget {
            time: Some(Duration::from_secs(1)),
            ..Budget::default()
        },
        ..settings()
    };
    let (agent, further) = (agent("Rome 0.1"), [slow()]);
    let hear = &mut |_: TraceEvent| ();
    let report = agent
        .search(&further, &question(), &settings, hear)
        .await
        .expect("an answer");
    assert_eq!((&*report.answer, report.plans), ("Rome", 2));
    assert_eq!(report.elapsed.as_millis(), 1000);
    let segments = report.usage.segments;
    assert_eq!((segments.started, segments.wasted), (3, 1));
}

/// It was said while the first plan was written, whose answer it was too late to hasten.
#[tokio::test(start_paused = true)]
async fn whoever_wanted_it_before_the_first_plan_ended_waits_for_no_other() {
    let (settings, now) = wanted_after(15);
    let ((report, _), ()) = tokio::join!(search("Rome 0.1", &["Oslo 0.9"], &settings), now);
    assert_eq!((&*report.answer, report.plans), ("Rome", 1));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_dropped_owes_for_all_of_its_plans() {
    let bill = Bill::default();
    let settings = Settings {
        bill: Some(bill.clone()),
        ..settings()
    };
    let (agent, question) = (agent("Rome 0.1"), question());
    let further = [slow(), planner("Bonn 0.2")];
    let hear = &mut |_: TraceEvent| ();
    let answer = agent.search(&further, &question, &settings, hear);
    assert!(timeout(Duration::from_secs(61), answer).await.is_err());
    let due = bill.take().expect("a bill");
    // The slow one had asked, and its target call was made.
    assert_eq!(
        (due.usage.targets.started, due.usage.targets.wasted),
        (3, 3)
    );
    assert_eq!((due.usage.segments.started, due.elapsed.as_secs()), (6, 61));
}
