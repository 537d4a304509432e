//! `spechop mcp`: a running server for clients of MCP that start a program.

use anyhow::Context;
use spechop_mcp::bridge::{BridgeError, Trouble, bridge};
use spechop_server::Env;
use spechop_web::Endpoint;

/// The arguments of `spechop mcp`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The server: HOST:PORT, or a whole address such as `https://answers.example.org/mcp`.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50051")]
    addr: String,
    /// The variable that holds a bearer token for the server.
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
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
  spechop mcp --addr https://answers.example.org/mcp --api-key-env ANSWERS_KEY";

/// Carries messages until the input ends.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let mut endpoint = Endpoint::new("the server", address(&args.addr));
    if let Some(name) = &args.api_key_env {
        let key = env.secret(name);
        endpoint.key = Some(key.with_context(|| format!("the variable {name} is not set"))?);
    }
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

/// What somebody can do about a connection that ended.
fn advice(trouble: Trouble, url: &str) -> String {
    match trouble {
        Trouble::NoServer => {
            format!("no MCP server answers at {url}: start one with `spechop serve`")
        }
        Trouble::Key => format!(
            "the server at {url} wants a key, or another one: name the variable that holds it with --api-key-env"
        ),
        Trouble::Other => format!("the bridge to {url} broke; its client may start it again"),
    }
}

/// `HOST:PORT` means the path at which `spechop serve` answers.
fn address(addr: &str) -> String {
    match addr.contains("://") {
        true => addr.to_owned(),
        false => format!("http://{addr}/mcp"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_short() {
        assert_eq!(address("127.0.0.1:1"), "http://127.0.0.1:1/mcp");
        assert_eq!(address("https://h/x/mcp"), "https://h/x/mcp");
    }
}
