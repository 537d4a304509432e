//! What speculation can gain, and how wide a window it takes: the closed forms of SpecHop
//! (arXiv 2605.21965), and running estimates of what they need.
//!
//! Pure arithmetic. Quantities are relative to the mean time of a target call:
//! α = E\[speculation\] / E\[target\], β = E\[segment\] / E\[target\], p = share of guesses accepted,
//! ν = largest coefficient of variation of the stage times. RelLat = latency / latency at k = 1.

mod closed;
mod estimate;

pub use closed::{InvalidSetting, Setting, k_deterministic, k_epsilon};
pub use estimate::{Estimate, Estimator, Stages};
