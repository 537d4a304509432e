//! Which questions have spans: the receiver, whoever brings a trace, the share and the rate decide.

use super::*;

#[tokio::test]
async fn who_brings_a_trace_decides_and_the_share_decides_for_the_others() {
    let unsampled = format!("{}00", &PARENT[..53]);
    for (sample, parent, is_kept) in [
        (1.0, None, true),
        (0.0, None, false),
        (0.0, Some(PARENT), true),
        (1.0, Some(&*unsampled), false),
    ] {
        let mut settings = settings(3);
        let parent = parent.and_then(|parent| TraceContext::parse(parent, ""));
        let traced = told(sample).trace(parent.clone(), &mut settings, SpeculatorKind::Llm);
        assert_eq!(traced.record.is_some(), is_kept);
        assert_eq!(settings.journal.is_some(), is_kept);
        // Upstream hears of the decision, too.
        let trace = settings.trace.unwrap();
        assert_eq!(trace.is_sampled(), is_kept);
        assert_eq!(trace.trace_id(), traced.id);
        if let Some(parent) = parent {
            assert_eq!(trace.trace_id(), parent.trace_id());
            assert_ne!(trace.span_id(), parent.span_id());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_questions_in_a_second_some_are_told() {
    let spans = told(1.0);
    let kept = |parent: Option<&str>| {
        let parent = parent.and_then(|parent| TraceContext::parse(parent, ""));
        let traced = spans.trace(parent, &mut settings(3), SpeculatorKind::Llm);
        traced.record.is_some()
    };
    let some = |questions: usize| (0..questions).filter(|_| kept(None)).count();
    assert_eq!((some(60), some(60), some(1000)), (60, 40, 0));
    // Whoever brings a trace has decided.
    assert!(kept(Some(PARENT)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(some(1000), 100);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(some(30), 30);
}

#[tokio::test]
async fn without_a_receiver_a_trace_is_passed_on_as_it_is() {
    let spans = Spans::new(None, SpanCounts::default());
    let parent = TraceContext::parse(PARENT, "a=1");
    let mut asked = settings(3);
    let traced = spans.trace(parent.clone(), &mut asked, SpeculatorKind::Llm);
    assert!(traced.record.is_none() && asked.journal.is_none());
    assert_eq!(asked.trace, parent);
    // Nobody upstream hears of a trace that nobody has begun. In the log every question has a name.
    let mut asked = settings(3);
    let ids = [(); 2].map(|()| spans.trace(None, &mut asked, SpeculatorKind::Llm).id);
    assert_eq!(asked.trace, None);
    assert_ne!(ids[0], ids[1]);
}
