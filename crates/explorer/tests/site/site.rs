//! A site to ask: the sample chain indexed once for all tests of the process.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use bitcoin::Network;
use cairn_explorer::{ChainEntry, Explorer, ExplorerState};
use cairn_http::{BlockingPool, Surface, SurfaceOptions};
use cairn_telemetry::Health;
use cairn_testkit::{MemorySource, Model, sample};
use cairn_utxo_index::{Index, IndexConfig};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The chain's name in the paths.
pub(crate) const CHAIN: &str = "bitcoin-regtest";
/// Unspent outputs that the index lists: fewer than the busiest script of the sample chain has.
pub(crate) const UTXOS_LIMIT: usize = 1_000;
/// Largest body that is read.
const BODY_BYTES_MAX: usize = 8 << 20;

/// An answer, whole.
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Index, model, and the folder that holds the index.
struct Sample {
    index: Arc<Index>,
    model: Model,
    _dir: TempDir,
}

fn open(dir: &TempDir) -> Arc<Index> {
    let config = IndexConfig {
        address_search: true,
        utxos_limit: UTXOS_LIMIT,
        ..IndexConfig::new(dir.path(), Network::Regtest)
    };
    Index::open(config).expect("an empty folder is opened")
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let index = open(&dir);
        let model = Model::of_blocks(
            Network::Regtest,
            sample::blocks().into_iter().skip(1).map(Arc::new),
        );
        let source = MemorySource::new(&model);
        index
            .sync(&source, None, &AtomicBool::new(false))
            .expect("the sample chain is indexed");
        Sample {
            index,
            model,
            _dir: dir,
        }
    })
}

/// What the answers are compared with.
pub(crate) fn model() -> &'static Model {
    &sample().model
}

fn surface(entries: Vec<(&str, Arc<Index>)>) -> Surface {
    let chains = entries
        .into_iter()
        .map(|(id, index)| ChainEntry {
            id: id.to_owned(),
            index,
            network: Network::Regtest.into(),
            api_base: format!("/{id}/api"),
            node: None,
        })
        .collect();
    let pool = BlockingPool::new(4, Duration::from_secs(30));
    let explorer = Explorer::new(ExplorerState {
        chains,
        antelope: Vec::new(),
        scanner: None,
        health: Health::new("test"),
        pool,
        stop: CancellationToken::new(),
    });
    Surface::new(explorer.router(), SurfaceOptions::default())
}

/// The site with the sample chain.
pub(crate) fn site() -> Surface {
    surface(vec![(CHAIN, Arc::clone(&sample().index))])
}

/// A site with two chains, the second of which has never been indexed.
pub(crate) fn site_of_two(dir: &TempDir) -> Surface {
    surface(vec![
        (CHAIN, Arc::clone(&sample().index)),
        ("empty", open(dir)),
    ])
}

/// A site whose only chain has never been indexed.
pub(crate) fn empty_site(dir: &TempDir) -> Surface {
    surface(vec![(CHAIN, open(dir))])
}

/// Asks with a method and headers.
pub(crate) async fn ask(
    site: &Surface,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Page {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Body::empty())
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    let response = site.handle(request).await;
    let (parts, body) = response.into_parts();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.to_string(),
                value.to_str().expect("headers are ASCII").to_owned(),
            )
        })
        .collect();
    let body = axum::body::to_bytes(body, BODY_BYTES_MAX)
        .await
        .expect("a whole body");
    let body = String::from_utf8(body.to_vec()).expect("pages are UTF-8");
    Page {
        status: parts.status,
        headers,
        body,
    }
}

/// Asks for a page.
pub(crate) async fn get(site: &Surface, path: &str) -> Page {
    ask(site, "GET", path, &[]).await
}

/// Asks for a page, through redirects.
pub(crate) async fn follow(site: &Surface, path: &str) -> Page {
    let mut page = get(site, path).await;
    for _ in 0..3 {
        if page.status != StatusCode::TEMPORARY_REDIRECT {
            break;
        }
        let target = page
            .header("location")
            .split('#')
            .next()
            .unwrap_or_default()
            .to_owned();
        page = get(site, &target).await;
    }
    page
}
