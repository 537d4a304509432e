//! The wire: messages, client and server of `spechop.v1`, generated from `proto/`.
//!
//! Nothing is written here by hand but the server's codec, the JSON form, the options of a question and
//! a limit. Only `spechop-server`, `spechop-eval` and the command line know these types.

mod answer_options;
mod cited;
mod codec;
pub mod json;

pub use codec::RequestCodec;

mod generated {
    #![allow(clippy::all, missing_docs, unreachable_pub, reason = "generated")]
    tonic::include_proto!("spechop.v1");
}

mod generated_server {
    #![allow(clippy::all, missing_docs, unreachable_pub, reason = "generated")]
    include!(concat!(env!("OUT_DIR"), "/server/spechop.v1.rs"));
}

pub use generated::*;
pub use generated_server::*;

/// The full name of the service, as health checks and reflection know it.
pub const SERVICE: &str = spec_hop_server::SERVICE_NAME;

/// No answer is longer, nor any event of a stream. Clients should take so much: the default of many
/// libraries is 4 MiB, which an answer with many long passages exceeds.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;

/// The encoded `FileDescriptorSet` of the package, comments included: for reflection, and for
/// turning messages into JSON.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The code as gRPC's documents write it.
pub fn code_name(code: tonic::Code) -> String {
    let mut name = String::new();
    for (at, c) in format!("{code:?}").char_indices() {
        if at > 0 && c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn codes_are_written_as_everywhere() {
        assert_eq!(code_name(Code::DeadlineExceeded), "DEADLINE_EXCEEDED");
        assert_eq!(code_name(Code::Ok), "OK");
    }
}
