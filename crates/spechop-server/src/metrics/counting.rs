//! What is counted of a question, without a server: for the benchmark of what that costs.

use spechop_agent::{Report, TraceEvent, Width};
use spechop_config::SpeculatorKind;

use super::{Metrics, Occupancy};

/// The metrics of questions alone.
pub struct Counting(Metrics);

impl Default for Counting {
    fn default() -> Self {
        Self(Metrics::new(Vec::new(), None))
    }
}

impl Counting {
    /// Counts all that a server counts of an answered question that did not wait in line.
    pub fn question(
        &self,
        speculator: SpeculatorKind,
        width: Width,
        events: &[TraceEvent],
        report: &Report,
    ) {
        let questions = &self.0.questions;
        let still = questions.stillness();
        let mut occupancy = Occupancy::default();
        for event in events {
            occupancy.hear(event);
        }
        questions.answered(speculator, width, report, occupancy);
        drop(still);
    }

    /// What `GET /metrics` answers, without the state of backends, cores and tuners.
    pub fn text(&self) -> String {
        self.0.text()
    }
}
