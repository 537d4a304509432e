//! What a call has taken so far, told while it runs: all that is known of a call that never ends.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use spechop_types::Tokens;

use crate::Call;

/// The tokens of a call, as far as anybody has told.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    prompt: AtomicU64,
    completion: AtomicU64,
    /// Of these, what turns took that the call lost.
    lost_prompt: AtomicU64,
    lost_completion: AtomicU64,
}

/// What one generation of a call has taken. A call may need several: repairs, attempts, notes.
///
/// An engine makes one when a generation begins, and tells it what it knows as it goes. Dropping it
/// takes nothing back: what was spent is spent.
#[derive(Debug)]
pub struct Metered {
    call: Call,
    told: Tokens,
}

impl Meter {
    pub(crate) fn read(&self) -> Tokens {
        Tokens {
            prompt: self.prompt.load(Relaxed),
            completion: self.completion.load(Relaxed),
        }
    }

    /// What it has taken so far was in vain.
    pub(crate) fn lose(&self) {
        let Tokens { prompt, completion } = self.read();
        self.lost_prompt.store(prompt, Relaxed);
        self.lost_completion.store(completion, Relaxed);
    }

    pub(crate) fn lost(&self) -> Tokens {
        Tokens {
            prompt: self.lost_prompt.load(Relaxed),
            completion: self.lost_completion.load(Relaxed),
        }
    }

    /// Puts `new` in the place of `old`, which is part of the sum. In between the two may be read apart:
    /// a count of what is under way is never exact.
    fn replace(&self, old: Tokens, new: Tokens) {
        for (sum, old, new) in [
            (&self.prompt, old.prompt, new.prompt),
            (&self.completion, old.completion, new.completion),
        ] {
            if old != new {
                sum.fetch_add(new.wrapping_sub(old), Relaxed);
            }
        }
    }
}

impl Metered {
    /// A generation of this call, which has taken nothing yet.
    pub fn new(call: &Call) -> Self {
        Self {
            call: call.clone(),
            told: Tokens::default(),
        }
    }

    /// It has taken so much by now, whatever was told before: a server's own count replaces an
    /// estimate.
    pub fn tell(&mut self, tokens: Tokens) {
        self.call.meter().replace(self.told, tokens);
        self.told = tokens;
    }

    /// It has taken at least so much: work that is done again is the same work.
    pub fn tell_at_least(&mut self, tokens: Tokens) {
        self.tell(self.told.max(tokens));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(prompt: u64, completion: u64) -> Tokens {
        Tokens { prompt, completion }
    }

    #[test]
    fn generations_of_a_call_add_up_and_each_may_correct_itself() {
        let call = Call::authoritative();
        assert_eq!(call.spent(), tokens(0, 0));
        let mut first = Metered::new(&call);
        first.tell(tokens(10, 0));
        first.tell(tokens(8, 3));
        // Clones are the same call, and what has ended stays spent.
        let same = call.clone();
        let mut second = Metered::new(&same);
        drop(first);
        second.tell_at_least(tokens(5, 2));
        second.tell_at_least(tokens(2, 4));
        assert_eq!(call.spent(), tokens(13, 7));
        assert_eq!(Call::authoritative().spent(), tokens(0, 0));
    }
}
