//! Hints from a node's ZMQ publisher that there may be something new. They carry no truth: they only wake.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zeromq::{Socket as _, SocketRecv as _, SubSocket, ZmqError};

/// What the node publishes under these names wakes. Names that it does not publish do no harm.
const TOPICS: [&str; 5] = ["hashblock", "hashtx", "sequence", "rawblock", "rawtx"];
/// Pause before another attempt at a publisher that is not there.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);
/// A publisher that is silent for so long is connected to anew: the node may be another process by now.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Wakes when a node's ZMQ publisher says anything. Cheap to clone; each clone made by [`Hints::another`] is woken on its
/// own.
#[derive(Debug, Clone)]
pub struct Hints {
    heard: watch::Receiver<u64>,
    seen: Arc<AtomicU64>,
}

impl Hints {
    /// Listens to a publisher, as `tcp://127.0.0.1:28332`, until `stop` is cancelled. A publisher that is not there (yet) is
    /// tried again and again: hints are no more than that.
    pub fn subscribe(url: &str, runtime: &Handle, stop: CancellationToken) -> Self {
        let (heard, receiver) = watch::channel(0);
        let url = url.to_owned();
        runtime.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = listen(&url, &heard) => {}
            }
        });
        Self {
            heard: receiver,
            seen: Arc::default(),
        }
    }

    /// The same hints for another waiter.
    pub fn another(&self) -> Self {
        Self {
            heard: self.heard.clone(),
            seen: Arc::default(),
        }
    }

    /// Returns when something was heard since the last call, or after `timeout`.
    pub async fn wait(&self, timeout: Duration) {
        let seen = self.seen.load(Ordering::Relaxed);
        let mut heard = self.heard.clone();
        let news = async {
            if heard.wait_for(|count| *count != seen).await.is_err() {
                // Nobody listens any more; the timeout remains.
                std::future::pending::<()>().await;
            }
        };
        // Both ends are a reason to look.
        let _ = tokio::time::timeout(timeout, news).await;
        self.seen.store(*self.heard.borrow(), Ordering::Relaxed);
    }
}

/// Listens for ever.
async fn listen(url: &str, heard: &watch::Sender<u64>) {
    let mut was_connected = true;
    loop {
        match connect(url).await {
            Ok(mut socket) => {
                tracing::info!(url, "listening to the node's ZMQ publisher");
                was_connected = true;
                // What was published before is not told again.
                heard.send_modify(|count| *count += 1);
                while let Ok(Ok(_)) = tokio::time::timeout(SILENCE_MAX, socket.recv()).await {
                    heard.send_modify(|count| *count += 1);
                }
            }
            Err(error) if was_connected => {
                was_connected = false;
                tracing::warn!(url, %error, "the node's ZMQ publisher is not reachable; trying again");
            }
            Err(_) => {}
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn connect(url: &str) -> Result<SubSocket, ZmqError> {
    let mut socket = SubSocket::new();
    socket.connect(url).await?;
    for topic in TOPICS {
        socket.subscribe(topic).await?;
    }
    Ok(socket)
}
