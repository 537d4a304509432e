//! What each k gives: simulated, live, replayed, and in theory.

use std::collections::BTreeSet;

use crate::score::exact_match;
use crate::{Source, Variant, stats};

use super::estimate::Estimates;
use super::groups::{Case, Group, Pair, View, rel_lat};
use super::speculation::{joined, rel_lat_gap};
use super::table::{Cell, Table};

pub(super) fn table(group: &Group<'_>, speculator: &str) -> Table {
    let theory = group.views.iter().find_map(|view| view.widest(speculator));
    let theory = theory.map(|widest| Estimates::of(widest.cases.iter().map(|case| case.row)));
    let others: Vec<&View<'_>> = group
        .views
        .iter()
        .filter(|view| view.run.info.source != Source::Simulated)
        .collect();
    let simulated = group
        .views
        .iter()
        .find(|view| view.run.info.source == Source::Simulated);

    let mut columns = vec!["k".to_owned()];
    for view in &group.views {
        columns.push(format!("RelLat, {}", view.label));
        columns.push(format!("Questions, {}", view.label));
    }
    columns.push("RelLat of theory".into());
    columns.extend(
        group
            .views
            .iter()
            .map(|view| format!("RelLat where right, {}", view.label)),
    );
    if simulated.is_some() {
        for view in &others {
            columns.push(format!("RelLat, {} ÷ simulated", view.label));
            columns.push(format!("Latency, {} ÷ simulated", view.label));
        }
    }

    let mut rows = Vec::new();
    for k in widths(group, speculator) {
        let found: Vec<_> = group
            .views
            .iter()
            .map(|view| at(view, speculator, k))
            .collect();
        let mut row = vec![Cell::text(width(k))];
        for (view, cases) in group.views.iter().zip(&found) {
            row.push(Cell::interval(rel_lat(cases), 3));
            row.push(match cases.len() {
                0 => Cell::none(),
                n => Cell::share_of(n, view.run.info.questions),
            });
        }
        row.push(Cell::number(
            theory.as_ref().and_then(|theory| theory.rel_lat(k)),
            3,
        ));
        for cases in &found {
            row.push(Cell::interval(rel_lat(&right_both_ways(cases)), 3));
        }
        if let Some(simulated) = simulated {
            let simulated = at(simulated, speculator, k);
            for view in &others {
                let latencies = joined(&at(view, speculator, k), &simulated);
                row.push(Cell::interval(rel_lat_gap(&latencies), 3));
                let gap = stats::of_sums(&latencies, |[live, _, simulated, _]| live / simulated);
                row.push(Cell::interval(gap, 3));
            }
        }
        rows.push(row);
    }
    Table {
        name: "by_k",
        title: format!("RelLat by k, speculator {speculator}"),
        about: "Latency as a share of the latency at k = 1, over the same questions. Where right: only \
                over questions that both k = 1 and this k answer exactly right (RelLat | EM). The ratios to the \
                simulated run are over the questions that both runs have. The theory \
                is of endless questions and steady stages, with p, α and β of the first run here that has \
                them."
            .into(),
        columns,
        rows,
    }
}

/// The questions that were answered with this k and else as usual, beside k = 1.
pub(super) fn at<'a>(view: &View<'a>, speculator: &str, k: Option<u32>) -> Vec<Case<'a>> {
    if k == Some(1) {
        let pairs = view.standard.values().next().into_iter().flatten();
        let case = |pair: &Pair<'a>| Case {
            question: pair.question,
            base: pair.row,
            row: pair.row,
        };
        return pairs.map(case).collect();
    }
    let speculator = speculator.to_owned();
    let compared = view.get(&Variant {
        speculator,
        ..Variant::at(k)
    });
    compared
        .map(|compared| compared.cases.clone())
        .unwrap_or_default()
}

/// Every k that some run has as usual, 1 first and unbounded last; none where there is only k = 1.
pub(super) fn widths(group: &Group<'_>, speculator: &str) -> Vec<Option<u32>> {
    let all = group.views.iter().flat_map(|view| view.main());
    let usual = all.filter(|c| c.is_usual() && c.variant.speculator == speculator);
    let mut widths: BTreeSet<u32> = usual.map(|c| c.variant.k.unwrap_or(u32::MAX)).collect();
    if !widths.is_empty() {
        widths.insert(1);
    }
    widths
        .into_iter()
        .map(|k| (k != u32::MAX).then_some(k))
        .collect()
}

pub(super) fn width(k: Option<u32>) -> String {
    k.map_or_else(|| "inf".to_owned(), |k| k.to_string())
}

fn right_both_ways<'a>(cases: &[Case<'a>]) -> Vec<Case<'a>> {
    let right = |case: &&Case<'_>| {
        let golds = &case.question.answers;
        exact_match(&case.base.answer, golds) && exact_match(&case.row.answer, golds)
    };
    cases.iter().filter(right).copied().collect()
}
