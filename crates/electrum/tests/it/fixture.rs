//! A server over an index in memory's reach: the chain and the mempool are the test's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bitcoin::Transaction;
use cairn_electrum::{
    ElectrumOptions, ElectrumServer, ElectrumState, Endpoint, Subnet, Transport, method_names,
};
use cairn_http::Listen;
use cairn_telemetry::{ElectrumMetricsSet, MetricsRegistry};
use cairn_testkit::{MemoryMempool, MemorySource, Model};
use cairn_utxo_index::{Index, IndexConfig, MempoolSync};
use cairn_utxo_node::Node;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::Client;

/// What can be set up differently.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) options: ElectrumOptions,
    pub(crate) utxos_limit: Option<usize>,
    pub(crate) node: Option<Node>,
    /// Further listeners, each on a free port (or at the path).
    pub(crate) endpoints: Vec<(Listen, Transport, Vec<Subnet>)>,
}

/// A running server. Its first listener is plain TCP.
pub(crate) struct Fixture {
    pub(crate) index: Arc<Index>,
    pub(crate) server: ElectrumServer,
    pub(crate) registry: Arc<MetricsRegistry>,
    /// Where it listens.
    pub(crate) addresses: Vec<Listen>,
    source: MemorySource,
    mempool: MemoryMempool,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    _dir: TempDir,
}

impl Fixture {
    /// A server of the model's chain.
    pub(crate) async fn of(model: &Model) -> Self {
        Self::with(model, Setup::default()).await
    }

    pub(crate) async fn with(model: &Model, setup: Setup) -> Self {
        let fixture = Self::unsynced(model, setup).await;
        fixture.sync(model, &[]).await;
        fixture
    }

    /// A server of an index that has not read anything yet.
    pub(crate) async fn unsynced(model: &Model, setup: Setup) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut config = IndexConfig::new(dir.path().join("index"), model.network());
        config.memory_bytes = 64 << 20;
        config.threads = 1;
        if let Some(limit) = setup.utxos_limit {
            config.utxos_limit = limit;
        }
        let index = Index::open(config).expect("a new index");
        let registry = Arc::new(MetricsRegistry::new());
        let server = ElectrumServer::new(ElectrumState {
            chain: "test".to_owned(),
            index: Arc::clone(&index),
            node: setup.node,
            options: setup.options,
            metrics: ElectrumMetricsSet::register(&registry).chain("test", &method_names()),
        });
        let mut endpoints = vec![(free_port(), Transport::Tcp, Vec::new())];
        endpoints.extend(setup.endpoints);
        let mut bound = Vec::new();
        for (listen, transport, proxies) in endpoints {
            let listener = listen.bind(1024).await.expect("a free port");
            bound.push(Endpoint {
                listener,
                transport,
                proxies,
            });
        }
        let addresses = bound
            .iter()
            .map(|endpoint| endpoint.listener.address().expect("bound"))
            .collect();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.clone().serve(bound, stop.clone()));
        Self {
            index,
            server,
            registry,
            addresses,
            source: MemorySource::new(model),
            mempool: MemoryMempool::default(),
            stop,
            serving,
            _dir: dir,
        }
    }

    /// Brings the index to the model's tip and these unconfirmed transactions.
    pub(crate) async fn sync(&self, model: &Model, mempool: &[Transaction]) {
        self.source.follow(model);
        self.mempool.set(model.tip().hash, mempool.iter().cloned());
        tokio::task::block_in_place(|| {
            let never = AtomicBool::new(false);
            let outcome = self.index.sync(&self.source, None, &never).expect("synced");
            assert_eq!(outcome.tip.hash, model.tip().hash);
            let round = self
                .index
                .sync_mempool(&self.mempool, &never)
                .expect("synced");
            assert!(
                matches!(round, MempoolSync::Complete(round) if round.left_out == 0),
                "{round:?}"
            );
        });
    }

    /// Where the first listener is.
    pub(crate) fn address(&self) -> String {
        self.addresses[0].to_string()
    }

    /// A client that speaks a version.
    pub(crate) async fn client(&self, version: &str) -> Client {
        Client::connect(&self.address(), version).await
    }

    /// A metric's line by its beginning.
    pub(crate) fn metric(&self, start: &str) -> Option<f64> {
        let text = self.registry.encode().expect("text");
        let line = text.lines().find(|line| line.starts_with(start))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Stops the server in good order.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.serving.await.expect("it stops");
    }
}

/// A port that the system chooses.
pub(crate) fn free_port() -> Listen {
    "127.0.0.1:0".parse().expect("an address")
}

/// Polls until something holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + crate::client::PATIENCE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
