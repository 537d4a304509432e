//! What each tenant may spend in a period, and what it has spent.
//!
//! A question sets aside what it may cost before it begins. When it ends, what it has cost takes the
//! place of what was set aside, however it ends. So questions at the same time cannot overdraw an account
//! together, and none is charged for work that was never done. A question that names no budget gets a
//! share of what is left, never all of it.
//!
//! [`Book`] decides and knows no clock. [`Accounts`] is the book behind a lock, and [`Hold`] what a
//! question holds of it. Several servers can share the accounts of their tenants ([`Shared`]).

mod book;
mod cell;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spechop_agent::{Due, Report, Usage};
use spechop_config::Allowance;
use spechop_types::{Budget, Money, Tenant, whole_ms};
use tokio::time::Instant;

pub(crate) use book::Shortage;
use book::{Amounts, Book, Elsewhere, Grant, SET_ASIDE_FOR};
pub(crate) use shared::{Shared, SharedCounts};

/// Every tenant's account.
pub(crate) struct Accounts {
    book: Mutex<Book>,
    /// `None` if no other server shares them.
    shared: Option<Arc<Shared>>,
}

/// What a question has set aside. Dropping it settles: the question has cost what was told, and nothing
/// if nothing was told.
pub(crate) struct Hold {
    accounts: Arc<Accounts>,
    tenant: Tenant,
    /// The period that pays.
    period: Instant,
    /// When it is over.
    ends: Instant,
    aside: Amounts,
    /// Target calls that the account had not spent at its beginning; `None`: without end.
    unspent_calls: Option<u64>,
    spent: Amounts,
}

impl Accounts {
    pub(crate) fn new(allowance: Allowance, shared: Option<Arc<Shared>>) -> Arc<Self> {
        Arc::new(Self {
            book: Mutex::new(Book::new(allowance)),
            shared,
        })
    }

    /// From now on tenants may spend so much. What they have spent stays spent.
    pub(crate) fn change(&self, allowance: Allowance) {
        self.book.lock().change(allowance);
    }

    /// Sets aside what a question with this budget may cost, and says what it may cost at most.
    pub(crate) async fn hold(
        self: &Arc<Self>,
        tenant: &Tenant,
        budget: Budget,
    ) -> Result<(Hold, Budget), Shortage> {
        let wanted = [
            budget.time.map(whole_ms),
            budget.target_calls.map(u64::from),
            budget.tokens,
            budget.money.map(|money| money.0),
        ];
        let keep = |grant: Grant| (self.kept(tenant, &grant), grant.limits);
        let (hold, [time, target_calls, tokens, money]) = match &self.shared {
            Some(shared) => shared.hold(&self.book, tenant, wanted, keep).await?,
            None => {
                let alone = Elsewhere::default();
                let granted = self
                    .book
                    .lock()
                    .hold(tenant, wanted, &alone, Instant::now());
                keep(granted?)
            }
        };
        let budget = Budget {
            time: time.map(Duration::from_millis),
            target_calls: target_calls.map(|calls| u32::try_from(calls).unwrap_or(u32::MAX)),
            tokens,
            money: money.map(Money),
        };
        Ok((hold, budget))
    }

    /// Writes every account that is shared once more.
    pub(crate) async fn save(&self) {
        if let Some(shared) = &self.shared {
            shared.save(&self.book).await;
        }
    }

    fn kept(self: &Arc<Self>, tenant: &Tenant, grant: &Grant) -> Hold {
        Hold {
            accounts: Arc::clone(self),
            tenant: tenant.clone(),
            period: grant.period,
            ends: grant.ends,
            aside: grant.aside,
            unspent_calls: grant.unspent_calls,
            spent: Amounts::default(),
        }
    }
}

impl Hold {
    /// The question was answered, at this cost.
    pub(crate) fn answered(&mut self, report: &Report) {
        let lost = (report.tokens_lost, report.money_lost);
        self.charge(report.elapsed, &report.usage, lost);
    }

    /// The question came to no answer, at this cost.
    pub(crate) fn unanswered(&mut self, due: &Due) {
        let lost = (due.tokens_lost, due.money_lost);
        self.charge(due.elapsed, &due.usage, lost);
    }

    /// Nobody knows what the calls that were broken off would have told at their end, so that the dearest
    /// known cost is charged for each, as in the question's own budget: else hanging up early would be a
    /// discount, and so would wrong guesses.
    fn charge(&mut self, elapsed: Duration, usage: &Usage, (tokens, money): (u64, Money)) {
        let cost = usage.cost();
        self.spent = Amounts([
            whole_ms(elapsed),
            u64::from(usage.targets.started),
            cost.tokens.total().saturating_add(tokens),
            cost.money.plus(money).0,
        ]);
    }

    /// When to ask again for so many look-ups, if there are fewer: what is only set aside comes back when its
    /// question ends.
    pub(crate) fn look_ups_in(&self, look_ups: u32) -> Duration {
        match self.unspent_calls {
            Some(unspent) if unspent < u64::from(look_ups) => self.renewed_in(),
            _ => SET_ASIDE_FOR,
        }
    }

    /// How long until the period of the account is over. Then all of the allowance is there again.
    pub(crate) fn renewed_in(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// So many look-ups were begun that belong to no question.
    pub(crate) fn looked_up(&mut self, look_ups: u64) {
        self.spent = Amounts([0, look_ups, 0, 0]);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut book = self.accounts.book.lock();
        book.settle(&self.tenant, self.period, self.aside, self.spent);
        drop(book);
        if let Some(shared) = &self.accounts.shared {
            shared.is_due(&self.tenant);
        }
    }
}
