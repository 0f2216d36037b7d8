//! A small JSON-RPC client over one plain HTTP request per call. Its own, so that the product's client is never tested with itself.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// How long a call may take: `invalidateblock` over a long chain is the slowest.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The node answered with an error object.
    #[error("{method}: the node answers error {code}: {message}")]
    Node {
        /// The method called.
        method: String,
        /// Its error code, for example -5 for something not found.
        code: i64,
        /// Its text.
        message: String,
    },
    /// No answer, or none that can be understood.
    #[error("{method} at {address}: {cause}")]
    Transport {
        /// The method called.
        method: String,
        /// Where the node was asked.
        address: SocketAddr,
        /// What went wrong.
        cause: String,
    },
}

impl RpcError {
    /// The node's error code, if it was the node that refused.
    pub fn code(&self) -> Option<i64> {
        match self {
            RpcError::Node { code, .. } => Some(*code),
            RpcError::Transport { .. } => None,
        }
    }
}

/// Satoshi of an amount in a node's answer, which is a JSON number of whole coins. Exact: 21 million coins have fewer
/// satoshi than a double has whole numbers.
///
/// # Panics
/// When it is not a number of coins.
pub fn satoshi(amount: &Value) -> u64 {
    match amount.as_f64() {
        Some(coins) if (0.0..=21e6).contains(&coins) => (coins * 1e8).round() as u64,
        _ => panic!("not an amount: {amount}"),
    }
}

/// Calls `method` of the node at `address`. `credentials` is `user:password`.
pub(crate) fn call(
    address: SocketAddr,
    credentials: &str,
    method: &str,
    params: &Value,
) -> Result<Value, RpcError> {
    let transport = |cause: String| RpcError::Transport {
        method: method.to_owned(),
        address,
        cause,
    };
    let body = json!({ "jsonrpc": "1.0", "id": 0, "method": method, "params": params }).to_string();
    let authorization = format!(
        "Authorization: Basic {}\r\n",
        base64(credentials.as_bytes())
    );
    let (status, answer) = request(address, "POST", "/", &authorization, body.as_bytes())
        .map_err(|e| transport(e.to_string()))?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|e| {
        transport(format!(
            "status {status}, not JSON ({e}): {}",
            String::from_utf8_lossy(&answer[..answer.len().min(200)])
        ))
    })?;
    match answer.get("error") {
        None | Some(Value::Null) => Ok(answer.get("result").cloned().unwrap_or(Value::Null)),
        Some(error) => Err(RpcError::Node {
            method: method.to_owned(),
            code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
            message: error
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        }),
    }
}

/// One HTTP/1.1 request on its own connection; answers status and body.
pub(crate) fn request(
    address: SocketAddr,
    verb: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> std::io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(CALL_TIMEOUT))?;
    stream.set_write_timeout(Some(CALL_TIMEOUT))?;
    let mut message = format!(
        "{verb} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    message.extend_from_slice(body);
    stream.write_all(&message)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    split_answer(&answer).ok_or_else(|| {
        std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "the connection ended within the answer",
        )
    })
}

/// Status and body of a whole answer; `None` when it is cut short.
fn split_answer(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, &str)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(k, v)| (k.to_ascii_lowercase(), v.trim()))
        .collect();
    let header = |name: &str| headers.iter().find(|(k, _)| k == name).map(|(_, v)| *v);
    let body = &answer[end + 4..];
    if header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        return Some((status, join_chunks(body)?));
    }
    match header("content-length") {
        Some(length) => Some((status, body.get(..length.parse().ok()?)?.to_vec())),
        None => Some((status, body.to_vec())),
    }
}

fn join_chunks(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::new();
    loop {
        let end = body.windows(2).position(|w| w == b"\r\n")?;
        let size =
            usize::from_str_radix(std::str::from_utf8(&body[..end]).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(joined);
        }
        let start = end + 2;
        joined.extend_from_slice(body.get(start..start.checked_add(size)?)?);
        body = body.get(start + size + 2..)?;
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                text.push(char::from(ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_standard() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn amounts_are_exact() {
        for satoshi_wanted in [0, 1, 330, 123_456_789, 2_099_999_997_690_000] {
            let text = format!(
                "{}.{:08}",
                satoshi_wanted / 100_000_000,
                satoshi_wanted % 100_000_000
            );
            let amount: Value = serde_json::from_str(&text).expect("it is a number");
            assert_eq!(satoshi(&amount), satoshi_wanted);
        }
    }

    #[test]
    fn answers_are_taken_apart() {
        let plain = b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(split_answer(plain), Some((500, b"hi".to_vec())));
        assert_eq!(split_answer(&plain[..plain.len() - 1]), None);
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(
            split_answer(chunked),
            Some((200, b"abc0123456789".to_vec()))
        );
    }
}
