//! Reading a node's answers. Only the fields that are needed are required, so that older and newer nodes are understood.

use bitcoin::hex::FromHex;
use bitcoin::{Amount, BlockHash, Denomination, Txid};
use cairn_utxo_chain::{Family, Header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{NodeError, RpcFailure};

/// The envelope of one answer.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<RpcFailure>,
    #[serde(default)]
    id: Value,
}

impl Envelope {
    fn into_result(self, method: &str) -> Result<Box<RawValue>, NodeError> {
        match self.error {
            Some(failure) => Err(NodeError::Rejected {
                method: method.to_owned(),
                failure,
            }),
            None => Ok(self.result.unwrap_or_else(|| RawValue::NULL.to_owned())),
        }
    }
}

/// The result in the body of an answer to call number `id` of `method`.
///
/// # Errors
/// [`NodeError::Rejected`] if the node refused the call, [`NodeError::Answer`] if the bytes are not an answer to it.
pub fn parse_answer(body: &[u8], method: &str, id: u64) -> Result<Box<RawValue>, NodeError> {
    let envelope: Envelope = serde_json::from_slice(body)
        .map_err(|error| not_an_answer(method, body, &error.to_string()))?;
    // A node that could not read the request at all answers with the id null and an error.
    if envelope.error.is_none() && envelope.id != id {
        return Err(not_an_answer(
            method,
            body,
            "the id is not that of the call",
        ));
    }
    envelope.into_result(method)
}

/// The results in the body of an answer to a batch of `count` calls of `method`, numbered from `first`, in their order.
///
/// # Errors
/// [`NodeError::Rejected`] if the node refused the batch as a whole, [`NodeError::Answer`] if the bytes are not an answer
/// to it, or not to each of its calls.
pub fn parse_batch(
    body: &[u8],
    method: &str,
    first: u64,
    count: usize,
) -> Result<Vec<Result<Box<RawValue>, NodeError>>, NodeError> {
    let envelopes: Vec<Envelope> = match serde_json::from_slice(body) {
        Ok(envelopes) => envelopes,
        // One object instead of a list: an error about the batch itself.
        Err(error) => {
            return Err(match serde_json::from_slice::<Envelope>(body) {
                Ok(Envelope {
                    error: Some(failure),
                    ..
                }) => NodeError::Rejected {
                    method: method.to_owned(),
                    failure,
                },
                _ => not_an_answer(method, body, &error.to_string()),
            });
        }
    };
    let mut answers: Vec<Option<Result<Box<RawValue>, NodeError>>> =
        (0..count).map(|_| None).collect();
    for envelope in envelopes {
        let slot = envelope
            .id
            .as_u64()
            .and_then(|id| id.checked_sub(first))
            .and_then(|index| answers.get_mut(usize::try_from(index).ok()?));
        match slot {
            Some(slot @ None) => *slot = Some(envelope.into_result(method)),
            _ => {
                return Err(not_an_answer(
                    method,
                    body,
                    "an id is not that of a call, or comes twice",
                ));
            }
        }
    }
    answers
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| not_an_answer(method, body, "not every call of the batch is answered"))
}

/// Decodes a result.
///
/// # Errors
/// [`NodeError::Answer`] naming method and cause.
pub fn decode<T: DeserializeOwned>(method: &str, result: &RawValue) -> Result<T, NodeError> {
    serde_json::from_str(result.get()).map_err(|error| unexpected(method, &error.to_string()))
}

/// Decodes a result that is hexadecimal text.
///
/// # Errors
/// [`NodeError::Answer`] naming method and cause.
pub fn decode_hex(method: &str, result: &RawValue) -> Result<Vec<u8>, NodeError> {
    // Hexadecimal needs no escapes, so the text is taken as it stands: a block is long.
    let text = result
        .get()
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .ok_or_else(|| unexpected(method, "not a string"))?;
    Vec::from_hex(text).map_err(|error| unexpected(method, &error.to_string()))
}

/// Decodes a header in hexadecimal.
///
/// # Errors
/// [`NodeError::Answer`] naming method and cause.
pub fn decode_header(method: &str, family: Family, result: &RawValue) -> Result<Header, NodeError> {
    Header::decode_all(family, &decode_hex(method, result)?)
        .map_err(|error| unexpected(method, &error.to_string()))
}

/// How much of an answer that was not understood is repeated in the message, bytes.
const EXCERPT: usize = 120;

fn not_an_answer(method: &str, body: &[u8], why: &str) -> NodeError {
    let excerpt = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]);
    let excerpt: String = excerpt
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    NodeError::Answer(format!(
        "not a JSON-RPC answer to {method} ({why}): {excerpt}"
    ))
}

fn unexpected(method: &str, why: &str) -> NodeError {
    NodeError::Answer(format!("unexpected answer to {method}: {why}"))
}

/// `getblockchaininfo`.
#[derive(Debug, Clone, Deserialize)]
pub struct ChainInfo {
    /// The node's name of its network.
    pub chain: String,
    /// Height of its best block.
    pub blocks: u32,
    /// Height of its best header.
    #[serde(default)]
    pub headers: u32,
    /// Its best block.
    #[serde(rename = "bestblockhash")]
    pub best_block_hash: BlockHash,
    /// Whether it is still loading the chain for the first time.
    #[serde(default, rename = "initialblockdownload")]
    pub initial_block_download: bool,
    /// Whether it drops old blocks.
    #[serde(default)]
    pub pruned: bool,
    /// Lowest height whose block it still has.
    #[serde(default, rename = "pruneheight")]
    pub prune_height: Option<u32>,
    /// The challenge script of a signet, hexadecimal.
    #[serde(default)]
    pub signet_challenge: Option<String>,
}

/// `getnetworkinfo`.
#[derive(Debug, Clone, Deserialize)]
pub struct NetworkInfo {
    /// Version number, as 310000 for 31.0.
    #[serde(default)]
    pub version: u64,
    /// Version text, as `/Satoshi:31.0.0/`.
    #[serde(default)]
    pub subversion: String,
    /// Least fee rate that the node relays, per 1000 virtual bytes.
    #[serde(default, rename = "relayfee", deserialize_with = "coins_maybe")]
    pub relay_fee: Option<Amount>,
}

/// `getblockheader` in words.
#[derive(Debug, Clone, Deserialize)]
pub struct HeaderInfo {
    /// Height.
    pub height: u32,
    /// Blocks from this one to the tip, this one included; -1 if it is not on the best chain.
    pub confirmations: i64,
}

/// `getmempoolinfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct MempoolInfo {
    /// Number of transactions.
    pub size: u64,
    /// Virtual bytes of all of them.
    #[serde(default)]
    pub bytes: u64,
    /// Memory they take, bytes.
    #[serde(default)]
    pub usage: u64,
    /// Least fee rate that gets in now, per 1000 virtual bytes.
    #[serde(default, rename = "mempoolminfee", deserialize_with = "coins_maybe")]
    pub min_fee: Option<Amount>,
    /// Least fee rate that is relayed at all, per 1000 virtual bytes.
    #[serde(default, rename = "minrelaytxfee", deserialize_with = "coins_maybe")]
    pub min_relay_fee: Option<Amount>,
    /// What a replacement has to pay more for its own relay, per 1000 virtual bytes.
    #[serde(
        default,
        rename = "incrementalrelayfee",
        deserialize_with = "coins_maybe"
    )]
    pub incremental_relay_fee: Option<Amount>,
}

/// `estimatesmartfee`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FeeEstimate {
    #[serde(default, rename = "feerate", deserialize_with = "coins_maybe")]
    pub(crate) fee_rate: Option<Amount>,
}

/// `gettxoutsetinfo`.
#[derive(Debug, Clone, Deserialize)]
pub struct TxOutSetInfo {
    /// Height of the block after which the set was counted.
    pub height: u32,
    /// That block.
    #[serde(rename = "bestblock")]
    pub best_block: BlockHash,
    /// Unspent outputs.
    #[serde(rename = "txouts")]
    pub tx_outs: u64,
    /// Their sum.
    #[serde(deserialize_with = "coins")]
    pub total_amount: Amount,
}

/// `waitfornewblock`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct BlockNotice {
    /// Best block.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
}

/// A list of ids.
pub(crate) type Txids = Vec<Txid>;

/// An amount in coins as the node prints it: decimal digits, read without a floating point number.
fn coins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    amount(&raw).map_err(serde::de::Error::custom)
}

fn coins_maybe<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Amount>, D::Error> {
    let raw = Option::<Box<RawValue>>::deserialize(deserializer)?;
    raw.map(|raw| amount(&raw))
        .transpose()
        .map_err(serde::de::Error::custom)
}

fn amount(raw: &RawValue) -> Result<Amount, String> {
    let text = raw.get().trim_matches('"');
    Amount::from_str_in(text, Denomination::Bitcoin)
        .map_err(|error| format!("{text} is not an amount: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rejection_keeps_code_and_text() {
        let body = br#"{"result":null,"error":{"code":-26,"message":"min relay fee \"not\" met, 0 < 100"},"id":7}"#;
        let error = parse_answer(body, "sendrawtransaction", 7).expect_err("the node refused");
        assert_eq!(
            error.to_string(),
            r#"sendrawtransaction RPC error: {"code":-26,"message":"min relay fee \"not\" met, 0 < 100"}"#
        );
    }

    #[test]
    fn an_answer_to_another_call_is_not_taken() {
        assert!(parse_answer(br#"{"result":1,"error":null,"id":8}"#, "getblockcount", 7).is_err());
        assert!(parse_answer(br#"{"result":1,"error":null}"#, "getblockcount", 7).is_err());
        assert!(parse_answer(br#"{"result":1,"id":7}"#, "getblockcount", 7).is_ok());
    }

    #[test]
    fn batches_are_put_in_order() {
        let body = br#"[{"id":11,"result":"b"},{"id":10,"result":"a"},{"id":12,"error":{"code":-5,"message":"no"}}]"#;
        let answers = parse_batch(body, "m", 10, 3).expect("a whole batch");
        assert_eq!(answers[0].as_ref().expect("first").get(), r#""a""#);
        assert_eq!(answers[1].as_ref().expect("second").get(), r#""b""#);
        assert!(answers[2].as_ref().expect_err("third").is_not_found());
        for wrong in [
            &br#"[{"id":10,"result":1},{"id":10,"result":1},{"id":12,"result":1}]"#[..],
            br#"[{"id":10,"result":1},{"id":11,"result":1}]"#,
            br#"[{"id":10,"result":1},{"id":11,"result":1},{"id":13,"result":1}]"#,
            br#"[{"id":9,"result":1}]"#,
            br#"{"id":null,"result":null,"error":null}"#,
            br#"[1]"#,
            b"",
        ] {
            assert!(matches!(
                parse_batch(wrong, "m", 10, 3),
                Err(NodeError::Answer(_))
            ));
        }
        let refused = parse_batch(
            br#"{"id":null,"error":{"code":-32600,"message":"no"}}"#,
            "m",
            10,
            3,
        );
        assert!(matches!(refused, Err(NodeError::Rejected { .. })));
    }

    #[test]
    fn amounts_are_exact() {
        let body = r#"{"height":3,"bestblock":"0000000000000000000000000000000000000000000000000000000000000001","txouts":2,"total_amount":20999999.97690000}"#;
        let info: TxOutSetInfo = serde_json::from_str(body).expect("all that is needed");
        assert_eq!(info.total_amount.to_sat(), 2_099_999_997_690_000);
        let estimate: FeeEstimate =
            serde_json::from_str(r#"{"feerate":0.00001,"blocks":2}"#).expect("an estimate");
        assert_eq!(estimate.fee_rate, Some(Amount::from_sat(1000)));
        let none: FeeEstimate =
            serde_json::from_str(r#"{"errors":["Insufficient data"],"blocks":2}"#).expect("none");
        assert_eq!(none.fee_rate, None);
    }

    proptest! {
        /// Whatever a node (or what stands in its place) sends is an error at worst.
        #[test]
        fn no_answer_panics(body: Vec<u8>, text in "\\PC*", id: u64, count in 0_usize..5) {
            for body in [body.as_slice(), text.as_bytes()] {
                let _ = parse_answer(body, "m", id);
                let _ = parse_batch(body, "m", id, count);
                if let Ok(raw) = serde_json::from_slice::<Box<RawValue>>(body) {
                    let _ = decode_hex("m", &raw);
                    let _ = decode_header("m", Family::Bitcoin, &raw);
                    let _ = decode_header("m", Family::Elements, &raw);
                    let _ = decode::<ChainInfo>("m", &raw);
                }
            }
        }
    }
}
