//! The thread that owns the model, and who gets its next moment.
//!
//! Every turn the jobs are ranked anew by their [`Urgency`]. The best one moves by a chunk of its prompt or by one token; all others
//! stand still, those that have begun with their KV. So a promotion takes effect at the next
//! turn, and a dropped call is gone by then.
//!
//! Sequences never share a call of the model. Tried on the processor, it gained nothing: two and
//! three sequences took 2.03 and 3.01 times as long as one. And in calls of four the matrix
//! kernels summed in another order, which changes texts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError};

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use spechop_ports::{Call, Lane, Metered, PortError, Urgency, panic_text};
use spechop_types::{Owned, Tokens};
use tokio::sync::oneshot;

use super::compute::{Compute, ComputeError};
use super::output::Output;
use super::slots::{PromptTokens, Slots};
use super::stats::Counters;
use super::template::{ChatTemplate, text_tokens};
use crate::{End, Generated, Generation, Prompt};

/// No token of a language stands for more bytes on average: longer prompts are refused
/// unread, so that they cost the others nothing.
const TOKEN_BYTES_MAX: usize = 64;

/// A call, as it is handed to the thread.
pub(super) struct Job {
    pub(super) call: Call,
    pub(super) generation: Generation,
    pub(super) reply: oneshot::Sender<Result<Generated, PortError>>,
}

/// A job and its place in line.
struct Waiting {
    job: Job,
    prompt: Owned<PromptTokens>,
    arrival: u64,
    /// Hears of every token, so that a call that is dropped does not take its count along.
    metered: Metered,
}

/// A job with a slot.
struct Running {
    waiting: Waiting,
    slot: usize,
    /// Tokens in the slot's KV.
    at: usize,
    /// The latest token, not in the KV yet; `None` until the whole prompt is.
    next: Option<LlamaToken>,
    output: Output,
    generated: u32,
}

impl Running {
    /// Tells what it has taken: of the prompt what it has read or found cached, and what it has written.
    fn meter(&mut self) {
        let prompt = self.waiting.prompt.item.tokens.len().min(self.at);
        self.waiting.metered.tell_at_least(Tokens {
            prompt: prompt as u64,
            completion: u64::from(self.generated),
        });
    }
}

impl Waiting {
    /// Asked anew every time, since a call can be promoted.
    fn urgency(&self) -> Urgency {
        self.job.call.urgency(self.arrival)
    }

    fn is_speculative(&self) -> bool {
        self.job.call.lane() == Lane::Speculative
    }

    fn is_dropped(&self) -> bool {
        self.job.reply.is_closed()
    }
}

/// What an [`Engine`] is made of.
pub(super) struct Parts<'model> {
    /// The model's name, for errors.
    pub(super) name: Arc<str>,
    pub(super) model: &'model LlamaModel,
    pub(super) compute: Compute<'model>,
    pub(super) template: ChatTemplate,
    /// Tokens that a sequence can hold.
    pub(super) context_tokens: usize,
    /// Sequences that may have begun at once.
    pub(super) sequences: usize,
    /// Slots in all: those beyond the sequences keep prefixes.
    pub(super) slots: usize,
    /// Jobs that may wait.
    pub(super) waiting_max: usize,
    pub(super) counters: Arc<Counters>,
}

/// Everything the thread owns.
pub(super) struct Engine<'model> {
    parts: Parts<'model>,
    slots: Slots,
    waiting: Vec<Waiting>,
    running: Vec<Running>,
    arrivals: u64,
}

impl<'model> Engine<'model> {
    pub(super) fn new(parts: Parts<'model>) -> Self {
        Self {
            slots: Slots::new(parts.slots),
            parts,
            waiting: Vec::new(),
            running: Vec::new(),
            arrivals: 0,
        }
    }

    /// Works until every sender is gone. If a turn panics, those that have begun fail, and the work
    /// goes on with those that wait.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        keep_on(&mut self, |engine| engine.turn(jobs), Self::start_over);
    }

    /// False once there is nothing left to do, and never will be.
    fn turn(&mut self, jobs: &Receiver<Job>) -> bool {
        if !self.receive(jobs) {
            return false;
        }
        self.sweep();
        self.start_best();
        self.step_best();
        let counters = &self.parts.counters;
        counters.waiting.store(self.waiting.len() as u64, Relaxed);
        counters.running.store(self.running.len() as u64, Relaxed);
        true
    }

    /// After a turn that panicked: who had begun is told, and nothing in any slot is trusted. What the
    /// context still holds does not matter, since every placement cuts it first.
    fn start_over(&mut self, panic: &str) {
        let panicked = format!("a generation panicked: {panic}");
        tracing::error!(model = &*self.parts.name, "{panicked}");
        self.slots = Slots::new(self.parts.slots);
        for running in self.running.drain(..) {
            let error = PortError::unavailable(&*self.parts.name, panicked.clone());
            let _ = running.waiting.job.reply.send(Err(error));
        }
    }

    /// Takes all jobs that have arrived, and sleeps while there is nothing to do. False once
    /// nobody can send any more: then nobody is left to answer, either.
    fn receive(&mut self, jobs: &Receiver<Job>) -> bool {
        if self.waiting.is_empty() && self.running.is_empty() {
            match jobs.recv() {
                Ok(job) => self.enter(job),
                Err(_) => return false,
            }
        }
        loop {
            match jobs.try_recv() {
                Ok(job) => self.enter(job),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Lets a job wait, or answers at once why it cannot run.
    fn enter(&mut self, job: Job) {
        if job.reply.is_closed() {
            self.parts.counters.dropped.fetch_add(1, Relaxed);
            return;
        }
        let prompt = match self.prompt(&job.generation) {
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
                tokens: Tokens::default(),
            };
            let _ = job.reply.send(Ok(nothing));
            return;
        }
        self.arrivals += 1;
        self.waiting.push(Waiting {
            metered: Metered::new(&job.call),
            prompt: job.call.owned(prompt),
            job,
            arrival: self.arrivals,
        });
        if self.waiting.len() > self.parts.waiting_max {
            self.sweep();
        }
        if self.waiting.len() > self.parts.waiting_max
            && let Some(last) = (0..self.waiting.len()).min_by_key(|at| self.waiting[*at].urgency())
        {
            let unlucky = self.waiting.swap_remove(last);
            let full = format!("{} generations wait already", self.parts.waiting_max);
            let error = PortError::unavailable(&*self.parts.name, full);
            let _ = unlucky.job.reply.send(Err(error));
        }
    }

    /// The prompt as tokens, if it fits: nothing that is begun can run out of room.
    fn prompt(&self, generation: &Generation) -> Result<PromptTokens, PortError> {
        let what = || self.parts.name.to_string();
        let refused = |detail| PortError::Refused {
            what: what(),
            detail,
        };
        let too_long = |detail| PortError::TooLong {
            what: what(),
            detail,
        };
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
            Prompt::Text(text) => text_tokens(self.parts.model, text),
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
        let before = self.waiting.len() + self.running.len();
        self.waiting.retain(|waiting| !waiting.is_dropped());
        for at in (0..self.running.len()).rev() {
            if self.running[at].waiting.is_dropped() {
                self.leave(at);
            }
        }
        let dropped = before - self.waiting.len() - self.running.len();
        let counted = &self.parts.counters.dropped;
        counted.fetch_add(dropped as u64, Relaxed);
    }

    /// Gives a slot to the best waiting job, if it is better than all that have begun. Where
    /// there is none, the worst speculative one loses its own and waits again; what it has read
    /// of its prompt stays cached.
    fn start_best(&mut self) {
        let Some(at) = best(self.waiting.iter()) else {
            return;
        };
        let begun = self.running.iter().map(|running| &running.waiting);
        let urgency = self.waiting[at].urgency();
        if begun.clone().any(|begun| begun.urgency() > urgency) {
            return;
        }
        if self.running.len() >= self.parts.sequences {
            let worst = begun
                .enumerate()
                .filter(|(_, begun)| begun.is_speculative())
                .min_by_key(|(_, begun)| begun.urgency())
                .map(|(index, _)| index);
            let Some(worst) = worst else { return };
            let evicted = self.leave(worst);
            self.waiting.push(evicted);
            self.parts.counters.evicted.fetch_add(1, Relaxed);
        }
        let waiting = self.waiting.swap_remove(at);
        self.start(waiting);
    }

    /// Puts a job into a slot.
    fn start(&mut self, waiting: Waiting) {
        let Some(placement) = self.slots.take(&waiting.prompt) else {
            // There are more slots than running sequences.
            self.waiting.push(waiting);
            return;
        };
        let counters = &self.parts.counters;
        counters
            .reused_tokens
            .fetch_add(placement.keep as u64, Relaxed);
        let placed = self.parts.compute.place(placement);
        self.running.push(Running {
            slot: placement.slot,
            at: placement.keep,
            next: None,
            output: Output::new(waiting.job.generation.stop),
            generated: 0,
            waiting,
        });
        if let Err(error) = placed {
            self.fail(self.running.len() - 1, error);
        }
    }

    /// Moves the best of those that have begun: by one chunk of its prompt, or by one token.
    fn step_best(&mut self) {
        let Some(at) = best(self.running.iter().map(|running| &running.waiting)) else {
            return;
        };
        let running = &mut self.running[at];
        let prompt = &running.waiting.prompt.item;
        let (tokens, last) = match &running.next {
            Some(token) => (std::slice::from_ref(token), true),
            None => {
                let end = prompt.chunk_end(running.at);
                let tokens = &prompt.tokens[running.at..end];
                let counted = &self.parts.counters.prefilled_tokens;
                counted.fetch_add(tokens.len() as u64, Relaxed);
                (tokens, end == prompt.tokens.len())
            }
        };
        let done = self
            .parts
            .compute
            .step(running.slot, running.at, tokens, last);
        match done {
            Ok(next) => {
                running.at += tokens.len();
                if running.next.is_none() {
                    self.slots.processed(running.slot, prompt, running.at);
                    running.meter();
                }
                if let Some(token) = next {
                    self.append(at, token);
                }
            }
            Err(error) => self.fail(at, error),
        }
    }

    /// Takes in a generated token, and answers if it was the last.
    fn append(&mut self, index: usize, token: LlamaToken) {
        let running = &mut self.running[index];
        let vocab = self.parts.model.vocab();
        running.generated += 1;
        running.meter();
        self.parts.counters.generated_tokens.fetch_add(1, Relaxed);
        let end = if vocab.is_eog(token) {
            Some(End::Turn)
        } else if running
            .output
            .push(&vocab.token_to_piece(token, false, None))
        {
            Some(End::Stop)
        } else if running.generated >= running.waiting.job.generation.tokens_max {
            Some(End::Length)
        } else {
            None
        };
        running.next = Some(token);
        if let Some(end) = end {
            let output = std::mem::replace(&mut running.output, Output::new(&[]));
            let generated = running.generated;
            let waiting = self.leave(index);
            self.parts.reply(waiting, output, generated, end);
        }
    }

    /// Frees the slot of a sequence; what it holds of the prompt stays for others.
    fn leave(&mut self, index: usize) -> Waiting {
        let running = self.running.swap_remove(index);
        let keep = self.slots.release(running.slot);
        if self.parts.compute.cut(running.slot, keep).is_err() {
            self.slots.forget(running.slot);
        }
        running.waiting
    }

    /// Answers that a sequence failed, and trusts nothing in its slot.
    fn fail(&mut self, index: usize, error: ComputeError) {
        self.slots.forget(self.running[index].slot);
        let waiting = self.leave(index);
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

/// The index of the job that goes first.
fn best<'a>(jobs: impl Iterator<Item = &'a Waiting>) -> Option<usize> {
    jobs.enumerate()
        .max_by_key(|(_, job)| job.urgency())
        .map(|(at, _)| at)
}

impl Parts<'_> {
    fn reply(&self, waiting: Waiting, output: Output, generated: u32, end: End) {
        // Counted first: whoever has the answer sees it counted.
        self.counters.finished.fetch_add(1, Relaxed);
        let tokens = Tokens {
            prompt: waiting.prompt.item.tokens.len() as u64,
            completion: u64::from(generated),
        };
        let _ = waiting.job.reply.send(Ok(Generated {
            text: output.into_text(),
            end,
            tokens,
        }));
    }
}

#[cfg(test)]
mod tests;
