//! RelLat and look-ups against k, as a drawing of its own that needs no page.

use super::svg::{Anchor, Canvas, Scale};

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveFigure {
    /// What it is called, for readers that do not see it.
    pub title: String,
    /// The smallest k first.
    pub points: Vec<CurvePoint>,
}

/// One k. Each number has its lower and its upper bound behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Most branches alive at once.
    pub k: u32,
    /// Latency divided by that at k = 1.
    pub rel_lat: (f64, f64, f64),
    /// Look-ups of a question.
    pub targets: (f64, f64, f64),
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 20.0;
/// Top and bottom of each of the two parts.
const PARTS: [(f64, f64); 2] = [(62.0, 300.0), (370.0, 520.0)];

/// An SVG file: RelLat above, look-ups below.
pub fn curve_svg(figure: &CurveFigure) -> String {
    let mut canvas = Canvas::new(WIDTH, 580.0);
    let rel_lat = figure.points.iter().map(|at| at.rel_lat);
    draw(
        &mut canvas,
        figure,
        PARTS[0],
        0,
        "RelLat",
        &rel_lat.collect::<Vec<_>>(),
    );
    let targets = figure.points.iter().map(|at| at.targets);
    draw(
        &mut canvas,
        figure,
        PARTS[1],
        1,
        "look-ups of a question",
        &targets.collect::<Vec<_>>(),
    );
    let (x, y) = ((LEFT + RIGHT) / 2.0, PARTS[1].1 + 40.0);
    canvas.text("name", Anchor::Middle, (x, y), "k");
    canvas.finish_alone(
        &figure.title,
        "Above the latency divided by that at k = 1, below the look-ups of a question; whiskers are bounds.",
    )
}

fn draw(
    canvas: &mut Canvas,
    figure: &CurveFigure,
    (top, bottom): (f64, f64),
    series: usize,
    name: &str,
    values: &[(f64, f64, f64)],
) {
    let greatest = values.iter().map(|(_, _, high)| *high).fold(1.0, f64::max);
    let scale = Scale::over(0.0, greatest, bottom, top - bottom);
    canvas.up(scale, LEFT, RIGHT, name);
    let gap = (RIGHT - LEFT) / figure.points.len().max(1) as f64;
    let x = |place: usize| LEFT + gap * (place as f64 + 0.5);
    let places: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(place, (value, _, _))| (x(place), scale.on(*value)))
        .collect();
    canvas.path(series, &places);
    for (at, ((_, low, high), place)) in figure.points.iter().zip(values.iter().zip(&places)) {
        let label = at.k.to_string();
        canvas.text("tick", Anchor::Middle, (place.0, bottom + 18.0), &label);
        let class = format!("whisker s{series}");
        canvas.line(
            &class,
            (place.0, scale.on(*low)),
            (place.0, scale.on(*high)),
        );
        canvas.mark(series, *place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stands_alone_and_has_a_mark_for_each_k() {
        let point = |k: u32| CurvePoint {
            k,
            rel_lat: (1.0 / f64::from(k), 0.1, 1.0),
            targets: (3.0 + f64::from(k), 3.0, 9.0),
        };
        let figure = CurveFigure {
            title: "a < b".into(),
            points: [1, 2, 4].map(point).to_vec(),
        };
        let svg = curve_svg(&figure);
        assert!(
            svg.starts_with(r#"<svg xmlns="http://www.w3.org/2000/svg""#),
            "{svg}"
        );
        assert!(svg.contains("<style>") && svg.contains("a &lt; b"), "{svg}");
        assert_eq!(svg.matches(r#"class="mark s0""#).count(), 3);
        assert_eq!(svg.matches(r#"class="mark s1""#).count(), 3);
        assert_eq!(svg.matches(r#"class="whisker"#).count(), 6);
    }
}
