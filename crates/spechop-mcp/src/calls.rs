//! The calls under way of clients that said hello, so that a client can take one back.
//!
//! Over HTTP a cancellation (`notifications/cancelled`) comes as a request of its own, and the door keeps
//! no session that would join it to the call. So whoever answers gives each client a secret name in its
//! `Mcp-Session-Id`, which clients send along with all that they say. It is no more than this name: a
//! server that has never heard it answers the same, and only a cancellation finds nothing to end.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use spechop_types::Tenant;
use tokio_util::sync::CancellationToken;

/// The header with the name that a client got when it said hello.
pub const CLIENT: &str = "mcp-session-id";

/// Calls that are remembered. Another one is answered all the same, to its end.
const CALLS_MAX: usize = 4096;
/// Of a client's name, and of its number of a call. Ours are shorter.
const NAME_BYTES_MAX: usize = 64;
/// What is longer is neither a hello nor a cancellation, and no call that is worth a second reading.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What a client says that matters here.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// It begins.
    Hello,
    /// It calls a tool, under this number.
    Call(String),
    /// It does not wait for the answer to this number any longer.
    Cancelled(String),
}

impl Said {
    /// Reads the body of a request. `None` if it is about something else.
    pub fn of(body: &[u8]) -> Option<Self> {
        let body = (body.len() <= BODY_BYTES_MAX).then_some(body)?;
        let message: Value = serde_json::from_slice(body).ok()?;
        // As JSON: a number and a text that looks like it are two numbers.
        match message["method"].as_str()? {
            "initialize" => Some(Self::Hello),
            "tools/call" => Some(Self::Call(message["id"].to_string())),
            "notifications/cancelled" => {
                let number = &message["params"]["requestId"];
                Some(Self::Cancelled(number.to_string()))
            }
            _ => None,
        }
    }
}

/// Which call it is. Clients of two tenants never mean the same one, whatever they say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallId {
    /// Whose client it is.
    pub tenant: Tenant,
    /// The name that the client says it has.
    pub client: String,
    /// The client's number of the call.
    pub number: String,
}

/// The calls under way. Clones are the same.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<HashMap<CallId, CancellationToken>>>);

impl Calls {
    /// Remembers a call for as long as the result lives. `None` if it is one of too many, or if its client
    /// has another one of this number under way.
    pub fn begin(&self, id: CallId) -> Option<UnderWay> {
        let mut calls = self.0.lock();
        let is_long = id.client.len().max(id.number.len()) > NAME_BYTES_MAX;
        if is_long || calls.len() >= CALLS_MAX || calls.contains_key(&id) {
            return None;
        }
        let cancelled = CancellationToken::new();
        calls.insert(id.clone(), cancelled.clone());
        let calls = self.clone();
        Some(UnderWay {
            calls,
            id,
            cancelled,
        })
    }

    /// Takes a call back, if it is under way.
    pub fn cancel(&self, id: &CallId) {
        if let Some(call) = self.0.lock().get(id) {
            call.cancel();
        }
    }
}

/// A call that can be taken back. Dropping it forgets the call.
pub struct UnderWay {
    calls: Calls,
    id: CallId,
    cancelled: CancellationToken,
}

impl UnderWay {
    /// Comes when the client has taken the call back.
    pub async fn cancelled(self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.calls.0.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn id(tenant: &str, client: &str, number: &str) -> CallId {
        let tenant = match tenant {
            "" => Tenant::default(),
            name => Tenant::new(name).unwrap(),
        };
        CallId {
            tenant,
            client: client.to_owned(),
            number: number.to_owned(),
        }
    }

    #[test]
    fn a_body_says_what_it_says() {
        for (body, expected) in [
            (r#"{"id":0,"method":"initialize"}"#, Some(Said::Hello)),
            (
                r#"{"id":7,"method":"tools/call"}"#,
                Some(Said::Call("7".into())),
            ),
            (
                r#"{"id":"7","method":"tools/call"}"#,
                Some(Said::Call("\"7\"".into())),
            ),
            (
                r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#,
                Some(Said::Cancelled("7".into())),
            ),
            (r#"{"id":1,"method":"tools/list"}"#, None),
            ("[]", None),
            ("no JSON", None),
        ] {
            assert_eq!(Said::of(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn only_the_client_itself_takes_its_call_back() {
        let calls = Calls::default();
        let call = calls.begin(id("", "a", "7")).unwrap();
        let mut cancelled = Box::pin(call.cancelled());
        for other in [id("", "a", "8"), id("", "b", "7"), id("other", "a", "7")] {
            calls.cancel(&other);
            assert!(cancelled.as_mut().now_or_never().is_none(), "{other:?}");
        }
        calls.cancel(&id("", "a", "7"));
        assert!(cancelled.now_or_never().is_some());
    }

    #[test]
    fn an_ended_call_is_forgotten_and_there_are_never_too_many() {
        let calls = Calls::default();
        let begin = |at: usize| calls.begin(id("", "a", &at.to_string()));
        let under_way: Vec<_> = (0..CALLS_MAX).map(|at| begin(at).unwrap()).collect();
        assert!(begin(CALLS_MAX).is_none());
        drop(under_way);
        assert!(calls.0.lock().is_empty());
        let first = begin(0).unwrap();
        assert!(begin(0).is_none(), "which of two is meant, nobody knows");
        drop(first);
        assert!(calls.0.lock().is_empty());
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert!(calls.begin(id("", &long, "7")).is_none());
    }
}
