//! `cairn demo`: a bundled sample chain on embedded defaults.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cairn_antelope_ship::ReplaySource;
use cairn_config::{Config, Environment, Listen, Loaded, Sources};
use cairn_stream::ChainLabel;
use cairn_telemetry::routes::{METRICS_PATH, READY_PATH};
use cairn_telemetry::{Health, Logs, State};
use cairn_utxo_chain::address::address_of;
use cairn_utxo_index::View;
use flate2::read::GzDecoder;
use tempfile::TempDir;

use crate::app::App;
use crate::cli::{Common, DemoArgs};
use crate::commands::town;
use crate::failure::Failure;
use crate::serve::{api_base, local_url};
use crate::services::antelope::Recordings;
use crate::stop::Stop;
use crate::{services, settings, system};

/// The sample chain: one gzip'd block file, genesis included.
const SAMPLE: &[u8] = include_bytes!("../../../../samples/regtest.blk.gz");
/// Largest unpacked sample: a bound on what is written.
const SAMPLE_BYTES_MAX: u64 = 64 << 20;
/// The sample's folder below the data folder.
const SAMPLE_FOLDER: &str = "sample/blocks";
/// The name that block files have.
const SAMPLE_FILE: &str = "blk00000.dat";
/// The chain's id.
const CHAIN_ID: &str = "bitcoin-regtest";
/// A small chain of a real Elements node, packed; its folder, and its id in URLs.
const LIQUID_SAMPLE: &[u8] = include_bytes!("../../../../samples/elementsregtest.blk.gz");
const LIQUID_FOLDER: &str = "sample/liquid-blocks";
const LIQUID_ID: &str = "liquid-regtest";
/// The sample Antelope chain: the State History session of a real node, recorded.
const ANTELOPE_SAMPLE: &[u8] =
    include_bytes!("../../../testkit/fixtures/antelope/main/frames.bin.gz");
/// A file that says that it was replayed in this folder.
const ANTELOPE_SEEN: &str = "sample/antelope-replayed";
/// Its chain's id.
const ANTELOPE_ID: &str = "antelope-sample";
/// Time between two of its blocks.
const ANTELOPE_PACE: Duration = Duration::from_millis(20);
/// Longest wait for its first block before the URLs are printed anyway.
const ANTELOPE_WAIT: Duration = Duration::from_secs(20);
/// Ports tried one after the other when the wanted one is taken, before any free one is.
const PORTS_TRIED: u16 = 20;
/// The program that the sample ledger lives in.
const REDIS_PROGRAM: &str = "redis-server";
/// How often it is looked whether the chain is ready.
const READY_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the command.
pub(crate) fn run(common: &Common, args: &DemoArgs) -> Result<ExitCode, Failure> {
    if common.config.is_some() {
        return Err(Failure::Usage(
            "cairn demo has its own configuration; --config is for cairn start".to_owned(),
        ));
    }
    let folder = Folder::choose(common.data_dir.as_deref(), args.keep)?;
    let blocks = unpack_sample(folder.path(), SAMPLE_FOLDER, SAMPLE)?;
    let liquid_blocks = unpack_sample(folder.path(), LIQUID_FOLDER, LIQUID_SAMPLE)?;
    let sources = demo_sources(common, folder.path(), &blocks, &liquid_blocks)?;
    let mut loaded = settings::load(&sources)?;
    let logs = settings::start_logs(&loaded)?;
    system::raise_open_files();
    let runtime = system::runtime()?;
    let stop = Stop::new();
    let outcome = runtime.block_on(async {
        stop.on_signals()?;
        choose_port(&mut loaded);
        serve(&loaded.config, &logs, &stop, folder.path()).await
    });
    outcome?;
    folder.leave();
    Ok(ExitCode::SUCCESS)
}

/// The data folder: the one that was named, or a temporary one.
enum Folder {
    Named(PathBuf),
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn choose(named: Option<&str>, keep: bool) -> anyhow::Result<Self> {
        if let Some(named) = named {
            return Ok(Self::Named(PathBuf::from(named)));
        }
        let dir = tempfile::Builder::new()
            .prefix("cairn-demo-")
            .tempdir()
            .context("cannot make a temporary folder; name one with --data-dir")?;
        Ok(if keep {
            Self::Kept(dir.keep())
        } else {
            Self::Temporary(dir)
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Kept(path) => path,
            Self::Temporary(dir) => dir.path(),
        }
    }

    /// Says where the data are, or removes them.
    fn leave(self) {
        match self {
            Self::Named(path) | Self::Kept(path) => println!("the data are in {}", path.display()),
            Self::Temporary(dir) => {
                let path = dir.path().to_owned();
                if let Err(error) = dir.close() {
                    tracing::warn!(path = %path.display(), %error, "the temporary folder is not removed");
                }
            }
        }
    }
}

/// Writes a sample's block file unless it is there already; the folder with it.
fn unpack_sample(data_dir: &Path, folder: &str, sample: &[u8]) -> anyhow::Result<PathBuf> {
    let folder = data_dir.join(folder);
    let path = folder.join(SAMPLE_FILE);
    if path.exists() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    // Under another name until it is whole: a killed demo must not leave half a chain behind.
    let unfinished = folder.join("unfinished");
    let copied = unpack(sample, &unfinished)
        .and_then(|()| std::fs::rename(&unfinished, &path).map_err(Into::into));
    copied.with_context(|| format!("cannot unpack the sample chain to {}", path.display()))?;
    Ok(folder)
}

fn unpack(packed: &[u8], path: &Path) -> anyhow::Result<()> {
    let mut file = std::fs::File::create(path)?;
    let mut unpacked = std::io::Read::take(GzDecoder::new(packed), SAMPLE_BYTES_MAX + 1);
    let bytes = std::io::copy(&mut unpacked, &mut file)?;
    anyhow::ensure!(
        bytes <= SAMPLE_BYTES_MAX,
        "the sample is larger than {SAMPLE_BYTES_MAX} bytes"
    );
    file.flush()?;
    file.sync_all()?;
    Ok(())
}

/// The embedded configuration. The environment has no say in it, the command line has.
fn demo_sources(
    common: &Common,
    data_dir: &Path,
    blocks: &Path,
    liquid_blocks: &Path,
) -> Result<Sources, Failure> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            anyhow!(
                "{} is not UTF-8; name another folder with --data-dir",
                path.display()
            )
        })
    };
    let mut overrides: Vec<(String, String)> = [
        (
            "telemetry.log",
            "warn,cairn=info,redis_server=error".to_owned(),
        ),
        ("chain.0.id", CHAIN_ID.to_owned()),
        ("chain.0.kind", "bitcoin".to_owned()),
        ("chain.0.network", "regtest".to_owned()),
        ("chain.0.blocks_dir", text(blocks)?),
        ("chain.0.address_search", "true".to_owned()),
        ("chain.1.id", LIQUID_ID.to_owned()),
        ("chain.1.kind", "liquid".to_owned()),
        ("chain.1.network", "elementsregtest".to_owned()),
        ("chain.1.blocks_dir", text(liquid_blocks)?),
        ("chain.1.address_search", "true".to_owned()),
    ]
    .into_iter()
    .map(|(path, value)| (path.to_owned(), value))
    .collect();
    // Without a redis-server on this machine the chain is shown alone.
    if services::redis::program(Path::new(REDIS_PROGRAM)).is_ok() {
        for (key, value) in [
            ("id", ANTELOPE_ID),
            ("kind", "antelope"),
            // Nobody connects there: the blocks come from the recording.
            ("ship_url", "ws://127.0.0.1:1"),
        ] {
            overrides.push((format!("chain.2.{key}"), value.to_owned()));
        }
        overrides.push(("scanner.enabled".to_owned(), "true".to_owned()));
        overrides.push(("scanner.host_id".to_owned(), town::HOST.to_owned()));
    }
    overrides.extend(settings::overrides(common)?);
    overrides.push(("data_dir".to_owned(), text(data_dir)?));
    Ok(Sources {
        file: None,
        environment: Environment::default(),
        overrides,
    })
}

/// Takes the next free port when the wanted one is taken, and says so.
fn choose_port(loaded: &mut Loaded) {
    let Listen::Tcp { host, port } = &loaded.config.http.listen else {
        return;
    };
    if *port == 0 || is_free(host, *port) {
        return;
    }
    let next = (1..PORTS_TRIED)
        .filter_map(|step| port.checked_add(step))
        .find(|port| is_free(host, *port));
    let chosen = next.unwrap_or(0);
    match next {
        Some(next) => println!("port {port} is taken; using {next}"),
        None => println!("port {port} and the next ones are taken; using any free one"),
    }
    loaded.config.http.listen = Listen::Tcp {
        host: host.clone(),
        port: chosen,
    };
}

fn is_free(host: &str, port: u16) -> bool {
    std::net::TcpListener::bind((host, port)).is_ok()
}

async fn serve(config: &Config, logs: &Logs, stop: &Stop, data_dir: &Path) -> anyhow::Result<()> {
    println!("Cairn demo: a sample chain, data in {}", data_dir.display());
    let recordings = recordings(config, data_dir)?;
    let app = App::start_with(config, logs, stop, &recordings).await?;
    let health = app.health.clone();
    if until_ready(&health, stop).await? {
        let view = app.chains().first().and_then(|chain| chain.index.view());
        let view = view.context("the index is ready and has no view")?;
        let url = app
            .bound
            .first()
            .map(|bound| local_url(bound).unwrap_or_else(|| bound.to_string()));
        let url = url.context("there is no listener")?;
        let base = url.clone();
        let text = tokio::task::spawn_blocking(move || welcome(&url, &view)).await??;
        print!("{text}");
        if config.chain(ANTELOPE_ID).is_some() {
            until_antelope(&health, stop).await;
            print!("{}", antelope_text(data_dir)?);
        }
        if let Some(scanner) = app.scanner() {
            let town = town::found(scanner).await?;
            tokio::spawn(town::live(town, scanner.clone(), stop.clone()));
            print!("{}", town::urls(&base));
        }
        println!("\nCtrl-C stops it.");
        // Whoever reads the output through a pipe waits for these lines.
        std::io::stdout()
            .flush()
            .context("cannot write to stdout")?;
    }
    app.run().await
}

/// What stands for the node of the sample Antelope chain.
fn recordings(config: &Config, data_dir: &Path) -> anyhow::Result<Recordings> {
    let mut recordings = Recordings::new();
    if config.chain(ANTELOPE_ID).is_some() {
        let sample = ReplaySource::from_gzip(ANTELOPE_SAMPLE)
            .context("the sample Antelope chain")?
            .with_pace(ANTELOPE_PACE);
        if data_dir.join(ANTELOPE_SEEN).exists() {
            // It was replayed in this folder before: nothing new will happen.
            sample.control().happened(sample.len());
        } else {
            std::fs::write(data_dir.join(ANTELOPE_SEEN), "")
                .with_context(|| format!("cannot write below {}", data_dir.display()))?;
        }
        recordings.insert(ANTELOPE_ID.to_owned(), sample);
    }
    Ok(recordings)
}

/// Waits for the sample Antelope chain, which is there as soon as it has a block.
async fn until_antelope(health: &Health, stop: &Stop) {
    let end = tokio::time::Instant::now() + ANTELOPE_WAIT;
    while let Some(status) = health.status(ANTELOPE_ID) {
        let is_over = status.state == State::Synced || status.state == State::Failed;
        if is_over || stop.is_requested() || tokio::time::Instant::now() > end {
            return;
        }
        tokio::time::sleep(READY_INTERVAL).await;
    }
}

/// Where the events of the sample Antelope chain are.
fn antelope_text(data_dir: &Path) -> anyhow::Result<String> {
    let key = cairn_stream::keys::events(&ChainLabel::new(ANTELOPE_ID)?);
    Ok(format!(
        "\nEvents of a sample Antelope chain, recorded from a real node:\n  redis-cli -s {} XREVRANGE {key} + - COUNT 1\n",
        data_dir.join("redis").join("redis.sock").display()
    ))
}

/// False when asked to stop before.
async fn until_ready(health: &Health, stop: &Stop) -> anyhow::Result<bool> {
    loop {
        match health.status(CHAIN_ID) {
            Some(status) if status.state == State::Synced => return Ok(true),
            Some(status) if status.state == State::Failed => {
                stop.request();
                let reason = status
                    .reason
                    .unwrap_or_else(|| "no reason is known".to_owned());
                return Err(anyhow!("the sample chain cannot be indexed: {reason}"));
            }
            _ => {}
        }
        tokio::select! {
            () = stop.token().cancelled() => return Ok(false),
            () = tokio::time::sleep(READY_INTERVAL) => {}
        }
    }
}

/// What a person needs to look around.
fn welcome(url: &str, view: &Arc<View>) -> anyhow::Result<String> {
    use std::fmt::Write as _;

    let tip = view.tip();
    let api = format!("{url}{}", api_base(CHAIN_ID));
    let mut text = String::new();
    writeln!(
        text,
        "\nCairn is ready: {} blocks of a {} chain are indexed.\n",
        tip.height + 1,
        view.network()
    )?;
    for (name, target) in [
        ("explorer", format!("{url}/")),
        ("Esplora API", api.clone()),
        ("of Liquid", format!("{url}{}", api_base(LIQUID_ID))),
        ("API document", format!("{url}/openapi.json")),
        ("health", format!("{url}{READY_PATH}")),
        ("metrics", format!("{url}{METRICS_PATH}")),
    ] {
        writeln!(text, "  {name:<13} {target}")?;
    }
    writeln!(
        text,
        "\nTry:\n  curl {api}/blocks/tip/height\n  curl {api}/block/{}",
        tip.hash
    )?;
    if let Some(example) = example(view)? {
        writeln!(text, "  curl {api}/tx/{}", example.txid)?;
        if let Some(address) = example.address {
            writeln!(text, "  curl {api}/address/{address}/txs")?;
        }
    }
    Ok(text)
}

struct Example {
    txid: bitcoin::Txid,
    address: Option<String>,
}

/// A transaction of the newest block that spends something, and an address it pays.
fn example(view: &View) -> anyhow::Result<Option<Example>> {
    /// Transactions looked at.
    const LOOKED_AT: usize = 10;
    let txs = view
        .block_txs(&view.tip().hash, 0, LOOKED_AT)?
        .unwrap_or_default();
    let Some(tx) = txs.iter().find(|tx| !tx.tx.is_coinbase()).or(txs.first()) else {
        return Ok(None);
    };
    let address = tx
        .tx
        .output
        .iter()
        .find_map(|output| address_of(&output.script_pubkey, view.network()));
    Ok(Some(Example {
        txid: tx.txid,
        address,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_unpacks_once() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = unpack_sample(dir.path(), SAMPLE_FOLDER, SAMPLE).expect("unpacked");
        let path = folder.join(SAMPLE_FILE);
        let bytes = std::fs::read(&path).expect("written");
        // Magic of regtest, then the size of the genesis block: 285 bytes.
        assert_eq!(bytes[..8], [0xfa, 0xbf, 0xb5, 0xda, 0x1d, 0x01, 0, 0]);
        std::fs::write(&path, "mine").expect("writable");
        unpack_sample(dir.path(), SAMPLE_FOLDER, SAMPLE).expect("already there");
        assert_eq!(std::fs::read(&path).expect("still there"), b"mine");
    }

    #[test]
    fn a_temporary_folder_goes_and_a_kept_one_stays() {
        let temporary = Folder::choose(None, false).expect("made");
        let path = temporary.path().to_owned();
        assert!(path.is_dir());
        temporary.leave();
        assert!(!path.exists());
        let kept = Folder::choose(None, true).expect("made");
        let path = kept.path().to_owned();
        kept.leave();
        assert!(path.is_dir());
        std::fs::remove_dir_all(path).expect("removable");
    }
}
