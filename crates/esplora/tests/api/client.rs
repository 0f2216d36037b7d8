//! The library that wallets ask with, over a real connection.

use bitcoin::{Address, Network};
use cairn_http::{Listen, ServeLimits, serve};
use cairn_testkit::TestChain;
use esplora_client::Builder;
use tokio::sync::oneshot;

use crate::expected;
use crate::support::Api;

#[tokio::test(flavor = "multi_thread")]
async fn wallet_library_reads_the_chain() {
    let mut chain = TestChain::small(41, 125);
    chain.fork(2, 3);
    let model = chain.model();
    let api = Api::of(model);
    let listen: Listen = "127.0.0.1:0".parse().expect("an address");
    let listener = listen
        .bind(ServeLimits::default().backlog)
        .await
        .expect("a free port");
    let url = format!("http://{}", listener.address().expect("bound"));
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(listener, api.surface.clone(), async {
        stopped.await.ok();
    }));
    let client = Builder::new(&url).build_async().expect("a client");

    let tip = model.tip();
    assert_eq!(client.get_height().await.expect("height"), tip.height);
    assert_eq!(client.get_tip_hash().await.expect("hash"), tip.hash);
    for block in model.chain().iter().step_by(9) {
        let hash = block.hash;
        assert_eq!(
            client.get_block_hash(block.height).await.expect("hash"),
            hash
        );
        assert_eq!(
            client.get_header_by_hash(&hash).await.expect("header"),
            block.block.header
        );
        assert_eq!(
            client.get_block_by_hash(&hash).await.expect("block"),
            Some((*block.block).clone())
        );
        let status = client.get_block_status(&hash).await.expect("status");
        assert!(status.in_best_chain);
        assert_eq!(status.height, Some(block.height));
        assert_eq!(
            client
                .get_txid_at_block_index(&hash, 0)
                .await
                .expect("txid"),
            Some(block.txids[0])
        );
        assert_eq!(
            client
                .get_txid_at_block_index(&hash, 100_000)
                .await
                .expect("none"),
            None
        );
    }
    for (txid, place) in model.transactions().step_by(11) {
        let tx = model.tx(&txid).expect("listed");
        assert_eq!(
            client.get_tx(&txid).await.expect("transaction"),
            Some(tx.tx.clone())
        );
        let status = client.get_tx_status(&txid).await.expect("status");
        assert_eq!(
            (status.confirmed, status.block_height),
            (true, Some(place.height))
        );
        let info = client
            .get_tx_info(&txid)
            .await
            .expect("info")
            .expect("known");
        assert_eq!(info.to_tx(), tx.tx);
        assert_eq!(info.fee, bitcoin::Amount::from_sat(tx.fee));
        let proof = client
            .get_merkle_proof(&txid)
            .await
            .expect("proof")
            .expect("confirmed");
        assert_eq!(
            (proof.block_height, proof.pos),
            (place.height, place.position as usize)
        );
        let block = client
            .get_merkle_block(&txid)
            .await
            .expect("proof")
            .expect("confirmed");
        assert_eq!(block.header.block_hash(), tx.block);
        for (vout, spend) in model
            .spends_of(&txid)
            .expect("listed")
            .into_iter()
            .enumerate()
        {
            let status = client
                .get_output_status(&txid, vout as u64)
                .await
                .expect("status")
                .expect("known");
            assert_eq!(
                (status.spent, status.txid),
                (spend.is_some(), spend.map(|(txid, _, _)| txid))
            );
        }
    }
    let mut walked = 0;
    let scripts = model
        .scripts()
        .filter(|(hash, _)| model.is_indexed(hash, false))
        .enumerate();
    let some = scripts.filter(|(at, (hash, _))| at % 5 == 0 || model.stats(hash).tx_count > 25);
    for (_, (hash, script)) in some {
        let expected: Vec<_> = expected::history(model, &[*hash])
            .into_iter()
            .map(|(txid, _)| txid)
            .collect();
        let mut txids = Vec::new();
        loop {
            let page = client
                .get_scripthash_txs(script, txids.last().copied())
                .await
                .expect("page");
            let complete = page.len() < 25;
            txids.extend(page.into_iter().map(|tx| tx.txid));
            if complete {
                break;
            }
        }
        walked += usize::from(txids.len() > 25);
        assert_eq!(txids, expected);
        if let Ok(address) = Address::from_script(script, Network::Regtest) {
            let stats = client.get_address_stats(&address).await.expect("totals");
            assert_eq!(stats.chain_stats.tx_count as usize, expected.len());
            assert_eq!(stats.mempool_stats.tx_count, 0);
        }
    }
    assert!(walked > 0, "a history of several pages");
    let infos = client.get_block_infos(Some(15)).await.expect("blocks");
    let heights: Vec<u32> = infos.iter().map(|info| info.height).collect();
    assert_eq!(heights, (6..=15).rev().collect::<Vec<_>>());
    let txs = client
        .get_block_txs(&tip.hash, None)
        .await
        .expect("transactions");
    assert_eq!(txs.len(), tip.txids.len().min(25));
    assert_eq!(
        client.get_block_txids(&tip.hash).await.expect("ids"),
        tip.txids
    );
    let unknown = "00000000000000000000000000000000000000000000000000000000deadbeef"
        .parse()
        .expect("hash");
    assert_eq!(client.get_tx(&unknown).await.expect("no error"), None);
    stop.send(()).expect("server runs");
    server.await.expect("ends");
}
