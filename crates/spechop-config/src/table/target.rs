//! The keys of look-ups: where they go, and how calls get their turns.

use super::DefaultValue::{Example, Is, Usually};
use super::Kind::{File, Flag, List, Number, OneOf, Or, Text, Variable, Verbatim, Whole, Words};
use super::{Key, MS_MAX, keys};

/// `[target]`.
pub(super) static TARGET: &[Key] = keys! {
    /// Where look-ups go.
    kind: OneOf(&["index", "web", "http", "qdrant", "mcp"]), Is(r#""index""#);
    /// The whole address of "http". The next three keys are its own, too.
    url: Text, Example(r#""http://127.0.0.1:8000/retrieve""#);
    /// The variable that holds a bearer token.
    api_key_env: Variable, Example(r#""RETRIEVER_KEY""#);
    /// The longest that one request takes.
    http_ms_max: Whole(1, MS_MAX), Is("10000");
    /// Whether the tenant's name is sent along. Another SpecHop keeps tenants apart by it.
    with_tenant: Flag, Is("false");
};

/// `[target.mcp]`.
pub(super) static MCP: &[Key] = keys! {
    /// A program that is started with the server and ends with it, unless url names an MCP server.
    command: Words, Example(r#"["uvx", "wikipedia-mcp"]"#);
    /// The address of an MCP server that speaks streamable HTTP.
    url: Text, Example(r#""http://127.0.0.1:8000/mcp""#);
    /// The variable that holds a bearer token for it.
    api_key_env: Variable, Example(r#""MCP_KEY""#);
    /// The only variables of this environment that the program gets.
    env: List, Is(r#"["PATH", "HOME"]"#);
    /// The folder that the program starts in.
    dir: File, Example(r#""/srv/notes""#);
    /// The tool. If it is not there, the server does not start, and the error lists the tools that are.
    tool: Text, Example(r#""search""#);
    /// What the tool is told: a JSON object. {question} is the sub-question. A text that is just {limit} becomes
    /// the number of passages.
    arguments: Text, Is(r#"'{"query": "{question}"}'"#);
    /// How its result becomes passages. "text": each text item is one. "json": items in the structured content, or
    /// in texts that are JSON. "auto": "json" if items with texts are found, else "text".
    result: OneOf(&["auto", "text", "json"]), Is(r#""auto""#);
    /// Where the list of items is in the JSON, and where an item has its parts: names with dots between them. If
    /// nothing is said, usual names are tried ("results", "items", ...; "title", "text", "content", "url", ...).
    items_at: Verbatim, Example(r#""results""#);
    /// Where an item has its identifier.
    id_at: Verbatim, Example(r#""id""#);
    /// Where an item has its title.
    title_at: Verbatim, Example(r#""title""#);
    /// Where an item has its text.
    text_at: Verbatim, Example(r#""text""#);
    /// Where an item has its address.
    url_at: Verbatim, Example(r#""metadata.source""#);
    /// Whether it is called before an answer needs it. "annotated": if its server says that it only reads
    /// (readOnlyHint). "always": it only reads, you say so. "never". A tool that may have effects is not called
    /// again either after a call may have reached it.
    ahead: OneOf(&["annotated", "always", "never"]), Is(r#""annotated""#);
    /// The longest that starting takes.
    start_ms_max: Whole(1, MS_MAX), Is("60000");
    /// The longest that one attempt takes.
    ms_max: Whole(1, MS_MAX), Is("10000");
    /// The longest that a look-up takes with all its attempts.
    total_ms_max: Whole(1, MS_MAX), Is("30000");
    /// The most bytes of one message.
    bytes_max: Whole(1, 64 << 20), Is("4194304");
};

/// `[qdrant]`.
pub(super) static QDRANT: &[Key] = keys! {
    /// The gRPC addresses of the servers of one cluster; "https" for TLS. The authority of a certificate must
    /// be known to the system, or lie in the file that SSL_CERT_FILE names. If a server does not answer, the
    /// next one is asked.
    urls: List, Is(r#"["http://127.0.0.1:6334"]"#);
    /// The collection, or an alias of it.
    collection: Text, Is(r#""passages""#);
    /// The variable that holds the API key.
    api_key_env: Variable, Example(r#""QDRANT_API_KEY""#);
    /// The longest that an attempt takes.
    ms_max: Whole(1, MS_MAX), Is("5000");
    /// The longest that a search takes with all its attempts.
    total_ms_max: Whole(1, MS_MAX), Is("15000");
    /// Connections to each server.
    connections: Whole(1, 64), Is("3");
    /// Whether a query is compared with every vector, without graph and quantisation: slower, and nothing is
    /// missed.
    exact: Flag, Is("false");
    /// How many candidates are kept while the graph is searched. This key and the next three are as the
    /// collection is set up if they are not given.
    hnsw_ef: Whole(1, 1_000_000), Example("128");
    /// Whether candidates are compared again by their original vectors.
    rescore: Flag, Example("true");
    /// How many times more candidates than passages.
    oversampling: Number(1.0, 1000.0), Example("2.0");
    /// How many replicas must agree: "all", "majority", "quorum" or a number.
    read_consistency: Text, Example(r#""majority""#);
};

/// `[web]`.
pub(super) static WEB: &[Key] = keys! {
    /// Who searches. If one fails, the next one is asked, and the answer says so.
    ///   "searxng"     your own metasearch. Its settings must allow the format json.
    ///   "duckduckgo"  the paper's; no key. It blocks an address that asks quickly.
    ///   "brave", "tavily", "serper"  with a key
    ///   "mediawiki"   Wikipedia or another wiki; no key. It brings the text along, so no page is fetched.
    providers: List, Is(r#"["duckduckgo", "mediawiki"]"#);
    /// The name by which sites and engines are asked.
    user_agent: Text, Is(concat!("\"SpecHop/", env!("CARGO_PKG_VERSION"), "\""));
    /// How you can be reached, which sites and engines are told. Wikipedia wants to know.
    contact: Text, Example(r#""mailto:operator@example.org""#);
    /// How many results are read. The pages are read at once, each within page_ms_max from the look-up of its
    /// name to the last of its text, redirects included. Pages that have come by then are used.
    results: Whole(1, 20), Is("5");
    /// The longest that one page may take.
    page_ms_max: Whole(1, 600_000), Is("3000");
    /// The most bytes of a page.
    page_bytes_max: Whole(1, 64 << 20), Is("2000000");
    /// The most characters of the text of a page.
    page_chars_max: Whole(1, 1 << 20), Is("10000");
    /// The most passages that the encoder ranks: those of a look-up that are the best by their words (BM25).
    ranked: Whole(1, 1000), Is("8");
    /// The longest that the encoder may take for them once the look-up is needed. On a machine with too much
    /// to do, the best passages by their words are read then.
    rank_ms_max: Whole(1, MS_MAX), Is("900");
    /// How much words count beside vectors, as index.lexical_weight says it. Which words are rare is seen from
    /// the passages of the look-up.
    lexical_weight: Number(0.0, 10.0), Is("0.2");
    /// Whether robots.txt is asked first. It costs a round trip for each new host.
    robots: Flag, Is("true");
    /// Ports of the public internet that may be fetched from. Private addresses are never fetched, whatever a
    /// result or a redirect says.
    ports: List, Is("[80, 443]");
    /// Networks that may be fetched from although they are private (an intranet).
    allow: List, Example(r#"["10.1.0.0/16", "127.0.0.1:8888"]"#);
    /// Networks that may never be fetched from.
    deny: List, Example(r#"["203.0.113.0/24"]"#);
    /// An HTTP proxy (http:// or https://; SOCKS is not spoken) that pages and providers are reached through; it
    /// may be on a private network. Addresses are checked as before by their words: protocol, port, private IP
    /// addresses, names that are local by their form, every redirect. But the proxy resolves all other names: it
    /// must refuse private addresses itself, and web.allow and web.deny say nothing of names. Proxies that the
    /// environment names count for nothing.
    proxy: Text, Example(r#""http://proxy.example.org:3128""#);
    /// The variable that holds the login of the proxy: USER:PASSWORD.
    proxy_login_env: Variable, Example(r#""WEB_PROXY_LOGIN""#);
    /// How long results and pages are kept; every tenant sees its own. Of an older page it is asked
    /// whether it has changed. 0 keeps nothing. A request with `fresh` passes them by.
    keep_s: Whole(0, 2_592_000), Is("3600");
    /// How many results and how many pages are kept.
    keep_max: Whole(1, 1_000_000), Is("512");
    /// After so many failures in a row a provider is left alone for pause_s seconds; for twice as long after
    /// each further failure, pause_s_max at most. A block or a wrong key counts as all of them. If a provider
    /// says itself when it may be asked again, that holds, for an hour at most. An only provider that cannot be
    /// reached is tried again after a second, and every four seconds at least.
    failures_max: Whole(1, 1000), Is("3");
    /// The seconds of the first pause.
    pause_s: Whole(1, 86_400), Is("30");
    /// The most seconds of a pause.
    pause_s_max: Whole(1, 86_400), Usually("600");
};

/// What every search provider has.
pub(super) static PROVIDER: &[Key] = keys! {
    /// Its address, in the place of the provider's own. Of "duckduckgo" and "mediawiki" it is the whole one; of
    /// "brave" the one before /web/search, and of the others the one before /search.
    url: Text, Example(r#""http://127.0.0.1:8080""#);
    /// The variable that holds the key. Brave, Tavily and Serper need one.
    api_key_env: Variable, Example(r#""BRAVE_KEY""#);
    /// Whether it is asked past web.proxy. A provider on this machine (localhost, a loopback address) always is.
    direct: Flag, Is("false");
    /// The longest that a search takes.
    ms_max: Whole(1, MS_MAX), Is("10000");
};

/// `[web.searxng]`.
pub(super) static SEARXNG: &[Key] = keys! {
    /// Engines to ask, separated by commas. By default as SearXNG is set up.
    engines: Text, Example(r#""wikipedia,duckduckgo""#);
    /// The language of the search. By default as SearXNG is set up.
    language: Text, Example(r#""en""#);
};

/// `[web.duckduckgo]`.
pub(super) static DUCKDUCKGO: &[Key] = keys! {
    /// The region, as DuckDuckGo names it.
    region: Text, Is(r#""wt-wt""#);
};

/// `[target.injected_latency]`.
pub(super) static INJECTED_LATENCY: &[Key] = keys! {
    /// The mean of the latency.
    mean_ms: Number(1.0, 600_000.0), Example("4150.0");
    /// The standard deviation of the latency.
    sigma_ms: Number(0.0, 600_000.0), Example("1680.0");
    /// The number that it is drawn from.
    seed: Whole(0, u64::MAX), Example("1");
};

/// `[scheduler]`.
pub(super) static SCHEDULER: &[Key] = keys! {
    /// The cores that models and index in this process share. Calls that an answer may need start only on
    /// idle ones. "auto": those that the process may use, by its affinity and by the quota of its cgroup
    /// (cgroup v2), which is read again every few seconds. A number, such as 1.5, sets them; with far more
    /// than there are, speculation does not ask whether a core is idle.
    cores: Or("auto", &Number(0.01, 65_536.0)), Is(r#""auto""#);
    /// Which tools may be called ahead of need: a TOML file with a table for each of `planner`, `reader`,
    /// `retriever` (look-ups, wherever they go) and `speculator`.
    /// Its `grade` is "full", "warmup" (a retriever only encodes its query, a planner only has its prompt
    /// read) or "never". Its `idempotence` is "safe", "idempotent" or "effectful".
    /// Its `cost` is a number.
    /// A tool that the file does not name may not be called ahead. Without a file, all of our own may.
    policy: File, Example(r#""policy.toml""#);
};

/// What every backend has.
pub(super) static BACKEND: &[Key] = keys! {
    /// The most calls at once. By default what the engine takes (sequences, or requests_max), 2 for the
    /// extractive reader, 16 for the index (256 with injected latency), 256 for the web, 64 for Qdrant, 8 for
    /// a tool of an MCP server, 16 for a provider (1 for "duckduckgo" and "mediawiki"). For an endpoint, it
    /// must not exceed requests_max.
    capacity: Whole(1, 65_536), Example("4");
    /// The most calls a second in the long run. No limit by default.
    per_second: Number(0.001, 1_000_000.0), Example("5.0");
    /// The most calls at once after a pause.
    burst: Whole(1, 1_000_000), Example("10");
    /// The most calls ahead of need at once. By default the same as capacity. 0 for none.
    speculative_max: Whole(0, 65_536), Example("4");
};
