//! What the handlers share, and how a request reads: one view from its start to its end.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bitcoin::hashes::Hash;
use cairn_http::{Answer, BlockingPool, CacheClass, Conditions, ETag, HttpError, unchanged};
use cairn_utxo_index::{BlockRef, Index, MempoolView, Network, View};
use tokio_util::sync::CancellationToken;

use crate::assets::AssetRegistry;
use crate::error::Failure;
use crate::events::Hub;
use crate::fragments::Fragments;
use crate::mempool::{Estimates, Template};
use crate::node::NodeCalls;
use crate::render::Style;

/// When a client should ask again while the first load runs, seconds.
const SYNC_RETRY_SECONDS: u32 = 10;
/// Blocking reads at once, unless configured: enough to keep a disk busy, few enough to keep latencies short.
const DEFAULT_READERS: usize = 32;
/// Memory for rendered transactions, unless configured.
const DEFAULT_FRAGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Says that an answer was made without all unconfirmed transactions.
const MEMPOOL_HEADER: HeaderName = HeaderName::from_static("x-mempool");
/// Time of one request.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// How the API answers.
#[derive(Debug, Clone)]
pub struct EsploraOptions {
    /// Write what only the mempool line of servers has: `sigops` of a transaction, script type `multisig`.
    pub mempool_line: bool,
    /// Blocking reads at once.
    pub readers: usize,
    /// Time of one request's reads; beyond it 503.
    pub deadline: Duration,
    /// Memory for rendered transactions, bytes.
    pub fragment_bytes: u64,
    /// Serve `/internal/…` and its old names, whose answers have no bound.
    pub internal: bool,
    /// Serve `/block-template`.
    pub mining: bool,
    /// What issuers say about assets (Elements).
    pub registry: AssetRegistry,
}

impl Default for EsploraOptions {
    fn default() -> Self {
        Self {
            mempool_line: false,
            readers: DEFAULT_READERS,
            deadline: DEFAULT_DEADLINE,
            fragment_bytes: DEFAULT_FRAGMENT_BYTES,
            internal: false,
            mining: false,
            registry: AssetRegistry::default(),
        }
    }
}

/// One chain's index behind the API.
#[derive(Clone)]
pub struct EsploraState {
    /// The index.
    pub index: Arc<Index>,
    /// The chain's network: whose addresses are read and printed.
    pub network: Network,
    /// The node; `None` when there is none (files alone). Then there is no mempool either.
    pub node: Option<Arc<dyn NodeCalls>>,
    /// How to answer.
    pub options: EsploraOptions,
    /// Ends the connections of those who listen to events.
    pub stop: CancellationToken,
}

/// The handlers' state.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    index: Arc<Index>,
    pub(crate) network: Network,
    node: Option<Arc<dyn NodeCalls>>,
    pub(crate) options: EsploraOptions,
    pub(crate) fragments: Fragments,
    pub(crate) pool: BlockingPool,
    pub(crate) estimates: Estimates,
    pub(crate) template: Template,
    /// Different in every process: the numbers of views start anew.
    epoch: [u8; 16],
    /// Begins with the first who listens.
    hub: OnceLock<Arc<Hub>>,
    stop: CancellationToken,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// One request's reading: its view, and what is needed to answer.
pub(crate) struct Reading {
    pub(crate) view: Arc<View>,
    pub(crate) app: App,
    /// The view's tip.
    pub(crate) tip: BlockRef,
    /// Whether the answer depends on the mempool.
    has_asked_mempool: Cell<bool>,
}

impl Reading {
    /// The unconfirmed transactions. Asking for them notes that the answer depends on them, which its header says while they
    /// are being loaded.
    pub(crate) fn mempool(&self) -> &MempoolView {
        self.has_asked_mempool.set(true);
        self.view.mempool()
    }

    /// Whether the answer depends on a mempool that is not there yet.
    fn lacks_mempool(&self) -> bool {
        self.has_asked_mempool.get() && self.app.node.is_some() && !self.view.mempool().is_loaded()
    }

    /// The cache class of what depends on a block of this view staying where it is.
    pub(crate) fn by_depth(&self, height: u32) -> CacheClass {
        CacheClass::by_depth(self.tip.height, height)
    }
}

impl App {
    pub(crate) fn new(state: EsploraState) -> Self {
        let EsploraState {
            index,
            network,
            node,
            options,
            stop,
        } = state;
        let style = Style {
            network,
            mempool_line: options.mempool_line,
        };
        Self(Arc::new(Shared {
            index,
            network,
            node,
            fragments: Fragments::new(options.fragment_bytes, style),
            pool: BlockingPool::new(options.readers, options.deadline),
            options,
            estimates: Estimates::default(),
            template: Template::default(),
            epoch: epoch(),
            hub: OnceLock::new(),
            stop,
        }))
    }

    /// Answers from the newest view, on the blocking pool. Takes the view once; everything `work` reads is of it.
    ///
    /// A client that names the tag of this very state has the answer already: nothing is read.
    pub(crate) async fn read<F>(
        &self,
        conditions: &Conditions,
        work: F,
    ) -> Result<Response, HttpError>
    where
        F: FnOnce(&Reading) -> Result<Answer, Failure> + Send + 'static,
    {
        match self.begin(conditions)? {
            Begun::Unchanged(response) => Ok(response),
            Begun::Reading(reading, tag) => {
                let work = move || (work(&reading), reading.lacks_mempool());
                finish(self.pool.run(work).await?, tag)
            }
        }
    }

    /// As [`App::read`], for what reads a handful of rows.
    pub(crate) async fn read_short<F>(
        &self,
        conditions: &Conditions,
        work: F,
    ) -> Result<Response, HttpError>
    where
        F: FnOnce(&Reading) -> Result<Answer, Failure> + Send + 'static,
    {
        match self.begin(conditions)? {
            Begun::Unchanged(response) => Ok(response),
            Begun::Reading(reading, tag) => {
                let work = move || (work(&reading), reading.lacks_mempool());
                finish(self.pool.run_short(work).await?, tag)
            }
        }
    }

    /// As [`App::read`], for what needs no store: in place.
    pub(crate) fn read_now<F>(
        &self,
        conditions: &Conditions,
        work: F,
    ) -> Result<Response, HttpError>
    where
        F: FnOnce(&Reading) -> Result<Answer, Failure>,
    {
        match self.begin(conditions)? {
            Begun::Unchanged(response) => Ok(response),
            Begun::Reading(reading, tag) => finish((work(&reading), reading.lacks_mempool()), tag),
        }
    }

    fn begin(&self, conditions: &Conditions) -> Result<Begun, HttpError> {
        let view = self.view()?;
        let tip = view.tip();
        let tag = ETag::of_state(&[
            &tip.hash.to_byte_array(),
            &self.epoch,
            &view.sequence().to_be_bytes(),
        ]);
        if conditions.name_tag(&tag) {
            return Ok(Begun::Unchanged(unchanged(&tag, CacheClass::Short)));
        }
        Ok(Begun::Reading(
            Reading {
                view,
                app: self.clone(),
                tip,
                has_asked_mempool: Cell::new(false),
            },
            tag,
        ))
    }

    /// The index.
    pub(crate) fn index(&self) -> Arc<Index> {
        Arc::clone(&self.index)
    }

    /// Where listeners to events get them from. On a runtime only.
    pub(crate) fn hub(&self) -> Arc<Hub> {
        let start = || {
            let [.., a, b, c, d, e, f, g, h] = self.epoch;
            let epoch = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            Hub::start(self.index.changes(), epoch, self.stop.child_token())
        };
        Arc::clone(self.hub.get_or_init(start))
    }

    /// The node, which some answers need.
    pub(crate) fn node(&self) -> Result<&Arc<dyn NodeCalls>, HttpError> {
        self.node
            .as_ref()
            .ok_or_else(|| HttpError::unavailable("this needs a node, and none is configured"))
    }

    /// The newest view.
    pub(crate) fn view(&self) -> Result<Arc<View>, HttpError> {
        self.index.view().ok_or_else(|| {
            HttpError::unavailable("index not yet synced").retry_after(SYNC_RETRY_SECONDS)
        })
    }
}

/// How a request starts.
enum Begun {
    /// The client has the answer already.
    Unchanged(Response),
    /// There is something to read; the tag is of the state it is read from.
    Reading(Reading, ETag),
}

fn finish(
    (answer, lacks_mempool): (Result<Answer, Failure>, bool),
    tag: ETag,
) -> Result<Response, HttpError> {
    let mut response = answer.map_err(HttpError::from)?.etag(tag).into_response();
    if lacks_mempool {
        response
            .headers_mut()
            .insert(MEMPOOL_HEADER, HeaderValue::from_static("loading"));
    }
    Ok(response)
}

/// Something that no other process has: a time and a number.
fn epoch() -> [u8; 16] {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut epoch = since.as_nanos().to_be_bytes();
    for (byte, of_pid) in epoch.iter_mut().zip(std::process::id().to_be_bytes()) {
        *byte ^= of_pid;
    }
    epoch
}
