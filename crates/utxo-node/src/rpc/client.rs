//! JSON-RPC (and REST) over HTTP to one node.

use std::error::Error as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Method, Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::answer::{parse_answer, parse_batch};
use super::auth::{Auth, Credentials};
use super::error::NodeError;

/// Requests on their way at once. Older nodes queue 16 requests in all, for all their users.
const IN_FLIGHT_MAX: usize = 8;
/// Requests in one batch.
pub const BATCH_MAX: usize = 1000;
/// Largest answer taken, bytes: twice a batch of headers, ten times a block in hex, a full mempool's ids.
const ANSWER_MAX: usize = 128 * 1024 * 1024;
/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a connection is not used again. A node closes its own after 30 seconds; a call that is not repeated must
/// not meet that moment.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for one answer. A node that flushes its caches may be silent for long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Waiting times between the tries of a call that may be repeated.
const RETRY_AFTER: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(700),
    Duration::from_millis(1500),
];

/// Client of one node. Cheap to share by reference; one pool of connections.
pub struct RpcClient {
    http: reqwest::Client,
    url: Url,
    label: String,
    auth: Auth,
    permits: Semaphore,
    next_id: AtomicU64,
}

impl std::fmt::Debug for RpcClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RpcClient")
            .field("url", &self.label)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a [Value],
}

impl RpcClient {
    /// A client; connects with the first call. User and password inside the URL are taken out of it and used if no other
    /// credentials are given.
    ///
    /// # Errors
    /// [`NodeError::Refused`] if the URL is not one of http. A node speaks no TLS itself; a proxy before it may.
    pub fn new(url: &str, credentials: Credentials) -> Result<Self, NodeError> {
        // The text of the URL may hold a password, so no message repeats it before it is taken out.
        let mut url = Url::parse(url).map_err(|error| {
            NodeError::Refused(format!(
                "rpc_url is not a URL ({error}); expected http://host:port"
            ))
        })?;
        let mut credentials = credentials;
        if let (Credentials::None, Some(password)) = (&credentials, url.password()) {
            credentials = Credentials::Password {
                user: percent_decoded(url.username()),
                password: SecretString::from(percent_decoded(password)),
            };
        }
        let stripped = url.set_username("").and_then(|()| url.set_password(None));
        let is_secure = url.scheme() == "https";
        if stripped.is_err()
            || !matches!(url.scheme(), "http" | "https")
            || url.host_str().is_none()
        {
            return Err(NodeError::Refused(
                "rpc_url must be http://host:port, or https:// where a proxy adds TLS".to_owned(),
            ));
        }
        url.set_query(None);
        url.set_fragment(None);
        let mut builder = reqwest::Client::builder();
        if !is_secure {
            // The machine's certificates are not needed, so a machine without any must not fail here.
            builder = builder.tls_certs_only([]);
        }
        let http = builder
            // A node is never behind the proxy of the environment, and a proxy must not see its password.
            .no_proxy()
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(IN_FLIGHT_MAX)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build()
            .map_err(|error| {
                NodeError::Refused(format!("cannot set up HTTP: {}", chain_text(&error)))
            })?;
        let label = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self {
            http,
            url,
            label,
            auth: Auth::new(credentials),
            permits: Semaphore::new(IN_FLIGHT_MAX),
            next_id: AtomicU64::new(1),
        })
    }

    /// The URL without credentials.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// One call, tried once.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn call_once(
        &self,
        method: &str,
        params: &[Value],
        timeout: Duration,
    ) -> Result<Box<RawValue>, NodeError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let body = encode(&Request {
            jsonrpc: "1.0",
            id,
            method,
            params,
        })?;
        let (status, body) = self.post(body, timeout).await?;
        parse_answer(&body, method, id).map_err(|error| self.explain(error, status))
    }

    /// One call that changes nothing at the node, so that it is repeated a few times while the node is busy, starting or
    /// away for a moment.
    ///
    /// # Errors
    /// See [`NodeError`]; [`NodeError::Unavailable`] only after the last try.
    pub async fn call(&self, method: &str, params: &[Value]) -> Result<Box<RawValue>, NodeError> {
        self.retrying(|| self.call_once(method, params, ANSWER_TIMEOUT))
            .await
    }

    /// One call that is not repeated when it is unclear whether the node took it.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn call_sending(
        &self,
        method: &str,
        params: &[Value],
    ) -> Result<Box<RawValue>, NodeError> {
        self.call_once(method, params, ANSWER_TIMEOUT).await
    }

    /// Many calls of one method in as few requests as [`BATCH_MAX`] allows; answers in the order of `params`.
    ///
    /// # Errors
    /// See [`NodeError`]. A failure of one of the calls stands in its place of the list.
    pub async fn batch(
        &self,
        method: &str,
        params: &[Vec<Value>],
    ) -> Result<Vec<Result<Box<RawValue>, NodeError>>, NodeError> {
        let mut answers = Vec::with_capacity(params.len());
        for part in params.chunks(BATCH_MAX) {
            answers.extend(self.retrying(|| self.batch_once(method, part)).await?);
        }
        Ok(answers)
    }

    async fn batch_once(
        &self,
        method: &str,
        params: &[Vec<Value>],
    ) -> Result<Vec<Result<Box<RawValue>, NodeError>>, NodeError> {
        let first = self
            .next_id
            .fetch_add(params.len() as u64, Ordering::Relaxed);
        let requests: Vec<Request<'_>> = params
            .iter()
            .zip(first..)
            .map(|(params, id)| Request {
                jsonrpc: "1.0",
                id,
                method,
                params,
            })
            .collect();
        let (status, body) = self.post(encode(&requests)?, ANSWER_TIMEOUT).await?;
        parse_batch(&body, method, first, params.len()).map_err(|error| self.explain(error, status))
    }

    /// `GET` below the node's REST root; `None` if the node answers 404 (REST is off, or it has no such thing).
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn rest(&self, path: &str) -> Result<Option<Vec<u8>>, NodeError> {
        self.retrying(|| self.rest_once(path)).await
    }

    async fn rest_once(&self, path: &str) -> Result<Option<Vec<u8>>, NodeError> {
        let mut url = self.url.clone();
        url.set_path(path);
        let _permit = self.permit().await?;
        let response = self
            .http
            .request(Method::GET, url)
            .timeout(ANSWER_TIMEOUT)
            .send()
            .await
            .map_err(|e| self.transport(&e))?;
        match response.status() {
            StatusCode::OK => Ok(Some(self.read(response).await?)),
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::SERVICE_UNAVAILABLE => Err(self.busy(&self.read(response).await?)),
            status => Err(NodeError::Answer(format!(
                "node {}: HTTP {status} for {path}",
                self.label
            ))),
        }
    }

    async fn retrying<T, F: Future<Output = Result<T, NodeError>>>(
        &self,
        call: impl Fn() -> F,
    ) -> Result<T, NodeError> {
        for pause in RETRY_AFTER {
            match call().await {
                Err(error) if error.is_transient() => {
                    tracing::debug!(%error, "the node is not available; trying again");
                    tokio::time::sleep(pause).await;
                }
                result => return result,
            }
        }
        call().await
    }

    async fn post(
        &self,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<(StatusCode, Vec<u8>), NodeError> {
        let _permit = self.permit().await?;
        let mut repeated = false;
        loop {
            let pair = self.auth.pair().await?;
            let mut request = self
                .http
                .request(Method::POST, self.url.clone())
                .timeout(timeout)
                .body(body.clone());
            request = request.header("content-type", "application/json");
            if let Some(pair) = &pair {
                request = request.basic_auth(&pair.user, Some(pair.password.expose_secret()));
            }
            let response = request
                .send()
                .await
                .map_err(|error| self.transport(&error))?;
            match response.status() {
                StatusCode::UNAUTHORIZED => {
                    if !repeated && self.auth.changed_since(pair.as_ref()).await? {
                        repeated = true;
                        continue;
                    }
                    return Err(NodeError::Refused(format!(
                        "node {}: authentication refused ({})",
                        self.label,
                        self.auth.credentials()
                    )));
                }
                StatusCode::FORBIDDEN => {
                    return Err(NodeError::Refused(format!(
                        "node {}: access refused; the node's rpcallowip or rpcwhitelist does not admit us",
                        self.label
                    )));
                }
                StatusCode::SERVICE_UNAVAILABLE => {
                    return Err(self.busy(&self.read(response).await?));
                }
                status => return Ok((status, self.read(response).await?)),
            }
        }
    }

    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, NodeError> {
        self.permits
            .acquire()
            .await
            .map_err(|_| NodeError::Unavailable("the client is closed".to_owned()))
    }

    /// The whole body, bounded.
    async fn read(&self, mut response: Response) -> Result<Vec<u8>, NodeError> {
        let announced =
            usize::try_from(response.content_length().unwrap_or(0)).unwrap_or(usize::MAX);
        let too_large = || {
            NodeError::Answer(format!(
                "node {}: an answer of more than {ANSWER_MAX} bytes",
                self.label
            ))
        };
        if announced > ANSWER_MAX {
            return Err(too_large());
        }
        let mut body = Vec::with_capacity(announced);
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.transport(&error))?
        {
            if body.len() + chunk.len() > ANSWER_MAX {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn transport(&self, error: &reqwest::Error) -> NodeError {
        // The node may come back with another cookie.
        self.auth.forget();
        let what = if error.is_timeout() {
            "no answer in time"
        } else if error.is_connect() {
            "not reachable"
        } else {
            "the connection broke"
        };
        NodeError::Unavailable(format!(
            "node {}: {what} ({})",
            self.label,
            chain_text(error)
        ))
    }

    fn busy(&self, body: &[u8]) -> NodeError {
        let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
        NodeError::Unavailable(format!(
            "node {}: busy (HTTP 503: {})",
            self.label,
            text.trim()
        ))
    }

    /// Adds the place to an answer that could not be understood.
    fn explain(&self, error: NodeError, status: StatusCode) -> NodeError {
        match error {
            NodeError::Answer(text) if status == StatusCode::OK => {
                NodeError::Answer(format!("node {}: {text}", self.label))
            }
            NodeError::Answer(text) => NodeError::Answer(format!(
                "node {}: HTTP {status}, {text}; is rpc_url the node's RPC port?",
                self.label
            )),
            other => other,
        }
    }
}

/// An error with its causes, without the URL.
fn chain_text(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut next = error.source();
    while let Some(cause) = next {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    if text.is_empty() {
        "unknown cause".to_owned()
    } else {
        text
    }
}

fn encode(request: &impl Serialize) -> Result<Vec<u8>, NodeError> {
    serde_json::to_vec(request)
        .map_err(|error| NodeError::Answer(format!("cannot encode a request: {error}")))
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}
