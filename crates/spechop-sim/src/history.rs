//! The last questions as they went live, and what they would have taken under other rules.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spechop_types::{Observation, canonical};
use spechop_window::Width;

use crate::trace::are_before;
use crate::{Hop, Rules, Simulator, Trace};

/// A question that was answered: its times and what came of its guesses, none of its words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// Its committed hops, in their order.
    pub hops: Vec<PastHop>,
    /// The last segment, which wrote the answer, in milliseconds.
    pub final_ms: f64,
}

/// A committed hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastHop {
    /// Writing the sub-question, in milliseconds.
    pub segment_ms: f64,
    /// The look-up and its reading, from its launch, in milliseconds.
    pub target_ms: f64,
    /// What came of its guess.
    pub guess: PastGuess,
    /// Whether its sub-question was drafted word for word, or something else was, whether or not that was
    /// looked up. `None`: nothing was.
    #[serde(default)]
    pub draft_held: Option<bool>,
    /// The earlier hops, counted from 1, whose answers the sub-question is made of. `None` where
    /// that is not known: nothing is salvaged then.
    pub depends_on: Option<Arc<[u32]>>,
}

/// What came of a hop's guess.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PastGuess {
    /// None was asked for, as at k = 1, or none that says anything of the speculator: it had no turn, or its look-up
    /// had begun before it. Or it was known before it was compared, and never was.
    Untried,
    /// The observation was there first. How long the guess would have taken is not known.
    Late,
    /// The speculator had no idea, and took so long to say so.
    NoIdea {
        /// In milliseconds.
        ms: f64,
    },
    /// There was one, and it was compared.
    Compared {
        /// In milliseconds.
        ms: f64,
        /// Whether it was right.
        accepted: bool,
        /// How likely it said it was to be right, from 0 to 1, where it did.
        confidence: Option<f64>,
    },
}

/// The last questions, in a ring. Cheap to clone: clones share the questions.
#[derive(Clone, Debug)]
pub struct History {
    questions: VecDeque<Arc<Past>>,
    most: usize,
}

/// A history that the simulator can play.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The questions, oldest first.
    pub traces: Vec<Trace>,
    /// Share of their hops whose guess had to be made up from those of other hops: 1 where
    /// nothing is known of guesses, and then no hop has one.
    pub made_up: f64,
}

/// What questions would have taken on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIf {
    /// The window.
    pub width: Width,
    /// Latency as a share of that of the same questions at k = 1.
    pub rel_lat: f64,
    /// Latency of a question, in milliseconds.
    pub latency_ms: f64,
    /// Segments begun for a question, the final one included.
    pub segments: f64,
    /// Target calls begun for a question.
    pub targets: f64,
    /// Guesses begun for a question.
    pub speculations: f64,
    /// Look-ups of a question that were taken over from aborted branches.
    pub salvaged: f64,
    /// Look-ups of a question that were drafted and then asked for.
    pub foreseen: f64,
}

impl Default for History {
    /// 200 questions.
    fn default() -> Self {
        Self::new(200)
    }
}

impl History {
    /// Keeps the last `most` questions (at least one).
    pub fn new(most: usize) -> Self {
        Self {
            questions: VecDeque::new(),
            most: most.max(1),
        }
    }

    /// Takes in a question. One with a time that is not finite or negative, with a confidence that is
    /// no share, or that depends on hops it does not have, is passed over: it would spoil every answer.
    pub fn push(&mut self, question: Past) {
        if !question.is_sensible() {
            return;
        }
        if self.questions.len() == self.most {
            self.questions.pop_front();
        }
        self.questions.push_back(Arc::new(question));
    }

    /// Forgets all but the last `most` questions.
    pub fn keep_last(&mut self, most: usize) {
        let further = self.questions.len().saturating_sub(most);
        self.questions.drain(..further);
    }

    /// From now on it is not known what came of the guesses, except of the last `judged` ones that were right or
    /// wrong, and of what is among them. A guess that had no idea was wrong.
    pub fn forget_guesses_before(&mut self, judged: usize) {
        let mut left = judged;
        let questions = self.questions.iter_mut().rev().map(Arc::make_mut);
        for hop in questions.flat_map(|past| past.hops.iter_mut().rev()) {
            match hop.guess {
                _ if left == 0 => hop.guess = PastGuess::Untried,
                PastGuess::Compared { .. } | PastGuess::NoIdea { .. } => left -= 1,
                PastGuess::Untried | PastGuess::Late => {}
            }
        }
    }

    /// How many questions are kept by now.
    pub fn len(&self) -> usize {
        self.questions.len()
    }

    /// True before the first question.
    pub fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// The questions that are kept, oldest first.
    pub fn questions(&self) -> impl DoubleEndedIterator<Item = &Past> {
        self.questions.iter().map(Arc::as_ref)
    }

    /// The questions as traces. A hop whose guess is not known gets the one of another hop: the known
    /// ones take turns, oldest first, so that the share of right ones and their times stay what
    /// they are, and the same history always gives the same traces.
    pub fn recorded(&self) -> Recorded {
        let hops = || self.questions().flat_map(|past| &past.hops);
        let known: Vec<PastGuess> = hops().filter_map(PastHop::known_guess).collect();
        let mut turns = known.iter().copied().cycle();
        let mut made_up = 0_usize;
        let traces = self
            .questions()
            .enumerate()
            .map(|(at, past)| Trace {
                id: at.to_string(),
                final_ms: past.final_ms,
                hops: past
                    .hops
                    .iter()
                    .map(|hop| {
                        let guess = hop.known_guess().unwrap_or_else(|| {
                            made_up += 1;
                            turns.next().unwrap_or(PastGuess::Late)
                        });
                        hop.with(guess)
                    })
                    .collect(),
            })
            .collect();
        let hops = hops().count();
        Recorded {
            traces,
            made_up: if hops == 0 {
                1.0
            } else {
                made_up as f64 / hops as f64
            },
        }
    }
}

impl Past {
    fn is_sensible(&self) -> bool {
        let time = |ms: f64| ms.is_finite() && ms >= 0.0;
        let guess = |guess: PastGuess| match guess {
            PastGuess::NoIdea { ms } => time(ms),
            PastGuess::Compared { ms, confidence, .. } => {
                time(ms) && confidence.is_none_or(|share| (0.0..=1.0).contains(&share))
            }
            PastGuess::Untried | PastGuess::Late => true,
        };
        let mut hops = self.hops.iter().enumerate();
        time(self.final_ms)
            && hops.all(|(at, hop)| {
                time(hop.segment_ms)
                    && time(hop.target_ms)
                    && guess(hop.guess)
                    && hop.depends_on.iter().all(|hops| are_before(at, hops))
            })
    }
}

impl PastHop {
    /// Whether it is known what came of its guess, if only that it came too late.
    pub fn knows_guess(&self) -> bool {
        self.known_guess().is_some()
    }

    fn known_guess(&self) -> Option<PastGuess> {
        (self.guess != PastGuess::Untried).then_some(self.guess)
    }

    fn with(&self, guess: PastGuess) -> Hop {
        let (speculation_ms, guessed, accepted, confidence) = match guess {
            PastGuess::Compared {
                ms,
                accepted,
                confidence,
            } => (ms, true, accepted, confidence),
            PastGuess::NoIdea { ms } => (ms, false, false, None),
            // Never there before the observation, whatever is simulated.
            PastGuess::Late | PastGuess::Untried => (self.target_ms, false, false, None),
        };
        Hop {
            segment_ms: self.segment_ms,
            target_ms: self.target_ms,
            speculation_ms,
            accepted,
            confidence,
            guessed,
            right_guess: None,
            draft_held: self.draft_held,
            depends_on: self.depends_on.clone(),
        }
    }
}

/// Which earlier hops, counted from 1, a sub-question is made of: those whose answers it mentions, in whatever
/// letters. And the last one if that found nothing, for then it is asked instead.
pub fn mentioned(sub_question: &str, answers: &[&str]) -> Arc<[u32]> {
    let asked = format!(" {} ", canonical(sub_question));
    let mentions = |answer: &str| match canonical(answer) {
        words if words.is_empty() => false,
        // As it stands, or "Sweden's".
        words => ["", "s"]
            .iter()
            .any(|end| asked.contains(&format!(" {words}{end} "))),
    };
    let is_instead = |number: u32, answer: &str| {
        number as usize == answers.len() && answer == Observation::NOTHING
    };
    (1..)
        .zip(answers)
        .filter(|(number, answer)| is_instead(*number, answer) || mentions(answer))
        .map(|(number, _)| number)
        .collect()
}

/// Plays the traces by each of the rules, through the window that runs live.
pub fn what_if(traces: &[Trace], rules: impl IntoIterator<Item = Rules>) -> Vec<WhatIf> {
    what_if_while(traces, rules, || true).unwrap_or_default()
}

/// [`what_if`], as long as somebody wants to know: that is asked before every trace that is played.
/// `None` once nobody does.
pub fn what_if_while(
    traces: &[Trace],
    rules: impl IntoIterator<Item = Rules>,
    wanted: impl Fn() -> bool,
) -> Option<Vec<WhatIf>> {
    if traces.is_empty() {
        return Some(Vec::new());
    }
    let mut simulator = Simulator::new();
    let mut play = |rules: Rules| {
        let n = traces.len() as f64;
        let mut mean = WhatIf {
            width: rules.width,
            rel_lat: 1.0,
            latency_ms: 0.0,
            segments: 0.0,
            targets: 0.0,
            speculations: 0.0,
            salvaged: 0.0,
            foreseen: 0.0,
        };
        for trace in traces {
            if !wanted() {
                return None;
            }
            let outcome = simulator.run(trace, rules);
            mean.latency_ms += outcome.latency_ms / n;
            mean.segments += outcome.calls.segments as f64 / n;
            mean.targets += outcome.calls.targets as f64 / n;
            mean.speculations += outcome.calls.speculations as f64 / n;
            mean.salvaged += outcome.salvaged as f64 / n;
            mean.foreseen += outcome.foreseen as f64 / n;
        }
        Some(mean)
    };
    let standard = play(Rules::paper(Width::STANDARD))?.latency_ms;
    let means = rules.into_iter().map(|rules| {
        let mut mean = play(rules)?;
        if standard > 0.0 {
            mean.rel_lat = mean.latency_ms / standard;
        }
        Some(mean)
    });
    means.collect()
}
