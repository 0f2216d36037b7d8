//! A chain of a real Elements node: rows and answers against the node's own words, across reorganisations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use bitcoin::hex::DisplayHex;
use cairn_testkit::elements::{
    RecordedBlock, asset_totals, elements_chain, moved_branch, recorded_blocks, recorded_rows,
    supply_txs,
};
use cairn_testkit::{Database, MemorySource, Rng, Rows};
use cairn_utxo_index::{
    AssetId, AssetStats, Db, Family, Index, IndexConfig, Network, Supply, TxRecord, View,
};
use proptest::prelude::*;

use crate::support;

type Chain = Vec<Arc<RecordedBlock>>;

struct World {
    _dir: tempfile::TempDir,
    index: Arc<Index>,
    source: MemorySource,
}

fn network() -> Network {
    Network::Elements(elements_chain())
}

fn native() -> String {
    elements_chain().native_asset.to_string()
}

impl World {
    /// An empty index; `change` sets its options.
    fn new(change: impl FnOnce(&mut IndexConfig)) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut config = support::config(&dir.path().join("index"));
        config.network = network();
        change(&mut config);
        Ok(Self {
            index: Index::open(config)?,
            source: MemorySource::default(),
            _dir: dir,
        })
    }

    fn follow(&self, chain: &[Arc<RecordedBlock>]) -> Result<()> {
        let blocks = chain.iter().map(|block| block.raw.as_slice());
        self.source.follow_raw(Family::Elements, blocks);
        self.index
            .sync(&self.source, None, &AtomicBool::new(false))?;
        Ok(())
    }

    fn view(&self) -> Result<Arc<View>> {
        self.index.view().context("a view")
    }

    fn check_rows(&self, expected: &Rows) -> Result<()> {
        for (db, database) in [
            (Db::Txstore, Database::Txstore),
            (Db::History, Database::History),
        ] {
            let mut found = support::rows(&self.index, db)?;
            found.retain(|key, _| !matches!(key[0], b'V' | b'F' | b'B'));
            for ((of, key), value) in expected.iter().filter(|((of, _), _)| *of == database) {
                match found.remove(key) {
                    Some(found) if found == *value => {}
                    Some(found) => bail!(
                        "{db} {}: {} instead of {}",
                        key.as_hex(),
                        found.as_hex(),
                        value.as_hex()
                    ),
                    None => bail!("missing in {of:?}: {}", key.as_hex()),
                }
            }
            if let Some((key, _)) = found.first_key_value() {
                bail!("{} surplus rows in {db}, as {}", found.len(), key.as_hex());
            }
        }
        Ok(())
    }

    fn is_clean(&self) -> Result<()> {
        let tip = self.view()?.tip().height;
        let report =
            self.index
                .verify(&self.source, 0..=tip, &AtomicBool::new(false), &mut |_| {})?;
        ensure!(report.is_clean(), "{:?}", report.findings);
        Ok(())
    }
}

fn asset_ids(chain: &[Arc<RecordedBlock>]) -> Vec<(String, AssetId)> {
    asset_totals(chain, &native())
        .into_keys()
        .map(|id| {
            let asset = id.parse().expect("a printed id");
            (id, asset)
        })
        .collect()
}

/// Totals and lists of every asset are those of the model.
fn check_assets(view: &View, chain: &[Arc<RecordedBlock>]) -> Result<()> {
    let totals = asset_totals(chain, &native());
    for (id, asset) in asset_ids(chain) {
        let expected = &totals[&id];
        let context = || format!("asset {id}");
        match view.asset_stats(&asset)? {
            AssetStats::Issued(found) => {
                ensure!(id != native(), context());
                ensure!(found.tx_count == expected.txs.len() as u64, context());
                ensure!(
                    (found.issuance_count, found.issued_amount) == expected.issued,
                    "{}: {found:?}, {expected:?}",
                    context()
                );
                ensure!(found.burned_amount == expected.burned.1, context());
                ensure!(found.has_blinded_issuances == expected.blinded, context());
                let supply = match expected.blinded {
                    true => Supply::Blinded,
                    false => Supply::Known(expected.issued.1 - expected.burned.1),
                };
                ensure!(view.supply(&asset)? == supply, context());
            }
            AssetStats::Native(found) => {
                ensure!(id == native(), context());
                ensure!(found.tx_count == expected.txs.len() as u64);
                ensure!((found.peg_in_count, found.peg_in_amount) == expected.pegged_in);
                ensure!((found.peg_out_count, found.peg_out_amount) == expected.pegged_out);
                ensure!((found.burn_count, found.burned_amount) == expected.burned);
                let made = 2_100_000_000_000_000 + expected.pegged_in.1;
                let gone = expected.pegged_out.1 + expected.burned.1;
                ensure!(view.supply(&asset)? == Supply::Known(made - gone));
            }
        }
        // The supply's list, and all pages of it one by one.
        let wanted = supply_txs(chain, &native(), &id);
        ensure!(view.supply_tx_count(&asset)? == wanted.len() as u64);
        let mut walked = Vec::new();
        while let Some((txid, _)) = view
            .asset_history(&asset, false, walked.last(), 1)?
            .first()
            .copied()
        {
            walked.push(txid);
        }
        let walked: Vec<String> = walked.iter().map(ToString::to_string).collect();
        ensure!(walked == wanted, context());
        let all = view.asset_history(&asset, true, None, usize::MAX)?;
        let all: BTreeSet<String> = all.iter().map(|(txid, _)| txid.to_string()).collect();
        ensure!(all == expected.txs, context());
    }
    Ok(())
}

/// Every block and transaction is told as the node tells it.
fn check_records(view: &View, chain: &[Arc<RecordedBlock>]) -> Result<()> {
    for block in chain {
        let summary = view.block(&block.hash)?.context("a block")?;
        ensure!(summary.height == block.height && summary.in_best_chain);
        ensure!((summary.weight, summary.size) == (block.weight, block.size));
        ensure!(view.block_raw(&block.hash)?.as_ref() == Some(&block.raw));
        let header = view.header_bytes(&block.hash)?.context("a header")?;
        ensure!(block.raw.starts_with(&header));
        ensure!(view.header_bytes_at(block.height)? == Some(header));
        let records = view
            .block_txs(&block.hash, 0, usize::MAX)?
            .context("transactions")?;
        ensure!(records.len() == block.txs.len());
        for (record, tx) in records.iter().zip(&block.txs) {
            check_record(record, &tx.0).with_context(|| format!("transaction {}", tx.txid()))?;
            ensure!(view.tx_raw(&record.txid)? == Some(tx.raw()));
        }
    }
    Ok(())
}

fn check_record(record: &TxRecord, told: &serde_json::Value) -> Result<()> {
    ensure!(record.txid.to_string() == told["txid"].as_str().context("id")?);
    if let Some(size) = told["size"].as_u64() {
        ensure!(u64::from(record.size) == size);
        ensure!(told["weight"] == record.weight);
    }
    let fees = told["fee"].as_object();
    let fee: f64 = fees.map_or(0.0, |fees| {
        fees.values().filter_map(serde_json::Value::as_f64).sum()
    });
    ensure!(record.fee == (fee * 1e8).round() as u64, "fee {fee}");
    let inputs = told["vin"].as_array().context("inputs")?;
    for (vin, input) in inputs.iter().enumerate() {
        let spends = input["txid"].is_string() && input["is_pegin"] != true;
        let in_genesis = record.block.is_some_and(|block| block.height == 0);
        ensure!(record.prevouts[vin].is_some() == (spends && !in_genesis));
    }
    for (vout, output) in told["vout"]
        .as_array()
        .context("outputs")?
        .iter()
        .enumerate()
    {
        let amount = output["value"]
            .as_f64()
            .map(|amount| (amount * 1e8).round() as u64);
        ensure!(record.tx.value(vout) == amount);
    }
    Ok(())
}

#[test]
fn both_ways_write_the_rows_that_the_node_tells() -> Result<()> {
    let chain = recorded_blocks();
    let expected = recorded_rows(&chain, &[], &native());
    for bulk in [true, false] {
        let world = World::new(|config| config.bulk = bulk)?;
        world.follow(&chain)?;
        world
            .check_rows(&expected)
            .with_context(|| format!("bulk {bulk}"))?;
        world.is_clean()?;
        let view = world.view()?;
        check_records(&view, &chain)?;
        check_assets(&view, &chain)?;
    }
    Ok(())
}

#[test]
fn issuances_are_those_of_the_nodes_wallet() -> Result<()> {
    let world = World::new(|_| {})?;
    world.follow(&recorded_blocks())?;
    let view = world.view()?;
    let facts = cairn_testkit::elements::elements_facts();
    for issuance in facts["issuances"].as_array().context("issuances")? {
        let asset: AssetId = issuance["asset"].as_str().context("an id")?.parse()?;
        if issuance["asset"] == native() {
            ensure!(
                view.asset(&asset)?.is_none(),
                "nobody issued the native asset"
            );
            continue;
        }
        if issuance["isreissuance"] == true {
            continue;
        }
        let found = view.asset(&asset)?.context("issued")?;
        ensure!(issuance["txid"] == found.txid.to_string() && issuance["vin"] == found.vin);
        ensure!(issuance["token"] == found.token.to_string());
        ensure!(found.block.is_some() && found.contract_hash.is_none());
    }
    Ok(())
}

#[test]
fn light_mode_gives_the_same_answers() -> Result<()> {
    let chain = recorded_blocks();
    let world = World::new(|config| config.light_mode = true)?;
    world.follow(&chain)?;
    let view = world.view()?;
    let index = Arc::clone(&world.index);
    let source = MemorySource::default();
    let blocks = chain.iter().map(|block| block.raw.as_slice());
    source.follow_raw(Family::Elements, blocks);
    index.set_body_source(Arc::new(source));
    check_records(&view, &chain)?;
    check_assets(&view, &chain)
}

#[test]
fn addresses_found_are_plain_ones() -> Result<()> {
    let world = World::new(|config| config.address_search = true)?;
    world.follow(&recorded_blocks())?;
    let view = world.view()?;
    let found = view.addresses("ERT1", 10)?;
    ensure!(found.len() == 10 && found.is_sorted());
    for address in &found {
        let script = cairn_utxo_chain::address::script_of(address, network())?;
        let hash = cairn_utxo_index::ScriptHash::of(script.as_bytes());
        let stats = view.stats(&hash)?;
        ensure!(stats.funded_txo_count > 0 && stats.funded_txo_sum == 0);
    }
    Ok(())
}

#[test]
fn another_chains_index_is_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut config = support::config(dir.path());
    config.network = network();
    drop(Index::open(config.clone())?);
    config.network = bitcoin::Network::Regtest.into();
    let error = Index::open(config).err().context("another chain")?;
    ensure!(error.to_string().contains("genesis block"), "{error}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// Whatever branches come and go, rows and totals are those of an index that saw the last one alone.
    #[test]
    fn reorganisations_leave_the_rows_of_the_last_branch(
        seed: u64,
        forks in prop::collection::vec((100usize..134, 1usize..4, 0usize..4), 1..4),
        bulk: bool,
    ) {
        let run = || -> Result<()> {
            let mut rng = Rng::new(seed);
            let world = World::new(|config| config.bulk = bulk)?;
            let mut chain: Chain = recorded_blocks();
            world.follow(&chain)?;
            let mut stale: Chain = Vec::new();
            for (salt, (fork, more, delay)) in (1..).zip(forks.iter().copied()) {
                let fork = fork.min(chain.len() - 1);
                let next = moved_branch(&chain, fork, more, salt, || rng.below(delay as u64 + 1) as usize);
                stale.extend_from_slice(&chain[fork..]);
                chain = next;
                world.follow(&chain)?;
                world.check_rows(&recorded_rows(&chain, &stale, &native()))?;
                check_assets(&*world.view()?, &chain)?;
            }
            check_records(&*world.view()?, &chain)?;
            world.is_clean()
        };
        run().map_err(|error| TestCaseError::fail(format!("{error:#}")))?;
    }
}
