//! How good drafts are: against what the planner wrote.

use std::collections::BTreeMap;

use serde::Serialize;
use spechop_ports::{DraftRequest, Drafter, KnownHop};
use spechop_types::{Observation, Question, SubQuestion, Tenant};

use crate::{Lookup, Trajectory};

/// A segment of the planner: what it knew, and what it wrote.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The question as asked.
    pub question: Question,
    /// The hops that it knew, oldest first.
    pub hops: Vec<KnownHop>,
    /// The sub-question that it wrote; `None` if it wrote the final answer.
    pub next: Option<SubQuestion>,
    /// What it is counted under: the kind of the question.
    pub kind: String,
}

/// How drafts compare with what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Segments that ended in a sub-question.
    pub segments: usize,
    /// Those of them of which a draft had every word.
    pub right: usize,
    /// Those of them that had no draft.
    pub none: usize,
    /// Drafts of all these.
    pub drafts: usize,
    /// Segments that ended in the final answer: every draft of them is in vain.
    pub ends: usize,
    /// Drafts of these.
    pub drafts_at_ends: usize,
}

impl Score {
    /// Counts one segment. Whether a draft was right.
    pub(crate) fn count<'a>(
        &mut self,
        next: Option<&str>,
        drafts: impl ExactSizeIterator<Item = &'a str>,
    ) -> bool {
        let made = drafts.len();
        let Some(next) = next else {
            self.ends += 1;
            self.drafts_at_ends += made;
            return false;
        };
        let mut drafts = drafts;
        let right = drafts.any(|draft| draft.split_whitespace().eq(next.split_whitespace()));
        self.segments += 1;
        self.right += usize::from(right);
        self.none += usize::from(made == 0);
        self.drafts += made;
        right
    }

    /// The share of segments that were drafted right.
    pub fn share_right(&self) -> f64 {
        share(self.right, self.segments)
    }

    /// The share of segments without a draft.
    pub fn share_none(&self) -> f64 {
        share(self.none, self.segments)
    }

    /// The share of drafts that were right, those at final answers included.
    pub fn precision(&self) -> f64 {
        share(self.right, self.drafts + self.drafts_at_ends)
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            segments: self.segments + other.segments,
            right: self.right + other.right,
            none: self.none + other.none,
            drafts: self.drafts + other.drafts,
            ends: self.ends + other.ends,
            drafts_at_ends: self.drafts_at_ends + other.drafts_at_ends,
        }
    }
}

/// 0 of nothing.
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Asks a drafter for every segment, and counts by kind.
pub fn check(drafter: &dyn Drafter, segments: &[Segment], limit: usize) -> BTreeMap<String, Score> {
    let tenant = Tenant::default();
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    for segment in segments {
        let drafts = drafter.draft(&DraftRequest {
            tenant: &tenant,
            question: &segment.question,
            hops: &segment.hops,
            limit,
        });
        let next = segment.next.as_ref().map(SubQuestion::as_str);
        let score = scores.entry(segment.kind.clone()).or_default();
        score.count(next, drafts.iter().map(|draft| draft.sub_question.as_str()));
    }
    scores
}

/// The segments that a planner writes on its way through these trajectories, the final answers included.
///
/// Trajectories whose question is none that could be asked are left out.
pub fn segments(trajectories: &[Trajectory], kind: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    for trajectory in trajectories {
        let Ok(question) = Question::new(&trajectory.question) else {
            continue;
        };
        let hops = trajectory.hops.iter().map(|hop| KnownHop {
            sub_question: SubQuestion::new(&hop.sub_question),
            answer: match hop.found {
                true => hop.answer.as_str().into(),
                false => Observation::NOTHING.into(),
            },
        });
        let hops: Vec<_> = hops.collect();
        segments.extend((0..=hops.len()).map(|at| Segment {
            question: question.clone(),
            hops: hops[..at].to_vec(),
            next: hops.get(at).map(|hop| hop.sub_question.clone()),
            kind: kind.to_owned(),
        }));
    }
    segments
}

/// The trajectories of segments that ended in a final answer and had hops.
pub fn trajectories(segments: &[Segment]) -> Vec<Trajectory> {
    let ended = segments
        .iter()
        .filter(|segment| segment.next.is_none() && !segment.hops.is_empty());
    let trajectories = ended.map(|segment| {
        let hops = segment.hops.iter().map(|hop| Lookup {
            sub_question: hop.sub_question.as_str().to_owned(),
            answer: hop.answer.as_ref().to_owned(),
            found: !Observation::is_nothing(&hop.answer),
        });
        Trajectory {
            question: segment.question.as_str().to_owned(),
            hops: hops.collect(),
        }
    });
    trajectories.collect()
}
