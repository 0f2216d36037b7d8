//! The methods of the protocol, a module for each kind.
//!
//! A method gets its arguments unread and the session it is for, and gives back the JSON of its result and what it cost.
//! It takes one view at its start and answers from that alone.

mod fees;
mod headers;
mod outpoints;
mod scripts;
mod server;
mod table;
mod txs;

use std::sync::Arc;

use serde_json::value::RawValue;

pub(crate) use headers::write_tip;
pub(crate) use outpoints::OutpointStatus;
pub(crate) use outpoints::{find as find_outpoint, write_status as write_outpoint_status};
pub(crate) use scripts::write_status as write_script_status;
pub(crate) use server::{features_of, negotiate};
pub(crate) use table::{METHODS, Method, lookup};
pub(crate) use txs::height_of as find_height;

use crate::rpc::{Json, RpcError};
use crate::server::Server;
use crate::session::Session;
use crate::version::Version;

/// A call on its way.
pub(crate) struct Ask<'a> {
    pub(crate) server: &'a Arc<Server>,
    pub(crate) session: &'a Arc<Session>,
    /// The version the answer follows.
    pub(crate) version: Version,
    pub(crate) params: Option<&'a RawValue>,
}

/// The result of a call.
pub(crate) struct Reply {
    pub(crate) json: Json,
    /// What it cost beyond its method's price.
    pub(crate) cost: f64,
}

impl From<Json> for Reply {
    fn from(json: Json) -> Self {
        Self { json, cost: 0.0 }
    }
}

pub(crate) type Answer = Result<Reply, RpcError>;

/// A result of plain JSON.
fn value(value: impl serde::Serialize) -> Answer {
    Ok(Json::of(&value).into())
}

/// Runs a call.
pub(crate) async fn call(ask: &Ask<'_>, method: Method) -> Answer {
    match method {
        Method::Version => server::version_again(),
        Method::Ping => server::ping(ask),
        Method::Banner => server::banner(ask).await,
        Method::DonationAddress => server::donation_address(ask),
        Method::Features => server::features(ask),
        Method::PeersSubscribe => server::peers(ask),
        Method::AddPeer => server::add_peer(ask).await,
        Method::BlockHeader => headers::header(ask).await,
        Method::BlockHeaders => headers::headers(ask).await,
        Method::HeadersSubscribe => headers::subscribe(ask),
        Method::HeadersUnsubscribe => headers::unsubscribe(ask),
        Method::HeadersGetTip => headers::get_tip(ask),
        Method::HeaderGet => headers::get(ask),
        Method::EstimateFee => fees::estimate(ask).await,
        Method::RelayFee => fees::relay(ask).await,
        Method::MempoolInfo => fees::info(ask).await,
        Method::Histogram => fees::histogram(ask),
        Method::Recent => fees::recent(ask),
        Method::Balance(style) => scripts::balance(ask, style).await,
        Method::History(style) => scripts::history(ask, style).await,
        Method::Mempool(style) => scripts::mempool(ask, style),
        Method::Unspent(style) => scripts::unspent(ask, style).await,
        Method::Subscribe(style) => scripts::subscribe(ask, style).await,
        Method::Unsubscribe(style) => scripts::unsubscribe(ask, style),
        Method::Status(style) => scripts::status(ask, style).await,
        Method::FirstUse(style) => scripts::first_use(ask, style).await,
        Method::AddressScriptHash => scripts::address_script_hash(ask),
        Method::TxGet => txs::get(ask).await,
        Method::TxMerkle => txs::merkle(ask).await,
        Method::TxIdFromPos => txs::id_from_pos(ask).await,
        Method::TxBroadcast => txs::broadcast(ask).await,
        Method::TxPackage => txs::broadcast_package(ask).await,
        Method::TxTestAccept => txs::test_accept(ask).await,
        Method::TxHeight => txs::height(ask).await,
        Method::TxBlockHash => txs::confirmed_blockhash(ask).await,
        Method::TxSubscribe => txs::subscribe(ask).await,
        Method::TxUnsubscribe => txs::unsubscribe(ask),
        Method::OutpointSubscribe => outpoints::subscribe(ask).await,
        Method::OutpointStatus => outpoints::get_status(ask).await,
        Method::OutpointUnsubscribe => outpoints::unsubscribe(ask),
        Method::UtxoInfo => outpoints::utxo_info(ask).await,
    }
}
