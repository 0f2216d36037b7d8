//! The few calls of a node's chain API that tests make.

use std::net::SocketAddr;

use serde_json::Value;

use super::nodeos::NodeosError;
use crate::rpc::request;

/// POST `path`; the answer, or what the node says is wrong.
pub(crate) fn call(address: SocketAddr, path: &str, body: &Value) -> Result<Value, NodeosError> {
    let failed = |cause: String| NodeosError::Call {
        path: path.to_owned(),
        cause,
    };
    let (status, answer) = request(address, "POST", path, "", body.to_string().as_bytes())
        .map_err(|e| failed(e.to_string()))?;
    let answer: Value = serde_json::from_slice(&answer)
        .map_err(|e| failed(format!("status {status}, not JSON: {e}")))?;
    if !(200..300).contains(&status) {
        return Err(failed(format!("status {status}: {answer}")));
    }
    Ok(answer)
}
