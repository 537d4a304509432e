use std::future::poll_fn;

use futures::FutureExt;
use tokio::time::timeout;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::ZERO;

fn bounded(events_max: usize, bytes_max: usize) -> Log {
    Log::new(Bounds {
        events_max,
        bytes_max,
        total_max: usize::MAX,
        total: Arc::default(),
    })
}

fn log() -> Log {
    bounded(100, usize::MAX)
}

fn event(sequence: u64) -> AskEvent {
    AskEvent {
        sequence,
        ..AskEvent::default()
    }
}

/// What a reader finds, in a word: the number of an event, or how it ends.
async fn next(log: &Log, reader: u64) -> String {
    match poll_fn(|context| log.poll_next(reader, context)).await {
        Found::Event(event) => event.sequence.to_string(),
        Found::Failed(error) => error.to_string(),
        Found::Unread => "unread".to_owned(),
        Found::Off(off) => format!("{off:?}"),
        Found::Over => "over".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn every_reader_reads_in_order_up_to_the_end() {
    let log = log();
    let early = log.attach(0).unwrap();
    log.push(event(1), false);
    log.push(event(2), false);
    let late = log.attach(1).unwrap();
    assert!(log.read_up(LIMIT).now_or_never().is_none());
    assert_eq!(next(&log, early).await, "1");
    assert_eq!(next(&log, late).await, "2");
    assert_eq!(next(&log, early).await, "2");
    // Whoever waits is woken, by an event and by the end.
    let push = async { log.push(event(3), true) };
    let (one, other, ()) = tokio::join!(next(&log, early), next(&log, late), push);
    assert_eq!((one.as_str(), other.as_str()), ("3", "3"));
    assert!(!log.read_up(LIMIT).await);
    assert_eq!(next(&log, early).await, "over");
    // Whoever comes later finds the end in any case.
    for after in 0..4 {
        let reader = log.attach(after).unwrap();
        for expected in after.min(2)..3 {
            assert_eq!(next(&log, reader).await, (expected + 1).to_string());
        }
        assert_eq!(next(&log, reader).await, "over");
    }
    assert_eq!(log.attach(4), Err(OffTheLog::Ahead { last: 3 }));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_the_end_and_stays_the_first_one() {
    let log = log();
    let reader = log.attach(0).unwrap();
    let fail = async {
        log.failed(Arc::new(AskError::Cancelled));
        log.failed(Arc::new(AskError::Lost));
    };
    let (found, ()) = tokio::join!(next(&log, reader), fail);
    assert_eq!(found, AskError::Cancelled.to_string());
    assert_eq!(next(&log, reader).await, "over");
    let reader = log.attach(0).unwrap();
    assert_eq!(next(&log, reader).await, AskError::Cancelled.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_late_only_while_something_waits_and_nothing_is_taken() {
    let log = log();
    let reader = log.attach(0).unwrap();
    // Nothing to read: nobody is late, however long it takes.
    assert!(timeout(10 * LIMIT, log.forsaken(LIMIT, NOW)).await.is_err());
    for sequence in 1..4 {
        log.push(event(sequence), false);
    }
    let almost = LIMIT - Duration::from_millis(1);
    for number in ["1", "2"] {
        assert!(timeout(almost, log.forsaken(LIMIT, NOW)).await.is_err());
        assert_eq!(next(&log, reader).await, number);
    }
    // What is sent meanwhile gives no more time.
    assert!(timeout(almost, log.forsaken(LIMIT, NOW)).await.is_err());
    log.push(event(4), false);
    let began = Instant::now();
    assert_eq!(log.forsaken(LIMIT, NOW).await, Forsaken::Unread);
    assert!(began.elapsed() <= Duration::from_millis(2));
    assert_eq!(next(&log, reader).await, "unread");
}

#[tokio::test(start_paused = true)]
async fn a_question_has_so_many_readers_and_no_more() {
    let log = log();
    let readers: Vec<_> = (0..READERS_MAX).map(|_| log.attach(0).unwrap()).collect();
    assert_eq!(log.attach(0), Err(OffTheLog::TooManyReaders));
    assert_eq!(log.attach_last(), Err(OffTheLog::TooManyReaders));
    // Whoever leaves makes room, and so does whoever is cut off.
    log.detach(readers[0]);
    log.attach_last().unwrap();
    assert_eq!(log.attach(0), Err(OffTheLog::TooManyReaders));
    log.push(event(1), false);
    assert_eq!(next(&log, readers[1]).await, "1");
    assert!(timeout(2 * LIMIT, log.forsaken(LIMIT, NOW)).await.is_err());
    log.attach(0).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_cut_off_alone() {
    let log = log();
    let slow = log.attach(0).unwrap();
    let other = log.attach(0).unwrap();
    log.push(event(1), false);
    assert_eq!(next(&log, other).await, "1");
    assert!(timeout(2 * LIMIT, log.forsaken(LIMIT, NOW)).await.is_err());
    assert_eq!(next(&log, slow).await, "unread");
    log.push(event(2), true);
    assert_eq!(next(&log, other).await, "2");
    assert!(log.read_up(LIMIT).await, "one was cut off");
}

/// Others could hold it for as long as they like, one after the other.
#[tokio::test(start_paused = true)]
async fn no_place_is_held_for_whoever_comes_after_the_end() {
    let log = log();
    let reader = log.attach(0).unwrap();
    log.push(event(1), true);
    let guest = log.attach(0).unwrap();
    assert!(log.read_up(LIMIT).now_or_never().is_none());
    assert_eq!(next(&log, reader).await, "1");
    assert_eq!(log.read_up(LIMIT).now_or_never(), Some(false));
    // Whoever is cut off for that was no reader of the task's.
    tokio::time::advance(LIMIT).await;
    assert_eq!(log.read_up(LIMIT).now_or_never(), Some(false));
    assert_eq!([log.cut_late_guests(), log.cut_late_guests()], [1, 0]);
    assert_eq!(log.read_up(LIMIT).now_or_never(), Some(false));
    assert_eq!(next(&log, guest).await, "unread");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_forsaken_when_it_was_alone_for_long_enough() {
    let log = log();
    let reader = log.attach(0).unwrap();
    let linger = Duration::from_secs(5);
    assert!(timeout(LIMIT, log.forsaken(LIMIT, linger)).await.is_err());
    log.detach(reader);
    let almost = linger - Duration::from_millis(1);
    assert!(timeout(almost, log.forsaken(LIMIT, linger)).await.is_err());
    // Somebody else takes over.
    let reader = log.attach(0).unwrap();
    assert!(timeout(LIMIT, log.forsaken(LIMIT, linger)).await.is_err());
    log.detach(reader);
    let began = Instant::now();
    assert_eq!(log.forsaken(LIMIT, linger).await, Forsaken::Away);
    assert!(began.elapsed() >= linger);
    assert_eq!(
        log.forsaken(LIMIT, NOW).now_or_never(),
        Some(Forsaken::Away)
    );
}

#[tokio::test(start_paused = true)]
async fn the_past_is_bounded_and_what_a_reader_has_yet_to_take_is_not() {
    for log in [bounded(2, usize::MAX), bounded(usize::MAX, 4)] {
        let reader = log.attach(0).unwrap();
        for sequence in 1..9 {
            log.push(event(sequence), false);
        }
        for number in ["1", "2", "3"] {
            assert_eq!(next(&log, reader).await, number);
        }
        log.detach(reader);
        assert!(log.bytes() <= 4, "{}", log.bytes());
        for after in 0..6 {
            assert_eq!(
                log.attach(after),
                Err(OffTheLog::Behind { after, first: 7 })
            );
        }
        let reader = log.attach(6).unwrap();
        assert_eq!(next(&log, reader).await, "7");
    }
}

#[test]
fn a_log_counts_among_all_as_long_as_it_is_there() {
    let total = Arc::new(AtomicUsize::new(0));
    let bounds = Bounds {
        events_max: 100,
        bytes_max: 100,
        total_max: 6,
        total: Arc::clone(&total),
    };
    let [one, other] = [Log::new(bounds.clone()), Log::new(bounds)];
    one.push(event(1), false);
    one.push(event(2), false);
    assert_eq!(total.load(Ordering::Relaxed), 4);
    for sequence in 1..9 {
        other.push(event(sequence), false);
    }
    // It gives up its own past, and keeps its last event.
    assert_eq!((one.bytes(), other.bytes()), (4, 2));
    drop(one);
    assert_eq!(total.load(Ordering::Relaxed), 2);
    drop(other);
    assert_eq!(total.load(Ordering::Relaxed), 0);
}
