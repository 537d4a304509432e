//! The controls: what of a gain is owed to prediction, and what to work at the same time.

use crate::stats::of_sums;
use crate::{Control, Variant};

use super::groups::{Case, Compared, Group, View, common, rel_lat};
use super::table::{Cell, Table};

/// A row for each variant that was also played with a control. Without rows if none was.
pub(super) fn table(group: &Group<'_>) -> Table {
    let rows = group.views.iter().flat_map(rows).collect();
    Table {
        name: "control",
        title: "Is it prediction? Beside speculators that know nothing".into(),
        about: "Each variant over the same questions with our guesses, with blind ones, and with none \
                (eval simulate --control). Wrong guesses can gain, too: a look-up that does not depend on the \
                guess is salvaged, and planning ahead needs none."
            .into(),
        columns: [
            "Source", "Variant", "Questions", "RelLat", "RelLat, blind", "RelLat, silent", "Owed to prediction",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for ours in view.main() {
        // What is blind guesses where this speculator does.
        let is_usual = ours.variant.speculator() == Variant::standard().speculator();
        let [blind, silent] = Control::ALL
            .map(|control| view.get(&ours.variant.clone().with_speculator(control.as_str())));
        if !is_usual || (blind.is_none() && silent.is_none()) {
            continue;
        }
        let with =
            |control: Option<&Compared<'_>>| Cell::interval(control.and_then(Compared::rel_lat), 3);
        rows.push(vec![
            Cell::text(&view.label),
            Cell::text(ours.name()),
            Cell::share_of(ours.cases.len(), view.run.info.questions),
            Cell::interval(rel_lat(&ours.cases), 3),
            with(blind),
            with(silent),
            blind.map_or_else(Cell::none, |blind| owed(&ours.cases, &blind.cases)),
        ]);
    }
    rows
}

/// Nothing if nothing was gained.
fn owed(ours: &[Case<'_>], blind: &[Case<'_>]) -> Cell {
    let (ours, blind) = common(ours, blind);
    let latencies = |(ours, blind): (&Case<'_>, &Case<'_>)| {
        [ours.row, blind.row, ours.base].map(|row| row.latency_ms)
    };
    let sums: Vec<[f64; 3]> = ours.iter().zip(&blind).map(latencies).collect();
    let owed = of_sums(&sums, |[ours, blind, base]| (blind - ours) / (base - ours));
    let gains = rel_lat(&ours).is_some_and(|rel_lat| rel_lat.high < 1.0);
    Cell::interval(owed.filter(|_| gains), 2)
}
