//! The curve as text: a row for each k, RelLat as a bar with its bounds.
//!
//! ```text
//!     k RelLat               0 to RelLat, bounds ├┼┤ look-ups
//! >   3 0.60 (0.57 to 0.63)  ████████████├┼┤         3.9 (3.8 to 4.0)
//! ```

use std::fmt::Write as _;

use spechop_theory::Interval;

use super::curve::{AtK, Curve};

/// Characters of everything but the bars.
const REST: usize = 48;
/// Where there is less room than this, there are no bars.
const BAR_MIN: usize = 12;
/// Where there is less room than this, there are no bounds of look-ups either.
const BOUNDS_MIN: usize = 50;

/// At most `width` characters wide. The row of `k` has a mark.
pub(super) fn plot(curve: &Curve, k: u32, width: usize) -> String {
    let bar = width.saturating_sub(REST);
    let most = curve.points.iter().map(|at| at.rel_lat.high);
    let most = most.fold(1.0, f64::max);
    let mut text = String::new();
    let bars = bar >= BAR_MIN;
    let (title, gap) = match bars {
        true => ("0 to RelLat, bounds ├┼┤", bar),
        false => ("", 0),
    };
    let title: String = title.chars().take(gap).collect();
    let _ = write!(text, "    k RelLat               ");
    if bars {
        let _ = write!(text, "{title:gap$} ");
    }
    let _ = writeln!(text, "look-ups");
    for at in &curve.points {
        let mark = if at.k == k { '>' } else { ' ' };
        let rel_lat = shown(at.rel_lat, 2);
        let _ = write!(text, "{mark} {:>3} {rel_lat:20} ", at.k);
        if bars {
            let _ = write!(text, "{} ", drawn(at, most, bar));
        }
        let targets = match width >= BOUNDS_MIN {
            true => shown(at.targets, 1),
            false => format!("{:.1}", at.targets.value),
        };
        let _ = writeln!(text, "{targets}");
    }
    text
}

fn shown(of: Interval, digits: usize) -> String {
    let Interval { value, low, high } = of;
    format!("{value:.digits$} ({low:.digits$} to {high:.digits$})")
}

/// A bar up to the value; over it the bounds.
fn drawn(at: &AtK, most: f64, width: usize) -> String {
    let place = |value: f64| {
        let share = (value / most).clamp(0.0, 1.0);
        ((share * width as f64).ceil() as usize).clamp(1, width) - 1
    };
    let Interval { value, low, high } = at.rel_lat;
    let (low, middle, high) = (place(low), place(value), place(high));
    let letter = |n: usize| match n {
        n if n == middle => '┼',
        n if n == low => '├',
        n if n == high => '┤',
        n if (low..=high).contains(&n) => '─',
        n if n < middle => '█',
        _ => ' ',
    };
    (0..width).map(letter).collect()
}
