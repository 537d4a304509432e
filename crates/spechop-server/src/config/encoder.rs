//! Where the text encoder runs, in this process or behind HTTP.

use std::path::Path;

use spechop_web::{EmbeddingForm, HttpEncoderOptions};

use super::keys::Keys;
use super::models::api_key;
use super::read::{chosen_encoder, must_be_pulled};
use super::{Encoder, EncoderKind};
use crate::Env;

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
    let threads = keys.count_if("encoder.threads");
    let http = http(keys, env, form);
    let kind = match http {
        Some(options) => EncoderKind::Http(Box::new(options)),
        None => {
            must_be_pulled(keys, "encoder.dir", &dir, "encoder");
            EncoderKind::Onnx { dir, threads }
        }
    };
    let queries_kept = keys.size("encoder.queries_kept");
    let library = keys.path("runtime.onnxruntime");
    Encoder {
        kind,
        queries_kept,
        runtime_library: library.unwrap_or_else(|| models.join("onnxruntime/libonnxruntime.so")),
    }
}

fn http(keys: &mut Keys<'_>, env: &Env, form: Option<EmbeddingForm>) -> Option<HttpEncoderOptions> {
    let url = keys.text("encoder.url");
    let model = keys.text("encoder.model");
    let variable = keys.text("encoder.api_key_env");
    let width = keys.count("encoder.width");
    let prefixes = ["encoder.query_prefix", "encoder.passage_prefix"].map(|key| keys.verbatim(key));
    let batch = keys.count("encoder.batch");
    let at_once = keys.count("encoder.requests_max");
    let time_limit = keys.millis("encoder.ms_max");
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
