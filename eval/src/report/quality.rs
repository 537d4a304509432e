//! Whether the answers are as good, and whether they are the same.

use crate::score::{exact_match, f1, recall};
use crate::stats::{mcnemar, mean, mean_share, sign_flip};
use crate::{Question, Row, Variant};
use spechop_theory::{PUBLISHED_ANSWERS, PublishedAnswers};

use super::groups::{Case, Compared, Group, Pair, View, name};
use super::table::{Cell, Table, with_dataset};

/// How a row did.
struct Scores {
    right: bool,
    f1: f64,
    recall: Option<f64>,
    hops: f64,
}

/// Source, variant, questions, four means and five differences.
const COLUMNS: usize = 12;

pub(super) fn table(group: &Group<'_>) -> Table {
    let mut rows = Vec::new();
    for view in &group.views {
        let standard = view.standard.iter();
        rows.extend(standard.map(|(concurrency, pairs)| standard_row(view, *concurrency, pairs)));
        rows.extend(view.compared.iter().map(|other| compared_row(view, other)));
    }
    let alike = PUBLISHED_ANSWERS.iter().filter(|row| is_beside(group, row));
    rows.extend(alike.map(published_row));
    layout(rows, leaves_recording(group))
}

/// The rows of the paper that stand beside none of these.
pub(super) fn of_paper(groups: &[Group<'_>]) -> Table {
    let rest = |row: &&PublishedAnswers| !groups.iter().any(|group| is_beside(group, row));
    let rest = PUBLISHED_ANSWERS.iter().filter(rest);
    let rows = rest.map(|row| with_dataset(published_row(row), row.dataset));
    layout(rows.collect(), false)
}

fn is_beside(group: &Group<'_>, row: &PublishedAnswers) -> bool {
    group.is_of(row.dataset) && group.tool() == Some(row.target)
}

fn layout(rows: Vec<Vec<Cell>>, leaves_recording: bool) -> Table {
    Table {
        name: "quality",
        title: "Answers: how good, and how alike".into(),
        about: "What was answered, and how it differs from k = 1 over the same questions. With verifier=none every \
                guess stands: full speculation. Rows of the paper are those of its Table 4, for other questions and \
                other models."
            .to_owned()
            + if leaves_recording { UNKNOWN } else { "" },
        columns: [
            "Source", "Variant", "Questions", "EM", "F1", "Recall of pages", "Hops", "EM − k=1",
            "F1 − k=1", "Same sub-questions", "Same sub-answers", "Same answer",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}

fn standard_row(view: &View<'_>, concurrency: u32, pairs: &[Pair<'_>]) -> Vec<Cell> {
    let scores: Vec<_> = pairs
        .iter()
        .map(|pair| score(pair.question, pair.row))
        .collect();
    let name = name(&Variant::standard(), concurrency);
    let mut row = vec![Cell::text(&view.label), Cell::text(name)];
    row.push(Cell::share_of(pairs.len(), view.run.info.questions));
    row.extend(means(&scores));
    row.resize(COLUMNS, Cell::none());
    row
}

fn compared_row(view: &View<'_>, compared: &Compared<'_>) -> Vec<Cell> {
    let answered = compared.cases.len();
    let mut row = vec![Cell::text(&view.label), Cell::text(compared.name())];
    row.push(Cell::share_of(answered, view.run.info.questions));
    // How good an answer is can only be said of one that is known.
    let cases = known(&compared.cases);
    let scores_of = |of: fn(&Case<'_>) -> Scores| cases.iter().map(of).collect::<Vec<_>>();
    let base = scores_of(|case| score(case.question, case.base));
    let scores = scores_of(|case| score(case.question, case.row));
    row.extend(means(&scores).map(|cell| cell.over(cases.len(), answered)));
    if cases.is_empty() {
        row.resize(COLUMNS, Cell::none());
        return row;
    }
    let n = cases.len() as f64;
    let pairs = || base.iter().zip(&scores);
    let right = pairs().map(|(base, this)| (base.right, this.right));
    let gain: f64 = right
        .clone()
        .map(|(base, this)| flag(this) - flag(base))
        .sum();
    row.push(Cell::difference(gain / n, mcnemar(right), 3));
    let f1: Vec<f64> = pairs().map(|(base, this)| this.f1 - base.f1).collect();
    row.push(Cell::difference(
        f1.iter().sum::<f64>() / n,
        sign_flip(&f1),
        3,
    ));
    for same in [same_questions, same_answers, same_answer] {
        let same: Vec<f64> = cases.iter().map(|case| flag(same(case))).collect();
        row.push(Cell::interval(mean_share(&same), 3));
    }
    row
}

fn published_row(row: &PublishedAnswers) -> Vec<Cell> {
    let [exact_match, f1] = row.speculative;
    let mut cells = vec![
        Cell::text(format!("the paper, {}, {}", row.generator, row.target)),
        Cell::text(format!("SpecHop, {}", row.speculator)),
        Cell::none(),
        Cell::number(exact_match, 3),
        Cell::number(f1, 3),
        Cell::none(),
        Cell::none(),
        Cell::number(exact_match - row.standard[0], 3),
        Cell::number(f1 - row.standard[1], 3),
    ];
    cells.resize(COLUMNS, Cell::none());
    cells
}

/// What is added if some answers are not known.
const UNKNOWN: &str = " An answer is not known if an accepted guess that was brought has other words than the \
                       observation and nothing was recorded behind it: then the numbers are over fewer questions.";

fn leaves_recording(group: &Group<'_>) -> bool {
    let compared = group.views.iter().flat_map(|view| &view.compared);
    let mut cases = compared.flat_map(|compared| &compared.cases);
    cases.any(|case| !case.row.is_answer_known())
}

/// EM and F1 over the cases whose answer is known.
pub(super) fn em_and_f1(cases: &[Case<'_>]) -> [Cell; 2] {
    let known = known(cases);
    let scores: Vec<_> = known
        .iter()
        .map(|case| score(case.question, case.row))
        .collect();
    let [em, f1, ..] = means(&scores);
    [em, f1].map(|cell| cell.over(scores.len(), cases.len()))
}

/// The cases whose answer is known.
pub(super) fn known<'a>(cases: &[Case<'a>]) -> Vec<Case<'a>> {
    let known = cases.iter().filter(|case| case.row.is_answer_known());
    known.copied().collect()
}

/// Whether the same was asked, in the same order.
pub(super) fn same_questions(case: &Case<'_>) -> bool {
    let (base, row) = (case.base.hops.iter(), case.row.hops.iter());
    base.map(|hop| &hop.sub_question)
        .eq(row.map(|hop| &hop.sub_question))
}

/// Whether later hops were built on the same answers.
pub(super) fn same_answers(case: &Case<'_>) -> bool {
    let (base, row) = (case.base.hops.iter(), case.row.hops.iter());
    base.map(|hop| &hop.answer).eq(row.map(|hop| &hop.answer))
}

pub(super) fn same_answer(case: &Case<'_>) -> bool {
    case.base.answer == case.row.answer
}

pub(super) fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}

fn score(question: &Question, row: &Row) -> Scores {
    let read = row
        .hops
        .iter()
        .flat_map(|hop| hop.titles.iter().map(String::as_str));
    Scores {
        right: exact_match(&row.answer, &question.answers),
        f1: f1(&row.answer, &question.answers),
        recall: recall(read, &question.titles),
        hops: row.hops.len() as f64,
    }
}

fn means(scores: &[Scores]) -> [Cell; 4] {
    let share = |value: fn(&Scores) -> Option<f64>| {
        let values: Vec<f64> = scores.iter().filter_map(value).collect();
        Cell::interval(mean_share(&values), 3)
    };
    let hops: Vec<f64> = scores.iter().map(|s| s.hops).collect();
    [
        share(|s| Some(flag(s.right))),
        share(|s| Some(s.f1)),
        share(|s| s.recall),
        Cell::interval(mean(&hops), 2),
    ]
}
