//! The server from the outside: over its sockets, with answers known from elsewhere.

mod client;
mod fixture;
mod limits;
mod model;
mod node;
mod peers;
mod protocol;
mod subscriptions;
mod transports;
mod wallets;
