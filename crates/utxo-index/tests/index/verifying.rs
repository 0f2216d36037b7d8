//! `verify` finds what a failing disk, or a defect, could do to rows.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use cairn_testkit::TestChain;
use cairn_utxo_index::verify::{Fault, VerifyReport};
use cairn_utxo_index::{Db, Index};

use crate::support::{Fixture, rows};

fn verify(fixture: &Fixture) -> Result<VerifyReport> {
    let mut heights = Vec::new();
    let report = fixture.index.verify(
        &*fixture.source,
        0..=u32::MAX,
        &AtomicBool::new(false),
        &mut |height| {
            heights.push(height);
        },
    )?;
    ensure!(heights.len() as u64 == report.blocks);
    Ok(report)
}

#[test]
fn a_sound_index_is_clean_after_a_reorganisation() -> Result<()> {
    let mut chain = TestChain::small(31, 125);
    let fixture = Fixture::with(|config| config.address_search = true)?;
    fixture.follow(chain.model())?;
    chain.fork(8, 9);
    fixture.follow(chain.model())?;
    let report = verify(&fixture)?;
    ensure!(report.is_clean(), "{:?}", report.findings);
    ensure!(report.blocks == u64::from(chain.height()) + 1);
    Ok(())
}

/// Changes one row of each kind behind the index's back, with the store's own tool.
#[test]
fn missing_different_and_surplus_rows_are_named() -> Result<()> {
    let chain = TestChain::small(32, 120);
    let families = [
        (Db::Txstore, "txs", b'T'),
        (Db::Txstore, "conf", b'C'),
        (Db::Txstore, "outs", b'O'),
        (Db::Txstore, "default", b'M'),
        (Db::History, "hist", b'H'),
        (Db::History, "edge", b'S'),
    ];
    for (db, family, tag) in families {
        let fixture = Fixture::of(chain.model())?;
        let all = rows(&fixture.index, db)?;
        let (key, value) = all
            .iter()
            .filter(|(key, _)| key[0] == tag)
            .nth(20)
            .context("enough rows")?;
        let Fixture {
            dir,
            config,
            index,
            source,
        } = fixture;
        drop(index);
        edit(&dir.path().join(db.name()), family, key, None)?;
        let surplus = {
            let mut surplus = key.clone();
            let last = surplus.len() - 1;
            surplus[last] ^= 0x55;
            surplus
        };
        edit(&dir.path().join(db.name()), family, &surplus, Some(value))?;
        let fixture = Fixture {
            dir,
            index: Index::open(config.clone())?,
            config,
            source,
        };
        let report = verify(&fixture)?;
        ensure!(
            !report.is_clean(),
            "{db} {family}: a missing row was not found"
        );
        ensure!(
            report
                .findings
                .iter()
                .any(|finding| finding.db == db && finding.fault == Fault::Missing),
            "{db} {family}: {:?}",
            report.findings
        );
        // A transaction that no block has cannot be met on the way over the blocks, nor can a block row of no block.
        if !matches!(tag, b'T' | b'M') {
            ensure!(
                report
                    .findings
                    .iter()
                    .any(|finding| finding.fault == Fault::Surplus),
                "{db} {family}: a surplus row was not found: {:?}",
                report.findings
            );
        }
    }
    Ok(())
}

fn edit(path: &Path, family: &str, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let options = rust_rocksdb::Options::default();
    let names = rust_rocksdb::DB::list_cf(&options, path)?;
    let families = names.into_iter().map(|name| {
        let mut options = rust_rocksdb::Options::default();
        let length = match name.as_str() {
            "hist" | "conf" => Some(33),
            "edge" => Some(37),
            _ => None,
        };
        if let Some(length) = length {
            options.set_prefix_extractor(rust_rocksdb::SliceTransform::create_fixed_prefix(length));
        }
        rust_rocksdb::ColumnFamilyDescriptor::new(name, options)
    });
    let db = rust_rocksdb::DB::open_cf_descriptors(&options, path, families)?;
    let handle = db.cf_handle(family).context("the family exists")?;
    match value {
        Some(value) => db.put_cf(handle, key, value)?,
        None => db.delete_cf(handle, key)?,
    }
    Ok(())
}
