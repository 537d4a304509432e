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
                // Whoever asks again is looked at again.
                self.due.lock().clear();
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
        Seen { offer, others }
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
mod tests {
    use std::sync::atomic::Ordering;

    use futures::FutureExt;
    use spechop_draft::{Patterns, Taught};
    use spechop_ports::{Draft, DraftRequest, Drafter};
    use spechop_testkit::CellMap;
    use spechop_types::{CommitKind, Hop, Observation, Question, SubQuestion};

    use super::super::TIME_MAX;
    use super::*;

    /// A server.
    struct Node {
        shared: SharedDrafts,
    }

    impl Node {
        fn new(cells: &Arc<CellMap>) -> Self {
            let drafter = PatternDrafter::new(Patterns::shipped().unwrap()).shared();
            let drafter = Arc::new(Guarded::new(drafter, true, TIME_MAX));
            let cells = Arc::clone(cells) as Arc<dyn SharedCells>;
            Self {
                shared: SharedDrafts::new(drafter, cells),
            }
        }

        /// Drafts for a question of a form that nobody has shipped.
        fn drafts(&self, tenant: &Tenant) -> Vec<String> {
            let question = question("Zorblax");
            let request = DraftRequest {
                tenant,
                question: &question,
                hops: &[],
                limit: 2,
            };
            let text = |draft: Draft| draft.sub_question.as_str().to_owned();
            let drafts = self.shared.drafter.draft(&request);
            drafts.into_iter().map(text).collect()
        }

        /// Answers questions of that form.
        fn learns(&self, tenant: &Tenant, times: usize) {
            for at in 0..times {
                let name = format!("Quux{at}");
                let observation = Observation::read(Some("Ogg".into()), Vec::new());
                let hop = Hop {
                    sub_question: SubQuestion::new(&format!("Which moons does {name} have?")),
                    answer: Arc::clone(&observation.answer),
                    kind: CommitKind::Observed,
                    guess: None,
                    observation: Arc::new(observation),
                };
                let drafter = &self.shared.drafter;
                drafter.draft(&DraftRequest {
                    tenant,
                    question: &question(&name),
                    hops: &[],
                    limit: 1,
                });
                drafter.learn(tenant, &question(&name), &[hop], true);
            }
        }

        async fn turn(&self) {
            self.shared.turn().await;
        }

        /// What it has learnt of a tenant in its term.
        fn taught(&self, tenant: &Tenant) -> Taught {
            self.shared.drafter.drafter.lesson(tenant).unwrap()
        }
    }

    fn question(name: &str) -> Question {
        Question::new(&format!(
            "By how many moons is planet {name} orbited, please?"
        ))
        .unwrap()
    }

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    const ASKED: &str = "Which moons does Zorblax have?";

    #[tokio::test(start_paused = true)]
    async fn what_one_server_learns_another_drafts() {
        let cells = Arc::new(CellMap::default());
        let [a, b] = [(); 2].map(|()| Node::new(&cells));
        let team = tenant("team");
        a.learns(&team, 3);
        assert_eq!(a.drafts(&team), [ASKED]);
        assert_eq!(b.drafts(&team), [""; 0]);
        a.turn().await;
        b.turn().await;
        assert_eq!(b.drafts(&team), [ASKED]);
        assert_eq!(
            b.drafts(&tenant("other")),
            [""; 0],
            "it is the tenant's alone"
        );
        b.turn().await;
        assert_eq!(b.drafts(&tenant("other")), [""; 0]);
        // A server that is new knows it, too.
        let c = Node::new(&cells);
        c.drafts(&team);
        c.turn().await;
        assert_eq!(c.drafts(&team), [ASKED]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_counted_twice() {
        let cells = Arc::new(CellMap::default());
        let [a, b] = [(); 2].map(|()| Node::new(&cells));
        let team = tenant("team");
        a.learns(&team, 3);
        b.learns(&team, 2);
        for _ in 0..4 {
            a.drafts(&team);
            b.drafts(&team);
            a.turn().await;
            b.turn().await;
        }
        let mut expected = a.taught(&team).lesson;
        expected.add(&b.taught(&team).lesson);
        let text = cells.read(&name(&team)).await.unwrap().unwrap();
        let cell = Cell::parse(&text).unwrap();
        assert_eq!(cell.rows.len(), 2);
        assert_eq!(total(&cell.others(None)), 5);
        assert_eq!(total(&expected), 5);

        // A row whose time is over becomes the past, and its server begins anew.
        let Taught { term, lesson, .. } = b.taught(&team);
        let row = row_of(&b.shared.me, term);
        let aged = cell.with(&b.shared.me, &row, lesson, u64::MAX - 1);
        assert_eq!(aged.rows.len(), 1);
        assert_eq!(total(&aged.others(None)), 5);
        let swapped = cells
            .swap(&name(&team), Some(&text), &aged.text(), KEEP)
            .await;
        assert_eq!(swapped.unwrap(), Swapped::Made);
        a.learns(&team, 1);
        a.turn().await;
        a.learns(&team, 1);
        a.turn().await;
        let text = cells.read(&name(&team)).await.unwrap().unwrap();
        // One that it learnt before it noticed is lost.
        assert_eq!(total(&Cell::parse(&text).unwrap().others(None)), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_learnt_after_a_look_is_told_at_the_next() {
        let cells = Arc::new(CellMap::default());
        let a = Node::new(&cells);
        let team = tenant("team");
        a.learns(&team, 1);
        a.turn().await;
        // The question had asked for its drafts before that look.
        let observation = Observation::read(Some("Ogg".into()), Vec::new());
        let hop = Hop {
            sub_question: SubQuestion::new("Which moons does Quux have?"),
            answer: Arc::clone(&observation.answer),
            kind: CommitKind::Observed,
            guess: None,
            observation: Arc::new(observation),
        };
        a.shared
            .drafter
            .learn(&team, &question("Quux"), &[hop], true);
        a.turn().await;
        let text = cells.read(&name(&team)).await.unwrap().unwrap();
        assert_eq!(total(&Cell::parse(&text).unwrap().others(None)), 2);
    }

    /// As at the end of the server.
    #[tokio::test(start_paused = true)]
    async fn a_turn_that_was_given_up_is_made_up_for() {
        let cells = Arc::new(CellMap::default());
        let a = Node::new(&cells);
        let team = tenant("team");
        a.learns(&team, 3);
        assert!(a.turn().now_or_never().is_none());
        a.turn().await;
        let text = cells.read(&name(&team)).await.unwrap().unwrap();
        assert_eq!(total(&Cell::parse(&text).unwrap().others(None)), 3);
    }

    /// The swap was made, and its answer lost.
    #[tokio::test(start_paused = true)]
    async fn a_row_that_is_there_was_told() {
        let cells = Arc::new(CellMap::default());
        let a = Node::new(&cells);
        let team = tenant("team");
        a.learns(&team, 3);
        let Taught { term, lesson, .. } = a.taught(&team);
        let row = row_of(&a.shared.me, term);
        let cell = Cell::default().with(&a.shared.me, &row, lesson, now());
        let swapped = cells.swap(&name(&team), None, &cell.text(), KEEP).await;
        assert_eq!(swapped.unwrap(), Swapped::Made);
        a.turn().await;
        assert!(a.taught(&team).is_told);
    }

    /// A server that has forgotten a tenant, because so many others came, adds to what it has told of it.
    #[tokio::test(start_paused = true)]
    async fn a_tenant_that_was_forgotten_is_not_told_anew() {
        let cells = Arc::new(CellMap::default());
        let a = Node::new(&cells);
        let team = tenant("team");
        let told = async || {
            let text = cells.read(&name(&team)).await.unwrap().unwrap();
            Cell::parse(&text).unwrap()
        };
        a.learns(&team, 3);
        a.turn().await;
        for other in 0..64 {
            a.learns(&tenant(&format!("other{other}")), 1);
        }
        assert_eq!(a.shared.drafter.drafter.lesson(&team), None);
        a.turn().await;
        // It only asks: what it has taught here is heard again.
        assert_eq!(a.drafts(&team), [""; 0]);
        a.turn().await;
        assert_eq!(a.drafts(&team), [ASKED]);
        assert_eq!(total(&told().await.others(None)), 3);
        for _ in 0..2 {
            a.learns(&team, 1);
            a.turn().await;
        }
        let cell = told().await;
        assert_eq!((cell.rows.len(), total(&cell.others(None))), (1, 5));
    }

    /// How many questions a lesson knows of.
    fn total(lesson: &Lesson) -> u64 {
        let value = serde_json::to_value(lesson).unwrap();
        let patterns = value["patterns"].as_array().unwrap();
        patterns
            .iter()
            .map(|pattern| pattern["questions"].as_u64().unwrap())
            .sum()
    }

    #[tokio::test(start_paused = true)]
    async fn cells_that_are_away_or_damaged_harm_nothing() {
        let cells = Arc::new(CellMap::default());
        let a = Node::new(&cells);
        let team = tenant("team");
        cells.is_down.store(true, Ordering::Relaxed);
        a.learns(&team, 3);
        a.turn().await;
        assert!(a.shared.outage.is_on());
        assert_eq!(a.drafts(&team), [ASKED]);
        cells.is_down.store(false, Ordering::Relaxed);
        let swapped = cells.swap(&name(&team), None, "{\"format\":7}", KEEP).await;
        assert_eq!(swapped.unwrap(), Swapped::Made);
        a.turn().await;
        assert!(!a.shared.outage.is_on());
        let text = cells.read(&name(&team)).await.unwrap().unwrap();
        assert_eq!(total(&Cell::parse(&text).unwrap().others(None)), 3);
        for end in 0..text.len().min(400) {
            assert!(Cell::parse(&text[..end]).is_none());
        }
    }
}
