//! Bodies in which there is no message.

use rmcp::ErrorData;
use rmcp::model::ClientJsonRpcMessage;
use serde_json::error::Category;
use serde_json::{Value, json};

use super::short;

/// The error that answers a body in which there is no message. `None` if there is one.
pub fn unread(body: &[u8]) -> Option<Value> {
    let error = serde_json::from_slice::<ClientJsonRpcMessage>(body).err()?;
    let (id, error) = match error.classify() {
        Category::Data => off_form(body),
        Category::Syntax | Category::Eof | Category::Io => {
            let problem = format!("the body is not JSON: {error}");
            (Value::Null, ErrorData::parse_error(problem, None))
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

/// What is said of `params` that do not fit.
pub(crate) fn wrong_params(method: &str) -> ErrorData {
    let method = short(method);
    let problem = format!("`params` of {method} are missing, or have another form");
    ErrorData::invalid_params(problem, None)
}

/// Which request it is that cannot be read, and why. JSON-RPC wants no number if that of the request is not
/// known.
fn off_form(body: &[u8]) -> (Value, ErrorData) {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let id = &message["id"];
    let params = message.get("params");
    if let Some(method) = message["method"].as_str()
        && message["jsonrpc"] == "2.0"
        && (id.is_number() || id.is_string())
        && params.is_some_and(|params| !params.is_object())
    {
        return (id.clone(), wrong_params(method));
    }
    let problem = "the body is not one message of JSON-RPC 2.0 (`jsonrpc`, `id`, `method`, `params`); \
                   batches are not taken";
    (Value::Null, ErrorData::invalid_request(problem, None))
}
