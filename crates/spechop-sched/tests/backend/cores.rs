//! Backends that compute on the same cores, as stories.

use async_trait::async_trait;
use futures::FutureExt;
use spechop_ports::{Guess, GuessRequest, Guessed, PlanRequest, Planned, Planner, Speculator};
use spechop_sched::{CoreUse, Cores, Demand, Eligibility, Millicores, Scheduled};
use spechop_types::{Question, Refusal, Step, SubQuestion, Tokens};

use super::*;

/// A backend of eight places that computes for two calls at once. Each takes so much of the cores.
fn on(cores: &Cores, name: &str, each: u32) -> Backend {
    let limits = Limits {
        capacity: NonZeroUsize::new(8).expect("a capacity"),
        rate: None,
        speculative_max: 8,
    };
    Backend::on(cores, demand(each), name, limits)
}

fn demand(each: u32) -> Demand {
    Demand {
        each: Millicores(each),
        alone: Millicores(each),
        guess: Millicores(each),
        at_once: 2,
        yields: true,
    }
}

fn cores(millis: u32) -> (Cores, Backend, Backend) {
    let cores = Cores::new(Millicores(millis));
    let planner = on(&cores, "planner", 1000);
    let reader = on(&cores, "reader", 2000);
    (cores, planner, reader)
}

/// Whether the call was begun within the first poll.
macro_rules! poll {
    ($call:expr) => {
        assert!($call.as_mut().now_or_never().is_none())
    };
}

#[tokio::test(start_paused = true)]
async fn a_guess_waits_for_an_idle_core_and_what_is_needed_does_not() {
    let (cores, planner, _) = cores(2000);
    let (needed, guessed) = (Work::default(), Work::default());
    let call = Call::authoritative();
    let started = Instant::now();
    let of_three = async {
        let three = [10, 20, 30].map(|ms| planner.run(&call, 1.0, needed.lasting(ms * MS)));
        futures::future::join_all(three).await
    };
    let guess = guess(1.0);
    let (ended, guess) = tokio::join!(of_three, planner.run(&guess, 1.0, guessed.lasting(5 * MS)),);
    let at = |end: &Instant| (*end - started).as_millis();
    let ended: Vec<_> = ended.iter().flatten().map(at).collect();
    // The engine computes two at once, but none of them has waited here.
    assert_eq!(ended, [10, 20, 30]);
    // From 20 ms on, one core is idle.
    assert_eq!(guess.as_ref().ok().map(at), Some(25));
    assert_eq!(cores.taken(), CoreUse::default());
}

#[tokio::test(start_paused = true)]
async fn what_is_needed_takes_its_cores_back_from_any_backend() {
    let (cores, planner, reader) = cores(2000);
    let work = Work::default();
    let (weak, strong, needed) = (guess(0.2), guess(0.9), Call::authoritative());
    let mut weak_one = Box::pin(planner.run(&weak, 1.0, work.lasting(100 * MS)));
    let mut strong_one = Box::pin(planner.run(&strong, 1.0, work.lasting(100 * MS)));
    poll!(weak_one);
    poll!(strong_one);
    assert_eq!(cores.taken().speculative, Millicores(2000));
    let half = on(&cores, "index", 500);
    let mut reading = Box::pin(half.run(&needed, 1.0, work.lasting(10 * MS)));
    poll!(reading);
    assert_eq!(work.live(), 3);
    assert!(was_preempted(&weak_one.await));
    let taken = cores.taken();
    assert_eq!((taken.needed.0, taken.speculative.0), (500, 1000));
    assert_eq!(planner.gauges().refused[Refusal::Preempted], 1);
    // A reader takes both cores: the better guess has to go, too.
    let reading_all = reader.run(&needed, 1.0, work.lasting(10 * MS));
    let (lost, won) = tokio::join!(strong_one, reading_all);
    assert!(was_preempted(&lost) && won.is_ok());
    assert!(reading.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_becomes_idle_goes_to_the_best_guess_of_all_backends() {
    let (_, planner, reader) = cores(2000);
    let work = Work::default();
    let started = Instant::now();
    let needed = Call::authoritative();
    let (poor, rich) = (guess(0.3), guess(0.8));
    let (_, planned, read) = tokio::join!(
        reader.run(&needed, 1.0, work.lasting(10 * MS)),
        planner.run(&poor, 1.0, work.lasting(10 * MS)),
        reader.run(&rich, 1.0, work.lasting(10 * MS)),
    );
    let at = |end: Result<Instant, PortError>| (end.expect("an end") - started).as_millis();
    assert_eq!((at(read), at(planned)), (20, 30));
}

/// Between two needed calls a core is idle for a moment; if more than there is was wanted all the time, it
/// is no slack. A second after the last of them time alone gives the guess its turn.
#[tokio::test(start_paused = true)]
async fn idle_cores_are_no_slack_while_too_much_was_wanted() {
    let (_, planner, reader) = cores(2000);
    let (work, needed, guess) = (Work::default(), Call::authoritative(), guess(1.0));
    let crowd = async {
        for _ in 0..30 {
            let read = reader.run(&needed, 1.0, work.lasting(100 * MS));
            let planned = planner.run(&needed, 1.0, work.lasting(99 * MS));
            assert!(read.await.is_ok() && planned.await.is_ok());
        }
        Instant::now()
    };
    let both = async {
        let read = reader.run(&needed, 1.0, work.lasting(3000 * MS));
        let planned = planner.run(&needed, 1.0, work.lasting(3000 * MS));
        assert!(tokio::join!(read, planned).0.is_ok());
        Instant::now()
    };
    // One after the other wants no more than there is.
    let (_, early) = tokio::join!(crowd, planner.run(&guess, 1.0, work.lasting(MS)));
    assert!(early.is_ok());
    let late = async {
        sleep(2500 * MS).await;
        planner.run(&guess, 1.0, work.lasting(MS)).await
    };
    let (crowd_ended, guessed) = tokio::join!(both, late);
    let waited = (guessed.expect("its turn") - crowd_ended).as_millis();
    assert!((300..400).contains(&waited), "{waited} ms");
}

/// A reader takes two cores for what is needed, and one for a guess.
#[tokio::test(start_paused = true)]
async fn a_guess_that_takes_less_starts_beside_what_is_needed() {
    let (cores, planner, _) = cores(2000);
    let thrifty = Demand {
        guess: Millicores(1000),
        at_once: 1,
        yields: false,
        ..demand(2000)
    };
    let limits = Limits {
        capacity: NonZeroUsize::new(2).expect("a capacity"),
        rate: None,
        speculative_max: 2,
    };
    let reader = Backend::on(&cores, thrifty, "reader", limits);
    let (work, needed) = (Work::default(), Call::authoritative());
    let mut planning = Box::pin(planner.run(&needed, 1.0, work.lasting(50 * MS)));
    poll!(planning);
    let (first, second) = (guess(0.9), guess(0.8));
    let mut reading = Box::pin(reader.run(&first, 1.0, work.lasting(50 * MS)));
    let mut waiting = Box::pin(reader.run(&second, 1.0, work.lasting(50 * MS)));
    poll!(reading);
    poll!(waiting);
    let taken = |cores: &Cores| (cores.taken().needed.0, cores.taken().speculative.0);
    assert_eq!((taken(&cores), cores.idle().0), ((1000, 1000), 0));
    // Needed, it takes all that its engine has, and the engine has no more for the other one.
    first.promote();
    assert_eq!(taken(&cores), (3000, 0));
    assert!(planning.await.is_ok() && reading.await.is_ok());
    assert!(waiting.await.is_ok());
    assert_eq!(cores.idle().0, 2000);
}

/// A text that is alone is computed on both cores, and each of two texts on one.
#[tokio::test(start_paused = true)]
async fn a_guess_ends_for_a_needed_call_that_is_alone() {
    let (cores, ..) = cores(2000);
    let widening = Demand {
        alone: Millicores(2000),
        ..demand(1000)
    };
    let limits = Limits {
        capacity: NonZeroUsize::new(3).expect("a capacity"),
        rate: None,
        speculative_max: 3,
    };
    let planner = Backend::on(&cores, widening, "planner", limits);
    let taken = |cores: &Cores| (cores.taken().needed.0, cores.taken().speculative.0);
    let (work, ahead, needed) = (Work::default(), guess(0.9), Call::authoritative());
    let mut guessing = Box::pin(planner.run(&ahead, 1.0, work.lasting(50 * MS)));
    poll!(guessing);
    assert_eq!(taken(&cores), (0, 1000));
    let mut first = Box::pin(planner.run(&needed, 1.0, work.lasting(50 * MS)));
    poll!(first);
    assert!(was_preempted(&guessing.await));
    assert_eq!(taken(&cores), (2000, 0));
    let mut second = Box::pin(planner.run(&needed, 1.0, work.lasting(10 * MS)));
    poll!(second);
    assert_eq!(taken(&cores), (2000, 0));
    assert!(second.await.is_ok() && first.await.is_ok());
    assert_eq!(cores.idle().0, 2000);
}

#[tokio::test(start_paused = true)]
async fn on_half_a_core_one_guess_runs_if_nothing_else_does() {
    let (cores, planner, reader) = cores(500);
    let work = Work::default();
    let (first, second, needed) = (guess(0.9), guess(0.8), Call::authoritative());
    let mut reading = Box::pin(reader.run(&first, 1.0, work.lasting(50 * MS)));
    let mut planning = Box::pin(planner.run(&second, 1.0, work.lasting(50 * MS)));
    poll!(reading);
    poll!(planning);
    assert_eq!((work.begun(), cores.taken().speculative.0), (1, 500));
    // Needed calls start whatever there is.
    let needed = [&planner, &reader].map(|b| b.run(&needed, 1.0, work.lasting(10 * MS)));
    let (lost, won) = tokio::join!(reading, futures::future::join_all(needed));
    assert!(was_preempted(&lost) && won.iter().all(Result::is_ok));
    assert!(planning.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_found_a_place_and_no_idle_core_is_told_so() {
    let (_, planner, reader) = cores(1000);
    let work = Work::default();
    let (needed, guess) = (Call::authoritative(), guess(0.9));
    let mut reading = Box::pin(reader.run(&needed, 1.0, work.lasting(50 * MS)));
    let mut planning = Box::pin(planner.run(&guess, 1.0, work.lasting(50 * MS)));
    poll!(reading);
    poll!(planning);
    assert_eq!(guess.lacks(), Refusal::NoCore);
    drop(planning);
    let refused = planner.gauges().refused;
    assert_eq!((refused[Refusal::NoCore], refused.total()), (1, 1));
    assert!(reading.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_cannot_stop_keeps_its_guess() {
    let (cores, planner, _) = cores(2000);
    let stubborn = Demand {
        yields: false,
        ..demand(2000)
    };
    let limits = Limits {
        capacity: NonZeroUsize::MIN,
        rate: None,
        speculative_max: 1,
    };
    let reader = Backend::on(&cores, stubborn, "reader", limits);
    let (work, needed) = (Work::default(), Call::authoritative());
    let (reading, planning) = (guess(0.1), guess(0.9));
    let mut read = Box::pin(reader.run(&reading, 1.0, work.lasting(50 * MS)));
    poll!(read);
    let mut planned = Box::pin(planner.run(&planning, 1.0, work.lasting(50 * MS)));
    let mut written = Box::pin(planner.run(&needed, 1.0, work.lasting(10 * MS)));
    poll!(planned);
    poll!(written);
    // The needed call computes beside it, and no other guess does.
    assert_eq!(work.begun(), 2);
    assert_eq!(
        (cores.taken().needed.0, cores.taken().speculative.0),
        (1000, 2000)
    );
    assert!(written.await.is_ok() && read.await.is_ok() && planned.await.is_ok());
    // A place is given back as ever.
    let again = guess(0.1);
    let (lost, won) = tokio::join!(
        reader.run(&again, 1.0, work.lasting(50 * MS)),
        reader.run(&needed, 1.0, work.lasting(10 * MS)),
    );
    assert!(was_preempted(&lost) && won.is_ok());
}

#[tokio::test(start_paused = true)]
async fn cores_come_and_go() {
    let (cores, planner, _) = cores(2000);
    let work = Work::default();
    let (weak, strong, third) = (guess(0.2), guess(0.9), guess(0.1));
    let mut weak_one = Box::pin(planner.run(&weak, 1.0, work.lasting(100 * MS)));
    let mut strong_one = Box::pin(planner.run(&strong, 1.0, work.lasting(100 * MS)));
    let mut third_one = Box::pin(planner.run(&third, 1.0, work.lasting(100 * MS)));
    poll!(weak_one);
    poll!(strong_one);
    poll!(third_one);
    cores.set(Millicores(1000));
    assert!(was_preempted(&weak_one.await));
    assert_eq!(work.live(), 1);
    cores.set(Millicores(3000));
    poll!(third_one);
    assert_eq!(work.live(), 2);
    assert!(strong_one.await.is_ok() && third_one.await.is_ok());
    // Nothing is no machine.
    cores.set(Millicores(0));
    assert_eq!(cores.count(), Millicores(1));
}

#[tokio::test(start_paused = true)]
async fn a_backend_elsewhere_takes_no_core() {
    let (cores, _, reader) = cores(1000);
    let endpoint = backend(2, 2);
    let work = Work::default();
    let (needed, guess) = (Call::authoritative(), guess(0.1));
    let mut reading = Box::pin(reader.run(&needed, 1.0, work.lasting(50 * MS)));
    poll!(reading);
    let mut asked = Box::pin(endpoint.run(&guess, 1.0, work.lasting(50 * MS)));
    poll!(asked);
    assert_eq!((work.begun(), cores.taken().needed.0), (2, 1000));
    assert!(reading.await.is_ok() && asked.await.is_ok());
}

/// Plans, or guesses, for 100 ms.
struct Slow {
    work: Work,
    /// It has a guess at once.
    tells: bool,
}

#[async_trait]
impl Speculator for Slow {
    async fn guess(&self, _: &Call, _: GuessRequest) -> Result<Guessed, PortError> {
        self.work.lasting(100 * MS).await?;
        Ok(Guessed {
            guesses: vec!["it".into()],
            tokens: Tokens::default(),
        })
    }

    async fn guess_streaming(
        &self,
        call: &Call,
        request: GuessRequest,
        early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        if self.tells {
            early("it".into());
        }
        self.guess(call, request).await
    }
}

#[async_trait]
impl Planner for Slow {
    async fn plan(&self, _: &Call, _: PlanRequest) -> Result<Planned, PortError> {
        self.work.lasting(100 * MS).await?;
        Ok(Planned {
            step: Step::Answer("it".into()),
            certainty: None,
            tokens: Tokens::default(),
        })
    }
}

fn asked() -> PlanRequest {
    PlanRequest {
        question: Question::new("Who?").expect("a question"),
        hops: Vec::new(),
        must_answer: false,
        drafts: Vec::new(),
    }
}

/// A needed reading takes the cores after 50 ms, and again if the guess is taken up again, so often. It may be
/// several in a row.
#[tokio::test(start_paused = true)]
async fn a_guess_that_lost_its_core_goes_back_into_line() {
    for (readings, in_a_row, on_cores, begun, ends_ms) in [
        (0, 1, true, 1, Some(100)),
        (1, 1, true, 2, Some(160)),
        (3, 1, true, 4, Some(280)),
        // It has lost its last turn.
        (4, 1, true, 4, None),
        // Between two in a row it is given a turn, and loses it before that begins.
        (1, 5, true, 2, Some(200)),
        // Elsewhere a turn may have a price.
        (1, 1, false, 1, None),
    ] {
        let (cores, planner, reader) = cores(2000);
        let (one, other) = match on_cores {
            true => (planner, reader),
            false => {
                let both = backend(1, 1);
                (both.clone(), both)
            }
        };
        let work = Work::default();
        let rule = Eligibility::shipped().of("planner");
        let slow = Slow {
            work: work.clone(),
            tells: false,
        };
        let planner = Scheduled::<dyn Planner>::new(Arc::new(slow), &one, rule);
        let started = Instant::now();
        let (call, needed) = (guess(0.9), Call::authoritative());
        let read = async {
            for _ in 0..readings {
                sleep(50 * MS).await;
                for _ in 0..in_a_row {
                    assert!(other.run(&needed, 1.0, sleeping()).await.is_ok());
                }
            }
        };
        let planned = async {
            let planned = planner.plan(&call, asked()).await;
            planned.map(|_| (Instant::now() - started).as_millis())
        };
        let (planned, ()) = tokio::join!(planned, read);
        let unbegun = readings * (in_a_row - 1);
        let lost = begun - usize::from(ends_ms.is_some()) + unbegun;
        assert_eq!(work.begun(), begun, "{readings}");
        assert_eq!(one.gauges().preempted, lost as u64, "{readings}");
        assert_eq!(was_preempted(&planned), ends_ms.is_none(), "{readings}");
        assert_eq!(planned.ok(), ends_ms, "{readings}");
        assert_eq!((work.live(), cores.taken()), (0, CoreUse::default()));
    }
}

/// For 10 ms.
async fn sleeping() -> Result<(), PortError> {
    sleep(10 * MS).await;
    Ok(())
}

/// If its branch becomes head while it is in line again, it waits no longer.
#[tokio::test(start_paused = true)]
async fn a_guess_in_line_again_that_becomes_needed_has_its_turn() {
    let (_, planner, reader) = cores(2000);
    let (work, busy) = (Work::default(), Work::default());
    let rule = Eligibility::shipped().of("planner");
    let slow = Slow {
        work: work.clone(),
        tells: false,
    };
    let scheduled = Scheduled::<dyn Planner>::new(Arc::new(slow), &planner, rule);
    let started = Instant::now();
    let (call, needed) = (guess(0.9), Call::authoritative());
    let read = async {
        sleep(50 * MS).await;
        let read = reader.run(&needed, 1.0, busy.lasting(1000 * MS));
        let promoted = async {
            sleep(20 * MS).await;
            assert_eq!(planner.gauges().waiting_speculative, 1);
            call.promote();
        };
        let (read, ()) = tokio::join!(read, promoted);
        assert!(read.is_ok());
    };
    let planned = async {
        assert!(scheduled.plan(&call, asked()).await.is_ok());
        (Instant::now() - started).as_millis()
    };
    let (ended, ()) = tokio::join!(planned, read);
    assert_eq!((ended, work.begun()), (170, 2));
}

/// What it has told is there already, and would be told again.
#[tokio::test(start_paused = true)]
async fn a_speculator_goes_back_into_line_unless_it_has_told_something() {
    for (tells, begun) in [(false, 2), (true, 1)] {
        let (_, backend, reader) = cores(2000);
        let work = Work::default();
        let slow = Slow {
            work: work.clone(),
            tells,
        };
        let rule = Eligibility::shipped().of("speculator");
        let speculator = Scheduled::<dyn Speculator>::new(Arc::new(slow), &backend, rule);
        let request = GuessRequest {
            question: Question::new("Who?").expect("a question"),
            hops: Vec::new(),
            sub_question: SubQuestion::new("Who?"),
            passages: NonZeroUsize::MIN,
            limit: NonZeroUsize::MIN,
        };
        let (call, needed) = (guess(0.9), Call::authoritative());
        let mut told = 0;
        let mut tell = |_| told += 1;
        let (guessed, read) = tokio::join!(
            speculator.guess_streaming(&call, request, &mut tell),
            async {
                sleep(50 * MS).await;
                reader.run(&needed, 1.0, sleeping()).await
            }
        );
        assert!(read.is_ok());
        assert_eq!((work.begun(), guessed.is_ok()), (begun, !tells));
        assert_eq!(told, u32::from(tells));
    }
}
