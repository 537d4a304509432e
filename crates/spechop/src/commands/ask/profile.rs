//! Where the time of a question went: a line for each stage and activity.

use std::fmt::{self, Write};

use spechop_proto::{Activity, ActivityTime, AskResponse, Calls};

/// Writes the table and what to make of it.
pub(super) fn write(out: &mut String, answer: &AskResponse) -> fmt::Result {
    let usage = answer.usage.clone().unwrap_or_default();
    let stages = [
        ("planning", usage.segments),
        ("look-up", usage.targets),
        ("guessing", usage.speculations),
    ];
    let question = answer.elapsed_ms;
    writeln!(out, "where the time went            used  share   wasted")?;
    let mut all = Row::default();
    for (name, calls) in stages {
        let calls = calls.unwrap_or_default();
        for (what, row) in rows(&calls) {
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
        writeln!(out, "  {name:<24}{used:>9}{share:>6.1}%{wasted:>9}")
    }
}

/// The activities of a stage, and the time that nobody has accounted for.
fn rows(calls: &Calls) -> Vec<(&'static str, Row)> {
    let mut rest = Row::of(calls.time_ms, calls.wasted_time_ms);
    let mut rows: Vec<_> = calls
        .activities
        .iter()
        .map(|time: &ActivityTime| {
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

    fn time(activity: Activity, time_ms: f64, wasted_time_ms: f64) -> ActivityTime {
        ActivityTime {
            activity: activity.into(),
            time_ms,
            wasted_time_ms,
        }
    }

    fn calls(time_ms: f64, wasted_time_ms: f64, activities: Vec<ActivityTime>) -> Calls {
        Calls {
            time_ms,
            wasted_time_ms,
            activities,
            ..Calls::default()
        }
    }

    fn table(elapsed_ms: f64, usage: Usage) -> String {
        let mut out = String::new();
        let answer = AskResponse {
            elapsed_ms,
            usage: Some(usage),
            ..AskResponse::default()
        };
        write(&mut out, &answer).expect("a string");
        out
    }

    #[test]
    fn a_line_for_each_stage_and_activity() {
        let segments = vec![
            time(Activity::Prefill, 310.0, 60.0),
            time(Activity::Decode, 620.4, 100.4),
            time(Activity::Queue, 0.3, 0.0),
            time(Activity::Turn, 55.0, 55.0),
        ];
        let targets = vec![
            time(Activity::Read, 410.0, 200.0),
            time(Activity::Encode, 12.0, 4.0),
            time(Activity::Scan, 0.4, 0.1),
        ];
        let speculations = vec![
            time(Activity::Join, 7.0, 0.0),
            time(Activity::Read, 90.0, 30.0),
        ];
        let usage = Usage {
            segments: Some(calls(1000.0, 220.0, segments)),
            targets: Some(calls(430.0, 206.0, targets)),
            speculations: Some(calls(97.0, 30.0, speculations)),
            salvaged: 0,
        };
        insta::assert_snapshot!(table(905.5, usage));
    }

    #[test]
    fn without_speculation_what_is_left_lay_outside_the_calls() {
        let segments = vec![
            time(Activity::Generate, 80.0, 0.0),
            time(Activity::Unspecified, 8.0, 0.0),
        ];
        let usage = Usage {
            segments: Some(calls(90.0, 0.0, segments)),
            ..Usage::default()
        };
        insta::assert_snapshot!(table(100.0, usage));
        assert!(
            table(0.0, Usage::default()).contains("0.0%"),
            "nothing divided by nothing"
        );
    }
}
