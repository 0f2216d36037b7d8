//! What all sessions of a server share, and how they read: each request one view, from its start to its end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bitcoin::{OutPoint, Txid};
use cairn_http::{BlockingPool, HttpError};
use cairn_telemetry::ElectrumMetrics;
use cairn_utxo_index::{BlockRef, Index, Network, QueryError, ScriptHash, View};
use cairn_utxo_node::Node;
use tokio::sync::Semaphore;

use crate::fees::NodeFacts;
use crate::labels::{OutpointLabel, ScriptLabel};
use crate::limits::Accounts;
use crate::methods::OutpointStatus;
use crate::options::ElectrumOptions;
use crate::peers::Peers;
use crate::proofs::HeaderProofs;
use crate::registry::Registry;
use crate::rpc::{RpcError, code};
use crate::session::{Session, Topic, Wake};
use crate::status::{Status, Statuses};

/// The text that wallets know.
const HISTORY_TOO_LARGE_TEXT: &str = "history too large";

/// What a server needs.
#[derive(Clone)]
pub struct ElectrumState {
    /// The chain's id, for logs and metrics.
    pub chain: String,
    /// The index.
    pub index: Arc<Index>,
    /// The node, for broadcasting, fees and transactions in words; `None`: block files alone.
    pub node: Option<Node>,
    /// How to behave.
    pub options: ElectrumOptions,
    /// What is counted.
    pub metrics: ElectrumMetrics,
}

/// The newest tip that sessions are told of.
#[derive(Debug, Clone)]
pub(crate) struct Announced {
    pub(crate) view: u64,
    pub(crate) block: BlockRef,
    /// Serialized.
    pub(crate) header: Arc<Vec<u8>>,
}

/// The outputs of the genesis block: on the chain, but no coins.
pub(crate) struct Genesis(Vec<(ScriptHash, u64)>);

impl Genesis {
    /// On Elements the coins of the genesis block, if there are any, can be spent.
    fn of(network: Network) -> Self {
        let Some(network) = network.bitcoin() else {
            return Self(Vec::new());
        };
        let block = bitcoin::constants::genesis_block(network);
        let outputs = block.txdata.iter().flat_map(|tx| &tx.output);
        Self(
            outputs
                .map(|output| {
                    (
                        ScriptHash::of(output.script_pubkey.as_bytes()),
                        output.value.to_sat(),
                    )
                })
                .collect(),
        )
    }

    /// What the genesis block pays to a script, satoshi.
    pub(crate) fn value_of(&self, script: &ScriptHash) -> u64 {
        self.0
            .iter()
            .filter(|(paid, _)| paid == script)
            .map(|(_, value)| value)
            .sum()
    }
}

/// Everything that sessions share.
pub(crate) struct Server {
    pub(crate) chain: String,
    pub(crate) index: Arc<Index>,
    pub(crate) genesis: Genesis,
    pub(crate) node: Option<Node>,
    pub(crate) options: ElectrumOptions,
    pub(crate) metrics: ElectrumMetrics,
    pub(crate) scripts: Registry<ScriptHash, Wake, Status, ScriptLabel>,
    pub(crate) outpoints: Registry<OutPoint, Wake, OutpointStatus, OutpointLabel>,
    pub(crate) transactions: Registry<Txid, Wake, Option<i64>, OutpointLabel>,
    pub(crate) statuses: Statuses,
    pub(crate) proofs: HeaderProofs,
    pub(crate) facts: NodeFacts,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) peers: Peers,
    /// Places for receiving long lines, in units of [`INPUT_UNIT`].
    pub(crate) input: Arc<Semaphore>,
    /// Bytes that wait for clients to take them.
    pub(crate) output: AtomicUsize,
    announced: Mutex<Option<Announced>>,
    followers: Mutex<HashMap<usize, Arc<Wake>>>,
    quick: BlockingPool,
    heavy: BlockingPool,
}

/// Bytes of a long line that one place is for.
pub(crate) const INPUT_UNIT: usize = 64 * 1024;

impl Server {
    pub(crate) fn new(state: ElectrumState) -> Arc<Self> {
        let limits = &state.options.limits;
        Arc::new(Self {
            scripts: Registry::new(),
            outpoints: Registry::new(),
            transactions: Registry::new(),
            statuses: Statuses::new(),
            proofs: HeaderProofs::default(),
            facts: NodeFacts::new(),
            accounts: Accounts::new(limits),
            peers: Peers::new(&state.options),
            // At least one line of full length can always be received.
            input: Arc::new(Semaphore::new(
                (limits.input_bytes.max(limits.request_bytes) / INPUT_UNIT + 1)
                    .min(Semaphore::MAX_PERMITS),
            )),
            output: AtomicUsize::new(0),
            announced: Mutex::new(None),
            followers: Mutex::default(),
            quick: BlockingPool::new(limits.readers, limits.work),
            heavy: BlockingPool::new(limits.heavy_readers, limits.work),
            genesis: Genesis::of(state.index.config().network),
            chain: state.chain,
            index: state.index,
            node: state.node,
            options: state.options,
            metrics: state.metrics,
        })
    }

    /// The newest view.
    pub(crate) fn view(&self) -> Result<Arc<View>, RpcError> {
        self.index.view().ok_or_else(|| {
            RpcError::new(
                code::INTERNAL,
                "the index of this server is still being built; try again later",
            )
        })
    }

    /// The node.
    pub(crate) fn node(&self) -> Result<&Node, RpcError> {
        self.node
            .as_ref()
            .ok_or_else(|| RpcError::new(code::NODE, "this server has no node to ask"))
    }

    /// Work that reads a handful of rows: in place while the store is quick.
    pub(crate) async fn quick<T, F>(&self, work: F) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.quick.run_short(work).await.map_err(pool_error)
    }

    /// Work that may read for long. It is given the moment at which it must give up.
    pub(crate) async fn heavy<T, F>(&self, session: &Session, work: F) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: FnOnce(Instant) -> T + Send + 'static,
    {
        let place = Arc::clone(&session.heavy)
            .acquire_owned()
            .await
            .map_err(|_| RpcError::new(code::INTERNAL, "the session is ending"))?;
        let end = Instant::now() + self.options.limits.work;
        self.heavy
            .run(move || {
                let result = work(end);
                drop(place);
                result
            })
            .await
            .map_err(pool_error)
    }

    /// The newest tip announced.
    pub(crate) fn announced(&self) -> Option<Announced> {
        self.announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Announces a view's tip to all who follow, if it is another one.
    pub(crate) fn announce(&self, view: &View) {
        let block = view.tip();
        let header = view.header_bytes_at(block.height).unwrap_or_else(|error| {
            tracing::error!(chain = self.chain, %error, "the header of the tip cannot be read");
            None
        });
        let Some(header) = header.map(Arc::new) else {
            return;
        };
        let is_new = {
            let mut announced = self
                .announced
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let before = announced.replace(Announced {
                view: view.sequence(),
                block,
                header,
            });
            before.is_none_or(|before| before.block.hash != block.hash)
        };
        if is_new {
            let followers = self
                .followers
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            followers.values().for_each(|wake| wake.tip());
        }
    }

    /// Tells a session of tips from now on.
    pub(crate) fn follow(&self, session: &Session) {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key_of(&session.wake), Arc::clone(&session.wake));
    }

    /// Tells it no more; returns whether it was told.
    pub(crate) fn unfollow(&self, session: &Session) -> bool {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key_of(&session.wake))
            .is_some()
    }

    /// Checks that one more subscription is allowed, and notes it.
    pub(crate) fn begin_watching(&self, session: &Session, topic: Topic) -> Result<(), RpcError> {
        let limits = &self.options.limits;
        let mut watched = session.watched();
        if watched.contains(&topic) {
            return Ok(());
        }
        if watched.len() >= limits.subscriptions_per_session {
            return Err(RpcError::new(
                code::LIMIT,
                format!(
                    "a session has at most {} subscriptions",
                    limits.subscriptions_per_session
                ),
            ));
        }
        if self.subscriptions() >= limits.subscriptions {
            return Err(RpcError::new(
                code::LIMIT,
                "this server has no room for further subscriptions",
            ));
        }
        watched.insert(topic);
        Ok(())
    }

    /// Ends a subscription; returns whether there was one.
    pub(crate) fn stop_watching(&self, session: &Session, topic: &Topic) -> bool {
        let was_watched = session.watched().remove(topic);
        match topic {
            Topic::Script(key) => self.scripts.unwatch(key, &session.wake),
            Topic::Outpoint(key) => self.outpoints.unwatch(key, &session.wake),
            Topic::Transaction(key) => self.transactions.unwatch(key, &session.wake),
        };
        was_watched
    }

    /// A session has ended.
    pub(crate) fn leave(&self, session: &Session) {
        self.unfollow(session);
        let topics: Vec<Topic> = session.watched().drain().collect();
        for topic in &topics {
            self.stop_watching(session, topic);
        }
    }

    /// Number of subscriptions of all sessions.
    pub(crate) fn subscriptions(&self) -> usize {
        self.scripts.len() + self.outpoints.len() + self.transactions.len()
    }

    /// Bytes that wait for clients to take them.
    pub(crate) fn waiting_output(&self) -> usize {
        self.output.load(Ordering::Relaxed)
    }
}

fn key_of(wake: &Arc<Wake>) -> usize {
    Arc::as_ptr(wake) as usize
}

fn pool_error(error: HttpError) -> RpcError {
    if error.status().as_u16() == 503 {
        RpcError::new(code::BUSY, error.text().to_owned())
    } else {
        RpcError::new(code::INTERNAL, "internal error")
    }
}

impl From<QueryError> for RpcError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::TooManyRows | QueryError::TooManyUtxos => {
                Self::new(code::HISTORY_TOO_LARGE, HISTORY_TOO_LARGE_TEXT)
            }
            QueryError::Deadline => Self::new(
                code::BUSY,
                "the server needs longer for this than one request may take; ask again, it goes on from here",
            ),
            QueryError::Node(text) => Self::new(code::NODE, text),
            QueryError::OutOfRange => Self::bad("out of range"),
            QueryError::AddressSearchDisabled => Self::bad("not enabled on this server"),
            QueryError::Store(text) => {
                tracing::error!(error = %text, "the index cannot be read");
                Self::new(code::INTERNAL, "the index of this server cannot be read")
            }
        }
    }
}

impl From<crate::status::HistoryError> for RpcError {
    fn from(error: crate::status::HistoryError) -> Self {
        match error {
            crate::status::HistoryError::TooLarge => {
                Self::new(code::HISTORY_TOO_LARGE, HISTORY_TOO_LARGE_TEXT)
            }
            crate::status::HistoryError::Query(error) => error.into(),
        }
    }
}
