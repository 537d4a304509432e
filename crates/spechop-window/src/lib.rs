//! The speculation window: which branches may run ahead, and which hops are final.
//!
//! This is the core of SpecHop. Read this page first, then [`Window::apply`], then the stories in
//! `tests/table.rs`.
//!
//! # The loop
//!
//! The window decides and a driver acts. The driver is `spechop-agent`, with models and a clock, or
//! `spechop-sim`, with recorded times.
//!
//! ```text
//!            ┌───────────── Event: this happened ──────────────┐
//!            ▼                                                 │
//!   Window::apply ── Effects: do this, in this order ──▶ driver: launch, compare, stop, wait
//! ```
//!
//! A right guess, with k = 2. On the left is the event (`w0`: branch 0 wrote, `g0`: look-up 0 was
//! guessed, `o0`: observed, `v1`: the guess of branch 1 was verified), then the effects:
//!
//! ```text
//!   (open)                      write 0              the planner writes the first sub-question
//!   w0 Who directed it?         call 0, guess 0      its look-up and its guess start
//!   g0 Ann Ash                  write 1              branch 1 stands on the guess "Ann Ash"
//!   w1 Where was Ann Ash born?  call 1, guess 1      its look-up starts; the first one still runs
//!   o0 Ann Ash                  verify 1             is the guess what the look-up found?
//!   v1 accepted                 commit 0, promote 1  hop 0 is final, branch 1 is the head
//! ```
//!
//! If the verifier rejects the guess, the last line is `abort 1, drop 1, commit 0, write 2`: branch 1
//! and its look-up go, and a new branch starts from what was found.
//!
//! # The state
//!
//! * A *branch* is one speculative thread of the paper: one hop that is being planned or looked up.
//!   The branches of a question are a tree. If each hop has one guess, the tree is a chain.
//! * The *head* is the root of the tree. Every hop before it is committed.
//! * Every other branch stands on what it takes its parent's answer to be. That is a guess, or an
//!   observation that arrived before its guess, or an answer that is left open.
//! * What each hop is worth is *weighed* when its guess comes: whether a branch is built on the
//!   guess, or on an answer that is left open, or not yet (`weigh.rs`).
//! * A *look-up* is kept apart from the branch that asks it. So if the branch is aborted, another
//!   branch that asks the same can take the look-up over. And a look-up can be *drafted*: launched
//!   while its planner is still writing, and taken over if the planner writes just these words.
//!
//! [`laws`] names what always holds of this state.
//!
//! # Why it is so
//!
//! There is no I/O, no clock, no task and no randomness in this crate. So a test can replay any
//! interleaving of events, every law is checked after every event, and the simulator measures the
//! algorithm that runs live.
//!
//! # What it costs
//!
//! * Everything has two names, an event and an effect, and each new one must be handled by both
//!   drivers.
//! * An effect carries identifiers, not texts. The driver asks the window for the text, e.g. by
//!   [`Window::trajectory`], and must expect that the branch is gone by then.
//! * News about a branch or a look-up that is gone is ignored. So a driver that sends an event with
//!   the wrong identifier is not told.
//!
//! Source: SpecHop (arXiv 2605.21965), algorithm 2, which is [`Policy::PAPER`]. Line 13 is read as
//! "does *not* contain a final answer".

mod branch;
mod draft;
mod event;
mod extend;
pub mod laws;
mod limits;
mod lookup;
mod reuse;
mod settle;
mod weigh;
mod width;
mod window;

pub use event::{Effect, Effects, Event, Stop, WeighedGuess};
pub use extend::OPEN_ANSWER;
pub use limits::{Limits, Policy};
pub use weigh::{Hidden, ReliabilityCurve, Weighing};
pub use width::Width;
pub use window::Window;
