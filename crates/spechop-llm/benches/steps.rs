//! The planner's steps on this machine:
//! `cargo bench -p spechop-llm --bench steps -- [THREADS] [MODEL.gguf [ADAPTER.gguf]]`.
//!
//! Plans two questions with the planner that is shipped or another, hop by hop with the right answers, first with
//! nothing cached and then each step behind the one before, as the agent does. Four times for each
//! step, the processor's (of all threads, which with more than one spin while they wait for each other), the
//! best of seven runs: token by token; with what is found in the prompt; with the right draft, read by a few
//! tokens as one that may be wrong; the same, read at once as one that is likely.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends at the first mistake"
)]

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use spechop_llm::{LocalModel, LocalModelOptions, StepPlanner};
use spechop_ports::{Call, KnownHop, PlanRequest, Planner};
use spechop_types::{Chance, Draft, Question, Step, SubQuestion};
use tokio::time::Instant;

const QUESTIONS: &[(&str, &[(&str, &str)])] = &[
    (
        // No rule answers this one: the planner does not know these countries.
        "Are Halcón Suriano Jr. and Pierre De Geyter from the same country?",
        &[
            ("Which country is Halcón Suriano Jr. from?", "Atlantis"),
            ("Which country is Pierre De Geyter from?", "Flanders"),
        ],
    ),
    (
        "Where was the mother of the director of film Blue Kite (1948 Film) born?",
        &[
            ("Who is the director of Blue Kite (1948 Film)?", "Amy Dunne"),
            ("Who is the mother of Amy Dunne?", "Ada Lovell"),
            ("Where was Ada Lovell born?", "Hull"),
        ],
    ),
];

const RUNS: usize = 7;

fn request(question: &str, hops: &[(&str, &str)]) -> PlanRequest {
    let hop = |(asked, answer): &(&str, &str)| KnownHop {
        sub_question: SubQuestion::new(asked),
        answer: (*answer).into(),
    };
    PlanRequest {
        question: Question::new(question).unwrap(),
        hops: hops.iter().map(hop).collect(),
        must_answer: false,
        drafts: Vec::new(),
    }
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0) / 1024
}

/// Whether tokens are guessed without the model, and how likely the draft of the text is, if there is one.
const WAYS: [(bool, Option<Chance>); 4] = [
    (false, None),
    (true, None),
    (true, Some(Chance::EVEN)),
    (true, Some(Chance::CERTAIN)),
];

/// A step's best times in milliseconds, of each way.
struct Row {
    processor: [f64; WAYS.len()],
    step: Step,
    shown: String,
}

/// Processor time of all threads, in milliseconds.
fn processor() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let nanos = tasks.map(|task| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        let nanos: f64 = stat.split(' ').next().unwrap().parse().unwrap();
        nanos
    });
    nanos.sum::<f64>() / 1e6
}

async fn plan_all(model: &Arc<LocalModel>, way: usize, rows: &mut Vec<Row>) {
    let planner = StepPlanner::new(model.clone());
    let steps = QUESTIONS
        .iter()
        .flat_map(|(question, hops)| (0..=hops.len()).map(move |known| (question, &hops[..known])));
    for (at, (question, hops)) in steps.enumerate() {
        let before = model.stats();
        let mut request = request(question, hops);
        if let (Some(chance), Some(Step::Ask(asked))) =
            (WAYS[way].1, rows.get(at).map(|row| &row.step))
        {
            request.drafts.push(Draft {
                sub_question: asked.clone(),
                chance,
            });
        }
        let used = processor();
        let planned = planner.plan(&Call::authoritative(), request).await.unwrap();
        let processor = processor() - used;
        let after = model.stats();
        let said = match &planned.step {
            Step::Ask(asked) => asked.as_str().to_owned(),
            Step::Answer(answer) => format!("Answer: {answer}"),
        };
        let shown = format!(
            "{:3} read, {:3} reused, {:3} written  {said}",
            after.prefilled_tokens - before.prefilled_tokens,
            after.reused_tokens - before.reused_tokens,
            after.generated_tokens - before.generated_tokens,
        );
        match rows.get_mut(at) {
            Some(row) => {
                row.processor[way] = row.processor[way].min(processor);
                assert_eq!(row.step, planned.step, "another text");
            }
            None => rows.push(Row {
                processor: std::array::from_fn(|of| if of == way { processor } else { f64::MAX }),
                step: planned.step,
                shown,
            }),
        }
    }
}

fn main() {
    let Some(given) = spechop_testkit::bench_arguments() else {
        return;
    };
    let mut given = given.iter();
    let threads: Option<NonZeroU32> = given.next().map(|threads| threads.parse().unwrap());
    let shipped = spechop_testkit::assets::model_dir("spechop-planner-merged").join("model.gguf");
    let path = given.next().map_or(shipped, PathBuf::from);
    let adapter = given.next().map(PathBuf::from);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut rows = Vec::new();
        for run in 0..RUNS * WAYS.len() {
            let way = run % WAYS.len();
            // A new one each time: nothing is cached.
            let start = Instant::now();
            let options = LocalModelOptions {
                threads,
                adapter: adapter.clone(),
                context_tokens_per_sequence: 1024,
                drafts: Some(WAYS[way].0),
                ..LocalModelOptions::new(&path)
            };
            let model = Arc::new(LocalModel::open(options).unwrap());
            let open = start.elapsed().as_secs_f64();
            plan_all(&model, way, &mut rows).await;
            if run == 0 {
                println!(
                    "{}, {threads:?} threads",
                    spechop_llm::TextModel::name(&*model)
                );
                println!("opened in {open:.2} s, {} MiB resident", resident_mib());
            }
        }
        println!(
            "processor, in ms: token by token, from the prompt, with the right draft, a likely one"
        );
        for row in &rows {
            let [plain, prompt, draft, likely] = row.processor;
            println!(
                "{plain:6.1} {prompt:6.1} {draft:6.1} {likely:6.1}  {}",
                row.shown
            );
        }
        let sum = |way: usize| rows.iter().map(|row| row.processor[way]).sum::<f64>();
        let ratio = |way: usize| sum(way) / sum(0);
        println!("ratios: {:.3} {:.3} {:.3}", ratio(1), ratio(2), ratio(3));
    });
}
