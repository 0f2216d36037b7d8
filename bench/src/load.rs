//! A small HTTP load generator: each connection asks one path after another and notes how long each answer took.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What one load run saw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadResult {
    /// Connections used at once.
    pub(crate) connections: usize,
    /// Answers per second.
    pub(crate) per_second: f64,
    /// Half of the answers took at most this long.
    pub(crate) p50: Duration,
    /// 99 of 100 answers took at most this long.
    pub(crate) p99: Duration,
}

/// Asks `paths` in turn over `connections` connections for `time`, or until every path was asked `rounds` times.
pub(crate) async fn run(
    address: &str,
    paths: Arc<Vec<String>>,
    connections: usize,
    time: Duration,
    rounds: usize,
) -> Result<LoadResult> {
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let (address, paths, next) = (address.to_owned(), paths.clone(), next.clone());
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(&address).await?;
            let mut times = Vec::new();
            while start.elapsed() < time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= rounds.saturating_mul(paths.len()) {
                    break;
                }
                let asked = Instant::now();
                connection.get(&paths[number % paths.len()]).await?;
                times.push(asked.elapsed());
            }
            Ok::<_, anyhow::Error>(times)
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    let wall = start.elapsed().as_secs_f64();
    times.sort_unstable();
    if times.is_empty() {
        bail!("no answer at all within {time:?}");
    }
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    Ok(LoadResult {
        connections,
        per_second: times.len() as f64 / wall,
        p50: at(0.5),
        p99: at(0.99),
    })
}

/// One connection, kept open.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("connecting {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(64 << 10),
        })
    }

    /// One request with keep-alive and the body of its answer; anything but 200 is an error. The answer must have a length.
    pub(crate) async fn get(&mut self, path: &str) -> Result<&[u8]> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        let (head, length) = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("{path}: connection closed");
            }
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.buffer[..end])?;
                if !head.starts_with("HTTP/1.1 200") {
                    bail!("{path}: {}", head.lines().next().unwrap_or_default());
                }
                let length = head
                    .lines()
                    .filter_map(|line| line.split_once(':'))
                    .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                    .with_context(|| format!("{path}: no content-length"))?;
                break (end + 4, length.1.trim().parse::<usize>()?);
            }
        };
        while self.buffer.len() < head + length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("{path}: connection closed in the answer");
            }
        }
        Ok(&self.buffer[head..head + length])
    }
}
