//! The door for gRPC: `spechop.v1.SpecHop`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use spechop_proto::spec_hop_server::SpecHop;
use spechop_proto::{
    AskEvent, AskRequest, AskResponse, CancelRequest, CancelResponse, FinishNowRequest,
    FinishNowResponse, GetAnswerRequest, ResumeRequest,
};
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status};

use crate::admission::{Admission, Admitted};
use crate::caller::{self, Caller, caller};
use crate::events::{self, Events};
use crate::status::AskError;
use crate::transport::GrpcTimeout;

/// The service behind `spechop.v1.SpecHop`.
pub(super) struct Grpc {
    admission: Admission,
}

impl Grpc {
    pub(super) fn new(admission: Admission) -> Self {
        Self { admission }
    }

    async fn admit(&self, request: &Request<AskRequest>) -> Result<Admitted, AskError> {
        let read = caller_of(request).and_then(|caller| Ok((caller, patience(request)?)));
        let (caller, patience) = read.inspect_err(|error| self.admission.refused(error))?;
        let admitted = self.admission.admit(request.get_ref(), &caller, patience);
        admitted.await
    }
}

/// A stream of events on its way to a client.
type EventStream = Pin<Box<dyn Stream<Item = Result<AskEvent, Status>> + Send>>;

#[tonic::async_trait]
impl SpecHop for Grpc {
    /// tonic drops this future when the client goes away, and the question with it.
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let admitted = self.admit(&request).await?;
        let name = admitted.may_be_followed.then(|| admitted.name().to_owned());
        let answer = Box::pin(events::answer(admitted)).await;
        let answer = answer.map_err(|error| told(&error))?;
        Ok(named(Response::new(answer), name.as_deref()))
    }

    type AskStreamStream = EventStream;

    async fn ask_stream(
        &self,
        request: Request<AskRequest>,
    ) -> Result<Response<EventStream>, Status> {
        let admitted = self.admit(&request).await?;
        let events = Events::of(admitted).map_err(|error| told(&error))?;
        Ok(streamed(events))
    }

    async fn finish_now(
        &self,
        request: Request<FinishNowRequest>,
    ) -> Result<Response<FinishNowResponse>, Status> {
        let caller = caller_of(&request)?;
        let question_id = &request.get_ref().question_id;
        self.admission.finish_now(question_id, &caller)?;
        Ok(Response::new(FinishNowResponse {}))
    }

    type ResumeStream = EventStream;

    async fn resume(
        &self,
        request: Request<ResumeRequest>,
    ) -> Result<Response<EventStream>, Status> {
        let caller = caller_of(&request)?;
        let ResumeRequest { question_id, after } = request.get_ref();
        let events = Events::resume(&self.admission, question_id, *after, &caller)?;
        Ok(streamed(events))
    }

    async fn get_answer(
        &self,
        request: Request<GetAnswerRequest>,
    ) -> Result<Response<AskResponse>, Status> {
        let caller = caller_of(&request)?;
        let events = Events::last(&self.admission, &request.get_ref().question_id, &caller)?;
        Ok(Response::new(
            events.answer().await.map_err(|error| told(&error))?,
        ))
    }

    async fn cancel(
        &self,
        request: Request<CancelRequest>,
    ) -> Result<Response<CancelResponse>, Status> {
        let caller = caller_of(&request)?;
        let question_id = &request.get_ref().question_id;
        self.admission.cancel(question_id, &caller)?;
        Ok(Response::new(CancelResponse {}))
    }
}

/// An error that all readers of a question share. A client can tell by [`ENDED`] that asking for the same events
/// again would only bring it again: the connection is not what is lost.
fn told(error: &Arc<AskError>) -> Status {
    let mut status: Status = (&**error).into();
    // Another server may answer.
    if !matches!(**error, AskError::ShuttingDown) {
        let yes = MetadataValue::from_static("1");
        status.metadata_mut().insert(ENDED, yes);
    }
    status
}

/// With the error with which a question has ended.
const ENDED: &str = "spechop-ended";

fn streamed(events: Events) -> Response<EventStream> {
    let name = events.name().to_owned();
    let events = events.map(|event| {
        event
            .map(Arc::unwrap_or_clone)
            .map_err(|error| told(&error))
    });
    named(Response::new(Box::pin(events)), Some(name.as_str()))
}

/// Tells the client the name of its question, which it may not have given itself; `None` if nobody can come
/// back to it.
fn named<T>(mut response: Response<T>, name: Option<&str>) -> Response<T> {
    // Names are letters, digits and some marks.
    if let Some(Ok(name)) = name.map(str::parse) {
        response.metadata_mut().insert("spechop-question-id", name);
    }
    response
}

/// Who makes this call. If its deadline cannot be read, it is refused, whatever it is for: it might take longer
/// than its client waits.
fn caller_of<T>(request: &Request<T>) -> Result<Caller, AskError> {
    patience(request)?;
    caller(request.metadata().as_ref(), request.extensions())
}

/// How long the client waits for this call, if it says so.
fn patience<T>(request: &Request<T>) -> Result<Option<Duration>, AskError> {
    let header = caller::only(GrpcTimeout::KEY, request.metadata().as_ref());
    let Some(header) = header.map_err(|wrong| AskError::Invalid(vec![wrong]))? else {
        return Ok(None);
    };
    let Some(timeout) = GrpcTimeout::read(header) else {
        let problem = "must be at most eight digits and a unit: H, M, S, m, u or n";
        return Err(AskError::wrong(GrpcTimeout::KEY, problem));
    };
    Ok(Some(timeout.for_question()))
}
