//! `spechop tuning`: what a running server has learnt of its tools, and what another k would have done.

use std::fmt::Write as _;
use std::io::Write;

use serde::Serialize;
use spechop_config::Env;
use spechop_proto::admin_client::AdminClient;
use spechop_proto::{
    AuditFindings, Estimate, GetTuningRequest, Options, Tuning, WhatIfRequest, WhatIfResponse,
};
use spechop_theory::{Interval, Setting};

use super::ask::answered;
use super::clean::clean;
use super::reach::{Reached, ServerArgs};
use crate::output::stdout;

/// The arguments of `spechop tuning`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// The values of k to simulate.
    #[arg(
        long,
        value_name = "K,…",
        value_delimiter = ',',
        default_value = "1,2,3,4,6,8"
    )]
    k: Vec<u32>,
    /// Print one JSON object a speculator instead of text.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
For each speculator that has guessed: p, the share of its guesses that were right; alpha and beta, the
times of a guess and of writing a sub-question divided by the time of a look-up; and RelLat*, the
bound of the latency divided by the latency at k = 1, for questions with endlessly many hops. Below, the server
plays its last questions again with each k, on a virtual clock.
If answers were audited (`audit.share`), the last lines say how many of them differ from the answer
without speculation, and how many accepted guesses were wrong. In JSON that is one more object.

This is of one tenant: that of your key, which needs the role `admin`, else the one without a name.
For another tenant, make a key: spechop keys new --name NAME --tenant TENANT --role admin

Examples:
  spechop tuning
  spechop tuning --k 1,3 --json | jq .rel_lat_star";

/// What is known of one speculator.
#[derive(Debug, Serialize)]
struct Known {
    speculator: String,
    /// The k that `auto` chooses, and why.
    k: Option<u32>,
    why: Option<String>,
    p: Option<Interval>,
    alpha: Option<Interval>,
    beta: Option<Interval>,
    hops: u64,
    /// 1 − p (1 − α) / (1 + β).
    rel_lat_star: Option<f64>,
    /// Target calls for each one at k = 1, of the questions that had k = auto.
    calls: Option<f64>,
    /// Questions that were played again.
    questions: u32,
    what_if: Vec<AtK>,
}

/// Means of the questions, played with this k.
#[derive(Debug, Serialize)]
struct AtK {
    k: u32,
    rel_lat: f64,
    mean_ms: f64,
    targets: f64,
}

/// What audits have found.
#[derive(Debug, Serialize)]
struct Audit {
    audits: u64,
    differing: u64,
    divergence: Option<Interval>,
    accepts: u64,
    false_accepts: u64,
    false_acceptance: Option<Interval>,
}

impl From<AuditFindings> for Audit {
    fn from(found: AuditFindings) -> Self {
        Self {
            audits: found.audits,
            differing: found.differing,
            divergence: found.divergence.map(interval),
            accepts: found.accepts,
            false_accepts: found.false_accepts,
            false_acceptance: found.false_acceptance.map(interval),
        }
    }
}

impl Audit {
    /// For people.
    fn text(&self) -> String {
        let share = |some: u64, all: u64, share: Option<Interval>| match share {
            Some(share) => format!(
                "{some} of {all}: {:.2} % ({:.2} to {:.2})",
                share.value * 100.0,
                share.low * 100.0,
                share.high * 100.0
            ),
            None => "none seen".to_owned(),
        };
        format!(
            "audits\n  answers that differ      {}\n  guesses accepted wrongly {}\n",
            share(self.differing, self.audits, self.divergence),
            share(self.false_accepts, self.accepts, self.false_acceptance),
        )
    }
}

/// As the server tells it.
pub(super) fn interval(Estimate { value, low, high }: Estimate) -> Interval {
    Interval { value, low, high }
}

/// Asks, and prints what is known.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let mut admin = AdminClient::new(args.server.reach(env).await?);
    let learnt = answered(admin.get_tuning(GetTuningRequest {}).await)?;
    let audit = learnt.audit.map(Audit::from);
    let mut known = Vec::new();
    for tuning in learnt.tunings {
        let played = played_again(&mut admin, args.k.clone(), &tuning.speculator).await?;
        known.push(of(tuning, played));
    }
    let shown = if args.json {
        let lines = known.iter().map(serde_json::to_string);
        let audit = audit.iter().map(serde_json::to_string);
        let lines: Result<Vec<_>, _> = lines.chain(audit).collect();
        lines?.join("\n")
    } else if known.is_empty() {
        "The server has not answered a question with a speculator yet.".to_owned()
    } else {
        let texts = known
            .iter()
            .map(text)
            .chain(audit.as_ref().map(Audit::text));
        texts.collect::<Vec<_>>().join("\n")
    };
    // Programs read a line for each speculator, and there is none yet.
    if shown.is_empty() {
        return Ok(());
    }
    Ok(writeln!(stdout(), "{}", shown.trim_end())?)
}

/// The server's last questions, played again with each of these k.
pub(super) async fn played_again(
    admin: &mut AdminClient<Reached>,
    k: Vec<u32>,
    speculator: &str,
) -> anyhow::Result<WhatIfResponse> {
    let options = Options {
        speculator: Some(speculator.to_owned()),
        ..Options::default()
    };
    let request = WhatIfRequest {
        k,
        options: Some(options),
    };
    answered(admin.what_if(request).await)
}

fn of(tuning: Tuning, played: WhatIfResponse) -> Known {
    let [p, alpha, beta] = [tuning.p, tuning.alpha, tuning.beta].map(|e| e.map(interval));
    let setting = p.zip(alpha).zip(beta).and_then(|((p, alpha), beta)| {
        Setting::new(p.value, alpha.value, beta.value, tuning.nu).ok()
    });
    let (k, why) = tuning
        .choice
        .map(|choice| (choice.k, choice.reason))
        .unzip();
    let what_if = played.outcomes.into_iter().map(|outcome| AtK {
        k: outcome.k,
        rel_lat: outcome.rel_lat,
        mean_ms: outcome.mean_ms,
        targets: outcome.targets,
    });
    Known {
        speculator: tuning.speculator,
        k,
        why,
        p,
        alpha,
        beta,
        hops: tuning.hops,
        calls: tuning.calls,
        rel_lat_star: setting.map(Setting::rel_lat_oracle),
        questions: played.questions,
        what_if: what_if.collect(),
    }
}

/// For people. Writing to a text does not fail.
fn text(known: &Known) -> String {
    let mut text = format!("{} ({} hops)\n", clean(&known.speculator), known.hops);
    for (name, estimate) in [("p", known.p), ("alpha", known.alpha), ("beta", known.beta)] {
        let shown = estimate.map_or_else(
            || "unknown".to_owned(),
            |e| format!("{:.3} ({:.3} to {:.3})", e.value, e.low, e.high),
        );
        let _ = writeln!(text, "  {name:8} {shown}");
    }
    if let Some(bound) = known.rel_lat_star {
        let _ = writeln!(text, "  {:8} {bound:.3}", "RelLat*");
    }
    if let (Some(k), Some(why)) = (known.k, &known.why) {
        let _ = writeln!(text, "  {:8} {k}: {}", "auto", clean(why));
    }
    if let Some(calls) = known.calls {
        let name = "calls";
        let _ = writeln!(
            text,
            "  {name:8} {calls:.3} look-ups for each one at k = 1, where k was left to the server"
        );
    }
    let _ = writeln!(
        text,
        "  the last {} questions, played again:",
        known.questions
    );
    let _ = writeln!(
        text,
        "  {:>4} {:>8} {:>9} {:>12}",
        "k", "RelLat", "seconds", "target calls"
    );
    for at in &known.what_if {
        let _ = writeln!(
            text,
            "  {:>4} {:>8.3} {:>9.2} {:>12.2}",
            at.k,
            at.rel_lat,
            at.mean_ms / 1000.0,
            at.targets
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use spechop_proto::{Outcome, Tuned};

    use super::*;

    fn known() -> Known {
        let estimate = |value| {
            Some(Estimate {
                value,
                low: value / 2.0,
                high: 1.0,
            })
        };
        let tuning = Tuning {
            speculator: "index".into(),
            choice: Some(Tuned {
                k: 3,
                reason: "more gains nothing".into(),
                ..Tuned::default()
            }),
            p: estimate(0.68),
            alpha: estimate(0.19),
            beta: estimate(0.10),
            nu: 0.4,
            hops: 60,
            calls: Some(1.1876),
            ..Tuning::default()
        };
        let outcome = Outcome {
            k: 3,
            mean_ms: 8200.0,
            rel_lat: 0.61,
            targets: 3.5,
            ..Outcome::default()
        };
        let played = WhatIfResponse {
            questions: 20,
            filled_in: 0.0,
            outcomes: vec![outcome],
        };
        of(tuning, played)
    }

    #[test]
    fn the_bound_is_the_papers() {
        // Table 1: 0.68, 0.19, 0.10 → 0.50.
        assert!((known().rel_lat_star.unwrap() - 0.5).abs() < 0.005);
        let nothing = of(Tuning::default(), WhatIfResponse::default());
        assert!(nothing.rel_lat_star.is_none() && nothing.k.is_none());
        assert!(text(&nothing).contains("p        unknown"));
    }

    #[test]
    fn an_audit_is_shown_with_its_bounds() {
        let found = AuditFindings {
            audits: 100,
            divergence: Some(Estimate {
                value: 0.0,
                low: 0.0,
                high: 0.037,
            }),
            ..AuditFindings::default()
        };
        let expected = "\
audits
  answers that differ      0 of 100: 0.00 % (0.00 to 3.70)
  guesses accepted wrongly none seen
";
        assert_eq!(Audit::from(found).text(), expected);
    }

    #[test]
    fn people_read_a_table() {
        let expected = "\
index (60 hops)
  p        0.680 (0.340 to 1.000)
  alpha    0.190 (0.095 to 1.000)
  beta     0.100 (0.050 to 1.000)
  RelLat*  0.499
  auto     3: more gains nothing
  calls    1.188 look-ups for each one at k = 1, where k was left to the server
  the last 20 questions, played again:
     k   RelLat   seconds target calls
     3    0.610      8.20         3.50
";
        assert_eq!(text(&known()), expected);
    }
}
