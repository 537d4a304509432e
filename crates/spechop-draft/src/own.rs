//! What a tenant's own questions have taught: patterns as mined ones, bounded, and how often the shipped
//! ones were right for it.

use serde::{Deserialize, Serialize};
use spechop_types::Tenant;

use crate::form::{Form, Slot};
use crate::outline::Outline;
use crate::patterns::{Known, Place, QuestionPattern, in_order};
use crate::step::Step;
use crate::{InvalidForm, PatternError};

/// Most forms of questions of one tenant. The least recently used leaves.
const FORMS_MAX: usize = 256;
/// Most forms that other servers are told of.
const TOLD_MAX: usize = 64;
/// Most sub-questions in the pattern of one form. What is new beyond that is counted, not told apart.
const ASKS_MAX: usize = 64;
/// Most sub-questions that are told apart at one place.
const ASKS_AT_PLACE_MAX: usize = 8;
/// The record of the shipped patterns is halved beyond this, so that it follows a change of planner.
const RECORD_MAX: u32 = 256;
/// More bytes than a tenant takes in a file beside its name and patterns, with what stands around all of them.
const TENANT_BYTES: usize = 1024;
/// A byte of a name takes at most so many of JSON.
const ESCAPED: usize = 6;
/// A pattern's lines begin so far to the right in a file at most, with the comma behind it.
const INDENT: usize = 24;
/// The shipped patterns begin with a record of so many drafts, all of them right.
const RECORD_START: f64 = 8.0;

/// What has been learnt, as it is kept over a restart.
///
/// Its forms can hold names that could not be told from words, so each tenant's are for it alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearntPatterns {
    /// The tenant that has asked longest ago first.
    pub(crate) tenants: Vec<LearntBy>,
}

impl LearntPatterns {
    /// What of it takes at most so many bytes as indented JSON. The patterns of the tenant that has asked
    /// longest ago are left out first, and of one tenant those that were used longest ago.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        let mut room = bytes;
        self.tenants.reverse();
        self.tenants.retain_mut(|by| {
            let name = TENANT_BYTES + ESCAPED * by.tenant.as_str().len();
            let Some(left) = room.checked_sub(name) else {
                room = 0;
                return false;
            };
            room = left;
            let fits = |pattern: &&QuestionPattern| {
                let left = room.checked_sub(written(pattern));
                room = left.unwrap_or(0);
                left.is_some()
            };
            let kept = by.own.patterns.iter().rev().take_while(fits).count();
            by.own.patterns.drain(..by.own.patterns.len() - kept);
            true
        });
        self.tenants.reverse();
        self
    }
}

/// At most so many bytes of a pattern stand in a file.
fn written(pattern: &QuestionPattern) -> usize {
    let Ok(json) = serde_json::to_vec_pretty(pattern) else {
        return usize::MAX;
    };
    let lines = 1 + json.iter().filter(|byte| **byte == b'\n').count();
    json.len() + lines * INDENT
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LearntBy {
    pub(crate) tenant: Tenant,
    pub(crate) own: Own,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Own {
    /// Places at which the shipped patterns had a draft.
    drafted: u32,
    /// Those of them at which the likeliest draft was right.
    right: u32,
    /// The least recently used first.
    patterns: Vec<QuestionPattern>,
}

/// What one server has learnt of a tenant, for the others. It adds up.
///
/// Its forms can hold names that could not be told from words, so it is for that tenant alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lesson(pub(crate) Own);

impl Lesson {
    /// Counts what another one says.
    pub fn add(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// Refuses what could not have been learnt.
    ///
    /// # Errors
    ///
    /// Patterns whose slots nothing fills.
    pub fn checked(self) -> Result<Self, PatternError> {
        self.0.checked().map(Self)
    }

    /// The forms of questions that were asked last.
    pub(crate) fn of(own: &Own) -> Self {
        let surplus = own.patterns.len().saturating_sub(TOLD_MAX);
        Self(Own {
            patterns: own.patterns[surplus..].to_vec(),
            drafted: own.drafted,
            right: own.right,
        })
    }
}

impl Own {
    /// What a chance of the shipped patterns is worth for this tenant: 1 until they were wrong.
    pub(crate) fn trust(&self) -> f64 {
        (f64::from(self.right) + RECORD_START) / (f64::from(self.drafted) + RECORD_START)
    }

    /// Takes note of a draft of the shipped patterns.
    pub(crate) fn judge(&mut self, right: bool) {
        self.drafted += 1;
        self.right += u32::from(right);
        if self.drafted > RECORD_MAX {
            self.drafted /= 2;
            self.right /= 2;
        }
    }

    /// Counts one more question. If it has not `ended`, what would have come next is not known.
    pub(crate) fn note(&mut self, outline: &Outline, ended: bool) {
        let at = self
            .patterns
            .iter()
            .position(|own| own.form == outline.question);
        let mut pattern = match at {
            Some(at) => self.patterns.remove(at),
            None => QuestionPattern {
                form: outline.question.clone(),
                questions: 0,
                steps: Step::default(),
            },
        };
        let full = pattern.steps.size() >= ASKS_MAX;
        pattern.questions = pattern.questions.saturating_add(1);
        let room = if full { 0 } else { ASKS_AT_PLACE_MAX };
        pattern.steps.note(&outline.hops, ended, room);
        if self.patterns.len() >= FORMS_MAX {
            self.patterns.remove(0);
        }
        self.patterns.push(pattern);
    }

    /// Takes in what was learnt elsewhere, as if it had been learnt before anything that is here.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.drafted = self.drafted.saturating_add(other.drafted);
        self.right = self.right.saturating_add(other.right);
        while self.drafted > RECORD_MAX {
            self.drafted /= 2;
            self.right /= 2;
        }
        for theirs in other.patterns.iter().rev() {
            let mut patterns = self.patterns.iter_mut();
            if let Some(own) = patterns.find(|own| own.form == theirs.form) {
                let full = own.steps.size() >= ASKS_MAX;
                own.questions = own.questions.saturating_add(theirs.questions);
                own.steps
                    .merge(&theirs.steps, if full { 0 } else { ASKS_AT_PLACE_MAX });
            } else if self.patterns.len() < FORMS_MAX {
                self.patterns.insert(0, theirs.clone());
            }
        }
    }

    /// Where a question stands among the tenant's own patterns: in the one with the most words of its own.
    pub(crate) fn place<'a>(&'a self, known: &Known<'a>) -> Option<Place<'a>> {
        let fitting = self.patterns.iter().filter_map(|own| {
            let gaps = own.form.gaps(known.question)?;
            Place::in_pattern(&own.form, &own.steps, gaps, known)
        });
        fitting.max_by_key(|place| place.form.own_bytes())
    }

    /// Refuses what could not have been learnt, and forgets what is too much.
    pub(crate) fn checked(mut self) -> Result<Self, PatternError> {
        for pattern in &self.patterns {
            let checked = || -> Result<(), InvalidForm> {
                let names = in_order(&pattern.form, Slot::Name)?;
                pattern.steps.checked(names, 0)
            };
            checked().map_err(|source| PatternError::Slot {
                form: Form::clone(&pattern.form),
                source,
            })?;
        }
        let surplus = self.patterns.len().saturating_sub(FORMS_MAX);
        self.patterns.drain(..surplus);
        self.drafted = self.drafted.min(RECORD_MAX);
        self.right = self.right.min(self.drafted);
        Ok(self)
    }
}
