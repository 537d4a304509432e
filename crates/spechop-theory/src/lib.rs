//! What speculation can gain, and how wide a window it takes: the closed forms of SpecHop
//! (arXiv 2605.21965), running estimates of what they need, and the k that follows from both. Beside
//! them, those of speculative tool calls (arXiv 2512.15834).
//!
//! Pure arithmetic. Quantities are relative to the mean time of a target call:
//! α = E\[speculation\] / E\[target\], β = E\[segment\] / E\[target\], p = share of guesses accepted,
//! ν = largest coefficient of variation of the stage times. RelLat = latency / latency at k = 1.

mod call_rate;
mod calls;
mod change;
mod closed;
mod curve;
mod estimate;
mod hash;
mod published;
mod reason;
mod tune;

pub use call_rate::CallRate;
pub use calls::{Calls, Engine, InvalidCalls, Turn};
pub use closed::{
    InvalidSetting, Setting, StageTime, k_deterministic, k_epsilon, k_epsilon_closed, p_starve,
};
pub use curve::Point;
pub use estimate::{Estimator, Interval, Stages, wilson};
pub use published::{
    HopCount, PUBLISHED, PUBLISHED_ANSWERS, PUBLISHED_OUTCOMES, PUBLISHED_WEB_MS, Published,
    PublishedAnswers, PublishedOutcome,
};
pub use reason::{Bound, Reason};
pub use tune::{Choice, Learnt, TWO, Tuner, TunerOptions};
