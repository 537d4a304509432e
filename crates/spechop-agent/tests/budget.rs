//! What a question costs, and what it may cost.

use std::collections::BTreeSet;
use std::time::Duration;

use spechop_agent::{Finish, Policy, Prices, Report, Settings, Stopped, TraceKind};
use spechop_ports::Wishes;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Budget, Chance, Money, Price, Refusal, Refusals, Stage};

use crate::asking::{agent, ask, line, question, settings, steady, trajectory};

/// Scripted calls take 10 tokens of prompt and 2 of completion each.
fn prices() -> Prices {
    let price = |call: u64, prompt: u64, completion: u64| Price {
        call: Money(call),
        prompt_million: Money(prompt * 1_000_000),
        completion_million: Money(completion * 1_000_000),
    };
    Prices {
        segment: price(0, 1, 10),
        target: price(100, 0, 0),
        speculation: price(1, 0, 1),
        draft: price(1, 0, 1),
    }
}

fn priced(k: usize, money: Option<u64>) -> Settings {
    Settings {
        prices: prices(),
        policy: Policy::EAGER,
        budget: Budget {
            money: money.map(Money),
            ..Budget::default()
        },
        ..settings(k)
    }
}

#[tokio::test(start_paused = true)]
async fn money_and_time_are_told_apart_into_used_and_wasted() {
    let report = ask(&steady(&[true, false, true]), &priced(3, None))
        .await
        .unwrap();
    let usage = report.usage;
    for (calls, fee) in [
        (usage.segments, 0),
        (usage.targets, 100),
        (usage.speculations, 1),
    ] {
        assert!(calls.cost.money.0 >= u64::from(calls.started) * fee);
        assert!(calls.cost_wasted.money.0 >= u64::from(calls.wasted) * fee);
        assert!(calls.cost_wasted.time <= calls.cost.time);
    }
    // Three hops and the answer were of use: four segments of 100 ms and 30, three look-ups of 1 s and 100.
    let used = |calls: spechop_agent::Calls| {
        (
            calls.started - calls.wasted,
            calls.cost.money.0 - calls.cost_wasted.money.0,
            (calls.cost.time - calls.cost_wasted.time).as_millis(),
        )
    };
    assert_eq!(used(usage.segments), (4, 4 * 30, 400));
    assert_eq!(used(usage.targets), (3, 300, 3000));
    assert_eq!(used(usage.speculations), (2, 2 * 3, 100));
    // The wrong guess led to a look-up that was rolled back half-way.
    assert!(usage.targets.wasted >= 1);
    assert!(usage.targets.cost_wasted.time > Duration::ZERO);
    let standard = ask(&steady(&[true, false, true]), &priced(1, None))
        .await
        .unwrap();
    let wasted = standard.usage.every().map(|calls| calls.cost_wasted.money);
    assert_eq!(wasted, [Money(0); 4]);
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_money_ends_the_question_and_never_changes_the_hops() {
    // A hop costs 130, the answer 30.
    for most in [1, 130, 260, 390, 1000] {
        let right = [true, true, true];
        let standard = ask(&steady(&right), &priced(1, Some(most))).await.unwrap();
        let hops = u64::try_from(standard.hops.len()).unwrap();
        assert_eq!(hops, 3.min(most.saturating_sub(30).div_ceil(130)), "{most}");
        assert_eq!(standard.stopped == Stopped::Budget, hops < 3);
        for k in [2, 4, 0] {
            let report = ask(&steady(&right), &priced(k, Some(most))).await.unwrap();
            // What speculation wastes comes out of the same purse, so fewer hops may fit, never others.
            assert!(trajectory(&standard).starts_with(&trajectory(&report)));
            // At most what was under way when it ran out: a look-up, a guess and a segment.
            assert!(
                report.usage.cost().money.0 <= most.max(130) + 131 + 30,
                "{most} {k}"
            );
        }
    }
}

/// The look-up of the second hop waits until it is needed. The first one has used the budget up by then, and the
/// branch that stands on its guess is about to begin.
#[tokio::test(start_paused = true)]
async fn a_branch_that_never_began_is_not_told() {
    let price = |prompt: u64, completion: u64| Price {
        call: Money(0),
        prompt_million: Money(prompt * 1_000_000),
        completion_million: Money(completion * 1_000_000),
    };
    // A segment costs 30, a look-up 80, and a guess nothing.
    let tight = Settings {
        wishes: Wishes {
            quiet: true,
            ..Wishes::default()
        },
        prices: Prices {
            segment: price(0, 15),
            target: price(8, 0),
            ..Prices::default()
        },
        budget: Budget {
            money: Some(Money(130)),
            ..Budget::default()
        },
        ..settings(2)
    };
    let mut launched = BTreeSet::new();
    let report = agent(&steady(&[true, true]))
        .answer(&question(), &tight, &mut |event| {
            if matches!(event.kind, TraceKind::Launched { .. }) {
                launched.insert(event.branch);
            }
            let is_known = event.hop > 0 && launched.contains(&event.branch);
            assert!(is_known, "{}", line(&event));
        })
        .await
        .unwrap();
    assert_eq!(report.stopped, Stopped::Budget);
    assert_eq!((report.hops.len(), report.branches), (1, 4));
}

/// Only what is this likely to become head is built.
fn gated(k: usize, least: f64) -> Settings {
    Settings {
        guess_chance: Chance::EVEN,
        policy: Policy {
            chance_min: Chance::of(least),
            ..Policy::EAGER
        },
        ..priced(k, None)
    }
}

#[tokio::test(start_paused = true)]
async fn unlikely_branches_wait_until_they_are_likelier() {
    let right = [true, true, true, true];
    let all = ask(&steady(&right), &gated(0, 0.0)).await.unwrap();
    let near = ask(&steady(&right), &gated(0, 0.3)).await.unwrap();
    let none = ask(&steady(&right), &gated(0, 1.0)).await.unwrap();
    assert_eq!(trajectory(&all), trajectory(&near));
    assert_eq!(trajectory(&all), trajectory(&none));
    // With guesses that hold in one case of two, 0.3 leaves room for one branch behind the head.
    let two = ask(&steady(&right), &gated(2, 0.0)).await.unwrap();
    let spent = |report: &Report| {
        let mut usage = report.usage;
        for stage in Stage::ALL {
            usage.of(stage).refused = Refusals::default();
        }
        (report.elapsed, usage)
    };
    assert_eq!(spent(&near), spent(&two));
    // The gate says what it keeps back; a window that is full has nothing to say.
    let unlikely = |report: &Report| report.usage.segments.refused[Refusal::Unlikely];
    assert!(unlikely(&near) > 0 && unlikely(&two) == 0);
    assert!(all.elapsed < near.elapsed && near.elapsed < none.elapsed);
    assert_eq!(none.usage.targets.wasted, 0);
    assert_eq!(none.usage.targets.started, 4);
}

#[tokio::test(start_paused = true)]
async fn a_guess_that_is_sure_of_itself_is_built_upon_and_an_unsure_one_waits() {
    let asks = |confidence: Option<f64>| {
        let mut script = Script::steady(&[true, true, true], 100, 1000, 50);
        for hop in &mut script.hops {
            hop.confidence = confidence.map(Chance::of);
        }
        async move {
            let settings = gated(2, 0.45);
            ask(&ScriptedPorts::new(script), &settings).await.unwrap()
        }
    };
    // Of those that say nothing, one of two is taken to hold.
    let (unsaid, sure, unsure) = (
        asks(None).await,
        asks(Some(0.9)).await,
        asks(Some(0.1)).await,
    );
    assert_eq!(unsaid.elapsed, sure.elapsed);
    assert!(sure.elapsed < unsure.elapsed);
    assert_eq!(trajectory(&sure), trajectory(&unsure));
    assert_eq!(unsure.usage.targets.wasted, 0);
    assert_eq!(unsure.usage.segments.wasted, 0);
    // Nothing was built upon it, and yet it is known what it was worth.
    assert!(unsure.hops.iter().all(|hop| hop.verdict.is_none()));
    assert!(unsure.hops.iter().all(|hop| hop.guess_held == Some(true)));
    assert_eq!(unsaid.hops[0].confidence, None);
    assert_eq!(sure.hops[0].confidence, Some(Chance::of(0.9)));
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_the_answer_now_gets_it_from_what_is_committed() {
    for (after_ms, hops) in [(1500, 1), (2500, 2), (60_000, 3)] {
        let finish = Finish::default();
        let hasty = Settings {
            finish: Some(finish.clone()),
            ..settings(1)
        };
        let ports = steady(&[true, true, true]);
        let (report, ()) = tokio::join!(ask(&ports, &hasty), async {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            finish.now();
        });
        let report = report.unwrap();
        assert_eq!(report.hops.len(), hops, "after {after_ms} ms");
        let early = hops < 3;
        assert_eq!(report.stopped == Stopped::Budget, early);
        // The answer still has to be written.
        assert_eq!(
            report.elapsed.as_millis() == u128::from(after_ms) + 100,
            early
        );
    }
}
