//! Names, prices and versions of all methods.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::labels::ScriptStyle;
use crate::version::{V1_6, Version};

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Version,
    Ping,
    Banner,
    DonationAddress,
    Features,
    PeersSubscribe,
    AddPeer,
    BlockHeader,
    BlockHeaders,
    HeadersSubscribe,
    HeadersUnsubscribe,
    HeadersGetTip,
    HeaderGet,
    EstimateFee,
    RelayFee,
    MempoolInfo,
    Histogram,
    Recent,
    Balance(ScriptStyle),
    History(ScriptStyle),
    Mempool(ScriptStyle),
    Unspent(ScriptStyle),
    Subscribe(ScriptStyle),
    Unsubscribe(ScriptStyle),
    Status(ScriptStyle),
    FirstUse(ScriptStyle),
    AddressScriptHash,
    TxGet,
    TxMerkle,
    TxIdFromPos,
    TxBroadcast,
    TxPackage,
    TxTestAccept,
    TxHeight,
    TxBlockHash,
    TxSubscribe,
    TxUnsubscribe,
    OutpointSubscribe,
    OutpointStatus,
    OutpointUnsubscribe,
    UtxoInfo,
}

/// A method with what is known of it beforehand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// The name in requests.
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    /// Its price; what the answer holds comes on top.
    pub(crate) cost: f64,
    /// The version from which on it is gone.
    pub(crate) until: Option<Version>,
}

const fn row(name: &'static str, method: Method, cost: f64) -> Row {
    Row {
        name,
        method,
        cost,
        until: None,
    }
}

use ScriptStyle::{Address, Hash, Script};

/// All methods. What a version added is served at every version, as other servers do; what one took away is gone from it.
pub(crate) const METHODS: &[Row] = &[
    row("server.version", Method::Version, 0.5),
    row("server.ping", Method::Ping, 0.1),
    row("server.banner", Method::Banner, 0.5),
    row("server.donation_address", Method::DonationAddress, 0.1),
    row("server.features", Method::Features, 0.2),
    row("server.peers.subscribe", Method::PeersSubscribe, 1.0),
    row("server.add_peer", Method::AddPeer, 100.0),
    row("blockchain.block.header", Method::BlockHeader, 0.25),
    row("blockchain.block.headers", Method::BlockHeaders, 0.25),
    row(
        "blockchain.headers.subscribe",
        Method::HeadersSubscribe,
        0.25,
    ),
    row(
        "blockchain.headers.unsubscribe",
        Method::HeadersUnsubscribe,
        0.1,
    ),
    row("blockchain.headers.get_tip", Method::HeadersGetTip, 0.25),
    row("blockchain.header.get", Method::HeaderGet, 0.25),
    row("blockchain.estimatefee", Method::EstimateFee, 1.0),
    Row {
        until: Some(V1_6),
        ..row("blockchain.relayfee", Method::RelayFee, 0.5)
    },
    row("mempool.get_info", Method::MempoolInfo, 0.5),
    row("mempool.get_fee_histogram", Method::Histogram, 0.5),
    row("mempool.recent", Method::Recent, 0.5),
    row(
        "blockchain.scripthash.get_balance",
        Method::Balance(Hash),
        1.0,
    ),
    row(
        "blockchain.scripthash.get_history",
        Method::History(Hash),
        0.5,
    ),
    row(
        "blockchain.scripthash.get_mempool",
        Method::Mempool(Hash),
        0.5,
    ),
    row(
        "blockchain.scripthash.listunspent",
        Method::Unspent(Hash),
        1.0,
    ),
    row(
        "blockchain.scripthash.subscribe",
        Method::Subscribe(Hash),
        1.0,
    ),
    row(
        "blockchain.scripthash.unsubscribe",
        Method::Unsubscribe(Hash),
        0.1,
    ),
    row(
        "blockchain.scripthash.get_status",
        Method::Status(Hash),
        1.0,
    ),
    row(
        "blockchain.scripthash.get_first_use",
        Method::FirstUse(Hash),
        0.5,
    ),
    row(
        "blockchain.scriptpubkey.get_balance",
        Method::Balance(Script),
        1.0,
    ),
    row(
        "blockchain.scriptpubkey.get_history",
        Method::History(Script),
        0.5,
    ),
    row(
        "blockchain.scriptpubkey.get_mempool",
        Method::Mempool(Script),
        0.5,
    ),
    row(
        "blockchain.scriptpubkey.listunspent",
        Method::Unspent(Script),
        1.0,
    ),
    row(
        "blockchain.scriptpubkey.subscribe",
        Method::Subscribe(Script),
        1.0,
    ),
    row(
        "blockchain.scriptpubkey.unsubscribe",
        Method::Unsubscribe(Script),
        0.1,
    ),
    row(
        "blockchain.address.get_balance",
        Method::Balance(Address),
        1.0,
    ),
    row(
        "blockchain.address.get_history",
        Method::History(Address),
        0.5,
    ),
    row(
        "blockchain.address.get_mempool",
        Method::Mempool(Address),
        0.5,
    ),
    row(
        "blockchain.address.listunspent",
        Method::Unspent(Address),
        1.0,
    ),
    row(
        "blockchain.address.subscribe",
        Method::Subscribe(Address),
        1.0,
    ),
    row(
        "blockchain.address.unsubscribe",
        Method::Unsubscribe(Address),
        0.1,
    ),
    row(
        "blockchain.address.get_status",
        Method::Status(Address),
        1.0,
    ),
    row(
        "blockchain.address.get_first_use",
        Method::FirstUse(Address),
        0.5,
    ),
    row(
        "blockchain.address.get_scripthash",
        Method::AddressScriptHash,
        0.1,
    ),
    row("blockchain.transaction.get", Method::TxGet, 0.5),
    row("blockchain.transaction.get_merkle", Method::TxMerkle, 0.5),
    row(
        "blockchain.transaction.id_from_pos",
        Method::TxIdFromPos,
        0.5,
    ),
    row("blockchain.transaction.broadcast", Method::TxBroadcast, 2.0),
    row(
        "blockchain.transaction.broadcast_package",
        Method::TxPackage,
        4.0,
    ),
    row(
        "blockchain.transaction.testmempoolaccept",
        Method::TxTestAccept,
        4.0,
    ),
    row("blockchain.transaction.get_height", Method::TxHeight, 0.5),
    row(
        "blockchain.transaction.get_confirmed_blockhash",
        Method::TxBlockHash,
        0.5,
    ),
    row("blockchain.transaction.subscribe", Method::TxSubscribe, 1.0),
    row(
        "blockchain.transaction.unsubscribe",
        Method::TxUnsubscribe,
        0.1,
    ),
    row(
        "blockchain.outpoint.subscribe",
        Method::OutpointSubscribe,
        1.0,
    ),
    row(
        "blockchain.outpoint.get_status",
        Method::OutpointStatus,
        0.5,
    ),
    row(
        "blockchain.outpoint.unsubscribe",
        Method::OutpointUnsubscribe,
        0.1,
    ),
    row("blockchain.utxo.get_info", Method::UtxoInfo, 0.5),
];

static BY_NAME: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
    METHODS
        .iter()
        .enumerate()
        .map(|(at, row)| (row.name, at))
        .collect()
});

/// A method of a version by its name, with its place in [`METHODS`].
pub(crate) fn lookup(name: &str, version: Version) -> Option<(usize, &'static Row)> {
    let at = *BY_NAME.get(name)?;
    let row = &METHODS[at];
    row.until
        .is_none_or(|until| version < until)
        .then_some((at, row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::{V1_4, V1_7};

    #[test]
    fn names_are_distinct_and_gone_ones_are_gone() {
        assert_eq!(BY_NAME.len(), METHODS.len());
        assert!(lookup("blockchain.relayfee", V1_4).is_some());
        assert!(lookup("blockchain.relayfee", V1_6).is_none());
        assert!(lookup("blockchain.relayfee", V1_7).is_none());
        assert!(lookup("blockchain.nothing", V1_4).is_none());
    }
}
