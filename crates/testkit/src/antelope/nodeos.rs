//! A real `nodeos` with State History, started for one test and gone with it.
//!
//! The program is named by the environment variable `NODEOS_EXE`; `make test` fetches one and sets it. A test that needs a node
//! fails without it: nothing is skipped.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::chain_api::call;
use super::pack::Packer;
use super::recorded::{PRIV_WASM, PROBE_WASM, Recording, unhex};
use super::transaction::{DEVELOPMENT_KEY, DEVELOPMENT_SECRET, PackedAction, public_key, signed};

/// The environment variable that names the program.
pub const NODEOS_EXE_VARIABLE: &str = "NODEOS_EXE";
/// How long a node may take until it answers, until it has stopped, and until something asked for has happened.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Protocol features that the test contracts need, in the order in which they can be activated.
const PREACTIVATE_FEATURE: &str =
    "0ec7e080177b2c02b278d5088611686b49d739925a92d9bfcacd7fc6b74053bd";
const FEATURES: [&str; 5] = [
    "299dcb6af692324b899b39f16d5a530a33062804e41f09dc97e9f156b4476707",
    "68dcaa34c0517d19666e6b33add67351d8c5f69e999ca1e37931bc410a297428",
    "8ba52fe7a3956c5cd3a656a3174b931d3bb2abb45578befc59f283ecd816a405",
    "c3a6138c5061cf291310887c0b5c71fcaffeab90d5deb50d3b9e687cead45071",
    "ad9e3d8f650687709fd68f4b90b41f7d825a365b02c23a636cef88ac2ac00c43",
];

/// Why a node could not be started, asked or stopped.
#[derive(Debug, thiserror::Error)]
pub enum NodeosError {
    /// No program to start.
    #[error(
        "{NODEOS_EXE_VARIABLE} {0}. Tests with a real Antelope node need a nodeos: `make test` fetches one and sets the \
         variable; by hand, export {NODEOS_EXE_VARIABLE}=$(scripts/nodeos)"
    )]
    NoProgram(String),
    /// It did not come up, or not go down.
    #[error("nodeos: {0}")]
    Process(String),
    /// A call failed.
    #[error("{path}: {cause}")]
    Call {
        /// The path called.
        path: String,
        /// What went wrong.
        cause: String,
    },
    /// The node did not do in time what was waited for.
    #[error("waited a minute in vain until {0}")]
    Patience(String),
}

/// How a node is started.
#[derive(Clone, Debug)]
pub struct NodeosOptions {
    /// Whom it produces blocks for.
    pub producers: Vec<String>,
    /// Peers to connect to.
    pub peers: Vec<SocketAddr>,
    /// Whether it starts a chain rather than waiting for one.
    pub first: bool,
    /// The time of block 1: it makes the chain id, so that two nodes with one time are on one chain.
    pub genesis_time: String,
}

impl Default for NodeosOptions {
    fn default() -> Self {
        NodeosOptions {
            producers: vec!["eosio".to_owned()],
            peers: Vec::new(),
            first: true,
            genesis_time: "2026-01-01T00:00:00.000".to_owned(),
        }
    }
}

/// A running node. Dropping it kills the process and deletes its folder.
#[derive(Debug)]
pub struct Nodeos {
    exe: PathBuf,
    dir: TempDir,
    child: Option<Child>,
    http: SocketAddr,
    p2p: SocketAddr,
    ship: SocketAddr,
    salt: u64,
}

impl Nodeos {
    /// Starts a node with a fresh chain that makes a block every half second.
    pub fn start() -> Result<Self, NodeosError> {
        Self::start_with(&NodeosOptions::default())
    }

    /// Starts a node; returns when it answers calls.
    pub fn start_with(options: &NodeosOptions) -> Result<Self, NodeosError> {
        let exe = std::env::var_os(NODEOS_EXE_VARIABLE)
            .ok_or_else(|| NodeosError::NoProgram("is not set".into()))?;
        let exe = PathBuf::from(exe);
        if !exe.is_file() {
            return Err(NodeosError::NoProgram(format!(
                "names {}, which is not a file",
                exe.display()
            )));
        }
        let dir = tempfile::Builder::new()
            .prefix("cairn-nodeos-")
            .tempdir()
            .map_err(process)?;
        let [http, p2p, ship] = any_ports()?;
        let mut node = Nodeos {
            exe,
            dir,
            child: None,
            http,
            p2p,
            ship,
            salt: 0,
        };
        node.configure(options)?;
        node.launch(&["--genesis-json", "genesis.json"])?;
        Ok(node)
    }

    fn configure(&self, options: &NodeosOptions) -> Result<(), NodeosError> {
        let genesis = json!({
            "initial_timestamp": options.genesis_time,
            "initial_key": DEVELOPMENT_KEY,
            "initial_configuration": {
                "max_block_net_usage": 1_048_576, "target_block_net_usage_pct": 1000,
                "max_transaction_net_usage": 524_288, "base_per_transaction_net_usage": 12, "net_usage_leeway": 500,
                "context_free_discount_net_usage_num": 20, "context_free_discount_net_usage_den": 100,
                "max_block_cpu_usage": 400_000, "target_block_cpu_usage_pct": 1000,
                "max_transaction_cpu_usage": 350_000, "min_transaction_cpu_usage": 100,
                "max_transaction_lifetime": 3600, "deferred_trx_expiration_window": 5,
                "max_transaction_delay": 3_888_000, "max_inline_action_size": 65_536, "max_inline_action_depth": 6,
                "max_authority_depth": 6,
            },
        });
        let mut config: Vec<String> = [
            "chain",
            "net",
            "producer",
            "http",
            "chain_api",
            "producer_api",
            "net_api",
            "state_history",
        ]
        .iter()
        .map(|plugin| format!("plugin = eosio::{plugin}_plugin"))
        .collect();
        config.extend([
            format!("http-server-address = {}", self.http),
            format!("p2p-listen-endpoint = {}", self.p2p),
            format!("state-history-endpoint = {}", self.ship),
            "trace-history = true".to_owned(),
            "chain-state-history = true".to_owned(),
            format!("signature-provider = {DEVELOPMENT_KEY}=KEY:{DEVELOPMENT_SECRET}"),
            "contracts-console = true".to_owned(),
            "http-validate-host = false".to_owned(),
            // A slow machine must not make the node refuse contracts.
            "max-transaction-time = 10000".to_owned(),
            "abi-serializer-max-time-ms = 15000".to_owned(),
            "http-max-response-time-ms = 15000".to_owned(),
            "chain-state-db-size-mb = 256".to_owned(),
            "p2p-accept-transactions = true".to_owned(),
        ]);
        config.extend(
            options
                .producers
                .iter()
                .map(|name| format!("producer-name = {name}")),
        );
        config.extend(
            options
                .peers
                .iter()
                .map(|peer| format!("p2p-peer-address = {peer}")),
        );
        if options.first {
            config.push("enable-stale-production = true".to_owned());
        }
        let write = |name: &str, text: String| {
            std::fs::write(self.dir.path().join(name), text).map_err(process)
        };
        write("genesis.json", genesis.to_string())?;
        write("config.ini", config.join("\n") + "\n")
    }

    fn launch(&mut self, extra: &[&str]) -> Result<(), NodeosError> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("nodeos.log"))
            .map_err(process)?;
        let child = Command::new(&self.exe)
            .args([
                "nodeos",
                "--config-dir",
                ".",
                "--data-dir",
                "./data",
                "--disable-replay-opts",
            ])
            .args(extra)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| NodeosError::Process(format!("{}: {e}", self.exe.display())))?;
        self.child = Some(child);
        let deadline = Instant::now() + PATIENCE;
        while self.info().is_err() {
            let ended = self
                .child
                .as_mut()
                .and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > deadline {
                let state = ended.map_or("no answer".to_owned(), |status| status.to_string());
                let text = format!("{state}; its log ends with {}", self.log_tail());
                self.kill();
                return Err(NodeosError::Process(text));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read(self.dir.path().join("nodeos.log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(2000)..]).into_owned()
    }

    /// The State History endpoint, as `ship_url` takes it.
    pub fn ship_url(&self) -> String {
        format!("ws://{}", self.ship)
    }

    /// The chain API, as `chain_url` takes it.
    pub fn chain_url(&self) -> String {
        format!("http://{}", self.http)
    }

    /// The address of the chain API.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// The address for peers.
    pub fn p2p_address(&self) -> SocketAddr {
        self.p2p
    }

    /// The folder of the program's contracts, beside it.
    pub fn contracts_dir(&self) -> PathBuf {
        let package = self.exe.ancestors().nth(3).unwrap_or(Path::new("."));
        package.join("tests/contracts")
    }

    /// Calls `path` of the chain API.
    pub fn call(&self, path: &str, body: &Value) -> Result<Value, NodeosError> {
        call(self.http, path, body)
    }

    /// What `get_info` answers.
    pub fn info(&self) -> Result<Value, NodeosError> {
        self.call("/v1/chain/get_info", &json!({}))
    }

    /// A number of [`info`](Self::info), for example `head_block_num`.
    pub fn info_number(&self, field: &str) -> Result<u64, NodeosError> {
        self.info()?[field]
            .as_u64()
            .ok_or_else(|| NodeosError::Process(format!("get_info without {field}")))
    }

    /// The chain id in hex digits.
    pub fn chain_id(&self) -> Result<String, NodeosError> {
        Ok(self.info()?["chain_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// Waits until the head is at least `blocks` further than now.
    pub fn wait_blocks(&self, blocks: u64) -> Result<(), NodeosError> {
        let wanted = self.info_number("head_block_num")? + blocks;
        self.wait_until(&format!("block {wanted}"), |node| {
            Ok(node.info_number("head_block_num")? >= wanted)
        })
    }

    /// Waits until a condition holds. Errors while asking count as not yet.
    pub fn wait_until(
        &self,
        what: &str,
        mut holds: impl FnMut(&Self) -> Result<bool, NodeosError>,
    ) -> Result<(), NodeosError> {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self).unwrap_or(false) {
            if Instant::now() > deadline {
                return Err(NodeosError::Patience(what.to_owned()));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Sends actions in one transaction; the node's trace of it.
    pub fn push(&mut self, actions: &[PackedAction]) -> Result<Value, NodeosError> {
        let info = self.info()?;
        let id = |field: &str| unhex(info[field].as_str().unwrap_or_default());
        self.salt += 1;
        let body = signed(
            &id("chain_id"),
            &id("last_irreversible_block_id"),
            self.salt,
            actions,
        );
        let answer = self.call("/v1/chain/send_transaction2", &body)?;
        let trace = answer["processed"].clone();
        if !trace["except"].is_null() {
            return Err(NodeosError::Call {
                path: "/v1/chain/send_transaction2".to_owned(),
                cause: trace["except"].to_string(),
            });
        }
        Ok(trace)
    }

    /// Makes the chain ready for the test contract: protocol features, the accounts `probe` and `shifter` with the contract
    /// [`PROBE_WASM`] and ABIs of the recording, and `alice` and `bob`. Takes a few seconds.
    pub fn boot(&mut self) -> Result<(), NodeosError> {
        self.call(
            "/v1/producer/schedule_protocol_feature_activations",
            &json!({ "protocol_features_to_activate": [PREACTIVATE_FEATURE] }),
        )?;
        self.wait_blocks(3)?;
        let accounts = ["probe", "shifter", "alice", "bob", "priv", "proda", "prodb"];
        self.push(&accounts.map(PackedAction::new_account))?;
        let bios = std::fs::read(self.contracts_dir().join("eosio.bios/eosio.bios.wasm"))
            .map_err(process)?;
        self.push(&[
            PackedAction::set_code("eosio", &bios),
            PackedAction::set_abi("eosio", &Recording::Main.abi("eosio", 1)),
        ])?;
        self.wait_blocks(1)?;
        let features =
            FEATURES.map(|digest| PackedAction::new("eosio", "activate", "eosio", unhex(digest)));
        self.push(&features)?;
        self.wait_blocks(2)?;
        self.push(&[
            PackedAction::set_code("probe", PROBE_WASM),
            PackedAction::set_abi("probe", &Recording::Main.abi("probe", 1)),
            PackedAction::set_code("shifter", PROBE_WASM),
            PackedAction::set_abi("shifter", &Recording::Main.abi("shifter", 1)),
        ])?;
        Ok(())
    }

    /// Hands block production over to these producers, in turns of six seconds. Needs [`boot`](Self::boot).
    pub fn schedule(&mut self, producers: &[&str]) -> Result<(), NodeosError> {
        let privileged = Packer::new().name("priv").u8(1).done();
        self.push(&[
            PackedAction::set_code("priv", PRIV_WASM),
            PackedAction::new("eosio", "setpriv", "eosio", privileged),
        ])?;
        let mut schedule = Packer::new().varuint(producers.len());
        for producer in producers {
            // An authority with one key, in the form of a variant.
            schedule = schedule
                .name(producer)
                .varuint(0)
                .u32(1)
                .varuint(1)
                .raw(&public_key())
                .u16(1);
        }
        self.push(&[PackedAction::new(
            "priv",
            "setsched",
            "priv",
            schedule.done(),
        )])?;
        Ok(())
    }

    /// Ends the process in the orderly way; everything is on disk afterwards.
    pub fn stop(&mut self) -> Result<(), NodeosError> {
        let Some(child) = self.child.as_mut() else {
            return Ok(());
        };
        Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .map_err(process)?;
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().map_err(process)?.is_none() {
            if Instant::now() > deadline {
                return Err(NodeosError::Patience("nodeos stopped".to_owned()));
            }
            std::thread::sleep(POLL);
        }
        self.child = None;
        Ok(())
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only when the process is already gone.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a stopped node again, on the same ports.
    pub fn start_again(&mut self) -> Result<(), NodeosError> {
        self.launch(&[])
    }

    /// Starts a killed node again. A killed node leaves a damaged state, so state and history are made anew from its blocks.
    pub fn start_after_kill(&mut self) -> Result<(), NodeosError> {
        for folder in ["data/state", "data/state-history"] {
            std::fs::remove_dir_all(self.dir.path().join(folder)).map_err(process)?;
        }
        self.launch(&["--hard-replay-blockchain"])
    }

    /// Connects to a peer.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), NodeosError> {
        self.call("/v1/net/connect", &json!(peer.to_string()))
            .map(drop)
    }

    /// Disconnects from a peer.
    pub fn disconnect(&self, peer: SocketAddr) -> Result<(), NodeosError> {
        self.call("/v1/net/disconnect", &json!(peer.to_string()))
            .map(drop)
    }
}

impl Drop for Nodeos {
    fn drop(&mut self) {
        self.kill();
    }
}

fn process(error: std::io::Error) -> NodeosError {
    NodeosError::Process(error.to_string())
}

fn any_ports() -> Result<[SocketAddr; 3], NodeosError> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(process);
    let held = [listen()?, listen()?, listen()?];
    let mut ports = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); 3];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr().map_err(process)?;
    }
    Ok(ports)
}
