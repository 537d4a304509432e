//! What answers say of themselves, beside whether they are right.

use crate::score::exact_match;
use crate::stats::mean_share;
use crate::{Confidence, Question, Row, Variant};

use super::groups::{Group, View, name};
use super::quality::flag;
use super::table::{Cell, Table};

/// Bins of what is said, of equal width.
const BINS: usize = 10;
/// The share of the right answers that a bound is to let stay.
const STAY: f64 = 0.8;

/// How likely an answer says that it is to be right, and whether it is. `eval/train/fit_confidence.py` reckons the
/// same of recordings.
type Said = (f64, bool);

/// A row for each way. Without rows if no answer says how likely it is.
pub(super) fn table(group: &Group<'_>) -> Table {
    Table {
        name: "calibration",
        title: "What answers say of themselves".into(),
        about: "How likely an answer says that it is to be right, beside whether it is, by exact match. An answer \
                that was not looked up says 0, and counts. Answers that say nothing are left out: nobody knows what \
                they would have said."
            .into(),
        columns: [
            "Source", "Variant", "Questions", "Chance said", "EM", "Calibration error", "Wrong that stay", "Supported",
            "Withheld",
        ]
        .map(String::from)
        .into(),
        rows: group.views.iter().flat_map(rows).collect(),
    }
}

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let standard = view.standard.iter().map(|(at_once, pairs)| {
        let answers: Vec<_> = pairs.iter().map(|pair| (pair.question, pair.row)).collect();
        (name(&Variant::standard(), *at_once), answers)
    });
    let compared = view.compared.iter().map(|compared| {
        let cases = compared.cases.iter();
        let answers: Vec<_> = cases.map(|case| (case.question, case.row)).collect();
        (compared.name(), answers)
    });
    let row = |(way, answers): (String, Vec<(&Question, &Row)>)| {
        let mut row = vec![Cell::text(&view.label), Cell::text(way)];
        row.extend(cells(&answers, view.run.info.questions)?);
        Some(row)
    };
    standard.chain(compared).filter_map(row).collect()
}

/// `None` if no answer says how likely it is.
fn cells(answers: &[(&Question, &Row)], expected: usize) -> Option<[Cell; 7]> {
    let say = |(question, row): &(&Question, &Row)| {
        let confidence = row.confidence?;
        let right = exact_match(&row.answer, &question.answers);
        Some((confidence, (confidence.chance?, right)))
    };
    let told: Vec<(Confidence, Said)> = answers.iter().filter_map(say).collect();
    let said: Vec<Said> = told.iter().map(|(_, said)| *said).collect();
    if said.is_empty() {
        return None;
    }
    let share = |of: &dyn Fn(&(Confidence, Said)) -> f64| {
        let values: Vec<f64> = told.iter().map(of).collect();
        Cell::interval(mean_share(&values), 3)
    };
    Some([
        Cell::share_of(said.len(), expected),
        share(&|(_, (chance, _))| *chance),
        share(&|(_, (_, right))| flag(*right)),
        Cell::number(calibration_error(&said), 3),
        Cell::number(wrong_that_stay(&said), 3),
        share(&|(itself, _)| flag(itself.supported)),
        share(&|(itself, _)| flag(itself.withheld)),
    ])
}

/// The mean gap between what is said and what is so, over the bins, each weighed by its answers.
fn calibration_error(said: &[Said]) -> f64 {
    let mut bins = [0.0_f64; BINS];
    for (chance, right) in said {
        let at = (chance * BINS as f64) as usize;
        bins[at.min(BINS - 1)] += chance - flag(*right);
    }
    let gaps: f64 = bins.iter().map(|gap| gap.abs()).sum();
    gaps / said.len() as f64
}

/// Which share of the wrong answers stays if the bound lets [`STAY`] of the right ones stay. `None` if all are right, or
/// all wrong.
fn wrong_that_stay(said: &[Said]) -> Option<f64> {
    let of = |which: bool| {
        let of = said.iter().filter(|(_, right)| *right == which);
        let mut chances: Vec<f64> = of.map(|(chance, _)| *chance).collect();
        chances.sort_by(|a, b| b.total_cmp(a));
        chances
    };
    let (right, wrong) = (of(true), of(false));
    // So many at least.
    let kept = (STAY * right.len() as f64).ceil() as usize;
    let least = right.get(kept.checked_sub(1)?)?;
    let stay = wrong.iter().filter(|chance| *chance >= least).count();
    (!wrong.is_empty()).then(|| stay as f64 / wrong.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_mean_gap_of_the_bins() {
        // Four say 0.6 in all and one is right; six say 5.6 and five are. Who says 1 is in the last bin.
        let mut said = vec![(0.15, false), (0.15, false), (0.15, false), (0.15, true)];
        said.extend([(0.9, true); 4]);
        said.extend([(1.0, true), (1.0, false)]);
        assert!((calibration_error(&said) - 0.1).abs() < 1e-12);
        // Gaps of a bin that are of both signs cancel: it is right as often as it says.
        assert_eq!(calibration_error(&[(0.5, true), (0.5, false)]), 0.0);
    }

    #[test]
    fn the_bound_lets_four_of_five_right_answers_stay() {
        let right = [0.1, 0.9, 0.6, 0.7, 0.8].map(|chance| (chance, true));
        let wrong = [0.5, 0.95, 0.2, 0.6].map(|chance| (chance, false));
        let both = [&right[..], &wrong].concat();
        assert_eq!(wrong_that_stay(&both), Some(0.5));
        // Of two right answers both must stay.
        let few = [&right[..2], &wrong].concat();
        assert_eq!(wrong_that_stay(&few), Some(1.0));
        assert_eq!(wrong_that_stay(&right), None);
        assert_eq!(wrong_that_stay(&wrong), None);
    }
}
