//! Opens the tool of an MCP server that is the target.

use spechop_mcp::{McpOptions, McpRetriever};
use tokio::runtime::Handle;

use crate::toolbox::OpenError;

/// **Blocks** until the server has listed its tools, or has not in time.
pub(crate) fn open(options: &McpOptions) -> Result<McpRetriever, OpenError> {
    // Models are opened on a thread of the runtime that may block.
    let runtime = Handle::try_current().map_err(OpenError::of("target"))?;
    let opened = runtime.block_on(McpRetriever::open(options.clone()));
    let opened = opened.map_err(OpenError::of("target"))?;
    tracing::info!(tool = options.tool, server = %options.server, "MCP tool opened");
    Ok(opened)
}
