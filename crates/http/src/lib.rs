//! What every HTTP surface of Cairn shares: the server loop with its limits, cache classes and ETags, CORS, errors,
//! request bodies, and the bounded pool for blocking reads.
//!
//! A surface is an [`axum::Router`]; it is wrapped in a [`Surface`], which adds what must hold for *every* answer
//! (CORS headers also on errors, `OPTIONS`, one ignored trailing slash, conditional answers, the deadline, panics), and
//! served by [`serve`]. The same `Surface` can be called without a socket ([`Surface::handle`]), which is how most
//! tests do it.
//!
//! This crate knows nothing of chains, indexes or metrics registries: whoever wants to count requests implements
//! [`RequestObserver`].

mod blocking;
mod body;
mod caching;
mod cors;
mod error;
mod guard;
mod listen;
mod observe;
mod params;
mod server;
mod surface;
mod token;

pub use blocking::BlockingPool;
pub use body::{DEFAULT_BODY_LIMIT, read_body};
pub use caching::{
    Answer, CacheClass, Conditions, ETag, LONG_AFTER_DEPTH, LONG_MAX_AGE_SECONDS,
    RECENT_MAX_AGE_SECONDS, SHORT_MAX_AGE_SECONDS, unchanged,
};
pub use cors::{Cors, CorsError};
pub use error::{HttpError, INTERNAL_ERROR_TEXT, endpoint_not_found};
pub use listen::{Listen, ListenError, Listener};
pub use observe::{RequestObserver, RequestSeen, UNMATCHED_ENDPOINT};
pub use params::{PathParams, QueryParams, parse_decimal};
pub use server::{ServeLimits, serve};
pub use surface::{PeerAddress, Surface, SurfaceOptions};
pub use token::Token;
