//! Labels. Each value comes from an enum or a name in the program, so that there are few.

use std::fmt::{self, Write};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use crate::outcome::{Outcome, WaitEnd};

/// How a question or a retrieval ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
}

/// How the wait for a place ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Waited {
    pub(super) end: WaitEnd,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Who {
    pub(super) speculator: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct HopKind {
    pub(super) kind: &'static str,
}

/// Whose guess, by its name in the configuration, and what became of it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Judged {
    pub(super) speculator: &'static str,
    pub(super) verdict: &'static str,
}

/// Whose guess, and the rule that decided about it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Decided {
    pub(super) speculator: &'static str,
    pub(super) verdict: &'static str,
    pub(super) rule: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct OfStage {
    pub(super) stage: &'static str,
}

/// Whether the answer's trajectory holds the results of these calls.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Fate {
    pub(super) stage: &'static str,
    pub(super) fate: &'static str,
}

/// What the calls of a hop spent time on.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Busy {
    pub(super) activity: &'static str,
}

/// What calls spent time on, and whether the answer's trajectory holds their results.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct BusyAt {
    pub(super) stage: &'static str,
    pub(super) activity: &'static str,
    pub(super) fate: &'static str,
}

/// Which work ahead of need was not done, or not to its end, and why.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Refused {
    pub(super) stage: &'static str,
    pub(super) reason: &'static str,
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.into_str())
    }
}

impl EncodeLabelValue for WaitEnd {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.into_str())
    }
}
