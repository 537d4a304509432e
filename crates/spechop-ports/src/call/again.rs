//! A call that has lost its turn, and is in line for another one.

use std::sync::atomic::Ordering::Relaxed;

use spechop_types::Tokens;

use crate::Call;

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
        for call in self.with_wholes() {
            call.shared.back_in_line.fetch_add(1, Relaxed);
        }
        BackInLine { call: self.clone() }
    }

    /// Whether it, or a part of it, has lost a turn and is in line for another one.
    pub fn is_back_in_line(&self) -> bool {
        self.shared.back_in_line.load(Relaxed) > 0
    }

    /// What [`Call::spent`] has of the turns that it lost.
    pub fn lost(&self) -> Tokens {
        self.meter().lost()
    }

    /// Itself, and all that it is a part of.
    fn with_wholes(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |call| call.shared.whole.as_ref())
    }
}

impl Drop for BackInLine {
    fn drop(&mut self) {
        for call in self.call.with_wholes() {
            call.shared.back_in_line.fetch_sub(1, Relaxed);
        }
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

    #[test]
    fn a_whole_is_back_in_line_with_any_of_its_parts() {
        let whole = Call::authoritative();
        let (first, second) = (whole.sub_call(), whole.sub_call());
        Metered::new(&second).tell(tokens(10, 2));
        let lost = [first.lost_turn(), second.sub_call().lost_turn()];
        let [one, other] = lost;
        drop(one);
        assert!(!first.is_back_in_line());
        assert!(second.is_back_in_line() && whole.is_back_in_line());
        drop(other);
        assert!(!second.is_back_in_line() && !whole.is_back_in_line());
        assert_eq!(whole.lost(), tokens(0, 0));
    }
}
