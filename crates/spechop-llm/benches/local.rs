//! The in-process model on this machine: `cargo bench -p spechop-llm --bench local -- [MODEL] [THREADS]`.
//!
//! MODEL is the name of a pulled model (default: the 1.5 B one). Prints one figure a line; each is
//! the best of three runs, since other programs only ever make it slower. With one thread it is
//! processor time that is measured, which tells the same on a busy machine; with more, which wait
//! for each other spinning, it is the wall clock's.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark prints, and ends at the first mistake"
)]

use std::num::NonZeroU32;
use std::time::Duration;

use spechop_llm::{
    Chat, Generated, Generation, LocalModel, LocalModelOptions, Message, Prompt, Role, TextModel,
};
use spechop_ports::{Call, Lane};
use spechop_types::Chance;
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
        prompt: Prompt::Chat(Chat {
            messages: vec![message(Role::System, fixed), message(Role::User, question)],
            fixed: 1,
        }),
        tokens_max,
        stop: &[],
        drafts: Vec::new(),
        sample: 0,
    }
}

/// What tells the time.
#[derive(Clone, Copy)]
enum Clock {
    Wall(Instant),
    /// Of all threads of this process.
    Processor,
}

impl Clock {
    fn seconds(self) -> f64 {
        match self {
            Self::Wall(start) => start.elapsed().as_secs_f64(),
            Self::Processor => {
                let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
                // After the name: state is field 3; user and system time are 14 and 15, in 1/100 s.
                let fields = stat.rsplit(')').next().unwrap().split_whitespace();
                let ticks = fields.skip(11).take(2).map(|f| f.parse::<f64>().unwrap());
                ticks.sum::<f64>() / 100.0
            }
        }
    }

    /// The best of three: seconds, and what was said.
    async fn best<T, F: Future<Output = T>>(self, run: impl Fn(u32) -> F) -> (f64, T) {
        let mut best = None;
        for round in 0..3 {
            let start = self.seconds();
            let said = run(round).await;
            let seconds = self.seconds() - start;
            if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
                best = Some((seconds, said));
            }
        }
        best.unwrap()
    }
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

async fn measure(model: &LocalModel, clock: Clock) {
    let needed = Call::authoritative();
    let short = "You are brief.";

    // A different first word each time: nothing is cached.
    let cold = |word: u32, tokens_max| {
        generation(&format!("{word} {}", PASSAGE.repeat(9)), "Who?", tokens_max)
    };
    let (seconds, said) = clock.best(|n| say(model, &needed, cold(n, 1))).await;
    let prefill = said.tokens.prompt as f64 / seconds;
    println!(
        "prefill                        {prefill:8.1} tokens/s ({} tokens)",
        said.tokens.prompt
    );

    let long = PASSAGE.repeat(9);
    say(model, &needed, generation(&long, "Who?", 1)).await;
    let (warm, said) = clock
        .best(|n| {
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

    let (one, _) = clock
        .best(|_| say(model, &needed, generation(short, COUNT, 1)))
        .await;
    let (many, said) = clock
        .best(|_| say(model, &needed, generation(short, COUNT, 33)))
        .await;
    let alone = (many - one) / (said.tokens.completion - 1) as f64;
    println!(
        "decode, one sequence           {:8.1} tokens/s ({:.1} ms a token)",
        1.0 / alone,
        alone * 1e3
    );
    let guess = Call::new(Lane::Speculative, Chance::EVEN);
    let mut guessing = model.generate(&guess, generation(short, COUNT, 1000));
    while model.stats().running == 0 {
        let _ = tokio::time::timeout(Duration::from_millis(20), &mut guessing).await;
    }
    let (beside, _) = clock
        .best(|_| say(model, &needed, generation(short, COUNT, 33)))
        .await;
    drop(guessing);
    println!(
        "33 tokens beside a guess       {:8.2} × the time alone",
        beside / many
    );
}

fn main() {
    let Some(given) = spechop_testkit::bench_arguments() else {
        return;
    };
    let mut given = given.iter();
    let name = given
        .next()
        .map_or("qwen2.5-coder-1.5b-instruct", String::as_str);
    let threads: Option<NonZeroU32> = given.next().map(|threads| threads.parse().unwrap());
    let path = spechop_testkit::assets::data_dir().join(format!("models/{name}/model.gguf"));
    // `make bench` runs every benchmark, and pulls the default models only.
    if !path.exists() {
        println!("{name} is not here: `spechop models pull {name}` fetches it");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let model = LocalModel::open(LocalModelOptions {
            threads,
            ..LocalModelOptions::new(path)
        })
        .unwrap();
        let clock = match threads.map(NonZeroU32::get) {
            Some(1) => Clock::Processor,
            _ => Clock::Wall(start),
        };
        println!("model                          {}", model.name());
        println!(
            "open                           {:8.1} s",
            start.elapsed().as_secs_f64()
        );
        measure(&model, clock).await;
        println!("resident memory                {:8} MiB", resident_mib());
    });
}
