//! Wallets that people use, against a real node: what they see must be what is.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bdk_electrum::BdkElectrumClient;
use bdk_electrum::electrum_client::{
    Client as RustClient, Config as RustConfig, ElectrumApi, Param,
};
use bdk_wallet::bitcoin::{FeeRate, secp256k1::Secp256k1};
use bdk_wallet::descriptor::IntoWalletDescriptor;
use bdk_wallet::miniscript::descriptor::KeyMapWrapper;
use bdk_wallet::psbt::PsbtUtils;
use bdk_wallet::{KeychainKind, SignOptions, Wallet};
use bitcoin::{Amount, Network, ScriptBuf};
use cairn_testkit::{COINBASE_MATURITY, Lock, spend};
use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::node::{NodeFixture, to};

const EXTERNAL: &str = "wpkh(tprv8ZgxMBicQKsPdy6LMhUtFHAgpocR8GC6QmwMSFpZs7h6Eziw3SpThFfczTDh5rW2krkqffa11UpX3XkeTTB2FvzZKWXqPY54Y6Rq4AQ5R8L/84'/1'/0'/0/*)";
const INTERNAL: &str = "wpkh(tprv8ZgxMBicQKsPdy6LMhUtFHAgpocR8GC6QmwMSFpZs7h6Eziw3SpThFfczTDh5rW2krkqffa11UpX3XkeTTB2FvzZKWXqPY54Y6Rq4AQ5R8L/84'/1'/0'/1/*)";

/// Pays a script from one of the chain's own coins.
fn fund(fixture: &NodeFixture, height: u32, script: ScriptBuf, value: u64) {
    let coin = fixture.coin(height);
    let output = bitcoin::TxOut {
        value: Amount::from_sat(value),
        script_pubkey: script,
    };
    let tx = spend(
        &[coin],
        vec![output, to(Lock::Wsh(3), coin.value - value - 5_000)],
    );
    fixture.node.send(&tx).expect("taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_rust_client_over_tcp_and_tls() {
    let fixture = NodeFixture::start(COINBASE_MATURITY + 5).await;
    let urls = [
        format!("tcp://{}", fixture.addresses[0]),
        format!("ssl://{}", fixture.addresses[1]),
    ];
    let script = Lock::Wpkh(1).script_pubkey();
    fund(&fixture, 1, script.clone(), 1_000_000);
    fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 1).await;
    let height = fixture.node.height().expect("a height") as usize;
    let expected_tip = fixture.node.best_hash().expect("a tip");
    for url in urls {
        let (script, url) = (script.clone(), url.clone());
        tokio::task::spawn_blocking(move || {
            let config = RustConfig::builder().validate_domain(false).build();
            let client = RustClient::from_config(&url, config).expect("connected");
            let tip = client.block_headers_subscribe().expect("a tip");
            assert_eq!(
                (tip.height, tip.header.block_hash()),
                (height, expected_tip)
            );
            let history = client.script_get_history(&script).expect("a history");
            assert_eq!((history.len(), history[0].height), (1, height as i32));
            let txid = history[0].tx_hash;
            assert_eq!(
                client.transaction_get(&txid).expect("known").compute_txid(),
                txid
            );
            let merkle = client
                .transaction_get_merkle(&txid, height)
                .expect("confirmed");
            let header = client.block_header(height).expect("there");
            assert!(bdk_electrum::electrum_client::utils::validate_merkle_proof(
                &txid,
                &header.merkle_root,
                &merkle
            ));
            let by_place = client
                .txid_from_pos_with_merkle(height, merkle.pos)
                .expect("there");
            assert_eq!(by_place.tx_hash, txid);
            assert_eq!(
                client.script_list_unspent(&script).expect("outputs")[0].value,
                1_000_000
            );
            assert_eq!(
                client
                    .script_get_balance(&script)
                    .expect("a balance")
                    .confirmed,
                1_000_000
            );
            assert!(
                client
                    .script_subscribe(&script)
                    .expect("a status")
                    .is_some()
            );
            assert!(
                client
                    .script_unsubscribe(&script)
                    .expect("it was subscribed to")
            );
            // What it calls a batch: many lines at once.
            let scripts: Vec<ScriptBuf> = (0..200).map(|n| Lock::Wpkh(n).script_pubkey()).collect();
            let histories = client
                .batch_script_get_history(scripts.iter().map(ScriptBuf::as_script))
                .expect("all answered");
            assert_eq!(histories.iter().map(Vec::len).sum::<usize>(), 1);
            let headers = client
                .batch_block_header((0..100).map(|height| height as u32))
                .expect("all answered");
            assert!(
                headers
                    .windows(2)
                    .all(|pair| pair[1].prev_blockhash == pair[0].block_hash())
            );
            let many = client.block_headers(0, 500).expect("those that there are");
            assert_eq!(many.count, height + 1);
            client.ping().expect("a pong");
            assert_eq!(client.estimate_fee(6, None).expect("an answer"), -1.0);
            let features = client.server_features().expect("features");
            assert!(features.server_version.starts_with("Cairn"));
            let unknown = client
                .raw_call("blockchain.nothing", Vec::<Param>::new())
                .expect_err("no such method");
            assert!(unknown.to_string().contains("unknown method"), "{unknown}");
        })
        .await
        .expect("the client is content");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_descriptor_wallet() {
    let fixture = NodeFixture::start(COINBASE_MATURITY + 10).await;
    let url = format!("tcp://{}", fixture.addresses[0]);
    let secp = Secp256k1::new();
    let (external, mut keys) = EXTERNAL
        .into_wallet_descriptor(&secp, Network::Regtest.into())
        .expect("a descriptor");
    let (internal, more) = INTERNAL
        .into_wallet_descriptor(&secp, Network::Regtest.into())
        .expect("a descriptor");
    keys.extend(more);
    let signer = KeyMapWrapper::from(keys);
    let mut wallet = Wallet::create(external, internal)
        .network(Network::Regtest)
        .create_wallet_no_persist()
        .expect("a wallet");
    let client = tokio::task::spawn_blocking(move || {
        BdkElectrumClient::new(RustClient::new(&url).expect("connected"))
    })
    .await
    .expect("no panic");
    // Payments to addresses far apart, found by a scan.
    for (height, index) in [(1, 0), (2, 7), (3, 19)] {
        let address = wallet.peek_address(KeychainKind::External, index);
        fund(&fixture, height, address.script_pubkey(), 2_000_000);
    }
    fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 2).await;
    let scan = |wallet: &mut Wallet| {
        let request = wallet.start_full_scan();
        let update = tokio::task::block_in_place(|| client.full_scan(request, 20, 5, true))
            .expect("scanned");
        wallet.apply_update(update).expect("it fits");
    };
    let sync = |wallet: &mut Wallet| {
        let request = wallet.start_sync_with_revealed_spks();
        let update = tokio::task::block_in_place(|| client.sync(request, 5, true)).expect("synced");
        wallet.apply_update(update).expect("it fits");
    };
    scan(&mut wallet);
    assert_eq!(wallet.balance().confirmed, Amount::from_sat(6_000_000));
    assert_eq!(wallet.derivation_index(KeychainKind::External), Some(19));
    assert_eq!(
        wallet.latest_checkpoint().height(),
        fixture.node.height().expect("a height")
    );
    // It sends.
    let mut builder = wallet.build_tx();
    builder.add_recipient(Lock::Wpkh(50).script_pubkey(), Amount::from_sat(2_500_000));
    builder.fee_rate(FeeRate::from_sat_per_vb(2).expect("small"));
    let mut psbt = builder.finish().expect("enough coins");
    psbt.sign(&signer, wallet.secp_ctx()).expect("its own keys");
    assert!(
        wallet
            .finalize_psbt(&mut psbt, SignOptions::default())
            .expect("signed")
    );
    let fee = psbt.fee_amount().expect("known");
    let tx = psbt.extract_tx().expect("complete");
    let txid = tokio::task::block_in_place(|| client.transaction_broadcast(&tx)).expect("taken");
    assert_eq!(txid, tx.compute_txid());
    sync(&mut wallet);
    let left = Amount::from_sat(3_500_000) - fee;
    assert_eq!(wallet.balance().total(), left);
    assert!(
        wallet
            .get_tx(txid)
            .expect("known")
            .chain_position
            .is_unconfirmed()
    );
    // It is confirmed, taken back, and confirmed in another block.
    let [block] = fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 1).await[..] else {
        panic!("one block")
    };
    sync(&mut wallet);
    assert!(
        wallet
            .get_tx(txid)
            .expect("known")
            .chain_position
            .is_confirmed()
    );
    assert_eq!(wallet.balance().confirmed, left);
    fixture.node.invalidate(&block).expect("done");
    fixture
        .node
        .mine_transactions(&Lock::Wsh(2).script_pubkey(), &[])
        .expect("mined");
    fixture
        .node
        .mine_transactions(&Lock::Wsh(2).script_pubkey(), &[])
        .expect("mined");
    fixture.caught_up().await;
    sync(&mut wallet);
    assert!(
        wallet
            .get_tx(txid)
            .expect("known")
            .chain_position
            .is_unconfirmed()
    );
    assert_eq!(wallet.balance().total(), left);
    fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 1).await;
    sync(&mut wallet);
    assert!(
        wallet
            .get_tx(txid)
            .expect("known")
            .chain_position
            .is_confirmed()
    );
    assert_eq!(
        (
            wallet.balance().confirmed,
            wallet.latest_checkpoint().hash()
        ),
        (left, fixture.node.best_hash().expect("a tip"))
    );
}

/// The program of Debian's package `electrum`.
const ELECTRUM: &str = "electrum";

/// An Electrum wallet without a window: its daemon with a folder of its own.
struct ElectrumWallet<'a> {
    dir: &'a Path,
}

impl ElectrumWallet<'_> {
    fn run(&self, args: &[&str]) -> Result<String, String> {
        let output = Command::new(ELECTRUM)
            .args(["--regtest", "-D"])
            .arg(self.dir)
            .args(args)
            .env("HOME", self.dir)
            .env_remove("DISPLAY")
            .output()
            .unwrap_or_else(|error| {
                panic!(
                    "{ELECTRUM}: {error}; `make setup-test` installs it (Debian's package electrum)"
                )
            });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!("{} {}", text(&output.stdout), text(&output.stderr)))
        }
    }

    fn ok(&self, args: &[&str]) -> String {
        self.run(args)
            .unwrap_or_else(|error| panic!("electrum {args:?}: {error}"))
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(args);
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("electrum {args:?}: {error}: {text}"))
    }

    /// Polls until an answer is as wanted.
    fn until(&self, args: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.json(args);
            if wanted(&answer) {
                return answer;
            }
            assert!(
                Instant::now() < end,
                "electrum {args:?} in the end says {answer}"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for ElectrumWallet<'_> {
    fn drop(&mut self) {
        // Fails if it never came up.
        let _ = self.run(&["stop"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_electrum_wallet() {
    let fixture = NodeFixture::start(COINBASE_MATURITY + 10).await;
    let dir = tempfile::tempdir().expect("a folder");
    let server = format!("{}:t", fixture.addresses[0]);
    let fixture = &fixture;
    let wallet = ElectrumWallet { dir: dir.path() };
    let session = async {
        wallet.ok(&["create", "--offline"]);
        wallet.ok(&["daemon", "-d", "--oneserver", "-s", &server]);
        wallet.ok(&["load_wallet"]);
        let tip = fixture.node.height().expect("a height");
        wallet.until(&["getinfo"], |info| {
            info["connected"] == true && info["blockchain_height"] == tip
        });
        // It receives: unconfirmed, then confirmed.
        let address = wallet.ok(&["getunusedaddress"]);
        let script = address
            .parse::<bitcoin::Address<_>>()
            .expect("an address")
            .require_network(Network::Regtest)
            .expect("of regtest")
            .script_pubkey();
        fund(fixture, 1, script, 50_000_000);
        wallet.until(&["getbalance"], |balance| balance["unconfirmed"] == "0.5");
        fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 1).await;
        wallet.until(&["getbalance"], |balance| {
            balance["confirmed"] == "0.5" && balance.get("unconfirmed").is_none()
        });
        // The proof of the payment was checked, or it would not count as confirmed.
        let history = wallet.json(&["onchain_history"]);
        let entry = &history["transactions"][0];
        assert_eq!(
            (&entry["confirmations"], &entry["height"]),
            (&json!(1), &json!(tip + 1)),
            "{history}"
        );
        // It sends.
        let to = bitcoin::Address::from_script(&Lock::Wpkh(50).script_pubkey(), Network::Regtest)
            .expect("an address")
            .to_string();
        let raw = wallet.ok(&["payto", &to, "0.2", "--fee", "0.0001"]);
        let txid = wallet.ok(&["broadcast", &raw]);
        let mempool = fixture
            .node
            .rpc("getrawmempool", json!([]))
            .expect("an answer");
        assert_eq!(mempool, json!([txid]));
        wallet.until(&["onchain_history"], |history| {
            history["transactions"]
                .as_array()
                .is_some_and(|txs| txs.len() == 2)
        });
        fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 1).await;
        wallet.until(&["getbalance"], |balance| {
            balance["confirmed"] == "0.2999" && balance.get("unconfirmed").is_none()
        });
        // What it refuses to send twice, the node refuses too, and the wallet says why.
        let again = wallet.run(&["broadcast", &raw]);
        assert!(again.is_err() || again.as_deref() == Ok(&txid), "{again:?}");
        // A reorganisation: the payment is unconfirmed, then confirmed in another block.
        let tip = fixture.node.best_hash().expect("a tip");
        fixture.node.invalidate(&tip).expect("done");
        fixture
            .node
            .mine_transactions(&Lock::Wsh(2).script_pubkey(), &[])
            .expect("mined");
        fixture
            .node
            .mine_transactions(&Lock::Wsh(2).script_pubkey(), &[])
            .expect("mined");
        fixture.caught_up().await;
        wallet.until(&["onchain_history"], |history| {
            history["transactions"].as_array().is_some_and(|txs| {
                txs.iter()
                    .any(|tx| tx["txid"] == txid.as_str() && tx["confirmations"] == 0)
            })
        });
        fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 1).await;
        wallet.until(&["getbalance"], |balance| {
            balance["confirmed"] == "0.2999" && balance.get("unconfirmed").is_none()
        });
    };
    session.await;
}
