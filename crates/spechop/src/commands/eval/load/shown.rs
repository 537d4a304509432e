//! What a load run has measured, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;
use spechop_eval::load::{Latencies, Loaded};
use spechop_theory::Interval;

/// A load run and its circumstances.
#[derive(Serialize)]
pub(super) struct Run {
    /// The command, as it can be written again.
    pub(super) command: String,
    pub(super) address: String,
    /// Different questions that could have been asked.
    pub(super) questions_given: usize,
    pub(super) stream: bool,
    /// How many times the rate a burst is; `None` without bursts.
    pub(super) burst: Option<f64>,
    /// How long questions were sent that are in no number, in seconds.
    pub(super) warm_up_s: f64,
    pub(super) seed: u64,
    #[serde(flatten)]
    pub(super) loaded: Loaded,
}

/// Sent later than this, questions say more about this machine than about the server.
const LATE_MS: f64 = 10.0;
/// With fewer pairs the bounds themselves are unsure.
const PAIRS_MIN: usize = 30;

impl Run {
    pub(super) fn answered(&self) -> u64 {
        self.loaded.settings.iter().map(|of| of.answered).sum()
    }

    /// For people. Writing to a text does not fail.
    pub(super) fn text(&self) -> String {
        let loaded = &self.loaded;
        let mut text = String::new();
        let shape = self.burst.map_or_else(
            || "Poisson".to_owned(),
            |factor| format!("bursts of {factor} times the rate"),
        );
        let _ = writeln!(
            text,
            "{} questions a second ({shape}, seed {}) for {:.1} s to {}; {} of {} different ones",
            loaded.rate,
            self.seed,
            loaded.lasted_s,
            self.address,
            loaded.questions,
            self.questions_given
        );
        let _ = writeln!(
            text,
            "not counted: {} questions of the warm-up ({} s)",
            loaded.warm_up, self.warm_up_s
        );
        if loaded.ended_early {
            let _ = writeln!(text, "ended early: this is what there was until then");
        }
        text.push('\n');
        let settings = || loaded.settings.iter();
        let wide = settings().map(|of| of.setting.chars().count()).max();
        let wide = wide.unwrap_or(0).max(15);
        let header = |text: &mut String, what: &str| {
            let _ = writeln!(
                text,
                "{what:wide$} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                "answered", "mean", "p50", "p90", "p99", "p99.9", "max"
            );
        };
        header(&mut text, "latency in ms");
        for of in settings() {
            row(&mut text, wide, &of.setting, of.answered, of.latency_ms);
        }
        if self.stream {
            header(&mut text, "\nfirst event, ms");
            for of in settings() {
                row(&mut text, wide, &of.setting, of.answered, of.first_event_ms);
            }
        }
        text.push('\n');
        for of in settings() {
            let _ = write!(
                text,
                "{}: at most {} in flight",
                of.setting, of.in_flight_max
            );
            if let Some(calls) = of.target_calls {
                let _ = write!(text, ", {calls:.2} look-ups a question");
            }
            let errors: u64 = of.errors.values().sum();
            let by_code = of.errors.iter();
            let by_code: Vec<_> = by_code
                .map(|(code, count)| format!("{count} {code}"))
                .collect();
            match errors {
                0 => text.push_str(", no errors"),
                _ => {
                    let _ = write!(text, ", {errors} errors ({})", by_code.join(", "));
                }
            }
            if of.unfinished > 0 {
                let _ = write!(text, ", {} unfinished", of.unfinished);
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "together: {:.2} answers a second, at most {} in flight",
            loaded.answered_per_s, loaded.in_flight_max
        );
        if let Some(late) = loaded.sent_late_ms.filter(|late| late.p99 > LATE_MS) {
            let _ = writeln!(
                text,
                "sent late: p99 {:.1} ms, at most {:.1} ms; this machine could not send in time",
                late.p99, late.max
            );
        }
        if let Some(compared) = &loaded.compared {
            let _ = writeln!(
                text,
                "\n{} divided by {}, means over {} pairs, 95 % bounds",
                compared.b, compared.a, compared.pairs
            );
            for (name, ratio) in [
                ("latency", compared.latency),
                ("look-ups", compared.target_calls),
            ] {
                let _ = writeln!(text, "  {name:9} {}", bounded(ratio));
            }
            if compared.pairs < PAIRS_MIN {
                let _ = writeln!(
                    text,
                    "  few pairs: take a longer run (--for) before you rely on this"
                );
            }
        }
        text
    }
}

fn row(text: &mut String, wide: usize, name: &str, answered: u64, of: Option<Latencies>) {
    let _ = write!(text, "{name:wide$} {answered:>9}");
    let values = of.map(|of| [of.mean, of.p50, of.p90, of.p99, of.p999, of.max]);
    for value in values.map_or([None; 6], |values| values.map(Some)) {
        match value {
            Some(value) => {
                let _ = write!(text, " {value:>9.1}");
            }
            None => text.push_str("         –"),
        }
    }
    text.push('\n');
}

fn bounded(ratio: Option<Interval>) -> String {
    ratio.map_or_else(
        || "unknown: no pair was answered".to_owned(),
        |Interval { value, low, high }| format!("{value:.3} ({low:.3} to {high:.3})"),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use spechop_eval::load::{Measured, Ratio};

    use super::*;

    fn measured(setting: &str, times: f64) -> Measured {
        Measured {
            setting: setting.into(),
            asked: 120,
            answered: 117,
            errors: BTreeMap::from([("UNAVAILABLE".into(), 2), ("NOT_SENT".into(), 1)]),
            unfinished: 0,
            latency_ms: Some(Latencies {
                mean: 1200.0 * times,
                p50: 1000.0 * times,
                p90: 2000.0 * times,
                p99: 3000.5 * times,
                p999: 3100.0 * times,
                max: 3200.0 * times,
            }),
            first_event_ms: None,
            target_calls: Some(3.0 / times),
            in_flight_max: 9,
        }
    }

    fn run() -> Run {
        let mut fine = measured("k=auto", 0.5);
        fine.errors.clear();
        let bounded = |value: f64| {
            Some(Interval {
                value,
                low: value - 0.1,
                high: value + 0.1,
            })
        };
        Run {
            command: "spechop eval load".into(),
            address: "127.0.0.1:50051".into(),
            questions_given: 100,
            stream: false,
            burst: None,
            warm_up_s: 5.0,
            seed: 1,
            loaded: Loaded {
                rate: 2.0,
                lasted_s: 120.0,
                warm_up: 11,
                questions: 3,
                ended_early: false,
                answered_per_s: 1.98,
                in_flight_max: 12,
                sent_late_ms: None,
                settings: vec![measured("k=1", 1.0), fine],
                compared: Some(Ratio {
                    a: "k=1".into(),
                    b: "k=auto".into(),
                    pairs: 29,
                    latency: bounded(0.5),
                    target_calls: bounded(2.0),
                }),
            },
        }
    }

    #[test]
    fn people_read_a_table() {
        let text = run().text();
        for words in [
            "2 questions a second (Poisson, seed 1) for 120.0 s to 127.0.0.1:50051; 3 of 100 different ones",
            "not counted: 11 questions of the warm-up (5 s)",
            "      117    1200.0    1000.0    2000.0    3000.5",
            "k=1: at most 9 in flight, 3.00 look-ups a question, 3 errors (1 NOT_SENT, 2 UNAVAILABLE)",
            "k=auto: at most 9 in flight, 6.00 look-ups a question, no errors",
            "together: 1.98 answers a second, at most 12 in flight",
            "k=auto divided by k=1, means over 29 pairs, 95 % bounds",
            "  latency   0.500 (0.400 to 0.600)",
            "few pairs",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn what_went_wrong_is_said() {
        let mut run = run();
        run.stream = true;
        run.burst = Some(5.0);
        run.loaded.ended_early = true;
        run.loaded.compared = None;
        run.loaded.sent_late_ms = run.loaded.settings[0].latency_ms;
        run.loaded.settings[0].latency_ms = None;
        run.loaded.settings[0].unfinished = 4;
        let text = run.text();
        for words in [
            "bursts of 5 times the rate",
            "ended early",
            "first event, ms",
            "         –",
            "4 unfinished",
            "sent late: p99 3000.5 ms, at most 3200.0 ms",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("divided by"), "{text}");
    }

    #[test]
    fn programs_read_one_object() {
        let json = serde_json::to_value(run()).unwrap();
        assert_eq!(json["rate"], 2.0);
        assert_eq!(json["settings"][0]["latency_ms"]["p50"], 1000.0);
        assert_eq!(json["settings"][0]["errors"]["UNAVAILABLE"], 2);
        assert_eq!(json["compared"]["latency"]["value"], 0.5);
    }
}
