//! `spechop ask`: a question to a running server.

mod answer;
mod board;
mod line;
mod profile;
mod watch;

use std::error::Error as _;
use std::io::Write;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use spechop_config::Env;
use spechop_proto::ask_event::Event;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{ANSWER_BYTES_MAX, AskRequest, AskResponse, json};
use spechop_types::{AnswerOptions, Effort, K, VerifierMode, causes};
use tokio::time::timeout;
use tonic::{Code, Request, Response, Status};

use super::ahead::AheadArgs;
use super::clean::clean;
use super::from_one;
use super::reach::{Reached, SHOW_ONE, ServerArgs, certificate_trouble};
use super::verify::verifiers;
use crate::output::{has_colours, stdout};
use watch::{Screen, Watch};

/// The arguments of `spechop ask`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Args {
    /// The question.
    question: String,
    #[command(flatten)]
    server: ServerArgs,
    /// The most branches alive at once. 1: no speculation; `inf`: no bound; `auto`: the server chooses.
    #[arg(long, value_name = "N|auto", value_parser = width)]
    k: Option<K>,
    /// The most hops.
    #[arg(long, value_name = "N")]
    hop_budget: Option<u32>,
    /// The most passages that are read for each hop, best first.
    #[arg(long, value_name = "N", value_parser = from_one)]
    passages: Option<NonZeroUsize>,
    /// When a guess counts as right.
    #[arg(long, value_parser = verifiers())]
    verifier: Option<VerifierMode>,
    /// Who guesses: hot, index, llm, memory, cascade or none.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    speculator: Option<String>,
    #[command(flatten)]
    ahead: AheadArgs,
    /// The most look-ups that are begun for a hop while its sub-question is still being written.
    #[arg(long, value_name = "N")]
    drafts: Option<u32>,
    /// How much is done for a better answer: low reads few passages; high draws further plans if the first
    /// one is not sure.
    #[arg(long, value_parser = efforts())]
    effort: Option<Effort>,
    /// Use no kept result of an earlier look-up.
    #[arg(long)]
    fresh: bool,
    /// Make no look-up ahead of need, so that no search provider learns what may be asked next.
    #[arg(long)]
    quiet: bool,
    /// Give up after this many seconds.
    #[arg(long, value_name = "S", value_parser = seconds)]
    deadline: Option<Duration>,
    /// Show on stderr how the question is answered: its branches as a board, or its events.
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "board")]
    watch: Option<Watch>,
    /// Also print the text of each cited passage.
    #[arg(long, conflicts_with = "json")]
    evidence: bool,
    /// Also print how long each stage of each hop took.
    #[arg(long, conflicts_with = "json")]
    times: bool,
    /// Also print where the time of the question went: a line for each stage and activity.
    #[arg(long, conflicts_with = "json")]
    profile: bool,
    /// Print the whole response as JSON: texts, times, verdicts and calls included.
    #[arg(long)]
    json: bool,
}

/// Reads the name of an effort.
fn efforts() -> impl TypedValueParser<Value = Effort> {
    let names = Effort::ALL.map(Effort::as_str);
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

const EXAMPLES: &str = "\
The configuration of the server decides about everything that no flag names.

Marks of --watch: ✎ the planner writes, … a look-up runs, • it has answered, = an answer is written, ✓ committed,
✗ rolled back, – waits until it is needed, ! failed; ? stands on a guess, and may be thrown away.

Examples:
  spechop ask \"Who is the mother of the director of film Polish-Russian War?\"
  spechop ask --watch --k 3 \"Who is the mother of the director of film Polish-Russian War?\"
  spechop ask --evidence --times \"Who is the mother of the director of film Polish-Russian War?\"
  spechop ask --profile --k 1 \"Who is the mother of the director of film Polish-Russian War?\"
  spechop ask --json --k 1 --verifier exact \"…\" | jq -r .answer
  SPECHOP_KEY=… spechop ask --addr qa.example.org:443 --tls-ca ca.pem \"…\"";

/// Asks, and prints the answer.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let mut client = client(&args.server, env).await?;
    let request = request(&args);
    let asked = pin!(async {
        match args.watch {
            Some(watch) => {
                let screen = Screen::new(watch, has_colours(env));
                watched(&mut client, request, screen).await
            }
            None => answered(client.ask(request).await),
        }
    });
    let answer = in_time(args.deadline, asked).await;
    let answer = answer.map_err(|error| advised(error, &args.server))?;
    let text = if args.json {
        json::write(&answer)?
    } else {
        let shown = answer::Shown {
            evidence: args.evidence,
            times: args.times,
            profile: args.profile,
        };
        answer::text(&answer, shown)
    };
    Ok(writeln!(stdout(), "{text}")?)
}

async fn client(server: &ServerArgs, env: &Env) -> anyhow::Result<SpecHopClient<Reached>> {
    let client = SpecHopClient::new(server.reach(env).await?);
    Ok(client.max_decoding_message_size(ANSWER_BYTES_MAX))
}

fn request(args: &Args) -> Request<AskRequest> {
    let options = AnswerOptions {
        k: args.k,
        hop_budget: args.hop_budget,
        top_passages: args.passages,
        verifier: args.verifier,
        speculator: args.speculator.clone(),
        drafts: args.drafts,
        effort: args.effort,
        fresh: args.fresh,
        quiet: args.quiet,
        ..args.ahead.options()
    };
    Request::new(AskRequest {
        question: args.question.clone(),
        options: Some(options.into()),
        deadline_ms: args
            .deadline
            .and_then(|limit| u64::try_from(limit.as_millis()).ok()),
        ..AskRequest::default()
    })
}

/// Waits for the answer, to its end: a server may fall silent between its events, too.
async fn in_time(
    limit: Option<Duration>,
    asked: impl Future<Output = anyhow::Result<AskResponse>>,
) -> anyhow::Result<AskResponse> {
    let Some(limit) = limit else {
        return asked.await;
    };
    // The server ends first and says why; this is for a server that is silent.
    let answer = timeout(limit + Duration::from_secs(1), asked).await;
    answer.unwrap_or_else(|_| {
        let limit = limit.as_secs_f64();
        Err(anyhow!("no answer within {limit} s: the server is silent"))
    })
}

/// Asks for the events, shows them, and returns the last one: the answer.
async fn watched(
    client: &mut SpecHopClient<Reached>,
    request: Request<AskRequest>,
    mut screen: Screen,
) -> anyhow::Result<AskResponse> {
    let mut events = answered(client.ask_stream(request).await)?;
    while let Some(event) = events.message().await.map_err(|status| refused(&status))? {
        screen.show(&event);
        if let Some(Event::Answer(answer)) = event.event {
            return Ok(answer);
        }
    }
    Err(anyhow!("the server ended the stream without an answer"))
}

/// The server's response, or what it says instead.
pub(super) fn answered<T>(response: Result<Response<T>, Status>) -> anyhow::Result<T> {
    response
        .map(Response::into_inner)
        .map_err(|status| refused(&status))
}

/// The connection broke, and the server has not said why.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the server broke ({said}): {advice}")]
struct Broken {
    said: String,
    advice: &'static str,
}

/// An error with what else may help against it.
fn advised(error: anyhow::Error, server: &ServerArgs) -> anyhow::Error {
    match error.is::<Broken>() && server.shows_none() {
        true => anyhow!("{error}; {SHOW_ONE}"),
        false => error,
    }
}

/// What the server says; if the connection broke, why it did.
fn refused(status: &Status) -> anyhow::Error {
    // The server says what it says itself in its own words: only the transport's errors have a cause.
    if let Some(why) = status.source().and_then(certificate_trouble) {
        return anyhow!(why);
    }
    let Some(cause) = causes(status).skip(1).last() else {
        let code = spechop_proto::code_name(status.code());
        return anyhow!("{code}: {}", clean(status.message()));
    };
    let said = clean(&format!("{}: {cause}", status.message()));
    let advice = match status.code() {
        Code::Unknown | Code::Unavailable => "ask again",
        // Codes that the client makes of what HTTP/2 says, mostly of something else than HTTP/2.
        _ => {
            "ask again; if it stays so: does a SpecHop server listen there, and does it speak TLS \
              (`https://…`)?"
        }
    };
    Broken { said, advice }.into()
}

fn width(text: &str) -> Result<K, String> {
    let wrong = |_| "expected a number of branches from 1, `inf` or `auto`".to_owned();
    text.parse().map_err(wrong)
}

/// A time limit as it is written.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok();
    let limit = limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let limits = Duration::from_millis(1)..=Duration::from_secs(86_400);
    limit
        .filter(|limit| limits.contains(limit))
        .ok_or_else(|| "expected 0.001 to 86400 seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use spechop_proto::spec_hop_server::{SpecHop, SpecHopServer};
    use spechop_proto::{
        AskEvent, CancelRequest, CancelResponse, FinishNowRequest, FinishNowResponse,
        GetAnswerRequest, ResumeRequest,
    };
    use tokio::net::TcpListener;
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::transport::Server;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        server: ServerArgs,
    }

    #[test]
    fn a_connection_that_breaks_is_told_from_a_refusal() {
        let mut broken = Status::unknown("h2 protocol error: error reading a body from connection");
        broken.set_source(std::sync::Arc::new(std::io::Error::other("broken pipe")));
        let said = refused(&broken).to_string();
        assert!(
            said.starts_with("the connection to the server broke"),
            "{said}"
        );
        assert!(said.contains("broken pipe"), "{said}");
        let busy = refused(&Status::unavailable("as many wait as may"));
        assert_eq!(busy.to_string(), "UNAVAILABLE: as many wait as may");
    }

    #[test]
    fn what_the_transport_says_is_not_told_as_the_servers_words() {
        for code in [
            Code::PermissionDenied,
            Code::Internal,
            Code::Cancelled,
            Code::ResourceExhausted,
        ] {
            let words = "h2 protocol error: http2 error";
            let theirs = refused(&Status::new(code, words)).to_string();
            let name = spechop_proto::code_name(code);
            assert_eq!(theirs, format!("{name}: {words}"));
            let mut ours = Status::new(code, words);
            ours.set_source(std::sync::Arc::new(std::io::Error::other("no preface")));
            let said = refused(&ours).to_string();
            assert!(
                said.starts_with(
                    "the connection to the server broke (h2 protocol error: http2 error: no preface): \
                     ask again; if it stays so: does a SpecHop server listen there"
                ),
                "{said}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_falls_silent_is_given_up() {
        let limit = Some(Duration::from_millis(1_500));
        let silent = in_time(limit, std::future::pending()).await;
        assert_eq!(
            silent.unwrap_err().to_string(),
            "no answer within 1.5 s: the server is silent"
        );
        for limit in [limit, None] {
            // The server itself says that its time is over.
            let late = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                Ok(AskResponse::default())
            };
            in_time(limit, late).await.unwrap();
        }
    }

    #[test]
    fn a_time_limit_is_a_number_of_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["nan", "-1", "0", "inf", "86401", "1e300", "soon", ""] {
            let said = seconds(text).unwrap_err();
            assert_eq!(said, "expected 0.001 to 86400 seconds", "{text}");
        }
    }

    #[test]
    fn a_server_that_wants_a_certificate_is_not_asked_again() {
        let mut broken = Status::unknown("transport error");
        let alert = std::io::Error::other("received fatal alert: CertificateRequired");
        broken.set_source(std::sync::Arc::new(alert));
        let said = refused(&broken).to_string();
        assert!(
            said.contains("--tls-cert") && !said.contains("again"),
            "{said}"
        );
        // Another server has said so to that one.
        let theirs = "the model is unavailable: received fatal alert: CertificateRequired";
        let said = refused(&Status::unavailable(theirs)).to_string();
        assert_eq!(said, format!("UNAVAILABLE: {theirs}"));
    }

    #[test]
    fn a_client_without_a_certificate_hears_of_it_if_a_connection_by_tls_breaks() {
        let mut broken = Status::unknown("transport error");
        broken.set_source(std::sync::Arc::new(std::io::Error::other("broken pipe")));
        let busy = Status::unavailable("as many wait as may");
        let said = |status: &Status, flags: &[&str]| {
            let flags = ["ask", "--addr", "h:1"].iter().chain(flags).copied();
            advised(refused(status), &Flags::parse_from(flags).server).to_string()
        };
        let none: [&str; 0] = [];
        let tls = ["--tls-ca", "ca.pem"];
        let own = ["--tls-cert", "own.pem", "--tls-key", "own.key"];
        for (status, flags, is_told) in [
            (&broken, &tls[..], true),
            (&broken, &none[..], false),
            (&broken, &own[..], false),
            (&busy, &tls[..], false),
        ] {
            let said = said(status, flags);
            assert_eq!(said.contains("--tls-cert"), is_told, "{flags:?}: {said}");
        }
    }

    /// Answers at length.
    struct Chatty;

    /// More than the client of a library takes unless it is told to.
    const LONG: usize = 5 << 20;

    fn long() -> AskResponse {
        AskResponse {
            answer: "a".repeat(LONG),
            ..AskResponse::default()
        }
    }

    #[tonic::async_trait]
    impl SpecHop for Chatty {
        async fn ask(&self, _: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
            Ok(Response::new(long()))
        }

        type AskStreamStream = tokio_stream::Once<Result<AskEvent, Status>>;

        async fn ask_stream(
            &self,
            _: Request<AskRequest>,
        ) -> Result<Response<Self::AskStreamStream>, Status> {
            let event = Some(Event::Answer(long()));
            let event = AskEvent {
                event,
                ..AskEvent::default()
            };
            Ok(Response::new(tokio_stream::once(Ok(event))))
        }

        async fn finish_now(
            &self,
            _: Request<FinishNowRequest>,
        ) -> Result<Response<FinishNowResponse>, Status> {
            Err(Status::unimplemented("nothing takes long"))
        }

        type ResumeStream = Self::AskStreamStream;

        async fn resume(
            &self,
            _: Request<ResumeRequest>,
        ) -> Result<Response<Self::ResumeStream>, Status> {
            Err(Status::unimplemented("nothing is kept"))
        }

        async fn get_answer(
            &self,
            _: Request<GetAnswerRequest>,
        ) -> Result<Response<AskResponse>, Status> {
            Err(Status::unimplemented("nothing is kept"))
        }

        async fn cancel(
            &self,
            _: Request<CancelRequest>,
        ) -> Result<Response<CancelResponse>, Status> {
            Err(Status::unimplemented("nothing takes long"))
        }
    }

    #[tokio::test]
    async fn long_answers_are_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let incoming = TcpListenerStream::new(listener);
        let server = Server::builder().add_service(SpecHopServer::new(Chatty));
        let asking = async {
            let server = Flags::parse_from(["ask", "--addr", &address]).server;
            let mut client = client(&server, &Env::default()).await.unwrap();
            let request = || Request::new(AskRequest::default());
            let answer = client.ask(request()).await.unwrap().into_inner();
            assert_eq!(answer.answer.len(), LONG);
            let answer = watched(&mut client, request(), Screen::new(Watch::Events, false)).await;
            assert_eq!(answer.unwrap().answer.len(), LONG);
        };
        tokio::select! {
            served = server.serve_with_incoming(incoming) => served.unwrap(),
            () = asking => {}
        }
    }
}
