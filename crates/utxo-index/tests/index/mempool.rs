//! The mempool against a plain list: random transactions, replacements, evictions, blocks and reorganisations.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use bitcoin::{Amount, Block, BlockHash, OutPoint, Transaction, TxOut, Txid};
use cairn_testkit::{
    Coin, Lock, MemoryMempool, MempoolModel, OWN_NUMBERS, Rng, TestChain, script_hash, spend,
};
use cairn_utxo_index::{
    BlockRef, Change, Changes, ChangesEnd, MempoolSync, Output, ScriptHash, ScriptStats, View,
};
use proptest::prelude::*;

use crate::support::Fixture;

/// Scripts of the test's own transactions: few, so that they have histories.
const OWN_SCRIPTS: u32 = 6;

fn own_lock(n: u64) -> Lock {
    Lock::Wsh(OWN_NUMBERS + (n % u64::from(OWN_SCRIPTS)) as u32)
}

fn own_scripts() -> Vec<ScriptHash> {
    (0..u64::from(OWN_SCRIPTS))
        .map(|n| ScriptHash(script_hash(&own_lock(n).script_pubkey())))
        .collect()
}

/// An index, the chain and mempool it follows, and what they should be.
struct World {
    fixture: Fixture,
    chain: TestChain,
    pool: MempoolModel,
    source: MemoryMempool,
    coins: Vec<Coin>,
    rng: Rng,
    watcher: Watcher,
}

impl World {
    fn new(seed: u64) -> Result<Self> {
        let mut chain = TestChain::small(seed, 130);
        let coins = chain.coins(12);
        let fixture = Fixture::of(chain.model())?;
        let watcher = Watcher::new(&fixture)?;
        Ok(Self {
            fixture,
            chain,
            pool: MempoolModel::default(),
            source: MemoryMempool::default(),
            coins,
            rng: Rng::new(seed),
            watcher,
        })
    }

    /// A new transaction that spends an own coin or an output of the pool; an output that is spent already makes it a
    /// replacement.
    fn make(&mut self, replace: bool) -> Option<Transaction> {
        let mut candidates: Vec<Coin> = self
            .coins
            .iter()
            .filter(|coin| self.chain.model().utxo(&coin.outpoint).is_some())
            .copied()
            .collect();
        for tx in self.pool.txs() {
            candidates.extend(own_outputs(tx));
        }
        candidates.retain(|coin| self.pool.spender(&coin.outpoint).is_some() == replace);
        if candidates.is_empty() {
            return None;
        }
        let inputs = 1 + self.rng.index(2);
        let mut chosen: Vec<Coin> = Vec::new();
        for _ in 0..inputs {
            let coin = candidates[self.rng.index(candidates.len())];
            if !chosen.contains(&coin) {
                chosen.push(coin);
            }
        }
        let total: u64 = chosen.iter().map(|coin| coin.value).sum();
        let outputs = 1 + self.rng.below(3);
        let fee = 500 + self.rng.below(5_000);
        let each = total.checked_sub(fee)? / outputs;
        if each < 1_000 {
            return None;
        }
        let outputs = (0..outputs)
            .map(|_| TxOut {
                value: Amount::from_sat(each),
                script_pubkey: own_lock(self.rng.next_u64()).script_pubkey(),
            })
            .collect();
        Some(spend(&chosen, outputs))
    }

    /// Takes blocks off the chain; if `returning`, their transactions come back to the pool. Gives them.
    fn back(&mut self, depth: u32, returning: bool) -> Vec<Transaction> {
        let orphaned: Vec<Transaction> = orphans(&self.chain.rewind(depth));
        let back = if returning {
            orphaned.clone()
        } else {
            Vec::new()
        };
        self.pool.follow(self.chain.model(), back);
        orphaned
    }

    /// Some transactions of a pool with all their ancestors, parents first.
    fn choose(&mut self, pool: &MempoolModel, per_mille: u32) -> Vec<Transaction> {
        let mut wanted: HashSet<Txid> = HashSet::new();
        let txs: Vec<Transaction> = pool.txs().to_vec();
        for tx in txs.iter().rev() {
            let txid = tx.compute_txid();
            if wanted.contains(&txid) || self.rng.chance(per_mille) {
                wanted.insert(txid);
                wanted.extend(tx.input.iter().map(|input| input.previous_output.txid));
            }
        }
        txs.into_iter()
            .filter(|tx| wanted.contains(&tx.compute_txid()))
            .collect()
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Add(count) => {
                for _ in 0..*count {
                    if let Some(tx) = self.make(false) {
                        self.pool.add(self.chain.model(), tx);
                    }
                }
            }
            Step::Replace => {
                if let Some(tx) = self.make(true) {
                    self.pool.add(self.chain.model(), tx);
                }
            }
            Step::Evict => {
                let txids = self.pool.txids();
                if !txids.is_empty() {
                    let txid = txids[self.rng.index(txids.len())];
                    self.pool.evict(&txid);
                }
            }
            Step::Mine(per_mille) => {
                let pool = self.pool.clone();
                let txs = self.choose(&pool, *per_mille);
                self.chain.mine(txs);
                self.pool.follow(self.chain.model(), Vec::new());
            }
            Step::MineRival => {
                // In the block, and never in the mempool.
                if let Some(tx) = self.make(true)
                    && tx
                        .input
                        .iter()
                        .all(|input| self.chain.model().utxo(&input.previous_output).is_some())
                {
                    self.chain.mine(vec![tx]);
                    self.pool.follow(self.chain.model(), Vec::new());
                }
            }
            Step::Grow(blocks) => {
                for _ in 0..*blocks {
                    self.chain.mine(Vec::new());
                }
                self.pool.follow(self.chain.model(), Vec::new());
            }
            Step::Fork {
                depth,
                new_len,
                returning,
                per_mille,
            } => {
                let orphaned = self.back(*depth, *returning);
                for _ in 0..*new_len {
                    // Miners know transactions that our node has forgotten.
                    let mut theirs = self.pool.clone();
                    theirs.follow(self.chain.model(), orphaned.clone());
                    let txs = self.choose(&theirs, *per_mille);
                    self.chain.mine(txs);
                    self.pool.follow(self.chain.model(), Vec::new());
                }
            }
            Step::Back { depth, returning } => {
                self.back(*depth, *returning);
            }
        }
        Ok(())
    }

    /// The chain first: until the mempool is compared, what is shown of it must not contradict the chain.
    fn follow_chain(&mut self) -> Result<()> {
        self.fixture.follow(self.chain.model())?;
        let view = self.fixture.view()?;
        check_no_contradiction(&view)?;
        self.watcher.check(&view)
    }

    fn follow_mempool(&mut self) -> Result<()> {
        let tip = self.chain.model().tip().hash;
        let mut txs = self.pool.txs().to_vec();
        // Nothing relies on the order of the list.
        self.rng.shuffle(&mut txs);
        self.source.set(tip, txs);
        let outcome = self
            .fixture
            .index
            .sync_mempool(&self.source, &AtomicBool::new(false))?;
        let MempoolSync::Complete(round) = outcome else {
            anyhow::bail!("the tips are the same, but the round ended with {outcome:?}");
        };
        ensure!(round.left_out == 0 && round.vanished == 0, "{round:?}");
        let view = self.fixture.view()?;
        check_equal(&view, self.chain.model(), &self.pool)?;
        self.watcher.check(&view)
    }
}

/// Outputs that the test's own transactions can spend further.
fn own_outputs(tx: &Transaction) -> Vec<Coin> {
    let txid = tx.compute_txid();
    (0u32..)
        .zip(&tx.output)
        .filter_map(|(vout, output)| {
            let lock = (0..u64::from(OWN_SCRIPTS))
                .map(own_lock)
                .find(|lock| lock.script_pubkey() == output.script_pubkey)?;
            Some(Coin {
                outpoint: OutPoint::new(txid, vout),
                value: output.value.to_sat(),
                lock,
            })
        })
        .collect()
}

/// The transactions of blocks, coinbases apart.
fn orphans(blocks: &[Arc<Block>]) -> Vec<Transaction> {
    blocks
        .iter()
        .flat_map(|block| block.txdata.iter().skip(1).cloned())
        .collect()
}

/// What holds of every view, also between a new block and the next look at the node's mempool.
fn check_no_contradiction(view: &View) -> Result<()> {
    let mempool = view.mempool();
    let mut spent = HashSet::new();
    for entry in mempool.entries() {
        let txid = entry.txid;
        ensure!(
            view.confirming_block(&txid)?.is_none(),
            "{txid} is both confirmed and not"
        );
        for (input, prevout) in entry.tx().input.iter().zip(&entry.prevouts) {
            let outpoint = input.previous_output;
            ensure!(spent.insert(outpoint), "{outpoint} is spent twice");
            ensure!(
                view.spend(&outpoint)?.is_none(),
                "{txid} spends {outpoint}, which the chain spends"
            );
            let parent = view
                .tx(&outpoint.txid)?
                .with_context(|| format!("{txid} spends {outpoint}, which is nowhere"))?;
            ensure!(
                parent.block.is_some() || mempool.contains(&outpoint.txid),
                "{txid} spends {outpoint} of a stale block"
            );
            let paid = parent.tx.output(outpoint.vout as usize);
            ensure!(paid == *prevout);
        }
    }
    Ok(())
}

/// The mempool of a view is that of the model.
fn check_equal(view: &View, chain: &cairn_testkit::Model, pool: &MempoolModel) -> Result<()> {
    let mempool = view.mempool();
    ensure!(mempool.is_loaded());
    let ours: BTreeSet<Txid> = mempool.entries().map(|entry| entry.txid).collect();
    let theirs: BTreeSet<Txid> = pool.txids().into_iter().collect();
    ensure!(
        ours == theirs,
        "{} of {} transactions",
        ours.len(),
        theirs.len()
    );
    ensure!(mempool.len() == theirs.len() && mempool.is_empty() == theirs.is_empty());
    let (mut fees, mut vsizes) = (0, 0);
    for tx in pool.txs() {
        let txid = tx.compute_txid();
        let entry = mempool.entry(&txid).context("an entry")?;
        ensure!(entry.tx() == *tx && entry.wtxid == tx.compute_wtxid());
        let prevouts = pool.prevouts(chain, tx).context("valid")?;
        let expected: Vec<_> = prevouts
            .iter()
            .cloned()
            .map(|output| Some(Output::from(output)))
            .collect();
        ensure!(*entry.prevouts == *expected);
        let paid: u64 = tx.output.iter().map(|output| output.value.to_sat()).sum();
        let spent: u64 = prevouts.iter().map(|output| output.value.to_sat()).sum();
        ensure!(entry.fee == spent - paid && entry.input_value() == Some(spent));
        ensure!(entry.vsize() == tx.vsize() as u64 && entry.size() as usize == tx.total_size());
        fees += entry.fee;
        vsizes += entry.vsize();
        let unconfirmed_parents = tx
            .input
            .iter()
            .any(|input| pool.tx(&input.previous_output.txid).is_some());
        ensure!(mempool.has_unconfirmed_parents(&entry) == unconfirmed_parents);
        for (vin, input) in (0u32..).zip(&tx.input) {
            ensure!(mempool.spender(&input.previous_output) == Some((txid, vin)));
        }
        for (vout, output) in (0u32..).zip(&tx.output) {
            let outpoint = OutPoint::new(txid, vout);
            ensure!(mempool.spender(&outpoint) == pool.spender(&outpoint));
            ensure!(mempool.output(&outpoint) == Some(Output::from(output.clone())));
        }
        let record = view.tx(&txid)?.context("found as a transaction")?;
        ensure!(record.block.is_none() && record.fee == entry.fee && record.tx == *tx);
        ensure!(view.tx_raw(&txid)? == Some(bitcoin::consensus::serialize(tx)));
    }
    ensure!(mempool.total_fee() == fees && mempool.vsize() == vsizes);
    let bins = mempool.histogram();
    ensure!(bins.iter().map(|bin| bin.vsize).sum::<u64>() == vsizes);
    ensure!(bins.windows(2).all(|pair| pair[0].rate > pair[1].rate));
    let newest: Vec<u64> = mempool
        .recent(10)
        .iter()
        .map(|entry| entry.arrival)
        .collect();
    ensure!(newest.len() == mempool.len().min(10));
    ensure!(newest.windows(2).all(|pair| pair[0] > pair[1]));
    check_pages(view)?;
    let touches = pool.touches(chain);
    let mut scripts: BTreeSet<ScriptHash> = touches.keys().copied().map(ScriptHash).collect();
    scripts.extend(own_scripts());
    scripts.insert(ScriptHash([0x5c; 32]));
    for script in scripts {
        let touches = touches.get(&script.0).map(Vec::as_slice).unwrap_or(&[]);
        let of_script: BTreeSet<Txid> = mempool
            .of_script(&script)
            .iter()
            .map(|entry| entry.txid)
            .collect();
        let expected: BTreeSet<Txid> = touches.iter().map(|touch| touch.txid).collect();
        ensure!(of_script == expected, "script {script}");
        ensure!(mempool.count_of_script(&script) == expected.len());
        let mut stats = ScriptStats {
            tx_count: expected.len() as u64,
            ..ScriptStats::default()
        };
        let mut unspent = BTreeMap::new();
        for touch in touches {
            match touch.funds {
                Some(vout) => {
                    stats.funded_txo_count += 1;
                    stats.funded_txo_sum += touch.value;
                    let outpoint = OutPoint::new(touch.txid, vout);
                    if pool.spender(&outpoint).is_none() {
                        unspent.insert(outpoint, touch.value);
                    }
                }
                None => {
                    stats.spent_txo_count += 1;
                    stats.spent_txo_sum += touch.value;
                }
            }
        }
        ensure!(mempool.stats_of(&script) == stats, "script {script}");
        let found: BTreeMap<OutPoint, u64> = mempool
            .unspent_of(&script)
            .into_iter()
            .map(|(outpoint, value)| (outpoint, value.map_or(0, bitcoin::Amount::to_sat)))
            .collect();
        ensure!(found == unspent, "script {script}");
        for utxo in chain.utxos(&script.0) {
            if pool.spender(&utxo.outpoint).is_none() {
                unspent.insert(utxo.outpoint, utxo.output.value.to_sat());
            }
        }
        let found: BTreeMap<OutPoint, u64> = view
            .unspent(&script)?
            .into_iter()
            .map(|coin| (coin.outpoint, coin.value.map_or(0, bitcoin::Amount::to_sat)))
            .collect();
        ensure!(found == unspent, "script {script}");
    }
    Ok(())
}

/// A walk in pages has every transaction once, in the order of the printed ids.
fn check_pages(view: &View) -> Result<()> {
    let mempool = view.mempool();
    let mut walked = Vec::new();
    let mut last = None;
    loop {
        let page = mempool.entries_after(last.as_ref(), 3);
        walked.extend(page.iter().map(|entry| entry.txid.to_string()));
        match page.last() {
            Some(entry) => last = Some(entry.txid),
            None => break,
        }
    }
    let mut sorted: Vec<String> = mempool
        .entries()
        .map(|entry| entry.txid.to_string())
        .collect();
    sorted.sort_unstable();
    ensure!(walked == sorted);
    Ok(())
}

/// What a client of a script sees: transactions with their heights; 0 and -1 are unconfirmed without and with unconfirmed
/// parents.
type Status = Vec<(Txid, i64)>;

fn status(view: &View, script: &ScriptHash) -> Result<Status> {
    let mut status: Status = view
        .history(script, None, 100_000)?
        .into_iter()
        .map(|(txid, block)| (txid, i64::from(block.height)))
        .collect();
    for entry in view.mempool().of_script(script) {
        let height = if view.mempool().has_unconfirmed_parents(&entry) {
            -1
        } else {
            0
        };
        status.push((entry.txid, height));
    }
    status.sort_unstable();
    Ok(status)
}

/// Reads the feed and checks that it told of everything that is different.
struct Watcher {
    changes: Changes,
    last: Arc<View>,
    scripts: BTreeMap<ScriptHash, Status>,
    outpoints: BTreeMap<OutPoint, OutpointState>,
}

impl Watcher {
    fn new(fixture: &Fixture) -> Result<Self> {
        let changes = fixture.index.changes();
        let last = fixture.view()?;
        let mut scripts = BTreeMap::new();
        for script in own_scripts() {
            scripts.insert(script, status(&last, &script)?);
        }
        Ok(Self {
            changes,
            last,
            scripts,
            outpoints: BTreeMap::new(),
        })
    }

    fn check(&mut self, newest: &View) -> Result<()> {
        loop {
            match self.changes.try_recv() {
                Ok(Some(change)) => self.see(&change)?,
                Ok(None) => break,
                Err(ChangesEnd::Lagged(_)) => anyhow::bail!("the feed is read often enough"),
                Err(ChangesEnd::Closed) => anyhow::bail!("the index is open"),
            }
        }
        ensure!(
            self.last.sequence() == newest.sequence(),
            "the feed ends at the newest view"
        );
        Ok(())
    }

    fn see(&mut self, change: &Change) -> Result<()> {
        let view = &change.view;
        ensure!(
            view.sequence() == self.last.sequence() + 1,
            "every view is told"
        );
        self.check_blocks(change)?;
        self.check_mempool(change)?;
        for (script, before) in &mut self.scripts {
            let now = status(view, script)?;
            ensure!(
                now == *before || change.scripts.contains(script),
                "script {script} is different, and {change:?} does not say so"
            );
            *before = now;
        }
        for entry in view.mempool().entries() {
            let tx = entry.tx();
            for outpoint in tx
                .input
                .iter()
                .map(|input| input.previous_output)
                .chain((0..tx.output.len() as u32).map(|vout| OutPoint::new(entry.txid, vout)))
            {
                if change.outpoints.contains(&outpoint) {
                    self.outpoints
                        .entry(outpoint)
                        .or_insert(outpoint_state(view, &outpoint)?);
                }
            }
        }
        for (outpoint, before) in &mut self.outpoints {
            let now = outpoint_state(view, outpoint)?;
            ensure!(
                now == *before || change.outpoints.contains(outpoint),
                "{outpoint} is different, and {change:?} does not say so"
            );
            *before = now;
        }
        self.last = Arc::clone(view);
        Ok(())
    }

    /// Taking the old chain and applying what is told gives the new one.
    fn check_blocks(&self, change: &Change) -> Result<()> {
        let mut tip = self.last.tip();
        for block in &change.disconnected {
            ensure!(*block == tip, "disconnected from the tip down");
            tip = self
                .last
                .block_at(block.height - 1)
                .context("never genesis")?;
        }
        for block in &change.connected {
            let header = change
                .view
                .header_at(block.height)
                .context("on the chain")?;
            ensure!(header.prev_blockhash == tip.hash, "connected upwards");
            tip = *block;
        }
        ensure!(tip == change.view.tip(), "the blocks lead to the new tip");
        Ok(())
    }

    fn check_mempool(&self, change: &Change) -> Result<()> {
        let ids = |view: &View| -> BTreeSet<Txid> {
            view.mempool().entries().map(|entry| entry.txid).collect()
        };
        let mut set = ids(&self.last);
        for txid in &change.confirmed {
            ensure!(set.remove(txid), "confirmed out of the mempool");
            ensure!(change.view.confirming_block(txid)?.is_some());
        }
        for txid in &change.removed {
            ensure!(
                set.remove(txid) || change.added.contains(txid),
                "removed out of the mempool"
            );
        }
        for txid in &change.added {
            set.insert(*txid);
        }
        ensure!(
            set == ids(&change.view),
            "what came and went makes the new mempool"
        );
        Ok(())
    }
}

/// Where an output was created, and by whom and where it is spent; no block: unconfirmed.
type OutpointState = (Option<Option<BlockHash>>, Option<(Txid, Option<BlockHash>)>);

fn outpoint_state(view: &View, outpoint: &OutPoint) -> Result<OutpointState> {
    let hash = |block: BlockRef| block.hash;
    let created = if view.mempool().contains(&outpoint.txid) {
        Some(None)
    } else {
        view.confirming_block(&outpoint.txid)?
            .map(|block| Some(hash(block)))
    };
    let spent = view
        .spending(outpoint)?
        .map(|spending| (spending.txid, spending.block.map(hash)));
    Ok((created, spent))
}

#[derive(Debug, Clone)]
enum Step {
    Add(u32),
    Replace,
    Evict,
    Mine(u32),
    MineRival,
    Grow(u32),
    Fork {
        depth: u32,
        new_len: u32,
        returning: bool,
        per_mille: u32,
    },
    Back {
        depth: u32,
        returning: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..12).prop_map(Step::Add),
        3 => Just(Step::Replace),
        2 => Just(Step::Evict),
        3 => (0u32..1000).prop_map(Step::Mine),
        2 => Just(Step::MineRival),
        1 => (1u32..3).prop_map(Step::Grow),
        2 => (1u32..5, 1u32..6, any::<bool>(), 0u32..1000).prop_map(|(depth, new_len, returning, per_mille)| {
            Step::Fork { depth, new_len, returning, per_mille }
        }),
        1 => (1u32..4, any::<bool>()).prop_map(|(depth, returning)| Step::Back { depth, returning }),
    ]
}

fn run(seed: u64, steps: &[(Step, bool)]) -> Result<()> {
    let mut world = World::new(seed)?;
    world.follow_mempool()?;
    for (step, look) in steps {
        world.step(step)?;
        world
            .follow_chain()
            .with_context(|| format!("{step:?}, chain"))?;
        if *look {
            world
                .follow_mempool()
                .with_context(|| format!("{step:?}, mempool"))?;
        }
    }
    world.follow_mempool()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_mempool_equals_a_plain_list(
        seed in 0u64..1_000,
        steps in proptest::collection::vec((step(), proptest::bool::weighted(0.7)), 4..24),
    ) {
        if let Err(error) = run(seed, &steps) {
            return Err(TestCaseError::fail(format!("{error:#}")));
        }
    }
}

/// A transaction that the list names and the node then does not have is no failure; one whose parent is missing waits, and so do
/// those that spend it.
#[test]
fn what_vanished_and_what_waits() -> Result<()> {
    let world = World::new(3)?;
    let mut chained = Vec::new();
    let mut coin = world.coins[0];
    for n in 0..4 {
        let output = TxOut {
            value: Amount::from_sat(coin.value - 1_000),
            script_pubkey: own_lock(n).script_pubkey(),
        };
        let tx = spend(&[coin], vec![output]);
        coin = own_outputs(&tx)[0];
        chained.push(tx);
    }
    let other = spend(
        &[world.coins[1]],
        vec![TxOut {
            value: Amount::from_sat(world.coins[1].value - 700),
            script_pubkey: own_lock(1).script_pubkey(),
        }],
    );
    let tip = world.chain.model().tip().hash;
    let all: Vec<Transaction> = chained.iter().cloned().chain([other.clone()]).collect();
    world.source.set(tip, all.clone());
    world.source.lose(&chained[1].compute_txid());
    let stop = AtomicBool::new(false);
    let outcome = world.fixture.index.sync_mempool(&world.source, &stop)?;
    let MempoolSync::Complete(round) = outcome else {
        anyhow::bail!("{outcome:?}");
    };
    ensure!(
        (round.added, round.vanished, round.left_out) == (2, 1, 2),
        "{round:?}"
    );
    let view = world.fixture.view()?;
    check_no_contradiction(&view)?;
    ensure!(view.mempool().contains(&chained[0].compute_txid()));
    ensure!(view.mempool().contains(&other.compute_txid()));
    world.source.set(tip, all);
    world.fixture.index.sync_mempool(&world.source, &stop)?;
    ensure!(world.fixture.view()?.mempool().len() == 5);
    Ok(())
}

/// What was broadcast through us is there at once, and a list that the node made before does not take it away again.
#[test]
fn what_is_accepted_is_there_at_once_and_stays() -> Result<()> {
    let world = World::new(4)?;
    let coin = world.coins[0];
    let pay = |fee: u64| {
        spend(
            &[coin],
            vec![TxOut {
                value: Amount::from_sat(coin.value - fee),
                script_pubkey: own_lock(fee).script_pubkey(),
            }],
        )
    };
    let (first, second) = (pay(1_000), pay(9_000));
    let index = &world.fixture.index;
    ensure!(index.add_accepted(vec![first.clone().into()])? == 1);
    ensure!(
        index.add_accepted(vec![first.clone().into()])? == 0,
        "it is there already"
    );
    let view = world.fixture.view()?;
    ensure!(view.mempool().contains(&first.compute_txid()));
    // A child before its parent, and a child whose parent nobody knows.
    let child = spend(&own_outputs(&first)[..1], vec![]);
    let stranger = spend(
        &[Coin {
            outpoint: OutPoint::new(second.compute_txid(), 7),
            ..coin
        }],
        vec![],
    );
    ensure!(index.add_accepted(vec![child.clone().into(), stranger.into()])? == 1);
    // The replacement evicts both.
    ensure!(index.add_accepted(vec![second.clone().into()])? == 1);
    let ids: Vec<Txid> = world
        .fixture
        .view()?
        .mempool()
        .entries()
        .map(|entry| entry.txid)
        .collect();
    ensure!(ids == [second.compute_txid()]);
    // A confirmed one is not taken in again.
    let mut chain = world.chain;
    chain.mine(vec![second.clone()]);
    world.fixture.follow(chain.model())?;
    ensure!(index.add_accepted(vec![second.into(), first.into()])? == 0);
    ensure!(world.fixture.view()?.mempool().is_empty());
    Ok(())
}

/// Until the index has caught up with the node, the node's list says nothing about our chain.
#[test]
fn a_list_of_another_tip_is_not_taken() -> Result<()> {
    let mut world = World::new(5)?;
    let stop = AtomicBool::new(false);
    let old_tip = world.chain.model().tip().hash;
    world.chain.grow(1);
    world.source.set(world.chain.model().tip().hash, []);
    ensure!(world.fixture.index.sync_mempool(&world.source, &stop)? == MempoolSync::TipMoved);
    ensure!(!world.fixture.view()?.mempool().is_loaded());
    world.source.set(old_tip, []);
    ensure!(matches!(
        world.fixture.index.sync_mempool(&world.source, &stop)?,
        MempoolSync::Complete(_)
    ));
    ensure!(world.fixture.view()?.mempool().is_loaded());
    Ok(())
}
