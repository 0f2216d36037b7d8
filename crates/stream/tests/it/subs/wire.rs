//! The examples in Node.js and Python, which know nothing but the published keys, and Cairn's own client take over from each
//! other in the middle of a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cairn_stream::EntryId;
use tempfile::TempDir;

use super::{World, next, options};
use crate::chain::plain_ids;
use crate::{entries, event_id};

/// The life of their lock, milliseconds.
const TTL_MS: &str = "1200";
/// An event that they refuse, in block 3.
const POISON: &str = ":3001";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where the libraries of both are; fetched the first time.
fn libraries() -> (String, String) {
    let found = Command::new(root().join("scripts/wire-clients"))
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    let said = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(found.status.success(), "scripts/wire-clients: {said}");
    let mut lines = text.lines().map(str::to_owned);
    let mut line = || {
        lines
            .next()
            .unwrap_or_else(|| panic!("a folder is missing: {said}"))
    };
    (line(), line())
}

struct Client {
    child: Child,
    log: PathBuf,
    errors: PathBuf,
}

impl Client {
    fn start(world: &World, dir: &TempDir, name: &str, command: &mut Command) -> Self {
        let log = dir.path().join(format!("{name}.log"));
        let errors = dir.path().join(format!("{name}.err"));
        let child = command
            .args([&world.server.url(), world.chain.as_str(), "s"])
            .args([
                "--ttl-ms",
                TTL_MS,
                "--work-ms",
                "5",
                "--fail-ending",
                POISON,
            ])
            .stdin(Stdio::null())
            .stdout(File::create(&log).expect("a file"))
            .stderr(File::create(&errors).expect("a file"))
            .spawn()
            .expect("it starts");
        Self { child, log, errors }
    }

    fn lines(&self) -> Vec<(u64, EntryId, String)> {
        let text = std::fs::read_to_string(&self.log).expect("a log");
        text.lines()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let [epoch, entry, id] = words[..] else {
                    panic!("{line:?}")
                };
                (
                    epoch.parse().expect("a number"),
                    entry.parse().expect("an entry"),
                    id.to_owned(),
                )
            })
            .collect()
    }

    async fn until(&self, world: &World, count: usize) {
        let errors = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let what = format!("{count} lines of {}: {errors}", self.log.display());
        world.until(&what, |_| self.lines().len() >= count).await;
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
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn node_python_and_rust_take_over_from_each_other() {
    let (node_path, python_path) = libraries();
    let world = World::with_blocks("wire", 60).await;
    let dir = tempfile::tempdir().expect("a folder");
    let examples = root().join("examples");
    let mut node = Client::start(
        &world,
        &dir,
        "node",
        Command::new("node")
            .arg(examples.join("subscriber-node/subscriber.js"))
            .env("NODE_PATH", node_path),
    );
    node.until(&world, 12).await;
    node.child.kill().expect("killed");
    node.child.wait().expect("ended");
    let mut python = Client::start(
        &world,
        &dir,
        "python",
        Command::new("python3")
            .arg(examples.join("subscriber-python/subscriber.py"))
            .env("PYTHONPATH", python_path),
    );
    python.until(&world, 8).await;
    python.signal("STOP");
    // Ours takes over from the one that sleeps, and is not disturbed when that wakes up.
    let mut ours = world.start(options("s"));
    let mut handled = Vec::new();
    for count in 0..20 {
        if count == 10 {
            python.signal("CONT");
        }
        let delivery = next(&mut ours).await;
        let entry = super::entry(&delivery);
        handled.push((delivery.epoch(), entry, delivery.event().id().to_owned()));
        delivery.ack();
    }
    ours.close().await;
    world.publish(61, 70).await;
    let all = plain_ids(&world.chain, 1, 70);
    let last = all.last().expect("some").clone();
    world
        .until("Python handles the rest", |_| {
            python.lines().iter().any(|(_, _, id)| *id == last)
        })
        .await;
    world
        .until("all is acknowledged", |world| world.pending("s") == 0)
        .await;
    python.signal("TERM");
    let status = python.child.wait().expect("it ends");
    assert!(
        status.success(),
        "{}",
        std::fs::read_to_string(&python.errors).unwrap_or_default()
    );
    let lock: Option<String> = world.server.run("GET parser2:sub:s:lock");
    assert_eq!(lock, None, "the lock is given back");

    let stream: BTreeMap<EntryId, String> = entries(&world.server, &world.chain)
        .into_iter()
        .map(|(id, fields)| (id, event_id(&fields[0].1)))
        .collect();
    let mut sessions: BTreeMap<u64, Vec<EntryId>> = BTreeMap::new();
    for (epoch, entry, id) in node
        .lines()
        .into_iter()
        .chain(python.lines())
        .chain(handled)
    {
        assert_eq!(stream[&entry], id);
        sessions.entry(epoch).or_default().push(entry);
    }
    assert!(sessions.len() >= 4, "{sessions:?}");
    let mut seen = BTreeSet::new();
    for (epoch, handled) in &sessions {
        assert!(handled.is_sorted(), "session {epoch}: {handled:?}");
        seen.extend(handled.iter().map(|entry| stream[entry].as_str()));
    }
    let dead: Vec<String> = world
        .dead("s")
        .iter()
        .map(|letter| event_id(&letter["data"]))
        .collect();
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert!(dead[0].ends_with(POISON));
    let missing: Vec<&String> = all
        .iter()
        .filter(|id| !seen.contains(id.as_str()) && **id != dead[0])
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
