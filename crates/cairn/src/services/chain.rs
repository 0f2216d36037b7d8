//! One UTXO chain: its source and its index, opened from the configuration.

use std::sync::Arc;

use anyhow::Context;
use cairn_config::{Config, RpcAuth, UtxoConfig};
use cairn_utxo_index::{Index, IndexConfig, Phase};
use cairn_utxo_node::{OpenedSource, SourceConfig, open_source};
use tokio::runtime::Handle;

use crate::stop::Stop;

/// Names of all phases, in the order of a first load.
pub(crate) const PHASES: [&str; 5] = ["waiting", "headers", "adding", "indexing", "following"];

/// The name of a phase in health, metrics and logs.
pub(crate) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Headers => "headers",
        Phase::Adding => "adding",
        Phase::Indexing => "indexing",
        Phase::Following => "following",
    }
}

/// An opened chain.
pub(crate) struct Chain {
    pub(crate) config: UtxoConfig,
    pub(crate) index: Arc<Index>,
    pub(crate) opened: OpenedSource,
}

impl Chain {
    /// Opens source and index; the index is made if it is missing. The node is not asked yet.
    pub(crate) fn open(
        config: &Config,
        chain: &UtxoConfig,
        runtime: &Handle,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let opened = open_source(&source_config(chain), runtime.clone(), stop.token().clone())
            .with_context(|| format!("chain {}", chain.id))?;
        let index = open_index(config, chain)?;
        index.set_body_source(Arc::clone(&opened.source));
        Ok(Self {
            config: chain.clone(),
            index,
            opened,
        })
    }
}

/// Opens the index of a chain alone.
pub(crate) fn open_index(config: &Config, chain: &UtxoConfig) -> anyhow::Result<Arc<Index>> {
    Index::open(index_config(config, chain)).with_context(|| format!("chain {}", chain.id))
}

fn index_config(config: &Config, chain: &UtxoConfig) -> IndexConfig {
    IndexConfig {
        light_mode: chain.light_mode,
        address_search: chain.address_search,
        index_unspendables: chain.index_unspendables,
        utxos_limit: chain.utxos_limit,
        scan_rows_max: chain.scan_rows_max,
        memory_bytes: chain.memory_bytes,
        threads: chain.threads,
        ..IndexConfig::new(config.chain_dir(&chain.id), chain.network)
    }
}

/// The source's view of a chain's keys.
pub(crate) fn source_config(chain: &UtxoConfig) -> SourceConfig {
    let mut source = SourceConfig {
        node_dir: chain.node_dir.clone(),
        blocks_dir: chain.blocks_dir.clone(),
        magic: chain.magic,
        signet_challenge: chain.signet_challenge.clone(),
        ..SourceConfig::new(chain.network)
    };
    if let Some(rpc) = &chain.rpc {
        source.rpc_url.clone_from(&rpc.url);
        match &rpc.auth {
            RpcAuth::Unnamed => {}
            RpcAuth::CookieFile(path) => source.rpc_cookie_file = Some(path.clone()),
            RpcAuth::UserPassword { user, password } => {
                source.rpc_user.clone_from(user);
                source.rpc_password = Some(password.clone());
            }
        }
    }
    source
}
