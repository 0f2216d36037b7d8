//! `cairn abi-prune`: remove ABI versions that are no longer needed.

use std::process::ExitCode;

use cairn_antelope_parser::{PruneReport, contracts_with_abis, prune_abis};
use cairn_config::Config;
use serde_json::{Value, json};

use crate::cli::{AbiPruneArgs, Common};
use crate::failure::Failure;
use crate::services::redis::CommandRedis;
use crate::{settings, system};

/// Runs the command.
pub(crate) fn run(common: &Common, args: &AbiPruneArgs) -> Result<ExitCode, Failure> {
    let loaded = settings::load_with_chains(common)?;
    settings::start_logs(&loaded)?;
    let config = &loaded.config;
    if config.antelope_chains().next().is_none() {
        return Err(Failure::Usage(
            "the configuration has no chain of kind antelope: there are no ABIs to prune"
                .to_owned(),
        ));
    }
    let reports = system::runtime()?.block_on(prune(config, args))?;
    if args.json {
        println!("{:#}", to_json(&reports, args));
    } else {
        print(&reports, args);
    }
    Ok(ExitCode::SUCCESS)
}

async fn prune(config: &Config, args: &AbiPruneArgs) -> anyhow::Result<Vec<PruneReport>> {
    let opened = CommandRedis::open(config).await?;
    let outcome = prune_all(&opened, args).await;
    opened.close().await?;
    outcome
}

async fn prune_all(opened: &CommandRedis, args: &AbiPruneArgs) -> anyhow::Result<Vec<PruneReport>> {
    let contracts = match &args.contract {
        Some(contract) => vec![contract.clone()],
        None => contracts_with_abis(&opened.redis).await?,
    };
    let mut reports = Vec::with_capacity(contracts.len());
    for contract in contracts {
        let report = prune_abis(
            &opened.redis,
            &contract,
            args.older_than,
            args.keep_last,
            args.dry_run,
        );
        reports.push(report.await?);
    }
    Ok(reports)
}

fn print(reports: &[PruneReport], args: &AbiPruneArgs) {
    let done = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    let mut sum = 0;
    for report in reports {
        sum += report.removed.len();
        let stays = match report.in_force {
            Some(block) => format!(
                "the version of block {block} is in force at {}",
                args.older_than
            ),
            None => format!("no version is older than {}", args.older_than),
        };
        println!(
            "{}: {done} {} of {} versions; {stays}",
            report.contract,
            report.removed.len(),
            report.versions
        );
    }
    println!("{done} {sum} versions of {} contracts", reports.len());
}

fn to_json(reports: &[PruneReport], args: &AbiPruneArgs) -> Value {
    let contracts: Vec<Value> = reports
        .iter()
        .map(|report| {
            json!({
                "contract": report.contract, "versions": report.versions, "removed_blocks": report.removed,
                "in_force_block": report.in_force,
            })
        })
        .collect();
    json!({ "older_than": args.older_than, "dry_run": args.dry_run, "contracts": contracts })
}
