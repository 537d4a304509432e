//! Opens the text encoder of a configuration: for a server, or for whoever builds an index. What is
//! built and what is searched come from the same keys, so they cannot differ by accident.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spechop_config::EncoderKind;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_ports::{Call, Encoder, Vitals};
use spechop_web::{HttpEncoder, HttpEncoderOptions};

use crate::backends::Backends;
use crate::model_note::{compare_at, sha256s};
use crate::toolbox::OpenError;

const PART: &str = "encoder";

/// Longest wait for a batch of a build. A server that is started again, or that pushes back, should
/// not end a build of hours.
const PATIENCE: Duration = Duration::from_secs(600);
/// Most attempts after the first. With pauses of 8 s at most, they fill minutes.
const RETRIES_MAX: u32 = 60;

/// For a server. The files of a model have been compared with its note before.
pub(crate) fn for_answers(
    encoder: &spechop_config::Encoder,
    vitals: &Vitals,
    backends: &mut Backends,
) -> Result<Arc<dyn Encoder>, OpenError> {
    match &encoder.kind {
        EncoderKind::Onnx { dir, threads } => {
            let mut options = options(encoder, *threads);
            options.vitals = vitals.clone();
            onnx(dir, options)
        }
        EncoderKind::Http(options) => {
            let mut options = HttpEncoderOptions::clone(options);
            // What is sent at once is the backend's to say: it lets the needed calls go first.
            let at_once = std::mem::replace(&mut options.at_once, NonZeroUsize::MIN);
            Ok(backends.encodes_elsewhere(http(options)?, at_once))
        }
    }
}

/// For building an index, adding to it, or looking into it: the same vectors, got with patience and on
/// all cores. One text is encoded on the way, so that a wrong address, key or width is told before a
/// corpus is read. **Blocks** while a model is opened.
///
/// # Errors
///
/// If it cannot be opened, its files are damaged, or the server does not answer as it should.
pub async fn for_building(
    encoder: &spechop_config::Encoder,
) -> Result<Arc<dyn Encoder>, OpenError> {
    match &encoder.kind {
        EncoderKind::Onnx { dir, threads } => {
            // A damaged encoder builds an index that only the damaged encoder can search.
            for path in [&encoder.runtime_library, dir] {
                compare_at(path).map_err(OpenError::of(PART))?;
            }
            onnx(dir, options(encoder, *threads).side_by_side())
        }
        EncoderKind::Http(options) => {
            let mut options = HttpEncoderOptions::clone(options);
            let probe = http(options.clone())?;
            let probed = probe.encode_query(&Call::authoritative(), "ready?").await;
            probed.map_err(OpenError::of(PART))?;
            options.service.total = options.service.total.max(PATIENCE);
            options.service.retries.max = options.service.retries.max.max(RETRIES_MAX);
            http(options)
        }
    }
}

fn options(encoder: &spechop_config::Encoder, threads: NonZeroUsize) -> EncoderOptions {
    EncoderOptions {
        threads,
        ..EncoderOptions::new(&encoder.runtime_library)
    }
}

fn onnx(dir: &Path, mut options: EncoderOptions) -> Result<Arc<dyn Encoder>, OpenError> {
    // They have just been compared with the note.
    options.proven_sha256 = sha256s(dir);
    let encoder = OnnxEncoder::open(dir, &options).map_err(OpenError::of(PART))?;
    Ok(Arc::new(encoder))
}

fn http(options: HttpEncoderOptions) -> Result<Arc<dyn Encoder>, OpenError> {
    let encoder = HttpEncoder::new(options).map_err(OpenError::of(PART))?;
    Ok(Arc::new(encoder))
}
