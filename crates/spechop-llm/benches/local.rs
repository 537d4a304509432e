//! The in-process model on this machine: `cargo bench -p spechop-llm --bench local [MODEL]`.
//!
//! MODEL is the name of a pulled model (default: the 1.5 B one). Prints one figure a line; each is
//! the best of three runs, since other programs only ever make it slower.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark prints, and ends at the first mistake"
)]

use std::time::Duration;

use futures::future::join_all;
use spechop_llm::{Generated, Generation, LocalModel, LocalModelOptions, Message, Role, TextModel};
use spechop_ports::{Call, Lane};
use tokio::time::Instant;

const PASSAGE: &str = "The river rises in the hills above the old mill town, passes under seven \
    stone bridges built between 1712 and 1894, and reaches the sea beside the lighthouse where \
    the director Anna Lindqvist was born. ";
const COUNT: &str = "Write the numbers from one to two hundred in words, separated by commas.";

fn generation(fixed: &str, question: &str, tokens_max: u32) -> Generation {
    let message = |role, text: &str| Message {
        role,
        text: text.into(),
    };
    Generation {
        messages: vec![message(Role::System, fixed), message(Role::User, question)],
        fixed: 1,
        tokens_max,
        stop: &[],
    }
}

/// The best of three: seconds, and what was said.
async fn best<T, F: Future<Output = T>>(run: impl Fn(u32) -> F) -> (f64, T) {
    let mut best = None;
    for round in 0..3 {
        let start = Instant::now();
        let said = run(round).await;
        let seconds = start.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            best = Some((seconds, said));
        }
    }
    best.unwrap()
}

async fn say(model: &LocalModel, call: &Call, generation: Generation) -> Generated {
    model.generate(call, generation).await.unwrap()
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0) / 1024
}

async fn measure(model: &LocalModel) {
    let needed = Call::authoritative();
    let short = "You are brief.";

    // A different first word each time: nothing is cached.
    let cold = |word: u32, tokens_max| {
        generation(
            &format!("{word} {}", PASSAGE.repeat(18)),
            "Who?",
            tokens_max,
        )
    };
    let (seconds, said) = best(|n| say(model, &needed, cold(n, 1))).await;
    let prefill = said.tokens.prompt as f64 / seconds;
    println!(
        "prefill                        {prefill:8.1} tokens/s ({} tokens)",
        said.tokens.prompt
    );

    let long = PASSAGE.repeat(14);
    say(model, &needed, generation(&long, "Who?", 1)).await;
    let (warm, said) = best(|n| {
        let question = format!("{n} Where does the river rise?");
        say(model, &needed, generation(&long, &question, 1))
    })
    .await;
    println!(
        "first token, prefix kept       {:8.1} ms (computing all {} tokens: {:.1} ms)",
        warm * 1e3,
        said.tokens.prompt,
        said.tokens.prompt as f64 / prefill * 1e3
    );

    let (one, _) = best(|_| say(model, &needed, generation(short, COUNT, 1))).await;
    let (many, said) = best(|_| say(model, &needed, generation(short, COUNT, 65))).await;
    let alone = (many - one) / (said.tokens.completion - 1) as f64;
    println!(
        "decode, one sequence           {:8.1} tokens/s ({:.1} ms a token)",
        1.0 / alone,
        alone * 1e3
    );
    for count in 2..=4_u32 {
        let before = model.stats();
        let (seconds, _) = best(|_| {
            join_all((0..count).map(|_| say(model, &needed, generation(short, COUNT, 65))))
        })
        .await;
        let (first, _) = best(|_| {
            join_all((0..count).map(|_| say(model, &needed, generation(short, COUNT, 1))))
        })
        .await;
        let after = model.stats();
        let token = (seconds - first) / 64.0;
        println!(
            "decode, {count} sequences            {:8.1} tokens/s in all, a token of each takes {:.2} × one alone; {:.2} tokens a call",
            f64::from(count) / token,
            token / alone,
            (after.generated_tokens - before.generated_tokens) as f64
                / (after.decode_calls - before.decode_calls) as f64,
        );
    }

    let guess = Call::new(Lane::Speculative, 1);
    let mut guessing = model.generate(&guess, generation(short, COUNT, 1000));
    while model.stats().running == 0 {
        let _ = tokio::time::timeout(Duration::from_millis(20), &mut guessing).await;
    }
    let (beside, _) = best(|_| say(model, &needed, generation(short, COUNT, 65))).await;
    drop(guessing);
    println!(
        "65 tokens beside a guess       {:8.2} × the time alone",
        beside / many
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` runs this too, without the flag; it is no test.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let name = arguments.iter().find(|argument| !argument.starts_with('-'));
    let name = name.map_or("qwen2.5-coder-1.5b-instruct", String::as_str);
    let path = spechop_testkit::assets::model_dir(name).join("model.gguf");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let model = LocalModel::open(LocalModelOptions::new(path)).unwrap();
        println!("model                          {}", model.name());
        println!(
            "open                           {:8.1} s",
            start.elapsed().as_secs_f64()
        );
        measure(&model).await;
        println!("resident memory                {:8} MiB", resident_mib());
    });
}
