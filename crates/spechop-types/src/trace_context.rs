//! Where a piece of work stands in a distributed trace, as W3C Trace Context writes it.

use std::fmt;
use std::sync::Arc;

use crate::{GOLDEN, spread};

/// The header, or metadata key, that names the trace and the span which asked for this work.
const PARENT: &str = "traceparent";
/// The header beside it, in which other tools carry things of their own.
const STATE: &str = "tracestate";
/// More of `tracestate` need not be passed on, and is not.
const STATE_BYTES_MAX: usize = 512;
const STATE_MEMBERS_MAX: usize = 32;

/// A span of a trace, as those see it who work for it. Neither identifier is ever zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: TraceId,
    span: SpanId,
    sampled: bool,
    state: Option<Arc<str>>,
}

/// The name of a whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

/// The name of a span within its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(u64);

impl TraceContext {
    /// The headers that carry it: of HTTP, and of gRPC.
    pub const HEADERS: [&str; 2] = [PARENT, STATE];

    /// The first span of a trace of its own. The two numbers should be drawn at random; a zero is
    /// replaced, as it may not be a name.
    pub fn root(trace: u128, span: u64, sampled: bool) -> Self {
        Self {
            trace: TraceId(trace.max(1)),
            span: SpanId(span.max(1)),
            sampled,
            state: None,
        }
    }

    /// What the headers of a request say. `None` if the first one is not valid: the request then
    /// belongs to no trace. A `tracestate` that is not valid, or too long, is left out alone.
    pub fn parse(traceparent: &str, tracestate: &str) -> Option<Self> {
        let (version, rest) = traceparent.trim().split_at_checked(2)?;
        hex(version, 2)?;
        let (ids, more) = rest.split_at_checked(53)?;
        let may_be_longer = version != "00" && more.starts_with('-');
        if version == "ff" || !(more.is_empty() || may_be_longer) {
            return None;
        }
        let mut parts = ids.strip_prefix('-')?.split('-');
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let (trace, span) = (hex(trace, 32)?, u64::try_from(hex(span, 16)?).ok()?);
        let flags = hex(flags, 2)?;
        if parts.next().is_some() || trace == 0 || span == 0 {
            return None;
        }
        Some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & 1 == 1,
            state: state(tracestate),
        })
    }

    /// A span within this one. Different numbers give different names, and the same number always the
    /// same one: so a name is known before there is anything to tell of it.
    #[must_use]
    pub fn child(&self, number: u64) -> Self {
        let seed = self.span.0.wrapping_add(number.wrapping_mul(GOLDEN));
        Self {
            span: SpanId(spread(seed).max(1)),
            ..self.clone()
        }
    }

    /// The trace.
    pub fn trace_id(&self) -> TraceId {
        self.trace
    }

    /// The span within it.
    pub fn span_id(&self) -> SpanId {
        self.span
    }

    /// Whether the spans of the trace are to be kept.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// The same span, and whether it is kept.
    #[must_use]
    pub fn with_sampled(self, sampled: bool) -> Self {
        Self { sampled, ..self }
    }

    /// What other tools have added; empty if nothing.
    pub fn state(&self) -> &str {
        self.state.as_deref().unwrap_or_default()
    }

    /// The headers that tell somebody else for which span he works.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let flags = u8::from(self.sampled);
        let parent = format!("00-{}-{}-{flags:02x}", self.trace, self.span);
        let state = self.state.as_ref().map(|state| (STATE, state.to_string()));
        std::iter::once((PARENT, parent)).chain(state)
    }
}

impl TraceId {
    /// As it travels in bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Whether a trace with this name is among this share of all traces, from 0 to 1. Everybody who
    /// samples by the same share keeps the same traces.
    pub fn is_among(self, share: f64) -> bool {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the lower half, as the specification says"
        )]
        let low = (self.0 as u64) >> 1;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share needs no more, and the cast saturates"
        )]
        let bound = (share.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
        low < bound
    }
}

impl SpanId {
    /// As it travels in bytes.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Exactly so many digits, none of them in upper case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == digits && text.bytes().all(is_digit))
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

fn state(text: &str) -> Option<Arc<str>> {
    let text = text.trim();
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_short = text.len() <= STATE_BYTES_MAX && text.split(',').count() <= STATE_MEMBERS_MAX;
    (!text.is_empty() && is_plain && is_short).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn headers(context: &TraceContext) -> Vec<(&'static str, String)> {
        context.headers().collect()
    }

    #[test]
    fn reads_what_it_writes() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let context = TraceContext::parse(&parent, "a=1,b=2").unwrap();
        assert!(context.is_sampled());
        let expected = [(PARENT, parent), (STATE, "a=1,b=2".to_owned())];
        assert_eq!(headers(&context), expected);
        let unsampled = context.with_sampled(false);
        let parent = format!("00-{TRACE}-{SPAN}-00");
        assert_eq!(headers(&unsampled)[0].1, parent);
    }

    #[test]
    fn what_is_not_valid_belongs_to_no_trace() {
        let zero_trace = "0".repeat(32);
        for (parent, is_valid) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!("00-{TRACE}-{SPAN}-ff"), true),
            (format!("cc-{TRACE}-{SPAN}-01"), true),
            (format!("cc-{TRACE}-{SPAN}-01-what-follows"), true),
            (format!("cc-{TRACE}-{SPAN}-01.what"), false),
            (format!("00-{TRACE}-{SPAN}-01-more"), false),
            (format!("ff-{TRACE}-{SPAN}-01"), false),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), false),
            (format!("00-{zero_trace}-{SPAN}-01"), false),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), false),
            (format!("00-{TRACE}-{SPAN}-1"), false),
            (format!("00-{TRACE}-{SPAN}"), false),
            (format!("00{TRACE}{SPAN}01"), false),
            (format!("00-{TRACE}-+{}-01", &SPAN[1..]), false),
            ("é".repeat(30), false),
            (String::new(), false),
        ] {
            let read = TraceContext::parse(&parent, "");
            assert_eq!(read.is_some(), is_valid, "{parent}");
        }
    }

    #[test]
    fn a_state_that_is_not_valid_is_left_out_alone() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let long = format!("a={}", "x".repeat(600));
        let many = "a=1,".repeat(40);
        for wrong in [long.as_str(), many.as_str(), "a=\u{7}", "a=é", "  "] {
            assert_eq!(TraceContext::parse(&parent, wrong).unwrap().state(), "");
        }
    }

    #[test]
    fn children_have_names_of_their_own_which_are_known_before() {
        let root = TraceContext::root(7, 9, true);
        let names: HashSet<_> = (1..10_000).map(|n| root.child(n).span_id()).collect();
        assert_eq!(names.len(), 9_999);
        assert!(!names.contains(&root.span_id()));
        assert_eq!(root.child(3), root.child(3));
        assert_eq!(root.child(3).trace_id(), root.trace_id());
        let none = TraceContext::root(0, 0, false);
        assert!(TraceContext::parse(&headers(&none)[0].1, "").is_some());
    }

    #[test]
    fn a_share_of_all_traces_is_kept() {
        let ids = (0..10_000_u64).map(|n| TraceId(u128::from(spread(n))));
        for (share, expected) in [(0.0, 0), (0.25, 2_500), (1.0, 10_000)] {
            let kept = ids.clone().filter(|id| id.is_among(share)).count();
            assert!(kept.abs_diff(expected) < 150, "{share}: {kept}");
        }
    }
}
