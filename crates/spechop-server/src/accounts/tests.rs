//! Accounts as stories, and their law under any order of questions.

use proptest::prelude::*;
use spechop_agent::{FirstAnswer, Stopped, Usage};
use spechop_types::Chance;

use super::book::{Amounts, Book, Elsewhere, Grant, SWEEP, TENANTS_MAX};
use super::*;

fn accounts(calls: u64) -> Arc<Accounts> {
    Accounts::new(
        Allowance {
            period: Duration::from_secs(60),
            time: Some(Duration::from_secs(8)),
            target_calls: Some(calls),
            tokens: None,
            money: Some(Money(1000)),
        },
        None,
    )
}

/// Came to no answer, after so many look-ups.
fn due(calls: u32) -> Due {
    let mut usage = Usage::default();
    usage.targets.started = calls;
    Due {
        usage,
        ..Due::default()
    }
}

fn asks(calls: u32) -> Budget {
    Budget {
        target_calls: Some(calls),
        ..Budget::default()
    }
}

fn named(name: usize) -> Tenant {
    Tenant::new(&format!("t{name}")).unwrap()
}

/// Why the account has nothing for this question.
async fn shortage(accounts: &Arc<Accounts>, tenant: &Tenant, wants: Budget) -> Shortage {
    accounts.hold(tenant, wants).await.err().unwrap()
}

#[tokio::test(start_paused = true)]
async fn questions_at_once_cannot_overdraw_an_account_together() {
    let accounts = accounts(10);
    let tenant = named(0);
    let (mut first, granted) = accounts.hold(&tenant, asks(6)).await.unwrap();
    assert_eq!(granted.target_calls, Some(6));
    // A question that says nothing gets a fourth of the rest, of money and time, too.
    let (second, granted) = accounts.hold(&tenant, Budget::default()).await.unwrap();
    assert_eq!(granted.target_calls, Some(1));
    assert_eq!(granted.money, Some(Money(188)));
    assert_eq!(granted.time, Some(Duration::from_millis(1500)));
    let (third, granted) = accounts.hold(&tenant, asks(9)).await.unwrap();
    assert_eq!(granted.target_calls, Some(3));
    // Nothing is spent: whoever comes now need not wait for the next period.
    assert_eq!(
        shortage(&accounts, &tenant, asks(1)).await,
        Shortage::SetAside {
            what: "target calls",
            again_in: Duration::from_secs(1)
        }
    );
    // Another tenant is another account.
    assert!(accounts.hold(&Tenant::default(), asks(9)).await.is_ok());
    // The first has looked up twice. The others were told nothing: they have cost nothing.
    first.unanswered(&due(2));
    drop((first, third, second));
    let (_, granted) = accounts.hold(&tenant, asks(9)).await.unwrap();
    assert_eq!(granted.target_calls, Some(8));
}

/// What is set aside for an open question comes back with its end, and what is spent with the period's.
#[tokio::test(start_paused = true)]
async fn whoever_gets_less_hears_when_there_may_be_more() {
    let accounts = accounts(10);
    let tenant = named(0);
    let (mut question, _) = accounts.hold(&tenant, asks(9)).await.unwrap();
    let (hold, granted) = accounts.hold(&tenant, asks(2)).await.unwrap();
    assert_eq!(granted.target_calls, Some(1));
    assert_eq!(hold.look_ups_in(2), Duration::from_secs(1));
    drop(hold);
    question.unanswered(&due(9));
    drop(question);
    let (hold, granted) = accounts.hold(&tenant, asks(2)).await.unwrap();
    assert_eq!(granted.target_calls, Some(1));
    assert_eq!(hold.look_ups_in(2), Duration::from_secs(60));
    assert_eq!(hold.look_ups_in(1), Duration::from_secs(1));
}

/// So many seconds, look-ups, tokens and so much money, in a minute.
fn of_every_kind(most: u64) -> Allowance {
    Allowance {
        period: Duration::from_secs(60),
        time: Some(Duration::from_secs(most)),
        target_calls: Some(most),
        tokens: Some(most),
        money: Some(Money(most)),
    }
}

/// A look-up for a program takes no tokens, no time and no money.
#[tokio::test(start_paused = true)]
async fn whoever_wants_nothing_of_a_kind_needs_nothing_of_it() {
    let allowance = of_every_kind(10);
    let accounts = Accounts::new(allowance, None);
    let tenant = named(0);
    let of_all = |calls| Budget {
        time: allowance.time,
        target_calls: Some(calls),
        tokens: allowance.tokens,
        money: allowance.money,
    };
    let only_calls = |calls| Budget {
        time: Some(Duration::ZERO),
        target_calls: Some(calls),
        tokens: Some(0),
        money: Some(Money(0)),
    };
    let (mut question, _) = accounts.hold(&tenant, of_all(1)).await.unwrap();
    let (mut look_up, granted) = accounts.hold(&tenant, only_calls(1)).await.unwrap();
    assert_eq!(granted, only_calls(1));
    // Nor does it matter whether the rest is set aside or spent.
    let mut all = due(1);
    all.elapsed = Duration::from_secs(10);
    // It cost more than was set aside for it.
    (all.tokens_lost, all.money_lost) = (11, Money(10));
    question.unanswered(&all);
    drop(question);
    look_up.looked_up(1);
    drop(look_up);
    let refused = shortage(&accounts, &tenant, of_all(1)).await;
    assert!(matches!(refused, Shortage::UsedUp { .. }), "{refused:?}");
    let (_rest, granted) = accounts.hold(&tenant, only_calls(99)).await.unwrap();
    assert_eq!(granted, only_calls(8));
    // What it does want may run out.
    let refused = shortage(&accounts, &tenant, only_calls(1)).await;
    let again_in = Duration::from_secs(1);
    let what = "target calls";
    assert_eq!(refused, Shortage::SetAside { what, again_in });
}

#[tokio::test(start_paused = true)]
async fn a_question_pays_what_it_has_cost_however_it_ends() {
    let allowance = of_every_kind(100);
    let mut due = due(3);
    due.elapsed = Duration::from_secs(20);
    due.usage.segments.cost.tokens.prompt = 7;
    due.usage.targets.cost.tokens.completion = 4;
    due.usage.speculations.cost.money = Money(6);
    (due.tokens_lost, due.money_lost) = (9, Money(1));
    let report = Report {
        answer: "42".into(),
        hops: Vec::new(),
        stopped: Stopped::Answered,
        final_segment: Duration::ZERO,
        final_certainty: None,
        first_answer: FirstAnswer {
            at: Duration::ZERO,
            chance: Chance::EVEN,
        },
        elapsed: due.elapsed,
        followed: due.elapsed,
        plans: 1,
        branches: 1,
        handed_over: None,
        usage: due.usage,
        tokens_lost: due.tokens_lost,
        money_lost: due.money_lost,
        provider_changes: spechop_agent::ProviderChanges::default(),
    };
    let tenant = named(0);
    for is_answered in [true, false] {
        let accounts = Accounts::new(allowance, None);
        let (mut hold, _) = accounts.hold(&tenant, asks(1000)).await.unwrap();
        match is_answered {
            true => hold.answered(&report),
            false => hold.unanswered(&due),
        }
        drop(hold);
        let account = accounts.book.lock().account(&tenant).unwrap();
        let spent = Amounts([20_000, 3, 7 + 4 + 9, 6 + 1]);
        assert_eq!(account.spent, spent, "{is_answered}");
        assert_eq!(account.aside, Amounts::default());
    }
}

#[tokio::test(start_paused = true)]
async fn a_count_without_end_uses_an_account_up_and_overflows_nothing() {
    let accounts = Accounts::new(
        Allowance {
            period: Duration::from_secs(60),
            time: None,
            target_calls: None,
            tokens: Some(u64::MAX),
            money: None,
        },
        None,
    );
    let tenant = named(0);
    let mut endless = due(0);
    endless.usage.segments.cost.tokens.prompt = u64::MAX;
    endless.usage.targets.cost.tokens.prompt = u64::MAX;
    endless.tokens_lost = u64::MAX;
    let (mut one, _) = accounts.hold(&tenant, Budget::default()).await.unwrap();
    let (mut two, _) = accounts.hold(&tenant, Budget::default()).await.unwrap();
    one.unanswered(&endless);
    two.unanswered(&endless);
    drop((one, two));
    let refused = shortage(&accounts, &tenant, Budget::default()).await;
    assert!(
        matches!(refused, Shortage::UsedUp { what: "tokens", .. }),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_period_begins_with_a_full_account() {
    let accounts = accounts(2);
    let tenant = Tenant::default();
    let (mut hold, _) = accounts.hold(&tenant, asks(2)).await.unwrap();
    hold.unanswered(&due(2));
    drop(hold);
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(
        shortage(&accounts, &tenant, asks(1)).await,
        Shortage::UsedUp {
            what: "target calls",
            again_in: Duration::from_secs(10)
        }
    );
    tokio::time::advance(Duration::from_secs(10)).await;
    let (mut held, granted) = accounts.hold(&tenant, asks(5)).await.unwrap();
    assert_eq!(granted.target_calls, Some(2));
    // A question that began in the old period takes nothing from the new one, but what it has set aside
    // stays set aside until it ends.
    tokio::time::advance(Duration::from_secs(60)).await;
    let refused = shortage(&accounts, &tenant, asks(5)).await;
    assert!(matches!(refused, Shortage::SetAside { .. }), "{refused:?}");
    held.unanswered(&due(2));
    drop(held);
    let (_other, granted) = accounts.hold(&tenant, asks(5)).await.unwrap();
    assert_eq!(granted.target_calls, Some(2));
}

#[tokio::test(start_paused = true)]
async fn names_that_spend_nothing_leave_nothing() {
    let accounts = accounts(10);
    for name in 0..40_000 {
        let (mut hold, _) = accounts.hold(&named(name), asks(1)).await.unwrap();
        hold.unanswered(&due(0));
        drop(hold);
    }
    let book = accounts.book.lock();
    assert_eq!(book.sizes(), (0, 0));
    assert_eq!(book.swept, 0);
}

/// Spends one look-up for each of these names.
async fn spend(accounts: &Arc<Accounts>, names: std::ops::Range<usize>) {
    for name in names {
        let (mut hold, _) = accounts.hold(&named(name), asks(1)).await.unwrap();
        hold.unanswered(&due(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_name_costs_the_same_however_many_there_are() {
    let accounts = accounts(1);
    spend(&accounts, 0..TENANTS_MAX).await;
    assert_eq!(accounts.book.lock().sizes(), (TENANTS_MAX, TENANTS_MAX));
    // Nobody can have an account forgotten by making up names.
    let stranger = shortage(&accounts, &named(TENANTS_MAX), asks(1)).await;
    let again_in = Duration::from_secs(60);
    assert_eq!(stranger, Shortage::Strangers { again_in });
    let refused = shortage(&accounts, &named(0), asks(1)).await;
    assert!(matches!(refused, Shortage::UsedUp { .. }), "{refused:?}");
    assert_eq!(accounts.book.lock().swept, 0, "no account was looked at");

    // Accounts of past periods go, a few with each call.
    tokio::time::advance(again_in).await;
    let news = 1000;
    spend(&accounts, TENANTS_MAX..TENANTS_MAX + news).await;
    let book = accounts.book.lock();
    assert_eq!(book.swept, SWEEP * news);
    let left = TENANTS_MAX + news - SWEEP * news;
    assert_eq!(book.sizes(), (left, left));
}

/// The period of a shared account may be another server's, by a nanosecond: times travel in milliseconds.
#[tokio::test(start_paused = true)]
async fn whoever_is_refused_leaves_nothing_however_often() {
    let mut book = Book::new(Allowance {
        period: Duration::from_secs(60),
        time: None,
        target_calls: Some(2),
        tokens: None,
        money: None,
    });
    let (tenant, now) = (named(0), Instant::now());
    let wants = [None, Some(2), None, None];
    let alone = Elsewhere::default();
    let grant = book.hold(&tenant, wants, &alone, now).unwrap();
    book.settle(&tenant, grant.period, grant.aside, Amounts([0, 2, 0, 0]));
    let before = book.sizes();
    let elsewhere = Elsewhere {
        since: now.checked_sub(Duration::from_nanos(1)),
        ..alone
    };
    for _ in 0..1000 {
        let refused = book.hold(&tenant, wants, &elsewhere, now);
        assert!(matches!(refused, Err(Shortage::UsedUp { .. })));
    }
    assert_eq!(book.sizes(), before);
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_is_kept_once() {
    let accounts = accounts(5);
    for _ in 0..100 {
        spend(&accounts, 0..7).await;
        tokio::time::advance(Duration::from_secs(61)).await;
    }
    let (accounts, queue) = accounts.book.lock().sizes();
    assert_eq!(accounts, 7);
    assert!(queue <= 14, "{queue} entries for 7 accounts");
}

/// What happens to an account.
#[derive(Clone, Debug)]
enum Act {
    /// A question begins that asks for so much, or names no budget.
    Begin(usize, [Option<u64>; 4]),
    /// The open question of this number ends, modulo their number, at such a cost.
    End(usize, [u64; 4]),
    /// Time passes.
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let amount = || prop_oneof![1..20_u64, Just(u64::MAX)];
    let wanted = || proptest::array::uniform4(proptest::option::of(amount()));
    let cost = || proptest::array::uniform4(prop_oneof![Just(0), amount()]);
    let act = prop_oneof![
        4 => (0..3_usize, wanted()).prop_map(|(who, wanted)| Act::Begin(who, wanted)),
        3 => (any::<usize>(), cost()).prop_map(|(which, cost)| Act::End(which, cost)),
        1 => (0..80_u64).prop_map(Act::Wait),
    ];
    proptest::collection::vec(act, 1..200)
}

proptest! {
    /// ACCOUNT-1, and: once every question has ended, nothing is set aside, and what is spent is what
    /// the questions of that period told, to the last call. The twin is a list of all of them.
    #[test]
    fn nobody_overdraws_and_everybody_pays_what_was_told(acts in acts()) {
        let allowance = Allowance {
            period: Duration::from_secs(60),
            time: None,
            target_calls: Some(30),
            tokens: Some(u64::MAX),
            money: Some(Money(9)),
        };
        let limits = [None, Some(30), Some(u64::MAX), Some(9)];
        let mut book = Book::new(allowance);
        let mut now = Instant::now();
        let mut open: Vec<(usize, Grant)> = Vec::new();
        let mut paid: Vec<(usize, Instant, [u64; 4])> = Vec::new();
        for act in acts {
            match act {
                Act::Begin(who, wanted) => {
                    let Ok(grant) = book.hold(&named(who), wanted, &Elsewhere::default(), now) else { continue };
                    open.push((who, grant));
                    for (at, most) in limits.iter().enumerate() {
                        let Some(most) = most else { continue };
                        prop_assert!(grant.aside.0[at] >= 1);
                        prop_assert!(wanted[at].is_none_or(|wanted| grant.aside.0[at] <= wanted));
                        let aside = open.iter().filter(|(whose, _)| *whose == who);
                        let aside = aside.map(|(_, grant)| u128::from(grant.aside.0[at]));
                        let spent = paid.iter().filter(|(whose, period, _)| {
                            (*whose, *period) == (who, grant.period)
                        });
                        let spent = spent.map(|(_, _, cost)| u128::from(cost[at]));
                        let sum: u128 = aside.chain(spent).sum();
                        prop_assert!(sum <= u128::from(*most), "{sum} of {most}");
                    }
                }
                Act::End(which, cost) if !open.is_empty() => {
                    let (who, grant) = open.swap_remove(which % open.len());
                    book.settle(&named(who), grant.period, grant.aside, Amounts(cost));
                    paid.push((who, grant.period, cost));
                }
                Act::End(..) => {}
                Act::Wait(seconds) => now += Duration::from_secs(seconds),
            }
        }
        for (who, grant) in open.drain(..) {
            book.settle(&named(who), grant.period, grant.aside, Amounts::default());
        }
        for who in 0..3 {
            let Some(account) = book.account(&named(who)) else { continue };
            prop_assert_eq!(account.aside, Amounts::default());
            let told = |at: usize| {
                let mine = paid.iter().filter(|(whose, period, _)| {
                    (*whose, *period) == (who, account.counting)
                });
                mine.fold(0_u64, |sum, (_, _, cost)| sum.saturating_add(cost[at]))
            };
            let told = Amounts([0, told(1), told(2), told(3)]);
            prop_assert_eq!(account.spent, told);
            prop_assert!(told != Amounts::default(), "an account without a purpose");
        }
    }
}
