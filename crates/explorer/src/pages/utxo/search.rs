//! What a search text can name on a UTXO chain.

use std::str::FromStr;

use bitcoin::{BlockHash, OutPoint, Txid};
use cairn_utxo_index::{QueryError, View};

use super::chain::{Chain, parse_script_hash};
use crate::error::PageError;
use crate::ledger::{Findings, Hit};
use crate::present::count;

/// Addresses offered for a prefix: the same number as in the Esplora API.
const PREFIX_HITS_MAX: usize = 10;
/// Shortest text that is taken for the beginning of an address.
const PREFIX_CHARS_MIN: usize = 3;
/// Length of a hash in hex digits.
const HASH_DIGITS: usize = 64;

/// Looks a text up: height, block hash, txid, script hash, outpoint, address, beginning of an address.
pub(super) fn find(chain: &Chain, view: &View, text: &str) -> Result<Findings, PageError> {
    if text.len() == HASH_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return find_hash(chain, view, text);
    }
    if let Ok(outpoint) = OutPoint::from_str(text) {
        return find_outpoint(chain, view, &outpoint);
    }
    let mut findings = Findings::default();
    if let Some(height) = as_height(text) {
        match u32::try_from(height)
            .ok()
            .and_then(|height| view.block_at(height))
        {
            Some(block) => {
                return Ok(Findings::exact(
                    chain.block_href(&block.hash),
                    block.hash,
                    "block",
                ));
            }
            None => findings.tried.push(format!(
                "a block height: the newest block is {}",
                count(view.tip().height.into())
            )),
        }
    } else {
        findings.tried.push("a block height: not a number".into());
        findings.tried.push("a hash: not 64 hex digits".into());
    }
    match chain.parse_address(text) {
        Ok(address) => {
            return Ok(Findings::exact(
                chain.address_href(&address),
                address,
                "address",
            ));
        }
        Err(error) => findings.tried.push(format!("an address: {error}")),
    }
    find_prefix(chain, view, text, &mut findings)?;
    Ok(findings)
}

/// A number as people write heights: digits, perhaps grouped.
fn as_height(text: &str) -> Option<u64> {
    let digits: String = text
        .chars()
        .filter(|c| !matches!(c, ',' | '_' | ' '))
        .collect();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

fn find_hash(chain: &Chain, view: &View, text: &str) -> Result<Findings, PageError> {
    let mut findings = Findings::default();
    if let Ok(hash) = BlockHash::from_str(text) {
        if view.block(&hash)?.is_some() {
            return Ok(Findings::exact(chain.block_href(&hash), hash, "block"));
        }
        findings.tried.push("a block hash: no such block".into());
    }
    if let Ok(txid) = Txid::from_str(text) {
        if view.mempool().contains(&txid) || view.tx_raw(&txid)?.is_some() {
            return Ok(Findings::exact(chain.tx_href(&txid), txid, "transaction"));
        }
        findings
            .tried
            .push("a transaction id: no such transaction".into());
    }
    if let Some(hash) = parse_script_hash(text) {
        if !view.history(&hash, None, 1)?.is_empty() {
            return Ok(Findings::exact(
                chain.scripthash_href(&hash),
                text.to_lowercase(),
                "script",
            ));
        }
        findings
            .tried
            .push("the SHA-256 of a script: nothing has been paid to such a script".into());
    }
    Ok(findings)
}

fn find_outpoint(chain: &Chain, view: &View, outpoint: &OutPoint) -> Result<Findings, PageError> {
    if view
        .outputs(&[*outpoint])?
        .into_iter()
        .flatten()
        .next()
        .is_some()
    {
        return Ok(Findings::exact(
            chain.output_href(outpoint),
            outpoint,
            "output",
        ));
    }
    Ok(Findings {
        hits: Vec::new(),
        tried: vec!["an output: no such transaction or no such index".into()],
    })
}

fn find_prefix(
    chain: &Chain,
    view: &View,
    text: &str,
    findings: &mut Findings,
) -> Result<(), PageError> {
    let possible =
        text.len() >= PREFIX_CHARS_MIN && text.bytes().all(|b| b.is_ascii_alphanumeric());
    if !possible {
        return Ok(());
    }
    match view.addresses(text, PREFIX_HITS_MAX) {
        Ok(addresses) if addresses.is_empty() => {
            findings
                .tried
                .push("the beginning of an address: none begins like this".into());
        }
        Ok(addresses) => findings.hits.extend(addresses.into_iter().map(|address| {
            Hit::near(
                format!("/{}/address/{address}", chain.id),
                address,
                "address",
            )
        })),
        Err(QueryError::AddressSearchDisabled) => {
            findings
                .tried
                .push("the beginning of an address: address search is off in this index".into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_as_people_write_them() {
        assert_eq!(as_height("840000"), Some(840_000));
        assert_eq!(as_height("840,000"), Some(840_000));
        assert_eq!(as_height("840 000"), Some(840_000));
        assert_eq!(as_height("99999999999999999999999"), Some(u64::MAX));
        for text in ["", ",", "-1", "0x10", "8e5", "\u{0661}"] {
            assert_eq!(as_height(text), None, "{text}");
        }
    }
}
