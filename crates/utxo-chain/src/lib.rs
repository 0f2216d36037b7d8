//! The two families of UTXO chains, Bitcoin and Elements, behind one set of types.
//!
//! A chain of Elements (Liquid and its test networks) is Bitcoin with more in each header, input and output. All that
//! differs is here; whoever stands on this crate reads the same for both:
//!
//! | module | what |
//! | --- | --- |
//! | [`network`] | which chain: names, magic, genesis, addresses, native asset |
//! | [`header`] | what all headers have, and what is special to one family |
//! | [`walk`] | one pass over serialized blocks and transactions, without allocation |
//! | [`tx`] | decoded transactions: Bitcoin's, with what Elements adds beside it |
//! | [`elements`] | values, assets, issuances, pegs, dynamic federations |
//! | [`address`] | scripts as addresses and back |
//!
//! Ids, scripts and outpoints are those of the `bitcoin` crate in both families: they have the same bytes and the same
//! text. Bytes of Elements are not decoded with the `elements` crate: it refuses what is not a point of the curve, and
//! consensus lets a nonce be one that is not; nor does an index need to check curves. No I/O here.

pub mod address;
mod bytes;
pub mod elements;
pub mod header;
pub mod network;
pub mod tx;
pub mod walk;

pub use self::bytes::DecodeError;
pub use self::elements::{AssetId, Field};
pub use self::header::{Header, Proof};
pub use self::network::{ElementsChain, Family, Network};
pub use self::tx::{Decoded, Output, Tx};
