//! What the agent needs of the world, as small async traits.
//!
//! Every port keeps four promises, which `contract` (a feature) tests on each implementation:
//!
//! * **Dropping the future cancels the call** and leaves nothing behind. Roll-back relies on it.
//! * **No call blocks the runtime**: whatever computes does so on threads of its own.
//! * **A lane is looked at when it matters**, not only at the start: a call can be promoted while
//!   it waits ([`Call::lane`]).
//! * **The same input gives the same output**, as far as the thing behind the port allows.
//!
//! Retries, time limits, caches and metrics wrap a port; they are no methods of it. What implementations
//! that ask a server have in common is in [`retry`], [`reason`], [`base_url`] and [`named`].
//! [`Sparingly`] keeps the log from saying the same thing again and again.

mod address;
mod call;
mod cells;
mod chaos;
mod clock;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod cores;
mod draft;
mod encode;
mod error;
mod fallback;
mod generate;
mod here;
mod meter;
mod passages;
mod reason;
mod recent;
mod remember;
mod retrieve;
pub mod retry;
mod rewrite;
mod search;
mod shared_calls;
mod sparingly;
mod tool_outputs;
mod urgency;
mod vitals;

pub use address::{base_url, named};
pub use call::{BackInLine, BranchFate, Call, Lane, Life, Progress, Seat, WeakLife, Wishes};
pub use cells::{SharedCells, Swapped};
pub use chaos::{Chaotic, Faults};
pub use clock::Doing;
pub use cores::{affinity, physical_cores};
pub use draft::{DraftRequest, DraftWriter, Drafter, WrittenDraft};
pub use encode::{Encoded, Encoder, TextKind};
pub use error::PortError;
pub use fallback::Fallback;
pub use generate::{
    Guess, GuessRequest, Guessed, KnownHop, PlanRequest, Planned, Planner, Ranked, ReadRequest,
    Reader, Reading, Speculator,
};
pub use here::is_loopback;
pub use meter::Metered;
pub use passages::Passages;
pub use reason::reason;
pub use recent::RecentQueries;
pub use remember::{Record, Remembered, SharedEntries, Version};
pub use retrieve::Retriever;
pub use rewrite::{RewriteRequest, Rewriter, Rewritten, Speaker, Turn};
pub use search::{SearchFailure, SearchProvider, SearchResult, SearchTrouble};
pub use shared_calls::{Panicked, SharedCalls, Waiter};
pub use sparingly::Sparingly;
pub use tool_outputs::ToolOutputs;
pub use urgency::Urgency;
pub use vitals::{BrokenPart, Vitals, panic_text};
