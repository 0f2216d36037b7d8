//! A descriptor wallet that people's wallets are made of, over this API and against a real node.

use bdk_esplora::EsploraAsyncExt as _;
use bdk_esplora::esplora_client::Builder;
use bdk_wallet::bitcoin::{FeeRate, secp256k1::Secp256k1};
use bdk_wallet::descriptor::IntoWalletDescriptor;
use bdk_wallet::miniscript::descriptor::KeyMapWrapper;
use bdk_wallet::psbt::PsbtUtils;
use bdk_wallet::{KeychainKind, SignOptions, Wallet};
use bitcoin::{Amount, Network, ScriptBuf, TxOut};
use cairn_http::{Listen, ServeLimits, serve};
use cairn_testkit::{COINBASE_MATURITY, Coin, Lock, spend};

use crate::mempool::Live;

const EXTERNAL: &str = "wpkh(tprv8ZgxMBicQKsPdy6LMhUtFHAgpocR8GC6QmwMSFpZs7h6Eziw3SpThFfczTDh5rW2krkqffa11UpX3XkeTTB2FvzZKWXqPY54Y6Rq4AQ5R8L/84'/1'/0'/0/*)";
const INTERNAL: &str = "wpkh(tprv8ZgxMBicQKsPdy6LMhUtFHAgpocR8GC6QmwMSFpZs7h6Eziw3SpThFfczTDh5rW2krkqffa11UpX3XkeTTB2FvzZKWXqPY54Y6Rq4AQ5R8L/84'/1'/0'/1/*)";
/// Unused addresses after which a scan ends.
const STOP_GAP: usize = 20;
/// Requests that the wallet makes at once.
const AT_ONCE: usize = 4;

fn fund(live: &Live, coin: Coin, script: ScriptBuf, value: u64) {
    let to = |script_pubkey, value| TxOut {
        value: Amount::from_sat(value),
        script_pubkey,
    };
    let change = Lock::Wsh(3).script_pubkey();
    let outputs = vec![to(script, value), to(change, coin.value - value - 5_000)];
    live.node.send(&spend(&[coin], outputs)).expect("taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_descriptor_wallet_scans_sends_and_survives_a_reorganisation() {
    let live = Live::start(COINBASE_MATURITY + 10).await;
    let listen: Listen = "127.0.0.1:0".parse().expect("an address");
    let listener = listen
        .bind(ServeLimits::default().backlog)
        .await
        .expect("a free port");
    let url = format!("http://{}", listener.address().expect("bound"));
    tokio::spawn(serve(
        listener,
        live.surface.clone(),
        std::future::pending::<()>(),
    ));
    let client = Builder::new(&url).build_async().expect("a client");

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
    // Payments to addresses far apart, found by a scan; the last one is not confirmed yet.
    let coins = live.coins(3);
    for (coin, index) in coins.into_iter().zip([0, 7, 19]) {
        let address = wallet.peek_address(KeychainKind::External, index);
        fund(&live, coin, address.script_pubkey(), 2_000_000);
        if index == 7 {
            live.node.mine(2).expect("blocks");
        }
    }
    live.settle().await;
    let request = wallet.start_full_scan();
    let update = client
        .full_scan(request, STOP_GAP, AT_ONCE)
        .await
        .expect("scanned");
    wallet.apply_update(update).expect("it fits");
    assert_eq!(wallet.balance().confirmed, Amount::from_sat(4_000_000));
    assert_eq!(
        wallet.balance().untrusted_pending,
        Amount::from_sat(2_000_000)
    );
    assert_eq!(wallet.derivation_index(KeychainKind::External), Some(19));
    live.node.mine(1).expect("a block");
    live.settle().await;

    let sync = async |wallet: &mut Wallet| {
        let request = wallet.start_sync_with_revealed_spks();
        let update = client.sync(request, AT_ONCE).await.expect("synced");
        wallet.apply_update(update).expect("it fits");
    };
    sync(&mut wallet).await;
    assert_eq!(wallet.balance().confirmed, Amount::from_sat(6_000_000));
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
    let txid = tx.compute_txid();
    client.broadcast(&tx).await.expect("taken");
    // It is there in the very next request.
    sync(&mut wallet).await;
    let left = Amount::from_sat(3_500_000) - fee;
    assert_eq!(wallet.balance().total(), left);
    let is_confirmed = |wallet: &Wallet| {
        let tx = wallet.get_tx(txid).expect("known");
        tx.chain_position.is_confirmed()
    };
    assert!(!is_confirmed(&wallet));

    // It is confirmed, taken back, and confirmed in another block.
    let block = live.node.mine(1).expect("a block")[0];
    live.settle().await;
    sync(&mut wallet).await;
    assert!(is_confirmed(&wallet));
    assert_eq!(wallet.balance().confirmed, left);
    live.node.invalidate(&block).expect("done");
    for _ in 0..2 {
        live.node
            .mine_transactions(&Lock::Wsh(2).script_pubkey(), &[])
            .expect("mined");
    }
    live.settle().await;
    sync(&mut wallet).await;
    assert!(!is_confirmed(&wallet));
    assert_eq!(wallet.balance().total(), left);
    live.node.mine(1).expect("a block");
    live.settle().await;
    sync(&mut wallet).await;
    assert!(is_confirmed(&wallet));
    assert_eq!(wallet.balance().confirmed, left);
    assert_eq!(
        wallet.latest_checkpoint().hash(),
        live.node.best_hash().expect("a tip")
    );
}
