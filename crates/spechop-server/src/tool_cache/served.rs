//! Which look-ups of open questions were served what a client has left.

use parking_lot::Mutex;
use spechop_ports::{Call, Life, WeakLife};

/// The look-ups, each with its question. Those of questions that nobody works for any more are forgotten when an
/// output next serves a look-up.
#[derive(Default)]
pub(super) struct Served(Mutex<Vec<(WeakLife, Box<str>)>>);

impl Served {
    /// An output serves this look-up of the call's question.
    pub(super) fn note(&self, call: &Call, query: &str) {
        let Some(life) = call.life() else {
            return;
        };
        let mut served = self.0.lock();
        served.retain(|(life, _)| !life.is_over());
        served.push((life.downgrade(), query.into()));
    }

    /// Whether one has served a look-up of this question in these words, whatever the white space: a branch may
    /// have taken over the look-up of another one.
    pub(super) fn has(&self, life: &Life, query: &str) -> bool {
        let (life, words) = (life.downgrade(), query.split_whitespace());
        let served = self.0.lock();
        let mut of_question = served.iter().filter(|(of, _)| *of == life);
        of_question.any(|(_, query)| query.split_whitespace().eq(words.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_question_is_told_from_others_and_forgotten_when_it_is_over() {
        let served = Served::default();
        let [one, other] = [(), ()].map(|()| Life::of(Arc::new(())));
        let call = Call::authoritative().within(one.clone());
        served.note(&call, " who  wrote it ");
        assert!(served.has(&one, "who wrote it"));
        assert!(!served.has(&one, "who read it") && !served.has(&other, "who wrote it"));
        drop((one, call));
        served.note(&Call::authoritative().within(other), "who read it");
        assert_eq!(served.0.lock().len(), 1);
        // A call of no question, which nobody will ask about.
        served.note(&Call::authoritative(), "who read it");
        assert_eq!(served.0.lock().len(), 1);
    }
}
