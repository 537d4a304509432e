//! A drawn question, as the simulator's trace and as a script for the agent's ports.

use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{Agent, Ports, Report, Settings, StageLimits, TraceEvent};
use spechop_sim::{Hop, Moment, Outcome, Rules, Simulator, Trace};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Chance, Question};
use spechop_verifier::Mode;

/// A hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    /// Segment, target, speculation.
    pub(crate) times_ms: [u64; 3],
    /// Which of three guesses is right, from 1; 0 where none is. [`NO_GUESS`]: there is none at all.
    pub(crate) right: u8,
    /// Which earlier hops it depends on, as bits.
    pub(crate) needs: u8,
    /// How sure the best guess is said to be.
    pub(crate) confidence: Option<f32>,
    /// Whether what it asks is foreseen, or something else.
    pub(crate) draft_held: Option<bool>,
}

pub(crate) const NO_GUESS: u8 = 4;
/// Time of the segment that writes the answer.
const FINAL_MS: u64 = 52;

impl Drawn {
    fn depends_on(self, at: usize) -> Vec<usize> {
        (0..at).filter(|hop| self.needs >> hop & 1 == 1).collect()
    }
}

pub(crate) fn simulate(hops: &[Drawn], rules: Rules) -> (Outcome, Vec<Moment>) {
    Simulator::new().told(&trace(hops), rules)
}

/// Answers it for real, over scripted ports, and says what happened. `None` where it could not.
pub(crate) async fn live(hops: &[Drawn], rules: Rules) -> Option<(Report, Vec<TraceEvent>)> {
    let script = Script {
        draft_chance: Some(rules.draft_chance),
        ..script(hops)
    };
    let port = Arc::new(ScriptedPorts::new(script));
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port.clone(),
        speculator: Some(port.clone()),
        drafter: Some(port.clone()),
        draft_writer: None,
    });
    let settings = Settings {
        width: rules.width,
        policy: rules.policy,
        guess_chance: rules.guess_chance,
        orphan_time: Duration::from_secs_f64(rules.orphan_ms / 1000.0),
        hops_max: u32::MAX,
        verifier: Mode::Exact,
        // The simulator knows none.
        limits: StageLimits::NONE,
        ..Settings::default()
    };
    let question = Question::new("Who is the mother of the director?").ok()?;
    let mut told = Vec::new();
    let tell = &mut |event| told.push(event);
    let report = agent.answer(&question, &settings, tell).await.ok();
    assert_eq!(port.live(), 0, "nothing outlives the answer");
    Some((report?, told))
}

fn script(hops: &[Drawn]) -> Script {
    let mut script = Script::steady(&vec![true; hops.len()], 0, 0, 0);
    for (at, (scripted, hop)) in script.hops.iter_mut().zip(hops).enumerate() {
        let times = hop.times_ms.map(Duration::from_millis);
        [scripted.segment, scripted.target, scripted.speculation] = times;
        scripted.draft_held = hop.draft_held;
        scripted.depends_on = Some(hop.depends_on(at));
        scripted.confidence = hop.confidence.map(|share| Chance::of(f64::from(share)));
        let guess = |rank| match rank == hop.right {
            true => format!("fact {at}"),
            false => format!("fiction {at}.{rank}"),
        };
        scripted.guesses = match hop.right {
            NO_GUESS => Vec::new(),
            _ => (1..=3).map(guess).collect(),
        };
    }
    script.final_segment = Duration::from_millis(FINAL_MS);
    script
}

fn trace(hops: &[Drawn]) -> Trace {
    let hop = |(at, hop): (usize, &Drawn)| {
        let [segment_ms, target_ms, speculation_ms] = hop.times_ms.map(|ms| ms as f64);
        let from_1 = |hop: usize| hop as u32 + 1;
        Hop {
            segment_ms,
            target_ms,
            speculation_ms,
            accepted: hop.right == 1,
            guessed: hop.right != NO_GUESS,
            confidence: hop.confidence.map(f64::from),
            right_guess: (2..=3).find(|rank| *rank == u32::from(hop.right)),
            draft_held: hop.draft_held,
            depends_on: Some(hop.depends_on(at).into_iter().map(from_1).collect()),
        }
    };
    Trace {
        id: "drawn".into(),
        hops: hops.iter().enumerate().map(hop).collect(),
        final_ms: FINAL_MS as f64,
    }
}
