//! The wire: messages, client and server of `spechop.v1`, generated from `proto/`.
//!
//! Nothing is written here by hand but the server's codec. Only `spechop-server`, `spechop-eval` and
//! the command line know these types.

mod codec;

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

/// The encoded `FileDescriptorSet` of the package, comments included: for reflection, and for
/// turning messages into JSON.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
