//! Why a k was chosen, in words for operators.

use std::fmt;

/// Why a k was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The widest window that is allowed is 1.
    Off,
    /// Too few guesses seen: the default k.
    WarmUp {
        /// Seen so far.
        guesses: u32,
        /// Needed for a choice.
        needed: u32,
    },
    /// Speculation pays.
    Pays {
        /// Share of the latency that is saved, after the price of the calls.
        gain: f64,
        /// Why the window is not wider.
        bound: Bound,
    },
    /// Speculation pays, and the last questions were played by every setting: this one is the best.
    Played {
        /// As in [`Reason::Pays`].
        gain: f64,
        /// Whether planning goes ahead without a guess.
        plan_ahead: bool,
        /// How likely a branch must be to be needed, from 0 to 1, if its guess comes at once.
        least: f64,
    },
    /// Guesses alone do not open the window now, for whatever reason, but drafts of sub-questions pay: the
    /// narrowest window that makes them.
    Drafts {
        /// As in [`Reason::Pays`], of the last questions.
        gain: f64,
    },
    /// It seems not to pay, without certainty: the narrowest window that guesses.
    InDoubt {
        /// As in [`Reason::Pays`], expected.
        gain: f64,
        /// The same with p at its upper 95 % bound.
        gain_high: f64,
    },
    /// It does not pay, almost certainly: off.
    DoesNotPay {
        /// What the best window would save with p at its upper 95 % bound.
        gain_high: f64,
        /// That bound.
        p_high: f64,
        /// Every so many-th question is a probe.
        probe_every: u32,
    },
    /// Questions have made about as many target calls as they may, or more, and with fewer nothing is saved:
    /// off until they have made fewer.
    Spent,
    /// There is no room for it now: off until there is.
    Busy {
        /// Share of the last seconds in which what is needed took everything.
        load: f64,
    },
    /// Off, but for this question, to see whether it would pay by now.
    Probe {
        /// Every so many-th question is a probe.
        every: u32,
    },
}

/// Why a window is not wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Wider ones would save too little more.
    Gain,
    /// The risk-adjusted bound: it hardly ever waits as it is.
    Risk,
    /// The widest that is allowed.
    Max,
    /// The questions have no more hops.
    Hops,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| 100.0 * share;
        match self {
            Self::Off => {
                f.write_str("speculation is switched off: no window wider than 1 is allowed")
            }
            Self::WarmUp { guesses, needed } => {
                write!(
                    f,
                    "the default, with {guesses} of {needed} guesses seen yet"
                )
            }
            Self::Pays { gain, bound } => {
                write!(f, "speculation saves {:.0} %; {bound}", percent(*gain))
            }
            Self::Played {
                gain,
                plan_ahead,
                least,
            } => {
                write!(
                    f,
                    "this would have saved {:.0} % of the last questions' time: ",
                    percent(*gain)
                )?;
                if *least > 0.0 {
                    let least = percent(*least);
                    write!(
                        f,
                        "a guess is built upon if its branch is needed in {least:.0} % of cases"
                    )?;
                } else {
                    f.write_str("every guess is built upon")?;
                }
                f.write_str(match plan_ahead {
                    true => ", else its answer is left open",
                    false => ", and nothing is planned without one",
                })
            }
            Self::Drafts { gain } => write!(
                f,
                "the narrowest window, for drafted look-ups: with them it would have saved {:.0} % of the last questions' time",
                percent(*gain)
            ),
            Self::InDoubt { gain, gain_high } => write!(
                f,
                "speculation seems to save {:.1} %, at most {:.1} %: the narrowest window until that is certain",
                percent(*gain),
                percent(*gain_high)
            ),
            Self::DoesNotPay {
                gain_high,
                p_high,
                probe_every,
            } => write!(
                f,
                "speculation is off: with at most {:.1} % of guesses right it would save at most {:.1} %; \
                 one question in {probe_every} probes",
                percent(*p_high),
                percent(*gain_high)
            ),
            Self::Spent => f.write_str(
                "speculation is off for now: questions have made about as many look-ups as they may, or more (tuning.calls_max)",
            ),
            Self::Busy { load } => write!(
                f,
                "speculation is off for now: in {:.0} % of the last seconds, needed calls left no room for it",
                percent(*load)
            ),
            Self::Probe { every } => write!(
                f,
                "speculation is off, and one question in {every}, this one, probes whether it would pay"
            ),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gain => "wider windows would save too little more",
            Self::Risk => "a window of this width hardly ever waits",
            Self::Max => "no wider window is allowed",
            Self::Hops => "questions have no more hops to work ahead on",
        })
    }
}
