//! The registry of assets of a chain of Elements: read at start and again whenever it may have changed.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use cairn_config::{AssetRegistrySource, UtxoConfig, UtxoNetwork};
use cairn_esplora::{AssetRegistry, RegistryFolder};

use crate::services::Host;
use crate::stop::Stop;

/// How often a folder is looked through.
const FOLDER_INTERVAL: Duration = Duration::from_secs(15);
/// How often an address is asked.
const URL_INTERVAL: Duration = Duration::from_secs(300);
/// How long an answer may take, and how large it may be.
const URL_TIMEOUT: Duration = Duration::from_secs(60);
const URL_BYTES_MAX: usize = 256 << 20;

/// The registry of a chain; empty, and never filled, if it has none.
pub(crate) fn start(host: &mut Host, chain: &UtxoConfig) -> anyhow::Result<AssetRegistry> {
    let registry = AssetRegistry::default();
    let UtxoNetwork::Elements(elements) = &chain.network else {
        return Ok(registry);
    };
    match elements.registry.clone() {
        None => {}
        Some(AssetRegistrySource::Folder(folder)) => {
            let (of, stop, id) = (registry.clone(), host.stop.clone(), chain.id.clone());
            let work = move || follow_folder(&folder, &of, &stop, &id);
            host.run_thread(&format!("assets-{}", chain.id), work)?;
        }
        Some(AssetRegistrySource::Url(url)) => {
            let client = reqwest::Client::builder()
                .timeout(URL_TIMEOUT)
                .build()
                .context("a client for the registry of assets")?;
            let (of, stop, id) = (registry.clone(), host.stop.clone(), chain.id.clone());
            host.run(async move { follow_url(&client, &url, &of, &stop, &id).await });
        }
    }
    Ok(registry)
}

fn follow_folder(folder: &Path, registry: &AssetRegistry, stop: &Stop, chain: &str) {
    let mut reader = RegistryFolder::default();
    while !stop.is_requested() {
        if let Err(reason) = reader.reload(folder, registry) {
            tracing::warn!(chain, reason, "the registry of assets stays as it was");
        }
        stop.sleep(FOLDER_INTERVAL);
    }
}

async fn follow_url(
    client: &reqwest::Client,
    url: &str,
    registry: &AssetRegistry,
    stop: &Stop,
    chain: &str,
) {
    loop {
        let asked = tokio::select! {
            () = stop.token().cancelled() => return,
            asked = fetch(client, url) => asked,
        };
        match asked.and_then(|body| registry.load_index(&body)) {
            Ok(left_out) => {
                tracing::info!(
                    chain,
                    assets = registry.len(),
                    left_out,
                    "registry of assets read"
                );
            }
            Err(reason) => {
                tracing::warn!(chain, reason, "the registry of assets stays as it was");
            }
        }
        tokio::select! {
            () = stop.token().cancelled() => return,
            () = tokio::time::sleep(URL_INTERVAL) => {}
        }
    }
}

/// A body of bounded size. The address may hold a secret and is in no message.
async fn fetch(client: &reqwest::Client, url: &str) -> Result<Vec<u8>, String> {
    let text = |error: reqwest::Error| error.without_url().to_string();
    let response = client.get(url).send().await.map_err(text)?;
    let mut response = response.error_for_status().map_err(text)?;
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(text)? {
        body.extend_from_slice(&part);
        if body.len() > URL_BYTES_MAX {
            return Err(format!("the answer is larger than {URL_BYTES_MAX} bytes"));
        }
    }
    Ok(body)
}
