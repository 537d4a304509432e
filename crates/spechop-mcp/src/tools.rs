//! Which of a server's tools is meant: its list is read page by page, as far as that tool.

use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, Tool};
use rmcp::service::{ClientCacheConfig, Peer, ServiceError};

use crate::failure::Names;
use crate::line::OpenError;
use crate::options::McpOptions;

/// A list need have no end: a server may name a next page for ever. No page is asked for after so
/// many pages, or so many tools.
const PAGES_MAX: usize = 100;
const TOOLS_MAX: usize = 10_000;

/// The tool, if it is there and takes the arguments.
///
/// # Errors
///
/// The outer one is that of the call, the inner one says that the tool cannot be used.
pub(crate) async fn find(
    options: &McpOptions,
    peer: &Peer<RoleClient>,
) -> Result<Result<Tool, OpenError>, ServiceError> {
    // A page is looked at once, and rmcp would keep it for as long as the connection.
    let keeps_nothing = ClientCacheConfig::disabled();
    peer.set_response_cache_config(keeps_nothing).await;
    let (mut names, mut pages, mut tools, mut cursor) = (Names::default(), 0, 0, None);
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let mut page = peer.list_tools(Some(params)).await?;
        let at = (page.tools.iter()).position(|tool| tool.name == options.tool);
        if let Some(at) = at {
            return Ok(fitting(options, page.tools.swap_remove(at)));
        }
        pages += 1;
        tools += page.tools.len();
        names.add(page.tools.iter().map(|tool| &*tool.name), &options.server);
        cursor = page.next_cursor;
        let is_whole = cursor.is_none();
        if is_whole || pages >= PAGES_MAX || tools >= TOOLS_MAX {
            let (server, tool) = (options.server.to_string(), options.tool.clone());
            return Ok(Err(match is_whole {
                true => OpenError::NoTool {
                    server,
                    tool,
                    there: names.to_string(),
                },
                false => OpenError::LongList {
                    server,
                    tool,
                    pages,
                    tools,
                },
            }));
        }
    }
}

/// The tool, if it takes the arguments.
fn fitting(options: &McpOptions, tool: Tool) -> Result<Tool, OpenError> {
    let misfit = options
        .arguments
        .misfit(&tool.input_schema, &options.server);
    match misfit {
        None => Ok(tool),
        Some(misfit) => Err(OpenError::Arguments {
            server: options.server.to_string(),
            tool: options.tool.clone(),
            misfit,
        }),
    }
}
