//! The server loop: accepts connections, bounds them, and ends them in good order.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::guard::GuardedIo;
use crate::listen::{Listener, Stream};
use crate::surface::{Surface, timeout_farewell};

/// Pause after a failed `accept` (out of file descriptors, mostly), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often an idle HTTP/2 connection is asked whether it is still there, and how long it may take to say so.
const H2_PING_INTERVAL: Duration = Duration::from_secs(20);
const H2_PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent requests on one HTTP/2 connection.
const H2_STREAMS: u32 = 128;
/// Room that the HTTP/1 parser gets beyond the bound of a head, so that the surface, not the parser, refuses a head
/// that is a little too large: its answer has the headers that browsers need.
const HEAD_SLACK_BYTES: usize = 16 * 1024;

/// Bounds of a surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeLimits {
    /// Time for the head of a request (and for an idle connection to send the next one).
    pub head_timeout: Duration,
    /// Time for the body of a request; beyond it 408.
    pub body_timeout: Duration,
    /// Time for the work of a request; beyond it 503.
    pub deadline: Duration,
    /// Time a client may take nothing of an answer before it is cut.
    pub stall_timeout: Duration,
    /// Bytes of a request head; beyond it 431.
    pub max_head_bytes: usize,
    /// Bytes of path and query; beyond it 414.
    pub max_url_bytes: usize,
    /// Connections at once; further ones wait in the backlog.
    pub max_connections: usize,
    /// Connections the system keeps waiting; for [`crate::Listen::bind`].
    pub backlog: u32,
    /// Time that requests in flight get when the server is asked to stop.
    pub shutdown_grace: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            max_head_bytes: 16 * 1024,
            max_url_bytes: 8 * 1024,
            max_connections: 4096,
            backlog: 511,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// Serves connections until `shutdown` is ready, then lets requests in flight end (for at most
/// [`ServeLimits::shutdown_grace`]) and returns.
pub async fn serve(listener: Listener, surface: Surface, shutdown: impl Future<Output = ()>) {
    let options = surface.options();
    let limits = options.limits.clone();
    let observer = options.observer.clone();
    let farewell: Arc<[u8]> = timeout_farewell(&options.cors).into();
    let builder = Arc::new(connection_builder(&limits));
    let places = Arc::new(Semaphore::new(
        limits.max_connections.clamp(1, Semaphore::MAX_PERMITS),
    ));
    let (closing, closed) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);

    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let peer = stream.peer();
        let (io, timed_out) = GuardedIo::new(
            stream,
            limits.head_timeout,
            limits.stall_timeout,
            farewell.clone(),
        );
        let builder = builder.clone();
        let mut closed = closed.clone();
        let surface = surface.of_peer(peer);
        let observer = observer.clone();
        connections.spawn(async move {
            if let Some(observer) = &observer {
                observer.connection_opened();
            }
            // A connection that a handler takes over (a WebSocket) ends here; its handler bounds it from then on.
            let connection = builder
                .serve_connection_with_upgrades(TokioIo::new(io), surface)
                .into_owned();
            let mut connection = pin!(connection);
            // The wait also ends when the sender is gone: then the server is.
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = async { drop(closed.wait_for(|closed| *closed).await) } => {
                    connection.as_mut().graceful_shutdown();
                    connection.as_mut().await
                }
            };
            if let Err(error) = ended {
                if error
                    .downcast_ref::<hyper::Error>()
                    .is_some_and(hyper::Error::is_timeout)
                {
                    timed_out.set();
                }
                tracing::debug!(%error, "connection ended");
            }
            if let Some(observer) = &observer {
                observer.connection_closed();
            }
            drop(place);
        });
    }

    drop(listener);
    closing.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown_grace, all_ended)
        .await
        .is_err()
    {
        tracing::warn!(
            connections = connections.len(),
            "requests still in flight are cut"
        );
    }
    connections.shutdown().await;
}

/// Waits for a free place, then for a connection. `None` if accepting failed (logged).
async fn accept(
    listener: &Listener,
    places: &Arc<Semaphore>,
) -> Option<(Stream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok(stream) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            None
        }
    }
}

fn connection_builder(limits: &ServeLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.max_head_bytes + HEAD_SLACK_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(H2_PING_INTERVAL)
        .keep_alive_timeout(H2_PING_TIMEOUT)
        .max_concurrent_streams(H2_STREAMS)
        .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX));
    builder
}
