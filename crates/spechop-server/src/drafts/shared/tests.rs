use std::sync::atomic::Ordering;

use futures::FutureExt;
use spechop_draft::{Patterns, Taught};
use spechop_ports::{DraftRequest, Drafter};
use spechop_testkit::CellMap;
use spechop_types::{CommitKind, Draft, Hop, Observation, Question, SubQuestion};

use super::*;

/// A server.
struct Node {
    shared: SharedDrafts,
}

impl Node {
    fn new(cells: &Arc<CellMap>) -> Self {
        let drafter = PatternDrafter::new(Patterns::shipped().unwrap()).shared();
        let drafter = Arc::new(Guarded::new(drafter, true).unwrap());
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
            let drafter = &self.shared.drafter.drafter;
            drafter.draft(&DraftRequest {
                tenant,
                question: &question(&name),
                hops: &[],
                limit: 1,
            });
            drafter.learn(tenant, &question(&name), &[hop(&name)], true);
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

/// The hop that answers it.
fn hop(name: &str) -> Hop {
    let observation = Observation::read(Some("Ogg".into()), Vec::new());
    Hop {
        sub_question: SubQuestion::new(&format!("Which moons does {name} have?")),
        answer: Arc::clone(&observation.answer),
        kind: CommitKind::Observed,
        guess: None,
        observation: Arc::new(observation),
    }
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

/// Cells, their only server, and a tenant of it.
fn alone() -> (Arc<CellMap>, Node, Tenant) {
    let cells = Arc::new(CellMap::default());
    let node = Node::new(&cells);
    (cells, node, tenant("team"))
}

/// The text of the tenant's cell, and what it says.
async fn told(cells: &CellMap, tenant: &Tenant) -> (String, Cell) {
    let text = cells.read(&name(tenant)).await.unwrap().unwrap();
    let cell = Cell::parse(&text).unwrap();
    (text, cell)
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
    let (text, cell) = told(&cells, &team).await;
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
    // One that it learnt before it noticed is lost.
    assert_eq!(total(&told(&cells, &team).await.1.others(None)), 6);
}

#[tokio::test(start_paused = true)]
async fn what_was_learnt_after_a_look_is_told_at_the_next() {
    let (cells, a, team) = alone();
    a.learns(&team, 1);
    a.turn().await;
    // The question had asked for its drafts before that look.
    let drafter = &a.shared.drafter.drafter;
    drafter.learn(&team, &question("Quux"), &[hop("Quux")], true);
    a.turn().await;
    assert_eq!(total(&told(&cells, &team).await.1.others(None)), 2);
}

/// As at the end of the server.
#[tokio::test(start_paused = true)]
async fn a_turn_that_was_given_up_is_made_up_for() {
    let (cells, a, team) = alone();
    a.learns(&team, 3);
    assert!(a.turn().now_or_never().is_none());
    a.turn().await;
    assert_eq!(total(&told(&cells, &team).await.1.others(None)), 3);
}

/// Its tenant does not ask again.
#[tokio::test(start_paused = true)]
async fn what_was_learnt_while_the_cells_were_away_is_told_later() {
    let (cells, a, team) = alone();
    cells.is_down.store(true, Ordering::Relaxed);
    a.learns(&team, 3);
    assert_eq!(a.drafts(&tenant("other")), [""; 0]);
    a.turn().await;
    // Nobody waits for those who have taught nothing.
    assert_eq!(*a.shared.due.lock(), BTreeSet::from([team.clone()]));
    cells.is_down.store(false, Ordering::Relaxed);
    a.turn().await;
    assert_eq!(total(&told(&cells, &team).await.1.others(None)), 3);
}

/// The swap was made, and its answer lost.
#[tokio::test(start_paused = true)]
async fn a_row_that_is_there_was_told() {
    let (cells, a, team) = alone();
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
    let (cells, a, team) = alone();
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
    assert_eq!(total(&told(&cells, &team).await.1.others(None)), 3);
    for _ in 0..2 {
        a.learns(&team, 1);
        a.turn().await;
    }
    let (_, cell) = told(&cells, &team).await;
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
    let (cells, a, team) = alone();
    cells.is_down.store(true, Ordering::Relaxed);
    a.learns(&team, 3);
    a.turn().await;
    assert!(a.shared.outage.has_failed());
    assert_eq!(a.drafts(&team), [ASKED]);
    cells.is_down.store(false, Ordering::Relaxed);
    let swapped = cells.swap(&name(&team), None, "{\"format\":7}", KEEP).await;
    assert_eq!(swapped.unwrap(), Swapped::Made);
    for (text, begins_anew) in [(None, false), (Some("{\"format\":7}"), true)] {
        let looks = Looks {
            drafter: Arc::clone(&a.shared.drafter),
            me: a.shared.me.clone(),
            tenant: team.clone(),
            text: text.map(str::to_owned),
        };
        assert_eq!(looks.look().begins_anew, begins_anew, "{text:?}");
    }
    a.turn().await;
    assert!(!a.shared.outage.has_failed());
    let (text, cell) = told(&cells, &team).await;
    assert_eq!(total(&cell.others(None)), 3);
    for end in 0..text.len().min(400) {
        assert!(Cell::parse(&text[..end]).is_none());
    }
}
