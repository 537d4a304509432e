//! A speculator that begins with a guess while it looks for a better one.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spechop_agent::{Agent, Policy, Ports, Report, Settings, TraceKind};
use spechop_ports::{Call, Guess, GuessRequest, Guessed, PortError, Speculator};
use spechop_testkit::ScriptedPorts;
use spechop_types::{Chance, CommitKind};

use crate::asking::{millis, question, settings, steady, trajectory};

/// Tells something after 50 ms, and goes on for so long; then it has the scripted guess, too, or fails.
struct Early {
    script: ScriptedPorts,
    /// What it begins with. Empty: the scripted guess.
    first: &'static str,
    goes_on: Duration,
    fails: bool,
}

#[async_trait]
impl Speculator for Early {
    async fn guess(&self, _: &Call, _: GuessRequest) -> Result<Guessed, PortError> {
        unreachable!("the agent takes guesses as they come")
    }

    async fn guess_streaming(
        &self,
        call: &Call,
        request: GuessRequest,
        early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        let mut guessed = self.script.guess(call, request).await?;
        if !self.first.is_empty() {
            guessed.guesses.insert(0, self.first.into());
        }
        for (guess, by) in guessed.guesses.iter_mut().zip(["somebody", "another"]) {
            guess.by = Some(by);
        }
        early(guessed.guesses[0].clone());
        tokio::time::sleep(self.goes_on).await;
        if self.fails {
            let why = "so\n\u{1b}[2Jit is written";
            return Err(PortError::unavailable("the speculator", why));
        }
        Ok(guessed)
    }
}

/// The report, and how many guesses each event told.
async fn ask(early: Early, settings: &Settings) -> (Report, Vec<usize>) {
    let script = early.script.clone();
    let port = Arc::new(script.clone());
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port,
        speculator: Some(Arc::new(early)),
        drafter: None,
        draft_writer: None,
    });
    let mut told = Vec::new();
    let report = agent
        .answer(&question(), settings, &mut |event| match event.kind {
            TraceKind::Guessed { guesses, .. } => told.push(guesses.len()),
            TraceKind::Failed { reason, .. } => {
                // In a line.
                let expected = "the speculator is unavailable: so [2Jit is written";
                assert_eq!(reason, expected);
            }
            _ => {}
        })
        .await
        .unwrap();
    assert_eq!(script.live(), 0, "SPEC-9: calls are left");
    (report, told)
}

fn guesses(most: usize) -> Settings {
    Settings {
        policy: Policy {
            guesses_max: NonZeroUsize::new(most).unwrap(),
            ..Policy::EAGER
        },
        guess_chance: Chance::EVEN,
        ..settings(4)
    }
}

fn early(first: &'static str, goes_on_ms: u64) -> Early {
    Early {
        script: steady(&[true, true]),
        first,
        goes_on: Duration::from_millis(goes_on_ms),
        fails: false,
    }
}

#[tokio::test(start_paused = true)]
async fn what_it_begins_with_is_built_upon_at_once() {
    // As long as the speculator of the same guesses takes 50 ms; what it does beyond costs nothing.
    for (goes_on_ms, fails) in [(0, false), (300, false), (300, true), (3_600_000, false)] {
        let speculator = Early {
            fails,
            ..early("", goes_on_ms)
        };
        let (report, told) = ask(speculator, &guesses(1)).await;
        assert_eq!(millis(&report), 1250, "{goes_on_ms} {fails}");
        assert_eq!(told, [1, 1]);
        assert_eq!(report.usage.speculations.started, 2);
        assert_eq!(report.usage.speculations.wasted, 0, "{goes_on_ms} {fails}");
        for hop in &report.hops {
            assert_eq!(hop.hop.kind, CommitKind::Accepted);
            assert_eq!(hop.times.speculation, Some(Duration::from_millis(50)));
            assert_eq!(hop.guess_by, Some("somebody"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_better_guess_becomes_a_sibling() {
    let (report, told) = ask(early("fiction", 300), &guesses(2)).await;
    // The right guess is there after 450 ms, its look-up ends after 1,550, and that is all.
    assert_eq!(millis(&report), 1550);
    assert_eq!(&told[..3], [1, 1, 2], "of both hops, and then of the first");
    assert!(report.hops.iter().all(|hop| hop.right_guess == Some(2)));
    // What was built upon held, and the best guess, which is somebody else's, did not.
    for hop in &report.hops {
        assert_eq!(hop.guess_held, Some(false));
        assert_eq!(hop.best_by, Some("somebody"));
        assert_eq!(hop.guess_by, Some("another"));
    }
    assert!(
        report
            .hops
            .iter()
            .all(|hop| hop.hop.kind == CommitKind::Accepted)
    );
    let right = trajectory(&report);

    // Without room for a second guess, the first one decides.
    let (report, _) = ask(early("fiction", 300), &guesses(1)).await;
    assert_eq!(millis(&report), 100 + 1000 + 100 + 1000 + 100);
    assert!(report.hops.iter().all(|hop| hop.right_guess == Some(2)));
    assert!(
        report
            .hops
            .iter()
            .all(|hop| hop.hop.kind == CommitKind::Rejected)
    );
    assert_eq!(trajectory(&report), right);
}
