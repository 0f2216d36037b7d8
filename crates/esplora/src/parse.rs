//! Reading what comes in a path, a query or a body. Every refusal has the text that clients of this API know.
//!
//! Knows nothing of the index, so that the fuzz target can take this file without a store behind it.

use std::borrow::Cow;

use bitcoin::address::NetworkUnchecked;
use bitcoin::hashes::Hash;
use bitcoin::hex::FromHex;
use bitcoin::{Address, BlockHash, Network, ScriptBuf, Txid};
use cairn_http::{HttpError, parse_decimal};
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

/// Reads a scripthash (forward order).
pub(crate) fn script_hash(text: &str) -> Result<[u8; 32], HttpError> {
    bytes32(text, "Invalid scripthash")
}

/// Reads an address of the network as its script.
pub(crate) fn address(text: &str, network: Network) -> Result<ScriptBuf, HttpError> {
    let address: Address<NetworkUnchecked> = text
        .parse()
        .map_err(|_| HttpError::bad_request("Invalid Bitcoin address"))?;
    let address = address
        .require_network(network)
        .map_err(|_| HttpError::bad_request("Address on invalid network"))?;
    Ok(address.script_pubkey())
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
        use Network::{Bitcoin, Regtest, Signet, Testnet, Testnet4};
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

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(input in ".*") {
            for network in [Network::Bitcoin, Network::Regtest] {
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
            if let Ok(hex) = hex_text(&body) {
                prop_assert!(Vec::from_hex(hex).is_ok());
            }
        }
    }
}
