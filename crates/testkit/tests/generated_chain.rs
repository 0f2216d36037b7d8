//! The generator and the model against each other and against the rules, without a node.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::{Amount, Network, OutPoint, TxOut};
use cairn_testkit::{
    BlockPlan, ChainGenerator, Database, Lock, MemorySource, Model, OWN_NUMBERS, Params,
    RowOptions, TestChain, TouchKind, script_hash, spend, subsidy, wide_transaction,
};
use cairn_utxo_node::ChainSource;

#[test]
fn one_seed_is_one_chain() {
    let chain = |seed| {
        let mut generator = ChainGenerator::new(Params::small(seed));
        (0..130)
            .map(|_| generator.next_block())
            .last()
            .map(|block| block.block_hash())
    };
    assert_eq!(chain(1), chain(1));
    assert_ne!(chain(1), chain(2));
}

#[test]
fn blocks_are_well_formed() {
    let mut generator = ChainGenerator::new(Params {
        txs_per_block: 60,
        ..Params::small(3)
    });
    let mut txs = 0;
    for height in 1..=160u64 {
        let block = generator.next_block();
        assert!(
            block.check_merkle_root() && block.check_witness_commitment(),
            "height {height}"
        );
        // Up to 16 the height is one opcode, which this function does not read.
        assert!(height <= 16 || block.bip34_block_height().ok() == Some(height));
        assert!(block.weight().to_wu() <= 4_000_000);
        assert!(
            height > 100 || block.txdata.len() == 1,
            "nothing to spend before the first coinbase is mature"
        );
        txs += block.txdata.len();
    }
    assert!(
        txs > 160 + 60 * 40,
        "blocks have about as many transactions as asked for: {txs}"
    );
}

/// Every kind of output that an indexer may meet occurs, and so do the ways in which outputs are spent.
#[test]
fn a_small_chain_has_everything() {
    let chain = TestChain::small(5, 220);
    let model = chain.model();
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, script) in model.scripts() {
        let kind = match script.as_bytes() {
            [] => "empty",
            [0x51, 2, 0x4e, 0x73] => "anchor",
            [0x6a, ..] => "op_return",
            [0x7e, ..] => "disabled opcode",
            _ if script.len() > 10_000 => "too long",
            _ if script.is_p2pk() => "p2pk",
            _ if script.is_p2pkh() => "p2pkh",
            _ if script.is_p2sh() => "p2sh",
            _ if script.is_p2wpkh() => "p2wpkh",
            _ if script.is_p2wsh() => "p2wsh",
            _ if script.is_p2tr() => "p2tr",
            _ if script.is_witness_program() => "future witness",
            _ if script.is_multisig() => "multisig",
            _ => "unknown",
        };
        *kinds.entry(kind).or_default() += 1;
    }
    let found: Vec<&str> = kinds.keys().copied().collect();
    let all = [
        "anchor",
        "disabled opcode",
        "empty",
        "future witness",
        "multisig",
        "op_return",
        "p2pk",
        "p2pkh",
        "p2sh",
        "p2tr",
        "p2wpkh",
        "p2wsh",
        "too long",
        "unknown",
    ];
    assert_eq!(found, all, "{kinds:?}");

    let in_block = model.transactions().filter(|(txid, place)| {
        let spends = model.spends_of(txid).unwrap_or_default();
        spends
            .iter()
            .flatten()
            .any(|(_, _, spent)| spent.height == place.height)
    });
    assert!(
        in_block.count() > 100,
        "outputs are spent in the block that made them"
    );
    let inputs = |at_least: usize| {
        model
            .transactions()
            .filter(|(txid, _)| {
                model
                    .tx(txid)
                    .is_some_and(|tx| tx.tx.input.len() >= at_least)
            })
            .count()
    };
    assert!(inputs(8) > 5, "there are consolidations");
    let busiest = model
        .scripts()
        .map(|(hash, _)| model.history(hash).len())
        .max();
    assert!(busiest > Some(60), "some script is used often: {busiest:?}");
    let signed = model
        .transactions()
        .filter_map(|(txid, _)| model.tx(&txid))
        .filter(|tx| {
            tx.prevouts
                .iter()
                .flatten()
                .any(|output| output.script_pubkey.is_p2tr() || output.script_pubkey.is_p2pkh())
        });
    assert!(signed.count() > 10, "key-locked outputs are spent");
}

/// Adds everything up in another way than the model does.
#[test]
fn the_model_adds_up() {
    let chain = TestChain::small(7, 180);
    let model = chain.model();
    let issued: u64 = (0..=model.height()).map(subsidy).sum();
    let unspendable: u64 = model
        .scripts()
        .filter(|(_, script)| cairn_testkit::is_unspendable(script))
        .map(|(hash, _)| model.balance(hash))
        .sum();
    let kept: u64 = model
        .utxo_set()
        .map(|utxo| utxo.output.value.to_sat())
        .sum();
    assert_eq!(
        kept + unspendable + subsidy(0),
        issued,
        "coins are neither made nor lost"
    );

    let mut touched: BTreeMap<_, BTreeSet<[u8; 32]>> = BTreeMap::new();
    for (hash, script) in model.scripts() {
        let stats = model.stats(hash);
        let utxos = model.utxos(hash);
        if !cairn_testkit::is_unspendable(script) {
            assert_eq!(
                stats.funded_txo_count - stats.spent_txo_count,
                utxos.len() as u64
            );
            assert_eq!(
                model.balance(hash),
                utxos
                    .iter()
                    .map(|utxo| utxo.output.value.to_sat())
                    .sum::<u64>()
            );
        }
        let history = model.history(hash);
        assert!(history.is_sorted_by_key(|(_, place)| *place));
        assert_eq!(
            history
                .iter()
                .map(|(txid, _)| *txid)
                .collect::<BTreeSet<_>>()
                .len() as u64,
            stats.tx_count
        );
        for (txid, _) in history {
            touched.entry(txid).or_default().insert(*hash);
        }
        for touch in model.touches(hash) {
            if let TouchKind::Spend { vin, previous } = touch.kind {
                assert_eq!(model.spend(&previous), Some((touch.txid, vin, touch.place)));
            }
        }
    }
    for (txid, _) in model.transactions() {
        let tx = model.tx(&txid).expect("it is in the list");
        let scripts = tx
            .tx
            .output
            .iter()
            .chain(tx.prevouts.iter().flatten())
            .map(|output| &output.script_pubkey);
        assert_eq!(
            touched.get(&txid),
            Some(&scripts.map(|script| script_hash(script)).collect())
        );
    }
}

/// After any forks the model equals one that never knew another branch.
#[test]
fn a_forked_model_equals_a_straight_one() {
    let mut chain = TestChain::small(11, 140);
    let mut again = 0;
    for (depth, new_len) in [(1, 2), (5, 5), (3, 1), (38, 45), (2, 0), (1, 1)] {
        let height = chain.height();
        let fork = chain.fork(depth, new_len);
        assert_eq!(chain.height(), height - depth + new_len);
        assert_eq!(
            (fork.orphaned.len(), fork.added.len()),
            (depth as usize, new_len as usize)
        );
        let added: BTreeSet<_> = fork
            .added
            .iter()
            .flat_map(|block| block.txdata.iter().skip(1))
            .map(|tx| tx.compute_txid())
            .collect();
        let orphaned = fork
            .orphaned
            .iter()
            .flat_map(|block| block.txdata.iter().skip(1));
        again += orphaned
            .filter(|tx| added.contains(&tx.compute_txid()))
            .count();

        let straight = Model::of_blocks(Network::Regtest, chain.blocks());
        let options = RowOptions {
            address_search: true,
            index_unspendables: true,
            ..RowOptions::default()
        };
        assert!(
            chain.model().rows(options) == straight.rows(options),
            "after a fork of {depth} blocks"
        );
        assert!(chain.model().utxo_set().eq(straight.utxo_set()));
    }
    assert!(
        again > 150,
        "orphaned transactions are confirmed again: {again}"
    );
    assert!(chain.model().stale_blocks().count() >= 45);
}

#[test]
fn back_to_the_first_branch() {
    let mut chain = TestChain::small(13, 130);
    let rows = chain.model().rows(RowOptions::default());
    let fork = chain.fork(6, 4);
    assert!(chain.model().rows(RowOptions::default()) != rows);
    let second = chain.rewind(4);
    assert_eq!(second.len(), fork.added.len());
    chain.connect(&fork.orphaned);
    assert!(chain.model().rows(RowOptions::default()) == rows);
    assert_eq!(chain.model().stale_blocks().count(), 4);
    chain.grow(10);
}

#[test]
fn own_transactions() {
    let mut chain = TestChain::small(17, 120);
    let coins = chain.coins(2);
    let wide = wide_transaction(&coins[0], 70_000);
    let wide_id = wide.compute_txid();
    let value = wide.output[0].value;
    let own = Lock::Tr(OWN_NUMBERS);
    let paid = |outpoint: OutPoint, lock| {
        let coin = cairn_testkit::Coin {
            outpoint,
            value: value.to_sat(),
            lock,
        };
        spend(
            &[coin],
            vec![TxOut {
                value,
                script_pubkey: own.script_pubkey(),
            }],
        )
    };
    chain.mine(vec![wide]);
    let first = paid(OutPoint::new(wide_id, 1), Lock::Bare(2));
    let second = paid(OutPoint::new(wide_id, 65_537), Lock::Bare(65_538));
    let block = chain.mine(vec![first.clone(), second.clone()]);
    assert_eq!(block.txdata.len(), 3);
    let spends = chain.model().spends_of(&wide_id).expect("it is confirmed");
    assert_eq!(spends[1].map(|s| s.0), Some(first.compute_txid()));
    assert_eq!(spends[65_537].map(|s| s.0), Some(second.compute_txid()));
    assert_eq!(spends.iter().flatten().count(), 2);
    assert_eq!(
        chain
            .model()
            .stats(&script_hash(&own.script_pubkey()))
            .funded_txo_count,
        2
    );
    assert_eq!(
        chain.model().utxos(&script_hash(&own.script_pubkey()))[0]
            .output
            .value,
        value
    );
    assert_ne!(value, Amount::ZERO);
    chain.grow(3);
}

#[test]
fn wishes_for_a_block_are_met() {
    let mut chain = TestChain::small(19, 110);
    let block = chain.grow_with(&BlockPlan {
        txs: Some(200),
        chain: 40,
    });
    assert!(block.txdata.len() > 200, "{}", block.txdata.len());
    let links = block.txdata[1..41].windows(2);
    assert!(links.into_iter().all(|pair| {
        let parent = pair[0].compute_txid();
        pair[1]
            .input
            .iter()
            .any(|input| input.previous_output.txid == parent)
    }));
}

/// The worked example of the index specification, as the model writes its rows.
#[test]
fn rows_have_the_layout_of_the_specification() {
    let chain = TestChain::small(23, 115);
    let rows = chain.model().rows(RowOptions {
        address_search: true,
        ..RowOptions::default()
    });
    let mut widths: BTreeMap<(Database, u8, usize), u32> = BTreeMap::new();
    for (database, key) in rows.keys() {
        if key[0] != b'a' {
            *widths.entry((*database, key[0], key.len())).or_default() += 1;
        }
    }
    let found: Vec<(Database, char, usize)> = widths
        .keys()
        .map(|(d, tag, width)| (*d, char::from(*tag), *width))
        .collect();
    use Database::{History, Txstore};
    let expected = [
        (Txstore, 'B', 33),
        (Txstore, 'C', 65),
        (Txstore, 'D', 33),
        (Txstore, 'M', 33),
        (Txstore, 'O', 37),
        (Txstore, 'T', 33),
        (Txstore, 'X', 33),
        (Txstore, 't', 1),
        (History, 'D', 33),
        (History, 'H', 82),
        (History, 'H', 118),
        (History, 'S', 73),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        rows.keys().filter(|(_, key)| key[0] == b'a').count(),
        chain.model().addresses().len()
    );
}

#[test]
fn the_source_in_memory_tells_the_chain() -> anyhow::Result<()> {
    let mut chain = TestChain::small(29, 60);
    let source = MemorySource::new(chain.model());
    let tip = chain.model().tip().hash;
    assert_eq!(source.tip()?.hash, tip);

    let all = source.headers(&|_| None, None)?;
    assert_eq!((all.start_height, all.headers.len()), (0, 61));
    let fork = chain.fork(5, 8);
    source.follow(chain.model());
    let old: BTreeSet<_> = all.headers.iter().map(|header| header.hash).collect();
    let run = source.headers(&|hash| old.contains(hash).then_some(0), None)?;
    assert_eq!((run.start_height, run.headers.len()), (56, 8));
    assert_eq!(run.tip.map(|tip| tip.height), Some(63));

    let wanted: Vec<_> = fork.added.iter().map(|block| block.block_hash()).collect();
    let units = source.plan(&wanted, 600)?;
    assert!(units.len() > 1);
    for unit in &units {
        let raw = source.read(unit)?;
        for (hash, range) in raw.blocks {
            let block: bitcoin::Block = bitcoin::consensus::deserialize(&raw.bytes[range])?;
            assert_eq!(block.block_hash(), hash);
        }
    }
    source.set_failing(true);
    assert!(source.tip().is_err_and(|error| error.is_transient()));
    Ok(())
}
