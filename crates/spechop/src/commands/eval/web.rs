//! `spechop eval web`: a local web to search.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use spechop_eval::dataset::passages;
use spechop_eval::web::{Latency, Web, WebOptions, on_loopback};

use super::variants::milliseconds;
use crate::commands::serve::{bind, listen, shutdown_signal};
use crate::commands::share;

/// The arguments of `spechop eval web`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A corpus: one passage a line, `{"id", "title", "text"}`, plain or gzip. May be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    corpus: Vec<PathBuf>,
    /// The loopback address to listen on. Port 0 takes any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8888")]
    listen: SocketAddr,
    /// How long a search and the slowest of five pages take together, in milliseconds: mean and
    /// standard deviation. `paper`: 4150:1680.
    #[arg(long, value_name = "none|paper|MEAN:SIGMA", value_parser = pace, default_value = "paper")]
    latency: Pace,
    /// The share of pages that are broken, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0")]
    trouble: f64,
    /// Decides about times, broken pages and what pages look like.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

const HELP: &str = "\
Every passage of the corpus is on a page, among related ones, menus and footers. A search engine
finds the pages, in three forms:
  SearXNG     /search?q=QUERY&format=json
  DuckDuckGo  POST /html/ with q=QUERY
  MediaWiki   /w/api.php?action=query&list=search&srsearch=QUERY&format=json
The same query and the same page wait the same time, at every k and in every run with the same seed.
They wait asleep: the web takes almost no time of the processor.
/trouble/NAME is a page that is broken in one way: an error, a redirect, a bomb, orders to machines.
/down/NAME before a form is a search engine that is down in one way. `/` lists all of them.
When the web can be searched, it prints one line: `ready on ADDRESS`. A signal ends it.

Examples:
  spechop eval web --corpus eval/datasets/2wikimultihopqa/corpus.jsonl.gz
  spechop eval web --corpus eval/datasets/musique/corpus.jsonl.gz --latency none --trouble 0.2 \\
      --listen 127.0.0.1:0";

/// Mean and deviation in milliseconds, or no waiting.
#[derive(Clone, Copy, Debug)]
struct Pace(Option<(f64, f64)>);

fn pace(text: &str) -> Result<Pace, String> {
    match text {
        "none" => Ok(Pace(None)),
        "paper" => Ok(Pace(Some((4150.0, 1680.0)))),
        text => {
            let parts = text.split_once(':');
            let parts =
                parts.and_then(|(mean, sigma)| Some((milliseconds(mean)?, milliseconds(sigma)?)));
            let parts = parts.ok_or("expected none, paper, or MEAN:SIGMA in milliseconds")?;
            Ok(Pace(Some(parts)))
        }
    }
}

/// Serves until a signal comes.
pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    on_loopback(args.listen)?;
    let latency = match args.latency.0 {
        Some((mean, sigma)) => Latency::new(mean, sigma, args.seed)?,
        None => Latency::NONE,
    };
    let options = WebOptions {
        latency,
        broken: args.trouble,
        seed: args.seed,
    };
    let passages = passages(&args.corpus)?;
    let made_of = passages.len();
    let socket = bind(args.listen)?;
    let shutdown = shutdown_signal()?;
    let web = Web::new(passages, options);
    say!("{} pages made of {made_of} passages", web.pages());
    let listener = listen(socket)?;
    // Pages without end must not hold the end up.
    tokio::select! {
        served = web.serve(listener) => served.context("the web has ended"),
        () = shutdown => Ok(()),
    }
}
