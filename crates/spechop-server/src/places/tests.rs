//! Places behind their lock: who is woken, and that no place is lost.

use std::pin::pin;

use futures::future::join_all;
use futures::poll;
use tokio::task::{JoinSet, yield_now};

use super::*;

fn tenants<const N: usize>(names: [&str; N]) -> [Tenant; N] {
    names.map(|name| Tenant::new(name).unwrap())
}

/// A position in line, where there must be one.
fn waits(places: &Places, tenant: &Tenant) -> Waiting {
    match places.arrive(tenant) {
        Arrival::Waits(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

fn room(most: usize, of_one: usize, line_max: usize) -> Room {
    Room {
        most,
        of_one,
        line_max,
    }
}

#[test]
fn nobody_takes_the_places_of_all() {
    let places = Places::new(room(3, 2, 0));
    let [greedy, other] = tenants(["greedy", "other"]);
    let mut held: Vec<_> = (0..2).map(|_| places.take(&greedy).unwrap()).collect();
    assert_eq!(places.take(&greedy).unwrap_err(), NoPlace::TenantFull(2));
    let last = places.take(&other).unwrap();
    assert_eq!(places.take(&other).unwrap_err(), NoPlace::Full(3));
    assert_eq!(places.taken(), 3);
    held.pop();
    held.push(places.take(&greedy).unwrap());
    drop((held, last));
    assert_eq!(places.taken(), 0);
}

#[tokio::test]
async fn fewer_places_evict_nobody_and_more_count_at_once() {
    let places = Places::new(room(2, 2, 0));
    let tenant = Tenant::default();
    let held: Vec<_> = (0..2).map(|_| places.take(&tenant).unwrap()).collect();
    places.resize(room(1, 1, 0));
    assert_eq!(places.taken(), 2);
    assert_eq!(places.take(&tenant).unwrap_err(), NoPlace::Full(1));
    places.resize(room(3, 3, 0));
    let third = places.take(&tenant).unwrap();
    assert_eq!(places.take(&tenant).unwrap_err(), NoPlace::Full(3));
    let mut all_free = pin!(places.free());
    assert!(poll!(all_free.as_mut()).is_pending());
    drop((held, third));
    all_free.await;
}

#[tokio::test]
async fn a_place_that_becomes_free_wakes_whoever_is_next() {
    let places = Places::new(room(1, 1, 4));
    let [a, b] = tenants(["a", "b"]);
    let held = places.take(&a).unwrap();
    let (mut first, mut second) = (waits(&places, &a), waits(&places, &b));
    assert_eq!(places.waiting(), 2);
    assert!(poll!(pin!(first.place())).is_pending());
    drop(held);
    // Both have no place, and a came before b.
    let place = first.place().await.unwrap();
    assert!(poll!(pin!(second.place())).is_pending());
    assert_eq!((places.taken(), places.waiting()), (1, 1));
    drop(place);
    let place = second.place().await.unwrap();
    drop((first, second, place));
    assert_eq!((places.taken(), places.waiting()), (0, 0));
}

#[tokio::test]
async fn a_place_for_one_who_has_just_given_up_goes_to_the_next() {
    let places = Places::new(room(1, 1, 4));
    let [a, b] = tenants(["a", "b"]);
    let held = places.take(&a).unwrap();
    let (gone, mut next) = (waits(&places, &a), waits(&places, &b));
    drop(held);
    // The place is its own, and it has not looked yet.
    assert_eq!((places.taken(), places.waiting()), (1, 1));
    drop(gone);
    assert!(next.place().await.is_some());
    drop(next);
    assert_eq!((places.taken(), places.waiting()), (0, 0));
}

#[tokio::test]
async fn more_room_lets_those_in_who_wait() {
    let places = Places::new(room(1, 1, 4));
    let [a, b] = tenants(["a", "b"]);
    let _held = places.take(&a).unwrap();
    let (mut of_a, mut of_b) = (waits(&places, &a), waits(&places, &b));
    assert_eq!(of_a.why(), NoPlace::Full(1));
    assert_eq!(of_b.why(), NoPlace::Full(1));
    places.resize(room(3, 1, 0));
    let _of_b = of_b.place().await.unwrap();
    assert!(poll!(pin!(of_a.place())).is_pending(), "it has its own");
    places.resize(room(3, 2, 0));
    assert!(of_a.place().await.is_some());
}

#[tokio::test]
async fn whoever_is_pushed_out_hears_of_it() {
    let places = Places::new(room(1, 1, 2));
    let [many, one] = tenants(["many", "one"]);
    let _held = places.take(&many).unwrap();
    let mut line = [waits(&places, &many), waits(&places, &many)];
    let refused = places.arrive(&many);
    assert!(
        matches!(refused, Arrival::Refused(_, InVain::LineFull(2))),
        "{refused:?}"
    );
    let _newcomer = waits(&places, &one);
    assert!(poll!(pin!(line[0].place())).is_pending());
    assert!(line[1].place().await.is_none());
    assert_eq!(places.waiting(), 2);
}

/// Places become free, and those in line give up, on several threads at once. Each place is with one
/// question at a time, and all of them are free in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_place_is_lost_however_it_comes_and_goes() {
    const QUESTIONS: usize = 2000;
    let places = Places::new(room(3, 2, 16));
    let all = tenants(["a", "b", "c"]);
    let mut asking = JoinSet::new();
    for question in 0..QUESTIONS {
        let (places, tenant) = (places.clone(), all[question % all.len()].clone());
        asking.spawn(async move {
            let mut waiting = match places.arrive(&tenant) {
                Arrival::Waits(waiting) => waiting,
                Arrival::Placed(place) => {
                    yield_now().await;
                    assert!(places.taken() <= 3);
                    drop(place);
                    return 1;
                }
                Arrival::Refused(..) => return 0,
            };
            // Some give up after a few turns of the executor, perhaps with the place already theirs.
            let patience = join_all((0..question % 7).map(|_| yield_now()));
            let place = tokio::select! {
                place = waiting.place() => place,
                _ = patience, if question % 7 < 6 => None,
            };
            assert!(places.taken() <= 3);
            yield_now().await;
            usize::from(place.is_some())
        });
    }
    let placed: usize = asking.join_all().await.into_iter().sum();
    assert!(placed > 0);
    assert_eq!((places.taken(), places.waiting()), (0, 0));
    places.free().await;
}
