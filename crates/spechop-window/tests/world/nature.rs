//! A world whose every answer is a function of its seed and what was asked, and the slow, obvious agent in it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use spechop_types::{Chance, Draft, Observation, Step, SubQuestion};
use spechop_window::{Limits, Stop, WeighedGuess};

/// What is so, and how often things go wrong (out of 8).
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    /// How often the best guess is right.
    pub(crate) right: u64,
    /// How often there is no guess.
    pub(crate) clueless: u64,
    /// How often a call fails that was launched ahead of time.
    pub(crate) failing: u64,
    /// How often a look-up finds nothing.
    pub(crate) missing: u64,
}

pub(crate) type Known = Vec<(String, String)>;

impl World {
    pub(crate) fn draw(&self, what: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, what).hash(&mut hasher);
        hasher.finish()
    }

    pub(crate) fn step(&self, known: &Known, must_answer: bool) -> Step {
        let draw = self.draw(&("step", known));
        if must_answer || draw % 14 < known.len() as u64 {
            return Step::Answer(format!("answer {draw}").into());
        }
        // Few sub-questions, so that some are asked twice and many again, some of them in other words.
        // A third of them depend on the last answer alone, so that rolled-back work is of use.
        let last = match draw / 14 % 3 {
            0 => known
                .last()
                .map_or("nothing", |(_, answer)| answer.as_str()),
            _ => "nothing",
        };
        let open = known
            .iter()
            .any(|(_, answer)| answer.starts_with("the answer of"));
        let draw = self.draw(&("ask", known.len(), last));
        let ask = if draw.is_multiple_of(5) {
            "Question"
        } else {
            "question"
        };
        Step::Ask(SubQuestion::new(&match last {
            "nothing" if open && draw.is_multiple_of(3) => {
                format!("why the answer of sub-question {}", known.len())
            }
            last if last.starts_with("the answer of") => format!("{ask} on {last}"),
            _ => format!("{ask} {}", draw / 5 % 23),
        }))
    }

    pub(crate) fn observation(&self, asked: &str) -> Observation {
        let draw = self.draw(&("observation", asked));
        let found = draw / 8 % 8 >= self.missing;
        Observation::read(
            found.then(|| format!("fact {}", draw % 5).into()),
            Vec::new(),
        )
    }

    /// Up to three: often the next sub-question, sometimes in other words or one that was asked before.
    pub(crate) fn drafts(&self, known: &Known) -> Vec<Draft> {
        let draw = self.draw(&("drafts", known));
        let mut texts: Vec<String> = (0..draw % 3)
            .map(|rank| format!("question {}", self.draw(&("draft", known, rank)) % 23))
            .collect();
        if let (Step::Ask(next), 1..) = (self.step(known, false), draw / 4 % 4) {
            texts.push(next.as_str().into());
        }
        if let (Some((asked, _)), 0) = (known.first(), draw / 16 % 4) {
            texts.insert(0, asked.clone());
        }
        let draft = |text: String| Draft {
            chance: Chance::of(0.2 + (self.draw(&("likely", &text)) % 8) as f64 / 10.0),
            sub_question: SubQuestion::new(&text),
        };
        texts.into_iter().map(draft).collect()
    }

    /// Up to three, some of them the same, as likely as not even a speculator would say.
    pub(crate) fn guesses(&self, asked: &str) -> Vec<WeighedGuess> {
        let chance = |text: &Arc<str>| match self.draw(&("chance", asked, text)) % 8 {
            0 => Chance::NONE,
            1 => Chance::of(0.1),
            // Likely on its own, less so behind another.
            eighths => Chance::of(0.3 + eighths as f64 / 10.0),
        };
        // One guess of three is weighed.
        let least = |text: &Arc<str>| match self.draw(&("least", asked, text)) % 12 {
            twelfths @ 0..4 => Chance::of(0.15 + twelfths as f64 / 5.0),
            _ => Chance::NONE,
        };
        let guess = |text: Arc<str>| WeighedGuess {
            chance: chance(&text),
            least: least(&text),
            text,
        };
        self.guessed(asked).into_iter().map(guess).collect()
    }

    pub(super) fn guessed(&self, asked: &str) -> Vec<Arc<str>> {
        let draw = self.draw(&("guess", asked));
        if draw % 8 < self.clueless {
            return Vec::new();
        }
        let mut guesses: Vec<Arc<str>> = (0..draw / 8 % 3)
            .map(|rank| format!("fact {}", self.draw(&("guess", asked, rank)) % 5).into())
            .collect();
        if draw / 64 % 8 < self.right {
            guesses.insert(0, self.observation(asked).answer);
        }
        guesses
    }
}

/// What a question ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) hops: Known,
    pub(crate) answer: Arc<str>,
    pub(crate) stopped: Option<Stop>,
}

/// The slow, obvious agent: one step after the other.
pub(crate) fn oracle(world: World, limits: Limits) -> Outcome {
    let mut hops = Known::new();
    let mut not_found = 0;
    loop {
        let mut stopped = if hops.len() >= limits.hops_max as usize {
            Some(Stop::HopBudget)
        } else if not_found > limits.not_found_max {
            Some(Stop::NotFound)
        } else {
            None
        };
        let mut step = world.step(&hops, stopped.is_some());
        if let Step::Ask(again) = &step
            && hops
                .iter()
                .any(|(asked, _)| SubQuestion::new(asked) == *again)
        {
            stopped = Some(Stop::Repeated);
            step = world.step(&hops, true);
        }
        match step {
            Step::Answer(answer) => {
                return Outcome {
                    hops,
                    answer,
                    stopped,
                };
            }
            Step::Ask(sub_question) => {
                let observation = world.observation(sub_question.as_str());
                not_found += u32::from(!observation.found);
                hops.push((sub_question.as_str().into(), observation.answer.to_string()));
            }
        }
    }
}
