//! `cairn scanner-backfill`: what an application wrote before, brought into the ledger from a shell.

use std::process::ExitCode;
use std::time::Duration;

use cairn_scanner::{BackfillError, BackfillKind, BackfillState, MigrationStatus, Scanner};

use crate::cli::{Common, JsonArgs};
use crate::failure::Failure;
use crate::services::redis::CommandRedis;
use crate::services::scanner;
use crate::stop::{Stop, interrupted};
use crate::{settings, system};

/// How often progress is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Runs the command.
pub(crate) fn run(common: &Common, args: &JsonArgs) -> Result<ExitCode, Failure> {
    let loaded = settings::load(&settings::sources(common)?)?;
    let Some(keys) = &loaded.config.scanner else {
        return Err(Failure::Usage(
            "there is no ledger: set scanner.enabled = true".to_owned(),
        ));
    };
    let _logs = settings::start_logs(&loaded)?;
    let runtime = system::runtime()?;
    let stop = Stop::new();
    let state = runtime.block_on(async {
        stop.on_signals()?;
        let held = CommandRedis::open(&loaded.config).await?;
        let ledger = scanner::open(keys, &held.redis)?;
        let outcome = backfill(&ledger, &stop).await;
        held.close().await?;
        outcome
    })?;
    if args.json {
        println!("{}", state.to_json());
    } else {
        println!("{}", sentence(&state));
        for row in &state.faults {
            println!("  {}[{}]: {}", row.key, row.index, row.fault);
        }
    }
    match state.status {
        MigrationStatus::Completed => Ok(ExitCode::SUCCESS),
        _ if stop.is_requested() => Ok(interrupted("everything was read")),
        _ => Err(anyhow::anyhow!(
            "the backfill is not complete: {}",
            state.error.as_deref().unwrap_or("it is still under way")
        )
        .into()),
    }
}

/// Runs a backfill, or waits for the one that another process runs.
async fn backfill(ledger: &Scanner, stop: &Stop) -> anyhow::Result<BackfillState> {
    ledger.prepare().await?;
    let work = async {
        loop {
            match ledger.run_backfill(BackfillKind::Full).await {
                Ok(true) | Err(BackfillError::Stopped) => break,
                Ok(false) => {
                    let state = ledger.await_backfill(PROGRESS_INTERVAL).await?;
                    // The lease outlives a process that was killed for some seconds.
                    if state.status == MigrationStatus::Completed {
                        break;
                    }
                }
                Err(error) => return Err(anyhow::Error::from(error)),
            }
        }
        anyhow::Ok(())
    };
    let mut work = std::pin::pin!(work);
    let mut has_asked = false;
    loop {
        tokio::select! {
            done = &mut work => {
                done?;
                return Ok(ledger.backfill_state().await?);
            }
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                eprintln!("{}", sentence(&ledger.backfill_state().await?));
            }
            () = stop.token().cancelled(), if !has_asked => {
                has_asked = true;
                ledger.stop_backfill().await?;
            }
        }
    }
}

fn sentence(state: &BackfillState) -> String {
    format!(
        "{}: {} keys read; {} rows new, {} known, {} in conflict, {} unusable; {} wallets{}",
        state.status.as_str(),
        state.keys_seen,
        state.newly_indexed,
        state.duplicates,
        state.conflicts,
        state.invalid,
        state.wallets_indexed,
        state
            .cursor
            .as_ref()
            .map_or_else(String::new, |cursor| format!(" ({cursor})")),
    )
}
