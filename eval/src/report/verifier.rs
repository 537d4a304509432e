//! How well the verifier tells right guesses from wrong ones, where the data set knows the hops.

use crate::HopKind;
use crate::decisions::is_right;
use crate::stats;

use super::groups::{Case, Group};
use super::table::{Cell, Table};

/// Counts of a question's compared guesses.
#[derive(Default)]
struct Counts {
    hops: f64,
    compared: f64,
    accepted: f64,
    /// Accepted, and the observation holds the answer of a gold hop.
    accepted_known: f64,
    /// Of them, those whose guess holds it too.
    accepted_right: f64,
    rejected_known: f64,
    rejected_right: f64,
}

pub(super) fn table(group: &Group<'_>) -> Table {
    let mut rows = Vec::new();
    for view in &group.views {
        for compared in view.compared.iter().filter(|c| !c.variant.unverified) {
            let counts: Vec<Counts> = compared.cases.iter().map(count).collect();
            let share = |above: fn(&Counts) -> f64, below: fn(&Counts) -> f64| {
                let pairs: Vec<_> = counts.iter().map(|c| [above(c), below(c)]).collect();
                Cell::interval(stats::share(&pairs), 3)
            };
            let sum =
                |of: fn(&Counts) -> f64| Cell::count(counts.iter().map(of).sum::<f64>() as usize);
            rows.push(vec![
                Cell::text(&view.label),
                Cell::text(compared.name()),
                Cell::share_of(compared.cases.len(), view.run.info.questions),
                sum(|c| c.hops),
                sum(|c| c.compared),
                share(|c| c.accepted, |c| c.compared),
                sum(|c| c.accepted_known),
                share(|c| c.accepted_right, |c| c.accepted_known),
                sum(|c| c.rejected_known),
                share(|c| c.rejected_right, |c| c.rejected_known),
                share(
                    |c| c.accepted_right,
                    |c| c.accepted_right + c.rejected_right,
                ),
            ]);
        }
    }
    Table {
        name: "verifier",
        title: "The verifier".into(),
        about: "Comparisons of a guess with an observation, against the answers of the data set's own hops. Recall is \
                the share of checkable guesses with the right answer that were accepted."
            .into(),
        columns: [
            "Source", "Variant", "Questions", "Hops", "Compared", "Accepted", "Accepted, checkable",
            "Precision", "Rejected, checkable", "False rejects", "Recall",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}

fn count(case: &Case<'_>) -> Counts {
    let mut counts = Counts::default();
    for hop in &case.row.hops {
        counts.hops += 1.0;
        if hop.kind == HopKind::Observed {
            continue;
        }
        counts.compared += 1.0;
        let guess = hop.guess.as_deref();
        let right = guess.and_then(|guess| is_right(&case.question.hops, &hop.observed, guess));
        let known = super::quality::flag(right.is_some());
        let right = super::quality::flag(right == Some(true));
        if hop.kind == HopKind::Accepted {
            counts.accepted += 1.0;
            counts.accepted_known += known;
            counts.accepted_right += right;
        } else {
            counts.rejected_known += known;
            counts.rejected_right += right;
        }
    }
    counts
}
