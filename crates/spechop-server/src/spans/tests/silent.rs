//! A receiver whose machine is gone: the connection to it says nothing, and does not end.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::*;

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes whatever it is sent.
struct Takes;

#[tonic::async_trait]
impl TraceService for Takes {
    async fn export(
        &self,
        _: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// The sockets are real, and so are the few seconds after which the silence is noticed.
#[tokio::test]
async fn a_receiver_that_has_fallen_silent_is_reached_anew_and_no_span_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let otlp = Otlp {
        endpoint: format!("http://{}", listener.local_addr().unwrap()),
        sample: 1.0,
        per_second: 100,
        headers: Vec::new(),
    };
    let counts = SpanCounts::default();
    let spans = Spans::new(Some(&otlp), counts.clone());
    let queue: &Queue = spans.queue().unwrap();
    queue.offer(empty_story());
    let receiver = async {
        let _silent = listener.accept().await.unwrap();
        let served = Server::builder().add_service(TraceServiceServer::new(Takes));
        served
            .serve_with_incoming(TcpIncoming::from(listener))
            .await
    };
    let mut exporter = Exporter::open(Some(&otlp), Some(queue)).unwrap();
    let exported = async {
        while counts.exported.get() == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = receiver => panic!("{ended:?}"),
        never = exporter.keep() => match never {},
        exported = timeout(PATIENCE, exported) => exported.unwrap(),
    }
    assert_eq!(counts.exported.get(), 1);
}
