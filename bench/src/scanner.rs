//! The application ledger: operations told a second over HTTP, and what reads cost as the history grows.
//!
//! The floor of writing is Redis alone on the same machine: pipelined `SET` of rows of the same size.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cairn_http::{Listen, Surface, SurfaceOptions, serve};
use cairn_redis::{Redis, Target};
use cairn_scanner::{Clock, Command, Hook, HostId, Options, Scanner, Status};
use cairn_scanner_api::{ApiOptions, ApiState, LiveFeed, Token};
use cairn_stream::ChainLabel;
use cairn_testkit::{CallGenerator, CallMix, RedisServer};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const TOKEN: &str = "bench";
/// Callers at once.
const CALLERS: usize = 16;
/// Operations prepared for each second of measuring, of batches and of single calls: more than can be told.
const PREPARED: [usize; 2] = [30_000, 6_000];
/// Span of what is told as it happens, and of what is told afterwards, milliseconds.
const SPANS_MS: [(&str, u64); 2] = [
    ("as it happens", 10 * 60_000),
    ("of 30 days", 30 * 24 * 3_600_000),
];
/// Requests of each read measurement.
const READS: usize = 2_000;
/// Rows applied at once while the ledger is filled.
const FILL: usize = 250;
/// Batches under way while it is filled.
const FILLERS: usize = 8;

/// Measures telling, then reading at each size.
pub(crate) fn bench(sizes: &[u64], seconds: u64) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run(sizes, Duration::from_secs(seconds)))
}

struct World {
    server: RedisServer,
    scanner: Scanner,
    url: String,
    http: reqwest::Client,
    now: i64,
}

async fn start() -> Result<World> {
    let server = RedisServer::start();
    let redis = Redis::connect(&Target::parse(&server.url())?).await?;
    let host = HostId::new("bench").context("a host")?;
    let options = Options::new(host, ChainLabel::new("ledger-bench")?);
    let scanner = Scanner::open(redis, options, Clock::system()).await?;
    let router = cairn_scanner_api::router(ApiState {
        scanner: scanner.clone(),
        admin_token: None,
        ingest_token: Token::new(TOKEN),
        live: LiveFeed::new(1),
        options: ApiOptions::default(),
    });
    let listener = "127.0.0.1:0".parse::<Listen>()?.bind(128).await?;
    let url = format!("http://{}", listener.address()?);
    let surface = Surface::new(router, SurfaceOptions::default());
    tokio::spawn(serve(listener, surface, std::future::pending()));
    let now = scanner.clock().now().ms();
    Ok(World {
        server,
        scanner,
        url,
        http: reqwest::Client::new(),
        now,
    })
}

fn mix(span_ms: u64) -> CallMix {
    CallMix {
        players: 10_000,
        spaces: 500,
        span_ms,
        repeated: 0,
        only_txs: true,
    }
}

async fn run(sizes: &[u64], time: Duration) -> Result<()> {
    println!(
        "| what | batch | callers | operations/s | CPU of Redis, µs | of Cairn and callers, µs |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let world = start().await?;
    println!(
        "| floor: SET of 600 bytes, pipelines of 100 | 100 | 1 | {} |",
        floor(&world, time).await?
    );
    world.server.run::<String>("FLUSHALL");
    for (span, span_ms) in SPANS_MS {
        for batch in [1, 100] {
            let rate = told(&world, batch, span_ms, time).await?;
            println!("| POST /api/ingest, {span} | {batch} | {CALLERS} | {rate} |");
        }
    }
    println!();
    println!(
        "| transactions | filled at /s | Redis bytes a transaction | read | p50 ms | p99 ms |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    world.server.run::<String>("FLUSHALL");
    let empty = used_memory(&world);
    let mut generator = CallGenerator::new(1, world.now, mix(SPANS_MS[1].1));
    let mut filled = 0;
    for &size in sizes {
        let begun = Instant::now();
        fill(&world, &mut generator, size - filled).await?;
        let rate = (size - filled) as f64 / begun.elapsed().as_secs_f64();
        filled = size;
        let bytes = used_memory(&world).saturating_sub(empty) / size;
        for (name, path) in [
            ("head", "/api/scanner/head"),
            ("txs, 100 rows", "/api/scanner/txs?limit=100"),
            (
                "txs of a busy player",
                "/api/scanner/txs?playerId=nm-0&limit=100",
            ),
            ("node profile", "/api/scanner/nodes/nm-0"),
            ("unknown search", "/api/scanner/search?q=nothing-like-this"),
        ] {
            let (p50, p99) = read(&world, path).await?;
            println!("| {size} | {rate:.0} | {bytes} | {name} | {p50:.2} | {p99:.2} |");
        }
    }
    Ok(())
}

fn used_memory(world: &World) -> u64 {
    let info: String = world.server.run("INFO memory");
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// Operations a second, and the processor time that one took.
struct Rate {
    done: u64,
    seconds: f64,
    redis_seconds: f64,
    own_seconds: f64,
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = |seconds: f64| seconds * 1e6 / self.done.max(1) as f64;
        write!(
            f,
            "{:.0} | {:.0} | {:.0}",
            self.done as f64 / self.seconds,
            each(self.redis_seconds),
            each(self.own_seconds)
        )
    }
}

/// What had been used when a measurement began.
struct Meter {
    begun: Instant,
    redis: f64,
    own: f64,
}

impl Meter {
    fn start(world: &World) -> Result<Self> {
        Ok(Self {
            redis: redis_cpu(world)?,
            own: own_cpu()?,
            begun: Instant::now(),
        })
    }

    fn stop(self, world: &World, done: u64) -> Result<Rate> {
        Ok(Rate {
            done,
            seconds: self.begun.elapsed().as_secs_f64(),
            redis_seconds: redis_cpu(world)? - self.redis,
            own_seconds: own_cpu()? - self.own,
        })
    }
}

/// Processor time of Redis' main thread, seconds.
fn redis_cpu(world: &World) -> Result<f64> {
    let info: String = world.server.run("INFO cpu");
    let mut seconds = 0.0;
    for name in ["used_cpu_sys_main_thread:", "used_cpu_user_main_thread:"] {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        seconds += line
            .context("Redis tells its processor time")?
            .trim()
            .parse::<f64>()?;
    }
    Ok(seconds)
}

/// Processor time of this process, seconds.
fn own_cpu() -> Result<f64> {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The fields after the name, which stands in brackets.
    let (_, rest) = stat.rsplit_once(')').context("a line of /proc")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| -> Result<f64> { Ok(fields.get(at).context("a field")?.parse()?) };
    Ok((ticks(11)? + ticks(12)?) / TICKS_A_SECOND)
}

async fn floor(world: &World, time: Duration) -> Result<Rate> {
    let mut redis = world.scanner.redis().clone();
    let row = "x".repeat(600);
    let meter = Meter::start(world)?;
    let mut done = 0u64;
    while meter.begun.elapsed() < time {
        let mut pipeline = redis::pipe();
        for index in 0..100 {
            pipeline
                .set(format!("floor:{}", done + index), &row)
                .ignore();
        }
        pipeline.query_async::<()>(&mut redis).await?;
        done += 100;
    }
    meter.stop(world, done)
}

/// Requests as they go over the wire: the path of the call, and the body.
fn requests(world: &World, batch: usize, span_ms: u64, count: usize) -> Vec<(String, String)> {
    let mut generator = CallGenerator::new(batch as u64, world.now, mix(span_ms));
    let mut requests = Vec::with_capacity(count / batch);
    for _ in 0..count / batch {
        let ops: Vec<Value> = generator
            .take(batch)
            .into_iter()
            .map(|call| {
                let mut body = call.body;
                let id = &mut body["record"]["id"];
                *id = format!("{batch}-{span_ms}-{}", id.as_str().unwrap_or_default()).into();
                json!({ "op": call.hook, "body": body })
            })
            .collect();
        requests.push(match ops.as_slice() {
            [one] => (
                one["op"].as_str().unwrap_or_default().to_owned(),
                one["body"].to_string(),
            ),
            many => ("batch".to_owned(), json!({ "ops": many }).to_string()),
        });
    }
    requests
}

/// Operations that callers get acknowledged. The requests are prepared beforehand, so that the machine is Cairn's and Redis'.
async fn told(world: &World, batch: usize, span_ms: u64, time: Duration) -> Result<Rate> {
    let prepared = PREPARED[usize::from(batch == 1)];
    let count = prepared * usize::try_from(time.as_secs().max(1))?;
    let requests = Arc::new(Mutex::new(requests(world, batch, span_ms, count)));
    let meter = Meter::start(world)?;
    let begun = meter.begun;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (http, url) = (world.http.clone(), world.url.clone());
        let requests = Arc::clone(&requests);
        callers.spawn(async move {
            let mut done = 0u64;
            while begun.elapsed() < time {
                let Some((path, body)) = requests.lock().await.pop() else {
                    break;
                };
                let answer = http
                    .post(format!("{url}/api/ingest/{path}"))
                    .bearer_auth(TOKEN)
                    .header("content-type", "application/json")
                    .body(body)
                    .send()
                    .await?;
                ensure!(answer.status().is_success(), "{}", answer.text().await?);
                answer.bytes().await?;
                done += batch as u64;
            }
            anyhow::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(caller) = callers.join_next().await {
        done += caller??;
    }
    meter.stop(world, done)
}

/// Fills the ledger without HTTP.
async fn fill(world: &World, generator: &mut CallGenerator, count: u64) -> Result<()> {
    let mut left = usize::try_from(count)?;
    let mut under_way: JoinSet<Result<()>> = JoinSet::new();
    while left > 0 {
        let calls = generator.take(left.min(FILL));
        left -= calls.len();
        let scanner = world.scanner.clone();
        if under_way.len() >= FILLERS {
            under_way
                .join_next()
                .await
                .context("one is under way")???;
        }
        under_way.spawn(async move {
            let mut commands: Vec<Command> = Vec::with_capacity(calls.len());
            for call in &calls {
                let hook = Hook::parse(call.hook).context("a known call")?;
                let read = scanner.read_request(hook, &call.body.to_string());
                commands.push(read.map_err(|faults| anyhow::anyhow!("{faults:?}"))?);
            }
            let failed = scanner
                .apply_owned(commands)
                .await
                .into_iter()
                .find_map(|status| match status {
                    Status::Failed(error) => Some(error),
                    _ => None,
                });
            failed.map_or(Ok(()), |error| Err(error.into()))
        });
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    Ok(())
}

/// Median and 99th percentile of one caller, milliseconds.
async fn read(world: &World, path: &str) -> Result<(f64, f64)> {
    let url = format!("{}{path}", world.url);
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let begun = Instant::now();
        let answer = world.http.get(&url).send().await?;
        ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.bytes().await?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[READS / 2], times[READS * 99 / 100]))
}
