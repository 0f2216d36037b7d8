//! Subscriptions over HTTP, on the main listener.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use cairn_config::Config;
use cairn_http::Token;
use cairn_redis::Redis;
use cairn_stream::ChainLabel;
use cairn_stream::subscription::SubscriptionObserver;
use cairn_stream_api::{ApiOptions, ApiState, Hosts, ObserverOf};
use cairn_telemetry::{SubscriptionFigures, SubscriptionMetrics};
use secrecy::ExposeSecret as _;

use crate::services::Host;

/// Serves subscriptions to all streams of a configuration. Without a stream there is nothing to serve.
pub(crate) fn start(host: &mut Host, config: &Config, redis: Option<&Redis>) -> anyhow::Result<()> {
    let chains = streams(config)?;
    let Some(redis) = redis.filter(|_| !chains.is_empty()) else {
        return Ok(());
    };
    let token = config.stream.token.as_ref();
    let token = token.and_then(|token| Token::new(token.expose_secret()));
    let metrics = SubscriptionMetrics::register(&host.registry);
    let counted = metrics.clone();
    let observer: ObserverOf = Arc::new(move |source, sub_id| {
        Arc::new(Counter {
            chain: source.chain().to_string(),
            sub_id: sub_id.to_string(),
            metrics: counted.clone(),
        })
    });
    let hosts = Hosts::new(redis.clone(), ApiOptions::default(), Some(observer));
    let looked_at = hosts.clone();
    host.registry.before_scrape(move || {
        for hosted in looked_at.states() {
            let stats = hosted.stats;
            let figures = SubscriptionFigures {
                given: stats.given,
                acknowledged: stats.acknowledged,
                filtered: stats.filtered,
                dead_letters: stats.dead_letters,
                lost: stats.lost,
                pending: stats.pending,
            };
            metrics.set(
                &hosted.chain,
                &hosted.sub_id,
                hosted.role.as_str(),
                &figures,
            );
        }
    });
    host.mount(
        "",
        cairn_stream_api::router(ApiState {
            redis: redis.clone(),
            chains,
            token,
            hosts: hosts.clone(),
        }),
    );
    host.run(hosts.run(host.stop.token().clone().cancelled_owned()));
    Ok(())
}

/// The chains and ledgers of a configuration that have a stream.
pub(crate) fn streams(config: &Config) -> anyhow::Result<Vec<ChainLabel>> {
    let chains = config.antelope_chains().map(|chain| chain.id.as_str());
    let ledger = config
        .scanner
        .as_ref()
        .map(|scanner| scanner.chain_id.as_str());
    chains
        .chain(ledger)
        .map(|id| ChainLabel::new(id).with_context(|| format!("the stream of {id}")))
        .collect()
}

/// Counts what consumers do.
struct Counter {
    chain: String,
    sub_id: String,
    metrics: SubscriptionMetrics,
}

impl SubscriptionObserver for Counter {
    fn settled(&self, kind: &str, took: Duration, failed: bool) {
        self.metrics
            .settled(&self.chain, &self.sub_id, kind, took, failed);
    }
}
