//! A node that can be told to misbehave: HTTP/1.1 by hand, so that every wrong byte is possible.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Block, Network};
use cairn_utxo_node::{ChainSource, OpenedSource, SourceConfig, open_source};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// What goes wrong with the next request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// An HTTP status with a body.
    Status(u16, &'static str),
    /// Status 200 with these bytes.
    Bytes(Vec<u8>),
    /// Half of the right answer, then the connection ends.
    CutBody,
    /// The connection ends without an answer.
    Drop,
    /// Nothing, for this long.
    Silence(Duration),
    /// An error of the node.
    Rpc(i64, &'static str),
    /// A result that is not the one asked for.
    Result(Value),
}

/// How the node stands.
#[derive(Debug)]
pub(crate) struct State {
    blocks: Vec<Block>,
    /// Hashes of the blocks as text, and where each stands.
    hashes: Vec<String>,
    heights: HashMap<String, usize>,
    pub(crate) chain: String,
    pub(crate) info: Value,
    /// `user:password` expected; `None`: everybody.
    pub(crate) password: Option<String>,
    pub(crate) rest: bool,
    pub(crate) long_poll: bool,
    /// The chain from the first long poll on.
    pub(crate) on_long_poll: Option<Vec<Block>>,
    /// Faults of the next requests, in order; then all is well.
    pub(crate) faults: VecDeque<Fault>,
    /// The fault of every call of one method.
    pub(crate) always: Option<(&'static str, Fault)>,
}

impl State {
    /// Makes these blocks, from genesis, the chain.
    pub(crate) fn set_blocks(&mut self, blocks: &[Block]) {
        self.blocks = blocks.to_vec();
        self.hashes = blocks
            .iter()
            .map(|block| block.block_hash().to_string())
            .collect();
        self.heights = self.hashes.iter().cloned().zip(0..).collect();
    }

    fn tip(&self) -> &str {
        self.hashes.last().expect("a chain has a genesis block")
    }
}

/// The running fake; stops with its runtime.
pub(crate) struct FakeNode {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) requests: Arc<AtomicUsize>,
    pub(crate) most_at_once: Arc<AtomicUsize>,
    pub(crate) runtime: Runtime,
}

impl FakeNode {
    pub(crate) fn start(blocks: &[Block]) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let mut state = State {
            blocks: Vec::new(),
            hashes: Vec::new(),
            heights: HashMap::new(),
            chain: "regtest".to_owned(),
            info: json!({}),
            password: None,
            rest: false,
            long_poll: false,
            on_long_poll: None,
            faults: VecDeque::new(),
            always: None,
        };
        state.set_blocks(blocks);
        let state = Arc::new(Mutex::new(state));
        let requests = Arc::new(AtomicUsize::new(0));
        let most_at_once = Arc::new(AtomicUsize::new(0));
        let shared = (
            Arc::clone(&state),
            Arc::clone(&requests),
            Arc::clone(&most_at_once),
        );
        runtime.spawn(async move {
            let (state, requests, most) = shared;
            let now = Arc::new(AtomicUsize::new(0));
            while let Ok((stream, _)) = listener.accept().await {
                let (state, requests, most, now) = (
                    Arc::clone(&state),
                    Arc::clone(&requests),
                    Arc::clone(&most),
                    Arc::clone(&now),
                );
                tokio::spawn(async move {
                    // A connection that breaks is part of the game.
                    let _ = serve(stream, &state, &requests, &now, &most).await;
                });
            }
        });
        Ok(Self {
            address,
            state,
            requests,
            most_at_once,
            runtime,
        })
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn fault(&self, fault: Fault, times: usize) {
        self.set(|state| state.faults.extend(std::iter::repeat_n(fault, times)));
    }

    pub(crate) fn config(&self) -> SourceConfig {
        SourceConfig {
            rpc_url: format!("http://{}", self.address),
            ..SourceConfig::new(Network::Regtest)
        }
    }

    pub(crate) fn open(&self, config: &SourceConfig) -> Result<OpenedSource> {
        Ok(open_source(
            config,
            self.runtime.handle().clone(),
            CancellationToken::new(),
        )?)
    }

    pub(crate) fn source(&self) -> Result<Arc<dyn ChainSource>> {
        Ok(self.open(&self.config())?.source)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

struct HttpRequest {
    path: String,
    authorization: Option<String>,
    body: Vec<u8>,
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<HttpRequest>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let field = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let length: usize = field("content-length")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    let path = head
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    Ok(Some(HttpRequest {
        path,
        authorization: field("authorization"),
        body: bytes[head_end..].to_vec(),
    }))
}

async fn serve(
    mut stream: TcpStream,
    state: &Mutex<State>,
    requests: &AtomicUsize,
    now: &AtomicUsize,
    most: &AtomicUsize,
) -> std::io::Result<()> {
    while let Some(request) = read_request(&mut stream).await? {
        requests.fetch_add(1, Ordering::SeqCst);
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Long enough for requests that are sent together to meet here.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (fault, (status, body)) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let method = serde_json::from_slice::<Value>(&request.body).ok();
            let method = method
                .as_ref()
                .and_then(|call| call["method"].as_str())
                .unwrap_or_default()
                .to_owned();
            let always = state
                .always
                .clone()
                .filter(|(name, _)| *name == method)
                .map(|(_, fault)| fault);
            let fault = always.or_else(|| state.faults.pop_front());
            if method == "waitfornewblock"
                && let Some(blocks) = state.on_long_poll.take()
            {
                state.set_blocks(&blocks);
            }
            (fault, answer(&state, &request))
        };
        now.fetch_sub(1, Ordering::SeqCst);
        let (status, body) = match fault {
            None => (status, body),
            Some(Fault::Status(status, body)) => (status, body.as_bytes().to_vec()),
            Some(Fault::Bytes(bytes)) => (200, bytes),
            Some(Fault::Drop) => return Ok(()),
            Some(Fault::Silence(time)) => {
                tokio::time::sleep(time).await;
                (status, body)
            }
            Some(Fault::Rpc(code, message)) => {
                let error = json!({ "code": code, "message": message });
                (
                    500,
                    json!({ "result": null, "error": error, "id": id_of(&request) })
                        .to_string()
                        .into_bytes(),
                )
            }
            Some(Fault::Result(result)) => (
                200,
                json!({ "result": result, "error": null, "id": id_of(&request) })
                    .to_string()
                    .into_bytes(),
            ),
            Some(Fault::CutBody) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&body[..body.len() / 2]).await?;
                return Ok(());
            }
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body).await?;
    }
    Ok(())
}

fn id_of(request: &HttpRequest) -> Value {
    serde_json::from_slice::<Value>(&request.body).unwrap_or_default()["id"].clone()
}

fn answer(state: &State, request: &HttpRequest) -> (u16, Vec<u8>) {
    if let Some(path) = request.path.strip_prefix("/rest/") {
        return rest(state, path);
    }
    if let Some(password) = &state.password {
        let expected = format!("Basic {}", base64(password.as_bytes()));
        if request.authorization.as_deref() != Some(&expected) {
            return (401, Vec::new());
        }
    }
    match serde_json::from_slice(&request.body) {
        Ok(Value::Array(calls)) => {
            // Nodes may answer in any order; the fake answers backwards.
            let answers: Vec<Value> = calls.iter().rev().map(|call| rpc(state, call)).collect();
            (200, Value::Array(answers).to_string().into_bytes())
        }
        Ok(call) => (200, rpc(state, &call).to_string().into_bytes()),
        Err(_) => (400, b"not JSON".to_vec()),
    }
}

fn rest(state: &State, path: &str) -> (u16, Vec<u8>) {
    let missing = (404, b"not found".to_vec());
    if !state.rest {
        return missing;
    }
    if path == "chaininfo.json" {
        return (200, chain_info(state).to_string().into_bytes());
    }
    let find = |hash: &str| state.heights.get(hash).copied();
    let parts: Vec<&str> = path.trim_end_matches(".bin").split('/').collect();
    match parts[..] {
        ["block", hash] => find(hash).map_or(missing, |at| {
            (
                200,
                bitcoin::consensus::encode::serialize(&state.blocks[at]),
            )
        }),
        ["headers", count, hash] => find(hash).map_or(missing, |at| {
            let count = count.parse().unwrap_or(0);
            let headers = state.blocks[at..].iter().take(count);
            (
                200,
                headers
                    .flat_map(|block| bitcoin::consensus::encode::serialize(&block.header))
                    .collect(),
            )
        }),
        _ => missing,
    }
}

fn chain_info(state: &State) -> Value {
    let mut info = json!({
        "chain": state.chain,
        "blocks": state.blocks.len() - 1,
        "headers": state.blocks.len() - 1,
        "bestblockhash": state.tip(),
    });
    if let (Some(info), Some(more)) = (info.as_object_mut(), state.info.as_object()) {
        info.extend(more.clone());
    }
    info
}

fn rpc(state: &State, call: &Value) -> Value {
    let params = &call["params"];
    let by_hash = || {
        let hash = params[0].as_str().unwrap_or_default();
        state
            .heights
            .get(hash)
            .copied()
            .ok_or((-5, "Block not found"))
    };
    let result: Result<Value, (i64, &str)> = match call["method"].as_str().unwrap_or_default() {
        "getblockchaininfo" => Ok(chain_info(state)),
        "getbestblockhash" => Ok(json!(state.tip())),
        "getblockhash" => {
            let height = params[0].as_u64().unwrap_or(u64::MAX);
            let hash = usize::try_from(height)
                .ok()
                .and_then(|height| state.hashes.get(height));
            hash.map(|hash| json!(hash))
                .ok_or((-8, "Block height out of range"))
        }
        "getblockheader" if params[1] == json!(false) => {
            by_hash().map(|at| json!(serialize_hex(&state.blocks[at].header)))
        }
        "getblockheader" => {
            by_hash().map(|at| json!({ "height": at, "confirmations": state.blocks.len() - at }))
        }
        "getblock" => by_hash().map(|at| json!(serialize_hex(&state.blocks[at]))),
        "waitfornewblock" if state.long_poll => {
            Ok(json!({ "hash": state.tip(), "height": state.blocks.len() - 1 }))
        }
        "sendrawtransaction" => Err((-26, "min relay fee not met, 0 < 100")),
        _ => Err((-32601, "Method not found")),
    };
    match result {
        Ok(result) => json!({ "result": result, "error": null, "id": call["id"] }),
        Err((code, message)) => {
            json!({ "result": null, "error": { "code": code, "message": message }, "id": call["id"] })
        }
    }
}

/// The encoding of HTTP's basic authentication.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = u32::from(chunk[0]) << 16
            | u32::from(chunk.get(1).copied().unwrap_or(0)) << 8
            | u32::from(chunk.get(2).copied().unwrap_or(0));
        for index in 0..4 {
            if index > chunk.len() {
                text.push('=');
            } else {
                text.push(char::from(
                    LETTERS[(word >> (18 - 6 * index) & 63) as usize],
                ));
            }
        }
    }
    text
}
