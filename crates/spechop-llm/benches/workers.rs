//! Workers against threads: `cargo bench -p spechop-llm --bench workers -- [MODEL] [CALLS] [W×T …]`.
//!
//! MODEL is the name of a pulled model (default: our planner). For each number of workers and threads, e.g.
//! `1x2 2x1`, or `2xauto` if a text that is alone is to have more threads, CALLS calls (default 32) run one at a time
//! and 16 at a time, each with a prompt of its own behind instructions that are the same. Prints calls a second by the wall
//! clock, the processor time of a call, and the memory. `OMP_WAIT_POLICY=passive` should be set, as `spechop
//! serve` does.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends at the first mistake"
)]

use std::sync::Arc;

use futures::StreamExt;
use spechop_llm::{
    Chat, Generation, LocalModel, LocalModelOptions, Message, Prompt, Role, TextModel,
};
use spechop_ports::Call;
use spechop_testkit::assets::model_dir;
use tokio::time::Instant;

const INSTRUCTIONS: &str = "You break a question down. Write the next question to look up, in one line, \
    and nothing else. If the answer is known, write it. Never ask for two things at once.";

/// As the small planner knows them, or as a conversation.
fn generation(number: usize, lines: bool) -> Generation {
    let question = format!("Who is the mother of the director of film number {number}, Blue Kite?");
    let prompt = if lines {
        let hop = format!("Who is the director of film {number}? => Amy Dunne\n");
        Prompt::Text(format!("Question: {question}\n{hop}").into())
    } else {
        let message = |role, text: String| Message {
            role,
            text: text.into(),
        };
        Prompt::Chat(Chat {
            messages: vec![
                message(Role::System, INSTRUCTIONS.repeat(4)),
                message(Role::User, question),
            ],
            fixed: 1,
        })
    };
    Generation {
        prompt,
        tokens_max: 20,
        stop: &[],
        drafts: Vec::new(),
        sample: 0,
    }
}

/// Of this process: its memory in MiB, and the processor time of all its threads in seconds.
fn used() -> (u64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // After the name: state is field 3; user and system time are 14 and 15, in 1/100 s.
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks = fields.skip(11).take(2).map(|f| f.parse::<f64>().unwrap());
    (kib / 1024, ticks.sum::<f64>() / 100.0)
}

async fn run(model: &Arc<LocalModel>, calls: std::ops::Range<usize>, at_once: usize, lines: bool) {
    let count = calls.len() as f64;
    let (start, before) = (Instant::now(), used().1);
    let said = calls.map(|number| {
        let model = Arc::clone(model);
        async move {
            let generation = generation(number, lines);
            model.generate(&Call::authoritative(), generation).await
        }
    });
    let all: Vec<_> = futures::stream::iter(said)
        .buffer_unordered(at_once)
        .collect()
        .await;
    assert!(all.iter().all(Result::is_ok));
    let wall = start.elapsed().as_secs_f64();
    let (memory, processor) = used();
    println!(
        "  {at_once:2} at once: {:6.2} calls/s, {:5.0} ms of processor a call, {memory} MiB",
        count / wall,
        (processor - before) / count * 1e3,
    );
}

fn main() {
    let Some(given) = spechop_testkit::bench_arguments() else {
        return;
    };
    let mut given = given.iter();
    let name = given.next().map_or("planner", String::as_str);
    let calls: usize = given.next().map_or(32, |calls| calls.parse().unwrap());
    let mut shapes: Vec<&str> = given.map(String::as_str).collect();
    if shapes.is_empty() {
        shapes = vec!["1x1", "2x1", "1x2"];
    }
    let lines = name == "planner";
    let folder = model_dir(if lines {
        "spechop-planner-merged"
    } else {
        name
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        for shape in shapes {
            let (workers, threads) = shape.split_once('x').unwrap();
            let options = LocalModelOptions {
                workers: workers.parse().unwrap(),
                threads: (threads != "auto").then(|| threads.parse().unwrap()),
                context_tokens_per_sequence: 1024,
                sequences: 4,
                kept_prompts: 8,
                ..LocalModelOptions::new(folder.join("model.gguf"))
            };
            let model = Arc::new(LocalModel::open(options).unwrap());
            println!(
                "{}: {workers} workers, {threads} threads each",
                model.name()
            );
            run(&model, 0..2, 1, lines).await;
            run(&model, 1000..1000 + calls, 1, lines).await;
            run(&model, 2000..2000 + calls, 16, lines).await;
        }
    });
}
