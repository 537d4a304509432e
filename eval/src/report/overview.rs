//! A row for each run: what was gained, and what it did to the answers.

use crate::Variant;
use crate::score::exact_match;
use crate::stats::mean;

use super::cost::targets;
use super::estimate::Estimates;
use super::groups::{Case, Compared, Group, Pair, View};
use super::quality::{flag, same_answer};
use super::table::{Cell, Table};

pub(super) fn table(groups: &[Group<'_>]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        rows.extend(group.views.iter().map(|view| row(group, view)));
    }
    Table {
        name: "overview",
        title: "At a glance".into(),
        about: "Beside k = 1: the fastest k of each run that is else as usual (k=N and nothing more), over the questions \
                that both have answered; then the fastest variant of all that have the usual verifier. Both are as run with the fewest \
                questions at once, and both were picked on the very questions that they are shown on, which flatters them: the more so, the more \
                there were to pick from. RelLat: latency as a share of that of k = 1. In brackets: 95 % bootstrap \
                intervals over questions. Sections below have the rest."
            .into(),
        columns: [
            "Runs", "Source", "Questions", "EM, k=1", "Fastest k", "EM", "Same answer",
            "Seconds, k=1", "Seconds", "RelLat", "RelLat*", "Target calls ÷ k=1", "Fastest variant",
            "RelLat of variant", "Questions of variant",
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
    let any = fastest(view.main().filter(|c| c.variant.is_by_rule()));
    let alone = || view.standard.values().next().into_iter().flatten();
    let cases = usual.map_or_else(
        || alone().map(Pair::beside_itself).collect(),
        |usual| usual.cases.clone(),
    );
    let mean_of = |of: &dyn Fn(&Case<'_>) -> f64, digits| {
        Cell::interval(mean(&cases.iter().map(of).collect::<Vec<_>>()), digits)
    };
    let right = |answer: &str, case: &Case<'_>| flag(exact_match(answer, &case.question.answers));
    let mut row = vec![
        Cell::text(&group.title),
        Cell::text(&view.label),
        Cell::share_of(cases.len(), expected),
        mean_of(&|case| right(&case.base.answer, case), 3),
    ];
    match usual {
        None => {
            let seconds = mean_of(&|case| case.base.latency_ms / 1e3, 2);
            row.extend([Cell::none(), Cell::none(), Cell::none(), seconds]);
            row.resize(12, Cell::none());
        }
        Some(usual) => row.extend([
            Cell::text(usual.name()),
            mean_of(&|case| right(&case.row.answer, case), 3),
            mean_of(&|case| flag(same_answer(case)), 3),
            mean_of(&|case| case.base.latency_ms / 1e3, 2),
            mean_of(&|case| case.row.latency_ms / 1e3, 2),
            Cell::interval(usual.rel_lat(), 3),
            bound(view, usual),
            Cell::interval(targets(usual), 2),
        ]),
    }
    match any {
        None => row.resize(15, Cell::none()),
        Some(any) => row.extend([
            Cell::text(any.name()),
            Cell::interval(any.rel_lat(), 3),
            Cell::share_of(any.cases.len(), expected),
        ]),
    }
    row
}

fn bound(view: &View<'_>, of: &Compared<'_>) -> Cell {
    let Some(widest) = view.widest(of.variant.speculator()) else {
        return Cell::none();
    };
    let bound = Estimates::of(widest.cases.iter().map(|case| case.row)).bound();
    Cell::interval(bound, 3).over(widest.cases.len(), view.run.info.questions)
}

fn fastest<'b, 'a: 'b>(of: impl Iterator<Item = &'b Compared<'a>>) -> Option<&'b Compared<'a>> {
    let rated = of.filter_map(|c| Some((c, c.rel_lat_value()?)));
    rated
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(fastest, _)| fastest)
}
