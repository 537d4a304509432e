//! Stage times, and the bound beside what was measured: the paper's Figure 5.

use crate::stats::quantile;

use super::estimate::Estimates;
use super::figures::{Figure, LEFT, RIGHT, TOP, WIDTH};
use super::groups::{Case, View};
use super::svg::{Anchor, Canvas, Scale};
use super::table::fixed;

/// Bars of a histogram.
const BINS: usize = 24;
/// Between two histograms.
const BETWEEN: f64 = 34.0;
/// The share of times beyond which a histogram is cut off: one slow page would press all others together.
const CUT: f64 = 0.99;

/// How long look-ups, guesses and segments took, each with mean and standard deviation.
pub(super) fn times(view: &View<'_>, speculator: &str, id: &str) -> Option<Figure> {
    let widest = view.widest(speculator)?;
    let base = || widest.cases.iter().flat_map(|case| &case.base.hops);
    let guessed = widest.cases.iter().flat_map(|case| &case.row.hops);
    let of_stages = [
        ("T, look-ups", base().map(|hop| hop.target_ms).collect()),
        (
            "S, guesses",
            guessed.filter_map(|hop| hop.speculation_ms).collect(),
        ),
        ("M, segments", base().map(|hop| hop.segment_ms).collect()),
    ];
    let of_stages = of_stages.map(|(name, mut times): (&str, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        (name, times)
    });
    if of_stages.iter().all(|(_, times)| times.is_empty()) {
        return None;
    }
    let (top, bottom) = (56.0, 250.0);
    let mut canvas = Canvas::new(WIDTH, 300.0);
    let width = (RIGHT - LEFT - 2.0 * BETWEEN) / 3.0;
    for (place, (name, times)) in of_stages.iter().enumerate() {
        let left = LEFT + place as f64 * (width + BETWEEN);
        histogram(&mut canvas, place, name, times, [left, width, top, bottom]);
    }
    let svg = canvas.finish(
        &format!("{id}-times"),
        "Stage times",
        "Three histograms: how long look-ups, guesses and segments took, with mean and standard deviation.",
    );
    Some(Figure {
        caption: format!(
            "Stage times of hops, {} (the paper's Figure 5, top): look-ups and segments of k = 1, guesses of {} \
             that came to an end. The slowest hundredth is not drawn, but counted in μ and σ.",
            view.label,
            widest.name()
        ),
        svg,
    })
}

/// `times` must be sorted.
fn histogram(
    canvas: &mut Canvas,
    series: usize,
    name: &str,
    times: &[f64],
    [left, width, top, bottom]: [f64; 4],
) {
    let middle = left + width / 2.0;
    canvas.text("name", Anchor::Middle, (middle, 18.0), name);
    let Some(longest) = quantile(times, CUT).filter(|longest| *longest > 0.0) else {
        canvas.text("label", Anchor::Middle, (middle, 36.0), "none");
        return;
    };
    let n = times.len() as f64;
    let mean = times.iter().sum::<f64>() / n;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    let sigma = (squares / (n - 1.0).max(1.0)).sqrt();
    let (unit, name, digits) = match longest {
        ..20.0 => (1.0, "milliseconds", 1),
        ..1e3 => (1.0, "milliseconds", 0),
        _ => (1e3, "seconds", 1),
    };
    let shown = |ms: f64| fixed(ms / unit, digits);
    let about = format!("μ {}, σ {}", shown(mean), shown(sigma));
    canvas.text("label", Anchor::Middle, (middle, 38.0), &about);
    let on = |ms: f64| left + width * ms / longest;
    // No room for more: three histograms stand side by side.
    for ms in [0.0, longest / 2.0, longest] {
        canvas.line("grid", (on(ms), top), (on(ms), bottom));
        canvas.text("tick", Anchor::Middle, (on(ms), bottom + 18.0), &shown(ms));
    }
    canvas.text("name", Anchor::Middle, (middle, bottom + 40.0), name);
    let mut bins = [0_usize; BINS];
    for time in times.iter().filter(|time| **time <= longest) {
        let at = (time / longest * BINS as f64) as usize;
        bins[at.min(BINS - 1)] += 1;
    }
    let most = bins.iter().copied().max().unwrap_or(1).max(1) as f64;
    for (at, count) in bins.iter().enumerate().filter(|(_, count)| **count > 0) {
        let edge = |at: usize| on(longest * at as f64 / BINS as f64);
        let height = (bottom - top) * *count as f64 / most;
        canvas.bar(
            series,
            edge(at),
            edge(at + 1) - edge(at) - 1.0,
            [bottom - height, bottom],
        );
    }
}

/// RelLat of each question beside its own RelLat*.
pub(super) fn bound(view: &View<'_>, speculator: &str, id: &str) -> Option<Figure> {
    let widest = view.widest(speculator)?;
    let point = |case: &Case<'_>| {
        let measured = case.row.latency_ms / case.base.latency_ms;
        Some((Estimates::bound_of(case.row)?, measured)).filter(|point| point.1.is_finite())
    };
    let points: Vec<(f64, f64)> = widest.cases.iter().filter_map(point).collect();
    if points.len() < 2 {
        return None;
    }
    let all = || {
        points
            .iter()
            .flat_map(|(bound, measured)| [*bound, *measured])
    };
    let (least, greatest) = (all().fold(1.0, f64::min), all().fold(1.0, f64::max));
    let (left, right, bottom) = (LEFT + 130.0, RIGHT - 130.0, 420.0);
    let across = Scale::over(least, greatest, left, right - left);
    let up = Scale::over(least, greatest, bottom, TOP - 30.0 - bottom);
    let mut canvas = Canvas::new(WIDTH, bottom + 50.0);
    canvas.up(up, left, right, "RelLat");
    canvas.across(across, TOP - 30.0, bottom, "RelLat* of the question");
    let ends = [least, greatest].map(|x| (across.on(x), up.on(x)));
    canvas.line("bound", ends[0], ends[1]);
    for (bound, measured) in &points {
        canvas.dot((across.on(*bound), up.on(*measured)));
    }
    let svg = canvas.finish(
        &format!("{id}-oracle"),
        "RelLat beside RelLat*",
        "A point for each question: what its own p, α and β would allow by the bound, and what was measured.",
    );
    Some(Figure {
        caption: format!(
            "RelLat of each question beside RelLat* with its own p, α and β, {} of {} questions, {} (the paper's \
             Figure 5, bottom). Below the line: salvage, and guesses that the bound does not know of.",
            points.len(),
            widest.cases.len(),
            view.label
        ),
        svg,
    })
}
