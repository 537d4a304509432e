//! The first figure: what every system gained on every data set, beside the bound and the paper.

use spechop_theory::{Interval, PUBLISHED, Published};

use super::estimate::Estimates;
use super::figures::Figure;
use super::groups::{Compared, Group, MANY, View};
use super::svg::{Anchor, Canvas, Scale, shorten};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 350.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 56.0;
const ROW: f64 = 27.0;
/// Ours, ours at its best, and the paper's.
const WIDEST: usize = 0;
const FASTEST: usize = 1;
const PAPER: usize = 3;

/// A data set, and the latency of its look-ups.
struct Panel {
    title: String,
    rows: Vec<Line>,
}

struct Line {
    name: String,
    marks: Vec<(usize, Interval)>,
    bound: Option<f64>,
}

/// A row for each run of many questions; `None` if there is none.
pub(super) fn figure(groups: &[Group<'_>]) -> Option<Figure> {
    let panels = panels(groups);
    let rows: Vec<&Line> = panels.iter().flat_map(|panel| &panel.rows).collect();
    let marks = || rows.iter().flat_map(|row| &row.marks);
    let bounds = rows.iter().filter_map(|row| row.bound);
    marks().next()?;
    let least = marks().map(|mark| mark.1.low).chain(bounds);
    let least = least.fold(1.0, f64::min);
    let greatest = marks().map(|mark| mark.1.high).fold(1.0, f64::max);
    let lines = rows.len() + panels.len();
    let bottom = TOP + ROW * (lines as f64 + 0.4);
    let scale = Scale::over(least, greatest, LEFT, RIGHT - LEFT);
    let mut canvas = Canvas::new(WIDTH, bottom + 50.0);
    canvas.across(scale, TOP, bottom, "RelLat: latency as a share of k = 1");
    let one = scale.on(1.0);
    canvas.line("bound", (one, TOP), (one, bottom));
    let mut y = TOP + ROW * 0.7;
    for panel in &panels {
        canvas.text("name", Anchor::Start, (8.0, y + 4.5), &panel.title);
        y += ROW;
        for row in &panel.rows {
            canvas.text("label", Anchor::End, (LEFT - 14.0, y + 4.5), &row.name);
            if let Some(bound) = row.bound {
                let x = scale.on(bound);
                canvas.line("limit", (x, y - 9.0), (x, y + 9.0));
            }
            for (series, rel_lat) in &row.marks {
                let ends = [rel_lat.low, rel_lat.high].map(|end| (scale.on(end), y));
                canvas.whisker(*series, ends, (scale.on(rel_lat.value), y));
            }
            y += ROW;
        }
    }
    let names = [
        (WIDEST, "widest window"),
        (FASTEST, "fastest variant"),
        (PAPER, "the paper"),
    ];
    canvas.legend(
        LEFT - 80.0,
        24.0,
        &names.map(|(series, name)| (series, name.to_owned())),
    );
    canvas.line("limit", (RIGHT - 74.0, 10.0), (RIGHT - 74.0, 30.0));
    canvas.text("label", Anchor::Start, (RIGHT - 64.0, 24.0), "RelLat*");
    let svg = canvas.finish(
        "glance",
        "RelLat of every system and data set",
        "A row for each run: its widest window and its fastest variant, each with its interval, beside RelLat*; then \
         the rows of the paper.",
    );
    Some(Figure {
        caption: "RelLat of every run of at least 30 questions: left of 1 is faster. Widest window: k = ∞ if it was run, \
                  all else as usual. Rows of the paper are the paper's own, for other questions and other models."
            .into(),
        svg,
    })
}

fn panels(groups: &[Group<'_>]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    let mut papers: Vec<Option<(&str, &str)>> = Vec::new();
    for group in groups {
        let Some(info) = group.infos().next() else {
            continue;
        };
        let latency = match (info.injected, group.tool()) {
            (Some(injected), _) => format!("{} ms INJECTED", injected.mean_ms),
            (None, Some(tool)) => format!("{tool}, nothing injected"),
            (None, None) => "nothing injected".to_owned(),
        };
        let title = format!("{}, {latency}", info.dataset.title());
        let place = panels.iter().position(|panel| panel.title == title);
        let place = place.unwrap_or_else(|| {
            panels.push(Panel {
                title,
                rows: Vec::new(),
            });
            papers.push(None);
            panels.len() - 1
        });
        let paper = group.tool().map(|tool| (info.dataset.title(), tool));
        papers[place] = papers[place].or(paper);
        let speculators = group.speculators();
        let views = group.views.iter();
        let rows = views.filter(|view| view.run.info.questions >= MANY);
        let rows = rows.filter_map(|view| line(view, &speculators));
        panels[place].rows.extend(rows);
    }
    for (panel, paper) in panels.iter_mut().zip(papers) {
        let alike = |row: &&Published| paper == Some((row.dataset, row.target));
        if !panel.rows.is_empty() {
            let lines = PUBLISHED.iter().filter(alike).map(paper_line);
            panel.rows.extend(lines);
        }
    }
    panels.retain(|panel| !panel.rows.is_empty());
    panels
}

/// `None` if the run has nothing beside k = 1. Of several speculators it shows the first that it has.
fn line(view: &View<'_>, speculators: &[&str]) -> Option<Line> {
    let info = &view.run.info;
    let mut marks = Vec::new();
    let mut widest = speculators.iter().filter_map(|name| view.widest(name));
    let widest = widest.next()?;
    let any = view.fastest();
    let is_whole = |compared: &Compared<'_>| compared.cases.len() == info.questions;
    marks.extend(widest.rel_lat().map(|rel_lat| (WIDEST, rel_lat)));
    let any = any.filter(|any| any.variant != widest.variant);
    marks.extend(any.and_then(|any| Some((FASTEST, any.rel_lat()?))));
    let is_whole = is_whole(widest) && any.is_none_or(is_whole);
    let doubt = if is_whole { "" } else { ", NOT WHOLE" };
    let bound = Estimates::of(widest.cases.iter().map(|case| case.row)).bound();
    Some(Line {
        name: format!("{}, {}{doubt}", shorten(&info.system, 30), view.label),
        marks,
        bound: bound.map(|bound| bound.value),
    })
}

fn paper_line(row: &Published) -> Line {
    let exact = Interval {
        value: row.rel_lat,
        low: row.rel_lat,
        high: row.rel_lat,
    };
    Line {
        name: format!("the paper: {}, {} guesses", row.generator, row.speculator),
        marks: vec![(PAPER, exact)],
        bound: Some(row.rel_lat_oracle),
    }
}
