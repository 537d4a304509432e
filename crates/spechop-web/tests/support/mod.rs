//! A web of a few sites on this machine: raw answers over real sockets.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "helpers of tests, each of which uses a part of them"
)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use spechop_ports::{Call, Seat};
use spechop_web::page::{HttpPageReader, Page, PageFailure, PageOptions, PageReader};

/// What the environment names a proxy by.
pub(crate) const PROXIES: [&str; 6] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
];

/// Runs a test of a module again, in a process of its own that this changes the environment of. It must pass.
pub(crate) fn run_again(module: &str, test: &str, change: impl FnOnce(&mut Command)) {
    let (_, module) = module.split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("{module}::{test}")]);
    child.env_remove("no_proxy").env_remove("NO_PROXY");
    change(&mut child);
    let ended = child.output().unwrap();
    // A name that is none passes as well.
    let has_run = String::from_utf8_lossy(&ended.stdout).contains("1 passed");
    assert!(ended.status.success() && has_run, "{test}: {ended:?}");
}

/// Answers requests on an address of this machine, and counts.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

/// What an answer is written to.
pub(crate) struct Answer<'a>(&'a mut TcpStream);

impl Answer<'_> {
    /// Whether it could be written: a client may have gone.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }

    /// Waits so long, or until the client hangs up.
    pub(crate) fn wait(&mut self, time: Duration) {
        let _ = self.0.set_read_timeout(Some(time));
        let _ = self.0.read(&mut [0]);
        let _ = self.0.set_read_timeout(None);
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }

    /// A whole answer of HTML.
    pub(crate) fn page(&mut self, html: impl AsRef<[u8]>) {
        self.ok("text/html; charset=utf-8", html);
    }

    pub(crate) fn ok(&mut self, kind: &str, body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = self.write(head) && self.write(body);
    }

    pub(crate) fn status(&mut self, status: u16) {
        self.write(format!(
            "HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n"
        ));
    }

    pub(crate) fn redirect(&mut self, to: &str) {
        self.write(format!(
            "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"
        ));
    }
}

impl Site {
    /// A site on 127.0.0.1. `answer` gets the path of each request.
    pub(crate) fn start(answer: impl Fn(&str, &mut Answer<'_>) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), answer)
    }

    pub(crate) fn on(
        listener: TcpListener,
        answer: impl Fn(&str, &mut Answer<'_>) + Send + Sync + 'static,
    ) -> Self {
        let site = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (answer, connections) = (Arc::new(answer), Arc::clone(&site.connections));
        let requests = Arc::clone(&site.requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                connections.fetch_add(1, SeqCst);
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                thread::spawn(move || serve(stream, &*answer, &requests));
            }
        });
        site
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// As an operator would allow it.
    pub(crate) fn opening(&self) -> spechop_web::page::Opening {
        self.address.to_string().parse().unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// The heads of all requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &(impl Fn(&str, &mut Answer<'_>) + ?Sized),
    noted: &Mutex<Vec<String>>,
) {
    while let Some(head) = head(&mut stream) {
        let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
        noted.lock().push(head);
        answer(&path, &mut Answer(&mut stream));
    }
}

/// A request up to its blank line; `None` if the client is gone.
fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    String::from_utf8(head).ok()
}

/// Names and what they mean: one list of addresses after the other, the last one for ever.
#[derive(Default)]
pub(crate) struct Names(Mutex<HashMap<String, Meaning>>);

#[derive(Default)]
struct Meaning {
    asked: usize,
    answers: Vec<Vec<IpAddr>>,
}

impl Names {
    pub(crate) fn of(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let ips = |ips: &&[&str]| ips.iter().map(|ip| ip.parse().unwrap()).collect();
        let list = |answers: &[&[&str]]| Meaning {
            asked: 0,
            answers: answers.iter().map(ips).collect(),
        };
        let names = names
            .iter()
            .map(|(name, answers)| ((*name).to_owned(), list(answers)));
        Arc::new(Self(Mutex::new(names.collect())))
    }

    /// How often somebody has asked for it.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.0.lock()[name].asked
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let mut names = self.0.lock();
        let found = names.get_mut(name.as_str()).map(|name| {
            let at = name.asked.min(name.answers.len() - 1);
            name.asked += 1;
            name.answers[at].clone()
        });
        Box::pin(async move {
            let found = found.ok_or("no such name")?;
            let addresses = found.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// Counts how often it hears that a server asks for less.
#[derive(Default)]
pub(crate) struct PushedBack(AtomicUsize);

impl PushedBack {
    /// Hears what is said of this call.
    pub(crate) fn of(call: &Call) -> Arc<Self> {
        let heard = Arc::new(Self::default());
        let seat: Weak<Self> = Arc::downgrade(&heard);
        call.sit(seat);
        heard
    }

    pub(crate) fn times(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Seat for PushedBack {
    fn promoted(&self) {}

    fn pushed_back(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Options for sites on this machine: no `robots.txt`, and a limit that a busy machine keeps.
pub(crate) fn options(sites: &[&Site]) -> PageOptions {
    PageOptions {
        limit: Duration::from_secs(60),
        robots: false,
        ports: Vec::new(),
        allow: sites.iter().map(|site| site.opening()).collect(),
        ..PageOptions::default()
    }
}

pub(crate) async fn read(reader: &HttpPageReader, url: &str) -> Result<Page, PageFailure> {
    reader
        .read(&Call::authoritative(), &url.parse().unwrap())
        .await
}

/// An article long enough to be one.
pub(crate) fn article(title: &str) -> String {
    let paragraph = "The river rises in the hills behind the town, turns east at the old mill, and \
        reaches the sea after ninety miles of meadows, locks and low bridges. ";
    format!(
        "<!doctype html><html><head><title>{title}</title></head><body><nav><a href=/>Home</a></nav>\
         <article><h1>{title}</h1><p>{}</p><p>{}</p></article><footer>About us</footer></body></html>",
        paragraph.repeat(4),
        paragraph.repeat(4)
    )
}
