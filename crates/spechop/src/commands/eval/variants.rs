//! Which variants, and which latency, on the command line.

use anyhow::ensure;
use spechop_eval::{Injected, Variant};

/// Which variants.
#[derive(Debug, clap::Args)]
pub(crate) struct VariantArgs {
    /// Widths of the window, by commas: a number or `inf`.
    #[arg(long, value_name = "K,…", value_delimiter = ',')]
    k: Vec<String>,
    /// A way to answer, e.g. `k=3,salvage=off`; may be repeated. What can be said: k, speculator,
    /// verifier=rule|exact|none, salvage, plan-ahead, guesses, chance-min, rounds.
    #[arg(long, value_name = "VARIANT")]
    variant: Vec<Variant>,
    /// Every variant of the tables: k from 1 to inf with and without salvage, and the ablations.
    #[arg(long)]
    suite: bool,
}

impl VariantArgs {
    /// The variants, each once; k = 1 first, which everything is compared with.
    pub(crate) fn variants(&self) -> anyhow::Result<Vec<Variant>> {
        let widths = self.k.iter().map(|k| format!("k={}", k.trim()).parse());
        let widths: Vec<Variant> = widths.collect::<Result<_, _>>()?;
        let suite = if self.suite {
            Variant::suite()
        } else {
            Vec::new()
        };
        let mut variants = vec![Variant::standard()];
        for variant in widths.iter().chain(&self.variant).chain(&suite) {
            if !variants.contains(variant) {
                variants.push(variant.clone());
            }
        }
        ensure!(
            !(widths.is_empty() && self.variant.is_empty() && suite.is_empty()),
            "say what is to be compared: --k 1,2,3, --variant k=3,salvage=off, or --suite"
        );
        Ok(variants)
    }
}

/// `MEAN:SIGMA:SEED`, in milliseconds.
pub(crate) fn injected(text: &str) -> Result<Injected, String> {
    let wrong =
        || "expected MEAN:SIGMA:SEED, the first two in milliseconds, e.g. 4150:1680:1".to_owned();
    let parts: Vec<&str> = text.split(':').collect();
    let [mean, sigma, seed] = parts.as_slice() else {
        return Err(wrong());
    };
    let ms = |text: &str| {
        text.parse()
            .ok()
            .filter(|ms: &f64| (0.0..=600_000.0).contains(ms))
    };
    match (ms(mean), ms(sigma), seed.parse().ok()) {
        (Some(mean_ms), Some(sigma_ms), Some(seed)) if mean_ms > 0.0 => Ok(Injected {
            mean_ms,
            sigma_ms,
            seed,
        }),
        _ => Err(wrong()),
    }
}
