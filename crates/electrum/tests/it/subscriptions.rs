//! What subscribers are told: every change, nothing else, and never a state that is not the newest once all is quiet.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::{OutPoint, Txid};
use cairn_testkit::{Lock, MempoolModel, Model, OWN_NUMBERS, Rng, ScriptHash, TestChain, spend};
use serde_json::{Value, json};

use crate::client::Client;
use crate::fixture::{Fixture, Setup, until};
use crate::model::{history, history_json, own_coin, own_script, pay, printed, status};

/// The test's own scripts that are watched.
const WATCHED: u32 = 12;

fn expected_status(model: &Model, mempool: &MempoolModel, script: &ScriptHash) -> Value {
    status(&history(model, mempool, script))
}

/// A random change: transactions that come, replace and go, blocks, reorganisations.
struct World {
    chain: TestChain,
    mempool: MempoolModel,
    rng: Rng,
}

impl World {
    fn step(&mut self) {
        match self.rng.below(10) {
            0..=3 => self.send(),
            4 => self.replace(),
            5 => self.evict(),
            6..=7 => self.mine(),
            8 => {
                self.mine();
                self.mine();
            }
            _ => self.reorganise(),
        }
    }

    fn number(&mut self) -> u32 {
        u32::try_from(self.rng.below(u64::from(WATCHED))).expect("small")
    }

    fn outputs(&mut self, value: u64) -> Vec<bitcoin::TxOut> {
        let share = value / 4;
        (0..3)
            .map(|_| {
                let to = self.number();
                pay(to, share)
            })
            .collect()
    }

    fn send(&mut self) {
        // From the test's own coins, confirmed or not, if there are some; else from the generator's.
        let model = self.chain.model();
        let mut own: Vec<cairn_testkit::Coin> = Vec::new();
        for number in 0..WATCHED {
            for utxo in model.utxos(&own_script(number)) {
                own.push(cairn_testkit::Coin {
                    outpoint: utxo.outpoint,
                    value: utxo.output.value.to_sat(),
                    lock: Lock::Wsh(OWN_NUMBERS + number),
                });
            }
        }
        for tx in self.mempool.txs() {
            for (vout, output) in (0u32..).zip(&tx.output) {
                if let Some(number) = (0..WATCHED)
                    .find(|number| pay(*number, 0).script_pubkey == output.script_pubkey)
                {
                    own.push(own_coin(tx, vout, number));
                }
            }
        }
        own.retain(|coin| self.mempool.spender(&coin.outpoint).is_none() && coin.value > 10_000);
        let coin = if own.len() > 4 {
            own[self.rng.index(own.len())]
        } else {
            match self.chain.coins(1).first() {
                Some(coin) => *coin,
                None => return,
            }
        };
        let outputs = self.outputs(coin.value);
        self.mempool
            .add(self.chain.model(), spend(&[coin], outputs));
    }

    fn replace(&mut self) {
        let count = self.mempool.txs().len();
        if count == 0 {
            return;
        }
        let at = self.rng.index(count);
        let mut tx = self.mempool.txs()[at].clone();
        let last = tx.output.last_mut().expect("three outputs");
        last.value = bitcoin::Amount::from_sat(last.value.to_sat() - 1_000);
        self.mempool.add(self.chain.model(), tx);
    }

    fn evict(&mut self) {
        let count = self.mempool.txs().len();
        if count > 0 {
            let at = self.rng.index(count);
            let txid = self.mempool.txids()[at];
            self.mempool.evict(&txid);
        }
    }

    /// A block with some of the transactions: never a child without its parent.
    fn mine(&mut self) {
        let txs = self.mempool.txs();
        let taken = txs[..self.rng.index(txs.len() + 1)].to_vec();
        self.chain.mine(taken);
        self.mempool.follow(self.chain.model(), Vec::new());
    }

    fn reorganise(&mut self) {
        let depth = 1 + u32::try_from(self.rng.below(8)).expect("small");
        let depth = depth.min(self.chain.height() - 110);
        if depth == 0 {
            return self.mine();
        }
        let gone = self.chain.rewind(depth);
        for _ in 0..=depth {
            self.chain.mine(Vec::new());
        }
        let returning = gone
            .iter()
            .flat_map(|block| block.txdata[1..].to_vec())
            .collect();
        self.mempool.follow(self.chain.model(), returning);
    }
}

/// What a client knows, by what it was answered and told.
struct Known {
    client: Client,
    statuses: BTreeMap<String, Value>,
    tip: Value,
    outputs: BTreeMap<OutPoint, Value>,
}

impl Known {
    /// Takes in everything that is told until the marker's answer comes; checks that nothing is told twice.
    async fn listen(&mut self) {
        self.client.ok("server.banner", json!([])).await;
        self.take_in().await;
    }

    /// Takes in what was told before the last answer.
    async fn take_in(&mut self) {
        while !self.client.aside.is_empty() {
            let (method, params) = self.client.notification().await;
            let before = match method.as_str() {
                "blockchain.headers.subscribe" => {
                    std::mem::replace(&mut self.tip, params[0].clone())
                }
                "blockchain.scripthash.subscribe" => {
                    let name = params[0].as_str().expect("a hash").to_owned();
                    self.statuses
                        .insert(name, params[1].clone())
                        .expect("it was subscribed to")
                }
                "blockchain.outpoint.subscribe" => {
                    let outpoint = OutPoint::new(
                        params[0].as_str().expect("hex").parse().expect("an id"),
                        params[1].as_u64().expect("whole") as u32,
                    );
                    self.outputs
                        .insert(outpoint, params[2].clone())
                        .expect("it was subscribed to")
                }
                other => panic!("{other}"),
            };
            assert_ne!(
                &before,
                params
                    .as_array()
                    .expect("a list")
                    .last()
                    .expect("not empty"),
                "told twice"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_arrives_and_no_other() {
    for seed in 0..4 {
        let mut world = World {
            chain: TestChain::small(41, 125),
            mempool: MempoolModel::default(),
            rng: Rng::new(seed),
        };
        let fixture = Fixture::of(world.chain.model()).await;
        let mut known = Known {
            client: fixture.client("1.6").await,
            statuses: BTreeMap::new(),
            tip: Value::Null,
            outputs: BTreeMap::new(),
        };
        known.tip = known
            .client
            .ok("blockchain.headers.subscribe", json!([]))
            .await;
        for number in 0..WATCHED {
            let name = printed(&own_script(number));
            let status = known
                .client
                .ok("blockchain.scripthash.subscribe", json!([name]))
                .await;
            known.statuses.insert(name, status);
        }
        let mut told = 0;
        for step in 0..50 {
            let before = (world.chain.model().tip().hash, known.statuses.clone());
            world.step();
            fixture.sync(world.chain.model(), world.mempool.txs()).await;
            let (model, mempool) = (world.chain.model(), &world.mempool);
            until(&format!("seed {seed} step {step}"), async || {
                known.listen().await;
                (0..WATCHED).all(|number| {
                    known.statuses[&printed(&own_script(number))]
                        == expected_status(model, mempool, &own_script(number))
                }) && known.tip["height"] == model.height()
                    && known.tip["hex"]
                        == bitcoin::consensus::encode::serialize_hex(&model.tip().block.header)
            })
            .await;
            told += known
                .statuses
                .iter()
                .filter(|(name, status)| before.1[*name] != **status)
                .count();
            // A history answered now hashes to what was told.
            let number = (step % u64::from(WATCHED)) as u32;
            let got = known
                .client
                .ok(
                    "blockchain.scripthash.get_history",
                    json!([printed(&own_script(number))]),
                )
                .await;
            assert_eq!(
                got,
                history_json(&history(model, mempool, &own_script(number)))
            );
            // Some outputs are watched as well, also ones that do not exist yet.
            if let Some(tx) = mempool.txs().last() {
                let outpoint = OutPoint::new(tx.compute_txid(), 0);
                let status = known
                    .client
                    .ok("blockchain.outpoint.subscribe", json!([outpoint.txid, 0]))
                    .await;
                // What was told before the answer is older than it.
                known.take_in().await;
                known.outputs.insert(outpoint, status);
            }
            let outputs: Vec<OutPoint> = known.outputs.keys().copied().collect();
            until(&format!("outputs, seed {seed} step {step}"), async || {
                known.listen().await;
                outputs.iter().all(|outpoint| {
                    known.outputs[outpoint] == expected_output(model, mempool, outpoint)
                })
            })
            .await;
        }
        assert!(told > 40, "the world moves: {told}");
        fixture.stop().await;
    }
}

fn expected_output(model: &Model, mempool: &MempoolModel, outpoint: &OutPoint) -> Value {
    let height_of = |txid: &Txid| -> Option<i64> {
        if let Some(place) = model.place(txid) {
            return Some(i64::from(place.height));
        }
        let tx = mempool.tx(txid)?;
        Some(-i64::from(tx.input.iter().any(|input| {
            mempool.tx(&input.previous_output.txid).is_some()
        })))
    };
    let Some(funder) = height_of(&outpoint.txid) else {
        return json!({});
    };
    let spender = model
        .spend(outpoint)
        .map(|(txid, ..)| txid)
        .or_else(|| mempool.spender(outpoint).map(|(txid, _)| txid));
    match spender {
        None => json!({"funder_height": funder}),
        Some(spender) => {
            json!({"funder_height": funder, "spender_txhash": spender, "spender_height": height_of(&spender)})
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_told_when_its_parent_is_confirmed() {
    let mut chain = TestChain::small(42, 120);
    let fixture = Fixture::of(chain.model()).await;
    let coin = chain.coins(1)[0];
    let parent = spend(&[coin], vec![pay(1, coin.value / 2)]);
    let child = spend(&[own_coin(&parent, 0, 1)], vec![pay(2, coin.value / 4)]);
    let mut mempool = MempoolModel::default();
    assert!(mempool.add(chain.model(), parent.clone()) && mempool.add(chain.model(), child));
    fixture.sync(chain.model(), mempool.txs()).await;
    let mut client = fixture.client("1.4").await;
    let ask = json!([printed(&own_script(2))]);
    let first = client
        .ok("blockchain.scripthash.subscribe", ask.clone())
        .await;
    let entries = client
        .ok("blockchain.scripthash.get_history", ask.clone())
        .await;
    assert_eq!(entries[0]["height"], -1);
    // The block touches nothing of the child's script; only the height of the child is another.
    chain.mine(vec![parent]);
    mempool.follow(chain.model(), Vec::new());
    fixture.sync(chain.model(), mempool.txs()).await;
    let (method, params) = client.notification().await;
    assert_eq!(
        (method.as_str(), &params[0]),
        ("blockchain.scripthash.subscribe", &ask[0])
    );
    assert_ne!(params[1], first);
    assert_eq!(
        params[1],
        expected_status(chain.model(), &mempool, &own_script(2))
    );
    let entries = client.ok("blockchain.scripthash.get_history", ask).await;
    assert_eq!(entries[0]["height"], 0);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_header_comes_before_the_statuses_and_the_block_is_there() {
    let mut chain = TestChain::small(43, 120);
    let fixture = Fixture::of(chain.model()).await;
    let mut client = fixture.client("1.4").await;
    client.ok("blockchain.headers.subscribe", json!([])).await;
    let ask = json!([printed(&own_script(1))]);
    assert_eq!(
        client
            .ok("blockchain.scripthash.subscribe", ask.clone())
            .await,
        Value::Null
    );
    for round in 0..10 {
        let coin = chain.coins(1)[0];
        chain.mine(vec![spend(&[coin], vec![pay(1, coin.value / 2)])]);
        fixture.sync(chain.model(), &[]).await;
        let (method, params) = client.notification().await;
        assert_eq!(
            (method.as_str(), &params[0]["height"]),
            ("blockchain.headers.subscribe", &json!(121 + round))
        );
        assert_eq!(
            params[0].as_object().expect("an object").len(),
            2,
            "wallets refuse other keys"
        );
        let entries = client
            .ok("blockchain.scripthash.get_history", ask.clone())
            .await;
        assert_eq!(entries.as_array().expect("a list").len(), round + 1);
        let (method, params) = client.notification().await;
        assert_eq!(
            (method.as_str(), &params[0]),
            ("blockchain.scripthash.subscribe", &ask[0])
        );
    }
    // A status that vanishes altogether.
    chain.rewind(10);
    for _ in 0..11 {
        chain.mine(Vec::new());
    }
    fixture.sync(chain.model(), &[]).await;
    assert_eq!(
        client.notification().await.0,
        "blockchain.headers.subscribe"
    );
    assert_eq!(client.notification().await.1, json!([ask[0], null]));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_repeated_as_they_were_written_and_subscriptions_end() {
    let mut chain = TestChain::small(44, 120);
    let fixture = Fixture::of(chain.model()).await;
    let mut client = fixture.client("1.4").await;
    let mut newest = fixture.client("1.7").await;
    let upper = printed(&own_script(1)).to_uppercase();
    let script = pay(1, 0).script_pubkey;
    let address = bitcoin::Address::from_script(&script, bitcoin::Network::Regtest)
        .expect("p2wsh")
        .to_string();
    client
        .ok("blockchain.scripthash.subscribe", json!([upper]))
        .await;
    newest
        .ok(
            "blockchain.scriptpubkey.subscribe",
            json!([script.to_hex_string()]),
        )
        .await;
    let mut third = fixture.client("1.4").await;
    third
        .ok("blockchain.address.subscribe", json!([address]))
        .await;
    let mut fourth = fixture.client("1.4").await;
    // Twice is as once, and then not at all.
    for _ in 0..2 {
        fourth
            .ok(
                "blockchain.scripthash.subscribe",
                json!([printed(&own_script(1))]),
            )
            .await;
    }
    assert_eq!(fixture.server.subscriptions(), 4);
    assert_eq!(
        fourth
            .ok("blockchain.scripthash.unsubscribe", json!([upper]))
            .await,
        true
    );
    assert_eq!(
        fourth
            .ok("blockchain.scripthash.unsubscribe", json!([upper]))
            .await,
        false
    );
    let coin = chain.coins(1)[0];
    let tx = spend(&[coin], vec![pay(1, coin.value / 2)]);
    third
        .ok(
            "blockchain.transaction.subscribe",
            json!([tx.compute_txid()]),
        )
        .await;
    chain.mine(vec![tx.clone()]);
    fixture.sync(chain.model(), &[]).await;
    let (method, params) = client.notification().await;
    assert_eq!(
        (method.as_str(), &params[0]),
        ("blockchain.scripthash.subscribe", &json!(upper))
    );
    let (method, params) = newest.notification().await;
    assert_eq!(
        (method.as_str(), &params[0]),
        (
            "blockchain.scriptpubkey.subscribe",
            &json!(script.to_hex_string())
        )
    );
    let both: BTreeSet<(String, String)> = [third.notification().await, third.notification().await]
        .into_iter()
        .map(|(method, params)| (method, params[0].as_str().expect("text").to_owned()))
        .collect();
    let expected = BTreeSet::from([
        ("blockchain.address.subscribe".to_owned(), address),
        (
            "blockchain.transaction.subscribe".to_owned(),
            tx.compute_txid().to_string(),
        ),
    ]);
    assert_eq!(both, expected);
    fourth.ok("server.ping", json!([])).await;
    assert!(fourth.aside.is_empty());
    drop((client, newest, third, fourth));
    until("all subscriptions end with their sessions", async || {
        fixture.server.subscriptions() == 0
    })
    .await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_while_blocks_and_reorganisations_arrive() {
    let mut world = World {
        chain: TestChain::small(45, 125),
        mempool: MempoolModel::default(),
        rng: Rng::new(9),
    };
    let fixture = std::sync::Arc::new(Fixture::with(world.chain.model(), Setup::default()).await);
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let readers: Vec<_> = (0..6u64)
        .map(|seed| {
            let (fixture, done) = (fixture.clone(), done.clone());
            tokio::spawn(async move {
                let (mut rng, mut asked) = (Rng::new(seed), 0u32);
                let mut client = fixture.client("1.4").await;
                let batch = |name: &str| {
                    let call = |id: u32, method: &str| json!({"id": id, "method": format!("blockchain.scripthash.{method}"), "params": [name]});
                    json!([call(1, "get_balance"), call(2, "listunspent"), call(3, "get_history"), call(4, "get_mempool")]).to_string()
                };
                while !done.load(std::sync::atomic::Ordering::Relaxed) || asked < 20 {
                    let name = printed(&own_script(rng.below(u64::from(WATCHED)) as u32));
                    let answers = client.ask_raw(&batch(&name)).await;
                    for answer in answers.as_array().expect("a list") {
                        let Some(entries) = answer["result"].as_array().filter(|_| answer["id"] == 3) else { continue };
                        // One state: heights do not fall, the unconfirmed come last, nothing is there twice.
                        let heights: Vec<i64> = entries.iter().map(|entry| entry["height"].as_i64().expect("whole")).collect();
                        let confirmed = heights.iter().take_while(|height| **height > 0).count();
                        assert!(heights[..confirmed].is_sorted(), "{entries:?}");
                        assert!(heights[confirmed..].iter().all(|height| *height <= 0), "{entries:?}");
                        let ids: BTreeSet<&str> = entries.iter().map(|entry| entry["tx_hash"].as_str().expect("hex")).collect();
                        assert_eq!(ids.len(), entries.len(), "a transaction is there twice");
                    }
                    asked += 1;
                }
                asked
            })
        })
        .collect();
    for _ in 0..60 {
        world.step();
        fixture.sync(world.chain.model(), world.mempool.txs()).await;
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.expect("answers are of one state") >= 20);
    }
}
