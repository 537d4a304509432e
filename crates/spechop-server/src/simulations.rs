//! Simulations that callers ask for: one at a time, the others in line, and none for a caller who has left.
//!
//! A simulation computes for milliseconds to seconds on a thread that may block. Questions use such
//! threads too, so a crowd of simulations must not take them.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::status::AdminError;

/// The most callers that wait or are served; those beyond are told to come again.
pub(crate) const CALLERS_MAX: usize = 32;

/// Gives simulations their turns, in order of arrival.
pub(crate) struct Simulations {
    callers: Semaphore,
    turn: Arc<Semaphore>,
}

impl Simulations {
    pub(crate) fn new() -> Self {
        Self {
            callers: Semaphore::new(CALLERS_MAX),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Runs `simulate` when its turn comes. It is to ask now and then whether its result is still
    /// wanted, and to give up with `None` if not: that is so once this future is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        simulate: impl FnOnce(&dyn Fn() -> bool) -> Option<T> + Send + 'static,
    ) -> Result<T, AdminError> {
        let _caller = self.callers.try_acquire().map_err(|_| AdminError::Busy {
            callers_max: CALLERS_MAX,
        })?;
        let turn = Arc::clone(&self.turn);
        let turn = turn.acquire_owned().await.map_err(|_| AdminError::Lost)?;
        let gone = CancellationToken::new();
        let _here = gone.clone().drop_guard();
        let simulated = spawn_blocking(move || {
            // The turn ends with the simulation, not with the caller.
            let _turn = turn;
            simulate(&|| !gone.is_cancelled())
        });
        simulated.await.ok().flatten().ok_or(AdminError::Lost)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    /// How many simulations run, and how many ran at once.
    #[derive(Default)]
    struct Counted {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    #[tokio::test]
    async fn of_a_thousand_callers_one_is_served_at_a_time_and_few_wait() {
        let simulations = Simulations::new();
        let counted = Arc::new(Counted::default());
        let calls = (0..1000).map(|number| {
            let counted = Arc::clone(&counted);
            simulations.run(move |_| {
                let now = counted.now.fetch_add(1, SeqCst) + 1;
                counted.most.fetch_max(now, SeqCst);
                std::thread::yield_now();
                counted.now.fetch_sub(1, SeqCst);
                Some(number)
            })
        });
        let ended = join_all(calls).await;
        let served: Vec<usize> = ended.iter().flatten().copied().collect();
        assert_eq!(served, (0..CALLERS_MAX).collect::<Vec<_>>());
        let busy = ended
            .iter()
            .filter(|ended| matches!(ended, Err(AdminError::Busy { .. })));
        assert_eq!(busy.count(), 1000 - CALLERS_MAX);
        assert_eq!(counted.most.load(SeqCst), 1);
    }

    #[tokio::test]
    async fn a_simulation_ends_when_its_caller_leaves_and_the_next_one_gets_its_turn() {
        let simulations = Simulations::new();
        let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
        // If this test fails, it must end nevertheless.
        let over = CancellationToken::new();
        let failed = over.clone();
        let _end = over.drop_guard();
        let mut first = Box::pin(simulations.run(move |wanted| {
            let _ = begun.send(());
            while wanted() && !failed.is_cancelled() {
                std::thread::yield_now();
            }
            None::<()>
        }));
        tokio::select! {
            _ = &mut first => panic!("it runs for as long as it is wanted"),
            _ = has_begun.recv() => {}
        }
        // It leaves the line before its turn.
        let second = simulations.run(|_| Some(2));
        let mut third = Box::pin(simulations.run(|_| Some(3)));
        assert!(Box::pin(second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none(), "the first one runs");
        drop(first);
        let patience = tokio::time::timeout(Duration::from_secs(20), third);
        assert_eq!(patience.await.unwrap().unwrap(), 3);
        assert_eq!(simulations.callers.available_permits(), CALLERS_MAX);
    }
}
