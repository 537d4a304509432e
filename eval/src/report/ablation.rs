//! What each part is worth: variants that differ in one thing only.

use spechop_types::K;

use crate::score::exact_match;
use crate::stats::{mcnemar, mean, mean_share, ratio, sign_flip};
use crate::{Row, Variant};

use super::groups::{Case, Compared, Group, Pair, View, common, name, rel_lat};
use super::quality::{flag, same_answer};
use super::table::{Cell, Table};

/// A variant, and the one that it is held against.
struct Ablation<'b, 'a> {
    what: String,
    changed: &'b Compared<'a>,
    usual: Usual<'b, 'a>,
}

/// What a variant is held against.
enum Usual<'b, 'a> {
    Standard(&'b [Pair<'a>], u32),
    Compared(&'b Compared<'a>),
}

pub(super) fn table(group: &Group<'_>) -> Table {
    let mut rows = Vec::new();
    for view in &group.views {
        rows.extend(ablations(view).iter().filter_map(|one| row(view, one)));
    }
    Table {
        name: "ablation",
        title: "What each part is worth".into(),
        about: "Variants that differ in one thing from another of the same run, over the questions that both and \
                k = 1 have answered. k=1,verifier=none is full speculation."
            .into(),
        columns: [
            "Source", "Change", "Variant", "Against", "Questions", "RelLat", "RelLat, against",
            "Latency ratio", "p of latency", "T calls", "T calls, against", "EM", "EM − against",
            "Agreement", "Agreement, against",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}

/// Nothing where they have no question in common.
fn row(
    view: &View<'_>,
    Ablation {
        what,
        changed,
        usual,
    }: &Ablation<'_, '_>,
) -> Option<Vec<Cell>> {
    let (name, twins) = match usual {
        Usual::Standard(pairs, at_once) => (
            name(&Variant::standard(), *at_once),
            pairs.iter().map(Pair::beside_itself).collect(),
        ),
        Usual::Compared(usual) => (usual.name(), usual.cases.clone()),
    };
    let (ours, theirs) = common(&changed.cases, &twins);
    if ours.is_empty() {
        return None;
    }
    let pairs = || ours.iter().zip(&theirs);
    let latencies: Vec<_> = pairs()
        .map(|(our, their)| [our.row.latency_ms, their.row.latency_ms])
        .collect();
    let gaps: Vec<f64> = latencies.iter().map(|[our, their]| our - their).collect();
    let right = |case: &Case<'_>| exact_match(&case.row.answer, &case.question.answers);
    // Answers that are not known are not compared.
    let known =
        || pairs().filter(|(our, their)| [our, their].iter().all(|c| c.row.is_answer_known()));
    let both: Vec<_> = known()
        .map(|(our, their)| (right(their), right(our)))
        .collect();
    let (of, expected) = (both.len(), ours.len());
    let gain: f64 = both
        .iter()
        .map(|(their, our)| flag(*our) - flag(*their))
        .sum();
    let calls = |cases: &[Case<'_>]| {
        let started = |row: &Row| f64::from(row.targets.started);
        Cell::interval(
            mean(
                &cases
                    .iter()
                    .map(|case| started(case.row))
                    .collect::<Vec<_>>(),
            ),
            2,
        )
    };
    let agreement = |cases: &mut dyn Iterator<Item = &Case<'_>>| {
        let same = cases.map(|case| flag(same_answer(case)));
        Cell::interval(mean_share(&same.collect::<Vec<_>>()), 3).over(of, expected)
    };
    let em: Vec<f64> = both.iter().map(|(_, our)| flag(*our)).collect();
    Some(vec![
        Cell::text(&view.label),
        Cell::text(what),
        Cell::text(changed.name()),
        Cell::text(name),
        Cell::share_of(ours.len(), view.run.info.questions),
        Cell::interval(rel_lat(&ours), 3),
        Cell::interval(rel_lat(&theirs), 3),
        Cell::interval(ratio(&latencies), 3),
        Cell::p(sign_flip(&gaps)),
        calls(&ours),
        calls(&theirs),
        Cell::interval(mean_share(&em), 3).over(of, expected),
        match of {
            0 => Cell::none(),
            _ => Cell::difference(gain / of as f64, mcnemar(both), 3),
        },
        agreement(&mut known().map(|(our, _)| our)),
        agreement(&mut known().map(|(_, their)| their)),
    ])
}

/// Every pair of variants of which one is the other with one thing put back to what is usual; the paper's
/// algorithm against all that is usual; and one step of speculation, k = 2, against the best window.
fn ablations<'b, 'a>(view: &'b View<'a>) -> Vec<Ablation<'b, 'a>> {
    let mut found = Vec::new();
    for changed in &view.compared {
        let beside = |other: &Variant| {
            let same =
                |c: &&Compared<'_>| c.variant == other && c.concurrency == changed.concurrency;
            view.compared.iter().find(same).map(Usual::Compared)
        };
        for (what, other) in changed.variant.put_back() {
            let usual = if other.is_standard() {
                let pairs = view.standard.get(&changed.concurrency);
                pairs.map(|pairs| Usual::Standard(pairs, changed.concurrency))
            } else {
                beside(&other)
            };
            if let Some(usual) = usual {
                found.push(Ablation {
                    what,
                    changed,
                    usual,
                });
            }
        }
        let k = changed.variant.k();
        let speculator = changed.variant.speculator();
        if *changed.variant == Variant::paper(k).with_speculator(speculator)
            && let Some(usual) = beside(&Variant::at(k).with_speculator(speculator))
        {
            found.push(Ablation {
                what: "the paper's algorithm".into(),
                changed,
                usual,
            });
        }
        if changed.is_usual() && K::of(2) == Some(changed.variant.k()) {
            let best = view.best(changed.variant.speculator());
            let best = best.filter(|best| {
                best.variant != changed.variant && best.concurrency == changed.concurrency
            });
            if let Some(usual) = best {
                found.push(Ablation {
                    what: "one step ahead only".into(),
                    changed,
                    usual: Usual::Compared(usual),
                });
            }
        }
    }
    // The same change together, whatever its k.
    found.sort_by(|a, b| a.what.cmp(&b.what));
    found
}
