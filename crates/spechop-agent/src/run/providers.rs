//! Searches that went to another provider.

use spechop_types::ProviderChange;

use super::Run;
use crate::stages::Work;
use crate::{PROVIDER_CHANGES_MAX, TraceKind};

impl Run<'_> {
    /// A call has ended, in whatever way, and says where it went.
    pub(crate) fn tell_changes(&mut self, work: Work, changes: Vec<ProviderChange>) {
        for change in changes {
            let told = &mut self.provider_changes;
            if let Some((_, times)) = told.iter_mut().find(|(known, _)| *known == change) {
                *times += 1;
            } else if told.len() < PROVIDER_CHANGES_MAX {
                told.push((change.clone(), 1));
            }
            let kind = TraceKind::ProviderChanged { change };
            match self.branch_of(work) {
                Some(branch) => self.tell(branch, kind),
                None => {
                    if let Work::Target(lookup) | Work::Speculation(lookup) = work
                        && let Some((branch, hop)) = self.lookups.get(lookup).map(|l| l.asker)
                    {
                        self.tell_as(branch, hop, true, kind);
                    }
                }
            }
        }
    }
}
