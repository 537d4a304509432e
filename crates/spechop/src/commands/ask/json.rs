//! A response as JSON: the canonical mapping of protobuf, with the field names of `proto/`.

use anyhow::Context;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use spechop_proto::{AskResponse, DESCRIPTORS};

/// The response in one line. Fields that hold their default are written too, numbers as numbers.
pub(super) fn of(response: &AskResponse) -> anyhow::Result<String> {
    let pool = DescriptorPool::decode(DESCRIPTORS).context("our own descriptors are damaged")?;
    let kind = pool
        .get_message_by_name("spechop.v1.AskResponse")
        .context("our own descriptors lack the response")?;
    let message = DynamicMessage::decode(kind, response.encode_to_vec().as_slice())
        .context("the response does not fit its description")?;
    let mut line = Vec::new();
    let mut json = serde_json::Serializer::new(&mut line);
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    message
        .serialize_with_options(&mut json, &options)
        .context("the response has no JSON form")?;
    String::from_utf8(line).context("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use spechop_proto::{CommitKind, Hop, StopReason};

    use super::*;

    #[test]
    fn has_the_names_of_the_proto_file() {
        let response = AskResponse {
            answer: "Łódź".into(),
            hops: vec![Hop {
                kind: CommitKind::Accepted.into(),
                guess: Some("x".into()),
                ..Hop::default()
            }],
            stop_reason: StopReason::Answered.into(),
            ..AskResponse::default()
        };
        let json: serde_json::Value = serde_json::from_str(&of(&response).unwrap()).unwrap();
        assert_eq!(json["answer"], "Łódź");
        assert_eq!(json["hops"][0]["kind"], "COMMIT_KIND_ACCEPTED");
        assert_eq!(json["hops"][0]["guess"], "x");
        assert_eq!(json["stop_reason"], "STOP_REASON_ANSWERED");
        assert_eq!(json["elapsed_ms"], 0.0);
    }
}
