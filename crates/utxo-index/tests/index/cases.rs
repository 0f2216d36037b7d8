//! Cases that other indexers got wrong.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use bitcoin::{Amount, OutPoint, TxOut, Txid};
use cairn_testkit::{Coin, Lock, OWN_NUMBERS, TestChain, script_hash, spend, wide_transaction};
use cairn_utxo_index::{IndexError, QueryError, ScriptHash, View};

use crate::answers::{check_answers, check_script};
use crate::support::Fixture;

const FEE: u64 = 2_000;

fn output(lock: Lock, value: u64) -> TxOut {
    TxOut {
        value: Amount::from_sat(value),
        script_pubkey: lock.script_pubkey(),
    }
}

fn script(lock: Lock) -> ScriptHash {
    ScriptHash(script_hash(&lock.script_pubkey()))
}

fn rich_coin(chain: &mut TestChain) -> Result<Coin> {
    chain.coins(1).pop().context("the chain has a coin")
}

/// Case 3: output indexes beyond 16 bits are told apart.
#[test]
fn more_than_65_535_outputs() -> Result<()> {
    let mut chain = TestChain::small(3, 110);
    let coin = rich_coin(&mut chain)?;
    let wide = wide_transaction(&coin, 70_000);
    let txid = wide.compute_txid();
    chain.mine(vec![wide.clone()]);
    let spender_of = |vout: u32| {
        let lock = Lock::Bare(vout + 1);
        let value = wide.output[vout as usize].value.to_sat();
        let coin = Coin {
            outpoint: OutPoint::new(txid, vout),
            value,
            lock,
        };
        spend(
            &[coin],
            vec![TxOut {
                value: Amount::ZERO,
                script_pubkey: bitcoin::ScriptBuf::from_bytes(vec![0x6a, 1, 7]),
            }],
        )
    };
    let (first, second) = (spender_of(1), spender_of(65_537));
    chain.mine(vec![first.clone(), second.clone()]);
    for bulk in [true, false] {
        let fixture = Fixture::with(|config| config.bulk = bulk)?;
        fixture.follow(chain.model())?;
        let view = fixture.view()?;
        let spender = |vout: u32| -> Result<Option<Txid>> {
            Ok(view
                .spend(&OutPoint::new(txid, vout))?
                .map(|spend| spend.txid))
        };
        ensure!(spender(1)? == Some(first.compute_txid()));
        ensure!(spender(65_537)? == Some(second.compute_txid()));
        ensure!(spender(65_538)?.is_none());
        let spends = view.spends_of(&txid)?.context("known")?;
        ensure!(spends.len() == 70_000 && spends.iter().flatten().count() == 2);
        for vout in [1u32, 65_537] {
            let stats = view.stats(&script(Lock::Bare(vout + 1)))?;
            ensure!(
                (
                    stats.funded_txo_count,
                    stats.spent_txo_count,
                    stats.tx_count
                ) == (1, 1, 2)
            );
        }
        fixture.check_rows(chain.model(), false)?;
    }
    Ok(())
}

/// Case 5: a transaction of a stale block that is mined again later counts once.
#[test]
fn reconfirmed_after_a_reorganisation() -> Result<()> {
    for (warm_cache, again_at_once) in [(false, false), (true, false), (true, true)] {
        let mut chain = TestChain::small(5, 120);
        let coin = rich_coin(&mut chain)?;
        let own = Lock::Wsh(OWN_NUMBERS + 1);
        let rest = coin.value - 1_000_000 - FEE;
        let tx = spend(
            &[coin],
            vec![
                output(own, 1_000_000),
                output(Lock::Wsh(OWN_NUMBERS + 2), rest),
            ],
        );
        let txid = tx.compute_txid();
        let fixture = Fixture::of(chain.model())?;
        chain.mine(vec![tx.clone()]);
        fixture.follow(chain.model())?;
        if warm_cache {
            ensure!(fixture.view()?.stats(&script(own))?.tx_count == 1);
        }
        let orphaned = chain.rewind(1);
        if again_at_once {
            chain.mine(vec![tx.clone()]);
            chain.mine(vec![]);
        } else {
            chain.mine(vec![]);
            chain.mine(vec![tx.clone()]);
        }
        fixture.follow(chain.model())?;
        let expect = |view: &View, height: u32| -> Result<()> {
            let stats = view.stats(&script(own))?;
            ensure!(
                (stats.tx_count, stats.funded_txo_count, stats.funded_txo_sum) == (1, 1, 1_000_000)
            );
            let history = view.history(&script(own), None, 10)?;
            ensure!(history.len() == 1 && history[0].0 == txid && history[0].1.height == height);
            Ok(())
        };
        let height = if again_at_once { 121 } else { 122 };
        expect(&*fixture.view()?, height)?;
        fixture.check_rows(chain.model(), true)?;
        // The first branch again, now longer.
        chain.rewind(2);
        chain.connect(&orphaned);
        chain.mine(vec![]);
        chain.mine(vec![]);
        fixture.follow(chain.model())?;
        expect(&*fixture.view()?, 121)?;
        fixture.check_rows(chain.model(), true)?;
    }
    Ok(())
}

/// Case 6: the node goes back without any new block.
#[test]
fn the_node_goes_back() -> Result<()> {
    let mut chain = TestChain::small(6, 120);
    let fixture = Fixture::of(chain.model())?;
    let taken = chain.rewind(21);
    let outcome = fixture.follow(chain.model())?;
    ensure!(outcome.tip.height == 99 && outcome.undone == 21 && outcome.blocks == 0);
    check_answers(&*fixture.view()?, chain.model(), 500, false)?;
    fixture.check_rows(chain.model(), true)?;
    let fixture = fixture.reopen()?;
    ensure!(fixture.view()?.tip().height == 99);
    chain.connect(&taken);
    chain.grow(2);
    fixture.follow(chain.model())?;
    check_answers(&*fixture.view()?, chain.model(), 500, false)
}

/// Case 7: the limit is for what is left, not for what once was.
#[test]
fn many_coins_once_few_now() -> Result<()> {
    let mut chain = TestChain::small(7, 140);
    let busy = Lock::Wsh(OWN_NUMBERS + 7);
    let full = Lock::Wsh(OWN_NUMBERS + 8);
    // 40 rounds of 50 coins, each round spent in the next block but for three coins of the last.
    let mut coin = rich_coin(&mut chain)?;
    for round in 0..40u32 {
        let change = coin.value - 50 * 10_000 - FEE;
        let mut outputs: Vec<TxOut> = (0..50).map(|_| output(busy, 10_000)).collect();
        outputs.push(output(Lock::Wsh(OWN_NUMBERS + 9), change));
        let fund = spend(&[coin], outputs);
        let txid = fund.compute_txid();
        chain.mine(vec![fund]);
        coin = Coin {
            outpoint: OutPoint::new(txid, 50),
            value: change,
            lock: Lock::Wsh(OWN_NUMBERS + 9),
        };
        let kept = if round == 39 { 3 } else { 0 };
        let coins: Vec<Coin> = (kept..50)
            .map(|vout| Coin {
                outpoint: OutPoint::new(txid, vout),
                value: 10_000,
                lock: busy,
            })
            .collect();
        let value = coins.len() as u64 * 10_000 - FEE;
        chain.mine(vec![spend(
            &coins,
            vec![output(Lock::Wsh(OWN_NUMBERS + 10), value)],
        )]);
    }
    let change = coin.value - 600 * 1_000 - FEE * 20;
    let mut outputs: Vec<TxOut> = (0..600).map(|_| output(full, 1_000)).collect();
    outputs.push(output(Lock::Wsh(OWN_NUMBERS + 9), change));
    chain.mine(vec![spend(&[coin], outputs)]);
    chain.grow(8);
    // A limit of 4 makes the set in between far too large: it must be thinned by the spend edges.
    for (limit, enough_for_full) in [(4, false), (500, false), (600, true)] {
        let fixture = Fixture::with(|config| config.utxos_limit = limit)?;
        fixture.follow(chain.model())?;
        let view = fixture.view()?;
        for _ in 0..2 {
            ensure!(view.utxos(&script(busy))?.len() == 3);
            match view.utxos(&script(full)) {
                Ok(utxos) => ensure!(enough_for_full && utxos.len() == 600),
                Err(error) => {
                    ensure!(!enough_for_full && matches!(error, QueryError::TooManyUtxos));
                    ensure!(error.to_string() == "Too many unspent outputs");
                }
            }
        }
        // What was kept in the cache gives the same answer on a new tip.
        chain.grow(1);
        fixture.follow(chain.model())?;
        ensure!(fixture.view()?.utxos(&script(busy))?.len() == 3);
    }
    Ok(())
}

/// A history beyond the budget is never answered in part; asking again gets further and ends.
#[test]
fn a_budget_that_is_too_small_converges() -> Result<()> {
    let mut chain = TestChain::small(8, 110);
    let busy = Lock::Wsh(OWN_NUMBERS + 20);
    let mut coin = rich_coin(&mut chain)?;
    for _ in 0..60 {
        let change = coin.value - 5 * 10_000 - FEE;
        let mut outputs: Vec<TxOut> = (0..5).map(|_| output(busy, 10_000)).collect();
        outputs.push(output(busy, change));
        let tx = spend(&[coin], outputs);
        coin = Coin {
            outpoint: OutPoint::new(tx.compute_txid(), 5),
            value: change,
            lock: busy,
        };
        chain.mine(vec![tx]);
    }
    // Folds may visit ten times as many rows: 100 of the about 420.
    let fixture = Fixture::with(|config| {
        config.scan_rows_max = 10;
        config.utxos_limit = 1_000;
    })?;
    fixture.follow(chain.model())?;
    let view = fixture.view()?;
    let mut refusals = 0;
    let stats = loop {
        match view.stats(&script(busy)) {
            Ok(stats) => break stats,
            Err(QueryError::TooManyRows) => refusals += 1,
            Err(error) => return Err(error.into()),
        }
        ensure!(refusals < 10, "asking again gets further");
    };
    ensure!(refusals >= 2, "the budget was meant to be too small");
    let wanted = chain.model().stats(&script(busy).0);
    ensure!((stats.tx_count, stats.funded_txo_sum) == (wanted.tx_count, wanted.funded_txo_sum));
    let mut refusals = 0;
    let utxos = loop {
        match view.utxos(&script(busy)) {
            Ok(utxos) => break utxos,
            Err(QueryError::TooManyRows) => refusals += 1,
            Err(error) => return Err(error.into()),
        }
        ensure!(refusals < 10, "asking again gets further");
    };
    ensure!(refusals >= 2 && utxos.len() == chain.model().utxos(&script(busy).0).len());
    // A page needs the rows of the page only, whatever the length of the history.
    ensure!(view.history(&script(busy), None, 1)?.len() == 1);
    Ok(())
}

/// A view that a request holds does not change under it.
#[test]
fn an_old_view_keeps_its_tip() -> Result<()> {
    let mut chain = TestChain::small(9, 125);
    let fixture = Fixture::of(chain.model())?;
    let (old_view, old_model) = (fixture.view()?, chain.model().clone());
    chain.fork(6, 9);
    fixture.follow(chain.model())?;
    // The block txids and statistics caches are shared by all views.
    check_answers(&*fixture.view()?, chain.model(), 500, false)?;
    check_answers(&old_view, &old_model, 500, false)
}

/// A reorganisation deeper than allowed stops with a reason and changes nothing.
#[test]
fn a_reorganisation_deeper_than_allowed() -> Result<()> {
    let mut chain = TestChain::small(10, 120);
    let fixture = Fixture::with(|config| config.reorg_depth_max = 5)?;
    fixture.follow(chain.model())?;
    let before = chain.model().tip().hash;
    chain.fork(6, 7);
    fixture.source.follow(chain.model());
    let error = fixture
        .index
        .sync(&*fixture.source, None, &AtomicBool::new(false))
        .expect_err("too deep");
    ensure!(
        matches!(error, IndexError::Corrupt(_))
            && error.to_string().contains("6 blocks below its tip")
    );
    ensure!(fixture.view()?.tip().hash == before);
    Ok(())
}

/// The source ends in the middle; the stop flag works; both leave whole blocks.
#[test]
fn a_source_that_fails_and_a_stop() -> Result<()> {
    let mut chain = TestChain::small(12, 115);
    let fixture = Fixture::of(chain.model())?;
    chain.grow(5);
    fixture.source.follow(chain.model());
    let stopped = fixture
        .index
        .sync(&*fixture.source, None, &AtomicBool::new(true));
    ensure!(matches!(stopped, Err(IndexError::Stopped)));
    fixture.source.set_failing(true);
    let failed = fixture
        .index
        .sync(&*fixture.source, None, &AtomicBool::new(false));
    ensure!(matches!(failed, Err(IndexError::Source(_))));
    ensure!(fixture.view()?.tip().height == 115);
    fixture.source.set_failing(false);
    fixture.follow(chain.model())?;
    fixture.check_rows(chain.model(), false)
}

/// `until` ends a load and a catch-up at a height and never takes blocks off.
#[test]
fn until_a_height() -> Result<()> {
    let chain = TestChain::small(13, 130);
    let fixture = Fixture::new()?;
    fixture.source.follow(chain.model());
    let go = AtomicBool::new(false);
    for (until, tip) in [(110, 110), (120, 120), (100, 120), (500, 130)] {
        let outcome = fixture.index.sync(&*fixture.source, Some(until), &go)?;
        ensure!(
            outcome.tip.height == tip && outcome.undone == 0,
            "until {until}: {outcome:?}"
        );
    }
    fixture.check_rows(chain.model(), false)
}

/// Pages of busy scripts, walked by several threads while blocks arrive and leave: every transaction once, in order.
#[test]
fn page_walks_while_blocks_arrive_and_leave() -> Result<()> {
    const READERS: usize = 3;
    const SCRIPTS: usize = 12;
    let mut chain = TestChain::small(14, 135);
    let fixture = Fixture::of(chain.model())?;
    let now = Mutex::new((fixture.view()?, chain.model().clone()));
    let done = AtomicBool::new(false);
    let walks = AtomicUsize::new(0);
    std::thread::scope(|scope| -> Result<()> {
        let read = || -> Result<()> {
            while !done.load(Ordering::Relaxed) {
                let (view, model) = now
                    .lock()
                    .map_err(|_| anyhow::anyhow!("another reader failed"))?
                    .clone();
                let mut busy: Vec<_> = model.scripts().map(|(script, _)| *script).collect();
                busy.sort_by_key(|script| std::cmp::Reverse(model.touches(script).len()));
                for script in busy.iter().take(SCRIPTS) {
                    check_script(&view, &model, &ScriptHash(*script), 500, false)?;
                    walks.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        let mut write = || -> Result<()> {
            for round in 0..8u32 {
                if round % 2 == 0 {
                    drop(chain.grow(2))
                } else {
                    drop(chain.fork(3, 4))
                }
                fixture.follow(chain.model())?;
                *now.lock().map_err(|_| anyhow::anyhow!("a reader failed"))? =
                    (fixture.view()?, chain.model().clone());
            }
            Ok(())
        };
        let written = write();
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader
                .join()
                .map_err(|_| anyhow::anyhow!("a reader panicked"))??;
        }
        written
    })?;
    ensure!(walks.load(Ordering::Relaxed) > 0);
    Ok(())
}
