//! The figures of a group of runs.

use spechop_theory::Interval;
use spechop_types::K;

use crate::stats::quantile;
use crate::{Source, Variant};

use super::by_k::{at, widths};
use super::cost::targets;
use super::estimate::Estimates;
use super::groups::{Group, View, rel_lat};
use super::kinds::{kinds, shown};
use super::svg::{Anchor, Canvas, Scale, shorten};
use super::{calls, stages, subsets, tails};

/// A drawing and the words below it.
pub(super) struct Figure {
    pub(super) caption: String,
    pub(super) svg: String,
}

pub(super) const WIDTH: f64 = 760.0;
pub(super) const LEFT: f64 = 60.0;
pub(super) const RIGHT: f64 = WIDTH - 20.0;
pub(super) const TOP: f64 = 62.0;

/// All that there is data for; `id` tells this group's drawings from others'.
pub(super) fn figures(group: &Group<'_>, id: &str) -> Vec<Figure> {
    let Some(speculator) = group.speculators().first().copied() else {
        return Vec::new();
    };
    // What compares variants shows the run that has most of them: a live one often has two or three.
    let (foremost, fullest) = (group.foremost(), group.fullest());
    let figures = [
        by_k(group, speculator, id),
        fullest.and_then(|view| cost(view, id)),
        foremost.and_then(|view| latencies(view, speculator, id)),
        fullest.and_then(|view| types(view, speculator, id)),
        foremost.and_then(|view| tails::figure(view, speculator, id)),
        fullest.and_then(|view| calls::figure(view, speculator, id)),
        fullest.and_then(|view| subsets::figure(view, id)),
        fullest.and_then(|view| stages::times(view, speculator, id)),
        fullest.and_then(|view| stages::bound(view, speculator, id)),
    ];
    figures.into_iter().flatten().collect()
}

/// Names the places from the left to the right, and what they are below. Gives the middle of each.
pub(super) fn steps<T: ToString>(
    canvas: &mut Canvas,
    places: &[T],
    bottom: f64,
    name: &str,
) -> impl Fn(usize) -> f64 + use<T> {
    let gap = (RIGHT - LEFT) / places.len() as f64;
    let x = move |place: usize| LEFT + gap * (place as f64 + 0.5);
    for (at, place) in places.iter().enumerate() {
        let below = (x(at), bottom + 18.0);
        canvas.text("tick", Anchor::Middle, below, &place.to_string());
    }
    let below = ((LEFT + RIGHT) / 2.0, bottom + 40.0);
    canvas.text("name", Anchor::Middle, below, name);
    x
}

/// A source looks the same in every figure.
pub(super) fn series(source: Source) -> usize {
    match source {
        Source::Simulated => 0,
        Source::Live => 1,
        Source::Replayed => 2,
    }
}

fn by_k(group: &Group<'_>, speculator: &str, id: &str) -> Option<Figure> {
    let ks = widths(group, speculator);
    let mut lines = Vec::new();
    for view in &group.views {
        let rel_lat = |k: &K| rel_lat(&at(view, speculator, *k));
        let points = ks.iter().map(rel_lat).enumerate();
        let points: Vec<_> = points
            .filter_map(|(place, rel_lat)| Some((place, rel_lat?)))
            .collect();
        if points.len() > 1 {
            lines.push((view, points));
        }
    }
    let (first, _) = lines.first()?;
    let widest = first.widest(speculator)?;
    let bound = Estimates::of(widest.cases.iter().map(|case| case.row)).bound();

    let all = lines
        .iter()
        .flat_map(|(_, points)| points.iter().map(|(_, rel_lat)| rel_lat));
    let bounds = bound.map(|bound| bound.value);
    let least = all.clone().map(|x| x.low).chain(bounds).fold(1.0, f64::min);
    let greatest = all.map(|x| x.high).fold(1.0, f64::max);
    let bottom = 330.0;
    let scale = Scale::over(least, greatest, bottom, TOP - bottom);
    let mut canvas = Canvas::new(WIDTH, 380.0);
    canvas.up(scale, LEFT, RIGHT, "RelLat");
    let x = steps(&mut canvas, &ks, bottom, "k");
    if let Some(bound) = bounds {
        let y = scale.on(bound);
        canvas.line("bound", (LEFT, y), (RIGHT, y));
        let label = format!("RelLat* {bound:.3} ({})", first.label);
        canvas.text("label", Anchor::Start, (LEFT + 8.0, y - 7.0), &label);
    }
    let mut names = Vec::new();
    let middle = (lines.len() as f64 - 1.0) / 2.0;
    for (line, (view, points)) in lines.iter().enumerate() {
        let series = series(view.run.info.source);
        names.push((series, view.label.clone()));
        // Side by side, so that no whisker hides another.
        let aside = (line as f64 - middle) * 9.0;
        let places: Vec<_> = points
            .iter()
            .map(|(place, rel)| (x(*place) + aside, scale.on(rel.value)))
            .collect();
        canvas.path(series, &places);
        for ((_, rel_lat), place) in points.iter().zip(&places) {
            let ends = [rel_lat.low, rel_lat.high].map(|end| (place.0, scale.on(end)));
            canvas.whisker(series, ends, *place);
        }
    }
    canvas.legend(LEFT + 80.0, 24.0, &names);
    let caption = format!(
        "RelLat against k, speculator {speculator}. Whiskers: 95 % bootstrap intervals over questions."
    );
    let svg = canvas.finish(
        &format!("{id}-by-k"),
        "RelLat against k",
        "A line for each source of rows; the dashed line is RelLat*, what an unbounded window reaches.",
    );
    Some(Figure { caption, svg })
}

fn cost(view: &View<'_>, id: &str) -> Option<Figure> {
    let mut points = vec![("k=1".to_owned(), 1.0, 1.0)];
    for compared in &view.compared {
        let place = targets(compared).zip(compared.rel_lat_value());
        points.extend(place.map(|(cost, rel_lat)| (compared.name(), cost.value, rel_lat)));
    }
    if points.len() == 1 {
        return None;
    }
    // Fastest at the bottom, where its label is.
    points.sort_by(|a, b| b.2.total_cmp(&a.2));
    // No legend stands above.
    let top = 40.0;
    let right = RIGHT - 260.0;
    let bottom = top + 270.0_f64.max(17.0 * points.len() as f64);
    let range = |of: fn(&(String, f64, f64)) -> f64| {
        let all = points.iter().map(of);
        (
            all.clone().fold(f64::INFINITY, f64::min),
            all.fold(f64::NEG_INFINITY, f64::max),
        )
    };
    let ((least, most), (fastest, slowest)) = (range(|p| p.1), range(|p| p.2));
    let costs = Scale::over(least, most, LEFT, right - LEFT);
    let rel_lats = Scale::over(fastest, slowest, bottom, top - bottom);
    let mut canvas = Canvas::new(WIDTH, bottom + 50.0);
    canvas.up(rel_lats, LEFT, right, "RelLat");
    canvas.across(costs, top, bottom, "target calls ÷ those of k = 1");
    let mut labels: Vec<f64> = points.iter().map(|point| rel_lats.on(point.2)).collect();
    spread(&mut labels, 17.0, top, bottom);
    let series = series(view.run.info.source);
    for ((name, cost, rel_lat), label) in points.iter().zip(labels) {
        let place = (costs.on(*cost), rel_lats.on(*rel_lat));
        canvas.line("leader", place, (right + 16.0, label));
        canvas.text(
            "label",
            Anchor::Start,
            (right + 20.0, label + 4.5),
            &shorten(name, 33),
        );
        canvas.mark(series, place);
    }
    let caption = format!(
        "Cost against gain, {}: further down is faster, further left is cheaper.",
        view.label
    );
    let svg = canvas.finish(
        &format!("{id}-cost"),
        "Cost against gain",
        "A point for each variant: its target calls, and its latency, relative to k = 1.",
    );
    Some(Figure { caption, svg })
}

/// Moves labels, sorted from the top, apart, as little as that needs.
fn spread(labels: &mut [f64], gap: f64, top: f64, bottom: f64) {
    let mut least = top;
    for label in labels.iter_mut() {
        *label = label.max(least);
        least = *label + gap;
    }
    let mut most = bottom;
    for label in labels.iter_mut().rev() {
        *label = label.min(most);
        most = *label - gap;
    }
}

fn latencies(view: &View<'_>, speculator: &str, id: &str) -> Option<Figure> {
    let best = view.best(speculator)?;
    let seconds = |of: &dyn Fn(&super::groups::Case<'_>) -> f64| {
        let mut all: Vec<f64> = best.cases.iter().map(|case| of(case) / 1e3).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let lines = [
        (
            3,
            Variant::standard().to_string(),
            seconds(&|case| case.base.latency_ms),
        ),
        (
            series(view.run.info.source),
            best.name(),
            seconds(&|case| case.row.latency_ms),
        ),
    ];
    let longest = lines
        .iter()
        .filter_map(|(.., all)| all.last())
        .copied()
        .fold(0.0, f64::max);
    let bottom = 330.0;
    let across = Scale::over(0.0, longest, LEFT, RIGHT - LEFT);
    let up = Scale::over(0.0, 100.0, bottom, TOP - bottom);
    let mut canvas = Canvas::new(WIDTH, 380.0);
    canvas.up(up, LEFT, RIGHT, "% of questions answered");
    canvas.across(across, TOP, bottom, "latency in seconds");
    let mut names = Vec::new();
    for (series, name, all) in &lines {
        let mut points = vec![(across.on(0.0), up.on(0.0))];
        for (i, latency) in all.iter().enumerate() {
            let share = |count: usize| up.on(100.0 * count as f64 / all.len() as f64);
            points.push((across.on(*latency), share(i)));
            points.push((across.on(*latency), share(i + 1)));
        }
        points.push((RIGHT, up.on(100.0)));
        canvas.path(*series, &points);
        let median = quantile(all, 0.5)?;
        canvas.mark(*series, (across.on(median), up.on(50.0)));
        names.push((
            *series,
            format!("{}: median {median:.1} s", shorten(name, 30)),
        ));
    }
    canvas.legend(LEFT + 140.0, 24.0, &names);
    let caption = format!(
        "Latency of questions, {}, k = 1 and the best k. Marks: medians.",
        view.label
    );
    let svg = canvas.finish(
        &format!("{id}-latency"),
        "Latency of questions",
        "Share of the questions that were answered within a time, with and without speculation.",
    );
    Some(Figure { caption, svg })
}

fn types(view: &View<'_>, speculator: &str, id: &str) -> Option<Figure> {
    let (with, without) = shown(view, speculator)?;
    let kinds = kinds(view, speculator, with, without);
    let drawn = |series: usize, rel_lat: Option<Interval>| Some((series, rel_lat?));
    let rows: Vec<_> = kinds
        .iter()
        .map(|kind| {
            let dots = [drawn(1, kind.rel_lat()), drawn(2, kind.without_salvage())];
            let dots: Vec<_> = dots.into_iter().flatten().collect();
            (
                format!("{} ({})", shorten(kind.name, 22), kind.with.len()),
                dots,
                kind.estimates.bound(),
            )
        })
        .collect();
    let all = rows
        .iter()
        .flat_map(|(_, dots, _)| dots.iter().map(|(_, rel_lat)| rel_lat));
    let bounds = rows
        .iter()
        .filter_map(|(.., bound)| Some(bound.as_ref()?.value));
    let least = all.clone().map(|x| x.low).chain(bounds).fold(1.0, f64::min);
    let greatest = all.map(|x| x.high).fold(1.0, f64::max);
    let left = 220.0;
    let bottom = TOP + 46.0 * rows.len() as f64;
    let scale = Scale::over(least, greatest, left, RIGHT - left);
    let mut canvas = Canvas::new(WIDTH, bottom + 50.0);
    canvas.across(scale, TOP, bottom, "RelLat");
    for (row, (name, dots, bound)) in rows.iter().enumerate() {
        let y = TOP + 46.0 * (row as f64 + 0.5);
        canvas.text("label", Anchor::End, (left - 12.0, y + 4.5), name);
        for (dot, (series, rel_lat)) in dots.iter().enumerate() {
            let y = y + (dot as f64 - (dots.len() as f64 - 1.0) / 2.0) * 15.0;
            let ends = [rel_lat.low, rel_lat.high].map(|end| (scale.on(end), y));
            canvas.whisker(*series, ends, (scale.on(rel_lat.value), y));
        }
        if let Some(bound) = bound {
            let x = scale.on(bound.value);
            canvas.line("limit", (x, y - 17.0), (x, y + 17.0));
        }
    }
    let mut names = vec![(1, shorten(&with.name(), 24))];
    names.extend(without.map(|without| (2, shorten(&without.name(), 24))));
    canvas.legend(16.0, 24.0, &names);
    canvas.line("limit", (RIGHT - 78.0, 10.0), (RIGHT - 78.0, 30.0));
    canvas.text("label", Anchor::Start, (RIGHT - 68.0, 24.0), "RelLat*");
    let caption = format!(
        "RelLat by type of question (and how many), {}. Bars: RelLat* of the type.",
        view.label
    );
    let svg = canvas.finish(
        &format!("{id}-types"),
        "RelLat by type of question",
        "A row for each type: RelLat with its interval, with and without salvage, and RelLat*.",
    );
    Some(Figure { caption, svg })
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn labels_keep_their_distance() {
        let check = |mut labels: Vec<f64>, expected: &[f64]| {
            spread(&mut labels, 10.0, 0.0, 100.0);
            assert_eq!(labels, expected);
        };
        check(vec![10.0, 50.0], &[10.0, 50.0]);
        check(vec![50.0, 51.0, 52.0], &[50.0, 60.0, 70.0]);
        check(vec![98.0, 99.0, 100.0], &[80.0, 90.0, 100.0]);
    }
}
