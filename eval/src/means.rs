//! What a variant came to over the questions that were played, in plain means.

use serde::Serialize;

use crate::report::estimate::Estimates;
use crate::{HopKind, Question, Row, Variant, exact_match};

/// Means of a variant. A question's share of them is the same for every question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Means {
    /// How it was answered.
    pub variant: Variant,
    /// How many questions.
    pub questions: usize,
    /// Mean latency, in milliseconds.
    pub latency_ms: f64,
    /// The same, as a share of that at k = 1. `None` if not every question was asked at k = 1.
    pub rel_lat: Option<f64>,
    /// Committed hops, in all.
    pub hops: usize,
    /// Hops whose guess was in time and was compared.
    pub compared: usize,
    /// Hops whose guess was accepted.
    pub accepted: usize,
    /// Of them, those whose guess is not word for word the observation.
    pub accepted_otherwise: usize,
    /// Share of hops whose guess was accepted.
    pub p: Option<f64>,
    /// Mean time of a guess over mean time of a target call.
    pub alpha: Option<f64>,
    /// Segments begun for a question.
    pub segments: f64,
    /// Target calls begun for a question.
    pub targets: f64,
    /// Guesses begun for a question.
    pub speculations: f64,
    /// Look-ups of a question that were taken over from branches that were rolled back.
    pub salvaged: f64,
    /// Questions whose answer is known. The others left the recording.
    pub answers_known: usize,
    /// Share of them that is answered exactly right. `None` if no answer is known.
    pub exact_match: Option<f64>,
}

impl Means {
    /// The means of a variant. The rows are of these questions, in their order, for every variant.
    pub fn of(variant: &Variant, questions: &[Question], rows: &[Row]) -> Self {
        let of = |variant: &Variant| -> Vec<&Row> {
            let own = rows.iter().filter(|row| row.variant == *variant);
            own.collect()
        };
        let (own, standard) = (of(variant), of(&Variant::standard()));
        let n = questions.len() as f64;
        let mean = |rows: &[&Row], value: &dyn Fn(&Row) -> f64| {
            rows.iter().map(|r| value(r)).sum::<f64>() / n
        };
        let latency_ms = mean(&own, &|row| row.latency_ms);
        let hops = || own.iter().flat_map(|row| &row.hops);
        let accepted = || hops().filter(|hop| hop.kind == HopKind::Accepted);
        let known = || {
            let both = own.iter().zip(questions);
            both.filter(|(row, _)| row.is_answer_known())
        };
        let right = known().filter(|(row, question)| exact_match(&row.answer, &question.answers));
        let answers_known = known().count();
        let shown = Estimates::of(own.iter().copied()).plain();
        // Nobody compares what is not verified.
        let compares = variant.guesses_at_all() && !variant.unverified;
        Self {
            variant: variant.clone(),
            questions: questions.len(),
            latency_ms,
            rel_lat: (!questions.is_empty() && standard.len() == questions.len())
                .then(|| latency_ms / mean(&standard, &|row| row.latency_ms)),
            hops: hops().count(),
            compared: hops().filter(|hop| hop.kind != HopKind::Observed).count(),
            accepted: accepted().count(),
            accepted_otherwise: accepted()
                .filter(|hop| hop.guess.as_ref() != Some(&hop.observed))
                .count(),
            p: shown.p_effective.filter(|_| compares),
            alpha: shown.alpha,
            segments: mean(&own, &|row| f64::from(row.segments.started)),
            targets: mean(&own, &|row| f64::from(row.targets.started)),
            speculations: mean(&own, &|row| f64::from(row.speculations.started)),
            salvaged: mean(&own, &|row| f64::from(row.salvaged)),
            answers_known,
            exact_match: (answers_known > 0).then(|| right.count() as f64 / answers_known as f64),
        }
    }
}
