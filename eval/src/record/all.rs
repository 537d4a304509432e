//! Records all questions of a bundle, one after the other. A question that fails is left out, but not
//! many in a row.

use super::{RecordError, Recorder};
use crate::{Bundle, Injected, Stage, Variant};

/// Questions that fail one after the other before none of them is to blame any more.
const FAILURES_IN_A_ROW_MAX: usize = 3;

/// What [`Recorder::record_all`] tells while it runs.
#[derive(Debug)]
pub enum RecordEvent<'a> {
    /// A stage was run.
    Ran(&'a Stage),
    /// A question has a stage that keeps failing.
    LeftOut(&'a LeftOut),
    /// So many questions are recorded or left out.
    Done(usize),
}

/// A question that is not whole, because one of its stages kept failing. Its other stages are kept.
#[derive(Debug)]
pub struct LeftOut {
    /// The question.
    pub id: String,
    /// Which stage failed, and why.
    pub error: RecordError,
}

impl Recorder {
    /// Records what every question of the bundle needs to be answered with each variant at each added
    /// latency. A question with a stage that keeps failing is left out, and returned.
    ///
    /// # Errors
    ///
    /// [`RecordError::Stopped`]: too many questions failed one after the other, or no question is to
    /// blame. Nothing recorded is lost.
    pub async fn record_all(
        &mut self,
        bundle: &mut Bundle,
        variants: &[Variant],
        latencies: &[Option<Injected>],
        tell: &mut (dyn FnMut(RecordEvent<'_>) + Send),
    ) -> Result<Vec<LeftOut>, RecordError> {
        let of = bundle.questions().len();
        let mut left_out = Vec::new();
        let mut in_a_row = 0;
        for at in 0..of {
            // A recording of a whole corpus would hold all of it in the end.
            self.texts.clear();
            let recorded = self.record_ways(bundle, at, variants, latencies, tell);
            match recorded.await {
                Ok(()) => in_a_row = 0,
                // One question may be to blame for what a part cannot do; the disk is not.
                Err(error @ RecordError::Stage { .. }) if in_a_row < FAILURES_IN_A_ROW_MAX => {
                    in_a_row += 1;
                    let id = bundle.questions()[at].id.clone();
                    let question = LeftOut { id, error };
                    tell(RecordEvent::LeftOut(&question));
                    left_out.push(question);
                }
                Err(error) => {
                    return Err(RecordError::Stopped {
                        done: at,
                        of,
                        source: error.into(),
                    });
                }
            }
            tell(RecordEvent::Done(at + 1));
        }
        Ok(left_out)
    }

    /// Records question `at` with each variant at each added latency, until a stage keeps failing.
    async fn record_ways(
        &mut self,
        bundle: &mut Bundle,
        at: usize,
        variants: &[Variant],
        latencies: &[Option<Injected>],
        tell: &mut (dyn FnMut(RecordEvent<'_>) + Send),
    ) -> Result<(), RecordError> {
        let mut ran = |stage: &Stage| tell(RecordEvent::Ran(stage));
        for variant in variants {
            for injected in latencies {
                self.record(bundle, at, variant, *injected, &mut ran)
                    .await?;
            }
        }
        Ok(())
    }
}
