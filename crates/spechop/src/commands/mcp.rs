//! `spechop mcp`: a running server for clients of MCP that start a program.

use anyhow::{Context, ensure};
use secrecy::SecretString;
use spechop_mcp::bridge::{BridgeError, Trouble, bridge};
use spechop_server::Env;
use spechop_web::Endpoint;

use super::reach::{KEY_VARIABLE, key_may_go};

/// The arguments of `spechop mcp`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The server: HOST:PORT, or an address such as `https://answers.example.org` or one with a path of its own. To
    /// send an API key to another machine without TLS, say `http://HOST:PORT`.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50051")]
    addr: String,
    /// The variable that holds the API key [default: SPECHOP_KEY, if it is set].
    #[arg(long, value_name = "NAME", alias = "api-key-env")]
    key_env: Option<String>,
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

Examples:
  spechop mcp
  spechop mcp --addr 10.0.0.7:50051 --tenant library
  spechop mcp --addr https://answers.example.org --key-env ANSWERS_KEY";

/// Carries messages until the input ends.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let mut endpoint = Endpoint::new("the server", address(&args.addr));
    endpoint.key = key(&args, env, &endpoint.base_url)?;
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let tenant = args.tenant.as_deref();
    match bridge(&endpoint, tenant, input, output).await {
        Err(error @ BridgeError::Lost { trouble, .. }) => {
            let advice = advice(trouble, &endpoint.base_url);
            Err(error).context(advice)
        }
        other => Ok(other?),
    }
}

/// The key to show, if there is one and it may go there.
fn key(args: &Args, env: &Env, url: &str) -> anyhow::Result<Option<SecretString>> {
    let name = args.key_env.as_deref().unwrap_or(KEY_VARIABLE);
    let key = env.secret(name);
    ensure!(
        key.is_some() || args.key_env.is_none(),
        "the variable {name} is not set"
    );
    if key.is_some() {
        let to = url.parse();
        let to = to.with_context(|| format!("`{url}` is no address"))?;
        key_may_go(&args.addr, &to)?;
    }
    Ok(key)
}

/// What somebody can do about a connection that ended.
fn advice(trouble: Trouble, url: &str) -> String {
    match trouble {
        Trouble::NoServer => {
            format!("no MCP server answers at {url}: start one with `spechop serve`")
        }
        Trouble::Key => format!(
            "the server at {url} wants a key, or another one: name the variable that holds it with --key-env"
        ),
        Trouble::Other => format!("the bridge to {url} broke; its client may start it again"),
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
}
