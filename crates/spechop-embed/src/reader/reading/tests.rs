use std::collections::VecDeque;

use spechop_ports::PortError;
use spechop_types::Chance;
use tokio::sync::oneshot;

use super::super::boundary::Asked;
use super::super::{PlattScaling, Space};
use super::*;

const LANE_MAX: usize = 3;

#[derive(Default)]
struct Bench {
    readings: Readings,
    calls: Vec<Call>,
    answers: Vec<oneshot::Receiver<Result<Vec<Logits>, PortError>>>,
}

fn read(is_enough: bool) -> Read {
    let logits = Logits {
        start: Vec::new(),
        end: Vec::new(),
        classes: [0.0; 4],
    };
    Read { logits, is_enough }
}

fn wanted() -> Arc<Wanted> {
    Arc::new(Wanted {
        asked: Asked::new("who is it"),
        shown: Vec::new(),
        answer_tokens_max: 24,
        calibration: PlattScaling {
            scale: 1.0,
            shift: 0.0,
        },
        enough: None,
    })
}

impl Bench {
    /// A request of so many passages.
    fn push(&mut self, lane: Lane, depth: u32, passages: usize) -> bool {
        let call = Call::new(lane, Chance::EVEN.pow(depth));
        let id = self.calls.len() as JobId;
        self.calls.push(call.clone());
        let pair = |_| Pair {
            ids: vec![id as u32; 10],
            type_ids: vec![1; 10],
        };
        let (reply, answer) = oneshot::channel();
        self.answers.push(answer);
        let work = Work::new((0..passages).map(pair).collect(), wanted());
        let job = Job { call, work, reply };
        self.readings.push(id, job, LANE_MAX).is_ok()
    }

    /// Reads a passage, and says whose it was.
    fn read(&mut self) -> Option<JobId> {
        let run = self.readings.next_run()?;
        let id = run.of;
        self.readings.finish(run, Ok(read(false)), "reader x");
        Some(id)
    }

    fn read_all(&mut self) -> Vec<JobId> {
        std::iter::from_fn(|| self.read()).collect()
    }
}

#[test]
fn requests_are_read_by_urgency() {
    let mut bench = Bench::default();
    for (lane, depth) in [
        (Lane::Speculative, 3),
        (Lane::Speculative, 1),
        (Lane::Authoritative, 2),
        (Lane::Speculative, 1),
        (Lane::Authoritative, 0),
    ] {
        assert!(bench.push(lane, depth, 1));
    }
    bench.calls[0].promote();
    assert_eq!(bench.read_all(), [0, 2, 4, 1, 3]);
    assert_eq!(bench.readings.len(), 0);
}

#[test]
fn a_needed_request_waits_for_one_passage_of_a_guess() {
    let mut bench = Bench::default();
    bench.push(Lane::Speculative, 1, 3);
    assert_eq!(bench.read(), Some(0));
    bench.push(Lane::Authoritative, 0, 2);
    assert!(bench.answers[0].try_recv().is_err(), "two are left");
    assert_eq!(bench.read_all(), [1, 1, 0, 0]);
    for (answer, passages) in bench.answers.iter_mut().zip([3, 2]) {
        let logits = answer.try_recv().expect("an answer").expect("logits");
        assert_eq!(logits.len(), passages);
    }
    let counts = bench.readings.counts();
    assert_eq!(
        (counts.requests, counts.passages, counts.tokens),
        (2, 5, 50)
    );
}

#[test]
fn equals_do_not_take_turns() {
    let mut bench = Bench::default();
    bench.push(Lane::Authoritative, 0, 2);
    bench.push(Lane::Authoritative, 0, 2);
    // Else both would end late.
    assert_eq!(bench.read_all(), [0, 0, 1, 1]);
}

#[test]
fn threads_share_a_request_and_its_order_stays() {
    let mut bench = Bench::default();
    bench.push(Lane::Authoritative, 0, 3);
    let mut runs: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
    let places = runs.iter().map(|run| run.at);
    assert_eq!(places.collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(bench.readings.len(), 0, "all of it is begun");
    for run in runs.drain(..).rev() {
        assert!(bench.answers[0].try_recv().is_err());
        let mut done = read(false);
        done.logits.start = vec![0.0; run.at];
        bench.readings.finish(run, Ok(done), "reader x");
    }
    let read = bench.answers[0].try_recv().expect("an answer");
    let places = read.expect("logits").into_iter().map(|one| one.start.len());
    assert_eq!(places.collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn untouched_requests_go_before_further_passages_of_another() {
    let mut bench = Bench::default();
    bench.push(Lane::Speculative, 1, 1);
    bench.push(Lane::Authoritative, 0, 2);
    bench.push(Lane::Authoritative, 0, 2);
    let runs = std::iter::from_fn(|| bench.readings.next_run());
    assert_eq!(runs.map(|run| run.of).collect::<Vec<_>>(), [1, 2, 1, 2, 0]);
}

/// However many passages are read at once, and whichever ends first, the same ones count.
#[test]
fn a_reading_that_is_enough_ends_a_request() {
    // Of five passages the third and the fifth would be enough.
    let is_enough = |at| at == 2 || at == 4;
    for (side_by_side, last_first, passages_read) in [
        (1, false, 3),
        (2, false, 3),
        (2, true, 3),
        (3, true, 3),
        (4, true, 5),
        (5, false, 3),
        (5, true, 5),
    ] {
        let mut bench = Bench::default();
        bench.push(Lane::Authoritative, 0, 5);
        let mut runs = VecDeque::new();
        let answer = loop {
            while runs.len() < side_by_side
                && let Some(run) = bench.readings.next_run()
            {
                runs.push_back(run);
            }
            let run = if last_first {
                runs.pop_back()
            } else {
                runs.pop_front()
            };
            let run = run.expect("a passage is being read");
            let done = read(is_enough(run.at));
            bench.readings.finish(run, Ok(done), "reader x");
            if let Ok(answer) = bench.answers[0].try_recv() {
                break answer.expect("logits");
            }
        };
        let case = (side_by_side, last_first);
        assert_eq!(answer.len(), 3, "{case:?}");
        let passages = bench.readings.counts().passages;
        assert_eq!(passages, passages_read, "{case:?}");
        assert!(bench.readings.next_run().is_none(), "{case:?}");
        // Those still being read are of no use.
        for run in runs {
            bench.readings.finish(run, Ok(read(true)), "reader x");
        }
        assert_eq!(bench.readings.counts().requests, 1, "{case:?}");
        assert!(!bench.readings.cancel(0), "{case:?}: nothing is left of it");
    }
}

#[test]
fn a_guess_has_a_thread_and_others_while_they_are_idle() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    let idle = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&idle);
    let room = Room::new(move || Space {
        idle: seen.load(Relaxed),
        is_crowded: false,
    });
    let mut bench = Bench {
        readings: Readings::within(Some(room)),
        ..Bench::default()
    };
    bench.push(Lane::Speculative, 1, 3);
    bench.push(Lane::Speculative, 2, 3);
    let mut runs: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
    let of = |runs: &[Passage]| runs.iter().map(|run| run.of).collect::<Vec<_>>();
    assert_eq!(of(&runs), [0, 1], "one passage of each");
    idle.store(1, Relaxed);
    runs.extend(std::iter::from_fn(|| bench.readings.next_run()));
    assert_eq!(of(&runs), [0, 1, 0], "the better one has the idle core");
    // Needed, it has all threads.
    idle.store(0, Relaxed);
    bench.calls[1].promote();
    runs.extend(std::iter::from_fn(|| bench.readings.next_run()));
    assert_eq!(of(&runs), [0, 1, 0, 1, 1]);
    for run in runs {
        bench.readings.finish(run, Ok(read(false)), "reader x");
    }
    assert_eq!(bench.read_all(), [0]);
    assert_eq!(bench.readings.counts().requests, 2);
}

#[test]
fn on_crowded_cores_a_needed_request_has_one_thread() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    let is_crowded = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&is_crowded);
    let room = Room::new(move || Space {
        idle: 0,
        is_crowded: seen.load(Relaxed),
    });
    let mut bench = Bench {
        readings: Readings::within(Some(room)),
        ..Bench::default()
    };
    bench.push(Lane::Authoritative, 0, 3);
    bench.push(Lane::Authoritative, 0, 3);
    let first = bench.readings.next_run().expect("the first request");
    let second = bench.readings.next_run().expect("the second request");
    assert_eq!((first.of, second.of), (0, 1));
    assert!(bench.readings.next_run().is_none());
    assert!(bench.readings.is_held_back(), "so it is looked at again");
    bench.readings.finish(second, Ok(read(false)), "reader x");
    let again = bench.readings.next_run().expect("its second passage");
    assert_eq!((again.of, again.at), (1, 1));
    assert!(bench.readings.next_run().is_none());
    is_crowded.store(false, Relaxed);
    let further: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
    let of: Vec<_> = further.iter().map(|run| run.of).collect();
    assert_eq!(of, [0, 0, 1]);
    for run in further.into_iter().chain([first, again]) {
        bench.readings.finish(run, Ok(read(false)), "reader x");
    }
    assert_eq!(bench.readings.counts().requests, 2);
}

#[test]
fn a_full_lane_gives_back_and_does_not_fill_the_other() {
    let mut bench = Bench::default();
    for _ in 0..LANE_MAX {
        assert!(bench.push(Lane::Speculative, 1, 2));
    }
    assert!(!bench.push(Lane::Speculative, 1, 2));
    assert!(bench.push(Lane::Authoritative, 0, 1));
    // Once all of its passages are begun, a request waits no more.
    let _needed = bench.readings.next_run();
    let _first = bench.readings.next_run();
    assert!(!bench.push(Lane::Speculative, 1, 2));
    let _second = bench.readings.next_run();
    assert!(bench.push(Lane::Speculative, 1, 2));
}

#[test]
fn a_cancelled_request_is_not_read_on() {
    let mut bench = Bench::default();
    for _ in 0..3 {
        bench.push(Lane::Authoritative, 0, 2);
    }
    // It waits.
    assert!(bench.readings.cancel(2));
    assert!(!bench.readings.cancel(2));
    // Its first passage is being read.
    let run = bench.readings.next_run().expect("work");
    assert!(bench.readings.cancel(0));
    bench.readings.finish(run, Ok(read(false)), "reader x");
    // All of its passages are being read.
    let runs: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
    assert_eq!(runs.len(), 2);
    assert!(bench.readings.cancel(1));
    for run in runs {
        bench.readings.finish(run, Ok(read(false)), "reader x");
    }
    let counts = bench.readings.counts();
    assert_eq!(
        (counts.cancelled, counts.requests, counts.passages),
        (3, 0, 3)
    );
    let closed = |answer: &mut oneshot::Receiver<_>| answer.try_recv().is_err();
    assert!(bench.answers.iter_mut().all(closed));
}

#[test]
fn a_failed_run_says_so() {
    let mut bench = Bench::default();
    bench.push(Lane::Authoritative, 0, 3);
    let run = bench.readings.next_run().expect("work");
    let other = bench.readings.next_run().expect("work");
    let failed = Err(RunError::Failed("broken".into()));
    bench.readings.finish(run, failed, "reader x");
    let answer = bench.answers[0].try_recv().expect("an answer");
    let error = answer.expect_err("failed");
    assert!(error.to_string().contains("reader x"), "{error}");
    assert_eq!(bench.readings.counts().failed_runs, 1);
    // The others are of no use any more.
    bench.readings.finish(other, Ok(read(false)), "reader x");
    assert_eq!(bench.read(), None);
}

#[test]
fn a_failed_run_counts_only_if_its_passage_does() {
    let failed = || Err(RunError::Failed("broken".into()));
    // Of three passages the second would be enough, and one fails.
    for (fails, is_answered) in [(0, false), (1, false), (2, true)] {
        let mut bench = Bench::default();
        bench.push(Lane::Authoritative, 0, 3);
        let mut runs: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
        // The last one ends first.
        while let Some(run) = runs.pop() {
            let done = if run.at == fails {
                failed()
            } else {
                Ok(read(run.at == 1))
            };
            bench.readings.finish(run, done, "reader x");
        }
        let answer = bench.answers[0].try_recv().expect("an answer");
        assert_eq!(answer.is_ok(), is_answered, "{fails}");
        assert_eq!(bench.readings.counts().failed_runs, 1);
    }
}
