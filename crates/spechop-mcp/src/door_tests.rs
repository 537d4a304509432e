use axum::body::Body;
use futures::stream;
use http::Request;
use tokio::time::Instant;

use super::*;

/// Takes every question, and says nothing more.
struct Silent;

#[async_trait]
impl Desk for Silent {
    async fn search(&self, _: &Parts, _: &str) -> Result<Vec<Passage>, Refused> {
        Ok(Vec::new())
    }

    async fn fetch(&self, _: &Parts, _: &str) -> Result<Option<Passage>, Refused> {
        Ok(None)
    }

    async fn ask(
        &self,
        _: &Parts,
        _: Question,
    ) -> Result<BoxStream<'static, Result<News, Refused>>, Refused> {
        Ok(stream::pending().boxed())
    }

    fn address(&self, _: &Parts, _: &str) -> String {
        String::new()
    }
}

/// Proxies cut silent connections.
#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_an_answer_hears_a_comment_meanwhile() {
    let asked = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": { "name": "ask", "arguments": { "question": "Who is it?" } },
    });
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Body::from(asked.to_string()))
        .unwrap();
    let door = service(Arc::new(Silent), usize::MAX);
    let began = Instant::now();
    let response = Box::pin(door.handle(request)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut parts = Body::new(response.into_body()).into_data_stream();
    let part = parts.next().await.unwrap().unwrap();
    assert!(part.starts_with(b":"), "{part:?}");
    let silence = began.elapsed();
    let a_little = Duration::from_millis(100);
    assert!(
        silence >= KEEP_ALIVE && silence < KEEP_ALIVE + a_little,
        "{silence:?}"
    );
}

#[test]
fn a_request_whose_params_are_no_object_hears_of_them_under_its_number() {
    let of = |message: Value| {
        let said = unread(message.to_string().as_bytes()).unwrap();
        (said["id"].clone(), said["error"]["code"].clone())
    };
    for id in [json!(7), json!("a")] {
        for params in [json!([]), json!("x"), json!(1)] {
            let asked =
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            assert_eq!(of(asked), (id.clone(), json!(-32602)), "{params}");
        }
    }
    // These are no requests at all.
    for other in [
        json!({ "id": 7, "method": "tools/call", "params": [] }),
        json!({ "jsonrpc": "2.0", "id": [], "method": "tools/call", "params": [] }),
        json!({ "jsonrpc": "2.0", "id": 7, "params": [] }),
        json!([]),
    ] {
        assert_eq!(of(other.clone()), (json!(null), json!(-32600)), "{other}");
    }
}

#[test]
fn k_is_a_whole_number_however_it_is_written() {
    for (k, read) in [
        ("2", Ok(Some(2))),
        ("2.0", Ok(Some(2))),
        ("4294967295", Ok(Some(u32::MAX))),
        ("null", Ok(None)),
        ("2.5", Err(())),
        ("-1", Err(())),
        ("4294967296", Err(())),
        ("\"2\"", Err(())),
    ] {
        let arguments = format!("{{\"question\":\"q\",\"k\":{k}}}");
        let arguments: JsonObject = serde_json::from_str(&arguments).unwrap();
        let found = question(&arguments).map(|question| question.k);
        assert_eq!(found.map_err(drop), read, "{k}");
    }
}

#[test]
fn a_hop_is_one_line_and_names_what_it_rests_on_if_it_does() {
    let passage = |title: &str, id: &str| Passage {
        id: id.into(),
        title: title.into(),
        text: "".into(),
        url: None,
        score: 0.0,
    };
    let mut hop = Hop {
        sub_question: "Who is it?".to_owned(),
        sub_answer: "not found".to_owned(),
        evidence: Vec::new(),
    };
    assert_eq!(line(2, &hop), "2. Who is it? not found");
    hop.evidence = vec![passage("A\nfilm", "1"), passage("B", "2")];
    assert_eq!(line(1, &hop), "1. Who is it? not found (A film [1]; B [2])");
}
