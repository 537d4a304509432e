//! The encoder over HTTP against llama.cpp's own server, which speaks OpenAI's form.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroUsize;
use std::time::Duration;

use spechop_ports::{Call, Encoder, PortError, TextKind, contract};
use spechop_testkit::llama_server::{KEY, LlamaServer};
use spechop_web::{EmbeddingForm, HttpEncoder, HttpEncoderOptions};

/// The width of SmolLM2-135M, whose hidden states are good enough for a test.
const WIDTH: usize = 576;

fn encoder(server: &LlamaServer, width: usize, key: &str) -> HttpEncoder {
    let url = format!("{}/v1/embeddings", server.url());
    let width = NonZeroUsize::new(width).unwrap();
    let mut options = HttpEncoderOptions::new(url, EmbeddingForm::OpenAi, "smollm2", width);
    options.service.endpoint.key = Some(key.into());
    // One thread of a busy machine.
    options.service.endpoint.time_limit = Duration::from_secs(120);
    options.service.total = Duration::from_secs(240);
    options.batch = NonZeroUsize::new(8).unwrap();
    HttpEncoder::new(options).unwrap()
}

#[tokio::test]
async fn a_real_server_encodes() {
    let server = LlamaServer::embeddings();
    let real = encoder(&server, WIDTH, KEY);
    contract::encoder(&real).await;
    let texts = (0..20)
        .map(|n| format!("Passage {n} of a long list."))
        .collect();
    let call = Call::authoritative();
    let encoded = real.encode(&call, TextKind::Passage, texts).await;
    assert_eq!(encoded.unwrap().vectors.len(), 20);

    let outcome = encoder(&server, 384, KEY).encode_query(&call, "q").await;
    let Err(PortError::Malformed { detail, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        detail.starts_with("a vector of 576 components instead of 384"),
        "{detail}"
    );
    let outcome = encoder(&server, WIDTH, "sk-wrong")
        .encode_query(&call, "q")
        .await;
    assert!(
        matches!(outcome, Err(PortError::Refused { .. })),
        "{outcome:?}"
    );
}
