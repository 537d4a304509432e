//! The table that `spechop eval simulate` and `spechop eval live` end with.

use spechop_eval::Means;

/// A line for each variant, under a heading.
pub(super) fn table(means: &[Means]) -> String {
    let mut table = format!("{HEADING}\n");
    for mean in means {
        table.push_str(&line(mean));
        table.push('\n');
    }
    table
}

const HEADING: &str = "variant                            mean s  RelLat      p      α   compared  differ   segments   targets  guesses  salvaged     EM";

fn line(mean: &Means) -> String {
    let share = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |x| format!("{x:.3}"));
    let em = mean
        .exact_match
        .map_or_else(|| "–".to_owned(), |share| format!("{:.1}", 100.0 * share));
    let of = match mean.answers_known < mean.questions {
        true => format!(" of {} known", mean.answers_known),
        false => String::new(),
    };
    format!(
        "{:33} {:7.2}  {:>6}  {:>5}  {:>5}  {:>9}  {:>6}  {:9.2} {:9.2} {:8.2} {:9.2}  {em:>5}{of}",
        mean.variant.to_string(),
        mean.latency_ms / 1000.0,
        share(mean.rel_lat),
        share(mean.p),
        share(mean.alpha),
        format!("{}/{}", mean.compared, mean.hops),
        mean.accepted_otherwise,
        mean.segments,
        mean.targets,
        mean.speculations,
        mean.salvaged,
    )
}
