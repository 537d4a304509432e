//! The speculators that stand on others' results: the memory, and the cascade of those that there are.

use std::num::NonZeroUsize;
use std::sync::Arc;

use spechop_ports::{Encoder, Speculator};
use spechop_sched::{Backend, Kind, Limits, ScheduledSpeculator};
use spechop_speculate::{Cascade, Memory, MemoryOptions};

use super::Toolbox;
use crate::config::{Config, SpeculatorKind};

/// A look-up in the memory takes microseconds, or waits for the encoder, which has a queue of its own.
const AT_ONCE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

impl Toolbox {
    /// With a memory of what was verified before, and with the cascade of the configuration.
    #[must_use]
    pub fn remembering(mut self, encoder: Arc<dyn Encoder>, config: &Config) -> Self {
        let options = MemoryOptions {
            most: config.speculator.memory.most,
            similarity: config.speculator.memory.similarity,
        };
        let memory = Arc::new(Memory::new(encoder, options));
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
        let in_turn = ScheduledSpeculator::new(Arc::clone(&memory) as _, &in_turn, rule);
        self.speculators
            .insert(SpeculatorKind::Memory, Arc::new(in_turn));
        self.backends.push(backend);
        self.memory = Some(memory);
        self.cascading(config)
    }

    /// With the cascade of the configuration: those of its members that there are. Each takes its own turns.
    fn cascading(mut self, config: &Config) -> Self {
        let cascade = &config.speculator.cascade;
        let member = |kind: &SpeculatorKind| {
            let member: &Arc<dyn Speculator> = self.speculators.get(kind)?;
            Some((kind.as_str(), Arc::clone(member)))
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
