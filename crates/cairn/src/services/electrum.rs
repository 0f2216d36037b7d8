//! The Electrum servers: one for each chain that has a listener for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use cairn_config::{AddressRange, Config, ElectrumConfig, ElectrumHost, Listen};
use cairn_electrum::{
    ElectrumOptions, ElectrumServer, ElectrumState, Endpoint, Limits, PublicHost, Subnet,
    TlsIdentity, Transport, method_names,
};
use cairn_telemetry::ElectrumMetricsSet;

use crate::serve;
use crate::services::Host;
use crate::services::chain::Chain;

/// Folder of self-signed pairs below the data folder.
const TLS_FOLDER: &str = "tls";

/// Reads the files that the keys name, so that a mistake in them ends the start before anything runs.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    for chain in config.utxo_chains() {
        options(&chain.electrum)?;
        if needs_tls(&chain.electrum) {
            identity(&config.data_dir, &chain.id, &chain.electrum)?;
        }
    }
    Ok(())
}

fn needs_tls(keys: &ElectrumConfig) -> bool {
    [&keys.tls, &keys.wss, &keys.proxy_tls]
        .iter()
        .any(|listeners| !listeners.is_empty())
}

/// Binds all Electrum listeners and starts serving.
pub(crate) async fn start(
    host: &mut Host,
    config: &Config,
    chains: &[Chain],
) -> anyhow::Result<()> {
    if chains
        .iter()
        .all(|chain| chain.config.electrum.listeners().next().is_none())
    {
        return Ok(());
    }
    let metrics = ElectrumMetricsSet::register(&host.registry);
    let names = method_names();
    for chain in chains {
        let keys = &chain.config.electrum;
        let endpoints = endpoints(config, &chain.config.id, keys).await?;
        if endpoints.is_empty() {
            continue;
        }
        for endpoint in &endpoints {
            let address = endpoint
                .listener
                .address()
                .context("a bound listener has no address")?;
            tracing::info!(chain = chain.config.id, %address, transport = endpoint.transport.name(), "Electrum listens");
        }
        let counters = metrics.chain(&chain.config.id, &names);
        let server = ElectrumServer::new(ElectrumState {
            chain: chain.config.id.clone(),
            index: Arc::clone(&chain.index),
            node: chain.opened.node.clone(),
            options: options(keys)?,
            metrics: counters.clone(),
        });
        host.registry.before_scrape({
            let server = server.clone();
            move || counters.set_subscriptions(server.subscriptions())
        });
        host.run(server.serve(endpoints, host.stop.token().clone()));
    }
    Ok(())
}

/// All listeners of a chain, bound.
async fn endpoints(
    config: &Config,
    chain: &str,
    keys: &ElectrumConfig,
) -> anyhow::Result<Vec<Endpoint>> {
    let identity = match needs_tls(keys) {
        true => Some(Arc::new(identity(&config.data_dir, chain, keys)?)),
        false => None,
    };
    let proxies: Vec<Subnet> = keys
        .proxy_from
        .iter()
        .map(subnet)
        .collect::<Result<_, _>>()?;
    let mut endpoints = Vec::new();
    let groups: [(&[Listen], bool, bool, &[Subnet]); 6] = [
        (&keys.tcp, false, false, &[]),
        (&keys.tls, true, false, &[]),
        (&keys.ws, false, true, &[]),
        (&keys.wss, true, true, &[]),
        (&keys.proxy, false, false, &proxies),
        (&keys.proxy_tls, true, false, &proxies),
    ];
    for (listeners, is_tls, is_websocket, proxies) in groups {
        for listen in listeners {
            let transport = match (identity.as_ref().filter(|_| is_tls), is_websocket) {
                (None, false) => Transport::Tcp,
                (None, true) => Transport::WebSocket,
                (Some(identity), false) => Transport::Tls(Arc::clone(identity)),
                (Some(identity), true) => Transport::TlsWebSocket(Arc::clone(identity)),
            };
            endpoints.push(Endpoint {
                listener: serve::bind(listen).await?,
                transport,
                proxies: proxies.to_vec(),
            });
        }
    }
    Ok(endpoints)
}

/// The certificate that is configured, or the self-signed one of the chain.
fn identity(data_dir: &Path, chain: &str, keys: &ElectrumConfig) -> anyhow::Result<TlsIdentity> {
    let identity = match &keys.certificate {
        Some(files) => TlsIdentity::from_files(&files.cert, &files.key),
        None => {
            let names: Vec<String> = keys
                .public_hosts
                .iter()
                .map(|host| host.host.clone())
                .collect();
            TlsIdentity::self_signed(&data_dir.join(TLS_FOLDER).join(chain), &names)
        }
    };
    identity.with_context(|| format!("the certificate of the Electrum server of chain {chain}"))
}

fn options(keys: &ElectrumConfig) -> anyhow::Result<ElectrumOptions> {
    let defaults = ElectrumOptions::default();
    let banner = match &keys.banner_file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("electrum_banner_file: {}", path.display()))?,
        None => defaults.banner,
    };
    Ok(ElectrumOptions {
        software: if keys.server_name.is_empty() {
            defaults.software
        } else {
            keys.server_name.clone()
        },
        banner,
        donation_address: keys.donation_address.clone(),
        version_first: keys.version_first,
        hosts: keys.public_hosts.iter().map(public_host).collect(),
        peer_discovery: keys.peer_discovery,
        peers: keys.peers.iter().map(peer_text).collect(),
        peers_private: defaults.peers_private,
        limits: Limits {
            request_bytes: keys.request_bytes_max,
            batch: keys.batch_max,
            history: keys.history_limit,
            sessions: keys.sessions_max,
            sessions_per_group: keys.sessions_per_network,
            subscriptions: keys.subscriptions_max,
            subscriptions_per_session: keys.subscriptions_per_session,
            cost_soft: f64::from(keys.cost_soft),
            cost_hard: f64::from(keys.cost_hard),
            exempt: keys.exempt.iter().map(subnet).collect::<Result<_, _>>()?,
            idle: Duration::from_secs(keys.idle_seconds),
            ..defaults.limits
        },
    })
}

fn subnet(range: &AddressRange) -> anyhow::Result<Subnet> {
    Ok(format!("{}/{}", range.address, range.bits).parse()?)
}

fn public_host(host: &ElectrumHost) -> PublicHost {
    PublicHost {
        host: host.host.clone(),
        tcp_port: host.tcp,
        ssl_port: host.ssl,
        ws_port: host.ws,
        wss_port: host.wss,
    }
}

/// As the protocol writes the ways to a server.
fn peer_text(host: &ElectrumHost) -> String {
    let mut text = host.host.clone();
    for (letter, port) in [('s', host.ssl), ('t', host.tcp)] {
        if let Some(port) = port {
            text.push_str(&format!(" {letter}{port}"));
        }
    }
    text
}
