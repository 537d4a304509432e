//! A scripted server at the end of the pipes: what becomes of a look-up if it dies, hangs, talks
//! nonsense or too much, or comes back without the tool.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use spechop_mcp::{Ahead, McpOptions, McpRetriever, OpenError, Program, Server};
use spechop_ports::{Call, PortError, Retriever, contract};
use spechop_testkit::eventually;
use spechop_types::TraceContext;
use tempfile::TempDir;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/server.sh");

const KEY: &str = "key-of-the-notes";

/// The scripted server, and the folder that it writes to.
struct Script {
    dir: TempDir,
    options: McpOptions,
}

impl Script {
    fn new(how: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let command = ["sh", PROGRAM, how, folder].map(str::to_owned).into();
        let server = Server::Program(Program {
            command,
            env: vec![
                ("PATH".to_owned(), "/usr/bin:/bin".into()),
                ("NOTES_KEY".to_owned(), KEY.into()),
            ],
            dir: None,
        });
        let mut options = McpOptions::new(server, "search");
        options.retries.pause = Duration::from_millis(1);
        Self { dir, options }
    }

    async fn open(&self) -> McpRetriever {
        McpRetriever::open(self.options.clone()).await.unwrap()
    }

    async fn refusal(&self) -> OpenError {
        McpRetriever::open(self.options.clone()).await.unwrap_err()
    }

    fn written(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn starts(&self) -> usize {
        self.written("starts").lines().count()
    }

    async fn heard(&self, what: &str) {
        eventually(|| self.written("heard").contains(what)).await;
    }
}

async fn ask(retriever: &McpRetriever) -> Result<Vec<String>, PortError> {
    let call = Call::authoritative();
    let found = retriever.retrieve(&call, "rivers", 5).await?;
    Ok(found.iter().map(|p| p.text.to_string()).collect())
}

/// An error with its cause.
fn said(error: &PortError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}

#[tokio::test]
async fn the_tool_is_a_retriever() {
    for how in ["answers", "chatters"] {
        let script = Script::new(how);
        let tool = script.open().await;
        assert!(tool.may_run_ahead(), "it is annotated");
        let texts = ask(&tool).await.unwrap();
        assert_eq!(texts, ["The Seine is a river.", "The Loire is one, too."]);
        assert!(
            script
                .written("heard")
                .contains(r#""arguments":{"query":"rivers"}"#)
        );
        contract::retriever(&tool).await;
        assert_eq!(script.starts(), 1);
    }
}

#[tokio::test]
async fn a_tool_hears_for_which_span_it_works() {
    let script = Script::new("answers");
    let tool = script.open().await;
    ask(&tool).await.unwrap();
    assert!(!script.written("heard").contains("traceparent"));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = Call::authoritative().traced(TraceContext::parse(parent, "vendor=1"));
    tool.retrieve(&call, "rivers", 5).await.unwrap();
    let heard = script.written("heard");
    for told in [
        format!("\"traceparent\":\"{parent}\""),
        "\"tracestate\":\"vendor=1\"".to_owned(),
    ] {
        assert!(heard.contains(&told), "{told}: {heard}");
    }
}

#[tokio::test]
async fn what_can_never_work_is_said_at_the_start() {
    let mut script = Script::new("answers");
    script.options.tool = "find".to_owned();
    let error = script.refusal().await.to_string();
    assert!(
        error.ends_with("has no tool \"find\"; its tools are: search, forget"),
        "{error}"
    );
    script.options.tool = "search".to_owned();
    script.options.arguments = r#"{"q": "{question}"}"#.parse().unwrap();
    let error = script.refusal().await.to_string();
    assert!(
        error.ends_with("it needs the argument \"query\"; its arguments are: query"),
        "{error}"
    );

    let error = Script::new("ends").refusal().await;
    let text = error.to_string();
    assert!(
        text.contains("exit status: 3") && text.contains("cannot read the notes"),
        "{text}"
    );
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(!error.may_pass());
    script.options.server = Server::Program(Program {
        command: vec!["/nowhere/to/be/found".to_owned()],
        env: Vec::new(),
        dir: None,
    });
    let error = script.refusal().await;
    assert!(matches!(error, OpenError::Start { .. }), "{error}");
}

#[tokio::test]
async fn what_a_program_logs_is_told_of_a_start_that_takes_too_long() {
    let mut script = Script::new("loads");
    // Real time, in which another process is to log a line.
    script.options.start = Duration::from_secs(3);
    let error = script.refusal().await;
    let text = error.to_string();
    assert!(text.contains("was not open within 3 s"), "{text}");
    assert!(text.ends_with("its log: loading the notes"), "{text}");
    assert!(!error.may_pass());
}

#[tokio::test]
async fn a_server_that_dies_is_started_again() {
    let script = Script::new("dies_once");
    let tool = script.open().await;
    assert_eq!(ask(&tool).await.unwrap().len(), 2);
    assert_eq!(script.starts(), 2);

    let script = Script::new("dies");
    let tool = script.open().await;
    let error = said(&ask(&tool).await.unwrap_err());
    for part in ["is unavailable", "exit status: 4"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("out of ink"), "its log: {error}");
    let calls = script.written("heard").matches("tools/call").count();
    assert!((2..=4).contains(&calls), "it is tried again: {calls}");
}

/// The operator reads the end of its log at the start, and in ours; whoever asks does not.
#[tokio::test]
async fn what_a_program_logs_is_not_told_to_whoever_asks() {
    let script = Script::new("ends_later");
    let tool = script.open().await;
    let error = ask(&tool).await.unwrap_err();
    // It may start again the next time.
    assert!(matches!(error, PortError::Unavailable { .. }), "{error}");
    let error = said(&error);
    assert!(error.contains("could not be opened"), "{error}");
    for logged in ["out of ink", "cannot read the notes"] {
        assert!(!error.contains(logged), "{error}");
    }
    // Nor what it finds in its environment, if it repeats that itself.
    for how in ["repeats", "forbids"] {
        let tool = Script::new(how).open().await;
        let error = said(&ask(&tool).await.unwrap_err());
        assert!(error.contains("no such key: [key]"), "{error}");
        assert!(!error.contains(KEY), "{error}");
    }
}

#[tokio::test]
async fn a_tool_that_may_have_effects_is_called_once_and_never_ahead() {
    let mut script = Script::new("writes_and_dies");
    let tool = script.open().await;
    assert!(!tool.may_run_ahead());
    let error = said(&ask(&tool).await.unwrap_err());
    assert!(error.contains("exit status: 4"), "{error}");
    assert_eq!(script.written("heard").matches("tools/call").count(), 1);
    drop(tool);

    script.options.ahead = Ahead::Always;
    assert!(script.open().await.may_run_ahead(), "the operator says so");
    let mut script = Script::new("answers");
    script.options.ahead = Ahead::Never;
    assert!(!script.open().await.may_run_ahead());
}

#[tokio::test]
async fn a_tool_that_is_gone_after_a_restart_is_an_error_that_says_so() {
    let script = Script::new("forgets");
    let tool = script.open().await;
    let error = ask(&tool).await.unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("no tool \"search\"; its tools are: find, forget"),
        "{text}"
    );
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    let script = Script::new("hangs");
    let tool = script.open().await;
    {
        let mut call = std::pin::pin!(ask(&tool));
        tokio::select! {
            _ = &mut call => panic!("it hangs"),
            () = script.heard("tools/call") => {}
        }
    }
    script.heard("notifications/cancelled").await;

    let mut script = Script::new("hangs");
    script.options.attempt = Duration::from_millis(200);
    let tool = script.open().await;
    let error = ask(&tool).await.unwrap_err();
    assert!(
        matches!(error, PortError::Timeout { limit, .. } if limit.as_millis() == 200),
        "{error}"
    );
    script.heard("notifications/cancelled").await;
}

#[tokio::test]
async fn what_is_no_result_is_said() {
    let garbage = Script::new("garbage").open().await;
    let error = ask(&garbage).await.unwrap_err();
    assert!(matches!(error, PortError::Malformed { .. }), "{error}");

    // A field without a text has a name that is long, and begins with the key.
    let odd = Script::new("odd").open().await;
    let error = ask(&odd).await.unwrap_err();
    assert!(matches!(error, PortError::Malformed { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("fields are: [key]-xxx"), "{told:.1000}");
    assert!(told.len() < 1_000, "{}", told.len());

    let mut script = Script::new("huge");
    script.options.bytes_max = 50_000;
    let tool = script.open().await;
    for _ in 0..2 {
        let error = ask(&tool).await.unwrap_err();
        assert!(matches!(error, PortError::Malformed { .. }), "{error}");
        assert!(
            error.to_string().contains("more than 50000 bytes"),
            "{error}"
        );
    }
    assert!(script.starts() >= 2, "the connection was opened again");

    // Others that come and go meanwhile do not put off the end of the connection.
    let tool = script.open().await;
    let comings = async {
        loop {
            let _ = tokio::time::timeout(Duration::from_millis(100), ask(&tool)).await;
        }
    };
    let error = tokio::select! {
        biased;
        found = ask(&tool) => found.unwrap_err(),
        () = comings => unreachable!(),
    };
    assert!(matches!(error, PortError::Malformed { .. }), "{error}");

    let fails = Script::new("fails").open().await;
    let error = said(&ask(&fails).await.unwrap_err());
    assert!(error.contains("the index is being built"), "{error}");
    let refuses = Script::new("refuses").open().await;
    let error = ask(&refuses).await.unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error}");
    assert!(error.to_string().ends_with("query is too short"), "{error}");
}

#[tokio::test]
async fn the_program_gets_the_named_variables_alone() {
    let tool = Script::new("env").open().await;
    let texts = ask(&tool).await.unwrap();
    let names: Vec<_> = texts[0].split_whitespace().collect();
    // Those that the shell sets for itself aside.
    let own = ["PWD", "OLDPWD", "SHLVL", "_"];
    let given: Vec<_> = names
        .into_iter()
        .filter(|name| !own.contains(name))
        .collect();
    assert_eq!(given, ["NOTES_KEY", "PATH"]);
}

#[tokio::test]
async fn the_program_ends_with_the_retriever() {
    let script = Script::new("spawns");
    let tool = script.open().await;
    let number = || script.written("grandchild").trim().parse().ok();
    eventually(|| number().is_some()).await;
    let grandchild = Pid::from_raw(number().unwrap()).unwrap();
    assert!(test_kill_process(grandchild).is_ok());
    drop(tool);
    eventually(|| !is_alive(grandchild)).await;
    script.heard("end").await;
}

/// What has ended and was not waited for by its new parent is no longer alive.
fn is_alive(process: Pid) -> bool {
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    let stat = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}
