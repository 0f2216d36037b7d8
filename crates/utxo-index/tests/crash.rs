//! `kill -9` at random moments of the first load, of following and of reorganisations: whatever the moment, the next
//! start goes on, and the rows at the end are those of a run that nobody disturbed.
//!
//! The test starts itself as a child process, which walks a fixed list of chain states and brings the index to each. The
//! parent kills it after a random delay and starts it again until the child has come to the end; then it compares every
//! row with the model.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bitcoin::Network;
use cairn_testkit::{Database, MemorySource, Model, Rng, RowOptions, TestChain};
use cairn_utxo_index::{Db, Index, IndexConfig};

/// Tells the child where to work; without it the child's test does nothing.
const DIR_VARIABLE: &str = "CAIRN_CRASH_TEST_DIR";
/// Which variation of the plan.
const SEED_VARIABLE: &str = "CAIRN_CRASH_TEST_SEED";
/// How many kills one run of the test must have seen, over all its rounds.
const KILLS_MIN: u32 = 40;
/// The child's line that says: from now on a kill hits the index.
const READY: &str = "crash-test-child-ready";
/// Longest a child may take when it is not killed.
const CHILD_TIME_MAX: Duration = Duration::from_secs(120);

/// The states of the chain, in order: first load, growth, short and long reorganisations, a chain that only gets
/// shorter, and one that comes back to an earlier branch.
fn states(seed: u64) -> Vec<Model> {
    let mut chain = TestChain::small(seed, 130);
    let mut states = vec![chain.model().clone()];
    let mut step = |chain: &TestChain| states.push(chain.model().clone());
    chain.grow(15);
    step(&chain);
    chain.fork(6, 9);
    step(&chain);
    let orphaned = chain.rewind(10);
    step(&chain);
    chain.grow(4);
    step(&chain);
    chain.rewind(4);
    chain.connect(&orphaned);
    step(&chain);
    chain.fork(40, 45);
    step(&chain);
    states
}

fn config(dir: &Path, seed: u64) -> IndexConfig {
    let mut config = IndexConfig::new(dir.join("index"), Network::Regtest);
    config.memory_bytes = 16 << 20;
    config.threads = 2;
    // Half of the rounds load through the bulk path, with small parts and resume points, half block by block.
    config.bulk = seed.is_multiple_of(2);
    config.load.partition_bytes = 32 << 10;
    config.load.checkpoint_bytes = 96 << 10;
    config.load.unit_bytes = 32 << 10;
    config.load.buffer_bytes = 4 << 20;
    config
}

/// Not a test of its own: the body of the child process.
#[test]
fn child() -> Result<()> {
    let Some(dir) = std::env::var_os(DIR_VARIABLE).map(PathBuf::from) else {
        return Ok(());
    };
    let seed: u64 = std::env::var(SEED_VARIABLE)?.parse()?;
    let states = states(seed);
    let done_file = dir.join("states-done");
    let done: usize = fs::read_to_string(&done_file)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    println!("{READY}");
    let index = Index::open(config(&dir, seed))?;
    let source = MemorySource::default();
    // A node keeps blocks of earlier branches.
    states.iter().for_each(|state| source.follow(state));
    for (number, state) in states.iter().enumerate().skip(done) {
        source.follow(state);
        let outcome = index.sync(&source, None, &AtomicBool::new(false))?;
        ensure!(outcome.tip.hash == state.tip().hash);
        // Written aside and renamed: a kill here must not make the number unreadable.
        let next = dir.join("states-done.next");
        fs::write(&next, (number + 1).to_string())?;
        fs::rename(next, &done_file)?;
    }
    Ok(())
}

/// Starts the child and waits until it touches the index.
fn start(dir: &Path, seed: u64) -> Result<Child> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR_VARIABLE, dir)
        .env(SEED_VARIABLE, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().context("piped")?;
    let mut lines = BufReader::new(out);
    let mut line = String::new();
    while !line.contains(READY) {
        line.clear();
        ensure!(
            lines.read_line(&mut line)? > 0,
            "the child ended before it was ready"
        );
    }
    child.stdout = Some(lines.into_inner());
    Ok(child)
}

/// Waits for the child's end; `None` when it still runs after `time`.
fn wait(child: &mut Child, time: Duration) -> Result<Option<bool>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if started.elapsed() >= time {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn explain(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // What the child said is only for the message; a failure to read it adds nothing.
        let _ = stderr.read_to_string(&mut text);
    }
    text
}

/// One whole plan under random kills. Returns how many kills it took.
fn round(seed: u64, rng: &mut Rng) -> Result<u32> {
    let dir = tempfile::tempdir()?;
    let undisturbed = {
        let dir = tempfile::tempdir()?;
        let mut child = start(dir.path(), seed)?;
        let started = Instant::now();
        let ended = wait(&mut child, CHILD_TIME_MAX)?;
        ensure!(
            ended == Some(true),
            "undisturbed, the plan succeeds: {}",
            explain(&mut child)
        );
        started.elapsed()
    };
    let mut kills = 0;
    loop {
        let mut child = start(dir.path(), seed)?;
        // Less than the whole plan, so that it takes several runs; each goes on where the last one got to.
        let microseconds = undisturbed.as_micros() as u64 * 3 / 4;
        let delay = Duration::from_micros(rng.below(microseconds.max(1)));
        match wait(&mut child, delay)? {
            Some(true) => break,
            Some(false) => {
                anyhow::bail!("seed {seed}, after {kills} kills: {}", explain(&mut child))
            }
            None => {
                child.kill()?;
                child.wait()?;
                kills += 1;
            }
        }
        ensure!(kills < 500, "the plan does not come to its end");
    }
    let states = states(seed);
    let last = states.last().context("there are states")?;
    let index = Index::open(config(dir.path(), seed))?;
    check(&index, last)?;
    Ok(kills)
}

/// Every row is the model's, and there is no other.
fn check(index: &Index, model: &Model) -> Result<()> {
    let expected = model.rows(RowOptions {
        stale_blocks: true,
        ..RowOptions::default()
    });
    for (db, database) in [
        (Db::Txstore, Database::Txstore),
        (Db::History, Database::History),
    ] {
        let mut text = Vec::new();
        index.dump_rows(db, &mut text)?;
        let found: Vec<String> = String::from_utf8(text)?
            .lines()
            .filter(|line| !line.starts_with("56 ") && !line.starts_with("46 "))
            .map(str::to_owned)
            .collect();
        use bitcoin::hex::DisplayHex;
        let wanted: Vec<String> = expected
            .iter()
            .filter(|((of, _), _)| *of == database)
            .map(|((_, key), value)| format!("{} {}", key.as_hex(), value.as_hex()))
            .collect();
        ensure!(
            found.len() == wanted.len(),
            "{} rows in {db} instead of {}",
            found.len(),
            wanted.len()
        );
        for (found, wanted) in found.iter().zip(&wanted) {
            ensure!(found == wanted, "{db}: {found} instead of {wanted}");
        }
    }
    Ok(())
}

#[test]
fn rows_after_kills_are_those_of_an_undisturbed_run() -> Result<()> {
    let mut rng = Rng::new(0xc4a5);
    let mut kills = 0;
    let mut seed = 100;
    while kills < KILLS_MIN || seed < 104 {
        kills += round(seed, &mut rng).with_context(|| format!("seed {seed}"))?;
        seed += 1;
        ensure!(
            seed < 160,
            "{kills} kills only: the delays do not hit the child"
        );
    }
    Ok(())
}
