//! What each tenant may spend in a period, and what it has spent.
//!
//! A question sets aside what it may cost before it begins and gives back what it did not need, so that
//! questions at the same time cannot overdraw an account together. One that names no budget gets a share
//! of what is left, never all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spechop_agent::Usage;
use spechop_types::{Budget, Money, Tenant};
use tokio::time::Instant;

/// What a question without a budget of its own gets of what is left: one part of so many.
const SHARE: u64 = 4;
/// Tenants that are remembered; beyond, those who have spent nothing lately are forgotten.
const TENANTS_MAX: usize = 10_000;

/// What a tenant may spend. `None` is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// After this everything is as new.
    pub period: Duration,
    /// Time of questions, one after the other.
    pub time: Option<Duration>,
    /// Target calls.
    pub target_calls: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money.
    pub money: Option<Money>,
}

/// Every tenant's account.
pub(crate) struct Accounts {
    allowance: Allowance,
    accounts: Mutex<HashMap<Tenant, Account>>,
}

/// An account without anything left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdrawn {
    /// What is used up.
    pub(crate) what: &'static str,
    /// When the next period begins.
    pub(crate) again_in: Duration,
}

/// What a question has set aside. Dropping it settles: what [`Hold::spent`] was told is spent, or
/// everything that was set aside, if it was told nothing: a question that went away may have cost that.
pub(crate) struct Hold {
    accounts: Arc<Accounts>,
    tenant: Tenant,
    began: Instant,
    aside: Amounts,
    spent: Option<Amounts>,
}

struct Account {
    since: Instant,
    spent: Amounts,
    aside: Amounts,
}

/// Milliseconds, target calls, tokens, millionths of money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amounts([u64; 4]);

const NAMES: [&str; 4] = ["time", "target calls", "tokens", "money"];

impl Accounts {
    pub(crate) fn new(allowance: Allowance) -> Arc<Self> {
        Arc::new(Self {
            allowance,
            accounts: Mutex::default(),
        })
    }

    /// Sets aside what a question with this budget may cost, and says what it may cost at most.
    pub(crate) fn hold(
        self: &Arc<Self>,
        tenant: &Tenant,
        budget: Budget,
    ) -> Result<(Hold, Budget), Overdrawn> {
        let now = Instant::now();
        let mut accounts = self.lock();
        if accounts.len() >= TENANTS_MAX && !accounts.contains_key(tenant) {
            let period = self.allowance.period;
            accounts.retain(|_, account| {
                account.aside != Amounts::default() || now - account.since < period
            });
        }
        let account = accounts.entry(tenant.clone()).or_insert(Account {
            since: now,
            spent: Amounts::default(),
            aside: Amounts::default(),
        });
        if now - account.since >= self.allowance.period {
            account.since = now;
            account.spent = Amounts::default();
        }
        let wanted = [
            budget.time.map(millis),
            budget.target_calls.map(u64::from),
            budget.tokens,
            budget.money.map(|money| money.0),
        ];
        let mut limits = wanted;
        let mut aside = Amounts::default();
        for (at, most) in self.allowance.limits().into_iter().enumerate() {
            let Some(most) = most else { continue };
            let left = most.saturating_sub(account.spent.0[at] + account.aside.0[at]);
            if left == 0 {
                return Err(Overdrawn {
                    what: NAMES[at],
                    again_in: (account.since + self.allowance.period) - now,
                });
            }
            let granted = wanted[at].unwrap_or(left.div_ceil(SHARE)).min(left);
            aside.0[at] = granted;
            limits[at] = Some(granted);
        }
        account.aside.add(aside);
        let hold = Hold {
            accounts: Arc::clone(self),
            tenant: tenant.clone(),
            began: account.since,
            aside,
            spent: None,
        };
        let [time, target_calls, tokens, money] = limits;
        let budget = Budget {
            time: time.map(Duration::from_millis),
            target_calls: target_calls.map(|calls| u32::try_from(calls).unwrap_or(u32::MAX)),
            tokens,
            money: money.map(Money),
        };
        Ok((hold, budget))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Account>> {
        // Nothing panics while it is held.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allowance {
    fn limits(&self) -> [Option<u64>; 4] {
        let (time, money) = (self.time.map(millis), self.money.map(|money| money.0));
        [time, self.target_calls, self.tokens, money]
    }
}

impl Hold {
    /// What the question came to.
    pub(crate) fn spent(&mut self, elapsed: Duration, usage: &Usage) {
        let cost = usage.cost();
        self.spent = Some(Amounts([
            millis(elapsed),
            u64::from(usage.targets.started),
            cost.tokens.total(),
            cost.money.0,
        ]));
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get_mut(&self.tenant) {
            account.aside.take(self.aside);
            // What was begun in a period that is over was paid from that one.
            if account.since == self.began {
                account.spent.add(self.spent.unwrap_or(self.aside));
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Amounts {
    fn add(&mut self, other: Self) {
        for (sum, amount) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(amount);
        }
    }

    fn take(&mut self, other: Self) {
        for (sum, amount) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_sub(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(calls: u64) -> Arc<Accounts> {
        Accounts::new(Allowance {
            period: Duration::from_secs(60),
            time: Some(Duration::from_secs(8)),
            target_calls: Some(calls),
            tokens: None,
            money: Some(Money(1000)),
        })
    }

    fn usage(calls: u32) -> Usage {
        let mut usage = Usage::default();
        usage.targets.started = calls;
        usage
    }

    fn asks(calls: u32) -> Budget {
        Budget {
            target_calls: Some(calls),
            ..Budget::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn questions_at_once_cannot_overdraw_an_account_together() {
        let accounts = accounts(10);
        let tenant = Tenant::new("a").unwrap();
        let (mut first, granted) = accounts.hold(&tenant, asks(6)).unwrap();
        assert_eq!(granted.target_calls, Some(6));
        // A fourth of what is left where nothing is said; of money, too.
        let (second, granted) = accounts.hold(&tenant, Budget::default()).unwrap();
        assert_eq!(granted.target_calls, Some(1));
        assert_eq!(granted.money, Some(Money(188)));
        assert_eq!(granted.time, Some(Duration::from_millis(1500)));
        let (third, granted) = accounts.hold(&tenant, asks(9)).unwrap();
        assert_eq!(granted.target_calls, Some(3));
        let refused = accounts.hold(&tenant, asks(1)).err().unwrap();
        assert_eq!(refused.what, "target calls");
        // Another tenant is another account.
        assert!(accounts.hold(&Tenant::default(), asks(9)).is_ok());
        // What was not needed comes back.
        first.spent(Duration::ZERO, &usage(2));
        drop((first, third, second));
        // 2 + 3 + 1: the two that told nothing may have cost all that they had set aside.
        let (_, granted) = accounts.hold(&tenant, asks(9)).unwrap();
        assert_eq!(granted.target_calls, Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_period_begins_with_a_full_account() {
        let accounts = accounts(2);
        let tenant = Tenant::default();
        drop(accounts.hold(&tenant, asks(2)).unwrap());
        tokio::time::advance(Duration::from_secs(50)).await;
        let refused = accounts.hold(&tenant, asks(1)).err().unwrap();
        assert_eq!(refused.again_in, Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(10)).await;
        let (held, granted) = accounts.hold(&tenant, asks(5)).unwrap();
        assert_eq!(granted.target_calls, Some(2));
        // One that began in the old period takes nothing from the new one.
        tokio::time::advance(Duration::from_secs(60)).await;
        // What is set aside stays set aside until then.
        let refused = accounts.hold(&tenant, asks(5)).err().unwrap();
        assert_eq!(refused.what, "target calls");
        drop(held);
        let (_other, granted) = accounts.hold(&tenant, asks(5)).unwrap();
        assert_eq!(granted.target_calls, Some(2));
    }
}
