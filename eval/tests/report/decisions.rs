//! Decisions, counted once, judged by every verifier.

use spechop_eval::decisions::{Decision, Quality, decisions, draw};
use spechop_verifier::Mode;

use super::*;

fn found() -> Vec<Decision> {
    decisions(&both())
}

#[test]
fn each_is_counted_once_and_judged_by_all() {
    let found = found();
    // Simulated and live, at every k, have compared the same guesses: those of three hops a question.
    let questions = found.len() / 3;
    assert_eq!(found.len() % 3, 0);
    for (_, mode) in spechop_eval::decisions::VERIFIERS {
        let quality = Quality::of(&found, mode, |one| one.gold);
        assert_eq!(
            (quality.decisions, quality.known),
            (3 * questions, 3 * questions)
        );
        assert_eq!(
            (quality.accepted, quality.right_accepted),
            (2 * questions, 2 * questions)
        );
        is_all(&[quality.precision(), quality.recall()]);
    }
    // What a person says goes before what the data set says.
    let nobody = Quality::of(&found, Mode::Rule, |_| None);
    assert_eq!((nobody.precision(), nobody.recall()), (None, None));
    assert!(nobody.p().is_some());
}

fn is_all(shares: &[Option<f64>]) {
    assert!(shares.iter().all(|share| *share == Some(1.0)), "{shares:?}");
}

#[test]
fn a_draw_has_both_kinds_and_is_the_same_again() {
    let drawn = draw(found(), Mode::Paper, 10, 1);
    assert_eq!(drawn.len(), 10);
    assert_eq!(drawn.iter().filter(|one| one.paper.accepted).count(), 5);
    assert_eq!(drawn, draw(found(), Mode::Paper, 10, 1));
    assert_ne!(drawn, draw(found(), Mode::Paper, 10, 2));
    let mut backwards = found();
    backwards.reverse();
    assert_eq!(drawn, draw(backwards, Mode::Paper, 10, 1));
    // Shares are of what was drawn from.
    for (_, mode) in spechop_eval::decisions::VERIFIERS {
        let [sample, all] = [&drawn, &found()].map(|some| Quality::of(some, mode, |one| one.gold));
        assert!((sample.p().unwrap() - all.p().unwrap()).abs() < 1e-9);
        assert_eq!((sample.decisions, sample.accepted), (10, 5));
    }
    // If there are too few of one kind, the other fills up; if there are too few at all, all are drawn.
    let all = found();
    let rejected = all.iter().filter(|one| !one.paper.accepted).count();
    let many = draw(found(), Mode::Paper, all.len() - 1, 1);
    assert_eq!(many.len(), all.len() - 1);
    assert_eq!(
        many.iter().filter(|one| !one.paper.accepted).count(),
        rejected
    );
    assert_eq!(
        draw(found(), Mode::Paper, 10 * all.len(), 1).len(),
        all.len()
    );
    assert_eq!(draw(found(), Mode::Paper, 0, 1), []);
}
