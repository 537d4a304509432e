//! Recall of each retriever, in tables.

use std::collections::{BTreeMap, BTreeSet};

use spechop_theory::Interval;

use super::measure::{BOTH, Found, INT8};
use super::{DEPTHS, LookUps};
use crate::report::{Cell, Column, Table};
use crate::stats;

const WHOLE: &str = "The retriever is asked the multi-hop question itself (HippoRAG's protocol). recall@k is \
    the share of a question's gold pages among the first k passages, in per cent.";
const PER_HOP: &str = "The retriever is asked each hop in good words, with the gold answers of earlier hops \
    filled in. recall@k is the share of hops whose gold page is among the first k passages, in per cent.";
const INTERVALS: &str = "In brackets: 95 % bootstrap intervals over questions, and Wilson's if all or \
    nothing is found. The last column compares recall@5 with that of the index as it is, question by \
    question (sign flips).";

/// The tables of what was found: for each corpus the whole question, then the hops, if they were asked.
pub fn tables(look_ups: &[LookUps], rows: &[Found]) -> Vec<Table> {
    let by_id: BTreeMap<&str, &LookUps> = look_ups.iter().map(|l| (l.id.as_str(), l)).collect();
    let mut tables = Vec::new();
    for corpus in in_order(rows.iter().map(|row| &*row.corpus)) {
        for (name, per_hop) in [("whole-question", false), ("per-hop", true)] {
            let asked: Vec<&Found> = rows
                .iter()
                .filter(|row| row.corpus == corpus && row.hop.is_some() == per_hop)
                .collect();
            if !asked.is_empty() {
                tables.push(table(name, corpus, &asked, &by_id));
            }
        }
    }
    tables
}

fn table<'a>(
    name: &'static str,
    corpus: &str,
    rows: &[&'a Found],
    by_id: &BTreeMap<&'a str, &'a LookUps>,
) -> Table {
    let kinds = rows.iter().filter_map(|row| by_id.get(&*row.id));
    let kinds: BTreeSet<&str> = kinds.map(|look_ups| &*look_ups.kind).collect();
    let base = Recall::of(INT8, rows, by_id);
    let recalls: Vec<_> = in_order(rows.iter().map(|row| &*row.retriever))
        .into_iter()
        .map(|retriever| Recall::of(retriever, rows, by_id))
        .collect();
    let asked = rows.iter().filter(|row| row.retriever == INT8).count();
    let questions = base.by_question.len();
    let (what, about) = match name {
        "per-hop" => (
            format!("per hop ({asked} hops of {questions} questions)"),
            PER_HOP,
        ),
        _ => (format!("whole question ({questions} questions)"), WHOLE),
    };
    let (columns, rows) = Column::fill(columns(&kinds, &base), &recalls);
    Table {
        name,
        title: format!("{corpus}: {what}"),
        about: format!("{about} {INTERVALS}"),
        columns,
        rows,
    }
}

type RecallColumn<'c> = Column<'c, &'c Recall<'c>>;

fn columns<'c>(kinds: &BTreeSet<&'c str>, base: &'c Recall<'c>) -> Vec<RecallColumn<'c>> {
    let mut columns = vec![
        column("retriever", |recall| Cell::text(recall.retriever)),
        column("recall@2", |recall| match recall.retriever {
            BOTH => Cell::none(),
            _ => Cell::interval(recall.share(0, None), 1),
        }),
        column("recall@5", |recall| {
            Cell::interval(recall.share(1, None), 1)
        }),
    ];
    for &kind in kinds {
        let look_ups = base.look_ups(kind);
        let title = format!("{kind} ({look_ups}), recall@5");
        columns.push(column(title, move |recall| {
            let share = recall.share(1, Some(kind));
            Cell::number(share.map(|share| share.value), 1)
        }));
    }
    let title = format!("against {INT8}");
    columns.push(column(title, move |recall| match recall.retriever {
        INT8 | BOTH => Cell::none(),
        _ => recall.against(base),
    }));
    columns
}

fn column<'c>(
    title: impl Into<String>,
    cell: impl Fn(&Recall<'_>) -> Cell + 'c,
) -> RecallColumn<'c> {
    Column::new(title, cell)
}

/// A row of the table: how much a retriever found.
struct Recall<'a> {
    retriever: &'a str,
    by_question: BTreeMap<&'a str, QuestionRecall<'a>>,
}

/// How much it found of a question.
struct QuestionRecall<'a> {
    kind: &'a str,
    look_ups: f64,
    /// Of recall at each of [`DEPTHS`], over these look-ups.
    sums: [f64; DEPTHS.len()],
}

impl<'a> Recall<'a> {
    fn of(retriever: &'a str, rows: &[&'a Found], by_id: &BTreeMap<&'a str, &'a LookUps>) -> Self {
        let mut by_question = BTreeMap::new();
        for row in rows.iter().filter(|row| row.retriever == retriever) {
            let Some(look_ups) = by_id.get(&*row.id) else {
                continue;
            };
            let own = by_question.entry(&*row.id).or_insert(QuestionRecall {
                kind: &look_ups.kind,
                look_ups: 0.0,
                sums: [0.0; DEPTHS.len()],
            });
            own.look_ups += 1.0;
            for (sum, depth) in own.sums.iter_mut().zip(DEPTHS) {
                *sum += recall(row, look_ups, depth);
            }
        }
        Self {
            retriever,
            by_question,
        }
    }

    /// At one of [`DEPTHS`], in per cent; over all questions, or those of a kind.
    fn share(&self, at: usize, kind: Option<&str>) -> Option<Interval> {
        let own = self.by_question.values();
        let own = own.filter(|own| kind.is_none_or(|kind| own.kind == kind));
        let addends: Vec<_> = own.map(|own| [own.sums[at], own.look_ups]).collect();
        let Interval { value, low, high } = stats::share(&addends)?;
        let [value, low, high] = [value, low, high].map(|share| 100.0 * share);
        Some(Interval { value, low, high })
    }

    fn look_ups(&self, kind: &str) -> f64 {
        let own = self.by_question.values();
        let own = own.filter(|own| own.kind == kind);
        own.map(|own| own.look_ups).sum()
    }

    /// How much more is found than by the base, in points.
    fn against(&self, base: &Recall<'_>) -> Cell {
        let look_ups: f64 = base.by_question.values().map(|own| own.look_ups).sum();
        let differences: Vec<f64> = base
            .by_question
            .iter()
            .map(|(id, base)| {
                let own = self.by_question.get(*id);
                own.map_or(0.0, |own| own.sums[1] - base.sums[1])
            })
            .collect();
        let points = 100.0 * differences.iter().sum::<f64>() / look_ups.max(1.0);
        Cell::difference(points, stats::sign_flip(&differences), 1)
    }
}

/// The share of gold pages among the first passages.
fn recall(row: &Found, look_ups: &LookUps, depth: usize) -> f64 {
    // What two retrievers found is taken whole.
    let depth = if row.retriever == BOTH {
        usize::MAX
    } else {
        depth
    };
    let found = |page: &&Vec<String>| {
        page.iter()
            .any(|id| row.found.iter().take(depth).any(|f| f == id))
    };
    match row.hop {
        Some(hop) => {
            let gold = look_ups.hops.get(hop).map(|hop| &hop.gold);
            f64::from(u8::from(gold.as_ref().is_some_and(found)))
        }
        None => {
            let pages = look_ups.gold.iter().filter(found).count();
            pages as f64 / look_ups.gold.len().max(1) as f64
        }
    }
}

/// Each once, in the order of their first occurrence.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut met = BTreeSet::new();
    names.filter(|name| met.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::AskedHop;

    fn look_ups(id: &str, kind: &str) -> LookUps {
        let hop = |gold: &str| AskedHop {
            asks: "?".to_owned(),
            gold: vec![gold.to_owned(), "a2".to_owned()],
        };
        LookUps {
            id: id.to_owned(),
            kind: kind.to_owned(),
            from: "questions.jsonl".to_owned(),
            question: "?".to_owned(),
            gold: vec![vec!["a".to_owned(), "a2".to_owned()], vec!["b".to_owned()]],
            hops: vec![hop("a"), hop("b")],
        }
    }

    fn found(retriever: &str, id: &str, hop: Option<usize>, ids: &str) -> Found {
        Found {
            corpus: "whole".to_owned(),
            retriever: retriever.to_owned(),
            id: id.to_owned(),
            hop,
            found: ids.split(' ').map(str::to_owned).collect(),
        }
    }

    /// What the cells show, without intervals.
    fn texts(table: &Table) -> Vec<Vec<&str>> {
        let shown = |cell: &'_ Cell| -> usize { cell.text.find(" [").unwrap_or(cell.text.len()) };
        let row = table.rows.iter();
        row.map(|cells| cells.iter().map(|cell| &cell.text[..shown(cell)]).collect())
            .collect()
    }

    #[test]
    fn recall_counts_pages_of_questions_and_hops_one_by_one() {
        let all = [look_ups("q1", "2hop"), look_ups("q2", "3hop")];
        let rows = [
            // Both pages, the second at place three; another passage of the first page.
            found(INT8, "q1", None, "a2 x b y z"),
            found(INT8, "q2", None, "x y z v w"),
            found("other", "q1", None, "a b x y z"),
            found("other", "q2", None, "b y z v w"),
            found(BOTH, "q1", None, "x y z v w a b"),
            found(BOTH, "q2", None, "x y z v w u"),
            found(INT8, "q1", Some(0), "x y a"),
            found(INT8, "q1", Some(1), "b"),
        ];
        let tables = tables(&all, &rows);
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].title, "whole: whole question (2 questions)");
        let kinds = ["2hop (1), recall@5", "3hop (1), recall@5"];
        assert_eq!(tables[0].columns[3..5], kinds);
        let whole = texts(&tables[0]);
        // Of four pages the base has one among two passages and two among five.
        assert_eq!(whole[0], [INT8, "25.0", "50.0", "100.0", "0.0", "–"]);
        assert_eq!(
            whole[1],
            [
                "other",
                "75.0",
                "75.0",
                "100.0",
                "50.0",
                "+25.0 (p = 1.000)"
            ]
        );
        assert_eq!(whole[2], [BOTH, "–", "50.0", "100.0", "0.0", "–"]);
        assert_eq!(tables[1].title, "whole: per hop (2 hops of 1 questions)");
        assert_eq!(texts(&tables[1])[0], [INT8, "50.0", "100.0", "100.0", "–"]);
    }
}
