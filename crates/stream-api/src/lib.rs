//! Durable subscriptions over HTTP, for consumers in any language.
//!
//! Whoever connects to `/api/streams/{chain}/subscriptions/{id}/events` becomes the consumer of that subscription: this process
//! holds its lock and reads its group, the client gets the events and acknowledges them. What it does not acknowledge it gets
//! again, on the next connection too. One connection of a subscription works, further ones stand by.
//!
//! [`router`] gives whole paths below `/api/streams`; every one needs the bearer token. [`openapi`] describes them. What a
//! subscription promises is `cairn_stream::subscription`'s matter; nothing here touches a key.

mod answers;
mod client;
mod consumer;
mod error;
mod hosts;
pub mod message;
pub mod objects;
mod openapi;
mod params;
mod polling;
mod socket;
mod sse;
mod state;

pub use hosts::{HostedState, Hosts, ObserverOf};
pub use openapi::{openapi, router};
pub use state::{ApiOptions, ApiState};
