//! What the handlers share, and how a request reads: one view from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bitcoin::Network;
use bitcoin::hashes::Hash;
use cairn_http::{Answer, BlockingPool, CacheClass, Conditions, ETag, HttpError, unchanged};
use cairn_utxo_index::{BlockRef, Index, View};

use crate::broadcast::Broadcast;
use crate::error::Failure;
use crate::fragments::Fragments;
use crate::render::Style;

/// When a client should ask again while the first load runs, seconds.
const SYNC_RETRY_SECONDS: u32 = 10;
/// Blocking reads at once, unless configured: enough to keep a disk busy, few enough to keep latencies short.
const DEFAULT_READERS: usize = 32;
/// Memory for rendered transactions, unless configured.
const DEFAULT_FRAGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Time of one request.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// How the API answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EsploraOptions {
    /// Write what only the mempool line of servers has: `sigops` of a transaction, script type `multisig`.
    pub mempool_line: bool,
    /// Blocking reads at once.
    pub readers: usize,
    /// Time of one request's reads; beyond it 503.
    pub deadline: Duration,
    /// Memory for rendered transactions, bytes.
    pub fragment_bytes: u64,
}

impl Default for EsploraOptions {
    fn default() -> Self {
        Self {
            mempool_line: false,
            readers: DEFAULT_READERS,
            deadline: DEFAULT_DEADLINE,
            fragment_bytes: DEFAULT_FRAGMENT_BYTES,
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
    /// Who broadcasts; `None` when there is no node (files alone).
    pub broadcast: Option<Arc<dyn Broadcast>>,
    /// How to answer.
    pub options: EsploraOptions,
}

/// The handlers' state.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    index: Arc<Index>,
    pub(crate) network: Network,
    pub(crate) broadcast: Option<Arc<dyn Broadcast>>,
    pub(crate) fragments: Fragments,
    pool: BlockingPool,
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
}

impl Reading {
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
            broadcast,
            options,
        } = state;
        let style = Style {
            network,
            mempool_line: options.mempool_line,
        };
        Self(Arc::new(Shared {
            index,
            network,
            broadcast,
            fragments: Fragments::new(options.fragment_bytes, style),
            pool: BlockingPool::new(options.readers, options.deadline),
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
                finish(self.pool.run(move || work(&reading)).await?, tag)
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
                finish(self.pool.run_short(move || work(&reading)).await?, tag)
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
            Begun::Reading(reading, tag) => finish(work(&reading), tag),
        }
    }

    fn begin(&self, conditions: &Conditions) -> Result<Begun, HttpError> {
        let view = self.view()?;
        let tip = view.tip();
        let tag = ETag::of_state(&[&tip.hash.to_byte_array()]);
        if conditions.name_tag(&tag) {
            return Ok(Begun::Unchanged(unchanged(&tag, CacheClass::Short)));
        }
        Ok(Begun::Reading(
            Reading {
                view,
                app: self.clone(),
                tip,
            },
            tag,
        ))
    }

    fn view(&self) -> Result<Arc<View>, HttpError> {
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

fn finish(answer: Result<Answer, Failure>, tag: ETag) -> Result<Response, HttpError> {
    Ok(answer.map_err(HttpError::from)?.etag(tag).into_response())
}
