//! What is chosen once a speculator has changed.

use super::*;

/// Two hundred questions whose guesses were all right, played.
fn always_right() -> (Tunings, TuningOf) {
    let (tunings, of) = drafted_after(true, 1, None, 200);
    tunings.weigh(&of, ALL, policy(), 10_000.0);
    (tunings, of)
}

/// A question of two hops whose guesses are wrong.
fn learn_wrong(tunings: &Tunings, of: &TuningOf, question: u32) {
    let most = NonZeroUsize::new(100).unwrap();
    let (past, stages) = asked(question, true, u32::MAX, None, |_| Some(0.3));
    tunings.learn(of.clone(), most, &stages, past, None, []);
}

fn changes(tunings: &Tunings, of: &TuningOf) -> u64 {
    let tunings = tunings.tunings.lock();
    tunings.seen.peek(of).unwrap().changes
}

#[test]
fn of_a_speculator_that_has_changed_older_guesses_say_nothing() {
    let (tunings, of) = always_right();
    assert!(tunings.guess_chance(&of).share() > 0.9);
    for question in 1..=60 {
        learn_wrong(&tunings, &of, question);
    }
    let chance = tunings.guess_chance(&of).share();
    assert!(chance < 0.1, "{chance}");
    tunings.weigh(&of, ALL, policy(), 10_000.0);
    let mut settings = Settings::default();
    let choice = tunings.settle(&of, ALL, 0.0, NonZeroUsize::MAX, &mut settings);
    let choice = choice.unwrap();
    assert!(
        !matches!(choice.reason, Reason::Played { .. }),
        "{choice:?}"
    );
}

/// The question that shows the change is nothing to choose by for hundreds of hops.
#[test]
fn questions_since_a_change_are_kept_and_played_once_they_are_enough() {
    let (tunings, of) = always_right();
    let shown = (1..20).find(|question| {
        learn_wrong(&tunings, &of, *question);
        changes(&tunings, &of) == 1
    });
    let shown = shown.unwrap();
    let history = tunings.history(&of);
    let hops = history.questions().flat_map(|past| &past.hops);
    let known: Vec<bool> = hops.map(PastHop::knows_guess).collect();
    let kept = known.iter().rev().take_while(|is_known| **is_known).count();
    assert!(kept >= 2 * shown as usize, "{kept} of {shown} questions");
    let forgotten = known.len() - kept;
    assert!(forgotten > 0 && !known[..forgotten].contains(&true));
    // Twelve further questions have 24 hops.
    for question in 1..=12 {
        assert!(!tunings.is_weighing_due(&of), "{question}");
        learn_wrong(&tunings, &of, shown + question);
    }
    assert_eq!(changes(&tunings, &of), 1);
    assert!(tunings.is_weighing_due(&of));
    tunings.weigh(&of, ALL, policy(), 10_000.0);
    assert!(!tunings.is_weighing_due(&of));
}
