//! `cairn index`: one chain up to the tip, then exit.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cairn_telemetry::{Logs, ProgressReporter};
use cairn_utxo_index::{Index, SyncOutcome};

use crate::cli::{Common, IndexArgs};
use crate::data_dir::DataDirLock;
use crate::failure::Failure;
use crate::services::chain::Chain;
use crate::services::monitor;
use crate::services::worker::{Backoff, Verdict, verdict};
use crate::stop::{Stop, interrupted};
use crate::{settings, system};

/// How long a source that does not answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the progress is looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// Runs the command.
pub(crate) fn run(common: &Common, args: &IndexArgs) -> Result<ExitCode, Failure> {
    let loaded = settings::load_with_chains(common)?;
    let config = settings::utxo_chain(&loaded.config, &args.chain)?;
    let logs = settings::start_logs(&loaded)?;
    system::raise_open_files();
    let runtime = system::runtime()?;
    let stop = Stop::new();
    {
        let _in_runtime = runtime.enter();
        stop.on_signals()?;
    }
    let _lock = DataDirLock::take(&loaded.config.data_dir)?;
    let chain = Chain::open(&loaded.config, config, runtime.handle(), &stop)?;
    let started = Instant::now();
    let Some(total) = sync_with_progress(&chain, args.until, &logs, &stop)? else {
        return Ok(interrupted("the tip was reached"));
    };
    tracing::info!(chain = args.chain, height = total.height, "indexed");
    println!(
        "indexed {} blocks {} txs in {:.1} s",
        total.blocks,
        total.txs,
        started.elapsed().as_secs_f64()
    );
    Ok(ExitCode::SUCCESS)
}

/// What all attempts did together.
struct Total {
    blocks: u64,
    txs: u64,
    height: u32,
}

/// `None`: asked to stop.
fn sync_with_progress(
    chain: &Chain,
    until: Option<u32>,
    logs: &Logs,
    stop: &Stop,
) -> anyhow::Result<Option<Total>> {
    let done = Arc::new(AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let mut reporter = ProgressReporter::new(logs, &chain.config.id);
        let (index, done) = (Arc::clone(&chain.index), Arc::clone(&done));
        move || watch(&index, &mut reporter, &done)
    });
    let result = sync(chain, until, stop);
    done.store(true, Ordering::Relaxed);
    // A reporter that panicked has said so; the work is what counts.
    let _ = watcher.join();
    result
}

fn watch(index: &Index, reporter: &mut ProgressReporter, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        reporter.update(&monitor::sample(&index.progress()));
        std::thread::sleep(SAMPLE_INTERVAL);
    }
}

fn sync(chain: &Chain, until: Option<u32>, stop: &Stop) -> anyhow::Result<Option<Total>> {
    let mut backoff = Backoff::new();
    let mut trouble_since: Option<Instant> = None;
    loop {
        let error = match chain.index.sync(&*chain.opened.source, until, stop.flag()) {
            Ok(SyncOutcome {
                tip, blocks, txs, ..
            }) => {
                return Ok(Some(Total {
                    blocks,
                    txs,
                    height: tip.height,
                }));
            }
            Err(error) => error,
        };
        match verdict(&error) {
            Verdict::Stopped => return Ok(None),
            Verdict::Retry(crate::services::monitor::Trouble::Transient)
                if trouble_since.get_or_insert_with(Instant::now).elapsed() < PATIENCE =>
            {
                tracing::warn!(%error, "trying again");
                stop.sleep(backoff.pause());
            }
            Verdict::Retry(_) | Verdict::GiveUp => {
                return Err(
                    anyhow::Error::from(error).context(format!("chain {}", chain.config.id))
                );
            }
        }
    }
}
