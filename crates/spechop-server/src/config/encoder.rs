//! Where the text encoder runs, in this process or behind HTTP.

use std::num::NonZeroUsize;
use std::path::Path;

use spechop_web::{EmbeddingForm, HttpEncoderOptions};

use super::keys::Keys;
use super::models::api_key;
use super::read::{chosen_encoder, count, millis, must_be_pulled};
use super::{Encoder, EncoderKind};
use crate::Env;

/// What is asked twice is asked soon. A vector is 1.5 KB.
const QUERIES_KEPT: usize = 256;
/// E5-small's.
const WIDTH: usize = 384;

pub(super) fn encoder(keys: &mut Keys<'_>, data: &Path, env: &Env) -> Encoder {
    let models = data.join("models");
    let forms = [
        ("onnx", None),
        ("openai", Some(EmbeddingForm::OpenAi)),
        ("tei", Some(EmbeddingForm::Tei)),
    ];
    let form = keys.one_of("encoder.kind", &forms).flatten();
    // Every key is read whatever the kind, so that a variable can switch between them.
    let dir = keys.path("encoder.dir");
    let dir = dir.unwrap_or_else(|| models.join(chosen_encoder(&models)));
    let threads = keys.integer("encoder.threads", 1..=1024);
    let threads = threads.and_then(|threads| NonZeroUsize::new(usize::try_from(threads).ok()?));
    let http = http(keys, env, form);
    let kind = match http {
        Some(options) => EncoderKind::Http(Box::new(options)),
        None => {
            must_be_pulled(keys, "encoder.dir", &dir, "encoder");
            EncoderKind::Onnx { dir, threads }
        }
    };
    let kept = keys.integer("encoder.queries_kept", 0..=1_000_000);
    let library = keys.path("runtime.onnxruntime");
    Encoder {
        kind,
        queries_kept: kept
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(QUERIES_KEPT),
        runtime_library: library.unwrap_or_else(|| models.join("onnxruntime/libonnxruntime.so")),
    }
}

fn http(keys: &mut Keys<'_>, env: &Env, form: Option<EmbeddingForm>) -> Option<HttpEncoderOptions> {
    let url = keys.text("encoder.url");
    let model = keys.text("encoder.model");
    let variable = keys.text("encoder.api_key_env");
    let width = count(keys, "encoder.width", 65_536, WIDTH);
    let prefixes = ["encoder.query_prefix", "encoder.passage_prefix"].map(|key| keys.verbatim(key));
    let batch = count(keys, "encoder.batch", 4096, 32);
    let at_once = count(keys, "encoder.requests_max", 1024, 4);
    let time_limit = millis(keys, "encoder.ms_max", 1, 10_000);
    let form = form?;
    for (key, value) in [("encoder.url", &url), ("encoder.model", &model)] {
        if value.is_none() {
            keys.mistake(key, "an encoder behind HTTP needs it");
        }
    }
    let (url, model) = (url.unwrap_or_default(), model.unwrap_or_default());
    let mut options = HttpEncoderOptions::new(url, form, model, width);
    let endpoint = &mut options.service.endpoint;
    endpoint.key = variable.and_then(|name| api_key(keys, "encoder.api_key_env", &name, env));
    endpoint.time_limit = time_limit;
    let [query_prefix, passage_prefix] = prefixes;
    options.query_prefix = query_prefix.unwrap_or(options.query_prefix);
    options.passage_prefix = passage_prefix.unwrap_or(options.passage_prefix);
    (options.batch, options.at_once) = (batch, at_once);
    Some(options)
}
