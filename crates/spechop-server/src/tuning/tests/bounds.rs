//! How much is remembered, and what goes first.

use spechop_store::sealed::{self, Readers};

use super::*;
use crate::state::BYTES_MAX;

#[test]
fn of_a_long_history_the_end_is_kept() {
    let mut history = History::new(100_000);
    let hop = PastHop {
        draft_held: None,
        segment_ms: 1.0,
        target_ms: 1.0,
        guess: PastGuess::Late,
        depends_on: None,
    };
    for n in 0..30_000_u32 {
        let hops = vec![hop.clone(); 2];
        let final_ms = f64::from(n);
        history.push(Past { hops, final_ms });
    }
    let mut room = 20_001;
    let last = last_questions(&history, &mut room);
    assert_eq!((last.len(), room), (10_000, 0));
    assert_eq!(last[0].final_ms, 20_000.0);
    assert_eq!(last[9_999].final_ms, 29_999.0);
}

#[test]
fn of_too_many_tunings_the_last_ones_used_stay() {
    let tunings = Tunings::new(TunerOptions::default(), NonZeroUsize::MIN);
    let tenant = |number: usize| llm(&format!("t{number}"));
    teach_of(&tunings, &tenant(0), 1);
    for number in 1..=TUNINGS_MAX.get() {
        // A question is a use; whoever only looks is not there.
        tunings.choose(&tenant(0), 0.0);
        tunings.known(&tenant(1).tenant, 0.0, false);
        tunings.choose(&llm("nobody"), 0.0);
        teach_of(&tunings, &tenant(number), 1);
    }
    let hops = |number| tunings.known(&tenant(number).tenant, 0.0, false).len();
    assert_eq!([hops(0), hops(1), hops(2)], [1, 0, 1]);
    let bounded = tunings.tunings.lock();
    assert_eq!(bounded.seen.len(), TUNINGS_MAX.get());
    assert_eq!(bounded.questions, TUNINGS_MAX.get());
}

#[test]
fn of_too_many_questions_the_last_tunings_used_keep_theirs() {
    let most = NonZeroUsize::new(QUESTIONS_MAX).unwrap();
    let mut bounded = Bounded {
        seen: OwnedCache::new(TUNINGS_MAX),
        questions: 0,
    };
    let seen = |count: usize| {
        let mut seen = Seen::new(Tuner::new(TunerOptions::default()), most);
        for _ in 0..count {
            let (hops, final_ms) = (Vec::new(), 1.0);
            seen.last.push(Past { hops, final_ms });
        }
        seen
    };
    let mut keep = |tenant: &str, count| {
        bounded.take(&llm(tenant));
        bounded.keep(llm(tenant), seen(count));
        let there: Vec<String> = bounded
            .seen
            .iter()
            .map(|(of, _)| of.tenant.to_string())
            .collect();
        (there.concat(), bounded.questions)
    };
    assert_eq!(keep("a", 40_000), ("a".to_owned(), 40_000));
    assert_eq!(keep("b", 40_000), ("ab".to_owned(), 80_000));
    assert_eq!(keep("a", 60_000), ("ba".to_owned(), 100_000));
    assert_eq!(keep("c", 1), ("ac".to_owned(), 60_001));
    assert_eq!(keep("d", 100_000), ("d".to_owned(), 100_000));
}

/// As much as can be kept is no longer than what is read.
#[tokio::test]
async fn the_longest_file_can_be_read() {
    let home = Home::new();
    let (tunings, keeper) = home.start("").await;
    // As many verdicts and times as a tuner remembers, and the longest name.
    teach_of(&tunings, &llm(&"x".repeat(64)), 400);
    keeper.save().await;
    let length = || fs::metadata(home.state()).unwrap().len();
    let with_questions = length();
    let kept: Option<Kept> = PURPOSE.read(&home.state()).unwrap();
    let mut kept = kept.unwrap();
    let questions = std::mem::take(&mut kept.tunings[0].questions);
    sealed::write(&home.state(), &kept, Readers::Owner).unwrap();
    let estimates = length();
    // Questions have a bound of their own, counted in hops.
    let hops: usize = questions.iter().map(|past| past.hops.len()).sum();
    let hop = (with_questions - estimates).div_ceil(hops as u64);
    let all = estimates * TUNINGS_MAX.get() as u64 + hop * kept::HOPS_KEPT as u64;
    assert!(all < BYTES_MAX as u64, "{all} bytes");
}
