//! Searches that went to another provider.

use spechop_types::ProviderChange;

use super::Run;
use crate::TraceKind;
use crate::stages::Work;

impl Run<'_> {
    /// A call has ended, in whatever way, and says where it went.
    pub(crate) fn tell_changes(&mut self, work: Work, changes: Vec<ProviderChange>) {
        for change in changes {
            self.provider_changes.add(change.clone(), 1);
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
