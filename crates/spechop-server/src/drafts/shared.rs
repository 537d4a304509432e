//! What drafters learn of a tenant, kept together by several servers.
//!
//! ```text
//! past   what servers have learnt that say nothing more
//! rows   one for each server and term: what it has learnt since the term began, and until when it will say more
//! ```
//!
//! A server writes its own row, and always the whole of it. A row whose time is over is counted to the past by
//! whoever writes next. If its server is there after all, it finds no row of its own any more, and begins a
//! new term with what it learns from then on. What it learnt in between is lost.
//!
//! A server has room for so many tenants, so it forgets some. What such a tenant teaches later is of another
//! term ([`spechop_draft::Taught`]), and the rows of earlier ones become the past.
//!
//! No question waits for any of this.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use spechop_draft::{Lesson, PatternDrafter};
use spechop_ports::{PortError, SharedCells, Swapped};
use spechop_types::{Tenant, whole_ms, with_causes};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Guarded;
use crate::outage::Outage;

/// The version of everything that is written.
const FORMAT: u64 = 1;
/// How often it is looked at what others have learnt of the tenants that have asked meanwhile.
const EVERY: Duration = Duration::from_secs(10);
/// How long a row is good. It is written again when something was learnt, so an idle server loses it.
const ROW: Duration = Duration::from_secs(3600);
/// How long a cell is kept that nobody writes.
const KEEP: Duration = Duration::from_secs(30 * 86_400);
/// Changes that other servers may be faster with, one after the other.
const TRIES: usize = 8;
/// A cell with more bytes than several servers write is not read.
const BYTES_MAX: usize = 8 << 20;

/// Keeps a drafter up with what others learn, and others with it.
pub(crate) struct SharedDrafts {
    drafter: Arc<Guarded>,
    cells: Arc<dyn SharedCells>,
    /// What this server calls itself; a new name at every start.
    me: String,
    /// Tenants that have asked and were not looked at yet. A turn may be given up.
    due: Mutex<BTreeSet<Tenant>>,
    outage: Outage,
}

/// What servers know of a tenant together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    format: u64,
    past: Lesson,
    rows: BTreeMap<String, Row>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Milliseconds since 1970.
    until: u64,
    lesson: Lesson,
}

impl SharedDrafts {
    pub(crate) fn new(drafter: Arc<Guarded>, cells: Arc<dyn SharedCells>) -> Self {
        Self {
            drafter,
            cells,
            me: format!("{:016x}", rand::random::<u64>()),
            due: Mutex::default(),
            outage: Outage::default(),
        }
    }

    /// Never ends.
    pub(crate) async fn keep(&self) -> Infallible {
        loop {
            sleep(EVERY).await;
            self.turn().await;
        }
    }

    /// Looks once at every tenant that has asked.
    pub(crate) async fn turn(&self) {
        let drafter = Arc::clone(&self.drafter);
        let hangs = spawn_blocking(move || {
            drafter.settle();
            drafter.hangs()
        });
        if hangs.await.unwrap_or(true) {
            return;
        }
        let asked = {
            let mut due = self.due.lock();
            due.extend(self.drafter.drafter.asked());
            due.clone()
        };
        for tenant in &asked {
            if let Err(error) = self.meet(tenant).await {
                let reason = with_causes(&error);
                if self.outage.fails(&reason).is_none() {
                    tracing::warn!(reason, "what the drafters learn is not shared");
                }
                // Whoever has taught something here is looked at again. Those who have not are, if they ask
                // again; and so is the one whose cell is refused, since the others must not wait for it.
                let is_refused = matches!(error, PortError::Refused { .. });
                let drafter = &self.drafter.drafter;
                let is_left = |due: &Tenant| is_refused && due == tenant;
                let mut due = self.due.lock();
                due.retain(|due| drafter.has_taught(due) && !is_left(due));
                return;
            }
            self.due.lock().remove(tenant);
        }
        if !asked.is_empty() && self.outage.works() {
            tracing::info!("what the drafters learn is shared again");
        }
    }

    async fn meet(&self, tenant: &Tenant) -> Result<(), PortError> {
        let name = name(tenant);
        let mut text = self.cells.read(&name).await?;
        for _ in 0..TRIES {
            let looks = Looks {
                drafter: Arc::clone(&self.drafter),
                me: self.me.clone(),
                tenant: tenant.clone(),
                text: text.clone(),
            };
            // Megabytes may lie there.
            let Ok(seen) = spawn_blocking(move || looks.look()).await else {
                tracing::error!("what others have learnt cannot be taken in");
                return Ok(());
            };
            if let Some((offer, term)) = seen.offer {
                let swap = self.cells.swap(&name, text.as_deref(), &offer, KEEP);
                if let Swapped::Other(there) = swap.await? {
                    text = there;
                    continue;
                }
                if seen.begins_anew {
                    tracing::warn!(
                        %tenant,
                        "what servers have learnt of a tenant cannot be read: it begins anew"
                    );
                }
                self.drafter.drafter.note_told(tenant, term);
            }
            let (drafter, tenant) = (Arc::clone(&self.drafter), tenant.clone());
            let hears = move || drafter.drafter.hears(&tenant, &seen.others);
            if spawn_blocking(hears).await.is_err() {
                tracing::error!("what others have learnt cannot be taken in");
            }
            return Ok(());
        }
        // Others are always faster. There is another time.
        Ok(())
    }
}

/// A look at a cell. It computes.
struct Looks {
    drafter: Arc<Guarded>,
    me: String,
    tenant: Tenant,
    text: Option<String>,
}

/// What a look has shown.
struct Seen {
    /// What the cell should be, and the term of this server that it tells of; `None` if nothing is new.
    offer: Option<(String, u64)>,
    /// What everybody else has learnt.
    others: Lesson,
    /// There is something that cannot be read, which the offer replaces.
    begins_anew: bool,
}

impl Looks {
    fn look(self) -> Seen {
        let drafter: &PatternDrafter = &self.drafter.drafter;
        let cell = self.text.as_deref().and_then(Cell::parse);
        let mut taught = drafter.lesson(&self.tenant);
        let mut row = taught.as_ref().map(|taught| row_of(&self.me, taught.term));
        let has_row = |cell: &Cell| row.as_ref().is_some_and(|row| cell.rows.contains_key(row));
        let has_row = cell.as_ref().map(has_row);
        let is_told = taught.as_ref().is_some_and(|taught| taught.is_told);
        if let (Some(taught), Some(true)) = (&taught, has_row) {
            // Also if the answer to the swap that told it was lost.
            drafter.note_told(&self.tenant, taught.term);
        } else if is_told && has_row == Some(false) {
            // Somebody has counted it to the past.
            drafter.end_term(&self.tenant);
            (taught, row) = (None, None);
        }
        let begins_anew = self.text.is_some() && cell.is_none();
        let cell = cell.unwrap_or_default();
        // What becomes the past by the offer is others' all the same.
        let others = cell.others(row.as_deref());
        let news = taught.zip(row).filter(|(taught, row)| {
            let there = cell.rows.get(row).map(|row| &row.lesson);
            there != Some(&taught.lesson)
        });
        let offer = news.map(|(taught, row)| {
            let offer = cell.with(&self.me, &row, taught.lesson, now());
            (offer.text(), taught.term)
        });
        Seen {
            offer,
            others,
            begins_anew,
        }
    }
}

/// The name of the row for a term of a server.
fn row_of(server: &str, term: u64) -> String {
    format!("{server}.{term}")
}

impl Cell {
    /// `None` if it is damaged, of another version, or more than several servers write.
    fn parse(text: &str) -> Option<Self> {
        if text.len() > BYTES_MAX {
            return None;
        }
        let mut cell: Self = serde_json::from_str(text).ok()?;
        if cell.format != FORMAT {
            return None;
        }
        cell.past = cell.past.checked().ok()?;
        for row in cell.rows.values_mut() {
            row.lesson = std::mem::take(&mut row.lesson).checked().ok()?;
        }
        Some(cell)
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The same, with the row `mine` of what the server `me` has learnt. Rows of its earlier terms, and those
    /// whose time is over, are counted to the past.
    fn with(&self, me: &str, mine: &str, lesson: Lesson, now: u64) -> Self {
        let mut past = self.past.clone();
        let mut rows = self.rows.clone();
        rows.retain(|name, row| {
            let is_earlier = name.split_once('.').is_some_and(|(server, _)| server == me);
            let is_over = name != mine && (is_earlier || row.until <= now);
            if is_over {
                past.add(&row.lesson);
            }
            !is_over
        });
        let until = now.saturating_add(whole_ms(ROW));
        rows.insert(mine.to_owned(), Row { until, lesson });
        Self {
            format: FORMAT,
            past,
            rows,
        }
    }

    /// What everybody has learnt, without the row `mine`.
    fn others(&self, mine: Option<&str>) -> Lesson {
        let mut all = self.past.clone();
        for (_, row) in self.rows.iter().filter(|(name, _)| Some(&***name) != mine) {
            all.add(&row.lesson);
        }
        all
    }
}

/// The name of a tenant's cell. The tenant without a name has none that another could have.
fn name(tenant: &Tenant) -> String {
    match tenant.as_str() {
        "" => "patterns".to_owned(),
        named => format!("patterns:{named}"),
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    whole_ms(since.unwrap_or_default())
}

#[cfg(test)]
mod tests;
