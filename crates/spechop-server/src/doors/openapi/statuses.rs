//! The statuses that the description promises, against those that errors become.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use spechop_agent::AgentError;
use spechop_ports::PortError;
use spechop_types::{Stage, Tenant};
use tonic_types::FieldViolation;

use super::PATHS;
use crate::accounts::Shortage;
use crate::finder::FindError;
use crate::places::InVain;
use crate::status::{AdminError, AskError, HttpError, TransportError};
use crate::transport::AccessError;

use Trouble::{
    Admission, Body, End, Fields, Find, Key, Known, Model, Passage, Past, Readers, Replay, Share,
    Simulation, Stopping, Unread, Way,
};

/// What can go wrong at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The request is meant for somebody else, or one of too many. So it is at every path.
    Way,
    /// Whoever sends it may not, or not now.
    Key,
    /// Its body is not what is taken here, or does not arrive. Of paths that take none nothing is promised.
    Body,
    /// Something in it is wrong.
    Fields,
    /// The question is not begun.
    Admission,
    /// The question ends without an answer.
    End,
    /// A question that others may follow is read by nobody.
    Unread,
    /// There is no such question.
    Known,
    /// Too many follow it.
    Readers,
    /// Some of its events are no longer kept.
    Past,
    /// It is not as far, or no longer there as a whole.
    Replay,
    /// It cannot be played again.
    Simulation,
    /// Its run cannot be shared.
    Share,
    /// A passage is not there, or the index cannot be read.
    Passage,
    /// No passages are found, or no vectors made.
    Find,
    /// There is no such model.
    Model,
    /// The server stops.
    Stopping,
}

/// A method, a path, what can go wrong there, and what is answered beside that: by the door itself, or by whoever
/// it asks.
type Described = (
    &'static str,
    &'static str,
    &'static [Trouble],
    &'static [u16],
);

const EVERY: &[Described] = &[
    ("get", "/", &[], &[]),
    ("get", "/page/{file}", &[], &[404]),
    ("get", "/s/{token}", &[], &[404]),
    ("get", "/s/{token}/events", &[], &[404]),
    ("get", "/healthz", &[], &[]),
    ("get", "/readyz", &[], &[503]),
    ("get", "/v1/openapi.json", &[], &[]),
    ("get", "/metrics", &[Key], &[]),
    ("get", "/p/{id}", &[Key, Passage], &[]),
    ("post", "/retrieve", &[Key, Body, Find], &[]),
    ("post", "/ask", &[Key, Body, Fields, Admission, End], &[]),
    (
        "post",
        "/v1/ask",
        &[Key, Body, Fields, Admission, End, Unread],
        &[],
    ),
    // Its other errors are events.
    (
        "post",
        "/v1/ask/stream",
        &[Key, Body, Fields, Admission],
        &[],
    ),
    (
        "get",
        "/v1/questions/{id}/events",
        &[Key, Fields, Known, Readers, Past],
        &[],
    ),
    (
        "get",
        "/v1/questions/{id}/answer",
        &[Key, Fields, Known, Readers, End, Unread],
        &[],
    ),
    (
        "post",
        "/v1/questions/{id}/finish",
        &[Key, Fields, Known],
        &[],
    ),
    (
        "post",
        "/v1/questions/{id}/cancel",
        &[Key, Fields, Known],
        &[],
    ),
    (
        "post",
        "/v1/questions/{id}/what-if",
        &[Key, Body, Fields, Known, Replay, Simulation],
        &[],
    ),
    (
        "post",
        "/v1/questions/{id}/share",
        &[Key, Fields, Known, Replay, Share],
        &[],
    ),
    ("delete", "/v1/questions/{id}/share", &[Key, Fields], &[]),
    (
        "post",
        "/v1/chat/completions",
        &[Key, Body, Fields, Model, Admission, End, Unread],
        &[],
    ),
    (
        "post",
        "/v1/embeddings",
        &[Key, Body, Fields, Model, Find],
        &[],
    ),
    ("get", "/v1/models", &[Key], &[]),
    ("get", "/v1/models/{id}", &[Key, Model], &[]),
    (
        "post",
        "/v1/tool-cache",
        &[Key, Body, Fields, Stopping],
        &[],
    ),
    (
        "post",
        "/v1/tool-cache/query",
        &[Key, Body, Fields, Stopping],
        &[],
    ),
    ("post", "/mcp", &[Key, Body], &[400, 404, 406]),
    ("get", "/mcp", &[Key], &[405]),
    ("delete", "/mcp", &[Key], &[405]),
];

/// Whoever adds an error says here where it comes, and adds it to [`refusals`].
fn of_transport(error: &TransportError) -> Option<Trouble> {
    match error {
        TransportError::OtherHost { .. }
        | TransportError::FromAPage
        | TransportError::TooMuchAtOnce => Some(Way),
        TransportError::Access(_) => Some(Key),
        TransportError::NotJson { .. }
        | TransportError::NotAForm { .. }
        | TransportError::Packed { .. }
        | TransportError::Late { .. }
        | TransportError::TooLong { .. }
        | TransportError::Broken(_) => Some(Body),
        // Of gRPC, of a path or a method that is not there, or of a request that no client of HTTP sends. Such
        // requests are answered so at every path, and no description of a path names that.
        TransportError::NotOneHost
        | TransportError::OutOfTime
        | TransportError::OldHttp { .. }
        | TransportError::NoSuchPath { .. }
        | TransportError::OtherMethod { .. }
        | TransportError::NotGrpc { .. } => None,
    }
}

/// The same, with [`errors`].
fn of_question(error: &AskError) -> &'static [Trouble] {
    match error {
        AskError::Invalid(_) => &[Fields, Find],
        AskError::Busy { .. } | AskError::TenantBusy { .. } => &[Admission],
        AskError::Overdrawn { .. } => &[Admission, Find],
        AskError::ShuttingDown => &[Admission, End, Find, Stopping],
        AskError::Agent(AgentError::Deadline { .. }) => &[Admission, End],
        AskError::Agent(AgentError::Stage { .. })
        | AskError::Cancelled
        | AskError::Alone { .. } => &[End],
        AskError::Lost => &[End, Simulation],
        AskError::Unread { .. } => &[Unread],
        AskError::NotOpen(_) => &[Known],
        AskError::TooManyReaders { .. } => &[Readers],
        AskError::TooOld { .. } => &[Past],
        AskError::NotNow(_) => &[Replay],
        AskError::SharesFull { .. } => &[Share],
        AskError::NoPassage { .. } => &[Passage],
        AskError::Port(_) => &[Passage, Find],
        AskError::NoModel { .. } => &[Model],
    }
}

const TIME: Duration = Duration::from_secs(1);

fn text() -> String {
    "x".to_owned()
}

fn refusals() -> Vec<TransportError> {
    let (shown, again_in, tenant) = ("API key", TIME, Tenant::default);
    let access = [
        AccessError::NoKey,
        AccessError::TwoKeys,
        AccessError::WrongKey,
        AccessError::WrongToken { problem: "x" },
        AccessError::NoTenant { claim: text() },
        AccessError::NoTokenKeys,
        AccessError::ChecksBusy,
        AccessError::NoRole { shown, role: "ask" },
        AccessError::OtherTenant {
            shown,
            tenant: tenant(),
        },
        AccessError::TenantTooFast {
            tenant: tenant(),
            again_in,
        },
        AccessError::KeyTooFast {
            key: text(),
            again_in,
        },
    ];
    let others = [
        TransportError::OtherHost { host: text() },
        TransportError::FromAPage,
        TransportError::TooMuchAtOnce,
        TransportError::NotJson { kind: text() },
        TransportError::NotAForm {
            kind: text(),
            origin: "no",
        },
        TransportError::Packed { coding: text() },
        TransportError::Late { limit: TIME },
        TransportError::TooLong { most: 1 },
        TransportError::Broken(axum::Error::new("x")),
    ];
    let access = access.into_iter().map(TransportError::Access);
    access.chain(others).collect()
}

fn ports() -> [PortError; 5] {
    [
        PortError::unavailable("x", "x"),
        PortError::timed_out("x", TIME),
        PortError::malformed("x", "x"),
        PortError::refused("x", "x"),
        PortError::too_long("x", "x"),
    ]
}

fn errors() -> Vec<AskError> {
    let tenant = Tenant::default;
    let shortage = Shortage::Strangers { again_in: TIME };
    let wait = InVain::NoLine;
    let mut all = vec![
        AskError::Invalid(vec![FieldViolation::new("x", "x")]),
        AskError::Busy {
            questions_max: 1,
            wait: InVain::NoLine,
        },
        AskError::TenantBusy {
            tenant: tenant(),
            most: 1,
            wait,
        },
        AskError::Overdrawn {
            tenant: tenant(),
            shortage,
        },
        AskError::ShuttingDown,
        AskError::Agent(AgentError::Deadline { committed: 0 }),
        AskError::Cancelled,
        AskError::Alone { linger: TIME },
        AskError::Lost,
        AskError::Unread { limit: TIME },
        AskError::NotOpen(tenant()),
        AskError::TooManyReaders { most: 1 },
        AskError::TooOld { after: 1, first: 9 },
        AskError::NotNow("x"),
        AskError::SharesFull { most: 1 },
        AskError::NoPassage { id: text() },
        AskError::NoModel { offered: text() },
    ];
    all.extend(ports().map(AskError::Port));
    let stage = |source| AgentError::Stage {
        hop: 2,
        stage: Stage::Target,
        source,
    };
    all.extend(ports().map(|source| AskError::Agent(stage(source))));
    all
}

/// What is told of passages and vectors: some errors have a status of their own there.
fn found() -> Vec<HttpError> {
    let asked = errors().into_iter();
    let asked = asked.filter(|error| of_question(error).contains(&Find));
    let own = [
        FindError::Busy { most: 1 },
        FindError::TenantBusy { most: 1 },
        FindError::Short {
            tenant: Tenant::default(),
            left: 1,
            look_ups: 2,
            again_in: TIME,
        },
        FindError::Late { limit: TIME },
    ];
    let all = asked.map(FindError::Ask).chain(own);
    all.map(|error| HttpError::from(&error)).collect()
}

/// The statuses that this may become.
fn statuses(trouble: Trouble) -> BTreeSet<u16> {
    let mut told: Vec<HttpError> = match trouble {
        Find => found(),
        Simulation => [AdminError::Busy { callers_max: 1 }, AdminError::Lost]
            .map(HttpError::from)
            .into(),
        _ => Vec::new(),
    };
    let refused = refusals().into_iter();
    let refused = refused.filter(|error| of_transport(error) == Some(trouble));
    told.extend(refused.map(HttpError::from));
    let ended = errors().into_iter();
    let ended = ended.filter(|error| trouble != Find && of_question(error).contains(&trouble));
    told.extend(ended.map(HttpError::from));
    assert!(!told.is_empty(), "{trouble:?}");
    told.iter().map(|error| error.status().as_u16()).collect()
}

#[test]
fn the_statuses_of_each_path_are_those_that_its_errors_become() {
    let document: Value = serde_json::from_str(PATHS).unwrap();
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            let statuses = responses
                .keys()
                .map(|status| status.parse::<u16>().unwrap());
            let errors: BTreeSet<u16> = statuses.filter(|status| *status >= 300).collect();
            described.insert((method.as_str(), path.as_str(), errors));
        }
    }
    let mut answered = BTreeSet::new();
    for &(method, path, troubles, own) in EVERY {
        let troubles = troubles.iter().copied().chain([Way]);
        let mut errors: BTreeSet<u16> = troubles.flat_map(statuses).collect();
        errors.extend(own);
        answered.insert((method, path, errors));
    }
    let only_described: Vec<_> = described.difference(&answered).collect();
    let only_answered: Vec<_> = answered.difference(&described).collect();
    assert!(
        only_described.is_empty() && only_answered.is_empty(),
        "described {only_described:#?}, answered {only_answered:#?}"
    );
}
