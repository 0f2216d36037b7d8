//! An index on a chain in memory, and comparing its rows with the model's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use bitcoin::Network;
use bitcoin::hex::{DisplayHex, FromHex};
use cairn_testkit::{Database, MemorySource, Model, RowOptions};
use cairn_utxo_index::{Db, Index, IndexConfig, SyncOutcome, View};
use tempfile::TempDir;

/// Memory for a test's index: the smallest that the engine takes.
const MEMORY_BYTES: u64 = 16 << 20;

/// An index in a folder of its own, with the source it follows.
pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) config: IndexConfig,
    pub(crate) index: Arc<Index>,
    pub(crate) source: Arc<MemorySource>,
}

impl Fixture {
    /// An empty index with the default options.
    pub(crate) fn new() -> Result<Self> {
        Self::with(|_| ())
    }

    /// An empty index whose options `change` sets.
    pub(crate) fn with(change: impl FnOnce(&mut IndexConfig)) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut config = config(dir.path());
        change(&mut config);
        let source = Arc::new(MemorySource::default());
        let index = Index::open(config.clone())?;
        index.set_body_source(source.clone());
        Ok(Self {
            dir,
            config,
            index,
            source,
        })
    }

    /// An index of the model's chain.
    pub(crate) fn of(model: &Model) -> Result<Self> {
        let fixture = Self::new()?;
        fixture.follow(model)?;
        Ok(fixture)
    }

    /// Moves the source to the model's chain and brings the index there.
    pub(crate) fn follow(&self, model: &Model) -> Result<SyncOutcome> {
        self.source.follow(model);
        let outcome = self
            .index
            .sync(&*self.source, None, &AtomicBool::new(false))?;
        ensure!(
            outcome.tip.hash == model.tip().hash,
            "the tip reached is the model's"
        );
        Ok(outcome)
    }

    /// The newest view.
    pub(crate) fn view(&self) -> Result<Arc<View>> {
        self.index.view().context("the first load is complete")
    }

    /// Closes the index and opens it again.
    pub(crate) fn reopen(self) -> Result<Self> {
        let Self {
            dir,
            config,
            index,
            source,
        } = self;
        ensure!(
            Arc::strong_count(&index) == 1,
            "nobody else holds the index"
        );
        drop(index);
        let index = Index::open(config.clone())?;
        index.set_body_source(source.clone());
        Ok(Self {
            dir,
            config,
            index,
            source,
        })
    }

    /// Fails unless the rows are exactly those that the model says.
    pub(crate) fn check_rows(&self, model: &Model, stale_blocks: bool) -> Result<()> {
        let options = RowOptions {
            light_mode: self.config.light_mode,
            address_search: self.config.address_search,
            index_unspendables: self.config.index_unspendables,
            stale_blocks,
        };
        check_rows(&self.index, model, options)
    }
}

/// Options that suit a small test.
pub(crate) fn config(dir: &Path) -> IndexConfig {
    let mut config = IndexConfig::new(dir, Network::Regtest);
    config.memory_bytes = MEMORY_BYTES;
    config.threads = 2;
    config.load.partition_bytes = 64 << 10;
    config.load.unit_bytes = 256 << 10;
    config.load.buffer_bytes = 8 << 20;
    config
}

/// All rows of a database, by key.
pub(crate) fn rows(index: &Index, db: Db) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut text = Vec::new();
    index.dump_rows(db, &mut text)?;
    let mut rows = BTreeMap::new();
    let mut last: Option<Vec<u8>> = None;
    for line in String::from_utf8(text)?.lines() {
        let (key, value) = line.split_once(' ').context("a line is key and value")?;
        let (key, value) = (Vec::from_hex(key)?, Vec::from_hex(value)?);
        ensure!(last.is_none_or(|last| last < key), "a dump is in key order");
        last = Some(key.clone());
        rows.insert(key, value);
    }
    Ok(rows)
}

/// Fails unless `txstore` and `history` hold exactly the model's rows, `V` and `F` apart.
pub(crate) fn check_rows(index: &Index, model: &Model, options: RowOptions) -> Result<()> {
    let expected = model.rows(options);
    for (db, database) in [
        (Db::Txstore, Database::Txstore),
        (Db::History, Database::History),
    ] {
        let mut found = rows(index, db)?;
        ensure!(
            found.remove(b"V".as_slice()).is_some(),
            "{db} has a version row"
        );
        found.remove(b"F".as_slice());
        for ((of, key), value) in &expected {
            if *of != database {
                continue;
            }
            match found.remove(key) {
                None => bail!("missing in {db}: {}", key.as_hex()),
                Some(found) if found != *value => {
                    bail!(
                        "{db} {}: {} instead of {}",
                        key.as_hex(),
                        found.as_hex(),
                        value.as_hex()
                    )
                }
                Some(_) => {}
            }
        }
        // An address stays when the block that paid it leaves the chain.
        found.retain(|key, _| !(options.stale_blocks && key[0] == b'a'));
        if let Some((key, _)) = found.first_key_value() {
            bail!(
                "{} surplus rows in {db}, the first is {}",
                found.len(),
                key.as_hex()
            );
        }
    }
    Ok(())
}
