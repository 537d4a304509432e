//! The end: no new questions, a grace period for open ones, and nobody can hold it up.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    Server, at, bare, config, endless, eventually, failure, long, of, question, tasks, unread,
};
use async_trait::async_trait;
use spechop_ports::{Call, PortError, Remembered, Retriever, SharedEntries, Version};
use spechop_proto::AskResponse;
use spechop_proto::ask_event::Event;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_server::Bare;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Owned, Passage, Tenant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_do_not_hold_it_up() {
    let mut server = Server::configured(endless(), "[server]\nshutdown_grace_ms = 50").await;
    let mut client = server.client().await;
    let stream = client.ask_stream(question()).await.unwrap().into_inner();
    let asking = client.ask(question());
    tokio::pin!(asking);
    tokio::select! {
        _ = &mut asking => panic!("there is no end to it"),
        () = eventually(|| server.gauges.questions_open() == 2) => {}
    }
    server.shut_down();
    for status in [asking.await.unwrap_err(), failure(stream).await] {
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "the server is shutting down")
        );
    }
    server.ended().await.unwrap();
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_does_not_hold_it_up() {
    // Four hops are there soon, far more than the client takes. The fifth is never there, so that the
    // question is open at the end.
    let mut script = long();
    script.hops[4].target = endless().hops[0].target;
    let mut server = Server::configured(script, "[server]\nshutdown_grace_ms = 0").await;
    let _stream = unread(&server).await;
    let fifth = async { while server.look_ups().await < 5 {} };
    timeout(PATIENCE, fifth).await.expect("it begins");
    assert_eq!(server.gauges.questions_open(), 1);
    server.shut_down();
    server.ended().await.unwrap();
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_may_end_within_the_grace_period() {
    let script = Script::steady(&[true, true], 20, 500, 5);
    let expected = script.answer();
    let toml = "[server]\nshutdown_grace_ms = 3600000";
    let mut server = Server::configured(script, toml).await;
    let mut client = server.client().await;
    let asking = client.ask(question());
    tokio::pin!(asking);
    tokio::select! {
        _ = &mut asking => panic!("it takes a while"),
        () = eventually(|| server.gauges.questions_open() == 1) => {}
    }
    server.shut_down();
    assert_eq!(asking.await.unwrap().into_inner().answer, expected);
    // Long before the grace period is over, since nobody is left.
    server.ended().await.unwrap();
}

/// It is longer than what a slow client takes in the second that those have who only sit there.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_on_its_way_has_the_grace_period() {
    let toml = "[server]\nshutdown_grace_ms = 3600000";
    let mut server = Server::configured(long(), toml).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let endpoint = endpoint.initial_stream_window_size(Some(1024));
    let mut client = SpecHopClient::new(endpoint.connect().await.unwrap());
    let asking = client.ask(question());
    tokio::pin!(asking);
    tokio::select! {
        _ = &mut asking => panic!("it is read to its end in between"),
        () = eventually(|| server.gauges.questions_open() == 1) => {}
    }
    // The connection takes the beginning of the answer, and nobody the rest.
    eventually(|| server.gauges.questions_open() == 0).await;
    server.shut_down();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(asking.await.unwrap().into_inner().answer, long().answer());
    server.ended().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_that_it_serves_and_that_it_stops() {
    let mut server = Server::configured(endless(), "[server]\nshutdown_grace_ms = 2000").await;
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
    // The watch does not hold it up.
    server.ended().await.unwrap();
}

/// What the client of one question was told until its stream ended.
struct Told {
    /// Sub-question and sub-answer of each committed hop.
    hops: Vec<(String, String)>,
    end: Result<AskResponse, Status>,
}

/// Reads a stream to its end. Events have numbers without gaps, so that a client knows what it has.
async fn told(mut client: SpecHopClient<Channel>, tenant: String, committed: &AtomicUsize) -> Told {
    let (mut hops, mut last) = (Vec::new(), 0);
    let stream = client.ask_stream(of(&tenant, question())).await;
    let mut stream = stream.unwrap().into_inner();
    let end = loop {
        let event = match stream.message().await {
            Ok(event) => event.expect("an answer or an error comes last"),
            Err(status) => break Err(status),
        };
        assert_eq!(event.sequence, last + 1);
        last = event.sequence;
        match event.event {
            Some(Event::Committed(news)) => {
                let hop = news.hop.unwrap();
                hops.push((hop.sub_question, hop.sub_answer));
                committed.fetch_add(1, Ordering::SeqCst);
            }
            Some(Event::Answer(answer)) => break Ok(answer),
            _ => {}
        }
    };
    Told { hops, end }
}

/// Finds what is scripted, but nothing before it may.
struct Held(ScriptedPorts, watch::Receiver<bool>);

#[async_trait]
impl Retriever for Held {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let mut may = self.1.clone();
        may.wait_for(|may| *may).await.unwrap();
        self.0.retrieve(call, query, limit).await
    }
}

/// 200 questions are open when the server is told to end. With time enough all of them are answered, with
/// too little those are cut off that need longer. No hop that was told as committed is missing in an answer,
/// and nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_under_load_loses_no_committed_hop() {
    const QUESTIONS: usize = 200;
    const CONNECTIONS: usize = 4;
    for (grace_ms, all_end_well) in [(60_000, true), (20, false)] {
        let script = Script::steady(&[true, false, true, true], 2, 1_000, 2);
        let expected = script.answer();
        let toml = format!(
            "[server]\nquestions_max = 256\nshutdown_grace_ms = {grace_ms}\n\
             [scheduler.retriever]\ncapacity = 4096\n[scheduler.reader]\ncapacity = 4096\n\
             [scheduler.generator]\ncapacity = 4096"
        );
        let before = tasks();
        // None ends before the last one is asked.
        let (may, held) = watch::channel(false);
        let hold = |ports: &ScriptedPorts| Bare {
            retriever: Arc::new(Held(ports.clone(), held)),
            ..bare(ports)
        };
        let mut server = Server::with(script, config(&toml), hold).await;
        let committed = Arc::new(AtomicUsize::new(0));
        let mut readers = JoinSet::new();
        // A connection has at most 100 streams.
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(server.client().await);
        }
        for n in 0..QUESTIONS {
            let client = clients[n % CONNECTIONS].clone();
            let committed = Arc::clone(&committed);
            readers.spawn(async move { told(client, format!("t{n}"), &committed).await });
        }
        eventually(|| server.gauges.questions_open() == QUESTIONS).await;
        may.send(true).unwrap();
        eventually(|| committed.load(Ordering::SeqCst) > 0).await;
        server.shut_down();
        let mut answered = 0;
        while let Some(told) = readers.join_next().await {
            let Told { hops, end } = told.unwrap();
            match end {
                Ok(answer) => {
                    answered += 1;
                    assert_eq!(answer.answer, expected);
                    let written = answer.hops.into_iter();
                    let written: Vec<_> = written.map(|h| (h.sub_question, h.sub_answer)).collect();
                    assert_eq!(hops, written);
                }
                Err(status) => {
                    assert_eq!(status.code(), Code::Unavailable, "{status}");
                    assert!(!status.metadata().contains_key("spechop-ended"));
                    assert!(!all_end_well, "{status}");
                    assert!(hops.len() < 4, "it had not ended");
                }
            }
        }
        assert_eq!(answered == QUESTIONS, all_end_well, "{answered} answers");
        server.ended().await.unwrap();
        server.is_idle().await;
        drop((clients, server));
        eventually(|| tasks() <= before).await;
    }
}

/// Entries of a memory that never answer.
struct Silent;

#[async_trait]
impl SharedEntries for Silent {
    async fn find(
        &self,
        _: &Call,
        _: &Owned<Arc<str>>,
    ) -> Result<Option<(Remembered, Version)>, PortError> {
        pending().await
    }

    async fn near(
        &self,
        _: &Call,
        _: &Tenant,
        _: &[i8],
        _: f32,
        _: NonZeroUsize,
    ) -> Result<Vec<(f32, Remembered)>, PortError> {
        pending().await
    }

    async fn replace(
        &self,
        _: &Call,
        _: &Owned<Arc<str>>,
        _: &Remembered,
        _: Option<&Version>,
    ) -> Result<bool, PortError> {
        pending().await
    }

    async fn trim(&self, _: &Call, _: NonZeroUsize) -> Result<u64, PortError> {
        pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_keeps_what_servers_share_does_not_hold_it_up() {
    let mut server = Server::sharing(Script::instant(3), Silent, config("")).await;
    // Of three hops two wait still to be written.
    server.ask(at(1)).await.unwrap();
    server.shut_down();
    server.ended().await.unwrap();
}
