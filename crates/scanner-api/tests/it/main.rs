//! The API from outside: requests through the surface, over sockets, against a real Redis.

mod client;
mod client_ts;
mod contract;
mod ingestion;
mod live;
mod privacy;
mod support;
