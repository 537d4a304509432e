//! Where a call waits or runs.

use spechop_types::Refusal;

use super::{Call, Progress};

/// Whoever gives calls their turns. A call tells the one it waits or runs at what becomes of it.
pub trait Seat: Send + Sync {
    /// The answer needs the call now. Told once at most.
    fn promoted(&self);

    /// The thing behind the port asked for less (429, 503, a challenge page), whether or not it is
    /// asked again.
    fn pushed_back(&self);

    /// What a call that waits here and may be wasted has no turn for.
    fn lacks(&self) -> Refusal {
        Refusal::NoPlace
    }

    /// How far a call that sits here has come, as far as that is not noted on the call itself
    /// ([`Call::advance`]).
    fn progress(&self) -> Progress {
        Progress::New
    }
}

/// Where those sit who [share](Call::share) a run.
impl Seat for Call {
    fn promoted(&self) {
        self.promote();
    }

    fn pushed_back(&self) {
        self.push_back();
    }

    fn lacks(&self) -> Refusal {
        // The call's own, which asks whoever it sits at.
        Self::lacks(self)
    }

    fn progress(&self) -> Progress {
        // Those who share a run are as far as it is.
        Self::progress(self)
    }
}
