//! How stories are told: what happens, and what the window then asks for.
//!
//! Events about branches: `w0 Q` branch 0 wrote sub-question Q, `a0 X` wrote the answer X, `f0 seg` its
//! segment failed, `v1 +` / `v1 -` what branch 1 stands on is right / wrong. Events about look-ups:
//! `o0 X` look-up 0 observed X, `o0 -` observed nothing relevant, `g0 X|Y` guessed X, or else Y, surely
//! unless it says how likely they are (`g0 X 40%|Y 5%`), and worth building upon whatever that is, unless it
//! says from what chance on they are (`g0 X 40%>25%`), `g0 none` that nothing will be found, `g0 -` had no
//! idea, `h0 X` guessed X and goes on, `f0 tgt` failed, `x0` is expired. And `d0 P|Q`: for branch 0, which still
//! writes, P and Q were drafted. And `finish`. Effects print the same way.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of several tests"
)]

use spechop_types::{BranchId, Chance, Draft, LookupId, Observation, Step, SubQuestion};
use spechop_window::{Effect, Event, Limits, Policy, WeighedGuess, Width, Window};

pub(crate) fn width(k: usize) -> Width {
    k.try_into().map_or(Width::UNBOUNDED, Width::bounded)
}

/// The paper's algorithm.
pub(crate) fn limits(k: usize) -> Limits {
    Limits {
        width: width(k),
        hops_max: 5,
        not_found_max: 1,
        policy: Policy::PAPER,
    }
}

pub(crate) fn with(k: usize, policy: Policy) -> Limits {
    Limits {
        policy,
        ..limits(k)
    }
}

/// Look-ups of aborted branches are kept.
pub(crate) const SALVAGE: Policy = Policy {
    orphans_max: 2,
    ..Policy::EAGER
};

/// Up to two guesses of a hop are built upon.
pub(crate) fn two_guesses(k: usize) -> Limits {
    let policy = Policy {
        guesses_max: 2.try_into().unwrap(),
        ..SALVAGE
    };
    with(k, policy)
}

/// What a branch takes for known: sub-questions and their answers.
pub(crate) fn known(window: &Window, branch: u32) -> Vec<(String, String)> {
    let text =
        |(q, a): (&SubQuestion, &std::sync::Arc<str>)| (q.as_str().to_owned(), a.to_string());
    window.trajectory(BranchId(branch)).map(text).collect()
}

fn guess(text: &str) -> WeighedGuess {
    let percent = |text: &str| {
        let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
        Some(Chance::of(percent / 100.0))
    };
    let said = text.rsplit_once(' ').and_then(|(text, chance)| {
        let (chance, least) = chance.split_once('>').unwrap_or((chance, "0%"));
        Some((text, percent(chance)?, percent(least)?))
    });
    let (text, chance, least) = said.unwrap_or((text, Chance::CERTAIN, Chance::NONE));
    let text = if text == "none" {
        Observation::NOTHING
    } else {
        text
    };
    WeighedGuess {
        text: text.into(),
        chance,
        least,
    }
}

fn draft(text: &str) -> Draft {
    let WeighedGuess { text, chance, .. } = guess(text);
    Draft {
        sub_question: SubQuestion::new(&text),
        chance,
    }
}

fn event(text: &str) -> Event {
    let (head, rest) = text.split_once(' ').unwrap_or((text, ""));
    if head == "finish" {
        return Event::FinishNow;
    }
    let id = head[1..].parse().unwrap();
    let (branch, lookup) = (BranchId(id), LookupId(id));
    match (&head[..1], rest) {
        ("w", _) => Event::Wrote {
            branch,
            step: Step::Ask(SubQuestion::new(rest)),
        },
        ("a", _) => Event::Wrote {
            branch,
            step: Step::Answer(rest.into()),
        },
        ("o", _) => Event::Observed {
            lookup,
            observation: Observation {
                answer: rest.into(),
                found: rest != "-",
                confidence: None,
                evidence: [].into(),
            }
            .into(),
        },
        ("g" | "h", _) => Event::Guessed {
            lookup,
            guesses: rest.split('|').filter(|g| *g != "-").map(guess).collect(),
            more: head.starts_with('h'),
        },
        ("v", _) => Event::Verified {
            branch,
            accepted: rest == "+",
        },
        ("f", "seg") => Event::WriteFailed { branch },
        ("f", "tgt") => Event::CallFailed { lookup },
        ("x", _) => Event::Expired { lookup },
        ("d", _) => Event::Drafted {
            branch,
            drafts: rest.split('|').map(draft).collect(),
        },
        (other, _) => panic!("no such event: {other}"),
    }
}

fn print(effects: &[Effect]) -> String {
    let one = |effect: &Effect| match effect {
        Effect::Write {
            branch,
            must_answer: false,
        } => format!("write {}", branch.0),
        Effect::Write {
            branch,
            must_answer: true,
        } => format!("answer-now {}", branch.0),
        Effect::Call { lookup } => format!("call {}", lookup.0),
        Effect::Guess { lookup } => format!("guess {}", lookup.0),
        Effect::DropGuess { lookup } => format!("drop-guess {}", lookup.0),
        Effect::Verify { branch } => format!("verify {}", branch.0),
        Effect::Commit { branch, .. } => format!("commit {}", branch.0),
        Effect::Promote { branch } => format!("promote {}", branch.0),
        Effect::Abort { branch } => format!("abort {}", branch.0),
        Effect::Orphan { lookup } => format!("orphan {}", lookup.0),
        Effect::Salvage { branch, lookup } => format!("salvage {} from {}", branch.0, lookup.0),
        Effect::Draft { branch } => format!("draft {}", branch.0),
        Effect::Confirm { branch, lookup } => format!("confirm {} from {}", branch.0, lookup.0),
        Effect::Drop { lookup } => format!("drop {}", lookup.0),
        Effect::Answer { branch, answer } => format!("answer {} {answer}", branch.0),
        Effect::Fail { branch, stage } => format!("fail {} {stage}", branch.0),
    };
    effects.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Plays `story` (events parted by `;`) and compares what its *last* event leads to.
#[track_caller]
pub(crate) fn check(limits: Limits, story: &str, expected: &str) -> Window {
    let (mut window, mut effects) = Window::open(limits);
    assert_eq!(
        print(&effects),
        match limits {
            Limits { hops_max: 0, .. } => "answer-now 0",
            Limits { policy, width, .. } if policy.drafts_max > 0 && width != Width::STANDARD => {
                "write 0; draft 0"
            }
            _ => "write 0",
        }
    );
    for text in story.split(';').map(str::trim).filter(|t| !t.is_empty()) {
        effects = window.apply(event(text));
    }
    assert_eq!(print(&effects), expected, "after: {story}");
    window
}
