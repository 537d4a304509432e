//! A small web of its own for a test, and requests as they are written on the wire.

use std::net::SocketAddr;

use serde_json::Value;
use spechop_eval::dataset::CorpusPassage;
use spechop_eval::web::{Web, WebOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) fn passage(title: &str, text: &str) -> CorpusPassage {
    CorpusPassage {
        title: title.to_owned(),
        text: text.to_owned(),
    }
}

/// A small web of its own for a test.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What came back, whole or not.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

impl Served {
    pub(crate) async fn start(options: WebOptions) -> Self {
        let mut corpus = vec![
            passage(
                "Oder",
                "The Oder is a river in Central Europe. It rises in the Czech Republic.",
            ),
            passage(
                "Łódź",
                "Łódź is a city in Poland, \"famous\" for <film> & textiles.",
            ),
        ];
        let others =
            (0..30).map(|n| passage(&format!("River {n}"), "A river, among others, in Europe."));
        corpus.extend(others);
        Self::of(corpus, options).await
    }

    /// The same, made of these passages.
    pub(crate) async fn of(corpus: Vec<CorpusPassage>, options: WebOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let web = Web::new(corpus, options);
        #[expect(clippy::disallowed_methods, reason = "aborted by Drop")]
        let task = tokio::spawn(async move { web.serve(listener).await.unwrap() });
        Self { address, task }
    }

    /// One request as it is written here; reads at most `limit` bytes of the answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
        limit: u64,
    ) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // In HTTP/1.0 a body is never chunked: it ends with its connection.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        // A connection that is reset has brought what it has brought.
        let _ = stream.take(limit).read_to_end(&mut bytes).await;
        let end = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body: bytes[end + 4..].to_vec(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "User-Agent: test\r\n", "", u64::MAX)
            .await
    }

    pub(crate) async fn post(&self, path: &str, form: &str) -> Answer {
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        self.send("POST", path, kind, form, u64::MAX).await
    }

    /// The path of an address of this web.
    pub(crate) fn path<'a>(&self, url: &'a str) -> &'a str {
        url.strip_prefix(&format!("http://{}", self.address))
            .unwrap()
    }
}
