//! How long questions waited for their look-ups, and how much of the look-ups' time passed beside other work: the
//! stall and overlap times of PASTE (arXiv 2603.18897). And which guess was the right one.

use crate::stats::{mean, of_sums, ratio, share};
use crate::{Row, RowHop, Variant};

use super::groups::{Case, Group, Pair, name};
use super::table::{Cell, Table};

/// Guesses of one hop that are told apart.
const RANKS: u32 = 3;

/// A row for each way. Without rows if no run knows.
pub(super) fn stalls(group: &Group<'_>) -> Table {
    let mut rows = Vec::new();
    for view in &group.views {
        let standard = view.standard.iter().map(|(at_once, pairs)| {
            let cases: Vec<_> = pairs.iter().map(Pair::beside_itself).collect();
            (name(&Variant::standard(), *at_once), cases)
        });
        let compared = view.compared.iter();
        let compared = compared.map(|compared| (compared.name(), compared.cases.clone()));
        for (name, cases) in standard.chain(compared) {
            if let Some(cells) = stall(&cases) {
                let mut row = vec![Cell::text(&view.label), Cell::text(name)];
                row.push(Cell::share_of(cases.len(), view.run.info.questions));
                row.extend(cells);
                rows.push(row);
            }
        }
    }
    Table {
        name: "stall",
        title: "Waiting for look-ups".into(),
        about: "Seconds of a question, on average. Rows of earlier versions have no such times."
            .into(),
        columns: [
            "Source",
            "Variant",
            "Questions",
            "Stall",
            "Stall ÷ k=1",
            "Overlap",
            "Hidden",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}

fn stall(cases: &[Case<'_>]) -> Option<[Cell; 4]> {
    let of = |case: &Case<'_>| Some([case.row.stall_ms?, case.base.stall_ms?, target_ms(case.row)]);
    let times: Vec<[f64; 3]> = cases.iter().map(of).collect::<Option<_>>()?;
    if times.is_empty() {
        return None;
    }
    let seconds = |of: &dyn Fn(&[f64; 3]) -> f64| {
        let all: Vec<f64> = times.iter().map(|times| of(times) / 1e3).collect();
        Cell::interval(mean(&all), 2)
    };
    let stalls: Vec<[f64; 2]> = times.iter().map(|[row, base, _]| [*row, *base]).collect();
    Some([
        seconds(&|[stall, ..]| *stall),
        Cell::interval(ratio(&stalls), 3),
        seconds(&|[stall, _, target]| target - stall),
        Cell::interval(
            of_sums(&times, |[stall, _, target]| 1.0 - stall / target),
            3,
        ),
    ])
}

fn target_ms(row: &Row) -> f64 {
    row.hops.iter().map(|hop| hop.target_ms).sum()
}

/// A row for each variant with several guesses of a hop. Without rows if there is none that knows.
pub(super) fn hits(group: &Group<'_>) -> Table {
    let mut rows = Vec::new();
    for view in &group.views {
        for compared in view
            .main()
            .filter(|compared| compared.variant.guesses() > 1)
        {
            let mut cases = compared.cases.iter();
            if cases.clone().any(|case| case.row.stall_ms.is_none()) {
                continue;
            }
            let hops = cases.clone().map(|case| case.row.hops.len()).sum();
            let within = |most: u32| {
                let is_hit = move |hop: &&RowHop| hop.right_guess.is_some_and(|rank| rank <= most);
                let of = |case: &Case<'_>| {
                    let hits = case.row.hops.iter().filter(is_hit).count();
                    [hits as f64, case.row.hops.len() as f64]
                };
                share(&compared.cases.iter().map(of).collect::<Vec<_>>())
            };
            let guessed = cases.any(|case| case.row.hops.iter().any(|hop| hop.guess.is_some()));
            if !guessed {
                continue;
            }
            let mut row = vec![Cell::text(&view.label), Cell::text(compared.name())];
            row.push(Cell::count(hops));
            row.extend((1..=RANKS).map(|rank| Cell::interval(within(rank), 3)));
            row.push(Cell::interval(within(u32::MAX), 3));
            rows.push(row);
        }
    }
    Table {
        name: "hits",
        title: "Which guess was right".into(),
        about: "The share of hops of which one of the first guesses says what was observed, by the verifier of \
                the variant: PASTE's top-1, top-3 and overall hit rate, of guesses in place of tool calls."
            .into(),
        columns: ["Source", "Variant", "Hops", "Top 1", "Top 2", "Top 3", "Any"]
            .map(String::from)
            .into(),
        rows,
    }
}
