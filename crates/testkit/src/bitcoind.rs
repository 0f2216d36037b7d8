//! A real `bitcoind` on regtest, started for one test and gone with it.
//!
//! The program is named by the environment variable `BITCOIND_EXE`; `make test` builds one and sets it. A test that needs a node
//! fails without it: nothing is skipped. The node has no wallet, so transactions come from [`crate::lock`].

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::hex::DisplayHex;
use bitcoin::{Block, BlockHash, ScriptBuf, Transaction, Txid};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lock::Lock;
use crate::rpc::{self, RpcError};

/// The environment variable that names the program.
pub const EXE_VARIABLE: &str = "BITCOIND_EXE";
/// How long a node may take until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Attempts at finding a port that nobody else takes between our look and the node's.
const START_ATTEMPTS: u32 = 5;
const POLL: Duration = Duration::from_millis(20);

/// Why a node could not be started, asked or stopped.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No program to start.
    #[error(
        "{EXE_VARIABLE} {0}. Tests with a real node need a bitcoind: `make test` builds one and sets the variable; \
         by hand, export {EXE_VARIABLE}=$(make -s setup-bitcoind)"
    )]
    NoProgram(String),
    /// It did not come up.
    #[error("bitcoind did not start: {0}")]
    Start(String),
    /// It did not go down.
    #[error("bitcoind did not stop within {} s", STOP_TIMEOUT.as_secs())]
    Stop,
    /// A call failed.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The node refuses a block.
    #[error("block {hash}: the node refuses it: {reason}")]
    Block {
        /// The block.
        hash: BlockHash,
        /// The node's reason.
        reason: String,
    },
    /// An answer of another form than expected.
    #[error("{method}: unexpected answer {answer}")]
    Answer {
        /// The method called.
        method: &'static str,
        /// Its answer.
        answer: String,
    },
    /// The file system.
    #[error("{path}: {cause}")]
    Io {
        /// What was touched.
        path: PathBuf,
        /// Why it failed.
        cause: std::io::Error,
    },
}

/// How a node is started.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Whether block files are obfuscated (the node's default since version 28).
    pub blocks_xor: bool,
    /// Whether the REST interface is on.
    pub rest: bool,
    /// Prune by hand (`-prune=1`), with block files so small that there is something to prune.
    pub prune: bool,
    /// `user:password` instead of the cookie file.
    pub user_password: Option<(String, String)>,
    /// Further arguments, as on the command line.
    pub extra_args: Vec<String>,
}

impl Default for NodeOptions {
    fn default() -> Self {
        NodeOptions {
            blocks_xor: true,
            rest: true,
            prune: false,
            user_password: None,
            extra_args: Vec::new(),
        }
    }
}

/// A running node. Dropping it kills the process and deletes its folder.
#[derive(Debug)]
pub struct Bitcoind {
    options: NodeOptions,
    exe: PathBuf,
    // Held for its deletion.
    dir: TempDir,
    child: Option<Child>,
    address: SocketAddr,
}

impl Bitcoind {
    /// Starts a fresh node with the default options.
    pub fn start() -> Result<Self, NodeError> {
        Self::start_with(NodeOptions::default())
    }

    /// Starts a fresh node; returns when it answers calls.
    pub fn start_with(options: NodeOptions) -> Result<Self, NodeError> {
        let exe = std::env::var_os(EXE_VARIABLE)
            .ok_or_else(|| NodeError::NoProgram("is not set".into()))?;
        let exe = PathBuf::from(exe);
        if !exe.is_file() {
            return Err(NodeError::NoProgram(format!(
                "names {}, which is not a file",
                exe.display()
            )));
        }
        let dir = tempfile::Builder::new()
            .prefix("cairn-bitcoind-")
            .tempdir()
            .map_err(|cause| NodeError::Io {
                path: std::env::temp_dir(),
                cause,
            })?;
        let mut node = Bitcoind {
            options,
            exe,
            dir,
            child: None,
            address: any_port()?,
        };
        node.launch(true)?;
        Ok(node)
    }

    /// Starts the process; with `new_port` it may move to another port when somebody took ours.
    fn launch(&mut self, new_port: bool) -> Result<(), NodeError> {
        let mut attempt = 1;
        loop {
            match self.launch_once() {
                Err(NodeError::Start(text))
                    if new_port
                        && attempt < START_ATTEMPTS
                        && text.contains("Unable to")
                        && text.contains("HTTP") =>
                {
                    attempt += 1;
                    self.address = any_port()?;
                }
                other => return other,
            }
        }
    }

    fn launch_once(&mut self) -> Result<(), NodeError> {
        let port = self.address.port();
        let mut command = Command::new(&self.exe);
        command
            .arg(format!("-datadir={}", self.dir.path().display()))
            .args([
                "-regtest",
                "-server",
                "-listen=0",
                "-connect=0",
                "-dnsseed=0",
                "-fixedseeds=0",
                "-natpmp=0",
            ])
            .args([
                "-rpcbind=127.0.0.1",
                "-rpcallowip=127.0.0.1",
                "-printtoconsole=0",
                "-dbcache=16",
                "-par=1",
            ])
            // Generated chains have their own clock; without this the node would call itself "in initial download".
            .arg("-maxtipage=4000000000")
            .arg(format!("-rpcport={port}"))
            .arg(format!("-blocksxor={}", u8::from(self.options.blocks_xor)))
            .arg(format!("-rest={}", u8::from(self.options.rest)));
        if self.options.prune {
            command.args(["-prune=1", "-fastprune"]);
        }
        if let Some((user, password)) = &self.options.user_password {
            command
                .arg(format!("-rpcuser={user}"))
                .arg(format!("-rpcpassword={password}"));
        }
        command.args(&self.options.extra_args);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|cause| NodeError::Start(format!("{}: {cause}", self.exe.display())))?;
        self.child = Some(child);

        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = self.exit_status() {
                let said = self.last_words();
                self.child = None;
                return Err(NodeError::Start(format!("{status}; {said}")));
            }
            match self.rpc("getblockchaininfo", json!([])) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    let said = self.last_words();
                    self.kill();
                    return Err(NodeError::Start(format!(
                        "no answer in {} s: {error}; {said}",
                        START_TIMEOUT.as_secs()
                    )));
                }
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    fn exit_status(&mut self) -> Option<std::process::ExitStatus> {
        self.child
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten())
    }

    /// What an ended process wrote to its error output, and the end of its log.
    fn last_words(&mut self) -> String {
        let mut said = String::new();
        if let Some(child) = self.child.as_mut()
            && child.try_wait().ok().flatten().is_some()
            && let Some(mut stderr) = child.stderr.take()
        {
            // The process is gone, so this ends.
            let _ = stderr.read_to_string(&mut said);
        }
        let log = std::fs::read_to_string(self.network_dir().join("debug.log")).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(5).collect();
        for line in tail.into_iter().rev() {
            said.push_str("\n  ");
            said.push_str(line);
        }
        said
    }

    /// Its RPC and REST address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its RPC and REST address as a URL without credentials.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The process id; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The folder given as `-datadir`.
    pub fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    /// The folder of the network, `regtest` in the data folder.
    pub fn network_dir(&self) -> PathBuf {
        self.dir.path().join("regtest")
    }

    /// The folder of the block files.
    pub fn blocks_dir(&self) -> PathBuf {
        self.network_dir().join("blocks")
    }

    /// The cookie file (absent when a password is configured).
    pub fn cookie_file(&self) -> PathBuf {
        self.network_dir().join(".cookie")
    }

    /// `user:password` as it is now.
    pub fn credentials(&self) -> Result<String, NodeError> {
        match &self.options.user_password {
            Some((user, password)) => Ok(format!("{user}:{password}")),
            None => {
                let path = self.cookie_file();
                std::fs::read_to_string(&path).map_err(|cause| NodeError::Io { path, cause })
            }
        }
    }

    /// Calls a method. `params` is an array, or an object for named parameters.
    pub fn rpc(&self, method: &str, params: Value) -> Result<Value, NodeError> {
        Ok(rpc::call(
            self.address,
            &self.credentials()?,
            method,
            &params,
        )?)
    }

    /// A GET on the node's HTTP port, for REST: status and body.
    pub fn rest(&self, path: &str) -> Result<(u16, Vec<u8>), NodeError> {
        rpc::request(self.address, "GET", path, "", &[]).map_err(|cause| {
            NodeError::Rpc(RpcError::Transport {
                method: format!("GET {path}"),
                address: self.address,
                cause: cause.to_string(),
            })
        })
    }

    /// Ends the process in the orderly way; everything is on disk afterwards.
    pub fn stop(&mut self) -> Result<(), NodeError> {
        if self.child.is_none() {
            return Ok(());
        }
        self.rpc("stop", json!([]))?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.exit_status().is_none() {
            if Instant::now() > deadline {
                self.kill();
                return Err(NodeError::Stop);
            }
            std::thread::sleep(POLL);
        }
        self.child = None;
        Ok(())
    }

    /// Ends the process at once (SIGKILL).
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails only if it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops it if it runs, then starts it on the same folder and port. The cookie changes.
    pub fn restart(&mut self) -> Result<(), NodeError> {
        self.stop()?;
        self.launch(false)
    }

    /// The same with other options (pruning, obfuscation of new folders, a password).
    pub fn restart_with(&mut self, options: NodeOptions) -> Result<(), NodeError> {
        self.stop()?;
        self.options = options;
        self.launch(false)
    }

    /// Height of the best block.
    pub fn height(&self) -> Result<u32, NodeError> {
        let answer = self.rpc("getblockcount", json!([]))?;
        answer
            .as_u64()
            .and_then(|height| u32::try_from(height).ok())
            .ok_or_else(|| unexpected("getblockcount", &answer))
    }

    /// Hash of the best block.
    pub fn best_hash(&self) -> Result<BlockHash, NodeError> {
        parse("getbestblockhash", self.rpc("getbestblockhash", json!([]))?)
    }

    /// Hash of the best-chain block at a height.
    pub fn hash_at(&self, height: u32) -> Result<BlockHash, NodeError> {
        parse("getblockhash", self.rpc("getblockhash", json!([height]))?)
    }

    /// A block.
    pub fn block(&self, hash: &BlockHash) -> Result<Block, NodeError> {
        let answer = self.rpc("getblock", json!([hash, 0]))?;
        answer
            .as_str()
            .and_then(|hex| deserialize_hex(hex).ok())
            .ok_or_else(|| unexpected("getblock", &answer))
    }

    /// Hands the node a block. Fine: accepted, known already, or valid so far but not on the best chain.
    pub fn submit_block(&self, block: &Block) -> Result<(), NodeError> {
        match self.rpc("submitblock", json!([serialize_hex(block)]))? {
            Value::Null => Ok(()),
            Value::String(reason)
                if matches!(
                    reason.as_str(),
                    "duplicate" | "inconclusive" | "duplicate-inconclusive"
                ) =>
            {
                Ok(())
            }
            other => Err(NodeError::Block {
                hash: block.block_hash(),
                reason: other
                    .as_str()
                    .map_or_else(|| other.to_string(), str::to_owned),
            }),
        }
    }

    /// Hands the node several blocks, parents first.
    pub fn submit_blocks<'a>(
        &self,
        blocks: impl IntoIterator<Item = &'a Block>,
    ) -> Result<(), NodeError> {
        blocks
            .into_iter()
            .try_for_each(|block| self.submit_block(block))
    }

    /// Mines `count` blocks that pay [`Lock::Wsh`]`(0)`. They hold what the mempool offers.
    pub fn mine(&self, count: u32) -> Result<Vec<BlockHash>, NodeError> {
        self.mine_to(&Lock::Wsh(0).script_pubkey(), count)
    }

    /// Mines `count` blocks whose coinbases pay `script`. They hold what the mempool offers.
    pub fn mine_to(&self, script: &ScriptBuf, count: u32) -> Result<Vec<BlockHash>, NodeError> {
        let answer = self.rpc(
            "generatetodescriptor",
            json!([count, raw_descriptor(script)]),
        )?;
        serde_json::from_value(answer.clone())
            .map_err(|_| unexpected("generatetodescriptor", &answer))
    }

    /// Mines one block with exactly these transactions (they need not be in the mempool, nor be standard).
    pub fn mine_transactions(
        &self,
        script: &ScriptBuf,
        txs: &[Transaction],
    ) -> Result<BlockHash, NodeError> {
        let txs: Vec<String> = txs.iter().map(serialize_hex).collect();
        let answer = self.rpc("generateblock", json!([raw_descriptor(script), txs]))?;
        parse(
            "generateblock",
            answer.get("hash").cloned().unwrap_or(Value::Null),
        )
    }

    /// Marks a block and all its descendants invalid; the node goes back below it.
    pub fn invalidate(&self, hash: &BlockHash) -> Result<(), NodeError> {
        self.rpc("invalidateblock", json!([hash])).map(drop)
    }

    /// Takes the mark back.
    pub fn reconsider(&self, hash: &BlockHash) -> Result<(), NodeError> {
        self.rpc("reconsiderblock", json!([hash])).map(drop)
    }

    /// Gives a transaction to the mempool.
    pub fn send(&self, tx: &Transaction) -> Result<Txid, NodeError> {
        parse(
            "sendrawtransaction",
            self.rpc("sendrawtransaction", json!([serialize_hex(tx), 0]))?,
        )
    }
}

impl Drop for Bitcoind {
    fn drop(&mut self) {
        self.kill();
    }
}

fn raw_descriptor(script: &ScriptBuf) -> String {
    format!("raw({})", script.as_bytes().to_lower_hex_string())
}

fn parse<T: std::str::FromStr>(method: &'static str, answer: Value) -> Result<T, NodeError> {
    answer
        .as_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| unexpected(method, &answer))
}

fn unexpected(method: &'static str, answer: &Value) -> NodeError {
    NodeError::Answer {
        method,
        answer: answer.to_string().chars().take(500).collect(),
    }
}

/// A port that is free now.
fn any_port() -> Result<SocketAddr, NodeError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|cause| NodeError::Start(format!("no free port on this machine: {cause}")))
}
