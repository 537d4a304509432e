//! Several workers on one set of weights, with the planner that is shipped: the same texts as of one
//! worker that does one thing at a time. One worker in company is told in `local`.

use std::num::NonZeroU32;
use std::sync::Arc;

use futures::future::{join_all, poll_immediate, select_all};
use spechop_llm::{LocalModel, StepPlanner, TextModel};
use spechop_ports::{Call, KnownHop, Lane, PlanRequest, Planned, Planner};
use spechop_types::{Chance, Question, SubQuestion, Tenant};

use crate::model::{launch, long, open, options, planner_path, say, until};

const QUESTIONS: [&str; 16] = [
    "Who is older, Halcón Suriano Jr. or Pierre De Geyter?",
    "Where was the mother of the director of film Blue Kite (1948 Film) born?",
    "Which film came out first, The Blue Kite or The Mill on the Floss?",
    "When did the composer of the film Jalsaghar die?",
    "Who is the paternal grandfather of Emperor Suzong of Tang?",
    "Are the directors of both films Saraband and Sansho from the same country?",
    "What is the place of birth of the founder of the magazine Lucifer?",
    "Which country is the performer of the song Ne Me Quitte Pas from?",
    "Do the bands Cabin Crew and The Sandals come from the same country?",
    "What nationality is the wife of the author of Der Ister?",
    "Where did the director of film The Reluctant Dragon study?",
    "Who died later, Marguerite of Navarre or Jean de Joinville?",
    "What is the cause of death of the director of film Destry Rides Again?",
    "Which award did the father of the actress of Ponette receive?",
    "When was the employer of the discoverer of Ceres founded?",
    "Who is the spouse of the screenwriter of the film Kangaroo?",
];

fn planner_of(workers: u32) -> (Arc<LocalModel>, StepPlanner) {
    let model = Arc::new(open(|options| {
        options.workers = NonZeroU32::new(workers).expect("not zero");
        options.model_path = planner_path();
        options.sequences = 4;
        options.kept_prompts = 8;
    }));
    (Arc::clone(&model), StepPlanner::new(model))
}

/// The first step of every question, and the one behind it.
pub(crate) fn requests() -> Vec<PlanRequest> {
    let request = |question: &str, hops: Vec<KnownHop>| PlanRequest {
        question: Question::new(question).expect("a question"),
        hops,
        must_answer: false,
        drafts: Vec::new(),
    };
    let known = KnownHop {
        sub_question: SubQuestion::new("Who is it about?"),
        answer: "Jan van Riebeeck".into(),
    };
    let first = QUESTIONS
        .iter()
        .map(|question| request(question, Vec::new()));
    let second = QUESTIONS
        .iter()
        .map(|question| request(question, vec![known.clone()]));
    first.chain(second).collect()
}

/// One at a time, each for another tenant: none finds what was read for another.
async fn one_at_a_time(requests: &[PlanRequest], sample: u32) -> Vec<Planned> {
    let (_, planner) = planner_of(1);
    let planner = planner.of_sample(sample);
    let mut planned = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        let tenant = Tenant::new(&format!("t{at}")).expect("a name");
        let call = Call::of(tenant, Lane::Authoritative, Chance::CERTAIN);
        planned.push(planner.plan(&call, request.clone()).await.expect("a step"));
    }
    planned
}

#[tokio::test]
async fn sixteen_at_once_get_the_texts_of_one_at_a_time() {
    at_once(0).await;
}

/// A text that is drawn is drawn again, whoever else is there and whichever worker it is written by.
#[tokio::test]
async fn what_is_drawn_is_the_same_in_company() {
    let drawn = at_once(2).await;
    let likeliest = one_at_a_time(&requests(), 0).await;
    let other = one_at_a_time(&requests(), 3).await;
    let unlike = |others: &[Planned]| {
        let pairs = drawn.iter().zip(others);
        pairs.filter(|(a, b)| a.step != b.step).count()
    };
    let (from_likeliest, from_other) = (unlike(&likeliest), unlike(&other));
    assert!(
        from_likeliest > 1 && from_other > 1,
        "{from_likeliest} {from_other}"
    );
}

/// The texts of this sample; they are the same in company.
async fn at_once(sample: u32) -> Vec<Planned> {
    let requests = requests();
    let expected = one_at_a_time(&requests, sample).await;
    for workers in [2, 3] {
        let (model, planner) = planner_of(workers);
        let planner = planner.of_sample(sample);
        // The second time, everything was read before.
        for round in 0..2 {
            for (requests, expected) in requests.chunks(16).zip(expected.chunks(16)) {
                let calls: Vec<Call> = (0..requests.len())
                    .map(|at| match at % 3 {
                        0 => Call::authoritative(),
                        _ => Call::new(Lane::Speculative, Chance::of(at as f64 / 16.0)),
                    })
                    .collect();
                let plans = calls
                    .iter()
                    .zip(requests)
                    .map(|(call, request)| planner.plan(call, request.clone()));
                // What began as a guess is needed in the end.
                let promotions = async {
                    let before = model.stats().generated_tokens;
                    until(&model, |stats| stats.generated_tokens > before + 40).await;
                    calls.iter().step_by(2).for_each(Call::promote);
                };
                let (planned, ()) = tokio::join!(join_all(plans), promotions);
                for ((planned, expected), request) in planned.iter().zip(expected).zip(requests) {
                    let planned = planned.as_ref().expect("a step");
                    let question = &request.question;
                    // How sure it was may differ in its last bits.
                    assert_eq!(
                        (&planned.step, planned.tokens),
                        (&expected.step, expected.tokens),
                        "{workers} workers, round {round}: {question:?}"
                    );
                }
            }
        }
        let stats = model.stats();
        assert!(stats.reused_tokens > 0, "{stats:?}");
        assert_eq!((stats.waiting, stats.running), (0, 0), "{stats:?}");
    }
    expected
}

/// A text that is alone has the threads of all workers, and is the same; so is one that loses them on its way.
#[tokio::test]
async fn a_text_that_is_alone_has_more_threads_and_says_the_same() {
    let asked = ["the mill", "the town", "the river"].map(|topic| long(topic, 30));
    let mut expected = Vec::new();
    for asked in &asked {
        expected.push(say(&open(|_| ()), asked.clone()).await);
    }
    let mut more = false;
    let model = open(|options| {
        options.workers = NonZeroU32::new(2).expect("not zero");
        options.threads = None;
        more = options.threads_alone() > options.threads_each();
    });
    for (asked, expected) in asked.iter().zip(&expected) {
        let said = say(&model, asked.clone()).await;
        assert_eq!(
            (said.text, said.tokens),
            (expected.text.clone(), expected.tokens)
        );
    }
    let alone = model.stats().widened;
    assert_eq!(alone > 0, more, "{alone}");
    // What is not needed never has more than its share.
    let guess = Call::new(Lane::Speculative, Chance::EVEN);
    let guessed = model.generate(&guess, long("the bridge", 4)).await;
    assert!(guessed.is_ok());
    assert_eq!(model.stats().widened, alone);
    let said = join_all(asked.iter().map(|asked| say(&model, asked.clone()))).await;
    for (said, expected) in said.iter().zip(&expected) {
        assert_eq!((&said.text, said.tokens), (&expected.text, expected.tokens));
    }
}

/// The next step of a question is planned by whoever is free, and its lines are read once.
#[tokio::test]
async fn what_one_worker_has_read_another_finds() {
    let requests = requests();
    let (model, planner) = planner_of(2);
    let call = Call::authoritative();
    let guess = Call::new(Lane::Speculative, Chance::EVEN);
    planner
        .plan(&call, requests[0].clone())
        .await
        .expect("a step");
    let before = model.stats();
    // Two at once: at most one of them is at the worker that has read the question.
    let (needed, guessed) = tokio::join!(
        planner.plan(&call, requests[16].clone()),
        planner.plan(&guess, requests[16].clone()),
    );
    assert_eq!(needed.expect("a step"), guessed.expect("a step"));
    let after = model.stats();
    let reused = after.reused_tokens - before.reused_tokens;
    assert!(
        reused >= 2 * before.prefilled_tokens,
        "{before:?} {after:?}"
    );
}

#[tokio::test]
async fn the_needed_goes_first_at_every_worker() {
    let needed = ["the town", "the river"].map(|topic| long(topic, 12));
    let mut expected = Vec::new();
    for needed in &needed {
        expected.push(say(&open(|_| ()), needed.clone()).await);
    }
    let model = open(|options| options.workers = NonZeroU32::new(2).expect("not zero"));
    let guesses = [0.3, 0.6].map(|chance| Call::new(Lane::Speculative, Chance::of(chance)));
    let mut guessing = Vec::new();
    for guess in &guesses {
        guessing.push(launch(&model, guess, long("the mill", 200)).await);
    }
    until(&model, |stats| stats.running == 2).await;
    let calls = needed.map(|needed| Box::pin(say(&model, needed)));
    let (first, at, mut other) = select_all(calls).await;
    // Both workers have been busy with needed calls until now.
    for guess in &mut guessing {
        assert!(poll_immediate(guess).await.is_none(), "a guess went before");
    }
    assert_eq!(first, expected[at]);
    assert_eq!(other.remove(0).await, expected[1 - at]);
    // Both guesses end within a chunk, at whichever worker they are.
    let before = model.stats();
    drop(guessing);
    let gone = until(&model, |stats| stats.finished + stats.dropped == 4).await;
    assert_eq!((gone.waiting, gone.running), (0, 0), "{gone:?}");
    assert!(gone.prefilled_tokens <= before.prefilled_tokens + 2 * 64);
}

#[tokio::test]
async fn dropped_calls_leave_nothing_behind_at_any_worker() {
    let (model, planner) = planner_of(2);
    let requests = requests();
    let expected = one_at_a_time(&requests[..1], 0).await;
    for round in 0..10_u64 {
        let calls: Vec<Call> = (0..8)
            .map(|depth| match depth % 3 {
                0 => Call::authoritative(),
                _ => Call::new(Lane::Speculative, Chance::EVEN.pow(depth)),
            })
            .collect();
        let mut started = Vec::new();
        for call in &calls {
            started.push(launch(&model, call, long("the mill", 40)).await);
        }
        let before = model.stats();
        let more = before.prefilled_tokens + before.generated_tokens + 10 * (round % 4);
        until(&model, |stats| {
            stats.prefilled_tokens + stats.generated_tokens >= more
        })
        .await;
    }
    let stats = until(&model, |stats| stats.finished + stats.dropped == 80).await;
    assert_eq!((stats.waiting, stats.running), (0, 0));
    assert!(stats.dropped > 40, "{stats:?}");
    let again = planner
        .plan(&Call::authoritative(), requests[0].clone())
        .await;
    assert_eq!(again.expect("a step"), expected[0]);
}

/// With one core a second worker gains nothing, and costs no text either.
#[test]
fn more_workers_than_slots_get_one_each() {
    let model = LocalModel::open(spechop_llm::LocalModelOptions {
        workers: NonZeroU32::new(3).expect("not zero"),
        sequences: 1,
        kept_prompts: 0,
        ..options()
    });
    assert!(model.expect("a model").name().contains("smollm2"));
}
