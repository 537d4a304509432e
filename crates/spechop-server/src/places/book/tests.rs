//! The book against a slow twin, and its laws under random comings and goings.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What can happen. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    /// A question of a tenant arrives.
    Arrive(usize),
    /// A question that has a place ends.
    End(usize),
    /// A question in line gives up.
    GiveUp(usize),
    Resize(Room),
}

const TENANTS: [&str; 4] = ["a", "b", "c", "d"];

fn tenant(at: usize) -> Tenant {
    Tenant::new(TENANTS[at]).unwrap()
}

fn room() -> impl Strategy<Value = Room> {
    (0..5_usize, 1..4_usize, 0..6_usize).prop_map(|(most, of_one, line_max)| Room {
        most,
        of_one,
        line_max,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..TENANTS.len()).prop_map(Step::Arrive),
        4 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::GiveUp),
        1 => room().prop_map(Step::Resize),
    ];
    vec(step, 1..120)
}

/// The same rule over a plain list.
struct Twin {
    room: Room,
    /// Tenant and number of the questions that have places.
    open: Vec<(usize, u32)>,
    /// The same of those in line, in order of arrival.
    line: Vec<(usize, u32)>,
    /// When a tenant joined the line or was given a place last, whatever was later.
    turns: BTreeMap<usize, usize>,
    now: usize,
}

impl Twin {
    fn has(&self, tenant: usize) -> usize {
        self.open.iter().filter(|(of, _)| *of == tenant).count()
    }

    fn waits(&self, tenant: usize) -> usize {
        self.line.iter().filter(|(of, _)| *of == tenant).count()
    }

    fn may(&self, tenant: usize) -> bool {
        self.open.len() < self.room.most && self.has(tenant) < self.room.of_one
    }

    /// Who was pushed out, if somebody was; `None` if nobody may wait.
    fn line_up(&mut self, tenant: usize, number: u32) -> Option<Option<u32>> {
        let mut out = None;
        if self.line.len() >= self.room.line_max {
            let most = (0..TENANTS.len()).map(|of| self.waits(of)).max()?;
            if self.room.line_max == 0 || most < self.waits(tenant) + 2 {
                return None;
            }
            let at = self
                .line
                .iter()
                .rposition(|(of, _)| self.waits(*of) == most);
            out = Some(self.line.remove(at?).1);
        }
        if self.waits(tenant) == 0 {
            self.turns.insert(tenant, self.now);
        }
        self.line.push((tenant, number));
        Some(out)
    }

    fn give(&mut self) -> Vec<u32> {
        let mut given = Vec::new();
        loop {
            let mut may = (0..TENANTS.len())
                .filter(|of| self.waits(*of) > 0 && self.may(*of))
                .collect::<Vec<_>>();
            may.sort_by_key(|of| (self.has(*of), self.turns[of]));
            let Some(next) = may.first().copied() else {
                return given;
            };
            let at = self.line.iter().position(|(of, _)| *of == next).unwrap();
            let question = self.line.remove(at);
            self.open.push(question);
            self.now += 1;
            self.turns.insert(next, self.now);
            given.push(question.1);
        }
    }
}

proptest! {
    /// Every step ends as it does over a plain list: who has a place, who waits, who is pushed out and who
    /// is next. `Book::check` asserts its laws meanwhile.
    #[test]
    fn the_book_does_as_the_list_does(first in room(), steps in steps()) {
        let mut book = Book::new(first);
        let mut twin = Twin {
            room: first,
            open: Vec::new(),
            line: Vec::new(),
            turns: BTreeMap::new(),
            now: 0,
        };
        let mut tickets = BTreeMap::new();
        for (number, step) in (0..).zip(steps) {
            twin.now += 1;
            let given = match step {
                Step::Arrive(of) => {
                    let took = book.take(&tenant(of));
                    prop_assert_eq!(took.is_ok(), twin.may(of));
                    if took.is_ok() {
                        twin.open.push((of, number));
                    } else {
                        let lined_up = book.line_up(&tenant(of), number);
                        let pushed_out = lined_up.as_ref().map(|lined_up| lined_up.pushed_out);
                        prop_assert_eq!(pushed_out, twin.line_up(of, number));
                        if let Some(LinedUp { ticket, .. }) = lined_up {
                            tickets.insert(number, ticket);
                        }
                    }
                    Vec::new()
                }
                Step::End(at) if !twin.open.is_empty() => {
                    let (of, _) = twin.open.remove(at % twin.open.len());
                    book.free(&tenant(of))
                }
                Step::GiveUp(at) if !twin.line.is_empty() => {
                    let (of, number) = twin.line.remove(at % twin.line.len());
                    prop_assert!(book.leave(&tenant(of), tickets[&number]));
                    prop_assert!(!book.leave(&tenant(of), tickets[&number]));
                    Vec::new()
                }
                Step::Resize(room) => {
                    twin.room = room;
                    book.resize(room)
                }
                Step::End(_) | Step::GiveUp(_) => Vec::new(),
            };
            let given: Vec<_> = given.into_iter().map(|(_, number)| number).collect();
            prop_assert_eq!(given, twin.give());
            prop_assert_eq!((book.taken(), book.waiting()), (twin.open.len(), twin.line.len()));
        }
    }

    /// A tenant in line is overtaken once at most by each tenant that has no fewer places. So nobody
    /// starves for whom places become free.
    #[test]
    fn nobody_overtakes_twice(first in room(), steps in steps()) {
        let mut book = Book::new(first);
        let (mut open, mut line) = (Vec::new(), Vec::new());
        // Of each tenant in line, those that have overtaken it since it came or was given a place.
        let mut overtaken = BTreeSet::new();
        for step in steps {
            let given = match step {
                Step::Arrive(of) => {
                    if book.take(&tenant(of)).is_ok() {
                        open.push(of);
                    } else if let Some(lined_up) = book.line_up(&tenant(of), of) {
                        if let Some(out) = lined_up.pushed_out {
                            let at = line.iter().rposition(|(of, _)| *of == out).unwrap();
                            line.remove(at);
                        }
                        line.push((of, lined_up.ticket));
                    }
                    Vec::new()
                }
                Step::End(at) if !open.is_empty() => {
                    let of = open.remove(at % open.len());
                    book.free(&tenant(of))
                }
                Step::GiveUp(at) if !line.is_empty() => {
                    let (of, ticket) = line.remove(at % line.len());
                    prop_assert!(book.leave(&tenant(of), ticket));
                    Vec::new()
                }
                // It may give several places away, whose order is compared above.
                Step::Resize(_) | Step::End(_) | Step::GiveUp(_) => Vec::new(),
            };
            prop_assert!(given.len() <= 1, "one place was free");
            for (_, of) in given {
                let at = line.iter().position(|(other, _)| *other == of).unwrap();
                line.remove(at);
                open.push(of);
                overtaken.retain(|(who, _)| *who != of);
                let had = book.has(&tenant(of)) - 1;
                for who in (0..TENANTS.len()).filter(|who| *who != of) {
                    let has = book.has(&tenant(who));
                    let waits = line.iter().any(|(other, _)| *other == who);
                    if waits && has < book.room().of_one && had >= has {
                        prop_assert!(overtaken.insert((who, of)), "{of} overtakes {who} again");
                    }
                }
            }
            overtaken.retain(|(who, _)| line.iter().any(|(other, _)| other == who));
        }
    }
}

/// A tenant with one question beside one with a hundred gets the next place but one at the latest.
#[test]
fn one_question_does_not_wait_behind_a_hundred() {
    for ahead in [1, 2] {
        let mut book = Book::new(Room {
            most: ahead,
            of_one: ahead,
            line_max: 200,
        });
        let [many, one] = ["many", "one"].map(|name| Tenant::new(name).unwrap());
        for _ in 0..ahead {
            book.take(&many).unwrap();
        }
        for _ in 0..100 {
            assert!(book.line_up(&many, "many").is_some());
        }
        assert!(book.line_up(&one, "one").is_some());
        let mut next = || {
            let given = book.free(&many);
            given.into_iter().map(|(_, waiter)| waiter).next()
        };
        let places: Vec<_> = (0..2).filter_map(|_| next()).collect();
        assert!(places.contains(&"one"), "{places:?}");
    }
}

/// Otherwise a server whose tenants have taken all places between them would never tell that it is full.
#[test]
fn a_full_house_is_told_to_a_tenant_at_its_limit_too() {
    let mut book = Book::<u32>::new(Room {
        most: 4,
        of_one: 2,
        line_max: 0,
    });
    let [a, b] = ["a", "b"].map(|name| Tenant::new(name).unwrap());
    for tenant in [&a, &a, &b] {
        book.take(tenant).unwrap();
    }
    assert_eq!(book.take(&a), Err(NoPlace::TenantFull(2)));
    book.take(&b).unwrap();
    for tenant in [&a, &b] {
        assert_eq!(book.take(tenant), Err(NoPlace::Full(4)));
    }
}

/// At its own limit a tenant waits for one of its own places, and holds nobody up.
#[test]
fn a_tenant_at_its_limit_holds_nobody_up() {
    let mut book = Book::new(Room {
        most: 3,
        of_one: 1,
        line_max: 9,
    });
    let [greedy, other] = ["greedy", "other"].map(|name| Tenant::new(name).unwrap());
    book.take(&greedy).unwrap();
    assert_eq!(book.take(&greedy), Err(NoPlace::TenantFull(1)));
    assert!(book.line_up(&greedy, 1).is_some());
    book.take(&other).unwrap();
    assert!(book.free(&other).is_empty(), "greedy may have no more");
    assert_eq!(book.free(&greedy), [(greedy.clone(), 1)]);
    assert_eq!((book.taken(), book.waiting()), (1, 0));
}
