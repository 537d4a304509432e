//! Takes up what was learnt before, and says what is to be written down.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use spechop_config::{Config, SpeculatorKind};
use spechop_types::Owned;

use super::Tunings;
use super::identity::Identity;
use super::kept::{Kept, PURPOSE};
use crate::state::{self, Persisted, Purpose, Writing};

/// Keeps what a server learns in the file of the configuration.
pub(crate) type Keeper = state::Keeper<Learning>;

/// What a server learns, and what it is about.
pub(crate) struct Learning {
    identities: BTreeMap<SpeculatorKind, Identity>,
    tunings: Arc<Tunings>,
}

impl Keeper {
    pub(crate) async fn open(config: &Config, tunings: &Arc<Tunings>, writing: &Writing) -> Self {
        let file = config.scheduler.state.as_deref();
        let (config, tunings) = (config.clone(), Arc::clone(tunings));
        let learning = move || {
            let identities = SpeculatorKind::ALL.map(|kind| (kind, Identity::of(kind, &config)));
            Some(Arc::new(Learning {
                identities: identities.into(),
                tunings,
            }))
        };
        Self::at(file, writing, learning).await
    }
}

impl Persisted for Learning {
    const PURPOSE: Purpose = PURPOSE;

    type Kept = Kept;

    fn take_up(&self, kept: Kept, path: &Path) {
        let mut same = BTreeMap::new();
        for (speculator, identity) in &self.identities {
            let name = speculator.as_str();
            let Some(before) = kept.identities.get(name) else {
                continue;
            };
            let differences = before.differences(identity);
            if differences.is_empty() {
                same.insert(name, *speculator);
            } else if kept.tunings.iter().any(|kept| kept.speculator == name) {
                tracing::warn!(
                    path = %path.display(),
                    speculator = name,
                    differences = differences.join(", "),
                    "what was learnt before was learnt with others: learning begins anew"
                );
            }
        }
        let (mut resumed, mut contradictions, mut questions) = (0_usize, 0_usize, 0_usize);
        for tuning in kept.tunings {
            let Some(speculator) = same.get(&*tuning.speculator) else {
                continue;
            };
            let of = Owned::new(&tuning.tenant, *speculator);
            let its_questions = tuning.questions.len();
            if self.tunings.resume(of, tuning) {
                resumed += 1;
                questions += its_questions;
            } else {
                contradictions += 1;
            }
        }
        if resumed > 0 {
            tracing::info!(tunings = resumed, questions, "resumed what was learnt");
        }
        if contradictions > 0 {
            tracing::warn!(
                path = %path.display(),
                tunings = contradictions,
                "what was learnt before contradicts itself: learning begins anew"
            );
        }
    }

    fn revision(&self) -> u64 {
        self.tunings.records()
    }

    fn kept(&self) -> Kept {
        let identities = self.identities.iter();
        let identities = identities.map(|(speculator, identity)| {
            let name = speculator.as_str();
            (name.to_owned(), identity.clone())
        });
        Kept::new(identities.collect(), self.tunings.kept())
    }
}
