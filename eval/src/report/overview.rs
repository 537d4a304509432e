//! A row for each run: what was gained, and what it did to the answers.

use spechop_types::K;

use crate::Variant;
use crate::score::exact_match;
use crate::stats::{mean, mean_share};

use super::cost::targets;
use super::estimate::Estimates;
use super::groups::{Case, Compared, Group, Pair, View, fastest};
use super::quality::{flag, known, same_answer};
use super::table::{Cell, Table};

pub(super) fn table(groups: &[Group<'_>]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        rows.extend(group.views.iter().map(|view| row(group, view)));
    }
    Table {
        name: "overview",
        title: "At a glance".into(),
        about: "A row for each run, beside its k = 1 and over the questions that both have answered, with the fewest \
                questions at once. EM, same answer and seconds are those of the fastest k."
            .into(),
        columns: [
            "Runs", "Source", "Questions", "RelLat, k=∞", "RelLat*", "Fastest k", "RelLat", "Target calls ÷ k=1",
            "Fastest variant", "RelLat of variant", "Questions of variant", "EM, k=1", "EM", "Same answer",
            "Seconds, k=1", "Seconds",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}

fn row(group: &Group<'_>, view: &View<'_>) -> Vec<Cell> {
    let expected = view.run.info.questions;
    let usual = view.main();
    let usual = fastest(usual.filter(|c| *c.variant == Variant::at(c.variant.k())));
    let any = view.fastest();
    let alone = || view.standard.values().next().into_iter().flatten();
    let cases = usual.map_or_else(
        || alone().map(Pair::beside_itself).collect(),
        |usual| usual.cases.clone(),
    );
    let each = |of: &dyn Fn(&Case<'_>) -> f64| cases.iter().map(of).collect::<Vec<_>>();
    // How good an answer is can only be said of one that is known.
    let known = known(&cases);
    let share = |of: &dyn Fn(&Case<'_>) -> f64| {
        let shares: Vec<f64> = known.iter().map(of).collect();
        Cell::interval(mean_share(&shares), 3).over(known.len(), cases.len())
    };
    let seconds = |of: &dyn Fn(&Case<'_>) -> f64| Cell::interval(mean(&each(of)), 2);
    let right = |answer: &str, case: &Case<'_>| flag(exact_match(answer, &case.question.answers));
    let text = |name: Option<String>| name.map_or_else(Cell::none, Cell::text);
    let unless_alone = |cell: Cell| usual.map_or_else(Cell::none, |_| cell);
    let unbounded = view.get(&Variant::at(K::Unbounded));
    vec![
        Cell::text(&group.title),
        Cell::text(&view.label),
        Cell::share_of(cases.len(), expected),
        unbounded.map_or_else(Cell::none, |unbounded| {
            Cell::interval(unbounded.rel_lat(), 3).over(unbounded.cases.len(), expected)
        }),
        usual.map_or_else(Cell::none, |usual| bound(view, usual)),
        text(usual.map(Compared::name)),
        Cell::interval(usual.and_then(Compared::rel_lat), 3),
        Cell::interval(usual.and_then(targets), 2),
        text(any.map(Compared::name)),
        Cell::interval(any.and_then(Compared::rel_lat), 3),
        any.map_or_else(Cell::none, |any| Cell::share_of(any.cases.len(), expected)),
        share(&|case| right(&case.base.answer, case)),
        unless_alone(share(&|case| right(&case.row.answer, case))),
        unless_alone(share(&|case| flag(same_answer(case)))),
        seconds(&|case| case.base.latency_ms / 1e3),
        unless_alone(seconds(&|case| case.row.latency_ms / 1e3)),
    ]
}

fn bound(view: &View<'_>, of: &Compared<'_>) -> Cell {
    let Some(widest) = view.widest(of.variant.speculator()) else {
        return Cell::none();
    };
    let bound = Estimates::of(widest.cases.iter().map(|case| case.row)).bound();
    Cell::interval(bound, 3).over(widest.cases.len(), view.run.info.questions)
}
