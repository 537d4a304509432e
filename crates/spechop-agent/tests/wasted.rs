//! What calls have taken that never came to an end: as much of it is counted as was told.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use proptest::prelude::*;
use spechop_agent::{Agent, Bill, Due, Ports, Prices, Settings, StageLimits, Usage};
use spechop_ports::{
    Call, GuessRequest, Guessed, Metered, PlanRequest, Planned, Planner, PortError, ReadRequest,
    Reader, Reading, Speculator,
};
use spechop_sched::{Backend, Eligibility, Limits, ScheduledRetriever};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Money, Price, Tokens};

use crate::asking::{question, settings};

/// Scripted ports that read 10 tokens at once and write one every millisecond, and say so as engines do.
#[derive(Clone)]
struct Telling {
    ports: ScriptedPorts,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Telling {
    fn new(script: Script) -> Self {
        Self {
            ports: ScriptedPorts::new(script),
            calls: Arc::default(),
        }
    }

    fn agent(&self) -> Agent {
        let port = Arc::new(self.clone());
        Agent::new(Ports {
            planner: port.clone(),
            reader: port.clone(),
            retriever: Arc::new(self.ports.clone()),
            speculator: Some(port),
            drafter: None,
            draft_writer: None,
        })
    }

    /// What all of its calls have taken, whatever became of them.
    fn taken(&self) -> Tokens {
        let calls = self.calls.lock();
        let taken = calls.iter().map(Call::spent);
        taken.fold(Tokens::default(), |sum, tokens| sum + tokens)
    }

    async fn work<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, PortError>>,
    ) -> Result<(T, Tokens), PortError> {
        self.calls.lock().push(call.clone());
        let mut metered = Metered::new(call);
        let mut tokens = Tokens {
            prompt: 10,
            completion: 0,
        };
        tokio::pin!(work);
        loop {
            metered.tell(tokens);
            tokio::select! {
                biased;
                done = &mut work => return Ok((done?, tokens)),
                () = tokio::time::sleep(Duration::from_millis(1)) => tokens.completion += 1,
            }
        }
    }
}

#[async_trait]
impl Planner for Telling {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let work = self.ports.plan(call, request);
        let (planned, tokens) = self.work(call, work).await?;
        Ok(Planned { tokens, ..planned })
    }
}

#[async_trait]
impl Reader for Telling {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let work = self.ports.read(call, request);
        let (reading, tokens) = self.work(call, work).await?;
        Ok(Reading { tokens, ..reading })
    }
}

#[async_trait]
impl Speculator for Telling {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let work = self.ports.guess(call, request);
        let (guessed, tokens) = self.work(call, work).await?;
        Ok(Guessed { tokens, ..guessed })
    }
}

/// A token read costs 1, one written 10.
fn priced(k: usize) -> Settings {
    let price = Price {
        call: Money(0),
        prompt_million: Money(1_000_000),
        completion_million: Money(10_000_000),
    };
    Settings {
        prices: Prices {
            segment: price,
            target: price,
            speculation: price,
            draft: price,
        },
        ..settings(k)
    }
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_is_rolled_back_has_written_what_it_has_written() {
    // The guess of the first hop, there after 50 ms, is wrong, which shows after 200 ms: 150 ms of the
    // segment that was built on it are in vain.
    let script = Script::steady(&[false], 180, 200, 50);
    let telling = Telling::new(script);
    let report = telling
        .agent()
        .answer(&question(), &priced(2), &mut |_| {})
        .await
        .unwrap();
    let segments = report.usage.segments;
    assert_eq!((segments.started, segments.wasted), (3, 1));
    let wasted = segments.cost_wasted;
    assert_eq!(wasted.tokens.prompt, 10);
    assert!(
        (148..=150).contains(&wasted.tokens.completion),
        "{wasted:?}"
    );
    let money = wasted.tokens.prompt + 10 * wasted.tokens.completion;
    assert_eq!(wasted.money, Money(money));
}

/// `usage` holds every token of every call, once.
#[track_caller]
fn adds_up(usage: &Usage, telling: &Telling) {
    let taken = telling.taken();
    let cost = usage.cost();
    assert_eq!(cost.tokens, taken);
    assert_eq!(cost.money, Money(taken.prompt + 10 * taken.completion));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_fails_or_goes_away_is_billed() {
    let script = || Script::steady(&[true, false, true], 50, 300, 20);
    for after in [0, 10, 60, 130, 360, 500] {
        let after = Duration::from_millis(after);
        for by_deadline in [true, false] {
            let telling = Telling::new(script());
            let bill = Bill::default();
            let settings = Settings {
                bill: Some(bill.clone()),
                deadline: by_deadline.then(|| tokio::time::Instant::now() + after),
                ..priced(3)
            };
            let agent = telling.agent();
            let asked = question();
            let mut trace = |_| {};
            let asking = agent.answer(&asked, &settings, &mut trace);
            assert!(bill.take().is_none(), "it is open");
            if by_deadline {
                asking.await.unwrap_err();
            } else {
                tokio::time::timeout(after, asking).await.unwrap_err();
            }
            let Due { elapsed, usage, .. } = bill.take().unwrap();
            assert_eq!(elapsed, after);
            adds_up(&usage, &telling);
            assert_eq!(usage.segments.wasted, usage.segments.started);
            assert_eq!(usage.segments.cost_wasted, usage.segments.cost);
        }
    }
    // What was answered stands in the report.
    let bill = Bill::default();
    let settings = Settings {
        bill: Some(bill.clone()),
        ..priced(3)
    };
    let telling = Telling::new(script());
    let report = telling
        .agent()
        .answer(&question(), &settings, &mut |_| {})
        .await
        .unwrap();
    adds_up(&report.usage, &telling);
    assert!(bill.take().is_none());
}

/// The second segment is broken off: it may have taken as much as the first one.
#[tokio::test(start_paused = true)]
async fn the_bill_tells_what_broken_off_calls_may_have_taken() {
    let telling = Telling::new(Script::steady(&[true, true], 50, 300, 20));
    let bill = Bill::default();
    let settings = Settings {
        bill: Some(bill.clone()),
        ..priced(1)
    };
    let (agent, asked, mut trace) = (telling.agent(), question(), |_| {});
    let asking = agent.answer(&asked, &settings, &mut trace);
    let soon = Duration::from_millis(360);
    tokio::time::timeout(soon, asking).await.unwrap_err();
    let due = bill.take().unwrap();
    let first = telling.calls.lock()[0].spent();
    let known = due.usage.segments.cost;
    assert!(due.tokens_lost > 0);
    assert_eq!(known.tokens.total() + due.tokens_lost, 2 * first.total());
    let dearest = Money(2 * (first.prompt + 10 * first.completion));
    assert_eq!(known.money.plus(due.money_lost), dearest);
}

/// Settings that give up a look-up after half a second, and the bill.
fn impatient() -> (Bill, Settings) {
    let bill = Bill::default();
    let settings = Settings {
        bill: Some(bill.clone()),
        limits: StageLimits {
            target: Duration::from_millis(500),
            ..StageLimits::NONE
        },
        ..priced(1)
    };
    (bill, settings)
}

/// The second look-up is given up at its time limit, and nobody has said what it had taken.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_at_its_limit_is_broken_off() {
    let mut script = Script::steady(&[true, true], 50, 400, 20);
    script.hops[1].target = Duration::from_secs(4);
    let telling = Telling::new(script);
    let (bill, settings) = impatient();
    let (agent, asked) = (telling.agent(), question());
    agent
        .answer(&asked, &settings, &mut |_| {})
        .await
        .unwrap_err();
    let due = bill.take().unwrap();
    // As much as the first one, of which is known what it took.
    let first = due.usage.targets.cost.tokens.total();
    assert!(first > 0);
    assert_eq!(due.tokens_lost, first);
}

/// The index is busy with something else until then, so nothing of the look-up was ever done.
#[tokio::test(start_paused = true)]
async fn a_look_up_that_stands_in_line_until_its_limit_is_not_billed() {
    let port = Arc::new(ScriptedPorts::new(Script::steady(&[true], 50, 400, 20)));
    let one_place = Limits {
        capacity: NonZeroUsize::MIN,
        rate: None,
        speculative_max: 1,
    };
    let index = Backend::new("an index", one_place);
    let rule = Eligibility::shipped().of("retriever");
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: Arc::new(ScheduledRetriever::new(port, &index, rule)),
        speculator: None,
        drafter: None,
        draft_writer: None,
    });
    let (bill, settings) = impatient();
    let call = Call::authoritative();
    let busy = index.run(&call, 1.0, pending::<Result<(), PortError>>());
    let (asked, mut trace) = (question(), |_| ());
    tokio::select! {
        biased;
        _ = busy => {}
        failed = agent.answer(&asked, &settings, &mut trace) => assert!(failed.is_err()),
    }
    let due = bill.take().unwrap();
    assert_eq!(due.elapsed.as_millis(), 550);
    let (segments, targets) = (due.usage.segments, due.usage.targets);
    assert_eq!((segments.started, targets.started), (1, 0));
}

/// Of what a wrong guess led to, the account pays the same as if the question had come to no answer.
#[tokio::test(start_paused = true)]
async fn the_report_tells_what_broken_off_calls_may_have_taken() {
    let lost = async |script: Script| {
        let asked = question();
        let agent = Telling::new(script).agent();
        let report = agent.answer(&asked, &priced(3), &mut |_| {}).await;
        report.unwrap().tokens_lost
    };
    assert_eq!(lost(Script::steady(&[true, true], 50, 60, 20)).await, 0);
    assert!(lost(Script::steady(&[false, true], 50, 60, 20)).await > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is rolled back, late, or fails: the ledger's sum is that of the calls made.
    #[test]
    fn the_ledger_adds_up(seed: u64, k in 1..6_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let telling = Telling::new(Script::random(seed));
            let mut settings = priced(k);
            settings.limits.speculation = Duration::from_millis(40);
            let agent = telling.agent();
            let report = agent.answer(&question(), &settings, &mut |_| {}).await.unwrap();
            adds_up(&report.usage, &telling);
        });
    }
}
