//! The book of all accounts: who has spent what, and what is set aside. Without clock and lock.
//!
//! ```text
//!                 hold                       settle, something spent
//!   no account ─────────▶ holds aside ──────────────────────────────▶ has spent, in the queue
//!        ▲                    │ settle, nothing spent                    │ its period is over
//!        └────────────────────┴──────────────────────────────────────────┘
//! ```
//!
//! An account that has spent nothing and holds nothing aside is as good as none, and is none. So a flood
//! of names that cost nothing leaves nothing. Names that do cost something stay until their period is
//! over, [`TENANTS_MAX`] at most. Beyond that, tenants without an account are refused until a period ends.
//! Forgetting an account instead would give its tenant a new allowance, and whoever can make up names
//! could have a used-up account forgotten.
//!
//! A call looks at [`SWEEP`] accounts of past periods at most, however many there are.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spechop_config::Allowance;
use spechop_types::{Tenant, whole_ms};
use tokio::time::Instant;

/// The part of the rest that a question without a budget of its own gets: one of so many.
const SHARE: u64 = 4;
/// The most accounts.
pub(super) const TENANTS_MAX: usize = 100_000;
/// The most accounts of past periods that one call looks at: more than one, so that they become fewer.
pub(super) const SWEEP: usize = 2;
/// When to try again if what is left is set aside for other questions: they may end at any time.
pub(super) const SET_ASIDE_FOR: Duration = Duration::from_secs(1);

/// Milliseconds, target calls, tokens, millionths of money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Amounts(pub(super) [u64; 4]);

const NAMES: [&str; 4] = ["time", "target calls", "tokens", "money"];
/// Where target calls stand among them.
const CALLS: usize = 1;

/// All accounts.
pub(super) struct Book {
    allowance: Allowance,
    accounts: HashMap<Tenant, Account>,
    /// The accounts that have spent something, nearly in the order in which their periods began. Whoever
    /// has begun another period since stands in it twice, and the earlier entry means nothing.
    queue: VecDeque<(Instant, Tenant)>,
    /// How many entries of the queue have been looked at.
    #[cfg(test)]
    pub(super) swept: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// When its period began. Of a shared account, another server may have begun it earlier.
    since: Instant,
    /// When this server began to count for this period.
    pub(super) counting: Instant,
    pub(super) spent: Amounts,
    pub(super) aside: Amounts,
}

/// What other servers have of an account that they share, as far as this one has heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Elsewhere {
    /// When the period began, if one of them has begun it and it is not over.
    pub(super) since: Option<Instant>,
    pub(super) spent: Amounts,
    pub(super) aside: Amounts,
}

/// What a question may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    /// The period that pays: when this server began to count for it.
    pub(super) period: Instant,
    /// When that period is over.
    pub(super) ends: Instant,
    pub(super) aside: Amounts,
    /// Target calls that have not been spent, of which some may be set aside for others; `None`: without end.
    pub(super) unspent_calls: Option<u64>,
    pub(super) limits: [Option<u64>; 4],
}

/// Why nothing can be set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The account has spent everything.
    UsedUp {
        /// Of what.
        what: &'static str,
        /// When the next period begins.
        again_in: Duration,
    },
    /// The rest of the account is set aside for questions that are still open.
    SetAside {
        /// Of what.
        what: &'static str,
        /// When to try again.
        again_in: Duration,
    },
    /// No further account can be kept.
    Strangers {
        /// When the first of the accounts may be forgotten.
        again_in: Duration,
    },
}

impl Book {
    pub(super) fn new(allowance: Allowance) -> Self {
        Self {
            allowance,
            accounts: HashMap::new(),
            queue: VecDeque::new(),
            #[cfg(test)]
            swept: 0,
        }
    }

    pub(super) fn change(&mut self, allowance: Allowance) {
        self.allowance = allowance;
    }

    /// Sets aside what a question may cost that wants so much; `None` wants a share of what is left. Whoever
    /// wants nothing of a kind may have it, however little of that kind is left.
    pub(super) fn hold(
        &mut self,
        tenant: &Tenant,
        wanted: [Option<u64>; 4],
        elsewhere: &Elsewhere,
        now: Instant,
    ) -> Result<Grant, Shortage> {
        self.sweep(now);
        let period = self.allowance.period;
        let mut account = match self.accounts.get(tenant) {
            Some(account) if now - account.since < period => *account,
            Some(account) => Account {
                aside: account.aside,
                ..Account::new(now)
            },
            None if self.accounts.len() >= TENANTS_MAX => {
                let rest = |(since, _): &(Instant, Tenant)| (*since + period) - now;
                let again_in = self.queue.front().map_or(SET_ASIDE_FOR, rest);
                return Err(Shortage::Strangers { again_in });
            }
            None => Account::new(now),
        };
        let joins = (elsewhere.since).is_some_and(|since| self.join(&mut account, since, now));
        let (mut limits, mut unspent_calls) = (wanted, None);
        let mut aside = Amounts::default();
        for (at, most) in limits_of(&self.allowance).into_iter().enumerate() {
            let Some(most) = most else { continue };
            if wanted[at] == Some(0) {
                continue;
            }
            let unspent = most.saturating_sub(account.spent.0[at]);
            let unspent = unspent.saturating_sub(elsewhere.spent.0[at]);
            if at == CALLS {
                unspent_calls = Some(unspent);
            }
            let left = unspent.saturating_sub(account.aside.0[at]);
            let left = left.saturating_sub(elsewhere.aside.0[at]);
            if left == 0 {
                let what = NAMES[at];
                return Err(if unspent == 0 {
                    let again_in = (account.since + period) - now;
                    Shortage::UsedUp { what, again_in }
                } else {
                    let again_in = SET_ASIDE_FOR;
                    Shortage::SetAside { what, again_in }
                });
            }
            let granted = wanted[at].unwrap_or(left.div_ceil(SHARE)).min(left);
            aside.0[at] = granted;
            limits[at] = Some(granted);
        }
        account.aside.add(aside);
        // Only now: whoever is refused leaves nothing, however often.
        if joins && account.spent.any() {
            self.queue.push_back((account.since, tenant.clone()));
        }
        self.accounts.insert(tenant.clone(), account);
        debug_assert!(self.fits(&account, aside), "{account:?}");
        Ok(Grant {
            period: account.counting,
            ends: account.since + period,
            aside,
            unspent_calls,
            limits,
        })
    }

    /// A question has ended that had set so much aside in this period, and has spent so much.
    pub(super) fn settle(
        &mut self,
        tenant: &Tenant,
        period: Instant,
        aside: Amounts,
        spent: Amounts,
    ) {
        let limits = limits_of(&self.allowance);
        let Entry::Occupied(mut entry) = self.accounts.entry(tenant.clone()) else {
            return;
        };
        let account = entry.get_mut();
        account.aside.take(aside);
        let had_spent = account.spent.any();
        // A question that began in a period that is over was paid from that one.
        if account.counting == period {
            account.spent.add(spent.limited(limits));
        }
        if account.spent.any() && !had_spent {
            self.queue.push_back((account.since, tenant.clone()));
        }
        if !account.spent.any() && !account.aside.any() {
            entry.remove();
        }
    }

    /// The period of an account that servers share is the one that the first of them has begun. Whether that is
    /// another one than before.
    fn join(&self, account: &mut Account, since: Instant, now: Instant) -> bool {
        if since == account.since {
            return false;
        }
        // Another period, and not the same one that two servers began while they could not hear each other.
        if since > account.since + self.allowance.period / 2 {
            account.renew(now);
        }
        account.since = since;
        true
    }

    /// What this server has of an account, and when its period began; nothing if there is none.
    pub(super) fn own(&self, tenant: &Tenant) -> Option<(Instant, Amounts, Amounts)> {
        let account = self.accounts.get(tenant)?;
        Some((account.since, account.spent, account.aside))
    }

    /// Whoever has something set aside.
    pub(super) fn open(&self) -> Vec<Tenant> {
        let open = self.accounts.iter();
        let open = open.filter(|(_, account)| account.aside.any());
        open.map(|(tenant, _)| tenant.clone()).collect()
    }

    /// How long a period is.
    pub(super) fn period(&self) -> Duration {
        self.allowance.period
    }

    /// Forgets some of the accounts whose period is over.
    fn sweep(&mut self, now: Instant) {
        for _ in 0..SWEEP {
            let is_over = |since: Instant| now - since >= self.allowance.period;
            let Some((since, tenant)) = self.queue.pop_front_if(|(since, _)| is_over(*since))
            else {
                return;
            };
            #[cfg(test)]
            {
                self.swept += 1;
            }
            if let Entry::Occupied(mut entry) = self.accounts.entry(tenant)
                && entry.get().since == since
            {
                if entry.get().aside.any() {
                    entry.get_mut().renew(now);
                } else {
                    entry.remove();
                }
            }
        }
    }

    /// ACCOUNT-1: if something of a kind is set aside now, what is spent and set aside of that kind is no more
    /// than the allowance.
    fn fits(&self, account: &Account, now: Amounts) -> bool {
        let sums = account.spent.0.into_iter().zip(account.aside.0);
        let limits = limits_of(&self.allowance).into_iter().zip(now.0);
        sums.zip(limits).all(|((spent, aside), (most, now))| {
            now == 0 || most.is_none_or(|most| spent.saturating_add(aside) <= most)
        })
    }

    #[cfg(test)]
    pub(super) fn account(&self, tenant: &Tenant) -> Option<Account> {
        self.accounts.get(tenant).copied()
    }

    /// Accounts, and entries of the queue.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.accounts.len(), self.queue.len())
    }
}

impl Account {
    fn new(since: Instant) -> Self {
        Self {
            since,
            counting: since,
            spent: Amounts::default(),
            aside: Amounts::default(),
        }
    }

    /// A new period. What open questions have set aside stays set aside.
    fn renew(&mut self, now: Instant) {
        (self.since, self.counting) = (now, now);
        self.spent = Amounts::default();
    }
}

fn limits_of(allowance: &Allowance) -> [Option<u64>; 4] {
    let money = allowance.money.map(|money| money.0);
    let time = allowance.time.map(whole_ms);
    [time, allowance.target_calls, allowance.tokens, money]
}

impl Amounts {
    pub(super) fn add(&mut self, other: Self) {
        for (sum, amount) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(amount);
        }
    }

    fn take(&mut self, other: Self) {
        for (sum, amount) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_sub(amount);
        }
    }

    /// Nothing of what is not limited: nobody has to remember it.
    fn limited(mut self, limits: [Option<u64>; 4]) -> Self {
        for (amount, limit) in self.0.iter_mut().zip(limits) {
            *amount = limit.map_or(0, |_| *amount);
        }
        self
    }

    pub(super) fn any(self) -> bool {
        self.0 != [0; 4]
    }
}
