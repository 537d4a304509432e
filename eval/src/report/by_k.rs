//! What each k gives: simulated, live, replayed, and in theory.

use std::collections::BTreeSet;

use spechop_types::K;

use crate::score::exact_match;
use crate::{Source, Variant, stats};

use super::estimate::Estimates;
use super::groups::{Case, Compared, Group, Pair, View, rel_lat};
use super::speculation::{joined, rel_lat_gap};
use super::table::{Cell, Table};

pub(super) fn table(group: &Group<'_>, speculator: &str) -> Table {
    let mut views = group.views.iter();
    let theory = views.find_map(|view| Some((view, view.widest(speculator)?)));
    let theory = theory.map(|(view, widest)| {
        let estimates = Estimates::of(widest.cases.iter().map(|case| case.row));
        (estimates, widest.cases.len(), view.run.info.questions)
    });
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
        columns.push(format!("p of latency, {}", view.label));
        columns.push(format!("Questions, {}", view.label));
        if has_papers(view, speculator) {
            columns.push(format!("RelLat by the paper's algorithm, {}", view.label));
        }
    }
    columns.push("RelLat of theory".into());
    for view in &group.views {
        columns.push(format!("RelLat where k=1 is right, {}", view.label));
        columns.push(format!("Right at k=1, {}", view.label));
    }
    if simulated.is_some() {
        for view in &others {
            columns.push(format!("RelLat, {} ÷ simulated", view.label));
            columns.push(format!("Latency, {} ÷ simulated", view.label));
        }
    }

    let mut rows = Vec::new();
    // Unbounded is the paper's main setting.
    let mut ks = widths(group, speculator);
    ks.sort_by_key(|k| *k != K::Unbounded);
    for k in ks {
        let found: Vec<_> = group
            .views
            .iter()
            .map(|view| at(view, speculator, k))
            .collect();
        let mut row = vec![Cell::text(k.to_string())];
        for (view, cases) in group.views.iter().zip(&found) {
            row.push(Cell::interval(rel_lat(cases), 3));
            row.push(match cases.is_empty() || k == K::ONE {
                true => Cell::none(),
                false => Cell::p(stats::sign_flip(&gaps(cases))),
            });
            row.push(match cases.len() {
                0 => Cell::none(),
                n => Cell::share_of(n, view.run.info.questions),
            });
            if has_papers(view, speculator) {
                let papers = view.get(&Variant::paper(k).with_speculator(speculator));
                let rel_lat = papers.and_then(Compared::rel_lat);
                row.push(Cell::interval(rel_lat, 3));
            }
        }
        row.push(
            theory
                .as_ref()
                .map_or_else(Cell::none, |(theory, has, of)| {
                    Cell::number(theory.rel_lat(k), 3).over(*has, *of)
                }),
        );
        for cases in &found {
            let right = right_at_one(cases);
            row.push(Cell::interval(rel_lat(&right), 3));
            row.push(match cases.is_empty() {
                true => Cell::none(),
                false => Cell::count(right.len()),
            });
        }
        if let Some(simulated) = simulated {
            let simulated = at(simulated, speculator, k);
            for view in &others {
                let latencies = joined(&at(view, speculator, k), &simulated);
                let cell =
                    |gap| Cell::interval(gap, 3).over(latencies.len(), view.run.info.questions);
                row.push(cell(rel_lat_gap(&latencies)));
                row.push(cell(stats::of_sums(
                    &latencies,
                    |[live, _, simulated, _]| live / simulated,
                )));
            }
        }
        rows.push(row);
    }
    Table {
        name: "by_k",
        title: format!("RelLat by k, speculator {speculator}"),
        about: "The unbounded window first: it is the paper's main setting.".into(),
        columns,
        rows,
    }
}

/// Whether a run has the paper's algorithm to the letter, at any k.
fn has_papers(view: &View<'_>, speculator: &str) -> bool {
    let is_papers =
        |c: &Compared<'_>| *c.variant == Variant::paper(c.variant.k()).with_speculator(speculator);
    view.main().any(is_papers)
}

/// The questions that were answered with this k and else as usual, beside k = 1.
pub(super) fn at<'a>(view: &View<'a>, speculator: &str, k: K) -> Vec<Case<'a>> {
    if k == K::ONE {
        let pairs = view.standard.values().next().into_iter().flatten();
        return pairs.map(Pair::beside_itself).collect();
    }
    let compared = view.get(&Variant::at(k).with_speculator(speculator));
    compared
        .map(|compared| compared.cases.clone())
        .unwrap_or_default()
}

/// Every k that some run has as usual, 1 first, then unbounded, then chosen by the server; none where there is only k = 1.
pub(super) fn widths(group: &Group<'_>, speculator: &str) -> Vec<K> {
    let all = group.views.iter().flat_map(|view| view.main());
    let usual = all.filter(|c| c.is_usual() && c.variant.speculator() == speculator);
    let mut widths: BTreeSet<K> = usual.map(|c| c.variant.k()).collect();
    if !widths.is_empty() {
        widths.insert(K::ONE);
    }
    widths.into_iter().collect()
}

/// By how much each question took longer than at k = 1.
fn gaps(cases: &[Case<'_>]) -> Vec<f64> {
    let gap = |case: &Case<'_>| case.row.latency_ms - case.base.latency_ms;
    cases.iter().map(gap).collect()
}

/// The questions that the standard agent answers exactly right: the paper's Table 5.
pub(super) fn right_at_one<'a>(cases: &[Case<'a>]) -> Vec<Case<'a>> {
    let right = |case: &&Case<'_>| exact_match(&case.base.answer, &case.question.answers);
    cases.iter().filter(right).copied().collect()
}
