//! How long a question waits, in virtual time.

use spechop_testkit::Script;
use spechop_types::{Budget, with_causes};
use tokio::time::sleep;

use super::*;
use crate::server_state::scripted;

const LINE: &str = "[server]\nquestions_max = 1\nqueue_ms = 1000\n";

fn admission(toml: &str) -> Admission {
    Admission::new(scripted::state(Script::instant(1), toml).0)
}

/// With a budget of time and a deadline in milliseconds.
fn settings(time: Option<u64>, deadline: Option<u64>) -> Settings {
    Settings {
        budget: Budget {
            time: time.map(Duration::from_millis),
            ..Budget::default()
        },
        deadline: deadline.map(|ms| Instant::now() + Duration::from_millis(ms)),
        ..Settings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_with_whatever_comes_first() {
    for (time, deadline, expected_ms, end) in [
        (None, None, 1000, "timed_out"),
        (Some(60_000), Some(60_000), 1000, "timed_out"),
        (Some(300), Some(60_000), 300, "timed_out"),
        (None, Some(200), 200, "deadline"),
        (Some(100), Some(200), 100, "timed_out"),
        (Some(300), Some(300), 300, "deadline"),
    ] {
        let admission = admission(LINE);
        let _held = admission.place(&mut settings(None, None)).await.unwrap();
        let began = Instant::now();
        let error = admission.place(&mut settings(time, deadline)).await;
        let error = error.unwrap_err();
        // Timers are exact to the millisecond.
        let waited = began.elapsed().as_millis();
        assert!((expected_ms..expected_ms + 3).contains(&waited), "{waited}");
        let (outcome, message) = (error.outcome().into_str(), with_causes(&error));
        match end {
            "deadline" => assert_eq!(outcome, "deadline", "{message}"),
            _ => {
                assert_eq!(outcome, "busy", "{message}");
                let said = format!("waited {:.1}", expected_ms as f64 / 1000.0);
                assert!(message.contains(&said), "{message}");
                // More patience would not have helped a question without time.
                let is_line_at_fault = message.contains("server.queue_ms");
                assert_eq!(is_line_at_fault, expected_ms == 1000, "{message}");
            }
        }
        let state = admission.state();
        let counted = format!("spechop_question_wait_seconds_count{{end=\"{end}\"}} 1");
        assert!(state.metrics.text().contains(&counted), "{counted}");
        assert_eq!((state.places.taken(), state.places.waiting()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_budget_of_time_pays_for_the_wait() {
    let admission = admission(LINE);
    let held = admission.place(&mut settings(None, None)).await.unwrap();
    let mut asked = settings(Some(600), None);
    let waits = admission.place(&mut asked);
    let frees = async {
        sleep(Duration::from_millis(400)).await;
        drop(held);
    };
    let (place, ()) = tokio::join!(waits, frees);
    place.unwrap();
    let left = asked.budget.time.unwrap().as_millis();
    assert!((195..=200).contains(&left), "{left}");
}

#[tokio::test(start_paused = true)]
async fn without_a_line_nobody_waits() {
    for toml in [
        "[server]\nquestions_max = 1\nqueue_ms = 0\n",
        "[server]\nquestions_max = 1\nqueue_max = 0\n",
    ] {
        let admission = admission(toml);
        let _held = admission.place(&mut settings(None, None)).await.unwrap();
        let began = Instant::now();
        let error = admission.place(&mut settings(None, None)).await;
        let message = with_causes(&error.unwrap_err());
        assert!(
            message.ends_with("which is the most; try again later"),
            "{message}"
        );
        assert_eq!(began.elapsed(), Duration::ZERO);
        let text = admission.state().metrics.text();
        let mut waits = text
            .lines()
            .filter(|line| line.starts_with("spechop_question_wait_seconds_count"));
        assert!(waits.all(|line| line.ends_with(" 0")), "{text}");
    }
}
