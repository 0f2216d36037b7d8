//! `cairn list-subscriptions` and `cairn reset-subscription`.

use std::process::ExitCode;

use cairn_config::Config;
use cairn_stream::ChainLabel;
use cairn_stream::subscription::admin::{self, Reset, ResetOptions, ResetTo, SubscriptionInfo};
use cairn_stream::subscription::{EventSource, SubId};
use comfy_table::{Table, presets};
use serde_json::{Value, json};

use crate::cli::{Common, ListSubscriptionsArgs, ResetSubscriptionArgs};
use crate::failure::Failure;
use crate::services::redis::CommandRedis;
use crate::services::subscriptions::streams;
use crate::{settings, system};

/// Longest text of a table's cell, characters.
const CELL_CHARS_MAX: usize = 48;

/// The stream that a command is about: the one named, or the only one there is.
pub(super) fn chain(config: &Config, named: Option<&str>) -> Result<ChainLabel, Failure> {
    let all = streams(config)?;
    let names = || {
        let names: Vec<&str> = all.iter().map(ChainLabel::as_str).collect();
        names.join(", ")
    };
    match named {
        Some(id) => all
            .iter()
            .find(|chain| chain.as_str() == id)
            .cloned()
            .ok_or_else(|| {
                Failure::Usage(format!(
                    "there is no stream of \"{id}\" in the configuration; it has: {}",
                    names()
                ))
            }),
        None => match all.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(Failure::Usage(
                "the configuration has no chain with a stream, so there are no subscriptions"
                    .to_owned(),
            )),
            _ => Err(Failure::Usage(format!(
                "the configuration has several streams; choose one with --chain: {}",
                names()
            ))),
        },
    }
}

/// The subscription of a command line.
pub(super) fn sub_id(text: &str) -> Result<SubId, Failure> {
    SubId::new(text).map_err(|error| Failure::Usage(format!("--sub-id: {error}")))
}

/// Runs `list-subscriptions`.
pub(crate) fn list(common: &Common, args: &ListSubscriptionsArgs) -> Result<ExitCode, Failure> {
    let loaded = settings::load_with_chains(common)?;
    settings::start_logs(&loaded)?;
    let chain = chain(&loaded.config, args.chain.as_deref())?;
    let list = system::runtime()?.block_on(async {
        let opened = CommandRedis::open(&loaded.config).await?;
        let list = admin::list(&opened.redis, &chain).await;
        opened.close().await?;
        anyhow::Ok(list?)
    })?;
    if args.json {
        let list: Vec<Value> = list.iter().map(SubscriptionInfo::to_json).collect();
        println!("{:#}", Value::Array(list));
    } else if list.is_empty() {
        println!("No subscriptions registered.");
    } else {
        print(&list);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(list: &[SubscriptionInfo]) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "SUB ID",
        "FILTERS",
        "PENDING",
        "LAG",
        "LAST DELIVERED",
        "START FROM",
        "DEAD",
        "ACTIVE",
    ]);
    let number =
        |number: Option<u64>| number.map_or("unknown".to_owned(), |number| number.to_string());
    for info in list {
        let group = info.group.as_ref();
        let or_not = |text: Option<String>| text.unwrap_or_else(|| "not started".to_owned());
        table.add_row([
            info.sub_id.clone(),
            short(&filters(&info.filters)),
            or_not(group.map(|group| group.pending.to_string())),
            or_not(group.map(|group| number(group.lag))),
            or_not(group.map(|group| group.last_delivered.to_string())),
            short(&plain(&info.start_from)),
            info.dead_letters.to_string(),
            info.holder.as_deref().map_or("-".to_owned(), short),
        ]);
    }
    println!("{table}");
    for info in list {
        if let Some(left) = &info.trimmed_past {
            println!(
                "{}: events were trimmed before it got them; the oldest one left then was {left}",
                info.sub_id
            );
        }
    }
}

fn filters(filters: &Value) -> String {
    match filters {
        Value::Null => "everything".to_owned(),
        Value::Array(list) if list.is_empty() => "everything".to_owned(),
        other => other.to_string(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A cell that does not tear its table apart.
pub(super) fn short(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.chars().count() <= CELL_CHARS_MAX {
        return line;
    }
    let cut: String = line.chars().take(CELL_CHARS_MAX - 1).collect();
    format!("{cut}…")
}

/// Runs `reset-subscription`.
pub(crate) fn reset(common: &Common, args: &ResetSubscriptionArgs) -> Result<ExitCode, Failure> {
    let to = place(&args.to_block)?;
    let sub_id = sub_id(&args.sub_id)?;
    let loaded = settings::load_with_chains(common)?;
    settings::start_logs(&loaded)?;
    let chain = chain(&loaded.config, args.chain.as_deref())?;
    let source = match &args.job {
        None => EventSource::live(&chain),
        Some(job) => EventSource::reparse(&chain, job)
            .map_err(|error| Failure::Usage(format!("--job: {error}")))?,
    };
    let options = ResetOptions {
        dry_run: args.dry_run,
        clear_pending: args.clear_pending,
        force: args.force,
    };
    let done = system::runtime()?.block_on(async {
        let opened = CommandRedis::open(&loaded.config).await?;
        let done = admin::reset(&opened.redis, &source, &sub_id, to, options).await;
        opened.close().await?;
        anyhow::Ok(done?)
    })?;
    if args.json {
        println!("{:#}", reset_json(&sub_id, &done, args.dry_run));
    } else {
        println!("{}", reset_text(&sub_id, to, &done, args.dry_run));
    }
    if done.pending > 0 && !done.is_pending_cleared {
        eprintln!(
            "warning: {} events that were given out and not acknowledged come first, whatever the place; --clear-pending acknowledges them",
            done.pending
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn place(text: &str) -> Result<ResetTo, Failure> {
    match text {
        // Zero means the end, as in the program that this command is modelled on.
        "latest" | "0" => Ok(ResetTo::Latest),
        "earliest" | "first" => Ok(ResetTo::Earliest),
        _ => text.parse().map(ResetTo::Block).map_err(|_| {
            Failure::Usage(format!(
                "--to-block: \"{text}\" is neither a block's number nor latest nor earliest"
            ))
        }),
    }
}

fn reset_text(sub_id: &SubId, to: ResetTo, done: &Reset, dry_run: bool) -> String {
    let place = match to {
        ResetTo::Latest => "the END of the stream: only what is published from now on".to_owned(),
        ResetTo::Earliest => "the beginning of the stream".to_owned(),
        ResetTo::Block(num) => format!("block {num}"),
    };
    let moved = if dry_run {
        "would go on at"
    } else {
        "goes on at"
    };
    let cleared = match (done.is_pending_cleared, dry_run) {
        (true, true) => format!("; {} pending events would be acknowledged", done.pending),
        (true, false) => format!("; {} pending events were acknowledged", done.pending),
        (false, _) => String::new(),
    };
    format!(
        "{sub_id} {moved} {place} (after entry {}, it was after {}){cleared}",
        done.after, done.before
    )
}

fn reset_json(sub_id: &SubId, done: &Reset, dry_run: bool) -> Value {
    json!({
        "subId": sub_id.as_str(), "dryRun": dry_run, "before": done.before.to_string(), "after": done.after.to_string(),
        "pending": done.pending, "pendingCleared": done.is_pending_cleared,
    })
}

#[cfg(test)]
mod tests {
    use cairn_stream::EntryId;

    use super::*;

    #[test]
    fn places() {
        for (text, to) in [
            ("latest", Some(ResetTo::Latest)),
            ("0", Some(ResetTo::Latest)),
            ("earliest", Some(ResetTo::Earliest)),
            ("first", Some(ResetTo::Earliest)),
            ("17", Some(ResetTo::Block(17))),
            ("-1", None),
            ("head", None),
        ] {
            assert_eq!(place(text).ok(), to, "{text}");
        }
    }

    #[test]
    fn a_move_is_told() {
        let sub_id = SubId::new("s").expect("an id");
        let mut done = Reset {
            before: EntryId { ms: 9, seq: 1 },
            after: EntryId { ms: 4, seq: 0 },
            pending: 2,
            is_pending_cleared: false,
        };
        assert_eq!(
            reset_text(&sub_id, ResetTo::Block(7), &done, false),
            "s goes on at block 7 (after entry 4-0, it was after 9-1)"
        );
        done.is_pending_cleared = true;
        assert_eq!(
            reset_text(&sub_id, ResetTo::Latest, &done, true),
            "s would go on at the END of the stream: only what is published from now on (after entry 4-0, it was after 9-1); \
             2 pending events would be acknowledged"
        );
    }

    #[test]
    fn cells_are_one_short_line() {
        assert_eq!(short("a\nb"), "a b");
        let long = short(&"é".repeat(100));
        assert_eq!(long.chars().count(), CELL_CHARS_MAX);
        assert!(long.ends_with('…'));
    }
}
