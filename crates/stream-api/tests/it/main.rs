//! Subscriptions over HTTP, against a real Redis and through real sockets.

mod delivery;
mod refusals;
mod support;
