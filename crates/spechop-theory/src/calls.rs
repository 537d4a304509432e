//! What speculative tool calls can gain: equations 1 to 6 and lemma 1 of arXiv 2512.15834.
//!
//! There a speculator writes the next *call* while the main model writes it, as a drafter here writes the
//! next sub-question. So it hides the shorter of two phases, and never makes a request twice as fast.

use std::fmt;

/// The mean times of a request that ends in a tool call, in seconds, and how often the speculator's
/// call is the model's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calls {
    generation: f64,
    guess: f64,
    tool: f64,
    acceptance: f64,
}

/// What makes no sense of [`Calls`], [`Turn`] or [`Engine`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InvalidCalls {
    /// A time must be finite and greater than 0.
    Time {
        /// Which one.
        name: &'static str,
        /// What it was.
        value: f64,
    },
    /// The acceptance must be a share.
    Acceptance(f64),
    /// A time or a number of tokens must be finite and not negative.
    Amount {
        /// Which one.
        name: &'static str,
        /// What it was.
        value: f64,
    },
    /// There must be a turn.
    NoTurns,
}

impl Calls {
    /// Checks the domains: G (`generation`), g (`guess`) and T (`tool`) in seconds, finite and > 0, α
    /// (`acceptance`) in \[0, 1\].
    ///
    /// # Errors
    ///
    /// [`InvalidCalls`]: the first that is outside.
    pub fn new(
        generation: f64,
        guess: f64,
        tool: f64,
        acceptance: f64,
    ) -> Result<Self, InvalidCalls> {
        for (name, value) in [("generation", generation), ("guess", guess), ("tool", tool)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(InvalidCalls::Time { name, value });
            }
        }
        if !(0.0..=1.0).contains(&acceptance) {
            return Err(InvalidCalls::Acceptance(acceptance));
        }
        Ok(Self {
            generation,
            guess,
            tool,
            acceptance,
        })
    }

    /// T_standard of one request, in seconds: G + T (equation 1 with N = 1).
    pub fn standard(self) -> f64 {
        self.generation + self.tool
    }

    /// T_spec of one request, in seconds: α max{G, g + T} + (1 − α)(G + T) (equation 1 with N = 1). A
    /// call that was wrong is taken to cost nothing.
    pub fn speculative(self) -> f64 {
        self.acceptance * self.hidden() + (1.0 - self.acceptance) * self.standard()
    }

    /// S_spec = T_standard / T_spec (equations 2 and 3); it is above 1 if α > 0 and g < G.
    pub fn speed_up(self) -> f64 {
        self.standard() / self.speculative()
    }

    /// S_spec at α = 1 (lemma 1, part 2): (G + T) / max{G, g + T}.
    pub fn speed_up_max(self) -> f64 {
        self.standard() / self.hidden()
    }

    /// What no acceptance exceeds (lemma 1, part 3): 2 − 2g / (G + g + T), always below 2.
    pub fn speed_up_bound(self) -> f64 {
        2.0 - 2.0 * self.guess / (self.generation + self.guess + self.tool)
    }

    /// The time of a request whose call was guessed.
    fn hidden(self) -> f64 {
        self.generation.max(self.guess + self.tool)
    }
}

/// One turn of an agent: what is written, what is called and what comes back. Tokens, and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// R: tokens of reasoning before the call.
    pub reasoning: f64,
    /// t: tokens of the call.
    pub call: f64,
    /// t_o: tokens of the tool's output.
    pub output: f64,
    /// T: seconds of the tool.
    pub tool: f64,
}

/// An inference engine that serves the turns of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    overhead: f64,
    prefill: f64,
    decode: f64,
    prompt: f64,
    turns: Vec<Turn>,
}

impl Engine {
    /// `overhead` is o, the seconds of a request until it is in a batch; `prefill` and `decode` are φ and δ,
    /// seconds a token; `prompt` is X₁, the tokens of the first prompt.
    ///
    /// # Errors
    ///
    /// [`InvalidCalls`]: an amount that is negative or not finite, or no turn.
    pub fn new(
        overhead: f64,
        prefill: f64,
        decode: f64,
        prompt: f64,
        turns: Vec<Turn>,
    ) -> Result<Self, InvalidCalls> {
        let own = [
            ("overhead", overhead),
            ("prefill", prefill),
            ("decode", decode),
            ("prompt", prompt),
        ];
        let of_turns = turns.iter().flat_map(|turn| {
            [
                ("reasoning", turn.reasoning),
                ("call", turn.call),
                ("output", turn.output),
                ("tool", turn.tool),
            ]
        });
        for (name, value) in own.into_iter().chain(of_turns) {
            if !(value.is_finite() && value >= 0.0) {
                return Err(InvalidCalls::Amount { name, value });
            }
        }
        if turns.is_empty() {
            return Err(InvalidCalls::NoTurns);
        }
        Ok(Self {
            overhead,
            prefill,
            decode,
            prompt,
            turns,
        })
    }

    /// T_vanilla in seconds (equation 4): every turn is a request of its own and reads its whole prompt.
    pub fn vanilla(&self) -> f64 {
        let mut prompt = self.prompt;
        let mut read = 0.0;
        for turn in &self.turns {
            read += prompt;
            prompt += turn.call + turn.output;
        }
        self.requests() + self.prefill * read + self.decode * self.written() + self.tools()
    }

    /// T_cached in seconds (equation 5): a prompt's beginning is not read again. As in the paper, the output
    /// of the last tool is read, which equation 4 leaves out.
    pub fn cached(&self) -> f64 {
        self.requests() + self.reading() + self.decode * self.written() + self.tools()
    }

    /// T*_spec in seconds (equation 6): a share `acceptance` of the calls is checked in one pass, and
    /// their outputs are there in time.
    ///
    /// # Errors
    ///
    /// [`InvalidCalls::Acceptance`]: no share.
    pub fn speculative(&self, acceptance: f64) -> Result<f64, InvalidCalls> {
        if !(0.0..=1.0).contains(&acceptance) {
            return Err(InvalidCalls::Acceptance(acceptance));
        }
        let missed = 1.0 - acceptance;
        let reasoning: f64 = self.turns.iter().map(|turn| turn.reasoning).sum();
        let calls: f64 = self.turns.iter().map(|turn| turn.call).sum();
        let steps = acceptance * self.turns.len() as f64 + reasoning + missed * calls;
        Ok(missed * self.requests() + self.reading() + self.decode * steps + missed * self.tools())
    }

    /// 2Ko: each turn enters a batch twice.
    fn requests(&self) -> f64 {
        2.0 * self.turns.len() as f64 * self.overhead
    }

    fn reading(&self) -> f64 {
        let grown = self.turns.iter().map(|turn| turn.call + turn.output);
        self.prefill * (self.prompt + grown.sum::<f64>())
    }

    fn written(&self) -> f64 {
        self.turns
            .iter()
            .map(|turn| turn.reasoning + turn.call)
            .sum()
    }

    fn tools(&self) -> f64 {
        self.turns.iter().map(|turn| turn.tool).sum()
    }
}

impl fmt::Display for InvalidCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { name, value } => {
                write!(f, "{name} = {value} must be finite and greater than 0")
            }
            Self::Acceptance(x) => {
                write!(
                    f,
                    "acceptance = {x} is no share: it must lie between 0 and 1"
                )
            }
            Self::Amount { name, value } => {
                write!(f, "{name} = {value} must be finite and not negative")
            }
            Self::NoTurns => f.write_str("there must be at least one turn"),
        }
    }
}

impl std::error::Error for InvalidCalls {}
