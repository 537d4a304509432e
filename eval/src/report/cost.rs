//! What the gain costs: calls, tokens, money.

use spechop_theory::Interval;

use crate::stats::ratio;
use crate::{Calls, Row, Variant};

use super::groups::{Case, Compared, Group, View, name};
use super::table::{Cell, Column, Table};

/// A row of the table: a variant of a run.
struct CostRow<'a> {
    source: &'a str,
    name: String,
    rows: Vec<&'a Row>,
    /// Of the whole run.
    questions: usize,
    rel_lat: Cell,
    /// Target calls and segments over those of the standard agent.
    targets: Cell,
    segments: Cell,
}

impl CostRow<'_> {
    fn mean(&self, of: impl Fn(&Row) -> f64) -> f64 {
        let sum: f64 = self.rows.iter().map(|row| of(row)).sum();
        sum / self.rows.len() as f64
    }
}

pub(super) fn table(group: &Group<'_>) -> Table {
    let all = || group.views.iter().flat_map(|view| &view.run.rows);
    let paid = all().any(|row| sum(row, |calls| calls.money_micros) > 0);
    let drafts = all().any(|row| row.drafted.begun > 0);
    let variants: Vec<_> = group.views.iter().flat_map(rows).collect();
    let mut columns = columns();
    if drafts {
        columns.extend(of_drafts());
    }
    if paid {
        columns.extend(of_money());
    }
    let (columns, rows) = Column::fill(columns, &variants);
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

/// Of a run: the standard agent, then all others.
fn rows<'a>(view: &'a View<'_>) -> impl Iterator<Item = CostRow<'a>> {
    let source = &*view.label;
    let questions = view.run.info.questions;
    let standard = view
        .standard
        .iter()
        .map(move |(concurrency, pairs)| CostRow {
            source,
            name: name(&Variant::standard(), *concurrency),
            rows: pairs.iter().map(|pair| pair.row).collect(),
            questions,
            rel_lat: Cell::number(1.0, 3),
            targets: Cell::number(1.0, 2),
            segments: Cell::number(1.0, 2),
        });
    let others = view.compared.iter().map(move |compared| CostRow {
        source,
        name: compared.name(),
        rows: compared.cases.iter().map(|case| case.row).collect(),
        questions,
        rel_lat: Cell::interval(compared.rel_lat(), 3),
        targets: Cell::interval(targets(compared), 2),
        segments: Cell::interval(segments(compared), 2),
    });
    standard.chain(others)
}

type CostColumn<'c> = Column<'c, &'c CostRow<'c>>;

fn columns<'c>() -> Vec<CostColumn<'c>> {
    vec![
        column("Source", |variant| Cell::text(variant.source)),
        column("Variant", |variant| Cell::text(&variant.name)),
        column("Questions", |variant| {
            Cell::share_of(variant.rows.len(), variant.questions)
        }),
        column("RelLat", |variant| variant.rel_lat.clone()),
        count("T started", |row| row.targets.started),
        count("T wasted", |row| row.targets.wasted),
        column("T ÷ k=1", |variant| variant.targets.clone()),
        count("M started", |row| row.segments.started),
        count("M but the last", |row| {
            row.segments.started.saturating_sub(1)
        }),
        count("M wasted", |row| row.segments.wasted),
        column("M ÷ k=1", |variant| variant.segments.clone()),
        count("S started", |row| row.speculations.started),
        count("S wasted", |row| row.speculations.wasted),
        count("Salvaged", |row| row.salvaged),
        tokens("Tokens", |calls| calls.tokens),
        tokens("Tokens wasted", |calls| calls.wasted_tokens),
    ]
}

fn of_drafts<'c>() -> [CostColumn<'c>; 3] {
    [
        count("Drafted", |row| row.drafted.begun),
        count("Foreseen", |row| row.drafted.foreseen),
        column("Hidden, s", |variant| {
            Cell::number(variant.mean(|row| row.drafted.hidden_ms) / 1e3, 3)
        }),
    ]
}

fn of_money<'c>() -> [CostColumn<'c>; 2] {
    [
        money("Money per 1,000", |calls| calls.money_micros),
        money("Wasted per 1,000", |calls| calls.wasted_money_micros),
    ]
}

fn column<'c>(title: &str, cell: impl Fn(&CostRow<'_>) -> Cell + 'c) -> CostColumn<'c> {
    Column::new(title, cell)
}

fn count<'c>(title: &str, of: impl Fn(&Row) -> u32 + 'c) -> CostColumn<'c> {
    column(title, move |variant| {
        Cell::number(variant.mean(|row| f64::from(of(row))), 2)
    })
}

fn tokens<'c>(title: &str, of: fn(&Calls) -> u64) -> CostColumn<'c> {
    column(title, move |variant| {
        Cell::number(variant.mean(|row| sum(row, of) as f64), 0)
    })
}

fn money<'c>(title: &str, micros: fn(&Calls) -> u64) -> CostColumn<'c> {
    // Millionths, for a thousand questions.
    column(title, move |variant| {
        Cell::number(variant.mean(|row| sum(row, micros) as f64) / 1e3, 3)
    })
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

/// Over all calls of a question.
fn sum(row: &Row, of: fn(&Calls) -> u64) -> u64 {
    let every = [row.segments, row.targets, row.speculations, row.drafts];
    every.iter().map(of).sum()
}
