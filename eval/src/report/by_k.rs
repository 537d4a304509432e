//! What each k gives: simulated, live, replayed, and in theory.

use std::collections::BTreeSet;

use spechop_types::K;

use crate::score::exact_match;
use crate::{Source, Variant, stats};

use super::estimate::Estimates;
use super::groups::{Case, Compared, Group, Pair, View, rel_lat};
use super::speculation::{joined, rel_lat_gap};
use super::table::{Cell, Column, Table};

pub(super) fn table(group: &Group<'_>, speculator: &str) -> Table {
    // Unbounded is the paper's main setting.
    let mut ks = widths(group, speculator);
    ks.sort_by_key(|k| *k != K::Unbounded);
    let (columns, rows) = Column::fill(columns(group, speculator), ks);
    Table {
        name: "by_k",
        title: format!("RelLat by k, speculator {speculator}"),
        about: "The unbounded window first: it is the paper's main setting.".into(),
        columns,
        rows,
    }
}

fn columns<'c>(group: &'c Group<'_>, speculator: &'c str) -> Vec<Column<'c, K>> {
    let views = &group.views;
    let mut columns = vec![Column::new("k", |k: K| Cell::text(k.to_string()))];
    columns.extend(views.iter().flat_map(|view| measured(view, speculator)));
    columns.push(theory(group, speculator));
    columns.extend(views.iter().flat_map(|view| where_right(view, speculator)));
    let (simulated, others): (Vec<_>, Vec<_>) = views
        .iter()
        .partition(|view| view.run.info.source == Source::Simulated);
    if let Some(simulated) = simulated.first() {
        let beside = |view| beside_simulated(view, simulated, speculator);
        columns.extend(others.into_iter().flat_map(beside));
    }
    columns
}

/// What a run measured.
fn measured<'c>(view: &'c View<'_>, speculator: &'c str) -> Vec<Column<'c, K>> {
    let cases = move |k| at(view, speculator, k);
    let View { label, run, .. } = view;
    let mut columns = vec![
        Column::new(format!("RelLat, {label}"), move |k| {
            Cell::interval(rel_lat(&cases(k)), 3)
        }),
        Column::new(format!("p of latency, {label}"), move |k| {
            let cases = cases(k);
            match cases.is_empty() || k == K::ONE {
                true => Cell::none(),
                false => Cell::p(stats::sign_flip(&gaps(&cases))),
            }
        }),
        Column::new(format!("Questions, {label}"), move |k| {
            match cases(k).len() {
                0 => Cell::none(),
                n => Cell::share_of(n, run.info.questions),
            }
        }),
    ];
    if has_papers(view, speculator) {
        let title = format!("RelLat by the paper's algorithm, {label}");
        columns.push(Column::new(title, move |k| {
            let papers = view.get(&Variant::paper(k).with_speculator(speculator));
            Cell::interval(papers.and_then(Compared::rel_lat), 3)
        }));
    }
    columns
}

/// What the first run with this speculator should gain by its own measurements.
fn theory(group: &Group<'_>, speculator: &str) -> Column<'static, K> {
    let mut views = group.views.iter();
    let widest = views.find_map(|view| Some((view, view.widest(speculator)?)));
    let theory = widest.map(|(view, widest)| {
        let estimates = Estimates::of(widest.cases.iter().map(|case| case.row));
        (estimates, widest.cases.len(), view.run.info.questions)
    });
    Column::new("RelLat of theory", move |k| match &theory {
        None => Cell::none(),
        Some((estimates, has, of)) => Cell::number(estimates.rel_lat(k), 3).over(*has, *of),
    })
}

/// What a run measured on the questions that the standard agent answers right.
fn where_right<'c>(view: &'c View<'_>, speculator: &'c str) -> [Column<'c, K>; 2] {
    let cases = move |k| at(view, speculator, k);
    let label = &view.label;
    [
        Column::new(format!("RelLat where k=1 is right, {label}"), move |k| {
            Cell::interval(rel_lat(&right_at_one(&cases(k))), 3)
        }),
        Column::new(format!("Right at k=1, {label}"), move |k| {
            let cases = cases(k);
            match cases.is_empty() {
                true => Cell::none(),
                false => Cell::count(right_at_one(&cases).len()),
            }
        }),
    ]
}

/// How far a run is from the simulated one, on the questions that both have.
fn beside_simulated<'c>(
    view: &'c View<'_>,
    simulated: &'c View<'_>,
    speculator: &'c str,
) -> [Column<'c, K>; 2] {
    let latencies = move |k| joined(&at(view, speculator, k), &at(simulated, speculator, k));
    let View { label, run, .. } = view;
    let over = move |gap, latencies: &[[f64; 4]]| {
        Cell::interval(gap, 3).over(latencies.len(), run.info.questions)
    };
    [
        Column::new(format!("RelLat, {label} ÷ simulated"), move |k| {
            let latencies = latencies(k);
            over(rel_lat_gap(&latencies), &latencies)
        }),
        Column::new(format!("Latency, {label} ÷ simulated"), move |k| {
            let latencies = latencies(k);
            let gap = stats::of_sums(&latencies, |[live, _, simulated, _]| live / simulated);
            over(gap, &latencies)
        }),
    ]
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

/// Every k that some run has as usual, 1 first, then unbounded, then chosen by the server; none where there
/// is only k = 1.
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
