//! The first figure: what every system gained on every data set, beside the bound and the paper.
//!
//! ```text
//!                     data set    data set
//! latency of look-ups
//!          system    ──●─ ◆       ─●── ◆
//!       the paper     ◆             ◆
//! ```
//!
//! Data sets stand side by side, and share the names of the rows, so that all of it fits on a screen.

use std::collections::{BTreeMap, BTreeSet};

use spechop_theory::{Interval, PUBLISHED, Published};

use super::estimate::Estimates;
use super::figures::Figure;
use super::groups::{Compared, Group, MANY, View};
use super::svg::{Anchor, Canvas, Scale, shorten};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = WIDTH - 24.0;
/// Between two data sets.
const BETWEEN: f64 = 30.0;
const TOP: f64 = 60.0;
const ROW: f64 = 18.0;
/// Ours, ours at its best, and the paper's.
const WIDEST: usize = 0;
const FASTEST: usize = 1;
const PAPER: usize = 3;

/// A latency of look-ups.
struct Panel {
    title: String,
    rows: Vec<Line>,
    /// Which of the paper's tools its look-ups are like, by data set.
    tools: BTreeSet<(usize, &'static str)>,
}

struct Line {
    name: String,
    /// By data set.
    shown: BTreeMap<usize, Shown>,
}

struct Shown {
    marks: Vec<(usize, Interval)>,
    bound: Option<f64>,
}

/// A row for each run of many questions; `None` if there is none.
pub(super) fn figure(groups: &[Group<'_>]) -> Option<Figure> {
    let (datasets, panels) = panels(groups);
    Some(Figure {
        caption: "RelLat of every run of at least 30 questions, a column for each data set: left of 1 is faster. Widest \
                  window: k = ∞ if it was run, all else as usual. Rows of the paper are the paper's own, for other \
                  questions and other models; they stand once, below the first runs with look-ups like theirs."
            .into(),
        svg: drawn(&datasets, &panels)?,
    })
}

/// `None` if there is nothing to draw.
fn drawn(datasets: &[&str], panels: &[Panel]) -> Option<String> {
    let rows = || panels.iter().flat_map(|panel| &panel.rows);
    let shown = || rows().flat_map(|row| row.shown.values());
    let marks = || shown().flat_map(|shown| &shown.marks);
    marks().next()?;
    let bounds = shown().filter_map(|shown| shown.bound);
    let least = marks().map(|mark| mark.1.low).chain(bounds);
    let least = least.fold(1.0, f64::min);
    let greatest = marks().map(|mark| mark.1.high).fold(1.0, f64::max);
    let lines = rows().count() + panels.len();
    let bottom = TOP + ROW * (lines as f64 + 0.4);
    let mut canvas = Canvas::new(WIDTH, bottom + 46.0);
    let width = (RIGHT - LEFT + BETWEEN) / datasets.len() as f64 - BETWEEN;
    let mut scales = Vec::new();
    for (column, dataset) in datasets.iter().enumerate() {
        let left = LEFT + column as f64 * (width + BETWEEN);
        let scale = Scale::over(least, greatest, left, width);
        canvas.across(scale, TOP, bottom, "");
        let above = (left + width / 2.0, TOP - 10.0);
        canvas.text("name", Anchor::Middle, above, dataset);
        let one = scale.on(1.0);
        canvas.line("bound", (one, TOP), (one, bottom));
        scales.push(scale);
    }
    let below = ((LEFT + RIGHT) / 2.0, bottom + 40.0);
    let name = "RelLat: latency as a share of k = 1";
    canvas.text("name", Anchor::Middle, below, name);
    let mut y = TOP + ROW * 0.7;
    for panel in panels {
        canvas.text("name", Anchor::Start, (8.0, y + 4.5), &panel.title);
        y += ROW;
        for row in &panel.rows {
            canvas.text("label", Anchor::End, (LEFT - 14.0, y + 4.5), &row.name);
            for (column, shown) in &row.shown {
                draw(&mut canvas, scales[*column], y, shown);
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
    Some(canvas.finish(
        "glance",
        "RelLat of every system and data set",
        "A row for each system, and a column for each data set: its widest window and its fastest variant, each with \
         its interval, beside RelLat*; then the rows of the paper.",
    ))
}

fn draw(canvas: &mut Canvas, scale: Scale, y: f64, shown: &Shown) {
    if let Some(bound) = shown.bound {
        let x = scale.on(bound);
        canvas.line("limit", (x, y - 7.0), (x, y + 7.0));
    }
    for (series, rel_lat) in &shown.marks {
        let ends = [rel_lat.low, rel_lat.high].map(|end| (scale.on(end), y));
        canvas.whisker(*series, ends, (scale.on(rel_lat.value), y));
    }
}

/// The data sets, and what is shown of them.
fn panels(groups: &[Group<'_>]) -> (Vec<&'static str>, Vec<Panel>) {
    let (mut datasets, mut panels): (Vec<&str>, Vec<Panel>) = (Vec::new(), Vec::new());
    for group in groups {
        let Some(info) = group.infos().next() else {
            continue;
        };
        let speculators = group.speculators();
        let views = group.views.iter();
        let views = views.filter(|view| view.run.info.questions >= MANY);
        let lines: Vec<_> = views.flat_map(|view| lines(view, &speculators)).collect();
        if lines.is_empty() {
            continue;
        }
        let title = match (info.injected, group.tool()) {
            (Some(injected), _) => format!("{} ms INJECTED", injected.mean_ms),
            (None, Some(tool)) => format!("{tool}, nothing injected"),
            (None, None) => "nothing injected".to_owned(),
        };
        let dataset = info.dataset.title();
        let column = place(&mut datasets, |known| *known == dataset, || dataset);
        let at = place(
            &mut panels,
            |panel| panel.title == title,
            || Panel::new(&title),
        );
        for (name, shown) in lines {
            panels[at].add(column, &name, shown);
        }
        let tool = group.tool().map(|tool| (column, tool));
        panels[at].tools.extend(tool);
    }
    let mut told = BTreeSet::new();
    for panel in &mut panels {
        for (column, tool) in std::mem::take(&mut panel.tools) {
            if told.insert((column, tool)) {
                let dataset = datasets[column];
                let alike = |row: &&Published| (row.dataset, row.target) == (dataset, tool);
                for row in PUBLISHED.iter().filter(alike) {
                    let (name, shown) = paper_line(row);
                    panel.add(column, &name, shown);
                }
            }
        }
    }
    (datasets, panels)
}

/// Where something stands in a list, at whose end it is put if it is new.
fn place<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    let found = list.iter().position(is_it);
    found.unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    })
}

impl Panel {
    fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            rows: Vec::new(),
            tools: BTreeSet::new(),
        }
    }

    /// Shows it in the row of this name. Of two of one data set each has a row of its own.
    fn add(&mut self, column: usize, name: &str, shown: Shown) {
        let fits = |row: &Line| row.name == name && !row.shown.contains_key(&column);
        let new = || Line {
            name: name.to_owned(),
            shown: BTreeMap::new(),
        };
        let at = place(&mut self.rows, fits, new);
        self.rows[at].shown.insert(column, shown);
    }
}

/// A row for each speculator of the run; none if it has nothing beside k = 1.
fn lines(view: &View<'_>, speculators: &[&str]) -> Vec<(String, Shown)> {
    let own = speculators.iter().filter_map(|speculator| {
        let widest = view.widest(speculator)?;
        Some((*speculator, widest, view.fastest_of(speculator)))
    });
    let own: Vec<_> = own.collect();
    let are_several = own.len() > 1;
    let lines = own.into_iter().map(|(speculator, widest, fastest)| {
        let (doubt, shown) = line(view, widest, fastest);
        let whose = if are_several { speculator } else { "" };
        let comma = if are_several { ", " } else { "" };
        // What tells rows apart must not be cut off at the left.
        let letters = 30_usize.saturating_sub(doubt.len() + comma.len() + whose.len());
        let system = shorten(&view.run.info.system, letters.max(10));
        (
            format!("{system}{comma}{whose}, {}{doubt}", view.label),
            shown,
        )
    });
    lines.collect()
}

/// What a speculator gained, and what is to be doubted of it.
fn line(
    view: &View<'_>,
    widest: &Compared<'_>,
    fastest: Option<&Compared<'_>>,
) -> (&'static str, Shown) {
    let expected = view.run.info.questions;
    let is_whole = |compared: &Compared<'_>| compared.cases.len() == expected;
    let fastest = fastest.filter(|fastest| fastest.variant != widest.variant);
    let marks = [(WIDEST, Some(widest)), (FASTEST, fastest)];
    let marks = marks.into_iter().filter_map(|(series, compared)| {
        let rel_lat = compared?.rel_lat()?;
        Some((series, rel_lat))
    });
    let is_whole = is_whole(widest) && fastest.is_none_or(is_whole);
    let bound = Estimates::of(widest.cases.iter().map(|case| case.row)).bound();
    let shown = Shown {
        marks: marks.collect(),
        bound: bound.map(|bound| bound.value),
    };
    (if is_whole { "" } else { ", NOT WHOLE" }, shown)
}

fn paper_line(row: &Published) -> (String, Shown) {
    let exact = Interval {
        value: row.rel_lat,
        low: row.rel_lat,
        high: row.rel_lat,
    };
    let shown = Shown {
        marks: vec![(PAPER, exact)],
        bound: Some(row.rel_lat_oracle),
    };
    let name = format!("the paper: {}, {} guesses", row.generator, row.speculator);
    (name, shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a window of 1280 by 800 pixels by the page's heading, the caption in three lines and the frame, in
    /// units of the drawing: it is shown 915 pixels wide.
    const SCREEN: f64 = (800.0 - 133.0 - 26.0 - 66.0) * WIDTH / 915.0;

    fn height(svg: &str) -> f64 {
        let (_, size) = svg.split_once("viewBox=\"0 0 900 ").unwrap();
        size.split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn two_data_sets_with_all_their_runs_fit_on_a_screen() {
        let shown = || paper_line(&PUBLISHED[0]).1;
        // The rows of runs and of the paper, by latency, as the stored report has them.
        let panels = [10, 6, 1, 2].map(|rows| {
            let mut panel = Panel::new("4150 ms INJECTED");
            for row in 0..rows {
                let name = format!("system {row}");
                panel.add(0, &name, shown());
                panel.add(1, &name, shown());
            }
            panel
        });
        let svg = drawn(&["2WikiMultihopQA", "MuSiQue"], &panels).unwrap();
        assert!(height(&svg) <= SCREEN, "{} of {SCREEN}", height(&svg));
        assert_eq!(svg.matches(r#"class="mark s3""#).count(), 2 * 19 + 1);
        assert_eq!(svg.matches(">system 0</text>").count(), 4);
    }

    #[test]
    fn two_runs_of_one_name_do_not_hide_each_other() {
        let mut panel = Panel::new("E5, nothing injected");
        for column in [0, 0, 1] {
            panel.add(column, "system", paper_line(&PUBLISHED[0]).1);
        }
        let columns = panel.rows.iter().map(|row| row.shown.len());
        assert_eq!(columns.collect::<Vec<_>>(), [2, 1]);
    }
}
