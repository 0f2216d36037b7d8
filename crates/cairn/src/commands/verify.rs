//! `cairn verify`: rows against each other and the source.

use std::process::ExitCode;

use anyhow::Context;
use cairn_telemetry::{ProgressReporter, Sample, WorkUnit};
use cairn_utxo_index::{IndexError, VerifyReport};
use serde_json::{Value, json};

use crate::cli::{Common, VerifyArgs};
use crate::commands::dump_rows::no_index;
use crate::data_dir::DataDirLock;
use crate::failure::{EXIT_FAILED, Failure};
use crate::services::chain::Chain;
use crate::stop::{Stop, interrupted};
use crate::{settings, system};

/// Runs the command.
pub(crate) fn run(common: &Common, args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let loaded = settings::load_with_chains(common)?;
    let config = settings::utxo_chain(&loaded.config, &args.chain)?;
    let logs = settings::start_logs(&loaded)?;
    if settings::existing_index(&loaded.config, &args.chain).is_none() {
        return Err(no_index(&args.chain).into());
    }
    system::raise_open_files();
    let runtime = system::runtime()?;
    let stop = Stop::new();
    {
        let _in_runtime = runtime.enter();
        stop.on_signals()?;
    }
    let _lock = DataDirLock::take(&loaded.config.data_dir)?;
    let chain = Chain::open(&loaded.config, config, runtime.handle(), &stop)?;
    let Some(view) = chain.index.view() else {
        return Err(anyhow::anyhow!(
            "chain {}: the first load is not complete; there is nothing to verify",
            args.chain
        )
        .into());
    };
    let tip = view.tip().height;
    let last = args.to.unwrap_or(tip);
    if args.from > last || last > tip {
        return Err(Failure::Usage(format!(
            "--from {} --to {last} is no range of heights up to the tip {tip}",
            args.from
        )));
    }
    // Finds the blocks (files are listed only when the tip is asked for), and fails at once when there is no source.
    let source_tip = chain.opened.source.tip().map_err(anyhow::Error::from);
    source_tip.with_context(|| format!("chain {}", args.chain))?;
    let mut reporter = ProgressReporter::new(&logs, &args.chain);
    let mut speed = Speed::new(u64::from(last - args.from) + 1);
    let result = chain.index.verify(
        &*chain.opened.source,
        args.from..=last,
        stop.flag(),
        &mut |_height| {
            reporter.update(&speed.next());
        },
    );
    drop(reporter);
    let report = match result {
        Ok(report) => report,
        Err(IndexError::Stopped) => return Ok(interrupted("the end of the range")),
        Err(error) => {
            return Err(anyhow::Error::from(error)
                .context(format!("chain {}", args.chain))
                .into());
        }
    };
    print(&report, args).context("cannot write the report")?;
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_FAILED)
    })
}

fn print(report: &VerifyReport, args: &VerifyArgs) -> anyhow::Result<()> {
    if args.json {
        println!("{:#}", to_json(report));
        return Ok(());
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    let unnamed = report
        .faults
        .saturating_sub(u64::try_from(report.findings.len())?);
    if unnamed > 0 {
        println!("and {unnamed} more");
    }
    println!(
        "verified {} blocks {} rows: {} wrong",
        report.blocks, report.rows, report.faults
    );
    if !report.is_clean() {
        eprintln!(
            "error: chain {}: {} rows are wrong; delete its index folder and index it anew",
            args.chain, report.faults
        );
    }
    Ok(())
}

fn to_json(report: &VerifyReport) -> Value {
    json!({
        "clean": report.is_clean(),
        "blocks": report.blocks,
        "rows": report.rows,
        "faults": report.faults,
        "findings": report.findings.iter().map(|finding| json!({
            "height": finding.height,
            "db": finding.db.name(),
            "fault": format!("{:?}", finding.fault).to_lowercase(),
            "key": finding.key,
        })).collect::<Vec<_>>(),
    })
}

/// Counts verified blocks; each counts as one unit of work.
struct Speed {
    done: u64,
    total: u64,
    started: std::time::Instant,
}

impl Speed {
    fn new(total: u64) -> Self {
        Self {
            done: 0,
            total,
            started: std::time::Instant::now(),
        }
    }

    fn next(&mut self) -> Sample {
        self.done += 1;
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = if seconds > 0.0 {
            self.done as f64 / seconds
        } else {
            0.0
        };
        let left = self.total.saturating_sub(self.done) as f64;
        Sample {
            phase: "verifying",
            unit: WorkUnit::Blocks,
            done: self.done,
            total: self.total,
            rate,
            eta_seconds: (rate > 0.0).then(|| (left / rate).ceil() as u64),
            blocks: self.done,
            txs: 0,
        }
    }
}
