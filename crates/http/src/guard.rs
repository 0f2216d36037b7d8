//! A connection that cannot be held open by a client that sends or reads nothing.
//!
//! The HTTP library bounds the time of a request head, but only once it knows the protocol, and it bounds neither the
//! very first bytes nor a client that does not read its answer. [`GuardedIo`] adds both, and lets the server send a
//! last 408 to a client whose head took too long (the library closes without a word).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::listen::Stream;

/// Length of the HTTP/2 preface: after so many bytes the protocol is known.
const PREFACE_BYTES: usize = 24;

/// Says, from outside, that the head timed out: [`GuardedIo`] then sends the farewell when it is dropped.
#[derive(Clone, Default)]
pub(crate) struct TimedOut(Arc<AtomicBool>);

impl TimedOut {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection with bounds.
pub(crate) struct GuardedIo {
    stream: Stream,
    /// Runs until the first bytes that tell the protocol are here.
    opening: Option<Pin<Box<Sleep>>>,
    received: usize,
    /// Bytes were received and nothing was sent since.
    unanswered: bool,
    stall_limit: Duration,
    /// Runs while the client does not take what is to be sent.
    stall: Option<Pin<Box<Sleep>>>,
    timed_out: TimedOut,
    farewell: Arc<[u8]>,
}

impl GuardedIo {
    /// Wraps a connection. `opening` bounds the first bytes, `stall` the time without progress in sending;
    /// `farewell` is a complete HTTP/1 answer.
    pub(crate) fn new(
        stream: Stream,
        opening: Duration,
        stall: Duration,
        farewell: Arc<[u8]>,
    ) -> (Self, TimedOut) {
        let timed_out = TimedOut::default();
        let guarded = Self {
            stream,
            opening: Some(Box::pin(tokio::time::sleep(opening))),
            received: 0,
            unanswered: false,
            stall_limit: stall,
            stall: None,
            timed_out: timed_out.clone(),
            farewell,
        };
        (guarded, timed_out)
    }

    /// Accounts for the result of a write.
    fn sent(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if result.is_ready() {
            self.stall = None;
            self.opening = None;
            self.unanswered = false;
            return result;
        }
        let limit = self.stall_limit;
        let stall = self
            .stall
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for GuardedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        match result {
            Poll::Ready(Ok(())) => {
                let count = buffer.filled().len() - before;
                if count > 0 {
                    self.unanswered = true;
                    self.received = self.received.saturating_add(count);
                    if self.received >= PREFACE_BYTES {
                        self.opening = None;
                    }
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                if let Some(opening) = &mut self.opening {
                    ready!(opening.as_mut().poll(context));
                    self.timed_out.set();
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for GuardedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        self.sent(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        };
        self.sent(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

impl Drop for GuardedIo {
    fn drop(&mut self) {
        if !(self.unanswered && self.timed_out.0.load(Ordering::Relaxed)) {
            return;
        }
        // One attempt without waiting: the answer is small, and the client may be gone.
        let result = match &self.stream {
            Stream::Tcp(stream) => stream.try_write(&self.farewell),
            Stream::Unix(stream) => stream.try_write(&self.farewell),
        };
        if let Err(error) = result {
            tracing::debug!(%error, "408 not sent");
        }
    }
}
