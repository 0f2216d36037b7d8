//! Every answer about every script, transaction and header, compared with the model of a generated chain, by code that
//! shares nothing with the server's.

use bitcoin::hashes::{Hash, sha256, sha256d};
use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, BlockHash, OutPoint, Transaction, TxOut, Txid};
use cairn_testkit::{
    Coin, Lock, MempoolModel, Model, OWN_NUMBERS, ScriptHash, TestChain, fixtures, script_hash,
    spend,
};
use serde_json::{Value, json};

use crate::client::Client;
use crate::fixture::{Fixture, Setup};

/// A script hash as the protocol prints it.
pub(crate) fn printed(script: &ScriptHash) -> String {
    let mut bytes = *script;
    bytes.reverse();
    bytes.to_lower_hex_string()
}

/// The history of a script: `(txid, height, fee of an unconfirmed one)`.
pub(crate) fn history(
    model: &Model,
    mempool: &MempoolModel,
    script: &ScriptHash,
) -> Vec<(Txid, i64, Option<u64>)> {
    let mut entries: Vec<(Txid, i64, Option<u64>)> = model
        .history(script)
        .into_iter()
        .filter(|(_, place)| place.height > 0)
        .map(|(txid, place)| (txid, i64::from(place.height), None))
        .collect();
    let touches = mempool.touches(model);
    let mut unconfirmed: Vec<(i64, String, Txid, u64)> = Vec::new();
    for touch in touches.get(script).into_iter().flatten() {
        let tx = mempool.tx(&touch.txid).expect("touches are of the list");
        let has_parents = tx
            .input
            .iter()
            .any(|input| mempool.tx(&input.previous_output.txid).is_some());
        let paid: u64 = tx.output.iter().map(|output| output.value.to_sat()).sum();
        let spent: u64 = mempool
            .prevouts(model, tx)
            .expect("valid")
            .iter()
            .map(|output| output.value.to_sat())
            .sum();
        unconfirmed.push((
            -i64::from(has_parents),
            touch.txid.to_string(),
            touch.txid,
            spent - paid,
        ));
    }
    unconfirmed.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    unconfirmed.dedup();
    entries.extend(
        unconfirmed
            .into_iter()
            .map(|(height, _, txid, fee)| (txid, height, Some(fee))),
    );
    entries
}

/// The same as JSON.
pub(crate) fn history_json(entries: &[(Txid, i64, Option<u64>)]) -> Value {
    entries
        .iter()
        .map(|(txid, height, fee)| match fee {
            None => json!({"tx_hash": txid.to_string(), "height": height}),
            Some(fee) => json!({"tx_hash": txid.to_string(), "height": height, "fee": fee}),
        })
        .collect()
}

/// The status of a history.
pub(crate) fn status(entries: &[(Txid, i64, Option<u64>)]) -> Value {
    if entries.is_empty() {
        return Value::Null;
    }
    let text: String = entries
        .iter()
        .map(|(txid, height, _)| format!("{txid}:{height}:"))
        .collect();
    sha256::Hash::hash(text.as_bytes()).to_string().into()
}

fn unspent(model: &Model, mempool: &MempoolModel, script: &ScriptHash) -> Value {
    let mut list: Vec<Value> = model
        .utxos(script)
        .into_iter()
        .filter(|utxo| utxo.place.height > 0 && mempool.spender(&utxo.outpoint).is_none())
        .map(|utxo| {
            json!({"tx_hash": utxo.outpoint.txid.to_string(), "tx_pos": utxo.outpoint.vout,
                   "height": utxo.place.height, "value": utxo.output.value.to_sat()})
        })
        .collect();
    let touches = mempool.touches(model);
    for touch in touches.get(script).into_iter().flatten() {
        if let Some(vout) = touch.funds
            && mempool.spender(&OutPoint::new(touch.txid, vout)).is_none()
        {
            list.push(json!({"tx_hash": touch.txid.to_string(), "tx_pos": vout, "height": 0, "value": touch.value}));
        }
    }
    list.into()
}

fn balance(model: &Model, mempool: &MempoolModel, script: &ScriptHash) -> Value {
    let confirmed: u64 = model
        .utxos(script)
        .into_iter()
        .filter(|utxo| utxo.place.height > 0)
        .map(|utxo| utxo.output.value.to_sat())
        .sum();
    let unconfirmed: i64 = mempool
        .touches(model)
        .get(script)
        .into_iter()
        .flatten()
        .map(|touch| {
            if touch.funds.is_some() {
                touch.value as i64
            } else {
                -(touch.value as i64)
            }
        })
        .sum();
    json!({"confirmed": confirmed, "unconfirmed": unconfirmed})
}

/// An output that pays one of the test's own scripts.
pub(crate) fn pay(number: u32, value: u64) -> TxOut {
    TxOut {
        value: Amount::from_sat(value),
        script_pubkey: Lock::Wsh(OWN_NUMBERS + number).script_pubkey(),
    }
}

/// The script hash of one of the test's own scripts.
pub(crate) fn own_script(number: u32) -> ScriptHash {
    script_hash(&Lock::Wsh(OWN_NUMBERS + number).script_pubkey())
}

/// The coin that an output of [`pay`] is.
pub(crate) fn own_coin(tx: &Transaction, vout: u32, number: u32) -> Coin {
    Coin {
        outpoint: OutPoint::new(tx.compute_txid(), vout),
        value: tx.output[vout as usize].value.to_sat(),
        lock: Lock::Wsh(OWN_NUMBERS + number),
    }
}

/// A mempool with chains of unconfirmed parents on a chain.
fn some_mempool(chain: &mut TestChain) -> MempoolModel {
    let mut mempool = MempoolModel::default();
    for (n, coin) in (0u32..).zip(chain.coins(5)) {
        let parent = spend(
            &[coin],
            vec![pay(1, coin.value / 3), pay(2 + n, coin.value / 3)],
        );
        let child_coin = own_coin(&parent, 0, 1);
        let child = spend(
            &[child_coin],
            vec![pay(1, child_coin.value / 2), pay(20, child_coin.value / 4)],
        );
        assert!(mempool.add(chain.model(), parent));
        assert!(n % 2 == 0 || mempool.add(chain.model(), child));
    }
    mempool
}

/// All questions about all scripts, by one client.
async fn check_scripts(client: &mut Client, model: &Model, mempool: &MempoolModel) -> usize {
    let own: Vec<ScriptHash> = (0..25).map(own_script).collect();
    let scripts: Vec<ScriptHash> = model
        .scripts()
        .map(|(script, _)| *script)
        .chain(own)
        .collect();
    for script in &scripts {
        let name = printed(script);
        let ask = json!([name]);
        let is_known = model.scripts().any(|(known, _)| known == script);
        let expected = if !is_known || model.is_indexed(script, false) {
            history(model, mempool, script)
        } else {
            // What can never be spent has no history.
            history(
                &Model::new(bitcoin::Network::Regtest),
                &MempoolModel::default(),
                script,
            )
        };
        let got = client
            .ok("blockchain.scripthash.get_history", ask.clone())
            .await;
        assert_eq!(got, history_json(&expected), "history of {name}");
        let pending: Vec<_> = expected
            .iter()
            .filter(|entry| entry.2.is_some())
            .copied()
            .collect();
        let got = client
            .ok("blockchain.scripthash.get_mempool", ask.clone())
            .await;
        assert_eq!(got, history_json(&pending), "mempool of {name}");
        let got = client
            .ok("blockchain.scripthash.get_status", ask.clone())
            .await;
        assert_eq!(got, status(&expected), "status of {name}");
        let got = client
            .ok("blockchain.scripthash.get_balance", ask.clone())
            .await;
        assert_eq!(got, balance(model, mempool, script), "balance of {name}");
        let got = client
            .ok("blockchain.scripthash.listunspent", ask.clone())
            .await;
        assert_eq!(got, unspent(model, mempool, script), "outputs of {name}");
        let first = client.ok("blockchain.scripthash.get_first_use", ask).await;
        match expected.first() {
            None => assert_eq!(first, Value::Null),
            // Of several in the mempool any may have come first.
            Some((txid, height, None)) => {
                assert_eq!(
                    (&first["tx_hash"], &first["block_height"]),
                    (&json!(txid), &json!(height))
                );
            }
            Some((_, _, Some(_))) => assert_eq!(first["block_height"], 0),
        }
    }
    scripts.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_as_the_model_has_them() {
    let mut chain = TestChain::small(31, 160);
    let fixture = Fixture::of(chain.model()).await;
    let mut client = fixture.client("1.4").await;
    let nothing = MempoolModel::default();
    assert!(check_scripts(&mut client, chain.model(), &nothing).await > 100);
    let mempool = some_mempool(&mut chain);
    fixture.sync(chain.model(), mempool.txs()).await;
    check_scripts(&mut client, chain.model(), &mempool).await;
    // The same through the script itself, in the shape of 1.7.
    let mut newest = fixture.client("1.7").await;
    for (script, pubkey) in chain.model().scripts().take(40) {
        if !chain.model().is_indexed(script, false) {
            continue;
        }
        let ask = json!([pubkey.to_hex_string()]);
        let expected = history(chain.model(), &mempool, script);
        let got = newest
            .ok("blockchain.scriptpubkey.get_history", ask.clone())
            .await;
        assert_eq!(got, json!({"history": history_json(&expected)}));
        let got = newest
            .ok("blockchain.scriptpubkey.listunspent", ask.clone())
            .await;
        assert_eq!(
            got,
            json!({"utxos": unspent(chain.model(), &mempool, script)})
        );
        let got = newest
            .ok("blockchain.scriptpubkey.get_balance", ask.clone())
            .await;
        assert_eq!(got, balance(chain.model(), &mempool, script));
        let got = newest.ok("blockchain.scriptpubkey.subscribe", ask).await;
        assert_eq!(got, status(&expected));
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_a_history_by_height() {
    let chain = TestChain::small(32, 150);
    let model = chain.model();
    let fixture = Fixture::of(model).await;
    let mut client = fixture.client("1.4").await;
    let nothing = MempoolModel::default();
    let busiest = *model
        .scripts()
        .map(|(script, _)| script)
        .filter(|script| model.is_indexed(script, false))
        .max_by_key(|script| model.history(script).len())
        .expect("there are scripts");
    let all = history(model, &nothing, &busiest);
    for (from, to) in [
        (0, -1),
        (100, -1),
        (0, 120),
        (110, 130),
        (120, 120),
        (149, 9_999),
    ] {
        let expected: Vec<_> = all
            .iter()
            .filter(|(_, height, _)| *height >= from && (to < 0 || *height < to))
            .copied()
            .collect();
        let got = client
            .ok(
                "blockchain.scripthash.get_history",
                json!([printed(&busiest), from, to]),
            )
            .await;
        assert_eq!(got, history_json(&expected), "{from} to {to}");
    }
    client
        .refused(
            "blockchain.scripthash.get_history",
            json!([printed(&busiest), 10, 5]),
            1,
        )
        .await;
    client
        .refused(
            "blockchain.scripthash.get_history",
            json!([printed(&busiest), 10, -2]),
            1,
        )
        .await;
    fixture.stop().await;
}

/// Folds a branch: bit `k` of the position tells on which side the sibling is.
fn fold(mut node: [u8; 32], branch: &[Value], position: u64) -> [u8; 32] {
    for (level, sibling) in branch.iter().enumerate() {
        let mut sibling: [u8; 32] =
            bitcoin::hex::FromHex::from_hex(sibling.as_str().expect("hex")).expect("a hash");
        sibling.reverse();
        let pair = if position >> level & 1 == 1 {
            [sibling, node]
        } else {
            [node, sibling]
        };
        node = sha256d::Hash::hash(&pair.concat()).to_byte_array();
    }
    node
}

fn display(mut node: [u8; 32]) -> Value {
    node.reverse();
    node.to_lower_hex_string().into()
}

/// The root of a tree of block hashes, built whole.
fn naive_root(hashes: &[BlockHash]) -> [u8; 32] {
    let mut level: Vec<[u8; 32]> = hashes.iter().map(|hash| hash.to_byte_array()).collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| {
                sha256d::Hash::hash(&[pair[0], *pair.last().expect("not empty")].concat())
                    .to_byte_array()
            })
            .collect();
    }
    level[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_and_their_proofs() {
    let chain = TestChain::small(33, 130);
    let model = chain.model();
    let fixture = Fixture::of(model).await;
    let mut client = fixture.client("1.6").await;
    for (txid, place) in model.transactions().filter(|(_, place)| place.height > 95) {
        let raw = client.ok("blockchain.transaction.get", json!([txid])).await;
        let expected =
            bitcoin::consensus::encode::serialize_hex(&model.tx(&txid).expect("confirmed").tx);
        assert_eq!(raw, expected);
        let proof = client
            .ok(
                "blockchain.transaction.get_merkle",
                json!([txid, place.height]),
            )
            .await;
        assert_eq!(
            (&proof["pos"], &proof["block_height"]),
            (&json!(place.position), &json!(place.height))
        );
        let branch = proof["merkle"].as_array().expect("a list");
        let root = model
            .block_at(place.height)
            .expect("there")
            .block
            .header
            .merkle_root;
        assert_eq!(
            fold(txid.to_byte_array(), branch, u64::from(place.position)),
            root.to_byte_array()
        );
        let id = client
            .ok(
                "blockchain.transaction.id_from_pos",
                json!([place.height, place.position]),
            )
            .await;
        assert_eq!(id, json!(txid));
        let id = client
            .ok(
                "blockchain.transaction.id_from_pos",
                json!([place.height, place.position, true]),
            )
            .await;
        assert_eq!(id, json!({"tx_hash": txid, "merkle": branch}));
        assert_eq!(
            client
                .ok("blockchain.transaction.get_height", json!([txid]))
                .await,
            place.height
        );
        client
            .refused(
                "blockchain.transaction.get_merkle",
                json!([txid, place.height - 1]),
                1,
            )
            .await;
    }
    let unknown = "ab".repeat(32);
    let text = client
        .refused("blockchain.transaction.get", json!([unknown]), 2)
        .await;
    assert!(
        text.contains("No such mempool or blockchain transaction"),
        "{text}"
    );
    client
        .refused(
            "blockchain.transaction.get_merkle",
            json!([unknown, 100]),
            1,
        )
        .await;
    client
        .refused("blockchain.transaction.get_height", json!([unknown]), 2)
        .await;
    client
        .refused("blockchain.transaction.id_from_pos", json!([100, 9_999]), 1)
        .await;
    client
        .refused("blockchain.transaction.id_from_pos", json!([131, 0]), 1)
        .await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_and_their_proofs() {
    // More than two thousand headers, so that one answer does not hold them all, and kept subtrees of several levels.
    let mut chain = TestChain::new(cairn_testkit::Params {
        ..cairn_testkit::Params::small(34)
    });
    chain.grow(420);
    let fixture = Fixture::of(chain.model()).await;
    let mut client = fixture.client("1.4").await;
    check_proofs(&mut client, chain.model()).await;
    // After a reorganisation deeper than a kept subtree, and back on a lower tip.
    chain.fork(100, 101);
    fixture.sync(chain.model(), &[]).await;
    check_proofs(&mut client, chain.model()).await;
    fixture.stop().await;
}

async fn check_proofs(client: &mut Client, model: &Model) {
    let hashes: Vec<BlockHash> = model.chain().iter().map(|block| block.hash).collect();
    let headers: Vec<String> = model
        .chain()
        .iter()
        .map(|block| bitcoin::consensus::encode::serialize_hex(&block.block.header))
        .collect();
    let tip = u64::from(model.height());
    for (height, checkpoint) in [
        (0, 1),
        (1, 1),
        (0, 2),
        (2, 2),
        (5, 8),
        (63, 63),
        (63, 64),
        (64, 64),
        (0, 127),
        (127, 128),
        (200, 255),
        (255, 256),
        (256, 256),
        (300, 383),
        (17, 384),
        (384, 384),
        (319, 320),
        (321, tip),
        (0, tip),
        (tip, tip),
        (tip - 1, tip),
    ] {
        let got = client
            .ok("blockchain.block.header", json!([height, checkpoint]))
            .await;
        assert_eq!(got["header"], headers[height as usize]);
        let root = naive_root(&hashes[..=checkpoint as usize]);
        assert_eq!(got["root"], display(root), "{height} of {checkpoint}");
        let branch = got["branch"].as_array().expect("a list");
        assert_eq!(
            fold(hashes[height as usize].to_byte_array(), branch, height),
            root,
            "{height} of {checkpoint}"
        );
        assert_eq!(
            branch.len(),
            (checkpoint + 1).next_power_of_two().ilog2() as usize
        );
        assert_eq!(
            client.ok("blockchain.block.header", json!([height])).await,
            headers[height as usize]
        );
        let got = client
            .ok("blockchain.block.headers", json!([height, 1, checkpoint]))
            .await;
        assert_eq!(
            (&got["root"], &got["branch"]),
            (&display(root), &json!(branch))
        );
    }
    let got = client
        .ok("blockchain.block.headers", json!([3, 5, 0]))
        .await;
    assert_eq!(
        got,
        json!({"count": 5, "hex": headers[3..8].concat(), "max": 2016})
    );
    let got = client
        .ok("blockchain.block.headers", json!([tip - 1, 5]))
        .await;
    assert_eq!(
        got,
        json!({"count": 2, "hex": headers[tip as usize - 1..].concat(), "max": 2016})
    );
    let got = client
        .ok("blockchain.block.headers", json!([tip + 1, 5]))
        .await;
    assert_eq!(got, json!({"count": 0, "hex": "", "max": 2016}));
    let got = client
        .ok("blockchain.block.headers", json!([0, 99_999_999_999u64]))
        .await;
    assert_eq!(got["count"], (tip + 1).min(2016));
    for params in [
        json!([tip + 1]),
        json!([5, 4]),
        json!([5, tip + 1]),
        json!([-1]),
        json!(["5"]),
        json!([u64::MAX, u64::MAX]),
    ] {
        client.refused("blockchain.block.header", params, 1).await;
    }
    client
        .refused("blockchain.block.headers", json!([5, 3, 6]), 1)
        .await;
    client
        .refused("blockchain.block.headers", json!([-1, 3]), 1)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_vectors_of_mainnet() {
    let blocks = fixtures::mainnet_blocks()
        .into_iter()
        .skip(1)
        .map(std::sync::Arc::new);
    let model = Model::of_blocks(bitcoin::Network::Bitcoin, blocks);
    let fixture = Fixture::of(&model).await;
    let mut client = fixture.client("1.4").await;
    // The protocol's documents give the root at checkpoint 8 of the real chain.
    let got = client.ok("blockchain.block.header", json!([5, 8])).await;
    assert_eq!(
        got["root"],
        "e347b1c43fd9b5415bf0d92708db8284b78daf4d0e24f9c3405f45feb85e25db"
    );
    // The key of the genesis block, whose coins never existed.
    let genesis = "740485f380ff6379d11ef6fe7d7cdd68aea7f8bd0d953d9fdf3531fb7d531833";
    for (method, expected) in [
        ("get_history", json!([])),
        ("listunspent", json!([])),
        ("get_balance", json!({"confirmed": 0, "unconfirmed": 0})),
        ("subscribe", Value::Null),
        ("get_first_use", Value::Null),
    ] {
        let got = client
            .ok(&format!("blockchain.scripthash.{method}"), json!([genesis]))
            .await;
        assert_eq!(got, expected, "{method}");
    }
    let coinbase = model.block_at(0).expect("genesis").txids[0];
    assert_eq!(
        client
            .ok("blockchain.outpoint.get_status", json!([coinbase, 0]))
            .await,
        json!({})
    );
    // By its address, as an addition of this server.
    let first = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa";
    let hash = client
        .ok("blockchain.address.get_scripthash", json!([first]))
        .await;
    assert_eq!(
        hash,
        "8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161"
    );
    assert_eq!(
        client
            .ok("blockchain.address.get_history", json!([first]))
            .await,
        json!([])
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_and_who_spends_them() {
    let mut chain = TestChain::small(35, 130);
    let mempool = some_mempool(&mut chain);
    let fixture = Fixture::of(chain.model()).await;
    fixture.sync(chain.model(), mempool.txs()).await;
    let model = chain.model();
    let mut client = fixture.client("1.7").await;
    let height_of = |txid: &Txid| match model.place(txid) {
        Some(place) => i64::from(place.height),
        None => {
            let tx = mempool.tx(txid).expect("known");
            -i64::from(
                tx.input
                    .iter()
                    .any(|input| mempool.tx(&input.previous_output.txid).is_some()),
            )
        }
    };
    let mut confirmed: Vec<Txid> = model
        .transactions()
        .filter(|(_, place)| place.height > 0)
        .map(|(txid, _)| txid)
        .collect();
    confirmed.truncate(250);
    let mut spent = 0;
    for txid in confirmed.into_iter().chain(mempool.txids()) {
        let count = model.tx(&txid).map_or_else(
            || mempool.tx(&txid).expect("known").output.len(),
            |tx| tx.tx.output.len(),
        );
        for vout in 0..=count as u32 {
            let outpoint = OutPoint::new(txid, vout);
            let spender = model
                .spend(&outpoint)
                .map(|(txid, ..)| txid)
                .or_else(|| mempool.spender(&outpoint).map(|(txid, _)| txid));
            let expected = match spender {
                _ if vout == count as u32 => json!({}),
                None => json!({"funder_height": height_of(&txid)}),
                Some(spender) => {
                    spent += 1;
                    json!({"funder_height": height_of(&txid), "spender_txhash": spender, "spender_height": height_of(&spender)})
                }
            };
            let got = client
                .ok("blockchain.outpoint.get_status", json!([txid, vout, "51"]))
                .await;
            assert_eq!(got, expected, "{outpoint}");
            let info = client
                .ok("blockchain.utxo.get_info", json!([txid, vout]))
                .await;
            assert_eq!(
                info.is_null(),
                spender.is_some() || vout == count as u32,
                "{outpoint}: {info}"
            );
        }
    }
    assert!(spent > 50);
    client
        .refused(
            "blockchain.outpoint.get_status",
            json!(["ab".repeat(32), 0, "xyz"]),
            1,
        )
        .await;
    client
        .refused("blockchain.outpoint.get_status", json!(["ab", 0]), 1)
        .await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_histories_are_read_beside_the_session_or_refused() {
    // One script with more rows than are read in place.
    let mut chain = TestChain::small(36, 120);
    let mut mempool = Vec::new();
    for coin in chain.coins(6) {
        let outputs = (0..200).map(|_| pay(1, coin.value / 300)).collect();
        mempool.push(spend(&[coin], outputs));
    }
    chain.mine(mempool);
    for _ in 0..3 {
        let own: Vec<Coin> = chain
            .model()
            .utxos(&own_script(1))
            .iter()
            .take(150)
            .map(|utxo| Coin {
                outpoint: utxo.outpoint,
                value: utxo.output.value.to_sat(),
                lock: Lock::Wsh(OWN_NUMBERS + 1),
            })
            .collect();
        let txs = own
            .iter()
            .map(|coin| spend(&[*coin], vec![pay(1, coin.value - 1)]))
            .collect();
        chain.mine(txs);
    }
    chain.grow(8);
    let model = chain.model();
    let nothing = MempoolModel::default();
    let expected = history(model, &nothing, &own_script(1));
    assert!(expected.len() > 450);
    let ask = json!([printed(&own_script(1))]);
    for (limit, fits) in [
        (0, true),
        (expected.len(), true),
        (expected.len() - 1, false),
    ] {
        let mut setup = Setup {
            utxos_limit: Some(5_000),
            ..Setup::default()
        };
        setup.options.limits.history = limit;
        let fixture = Fixture::with(model, setup).await;
        let mut client = fixture.client("1.4").await;
        // Twice, since the second time goes on from what was kept.
        for _ in 0..2 {
            if fits {
                assert_eq!(
                    client
                        .ok("blockchain.scripthash.get_history", ask.clone())
                        .await,
                    history_json(&expected)
                );
                assert_eq!(
                    client
                        .ok("blockchain.scripthash.subscribe", ask.clone())
                        .await,
                    status(&expected)
                );
            } else {
                for method in ["get_history", "subscribe", "get_status"] {
                    let text = client
                        .refused(
                            &format!("blockchain.scripthash.{method}"),
                            ask.clone(),
                            10_001,
                        )
                        .await;
                    assert_eq!(text, "history too large");
                }
            }
            assert_eq!(
                client
                    .ok("blockchain.scripthash.get_balance", ask.clone())
                    .await,
                balance(model, &nothing, &own_script(1))
            );
            assert_eq!(
                client
                    .ok("blockchain.scripthash.listunspent", ask.clone())
                    .await,
                unspent(model, &nothing, &own_script(1))
            );
        }
        fixture.stop().await;
    }
    let mut setup = Setup {
        utxos_limit: Some(100),
        ..Setup::default()
    };
    setup.options.limits.history = 0;
    let fixture = Fixture::with(model, setup).await;
    let mut client = fixture.client("1.4").await;
    assert_eq!(
        client
            .refused("blockchain.scripthash.listunspent", ask, 10_001)
            .await,
        "history too large"
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recent_transactions_and_the_histogram() {
    let mut chain = TestChain::small(37, 120);
    let mempool = some_mempool(&mut chain);
    let fixture = Fixture::of(chain.model()).await;
    let mut client = fixture.client("1.7").await;
    assert_eq!(
        client.ok("mempool.get_fee_histogram", json!([])).await,
        json!([])
    );
    assert_eq!(client.ok("mempool.recent", json!([])).await, json!([]));
    fixture.sync(chain.model(), mempool.txs()).await;
    let recent = client.ok("mempool.recent", json!([])).await;
    let mut got: Vec<&str> = recent
        .as_array()
        .expect("a list")
        .iter()
        .map(|tx| tx["txid"].as_str().expect("hex"))
        .collect();
    got.sort_unstable();
    let mut expected: Vec<String> = mempool.txids().iter().map(Txid::to_string).collect();
    expected.sort_unstable();
    assert_eq!(got, expected);
    let histogram = client.ok("mempool.get_fee_histogram", json!([])).await;
    let bins = histogram.as_array().expect("a list");
    let sizes: u64 = bins.iter().map(|bin| bin[1].as_u64().expect("whole")).sum();
    let expected: u64 = mempool
        .txs()
        .iter()
        .map(|tx| tx.weight().to_wu().div_ceil(4))
        .sum();
    assert_eq!(sizes, expected, "everything is in a bin");
    let rates: Vec<f64> = bins
        .iter()
        .map(|bin| bin[0].as_f64().expect("a rate"))
        .collect();
    assert!(rates.windows(2).all(|pair| pair[0] > pair[1]), "{rates:?}");
    fixture.stop().await;
}
