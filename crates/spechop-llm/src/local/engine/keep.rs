//! What of a prompt is kept, for whichever worker gets the next one that begins the same.

use spechop_types::Owned;

use super::super::slots::PromptTokens;
use super::{Engine, Running};
use crate::Prompt;

impl Engine<'_> {
    /// Keeps a text with what was written behind it: the next one begins with both.
    pub(super) fn keep_written(&mut self, index: usize) {
        let Running {
            waiting,
            slot,
            progress,
        } = &self.running[index];
        if matches!(waiting.job.generation.prompt, Prompt::Chat(_)) {
            return;
        }
        let mut prompt = waiting.prompt.clone();
        if let Some(written) = &progress.written {
            // The last token was chosen, and not read.
            let read = progress.at.saturating_sub(prompt.item.tokens.len());
            let read = &written[..read.min(written.len())];
            self.slots.wrote(*slot, &prompt.item, read);
            prompt.item.wrote(read);
        }
        // What is counted is what is kept.
        let (slot, size) = (*slot, prompt.item.tokens.len());
        if self.parts.compute.cut(slot, size).is_ok() {
            self.keep(slot, &prompt);
        }
    }

    /// Keeps a prompt that has just been read, for the other workers, too.
    pub(super) fn keep(&self, slot: usize, prompt: &Owned<PromptTokens>) {
        let whole = prompt.item.whole_until(prompt.item.tokens.len());
        if !self.parts.kept.lacks(prompt, whole) {
            return;
        }
        match self.parts.compute.save(slot) {
            Ok(state) => self.parts.kept.keep(prompt, whole, state),
            // It will be computed again.
            Err(error) => tracing::warn!(model = &*self.parts.name, %error, "a prompt is not kept"),
        }
    }
}
