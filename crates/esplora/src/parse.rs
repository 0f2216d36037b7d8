//! Reading what comes in a path, a query or a body. Every refusal has the text that clients of this API know.
//!
//! Knows nothing of the index, so that the fuzz target can take this file without a store behind it.

use std::borrow::Cow;

use bitcoin::hashes::Hash;
use bitcoin::hex::FromHex;
use bitcoin::{BlockHash, OutPoint, ScriptBuf, Txid};
use cairn_http::{HttpError, QueryParams, parse_decimal};
use cairn_utxo_chain::address::{AddressError, script_of};
use cairn_utxo_chain::{AssetId, Network};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Reads 32 bytes of hexadecimal as they stand.
fn bytes32(text: &str, wrong_length: &'static str) -> Result<[u8; 32], HttpError> {
    // Checked whole, so that a text of the wrong length that is no hexadecimal either is called what it is.
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(HttpError::bad_request("Invalid hex string"));
    }
    <[u8; 32]>::from_hex(text).map_err(|_| HttpError::bad_request(wrong_length))
}

/// Reads a hash in printed order.
fn hash<H: Hash<Bytes = [u8; 32]>>(text: &str) -> Result<H, HttpError> {
    let mut bytes = bytes32(text, "Invalid hash string")?;
    bytes.reverse();
    Ok(H::from_byte_array(bytes))
}

/// Reads a transaction id.
pub(crate) fn txid(text: &str) -> Result<Txid, HttpError> {
    hash(text)
}

/// Reads a block hash.
pub(crate) fn block_hash(text: &str) -> Result<BlockHash, HttpError> {
    hash(text)
}

/// Reads an asset id.
pub(crate) fn asset(text: &str) -> Result<AssetId, HttpError> {
    let mut bytes = bytes32(text, "Invalid hash string")?;
    bytes.reverse();
    Ok(AssetId::from_byte_array(bytes))
}

/// Reads a scripthash (forward order).
pub(crate) fn script_hash(text: &str) -> Result<[u8; 32], HttpError> {
    bytes32(text, "Invalid scripthash")
}

/// Reads an address of the network as its script.
pub(crate) fn address(text: &str, network: impl Into<Network>) -> Result<ScriptBuf, HttpError> {
    script_of(text, network.into()).map_err(|error| {
        HttpError::bad_request(match error {
            AddressError::Invalid => "Invalid Bitcoin address",
            AddressError::OtherNetwork => "Address on invalid network",
        })
    })
}

/// Reads a height, an index or a count. What is larger than any of them is `u32::MAX`.
pub(crate) fn number(text: &str) -> Result<u32, HttpError> {
    let number = parse_decimal(text).ok_or_else(|| HttpError::bad_request("Invalid number"))?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Checks that a text is hexadecimal of whole bytes; blanks around it are taken off.
pub(crate) fn hex_text(text: &[u8]) -> Result<&str, HttpError> {
    let text = text.trim_ascii();
    let valid =
        !text.is_empty() && text.len().is_multiple_of(2) && text.iter().all(u8::is_ascii_hexdigit);
    match std::str::from_utf8(text) {
        Ok(text) if valid => Ok(text),
        _ => Err(HttpError::bad_request("Invalid hex string")),
    }
}

/// Reads a JSON array of texts, at most `limit` entries; an entry that is not a text is left out.
pub(crate) fn text_array(body: &[u8], limit: usize) -> Result<Vec<Cow<'_, str>>, HttpError> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry<'a> {
        #[serde(borrow)]
        Text(Cow<'a, str>),
        Other(IgnoredAny),
    }
    let entries: Vec<Entry<'_>> = serde_json::from_slice(body)
        .map_err(|_| HttpError::bad_request("body is not a JSON array"))?;
    if entries.len() > limit {
        return Err(HttpError::unprocessable("body too long"));
    }
    Ok(entries
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Text(text) => Some(text),
            Entry::Other(IgnoredAny) => None,
        })
        .collect())
}

/// Transactions of one package.
const PACKAGE_MAX: usize = 25;
/// Hexadecimal characters of one transaction of a package: the smallest that can be valid, and the largest that is relayed.
const PACKAGE_TX_CHARS: std::ops::RangeInclusive<usize> = 120..=800_000;

/// Reads a JSON array of serialized transactions in hexadecimal.
pub(crate) fn transactions(body: &[u8]) -> Result<Vec<String>, HttpError> {
    let txs: Vec<String> = serde_json::from_slice(body)
        .map_err(|_| HttpError::bad_request("body is not a JSON array of hexadecimal texts"))?;
    if txs.len() > PACKAGE_MAX {
        return Err(HttpError::bad_request(format!(
            "Exceeded maximum of {PACKAGE_MAX} transactions"
        )));
    }
    for (index, tx) in txs.iter().enumerate() {
        if !PACKAGE_TX_CHARS.contains(&tx.len()) {
            return Err(HttpError::bad_request(format!(
                "Invalid transaction size for item {index}"
            )));
        }
        if hex_text(tx.as_bytes()) != Ok(tx) {
            return Err(HttpError::bad_request(format!(
                "Invalid transaction hex for item {index}"
            )));
        }
    }
    Ok(txs)
}

/// Longest text of a decimal number, characters.
const DECIMAL_CHARS_MAX: usize = 20;

/// Reads an amount in coins, as the node takes it: kept as text, so that it stays exact.
pub(crate) fn decimal(
    query: &QueryParams,
    name: &str,
    refusal: &'static str,
) -> Result<Option<String>, HttpError> {
    let Some(text) = query.get(name) else {
        return Ok(None);
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() <= DECIMAL_CHARS_MAX && digits(whole) && digits(fraction) {
        Ok(Some(text.to_owned()))
    } else {
        Err(HttpError::bad_request(refusal))
    }
}

/// Reads `max_txs`: `usual` unless given, `most` at most.
pub(crate) fn limit(query: &QueryParams, usual: usize, most: usize) -> Result<usize, HttpError> {
    match query.get("max_txs").filter(|text| !text.is_empty()) {
        Some(text) => Ok((number(text)? as usize).min(most)),
        None => Ok(usual),
    }
}

/// Reads `txid:vout`; `None` if it is not that.
pub(crate) fn outpoint(text: &str) -> Option<OutPoint> {
    let (id, vout) = text.split_once(':')?;
    Some(OutPoint::new(
        txid(id).ok()?,
        parse_decimal(vout)?.try_into().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text<T>(result: Result<T, HttpError>) -> String {
        result
            .map(|_| String::new())
            .unwrap_or_else(|error| error.text().to_owned())
    }

    #[test]
    fn hashes() {
        let lower = "0f".repeat(31) + "ab";
        let id = txid(&lower).expect("valid");
        assert_eq!(id.to_string(), lower);
        assert_eq!(txid(&lower.to_uppercase()).expect("valid"), id);
        assert_eq!(script_hash(&lower).expect("valid")[31], 0xab);
        for (input, hash_text, script_text) in [
            ("zz", "Invalid hex string", "Invalid hex string"),
            ("abc", "Invalid hex string", "Invalid hex string"),
            ("", "Invalid hash string", "Invalid scripthash"),
            ("abcd", "Invalid hash string", "Invalid scripthash"),
            ("\u{fffd}", "Invalid hex string", "Invalid hex string"),
            (
                &"ab".repeat(33),
                "Invalid hash string",
                "Invalid scripthash",
            ),
        ] {
            assert_eq!(text(txid(input)), hash_text, "{input}");
            assert_eq!(text(block_hash(input)), hash_text, "{input}");
            assert_eq!(text(script_hash(input)), script_text, "{input}");
        }
    }

    #[test]
    fn addresses_and_networks() {
        use bitcoin::Network::{Bitcoin, Regtest, Signet, Testnet, Testnet4};
        let mainnet = "bc1qqqqsyqcyq5rqwzqfpg9scrgwpugpzysn4v0345";
        let expected = "0014000102030405060708090a0b0c0d0e0f10111213";
        assert_eq!(
            address(mainnet, Bitcoin).expect("valid").to_hex_string(),
            expected
        );
        assert_eq!(
            address(&mainnet.to_uppercase(), Bitcoin)
                .expect("valid")
                .to_hex_string(),
            expected
        );
        let invalid = "Address on invalid network";
        for network in [Testnet, Testnet4, Signet, Regtest] {
            assert_eq!(text(address(mainnet, network)), invalid);
            assert_eq!(
                text(address("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", network)),
                ""
            );
        }
        assert_eq!(
            text(address("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", Bitcoin)),
            invalid
        );
        for network in [Testnet, Testnet4, Signet] {
            assert_eq!(text(address("tb1pfees9rn5nz", network)), "");
            assert_eq!(text(address("bcrt1pfeesnyr2tx", network)), invalid);
        }
        assert_eq!(text(address("tb1pfees9rn5nz", Regtest)), invalid);
        for wrong in [
            "",
            "bc1",
            "hello",
            "1BoatSLRHtKNngkdXEeobR76b53LETtpyX",
            "\u{fffd}",
        ] {
            assert_eq!(
                text(address(wrong, Bitcoin)),
                "Invalid Bitcoin address",
                "{wrong}"
            );
        }
    }

    #[test]
    fn numbers_saturate() {
        assert_eq!(number("7"), Ok(7));
        assert_eq!(number("4294967296"), Ok(u32::MAX));
        assert_eq!(number("99999999999999999999999"), Ok(u32::MAX));
        assert_eq!(text(number("-1")), "Invalid number");
    }

    #[test]
    fn arrays() {
        let read = text_array(br#"["a", 1, null, {"x":[]}, "b\n"]"#, 5).expect("valid");
        assert_eq!(read, ["a", "b\n"]);
        assert_eq!(text(text_array(br#"["a","b"]"#, 1)), "body too long");
        for wrong in ["", "{}", "\"a\"", "[\"a\"", "[1]x"] {
            assert_eq!(
                text(text_array(wrong.as_bytes(), 5)),
                "body is not a JSON array",
                "{wrong}"
            );
        }
    }

    #[test]
    fn packages() {
        let tx = "ab".repeat(60);
        let body = |txs: &[&str]| serde_json::to_vec(txs).expect("texts");
        assert_eq!(
            transactions(&body(&[&tx, &tx])).expect("valid"),
            [tx.clone(), tx.clone()]
        );
        for (body, refusal) in [
            (
                body(&vec![tx.as_str(); 26]),
                "Exceeded maximum of 25 transactions",
            ),
            (body(&[&tx, "abcd"]), "Invalid transaction size for item 1"),
            (
                body(&[&tx, &tx, &"g".repeat(120)]),
                "Invalid transaction hex for item 2",
            ),
            (
                body(&[&format!(" {tx} ")]),
                "Invalid transaction hex for item 0",
            ),
            (
                body(&[&format!("{tx}a")]),
                "Invalid transaction hex for item 0",
            ),
            (
                b"{}".to_vec(),
                "body is not a JSON array of hexadecimal texts",
            ),
            (
                b"[1]".to_vec(),
                "body is not a JSON array of hexadecimal texts",
            ),
        ] {
            assert_eq!(text(transactions(&body)), refusal);
        }
    }

    #[test]
    fn outpoints() {
        let id = "0f".repeat(32);
        let read = outpoint(&format!("{id}:7")).expect("valid");
        assert_eq!((read.txid.to_string(), read.vout), (id.clone(), 7));
        for wrong in [
            "",
            ":",
            &id,
            &format!("{id}:"),
            &format!("{id}:-1"),
            &format!("{id}:4294967296"),
            "zz:1",
        ] {
            assert_eq!(outpoint(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(input in ".*") {
            for network in [bitcoin::Network::Bitcoin, bitcoin::Network::Regtest] {
                if let Err(error) = address(&input, network) {
                    prop_assert_eq!(error.status().as_u16(), 400);
                }
            }
            for result in [txid(&input).map(drop), script_hash(&input).map(drop), number(&input).map(drop)] {
                if let Err(error) = result {
                    prop_assert_eq!(error.status().as_u16(), 400);
                }
            }
        }

        #[test]
        fn any_body_is_read_or_refused(body: Vec<u8>) {
            let _ = text_array(&body, 3);
            let _ = transactions(&body);
            let _ = outpoint(&String::from_utf8_lossy(&body));
            if let Ok(hex) = hex_text(&body) {
                prop_assert!(Vec::from_hex(hex).is_ok());
            }
        }
    }
}
