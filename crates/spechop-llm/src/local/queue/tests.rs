//! The rules of the queue as tables, and against a model of workers that take turns at random.

use proptest::prelude::*;
use spechop_ports::{Call, Lane, Metered, PortError};
use spechop_types::{Chance, Owned};
use tokio::sync::oneshot;

use super::*;
use crate::local::slots::PromptTokens;
use crate::{Generated, Generation, Prompt};

type Answer = oneshot::Receiver<Result<Generated, PortError>>;

impl Queue {
    /// As if the worker had found nothing to do.
    pub(in crate::local) fn rests(&self, worker: usize) {
        self.state.lock().workers[worker] = Worker::Asleep;
    }
}

fn job(call: Call, arrival: u64) -> (Waiting, Answer) {
    let (reply, answer) = oneshot::channel();
    let waiting = Waiting {
        prompt: Owned::new(call.tenant(), PromptTokens::default()),
        metered: Metered::new(&call),
        job: Job {
            call,
            generation: Generation {
                prompt: Prompt::Text("".into()),
                tokens_max: 1,
                stop: &[],
                drafts: Vec::new(),
                sample: 0,
            },
            may_think: true,
            reply,
        },
        arrival,
        begun: None,
    };
    (waiting, answer)
}

/// The greater the number the more urgent.
fn urgency(number: u64) -> Urgency {
    Call::authoritative().urgency(100 - number)
}

#[test]
fn the_least_loaded_worker_takes_and_one_without_work_always() {
    let load = |load: Option<u64>| load.map(urgency);
    // My number, my load, the waiting job's urgency, the others: do I take it?
    for (me, mine, waiting, others, expected) in [
        (0, None, 1, vec![(1, None)], true),
        (1, None, 1, vec![(0, None)], true),
        (0, Some(5), 4, vec![], false),
        (0, Some(5), 6, vec![], true),
        (0, Some(5), 6, vec![(1, None)], false),
        (0, Some(5), 9, vec![(1, Some(4))], false),
        (0, Some(5), 9, vec![(1, Some(7))], true),
        (1, Some(5), 9, vec![(0, Some(5)), (2, Some(8))], false),
        (0, Some(5), 9, vec![(1, Some(5)), (2, Some(8))], true),
    ] {
        let others = others.into_iter().map(|(at, other)| (at, load(other)));
        let takes = takes((me, load(mine)), urgency(waiting), others);
        assert_eq!(takes, expected, "{me} {mine:?} {waiting}");
    }
}

/// No guess takes the threads of a needed job that is alone: it has found a core of its own, or ends.
#[test]
fn a_job_is_alone_if_no_answer_needs_another_one() {
    let queue = Queue::new(3, 8, 8, Arc::default());
    let guess = || Call::new(Lane::Speculative, Chance::EVEN);
    let put = |worker: usize, call: Call| {
        let (job, _) = job(call, worker as u64);
        queue.state.lock().workers[worker] = Worker::moves(&job);
    };
    put(0, Call::authoritative());
    assert!(queue.is_alone(0), "nobody else has work");
    assert!(!queue.is_alone(1), "but for the first");
    let other = guess();
    put(1, other.clone());
    queue.rests(2);
    assert!(queue.is_alone(0), "a guess moves");
    other.promote();
    assert!(!queue.is_alone(0), "it is needed now");
    queue.rests(1);
    for (call, expected) in [(guess(), true), (Call::authoritative(), false)] {
        // Its answer is not waited for, or it would leave.
        let (waiting, _answer) = job(call, 9);
        queue.wait(waiting);
        assert_eq!(queue.is_alone(0), expected, "something waits");
        queue.state.lock().waiting.clear();
    }
    for (call, expected) in [(guess(), true), (Call::authoritative(), false)] {
        let (arriving, _answer) = job(call, 9);
        queue.state.lock().arrived.push_back((9, arriving.job));
        assert_eq!(queue.is_alone(0), expected, "something has come");
        queue.state.lock().arrived.clear();
    }
}

#[test]
fn a_job_is_handed_over_only_to_whom_would_move_it_at_once() {
    for (job, waiting, others, expected) in [
        (3, vec![], vec![], false),
        (3, vec![], vec![None], true),
        (3, vec![], vec![Some(2)], true),
        (3, vec![], vec![Some(4)], false),
        // Somebody else goes first.
        (3, vec![5], vec![None], false),
        (3, vec![5], vec![None, Some(1)], true),
        (3, vec![1, 2], vec![None], true),
    ] {
        let others = others
            .into_iter()
            .map(|load: Option<u64>| load.map(urgency));
        let waiting = waiting.into_iter().map(urgency);
        assert_eq!(hands_over(urgency(job), waiting, others), expected);
    }
}

/// It would begin anew elsewhere.
#[test]
fn a_job_whose_kv_cannot_be_moved_is_not_handed_over() {
    for moves_kv in [true, false] {
        let queue = Queue::new(2, 8, 8, Arc::default());
        queue.rests(0);
        let (moves, _moves) = job(Call::authoritative(), 1);
        let (stands, _stands) = job(Call::new(Lane::Speculative, Chance::EVEN), 2);
        let own = [moves, stands];
        let turn = queue.next(1, &own.iter(), false, moves_kv);
        assert_eq!(matches!(turn, Turn::HandOver), moves_kv);
    }
}

#[test]
fn too_many_and_the_least_urgent_leaves() {
    let queue = Queue::new(1, 2, 2, Arc::default());
    let guess = Call::new(Lane::Speculative, Chance::EVEN);
    let (one, _one) = job(Call::authoritative(), 1);
    let (two, _two) = job(guess.clone(), 2);
    let (three, dropped) = job(Call::authoritative(), 3);
    let (four, _four) = job(Call::authoritative(), 4);
    assert!(queue.wait(one).is_none() && queue.wait(two).is_none());
    assert_eq!(queue.wait(three).expect("one too many").arrival, 2);
    // Whom nobody waits for is no reason to refuse anybody.
    drop(dropped);
    assert!(queue.wait(four).is_none());
    queue.close();
    let (late, late_answer) = job(guess, 5);
    assert!(!queue.submit(late.job));
    drop(late_answer);
}

/// A turn of a worker at which so many jobs may have begun. They are its `own`.
fn turn(queue: &Queue, worker: usize, sequences: usize, own: &mut Vec<Waiting>) {
    if own.is_empty() && queue.state.lock().waiting.is_empty() {
        // It would sleep.
        return queue.rests(worker);
    }
    let has_room = own.len() < sequences;
    let can_start = has_room || own.iter().any(Waiting::is_speculative);
    let give_up = |own: &mut Vec<Waiting>, at: usize| queue.put_back(own.swap_remove(at));
    match queue.next(worker, &own.iter(), can_start, true) {
        Turn::Start(job) => {
            if !has_room {
                let guesses = (0..own.len()).filter(|at| own[*at].is_speculative());
                let worst = guesses.min_by_key(|at| own[*at].urgency());
                give_up(own, worst.expect("a guess"));
            }
            own.push(*job);
        }
        Turn::HandOver => {
            own.sort_by_key(Waiting::urgency);
            give_up(own, own.len() - 2);
        }
        Turn::Step => {}
        Turn::Enter(..) | Turn::End => unreachable!("nothing arrives"),
    }
}

proptest! {
    /// After enough turns of all workers, in any order, no worker is without work while a job waits or
    /// stands still, no guess moves while a needed call does not, and of guesses the most urgent ones
    /// move.
    #[test]
    fn the_most_urgent_move(
        workers in 1..5usize,
        sequences in 1..4usize,
        jobs in prop::collection::vec((any::<bool>(), 0.0..1.0f64), 0..12),
        promotions in prop::collection::vec(0..12usize, 0..6),
        order in prop::collection::vec(0..60usize, 0..60),
    ) {
        let queue = Queue::new(workers, 64, 64, Arc::default());
        let mut begun: Vec<Vec<Waiting>> = (0..workers).map(|_| Vec::new()).collect();
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        let mut order = order.into_iter().map(|worker| worker % workers);
        for (arrival, (needed, chance)) in (1..).zip(&jobs) {
            let lane = if *needed { Lane::Authoritative } else { Lane::Speculative };
            let call = Call::new(lane, Chance::of(*chance));
            calls.push(call.clone());
            let (waiting, answer) = job(call, arrival);
            answers.push(answer);
            queue.put_back(waiting);
            for worker in order.by_ref().take(4) {
                turn(&queue, worker, sequences, &mut begun[worker]);
            }
        }
        for call in promotions.into_iter().filter_map(|at| calls.get(at)) {
            call.promote();
        }
        let rounds = (0..40).flat_map(|_| (0..workers).rev());
        for worker in order.chain(rounds) {
            turn(&queue, worker, sequences, &mut begun[worker]);
        }
        let somewhere = begun.iter().map(Vec::len).sum::<usize>() + queue.state.lock().waiting.len();
        prop_assert_eq!(somewhere, jobs.len(), "none is lost");
        let descending = |mut urgencies: Vec<Urgency>| {
            urgencies.sort_unstable();
            urgencies.reverse();
            urgencies
        };
        let moves = |own: &Vec<Waiting>| own.iter().map(Waiting::urgency).max();
        let moving = descending(begun.iter().filter_map(moves).collect());
        let mut best = descending((1..).zip(&calls).map(|(at, call)| call.urgency(at)).collect());
        best.truncate(workers);
        prop_assert_eq!(moving.len(), best.len(), "nobody is without work");
        if best.first().is_some_and(|best| best.lane() == Lane::Speculative) {
            prop_assert_eq!(moving, best);
        } else {
            // A needed call that has begun is not sent away for one that came before it.
            let lanes = |urgencies: Vec<Urgency>| urgencies.into_iter().map(Urgency::lane).collect::<Vec<_>>();
            prop_assert_eq!(lanes(moving), lanes(best));
        }
    }
}
