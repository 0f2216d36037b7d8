//! Which router answers on which listener.
//!
//! | listener | answers |
//! | --- | --- |
//! | `http.listen` | the explorer at `/`, Esplora at `/{chain}/api` (and `/api` with a single chain, or a single one of Bitcoin), `/openapi.json`, health, and the metrics unless they have a listener of their own |
//! | a chain's `esplora_listen` | Esplora at the root, health of that chain |
//! | `telemetry.metrics_listen` | metrics and health |

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use cairn_config::Listen;
use cairn_esplora::{EsploraOptions, EsploraState, NodeCalls};
use cairn_http::{
    Cors, Listener, RequestObserver, RequestSeen, ServeLimits, Surface, SurfaceOptions,
};
use cairn_telemetry::routes::{health_router, metrics_router, part_health_router};
use cairn_telemetry::{Health, HttpMetrics, MetricsRegistry};
use serde_json::{Value, json};

use crate::services::Mounted;
use crate::services::chain::Chain;
use crate::stop::Stop;

/// Name of the main listener in metrics.
const SURFACE_MAIN: &str = "main";
/// Name of the metrics listener in metrics.
const SURFACE_METRICS: &str = "metrics";

/// What all listeners share.
pub(crate) struct Serving {
    pub(crate) health: Health,
    pub(crate) registry: Arc<MetricsRegistry>,
    pub(crate) metrics: HttpMetrics,
    pub(crate) cors: Vec<String>,
    pub(crate) stop: Stop,
}

/// A router on its way to a listener.
pub(crate) struct Planned {
    pub(crate) listen: Listen,
    pub(crate) surface: Surface,
}

/// Where Esplora of a chain is on the main listener.
pub(crate) fn api_base(chain_id: &str) -> String {
    format!("/{chain_id}/api")
}

impl Serving {
    /// All listeners of a configuration, the main one first.
    pub(crate) fn plan(
        &self,
        config: &cairn_config::Config,
        chains: &[Chain],
        mounted: Vec<Mounted>,
    ) -> anyhow::Result<Vec<Planned>> {
        let mut planned = Vec::new();
        let mut apis = Vec::new();
        for chain in chains {
            let api = cairn_esplora::router(esplora_state(chain, &self.stop));
            if let Some(listen) = &chain.config.esplora_listen {
                let router = api
                    .clone()
                    .merge(part_health_router(self.health.clone(), &chain.config.id));
                let name = format!("esplora:{}", chain.config.id);
                planned.push(Planned {
                    listen: listen.clone(),
                    surface: self.surface(router, &name)?,
                });
            }
            apis.push((chain.config.id.as_str(), api));
        }
        let ids: Vec<&str> = apis.iter().map(|(id, _)| *id).collect();
        let mut main = Router::new().merge(openapi_router(&ids)?);
        match &config.telemetry.metrics_listen {
            None => main = main.merge(metrics_router(Arc::clone(&self.registry))),
            Some(listen) => {
                let router = metrics_router(Arc::clone(&self.registry))
                    .merge(health_router(self.health.clone()));
                planned.push(Planned {
                    listen: listen.clone(),
                    surface: self.surface(router, SURFACE_METRICS)?,
                });
            }
        }
        for Mounted { path, router } in mounted {
            main = match path.as_str() {
                "" => main.merge(router),
                path => main.nest(path, router),
            };
        }
        let unnamed = cairn_explorer::unnamed_chain(chains.iter().map(|chain| &chain.network));
        if let Some((_, api)) = unnamed.and_then(|at| apis.get(at)) {
            main = main.nest("/api", api.clone());
        }
        for (id, api) in apis {
            main = main.nest(&api_base(id), api);
        }
        planned.insert(
            0,
            Planned {
                listen: config.http.listen.clone(),
                surface: self.surface(main, SURFACE_MAIN)?,
            },
        );
        Ok(planned)
    }

    fn surface(&self, router: Router, name: &str) -> anyhow::Result<Surface> {
        let cors = Cors::from_origins(&self.cors).context("http.cors")?;
        let observer: Arc<dyn RequestObserver> = Arc::new(Observer {
            surface: name.to_owned(),
            metrics: self.metrics.clone(),
        });
        let options = SurfaceOptions {
            limits: ServeLimits::default(),
            cors,
            observer: Some(observer),
        };
        Ok(Surface::new(router, options))
    }
}

fn esplora_state(chain: &Chain, stop: &Stop) -> EsploraState {
    let node = chain
        .opened
        .node
        .clone()
        .map(|node| Arc::new(node) as Arc<dyn NodeCalls>);
    let esplora = chain.config.esplora;
    EsploraState {
        index: Arc::clone(&chain.index),
        network: chain.network,
        node,
        options: EsploraOptions {
            mempool_line: esplora.mempool_line,
            fragment_bytes: esplora.cache_bytes,
            internal: esplora.internal,
            mining: esplora.mining,
            registry: chain.registry.clone(),
            ..EsploraOptions::default()
        },
        stop: stop.token().clone(),
    }
}

/// The description of the API, with each chain's base path as a server of it.
fn openapi_router(chain_ids: &[&str]) -> anyhow::Result<Router> {
    let text = cairn_esplora::openapi()
        .to_json()
        .context("the API description cannot be written")?;
    let mut description: Value =
        serde_json::from_str(&text).context("the API description cannot be read")?;
    description["servers"] = chain_ids
        .iter()
        .map(|id| json!({ "url": api_base(id), "description": id }))
        .collect();
    let text: Arc<str> = description.to_string().into();
    let answer = move || {
        let text = Arc::clone(&text);
        async move {
            let headers = [
                (header::CONTENT_TYPE, "application/json"),
                (header::CACHE_CONTROL, "public, max-age=10"),
            ];
            (headers, text.to_string()).into_response()
        }
    };
    Ok(Router::new().route("/openapi.json", get(answer)))
}

/// Counts the requests of one listener.
struct Observer {
    surface: String,
    metrics: HttpMetrics,
}

impl RequestObserver for Observer {
    fn request(&self, seen: RequestSeen<'_>) {
        self.metrics.request(
            &self.surface,
            seen.endpoint,
            method_label(seen.method.as_str()),
            seen.status,
            seen.duration,
        );
    }

    fn connection_opened(&self) {
        self.metrics.connection(&self.surface, 1);
    }

    fn connection_closed(&self) {
        self.metrics.connection(&self.surface, -1);
    }
}

/// Methods are the client's text: only known ones become labels.
fn method_label(method: &str) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"];
    KNOWN
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}

/// Binds a configured address; names are resolved here.
pub(crate) async fn bind(listen: &Listen) -> anyhow::Result<Listener> {
    let backlog = ServeLimits::default().backlog;
    match listen {
        Listen::Unix(path) => Ok(cairn_http::Listen::Unix(path.clone()).bind(backlog).await?),
        Listen::Tcp { host, port } => {
            let addresses = resolve(host, *port)?;
            let mut last = None;
            for address in addresses {
                match cairn_http::Listen::Tcp(address).bind(backlog).await {
                    Ok(listener) => return Ok(listener),
                    Err(error) => last = Some(error),
                }
            }
            match last {
                Some(error) => Err(error.into()),
                None => anyhow::bail!("cannot listen on {listen}: the name has no address"),
            }
        }
    }
}

fn resolve(host: &str, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
    let addresses = (host, port)
        .to_socket_addrs()
        .with_context(|| format!("cannot listen on {host}:{port}: the name is not known"))?;
    Ok(addresses.collect())
}

/// The URL at which a bound listener is reached from this machine; `None` for a unix socket.
pub(crate) fn local_url(bound: &cairn_http::Listen) -> Option<String> {
    let cairn_http::Listen::Tcp(address) = bound else {
        return None;
    };
    let port = address.port();
    Some(match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => format!("http://127.0.0.1:{port}"),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => format!("http://[::1]:{port}"),
        other => format!("http://{other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_urls() {
        for (bound, url) in [
            ("127.0.0.1:3000", Some("http://127.0.0.1:3000")),
            ("0.0.0.0:80", Some("http://127.0.0.1:80")),
            ("[::]:80", Some("http://[::1]:80")),
            ("[2001:db8::1]:80", Some("http://[2001:db8::1]:80")),
            ("unix:/run/cairn.sock", None),
        ] {
            let bound: cairn_http::Listen = bound.parse().expect("an address");
            assert_eq!(local_url(&bound).as_deref(), url);
        }
    }

    #[tokio::test]
    async fn names_are_resolved_and_taken_ports_are_named() {
        let listen = Listen::Tcp {
            host: "localhost".to_owned(),
            port: 0,
        };
        let listener = bind(&listen).await.expect("a free port");
        let cairn_http::Listen::Tcp(address) = listener.address().expect("bound") else {
            panic!("TCP")
        };
        let taken = Listen::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        };
        let error = format!("{:#}", bind(&taken).await.expect_err("taken"));
        assert!(error.contains(&address.to_string()), "{error}");
        let unknown = Listen::Tcp {
            host: "no-such-host.invalid".to_owned(),
            port: 1,
        };
        let error = format!("{:#}", bind(&unknown).await.expect_err("no such name"));
        assert!(error.contains("no-such-host.invalid"), "{error}");
    }

    #[test]
    fn methods_are_bounded() {
        assert_eq!(method_label("GET"), "GET");
        assert_eq!(method_label("BREW"), "other");
    }
}
