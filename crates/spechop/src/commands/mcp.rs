//! `spechop mcp`: a running server for clients of MCP that start a program.

use std::path::PathBuf;

use anyhow::Context;
use spechop_config::Env;
use spechop_mcp::bridge::{BridgeError, Tls, Trouble, bridge};
use spechop_web::HttpEndpoint;

use super::reach::{self, SHOW_ONE, ServerArgs, key_may_go};
use crate::output::told;

/// The arguments of `spechop mcp`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// The tenant on whose behalf questions are asked.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

const HELP: &str = "\
Speaks MCP on standard input and output, and carries every message to a running server (`spechop
serve`) and back. A client of MCP starts this program by itself. It then has three tools, all of
which only read: ask (answers a question in several look-ups, with a progress message for each),
search and fetch.

In the settings of Claude Desktop, Cursor and many others:
  {\"mcpServers\": {\"spechop\": {\"command\": \"spechop\", \"args\": [\"mcp\"]}}}
In those of VS Code:
  {\"servers\": {\"spechop\": {\"type\": \"stdio\", \"command\": \"spechop\", \"args\": [\"mcp\"]}}}

A client that speaks streamable HTTP needs no program: http://127.0.0.1:50051/mcp is the server.

The address may have a path, if it is not /mcp. With --tls-name, a DNS name, the server is asked by
that name.

Examples:
  spechop mcp
  spechop mcp --addr 10.0.0.7:50051 --tenant library
  spechop mcp --addr 10.0.0.7:50051 --tls-ca ca.pem --tls-name answers.example.org
  spechop mcp --addr https://answers.example.org/qa/mcp --key-env ANSWERS_KEY";

/// Carries messages until the input ends.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let (url, _) = args.server.url()?;
    let mut endpoint = HttpEndpoint::new("the server", address(&url));
    endpoint.key = args.server.secret(env)?;
    if endpoint.key.is_some() {
        let url = &endpoint.base_url;
        let to = url.parse();
        let to = to.with_context(|| format!("`{url}` is no address"))?;
        key_may_go(args.server.address(), &to)?;
    }
    let tls = tls(&args.server)?;
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let tenant = args.tenant.as_deref();
    match bridge(&endpoint, &tls, tenant, input, output).await {
        Err(error @ BridgeError::Lost { trouble, .. }) => {
            let advice = advice(trouble, &endpoint.base_url, args.server.shows_none());
            Err(error).context(advice)
        }
        // The client reads standard output.
        Err(BridgeError::Client(error)) => Err(told(error).into()),
        other => Ok(other?),
    }
}

/// What the flags say about TLS.
fn tls(server: &ServerArgs) -> anyhow::Result<Tls> {
    let read = |path: &Option<PathBuf>| path.as_deref().map(reach::read).transpose();
    Ok(Tls {
        authorities: read(&server.tls_ca)?,
        name: server.tls_name.clone(),
        own: match (read(&server.tls_cert)?, read(&server.tls_key)?) {
            (Some(cert), Some(key)) => Some([cert, key].join(&b'\n')),
            _ => None,
        },
    })
}

/// What somebody can do about a connection that ended; `shows_none` says whether a certificate may be missing.
fn advice(trouble: Trouble, url: &str, shows_none: bool) -> String {
    match trouble {
        Trouble::NoServer if url.starts_with("https:") => format!(
            "no MCP server answers at {url}, or none with a certificate that is trusted: start one with \
             `spechop serve`, or name its authority with --tls-ca"
        ),
        Trouble::NoServer => {
            format!("no MCP server answers at {url}: start one with `spechop serve`")
        }
        Trouble::Key => format!(
            "the server at {url} wants a key, or another one: name the variable that holds it with --key-env"
        ),
        Trouble::Broken if shows_none => format!("the bridge to {url} broke; {SHOW_ONE}"),
        Trouble::Broken | Trouble::Other => {
            format!("the bridge to {url} broke; its client may start it again")
        }
    }
}

/// Without a path, that at which `spechop serve` answers; without a scheme, HTTP.
fn address(addr: &str) -> String {
    let (scheme, rest) = addr.split_once("://").unwrap_or(("http", addr));
    match rest.trim_end_matches('/') {
        host if !host.contains('/') => format!("{scheme}://{host}/mcp"),
        _ => format!("{scheme}://{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_short() {
        assert_eq!(address("127.0.0.1:1"), "http://127.0.0.1:1/mcp");
        assert_eq!(address("https://h/"), "https://h/mcp");
        assert_eq!(address("https://h/x/mcp"), "https://h/x/mcp");
    }

    #[test]
    fn advice_knows_of_tls() {
        let nobody = |url| advice(Trouble::NoServer, url, true);
        assert!(nobody("https://h/mcp").contains("--tls-ca"));
        assert!(!nobody("http://h/mcp").contains("--tls-ca"));
        for (trouble, shows_none, is_told) in [
            (Trouble::Broken, true, true),
            (Trouble::Broken, false, false),
            (Trouble::Other, true, false),
        ] {
            let said = advice(trouble, "https://h/mcp", shows_none);
            assert_eq!(said.contains("--tls-cert"), is_told, "{trouble:?}: {said}");
        }
    }
}
