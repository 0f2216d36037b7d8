//! The explorer: its pages on the main listener, and the work behind its live ones.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use cairn_config::Config;
use cairn_esplora::NodeCalls;
use cairn_explorer::{AntelopeEntry, ChainEntry, Explorer, ExplorerState};
use cairn_http::{BlockingPool, Token};
use cairn_redis::Redis;
use cairn_scanner::Scanner;
use cairn_stream::ChainLabel;
use secrecy::ExposeSecret as _;

use crate::serve::api_base;
use crate::services::Host;
use crate::services::chain::Chain;

/// Blocking reads of pages at once.
const READERS: usize = 16;
/// Time of one page.
const DEADLINE: Duration = Duration::from_secs(10);

/// Serves the pages of everything that runs.
pub(crate) fn start(
    host: &mut Host,
    config: &Config,
    chains: &[Chain],
    redis: Option<&Redis>,
    scanner: Option<&Scanner>,
) -> anyhow::Result<()> {
    let token = config.stream.token.as_ref();
    let token = token.and_then(|token| Token::new(token.expose_secret()));
    let mut antelope = Vec::new();
    for chain in config.antelope_chains() {
        antelope.push(AntelopeEntry {
            chain: ChainLabel::new(&chain.id)?,
            redis: redis.context("an Antelope chain without a Redis")?.clone(),
            replay_token: token.clone(),
        });
    }
    let explorer = Explorer::new(ExplorerState {
        chains: chains.iter().map(entry).collect(),
        antelope,
        scanner: scanner.cloned(),
        health: host.health.clone(),
        pool: BlockingPool::new(READERS, DEADLINE),
        stop: host.stop.token().clone(),
    });
    host.mount("", explorer.router());
    host.run(explorer.run());
    Ok(())
}

fn entry(chain: &Chain) -> ChainEntry {
    ChainEntry {
        id: chain.config.id.clone(),
        index: Arc::clone(&chain.index),
        network: chain.network,
        api_base: api_base(&chain.config.id),
        node: chain
            .opened
            .node
            .clone()
            .map(|node| Arc::new(node) as Arc<dyn NodeCalls>),
    }
}
