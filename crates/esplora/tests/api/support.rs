//! An index with the API over it, and asking.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use bitcoin::Network;
use cairn_esplora::{EsploraOptions, EsploraState, NodeCalls, router};
use cairn_http::{Cors, Surface, SurfaceOptions};
use cairn_testkit::{MemorySource, Model};
use cairn_utxo_index::{Index, IndexConfig};
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// What can be set up differently.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) address_search: bool,
    pub(crate) utxos_limit: Option<usize>,
    pub(crate) scan_rows_max: Option<usize>,
    pub(crate) node: Option<Arc<dyn NodeCalls>>,
    pub(crate) options: EsploraOptions,
}

/// The API of a chain.
pub(crate) struct Api {
    pub(crate) surface: Surface,
    pub(crate) index: Arc<Index>,
    source: MemorySource,
    _dir: TempDir,
}

impl Api {
    /// An index of the model's chain.
    pub(crate) fn of(model: &Model) -> Self {
        Self::with(model, Setup::default())
    }

    pub(crate) fn with(model: &Model, setup: Setup) -> Self {
        let api = Self::unsynced(model, setup);
        api.sync(model);
        api
    }

    /// An index that has not read anything yet.
    pub(crate) fn unsynced(model: &Model, setup: Setup) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut config = IndexConfig::new(dir.path().join("index"), Network::Regtest);
        config.address_search = setup.address_search;
        config.memory_bytes = 64 << 20;
        config.threads = 1;
        if let Some(limit) = setup.utxos_limit {
            config.utxos_limit = limit;
        }
        if let Some(limit) = setup.scan_rows_max {
            config.scan_rows_max = limit;
        }
        let index = Index::open(config).expect("a new index");
        let surface = surface_of(&index, setup.node, setup.options);
        Self {
            surface,
            index,
            source: MemorySource::new(model),
            _dir: dir,
        }
    }

    /// Brings the index to the model's tip.
    pub(crate) fn sync(&self, model: &Model) {
        self.source.follow(model);
        let outcome = self
            .index
            .sync(&self.source, None, &AtomicBool::new(false))
            .expect("synced");
        assert_eq!(outcome.tip.hash, model.tip().hash);
    }

    pub(crate) async fn get(&self, uri: &str) -> Got {
        self.ask("GET", uri, &[], Body::empty()).await
    }

    pub(crate) async fn post(&self, uri: &str, body: impl Into<Body>) -> Got {
        self.ask("POST", uri, &[], body.into()).await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Got {
        ask(&self.surface, method, uri, headers, body).await
    }
}

/// The API over an index.
pub(crate) fn surface_of(
    index: &Arc<Index>,
    node: Option<Arc<dyn NodeCalls>>,
    options: EsploraOptions,
) -> Surface {
    stoppable_surface_of(index, node, options, CancellationToken::new())
}

/// The same, with a way to end those who listen to events.
pub(crate) fn stoppable_surface_of(
    index: &Arc<Index>,
    node: Option<Arc<dyn NodeCalls>>,
    options: EsploraOptions,
    stop: CancellationToken,
) -> Surface {
    let state = EsploraState {
        index: Arc::clone(index),
        network: Network::Regtest.into(),
        node,
        options,
        stop,
    };
    let options = SurfaceOptions {
        cors: Cors::from_origins(&["*"]).expect("star"),
        ..SurfaceOptions::default()
    };
    Surface::new(router(state), options)
}

/// Asks without a socket.
pub(crate) async fn ask(
    surface: &Surface,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: Body,
) -> Got {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = surface.handle(request.body(body).expect("a request")).await;
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX)
        .await
        .expect("a body")
        .to_vec();
    Got {
        asked: uri.to_owned(),
        status: parts.status.as_u16(),
        headers: parts.headers,
        bytes,
    }
}

/// An answer.
pub(crate) struct Got {
    asked: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) const LONG: &str = "public, max-age=157784630, immutable";
pub(crate) const SHORT: &str = "public, max-age=10";

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(name)
            .map(|value| value.to_str().expect("ascii"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("text")
    }

    /// The body of a 200 of the content type.
    fn of_type(&self, kind: &str) -> &[u8] {
        assert_eq!(
            self.status,
            200,
            "{}: {}",
            self.asked,
            String::from_utf8_lossy(&self.bytes)
        );
        assert_eq!(self.header("content-type"), Some(kind), "{}", self.asked);
        &self.bytes
    }

    pub(crate) fn ok_text(&self) -> &str {
        self.of_type("text/plain");
        self.text()
    }

    pub(crate) fn ok_bytes(&self) -> &[u8] {
        self.of_type("application/octet-stream")
    }

    pub(crate) fn ok_json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(self.of_type("application/json"))
            .unwrap_or_else(|error| panic!("{}: {error}", self.asked))
    }

    /// Checks the cache class of a 200 and that it can be asked for conditionally.
    pub(crate) fn assert_class(&self, class: &str) {
        assert_eq!(
            self.status,
            200,
            "{}: {}",
            self.asked,
            String::from_utf8_lossy(&self.bytes)
        );
        assert_eq!(self.header("cache-control"), Some(class), "{}", self.asked);
        assert!(
            self.header("etag")
                .is_some_and(|tag| tag.starts_with("W/\"")),
            "{}",
            self.asked
        );
    }

    /// Checks an error with all its headers.
    pub(crate) fn assert_error(&self, status: u16, text: &str) {
        assert_eq!((self.status, self.text()), (status, text), "{}", self.asked);
        assert_eq!(
            self.header("content-type"),
            Some("text/plain"),
            "{}",
            self.asked
        );
        assert_eq!(
            self.header("cache-control"),
            Some("no-store"),
            "{}",
            self.asked
        );
        assert_eq!(
            self.header("access-control-allow-origin"),
            Some("*"),
            "{}",
            self.asked
        );
        assert_eq!(self.header("etag"), None, "{}", self.asked);
        assert_eq!(
            self.header("retry-after").is_some(),
            status == 503,
            "{}",
            self.asked
        );
    }
}

/// The class of what depends on a block.
pub(crate) fn class_at(tip: u32, height: u32) -> &'static str {
    if height + 10 <= tip { LONG } else { SHORT }
}
