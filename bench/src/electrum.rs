//! The Electrum server under load: requests over loopback against a real `cairn start`, and what a block costs when many
//! scripts are watched.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bitcoin::hashes::{Hash, sha256};
use bitcoin::hex::DisplayHex;
use bitcoin::{Address, Amount, Network, TxOut};
use cairn_electrum::{
    ElectrumOptions, ElectrumServer, ElectrumState, Endpoint, Transport, method_names,
};
use cairn_telemetry::{ElectrumMetricsSet, MetricsRegistry};
use cairn_testkit::{Lock, MemorySource, OWN_NUMBERS, TestChain, spend};
use cairn_utxo_index::{Index, IndexConfig};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::sync::CancellationToken;

use crate::chain::{self, ChainFacts};
use crate::http::{Server, free_address};
use crate::load::LoadResult;

const CONNECTIONS: [usize; 3] = [1, 64, 1_000];
/// Watched scripts, and over how many sessions.
const WATCHED: u32 = 100_000;
const WATCHERS: u32 = 100;
/// Watched scripts that one block touches.
const TOUCHED: u32 = 2_000;
const OUTPUTS_PER_TX: u32 = 200;
/// Time to connect and for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures every method, then subscriptions.
pub(crate) fn bench(dir: &Path, txs: u64, seconds: u64, peer: Option<&str>) -> Result<()> {
    let (blocks, facts) = chain::ensure(dir, txs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    println!("| server | method | connections | answers/s | p50 ms | p99 ms |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let listen = free_address()?;
    let keys = format!("electrum_listen = [\"{listen}\"]\nelectrum_sessions_max = 2000\n");
    let server = Server::start(dir, &blocks, &keys)?;
    let idle = resident_bytes(server.pid())?;
    let mut servers = vec![("cairn", listen.as_str())];
    servers.extend(peer.map(|peer| ("peer", peer)));
    for (name, address) in servers {
        for (method, lines) in requests(&facts)? {
            let lines = Arc::new(lines);
            for connections in CONNECTIONS {
                let time = Duration::from_secs(seconds);
                let result = runtime.block_on(load(address, lines.clone(), connections, time))?;
                println!(
                    "| {name} | `{method}` | {connections} | {:.0} | {:.2} | {:.2} |",
                    result.per_second,
                    result.p50.as_secs_f64() * 1e3,
                    result.p99.as_secs_f64() * 1e3
                );
            }
        }
    }
    println!(
        "\nmemory of cairn: {} MB before, {} MB after the load",
        idle >> 20,
        resident_bytes(server.pid())? >> 20
    );
    drop(server);
    let server_runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    server_runtime.block_on(subscriptions())
}

/// A request line for each sample. Histories of the busiest scripts are a row of their own: one of them weighs as much as a
/// thousand others.
fn requests(facts: &ChainFacts) -> Result<Vec<(&'static str, Vec<String>)>> {
    let is_busy = |address: &String| facts.busiest.iter().any(|(busy, _)| busy == address);
    let hashes: Vec<String> = facts
        .addresses
        .iter()
        .filter(|address| !is_busy(address))
        .map(|address| script_hash(address))
        .collect::<Result<_>>()?;
    let busiest: Vec<String> = facts
        .busiest
        .iter()
        .map(|(address, _)| script_hash(address))
        .collect::<Result<_>>()?;
    let line = |method: &str, argument: &String| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"blockchain.{method}\",\"params\":[\"{argument}\"]}}\n"
        )
    };
    let of_scripts = |method: &str| {
        hashes
            .iter()
            .map(|hash| line(method, hash))
            .collect::<Vec<_>>()
    };
    Ok(vec![
        (
            "scripthash.get_history",
            of_scripts("scripthash.get_history"),
        ),
        (
            "scripthash.get_history (60 busiest)",
            busiest
                .iter()
                .map(|hash| line("scripthash.get_history", hash))
                .collect(),
        ),
        ("scripthash.subscribe", of_scripts("scripthash.subscribe")),
        (
            "scripthash.get_balance",
            of_scripts("scripthash.get_balance"),
        ),
        (
            "scripthash.listunspent",
            of_scripts("scripthash.listunspent"),
        ),
        (
            "transaction.get",
            facts
                .txids
                .iter()
                .map(|txid| line("transaction.get", txid))
                .collect(),
        ),
    ])
}

/// The script hash of an address, as the protocol prints it.
fn script_hash(address: &str) -> Result<String> {
    let address: Address = address
        .parse::<Address<_>>()?
        .require_network(Network::Regtest)?;
    Ok(printed(address.script_pubkey().as_bytes()))
}

fn printed(script: &[u8]) -> String {
    let mut hash = sha256::Hash::hash(script).to_byte_array();
    hash.reverse();
    hash.to_lower_hex_string()
}

struct Connection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    line: String,
}

impl Connection {
    async fn open(address: &str) -> Result<Self> {
        let stream = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let mut connection = Self {
            reader: BufReader::new(reader),
            writer,
            line: String::new(),
        };
        connection
            .ask("{\"id\":0,\"method\":\"server.version\",\"params\":[\"bench\",\"1.4\"]}\n")
            .await?;
        Ok(connection)
    }

    async fn ask(&mut self, line: &str) -> Result<()> {
        self.writer.write_all(line.as_bytes()).await?;
        self.read().await?;
        ensure!(
            self.line.contains("\"result\""),
            "{line} is answered with {}",
            self.line
        );
        Ok(())
    }

    async fn read(&mut self) -> Result<()> {
        self.line.clear();
        let read = tokio::time::timeout(PATIENCE, self.reader.read_line(&mut self.line)).await??;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

/// Asks the lines in turn over so many connections, one question at a time on each.
async fn load(
    address: &str,
    lines: Arc<Vec<String>>,
    connections: usize,
    time: Duration,
) -> Result<LoadResult> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut opened = Vec::new();
    for _ in 0..connections {
        opened.push(Connection::open(address).await?);
    }
    let start = Instant::now();
    let tasks: Vec<_> = opened
        .into_iter()
        .map(|mut connection| {
            let (lines, next) = (lines.clone(), next.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                while start.elapsed() < time {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let asked = Instant::now();
                    connection.ask(&lines[number % lines.len()]).await?;
                    times.push(asked.elapsed());
                }
                Ok::<_, anyhow::Error>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    let wall = start.elapsed().as_secs_f64();
    times.sort_unstable();
    if times.is_empty() {
        bail!("no answer at all within {time:?}");
    }
    Ok(LoadResult {
        connections,
        per_second: times.len() as f64 / wall,
        p50: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
    })
}

fn resident_bytes(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .context("no VmRSS")?;
    let kilobytes: u64 = line
        .split_whitespace()
        .nth(1)
        .context("no number")?
        .parse()?;
    Ok(kilobytes * 1024)
}

/// One server in this process, many sessions, one block.
async fn subscriptions() -> Result<()> {
    let mut chain = TestChain::small(1, 130);
    let dir = tempfile::tempdir()?;
    let mut config = IndexConfig::new(dir.path().join("index"), Network::Regtest);
    config.memory_bytes = 256 << 20;
    let index = Index::open(config)?;
    let source = MemorySource::new(chain.model());
    let never = AtomicBool::new(false);
    tokio::task::block_in_place(|| index.sync(&source, None, &never))?;
    let registry = MetricsRegistry::new();
    let server = ElectrumServer::new(ElectrumState {
        chain: "bench".to_owned(),
        index: Arc::clone(&index),
        node: None,
        options: ElectrumOptions::default(),
        metrics: ElectrumMetricsSet::register(&registry).chain("bench", &method_names()),
    });
    let listener = "127.0.0.1:0"
        .parse::<cairn_http::Listen>()?
        .bind(1024)
        .await?;
    let address = listener.address()?.to_string();
    let stop = CancellationToken::new();
    let endpoint = Endpoint {
        listener,
        transport: Transport::Tcp,
        proxies: Vec::new(),
    };
    let serving = tokio::spawn(server.clone().serve(vec![endpoint], stop.clone()));
    let mut sessions = Vec::new();
    for _ in 0..WATCHERS {
        sessions.push(Connection::open(&address).await?);
    }
    let own = std::process::id();
    let before = resident_bytes(own)?;
    let start = Instant::now();
    let pay = |number: u32| TxOut {
        value: Amount::from_sat(1_000),
        script_pubkey: Lock::Wsh(OWN_NUMBERS + number).script_pubkey(),
    };
    for number in 0..WATCHED {
        let hash = printed(pay(number).script_pubkey.as_bytes());
        let line = format!(
            "{{\"id\":1,\"method\":\"blockchain.scripthash.subscribe\",\"params\":[\"{hash}\"]}}\n"
        );
        sessions[(number % WATCHERS) as usize].ask(&line).await?;
    }
    let subscribed = start.elapsed();
    let memory = resident_bytes(own)?.saturating_sub(before);
    let coins = chain.coins((TOUCHED / OUTPUTS_PER_TX) as usize);
    let txs = (0u32..)
        .zip(coins)
        .map(|(at, coin)| {
            spend(
                &[coin],
                (at * OUTPUTS_PER_TX..(at + 1) * OUTPUTS_PER_TX)
                    .map(pay)
                    .collect(),
            )
        })
        .collect();
    chain.mine(txs);
    source.follow(chain.model());
    let readers: Vec<_> = sessions
        .into_iter()
        .map(|mut session| {
            tokio::spawn(async move {
                for _ in 0..TOUCHED / WATCHERS {
                    session.read().await?;
                }
                Ok::<_, anyhow::Error>(Instant::now())
            })
        })
        .collect();
    let start = Instant::now();
    tokio::task::block_in_place(|| index.sync(&source, None, &never))?;
    let indexed = start.elapsed();
    let mut last = start;
    for reader in readers {
        last = last.max(reader.await??);
    }
    println!(
        "\n{WATCHED} subscriptions over {WATCHERS} sessions, a block that touches {TOUCHED} of them:"
    );
    println!(
        "- {:.0} subscriptions/s, {} bytes each",
        f64::from(WATCHED) / subscribed.as_secs_f64(),
        memory / u64::from(WATCHED)
    );
    println!(
        "- block indexed after {:.1} ms, last notification {:.1} ms after the block arrived",
        indexed.as_secs_f64() * 1e3,
        (last - start).as_secs_f64() * 1e3
    );
    stop.cancel();
    serving.await?;
    Ok(())
}
