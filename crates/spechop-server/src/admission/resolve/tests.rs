//! What is told of a question with a conversation before it, in virtual time.

use async_trait::async_trait;
use futures::StreamExt;
use spechop_ports::{PortError, Rewriter, Rewritten, Speaker};
use spechop_proto::AskRequest;
use spechop_proto::ask_event::Event;
use spechop_proto::options::Width;
use spechop_testkit::Script;
use tokio::time::sleep;

use super::*;
use crate::admission::Admission;
use crate::caller::Caller;
use crate::events::Events;
use crate::server_state::scripted;

/// Needs five seconds to see that a question is complete.
struct Slow;

#[async_trait]
impl Rewriter for Slow {
    async fn rewrite(&self, _: &Call, request: RewriteRequest) -> Result<Rewritten, PortError> {
        sleep(Duration::from_secs(5)).await;
        Ok(Rewritten {
            question: request.question,
            tokens: Tokens::default(),
        })
    }
}

/// A counter of seconds of the metrics.
fn seconds(admission: &Admission, name: &str) -> f64 {
    let metrics = admission.state().metrics.text();
    let mut lines = metrics.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap().parse().unwrap()
}

/// A question with a turn before it, on its way, and what becomes of that turn.
async fn conversing() -> (Admission, Admitted, oneshot::Receiver<Resolved>) {
    let script = Script::steady(&[true], 100, 1000, 50);
    let (mut state, _ports) = scripted::state(script, "");
    let parts = Arc::get_mut(&mut state).unwrap();
    parts.toolbox.rewriter = Some(Arc::new(Slow));
    let admission = Admission::new(state);
    let asked = AskRequest {
        question: "And where?".to_owned(),
        ..AskRequest::default()
    };
    let asked = asked.with(|options| options.width = Some(Width::K(1)));
    let admitted = admission.admit(&asked, &Caller::default(), None).await;
    let mut admitted = admitted.unwrap();
    let turn = Turn {
        speaker: Speaker::User,
        text: "Who?".into(),
    };
    let resolved = admitted.converse(vec![turn]);
    (admission, admitted, resolved)
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_the_answer_now_waits_for_no_better_question() {
    let began = Instant::now();
    let (admission, admitted, resolved) = conversing().await;
    let name = admitted.name().to_owned();
    let events = Events::of(admitted).unwrap();
    sleep(Duration::from_secs(1)).await;
    admission.finish_now(&name, &Caller::default()).unwrap();
    let answer = events.answer().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(matches!(resolved.await.unwrap(), Resolved::Failed(_)));
    // The call was begun, and came to nothing. Of the segment behind it nothing was begun before it had to give
    // way to the one that answers.
    let segments = answer.usage.unwrap().segments.unwrap();
    assert_eq!((segments.started, segments.wasted), (2, 1));
    // So the second that it took is none of the plan's.
    let followed = seconds(&admission, "spechop_followed_seconds_total");
    assert!(followed < 0.5, "{followed}");
}

#[tokio::test(start_paused = true)]
async fn times_count_from_the_place_and_not_from_the_agent() {
    let (admission, admitted, resolved) = conversing().await;
    let events = Events::of(admitted).unwrap().map(Result::unwrap);
    let events: Vec<_> = events.collect().await;
    assert_eq!(resolved.await.unwrap(), Resolved::Complete);
    for event in &events {
        assert!(event.at_ms >= 5000.0, "{event:?}");
    }
    let Some(Event::Answer(answer)) = &events.last().unwrap().event else {
        panic!("the answer comes last");
    };
    // Nothing was guessed, so the answer was final when it was written.
    let first = answer.first_answer.as_ref().unwrap();
    assert!((first.confirmed_ms - first.at_ms).abs() < 1.0, "{first:?}");
    // No branch was alive while the question was made complete.
    let lives = seconds(&admission, "spechop_branch_seconds_total");
    assert!((1.0..2.0).contains(&lives), "{lives}");
    // The call is used, so its time is compared with the plan's and its own.
    let followed = seconds(&admission, "spechop_followed_seconds_total");
    assert!((6.0..7.0).contains(&followed), "{followed}");
}
