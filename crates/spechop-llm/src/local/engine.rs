//! The thread that owns the model, and who gets its next moment.
//!
//! Every turn the jobs are sorted anew: authoritative before speculative, then by depth, then by
//! arrival. Only the best lane present moves. While it does, speculative sequences stand still
//! with their KV; a promotion takes effect at the next turn, a dropped call leaves at the next.
//! A turn is at most one chunk of one prompt and one token for each sequence that generates.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError};

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use spechop_ports::{Call, Lane, PortError};
use spechop_types::Tokens;
use tokio::sync::oneshot;

use super::compute::{Compute, ComputeError, Next};
use super::output::Output;
use super::slots::{Prompt, Slots};
use super::stats::Counters;
use super::template::ChatTemplate;
use crate::{End, Generated, Generation};

/// No token of a language stands for more bytes on average: longer conversations are refused
/// unread, so that they cost the others nothing.
const TOKEN_BYTES_MAX: usize = 64;

/// A call, as it is handed to the thread.
pub(super) struct Job {
    pub(super) call: Call,
    pub(super) generation: Generation,
    pub(super) reply: oneshot::Sender<Result<Generated, PortError>>,
}

/// Lane, depth, arrival.
type Rank = (Reverse<Lane>, u32, u64);

/// A job and its place in line.
struct Waiting {
    job: Job,
    prompt: Prompt,
    arrival: u64,
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

impl Waiting {
    /// Who goes first: smallest first. Asked anew every time, since a call can be promoted.
    fn rank(&self) -> Rank {
        let call = &self.job.call;
        (Reverse(call.lane()), call.depth(), self.arrival)
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
    /// Sequences that run at once.
    pub(super) sequences: usize,
    /// Slots in all: those beyond the running sequences keep prefixes.
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

    /// Works until every sender is gone.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        while self.receive(jobs) {
            self.sweep();
            if let Some(lane) = self.lane() {
                self.admit(lane);
                self.prefill(lane);
                self.decode(lane);
            }
            self.parts
                .counters
                .waiting
                .store(self.waiting.len() as u64, Relaxed);
            self.parts
                .counters
                .running
                .store(self.running.len() as u64, Relaxed);
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
            return;
        }
        let prompt = match self.prompt(&job.generation) {
            Ok(prompt) => prompt,
            Err(detail) => {
                let what = self.parts.name.to_string();
                let _ = job.reply.send(Err(PortError::Refused { what, detail }));
                return;
            }
        };
        self.arrivals += 1;
        self.waiting.push(Waiting {
            job,
            prompt,
            arrival: self.arrivals,
        });
        if self.waiting.len() > self.parts.waiting_max
            && let Some(last) = position_by_rank(&self.waiting, |a, b| a > b)
        {
            let unlucky = self.waiting.swap_remove(last);
            let full = format!("{} generations wait already", self.parts.waiting_max);
            let error = PortError::unavailable(&*self.parts.name, full);
            let _ = unlucky.job.reply.send(Err(error));
        }
    }

    /// The conversation as tokens, if it fits: nothing that is begun can run out of room.
    fn prompt(&self, generation: &Generation) -> Result<Prompt, String> {
        if generation.messages.is_empty() {
            return Err("the conversation is empty".to_owned());
        }
        let room = self.parts.context_tokens;
        let bytes: usize = generation.messages.iter().map(|m| m.text.len()).sum();
        if bytes > room * TOKEN_BYTES_MAX {
            return Err(format!(
                "{bytes} bytes of conversation cannot fit into a context of {room} tokens"
            ));
        }
        let prompt = self.parts.template.tokens(self.parts.model, generation)?;
        let (read, write) = (prompt.tokens.len(), generation.tokens_max as usize);
        if read + write > room {
            return Err(format!(
                "a prompt of {read} tokens and up to {write} more do not fit into a context of {room}"
            ));
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
        self.parts
            .counters
            .dropped
            .fetch_add(dropped as u64, Relaxed);
    }

    /// The lane that may move now: the best one present.
    fn lane(&self) -> Option<Lane> {
        let running = self.running.iter().map(|running| &running.waiting);
        self.waiting
            .iter()
            .chain(running)
            .map(|waiting| waiting.job.call.lane())
            .max()
    }

    /// Gives slots to the jobs of the lane, best first. Authoritative ones take the place of the
    /// worst speculative ones, which wait again; the prompt they have read so far stays cached.
    fn admit(&mut self, lane: Lane) {
        while let Some(best) = position_by_rank(&self.waiting, |a, b| a < b)
            && self.waiting[best].job.call.lane() == lane
        {
            if self.running.len() >= self.parts.sequences {
                let worst = (0..self.running.len())
                    .filter(|at| self.running[*at].waiting.job.call.lane() < lane)
                    .max_by_key(|at| self.running[*at].waiting.rank());
                let Some(worst) = worst else { return };
                let evicted = self.leave(worst);
                self.waiting.push(evicted);
                self.parts.counters.evicted.fetch_add(1, Relaxed);
                continue;
            }
            let waiting = self.waiting.swap_remove(best);
            if waiting.job.generation.tokens_max == 0 {
                self.parts.reply(waiting, Output::new(&[]), 0, End::Length);
                continue;
            }
            self.start(waiting);
        }
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
            self.fail(self.running.len() - 1, error.into());
        }
    }

    /// Processes one chunk of the best prompt that is not processed yet.
    fn prefill(&mut self, lane: Lane) {
        let Some(at) = (0..self.running.len())
            .filter(|at| self.running[*at].next.is_none() && self.running[*at].lane() == lane)
            .min_by_key(|at| self.running[*at].waiting.rank())
        else {
            return;
        };
        let running = &mut self.running[at];
        let prompt = &running.waiting.prompt;
        let end = prompt.chunk_end(running.at);
        let last = end == prompt.tokens.len();
        let chunk = &prompt.tokens[running.at..end];
        let done = self
            .parts
            .compute
            .prefill(running.slot, running.at, chunk, last);
        let counters = &self.parts.counters;
        counters
            .prefilled_tokens
            .fetch_add(chunk.len() as u64, Relaxed);
        match done {
            Ok(next) => {
                running.at = end;
                self.slots.processed(running.slot, prompt, end);
                if let Some(token) = next {
                    self.append(at, token);
                }
            }
            Err(error) => self.fail(at, error.into()),
        }
    }

    /// Continues every sequence of the lane that generates, by one token.
    fn decode(&mut self, lane: Lane) {
        let mut moving: Vec<(usize, Next)> = self
            .running
            .iter()
            .enumerate()
            .filter(|(_, running)| running.lane() == lane)
            .filter_map(|(index, running)| {
                let next = Next {
                    slot: running.slot,
                    at: running.at,
                    token: running.next?,
                };
                Some((index, next))
            })
            .collect();
        // Neighbouring slots share a call best.
        moving.sort_unstable_by_key(|(_, next)| next.slot);
        let mut ended = Vec::new();
        for group in moving.chunks(self.parts.compute.company_max()) {
            let next: Vec<Next> = group.iter().map(|(_, next)| *next).collect();
            self.parts.counters.decode_calls.fetch_add(1, Relaxed);
            match self.parts.compute.decode(&next) {
                Ok(tokens) => {
                    for ((index, _), token) in group.iter().zip(tokens) {
                        self.running[*index].at += 1;
                        ended.push((*index, Ok(token)));
                    }
                }
                Err(error) => {
                    let error = Arc::new(error);
                    ended.extend(group.iter().map(|(at, _)| (*at, Err(Arc::clone(&error)))));
                }
            }
        }
        // From the back, since the ones that end leave the list.
        ended.sort_unstable_by_key(|(index, _)| Reverse(*index));
        for (index, token) in ended {
            match token {
                Ok(token) => self.append(index, token),
                Err(error) => self.fail(index, error),
            }
        }
    }

    /// Takes in a generated token, and answers if it was the last.
    fn append(&mut self, index: usize, token: LlamaToken) {
        let running = &mut self.running[index];
        let vocab = self.parts.model.vocab();
        running.generated += 1;
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
    fn fail(&mut self, index: usize, error: Arc<ComputeError>) {
        self.slots.forget(self.running[index].slot);
        let waiting = self.leave(index);
        let error = PortError::unavailable(&*self.parts.name, error);
        let _ = waiting.job.reply.send(Err(error));
    }
}

/// The waiting job that comes before (or after) all others.
fn position_by_rank(waiting: &[Waiting], goes: impl Fn(&Rank, &Rank) -> bool) -> Option<usize> {
    let ranks = waiting.iter().map(Waiting::rank).enumerate();
    ranks
        .reduce(|a, b| if goes(&b.1, &a.1) { b } else { a })
        .map(|(at, _)| at)
}

impl Running {
    fn lane(&self) -> Lane {
        self.waiting.job.call.lane()
    }
}

impl Parts<'_> {
    fn reply(&self, waiting: Waiting, output: Output, generated: u32, end: End) {
        // Counted first: whoever has the answer sees it counted.
        self.counters.finished.fetch_add(1, Relaxed);
        let tokens = Tokens {
            prompt: waiting.prompt.tokens.len() as u64,
            completion: u64::from(generated),
        };
        let _ = waiting.job.reply.send(Ok(Generated {
            text: output.into_text(),
            end,
            tokens,
        }));
    }
}
