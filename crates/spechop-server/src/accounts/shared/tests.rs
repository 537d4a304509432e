//! Servers that share accounts, over cells of this process.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use proptest::prelude::*;
use spechop_testkit::CellMap;
use spechop_types::Budget;
use tokio::time::timeout;

use super::super::{Allowance, Due, Hold};
use super::*;

const PERIOD: Duration = Duration::from_secs(60);

/// One of the servers.
struct Node {
    accounts: Arc<Accounts>,
    shared: Arc<Shared>,
}

/// The right time: it runs with the clock of a test, which may stand still.
fn right() -> SystemTime {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    // Another test may have begun earlier or later.
    UNIX_EPOCH + ((Instant::now() + Duration::from_secs(1_000_000_000)) - *BEGAN)
}

/// A clock that shows something else until it is set right.
fn wrong(other: impl Fn() -> SystemTime + Send + Sync + 'static) -> (Clock, Arc<AtomicBool>) {
    let is_right = Arc::new(AtomicBool::new(false));
    let is_set = Arc::clone(&is_right);
    let shows = move || match is_set.load(Ordering::Relaxed) {
        true => right(),
        false => other(),
    };
    (Clock::new(shows), is_right)
}

impl Node {
    fn new(cells: &Arc<CellMap>, calls: u64) -> Self {
        Self::by(Clock::new(right), cells, calls)
    }

    fn by(clock: Clock, cells: &Arc<CellMap>, calls: u64) -> Self {
        let cells = Arc::clone(cells) as Arc<dyn SharedCells>;
        let shared = Arc::new(Shared::by(clock, cells, SharedCounts::default()));
        let allowance = Allowance {
            period: PERIOD,
            time: None,
            target_calls: Some(calls),
            tokens: None,
            money: None,
        };
        let accounts = Accounts::new(allowance, Some(Arc::clone(&shared)));
        Self { accounts, shared }
    }

    /// Sets this many look-ups aside, or fewer.
    async fn hold(&self, calls: u32) -> Result<(Hold, u32), Shortage> {
        let budget = Budget {
            target_calls: Some(calls),
            ..Budget::default()
        };
        let (hold, granted) = self.accounts.hold(&tenant(), budget).await?;
        Ok((hold, granted.target_calls.unwrap_or_default()))
    }

    /// Sets aside and spends this many.
    async fn spend(&self, calls: u32) -> u32 {
        let (mut hold, granted) = self.hold(calls).await.unwrap();
        hold.unanswered(&cost(granted));
        granted
    }

    /// Names `t0`, `t1` and so on ask, and spend nothing.
    async fn is_asked_by(&self, names: usize) {
        for name in 0..names {
            let tenant = Tenant::new(&format!("t{name}")).unwrap();
            let hold = self.accounts.hold(&tenant, Budget::default()).await;
            drop(hold.unwrap());
        }
    }

    async fn write(&self) -> bool {
        self.shared.write(&self.accounts.book).await
    }

    fn count(&self, end: &'static str) -> u64 {
        self.shared.counts.get_or_create(&ChangeEnded { end }).get()
    }
}

fn tenant() -> Tenant {
    Tenant::new("team").unwrap()
}

fn cost(calls: u32) -> Due {
    let mut due = Due::default();
    due.usage.targets.started = calls;
    due
}

#[tokio::test(start_paused = true)]
async fn two_servers_keep_to_one_allowance() {
    let cells = Arc::new(CellMap::default());
    let [a, b] = [(); 2].map(|()| Node::new(&cells, 10));
    let (held, granted) = a.hold(6).await.unwrap();
    assert_eq!(granted, 6);
    let (mut other, granted) = b.hold(9).await.unwrap();
    assert_eq!(granted, 4, "what is left");
    assert!(matches!(a.hold(1).await, Err(Shortage::SetAside { .. })));
    // One gives back what it has not used, and the other hears of it.
    other.unanswered(&cost(1));
    drop(other);
    assert!(b.write().await);
    tokio::time::advance(FRESH).await;
    let (more, granted) = a.hold(9).await.unwrap();
    assert_eq!(granted, 3);
    drop((held, more));
    assert!(a.write().await);
    tokio::time::advance(FRESH).await;
    assert_eq!(b.spend(99).await, 9);
    assert!(b.write().await);
    tokio::time::advance(FRESH).await;
    let refused = a.hold(1).await.err().unwrap();
    assert!(matches!(refused, Shortage::UsedUp { .. }), "{refused:?}");
    // The next period begins for both.
    tokio::time::advance(PERIOD).await;
    assert_eq!(a.spend(7).await, 7);
    assert!(a.write().await);
    assert_eq!(b.spend(7).await, 3);
    assert!(b.write().await, "an older row is written as what it is now");
    tokio::time::advance(FRESH).await;
    assert!(matches!(a.hold(1).await, Err(Shortage::UsedUp { .. })));
}

#[tokio::test(start_paused = true)]
async fn questions_at_the_same_time_do_not_overdraw_together() {
    let cells = Arc::new(CellMap::default());
    let nodes: Vec<_> = (0..4).map(|_| Node::new(&cells, 100)).collect();
    let all = nodes
        .iter()
        .flat_map(|node| (0..50).map(move |_| node.hold(1)));
    let held: Vec<_> = futures::future::join_all(all).await;
    let held: Vec<_> = held.into_iter().filter_map(Result::ok).collect();
    assert_eq!(held.len(), 100);
    assert!(nodes.iter().any(|node| node.count(OVERTAKEN) > 0));
    drop(held);
    for node in &nodes {
        assert!(node.write().await);
    }
    tokio::time::advance(FRESH).await;
    assert_eq!(
        nodes[0].hold(100).await.unwrap().1,
        100,
        "all is given back"
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_while_others_are_asked_leaves_nothing() {
    let cells = Arc::new(CellMap::default());
    let node = Node::new(&cells, 10);
    {
        let hold = node.hold(10);
        tokio::pin!(hold);
        assert!(
            futures::poll!(hold.as_mut()).is_pending(),
            "it asks the cells"
        );
    }
    assert!(node.write().await);
    assert_eq!(node.hold(10).await.unwrap().1, 10);
}

#[tokio::test(start_paused = true)]
async fn a_server_alone_keeps_to_the_allowance_and_tells_of_it_later() {
    let cells = Arc::new(CellMap::default());
    let [a, b] = [(); 2].map(|()| Node::new(&cells, 10));
    assert_eq!(a.spend(3).await, 3);
    assert!(a.write().await);
    cells.is_down.store(true, Ordering::Relaxed);
    // b has never heard of a, so it gives what it may give alone.
    assert_eq!(b.spend(8).await, 8);
    assert_eq!(b.count(FAILED), 1);
    assert!(b.shared.is_apart() && !a.shared.is_apart());
    let asked = cells.asked.load(Ordering::Relaxed);
    assert_eq!(b.spend(8).await, 2);
    assert!(matches!(b.hold(1).await, Err(Shortage::UsedUp { .. })));
    assert_eq!(
        cells.asked.load(Ordering::Relaxed),
        asked,
        "nobody waits for them"
    );
    assert!(!b.write().await);
    cells.is_down.store(false, Ordering::Relaxed);
    tokio::time::advance(PAUSE).await;
    assert!(b.write().await, "what could not be written is still due");
    assert!(!b.shared.is_apart());
    tokio::time::advance(FRESH).await;
    assert!(matches!(a.hold(1).await, Err(Shortage::UsedUp { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_which_nobody_heard_counts_once() {
    let cells = Arc::new(CellMap::default());
    let [a, b] = [(); 2].map(|()| Node::new(&cells, 10));
    cells.is_mute.store(true, Ordering::Relaxed);
    assert_eq!(a.spend(4).await, 4);
    cells.is_mute.store(false, Ordering::Relaxed);
    tokio::time::advance(PAUSE).await;
    assert!(a.write().await);
    assert_eq!(b.hold(99).await.unwrap().1, 6);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_server_had_set_aside_is_given_back() {
    let cells = Arc::new(CellMap::default());
    let [a, b] = [(); 2].map(|()| Node::new(&cells, 10));
    let (held, _) = a.hold(6).await.unwrap();
    assert_eq!(b.hold(99).await.unwrap().1, 4);
    std::mem::forget(held);
    drop(a);
    tokio::time::advance(WORD).await;
    assert_eq!(b.hold(99).await.unwrap().1, 10);
}

#[tokio::test(start_paused = true)]
async fn open_questions_are_told_of_for_as_long_as_they_take() {
    let cells = Arc::new(CellMap::default());
    let [a, b] = [(); 2].map(|()| Node::new(&cells, 10));
    let (held, _) = a.hold(6).await.unwrap();
    let accounts = Arc::clone(&a.accounts);
    let keeps = a.shared.keep(|| Some(Arc::clone(&accounts)));
    let asks = async {
        tokio::time::sleep(WORD * 3 / 2).await;
        assert_eq!(b.hold(99).await.unwrap().1, 4);
        drop(held);
        // It is written without being asked for.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(b.hold(99).await.unwrap().1, 10);
    };
    tokio::select! {
        never = keeps => match never {},
        () = asks => {}
    }
}

/// As after a machine has slept. What it says from then on is believed for as long as what others say.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_behind_is_set_and_nobody_overspends() {
    let cells = Arc::new(CellMap::default());
    let (clock, is_right) = wrong(|| right() - Duration::from_secs(600));
    let a = Node::by(clock, &cells, 10);
    let b = Node::new(&cells, 10);
    is_right.store(true, Ordering::Relaxed);
    let (held, granted) = a.hold(10).await.unwrap();
    assert_eq!(granted, 10);
    let refused = b.hold(1).await.err().unwrap();
    assert!(matches!(refused, Shortage::SetAside { .. }), "{refused:?}");
    drop(held);
    assert!(a.write().await);
    tokio::time::advance(FRESH).await;
    assert_eq!(b.hold(99).await.unwrap().1, 10);
}

/// The period that it wrote before seems to begin in ten minutes. It is no new one.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_ahead_is_set_and_nobody_overspends() {
    let cells = Arc::new(CellMap::default());
    let (clock, is_right) = wrong(|| right() + Duration::from_secs(600));
    let a = Node::by(clock, &cells, 10);
    let b = Node::new(&cells, 10);
    assert_eq!(a.spend(6).await, 6);
    assert!(a.write().await);
    is_right.store(true, Ordering::Relaxed);
    let (_held, granted) = a.hold(99).await.unwrap();
    assert_eq!(granted, 4);
    let refused = b.hold(1).await.err().unwrap();
    assert!(matches!(refused, Shortage::SetAside { .. }), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_drifts_moves_no_period() {
    let began = Instant::now();
    // A second fast in every hour.
    let clock = Clock::new(move || right() + (Instant::now() - began) / 3600);
    let at = clock.wall(began);
    tokio::time::advance(Duration::from_secs(1800)).await;
    clock.check();
    assert_eq!((clock.wall(began), clock.instant(at)), (at, began));
    tokio::time::advance(Duration::from_secs(3600)).await;
    clock.check();
    assert_eq!(clock.wall(began), at + 1500);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_cell_begins_anew() {
    let cells = Arc::new(CellMap::default());
    let key = name(&tenant());
    let swap = cells.swap(&key, None, "{\"format\":7}", PERIOD).await;
    assert_eq!(swap.unwrap(), Swapped::Made);
    let node = Node::new(&cells, 10);
    assert_eq!(node.spend(4).await, 4);
    assert!(node.write().await);
    let text = cells.read(&key).await.unwrap().unwrap();
    assert!(Cell::parse(&text).is_some(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn names_that_spend_nothing_leave_nothing() {
    let cells = Arc::new(CellMap::default());
    let node = Node::new(&cells, 10);
    node.is_asked_by(100).await;
    assert!(node.write().await);
    node.shared.forget(&node.accounts.book);
    assert_eq!(node.shared.heard.lock().len(), 0);
    // Nor is it kept elsewhere until their period ends.
    tokio::time::advance(WORD).await;
    assert_eq!(cells.read("account:t0").await.unwrap(), None);
}

/// However long that is.
#[tokio::test(start_paused = true)]
async fn names_that_spend_nothing_leave_nothing_while_nobody_can_be_asked() {
    let cells = Arc::new(CellMap::default());
    let node = Node::new(&cells, 10);
    cells.is_down.store(true, Ordering::Relaxed);
    node.is_asked_by(100).await;
    assert_eq!(node.spend(4).await, 4);
    // The first one had offered a row: others may believe that for so long.
    tokio::time::advance(WORD).await;
    assert!(!node.write().await);
    assert_eq!(*node.shared.due.lock(), HashSet::from([tenant()]));
    node.shared.forget(&node.accounts.book);
    assert_eq!(node.shared.heard.lock().len(), 1);
    // What was spent is told all the same.
    cells.is_down.store(false, Ordering::Relaxed);
    tokio::time::advance(PAUSE).await;
    assert!(node.write().await);
    let text = cells.read(&name(&tenant())).await.unwrap().unwrap();
    assert!(Cell::parse(&text).unwrap().has(&node.shared.me), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_period_that_another_server_began_ends_when_it_says() {
    let cells = Arc::new(CellMap::default());
    let [a, b] = [(); 2].map(|()| Node::new(&cells, 10));
    a.spend(1).await;
    assert!(a.write().await);
    tokio::time::advance(Duration::from_secs(50)).await;
    let (hold, _) = b.hold(1).await.unwrap();
    let left = hold.renewed_in();
    assert!(left <= Duration::from_secs(10), "{left:?}");
}

/// Tenants may have no limits, and what drafters learn is shared all the same.
#[tokio::test(start_paused = true)]
async fn without_accounts_it_hardly_wakes() {
    let cells = Arc::new(CellMap::default());
    let node = Node::new(&cells, 10);
    let wakes = AtomicU64::new(0);
    let keeps = node.shared.keep(|| {
        wakes.fetch_add(1, Ordering::Relaxed);
        None
    });
    assert!(timeout(PERIOD, keeps).await.is_err());
    let wakes = wakes.load(Ordering::Relaxed);
    assert!(wakes <= 6, "{wakes}");
}

/// What one of the servers does.
#[derive(Clone, Debug)]
enum Act {
    Begin(usize, u32),
    /// The open question of this number ends, modulo their number, after so many look-ups.
    End(usize, u32),
    Write(usize),
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        5 => (0..3_usize, 1..9_u32).prop_map(|(who, calls)| Act::Begin(who, calls)),
        4 => (any::<usize>(), 0..9_u32).prop_map(|(which, calls)| Act::End(which, calls)),
        2 => (0..3_usize).prop_map(Act::Write),
        1 => (0..3000_u64).prop_map(Act::Wait),
    ];
    proptest::collection::vec(act, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// ACCOUNT-1 for all servers together, within one period and as long as the cells answer: what is spent
    /// and what is set aside is never more than the allowance.
    #[test]
    fn servers_together_never_overdraw(acts in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let cells = Arc::new(CellMap::default());
            let nodes: Vec<_> = (0..3).map(|_| Node::new(&cells, 30)).collect();
            let mut open: Vec<(Hold, u32)> = Vec::new();
            let mut spent = 0;
            for act in acts {
                match act {
                    Act::Begin(who, calls) => open.extend(nodes[who].hold(calls).await.ok()),
                    Act::End(which, calls) if !open.is_empty() => {
                        let (mut hold, granted) = open.swap_remove(which % open.len());
                        let calls = calls.min(granted);
                        hold.unanswered(&cost(calls));
                        spent += calls;
                    }
                    Act::End(..) => {}
                    Act::Write(who) => assert!(nodes[who].write().await),
                    // A whole run is shorter than a period.
                    Act::Wait(ms) => tokio::time::advance(Duration::from_millis(ms / 10)).await,
                }
                let aside: u32 = open.iter().map(|(_, granted)| granted).sum();
                assert!(spent + aside <= 30, "{spent} spent, {aside} set aside");
            }
        });
    }
}
