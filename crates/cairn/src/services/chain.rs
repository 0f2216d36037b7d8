//! One UTXO chain: its source and its index, opened from the configuration.

use std::sync::Arc;

use anyhow::{Context, bail};
use bitcoin::hashes::Hash as _;
use cairn_config::{Config, ElementsConfig, RpcAuth, UtxoConfig, UtxoNetwork};
use cairn_esplora::AssetRegistry;
use cairn_utxo_chain::{ElementsChain, Network};
use cairn_utxo_index::{Index, IndexConfig, Phase};
use cairn_utxo_node::{OpenedSource, SourceConfig, genesis_block, open_source};
use tokio::runtime::Handle;

use crate::stop::Stop;

/// The genesis block of a chain that is known by it, in the chain's folder.
const GENESIS_FILE: &str = "genesis.block";

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
    pub(crate) network: Network,
    pub(crate) index: Arc<Index>,
    /// What issuers say about assets; filled by a service.
    pub(crate) registry: AssetRegistry,
    pub(crate) opened: OpenedSource,
}

impl Chain {
    /// Opens source and index; the index is made if it is missing. The node is not asked yet, but for the genesis block of an
    /// Elements chain that only that block tells of, and that once.
    pub(crate) fn open(
        config: &Config,
        chain: &UtxoConfig,
        runtime: &Handle,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let network = network(config, chain, |source| {
            genesis_block(source, runtime).context("asking for the genesis block of the chain")
        })?;
        let source = source_config(chain, network);
        let opened = open_source(&source, runtime.clone(), stop.token().clone())
            .with_context(|| format!("chain {}", chain.id))?;
        let index = open(config, chain, network)?;
        index.set_body_source(Arc::clone(&opened.source));
        Ok(Self {
            config: chain.clone(),
            network,
            index,
            registry: AssetRegistry::default(),
            opened,
        })
    }
}

/// The network of a chain. One of Elements that has no name of its own is known by its genesis block, which is kept beside
/// the index: later starts need neither node nor files for it.
fn network(
    config: &Config,
    chain: &UtxoConfig,
    fetch: impl FnOnce(&SourceConfig) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Network> {
    let elements = match &chain.network {
        UtxoNetwork::Bitcoin(network) => return Ok(Network::Bitcoin(*network)),
        UtxoNetwork::Elements(elements) => elements,
    };
    let context = || format!("chain {}", chain.id);
    if let Some(known) = ElementsChain::known(elements.kind) {
        let configured = ElementsChain {
            parent: elements.parent,
            addresses: elements.addresses.clone(),
            ..known.clone()
        };
        return Ok(Network::Elements(configured.keep()));
    }
    let dir = config.chain_dir(&chain.id);
    let file = dir.join(GENESIS_FILE);
    let block = match std::fs::read(&file) {
        Ok(block) => block,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let unnamed = Network::Elements(unnamed(elements).keep());
            let block = fetch(&source_config(chain, unnamed)).with_context(context)?;
            std::fs::create_dir_all(&dir).with_context(context)?;
            std::fs::write(&file, &block)
                .with_context(|| format!("cannot write {}", file.display()))?;
            block
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", file.display()));
        }
    };
    let found = of_genesis(elements, &block).with_context(context)?;
    Ok(Network::Elements(found.keep()))
}

fn of_genesis(elements: &ElementsConfig, block: &[u8]) -> anyhow::Result<ElementsChain> {
    let addresses = elements.addresses.clone();
    Ok(ElementsChain::of_genesis(
        elements.kind,
        block,
        elements.parent,
        addresses,
    )?)
}

/// Stands for a chain whose genesis block is not known yet: good for finding its node and files.
fn unnamed(elements: &ElementsConfig) -> ElementsChain {
    ElementsChain {
        kind: elements.kind,
        genesis: bitcoin::BlockHash::all_zeros(),
        native_asset: cairn_utxo_chain::AssetId::from_byte_array([0; 32]),
        parent: elements.parent,
        addresses: elements.addresses.clone(),
    }
}

/// Opens the index of a chain alone, which has been made.
pub(crate) fn open_index(config: &Config, chain: &UtxoConfig) -> anyhow::Result<Arc<Index>> {
    open(config, chain, known_network(config, chain)?)
}

/// The network of a chain whose index has been made.
pub(crate) fn known_network(config: &Config, chain: &UtxoConfig) -> anyhow::Result<Network> {
    network(config, chain, |_| {
        bail!("{GENESIS_FILE} is missing in its folder; `cairn index` makes it")
    })
}

fn open(config: &Config, chain: &UtxoConfig, network: Network) -> anyhow::Result<Arc<Index>> {
    Index::open(index_config(config, chain, network)).with_context(|| format!("chain {}", chain.id))
}

fn index_config(config: &Config, chain: &UtxoConfig, network: Network) -> IndexConfig {
    IndexConfig {
        light_mode: chain.light_mode,
        address_search: chain.address_search,
        index_unspendables: chain.index_unspendables,
        utxos_limit: chain.utxos_limit,
        scan_rows_max: chain.scan_rows_max,
        memory_bytes: chain.memory_bytes,
        threads: chain.threads,
        ..IndexConfig::new(config.chain_dir(&chain.id), network)
    }
}

/// The source's view of a chain's keys.
pub(crate) fn source_config(chain: &UtxoConfig, network: Network) -> SourceConfig {
    let mut source = SourceConfig {
        node_dir: chain.node_dir.clone(),
        blocks_dir: chain.blocks_dir.clone(),
        magic: chain.magic,
        signet_challenge: chain.signet_challenge.clone(),
        ..SourceConfig::new(network)
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
