//! A node as the rest of Cairn sees it: typed calls, asynchronous.

use std::sync::Arc;
use std::time::Duration;

use bitcoin::{Amount, BlockHash, Txid};
use cairn_utxo_chain::tx::WholeTx;
use cairn_utxo_chain::{Family, Header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::blk::header_hash;
use crate::rpc::{
    BlockNotice, ChainInfo, Credentials, FeeEstimate, HeaderInfo, MempoolInfo, NetworkInfo,
    NodeError, RpcClient, TxOutSetInfo, Txids, decode, decode_header, decode_hex,
};

/// Headers that a node gives in one REST answer.
pub(crate) const REST_HEADERS_MAX: u32 = 2000;
/// Time that a long poll may last beyond what it was told.
const WAIT_GRACE: Duration = Duration::from_millis(500);

/// A node. Cheap to clone; all clones share connections and credentials.
#[derive(Debug, Clone)]
pub struct Node {
    rpc: Arc<RpcClient>,
    family: Family,
}

impl Node {
    /// A node at a URL. Connects with the first call.
    ///
    /// # Errors
    /// [`NodeError::Refused`] if the URL is none.
    pub fn new(url: &str, credentials: Credentials) -> Result<Self, NodeError> {
        Ok(Self {
            rpc: Arc::new(RpcClient::new(url, credentials)?),
            family: Family::Bitcoin,
        })
    }

    /// The same node, of a chain of this family; without it nodes are taken for Bitcoin's.
    pub fn of_family(self, family: Family) -> Self {
        Self { family, ..self }
    }

    /// The URL without credentials.
    pub fn label(&self) -> &str {
        self.rpc.label()
    }

    /// The client below, for calls that have no method here.
    pub fn rpc(&self) -> &RpcClient {
        &self.rpc
    }

    async fn get<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &[Value],
    ) -> Result<T, NodeError> {
        decode(method, &self.rpc.call(method, params).await?)
    }

    /// `getblockchaininfo`.
    ///
    /// # Errors
    /// See [`NodeError`]; so for all methods here.
    pub async fn chain_info(&self) -> Result<ChainInfo, NodeError> {
        self.get("getblockchaininfo", &[]).await
    }

    /// `getnetworkinfo`.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn network_info(&self) -> Result<NetworkInfo, NodeError> {
        self.get("getnetworkinfo", &[]).await
    }

    /// `getbestblockhash`.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn best_block_hash(&self) -> Result<BlockHash, NodeError> {
        self.get("getbestblockhash", &[]).await
    }

    /// `getblockhash`: the best chain's block at a height.
    ///
    /// # Errors
    /// See [`NodeError`]; a height above the tip is a rejection with code -8.
    pub async fn block_hash(&self, height: u32) -> Result<BlockHash, NodeError> {
        self.get("getblockhash", &[height.into()]).await
    }

    /// `getblockhash` of many heights.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn block_hashes(
        &self,
        heights: std::ops::Range<u32>,
    ) -> Result<Vec<BlockHash>, NodeError> {
        let params: Vec<Vec<Value>> = heights.map(|height| vec![height.into()]).collect();
        let answers = self.rpc.batch("getblockhash", &params).await?;
        answers
            .into_iter()
            .map(|answer| decode("getblockhash", &answer?))
            .collect()
    }

    /// `getblockheader` as bytes, decoded. Verified against the hash.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn header(&self, hash: &BlockHash) -> Result<Header, NodeError> {
        let mut headers = self.block_headers(std::slice::from_ref(hash)).await?;
        headers
            .pop()
            .ok_or_else(|| NodeError::Answer("no header came back".to_owned()))
    }

    /// `getblockheader` of many blocks, in their order. Each is verified against its hash.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn block_headers(&self, hashes: &[BlockHash]) -> Result<Vec<Header>, NodeError> {
        const METHOD: &str = "getblockheader";
        let params: Vec<Vec<Value>> = hashes
            .iter()
            .map(|hash| vec![text(hash), false.into()])
            .collect();
        let answers = self.rpc.batch(METHOD, &params).await?;
        hashes
            .iter()
            .zip(answers)
            .map(|(hash, answer)| {
                let header = decode_header(METHOD, self.family, &answer?)?;
                if header.hash == *hash {
                    Ok(header)
                } else {
                    Err(other_block(METHOD, hash))
                }
            })
            .collect()
    }

    /// `getblockheader` in words.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn header_info(&self, hash: &BlockHash) -> Result<HeaderInfo, NodeError> {
        self.get("getblockheader", &[text(hash), true.into()]).await
    }

    /// `getblock` at verbosity 0: the block's bytes. Their header is verified against the hash.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn block(&self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        const METHOD: &str = "getblock";
        let bytes = decode_hex(
            METHOD,
            &self.rpc.call(METHOD, &[text(hash), 0.into()]).await?,
        )?;
        if header_hash(self.family, &bytes) == Some(*hash) {
            Ok(bytes)
        } else {
            Err(other_block(METHOD, hash))
        }
    }

    /// `getrawtransaction`: the transaction's bytes. `block` is the block that holds it; without it only the mempool is
    /// searched (and the node's own index if it has one). Verified against the id.
    ///
    /// # Errors
    /// See [`NodeError`]; an unknown transaction is a rejection with code -5.
    pub async fn raw_transaction(
        &self,
        txid: &Txid,
        block: Option<&BlockHash>,
    ) -> Result<Vec<u8>, NodeError> {
        const METHOD: &str = "getrawtransaction";
        let mut params = vec![text(txid), false.into()];
        params.extend(block.map(text));
        let bytes = decode_hex(METHOD, &self.rpc.call(METHOD, &params).await?)?;
        match WholeTx::parse(self.family, bytes) {
            Ok(tx) if tx.txid == *txid => Ok(tx.raw),
            _ => Err(NodeError::Answer(format!(
                "{METHOD} gave something else than transaction {txid}"
            ))),
        }
    }

    /// `getrawmempool`: ids of all unconfirmed transactions.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn mempool(&self) -> Result<Txids, NodeError> {
        self.get("getrawmempool", &[]).await
    }

    /// `getrawtransaction` of many unconfirmed transactions, in the order asked; `None` for one that the node does not have
    /// (any more). Each is verified against its id.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn mempool_transactions(
        &self,
        txids: &[Txid],
    ) -> Result<Vec<Option<WholeTx>>, NodeError> {
        match self.raw_transactions(txids).await {
            // An answer that is too large for us in one piece comes one by one.
            Err(NodeError::Answer(_)) if txids.len() > 1 => {
                let mut all = Vec::with_capacity(txids.len());
                for txid in txids {
                    all.extend(self.raw_transactions(std::slice::from_ref(txid)).await?);
                }
                Ok(all)
            }
            result => result,
        }
    }

    async fn raw_transactions(&self, txids: &[Txid]) -> Result<Vec<Option<WholeTx>>, NodeError> {
        const METHOD: &str = "getrawtransaction";
        let params: Vec<Vec<Value>> = txids
            .iter()
            .map(|txid| vec![text(txid), false.into()])
            .collect();
        let answers = self.rpc.batch(METHOD, &params).await?;
        txids
            .iter()
            .zip(answers)
            .map(|(txid, answer)| {
                let raw = match answer {
                    Ok(raw) => raw,
                    Err(error) if error.is_not_found() => return Ok(None),
                    Err(error) => return Err(error),
                };
                match WholeTx::parse(self.family, decode_hex(METHOD, &raw)?) {
                    Ok(tx) if tx.txid == *txid => Ok(Some(tx)),
                    _ => Err(NodeError::Answer(format!(
                        "{METHOD} gave something else than transaction {txid}"
                    ))),
                }
            })
            .collect()
    }

    /// `getmempoolinfo`.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn mempool_info(&self) -> Result<MempoolInfo, NodeError> {
        self.get("getmempoolinfo", &[]).await
    }

    /// `getblocktemplate` with the given rules; the node's answer as it stands.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn block_template(&self, rules: &[&str]) -> Result<Box<RawValue>, NodeError> {
        self.rpc
            .call("getblocktemplate", &[serde_json::json!({ "rules": rules })])
            .await
    }

    /// `estimatesmartfee` of many targets, in their order.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn fee_estimates(&self, blocks: &[u16]) -> Result<Vec<Option<Amount>>, NodeError> {
        const METHOD: &str = "estimatesmartfee";
        let params: Vec<Vec<Value>> = blocks.iter().map(|blocks| vec![(*blocks).into()]).collect();
        let answers = self.rpc.batch(METHOD, &params).await?;
        answers
            .into_iter()
            .map(|answer| Ok(decode::<FeeEstimate>(METHOD, &answer?)?.fee_rate))
            .collect()
    }

    /// `estimatesmartfee`: fee rate per 1000 virtual bytes to be confirmed within `blocks`; `None` if the node cannot tell.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn fee_estimate(&self, blocks: u16) -> Result<Option<Amount>, NodeError> {
        Ok(self
            .get::<FeeEstimate>("estimatesmartfee", &[blocks.into()])
            .await?
            .fee_rate)
    }

    /// `gettxoutsetinfo` without a hash of the set. Slow on a large chain.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn tx_out_set_info(&self) -> Result<TxOutSetInfo, NodeError> {
        self.get("gettxoutsetinfo", &["none".into()]).await
    }

    /// `sendrawtransaction`: broadcasts a transaction given in hexadecimal.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with the node's own code and text; its `Display` is the line that Esplora clients parse.
    pub async fn send_raw_transaction(&self, hex: &str) -> Result<Txid, NodeError> {
        const METHOD: &str = "sendrawtransaction";
        decode(METHOD, &self.rpc.call_sending(METHOD, &[hex.into()]).await?)
    }

    /// `submitpackage`: broadcasts parents and their child; the node's answer as it stands. The limits are decimals in coins
    /// (per 1000 virtual bytes; in all), passed on as text so that they stay exact.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn submit_package(
        &self,
        package: &[String],
        max_fee_rate: Option<&str>,
        max_burn_amount: Option<&str>,
    ) -> Result<Box<RawValue>, NodeError> {
        let params = limited(package, &[max_fee_rate, max_burn_amount]);
        self.rpc.call_sending("submitpackage", &params).await
    }

    /// `testmempoolaccept`: whether the node would take these transactions; its answer as it stands.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn test_mempool_accept(
        &self,
        transactions: &[String],
        max_fee_rate: Option<&str>,
    ) -> Result<Box<RawValue>, NodeError> {
        self.rpc
            .call("testmempoolaccept", &limited(transactions, &[max_fee_rate]))
            .await
    }

    /// `waitfornewblock`: returns when the node's tip changes, or after `timeout`, with the tip.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn wait_for_new_block(&self, timeout: Duration) -> Result<BlockNotice, NodeError> {
        const METHOD: &str = "waitfornewblock";
        // To the node, 0 means for ever.
        let milliseconds = u32::try_from(timeout.as_millis())
            .unwrap_or(u32::MAX)
            .max(1);
        decode(
            METHOD,
            &self
                .rpc
                .call_once(METHOD, &[milliseconds.into()], timeout + WAIT_GRACE)
                .await?,
        )
    }

    /// Whether the node answers REST calls about the same chain.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub(crate) async fn has_rest(&self, chain: &str) -> Result<bool, NodeError> {
        let Some(body) = self.rpc.rest("/rest/chaininfo.json").await? else {
            return Ok(false);
        };
        Ok(serde_json::from_slice::<ChainInfo>(&body).is_ok_and(|info| info.chain == chain))
    }

    /// A block over REST, verified against the hash; `None` if the node does not give it this way.
    pub(crate) async fn rest_block(&self, hash: &BlockHash) -> Result<Option<Vec<u8>>, NodeError> {
        let bytes = self.rpc.rest(&format!("/rest/block/{hash}.bin")).await?;
        Ok(bytes.filter(|bytes| header_hash(self.family, bytes) == Some(*hash)))
    }

    /// Up to [`REST_HEADERS_MAX`] headers of the best chain from a block on; `None` if the node does not give them this way.
    pub(crate) async fn rest_headers(
        &self,
        from: &BlockHash,
        count: u32,
    ) -> Result<Option<Vec<Header>>, NodeError> {
        let count = count.min(REST_HEADERS_MAX);
        let Some(bytes) = self
            .rpc
            .rest(&format!("/rest/headers/{count}/{from}.bin"))
            .await?
        else {
            return Ok(None);
        };
        let mut headers = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() && headers.len() < count as usize {
            let Ok((header, length)) = Header::decode(self.family, rest) else {
                return Ok(None);
            };
            headers.push(header);
            rest = &rest[length..];
        }
        Ok(rest.is_empty().then_some(headers))
    }
}

fn text(hash: &impl ToString) -> Value {
    Value::String(hash.to_string())
}

/// A list of transactions followed by optional limits; a limit left out before one that is given is null.
fn limited(transactions: &[String], limits: &[Option<&str>]) -> Vec<Value> {
    let used = limits
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    let mut params = vec![Value::from(transactions.to_vec())];
    params.extend(
        limits[..used]
            .iter()
            .map(|limit| limit.map_or(Value::Null, Value::from)),
    );
    params
}

fn other_block(method: &str, hash: &BlockHash) -> NodeError {
    NodeError::Answer(format!("{method} gave something else than block {hash}"))
}
