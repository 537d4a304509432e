//! Accounts that several servers share: what each of them sets aside is agreed before a question begins.
//!
//! A server looks at what it heard last, sets aside by that, and offers its new row. If another server was
//! faster, it hears what is there now, takes back what it had set aside, and tries again. So servers
//! together keep to the allowance as one does. Before it refuses anybody it asks what is there.
//!
//! What a question has cost is written down behind it, together with others of the same moment.
//!
//! If the cells cannot be asked, questions go on: each server keeps to the allowance by itself, and by what
//! it heard last of the others. It says so once, tries again every few seconds, and writes then what was
//! spent meanwhile.

mod clock;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use spechop_ports::{PortError, SharedCells, Swapped};
use spechop_types::{Tenant, with_causes};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::{Instant, sleep, sleep_until};

use super::Accounts;
use super::book::{Amounts, Book, Elsewhere, Grant, Shortage};
use super::cell::{Cell, WORD};
use crate::outage::Outage;
use clock::Clock;

/// How long what was heard is good enough to refuse somebody.
const FRESH: Duration = Duration::from_millis(100);
/// How long rows that are to be written wait for others.
const GATHERING: Duration = Duration::from_millis(20);
/// How long nobody is asked after a failure. Otherwise every question would wait for what does not answer.
const PAUSE: Duration = Duration::from_secs(2);
/// Changes that other servers may be faster with, one after the other.
const TRIES: usize = 64;
/// Rows that are written at once.
const AT_ONCE: usize = 16;

/// What a server needs to share accounts.
pub(crate) struct Shared {
    cells: Arc<dyn SharedCells>,
    /// What this server calls itself; a new name at every start.
    me: String,
    clock: Clock,
    heard: Mutex<HashMap<Tenant, Arc<AsyncMutex<Heard>>>>,
    /// Whose rows are to be written.
    due: Mutex<HashSet<Tenant>>,
    is_due: Notify,
    outage: Outage,
    counts: SharedCounts,
}

/// How changes of shared accounts ended.
pub(crate) type SharedCounts = Family<ChangeEnded, Counter>;

/// How a change of a shared account ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ChangeEnded {
    end: &'static str,
}

const MADE: &str = "made";
/// Another server was faster.
const OVERTAKEN: &str = "overtaken";
/// Nobody could be asked.
const FAILED: &str = "failed";

/// What was last heard of an account.
#[derive(Default)]
struct Heard {
    text: Option<String>,
    cell: Option<Cell>,
    at: Option<Instant>,
    /// When this server last offered a row of its own. Others may believe it, whatever came of that.
    offered: Option<Instant>,
}

impl Shared {
    pub(crate) fn new(cells: Arc<dyn SharedCells>, counts: SharedCounts) -> Self {
        Self::by(Clock::new(SystemTime::now), cells, counts)
    }

    /// By this clock.
    fn by(clock: Clock, cells: Arc<dyn SharedCells>, counts: SharedCounts) -> Self {
        for end in [MADE, OVERTAKEN, FAILED] {
            // A first one that is no increase would ring nowhere.
            let _ = counts.get_or_create(&ChangeEnded { end });
        }
        Self {
            cells,
            me: format!("{:016x}", rand::random::<u64>()),
            clock,
            heard: Mutex::default(),
            due: Mutex::default(),
            is_due: Notify::new(),
            outage: Outage::with_pause(PAUSE),
            counts,
        }
    }

    /// Sets aside what a question may cost, and has the other servers know. `keep` takes what was set aside
    /// at once: it settles it if it is dropped, and so does whoever gives up in between.
    pub(super) async fn hold<T>(
        &self,
        book: &Mutex<Book>,
        tenant: &Tenant,
        wanted: [Option<u64>; 4],
        keep: impl Fn(Grant) -> T,
    ) -> Result<T, Shortage> {
        let slot = self.slot(tenant);
        let mut heard = slot.lock().await;
        self.clock.check();
        for _ in 0..TRIES {
            let now = Instant::now();
            let (granted, offer, lasts) = {
                let mut book = book.lock();
                let period = book.period();
                let elsewhere = self.elsewhere(&heard, now, period);
                let granted = book.hold(tenant, wanted, &elsewhere, now).map(&keep);
                let offer = self.offer(&heard, &book, tenant, now);
                let lasts = offer.keep(self.clock.wall(now), period);
                (granted, offer, lasts)
            };
            if self.outage.paused().is_some() {
                return granted;
            }
            if let Err(shortage) = granted {
                if heard.at.is_some_and(|at| now - at < FRESH) {
                    return Err(shortage);
                }
                if self.ask(tenant, &mut heard).await.is_err() {
                    return Err(shortage);
                }
                continue;
            }
            match self.change(tenant, &mut heard, offer, lasts).await {
                Ok(true) | Err(_) => return granted,
                // What was set aside is given back, and looked for again by what is there now.
                Ok(false) => drop(granted),
            }
        }
        // Others are always faster: the cells cannot keep up.
        self.failed(None);
        let now = Instant::now();
        let mut book = book.lock();
        let elsewhere = self.elsewhere(&heard, now, book.period());
        book.hold(tenant, wanted, &elsewhere, now).map(keep)
    }

    /// What this server has of an account has changed: it is written soon.
    pub(super) fn is_due(&self, tenant: &Tenant) {
        self.due.lock().insert(tenant.clone());
        self.is_due.notify_one();
    }

    /// Writes what is due, and says again what is set aside before others stop believing it. Until anything
    /// is limited there are no accounts.
    pub(crate) async fn keep(&self, accounts: impl Fn() -> Option<Arc<Accounts>>) -> Infallible {
        let mut next_word = Instant::now() + WORD / 3;
        loop {
            let is_time = tokio::select! {
                () = self.is_due.notified() => false,
                () = sleep_until(next_word) => true,
            };
            sleep(GATHERING).await;
            if is_time {
                next_word = Instant::now() + WORD / 3;
            }
            let Some(accounts) = accounts() else { continue };
            let book = &accounts.book;
            if is_time {
                let open = book.lock().open();
                self.due.lock().extend(open);
                self.forget(book);
            }
            if !self.write(book).await {
                sleep(PAUSE).await;
                self.is_due.notify_one();
            }
        }
    }

    /// Writes what is due, since there may be no time for more, and then every row once more.
    pub(super) async fn save(&self, book: &Mutex<Book>) {
        let is_written = self.write(book).await;
        let all: Vec<_> = self.heard.lock().keys().cloned().collect();
        self.due.lock().extend(all);
        if !(is_written && self.write(book).await) {
            tracing::warn!("what tenants have spent here could not all be shared");
        }
    }

    /// Writes what is due. False if something of it could not be written; it stays due. Names that have spent
    /// nothing do not: while nobody can be asked, there may be any number of them.
    async fn write(&self, book: &Mutex<Book>) -> bool {
        let due: Vec<_> = self.due.lock().iter().cloned().collect();
        let written = stream::iter(due).map(|tenant| async move {
            // From here on, a change that comes is due again.
            self.due.lock().remove(&tenant);
            let is_written = self.write_row(book, &tenant).await;
            if !is_written {
                self.due.lock().insert(tenant);
            }
            is_written
        });
        let mut written = written.buffer_unordered(AT_ONCE);
        let mut all = true;
        while let Some(is_written) = written.next().await {
            all &= is_written;
        }
        all
    }

    async fn write_row(&self, book: &Mutex<Book>, tenant: &Tenant) -> bool {
        let slot = self.slot(tenant);
        let mut heard = slot.lock().await;
        self.clock.check();
        for _ in 0..TRIES {
            let now = Instant::now();
            let (offer, lasts) = {
                let book = book.lock();
                let is_told = heard.offered.is_some_and(|at| now - at < WORD);
                if !is_told && book.own(tenant).is_none() {
                    return true;
                }
                if self.outage.paused().is_some() {
                    return false;
                }
                let offer = self.offer(&heard, &book, tenant, now);
                let lasts = offer.keep(self.clock.wall(now), book.period());
                (offer, lasts)
            };
            match self.change(tenant, &mut heard, offer, lasts).await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// The account as it should be, by what was heard and what this server has of it.
    fn offer(&self, heard: &Heard, book: &Book, tenant: &Tenant, now: Instant) -> Cell {
        let (wall, period) = (self.clock.wall(now), book.period());
        let own = book.own(tenant);
        let newest = self.elsewhere(heard, now, period).since;
        // An account whose period is over, and that nobody has asked for since, has spent nothing.
        let own = own.map(|(since, spent, aside)| {
            let is_over = newest.is_some_and(|newest| newest > since + period / 2);
            match is_over || now - since >= period {
                true => (now, Amounts::default(), aside),
                false => (since, spent, aside),
            }
        });
        let (since, spent, aside) = own.unwrap_or((now, Amounts::default(), Amounts::default()));
        let before = heard.cell.clone();
        let since = self.clock.wall(since);
        let before = before.unwrap_or_else(|| Cell::new(since));
        before.with(&self.me, since, (spent, aside), wall, period)
    }

    /// Offers a change. False if another server was faster; then it is known what is there.
    async fn change(
        &self,
        tenant: &Tenant,
        heard: &mut Heard,
        offer: Cell,
        lasts: Duration,
    ) -> Result<bool, PortError> {
        let text = offer.text();
        let offered = offer.has(&self.me).then(Instant::now);
        heard.offered = offered.or(heard.offered);
        let seen = heard.text.as_deref();
        let swapped = self.cells.swap(&name(tenant), seen, &text, lasts).await;
        match swapped {
            Ok(Swapped::Made) => {
                self.count(MADE);
                self.answers();
                *heard = Heard {
                    text: Some(text),
                    cell: Some(offer),
                    at: Some(Instant::now()),
                    offered,
                };
                Ok(true)
            }
            Ok(Swapped::Other(there)) => {
                self.count(OVERTAKEN);
                heard.hears(there);
                Ok(false)
            }
            Err(error) => {
                self.failed(Some(&error));
                Err(error)
            }
        }
    }

    async fn ask(&self, tenant: &Tenant, heard: &mut Heard) -> Result<(), PortError> {
        match self.cells.read(&name(tenant)).await {
            Ok(there) => {
                self.answers();
                heard.hears(there);
                Ok(())
            }
            Err(error) => {
                self.failed(Some(&error));
                Err(error)
            }
        }
    }

    fn elsewhere(&self, heard: &Heard, now: Instant, period: Duration) -> Elsewhere {
        let Some(cell) = &heard.cell else {
            return Elsewhere::default();
        };
        let others = cell.others(&self.me, self.clock.wall(now), period);
        Elsewhere {
            since: others.since.map(|since| self.clock.instant(since)),
            spent: others.spent,
            aside: others.aside,
        }
    }

    fn slot(&self, tenant: &Tenant) -> Arc<AsyncMutex<Heard>> {
        Arc::clone(self.heard.lock().entry(tenant.clone()).or_default())
    }

    /// Forgets what was heard of accounts that nobody has here, and of which nothing is to be written.
    fn forget(&self, book: &Mutex<Book>) {
        let (book, due) = (book.lock(), self.due.lock());
        self.heard.lock().retain(|tenant, slot| {
            Arc::strong_count(slot) > 1 || due.contains(tenant) || book.own(tenant).is_some()
        });
    }

    /// Whether it could not be agreed upon the last time.
    pub(crate) fn is_apart(&self) -> bool {
        self.outage.has_failed()
    }

    fn failed(&self, error: Option<&PortError>) {
        self.count(FAILED);
        let reason = error.map_or_else(
            || "other servers were always faster".to_owned(),
            |error| with_causes(error),
        );
        if self.outage.fails(&reason).is_none() {
            tracing::warn!(
                reason,
                "shared accounts cannot be agreed upon: this server keeps to the allowance by itself"
            );
        }
    }

    fn answers(&self) {
        if self.outage.works() {
            tracing::info!("shared accounts are agreed upon again");
        }
    }

    fn count(&self, end: &'static str) {
        self.counts.get_or_create(&ChangeEnded { end }).inc();
    }
}

impl Heard {
    fn hears(&mut self, there: Option<String>) {
        let cell = there.as_deref().map(Cell::parse);
        if cell == Some(None) {
            tracing::warn!("a shared account is damaged, or of another version: it begins anew");
        }
        *self = Self {
            cell: cell.flatten(),
            text: there,
            at: Some(Instant::now()),
            offered: self.offered,
        };
    }
}

/// The name of a tenant's account. The tenant without a name has none that another could have.
fn name(tenant: &Tenant) -> String {
    match tenant.as_str() {
        "" => "account".to_owned(),
        named => format!("account:{named}"),
    }
}

#[cfg(test)]
mod tests;
