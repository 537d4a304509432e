//! What all workers of a model know of earlier prompts: the KV of a prompt, outside of every
//! context, for whichever worker gets the next prompt that begins the same.
//!
//! To copy KV is to copy bytes, while to compute it is to read the prompt. The same rules as for
//! [slots](super::slots) say what may be reused: what would be computed again bit for bit, and of another
//! tenant's prompt nothing behind its fixed part. Like a slot, a prompt can be reserved for its question, and what
//! only a branch has read of it is dropped when that branch is rolled back.

use std::sync::Arc;

use llama_cpp_2::context::session::SeqState;
use parking_lot::Mutex;
use spechop_ports::{BranchFate, WeakLife};
use spechop_types::Owned;

use super::slots::{PromptTokens, drop_unneeded, is_reserved, loss_of, reusable};
use super::stakes::Stakes;

/// A prompt in whole chunks, and the KV of them and perhaps of more.
struct Entry<S> {
    held: Owned<PromptTokens>,
    /// Who needs it.
    stakes: Stakes,
    state: Arc<S>,
    /// Tokens of KV, which take memory.
    size: usize,
    /// When it was last used, counted in uses.
    used: u64,
    /// The question that it is reserved for.
    reserved_for: Option<WeakLife>,
}

/// What of a prompt was read before.
#[derive(Debug)]
pub(super) struct Found<S = SeqState> {
    /// Its KV, to be cut to the number of tokens that are the same.
    pub(super) state: Arc<S>,
    pub(super) keep: usize,
    /// Who has a stake in what is kept of it.
    pub(super) stakes: Stakes,
}

/// Prompts that were read, with their KV. Bounded in tokens.
pub(super) struct Kept<S = SeqState> {
    tokens_max: usize,
    entries: Mutex<Entries<S>>,
}

struct Entries<S> {
    all: Vec<Entry<S>>,
    uses: u64,
}

impl<S> Kept<S> {
    /// Keeps at most so many tokens. With 0 nothing is kept, and nothing looked for.
    pub(super) fn new(tokens_max: usize) -> Self {
        Self {
            tokens_max,
            entries: Mutex::new(Entries {
                all: Vec::new(),
                uses: 0,
            }),
        }
    }

    /// What of a prompt can be reused, if it is more than `beyond` tokens. It is read for a call of that fate.
    pub(super) fn find(
        &self,
        prompt: &Owned<PromptTokens>,
        beyond: usize,
        fate: Option<&BranchFate>,
    ) -> Option<Found<S>> {
        let mut entries = self.entries.lock();
        entries.uses += 1;
        let used = entries.uses;
        let longest = |entry: &&mut Entry<S>| reusable(&entry.held, prompt);
        let entry = entries.all.iter_mut().max_by_key(longest);
        let found = entry.and_then(|entry| {
            let keep = reusable(&entry.held, prompt);
            if keep <= beyond {
                return None;
            }
            entry.used = used;
            if keep == entry.held.item.tokens.len() {
                entry.reserved_for = None;
            }
            let stakes = entry.stakes.grown(keep, fate);
            entry.stakes.join(&stakes, keep);
            Some(Found {
                state: Arc::clone(&entry.state),
                keep,
                stakes,
            })
        });
        // Not before: a sibling of what was rolled back may begin with some of the same tokens.
        entries.drop_rolled_back();
        found
    }

    /// Whether a prompt, of which so many leading tokens are whole chunks, is worth keeping: there is
    /// room, and not all of it is kept already. If it is, whoever has these stakes needs that, too.
    pub(super) fn lacks(
        &self,
        prompt: &Owned<PromptTokens>,
        whole: usize,
        stakes: &Stakes,
    ) -> bool {
        if whole == 0 || prompt.item.tokens.len() > self.tokens_max {
            return false;
        }
        let covers = |entry: &&mut Entry<S>| {
            entry.held.tenant == prompt.tenant && covers(&entry.held.item, &prompt.item, whole)
        };
        let mut entries = self.entries.lock();
        match entries.all.iter_mut().find(covers) {
            Some(entry) => {
                entry.stakes.join(stakes, whole);
                false
            }
            None => true,
        }
    }

    /// Keeps the KV of a prompt, of which so many leading tokens are whole chunks, and who has a stake in
    /// them. What it extends leaves, and then what costs least until there is room.
    pub(super) fn keep(
        &self,
        prompt: &Owned<PromptTokens>,
        whole: usize,
        state: S,
        stakes: &Stakes,
    ) {
        let size = prompt.item.tokens.len();
        if size > self.tokens_max {
            return;
        }
        let held = PromptTokens {
            tokens: prompt.item.tokens[..whole].to_vec(),
            ..prompt.item.clone()
        };
        let mut entries = self.entries.lock();
        entries.drop_rolled_back();
        entries.uses += 1;
        let used = entries.uses;
        let mut stakes = stakes.clone();
        entries.all.retain(|entry| {
            let before = &entry.held.item;
            let is_covered =
                entry.held.tenant == prompt.tenant && covers(&held, before, before.tokens.len());
            if is_covered {
                stakes.join(&entry.stakes, before.tokens.len());
            }
            !is_covered
        });
        while entries.size() + size > self.tokens_max {
            let Some(least) = entries.least() else { break };
            entries.all.swap_remove(least);
        }
        entries.all.push(Entry {
            held: Owned::new(&prompt.tenant, held),
            stakes,
            state: Arc::new(state),
            size,
            used,
            reserved_for: None,
        });
    }

    /// What is kept of a prompt, which is whole chunks, leaves after all else, until all of it is used or the
    /// question is over.
    pub(super) fn reserve(&self, prompt: &Owned<PromptTokens>, life: &WeakLife) {
        let whole = prompt.item.tokens.len();
        let covers = |entry: &&mut Entry<S>| {
            entry.held.tenant == prompt.tenant && covers(&entry.held.item, &prompt.item, whole)
        };
        if whole > 0 {
            let mut entries = self.entries.lock();
            for entry in entries.all.iter_mut().filter(covers) {
                entry.reserved_for = Some(life.clone());
            }
        }
    }
}

impl<S> Entries<S> {
    /// Drops what only branches have read that are rolled back. The KV of what stays is not made smaller.
    fn drop_rolled_back(&mut self) {
        for entry in &mut self.all {
            drop_unneeded(
                &mut entry.held.item,
                &mut entry.stakes,
                &mut entry.reserved_for,
            );
        }
        self.all.retain(|entry| !entry.held.item.tokens.is_empty());
    }

    fn size(&self) -> usize {
        self.all.iter().map(|entry| entry.size).sum()
    }

    /// The entry whose loss costs least.
    fn least(&self) -> Option<usize> {
        (0..self.all.len()).min_by_key(|at| {
            let others = self.all.iter().enumerate();
            let others = others
                .filter(|(other, _)| other != at)
                .map(|(_, other)| &other.held.item);
            let entry = &self.all[*at];
            (
                loss_of(&entry.held.item, others),
                is_reserved(entry.reserved_for.as_ref()),
                entry.used,
            )
        })
    }
}

/// Whether `held` serves wherever the first `count` tokens of a prompt would: it begins with them, in
/// the same chunks, and shows as many of them to other tenants.
fn covers(held: &PromptTokens, prompt: &PromptTokens, count: usize) -> bool {
    let begins_alike = held.fixed >= prompt.fixed
        && held.tokens.len() >= count
        && held.tokens[..count] == prompt.tokens[..count];
    begins_alike && prompt.alike_until(held, count) == count
}

#[cfg(test)]
mod tests;
