//! A call that has lost its turn, and is in line for another one.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use spechop_types::Tokens;

use super::{Call, Progress, Shared};

/// A call is in line for another turn for as long as this lives.
#[derive(Debug)]
#[must_use = "it is in line until this is dropped"]
pub struct BackInLine {
    call: Call,
}

impl Call {
    /// It has lost its turn and is in line for another one. What it has spent so far was in vain; of a part
    /// that is not known, since it spends together with the others.
    pub fn lost_turn(&self) -> BackInLine {
        if self.shared.whole.is_none() {
            self.meter().lose();
        }
        self.shared.back_in_line.fetch_add(1, Relaxed);
        BackInLine { call: self.clone() }
    }

    /// Whether it has lost a turn, and all that there is of it now stands in line: itself, or its parts.
    pub fn is_back_in_line(&self) -> bool {
        self.shared.is_back_in_line()
    }

    /// What [`Call::spent`] has of the turns that it lost.
    pub fn lost(&self) -> Tokens {
        self.meter().lost()
    }
}

impl Shared {
    fn is_back_in_line(&self) -> bool {
        if self.back_in_line.load(Relaxed) > 0 {
            return true;
        }
        let parts = self.parts();
        let is_in_line =
            |part: &Arc<Self>| part.is_back_in_line() || part.progress() == Progress::Queued;
        parts.iter().any(|part| part.is_back_in_line()) && parts.iter().all(is_in_line)
    }
}

impl Drop for BackInLine {
    fn drop(&mut self) {
        self.call.shared.back_in_line.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metered;

    fn tokens(prompt: u64, completion: u64) -> Tokens {
        Tokens { prompt, completion }
    }

    #[test]
    fn what_a_lost_turn_took_is_told_apart() {
        let call = Call::authoritative();
        let spend = |prompt, completion| Metered::new(&call).tell(tokens(prompt, completion));
        spend(10, 2);
        assert_eq!(call.lost(), tokens(0, 0));
        let again = call.lost_turn();
        assert!(call.is_back_in_line());
        drop(again);
        assert!(!call.is_back_in_line());
        spend(10, 5);
        assert_eq!((call.spent(), call.lost()), (tokens(20, 7), tokens(10, 2)));
        drop(call.lost_turn());
        assert_eq!(call.lost(), call.spent());
    }

    /// Of a part that computes nobody knows what it has taken.
    #[test]
    fn a_whole_is_back_in_line_if_no_part_of_it_has_a_turn() {
        let whole = Call::authoritative();
        let (first, second) = (whole.sub_call(), whole.sub_call());
        second.advance(Progress::Begun);
        Metered::new(&second).tell(tokens(10, 2));
        let one = first.lost_turn();
        assert!(first.is_back_in_line() && !whole.is_back_in_line());
        let other = second.lost_turn();
        assert!(whole.is_back_in_line());
        let third = whole.sub_call();
        assert!(!whole.is_back_in_line(), "it may compute elsewhere");
        third.advance(Progress::Queued);
        assert!(whole.is_back_in_line());
        drop((one, third));
        assert!(!whole.is_back_in_line(), "the first one computes");
        drop(first);
        assert!(whole.is_back_in_line(), "it has ended");
        drop(other);
        assert!(!whole.is_back_in_line());
        assert_eq!(whole.lost(), tokens(0, 0));
    }
}
