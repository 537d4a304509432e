//! The end: no new questions, a grace period for open ones, and nobody can hold it up.

mod support;

use std::time::Duration;

use spechop_testkit::Script;
use support::{Server, endless, eventually, question};
use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_do_not_hold_it_up() {
    let mut server = Server::configured(endless(), "[server]\nshutdown_grace_ms = 50").await;
    let mut client = server.client().await;
    let mut stream = client.ask_stream(question()).await.unwrap().into_inner();
    let mut asking = client.clone();
    let asking = asking.ask(question());
    tokio::pin!(asking);
    tokio::select! {
        _ = &mut asking => panic!("there is no end to it"),
        () = eventually(|| server.gauges.questions_open() == 2) => {}
    }
    server.shut_down();
    let status = asking.await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "the server is shutting down")
    );
    let status = loop {
        match stream.message().await {
            Ok(event) => assert!(event.is_some()),
            Err(status) => break status,
        }
    };
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "the server is shutting down")
    );
    timeout(PATIENCE, server.ended())
        .await
        .expect("it ends")
        .unwrap();
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_does_not_hold_it_up() {
    let mut server = Server::configured(endless(), "[server]\nshutdown_grace_ms = 0").await;
    let _stream = server.client().await.ask_stream(question()).await.unwrap();
    server.shut_down();
    timeout(PATIENCE, server.ended())
        .await
        .expect("it ends")
        .unwrap();
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_may_end_within_the_grace_period() {
    let script = Script::steady(&[true, true], 20, 100, 5);
    let expected = script.answer();
    let mut server = Server::start(script).await;
    let mut client = server.client().await;
    let asking = client.ask(question());
    tokio::pin!(asking);
    tokio::select! {
        _ = &mut asking => panic!("it takes a while"),
        () = eventually(|| server.gauges.questions_open() == 1) => {}
    }
    server.shut_down();
    assert_eq!(asking.await.unwrap().into_inner().answer, expected);
    // Long before the grace period of ten seconds is over, since nobody is left.
    timeout(Duration::from_secs(5), server.ended())
        .await
        .expect("it ends")
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_that_it_serves_and_that_it_stops() {
    let mut server = Server::configured(endless(), "[server]\nshutdown_grace_ms = 200").await;
    let mut health = HealthClient::new(server.channel().await);
    let about = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    for service in ["", "spechop.v1.SpecHop"] {
        let state = health.check(about(service)).await.unwrap().into_inner();
        assert_eq!(state.status(), ServingStatus::Serving, "{service}");
    }
    let status = health.check(about("spechop.v1.Other")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);

    let mut watch = health
        .watch(about("spechop.v1.SpecHop"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        watch.message().await.unwrap().unwrap().status(),
        ServingStatus::Serving
    );
    let _question = server.client().await.ask_stream(question()).await.unwrap();
    server.shut_down();
    assert_eq!(
        watch.message().await.unwrap().unwrap().status(),
        ServingStatus::NotServing
    );
    timeout(PATIENCE, server.ended())
        .await
        .expect("the watch does not hold it up")
        .unwrap();
}
