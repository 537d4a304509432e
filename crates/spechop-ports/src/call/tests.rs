//! Calls: promotion, and what their clones share.

use std::sync::atomic::AtomicU32;

use super::*;

#[derive(Default)]
struct Heard {
    promoted: AtomicU32,
    pushed_back: AtomicU32,
}

impl Seat for Heard {
    fn promoted(&self) {
        self.promoted.fetch_add(1, Relaxed);
    }

    fn pushed_back(&self) {
        self.pushed_back.fetch_add(1, Relaxed);
    }
}

#[test]
fn the_seat_hears_of_the_call_and_of_one_promotion() {
    let call = Call::new(Lane::Speculative, Chance::of(0.25));
    assert_eq!(call.chance(), Chance::of(0.25));
    let (first, second) = (Arc::new(Heard::default()), Arc::new(Heard::default()));
    call.sit(Arc::downgrade(&first) as Weak<dyn Seat>);
    call.sit(Arc::downgrade(&second) as Weak<dyn Seat>);
    // Clones are the same call.
    let same = call.clone();
    same.promote();
    call.promote();
    assert_eq!(same.lane(), Lane::Authoritative);
    call.push_back();
    assert_eq!(call.lane(), Lane::Authoritative);
    assert_eq!(first.promoted.load(Relaxed), 0);
    assert_eq!(second.promoted.load(Relaxed), 1);
    assert_eq!(second.pushed_back.load(Relaxed), 1);
    drop(second);
    call.push_back();
}

#[test]
fn a_run_hears_of_all_who_share_it() {
    let speculative = || Call::new(Lane::Speculative, Chance::of(0.25));
    let run = Arc::new(speculative());
    let heard = Arc::new(Heard::default());
    run.sit(Arc::downgrade(&heard) as Weak<dyn Seat>);
    let (first, second) = (speculative(), speculative());
    first.share(&run);
    second.share(&run);
    first.push_back();
    assert_eq!(heard.pushed_back.load(Relaxed), 1);
    assert_eq!(run.lane(), Lane::Speculative);
    second.promote();
    assert_eq!(heard.promoted.load(Relaxed), 1);
    assert_eq!(first.lane(), Lane::Speculative, "only the run is needed");
    // Whoever is needed before it comes tells it at once.
    let late = Arc::new(speculative());
    second.share(&late);
    assert_eq!(late.lane(), Lane::Authoritative);
    // A run that nobody holds any more hears nothing.
    drop(run);
    first.promote();
}

#[test]
fn those_who_share_a_run_or_have_a_part_that_does_are_as_far_as_it_is() {
    let speculative = || Call::new(Lane::Speculative, Chance::of(0.25));
    let run = Arc::new(speculative());
    let (first, second) = (speculative(), speculative());
    let part = second.sub_call();
    first.share(&run);
    part.share(&run);
    let are = |progress| {
        for call in [&first, &second, &part] {
            assert_eq!(call.progress(), progress);
        }
    };
    are(Progress::New);
    run.advance(Progress::Queued);
    are(Progress::Queued);
    // Whoever has been further already does not fall back.
    first.advance(Progress::Begun);
    assert_eq!(first.progress(), Progress::Begun);
    assert_eq!(run.progress(), Progress::Queued);
    run.advance(Progress::Begun);
    are(Progress::Begun);
}

#[test]
fn wishes_and_changes_travel_with_the_call() {
    let wishes = Wishes {
        fresh: true,
        quiet: true,
    };
    let call = Call::new(Lane::Speculative, Chance::of(0.25)).with(wishes);
    let same = call.clone();
    assert!(same.is_fresh() && same.is_quiet());
    assert!(!Call::authoritative().is_fresh() && !Call::authoritative().is_quiet());

    let change = |n: usize| ProviderChange {
        from: "a".into(),
        to: "b".into(),
        why: n.to_string().into(),
    };
    same.changed_provider(change(0));
    same.changed_provider(change(0));
    assert_eq!(call.provider_changes(), [change(0)]);
    (0..100).for_each(|n| call.changed_provider(change(n)));
    assert_eq!(call.provider_changes().len(), CHANGES_MAX);

    call.promote();
    let detached = call.detached();
    assert_eq!(detached.wishes(), wishes);
    assert_eq!(detached.lane(), Lane::Authoritative);
    assert_eq!(detached.provider_changes(), []);
}

#[test]
fn parts_are_promoted_with_the_whole_and_add_up() {
    let whole = Call::new(Lane::Speculative, Chance::of(0.25));
    let (first, second) = (whole.sub_call(), whole.sub_call());
    let heard = [Arc::new(Heard::default()), Arc::new(Heard::default())];
    for (part, heard) in [&first, &second].into_iter().zip(&heard) {
        part.sit(Arc::downgrade(heard) as Weak<dyn Seat>);
    }
    first.push_back();
    first.advance(Progress::Queued);
    assert_eq!(whole.progress(), Progress::Queued);
    assert_eq!(second.progress(), Progress::New);
    let tokens = |completion| Tokens {
        prompt: 1,
        completion,
    };
    crate::Metered::new(&first).tell(tokens(2));
    crate::Metered::new(&second).tell(tokens(3));
    assert_eq!(whole.spent().total(), 7);
    whole.promote();
    whole.promote();
    for (part, heard) in [&first, &second].into_iter().zip(&heard) {
        assert_eq!(part.lane(), Lane::Authoritative);
        assert_eq!(heard.promoted.load(Relaxed), 1);
    }
    let pushed_back = heard.map(|heard| heard.pushed_back.load(Relaxed));
    assert_eq!(pushed_back, [1, 0]);
    assert_eq!(whole.sub_call().lane(), Lane::Authoritative);
}

/// Waits for a core.
struct Crowded;

impl Seat for Crowded {
    fn promoted(&self) {}

    fn pushed_back(&self) {}

    fn lacks(&self) -> Refusal {
        Refusal::NoCore
    }
}

#[test]
fn a_whole_lacks_what_the_part_lacks_that_waits() {
    let whole = Call::new(Lane::Speculative, Chance::of(0.25));
    let (first, second) = (whole.sub_call(), whole.sub_call());
    let crowded = Arc::new(Crowded);
    second.sit(Arc::downgrade(&crowded) as Weak<dyn Seat>);
    assert_eq!(whole.lacks(), Refusal::NoPlace, "nothing of it waits");
    second.advance(Progress::Queued);
    assert_eq!(whole.lacks(), Refusal::NoCore);
    assert_eq!(first.lacks(), Refusal::NoPlace);
    // So does a call that shares such a run.
    let (run, waiter) = (
        Arc::new(whole),
        Call::new(Lane::Speculative, Chance::of(0.25)),
    );
    waiter.share(&run);
    assert_eq!(waiter.lacks(), Refusal::NoCore);
}

#[test]
fn a_life_is_over_once_nothing_of_the_question_is_left() {
    let call = Call::authoritative().within(Life::of(Arc::new(())));
    let life = call.life().map(Life::downgrade).expect("a life");
    let part = call.sub_call();
    drop(call);
    assert!(!life.is_over(), "a part of it is there");
    drop(part);
    assert!(life.is_over());
}
