//! The Esplora HTTP API over the index of a UTXO chain.
//!
//! [`router`] gives all endpoints, to be nested under any base path; `/openapi.json` beside them
//! describes them, generated from the handlers. Every request reads one view of the index from its start to its end,
//! so that no answer mixes two tips. What is fixed by a hash is cached for years; what depends on a block staying on
//! the best chain, by its depth; the rest for seconds, with a tag of the tip.
//!
//! Texts of errors are part of the interface: clients compare them.

mod asm;
mod assets;
mod blocks;
mod elements;
mod error;
mod events;
mod fragments;
mod internal;
mod json;
mod mempool;
mod node;
pub mod objects;
mod openapi;
mod parse;
mod render;
mod script;
mod scripts;
mod state;
mod submit;
mod txs;

pub use assets::{AssetRegistry, RegisteredAsset, RegistryFolder};
pub use node::{NodeCallError, NodeCalls, NodeFuture};
pub use openapi::{openapi, router};
pub use state::{EsploraOptions, EsploraState};
