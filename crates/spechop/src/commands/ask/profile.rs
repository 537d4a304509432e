//! Where the time of a question went: a line for each stage and activity.

use std::fmt::{self, Write};

use spechop_proto::{Activity, ActivityTime, AskResponse, Calls, Stage};

/// Writes the table and what to make of it.
pub(super) fn write(out: &mut String, answer: &AskResponse) -> fmt::Result {
    let usage = answer.usage.unwrap_or_default();
    let stages = [
        ("planning", Stage::Segment, usage.segments),
        ("look-up", Stage::Target, usage.targets),
        ("guessing", Stage::Speculation, usage.speculations),
        ("drafting", Stage::Draft, usage.drafts),
    ];
    let question = answer.elapsed_ms;
    let title = "where the time went";
    writeln!(
        out,
        "{title:<29}{:>9}{:>8}{:>10}",
        "used s", "share", "wasted s"
    )?;
    let mut all = Row::default();
    for (name, stage, calls) in stages {
        let calls = calls.unwrap_or_default();
        let told = answer.activities.iter();
        let told = told.filter(|time| time.stage() == stage);
        for (what, row) in rows(&calls, told) {
            row.write(out, &format!("{name}: {what}"), question)?;
        }
        all.add(Row::of(calls.time_ms, calls.wasted_time_ms));
    }
    all.write(out, "all calls", question)?;
    Row::of(question, 0.0).write(out, "the question", question)?;
    let between = question - all.used;
    if between < 0.0 {
        let overlap = seconds(-between);
        writeln!(
            out,
            "the used calls took {overlap} s more: so much ran side by side"
        )
    } else {
        writeln!(out, "{} s lay outside the used calls", seconds(between))
    }
}

/// Milliseconds of calls whose results the answer holds, and of the others.
#[derive(Clone, Copy, Default)]
struct Row {
    used: f64,
    wasted: f64,
}

impl Row {
    fn of(all: f64, wasted: f64) -> Self {
        let used = (all - wasted).max(0.0);
        Self { used, wasted }
    }

    fn add(&mut self, other: Self) {
        self.used += other.used;
        self.wasted += other.wasted;
    }

    fn write(self, out: &mut String, name: &str, question_ms: f64) -> fmt::Result {
        let share = if question_ms > 0.0 {
            100.0 * self.used / question_ms
        } else {
            0.0
        };
        let (used, wasted) = (seconds(self.used), seconds(self.wasted));
        let wasted = if self.wasted > 0.0 { &wasted } else { "-" };
        writeln!(out, "  {name:<27}{used:>9}{share:>7.1}%{wasted:>10}")
    }
}

/// The activities of a stage, and the time that nobody has accounted for.
fn rows<'a>(
    calls: &Calls,
    told: impl Iterator<Item = &'a ActivityTime>,
) -> Vec<(&'static str, Row)> {
    let mut rest = Row::of(calls.time_ms, calls.wasted_time_ms);
    let mut rows: Vec<_> = told
        .map(|time| {
            let row = Row::of(time.time_ms, time.wasted_time_ms);
            rest.used = (rest.used - row.used).max(0.0);
            rest.wasted = (rest.wasted - row.wasted).max(0.0);
            (name(time.activity()), row)
        })
        .collect();
    if rest.used + rest.wasted > 0.0 {
        rows.push(("anything else", rest));
    }
    rows
}

fn name(activity: Activity) -> &'static str {
    match activity {
        Activity::Prefill => "prefill",
        Activity::Decode => "decode",
        Activity::Read => "read",
        Activity::Encode => "encode",
        Activity::Scan => "scan",
        Activity::Extract => "extract pages",
        Activity::Fetch => "fetch pages",
        Activity::Search => "web search",
        Activity::Generate => "remote model",
        Activity::Injected => "INJECTED",
        Activity::Join => "joined a call",
        Activity::Queue => "engine's queue",
        Activity::Turn => "wait for a turn",
        // A server that is newer than this program.
        Activity::Unspecified => "unknown",
    }
}

/// A question has tens of calls of a millisecond each.
fn seconds(ms: f64) -> String {
    format!("{:.4}", ms / 1000.0)
}

#[cfg(test)]
mod tests {
    use spechop_proto::Usage;

    use super::*;

    fn time(stage: Stage, activity: Activity, time_ms: f64, wasted_time_ms: f64) -> ActivityTime {
        ActivityTime {
            stage: stage.into(),
            activity: activity.into(),
            time_ms,
            wasted_time_ms,
        }
    }

    fn calls(time_ms: f64, wasted_time_ms: f64) -> Option<Calls> {
        Some(Calls {
            time_ms,
            wasted_time_ms,
            ..Calls::default()
        })
    }

    fn table(elapsed_ms: f64, usage: Usage, activities: Vec<ActivityTime>) -> String {
        let mut out = String::new();
        let answer = AskResponse {
            elapsed_ms,
            usage: Some(usage),
            activities,
            ..AskResponse::default()
        };
        write(&mut out, &answer).expect("a string");
        out
    }

    #[test]
    fn a_line_for_each_stage_and_activity() {
        let activities = vec![
            time(Stage::Segment, Activity::Prefill, 310.0, 60.0),
            time(Stage::Segment, Activity::Decode, 620.4, 100.4),
            time(Stage::Segment, Activity::Queue, 0.3, 0.0),
            time(Stage::Segment, Activity::Turn, 55.0, 55.0),
            time(Stage::Target, Activity::Read, 410.0, 200.0),
            time(Stage::Target, Activity::Encode, 12.0, 4.0),
            time(Stage::Target, Activity::Scan, 0.4, 0.1),
            time(Stage::Speculation, Activity::Read, 90.0, 30.0),
            time(Stage::Speculation, Activity::Join, 7.0, 0.0),
        ];
        let usage = Usage {
            segments: calls(1000.0, 220.0),
            targets: calls(430.0, 206.0),
            speculations: calls(97.0, 30.0),
            salvaged: 0,
            ..Usage::default()
        };
        insta::assert_snapshot!(table(905.5, usage, activities));
    }

    #[test]
    fn without_speculation_what_is_left_lay_outside_the_calls() {
        let activities = vec![
            time(Stage::Segment, Activity::Generate, 80.0, 0.0),
            time(Stage::Segment, Activity::Unspecified, 8.0, 0.0),
        ];
        let usage = Usage {
            segments: calls(90.0, 0.0),
            ..Usage::default()
        };
        insta::assert_snapshot!(table(100.0, usage, activities));
        let nothing = table(0.0, Usage::default(), Vec::new());
        assert!(nothing.contains("0.0%"), "nothing divided by nothing");
    }
}
