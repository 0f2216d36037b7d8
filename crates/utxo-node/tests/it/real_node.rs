//! The sources over a real node: every way gives the same bytes, and its changes of mind are followed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bitcoin::consensus::encode::serialize;
use bitcoin::{BlockHash, Network, ScriptBuf};
use cairn_testkit::{Bitcoind, NodeOptions};
use cairn_utxo_node::{ChainSource, OpenedSource, SourceConfig, SourceError, Tip, open_source};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::common::{all_blocks, all_headers};

/// Enough that headers are read by height, and that files are worth a scan.
const BLOCKS: u32 = 620;

struct Harness {
    node: Bitcoind,
    runtime: Runtime,
}

impl Harness {
    fn start(options: NodeOptions) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        Ok(Self {
            node: Bitcoind::start_with(options)?,
            runtime,
        })
    }

    fn config(&self) -> SourceConfig {
        SourceConfig {
            rpc_url: self.node.url(),
            rpc_cookie_file: Some(self.node.cookie_file()),
            ..SourceConfig::new(Network::Regtest)
        }
    }

    fn open(&self, config: &SourceConfig) -> Result<OpenedSource> {
        Ok(open_source(
            config,
            self.runtime.handle().clone(),
            CancellationToken::new(),
        )?)
    }

    fn source(&self) -> Result<Arc<dyn ChainSource>> {
        Ok(self.open(&self.config())?.source)
    }

    fn tip(&self) -> Result<Tip> {
        Ok(Tip {
            hash: self.node.best_hash()?,
            height: self.node.height()?,
        })
    }
}

/// Asks until the source answers as wanted; a node needs a moment to start or to turn.
fn until_tip(source: &dyn ChainSource, wanted: Tip) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let seen = source.tip();
        match &seen {
            Ok(tip) if *tip == wanted => return Ok(()),
            Err(error) if !error.is_transient() => bail!("{error}"),
            _ if Instant::now() > end => bail!("the tip is {seen:?}, expected {wanted:?}"),
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[test]
fn every_way_gives_the_same_bytes() -> Result<()> {
    for xor in [false, true] {
        let harness = Harness::start(NodeOptions {
            blocks_xor: xor,
            rest: true,
            ..NodeOptions::default()
        })?;
        harness.node.mine(BLOCKS)?;
        let tip = harness.tip()?;
        let key = std::fs::read(harness.node.blocks_dir().join("xor.dat")).unwrap_or_default();
        assert_eq!(
            key.iter().any(|byte| *byte != 0),
            xor,
            "the node obfuscates its files as told"
        );

        let over_rest = harness.source()?;
        let over_files = harness.open(&SourceConfig {
            node_dir: Some(harness.node.data_dir().to_owned()),
            ..harness.config()
        })?;
        let files_alone = harness.open(&SourceConfig {
            blocks_dir: Some(harness.node.blocks_dir()),
            ..SourceConfig::new(Network::Regtest)
        })?;
        assert!(files_alone.node.is_none());

        let headers = all_headers(&*over_rest)?;
        assert_eq!(headers.len() as u32, BLOCKS + 1);
        let blocks = all_blocks(&*over_rest, 100_000)?;
        for (height, bytes) in blocks.iter().enumerate() {
            if height % 100 == 0 {
                let block = harness.node.block(&harness.node.hash_at(height as u32)?)?;
                assert_eq!(
                    *bytes,
                    serialize(&block),
                    "the node's own block at {height}"
                );
            }
        }
        for source in [over_files.source, files_alone.source] {
            assert_eq!(source.tip()?, tip);
            assert!(all_headers(&*source)? == headers, "{}", source.describe());
            assert!(
                all_blocks(&*source, 100_000)? == blocks,
                "{}",
                source.describe()
            );
        }
    }
    Ok(())
}

#[test]
fn rpc_alone_and_a_user_with_a_password() -> Result<()> {
    let user = (
        "alice".to_owned(),
        "correct horse: battery/staple".to_owned(),
    );
    let harness = Harness::start(NodeOptions {
        user_password: Some(user.clone()),
        ..NodeOptions::default()
    })?;
    harness.node.mine(30)?;
    let config = SourceConfig {
        rpc_cookie_file: None,
        rpc_user: user.0,
        rpc_password: Some(user.1.into()),
        ..harness.config()
    };
    let opened = harness.open(&config)?;
    let blocks = all_blocks(&*opened.source, 1_000_000)?;
    assert_eq!(blocks.len(), 31);
    let tip = opened.source.tip()?;
    assert_eq!(opened.source.block(&tip.hash)?, blocks[30]);
    let block = harness.node.block(&tip.hash)?;
    let coinbase = &block.txdata[0];
    let txid = coinbase.compute_txid();
    assert_eq!(
        opened.source.transaction(&txid, &tip.hash)?,
        serialize(coinbase)
    );
    let elsewhere = opened.source.transaction(&txid, &harness.node.hash_at(3)?);
    assert!(
        matches!(elsewhere, Err(SourceError::Missing(_))),
        "{elsewhere:?}"
    );
    assert!(matches!(
        opened.source.block(&txid_as_hash(&txid)),
        Err(SourceError::Missing(_))
    ));

    let wrong = SourceConfig {
        rpc_password: Some("wrong".to_owned().into()),
        ..config
    };
    let refused = harness.open(&wrong)?.source.tip();
    assert!(
        matches!(refused, Err(SourceError::Refused(text)) if text.contains("authentication refused"))
    );
    Ok(())
}

fn txid_as_hash(txid: &bitcoin::Txid) -> BlockHash {
    use bitcoin::hashes::Hash;
    BlockHash::from_byte_array(txid.to_byte_array())
}

/// The sixth case of the specification's twelve, and a switch to another branch.
#[test]
fn invalidated_blocks_and_branches() -> Result<()> {
    let harness = Harness::start(NodeOptions::default())?;
    harness.node.mine(120)?;
    let source = harness.source()?;
    let mut known: Vec<BlockHash> = all_headers(&*source)?
        .iter()
        .map(|header| header.block_hash())
        .collect();
    let height_of = |known: &[BlockHash], hash: &BlockHash| {
        known
            .iter()
            .position(|known| known == hash)
            .map(|height| height as u32)
    };
    harness.node.invalidate(&known[100])?;
    until_tip(
        &*source,
        Tip {
            hash: known[99],
            height: 99,
        },
    )?;
    let run = source.headers(&|hash| height_of(&known, hash), None)?;
    assert_eq!((run.start_height, run.headers.len()), (100, 0));

    // Paid to another script: the same blocks again would be invalid again.
    harness
        .node
        .mine_to(&ScriptBuf::from_bytes(vec![0x52]), 3)?;
    until_tip(&*source, harness.tip()?)?;
    let run = source.headers(&|hash| height_of(&known, hash), None)?;
    assert_eq!((run.start_height, run.headers.len()), (100, 3));
    assert_eq!(run.headers[0].prev_blockhash, known[99]);

    // The blocks that were left behind are still there.
    let stale = source.block(&known[110])?;
    harness.node.reconsider(&known[100])?;
    until_tip(
        &*source,
        Tip {
            hash: known[120],
            height: 120,
        },
    )?;
    assert_eq!(source.block(&known[110])?, stale);
    known.truncate(50);
    let run = source.headers(&|hash| height_of(&known, hash), Some(60))?;
    assert_eq!((run.start_height, run.headers.len()), (50, 11));
    Ok(())
}

#[test]
fn a_node_that_restarts_in_the_middle() -> Result<()> {
    let mut harness = Harness::start(NodeOptions {
        rest: true,
        ..NodeOptions::default()
    })?;
    harness.node.mine(150)?;
    let source = harness.source()?;
    let wanted: Vec<BlockHash> = all_headers(&*source)?
        .iter()
        .map(|header| header.block_hash())
        .collect();
    let units = source.plan(&wanted, 1)?;
    let (first, second) = units.split_at(units.len() / 2);
    let mut found: HashSet<BlockHash> = HashSet::new();
    for unit in first {
        found.extend(source.read(unit)?.blocks.iter().map(|(hash, _)| *hash));
    }
    let cookie = std::fs::read(harness.node.cookie_file())?;
    harness.node.stop()?;
    let error = source.read(&second[0]).err().context("nobody answers")?;
    assert!(error.is_transient(), "{error}");
    harness.node.restart()?;
    assert_ne!(
        std::fs::read(harness.node.cookie_file())?,
        cookie,
        "a new cookie"
    );
    for unit in second {
        let raw = loop {
            match source.read(unit) {
                Err(error) if error.is_transient() => std::thread::sleep(Duration::from_millis(50)),
                result => break result?,
            }
        };
        found.extend(raw.blocks.iter().map(|(hash, _)| *hash));
    }
    assert_eq!(found.len(), 151);
    Ok(())
}

#[test]
fn a_pruned_node_is_refused_only_for_what_it_lacks() -> Result<()> {
    let harness = Harness::start(NodeOptions {
        prune: true,
        // Small files, so that there is something to prune in a short chain.
        extra_args: vec!["-fastprune".to_owned()],
        ..NodeOptions::default()
    })?;
    harness.node.mine(1000)?;
    harness.node.rpc("pruneblockchain", json!([500]))?;
    let info = harness.node.rpc("getblockchaininfo", json!([]))?;
    let lowest = info["pruneheight"]
        .as_u64()
        .context("the node has pruned")? as usize;
    assert!(lowest > 100, "pruned up to {lowest}");
    let source = harness.source()?;
    let wanted: Vec<BlockHash> = all_headers(&*source)?
        .iter()
        .map(|header| header.block_hash())
        .collect();
    match source.plan(&wanted, 1_000_000) {
        Err(SourceError::Refused(text)) => {
            assert!(text.contains(&format!("from height {lowest} on")), "{text}")
        }
        other => bail!("{other:?}"),
    }
    assert!(
        matches!(source.block(&wanted[1]), Err(SourceError::Refused(text)) if text.contains("pruned"))
    );
    let mut count = 0;
    for unit in source.plan(&wanted[lowest..], 1_000_000)? {
        count += source.read(&unit)?.blocks.len();
    }
    assert_eq!(count, wanted.len() - lowest);
    Ok(())
}

#[test]
fn new_blocks_end_a_wait_at_once() -> Result<()> {
    let harness = Harness::start(NodeOptions::default())?;
    harness.node.mine(5)?;
    let source = harness.source()?;
    let tip = source.tip()?;
    let began = Instant::now();
    source.wait(&tip.hash, Duration::from_millis(400));
    assert!(
        (350..3000).contains(&began.elapsed().as_millis()),
        "{:?}",
        began.elapsed()
    );
    let mined = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            source.wait(&tip.hash, Duration::from_secs(60));
            Instant::now()
        });
        std::thread::sleep(Duration::from_millis(500));
        harness.node.mine(1)?;
        let mined = Instant::now();
        anyhow::Ok(
            waiting
                .join()
                .expect("no panic")
                .saturating_duration_since(mined),
        )
    })?;
    assert!(mined < Duration::from_secs(5), "{mined:?}");
    assert_eq!(source.tip()?.height, 6);
    Ok(())
}

/// The calls beside the chain, against a node that refuses and accepts.
#[test]
fn calls_of_the_node_itself() -> Result<()> {
    let harness = Harness::start(NodeOptions::default())?;
    harness.node.mine(3)?;
    let node = harness
        .open(&harness.config())?
        .node
        .context("there is a node")?;
    harness.runtime.block_on(async {
        let info = node.network_info().await?;
        assert!(info.version > 0 && info.relay_fee.is_some());
        assert_eq!(node.best_block_hash().await?, harness.node.best_hash()?);
        let set = node.tx_out_set_info().await?;
        assert_eq!((set.height, set.tx_outs), (3, 3));
        assert_eq!(set.total_amount.to_sat(), 150 * 100_000_000);
        assert_eq!(node.mempool().await?, []);
        assert_eq!(node.fee_estimate(2).await?, None);
        let refused = node
            .send_raw_transaction("zz")
            .await
            .expect_err("not a transaction");
        assert!(
            refused
                .to_string()
                .starts_with("sendrawtransaction RPC error: {\"code\":-22,"),
            "{refused}"
        );
        let coinbase = &harness.node.block(&harness.node.hash_at(1)?)?.txdata[0];
        let hex = bitcoin::consensus::encode::serialize_hex(coinbase);
        let verdict = node
            .test_mempool_accept(std::slice::from_ref(&hex), Some("0.1"))
            .await?;
        assert!(verdict.get().contains("\"allowed\":false"), "{verdict}");
        let package = node.submit_package(&[hex], None, Some("0")).await;
        assert!(package.is_ok() || package.is_err_and(|error| error.rejection().is_some()));
        anyhow::Ok(())
    })
}
