//! What was asked next, as often as it was seen: a tree of sub-questions.

use serde::{Deserialize, Serialize};

use crate::form::{Form, Slot, Words};
use crate::{HOPS_MAX, InvalidForm};

/// A place in a trajectory: what followed it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// How often nothing more was asked.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) ended: u32,
    /// How often something was asked that is too rare to be kept.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) other: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asks: Vec<Ask>,
}

/// A sub-question that followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    pub(crate) form: Form,
    pub(crate) times: u32,
    /// What followed if it found something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<Box<Step>>,
    /// What followed if it found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<Box<Step>>,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

impl Step {
    /// How often a trajectory came here.
    pub(crate) fn times(&self) -> u64 {
        let asks: u64 = self.asks.iter().map(|ask| u64::from(ask.times)).sum();
        asks + u64::from(self.ended) + u64::from(self.other)
    }

    /// Counts one more trajectory that came here, and what followed in it: behind its last hop an end, if it
    /// has `ended`, else nothing that is known.
    ///
    /// `room` is how many sub-questions may be told apart at one place; others are counted together.
    pub(crate) fn note(&mut self, hops: &[(Form, bool)], ended: bool, room: usize) {
        let Some(((form, found), later)) = hops.split_first() else {
            self.ended = self.ended.saturating_add(u32::from(ended));
            return;
        };
        let Some(ask) = self.ask(form, room) else {
            self.other = self.other.saturating_add(1);
            return;
        };
        ask.times = ask.times.saturating_add(1);
        let next = if *found {
            &mut ask.found
        } else {
            &mut ask.lost
        };
        next.get_or_insert_default().note(later, ended, room);
    }

    /// Counts what was counted elsewhere at the same place. `room` is as in [`Step::note`].
    pub(crate) fn merge(&mut self, other: &Self, room: usize) {
        self.ended = self.ended.saturating_add(other.ended);
        self.other = self.other.saturating_add(other.other);
        for theirs in &other.asks {
            let Some(ask) = self.ask(&theirs.form, room) else {
                self.other = self.other.saturating_add(theirs.times);
                continue;
            };
            ask.times = ask.times.saturating_add(theirs.times);
            let both = [
                (&mut ask.found, &theirs.found),
                (&mut ask.lost, &theirs.lost),
            ];
            for (mine, theirs) in both {
                if let Some(theirs) = theirs {
                    mine.get_or_insert_default().merge(theirs, room);
                }
            }
        }
    }

    /// Counts a sub-question that came next, without what followed it.
    pub(crate) fn note_ask(&mut self, form: &Form) {
        if let Some(ask) = self.ask(form, usize::MAX) {
            ask.times = ask.times.saturating_add(1);
        }
    }

    /// The sub-question of this form, a new one if there is room.
    fn ask(&mut self, form: &Form, room: usize) -> Option<&mut Ask> {
        let at = self.asks.iter().position(|ask| ask.form == *form);
        if at.is_none() && self.asks.len() < room {
            self.asks.push(Ask {
                form: form.clone(),
                times: 0,
                found: None,
                lost: None,
            });
            return self.asks.last_mut();
        }
        self.asks.get_mut(at?)
    }

    /// How many sub-questions it holds, here and later.
    pub(crate) fn size(&self) -> usize {
        let later = |ask: &Ask| {
            let next = [&ask.found, &ask.lost].into_iter().flatten();
            1 + next.map(|step| step.size()).sum::<usize>()
        };
        self.asks.iter().map(later).sum()
    }

    /// The place that these hops lead to, oldest first.
    pub(crate) fn at(&self, hops: &[Asked<'_>], words: Words<'_>) -> Option<&Self> {
        let Some((hop, later)) = hops.split_first() else {
            return Some(self);
        };
        let mut asks = self.asks.iter();
        let ask = asks.find(|ask| ask.form.says(hop.text, words))?;
        let next = if hop.found { &ask.found } else { &ask.lost };
        next.as_deref()?.at(later, words)
    }

    /// Counts what is rarer than a share among the others, and what follows it not at all. Drops ends that
    /// follow a find.
    pub(crate) fn prune(&mut self, share: f64) {
        let least = share * self.times() as f64;
        let other = &mut self.other;
        self.asks.retain(|ask| {
            let stays = f64::from(ask.times) >= least;
            if !stays {
                *other = other.saturating_add(ask.times);
            }
            stays
        });
        self.asks
            .sort_by(|a, b| b.times.cmp(&a.times).then_with(|| a.form.cmp(&b.form)));
        for ask in &mut self.asks {
            for next in [&mut ask.found, &mut ask.lost].into_iter().flatten() {
                next.prune(share);
            }
            // An end after a find drafts nothing, and neither does a place that is not there.
            if ask.found.as_ref().is_some_and(|next| next.asks.is_empty()) {
                ask.found = None;
            }
        }
    }

    /// Whether all slots are filled at each place, if the question has so many names: the name of the
    /// first that is not.
    pub(crate) fn checked(&self, names: usize, hops: usize) -> Result<(), InvalidForm> {
        let unfilled = |slot: &Slot| match slot {
            Slot::Name(at) => usize::from(*at) >= names,
            Slot::Answer(at) => usize::from(*at) >= hops,
            Slot::Again(_) => true,
        };
        for ask in &self.asks {
            if let Some(slot) = ask.form.slots().find(unfilled) {
                return Err(InvalidForm::Slot(slot.to_string()));
            }
            if hops >= HOPS_MAX {
                return Err(InvalidForm::TooDeep);
            }
            for next in [&ask.found, &ask.lost].into_iter().flatten() {
                next.checked(names, hops + 1)?;
            }
        }
        Ok(())
    }
}

/// A hop that is known when a draft is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) text: &'a str,
    pub(crate) found: bool,
}
