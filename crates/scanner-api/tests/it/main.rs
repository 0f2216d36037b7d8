//! The API from outside: requests through the surface, over sockets, against a real Redis.

mod client;
mod contract;
mod ingestion;
mod live;
mod privacy;
mod support;
