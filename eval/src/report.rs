//! From runs to tables and figures: one page that needs nothing else, and the same tables in Markdown.
//!
//! Every number is over the questions that both sides of its comparison have answered. What is not
//! whole says so, at the top and in its row. The same runs give the same bytes.

mod ablation;
mod by_k;
mod cost;
mod estimate;
mod figures;
mod groups;
mod kinds;
mod page;
mod quality;
mod speculation;
mod svg;
mod table;
mod unlike;
mod verifier;

use serde::Serialize;

pub use table::{Cell, Table};

use crate::score::exact_match;
use crate::stats::mean;
use crate::{Run, Verifier};

use estimate::Estimates;
use groups::{Group, View};
use page::Circumstances;
use quality::flag;

/// What runs have shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// A page, with figures.
    pub html: String,
    /// The tables.
    pub markdown: String,
    /// The tables, for scripts.
    pub data: ReportData,
}

/// The tables of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportData {
    /// What a reader must be told before any number.
    pub warnings: Vec<String>,
    /// A row for each run.
    pub overview: Table,
    /// Runs of the same system, data set and injected latency, side by side.
    pub sections: Vec<Section>,
}

/// Runs of the same system, data set and injected latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// Which they are.
    pub title: String,
    /// Their tables.
    pub tables: Vec<Table>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There are no runs.
    #[error("there is no run to report on")]
    Empty,
    /// No run has anything to compare with.
    #[error("no run has rows of k=1, which everything is compared with")]
    NoBaseline,
    /// The page cannot be made.
    #[error("cannot fill in the page")]
    Page(#[source] askama::Error),
}

/// Compares the variants of each run with its standard agent, and runs of different sources with each
/// other.
pub fn report(runs: &[Run]) -> Result<Report, ReportError> {
    let (groups, warnings) = groups::group(runs)?;
    let mut sections = Vec::new();
    let mut shown = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        sections.push(Section {
            title: group.title.clone(),
            tables: tables(group),
        });
        shown.push(page::Shown {
            figures: figures::figures(group, &format!("g{}", number + 1)),
            circumstances: group.views.iter().map(Circumstances::of).collect(),
        });
    }
    let data = ReportData {
        warnings,
        overview: overview(&groups),
        sections,
    };
    Ok(Report {
        html: page::html(&data, &shown).map_err(ReportError::Page)?,
        markdown: page::markdown(&data, &shown),
        data,
    })
}

fn tables(group: &Group<'_>) -> Vec<Table> {
    let mut tables = vec![speculation::table(group)];
    let speculators = group.speculators();
    tables.extend(
        speculators
            .iter()
            .map(|speculator| by_k::table(group, speculator)),
    );
    tables.extend([
        quality::table(group),
        cost::table(group),
        ablation::table(group),
    ]);
    tables.push(verifier::table(group));
    tables.extend(
        speculators
            .iter()
            .map(|speculator| kinds::table(group, speculator)),
    );
    // A run of k = 1 alone has nothing to compare.
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn overview(groups: &[Group<'_>]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        rows.extend(group.views.iter().map(|view| overview_row(group, view)));
    }
    Table {
        name: "overview",
        title: "At a glance".into(),
        about: "The fastest variant of each run whose verifier is the usual one, beside k = 1. RelLat: its \
                latency as a share of that of k = 1. In brackets: 95 % bootstrap intervals over questions. \
                Sections below have the rest."
            .into(),
        columns: [
            "Runs", "Source", "Questions", "EM, k=1", "Fastest", "EM", "Same answer",
            "Seconds, k=1",
            "Seconds",
            "RelLat",
            "RelLat*", "Target calls ÷ k=1",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}

fn overview_row(group: &Group<'_>, view: &View<'_>) -> Vec<Cell> {
    let pairs = view.standard.values().next().map_or(&[][..], Vec::as_slice);
    let right = pairs
        .iter()
        .map(|pair| flag(exact_match(&pair.row.answer, &pair.question.answers)));
    let by_rule = view
        .compared
        .iter()
        .filter(|c| c.variant.verifier == Verifier::Rule);
    let rated = by_rule.filter_map(|c| Some((c, c.rel_lat_value()?)));
    let fastest = rated
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(fastest, _)| fastest);
    let mut row = vec![
        Cell::text(&group.title),
        Cell::text(&view.label),
        Cell::share_of(pairs.len(), view.run.info.questions),
        Cell::interval(mean(&right.collect::<Vec<_>>()), 3),
    ];
    let Some(fastest) = fastest else {
        row.resize(12, Cell::none());
        return row;
    };
    if fastest.cases.len() < pairs.len() || pairs.len() < view.run.info.questions {
        row[2] = Cell::share_of(fastest.cases.len(), view.run.info.questions);
    }
    let right = fastest.cases.iter();
    let right = right.map(|case| flag(exact_match(&case.row.answer, &case.question.answers)));
    let same = fastest
        .cases
        .iter()
        .map(|case| flag(quality::same_answer(case)));
    let widest = view.widest(&fastest.variant.speculator);
    let bound = widest.and_then(|widest| Estimates::of(widest.cases.iter().map(|c| c.row)).bound());
    let seconds = |of: fn(&groups::Case<'_>) -> f64| {
        let all: Vec<f64> = fastest.cases.iter().map(|case| of(case) / 1e3).collect();
        Cell::interval(mean(&all), 2)
    };
    row.extend([
        Cell::text(fastest.name()),
        Cell::interval(mean(&right.collect::<Vec<_>>()), 3),
        Cell::interval(mean(&same.collect::<Vec<_>>()), 3),
        seconds(|case| case.base.latency_ms),
        seconds(|case| case.row.latency_ms),
        Cell::interval(fastest.rel_lat(), 3),
        Cell::interval(bound, 3),
        Cell::interval(cost::targets(fastest), 2),
    ]);
    row
}
