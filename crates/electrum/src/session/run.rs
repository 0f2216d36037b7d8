//! The loop of a connection: one task that reads, answers, notifies and writes.
//!
//! Requests are begun in the order in which they come. What needs no wait is answered at once; what waits for the store or
//! the node is put aside, at most a few at once, and the others go on. Nothing is read while too much is waiting to be
//! written or answered, so memory is bounded for a client that only talks and for one that never listens.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::{Done, answer, excessive};
use super::outbox::Outbox;
use super::{Session, ToldTip, Topic};
use crate::methods::{write_outpoint_status, write_script_status, write_tip};
use crate::rpc::{Json, RpcError, write_error, write_notification};
use crate::server::{INPUT_UNIT, Server};
use crate::transport::{Line, LineBuffer};

/// Bytes that wait for the client from which on no further request is begun.
const OUT_HIGH: usize = 1 << 20;
/// Bytes that wait for the client from which on notifications wait in their list, where they take the least room.
const NEWS_HIGH: usize = 256 * 1024;
/// A session with more than this is cut off when all sessions together have too much waiting.
const OUT_FAIR: usize = 256 * 1024;
/// Notifications written in one go.
const NEWS_BATCH: usize = 256;
/// Requests answered in a row before others get the thread.
const TURN: usize = 16;
/// The longest time between two looks at the clock.
const TICK_MAX: Duration = Duration::from_secs(10);
/// Time for the last bytes of a session that has ended.
const FAREWELL: Duration = Duration::from_secs(5);
/// What is read and dropped after the last answer, so that the client gets to see it.
const LINGER_BYTES: u64 = 1 << 20;
const LINGER: Duration = Duration::from_secs(1);

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The client closed it, or the connection broke.
    Client,
    /// The client asked for nothing for too long, or did not end a line it began.
    Idle,
    /// The client took nothing of its answers for too long, or has too much waiting.
    Stalled,
    /// A line was too long.
    LineTooLong,
    /// The client cost too much.
    Cost,
    /// No version in common, or another request before the version.
    Refused,
    /// The client speaks TLS or HTTP.
    OtherProtocol,
    /// The server stops.
    Stop,
}

impl End {
    /// The word in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Idle => "idle",
            Self::Stalled => "slow-reader",
            Self::LineTooLong => "line-too-long",
            Self::Cost => "cost",
            Self::Refused => "refused",
            Self::OtherProtocol => "other-protocol",
            Self::Stop => "stop",
        }
    }
}

/// Ends the session's subscriptions however its task ends.
struct Attached<'a> {
    server: &'a Server,
    session: &'a Session,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        self.server.leave(self.session);
    }
}

type InFlight = FuturesUnordered<Pin<Box<dyn Future<Output = Done> + Send>>>;

/// Serves a connection until it ends.
pub(crate) async fn run<S>(
    server: Arc<Server>,
    session: Arc<Session>,
    stream: S,
    stop: CancellationToken,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let attached = Attached {
        server: &server,
        session: &session,
    };
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut connection = Connection::new(Arc::clone(&server), Arc::clone(&session));
    let end = connection.run(&mut reader, &mut writer, &stop).await;
    drop(attached);
    if !matches!(end, End::Client | End::Stalled) {
        let last = async {
            writer.write_all(connection.outbox.waiting()).await?;
            writer.shutdown().await
        };
        if matches!(tokio::time::timeout(FAREWELL, last).await, Ok(Ok(()))) && end != End::Stop {
            let (mut rest, mut nowhere) = (reader.take(LINGER_BYTES), tokio::io::sink());
            let dropped = tokio::io::copy(&mut rest, &mut nowhere);
            let _ = tokio::time::timeout(LINGER, dropped).await;
        }
    }
    end
}

struct Connection {
    server: Arc<Server>,
    session: Arc<Session>,
    lines: LineBuffer,
    outbox: Outbox,
    in_flight: InFlight,
    /// Places for the long line that is being received.
    memory: Option<OwnedSemaphorePermit>,
    /// The client will send no more.
    is_read: bool,
    /// The client has not said anything yet.
    is_first: bool,
    needs_flush: bool,
    /// The session ends when everything is written.
    ends: Option<End>,
    last_request: Instant,
    line_began: Option<Instant>,
    last_taken: Instant,
    tick: Duration,
}

impl Connection {
    fn new(server: Arc<Server>, session: Arc<Session>) -> Self {
        let limits = &server.options.limits;
        let shortest = limits.idle.min(limits.request_time).min(limits.stall);
        let now = Instant::now();
        Self {
            lines: LineBuffer::new(limits.request_bytes),
            outbox: Outbox::new(Arc::clone(&server)),
            in_flight: FuturesUnordered::new(),
            memory: None,
            is_read: false,
            is_first: true,
            needs_flush: false,
            ends: None,
            last_request: now,
            line_began: None,
            last_taken: now,
            tick: (shortest / 4).clamp(Duration::from_millis(5), TICK_MAX),
            server,
            session,
        }
    }

    async fn run(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
        stop: &CancellationToken,
    ) -> End {
        let tick = tokio::time::sleep(self.tick);
        let mut tick = std::pin::pin!(tick);
        let (wake, input) = (
            Arc::clone(&self.session.wake),
            Arc::clone(&self.server.input),
        );
        loop {
            if self.begin_requests().await {
                // Its turn is over, but it has more.
                tokio::task::yield_now().await;
            }
            self.write_news();
            if let Some(end) = self.is_over() {
                return end;
            }
            let has_memory = self.has_memory();
            let may_read = !self.is_read
                && self.ends.is_none()
                && (self.may_begin() || self.lines.waiting() < INPUT_UNIT);
            let has_ready_line = self.may_begin() && self.lines.has_line();
            tokio::select! {
                () = stop.cancelled() => return End::Stop,
                read = reader.read_buf(self.lines.space()), if may_read && has_memory => match read {
                    Ok(0) => self.is_read = true,
                    Ok(_) => {}
                    Err(_) => return End::Client,
                },
                place = Arc::clone(&input).acquire_owned(), if may_read && !has_memory => match (place, &mut self.memory) {
                    (Ok(place), Some(memory)) => memory.merge(place),
                    (Ok(place), none) => *none = Some(place),
                    (Err(_), _) => return End::Stop,
                },
                pushed = push(writer, self.outbox.waiting()), if !self.outbox.is_empty() || self.needs_flush => match pushed {
                    Ok(0) if self.outbox.is_empty() => self.needs_flush = false,
                    Ok(0) | Err(_) => return End::Client,
                    Ok(count) => {
                        self.outbox.taken(count);
                        self.last_taken = Instant::now();
                        self.needs_flush = true;
                    }
                },
                Some(done) = self.in_flight.next(), if !self.in_flight.is_empty() => self.finish(done),
                () = wake.wait(), if self.outbox.len() < NEWS_HIGH => {}
                () = &mut tick => {
                    tick.as_mut().reset(Instant::now() + self.tick);
                    if let Some(end) = self.is_late() {
                        return end;
                    }
                }
                () = std::future::ready(()), if has_ready_line => {}
            }
        }
    }

    /// Whether another request may be begun.
    fn may_begin(&self) -> bool {
        self.ends.is_none()
            && self.outbox.len() < OUT_HIGH
            && self.in_flight.len() < self.server.options.limits.in_flight.max(1)
    }

    /// Whether there is room for the line that is being received: beyond a first piece, it needs places.
    fn has_memory(&mut self) -> bool {
        let wanted = self.lines.waiting() / INPUT_UNIT;
        let held = self
            .memory
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(missing) = wanted.checked_sub(held).filter(|missing| *missing > 0) else {
            return true;
        };
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        match (
            Arc::clone(&self.server.input).try_acquire_many_owned(missing),
            &mut self.memory,
        ) {
            (Ok(places), Some(memory)) => memory.merge(places),
            (Ok(places), none) => *none = Some(places),
            (Err(_), _) => return false,
        }
        true
    }

    /// Begins the requests that are there. Returns whether there are more than one turn takes.
    async fn begin_requests(&mut self) -> bool {
        for _ in 0..TURN {
            if !self.may_begin() {
                return false;
            }
            let line = match self.lines.next() {
                Line::Whole(line) => line,
                Line::TooLong => {
                    let most = self.server.options.limits.request_bytes;
                    let error = RpcError::invalid(format!("a request has at most {most} bytes"));
                    self.outbox.append(|out| {
                        write_error(out, None, &error);
                        out.push(b'\n');
                    });
                    self.ends = Some(End::LineTooLong);
                    return false;
                }
                Line::Partial if self.is_read => match self.lines.rest() {
                    Line::Whole(line) => line,
                    _ => return false,
                },
                Line::Partial => {
                    if self.is_first && is_tls_hello(self.lines.peek()) {
                        self.ends = Some(End::OtherProtocol);
                    }
                    self.line_began = (self.lines.waiting() > 0)
                        .then(|| self.line_began.unwrap_or_else(Instant::now));
                    return false;
                }
            };
            if std::mem::take(&mut self.is_first) && is_other_protocol(&line) {
                // A browser can be made to post to any port; what it posts must not be taken for requests.
                self.ends = Some(End::OtherProtocol);
                return false;
            }
            self.line_began = None;
            self.last_request = Instant::now();
            let memory = self.memory.take();
            let mut request = Box::pin(answer(
                Arc::clone(&self.server),
                Arc::clone(&self.session),
                line,
                memory,
            ));
            match poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await {
                Poll::Ready(done) => self.finish(done),
                Poll::Pending => self.in_flight.push(request),
            }
        }
        true
    }

    fn finish(&mut self, done: Done) {
        if !done.bytes.is_empty() {
            if self.outbox.is_empty() {
                // The time of a slow reader begins with something to read.
                self.last_taken = Instant::now();
            }
            self.outbox.append(|out| {
                if out.is_empty() {
                    *out = done.bytes;
                } else {
                    out.extend_from_slice(&done.bytes);
                }
                out.push(b'\n');
            });
        }
        if self.ends.is_none() {
            self.ends = done.ends;
            if self.ends == Some(End::Cost) && !done.is_told {
                self.outbox.append(|out| {
                    write_error(out, None, &excessive());
                    out.push(b'\n');
                });
            }
        }
    }

    /// Writes notifications, as far as there is room.
    fn write_news(&mut self) {
        while self.outbox.len() < NEWS_HIGH && !self.session.wake.is_empty() {
            let (tip, topics) = self.session.wake.take(NEWS_BATCH);
            if self.outbox.is_empty() {
                self.last_taken = Instant::now();
            }
            if tip {
                self.write_tip();
            }
            for topic in topics {
                self.write_topic(&topic);
            }
        }
    }

    fn write_tip(&mut self) {
        let Some(announced) = self.server.announced() else {
            return;
        };
        let mut told = self.session.tip();
        match &mut *told {
            Some(told) if told.view < announced.view => {
                let is_known = told.hash == announced.block.hash;
                *told = ToldTip {
                    view: announced.view,
                    hash: announced.block.hash,
                };
                if is_known {
                    return;
                }
            }
            _ => return,
        }
        drop(told);
        let mut params = Json::new();
        params.raw("[");
        write_tip(&mut params, &announced.header, announced.block.height);
        params.raw("]");
        self.notify("blockchain.headers.subscribe", &params);
    }

    fn write_topic(&mut self, topic: &Topic) {
        let (server, wake) = (&self.server, &self.session.wake);
        let mut params = Json::new();
        params.raw("[");
        let method = match topic {
            Topic::Script(key) => {
                let Some((label, status)) = server.scripts.fetch(key, wake) else {
                    return;
                };
                label.write(&mut params, key);
                write_script_status(params.raw(","), &status);
                label.method()
            }
            Topic::Outpoint(key) => {
                let Some((label, status)) = server.outpoints.fetch(key, wake) else {
                    return;
                };
                label.write(&mut params, &key.txid);
                params.raw(",").integer(u64::from(key.vout)).raw(",");
                write_outpoint_status(&mut params, &status);
                "blockchain.outpoint.subscribe"
            }
            Topic::Transaction(key) => {
                let Some((label, height)) = server.transactions.fetch(key, wake) else {
                    return;
                };
                label.write(&mut params, key);
                params.raw(",").value(&height);
                "blockchain.transaction.subscribe"
            }
        };
        params.raw("]");
        self.notify(method, &params);
    }

    fn notify(&mut self, method: &str, params: &Json) {
        self.outbox
            .append(|out| write_notification(out, method, params));
        self.server.metrics.notified();
    }

    /// Whether there is nothing left to do, or too much is waiting.
    fn is_over(&self) -> Option<End> {
        if self.outbox.len() > OUT_FAIR
            && self.server.waiting_output() > self.server.options.limits.output_bytes
        {
            return Some(End::Stalled);
        }
        if self.ends.is_some() {
            // What it was told last is written on the way out.
            return self.ends;
        }
        (self.is_read
            && self.in_flight.is_empty()
            && self.outbox.is_empty()
            && !self.needs_flush
            && self.lines.waiting() == 0)
            .then_some(End::Client)
    }

    /// Whether the client is too slow with something.
    fn is_late(&self) -> Option<End> {
        let limits = &self.server.options.limits;
        if !self.outbox.is_empty() && self.last_taken.elapsed() > limits.stall {
            return Some(End::Stalled);
        }
        if !self.in_flight.is_empty() {
            return None;
        }
        let is_silent = self.last_request.elapsed() > limits.idle
            || self.is_first && self.last_request.elapsed() > limits.request_time;
        let is_unfinished = self
            .line_began
            .is_some_and(|began| began.elapsed() > limits.request_time);
        (is_silent || is_unfinished).then_some(End::Idle)
    }
}

/// Writes some of the bytes, or when there are none sends off what the layers below still hold. Safe to cancel.
async fn push(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<usize> {
    if bytes.is_empty() {
        writer.flush().await.map(|()| 0)
    } else {
        writer.write(bytes).await
    }
}

/// The first bytes of a TLS connection.
fn is_tls_hello(start: &[u8]) -> bool {
    start.starts_with(&[0x16, 0x03])
}

fn is_other_protocol(line: &[u8]) -> bool {
    is_tls_hello(line)
        || [
            &b"GET "[..],
            b"POST ",
            b"PUT ",
            b"HEAD ",
            b"OPTIONS ",
            b"DELETE ",
            b"CONNECT ",
        ]
        .iter()
        .any(|verb| line.starts_with(verb))
}
