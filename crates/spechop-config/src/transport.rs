//! What strangers may hold on to.

use std::time::Duration;

/// How much of everything one connection, and all of them, may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Open connections. If there are more, idle ones make room.
    pub connections_max: usize,
    /// Names beside `localhost` and loopback addresses by which the server may be addressed.
    pub hosts: Vec<String>,
    /// Bytes of one request.
    pub message_bytes_max: usize,
    /// From the head of a request to its last byte, from the first sight of a connection to its first 24 bytes,
    /// and for the head itself over HTTP/1.
    pub message_time: Duration,
    /// How long a peer may leave an answer lying.
    pub stall_max: Duration,
    /// Requests of one connection come at this distance in the long run …
    pub request_interval: Duration,
    /// … and so many at once after a pause.
    pub request_burst: u32,
    /// Bytes of all requests of a connection that have not arrived whole or wait for their turn, heads included.
    pub unfinished_bytes_max: usize,
    /// The same of all connections together. Beyond, the one that holds most is closed.
    pub unfinished_total_max: usize,
    /// Bytes of all answers that wait for their readers. Beyond, the connection that has most of them is closed.
    pub unread_total_max: usize,
    /// The longest silence of a client in a call in which both sides talk.
    pub talk_pause_max: Duration,
}

impl Default for Transport {
    /// What suits a server of questions for a few hundred clients.
    fn default() -> Self {
        Self {
            connections_max: 2048,
            hosts: Vec::new(),
            message_bytes_max: 16 << 10,
            message_time: Duration::from_secs(10),
            stall_max: Duration::from_secs(120),
            request_interval: Duration::from_millis(5),
            request_burst: 200,
            unfinished_bytes_max: 768 << 10,
            unfinished_total_max: 32 << 20,
            unread_total_max: 256 << 20,
            talk_pause_max: Duration::from_secs(300),
        }
    }
}
