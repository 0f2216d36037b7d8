//! The Esplora API under load: a real `cairn start` in a process of its own, asked over loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::chain::{self, ChainFacts};
use crate::load::{self, LoadResult};

const CONNECTIONS: [usize; 3] = [1, 8, 32];
const START_SECONDS_MAX: u64 = 600;

/// Measures every endpoint cold (after a restart, each path once) and warm.
pub(crate) fn bench(dir: &Path, txs: u64, seconds: u64) -> Result<()> {
    let (blocks, facts) = chain::ensure(dir, txs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    println!(
        "busiest addresses: {:?} outputs",
        facts
            .busiest
            .iter()
            .take(5)
            .map(|b| b.1)
            .collect::<Vec<_>>()
    );
    println!("| endpoint | cache | connections | answers/s | p50 ms | p99 ms |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, paths) in endpoints(&facts) {
        let paths = Arc::new(paths);
        let server = Server::start(dir, &blocks, "")?;
        let measure = |connections, rounds| {
            let time = Duration::from_secs(seconds);
            runtime.block_on(load::run(
                &server.address,
                paths.clone(),
                connections,
                time,
                rounds,
            ))
        };
        print_row(name, "cold", &measure(1, 1)?);
        for connections in CONNECTIONS {
            print_row(name, "warm", &measure(connections, usize::MAX)?);
        }
    }
    Ok(())
}

fn endpoints(facts: &ChainFacts) -> Vec<(&'static str, Vec<String>)> {
    let per = |items: &mut dyn Iterator<Item = &String>, before: &str, after: &str| {
        items
            .map(|item| format!("{before}{item}{after}"))
            .collect::<Vec<_>>()
    };
    let busy = || facts.busiest.iter().map(|(address, _)| address);
    vec![
        ("/tx/:txid", per(&mut facts.txids.iter(), "/tx/", "")),
        (
            "/address/:a",
            per(&mut facts.addresses.iter(), "/address/", ""),
        ),
        (
            "/address/:a/txs",
            per(&mut facts.addresses.iter(), "/address/", "/txs"),
        ),
        (
            "/address/:a (60 busiest)",
            per(&mut busy(), "/address/", ""),
        ),
        (
            "/address/:a/txs (60 busiest)",
            per(&mut busy(), "/address/", "/txs"),
        ),
        (
            "/address/:a/txs (busiest)",
            per(&mut busy().take(1), "/address/", "/txs"),
        ),
    ]
}

fn print_row(name: &str, cache: &str, result: &LoadResult) {
    println!(
        "| `{name}` | {cache} | {} | {:.0} | {:.2} | {:.2} |",
        result.connections,
        result.per_second,
        result.p50.as_secs_f64() * 1e3,
        result.p99.as_secs_f64() * 1e3
    );
}

/// A `cairn start` of its own.
pub(crate) struct Server {
    child: Child,
    /// Where its Esplora API is.
    pub(crate) address: String,
}

impl Server {
    /// Starts the program beside this one on the chain (indexing it the first time), with empty caches.
    /// `keys` are further lines for the chain in the configuration.
    pub(crate) fn start(dir: &Path, blocks: &Path, keys: &str) -> Result<Self> {
        let keys = format!("rpc_url = \"\"\nblocks_dir = {blocks:?}\n{keys}");
        Self::start_with(&dir.join("server"), &keys)
    }

    /// Starts the program on a regtest chain that the given lines of the configuration tell more of, in a data folder.
    pub(crate) fn start_with(data: &Path, keys: &str) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("cairn");
        ensure!(
            program.exists(),
            "{} is missing: build it first (`make bench` does)",
            program.display()
        );
        fs::create_dir_all(data)?;
        // The statistics of the run before must not help this one.
        drop_caches(data);
        let [address, http] = [free_address()?, free_address()?];
        let config = data.with_extension("toml");
        fs::write(
            &config,
            format!(
                "data_dir = {data:?}\n[http]\nlisten = \"{http}\"\n[telemetry]\nlog = \"warn\"\n[[chain]]\n\
                 id = \"bench\"\nkind = \"bitcoin\"\nnetwork = \"regtest\"\n\
                 esplora_listen = \"{address}\"\n{keys}"
            ),
        )?;
        let child = Command::new(program)
            .args(["start", "--config"])
            .arg(&config)
            .stdout(Stdio::null())
            .spawn()
            .context("starting cairn")?;
        let mut server = Self { child, address };
        server.wait()?;
        Ok(server)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let tip = Arc::new(vec!["/blocks/tip/height".to_owned()]);
        while start.elapsed() < Duration::from_secs(START_SECONDS_MAX) {
            if let Some(status) = self.child.try_wait()? {
                bail!("cairn ended: {status}");
            }
            let asked = load::run(&self.address, tip.clone(), 1, Duration::from_secs(1), 1);
            if runtime.block_on(asked).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        bail!("cairn did not answer within {START_SECONDS_MAX} s")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that is gone already is what is wanted here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes the cache databases of the server and, where the system allows it, the pages of all files.
fn drop_caches(data: &Path) {
    let Ok(chains) = fs::read_dir(data.join("chains")) else {
        return;
    };
    for chain in chains.flatten() {
        let cache: PathBuf = chain.path().join("cache");
        if cache.exists() && fs::remove_dir_all(&cache).is_err() {
            eprintln!(
                "{} could not be removed: statistics are warm",
                cache.display()
            );
        }
    }
    if fs::write("/proc/sys/vm/drop_caches", "3").is_err() {
        eprintln!("the page cache stays warm (dropping it needs root)");
    }
}

/// An address with a port that is free now.
pub(crate) fn free_address() -> Result<String> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .to_string())
}
