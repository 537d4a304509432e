//! Which variants, and which latency, on the command line.

use anyhow::ensure;
use spechop_eval::{Injected, Variant};
use spechop_types::{Effort, K};

/// Flags that select variants.
#[derive(Debug, clap::Args)]
pub(crate) struct VariantArgs {
    /// The values of k, separated by commas: numbers or `inf`; with `eval live` also `auto`.
    #[arg(long, value_name = "K,…", value_delimiter = ',', value_parser = at_k)]
    k: Vec<Variant>,
    /// One way to answer, e.g. `k=3,salvage=off`. May be repeated. Its keys are k, speculator,
    /// verifier=rule|exact|paper, salvage, plan-ahead, guesses, chance-min; with `eval live` alone drafts
    /// and effort; recorded and simulated alone verifier=none, rounds, guess-at-once, on-observations,
    /// algorithm=paper. `k=1,verifier=none,target=off` is full speculation.
    #[arg(long, value_name = "VARIANT")]
    variant: Vec<Variant>,
    /// All variants of the report's tables: k from 1 to inf, as usual and by the paper's algorithm,
    /// and ablations.
    #[arg(long)]
    suite: bool,
}

impl VariantArgs {
    /// The variants, each once; k = 1 first, which everything is compared with.
    pub(crate) fn variants(&self) -> anyhow::Result<Vec<Variant>> {
        let suite = if self.suite {
            Variant::suite()
        } else {
            Vec::new()
        };
        let mut variants = vec![Variant::standard()];
        for variant in self.k.iter().chain(&self.variant).chain(&suite) {
            if !variants.contains(variant) {
                variants.push(variant.clone());
            }
        }
        ensure!(
            !(self.k.is_empty() && self.variant.is_empty() && suite.is_empty()),
            "say what is to be compared: --k 1,2,3, --variant k=3,salvage=off, or --suite"
        );
        Ok(variants)
    }

    /// The variants, if all of them can be played without a server.
    pub(crate) fn played(&self) -> anyhow::Result<Vec<Variant>> {
        let variants = self.variants()?;
        ensure!(
            variants.iter().all(|variant| variant.k() != K::Auto),
            "k=auto is chosen by a server: ask one with `spechop eval live`"
        );
        ensure!(
            variants.iter().all(|variant| variant.verdicts.is_none()),
            "verdicts are brought to `spechop eval simulate` with --verdicts"
        );
        ensure!(
            variants
                .iter()
                .all(|variant| variant.options.drafts == Some(0)),
            "drafts are made by a server, and not recorded: ask one with `spechop eval live`"
        );
        ensure!(
            variants
                .iter()
                .all(|variant| variant.options.effort == Some(Effort::Normal)),
            "what another effort finds is not recorded: ask a server with `spechop eval live`"
        );
        Ok(variants)
    }
}

fn at_k(text: &str) -> Result<Variant, String> {
    let variant = format!("k={}", text.trim()).parse();
    variant.map_err(|_| "expected numbers from 1 to 64, inf, or auto".to_owned())
}

/// `MEAN:SIGMA:SEED`, in milliseconds.
pub(crate) fn injected(text: &str) -> Result<Injected, String> {
    let wrong =
        || "expected MEAN:SIGMA:SEED, the first two in milliseconds, e.g. 4150:1680:1".to_owned();
    let parts: Vec<&str> = text.split(':').collect();
    let [mean, sigma, seed] = parts.as_slice() else {
        return Err(wrong());
    };
    match (milliseconds(mean), milliseconds(sigma), seed.parse().ok()) {
        (Some(mean_ms), Some(sigma_ms), Some(seed)) if mean_ms > 0.0 => Ok(Injected {
            mean_ms,
            sigma_ms,
            seed,
        }),
        _ => Err(wrong()),
    }
}

/// A time of at most ten minutes.
pub(super) fn milliseconds(text: &str) -> Option<f64> {
    let ms = text.parse().ok();
    ms.filter(|ms| (0.0..=600_000.0).contains(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(k: &[&str], variant: &[&str], suite: bool) -> VariantArgs {
        VariantArgs {
            k: k.iter().map(|k| at_k(k).unwrap()).collect(),
            variant: variant.iter().map(|v| v.parse().unwrap()).collect(),
            suite,
        }
    }

    fn names(k: &[&str], variant: &[&str], suite: bool) -> String {
        match args(k, variant, suite).variants() {
            Ok(variants) => {
                let names: Vec<_> = variants.iter().map(ToString::to_string).collect();
                names.join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_standard_agent_is_always_among_them() {
        assert_eq!(names(&["3", " inf"], &["k=3"], false), "k=1 k=3 k=inf");
        assert_eq!(
            names(&[], &["k=2,salvage=off"], false),
            "k=1 k=2,salvage=off"
        );
        let suite = names(&["1"], &[], true);
        assert!(
            suite.starts_with("k=1 k=2 ") && suite.contains("k=1,verifier=none"),
            "{suite}"
        );
        assert!(names(&[], &[], false).contains("--suite"));
        assert!(at_k("0").is_err() && at_k("3,salvage=off,k=65").is_err());
    }

    #[test]
    fn only_a_server_chooses_k() {
        let auto = args(&["1", "auto"], &[], false);
        assert_eq!(auto.variants().unwrap().len(), 2);
        let refused = auto.played().unwrap_err().to_string();
        assert!(refused.contains("`spechop eval live`"), "{refused}");
        assert!(args(&["1", "inf"], &[], true).played().is_ok());
    }

    #[test]
    fn latency_has_a_mean_a_deviation_and_a_seed() {
        let web = injected("4150:1680:1").unwrap();
        assert_eq!((web.mean_ms, web.sigma_ms, web.seed), (4150.0, 1680.0, 1));
        for wrong in [
            "", "4150", "0:0:1", "1:2", "-1:2:3", "1:2:x", "nan:1:1", "1e9:1:1",
        ] {
            assert!(injected(wrong).is_err(), "{wrong:?}");
        }
    }
}
