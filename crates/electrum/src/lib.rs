//! The Electrum protocol, versions 1.4 to 1.7, over the index of a UTXO chain.
//!
//! [`ElectrumServer`] serves wallets over TCP, TLS and WebSocket. Each connection is one task; each answer comes from one
//! [`cairn_utxo_index::View`], so that tip, history, mempool and status in it agree. What changes is told to those who
//! subscribed by one task that reads the index's change feed.
//!
//! | room | what |
//! | --- | --- |
//! | `transport` | PROXY header, TLS, WebSocket, lines |
//! | `rpc` | JSON-RPC: requests, arguments, answers |
//! | `version` | versions and their negotiation |
//! | `methods` | the methods, a module for each kind |
//! | `status`, `proofs` | history hashes and header proofs, with what makes them cheap |
//! | `registry`, `notify` | who watches what, and what is told |
//! | `session`, `limits`, `listen` | connections, what they may cost, listeners |
//! | `peers` | other servers |
//!
//! It keeps nothing on disk and sees no rows.

mod broadcast;
mod fees;
mod labels;
mod limits;
mod listen;
mod methods;
mod notify;
mod options;
mod peers;
mod proofs;
mod registry;
mod rpc;
mod server;
mod session;
mod status;
mod subnet;
mod transport;
mod version;

pub use listen::{ElectrumServer, Endpoint, Transport};
pub use options::{ElectrumOptions, Limits, PublicHost};
pub use server::ElectrumState;
pub use subnet::{Subnet, SubnetError};
pub use transport::{TlsError, TlsIdentity};

/// Names of all methods served, for metrics and documents.
pub fn method_names() -> Vec<&'static str> {
    methods::METHODS.iter().map(|row| row.name).collect()
}
