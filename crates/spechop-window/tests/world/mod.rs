//! A window driven through a world with an arbitrary choice of which call ends next.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of several tests"
)]

mod nature;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use spechop_types::{BranchId, Chance, LookupId, SubQuestion};
use spechop_window::{Effect, Effects, Event, Limits, Policy, Weighing, Width, Window, laws};

pub(crate) use nature::{Known, Outcome, World, oracle};

/// A call that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Segment(BranchId),
    Target(LookupId),
    Speculation(LookupId),
    /// Not a call, but the time that an orphan has left.
    Expiry(LookupId),
}

/// How a running call was launched.
#[derive(Clone, Copy, Debug)]
struct Launch {
    must_answer: bool,
    authoritative: bool,
    /// How many guesses it has told, at least.
    told: usize,
}

/// How often things happened: a test that never sees a salvage proves nothing about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: u64,
    pub(crate) rolled_back: u64,
    pub(crate) salvaged: u64,
    pub(crate) expired: u64,
    pub(crate) left_open: u64,
    pub(crate) second_guesses: u64,
    pub(crate) told_early: u64,
    /// Guesses that waited for room.
    pub(crate) asked_late: u64,
    pub(crate) gated: u64,
    pub(crate) let_through: u64,
    pub(crate) failures: u64,
    pub(crate) drafts_right: u64,
    pub(crate) drafts_wrong: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        let Self {
            events,
            rolled_back,
            salvaged,
            expired,
            left_open,
            second_guesses,
            told_early,
            asked_late,
            gated,
            let_through,
            failures,
            drafts_right,
            drafts_wrong,
        } = other;
        self.events += events;
        self.rolled_back += rolled_back;
        self.salvaged += salvaged;
        self.expired += expired;
        self.left_open += left_open;
        self.second_guesses += second_guesses;
        self.told_early += told_early;
        self.asked_late += asked_late;
        self.gated += gated;
        self.let_through += let_through;
        self.failures += failures;
        self.drafts_right += drafts_right;
        self.drafts_wrong += drafts_wrong;
    }
}

/// A window under way.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) world: World,
    pub(crate) limits: Limits,
    pub(crate) seen: Seen,
    window: Window,
    running: BTreeMap<Work, Launch>,
    /// Look-ups that nobody has asked yet.
    drafts: BTreeSet<LookupId>,
    commits: usize,
    pub(crate) outcome: Option<Outcome>,
}

impl Schedule {
    pub(crate) fn new(world: World, limits: Limits) -> Self {
        let (window, effects) = Window::open(limits);
        let mut schedule = Self {
            world,
            limits,
            seen: Seen::default(),
            window,
            running: BTreeMap::new(),
            drafts: BTreeSet::new(),
            commits: 0,
            outcome: None,
        };
        schedule.carry_out(effects);
        schedule
    }

    /// Ends the call that `choice` picks. Nothing happens once the question has ended.
    pub(crate) fn step(&mut self, choice: impl FnOnce(usize) -> usize) {
        if self.outcome.is_some() {
            return;
        }
        assert!(!self.running.is_empty(), "SPEC-9: nothing is running");
        let at = choice(self.running.len());
        let (&work, &launch) = self.running.iter().nth(at).unwrap();
        self.running.remove(&work);
        let event = self.event(work, launch);
        self.apply(event);
    }

    pub(crate) fn finish_now(&mut self) {
        if self.outcome.is_none() {
            self.apply(Event::FinishNow);
        }
    }

    fn apply(&mut self, event: Event) {
        self.seen.events += 1;
        let has_guesses = matches!(&event, Event::Guessed { guesses, .. } if !guesses.is_empty());
        let has_room = self.limits.width.has_room(self.window.alive().count());
        let effects = self.window.apply(event);
        self.seen.gated += u64::from(has_guesses && has_room && effects.is_empty());
        self.carry_out(effects);
        assert_eq!(laws::broken(&self.window), None);
    }

    fn event(&mut self, work: Work, launch: Launch) -> Event {
        let asked = |id| self.window.asked(id).unwrap().as_str();
        let attempt = self.seen.events;
        let fails = !launch.authoritative
            && self.world.draw(&("failure", work_id(work), attempt)) % 8 < self.world.failing;
        self.seen.failures += u64::from(fails);
        match work {
            Work::Segment(branch) if fails => Event::WriteFailed { branch },
            Work::Target(lookup) if fails => Event::CallFailed { lookup },
            Work::Segment(branch) => {
                let known = self.known(branch);
                let open = known
                    .iter()
                    .any(|(_, answer)| answer.starts_with("the answer of"));
                self.seen.left_open += u64::from(open);
                let step = self.world.step(&known, launch.must_answer);
                Event::Wrote { branch, step }
            }
            Work::Target(lookup) => Event::Observed {
                lookup,
                observation: self.world.observation(asked(lookup)).into(),
            },
            Work::Speculation(lookup) => {
                let mut guesses = self.world.guesses(asked(lookup));
                // Half of the time what it has is told, and it goes on.
                let more = self
                    .world
                    .draw(&("more", work_id(work), attempt))
                    .is_multiple_of(2);
                if more {
                    guesses.truncate(launch.told + 1);
                    self.seen.told_early += u64::from(!guesses.is_empty());
                    let told = launch.told + 1;
                    self.running.insert(work, Launch { told, ..launch });
                }
                Event::Guessed {
                    lookup,
                    guesses,
                    more,
                }
            }
            Work::Expiry(lookup) => Event::Expired { lookup },
        }
    }

    fn known(&self, branch: BranchId) -> Known {
        let hop = |(asked, answer): (&SubQuestion, &Arc<str>)| {
            (asked.as_str().into(), answer.to_string())
        };
        self.window.trajectory(branch).map(hop).collect()
    }

    fn start(&mut self, work: Work, must_answer: bool, authoritative: bool) {
        let launch = Launch {
            must_answer,
            authoritative,
            told: 0,
        };
        assert!(
            self.running.insert(work, launch).is_none(),
            "launched twice: {work:?}"
        );
    }

    fn carry_out(&mut self, effects: Effects) {
        let mut pending = VecDeque::from_iter(effects);
        while let Some(effect) = pending.pop_front() {
            match effect {
                Effect::Write {
                    branch,
                    must_answer,
                } => {
                    let head = self.window.depth(branch) == Some(0);
                    self.start(Work::Segment(branch), must_answer, head);
                }
                Effect::Call { lookup } => {
                    let asker = self.window.asker(lookup);
                    if asker.is_none() {
                        assert!(self.window.drafted_for(lookup).is_some());
                        self.drafts.insert(lookup);
                    }
                    let head = asker.is_some_and(|asker| self.window.depth(asker) == Some(0));
                    self.start(Work::Target(lookup), false, head);
                }
                Effect::Draft { branch } => {
                    assert!(self.limits.width != Width::STANDARD);
                    let drafts = self.world.drafts(&self.known(branch));
                    pending.extend(self.window.apply(Event::Drafted { branch, drafts }));
                }
                Effect::Confirm { lookup, .. } => {
                    assert!(self.drafts.remove(&lookup), "it was drafted");
                    self.seen.drafts_right += 1;
                }
                Effect::Guess { lookup } => {
                    assert!(self.limits.width != Width::STANDARD);
                    self.start(Work::Speculation(lookup), false, false);
                }
                Effect::DropGuess { lookup } => {
                    assert!(self.running.remove(&Work::Speculation(lookup)).is_some());
                }
                Effect::Verify { branch } => {
                    let (guess, observation) = self.window.comparison(branch).unwrap();
                    let accepted = *guess == observation.answer;
                    assert!(pending.is_empty(), "the verdict comes before anything else");
                    let verified = Event::Verified { branch, accepted };
                    let held = self.window.chance(branch);
                    let effects = self.window.apply(verified);
                    // What is built now was too unlikely while the guess could still be wrong.
                    let was_gated = |effect: &&Effect| match effect {
                        Effect::Write { branch, .. } => {
                            let before = self.window.chance(*branch).and(held);
                            before < self.limits.policy.chance_min
                                && self.window.depth(*branch) > Some(0)
                        }
                        _ => false,
                    };
                    let is_guess = |effect: &&Effect| matches!(effect, Effect::Guess { .. });
                    let asked_late = effects.iter().filter(is_guess).count();
                    self.seen.asked_late += asked_late as u64;
                    let let_through = effects.iter().filter(was_gated).count();
                    self.seen.let_through += let_through as u64;
                    pending.extend(effects);
                }
                Effect::Commit { branch, lookup, at } => {
                    assert_eq!(at, self.commits, "SPEC-4: hops are committed in order");
                    self.commits += 1;
                    let own = [
                        Work::Segment(branch),
                        Work::Target(lookup),
                        Work::Speculation(lookup),
                    ];
                    assert!(
                        own.iter().all(|work| !self.running.contains_key(work)),
                        "committed with work left"
                    );
                    self.running.remove(&Work::Expiry(lookup));
                    let hop = &self.window.committed()[at];
                    self.seen.second_guesses += u64::from(
                        hop.guess.as_ref() == Some(&hop.answer)
                            && self.second(hop.sub_question.as_str()) == Some(&hop.answer).cloned(),
                    );
                }
                Effect::Promote { .. } => {}
                Effect::Abort { branch } => {
                    self.seen.rolled_back += 1;
                    self.running.remove(&Work::Segment(branch));
                }
                Effect::Orphan { lookup } => {
                    assert!(self.running.contains_key(&Work::Target(lookup)));
                    self.running.remove(&Work::Expiry(lookup));
                    self.start(Work::Expiry(lookup), false, true);
                }
                Effect::Salvage { lookup, .. } => {
                    assert!(self.limits.policy.salvages());
                    self.seen.salvaged += 1;
                    self.running.remove(&Work::Expiry(lookup));
                }
                Effect::Drop { lookup } => {
                    let works = [
                        Work::Target(lookup),
                        Work::Speculation(lookup),
                        Work::Expiry(lookup),
                    ];
                    let called = self.running.contains_key(&Work::Target(lookup));
                    let timed = self.running.contains_key(&Work::Expiry(lookup));
                    let drafted = self.drafts.remove(&lookup);
                    self.seen.drafts_wrong += u64::from(drafted);
                    self.seen.expired += u64::from(called && !timed && !drafted);
                    for work in works {
                        self.running.remove(&work);
                    }
                }
                Effect::Answer { answer, .. } => {
                    assert!(self.running.is_empty(), "SPEC-9: work is left");
                    assert!(pending.is_empty());
                    let hop = |hop: &spechop_types::Hop| {
                        (hop.sub_question.as_str().into(), hop.answer.to_string())
                    };
                    self.outcome = Some(Outcome {
                        hops: self.window.committed().iter().map(hop).collect(),
                        answer,
                        stopped: self.window.stopped(),
                    });
                }
                Effect::Fail { .. } => panic!("no authoritative call failed"),
            }
        }
    }

    fn second(&self, asked: &str) -> Option<Arc<str>> {
        let mut guesses = self.world.guessed(asked);
        guesses.dedup();
        guesses.into_iter().nth(1)
    }
}

fn work_id(work: Work) -> (u8, u32) {
    match work {
        Work::Segment(branch) => (0, branch.0),
        Work::Target(lookup) => (1, lookup.0),
        Work::Speculation(lookup) => (2, lookup.0),
        Work::Expiry(lookup) => (3, lookup.0),
    }
}

/// A world and limits from plain numbers: every value is valid, and every kind of window common.
pub(crate) fn draw(numbers: [u64; 11]) -> (World, Limits) {
    let [
        seed,
        right,
        clueless,
        failing,
        missing,
        k,
        hops_max,
        not_found_max,
        orphans_max,
        policy,
        chance_min,
    ] = numbers;
    let world = World {
        seed,
        right: right % 9,
        clueless: clueless % 6,
        failing: failing % 4,
        missing: missing % 3,
    };
    let small = |n: u64, most: u64| usize::try_from(n % most).unwrap();
    let limits = Limits {
        width: NonZeroUsize::new(small(k, 9)).map_or(Width::UNBOUNDED, Width::bounded),
        hops_max: u32::try_from(hops_max % 8).unwrap(),
        not_found_max: u32::try_from(not_found_max % 3).unwrap(),
        policy: Policy {
            orphans_max: small(orphans_max, 5),
            plan_ahead: policy % 2 == 1,
            guesses_max: NonZeroUsize::new(1 + small(policy / 2, 3)).unwrap(),
            // Half of the windows have no gate.
            chance_min: match chance_min % 24 {
                gate @ 0..12 => Chance::of(0.3 + gate as f64 / 20.0),
                _ => Chance::NONE,
            },
            weighing: Weighing::NONE,
            // A quarter of them go in rounds.
            continuous: (policy / 6) % 4 != 0,
            drafts_max: small(policy / 24, 3),
            draft_guesses: (policy / 72) % 2 == 0,
            guess_at_once: (policy / 144) % 2 == 0,
            build_on_observations: (policy / 288) % 2 == 0,
        },
    };
    (world, limits)
}
