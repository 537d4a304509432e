//! llama.cpp's own server with the smallest model: one thread, a port of its choice, the key `sk-test`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::assets;

/// The key that it wants.
pub const KEY: &str = "sk-test";

/// Serves the model given until its standard input closes, which it does when the test dies.
const SERVE: &str = r"
import os, sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_parallel = int(sys.argv[2])
if sys.argv[3] == 'embeddings':
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
params.n_ctx = 2048 * params.n_parallel
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.hostnames = ['127.0.0.1']
params.port = 0
params.api_keys = ['sk-test']
params.warmup = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
";

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct LlamaServer {
    child: Child,
    url: String,
}

#[expect(
    clippy::expect_used,
    clippy::panic,
    reason = "for tests, which have no better answer"
)]
impl LlamaServer {
    /// One that writes texts, so many at once.
    pub fn texts(parallel: usize) -> Self {
        Self::start(parallel, "texts")
    }

    /// One that embeds texts.
    pub fn embeddings() -> Self {
        Self::start(1, "embeddings")
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn start(parallel: usize, what: &str) -> Self {
        let python = assets::data_dir().join("venv/bin/python");
        let model = assets::model_dir("smollm2-135m-instruct").join("model.gguf");
        let mut child = Command::new(&python)
            .args(["-c", SERVE])
            .arg(model)
            .args([&parallel.to_string(), what])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; `make test` sets it up from deploy/requirements-test.txt",
                    python.display()
                )
            });
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut url)
            .expect("a line");
        let url = url.trim().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "no server: {url:?}");
        Self { child, url }
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
