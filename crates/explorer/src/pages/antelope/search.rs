//! What a search text can name on an Antelope chain.

use cairn_antelope_abi::Name;
use cairn_antelope_parser::read_abi_versions;

use super::AntelopeLedger;
use super::event::StreamEvent;
use crate::error::PageError;
use crate::ledger::{Findings, Hit};
use crate::present::count;

/// Events looked at for a transaction.
const LOOK_MAX: usize = 5_000;
/// Length of a transaction id, hexadecimal digits.
const HASH_DIGITS: usize = 64;

/// Looks a text up: event id, block number, transaction among the newest events, contract, account among the newest events.
pub(super) async fn find(
    ledger: &AntelopeLedger,
    text: &str,
    quick: bool,
) -> Result<Findings, PageError> {
    let paths = &ledger.paths;
    if text.starts_with(&format!("{}:", ledger.chain)) {
        if ledger.events.by_id(text).await?.is_some() {
            return Ok(Findings::exact(paths.event(text), text, "event"));
        }
        return Ok(tried("an event id: the stream holds no such event"));
    }
    let digits: String = text.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    if let Ok(num) = digits.parse::<u32>()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        let (found, _) = ledger.events.of_block(num, None, 1).await?;
        if !found.is_empty() {
            return Ok(Findings::exact(
                paths.block(num),
                format!("block {}", count(num.into())),
                "block",
            ));
        }
        return Ok(tried("a block number: the stream holds no such block"));
    }
    if text.len() == HASH_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return transaction(ledger, &text.to_ascii_lowercase(), quick).await;
    }
    let Ok(name) = Name::parse(text) else {
        return Ok(tried("an account: not a name of this chain"));
    };
    let mut findings = Findings::default();
    if !read_abi_versions(&ledger.redis, name).await?.is_empty() {
        findings
            .hits
            .push(Hit::exact(paths.account(text), text, "account"));
        findings.hits.push(Hit::near(
            paths.abi(text),
            format!("ABI of {text}"),
            "contract",
        ));
    } else if !quick && is_seen(ledger, text).await? {
        findings
            .hits
            .push(Hit::exact(paths.account(text), text, "account"));
    } else {
        findings.tried.push(
            "an account: no contract, and none of the newest events has to do with it".to_owned(),
        );
    }
    Ok(findings)
}

/// Whether one of the newest events has to do with an account: accounts themselves are not indexed.
async fn is_seen(ledger: &AntelopeLedger, account: &str) -> Result<bool, PageError> {
    let newest = ledger.events.before(None, LOOK_MAX).await?;
    Ok(newest.into_iter().any(|stored| {
        StreamEvent::new(stored)
            .body
            .is_ok_and(|body| body.is_of(account))
    }))
}

fn tried(line: &str) -> Findings {
    Findings {
        hits: Vec::new(),
        tried: vec![line.to_owned()],
    }
}

async fn transaction(
    ledger: &AntelopeLedger,
    id: &str,
    quick: bool,
) -> Result<Findings, PageError> {
    if quick {
        return Ok(Findings::default());
    }
    for stored in ledger.events.before(None, LOOK_MAX).await? {
        let event = StreamEvent::new(stored);
        let Ok(body) = event.body else { continue };
        if body.transaction_id.as_deref() == Some(id)
            && let Some(num) = body.block_num
        {
            let href = ledger.paths.transaction(num, id);
            return Ok(Findings::exact(href, id, "transaction"));
        }
    }
    Ok(tried(
        "a transaction id: none of the newest events is of it",
    ))
}
