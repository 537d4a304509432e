//! The decorated ports keep the ports' own promises.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use spechop_ports::{
    DraftWriter, Encoder, Guess, GuessRequest, Guessed, Life, PlanRequest, Planned, Planner,
    Reader, Retriever, RewriteRequest, Rewriter, Rewritten, Speculator, TextKind, Wishes, contract,
};
use spechop_sched::{Eligibility, Grade, Rule, Scheduled, ScheduledRetriever};
use spechop_testkit::{Script, ScriptedPorts, TextVectors};
use spechop_types::{Passage, Question, Step, SubQuestion, Tokens};

use super::*;

#[tokio::test(start_paused = true)]
async fn decorators_keep_the_contracts() {
    let (backend, rules) = (backend(2, 1), Eligibility::shipped());
    let script = ScriptedPorts::new(Script::steady(&[true, true], 10, 20, 5));
    let inner = Arc::new(script.clone());
    let planner = Scheduled::<dyn Planner>::new(inner.clone(), &backend, rules.of("planner"));
    let reader = Scheduled::<dyn Reader>::new(inner.clone(), &backend, rules.of("reader"));
    let retriever = ScheduledRetriever::new(inner.clone(), &backend, rules.of("retriever"));
    let rule = rules.of("speculator");
    let writer = Scheduled::<dyn DraftWriter>::new(inner.clone(), &backend, rule);
    let speculator = Scheduled::<dyn Speculator>::new(inner, &backend, rule);
    contract::planner(&planner as &dyn Planner).await;
    contract::reader(&reader as &dyn Reader).await;
    contract::retriever(&retriever as &dyn Retriever).await;
    contract::speculator(&speculator as &dyn Speculator).await;
    contract::draft_writer(&writer as &dyn DraftWriter).await;
    assert!(is_idle(backend.gauges()));
    assert!(backend.gauges().started > 8);
    assert_eq!(script.live(), 0);
}

/// Has a guess at once, and that is all.
struct Hasty;

#[async_trait]
impl Speculator for Hasty {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        self.guess_streaming(call, request, &mut |_| {}).await
    }

    async fn guess_streaming(
        &self,
        _: &Call,
        _: GuessRequest,
        early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        let guess = Guess::from("Ann");
        early(guess.clone());
        Ok(Guessed {
            guesses: vec![guess],
            tokens: Tokens::default(),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn early_guesses_pass_through() {
    let (backend, rules) = (backend(2, 1), Eligibility::shipped());
    let rule = rules.of("speculator");
    let speculator = Scheduled::<dyn Speculator>::new(Arc::new(Hasty), &backend, rule);
    let request = GuessRequest {
        question: Question::new("Whose mother?").expect("a question"),
        hops: Vec::new(),
        sub_question: SubQuestion::new("Whose?"),
        passages: NonZeroUsize::MIN,
        limit: NonZeroUsize::MIN,
    };
    let mut early = Vec::new();
    let call = guess(0.9);
    let guessed = speculator
        .guess_streaming(&call, request, &mut |guess| early.push(guess))
        .await;
    assert_eq!(early, guessed.expect("a guess").guesses);
}

/// Rewrites, in a second.
struct Slow;

#[async_trait]
impl Rewriter for Slow {
    async fn rewrite(&self, _: &Call, request: RewriteRequest) -> Result<Rewritten, PortError> {
        sleep(Duration::from_secs(1)).await;
        Ok(Rewritten {
            question: request.question,
            tokens: Tokens::default(),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn encoders_and_rewriters_take_turns_too() {
    let (backend, rules) = (backend(1, 1), Eligibility::shipped());
    let [encodes, rewrites] = ["retriever", "planner"].map(|port| rules.of(port));
    let slow = Arc::new(TextVectors::alike().after(|_, _| Ok(Duration::from_secs(1))));
    let encoder = Scheduled::<dyn Encoder>::new(slow, &backend, encodes);
    let rewriter = Scheduled::<dyn Rewriter>::new(Arc::new(Slow), &backend, rewrites);
    contract::encoder(&encoder).await;
    contract::rewriter(&rewriter).await;
    let begun = backend.gauges().started;
    let (call, began) = (Call::authoritative(), Instant::now());
    let texts = vec!["a".to_owned()];
    let (one, other) = tokio::join!(
        encoder.encode(&call, TextKind::Passage, texts.clone()),
        encoder.encode(&call, TextKind::Passage, texts),
    );
    assert_eq!(one.unwrap(), other.unwrap());
    // One after the other: the backend has one place.
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert_eq!(backend.gauges().started, begun + 2);
    assert!(is_idle(backend.gauges()));
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_called_ahead_is_not() {
    let backend = backend(2, 2);
    let script = ScriptedPorts::new(Script::instant(2));
    for grade in [Grade::Warmup, Grade::Never] {
        let rule = Rule {
            grade,
            ..Eligibility::shipped().of("retriever")
        };
        let retriever = ScheduledRetriever::new(Arc::new(script.clone()), &backend, rule);
        let call = guess(0.9);
        let started = script.started();
        assert!(was_preempted(
            &retriever.retrieve(&call, "q0 after nothing?", 3).await
        ));
        assert_eq!(script.started(), started);
        call.promote();
        assert!(
            retriever
                .retrieve(&call, "q0 after nothing?", 3)
                .await
                .is_ok()
        );
        assert_eq!(script.started(), started + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn no_draft_is_written_if_speculators_may_not_be_called_ahead() {
    let backend = backend(2, 2);
    let script = ScriptedPorts::new(Script::instant(2));
    for (grade, started) in [(Grade::Warmup, 0), (Grade::Never, 0), (Grade::Full, 1)] {
        let rule = Rule {
            grade,
            ..Eligibility::shipped().of("speculator")
        };
        let inner = Arc::new(script.clone());
        let writer = Scheduled::<dyn DraftWriter>::new(inner, &backend, rule);
        let request = PlanRequest {
            question: Question::new("What comes of it?").expect("a question"),
            hops: Vec::new(),
            must_answer: false,
            drafts: Vec::new(),
        };
        let written = writer.write_draft(&guess(0.9), request, 0).await;
        assert_eq!(written.is_ok(), grade == Grade::Full);
        assert_eq!(script.started(), started);
    }
}

fn scripted_retriever(backend: &Backend) -> (ScriptedPorts, ScheduledRetriever) {
    let script = ScriptedPorts::new(Script::steady(&[true], 10, 20, 5));
    let inner = Arc::new(script.clone());
    let rule = Eligibility::shipped().of("retriever");
    let retriever = ScheduledRetriever::new(inner, backend, rule);
    (script, retriever)
}

#[tokio::test(start_paused = true)]
async fn the_same_query_is_asked_once_at_a_time() {
    let backend = backend(2, 2);
    let (script, retriever) = scripted_retriever(&backend);
    let (needed, guessed) = (Call::authoritative(), guess(0.5));
    let query = "q0 after nothing?";
    let (one, two, more) = futures::join!(
        retriever.retrieve(&guessed, query, 3),
        retriever.retrieve(&needed, query, 3),
        retriever.retrieve(&needed, query, 2),
    );
    assert_eq!(one.expect("hits"), two.expect("hits"));
    assert_eq!(more.expect("hits").len(), 2);
    assert_eq!((script.started(), backend.gauges().joined), (2, 1));
}

/// What came on its way before a question was asked is not fresh for it.
#[tokio::test(start_paused = true)]
async fn a_fresh_result_is_shared_within_its_question_alone() {
    let backend = backend(8, 8);
    let (script, retriever) = scripted_retriever(&backend);
    let wishes = Wishes {
        fresh: true,
        quiet: false,
    };
    let fresh = Call::authoritative().with(wishes);
    let [one, other] = [(), ()].map(|()| fresh.clone().within(Life::of(Arc::new(()))));
    let query = "q0 after nothing?";
    for (calls, started, joined) in [
        ([&one, &one], 1, 1),
        ([&one, &other], 2, 0),
        ([&fresh, &fresh], 2, 0),
        ([&one, &Call::authoritative()], 2, 0),
    ] {
        let before = (script.started(), backend.gauges().joined);
        let [a, b] = calls.map(|call| retriever.retrieve(call, query, 3));
        let (a, b) = futures::join!(a, b);
        assert_eq!(a.expect("hits"), b.expect("hits"));
        let after = (script.started(), backend.gauges().joined);
        assert_eq!((after.0 - before.0, after.1 - before.1), (started, joined));
    }
    // What is remembered of its calls keeps no question going.
    let life = one.life().map(Life::downgrade);
    drop(one);
    assert!(life.is_some_and(|life| life.is_over()));
}

/// Counts what is asked of it.
#[derive(Default)]
struct Warmable {
    warmed: AtomicUsize,
    retrieved: AtomicUsize,
    /// While it warms up, its caller's branch becomes the head.
    promotes: bool,
}

#[async_trait]
impl Retriever for Warmable {
    async fn retrieve(&self, call: &Call, _: &str, _: usize) -> Result<Vec<Passage>, PortError> {
        self.retrieved.fetch_add(1, SeqCst);
        call.serve_kept();
        Ok(Vec::new())
    }

    async fn warm(&self, call: &Call, _: &str) -> Result<(), PortError> {
        self.warmed.fetch_add(1, SeqCst);
        if self.promotes {
            call.promote();
        }
        Err(PortError::unavailable("it", "so it is written"))
    }
}

#[async_trait]
impl Planner for Warmable {
    async fn plan(&self, _: &Call, _: PlanRequest) -> Result<Planned, PortError> {
        self.retrieved.fetch_add(1, SeqCst);
        Ok(Planned {
            step: Step::Answer("42".into()),
            certainty: None,
            tokens: Tokens::default(),
        })
    }

    async fn warm(&self, call: &Call, _: PlanRequest) -> Result<(), PortError> {
        self.warmed.fetch_add(1, SeqCst);
        if self.promotes {
            call.promote();
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_branch_whose_planner_may_only_warm_up_writes_nothing() {
    let backend = backend(2, 2);
    let inner = Arc::new(Warmable::default());
    let rule = Rule {
        grade: Grade::Warmup,
        ..Eligibility::shipped().of("planner")
    };
    let planner = Scheduled::<dyn Planner>::new(inner.clone(), &backend, rule);
    let request = PlanRequest {
        question: Question::new("Whose mother?").expect("a question"),
        hops: Vec::new(),
        must_answer: false,
        drafts: Vec::new(),
    };
    let counts = || (inner.warmed.load(SeqCst), inner.retrieved.load(SeqCst));
    assert!(was_preempted(
        &planner.plan(&guess(0.9), request.clone()).await
    ));
    assert_eq!(counts(), (1, 0));
    assert!(planner.plan(&Call::authoritative(), request).await.is_ok());
    assert_eq!(counts(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_guess_that_may_only_warm_up_looks_nothing_up() {
    for (grade, expected) in [
        (Grade::Full, (0, 1)),
        (Grade::Warmup, (1, 0)),
        (Grade::Never, (0, 0)),
    ] {
        let backend = backend(2, 2);
        let inner = Arc::new(Warmable::default());
        let rule = Rule {
            grade,
            ..Eligibility::shipped().of("retriever")
        };
        let retriever = ScheduledRetriever::new(inner.clone(), &backend, rule);
        let counts = || (inner.warmed.load(SeqCst), inner.retrieved.load(SeqCst));
        let ahead = retriever.retrieve(&guess(0.9), "q", 3).await;
        assert_eq!(counts(), expected, "{grade:?}");
        // Whatever became of the warming up, the call is refused as if it had not been.
        assert_eq!(was_preempted(&ahead), grade != Grade::Full);
        let needed = retriever.retrieve(&Call::authoritative(), "q", 3).await;
        assert!(needed.is_ok());
        assert_eq!(counts(), (expected.0, expected.1 + 1));
        assert!(is_idle(backend.gauges()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_becomes_needed_while_it_is_warmed_up_for_is_done() {
    let backend = backend(2, 2);
    let inner = Arc::new(Warmable {
        promotes: true,
        ..Warmable::default()
    });
    let rule = |role| Rule {
        grade: Grade::Warmup,
        ..Eligibility::shipped().of(role)
    };
    let planner = Scheduled::<dyn Planner>::new(inner.clone(), &backend, rule("planner"));
    let request = PlanRequest {
        question: Question::new("Whose mother?").expect("a question"),
        hops: Vec::new(),
        must_answer: false,
        drafts: Vec::new(),
    };
    assert!(planner.plan(&guess(0.9), request).await.is_ok());
    let retriever = ScheduledRetriever::new(inner.clone(), &backend, rule("retriever"));
    let call = guess(0.9);
    assert!(retriever.retrieve(&call, "q", 3).await.is_ok());
    assert_eq!(inner.warmed.load(SeqCst), 2);
    assert_eq!(inner.retrieved.load(SeqCst), 2);
    assert!(
        call.was_kept(),
        "who asks hears that a kept result served it"
    );
    assert!(is_idle(backend.gauges()));
}
