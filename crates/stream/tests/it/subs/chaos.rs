//! Processes that are killed and stopped, a Redis that is killed, a chain that forks: every event is handled at least once,
//! none is acknowledged that was not, order is kept, and what fails is in the dead letters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cairn_stream::{BlockEvents, ChainLabel, EntryId, Publisher, StreamError, keys};
use cairn_testkit::{RedisOptions, RedisServer, Rng};
use tempfile::TempDir;

use super::dead_at;
use crate::chain::{block, fork_block, position};
use crate::{PATIENCE, connect, entries, event_id, label, open};

/// The life of the lock in this test, milliseconds.
const TTL_MS: u64 = 1_200;
/// Instances at once.
const INSTANCES: usize = 3;
/// Things that happen.
const ROUNDS: u32 = 14;
/// Events whose ids end so always fail.
const POISON: &str = "7001";

/// The example program, which is built with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let release = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("a target folder");
    let program = release.join("examples").join("subscriber");
    assert!(
        program.is_file(),
        "{} is missing: it is built with all tests of the crate",
        program.display()
    );
    program
}

struct Instance {
    child: Child,
}

impl Instance {
    fn start(url: &str, chain: &ChainLabel, dir: &TempDir, number: usize) -> Self {
        let log = File::create(dir.path().join(format!("{number}.log"))).expect("a file");
        let errors = File::create(dir.path().join(format!("{number}.err"))).expect("a file");
        let child = Command::new(program())
            .args([url, chain.as_str(), "s", "--start", "first"])
            .args([
                "--fail-ending",
                POISON,
                "--work-ms",
                "1",
                "--ttl-ms",
                &TTL_MS.to_string(),
            ])
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("it starts");
        Self { child }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("sh")
            .args([
                "-c",
                "kill -s \"$1\" \"$2\"",
                "sh",
                name,
                &self.child.id().to_string(),
            ])
            .status()
            .expect("sh");
        assert!(sent.success());
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A chain that grows at random, forks included.
struct Producer {
    chain: ChainLabel,
    publisher: Publisher,
    rng: Rng,
    /// Branch of each block number, from 1.
    branches: Vec<u8>,
    newest_branch: u8,
}

impl Producer {
    fn next_blocks(&mut self) -> Vec<BlockEvents> {
        let mut blocks = Vec::new();
        let num = |len: usize| u32::try_from(len).expect("a short chain");
        if self.branches.len() > 10 && self.newest_branch < 200 && self.rng.chance(300) {
            let depth = 1 + self.rng.index(4);
            let keep = self.branches.len() - depth;
            let old = position(
                num(self.branches.len()),
                self.branches[self.branches.len() - 1],
            );
            let previous = position(num(keep), self.branches[keep - 1]);
            self.branches.truncate(keep);
            self.newest_branch += 1;
            self.branches.push(self.newest_branch);
            let this = position(num(keep + 1), self.newest_branch);
            let count = 1 + self.rng.below(5);
            blocks.push(fork_block(&self.chain, this, Some(previous), old, count));
        }
        for _ in 0..1 + self.rng.index(12) {
            let branch = self.branches.last().copied().unwrap_or_default();
            let previous = self
                .branches
                .last()
                .map(|branch| position(num(self.branches.len()), *branch));
            self.branches.push(branch);
            let this = position(num(self.branches.len()), branch);
            let count = self.rng.below(6);
            blocks.push(block(&self.chain, this, previous, count));
        }
        blocks
    }

    async fn publish(&mut self) {
        let blocks = self.next_blocks();
        let last = blocks.last().expect("some").position();
        while self.publisher.position() != Some(last) {
            match self.publisher.publish_patiently(&blocks, |_| {}).await {
                Ok(_) => {}
                // What a killed Redis had not written is published again.
                Err(StreamError::Moved { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test]
async fn whatever_happens_every_event_is_handled_in_order() {
    let seed = std::env::var("CAIRN_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(20_261_130);
    println!("repeat with CAIRN_SEED={seed}");
    let mut rng = Rng::new(seed);
    // Every answer of Redis is on disk before it is given: what was acknowledged stays so.
    let mut server = RedisServer::start_with(RedisOptions {
        extra_args: ["--appendfsync", "always"].map(str::to_owned).to_vec(),
        ..RedisOptions::default()
    });
    let redis = connect(&server.url()).await;
    let chain = label("chaos");
    let (publisher, _) = open(&redis, &chain).await;
    let mut producer = Producer {
        chain: chain.clone(),
        publisher,
        rng: rng.clone(),
        branches: Vec::new(),
        newest_branch: 0,
    };
    producer.publish().await;
    let dir = tempfile::tempdir().expect("a folder");
    let url = server.url();
    let mut instances: Vec<Instance> = (0..INSTANCES)
        .map(|number| Instance::start(&url, &chain, &dir, number))
        .collect();
    let mut started = INSTANCES;
    for _ in 0..ROUNDS {
        producer.publish().await;
        let at = rng.index(instances.len());
        match rng.below(8) {
            0..=3 => {
                instances[at].kill();
                instances[at] = Instance::start(&url, &chain, &dir, started);
                started += 1;
            }
            4..=5 => {
                instances[at].signal("STOP");
                producer.publish().await;
                // Longer than its lock lives: this is what the test is about, not a wait for something.
                tokio::time::sleep(Duration::from_millis(TTL_MS * 3 / 2)).await;
                instances[at].signal("CONT");
            }
            6 => {
                server.kill();
                server.restart();
            }
            _ => {}
        }
        for _ in 0..rng.below(3) {
            producer.publish().await;
        }
        tokio::time::sleep(Duration::from_millis(rng.below(600))).await;
    }
    producer.publish().await;
    wait_until_done(&server, &chain).await;
    for instance in &mut instances {
        instance.kill();
    }
    judge(&server, &chain, &dir, started);
}

async fn wait_until_done(server: &RedisServer, chain: &ChainLabel) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let groups: Vec<BTreeMap<String, redis::Value>> = redis::cmd("XINFO")
            .arg("GROUPS")
            .arg(keys::events(chain))
            .query(&mut server.connection())
            .expect("a stream");
        let number = |name: &str| {
            groups
                .first()
                .and_then(|group| redis::from_redis_value::<u64>(group.get(name)?.clone()).ok())
        };
        if number("lag") == Some(0) && number("pending") == Some(0) {
            return;
        }
        assert!(Instant::now() < deadline, "not all is handled: {groups:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Compares what the processes printed with the stream.
fn judge(server: &RedisServer, chain: &ChainLabel, dir: &TempDir, started: usize) {
    let stream: Vec<(EntryId, String)> = entries(server, chain)
        .into_iter()
        .map(|(id, fields)| (id, event_id(&fields[0].1)))
        .collect();
    assert!(stream.len() > 50, "{}", stream.len());
    let by_entry: BTreeMap<EntryId, &String> =
        stream.iter().map(|(entry, id)| (*entry, id)).collect();
    let dead: BTreeMap<EntryId, String> = dead_at(server, chain, "s")
        .into_iter()
        .map(|fields| {
            let entry: EntryId = fields["entryId"].parse().expect("an id");
            assert_eq!(
                &event_id(&fields["data"]),
                by_entry[&entry],
                "the event as it was"
            );
            assert!(
                fields["lastError"] == "refused, as asked"
                    || fields["lastError"].contains("process ended"),
                "{fields:?}"
            );
            (entry, fields["lastError"].clone())
        })
        .collect();
    // What each session handled, in its order. A session is one process's.
    let mut sessions: BTreeMap<u64, Vec<EntryId>> = BTreeMap::new();
    for number in 0..started {
        let log = fs::read_to_string(dir.path().join(format!("{number}.log"))).expect("a log");
        let mut own: BTreeMap<u64, Vec<EntryId>> = BTreeMap::new();
        for line in log.lines() {
            let mut words = line.split(' ');
            let mut word = || words.next().expect("a session, an entry and an id");
            let epoch: u64 = word().parse().expect("a number");
            let entry: EntryId = word().parse().expect("an entry");
            assert_eq!(
                word(),
                by_entry[&entry],
                "an event has the same id in every life"
            );
            own.entry(epoch).or_default().push(entry);
        }
        for (epoch, entries) in own {
            assert!(
                sessions.insert(epoch, entries).is_none(),
                "two processes with the number {epoch}"
            );
        }
    }
    assert!(sessions.len() > 3, "{} sessions", sessions.len());
    let mut handled: BTreeSet<EntryId> = BTreeSet::new();
    for (epoch, entries) in &sessions {
        for pair in entries.windows(2) {
            assert!(
                pair[0] < pair[1],
                "session {epoch} handled {} after {}",
                pair[1],
                pair[0]
            );
        }
        for entry in entries {
            handled.insert(*entry);
        }
        // Nothing older than what was handled last may still be waiting.
        if let Some(last) = entries.last() {
            for (before, id) in stream.iter().take_while(|(before, _)| before < last) {
                assert!(
                    handled.contains(before) || dead.contains_key(before),
                    "session {epoch} handled {last} before {before} ({id})"
                );
            }
        }
    }
    for (entry, id) in &stream {
        let is_poison = id.ends_with(POISON);
        assert!(
            handled.contains(entry) != is_poison || (dead.contains_key(entry) && !is_poison),
            "{id} at {entry}: handled {}, dead {:?}",
            handled.contains(entry),
            dead.get(entry)
        );
        if is_poison {
            assert!(
                dead.contains_key(entry),
                "{id} is missing in the dead letters"
            );
        }
    }
    assert!(dead.len() < stream.len() / 4, "most are handled");
}
