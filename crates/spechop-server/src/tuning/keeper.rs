//! Takes up what was learnt before, and writes down what is learnt.
//!
//! Nothing here is waited for by a question: files are read before the first one, and written on a
//! thread that may block, every minute if anything was learnt, and once more when the last question has
//! ended.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use spechop_types::Owned;
use tokio::task::spawn_blocking;

use super::Tunings;
use super::identity::Identity;
use super::kept::{Kept, PURPOSE};
use crate::config::{Config, SpeculatorKind};
use crate::state::{Writer, write_every_minute};

/// Keeps what a server learns in a file. Without one it does nothing.
#[derive(Clone)]
pub(crate) struct Keeper(Option<Arc<Inner>>);

struct Inner {
    writer: Writer,
    identities: BTreeMap<SpeculatorKind, Identity>,
    tunings: Arc<Tunings>,
}

impl Keeper {
    /// Gives to `tunings` what the file of the configuration holds. If the file is of no use, the log says
    /// so. One that could be ours is put aside; any other is left alone, and nothing is kept.
    pub(crate) async fn open(config: &Config, tunings: &Arc<Tunings>) -> Self {
        let Some(path) = config.scheduler.state.clone() else {
            return Self(None);
        };
        let (config, tunings) = (config.clone(), Arc::clone(tunings));
        let opened = spawn_blocking(move || {
            let identities = SpeculatorKind::ALL.map(|kind| (kind, Identity::of(kind, &config)));
            let inner = Inner {
                writer: Writer::new(PURPOSE, path),
                identities: identities.into(),
                tunings,
            };
            inner.take_up().then(|| Arc::new(inner))
        });
        match opened.await {
            Ok(inner) => Self(inner),
            Err(error) => {
                tracing::warn!(%error, "what was learnt is not kept by this server");
                Self(None)
            }
        }
    }

    /// Writes whenever it is time, for as long as it is polled.
    pub(crate) async fn keep(&self) -> Infallible {
        if self.0.is_none() {
            return pending().await;
        }
        write_every_minute(|| self.save()).await
    }

    /// Writes what was learnt since the last time, if anything was.
    pub(crate) async fn save(&self) {
        let Some(inner) = self.0.clone() else { return };
        // It ends by itself: a writing that is not waited for any more goes before the next.
        if let Err(error) = spawn_blocking(move || inner.write()).await {
            tracing::warn!(%error, "what was learnt could not be written");
        }
    }
}

impl Inner {
    /// Reads the file. False if it must not be written.
    fn take_up(&self) -> bool {
        let path = self.writer.path();
        let kept = match Kept::read(path) {
            Ok(kept) => kept,
            Err(useless) => return PURPOSE.make_room(path, &useless),
        };
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
        true
    }

    fn write(&self) {
        let kept = || {
            let identities = self.identities.iter();
            let identities = identities.map(|(speculator, identity)| {
                let name = speculator.as_str();
                (name.to_owned(), identity.clone())
            });
            Kept::new(identities.collect(), self.tunings.kept())
        };
        self.writer.write(|| self.tunings.records(), kept);
    }
}
