//! What `spechop patterns` prints.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::json;
use spechop_draft::{PatternRow, Report, Score};

use crate::commands::clean::clean;

/// How a mining went.
pub(super) fn mined(report: &Report, without_hops: usize, bytes: usize) -> String {
    let Report {
        trajectories,
        questions,
        left_out,
        frequent,
        refuted,
        kept,
        kept_after,
        held_out,
    } = report;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        _ = writeln!(text, "{name:<22}{value}");
    };
    line(
        "trajectories",
        format!("{trajectories} of {questions} questions"),
    );
    line(
        "left out",
        format!("{left_out}, because their names overlap or are unclear"),
    );
    if without_hops > 0 {
        line(
            "without hops",
            format!("{without_hops}, which teach nothing"),
        );
    }
    line(
        "forms of questions",
        format!("{frequent} frequent, {refuted} refuted, {kept} kept"),
    );
    line(
        "if nothing is found",
        format!("{kept_after} forms of sub-questions kept"),
    );
    line(
        "on questions left out",
        format!(
            "{:.1} % of {} segments right, {:.1} % without a draft, precision {:.1} %",
            100.0 * held_out.share_right(),
            held_out.segments,
            100.0 * held_out.share_none(),
            100.0 * held_out.precision()
        ),
    );
    line("file", format!("{bytes} bytes"));
    text
}

pub(super) fn mined_json(
    report: &Report,
    without_hops: usize,
    bytes: usize,
) -> anyhow::Result<String> {
    json_line(&json!({ "report": report, "without_hops": without_hops, "bytes": bytes }))
}

/// The first patterns, each with its likeliest chain.
pub(super) fn patterns(rows: &[PatternRow], top: usize) -> String {
    let mut text = format!("{:>9}  {:>6}  form\n", "questions", "chance");
    for row in rows.iter().take(top) {
        let kind = if row.of_question {
            ""
        } else {
            "if nothing is found: "
        };
        let form = clean(&row.form);
        _ = writeln!(text, "{:>9}  {:>6}  {kind}{form}", row.questions, "");
        for (form, chance) in &row.asks {
            _ = writeln!(text, "{:>9}  {chance:>6.2}    {}", "", clean(form));
        }
    }
    let more = rows.len().saturating_sub(top);
    if more > 0 {
        _ = writeln!(text, "{more} more");
    }
    text
}

pub(super) fn patterns_json(rows: &[PatternRow], top: usize) -> anyhow::Result<String> {
    let shown: Vec<_> = rows.iter().take(top).collect();
    json_line(&json!({ "patterns": shown, "of": rows.len() }))
}

/// How drafts compare with what was written, by kind.
pub(super) fn scores(scores: &BTreeMap<String, Score>) -> String {
    let width = scores.keys().map(|kind| kind.chars().count()).max();
    let width = width.unwrap_or_default().max("all".len());
    let mut text = format!(
        "{:<width$} {:>9} {:>7} {:>9} {:>10} {:>8}\n",
        "", "segments", "right", "no draft", "precision", "in vain"
    );
    let all = scores
        .values()
        .fold(Score::default(), |all, one| all.and(*one));
    let rows = scores.iter().map(|(kind, score)| (kind.as_str(), *score));
    for (kind, score) in rows.chain([("all", all)]) {
        _ = writeln!(
            text,
            "{kind:<width$} {:>9} {:>6.1}% {:>8.1}% {:>9.1}% {:>8}",
            score.segments,
            100.0 * score.share_right(),
            100.0 * score.share_none(),
            100.0 * score.precision(),
            score.drafts_at_ends
        );
    }
    text.push_str(
        "\nright: a draft has every word of the sub-question. precision: right drafts of all drafts.\n\
         in vain: drafts at segments that ended in the final answer.\n",
    );
    text
}

pub(super) fn scores_json(scores: &BTreeMap<String, Score>) -> anyhow::Result<String> {
    json_line(scores)
}

fn json_line(value: &(impl Serialize + ?Sized)) -> anyhow::Result<String> {
    Ok(serde_json::to_string(value)? + "\n")
}
