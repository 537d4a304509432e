//! A receiver of OTLP in this process: what a collector takes, it takes, and keeps.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// How it takes what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Gladly.
    Takes,
    /// It does not answer.
    Silent,
    /// It fails.
    Fails,
    /// It answers well, and wants none of the spans.
    Rejects,
}

/// A receiver; dropping it ends it.
pub struct Receiver {
    address: SocketAddr,
    seen: Seen,
    _serving: JoinSet<Result<(), tonic::transport::Error>>,
}

#[derive(Clone)]
struct Seen {
    manner: Manner,
    spans: Arc<Mutex<Vec<Span>>>,
    keys: Arc<Mutex<BTreeSet<String>>>,
    services: Arc<Mutex<BTreeSet<String>>>,
}

#[tonic::async_trait]
impl TraceService for Seen {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut rejected = 0;
        match self.manner {
            Manner::Takes => {}
            Manner::Silent => std::future::pending().await,
            Manner::Fails => return Err(Status::internal("no room")),
            Manner::Rejects => rejected = i64::MAX,
        }
        let key = request.metadata().get("x-key");
        let key = key.map(|key| key.to_str().unwrap().to_owned());
        self.keys.lock().extend(key);
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            let name = attributes.iter().find(|a| a.key == "service.name").unwrap();
            if let Some(Value::StringValue(name)) = name.value.clone().unwrap().value {
                self.services.lock().insert(name);
            }
            let spans = resource
                .scope_spans
                .into_iter()
                .flat_map(|scope| scope.spans);
            self.spans.lock().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse {
            partial_success: (rejected > 0).then(|| ExportTracePartialSuccess {
                rejected_spans: rejected,
                error_message: "not today".to_owned(),
            }),
        }))
    }
}

impl Receiver {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Seen {
            manner,
            spans: Arc::default(),
            keys: Arc::default(),
            services: Arc::default(),
        };
        let service = TraceServiceServer::new(seen.clone());
        let mut serving = JoinSet::new();
        let served = Server::builder().add_service(service);
        serving.spawn(served.serve_with_incoming(TcpIncoming::from(listener)));
        Self {
            address,
            seen,
            _serving: serving,
        }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans of one trace.
    pub fn trace(&self, id: &str) -> Vec<Span> {
        let spans = self.seen.spans.lock();
        let of_it = spans.iter().filter(|span| hex(&span.trace_id) == id);
        of_it.cloned().collect()
    }

    /// The names of all traces.
    pub fn traces(&self) -> Vec<String> {
        let spans = self.seen.spans.lock();
        let ids: BTreeSet<_> = spans.iter().map(|span| hex(&span.trace_id)).collect();
        ids.into_iter().collect()
    }

    /// What was shown in the header `x-key`.
    pub fn keys(&self) -> Vec<String> {
        self.seen.keys.lock().iter().cloned().collect()
    }

    /// Who sent spans.
    pub fn services(&self) -> Vec<String> {
        self.seen.services.lock().iter().cloned().collect()
    }
}

/// As identifiers are written.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
