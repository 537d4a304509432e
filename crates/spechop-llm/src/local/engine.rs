//! A worker: a thread with a context of its own, and what it does next.
//!
//! Every turn it asks the [queue](super::queue), and the best of the jobs that have begun here moves by a
//! chunk of its prompt or by one token; all others stand still, with their KV. So a promotion takes
//! effect at the next turn, and a dropped call is gone by then.
//!
//! Several workers compute at once on one set of weights, each on cores of its own. A job can go on at
//! another worker: its KV is copied. If the model's KV is of no use elsewhere, a job stays where it began.
//!
//! Sequences never share a call of the model. Tried on the processor, it gained nothing: two and
//! three sequences took 2.03 and 3.01 times as long as one.

mod judge;
mod keep;
mod places;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use llama_cpp_2::model::LlamaModel;
use spechop_ports::{Metered, PortError, Sparingly, panic_text};
use spechop_types::{Activity, Tokens};
use tokio::time::Instant;

use super::Tools;
use super::ahead::Pays;
use super::compute::{ComputeError, Contexts, Likeliest};
use super::job::{Job, Progress, Waiting, best};
use super::kept::Kept;
use super::queue::{Queue, Turn};
use super::slots::{CHUNK_TOKENS, Cuts, PromptTokens, Slots};
use super::stats::Counters;
use super::template::{ChatTemplate, text_tokens};
use crate::{End, Generated, Generation, Prompt};

/// No token of a language stands for more bytes on average: longer prompts are refused
/// unread, so that they cost the others nothing.
const TOKEN_BYTES_MAX: usize = 64;

/// A job with a slot.
struct Running {
    waiting: Waiting,
    slot: usize,
    progress: Progress,
}

impl Running {
    /// Tells what it has taken: of the prompt what it has read or found cached, and what it has written.
    fn meter(&mut self) {
        let progress = &self.progress;
        let prompt = self.waiting.prompt.item.tokens.len().min(progress.at);
        self.waiting.metered.tell_at_least(Tokens {
            prompt: prompt as u64,
            completion: u64::from(progress.generated),
        });
    }
}

/// What an [`Engine`] is made of.
pub(super) struct Parts<'model> {
    /// The model's name, for errors.
    pub(super) name: Arc<str>,
    /// Which worker it is, from 0 on.
    pub(super) worker: usize,
    pub(super) model: &'model LlamaModel,
    pub(super) compute: Contexts<'model>,
    pub(super) template: Arc<ChatTemplate>,
    /// Tokens that a sequence can hold.
    pub(super) context_tokens: usize,
    /// Sequences that may have begun here at once.
    pub(super) sequences: usize,
    /// Slots here in all: those beyond the sequences keep prefixes.
    pub(super) slots: usize,
    /// Whether the KV of a sequence is of use elsewhere.
    pub(super) moves_kv: bool,
    /// Whether tokens that are guessed without the model are read several at once.
    pub(super) drafts: bool,
    /// Whether what is computed hangs on how it is cut into calls ([`compute`](super::compute)).
    pub(super) is_batch_invariant: bool,
    /// Where jobs come from.
    pub(super) queue: Arc<Queue>,
    /// What all workers have read before.
    pub(super) kept: Arc<Kept>,
    /// What tells whether a question goes on at once.
    pub(super) tools: Option<Tools>,
    pub(super) counters: Arc<Counters>,
    /// What goes wrong with many prompts is not said of each.
    pub(super) warnings: Arc<Sparingly>,
}

/// Everything a worker owns.
pub(super) struct Engine<'model> {
    parts: Parts<'model>,
    slots: Slots,
    running: Vec<Running>,
    pays: Pays,
}

impl<'model> Engine<'model> {
    pub(super) fn new(parts: Parts<'model>) -> Self {
        Self {
            slots: Slots::new(parts.slots),
            parts,
            running: Vec::new(),
            pays: Pays::default(),
        }
    }

    /// Works until the queue is closed. If a turn panics, those that have begun here fail, and the
    /// work goes on with those that wait.
    pub(super) fn run(mut self) {
        keep_on(&mut self, Self::turn, Self::start_over);
    }

    /// False once there is nothing left to do, and never will be.
    fn turn(&mut self) -> bool {
        self.sweep();
        let own = self.running.iter().map(|running| &running.waiting);
        let has_room = self.running.len() < self.parts.sequences;
        let can_start = has_room || own.clone().any(Waiting::is_speculative);
        let (worker, moves_kv) = (self.parts.worker, self.parts.moves_kv);
        match self.parts.queue.next(worker, &own, can_start, moves_kv) {
            Turn::End => return false,
            Turn::Enter(arrival, job) => {
                self.enter(arrival, job);
                return true;
            }
            Turn::Start(waiting) => {
                self.make_room();
                self.start(*waiting);
            }
            Turn::HandOver => {
                if let Some(at) = self.best_that_stands_still() {
                    self.give_up(at);
                }
            }
            Turn::Step => {}
        }
        self.step_best();
        true
    }

    /// After a turn that panicked: who had begun is told, and nothing in any slot is trusted. What the
    /// context still holds does not matter, since every placement cuts it first.
    fn start_over(&mut self, panic: &str) {
        let panicked = format!("a generation panicked: {panic}");
        tracing::error!(model = &*self.parts.name, "{panicked}");
        self.slots = Slots::new(self.parts.slots);
        self.parts.compute.leave_wide();
        let running = std::mem::take(&mut self.running);
        let count = running.len() as u64;
        self.parts.counters.running.fetch_sub(count, Relaxed);
        for running in running {
            let error = PortError::unavailable(&*self.parts.name, panicked.clone());
            let _ = running.waiting.job.reply.send(Err(error));
        }
    }

    /// Lets a job wait, or answers at once why it cannot run.
    fn enter(&self, arrival: u64, job: Job) {
        if job.reply.is_closed() {
            self.parts.counters.dropped.fetch_add(1, Relaxed);
            return;
        }
        let cutting = job.call.doing(Activity::Prefill);
        let prompt = self.prompt(&job.generation);
        drop(cutting);
        let prompt = match prompt {
            Ok(prompt) => prompt,
            Err(error) => {
                let _ = job.reply.send(Err(error));
                return;
            }
        };
        if job.generation.tokens_max == 0 {
            let nothing = Generated {
                text: String::new(),
                end: End::Length,
                certainty: None,
                tokens: Tokens::default(),
            };
            let _ = job.reply.send(Ok(nothing));
            return;
        }
        let unlucky = self.parts.queue.wait(Waiting {
            metered: Metered::new(&job.call),
            prompt: job.call.owned(prompt),
            job,
            arrival,
            begun: None,
        });
        if let Some(unlucky) = unlucky {
            let most = self.parts.queue.waiting_max();
            let full = format!("{most} generations wait already");
            let error = PortError::unavailable(&*self.parts.name, full);
            let _ = unlucky.job.reply.send(Err(error));
        }
    }

    /// The prompt as tokens, if it fits: nothing that is begun can run out of room.
    fn prompt(&self, generation: &Generation) -> Result<PromptTokens, PortError> {
        let what = &*self.parts.name;
        let refused = |detail: String| PortError::refused(what, detail);
        let too_long = |detail: String| PortError::too_long(what, detail);
        let room = self.parts.context_tokens;
        let bytes: usize = generation.prompt.texts().map(str::len).sum();
        if bytes > room * TOKEN_BYTES_MAX {
            return Err(too_long(format!(
                "{bytes} bytes of prompt cannot fit into a context of {room} tokens"
            )));
        }
        let prompt = match &generation.prompt {
            Prompt::Chat(chat) if chat.messages.is_empty() => {
                return Err(refused("the conversation is empty".to_owned()));
            }
            Prompt::Chat(chat) => {
                let tokens = self.parts.template.tokens(self.parts.model, chat);
                tokens.map_err(refused)?
            }
            // Drafts are written several tokens at once: to read them one by one would take longer.
            Prompt::Text(text) => text_tokens(self.parts.model, text, !self.parts.drafts),
        };
        let prompt = match self.parts.is_batch_invariant {
            true => PromptTokens {
                cuts: Cuts::Anywhere,
                ..prompt
            },
            false => prompt,
        };
        if prompt.tokens.is_empty() {
            // Nothing can be predicted from nothing.
            return Err(refused("the text is empty".to_owned()));
        }
        let (read, write) = (prompt.tokens.len(), generation.tokens_max as usize);
        if read + write > room {
            return Err(too_long(format!(
                "a prompt of {read} tokens and up to {write} more do not fit into a context of {room}"
            )));
        }
        Ok(prompt)
    }

    /// Ends whatever nobody waits for any more.
    fn sweep(&mut self) {
        for at in (0..self.running.len()).rev() {
            if self.running[at].waiting.is_dropped() {
                self.leave(at);
                self.parts.counters.dropped.fetch_add(1, Relaxed);
            }
        }
    }

    /// Moves the best of those that have begun: by one chunk of its prompt, or by one token.
    fn step_best(&mut self) {
        let Some(at) = best(self.running.iter().map(|running| &running.waiting)) else {
            return;
        };
        if self.widen(at).is_err() {
            // Another one has left.
            return;
        }
        let Running {
            waiting,
            slot,
            progress,
        } = &self.running[at];
        let slot = *slot;
        let _moving = waiting.job.call.doing(match progress.next {
            Some(_) => Activity::Decode,
            None => Activity::Prefill,
        });
        let prompt = &waiting.prompt.item;
        // Which tokens follow is known of the likeliest text alone.
        let sample = waiting.job.generation.sample;
        let drafts = self.parts.drafts && sample == 0;
        if drafts && progress.next.is_some() {
            let left = progress.output.left() as usize;
            let rows = progress.ahead.rows(&prompt.tokens, left);
            if let Some(rows) = rows.filter(|rows| self.pays.is_worth(rows)) {
                return self.judge(at, &rows);
            }
        }
        let (tokens, last) = match &progress.next {
            Some(token) => (std::slice::from_ref(token), true),
            None => {
                let end = prompt.chunk_end(progress.at);
                let tokens = &prompt.tokens[progress.at..end];
                let ends = end == prompt.tokens.len() && sample == 0;
                if ends && self.parts.is_batch_invariant {
                    let room = waiting.job.generation.tokens_max as usize;
                    let drafts = drafts && self.pays.drafts_pay();
                    let rows = progress.ahead.ending(tokens, room, drafts);
                    if rows.tokens.len() <= CHUNK_TOKENS {
                        return self.end_prompt(at, &rows);
                    }
                }
                let counted = &self.parts.counters.prefilled_tokens;
                counted.fetch_add(tokens.len() as u64, Relaxed);
                (tokens, end == prompt.tokens.len())
            }
        };
        let count = tokens.len();
        let begun = Instant::now();
        let (compute, there) = self.parts.compute.of(slot);
        let done = compute.step(there, progress.at, tokens, last, sample);
        if progress.next.is_some() {
            self.pays.took_one(begun.elapsed());
        }
        match done {
            Ok(next) => {
                match self.running[at].progress.next {
                    Some(_) => self.running[at].progress.at += count,
                    None => self.has_read(at, count),
                }
                if let Some(next) = next {
                    self.append(at, next);
                }
            }
            Err(error) => self.fail(at, error),
        }
    }

    /// Takes in a generated token, and answers if it was the last. True if so.
    fn append(&mut self, index: usize, next: Likeliest) -> bool {
        let token = next.token;
        let running = &mut self.running[index];
        let vocab = self.parts.model.vocab();
        running.progress.generated += 1;
        running.progress.ln_chance += next.ln_chance();
        running.meter();
        self.parts.counters.generated_tokens.fetch_add(1, Relaxed);
        let progress = &mut running.progress;
        let piece = vocab.token_to_piece(token, false, None);
        let end = match vocab.is_eog(token) {
            true => Some(End::Turn),
            false => progress.output.push(&piece),
        };
        progress.next = Some(token);
        progress.ahead.wrote(token);
        if let Some(written) = &mut progress.written {
            written.push(token);
        }
        if let Some(end) = end {
            self.keep_written(index);
            if end == End::Stop {
                self.reserve_if_at_hand(index);
            }
            let (waiting, progress) = self.leave(index);
            self.parts.reply(waiting, progress, end);
        }
        end.is_some()
    }

    /// Frees the slot of a sequence; what it holds of the prompt stays for others.
    fn leave(&mut self, index: usize) -> (Waiting, Progress) {
        let running = self.running.swap_remove(index);
        self.parts.counters.running.fetch_sub(1, Relaxed);
        let keep = self.slots.release(running.slot);
        if self.parts.compute.cut(running.slot, keep).is_err() {
            self.slots.forget(running.slot);
        }
        (running.waiting, running.progress)
    }

    /// Answers that a sequence failed, and trusts nothing in its slot.
    fn fail(&mut self, index: usize, error: ComputeError) {
        self.slots.forget(self.running[index].slot);
        let (waiting, _) = self.leave(index);
        let error = PortError::unavailable(&*self.parts.name, error);
        let _ = waiting.job.reply.send(Err(error));
    }
}

/// Makes turns until one says that it was the last. A turn that panicked is followed by `start_over`,
/// which hears what it said; a panic in there is not caught.
fn keep_on<S>(state: &mut S, turn: impl Fn(&mut S) -> bool, start_over: impl Fn(&mut S, &str)) {
    loop {
        match catch_unwind(AssertUnwindSafe(|| turn(state))) {
            Ok(true) => {}
            Ok(false) => return,
            Err(panic) => start_over(state, panic_text(&*panic)),
        }
    }
}

impl Parts<'_> {
    fn reply(&self, waiting: Waiting, progress: Progress, end: End) {
        // Counted first: whoever has the answer sees it counted.
        self.counters.finished.fetch_add(1, Relaxed);
        // It would think as long if it was asked again. Whoever only has a prompt read wants no text.
        if end == End::Length
            && waiting.job.may_think
            && let Some(detail) = progress.output.lost_in_thought()
        {
            let lost = PortError::malformed(&*self.name, detail);
            let _ = waiting.job.reply.send(Err(lost));
            return;
        }
        let tokens = Tokens {
            prompt: waiting.prompt.item.tokens.len() as u64,
            completion: u64::from(progress.generated),
        };
        let certainty = progress.certainty();
        let _ = waiting.job.reply.send(Ok(Generated {
            text: progress.output.into_text(),
            end,
            certainty,
            tokens,
        }));
    }
}

#[cfg(test)]
mod tests;
