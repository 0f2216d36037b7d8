//! Durable subscriptions: events delivered and acknowledged a second, the time from publishing to the handler, and the time
//! until a standby has taken over.
//!
//! The floor is Redis alone on the same machine: `XREADGROUP` and `XACK` of the same entries in batches, by one connection that
//! looks at nothing.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use cairn_redis::{Redis, Target};
use cairn_stream::subscription::{
    EventSource, Role, StartFrom, SubId, Subscription, SubscriptionOptions,
};
use cairn_stream::{ChainLabel, keys};
use cairn_testkit::RedisServer;
use serde_json::json;
use tokio::task::JoinSet;

const CHAIN: &str = "bench";
/// Entries added in one round trip.
const FILL: usize = 500;
/// Entries read at once by the floor.
const FLOOR_BATCH: usize = 1_000;
/// Subscriptions at once.
const MANY: usize = 50;
/// Events of the measurement of latency, and the pause between two.
const LATENCY_EVENTS: usize = 2_000;
const LATENCY_PAUSE: Duration = Duration::from_millis(2);

/// Measures all of it.
pub(crate) fn bench(events: usize, takeovers: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run(events, takeovers))
}

/// An instance in a process of its own, to be killed.
pub(crate) fn instance(url: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let redis = Redis::connect(&Target::parse(url)?).await?;
        let mut subscription = start(&redis, "takeover")?;
        loop {
            subscription.next().await?.ack();
        }
    })
}

fn start(redis: &Redis, name: &str) -> Result<Subscription> {
    let mut options = SubscriptionOptions::new(SubId::new(name)?);
    options.start_from = StartFrom::First;
    let source = EventSource::live(&ChainLabel::new(CHAIN)?);
    Ok(Subscription::start(redis.clone(), source, options))
}

/// An event like an action of a token contract, about 600 bytes.
fn event(at: usize) -> String {
    json!({
        "kind": "action", "event_id": format!("{CHAIN}:a:{at}:00000000aabbccdd:{at}"), "chain_id": CHAIN, "block_num": at,
        "block_time": "2026-05-05T00:00:00.500", "block_id": format!("{at:064x}"), "account": "eosio.token", "name": "transfer",
        "authorization": [{ "actor": "alice", "permission": "active" }],
        "data": { "from": "alice", "to": "bob", "quantity": "1.0000 EOS", "memo": "thank you for the fish" },
        "action_ordinal": 1, "global_sequence": at.to_string(), "receiver": "eosio.token",
        "receipt": { "receiver": "eosio.token", "actDigest": format!("{at:064x}"), "globalSequence": at.to_string(),
            "recvSequence": at.to_string(), "codeSequence": 1, "abiSequence": 1 },
        "transaction_id": format!("{at:064x}"), "transaction_status": "executed",
    })
    .to_string()
}

async fn fill(redis: &Redis, events: usize) -> Result<()> {
    let key = keys::events(&ChainLabel::new(CHAIN)?);
    let all: Vec<usize> = (0..events).collect();
    for some in all.chunks(FILL) {
        let mut pipe = redis::pipe();
        for at in some {
            pipe.cmd("XADD")
                .arg(&key)
                .arg("*")
                .arg("data")
                .arg(event(*at))
                .ignore();
        }
        pipe.query_async::<()>(&mut redis.clone()).await?;
    }
    Ok(())
}

async fn run(events: usize, takeovers: usize) -> Result<()> {
    let server = RedisServer::start();
    let redis = Redis::connect(&Target::parse(&server.url())?).await?;
    fill(&redis, events).await?;
    println!("| what | subscriptions | events/s |");
    println!("| --- | --- | --- |");
    println!(
        "| floor: XREADGROUP and XACK by {FLOOR_BATCH} | 1 | {:.0} |",
        floor(&redis, events).await?
    );
    println!(
        "| delivered and acknowledged | 1 | {:.0} |",
        many(&redis, 1, events).await?
    );
    let each = (events / 10).max(1);
    println!(
        "| delivered and acknowledged | {MANY} | {:.0} |",
        many(&redis, MANY, each).await?
    );
    println!();
    let mut times = latency(&redis).await?;
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "| from XADD to the handler, one event every {} ms | p50 ms | p99 ms |",
        LATENCY_PAUSE.as_millis()
    );
    println!("| --- | --- | --- |");
    println!("| 1 subscription | {:.2} | {:.2} |", at(0.5), at(0.99));
    println!();
    println!(
        "| the active instance | seconds until a standby has an event (median of {takeovers}) |"
    );
    println!("| --- | --- |");
    for (what, signal) in [
        ("is killed (SIGKILL)", "KILL"),
        ("sleeps (SIGSTOP)", "STOP"),
        ("closes", ""),
    ] {
        let mut times = Vec::new();
        for _ in 0..takeovers {
            times.push(takeover(&server, &redis, signal).await?);
        }
        times.sort();
        println!("| {what} | {:.2} |", times[times.len() / 2].as_secs_f64());
    }
    Ok(())
}

/// What Redis itself can do.
async fn floor(redis: &Redis, events: usize) -> Result<f64> {
    let key = keys::events(&ChainLabel::new(CHAIN)?);
    let mut redis = redis.clone();
    redis::cmd("XGROUP")
        .arg("CREATE")
        .arg(&key)
        .arg("floor")
        .arg("0")
        .query_async::<()>(&mut redis)
        .await?;
    let begun = Instant::now();
    let mut done = 0;
    let mut acks: Vec<String> = Vec::new();
    while done < events {
        let mut pipe = redis::pipe();
        if !acks.is_empty() {
            pipe.cmd("XACK").arg(&key).arg("floor").arg(&acks).ignore();
        }
        pipe.cmd("XREADGROUP")
            .arg("GROUP")
            .arg("floor")
            .arg("c")
            .arg("COUNT")
            .arg(FLOOR_BATCH)
            .arg("STREAMS")
            .arg(&key)
            .arg(">");
        type Entry = (String, Vec<(String, String)>);
        let (read,): (Vec<(String, Vec<Entry>)>,) = pipe.query_async(&mut redis).await?;
        let entries = &read.first().context("entries")?.1;
        done += entries.len();
        acks = entries.iter().map(|(id, _)| id.clone()).collect();
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    redis::cmd("XGROUP")
        .arg("DESTROY")
        .arg(&key)
        .arg("floor")
        .query_async::<()>(&mut redis)
        .await?;
    Ok(rate)
}

/// So many subscriptions handle so many events each.
async fn many(redis: &Redis, count: usize, each: usize) -> Result<f64> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for at in 0..count {
        let mut subscription = start(redis, &format!("s-{count}-{at}"))?;
        tasks.spawn(async move {
            for _ in 0..each {
                subscription.next().await?.ack();
            }
            // Only what is acknowledged counts.
            subscription.close().await;
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let rate = (count * each) as f64 / begun.elapsed().as_secs_f64();
    let key = keys::events(&ChainLabel::new(CHAIN)?);
    for at in 0..count {
        let group = format!("s-{count}-{at}");
        redis::cmd("XGROUP")
            .arg("DESTROY")
            .arg(&key)
            .arg(group)
            .query_async::<()>(&mut redis.clone())
            .await?;
    }
    Ok(rate)
}

fn now() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

async fn active(subscription: &mut Subscription) {
    while subscription.role() != Role::Active {
        subscription.changed().await;
    }
}

async fn latency(redis: &Redis) -> Result<Vec<Duration>> {
    let key = keys::events(&ChainLabel::new(CHAIN)?);
    let mut options = SubscriptionOptions::new(SubId::new("latency")?);
    options.start_from = StartFrom::LastKnown;
    let source = EventSource::live(&ChainLabel::new(CHAIN)?);
    let mut subscription = Subscription::start(redis.clone(), source, options);
    active(&mut subscription).await;
    let writer = redis.clone();
    let publish = tokio::spawn(async move {
        for at in 0..LATENCY_EVENTS {
            tokio::time::sleep(LATENCY_PAUSE).await;
            let data = json!({ "kind": "action", "event_id": format!("l:{at}"), "at": now()?.as_nanos().to_string() });
            redis::cmd("XADD")
                .arg(&key)
                .arg("*")
                .arg("data")
                .arg(data.to_string())
                .query_async::<()>(&mut writer.clone())
                .await?;
        }
        anyhow::Ok(())
    });
    let mut times = Vec::with_capacity(LATENCY_EVENTS);
    for _ in 0..LATENCY_EVENTS {
        let delivery = subscription.next().await?;
        let got = now()?;
        let event: serde_json::Value = delivery.event().decode()?;
        let at: u64 = event["at"].as_str().context("a time")?.parse()?;
        times.push(got.saturating_sub(Duration::from_nanos(at)));
        delivery.ack();
    }
    publish.await??;
    subscription.close().await;
    Ok(times)
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// From the end of the active instance to the first event of the next.
async fn takeover(server: &RedisServer, redis: &Redis, signal: &str) -> Result<Duration> {
    server.run::<u64>("DEL parser2:sub:takeover:lock");
    let key = keys::events(&ChainLabel::new(CHAIN)?);
    let own;
    let mut process = None;
    if signal.is_empty() {
        let mut first = start(redis, "takeover")?;
        active(&mut first).await;
        own = Some(first);
    } else {
        own = None;
        let child = Command::new(std::env::current_exe()?)
            .args(["subscriber", &server.url()])
            .stdin(Stdio::null())
            .spawn()?;
        process = Some(Process(child));
        let deadline = Instant::now() + Duration::from_secs(60);
        while server.run::<u64>("EXISTS parser2:sub:takeover:lock") == 0 {
            ensure!(
                Instant::now() < deadline,
                "the instance does not become active"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let mut standby = start(redis, "takeover")?;
    while standby.role() != Role::Standby {
        standby.changed().await;
    }
    // It works for a while first, so that its lock has some age.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let begun = Instant::now();
    if let Some(own) = own {
        own.close().await;
    }
    if let Some(process) = &process {
        let pid = process.0.id().to_string();
        let sent = Command::new("sh")
            .args(["-c", "kill -s \"$1\" \"$2\"", "sh", signal, &pid])
            .status()?;
        ensure!(sent.success(), "the signal was not sent");
    }
    let data = json!({ "kind": "action", "event_id": "t:1" }).to_string();
    redis::cmd("XADD")
        .arg(&key)
        .arg("*")
        .arg("data")
        .arg(data)
        .query_async::<()>(&mut redis.clone())
        .await?;
    let delivery = standby.next().await?;
    let took = begun.elapsed();
    delivery.ack();
    standby.close().await;
    Ok(took)
}
