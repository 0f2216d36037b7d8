//! `cairn list-dead-letters` and `cairn replay-dead-letter`.

use std::process::ExitCode;

use anyhow::bail;
use cairn_redis::Redis;
use cairn_stream::subscription::SubId;
use cairn_stream::subscription::admin::{self, DeadLetter, Which};
use cairn_stream::{ChainLabel, EntryId};
use comfy_table::{Table, presets};
use serde_json::{Value, json};

use crate::cli::{Common, ListDeadLettersArgs, ReplayDeadLetterArgs};
use crate::commands::subscriptions::{chain, short, sub_id};
use crate::failure::Failure;
use crate::services::redis::CommandRedis;
use crate::{settings, system};

/// Runs `list-dead-letters`.
pub(crate) fn list(common: &Common, args: &ListDeadLettersArgs) -> Result<ExitCode, Failure> {
    let after = match &args.from {
        None => EntryId::ZERO,
        Some(text) => text
            .parse()
            .map_err(|error| Failure::Usage(format!("--from: {error}")))?,
    };
    let one = args.sub_id.as_deref().map(sub_id).transpose()?;
    let loaded = settings::load_with_chains(common)?;
    settings::start_logs(&loaded)?;
    let chain = chain(&loaded.config, args.chain.as_deref())?;
    let letters = system::runtime()?.block_on(async {
        let opened = CommandRedis::open(&loaded.config).await?;
        let letters = read(&opened.redis, &chain, one, after, args.limit).await;
        opened.close().await?;
        letters
    })?;
    if args.json {
        let letters: Vec<Value> = letters.iter().map(DeadLetter::to_json).collect();
        println!("{:#}", Value::Array(letters));
    } else if letters.is_empty() {
        println!("No dead letters.");
    } else {
        print(&letters, args.sub_id.is_none());
        if letters.len() == args.limit
            && let Some(last) = letters.last()
        {
            println!("there may be more: --from {}", last.id);
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn read(
    redis: &Redis,
    chain: &ChainLabel,
    one: Option<SubId>,
    after: EntryId,
    limit: usize,
) -> anyhow::Result<Vec<DeadLetter>> {
    let subs = match one {
        Some(sub_id) => vec![sub_id],
        None => admin::with_dead_letters(redis, chain).await?,
    };
    let mut letters = Vec::new();
    for sub_id in subs {
        let left = limit - letters.len();
        if left == 0 {
            break;
        }
        letters.extend(admin::dead_letters(redis, chain, &sub_id, after, left).await?);
    }
    Ok(letters)
}

fn print(letters: &[DeadLetter], with_sub: bool) {
    let mut table = Table::new();
    let mut header = vec!["ENTRY ID", "EVENT ID", "KIND", "FAIL#", "LAST ERROR"];
    if with_sub {
        header.insert(0, "SUB ID");
    }
    table.load_style(presets::NOTHING).set_header(header);
    for letter in letters {
        let mut row = vec![
            letter.id.to_string(),
            letter.event_id.clone(),
            letter.kind.clone(),
            letter.failures.to_string(),
            short(&letter.last_error),
        ];
        if with_sub {
            row.insert(0, letter.sub_id.clone());
        }
        table.add_row(row);
    }
    println!("{table}");
}

/// Runs `replay-dead-letter`.
pub(crate) fn replay(common: &Common, args: &ReplayDeadLetterArgs) -> Result<ExitCode, Failure> {
    let which = match (&args.event_id, &args.entry_id) {
        (Some(event_id), _) => Which::Event(event_id.clone()),
        (None, Some(entry)) => Which::Letter(
            entry
                .parse()
                .map_err(|error| Failure::Usage(format!("--entry-id: {error}")))?,
        ),
        (None, None) => Which::All,
    };
    let sub_id = sub_id(&args.sub_id)?;
    let loaded = settings::load_with_chains(common)?;
    settings::start_logs(&loaded)?;
    let chain = chain(&loaded.config, args.chain.as_deref())?;
    let done = if args.dry_run {
        "would replay"
    } else {
        "replayed"
    };
    let mut shown: Vec<Value> = Vec::new();
    let count = system::runtime()?.block_on(async {
        let opened = CommandRedis::open(&loaded.config).await?;
        let asked = admin::replay(
            &opened.redis,
            &chain,
            &sub_id,
            &which,
            args.broadcast,
            args.dry_run,
            |letter| {
                if args.json {
                    shown.push(json!({ "entryId": letter.id.to_string(), "eventId": letter.event_id }));
                } else {
                    println!("{done} {} {}", letter.id, letter.event_id);
                }
            },
        )
        .await;
        opened.close().await?;
        let count = asked?;
        if count == 0 && which != Which::All {
            bail!("there is no such dead letter of {sub_id}; cairn list-dead-letters --sub-id {sub_id} shows them");
        }
        Ok(count)
    })?;
    if args.json {
        let body = json!({
            "subId": sub_id.as_str(), "dryRun": args.dry_run, "broadcast": args.broadcast, "replayed": shown,
        });
        println!("{body:#}");
    } else {
        let to = if args.broadcast {
            "into the shared stream, to all subscriptions".to_owned()
        } else {
            format!("to {sub_id} alone; each leaves the dead letters when it was handled")
        };
        println!("{done} {count} dead letters {to}");
    }
    Ok(ExitCode::SUCCESS)
}
