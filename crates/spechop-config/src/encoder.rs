//! Where the text encoder runs, in this process or behind HTTP.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use spechop_ports::physical_cores;
use spechop_web::{EmbeddingForm, HttpEncoderOptions};

use super::keys::Keys;
use super::models::api_key;
use super::read::must_be_pulled;
use super::target::must_be_usable;
use super::{Encoder, EncoderKind};
use crate::Env;

/// The encoder of a data folder in which none was chosen.
const ENCODER: &str = "e5-small-v2-int8";

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
    let threads = keys.count_if("encoder.threads");
    let http = http(keys, env, form);
    let kind = match http {
        Some(options) => EncoderKind::Http(Box::new(options)),
        None => {
            let dir = match dir.map_or_else(|| chosen(&models), Ok) {
                Ok(dir) => {
                    must_be_pulled(keys, "encoder.dir", &dir, "encoder");
                    dir
                }
                Err(problem) => {
                    keys.mistake("encoder.dir", problem);
                    models.join(ENCODER)
                }
            };
            EncoderKind::Onnx {
                dir,
                threads: threads.unwrap_or_else(physical_cores),
            }
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

/// `spechop models pull encoder` notes in a small file which encoder it came to. A choice that cannot be read is
/// a choice: with another encoder, no index would fit.
fn chosen(models: &Path) -> Result<PathBuf, String> {
    let note = models.join("default-encoder");
    let name = match fs::read_to_string(&note) {
        Ok(name) => name,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read {}: {error}", note.display())),
    };
    Ok(models.join(match name.trim() {
        "" => ENCODER,
        name => name,
    }))
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
    let is_there = url.is_some();
    let (url, model) = (url.unwrap_or_default(), model.unwrap_or_default());
    let mut options = HttpEncoderOptions::new(url, form, model, width);
    options.service.set_time_limit(time_limit);
    let endpoint = &mut options.service.endpoint;
    endpoint.key = variable.and_then(|name| api_key(keys, "encoder.api_key_env", &name, env));
    if is_there {
        must_be_usable(keys, "encoder", endpoint);
    }
    let [query_prefix, passage_prefix] = prefixes;
    options.query_prefix = query_prefix.unwrap_or(options.query_prefix);
    options.passage_prefix = passage_prefix.unwrap_or(options.passage_prefix);
    (options.batch, options.at_once) = (batch, at_once);
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An encoder behind HTTP as these lines describe it, or what is wrong with them.
    fn read(lines: &str) -> Result<HttpEncoderOptions, Vec<String>> {
        let file = format!("[encoder]\nkind = \"tei\"\nmodel = \"m\"\n{lines}");
        let read = Keys::meaning(&file, &[], |keys, env| {
            encoder(keys, Path::new("data"), env)
        });
        match read?.kind {
            EncoderKind::Http(options) => Ok(*options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_has_the_time_of_one_request_at_least() {
        let url = "url = \"http://127.0.0.1:8080/embed\"";
        for (lines, attempt, total) in [("", 10, 30), ("ms_max = 60000", 60, 60)] {
            let service = read(&format!("{url}\n{lines}")).unwrap().service;
            assert_eq!(service.endpoint.time_limit.as_secs(), attempt);
            assert_eq!(service.total.as_secs(), total);
        }
    }

    #[test]
    fn an_address_that_cannot_be_asked_is_told_before_the_start() {
        for (lines, told) in [
            (
                "url = \"127.0.0.1:8080\"",
                "encoder.url (c.toml): the base URL of encoder is unusable",
            ),
            ("", "encoder.url (default): an encoder behind HTTP needs it"),
        ] {
            let mistakes = read(lines).expect_err(lines);
            assert_eq!(mistakes.len(), 1, "{lines}: {mistakes:?}");
            assert!(mistakes[0].starts_with(told), "{lines}: {mistakes:?}");
        }
    }
}
