//! The page and the Markdown.

use askama::Template;
use spechop_theory::PUBLISHED_WEB_MS;

use crate::Source;

use super::figures::Figure;
use super::groups::View;
use super::table::escape;
use super::{ReportData, heads};

/// The title of [`ReportData::of_paper`].
const OF_PAPER: &str = "Rows of the paper that no run stands beside";

/// What a section shows besides its tables.
pub(super) struct Shown {
    pub(super) figures: Vec<Figure>,
    pub(super) circumstances: Vec<Circumstances>,
}

/// How a run came about, line by line.
pub(super) struct Circumstances {
    label: String,
    lines: Vec<(String, String)>,
}

/// Everything that the template takes. What is not a drawing of ours is escaped there.
#[derive(Template)]
#[template(path = "report.html")]
pub(super) struct Page<'a> {
    /// What is shown before everything else, if there is anything to show.
    pub(super) first: Option<Figure>,
    pub(super) data: &'a ReportData,
    /// As many as there are sections.
    pub(super) shown: &'a [Shown],
    /// What a reader must be told of no single section.
    pub(super) general: &'a [String],
}

impl Page<'_> {
    pub(super) fn html(&self) -> Result<String, askama::Error> {
        self.render()
    }

    pub(super) fn markdown(&self) -> String {
        let mut out =
            String::from("# SpecHop: what runs have shown\n\nFigures are in report.html.\n\n");
        warn(&mut out, self.general);
        if !self.general.is_empty() {
            out += "\n";
        }
        out += &self.data.overview.markdown();
        for (section, shown) in self.data.sections.iter().zip(self.shown) {
            out += &format!("\n## {}\n", escape(&section.title));
            warn(&mut out, &section.warnings);
            if !section.about.is_empty() {
                out += &format!("\n{}\n", escape(&section.about));
            }
            for table in &section.tables {
                out += &format!("\n{}", table.markdown());
            }
            out += "\n### How these runs came about\n";
            for run in &shown.circumstances {
                out += &format!("\n{}\n\n", escape(&run.label));
                for (name, value) in &run.lines {
                    out += &format!("- {}: {}\n", escape(name), escape(value));
                }
            }
        }
        if !self.data.of_paper.is_empty() {
            out += &format!("\n## {OF_PAPER}\n");
        }
        for table in &self.data.of_paper {
            out += &format!("\n{}", table.markdown());
        }
        out += "\n## The heads of columns\n\n";
        for (head, about) in heads::ALL {
            out += &format!("- {}: {}\n", escape(head), escape(about));
        }
        out
    }

    /// Whether a section, counted from 1, is the first of few questions.
    fn is_first_small(&self, number: &usize) -> bool {
        let mut sections = self.data.sections.iter();
        let first = sections.position(|section| section.is_small);
        first.is_some_and(|first| first + 1 == *number)
    }
}

fn warn(out: &mut String, warnings: &[String]) {
    if !warnings.is_empty() {
        *out += "\n";
    }
    for warning in warnings {
        *out += &format!("- **{}**\n", escape(warning));
    }
}

impl Circumstances {
    pub(super) fn of(view: &View<'_>) -> Self {
        let info = &view.run.info;
        let injected = match info.injected {
            None => "none".to_owned(),
            Some(injected) => {
                let whose = match [injected.mean_ms, injected.sigma_ms] == PUBLISHED_WEB_MS {
                    true => "log-normal is our choice; mean and σ are the paper's",
                    false => "log-normal is our choice",
                };
                format!(
                    "log-normal, mean {} ms, standard deviation {} ms, seed {}; not time that any tool took ({whose})",
                    injected.mean_ms, injected.sigma_ms, injected.seed
                )
            }
        };
        let source = match info.source {
            Source::Simulated => "simulated: the window on a virtual clock, over recorded stages",
            Source::Live => "live: a running server, over gRPC, that computes",
            Source::Replayed => "replayed: a running server, over gRPC, with recorded stages",
        };
        let mut lines = vec![
            ("Source".to_owned(), source.to_owned()),
            ("System".to_owned(), info.system.clone()),
            (
                "Data set".to_owned(),
                format!("{}, {} questions", info.dataset.title(), info.questions),
            ),
            ("INJECTED latency".to_owned(), injected),
            ("Seed of the sample".to_owned(), info.seed.to_string()),
        ];
        if info.speed != 1.0 {
            let speed = format!("{} times; latencies here are multiplied by it", info.speed);
            lines.push(("Faster than recorded".to_owned(), speed));
        }
        let parts = info.parts.iter();
        lines.extend(parts.map(|(part, name)| (format!("Part: {part}"), name.clone())));
        lines.extend([
            ("Commit".to_owned(), info.commit.clone()),
            (
                "Machine".to_owned(),
                format!("{}, {} cores", info.machine.cpu, info.machine.cores),
            ),
            ("Command".to_owned(), info.command.clone()),
        ]);
        Self {
            label: view.label.clone(),
            lines,
        }
    }
}
