//! What a run has of each variant, beside its standard agent; and what is wrong or missing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use spechop_types::K;

use crate::{Question, Row, Run, Variant};

use super::{Case, Compared, Pair, name};

/// The rows of some questions, by the questions' identifiers.
pub(super) type Rows<'a> = BTreeMap<&'a str, &'a Row>;

/// What a run has of one variant, with one number of questions at once.
pub(super) struct Answered<'a> {
    pub(super) variant: &'a Variant,
    pub(super) concurrency: u32,
    /// Never empty.
    rows: Rows<'a>,
}

/// A run's rows, fewest questions at once first, then by k; and what is wrong with its files.
pub(super) fn rows_by_variant(run: &Run) -> (Vec<Answered<'_>>, Vec<String>) {
    let questions: BTreeSet<&str> = run.questions.iter().map(|q| q.id.as_str()).collect();
    let mut by_way: BTreeMap<(u32, K, String), Rows<'_>> = BTreeMap::new();
    let (mut strangers, mut twice) = (0, 0);
    for row in &run.rows {
        if !questions.contains(row.id.as_str()) {
            strangers += 1;
            continue;
        }
        match by_way.entry(order(row)).or_default().entry(&row.id) {
            Entry::Vacant(entry) => {
                entry.insert(row);
            }
            Entry::Occupied(_) => twice += 1,
        }
    }
    let mut warnings = Vec::new();
    let (expected, has) = (run.info.questions, questions.len());
    if has != expected {
        warnings.push(format!(
            "the run is of {expected} questions, but {has} are on file."
        ));
    }
    if strangers > 0 {
        warnings.push(format!(
            "{strangers} rows of unknown questions are left out."
        ));
    }
    if twice > 0 {
        warnings.push(format!(
            "{twice} rows repeat an earlier one and are left out."
        ));
    }
    let answered = by_way.into_iter().filter_map(|((concurrency, ..), rows)| {
        Some(Answered {
            variant: &rows.values().next()?.variant,
            concurrency,
            rows,
        })
    });
    (answered.collect(), warnings)
}

/// A warning for each variant that was to be asked, and has no row. Of those with some,
/// [`baselines`] and [`compare`] say more.
pub(super) fn never_begun(run: &Run) -> impl Iterator<Item = String> {
    let missing = run.missing().into_iter();
    let missing = missing.filter(|missing| missing.ids.len() == run.questions.len());
    missing.map(|missing| {
        let way = name(&missing.way.variant, missing.way.concurrency);
        format!("{way} is NOT WHOLE: it was to be asked, and has no answer at all.")
    })
}

/// The rows that all others are compared with, by the number of questions at once; and which are too few.
pub(super) fn baselines(
    standard: Vec<Answered<'_>>,
    expected: usize,
) -> (BTreeMap<u32, Rows<'_>>, Vec<String>) {
    let mut bases = BTreeMap::new();
    let mut warnings = Vec::new();
    for answered in standard {
        warnings.extend(not_whole(&answered, answered.rows.len(), expected));
        // A k = 1 that names a speculator is as good, where there is no other.
        bases.entry(answered.concurrency).or_insert(answered.rows);
    }
    (bases, warnings)
}

/// A variant beside the standard agent; and a warning if they do not share all questions. If they share
/// none, there is nothing to compare.
pub(super) fn compare<'a>(
    run: &'a Run,
    answered: &Answered<'a>,
    base: Option<&Rows<'a>>,
) -> (Option<Compared<'a>>, Option<String>) {
    let case = |question: &'a Question| {
        let id = question.id.as_str();
        let (base, row) = (*base?.get(id)?, *answered.rows.get(id)?);
        Some(Case {
            question,
            base,
            row,
        })
    };
    let cases: Vec<_> = run.questions.iter().filter_map(case).collect();
    let Some(first) = cases.first() else {
        let name = name(answered.variant, answered.concurrency);
        let warning =
            format!("{name} is left out, as no question was answered both by it and by k=1.");
        return (None, Some(warning));
    };
    let warning = not_whole(answered, cases.len(), run.info.questions);
    let compared = Compared {
        variant: &first.row.variant,
        concurrency: answered.concurrency,
        cases,
    };
    (Some(compared), warning)
}

/// The rows beside their questions, in the order of the run.
pub(super) fn pairs<'a>(run: &'a Run, rows: &Rows<'a>) -> Vec<Pair<'a>> {
    let pair = |question: &'a Question| {
        let row = *rows.get(question.id.as_str())?;
        Some(Pair { question, row })
    };
    run.questions.iter().filter_map(pair).collect()
}

/// A warning if a variant has fewer questions than its run.
fn not_whole(answered: &Answered<'_>, has: usize, expected: usize) -> Option<String> {
    let name = name(answered.variant, answered.concurrency);
    let warning = format!("{name} is NOT WHOLE: {has} of {expected} questions.");
    (has < expected).then_some(warning)
}

fn order(row: &Row) -> (u32, K, String) {
    (row.concurrency, row.variant.k(), row.variant.to_string())
}
