//! The table in the layout of the paper's Table 2: how good the answers are, and how long they take, if
//! nothing is guessed, if guesses are verified, and if nothing but guesses is ever had.

use spechop_theory::{PUBLISHED_OUTCOMES, PublishedOutcome};

use crate::score::{exact_match, f1};
use crate::stats::{mean, mean_share};
use crate::{Question, Row, Variant};

use super::groups::{Case, Group, common};
use super::quality::{flag, known};
use super::table::{Cell, Table, with_dataset};

const STANDARD: &str = "standard";
const SPECULATION: &str = "SpecHop";
const FULL: &str = "full speculation";

/// Without rows if no run is of full speculation without a target.
pub(super) fn table(group: &Group<'_>) -> Table {
    let mut rows = Vec::new();
    for view in &group.views {
        let full = view.main().filter(|compared| compared.variant.target_off);
        for full in full.filter(|full| full.variant.options == usual(full.variant)) {
            let speculator = full.variant.speculator();
            let Some(widest) = view.widest(speculator) else {
                continue;
            };
            // The same questions in all rows: those that full speculation is known to answer.
            let (full_cases, cases) = common(&known(&full.cases), &known(&widest.cases));
            let expected = view.run.info.questions;
            let row = |way: &str, variant: &str, of: &[(&Question, &Row)]| {
                let share_of = |value: fn(&str, &[String]) -> f64| {
                    let scores = of.iter().map(|(q, row)| value(&row.answer, &q.answers));
                    Cell::interval(mean_share(&scores.collect::<Vec<_>>()), 3)
                };
                let seconds: Vec<f64> = of.iter().map(|(_, row)| row.latency_ms / 1e3).collect();
                vec![
                    Cell::text(&view.label),
                    Cell::text(way),
                    Cell::text(variant),
                    Cell::share_of(of.len(), expected),
                    share_of(|answer, right| flag(exact_match(answer, right))),
                    share_of(f1),
                    Cell::interval(mean(&seconds), 2),
                ]
            };
            let standard = pairs(&cases, |case| case.base);
            let verified = pairs(&cases, |case| case.row);
            let unverified = pairs(&full_cases, |case| case.row);
            rows.push(row(STANDARD, &Variant::standard().to_string(), &standard));
            rows.push(row(SPECULATION, &widest.name(), &verified));
            rows.push(row(FULL, &full.name(), &unverified));
        }
    }
    if !rows.is_empty() {
        let alike = PUBLISHED_OUTCOMES
            .iter()
            .filter(|row| is_beside(group, row));
        rows.extend(alike.map(published_row));
    }
    layout(rows)
}

/// The rows of the paper that stand beside none of these.
pub(super) fn of_paper(groups: &[Group<'_>]) -> Table {
    let has_rows = |group: &&Group<'_>| !table(group).rows.is_empty();
    let shown: Vec<_> = groups.iter().filter(has_rows).collect();
    let rest = |row: &&PublishedOutcome| !shown.iter().any(|group| is_beside(group, row));
    let rest = PUBLISHED_OUTCOMES.iter().filter(rest);
    let rows = rest.map(|row| with_dataset(published_row(row), row.dataset));
    layout(rows.collect())
}

fn is_beside(group: &Group<'_>, row: &PublishedOutcome) -> bool {
    group.is_of(row.dataset) && (row.target.is_none() || row.target == group.tool())
}

fn layout(rows: Vec<Vec<Cell>>) -> Table {
    Table {
        name: "outcomes",
        title: "Full speculation (the layout of the paper's Table 2)".into(),
        about: "With target=off nothing is ever looked up: an answer is made of guesses alone, and a hop without a \
                guess has none, as if its look-up had found nothing. All rows of a run are over the questions whose \
                answer is known of each of them. A simulated run knows it if all that the guesses led to was \
                recorded; a bundle that was not recorded with target=off lacks what follows a hop without a guess, \
                and the questions that are left had more guesses than others. Rows of the paper are the paper's \
                own, for other questions and other models."
            .into(),
        columns: ["Source", "Way", "Variant", "Questions", "EM", "F1", "Seconds"]
            .map(String::from)
            .into(),
        rows,
    }
}

/// What full speculation is, but for who guesses.
fn usual(variant: &Variant) -> spechop_types::AnswerOptions {
    let usual = Variant::standard();
    usual.with_speculator(variant.speculator()).options
}

fn pairs<'a>(
    cases: &[Case<'a>],
    row: impl Fn(&Case<'a>) -> &'a Row,
) -> Vec<(&'a Question, &'a Row)> {
    cases
        .iter()
        .map(|case| (case.question, row(case)))
        .collect()
}

fn published_row(row: &PublishedOutcome) -> Vec<Cell> {
    let (way, target) = match (row.speculates, row.target) {
        (_, None) => (FULL, ""),
        (true, Some(target)) => (SPECULATION, target),
        (false, Some(target)) => (STANDARD, target),
    };
    let source = match target {
        "" => "the paper, CoRAG 8B".to_owned(),
        target => format!("the paper, CoRAG 8B, {target}"),
    };
    vec![
        Cell::text(source),
        Cell::text(way),
        Cell::none(),
        Cell::none(),
        Cell::number(row.exact_match, 3),
        Cell::number(row.f1, 3),
        Cell::number(row.seconds, 2),
    ]
}
