//! What drafters learn of a tenant, kept together by several servers.
//!
//! ```text
//! past   what servers have learnt that say nothing more
//! rows   one for each server: what it has learnt since its start, and until when it will say more
//! ```
//!
//! A server writes its own row, and always the whole of it. A row whose time is over is counted to the past by
//! whoever writes next. If its server is there after all, it finds no row of its own any more, and begins a
//! new one with what it learns from then on. What it learnt in between is lost.
//!
//! No question waits for any of this.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use spechop_draft::{Lesson, PatternDrafter};
use spechop_ports::{PortError, SharedCells, Swapped};
use spechop_types::Tenant;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Guarded;
use crate::sparingly::Sparingly;
use crate::status::chain;

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
    warnings: Sparingly,
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
            warnings: Sparingly::default(),
        }
    }

    /// Never ends.
    pub(crate) async fn keep(&self) -> Infallible {
        let mut rows = HashMap::new();
        loop {
            sleep(EVERY).await;
            self.turn(&mut rows).await;
        }
    }

    /// Looks once at every tenant that has asked. `rows` is what was last written of each.
    async fn turn(&self, rows: &mut HashMap<Tenant, Lesson>) {
        let asked: BTreeSet<Tenant> = self.drafter.drafter.asked();
        for tenant in asked {
            if let Err(error) = self.meet(&tenant, rows).await {
                let reason = chain(&error);
                if let Some(left_out) = self.warnings.turn("shared drafts") {
                    tracing::warn!(reason, left_out, "what the drafters learn is not shared");
                }
                // Whoever asks again is looked at again.
                return;
            }
        }
    }

    async fn meet(
        &self,
        tenant: &Tenant,
        rows: &mut HashMap<Tenant, Lesson>,
    ) -> Result<(), PortError> {
        let name = name(tenant);
        let mut text = self.cells.read(&name).await?;
        for _ in 0..TRIES {
            let looks = Looks {
                drafter: Arc::clone(&self.drafter),
                me: self.me.clone(),
                tenant: tenant.clone(),
                text: text.clone(),
                told: rows.get(tenant).cloned(),
            };
            // Megabytes may lie there.
            let Ok(seen) = spawn_blocking(move || looks.look()).await else {
                tracing::error!("what others have learnt cannot be taken in");
                return Ok(());
            };
            if seen.is_past {
                rows.remove(tenant);
            }
            if let Some((offer, lesson)) = seen.offer {
                let swap = self.cells.swap(&name, text.as_deref(), &offer, KEEP);
                if let Swapped::Other(there) = swap.await? {
                    text = there;
                    continue;
                }
                rows.insert(tenant.clone(), lesson);
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
    /// What this server has written there.
    told: Option<Lesson>,
}

/// What a look has shown.
struct Seen {
    /// The row of this server was counted to the past.
    is_past: bool,
    /// What the cell should be, and the row of this server in it; `None` if nothing is new.
    offer: Option<(String, Lesson)>,
    /// What everybody else has learnt.
    others: Lesson,
}

impl Looks {
    fn look(mut self) -> Seen {
        let drafter: &PatternDrafter = &self.drafter.drafter;
        let cell = self.text.as_deref().and_then(Cell::parse);
        let has_row = |cell: &Cell| cell.rows.contains_key(&self.me);
        let is_past = self.told.is_some() && cell.as_ref().is_some_and(|cell| !has_row(cell));
        if is_past {
            drafter.told(&self.tenant);
            self.told = None;
        }
        let lesson = drafter.lesson(&self.tenant);
        let news = lesson.filter(|lesson| self.told.as_ref() != Some(lesson));
        let cell = cell.unwrap_or_default();
        let offer = news.map(|lesson| {
            let offer = cell.with(&self.me, lesson.clone(), now());
            (offer.text(), lesson)
        });
        Seen {
            is_past,
            offer,
            // What becomes the past by the offer is others' all the same.
            others: cell.others(&self.me),
        }
    }
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

    /// The same, with what `me` has learnt. Rows whose time is over are counted to the past.
    fn with(&self, me: &str, lesson: Lesson, now: u64) -> Self {
        let mut past = self.past.clone();
        let mut rows = self.rows.clone();
        rows.retain(|name, row| {
            let is_over = name != me && row.until <= now;
            if is_over {
                past.add(&row.lesson);
            }
            !is_over
        });
        let until = now.saturating_add(u64::try_from(ROW.as_millis()).unwrap_or(u64::MAX));
        rows.insert(me.to_owned(), Row { until, lesson });
        Self {
            format: FORMAT,
            past,
            rows,
        }
    }

    /// What everybody but `me` has learnt.
    fn others(&self, me: &str) -> Lesson {
        let mut all = self.past.clone();
        for (_, row) in self.rows.iter().filter(|(name, _)| *name != me) {
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
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use spechop_draft::Patterns;
    use spechop_ports::{Draft, DraftRequest, Drafter};
    use spechop_testkit::CellMap;
    use spechop_types::{CommitKind, Hop, Observation, Question, SubQuestion};

    use super::super::TIME_MAX;
    use super::*;

    /// A server, and what it has written so far.
    struct Node {
        shared: SharedDrafts,
        rows: HashMap<Tenant, Lesson>,
    }

    impl Node {
        fn new(cells: &Arc<CellMap>) -> Self {
            let drafter = PatternDrafter::new(Patterns::shipped().unwrap()).shared();
            let drafter = Arc::new(Guarded::new(drafter, true, TIME_MAX));
            let cells = Arc::clone(cells) as Arc<dyn SharedCells>;
            Self {
                shared: SharedDrafts::new(drafter, cells),
                rows: HashMap::new(),
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
                drafter.learn(tenant, &question(&name), &[hop]);
            }
        }

        async fn turn(&mut self) {
            let Self { shared, rows } = self;
            shared.turn(rows).await;
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
        let [mut a, mut b] = [(); 2].map(|()| Node::new(&cells));
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
        let mut c = Node::new(&cells);
        c.drafts(&team);
        c.turn().await;
        assert_eq!(c.drafts(&team), [ASKED]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_counted_twice() {
        let cells = Arc::new(CellMap::default());
        let [mut a, mut b] = [(); 2].map(|()| Node::new(&cells));
        let team = tenant("team");
        a.learns(&team, 3);
        b.learns(&team, 2);
        for _ in 0..4 {
            a.drafts(&team);
            b.drafts(&team);
            a.turn().await;
            b.turn().await;
        }
        let mut expected = a.shared.drafter.drafter.lesson(&team).unwrap();
        expected.add(&b.shared.drafter.drafter.lesson(&team).unwrap());
        let text = cells.read(&name(&team)).await.unwrap().unwrap();
        let cell = Cell::parse(&text).unwrap();
        assert_eq!(cell.rows.len(), 2);
        assert_eq!(total(&cell.others("nobody")), 5);
        assert_eq!(total(&expected), 5);

        // A row whose time is over becomes the past, and its server begins anew.
        let aged = cell.with(&b.shared.me, b.rows[&team].clone(), u64::MAX - 1);
        assert_eq!(aged.rows.len(), 1);
        assert_eq!(total(&aged.others("nobody")), 5);
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
        assert_eq!(total(&Cell::parse(&text).unwrap().others("nobody")), 6);
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
        let mut a = Node::new(&cells);
        let team = tenant("team");
        cells.is_down.store(true, Ordering::Relaxed);
        a.learns(&team, 3);
        a.turn().await;
        assert_eq!(a.drafts(&team), [ASKED]);
        cells.is_down.store(false, Ordering::Relaxed);
        let swapped = cells.swap(&name(&team), None, "{\"format\":7}", KEEP).await;
        assert_eq!(swapped.unwrap(), Swapped::Made);
        a.turn().await;
        let text = cells.read(&name(&team)).await.unwrap().unwrap();
        assert_eq!(total(&Cell::parse(&text).unwrap().others("nobody")), 3);
        for end in 0..text.len().min(400) {
            assert!(Cell::parse(&text[..end]).is_none());
        }
    }
}
