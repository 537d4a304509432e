//! What clients are told that know nothing of the server yet.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::support::Server;
use futures::stream;
use spechop_testkit::Script;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[tokio::test(flavor = "multi_thread")]
async fn reflection_knows_services_and_the_details_of_their_errors() {
    let server = Server::start(Script::instant(1)).await;
    let mut client = ServerReflectionClient::new(server.channel().await);
    for symbol in [
        "spechop.v1.SpecHop",
        "google.rpc.BadRequest",
        "google.rpc.RetryInfo",
    ] {
        let asked = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(symbol.to_owned())),
        };
        let told = client.server_reflection_info(stream::iter([asked])).await;
        let told = told.unwrap().into_inner().message().await.unwrap();
        let told = told.unwrap().message_response;
        let is_known = matches!(told, Some(MessageResponse::FileDescriptorResponse(_)));
        assert!(is_known, "{symbol}: {told:?}");
    }
}
