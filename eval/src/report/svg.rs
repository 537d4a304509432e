//! The little of SVG that the figures need.
//!
//! Written by hand rather than with a plotting library: colours, dashes and text take their looks from
//! the page's style sheet, by class, so that one drawing serves dark, light and paper. A library
//! writes colours and fonts into every element.

use std::fmt::Write;

/// Series that look different; later ones begin again.
const SERIES: usize = 4;

/// A drawing under way. Writing to it cannot fail, as it is a string.
pub(super) struct Canvas {
    body: String,
    width: f64,
    height: f64,
}

/// Numbers along a length on the drawing.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    step: f64,
    at: f64,
    length: f64,
}

/// Where text stands relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self {
            body: String::new(),
            width,
            height,
        }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    /// A line through the points.
    pub(super) fn path(&mut self, series: usize, points: &[(f64, f64)]) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = write!(
            self.body,
            r#"<polyline class="path s{}" points="{}"/>"#,
            series % SERIES,
            points.join(" ")
        );
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = write!(
            self.body,
            r#"<text class="{class}" text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        );
    }

    /// Each series has its own shape.
    pub(super) fn mark(&mut self, series: usize, (x, y): (f64, f64)) {
        let series = series % SERIES;
        let corners: &[(f64, f64)] = match series {
            0 => {
                let _ = write!(
                    self.body,
                    r#"<circle class="mark s0" cx="{x:.1}" cy="{y:.1}" r="4.5"/>"#
                );
                return;
            }
            1 => &[(-4.2, -4.2), (4.2, -4.2), (4.2, 4.2), (-4.2, 4.2)],
            2 => &[(0.0, -5.5), (5.2, 4.0), (-5.2, 4.0)],
            _ => &[(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)],
        };
        let corners = corners
            .iter()
            .map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy));
        let corners: Vec<String> = corners.collect();
        let _ = write!(
            self.body,
            r#"<polygon class="mark s{series}" points="{}"/>"#,
            corners.join(" ")
        );
    }

    /// A value with the ends of its interval: a whisker, and the mark on it.
    pub(super) fn whisker(&mut self, series: usize, ends: [(f64, f64); 2], at: (f64, f64)) {
        let class = format!("whisker s{}", series % SERIES);
        self.line(&class, ends[0], ends[1]);
        self.mark(series, at);
    }

    /// A bar that stands on `bottom`.
    pub(super) fn bar(&mut self, series: usize, x: f64, width: f64, [top, bottom]: [f64; 2]) {
        let (series, height) = (series % SERIES, (bottom - top).max(0.0));
        let _ = write!(
            self.body,
            r#"<rect class="bar s{series}" x="{x:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}"/>"#
        );
    }

    /// One of many points.
    pub(super) fn dot(&mut self, (x, y): (f64, f64)) {
        let _ = write!(
            self.body,
            r#"<circle class="dot s0" cx="{x:.1}" cy="{y:.1}" r="3"/>"#
        );
    }

    /// Names of series, each behind its mark, from the left.
    pub(super) fn legend(&mut self, x: f64, y: f64, names: &[(usize, String)]) {
        let mut x = x;
        for (series, name) in names {
            self.line(
                &format!("path s{}", series % SERIES),
                (x, y - 4.0),
                (x + 26.0, y - 4.0),
            );
            self.mark(*series, (x + 13.0, y - 4.0));
            self.text("label", Anchor::Start, (x + 33.0, y), name);
            // About the width of a letter.
            x += 55.0 + 7.4 * name.chars().count() as f64;
        }
    }

    /// Grid and numbers of a scale from the left to the right, and its name below.
    pub(super) fn across(&mut self, scale: Scale, top: f64, bottom: f64, name: &str) {
        for tick in scale.ticks() {
            let x = scale.on(tick);
            self.line("grid", (x, top), (x, bottom));
            self.text(
                "tick",
                Anchor::Middle,
                (x, bottom + 18.0),
                &scale.format(tick),
            );
        }
        let middle = scale.at + scale.length / 2.0;
        self.text("name", Anchor::Middle, (middle, bottom + 40.0), name);
    }

    /// Grid and numbers of a scale from the bottom up, and its name above.
    pub(super) fn up(&mut self, scale: Scale, left: f64, right: f64, name: &str) {
        for tick in scale.ticks() {
            let y = scale.on(tick);
            self.line("grid", (left, y), (right, y));
            self.text(
                "tick",
                Anchor::End,
                (left - 8.0, y + 4.5),
                &scale.format(tick),
            );
        }
        let top = scale.at.min(scale.at + scale.length);
        self.text("name", Anchor::Start, (8.0, top - 14.0), name);
    }

    /// The whole drawing. Readers that do not see it are told the title and the description.
    pub(super) fn finish(self, id: &str, title: &str, description: &str) -> String {
        let Self {
            body,
            width,
            height,
        } = self;
        let (title, description) = (escape(title), escape(description));
        format!(
            r#"<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{id}-t {id}-d">"#
        ) + &format!(r#"<title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>"#)
            + &body
            + "</svg>"
    }

    /// The whole drawing as a file of its own: it brings the looks along that a page would give it.
    pub(super) fn finish_alone(self, title: &str, description: &str) -> String {
        let drawing = self.finish("figure", title, description);
        let opened = r#"<svg xmlns="http://www.w3.org/2000/svg" "#;
        let drawing = drawing.replacen("<svg ", opened, 1);
        drawing.replacen("<title", &format!("<style>{LOOKS}</style><title"), 1) + "\n"
    }
}

/// As the style sheet of the report, on a light ground.
const LOOKS: &str = "svg{background:#fff}text{fill:#1d2329;font:14px system-ui,sans-serif}.tick{fill:#59636e;font-size:13px}\
.name{font-weight:600}.grid{stroke:#d5dae0}.path{fill:none;stroke-width:2.2}.whisker{stroke-width:1.6}.mark{stroke:#fff}\
.path.s0,.whisker.s0{stroke:#0063b2}.path.s1,.whisker.s1{stroke:#c24a00}.path.s1{stroke-dasharray:9 3}\
.mark.s0{fill:#0063b2}.mark.s1{fill:#c24a00}";

impl Scale {
    /// From the first tick at or below the least to the first at or above the greatest, laid over
    /// `length` (which may be negative: upwards) from `at`.
    pub(super) fn over(least: f64, greatest: f64, at: f64, length: f64) -> Self {
        let greatest = if greatest > least {
            greatest
        } else {
            least + 1.0
        };
        let step = step(greatest - least);
        // Rounding must not cost a whole step.
        let from = (least / step + 1e-9).floor() * step;
        let to = (greatest / step - 1e-9).ceil() * step;
        Self {
            from,
            to,
            step,
            at,
            length,
        }
    }

    pub(super) fn on(self, value: f64) -> f64 {
        self.at + self.length * (value - self.from) / (self.to - self.from)
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        let count = ((self.to - self.from) / self.step).round() as usize;
        (0..=count).map(move |i| self.from + i as f64 * self.step)
    }

    fn format(self, tick: f64) -> String {
        // As many digits as the step has.
        let digits = (-self.step.log10()).ceil().max(0.0) as usize;
        super::table::fixed(tick, digits)
    }
}

/// A step of 1, 2 or 5 times a power of ten that gives four to eight ticks.
fn step(range: f64) -> f64 {
    let raw = range / 5.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|step| step * power >= raw * 0.75);
    step.unwrap_or(10.0) * power
}

/// At most so many letters.
pub(super) fn shorten(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(1)).collect();
    kept + "…"
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let ticks = |least, greatest| {
            let scale = Scale::over(least, greatest, 0.0, 100.0);
            scale
                .ticks()
                .map(|tick| scale.format(tick))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(ticks(0.0, 1.0), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(ticks(0.47, 1.03), "0.4 0.5 0.6 0.7 0.8 0.9 1.0 1.1");
        assert_eq!(ticks(0.0, 37.0), "0 10 20 30 40");
        assert_eq!(ticks(0.93, 0.97), "0.93 0.94 0.95 0.96 0.97");
        assert_eq!(ticks(2.0, 2.0), "2.0 2.2 2.4 2.6 2.8 3.0");
    }

    #[test]
    fn a_scale_may_go_upwards() {
        let scale = Scale::over(0.0, 1.0, 300.0, -200.0);
        assert_eq!((scale.on(0.0), scale.on(1.0)), (300.0, 100.0));
    }

    #[test]
    fn text_is_text() {
        let mut canvas = Canvas::new(10.0, 10.0);
        canvas.text("label", Anchor::Start, (0.0, 0.0), "<script> & \"more\"");
        let svg = canvas.finish("id", "a < b", "");
        assert!(
            svg.contains("&lt;script&gt; &amp; &quot;more&quot;"),
            "{svg}"
        );
        assert!(svg.contains("a &lt; b"), "{svg}");
    }
}
