//! Questions that are answered by one of several plans: every call has a span.

use spechop_ports::{Planner, ReadRequest, Reader, Reading};

use super::*;

/// Reads as the script says, and is never sure of it.
struct Unsure(ScriptedPorts);

#[async_trait]
impl Reader for Unsure {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let reading = self.0.read(call, request).await?;
        Ok(Reading {
            confidence: Some(Chance::of(0.1)),
            ..reading
        })
    }
}

/// An agent of a script with so many hops, and who overhears its look-ups.
fn agent(hops: usize) -> (Agent, Arc<Overheard>) {
    let ports = ScriptedPorts::new(Script::steady(&vec![true; hops], 100, 1000, 50));
    let retriever = Arc::new(Overheard {
        inner: ports.clone(),
        heard: Mutex::default(),
    });
    let agent = Agent::new(Ports {
        planner: Arc::new(ports.clone()),
        reader: Arc::new(Unsure(ports)),
        retriever: retriever.clone(),
        speculator: None,
        drafter: None,
        draft_writer: None,
    });
    (agent, retriever)
}

/// The spans of a question that two scripts of one hop and of two hops answer, and what look-ups told upstream.
async fn spans_of(is_handed_over: bool) -> (Vec<Span>, Vec<String>) {
    let spans = told(0.0);
    let mut settings = settings(1);
    let parent = TraceContext::parse(PARENT, "a=1");
    let traced = spans.trace(parent, &mut settings, SpeculatorKind::Llm);
    let mut record = traced.record.unwrap();
    let question = Question::new("Who is the mother of the director?").unwrap();
    let ((first, by_first), (second, by_second)) = (agent(1), agent(2));
    let hear = &mut |event: TraceEvent| record.hear(&event);
    if is_handed_over {
        let report = first.answer(&question, &settings, hear).await.unwrap();
        let over = second.take_over(report, Chance::of(0.1), &question, &settings, hear);
        let (report, failed) = over.await;
        assert!(failed.is_none() && report.handed_over.is_some());
        record.answered_by_fallback();
    } else {
        let drawn = ScriptedPorts::new(Script::steady(&[true], 100, 1000, 50));
        let further: [Arc<dyn Planner>; 1] = [Arc::new(drawn)];
        let report = first.search(&further, &question, &settings, hear);
        assert_eq!(report.await.unwrap().plans, 2);
    }
    record.ended(Outcome::Answered);
    let heard = [&by_first, &by_second].map(|by| std::mem::take(&mut *by.heard.lock()));
    (taken(spans.queue().unwrap()), heard.concat())
}

/// Whoever was asked upstream knows the very spans.
fn check_names(spans: &[Span], heard: &[String]) {
    let targets: BTreeSet<_> = named(spans, "target").map(|s| hex(&s.span_id)).collect();
    let asked = heard.iter().map(|parent| parent[36..52].to_owned());
    assert_eq!(asked.collect::<BTreeSet<_>>(), targets);
}

#[tokio::test(start_paused = true)]
async fn the_answer_stands_on_the_spans_of_the_fallback() {
    let (spans, heard) = spans_of(true).await;
    check(&spans);
    check_names(&spans, &heard);
    assert_eq!(named(&spans, "segment").count(), 5);
    let expected = [(Fate::Committed, 2), (Fate::Unused, 1)];
    assert_eq!(fates(&spans, "target"), counts(expected));
    // The first answer took 1,200 ms.
    let begins = spans[0].start_time_unix_nano + 1_200_000_000;
    for target in named(&spans, "target") {
        let is_of_answer = text(target, Key::Fate) == Fate::Committed.as_str();
        assert_eq!(target.start_time_unix_nano >= begins, is_of_answer);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_was_drawn_in_vain_has_spans_of_its_calls() {
    let (spans, heard) = spans_of(false).await;
    check(&spans);
    check_names(&spans, &heard);
    assert_eq!(named(&spans, "segment").count(), 4);
    let expected = [(Fate::Committed, 1), (Fate::Unused, 1)];
    assert_eq!(fates(&spans, "target"), counts(expected));
    // The trace tells of the first plan alone.
    let calls = ["segment", "target"].map(|name| named(&spans, name));
    let untold = calls
        .into_iter()
        .flatten()
        .filter(|call| text(call, Key::Branch).is_empty());
    assert_eq!(untold.count(), 3);
}
