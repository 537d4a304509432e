//! From what was noted of a question to its spans. Pure: nothing here waits, and nothing reads a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use spechop_agent::{CallEnd, CallNote, Notes, Origin, TraceEvent, TraceKind, Width};
use spechop_config::SpeculatorKind;
use spechop_types::{Activity, BranchId, CommitKind, LookupId, Stage, TraceContext, ms};
use spechop_verifier::Verdict;

use super::key::Key;
use crate::outcome::Outcome;

/// Most branches of a question that have spans.
const BRANCHES_MAX: usize = 4096;
/// A span's flags say whether its parent is somewhere else, and that this is known.
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;

/// What is known of a question when it ends.
pub(crate) struct Story {
    /// The span of the question itself. Those of its calls are children of it by their number.
    pub(crate) context: TraceContext,
    /// The caller's span, if it brought one.
    pub(crate) parent: Option<TraceContext>,
    /// By the clock on the wall.
    pub(crate) began: SystemTime,
    pub(crate) elapsed: Duration,
    pub(crate) outcome: Outcome,
    pub(crate) width: Width,
    pub(crate) speculator: SpeculatorKind,
    pub(crate) marks: Marks,
    pub(crate) notes: Notes,
    /// The call that put a conversation into it, if one did. It is of no hop and of no branch.
    pub(crate) rewriting: Option<CallNote>,
}

/// What happened to the branches of a question.
#[derive(Default)]
pub(crate) struct Marks {
    branches: BTreeMap<BranchId, Branch>,
    /// The hops that they are of.
    hops: BTreeSet<u32>,
    /// The first branch of the fallback, if the question was handed over.
    fallback: Option<BranchId>,
    /// Whether the answer is the fallback's.
    is_by_fallback: bool,
}

/// A branch from its first segment to its end.
struct Branch {
    hop: u32,
    began: Duration,
    ended: Option<Duration>,
    was_promoted: bool,
    was_rolled_back: bool,
    verdict: Option<Verdict>,
}

impl Marks {
    /// Notes an event, if it is of interest here.
    pub(crate) fn hear(&mut self, event: &TraceEvent) {
        match &event.kind {
            TraceKind::Launched {
                stage: Stage::Segment,
            } => _ = self.branch(event),
            TraceKind::Verified { verdict } => {
                if let Some(branch) = self.branch(event) {
                    branch.verdict = Some(*verdict);
                }
            }
            TraceKind::Promoted => {
                if let Some(branch) = self.branch(event) {
                    branch.was_promoted = true;
                }
            }
            TraceKind::Committed { .. } => {
                if let Some(branch) = self.branch(event) {
                    branch.ended = Some(event.at);
                }
            }
            TraceKind::RolledBack => {
                if let Some(branch) = self.branch(event) {
                    branch.was_rolled_back = true;
                    branch.ended = Some(event.at);
                }
            }
            TraceKind::HandedOver { .. } => {
                self.fallback = Some(event.branch);
                for branch in self.branches.values_mut() {
                    branch.ended.get_or_insert(event.at);
                }
            }
            TraceKind::Launched { .. }
            | TraceKind::Planned { .. }
            | TraceKind::Drafted { .. }
            | TraceKind::Guessed { .. }
            | TraceKind::Observed { .. }
            | TraceKind::ProviderChanged { .. }
            | TraceKind::AskedAhead { .. }
            | TraceKind::Foreseen { .. }
            | TraceKind::Salvaged { .. }
            | TraceKind::NotSpeculated { .. }
            | TraceKind::Failed { .. } => {}
        }
    }

    /// The answer is the fallback's.
    pub(crate) fn answered_by_fallback(&mut self) {
        self.is_by_fallback = true;
    }

    /// Whether a branch is of the plan that the answer is of.
    fn is_of_answer(&self, id: BranchId) -> bool {
        self.fallback
            .is_none_or(|first| (id >= first) == self.is_by_fallback)
    }

    /// The branch of an event, which may be its first; `None` if there are too many.
    fn branch(&mut self, event: &TraceEvent) -> Option<&mut Branch> {
        if self.branches.len() >= BRANCHES_MAX && !self.branches.contains_key(&event.branch) {
            return None;
        }
        self.hops.insert(event.hop);
        let branch = self.branches.entry(event.branch).or_insert(Branch {
            hop: event.hop,
            began: event.at,
            ended: None,
            was_promoted: false,
            was_rolled_back: false,
            verdict: None,
        });
        Some(branch)
    }
}

/// What became of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The answer stands on it, and needed it from the start.
    Committed,
    /// The answer stands on it, and it was begun ahead of need.
    Promoted,
    /// The answer stands on it, and it was begun for a branch that was rolled back.
    Salvaged,
    /// The answer stands on it, and it was begun before its sub-question was written.
    Foreseen,
    /// It went with a branch whose guess was wrong.
    RolledBack,
    /// It brought nothing, or nothing that was used.
    Unused,
}

impl Fate {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Promoted => "promoted",
            Self::Salvaged => "salvaged",
            Self::Foreseen => "foreseen",
            Self::RolledBack => "rolled_back",
            Self::Unused => "unused",
        }
    }
}

impl Story {
    /// How many spans it has.
    pub(crate) fn len(&self) -> usize {
        let Marks { branches, hops, .. } = &self.marks;
        let calls = self.notes.calls.len() + usize::from(self.rewriting.is_some());
        1 + hops.len() + branches.len() + calls
    }

    /// Its spans: that of the question first, then those of its hops, branches and calls.
    pub(super) fn tell(&self) -> Vec<Span> {
        let telling = Telling { story: self };
        let mut spans = vec![telling.question()];
        telling.hops(&mut spans);
        let branches = self.marks.branches.iter();
        spans.extend(branches.map(|(id, branch)| telling.branch(*id, branch)));
        let rewriting = self.rewriting.as_ref();
        spans.extend(rewriting.map(|call| telling.rewriting(call)));
        let calls = self.notes.calls.iter();
        spans.extend(calls.map(|call| telling.call(call)));
        spans
    }
}

struct Telling<'a> {
    story: &'a Story,
}

/// A span as far as all kinds have the same.
struct SpanParts<'a> {
    context: &'a TraceContext,
    parent: Option<&'a TraceContext>,
    name: &'static str,
    began: Duration,
    ended: Duration,
    attributes: Vec<KeyValue>,
    links: Vec<Link>,
    /// What went wrong, if anything did.
    wrong: Option<&'static str>,
}

impl Telling<'_> {
    fn hops(&self, to: &mut Vec<Span>) {
        let mut hops: BTreeMap<u32, (Duration, Duration, bool)> = BTreeMap::new();
        for (id, branch) in &self.story.marks.branches {
            let (began, ended) = (branch.began, self.end(branch));
            let is_committed = matches!(self.fate(*id, branch), Fate::Committed | Fate::Promoted);
            let hop = hops.entry(branch.hop).or_insert((began, ended, false));
            *hop = (hop.0.min(began), hop.1.max(ended), hop.2 || is_committed);
        }
        for (number, (began, ended, is_committed)) in hops {
            let fate = match is_committed {
                true => Fate::Committed,
                false => Fate::Unused,
            };
            to.push(self.span(SpanParts {
                context: &self.hop(number),
                parent: Some(&self.story.context),
                name: "hop",
                began,
                ended,
                attributes: vec![Key::Hop.number(number), Key::Fate.text(fate.as_str())],
                links: Vec::new(),
                wrong: None,
            }));
        }
    }

    fn question(&self) -> Span {
        let story = self.story;
        let k = match story.width.get() {
            Some(k) => Key::K.number(k.get()),
            None => Key::K.text("unbounded"),
        };
        let mut attributes = vec![
            k,
            Key::Speculator.text(story.speculator.as_str()),
            Key::Outcome.text(story.outcome.into_str()),
        ];
        if story.notes.left_out > 0 {
            attributes.push(Key::LeftOut.number(story.notes.left_out));
        }
        let was_answered = story.outcome == Outcome::Answered;
        let mut span = self.span(SpanParts {
            context: &story.context,
            parent: story.parent.as_ref(),
            name: "question",
            began: Duration::ZERO,
            ended: story.elapsed,
            attributes,
            links: Vec::new(),
            wrong: (!was_answered).then_some(story.outcome.into_str()),
        });
        span.kind = SpanKind::Server.into();
        if story.parent.is_some() {
            span.flags |= PARENT_IS_REMOTE;
        }
        span
    }

    fn branch(&self, id: BranchId, branch: &Branch) -> Span {
        let mut attributes = vec![
            Key::Branch.number(id.0),
            Key::Hop.number(branch.hop),
            Key::Fate.text(self.fate(id, branch).as_str()),
        ];
        if let Some(verdict) = branch.verdict {
            attributes.push(Key::Verdict.flag(verdict.accepted));
            attributes.push(Key::Rule.text(verdict.rule.as_str()));
        }
        let taken_over = self.story.notes.taken_over.iter();
        let links = taken_over
            .filter(|taken| taken.branch == id)
            .filter_map(|taken| {
                let call = self.target_of(taken.lookup)?;
                Some(self.link(&self.story.context.child(call.number), taken.origin))
            });
        self.span(SpanParts {
            context: &self.branch_context(id),
            parent: Some(&self.hop(branch.hop)),
            name: "branch",
            began: branch.began,
            ended: self.end(branch),
            attributes,
            links: links.collect(),
            wrong: None,
        })
    }

    fn rewriting(&self, call: &CallNote) -> Span {
        let fate = match call.end {
            CallEnd::Done => Fate::Committed,
            CallEnd::Failed | CallEnd::TimedOut | CallEnd::Refused(_) | CallEnd::Dropped => {
                Fate::Unused
            }
        };
        let (attributes, wrong) = of_call(call, fate);
        self.span(SpanParts {
            context: &self.story.context.child(call.number),
            parent: Some(&self.story.context),
            name: "rewriting",
            began: call.began,
            ended: call.ended,
            attributes,
            links: Vec::new(),
            wrong,
        })
    }

    fn call(&self, call: &CallNote) -> Span {
        let (mut attributes, wrong) = of_call(call, self.fate_of(call));
        attributes.push(Key::Hop.number(call.hop));
        attributes.extend(call.branch.map(|branch| Key::Branch.number(branch.0)));
        let taken_over = self.story.notes.taken_over.iter();
        let links = taken_over
            .filter(|taken| call.stage == Stage::Target && call.lookup == Some(taken.lookup))
            .map(|taken| self.link(&self.branch_context(taken.branch), taken.origin));
        let parent = match self.told(call) {
            Some((id, _)) => self.branch_context(id),
            None => self.story.context.clone(),
        };
        self.span(SpanParts {
            context: &self.story.context.child(call.number),
            parent: Some(&parent),
            name: call.stage.as_str(),
            began: call.began,
            ended: call.ended,
            attributes,
            links: links.collect(),
            wrong,
        })
    }

    /// The branch that wrote the answer ends with the question.
    fn end(&self, branch: &Branch) -> Duration {
        branch.ended.unwrap_or(self.story.elapsed).max(branch.began)
    }

    fn fate(&self, id: BranchId, branch: &Branch) -> Fate {
        let is_over = branch.ended.is_some() || self.story.outcome == Outcome::Answered;
        let counts = is_over && self.story.marks.is_of_answer(id);
        match (branch.was_rolled_back, counts, branch.was_promoted) {
            (true, _, _) => Fate::RolledBack,
            (false, false, _) => Fate::Unused,
            (false, true, true) => Fate::Promoted,
            (false, true, false) => Fate::Committed,
        }
    }

    fn fate_of(&self, call: &CallNote) -> Fate {
        let branch = self.told(call);
        let unless_used = match branch {
            Some((_, branch)) if branch.was_rolled_back => Fate::RolledBack,
            Some(_) | None => Fate::Unused,
        };
        match call.end {
            CallEnd::Done => {}
            CallEnd::Dropped => return unless_used,
            CallEnd::Failed | CallEnd::TimedOut | CallEnd::Refused(_) => return Fate::Unused,
        }
        let committed = |lookup| {
            let mut all = self.story.notes.committed.iter();
            all.find(|committed| committed.lookup == lookup)
        };
        let begun = match call.was_speculative {
            true => Fate::Promoted,
            false => Fate::Committed,
        };
        match (call.stage, call.lookup) {
            (Stage::Segment, _) => match branch {
                Some((id, branch)) => self.fate(id, branch),
                None => Fate::Unused,
            },
            (Stage::Target, Some(lookup)) => match committed(lookup) {
                Some(_) => match self.origin(lookup) {
                    Some(Origin::RolledBack) => Fate::Salvaged,
                    Some(Origin::Drafted) => Fate::Foreseen,
                    None => begun,
                },
                None => unless_used,
            },
            (Stage::Speculation, Some(lookup)) => match committed(lookup) {
                Some(committed) if committed.kind == CommitKind::Accepted => Fate::Committed,
                Some(_) | None => unless_used,
            },
            // Whether a draft was of use is told by the look-up that it began.
            (Stage::Draft, _) | (Stage::Target | Stage::Speculation, None) => unless_used,
        }
    }

    /// The branch of a call, if it has a span.
    fn told(&self, call: &CallNote) -> Option<(BranchId, &Branch)> {
        let id = call.branch?;
        Some((id, self.story.marks.branches.get(&id)?))
    }

    fn origin(&self, lookup: LookupId) -> Option<Origin> {
        let taken_over = self.story.notes.taken_over.iter().rev();
        let mut of_it = taken_over.filter(|taken| taken.lookup == lookup);
        of_it.next().map(|taken| taken.origin)
    }

    fn target_of(&self, lookup: LookupId) -> Option<&CallNote> {
        let mut calls = self.story.notes.calls.iter();
        calls.find(|call| call.stage == Stage::Target && call.lookup == Some(lookup))
    }

    /// Numbers of calls, branches and hops never meet.
    fn branch_context(&self, branch: BranchId) -> TraceContext {
        self.story.context.child((1 << 32) | u64::from(branch.0))
    }

    fn hop(&self, hop: u32) -> TraceContext {
        self.story.context.child((2 << 32) | u64::from(hop))
    }

    fn link(&self, to: &TraceContext, origin: Origin) -> Link {
        let origin = match origin {
            Origin::RolledBack => "salvaged",
            Origin::Drafted => "foreseen",
        };
        let context = &self.story.context;
        Link {
            trace_id: context.trace_id().to_bytes().to_vec(),
            span_id: to.span_id().to_bytes().to_vec(),
            trace_state: context.state().to_owned(),
            attributes: vec![Key::Origin.text(origin)],
            flags: 1 | PARENT_IS_KNOWN,
            ..Link::default()
        }
    }

    fn span(&self, parts: SpanParts<'_>) -> Span {
        let at = |since: Duration| {
            let at = self.story.began + since;
            let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
        };
        let context = &self.story.context;
        let parent = parts.parent.map(|parent| parent.span_id().to_bytes());
        Span {
            trace_id: context.trace_id().to_bytes().to_vec(),
            span_id: parts.context.span_id().to_bytes().to_vec(),
            trace_state: context.state().to_owned(),
            parent_span_id: parent.map(Vec::from).unwrap_or_default(),
            flags: 1 | PARENT_IS_KNOWN,
            name: parts.name.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: at(parts.began),
            end_time_unix_nano: at(parts.ended.max(parts.began)),
            attributes: parts.attributes,
            links: parts.links,
            status: parts.wrong.map(|wrong| Status {
                message: wrong.to_owned(),
                code: StatusCode::Error.into(),
            }),
            ..Span::default()
        }
    }
}

/// What the spans of all calls tell, and what went wrong, if anything did.
fn of_call(call: &CallNote, fate: Fate) -> (Vec<KeyValue>, Option<&'static str>) {
    let waiting: Duration = [Activity::Turn, Activity::Queue]
        .iter()
        .map(|activity| call.activities.of(*activity))
        .sum();
    let joined = !call.activities.of(Activity::Join).is_zero();
    let (end, wrong) = match call.end {
        CallEnd::Done => ("done", None),
        CallEnd::Failed => ("failed", Some("failed")),
        CallEnd::TimedOut => ("timed_out", Some("timed out")),
        CallEnd::Refused(_) => ("refused", None),
        CallEnd::Dropped => ("dropped", None),
    };
    let mut attributes = vec![
        Key::Fate.text(fate.as_str()),
        Key::Speculative.flag(call.was_speculative),
        Key::Needed.flag(call.is_needed),
        Key::Cached.flag(call.was_kept || joined),
        Key::End.text(end),
        Key::TokensPrompt.number(call.tokens.prompt),
        Key::TokensCompletion.number(call.tokens.completion),
        Key::WaitingMs.decimal(ms(waiting)),
    ];
    if let CallEnd::Refused(why) = call.end {
        attributes.push(Key::Refusal.text(why.as_str()));
    }
    (attributes, wrong)
}
