//! The table in the layout of the paper's Table 1: how good the guesses are, and what they gain.

use spechop_theory::{Interval, PUBLISHED, Published};
use spechop_types::{K, VerifierMode};

use crate::stats;
use crate::{Source, Variant};

use super::by_k::right_at_one;
use super::estimate::Estimates;
use super::groups::{Case, Compared, Group, View, common, rel_lat};
use super::table::{Cell, Table, with_dataset};

/// Source and speculator, twelve figures of a variant, four of the best k.
const COLUMNS: usize = 18;

pub(super) fn table(group: &Group<'_>) -> Table {
    let mut rows = Vec::new();
    let mut has_letter = false;
    for speculator in group.speculators() {
        for view in &group.views {
            let usual = view.widest(speculator).zip(view.best(speculator));
            rows.extend(usual.map(|(widest, best)| row(group, view, widest, Some(best))));
            let letter = view.get(&to_the_letter(speculator));
            has_letter |= letter.is_some();
            rows.extend(letter.map(|letter| row(group, view, letter, None)));
        }
    }
    let alike = PUBLISHED.iter().filter(|row| is_beside(group, row));
    rows.extend(alike.map(published_row));
    let mut table = layout(rows);
    if has_letter {
        table.about += LETTER;
    }
    table
}

/// The paper's algorithm and the paper's verifier, over its unbounded window.
fn to_the_letter(speculator: &str) -> Variant {
    let mut letter = Variant::paper(K::Unbounded).with_speculator(speculator);
    letter.options.verifier = Some(VerifierMode::Paper);
    letter
}

/// What is added if [`to_the_letter`] is among the rows.
const LETTER: &str = " k=inf,verifier=paper,algorithm=paper is the paper to the letter, its verifier and its \
                      algorithm, over our models.";

/// The figures of a variant, and of the best k beside it if there is one.
fn row(
    group: &Group<'_>,
    view: &View<'_>,
    shown: &Compared<'_>,
    best: Option<&Compared<'_>>,
) -> Vec<Cell> {
    let estimates = Estimates::of(shown.cases.iter().map(|case| case.row));
    let expected = view.run.info.questions;
    let mut row = vec![
        Cell::text(&view.label),
        Cell::text(shown.variant.speculator()),
        Cell::text(shown.name()),
        Cell::share_of(shown.cases.len(), expected),
        Cell::interval(estimates.compared(), 2),
        Cell::interval(estimates.p(), 2),
        Cell::interval(estimates.p_effective(), 2),
        Cell::interval(estimates.alpha(), 2),
        Cell::interval(estimates.beta(), 2),
        Cell::number(estimates.nu(), 2),
        Cell::interval(estimates.bound(), 3),
        Cell::interval(estimates.bound_at_length(), 3),
        Cell::interval(shown.rel_lat(), 3),
        Cell::interval(rel_lat(&right_at_one(&shown.cases)), 3),
    ];
    if let Some(best) = best {
        row.extend([
            Cell::text(best.name()),
            Cell::interval(best.rel_lat(), 3),
            against_simulated(group, view, best),
            Cell::share_of(best.cases.len(), expected),
        ]);
    }
    row.resize(COLUMNS, Cell::none());
    row
}

/// The rows of the paper that stand beside none of these.
pub(super) fn of_paper(groups: &[Group<'_>]) -> Table {
    let rest = |row: &&Published| !groups.iter().any(|group| is_beside(group, row));
    let rest = PUBLISHED.iter().filter(rest);
    let rows = rest.map(|row| with_dataset(published_row(row), row.dataset));
    layout(rows.collect())
}

fn is_beside(group: &Group<'_>, row: &Published) -> bool {
    group.is_of(row.dataset) && group.tool() == Some(row.target)
}

fn layout(rows: Vec<Vec<Cell>>) -> Table {
    Table {
        name: "speculation",
        title: "Speculation (the layout of the paper's Tables 1 and 5)".into(),
        about: "How good the guesses are, what could be gained (RelLat*), and what was (RelLat), all of the widest \
                window: in the paper k is ∞. The best k was chosen on the same questions; RelLat ÷ simulated and \
                the number of questions behind it are the best k's. Salvage and plan-ahead can go below RelLat*. \
                Rows of the paper are the paper's own, for other questions and other models."
            .into(),
        columns: [
            "Source", "Speculator", "p, α, β from", "Questions of p, α, β", "Compared", "p", "Effective p", "α", "β", "ν",
            "RelLat*", "RelLat* at this length", "RelLat", "RelLat where k=1 is right", "Best k", "RelLat, best k",
            "RelLat ÷ simulated", "Questions",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}

/// RelLat over the simulated RelLat of the same variant, on the questions that both runs have.
fn against_simulated(group: &Group<'_>, view: &View<'_>, compared: &Compared<'_>) -> Cell {
    let mut views = group.views.iter();
    let simulated = views.find(|view| view.run.info.source == Source::Simulated);
    let simulated = simulated.filter(|simulated| simulated.label != view.label);
    let Some(other) = simulated.and_then(|simulated| simulated.get(compared.variant)) else {
        return Cell::none();
    };
    let both = joined(&compared.cases, &other.cases);
    Cell::interval(rel_lat_gap(&both), 3).over(both.len(), view.run.info.questions)
}

/// Latencies in two runs, on the questions that both have: with and without speculation.
pub(super) fn joined(one: &[Case<'_>], other: &[Case<'_>]) -> Vec<[f64; 4]> {
    let (one, other) = common(one, other);
    let pair = |(one, other): (Case<'_>, Case<'_>)| {
        let [ours, theirs] = [one, other].map(|case| [case.row.latency_ms, case.base.latency_ms]);
        [ours[0], ours[1], theirs[0], theirs[1]]
    };
    one.into_iter().zip(other).map(pair).collect()
}

/// RelLat of the one over RelLat of the other.
pub(super) fn rel_lat_gap(joined: &[[f64; 4]]) -> Option<Interval> {
    stats::of_sums(joined, |[row, base, other_row, other_base]| {
        (row / base) / (other_row / other_base)
    })
}

fn published_row(row: &Published) -> Vec<Cell> {
    let mut cells = vec![
        Cell::text(format!("the paper, {}, {}", row.generator, row.target)),
        Cell::text(row.speculator),
        Cell::none(),
        Cell::none(),
        Cell::none(),
        Cell::none(),
        Cell::number(row.p, 2),
        Cell::number(row.alpha, 2),
        Cell::number(row.beta, 2),
        Cell::none(),
        Cell::number(row.rel_lat_oracle, 2),
        Cell::none(),
        Cell::number(row.rel_lat, 2),
        Cell::number(row.rel_lat_right, 2),
    ];
    cells.resize(COLUMNS, Cell::none());
    cells
}
