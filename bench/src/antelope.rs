//! Antelope: recorded blocks to events, and events into a local Redis, beside the floor of the same bytes.
//!
//! The recording is 125 blocks, too few to measure. Here it is a chain without end: the same blocks again and again with
//! numbers and ids that go on. A State History server made for this sends them over a real socket, so that the whole way is
//! measured, as fast as the parser takes them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cairn_antelope_abi::Profile;
use cairn_antelope_parser::{Decoder, Parser, ParserSettings, ParserSource, Quiet, Step};
use cairn_antelope_ship::{Protocol, ReceivedBlock};
use cairn_redis::Redis;
use cairn_stream::{ChainLabel, keys};
use cairn_testkit::antelope::{Recording, SHIP_ABI};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use crate::local_redis::LocalRedis;
use crate::measure::usage_of_self;

/// Where the positions stand in a block result: variant, head and last irreversible block, flag.
const THIS_AT: usize = 1 + 36 + 36 + 1;
const PREVIOUS_AT: usize = THIS_AT + 36 + 1;
/// Commands in one pipeline of the floor.
const FLOOR_BATCH: usize = 1_000;

/// The recorded blocks behind the first, which has no block before it and holds the state of genesis.
fn rounds() -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut frames = Recording::Main.block_frames();
    let first = frames.remove(0);
    (first, frames)
}

/// A recorded block as block `num`.
fn renumbered(frame: &[u8], num: u32, irreversible: u32) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    let mut put = |at: usize, num: u32| {
        bytes[at..at + 4].copy_from_slice(&num.to_le_bytes());
        // An id that only the number makes; its first four bytes are the number.
        bytes[at + 4..at + 36].fill(0x5a);
        bytes[at + 4..at + 8].copy_from_slice(&num.to_be_bytes());
    };
    put(1, num);
    put(1 + 36, irreversible);
    put(THIS_AT, num);
    if num > 1 {
        put(PREVIOUS_AT, num - 1);
    }
    bytes
}

/// Block `num` of the chain without end.
fn block(first: &[u8], frames: &[Vec<u8>], num: u32) -> Vec<u8> {
    // As on a chain that is caught up with: some 300 blocks behind.
    let irreversible = num.saturating_sub(325).max(1);
    if num == 1 {
        return renumbered(first, num, irreversible);
    }
    renumbered(
        &frames[(num as usize - 2) % frames.len()],
        num,
        irreversible,
    )
}

struct Rate {
    blocks: u64,
    frame_bytes: u64,
    actions: u64,
    events: u64,
    event_bytes: u64,
    seconds: f64,
}

impl Rate {
    fn row(&self, name: &str) {
        let per = |count: u64| count as f64 / self.seconds;
        println!(
            "| {name} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} |",
            per(self.blocks),
            per(self.actions),
            per(self.events),
            per(self.frame_bytes) / 1e6,
            per(self.event_bytes) / 1e6
        );
    }
}

fn label() -> Result<ChainLabel> {
    Ok(ChainLabel::new("bench")?)
}

/// Decodes blocks to the JSON of their events on this thread.
fn decode(blocks: u32) -> Result<Rate> {
    let protocol = Arc::new(Protocol::from_abi_json(SHIP_ABI)?);
    let (first, frames) = rounds();
    let mut rate = Rate {
        blocks: 0,
        frame_bytes: 0,
        actions: 0,
        events: 0,
        event_bytes: 0,
        seconds: 0.0,
    };
    let mut decoder = Decoder::new(&label()?, Profile::Wharfkit, false);
    for num in 1..=blocks {
        let bytes = block(&first, &frames, num);
        rate.frame_bytes += bytes.len() as u64;
        let started = Instant::now();
        let received = ReceivedBlock::from_message(&protocol, bytes)?.context("a block")?;
        let decoded = loop {
            match decoder.decode(&received, num)? {
                Step::Needs(contracts) => contracts
                    .into_iter()
                    .for_each(|name| decoder.know(name, Vec::new(), None)),
                Step::Done(decoded) => break decoded,
            }
        };
        rate.seconds += started.elapsed().as_secs_f64();
        rate.blocks += 1;
        for (kind, count) in decoded.events.kinds() {
            rate.events += count;
            rate.actions += if kind == "action" { count } else { 0 };
        }
        rate.event_bytes += decoded.events.bytes() as u64;
    }
    Ok(rate)
}

/// The same on two threads, each with a chain of its own.
fn decode_twice(blocks: u32) -> Result<Rate> {
    let rates = std::thread::scope(|scope| {
        let threads = [
            scope.spawn(|| decode(blocks)),
            scope.spawn(|| decode(blocks)),
        ];
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("a thread panicked"))?
            })
            .collect::<Result<Vec<_>>>()
    })?;
    let mut sum = decode_sum(&rates);
    sum.seconds = rates.iter().map(|rate| rate.seconds).fold(0.0, f64::max);
    Ok(sum)
}

fn decode_sum(rates: &[Rate]) -> Rate {
    let of = |field: fn(&Rate) -> u64| rates.iter().map(field).sum();
    Rate {
        blocks: of(|r| r.blocks),
        frame_bytes: of(|r| r.frame_bytes),
        actions: of(|r| r.actions),
        events: of(|r| r.events),
        event_bytes: of(|r| r.event_bytes),
        seconds: 0.0,
    }
}

/// Sends the chain without end to one client, within its window.
async fn serve(socket: TcpStream, head: u32) -> Result<()> {
    let mut socket = tokio_tungstenite::accept_async(socket).await?;
    let (first, frames) = rounds();
    socket.send(Message::text(SHIP_ABI)).await?;
    let (mut out, mut requests) = socket.split();
    let mut credits = 0u64;
    let mut next = None;
    loop {
        while let Some(num) = next.filter(|num| credits > 0 && *num <= head) {
            out.feed(Message::binary(block(&first, &frames, num)))
                .await?;
            credits -= 1;
            next = Some(num + 1);
        }
        out.flush().await?;
        let Some(request) = requests.next().await else {
            return Ok(());
        };
        let request = request?.into_data();
        let number = |at: usize| {
            request
                .get(at..at + 4)
                .and_then(|b| b.try_into().ok())
                .map_or(0, u32::from_le_bytes)
        };
        match request.first() {
            Some(0) => {
                let mut status = vec![0];
                for position in [head, 1] {
                    status.extend_from_slice(&position.to_le_bytes());
                    status.extend_from_slice(&[0; 32]);
                }
                for value in [2, head + 1, 1, head + 1] {
                    status.extend_from_slice(&u32::to_le_bytes(value));
                }
                status.extend_from_slice(&[0x77; 32]);
                out.send(Message::binary(status)).await?;
            }
            Some(1) => {
                next = Some(number(1));
                credits = u64::from(number(9));
            }
            _ => credits += u64::from(number(1)),
        }
    }
}

async fn listen(head: u32) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, head));
        }
    });
    Ok(address)
}

/// The whole way: socket, decoding, stream. Also prints the resident memory along the way.
fn whole(server: &LocalRedis, blocks: u32, max_len: u64) -> Result<Rate> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let address = listen(blocks).await?;
        let redis = Redis::connect(server.target()).await?;
        let mut settings =
            ParserSettings::new(label()?, ParserSource::Node(format!("ws://{address}")));
        settings.max_len = max_len;
        let parser = Parser::new(settings, redis, Arc::new(Quiet));
        let status = parser.status();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let started = Instant::now();
        let running = tokio::spawn(parser.run(async {
            let _ = stopped.await;
        }));
        let mut told = 0;
        let mut resident = Vec::new();
        let seconds = loop {
            let now = status.read();
            if now.blocks >= u64::from(blocks) {
                break started.elapsed().as_secs_f64();
            }
            ensure!(!running.is_finished(), "the parser ended: {:?}", now.state);
            if now.blocks / (u64::from(blocks) / 8).max(1) > told {
                told += 1;
                resident.push(resident_mib()?);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        let now = status.read();
        let _ = stop.send(());
        running.await??;
        eprintln!("resident MiB along the way: {resident:?}");
        Ok(Rate {
            blocks: now.blocks,
            frame_bytes: 0,
            actions: 0,
            events: now.events,
            event_bytes: 0,
            seconds,
        })
    })
}

fn resident_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .context("no VmRSS")?;
    let kib: u64 = line
        .split_whitespace()
        .nth(1)
        .context("no number")?
        .parse()?;
    Ok(kib / 1024)
}

/// What no publisher can be faster than by much: the same texts, ready made, in pipelines of plain XADD.
fn floor(server: &LocalRedis, blocks: u32) -> Result<Rate> {
    let protocol = Arc::new(Protocol::from_abi_json(SHIP_ABI)?);
    let (first, frames) = rounds();
    let mut decoder = Decoder::new(&label()?, Profile::Wharfkit, false);
    let mut connection = server.connection()?;
    let mut rate = decode_sum(&[]);
    let mut pipe = redis::pipe();
    for num in 1..=blocks {
        let received = ReceivedBlock::from_message(&protocol, block(&first, &frames, num))?
            .context("a block")?;
        let decoded = loop {
            match decoder.decode(&received, num)? {
                Step::Needs(contracts) => contracts
                    .into_iter()
                    .for_each(|name| decoder.know(name, Vec::new(), None)),
                Step::Done(decoded) => break decoded,
            }
        };
        for text in decoded.events.texts() {
            pipe.cmd("XADD")
                .arg("floor")
                .arg("*")
                .arg("data")
                .arg(text)
                .ignore();
            rate.events += 1;
            rate.event_bytes += text.len() as u64;
        }
        rate.blocks += 1;
        if pipe.len() >= FLOOR_BATCH || num == blocks {
            let started = Instant::now();
            pipe.query::<()>(&mut connection)?;
            rate.seconds += started.elapsed().as_secs_f64();
            pipe.clear();
        }
    }
    Ok(rate)
}

fn median(mut rates: Vec<Rate>) -> Result<Rate> {
    rates.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let middle = rates.len() / 2;
    rates.into_iter().nth(middle).context("at least one run")
}

/// All of it. `blocks` is the length of the chain.
pub(crate) fn bench(blocks: u32, runs: usize, max_len: u64) -> Result<()> {
    ensure!(blocks >= 1, "at least one block");
    println!("\n## Antelope\n");
    println!(
        "{blocks} blocks: the recorded ones again and again. Events in the default profile.\n"
    );
    println!("| | blocks/s | actions/s | events/s | MB/s of messages | MB/s of events |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let runs = runs.max(1);
    let one = median((0..runs).map(|_| decode(blocks)).collect::<Result<_>>()?)?;
    one.row("decoding to JSON, one thread");
    median(
        (0..runs)
            .map(|_| decode_twice(blocks))
            .collect::<Result<_>>()?,
    )?
    .row("decoding to JSON, two threads");
    let (mut floors, mut wholes) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let server = LocalRedis::start()?;
        floors.push(floor(&server, blocks)?);
        let server = LocalRedis::start()?;
        let mut rate = whole(&server, blocks, max_len)?;
        (rate.frame_bytes, rate.actions, rate.event_bytes) =
            (one.frame_bytes, one.actions, one.event_bytes);
        let length: u64 = redis::cmd("XLEN")
            .arg(keys::events(&label()?))
            .query(&mut server.connection()?)?;
        ensure!(
            max_len > 0 || length == rate.events,
            "{length} entries for {} events",
            rate.events
        );
        wholes.push(rate);
    }
    let (floor, whole) = (median(floors)?, median(wholes)?);
    floor.row("floor: the same texts by pipelined XADD");
    whole.row("socket to stream: read, decoded, published");
    println!(
        "\nThe whole way takes {:.2} times the floor.",
        whole.seconds / floor.seconds
    );
    let usage = usage_of_self(0.0, None, u64::from(blocks), 0)?;
    println!(
        "Largest resident set of all of the above: {} MB.",
        usage.peak_bytes / 1_000_000
    );
    Ok(())
}
