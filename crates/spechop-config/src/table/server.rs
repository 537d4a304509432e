//! The keys of the server itself, and of whoever may ask.

use super::DefaultValue::{Example, Is};
use super::Kind::{File, Flag, List, Number, Parsed, Text, Whole};
use super::{Key, MS_MAX, keys};

/// `[server]`.
pub(super) static SERVER: &[Key] = keys! {
    /// The address to listen on. An address that other machines can reach is refused if anybody could ask:
    /// there must be API keys ([[keys]] below) or tls_client_ca, or allow_remote must say that the network
    /// protects the server.
    listen: Parsed("an address such as 127.0.0.1:50051"), Is(r#""127.0.0.1:50051""#);
    /// Whether anybody on the network may ask, because the network protects the server. `spechop serve
    /// --insecure` says the same.
    allow_remote: Flag, Is("false");
    /// The certificate of TLS with those that lead to its authority, in PEM form. Its content is read again
    /// when it changes, as that of the two files below.
    tls_cert: File, Example(r#""/etc/spechop/tls.crt""#);
    /// The key of the first certificate in tls_cert, in PEM form.
    tls_key: File, Example(r#""/etc/spechop/tls.key""#);
    /// The authorities of clients. Every client must then have a certificate of one of them.
    tls_client_ca: File, Example(r#""/etc/spechop/clients.crt""#);
    /// A file with more [[keys]], and nothing else in it.
    keys_file: File, Example(r#""/etc/spechop/keys.toml""#), live;
    /// How often this file and the files of TLS and of keys are looked at. If their content has changed, it
    /// counts from then on; if it cannot be used, the old one stays, the log says why, and it is tried again at
    /// every look. SIGHUP looks at once.
    reload_ms: Whole(1, MS_MAX), Is("30000");
    /// The most questions at once. Further questions wait in line for a place.
    questions_max: Whole(1, 65_536), Is("32"), live;
    /// The longest that a question waits for a place. Then it is refused with RESOURCE_EXHAUSTED. 0 refuses at
    /// once. Free places go to tenants in turns, first to those with the fewest open questions. A question
    /// never waits beyond its own deadline or budget of time.
    queue_ms: Whole(0, MS_MAX), Is("1000"), live;
    /// The most questions in line. If there are more, a question is refused at once: the newcomer, or the
    /// newest question of the tenant with the most in line if the newcomer's tenant has at least two fewer. 0
    /// for no line.
    queue_max: Whole(0, 4096), Is("64"), live;
    /// The names by which clients may address the server, separated by commas, beside localhost and
    /// 127.0.0.1, each without scheme and port. On a loopback address, other names are refused: a web page in a
    /// browser of this machine may have its own name point here. Name the server's public name if a proxy on
    /// this machine passes it on. On another address, other names are refused if any is given here. An IP
    /// address is always accepted there.
    hosts: Text, Example(r#""qa.example.org""#);
    /// The most connections at once. If there are more, idle ones are closed: first those that have never
    /// asked anything. The next call of such a client may fail. Each connection takes a file descriptor.
    connections_max: Whole(1, 65_536), Is("2048");
    /// The most bytes of one request.
    message_bytes_max: Whole(8192, 16 << 20), Is("16384");
    /// The longest that one request may take to arrive. A client that says nothing is closed after the same
    /// time.
    message_ms_max: Whole(1, MS_MAX), Is("10000");
    /// How long a client may read nothing of a stream in which events wait. Then the stream ends with
    /// ABORTED. Until a stream is read to its end, its question counts as open. After twice that time, a
    /// connection that takes nothing of an answer is closed.
    unread_ms: Whole(1, MS_MAX), Is("60000");
    /// The longest that a question may continue if its client has gone away and nobody else follows it
    /// (linger_ms of a request).
    linger_ms_max: Whole(0, MS_MAX), Is("60000"), live;
    /// How long the events of a question can still be read after its end.
    kept_ms: Whole(0, MS_MAX), Is("60000");
    /// The most bytes of all events that are kept, those of open questions included. One question has an
    /// eighth of them at most.
    kept_bytes_max: Whole(0, 16 << 30), Is("33554432");
    /// The most requests a second of one connection in the long run, and the most at once after a pause.
    /// Further requests wait.
    requests_per_second: Whole(1, 1_000_000), Is("200");
    /// Whether POST /retrieve answers with passages, for other programs and other SpecHop servers. It takes
    /// {"queries": ["…"], "topk": 5, "return_scores": true}: at most 64 queries, and topk up to
    /// question.passages_max. It answers with {"result": [[{"document": {…}, "score": …}]]}, as the retriever
    /// of Search-R1 does. Each query counts as a target call of its tenant. The content-type must be
    /// application/json.
    retrieve: Flag, Is("false");
    /// How many outputs of tool calls clients may leave with POST /v1/tool-cache. A look-up of the same tenant
    /// that asks just that takes the output in place of a search. 0 for none: then the path does not exist.
    tool_outputs: Whole(0, 65_536), Is("0");
    /// Whether clients of MCP (Claude, ChatGPT, Cursor, ...) are answered at POST /mcp with the tools search,
    /// fetch and ask. Such clients cut a call off after about a minute, so an answer is written from the
    /// committed hops after mcp_budget_ms, unless the client names another budget.
    mcp: Flag, Is("true");
    /// When an answer to a client of MCP is written, unless the client names another budget.
    mcp_budget_ms: Whole(1, MS_MAX), Is("50000");
    /// The address by which clients reach the server, if a proxy stands before it. Links to passages (citations,
    /// results of MCP) begin with it. Without it they begin with the address of the request, and with https if
    /// the server itself speaks TLS.
    public_url: Parsed("an address such as https://qa.example.org"), Example(r#""https://qa.example.org""#);
    /// How long open questions may continue after SIGTERM, and clients may read on what they were answered. What the
    /// server has learnt is saved behind that, so whoever stops it must wait some seconds longer before they kill it:
    /// TimeoutStopSec of systemd, stop_grace_period of Compose (SPECHOP_STOP_GRACE), terminationGracePeriodSeconds of
    /// the chart.
    shutdown_grace_ms: Whole(0, MS_MAX), Is("10000");
};

/// `[page]`.
pub(super) static PAGE: &[Key] = keys! {
    /// How long a link works that shows one run of a question to whoever has the link, without a key, in
    /// seconds; a month at most. 0 makes none: then the page has no button for it.
    share_s: Whole(0, 2_592_000), Is("0");
};

/// `[otlp]`.
pub(super) static OTLP: &[Key] = keys! {
    /// A receiver of OTLP over gRPC. Without it nothing is sent.
    endpoint: Text, Example(r#""http://127.0.0.1:4317""#);
    /// The share of the questions whose spans are kept, 1.0 by default. A caller that brings a trace (traceparent)
    /// has decided that itself.
    sample: Number(0.0, 1.0), Example("0.1");
    /// Of those, the spans of at most so many questions that begin in the same second. A trace costs as much as a
    /// tenth of a question whose tools take no time, so a busy server tells of some. Traces of callers are kept
    /// beyond that.
    per_second: Whole(1, 1_000_000), Is("100");
    /// Sent with every request to the receiver, as name=value with commas between them. It is better off in the
    /// variable SPECHOP_OTLP_HEADERS.
    headers: Text, Example(r#""authorization=Bearer …""#), secret;
};

/// `[audit]`.
pub(super) static AUDIT: &[Key] = keys! {
    /// The share of the answered questions that is answered again.
    share: Number(0.0, 1.0), Is("0.0");
    /// The most audits of an hour.
    per_hour: Whole(1, 1_000_000), Is("60");
};

/// `[chaos]`.
pub(super) static CHAOS: &[Key] = keys! {
    /// The chance that a call is late.
    late: Number(0.0, 1.0), Is("0.0");
    /// The chance that it fails.
    error: Number(0.0, 1.0), Is("0.0");
    /// The chance that it hangs.
    hang: Number(0.0, 1.0), Is("0.0");
    /// The chance that it brings garbage.
    garbage: Number(0.0, 1.0), Is("0.0");
    /// The chance that its answer is lost.
    disconnect: Number(0.0, 1.0), Is("0.0");
    /// By how much a late call is late, at most.
    late_ms: Whole(1, MS_MAX), Is("1000");
    /// How long an episode of faults lasts.
    on_ms: Whole(1, MS_MAX), Is("10000");
    /// The time between two episodes; 0 for one that never ends.
    off_ms: Whole(0, MS_MAX), Is("0");
    /// Which ports: planner, retriever, reader, speculator, draft_writer, rewriter. By default all.
    ports: List, Example(r#"["retriever"]"#);
    /// The number that faults are drawn from.
    seed: Whole(0, u64::MAX), Is("1");
};

/// `[jwt]`.
pub(super) static JWT: &[Key] = keys! {
    /// The public keys of the identity provider (JWKS): an address that begins with https:// (http:// only on
    /// this machine), or a file. Without it no tokens are taken. Redirects are not followed.
    jwks: Text, Example(r#""https://id.example.org/.well-known/jwks.json""#), live;
    /// Who must have made a token (its claim iss).
    issuer: Text, Example(r#""https://id.example.org/""#), live;
    /// For whom a token must be meant (its claim aud).
    audience: Text, Example(r#""spechop""#), live;
    /// The claim that names the tenant. A token without it, or with another kind of name there, is refused. Full
    /// stops lead into objects: "realm_access.tenant".
    tenant_claim: Text, Is(r#""sub""#), live;
    /// The claim that says what the token opens beside questions: a list of words, or a text with spaces between
    /// them.
    roles_claim: Text, Is(r#""roles""#), live;
    /// The word in roles_claim that opens the admin service and /metrics.
    admin_role: Text, Is(r#""spechop-admin""#), live;
    /// How far the provider's clock may be from ours, in whole seconds.
    leeway_ms: Whole(0, 600_000), Is("60000"), live;
    /// How often the public keys are read again. If a token names a key that is not known, they are read sooner,
    /// but not more than once in 5 seconds. If they cannot be read, those that are known stay.
    refresh_ms: Whole(1000, MS_MAX), Is("600000"), live;
};

/// `[keys]`.
pub(super) static KEYS: &[Key] = keys! {
    /// Its name, which stands in the key itself.
    name: Text, Example(r#""laptop""#), live;
    /// The Argon2id hash of the key.
    hash: Text, Example(r#""$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH""#), live, secret;
    /// On whose behalf the key may be used.
    tenant: Text, Example(r#""team-7""#), live;
    /// What the key opens: "ask", "admin".
    roles: List, Example(r#"["ask"]"#), live;
    /// The most requests a second with this key in the long run.
    requests_per_second: Number(0.001, 1e6), Example("10"), live;
    /// The most requests at once after a pause.
    requests_burst: Whole(1, u32::MAX as u64), Example("20"), live;
};
