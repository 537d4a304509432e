//! From runs to tables and figures: one page that needs nothing else, and the same tables in Markdown.
//!
//! Every number is over the questions that both sides of its comparison have answered. What is not
//! whole says so, in its section and in its row. The same runs give the same bytes.

mod ablation;
mod by_k;
mod calibration;
mod calls;
mod control;
mod cost;
mod curve;
pub(crate) mod estimate;
mod figures;
mod glance;
mod groups;
mod heads;
mod kinds;
mod outcomes;
mod overview;
mod page;
mod quality;
mod speculation;
mod stages;
mod stall;
mod subsets;
mod svg;
mod table;
mod tails;
mod unlike;
mod verifier;

use serde::Serialize;

pub use curve::{CurveFigure, CurvePoint, curve_svg};
pub(crate) use table::Column;
pub use table::{Cell, Table};

use crate::{Run, Source};

use groups::Group;
use page::{Circumstances, Page};

/// What is added to tables that have such rows.
const MIXED_LOADS: &str = " With more than one question at once, the variants of a run take turns on the same machine \
                           and share its load: k = 1 is slowed by the speculation of those beside it.";

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
    /// What a reader must be told before any number: all that is said of sections, and the rest behind it.
    pub warnings: Vec<String>,
    /// A row for each run.
    pub overview: Table,
    /// Runs of the same system, data set and injected latency, side by side. Those of most questions come
    /// first.
    pub sections: Vec<Section>,
    /// The paper's rows that stand beside no run here: of other data sets, or of tools that no run has looked
    /// up with.
    pub of_paper: Vec<Table>,
}

/// Runs of the same system, data set and injected latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// Which they are.
    pub title: String,
    /// What all their numbers take for granted; empty if there is nothing to say.
    pub about: String,
    /// What a reader must be told before its numbers.
    pub warnings: Vec<String>,
    /// Whether it has fewer than 30 questions: such a section comes behind the others.
    pub is_small: bool,
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
    let (groups, general) = groups::group(runs)?;
    let mut sections = Vec::new();
    let mut shown = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        sections.push(Section {
            title: group.title.clone(),
            about: taken_for_granted(group),
            warnings: group.warnings.clone(),
            is_small: group.is_small(),
            tables: tables(group),
        });
        shown.push(page::Shown {
            figures: figures::figures(group, &format!("g{}", number + 1)),
            circumstances: group.views.iter().map(Circumstances::of).collect(),
        });
    }
    let mut overview = overview::table(&groups);
    if groups.iter().flat_map(Group::fewest_at_once).max() > Some(1) {
        overview.about += MIXED_LOADS;
    }
    let of_sections = sections.iter().flat_map(|section| &section.warnings);
    let data = ReportData {
        warnings: of_sections.chain(&general).cloned().collect(),
        overview,
        sections,
        of_paper: of_paper(&groups),
    };
    let page = Page {
        first: glance::figure(&groups),
        data: &data,
        shown: &shown,
        general: &general,
    };
    Ok(Report {
        html: page.html().map_err(ReportError::Page)?,
        markdown: page.markdown(),
        data,
    })
}

/// What the paper has measured and these runs have not.
fn of_paper(groups: &[Group<'_>]) -> Vec<Table> {
    let mut tables = vec![
        speculation::of_paper(groups),
        outcomes::of_paper(groups),
        quality::of_paper(groups),
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
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
        calibration::table(group),
        cost::table(group),
        ablation::table(group),
        control::table(group),
    ]);
    tables.push(verifier::table(group));
    tables.push(outcomes::table(group));
    tables.extend([stall::stalls(group), stall::hits(group)]);
    tables.extend(
        speculators
            .iter()
            .map(|speculator| tails::table(group, speculator)),
    );
    tables.extend(
        speculators
            .iter()
            .map(|speculator| kinds::table(group, speculator)),
    );
    // A run of k = 1 alone has nothing to compare.
    tables.retain(|table| !table.rows.is_empty());
    for table in &mut tables {
        let at_once = match table.name {
            "cost" | "quality" | "calibration" | "ablation" | "verifier" | "stall" => {
                group.at_once().max()
            }
            // These show each variant with the fewest questions at once only.
            _ => group.fewest_at_once().max(),
        };
        if at_once > Some(1) {
            table.about += MIXED_LOADS;
        }
    }
    tables
}

/// How rows that were not computed live may differ from those that were.
fn taken_for_granted(group: &Group<'_>) -> String {
    let infos = || group.views.iter().map(|view| &view.run.info);
    let mut said = Vec::new();
    if infos().any(|info| info.source == Source::Simulated) {
        said.push(
            "Simulated rows assume that stages do not contend for the machine: each takes as long as it did when it \
             was recorded alone, however many run at once."
                .to_owned(),
        );
    }
    if infos().any(|info| info.source == Source::Replayed) {
        said.push(
            "Replayed rows assume the same of the tools, which wait and do not compute.".to_owned(),
        );
    }
    let faster = group.views.iter();
    for view in faster.filter(|view| view.run.info.speed != 1.0) {
        said.push(format!(
            "Rows of {} were run at speed {n} and are multiplied by {n}: so are the service's own overhead and the \
             timer's grain.",
            view.label,
            n = view.run.info.speed
        ));
    }
    said.join(" ")
}
