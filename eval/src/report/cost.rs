//! What the gain costs: calls, tokens, money.

use crate::stats::{Interval, ratio};
use crate::{Calls, Row, Variant};

use super::groups::{Case, Compared, Group, name};
use super::table::{Cell, Table};

pub(super) fn table(group: &Group<'_>) -> Table {
    let paid = group
        .views
        .iter()
        .flat_map(|view| &view.run.rows)
        .any(|row| money(row).0 > 0);
    let drafts = group
        .views
        .iter()
        .flat_map(|view| &view.run.rows)
        .any(|row| row.drafted.begun > 0);
    let mut columns: Vec<String> = [
        "Source",
        "Variant",
        "Questions",
        "RelLat",
        "T started",
        "T wasted",
        "T ÷ k=1",
        "M started",
        "M but the last",
        "M wasted",
        "M ÷ k=1",
        "S started",
        "S wasted",
        "Salvaged",
        "Tokens",
        "Tokens wasted",
    ]
    .map(String::from)
    .into();
    if drafts {
        columns.extend(["Drafted", "Foreseen", "Hidden, s"].map(String::from));
    }
    if paid {
        columns.extend(["Money per 1,000".to_owned(), "Wasted per 1,000".to_owned()]);
    }
    let mut rows = Vec::new();
    for view in &group.views {
        let mut add = |name: String, rows_of: &[&Row], rel_lat: Cell, ratios: [Cell; 2]| {
            let mut row = vec![Cell::text(&view.label), Cell::text(name)];
            row.push(Cell::share_of(rows_of.len(), view.run.info.questions));
            row.push(rel_lat);
            row.extend(costs(rows_of, ratios, drafts, paid));
            rows.push(row);
        };
        for (concurrency, pairs) in &view.standard {
            let of: Vec<&Row> = pairs.iter().map(|pair| pair.row).collect();
            let name = name(&Variant::standard(), *concurrency);
            let one = [Cell::number(1.0, 2), Cell::number(1.0, 2)];
            add(name, &of, Cell::number(1.0, 3), one);
        }
        for compared in &view.compared {
            let of: Vec<&Row> = compared.cases.iter().map(|case| case.row).collect();
            let ratios = [targets(compared), segments(compared)];
            add(
                compared.name(),
                &of,
                Cell::interval(compared.rel_lat(), 3),
                ratios.map(|ratio| Cell::interval(ratio, 2)),
            );
        }
    }
    let mut about =
        "Calls of a question, on average, those that were aborted included. Money is in the \
                     server's currency, per 1,000 questions."
            .to_owned();
    if drafts {
        about += " Drafted look-ups are among those of T: foreseen are those that were then asked for, hidden \
                  is how long they had run by then.";
    }
    Table {
        name: "cost",
        title: "Cost".into(),
        about,
        columns,
        rows,
    }
}

/// Target calls over those of the standard agent.
pub(super) fn targets(compared: &Compared<'_>) -> Option<Interval> {
    calls(compared, |row| row.targets)
}

fn segments(compared: &Compared<'_>) -> Option<Interval> {
    calls(compared, |row| row.segments)
}

fn calls(compared: &Compared<'_>, of: fn(&Row) -> Calls) -> Option<Interval> {
    let started = |row: &Row| f64::from(of(row).started);
    let pair = |case: &Case<'_>| [started(case.row), started(case.base)];
    ratio(&compared.cases.iter().map(pair).collect::<Vec<_>>())
}

fn costs(rows: &[&Row], [targets, segments]: [Cell; 2], drafts: bool, paid: bool) -> Vec<Cell> {
    let mean = |of: &dyn Fn(&Row) -> f64| {
        let sum: f64 = rows.iter().map(|row| of(row)).sum();
        sum / rows.len() as f64
    };
    let count = |of: &dyn Fn(&Row) -> u32| Cell::number(mean(&|row| f64::from(of(row))), 2);
    let every = |row: &Row| [row.segments, row.targets, row.speculations];
    let tokens = |of: fn(&Calls) -> u64| {
        Cell::number(
            mean(&|row| every(row).iter().map(of).sum::<u64>() as f64),
            0,
        )
    };
    let mut cells = vec![
        count(&|row| row.targets.started),
        count(&|row| row.targets.wasted),
        targets,
        count(&|row| row.segments.started),
        count(&|row| row.segments.started.saturating_sub(1)),
        count(&|row| row.segments.wasted),
        segments,
        count(&|row| row.speculations.started),
        count(&|row| row.speculations.wasted),
        count(&|row| row.salvaged),
        tokens(|calls| calls.tokens),
        tokens(|calls| calls.wasted_tokens),
    ];
    if drafts {
        cells.push(count(&|row| row.drafted.begun));
        cells.push(count(&|row| row.drafted.foreseen));
        cells.push(Cell::number(mean(&|row| row.drafted.hidden_ms) / 1e3, 3));
    }
    if paid {
        // Millionths, for a thousand questions.
        cells.push(Cell::number(mean(&|row| money(row).0 as f64) / 1e3, 3));
        cells.push(Cell::number(mean(&|row| money(row).1 as f64) / 1e3, 3));
    }
    cells
}

/// What a row cost, and how much of it was wasted, in millionths.
fn money(row: &Row) -> (u64, u64) {
    let every = [row.segments, row.targets, row.speculations];
    let all = every.iter().map(|calls| calls.money_micros).sum();
    (
        all,
        every.iter().map(|calls| calls.wasted_money_micros).sum(),
    )
}
