//! What of a prompt is kept, for whichever worker gets the next one that begins the same.

use std::sync::atomic::Ordering::Relaxed;

use spechop_ports::Life;
use spechop_types::{Owned, with_causes};

use super::super::slots::PromptTokens;
use super::{Engine, Running};
use crate::Prompt;

impl Engine<'_> {
    /// So many more tokens of its prompt are in the KV.
    pub(super) fn has_read(&mut self, index: usize, count: usize) {
        let running = &mut self.running[index];
        running.progress.at += count;
        let (slot, at) = (running.slot, running.progress.at);
        let prompt = &running.waiting.prompt;
        self.slots.processed(slot, &prompt.item, at);
        running.meter();
        let waiting = &self.running[index].waiting;
        // A text grows by what is written now, and is kept with that.
        let is_chat = matches!(waiting.job.generation.prompt, Prompt::Chat(_));
        if is_chat && at == waiting.prompt.item.tokens.len() {
            self.keep(slot, &waiting.prompt);
        }
    }

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

    /// If the output of what has been asked for is at hand, its question goes on at once: what it has left is
    /// reserved for it, so that its next prompt only adds what is new (arXiv 2512.15834, algorithm 5).
    pub(super) fn reserve_if_at_hand(&mut self, index: usize) {
        let Running {
            waiting,
            slot,
            progress,
        } = &self.running[index];
        let (slot, call) = (*slot, &waiting.job.call);
        let (Some(tools), Some(life)) = (&self.parts.tools, call.life().map(Life::downgrade))
        else {
            return;
        };
        let Some(asked) = (tools.asked)(&progress.output.text()) else {
            return;
        };
        if !tools.outputs.has(call, asked.as_str()) {
            return;
        }
        self.parts.kept.reserve(self.slots.held(slot), &life);
        self.slots.reserve(slot, life);
        self.parts.counters.reserved.fetch_add(1, Relaxed);
    }

    /// Keeps a prompt that has just been read, for the other workers, too.
    pub(super) fn keep(&self, slot: usize, prompt: &Owned<PromptTokens>) {
        let whole = prompt.item.whole_until(prompt.item.tokens.len());
        let stakes = self.slots.stakes(slot);
        if !self.parts.kept.lacks(prompt, whole, stakes) {
            return;
        }
        match self.parts.compute.save(slot) {
            Ok(state) => self.parts.kept.keep(prompt, whole, state, stakes),
            // It will be computed again.
            Err(error) => {
                if let Some(left_out) = self.parts.warnings.turn("not kept") {
                    let reason = with_causes(&error);
                    let model = &*self.parts.name;
                    tracing::warn!(model, reason, left_out, "a prompt is not kept");
                }
            }
        }
    }
}
