//! How the gain is spread over questions: tails of the latency, and speed-up by question (PASTE, figures 10 and
//! 11; the SpecHop paper's figure 5).

use crate::stats::quantile;

use super::figures::{Figure, LEFT, RIGHT, TOP, WIDTH, series};
use super::groups::{Case, Group, View};
use super::svg::{Canvas, Scale, shorten};
use super::table::{Cell, Table};

const SHARES: [(f64, &str); 3] = [(0.5, "p50"), (0.95, "p95"), (0.99, "p99")];

/// Two rows for each run: its widest window, and its fastest variant.
pub(super) fn table(group: &Group<'_>, speculator: &str) -> Table {
    let mut columns = ["Source", "Variant", "Questions"]
        .map(String::from)
        .to_vec();
    for (_, name) in SHARES {
        columns.push(format!("{name}, k=1"));
        columns.push(format!("{name} of variant"));
        columns.push(format!("{name} ÷ k=1"));
    }
    columns.extend(
        [
            "Faster",
            "Median speed-up",
            "Speed-up of the best tenth",
            "RelLat of the worst tenth",
        ]
        .map(String::from),
    );
    let mut rows = Vec::new();
    for view in &group.views {
        let widest = view.widest(speculator);
        let best = view.best(speculator);
        let best = best.filter(|best| widest.is_none_or(|widest| widest.variant != best.variant));
        for compared in widest.into_iter().chain(best) {
            let mut row = vec![
                Cell::text(&view.label),
                Cell::text(compared.name()),
                Cell::share_of(compared.cases.len(), view.run.info.questions),
            ];
            let base = seconds(&compared.cases, |case| case.base.latency_ms);
            let with = seconds(&compared.cases, |case| case.row.latency_ms);
            for (share, _) in SHARES {
                let (base, with) = (quantile(&base, share), quantile(&with, share));
                row.push(Cell::number(base, 2));
                row.push(Cell::number(with, 2));
                row.push(Cell::number(
                    with.zip(base).map(|(with, base)| with / base),
                    3,
                ));
            }
            let ratios = ratios(&compared.cases);
            let faster = ratios.iter().filter(|ratio| **ratio < 1.0).count();
            row.push(Cell::number(faster as f64 / ratios.len() as f64, 3));
            let speed_up = |share| quantile(&ratios, share).map(f64::recip);
            row.push(Cell::number(speed_up(0.5), 2));
            row.push(Cell::number(speed_up(0.1), 2));
            row.push(Cell::number(quantile(&ratios, 0.9), 3));
            rows.push(row);
        }
    }
    Table {
        name: "tails",
        title: format!("Tails, speculator {speculator}"),
        about: "Seconds of a question, and how the gain is spread over the questions. p99 of fewer than a \
                hundred questions hangs on the one or two slowest."
            .into(),
        columns,
        rows,
    }
}

/// The share of questions up to each RelLat, of the widest window and of the best one.
pub(super) fn figure(view: &View<'_>, speculator: &str, id: &str) -> Option<Figure> {
    let widest = view.widest(speculator)?;
    let best = view.best(speculator)?;
    let mut lines = vec![(series(view.run.info.source), widest)];
    if best.variant != widest.variant {
        lines.push((3, best));
    }
    let lines: Vec<_> = lines
        .into_iter()
        .map(|(series, compared)| (series, compared.name(), ratios(&compared.cases)))
        .collect();
    let all = || lines.iter().flat_map(|(.., ratios)| ratios.iter().copied());
    let least = all().fold(1.0, f64::min);
    let greatest = all().fold(1.0, f64::max);
    let bottom = 330.0;
    let across = Scale::over(least, greatest, LEFT, RIGHT - LEFT);
    let up = Scale::over(0.0, 100.0, bottom, TOP - bottom);
    let mut canvas = Canvas::new(WIDTH, 380.0);
    canvas.up(up, LEFT, RIGHT, "% of questions");
    canvas.across(across, TOP, bottom, "RelLat of the question, at most");
    canvas.line("bound", (across.on(1.0), TOP), (across.on(1.0), bottom));
    let mut names = Vec::new();
    for (series, name, ratios) in &lines {
        let mut points = vec![(across.on(*ratios.first()?), up.on(0.0))];
        for (i, ratio) in ratios.iter().enumerate() {
            let share = 100.0 * (i + 1) as f64 / ratios.len() as f64;
            points.push((across.on(*ratio), points.last()?.1));
            points.push((across.on(*ratio), up.on(share)));
        }
        canvas.path(*series, &points);
        canvas.mark(*series, (across.on(quantile(ratios, 0.5)?), up.on(50.0)));
        names.push((*series, shorten(name, 24)));
    }
    canvas.legend(LEFT + 140.0, 24.0, &names);
    let svg = canvas.finish(
        &format!("{id}-tails"),
        "RelLat by question",
        "The share of questions whose latency is at most such a share of that at k = 1.",
    );
    Some(Figure {
        caption: format!(
            "RelLat of single questions, {}: left of 1 they were faster. Marks: medians.",
            view.label
        ),
        svg,
    })
}

fn seconds(cases: &[Case<'_>], of: impl Fn(&Case<'_>) -> f64) -> Vec<f64> {
    sorted(cases.iter().map(|case| of(case) / 1e3))
}

fn ratios(cases: &[Case<'_>]) -> Vec<f64> {
    let ratio = |case: &Case<'_>| case.row.latency_ms / case.base.latency_ms;
    sorted(cases.iter().map(ratio).filter(|ratio| ratio.is_finite()))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
