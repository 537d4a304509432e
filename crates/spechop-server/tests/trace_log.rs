//! The log names the trace of each question.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::lines::{Lines, is_alone};
use crate::support::{Server, question};
use serde_json::Value;
use spechop_testkit::Script;
use tonic::Request;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// On one thread, which is the one whose log is read. No receiver is configured: the name is there anyway.
#[tokio::test]
async fn a_line_of_the_log_names_the_trace_of_its_question() {
    let test = "a_line_of_the_log_names_the_trace_of_its_question";
    if !is_alone(module_path!(), test) {
        return;
    }
    let lines = Lines::default();
    let log = tracing_subscriber::fmt().json().with_writer(lines.clone());
    let _log = tracing::subscriber::set_default(log.finish());
    let server = Server::start(Script::instant(1)).await;
    let mut client = server.client().await;
    for stream in [false, true] {
        let mut request = Request::new(question());
        let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let value = parent.parse().unwrap();
        request.metadata_mut().insert("traceparent", value);
        if stream {
            let mut events = client.ask_stream(request).await.unwrap().into_inner();
            while events.message().await.unwrap().is_some() {}
        } else {
            client.ask(request).await.unwrap();
        }
    }
    let text = lines.text();
    let answered: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["fields"]["message"] == "answered")
        .collect();
    assert_eq!(answered.len(), 2);
    for line in answered {
        assert_eq!(line["span"]["trace_id"], TRACE, "{line}");
    }
}
