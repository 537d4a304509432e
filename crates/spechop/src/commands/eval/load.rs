//! `spechop eval load`: questions at a given rate, and how long they take.

mod questions;
mod shown;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use indicatif::ProgressBar;
use spechop_config::Env;
use spechop_eval::load::{LoadClient, LoadOptions, LoadProgress, LoadSetting, Shape, load};
use spechop_proto::ANSWER_BYTES_MAX;
use spechop_proto::spec_hop_client::SpecHopClient;

use crate::bar::bar;
use crate::commands::ask::seconds;
use crate::commands::reach::{ServerArgs, WithKey};
use crate::commands::serve::shutdown_signal;
use crate::output::stdout;
use shown::Run;

/// The arguments of `spechop eval load`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Questions a second, on average.
    #[arg(long, value_name = "N", default_value = "1")]
    rate: f64,
    /// How long questions are sent that count, in seconds.
    #[arg(long = "for", value_name = "S", value_parser = seconds, default_value = "30")]
    lasting: Duration,
    /// How long questions are sent before that. They are in no number.
    #[arg(long, value_name = "S", value_parser = at_least_nothing, default_value = "5")]
    warm_up: Duration,
    /// Send in bursts: N times the rate for 1/N of each period, then nothing.
    #[arg(long, value_name = "N")]
    burst: Option<f64>,
    /// The period of bursts, in seconds.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "10", requires = "burst")]
    period: Duration,
    /// How to answer, e.g. k=1 or k=3,chance-min=0.2 [default: as the server is configured].
    #[arg(long, value_name = "SETTING")]
    a: Option<LoadSetting>,
    /// Another way to answer, taken in turn with the first one and compared with it.
    #[arg(long, value_name = "SETTING", requires = "a")]
    b: Option<LoadSetting>,
    /// Ask for the events of each question (`AskStream`), not for its answer alone (`Ask`).
    #[arg(long)]
    stream: bool,
    /// Let the server use what earlier questions have left behind. Without this every look-up is made anew.
    #[arg(long)]
    reuse: bool,
    /// The most time of a question, in seconds.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "60")]
    deadline: Duration,
    /// How many connections the questions are spread over. A server takes 200 requests a second of each,
    /// unless server.requests_per_second says otherwise.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// The most questions under way at once. More are not sent, and are counted as errors.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    in_flight_max: usize,
    /// A file of questions: one a line, or JSON objects with a `question`, plain or gzipped
    /// [default: those of `make demo`].
    #[arg(long, value_name = "FILE")]
    questions: Option<PathBuf>,
    /// The seed of the arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

const HELP: &str = "\
Questions arrive at moments that are drawn beforehand (a Poisson process, or bursts of one), however
slowly the server answers. A latency counts from the moment at which its question was to be sent. So
a server that stands still for a second is charged with all questions of that second. `spechop eval
live` waits for an answer before it asks on: it measures answers, and this command measures load.

How to read the table:
  p99          99 in a hundred answers took at most so long.
  in flight    the most questions that were under way at once. If it grows with --for, the server
               does not keep up with the rate.
  errors       by gRPC status; their times are in no column. RESOURCE_EXHAUSTED: the server takes no
               more questions at once (server.questions_max), and no more may wait, or for no longer
               (server.queue_max, server.queue_ms). NOT_SENT: --in-flight-max was reached.
  sent late    this machine was too busy to send in time. The latencies hold that delay.
  ratio        --b divided by --a: their questions alternate in random order, so both meet the same
               load. The interval is a bootstrap over pairs of neighbours.

Ctrl-C ends the run and shows what there is.

Examples:
  # Two questions a second for half a minute:
  spechop eval load --rate 2
  # Does the choice of k pay under this load?
  spechop eval load --rate 2 --for 300 --a k=1 --b k=auto
  # Bursts of five times the rate, and the time to the first event of a stream:
  spechop eval load --rate 10 --burst 5 --stream --questions my-questions.txt
  # What the engine itself can take:
  spechop eval scripted --listen 127.0.0.1:50061 &   # until `ready on ADDRESS`
  spechop eval load --addr 127.0.0.1:50061 --rate 2000 --connections 20 --json | jq .settings";

/// Loads the server, and prints what was measured.
pub(super) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let questions = match &args.questions {
        Some(file) => questions::read(file)?,
        None => questions::of_the_demo(),
    };
    let options = options(&args)?;
    let mut clients: Vec<LoadClient<WithKey>> = Vec::new();
    for _ in 0..args.connections {
        let client = SpecHopClient::new(args.server.reach(env).await?);
        clients.push(client.max_decoding_message_size(ANSWER_BYTES_MAX));
    }
    let bar = bar(0, TEMPLATE);
    let mut show = |progress: LoadProgress| show(&bar, progress);
    let stop = shutdown_signal()?;
    let loaded = load(&clients, &options, &questions, stop, &mut show).await;
    bar.finish_and_clear();
    let run = Run {
        loaded: loaded?,
        address: args.server.address().to_owned(),
        questions_given: questions.len(),
        stream: args.stream,
        burst: args.burst,
        warm_up_s: args.warm_up.as_secs_f64(),
        seed: args.seed,
        command: super::command(env),
    };
    let text = if args.json {
        serde_json::to_string_pretty(&run)?
    } else {
        run.text()
    };
    writeln!(stdout(), "{}", text.trim_end())?;
    ensure!(run.answered() > 0, "no question was answered");
    Ok(())
}

fn options(args: &Args) -> anyhow::Result<LoadOptions> {
    let first = args.a.clone().unwrap_or_else(LoadSetting::configured);
    let settings: Vec<_> = std::iter::once(first).chain(args.b.clone()).collect();
    if let [a, b] = &settings[..] {
        ensure!(
            a != b,
            "--a and --b are the same: there is nothing to compare"
        );
    }
    Ok(LoadOptions {
        rate: args.rate,
        shape: match args.burst {
            None => Shape::Poisson,
            Some(factor) => Shape::Bursts {
                factor,
                period: args.period,
            },
        },
        lasting: args.lasting,
        warm_up: args.warm_up,
        settings,
        streams: args.stream,
        reuse: args.reuse,
        deadline: args.deadline,
        in_flight_max: args.in_flight_max,
        seed: args.seed,
    })
}

/// A time limit, or none.
fn at_least_nothing(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => seconds(text),
    }
}

const TEMPLATE: &str = "{bar:40} {msg}";

fn show(bar: &ProgressBar, progress: LoadProgress) {
    let LoadProgress {
        elapsed,
        of,
        in_flight,
        answered,
        failed,
    } = progress;
    let tenths = |time: Duration| u64::try_from(time.as_millis() / 100).unwrap_or(u64::MAX);
    bar.set_length(tenths(of));
    bar.set_position(tenths(elapsed));
    let left = of.saturating_sub(elapsed).as_secs();
    let waits = match left {
        0 => "waiting for the last answers".to_owned(),
        left => format!("{left} s left"),
    };
    bar.set_message(format!(
        "{answered} answered, {failed} failed, {in_flight} under way, {waits}"
    ));
}
