//! The API over a real index, asked like a client asks, and compared with others who know the answers: an in-memory
//! model of the chain, a real node, and the client library that wallets use.

mod client;
mod contract;
mod elements;
mod events;
mod expected;
mod live;
mod mempool;
mod model;
mod node;
mod scripts;
mod support;
mod wallet;
