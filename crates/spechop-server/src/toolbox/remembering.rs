//! The speculators that stand on others' results: the memory, and the cascade of those that there are.

use std::num::NonZeroUsize;
use std::sync::Arc;

use spechop_agent::Settings;
use spechop_config::{Config, SpeculatorKind};
use spechop_ports::{Encoder, SharedEntries, Speculator};
use spechop_sched::{Backend, Kind, Limits, Scheduled};
use spechop_speculate::{Cascade, Likeliest, Memory, MemoryOptions, SharedMemory};
use spechop_types::Hop;
use spechop_verifier::verify;

use super::Toolbox;
use crate::memory::Reachable;

/// A look-up in the memory takes microseconds, or waits for the encoder, which has a queue of its own.
const AT_ONCE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// The memory of verified look-ups.
#[derive(Clone)]
pub enum Verified {
    /// Of this server alone.
    Own(Arc<Memory>),
    /// Shared with other servers.
    Shared(Arc<SharedMemory>),
}

impl Verified {
    fn speculator(&self) -> Arc<dyn Speculator> {
        match self {
            Self::Own(memory) => Arc::clone(memory) as _,
            Self::Shared(memory) => Arc::clone(memory) as _,
        }
    }
}

fn options(config: &Config) -> MemoryOptions {
    MemoryOptions {
        most: config.speculator.memory.most,
        similarity: config.speculator.memory.similarity,
    }
}

impl Toolbox {
    /// With a memory of what was verified before, and with the cascade of the configuration.
    #[must_use]
    pub fn remembering(self, encoder: Arc<dyn Encoder>, config: &Config) -> Self {
        let memory = Arc::new(Memory::new(encoder, options(config)));
        self.with(Verified::Own(memory), config)
    }

    /// The same, with a memory whose entries several servers share.
    #[must_use]
    pub fn sharing(
        self,
        entries: Arc<dyn SharedEntries>,
        encoder: Arc<dyn Encoder>,
        config: &Config,
    ) -> Self {
        let entries = Arc::new(Reachable::new(entries));
        let memory = SharedMemory::new(entries, encoder, options(config));
        self.with(Verified::Shared(Arc::new(memory)), config)
    }

    fn with(mut self, memory: Verified, config: &Config) -> Self {
        let backend = Backend::new(
            "memory",
            Limits {
                capacity: AT_ONCE,
                rate: None,
                speculative_max: AT_ONCE.get(),
            },
        );
        let rule = config.scheduler.eligibility.of("speculator");
        let in_turn = backend.of_kind(Kind::default());
        let in_turn = Scheduled::new(memory.speculator(), &in_turn, rule);
        self.speculators
            .insert(SpeculatorKind::Memory, Arc::new(in_turn));
        self.backends.push(backend);
        self.memory = Some(memory);
        self.cascading(config)
    }

    /// A hop was committed: whatever remembers committed hops is told.
    pub(crate) fn committed(&self, settings: &Settings, hop: &Hop) {
        let (tenant, mode) = (&settings.tenant, settings.verifier);
        match &self.memory {
            Some(Verified::Own(memory)) => memory.committed(tenant, hop, |guess, observed| {
                verify(mode, observed, guess).accepted
            }),
            Some(Verified::Shared(memory)) => {
                let agrees =
                    move |guess: &str, observed: &str| verify(mode, observed, guess).accepted;
                memory.committed(tenant, hop, Arc::new(agrees));
            }
            None => {}
        }
        if let Some(traffic) = &self.traffic {
            traffic.committed(tenant, hop);
        }
    }

    /// With the cascade of the configuration: those of its members that there are. Each takes its own turns.
    fn cascading(mut self, config: &Config) -> Self {
        let cascade = &config.speculator.cascade;
        let member = |kind: &SpeculatorKind| {
            let member = Arc::clone(self.speculators.get(kind)?);
            let member = match kind {
                // What it draws beside its likeliest guess must not take the place of others' guesses.
                SpeculatorKind::Llm => Arc::new(Likeliest::of(member)) as _,
                _ => member,
            };
            Some((kind.as_str(), member))
        };
        let members: Vec<_> = cascade.members.iter().filter_map(member).collect();
        if !members.is_empty() {
            let cascade = Cascade::new(members, cascade.confident);
            self.speculators
                .insert(SpeculatorKind::Cascade, Arc::new(cascade));
        }
        self
    }
}
