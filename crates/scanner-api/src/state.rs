//! What the handlers share.

use std::sync::Arc;

use cairn_http::Token;
use cairn_scanner::Scanner;

use crate::access::Limits;
use crate::live::LiveFeed;

/// How the API behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiOptions {
    /// Requests a second of one address that only read. Addresses of this machine are not limited: a proxy in front of the
    /// service is one.
    pub reads_per_second: u32,
    /// Events a second of one browser address, and of one session.
    pub tracks_per_second: u32,
    /// Clients of the live stream at once.
    pub live_clients: usize,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            reads_per_second: 100,
            tracks_per_second: 5,
            live_clients: 256,
        }
    }
}

/// A ledger behind the API.
#[derive(Clone)]
pub struct ApiState {
    /// The ledger.
    pub scanner: Scanner,
    /// Opens the admin endpoints; without it they are off.
    pub admin_token: Option<Token>,
    /// Lets the application tell; without it, and without an admin token, nobody may.
    pub ingest_token: Option<Token>,
    /// The live stream.
    pub live: LiveFeed,
    /// How to behave.
    pub options: ApiOptions,
}

/// The handlers' state.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) scanner: Scanner,
    pub(crate) admin_token: Option<Token>,
    pub(crate) ingest_token: Option<Token>,
    pub(crate) live: LiveFeed,
    pub(crate) limits: Limits,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub(crate) fn new(state: ApiState) -> Self {
        Self(Arc::new(Shared {
            limits: Limits::new(&state.options),
            scanner: state.scanner,
            admin_token: state.admin_token,
            ingest_token: state.ingest_token,
            live: state.live,
        }))
    }
}
