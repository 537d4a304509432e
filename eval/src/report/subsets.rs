//! What a larger hot subset brings: the paper's Figure 3.

use crate::Variant;

use super::estimate::Estimates;
use super::figures::{Figure, LEFT, RIGHT, TOP, WIDTH, steps};
use super::groups::View;
use super::svg::{Anchor, Canvas, Scale};

/// The usual hot subset, and the beginning of the names of others.
const HOT: &str = "hot";

/// p, α and RelLat of each hot subset at one k; nothing if there is only one subset.
pub(super) fn figure(view: &View<'_>, id: &str) -> Option<Figure> {
    let is_hot = |name: &str| name == HOT || name.starts_with("hot-");
    let mut names: Vec<&str> = view
        .main()
        .map(|compared| compared.variant.speculator())
        .collect();
    // The usual one is the largest.
    names.sort_by_key(|name| (*name == HOT, *name));
    names.dedup();
    names.retain(|name| is_hot(name));
    // The widest window that all of them have.
    let ks = view.main().map(|compared| compared.variant.k());
    let way = |k, name: &str| Variant::at(k).with_speculator(name);
    let has_all =
        |k: &spechop_types::K| names.iter().all(|name| view.get(&way(*k, name)).is_some());
    let k = ks.filter(has_all).max()?;
    if names.len() < 2 {
        return None;
    }
    let mut lines: [Vec<f64>; 3] = Default::default();
    for name in &names {
        let compared = view.get(&way(k, name))?;
        let estimates = Estimates::of(compared.cases.iter().map(|case| case.row));
        let plain = estimates.plain();
        let values = [plain.p_effective?, plain.alpha?, compared.rel_lat_value()?];
        lines
            .iter_mut()
            .zip(values)
            .for_each(|(line, value)| line.push(value));
    }
    let most = lines.iter().flatten().copied().fold(1.0, f64::max);
    let bottom = 290.0;
    let scale = Scale::over(0.0, most, bottom, TOP - bottom);
    let mut canvas = Canvas::new(WIDTH, 340.0);
    canvas.up(scale, LEFT, RIGHT, "");
    let x = steps(&mut canvas, &names, bottom, "hot subset");
    for (series, line) in lines.iter().enumerate() {
        let points = line.iter().enumerate();
        let points: Vec<_> = points
            .map(|(place, value)| (x(place), scale.on(*value)))
            .collect();
        canvas.path(series, &points);
        for (value, (x, y)) in line.iter().zip(points) {
            canvas.mark(series, (x, y));
            canvas.text(
                "label",
                Anchor::Start,
                (x + 9.0, y - 6.0),
                &format!("{value:.2}"),
            );
        }
    }
    let legend = ["effective p", "α", "RelLat"].map(String::from);
    let legend: Vec<_> = legend.into_iter().enumerate().collect();
    canvas.legend(LEFT + 80.0, 24.0, &legend);
    let svg = canvas.finish(
        &format!("{id}-subsets"),
        "What a larger hot subset brings",
        "Effective p, α and RelLat for each size of the hot subset.",
    );
    Some(Figure {
        caption: format!(
            "Hot subsets by share of the passages, k = {k}, {} (the paper's Figure 3). `hot` is the usual one: its \
             share is that of the run's index. The paper says of its largest, 25 % on 2WikiMultihopQA: p over .60 \
             with E5 and over .50 with the web, α near .05, RelLat .64 with the web.",
            view.label
        ),
        svg,
    })
}
