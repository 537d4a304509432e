//! Calls against k: the lower half of the paper's Figures 2 and 4.

use spechop_types::K;

use crate::{Row, Variant};

use super::by_k::at;
use super::figures::{Figure, LEFT, RIGHT, TOP, WIDTH, steps};
use super::groups::{Case, View, common};
use super::svg::{Canvas, Scale};

/// Of a row: how many calls of a stage it started.
type Started = fn(&Row) -> u32;

const STAGES: [(&str, Started); 3] = [
    ("T, look-ups", |row| row.targets.started),
    ("S, guesses", |row| row.speculations.started),
    // The paper does not count the one that writes the answer.
    ("M, segments but the last", |row| {
        row.segments.started.saturating_sub(1)
    }),
];

/// Mean calls of each stage at every k, over the questions that all of them have answered; nothing if there is only
/// k = 1.
pub(super) fn figure(view: &View<'_>, speculator: &str, id: &str) -> Option<Figure> {
    let widths = view.main().map(|compared| compared.variant.k());
    let mut ks: Vec<K> = widths.chain([K::ONE]).collect();
    ks.sort();
    ks.dedup();
    ks.retain(|k| {
        *k == K::ONE
            || view
                .get(&Variant::at(*k).with_speculator(speculator))
                .is_some()
    });
    if ks.len() < 2 {
        return None;
    }
    let asked: Vec<Vec<Case<'_>>> = ks.iter().map(|k| at(view, speculator, *k)).collect();
    // A k that lacks the long questions would seem to take fewer calls.
    let by_all = asked.iter().skip(1);
    let by_all = by_all.fold(asked.first()?.clone(), |by_all, cases| {
        common(&by_all, cases).0
    });
    if by_all.is_empty() {
        return None;
    }
    let mean = |cases: &[Case<'_>], started: Started| {
        let (cases, _) = common(cases, &by_all);
        let calls: f64 = cases.iter().map(|case| f64::from(started(case.row))).sum();
        calls / cases.len() as f64
    };
    let lines = STAGES.map(|(name, started)| {
        let means: Vec<f64> = asked.iter().map(|cases| mean(cases, started)).collect();
        (name, means)
    });
    let most = lines.iter().flat_map(|(_, means)| means).copied();
    let most = most.fold(0.0, f64::max);
    let bottom = 290.0;
    let scale = Scale::over(0.0, most, bottom, TOP - bottom);
    let mut canvas = Canvas::new(WIDTH, 340.0);
    canvas.up(scale, LEFT, RIGHT, "calls of a question");
    let x = steps(&mut canvas, &ks, bottom, "k (1 is the standard agent)");
    for (series, (_, means)) in lines.iter().enumerate() {
        let points = means.iter().enumerate();
        let points: Vec<_> = points
            .map(|(place, mean)| (x(place), scale.on(*mean)))
            .collect();
        canvas.path(series, &points);
        for point in points {
            canvas.mark(series, point);
        }
    }
    let names = lines.iter().map(|(name, _)| (*name).to_owned());
    let names: Vec<_> = names.enumerate().collect();
    canvas.legend(LEFT + 80.0, 24.0, &names);
    let svg = canvas.finish(
        &format!("{id}-calls"),
        "Calls against k",
        "Mean calls of a question, aborted ones included: look-ups, guesses and segments but the last, for each k.",
    );
    Some(Figure {
        caption: format!(
            "Calls of a question against k, speculator {speculator}, {}, aborted ones included (below RelLat in \
             the paper's Figures 2 and 4). As in the paper, the segment that writes the answer is not counted. The \
             paper gives figures for DeepResearch-9K, GPT-4o guessing over the web, k = 3: RelLat .75 (.71 at \
             k = ∞), calls of T 5.48 without and 10.69 with speculation, of M 5.48 and 17.83.",
            view.label
        ),
        svg,
    })
}
