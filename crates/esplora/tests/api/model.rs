//! Every block and every transaction of a generated chain, stale ones included, as the model knows them.

use bitcoin::consensus::encode::{deserialize, serialize};
use bitcoin::hashes::Hash;
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::{MerkleBlock, TxMerkleNode, Txid};
use cairn_esplora::objects::{Block, BlockStatus, MerkleProof, Spend, Status, Transaction};
use cairn_testkit::TestChain;

use crate::expected;
use crate::support::{Api, LONG, SHORT, class_at};

/// A chain with a reorganisation behind it.
fn chain() -> TestChain {
    let mut chain = TestChain::small(7, 112);
    chain.fork(3, 6);
    chain
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks() {
    let chain = chain();
    let model = chain.model();
    let api = Api::of(model);
    let tip = model.height();
    assert_eq!(
        api.get("/blocks/tip/height").await.ok_text(),
        tip.to_string()
    );
    assert_eq!(
        api.get("/blocks/tip/hash").await.ok_text(),
        model.tip().hash.to_string()
    );
    for block in model.chain() {
        let (hash, height) = (block.hash, block.height);
        let by_depth = class_at(tip, height);

        let got = api.get(&format!("/block-height/{height}")).await;
        assert_eq!(got.ok_text(), hash.to_string());
        got.assert_class(by_depth);

        let got = api.get(&format!("/block/{hash}/status")).await;
        let next = model.block_at(height + 1).map(|next| next.hash.to_string());
        let expected = BlockStatus {
            in_best_chain: true,
            height: Some(height),
            next_best: next,
        };
        assert_eq!(got.ok_json::<BlockStatus>(), expected);
        got.assert_class(by_depth);

        let list: Vec<Block> = api.get(&format!("/blocks/{height}")).await.ok_json();
        let down = (0..=height).rev().take(10);
        let expected: Vec<Block> = down
            .map(|at| expected::block(model.block_at(at).expect("of the chain")))
            .collect();
        assert_eq!(list, expected);
        every_form_of_a_block(&api, block).await;
        pages_of_a_block(&api, block, by_depth, |txid| expected::tx(model, txid)).await;
    }
    let newest: Vec<Block> = api.get("/blocks").await.ok_json();
    assert_eq!(newest.first().map(|block| block.height), Some(tip));
    assert_eq!(newest.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_blocks() {
    let mut chain = TestChain::small(8, 108);
    let api = Api::of(chain.model());
    // What the stale blocks say of themselves, taken while they were the chain.
    let before = chain.model().clone();
    chain.fork(3, 5);
    api.sync(chain.model());
    let mut seen = 0;
    for block in chain.model().stale_blocks() {
        seen += 1;
        let hash = block.hash;
        let got = api.get(&format!("/block/{hash}/status")).await;
        let expected = BlockStatus {
            in_best_chain: false,
            height: None,
            next_best: None,
        };
        assert_eq!(got.ok_json::<BlockStatus>(), expected);
        got.assert_class(SHORT);
        every_form_of_a_block(&api, block).await;
        pages_of_a_block(&api, block, SHORT, |txid| {
            let tx = before.tx(txid).expect("was confirmed");
            expected::tx_of(&tx, expected::unconfirmed())
        })
        .await;
        for txid in &block.txids {
            let status: Status = api.get(&format!("/tx/{txid}/status")).await.ok_json();
            let place = chain.model().place(txid);
            let expected = place.map_or_else(expected::unconfirmed, |place| {
                expected::status(chain.model(), place.height)
            });
            assert_eq!(status, expected, "{txid}");
            let shown: Transaction = api.get(&format!("/tx/{txid}")).await.ok_json();
            assert_eq!(shown.status, expected, "{txid}");
        }
    }
    assert_eq!(seen, 3);
}

/// What is a function of the hash alone.
async fn every_form_of_a_block(api: &Api, block: &cairn_testkit::ModelBlock) {
    let hash = block.hash;
    let got = api.get(&format!("/block/{hash}")).await;
    let shown: Block = got.ok_json();
    assert_eq!(shown, expected::block(block));
    got.assert_class(LONG);

    let got = api.get(&format!("/block/{hash}/header")).await;
    assert_eq!(
        got.ok_text(),
        serialize(&block.block.header).to_lower_hex_string()
    );
    got.assert_class(LONG);

    let got = api.get(&format!("/block/{hash}/raw")).await;
    assert_eq!(got.ok_bytes(), serialize(&*block.block));
    got.assert_class(LONG);

    let got = api.get(&format!("/block/{hash}/txids")).await;
    let expected: Vec<String> = block.txids.iter().map(Txid::to_string).collect();
    assert_eq!(got.ok_json::<Vec<String>>(), expected);
    got.assert_class(LONG);

    for (index, txid) in block.txids.iter().enumerate() {
        let got = api.get(&format!("/block/{hash}/txid/{index}")).await;
        assert_eq!(got.ok_text(), txid.to_string());
        got.assert_class(LONG);
    }
    let beyond = block.txids.len();
    api.get(&format!("/block/{hash}/txid/{beyond}"))
        .await
        .assert_error(404, "tx index out of range");
}

async fn pages_of_a_block(
    api: &Api,
    block: &cairn_testkit::ModelBlock,
    class: &str,
    expected: impl Fn(&Txid) -> Transaction,
) {
    let hash = block.hash;
    for (number, page) in block.txids.chunks(25).enumerate() {
        let got = api.get(&format!("/block/{hash}/txs/{}", number * 25)).await;
        let expected: Vec<Transaction> = page.iter().map(&expected).collect();
        assert_eq!(got.ok_json::<Vec<Transaction>>(), expected);
        got.assert_class(class);
        if number == 0 {
            for uri in [format!("/block/{hash}/txs"), format!("/block/{hash}/txs/x")] {
                assert_eq!(api.get(&uri).await.ok_json::<Vec<Transaction>>(), expected);
            }
        }
    }
    let beyond = block.txids.len().next_multiple_of(25);
    let got = api.get(&format!("/block/{hash}/txs/{beyond}")).await;
    got.assert_error(400, "start index out of range");
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions() {
    let chain = chain();
    let model = chain.model();
    let api = Api::of(model);
    let tip = model.height();
    let mut spent = 0;
    for (txid, place) in model.transactions() {
        let class = class_at(tip, place.height);
        let tx = model.tx(&txid).expect("listed");

        // Twice: read, and from what was kept.
        for _ in 0..2 {
            let got = api.get(&format!("/tx/{txid}")).await;
            assert_eq!(got.ok_json::<Transaction>(), expected::tx(model, &txid));
            got.assert_class(class);
        }
        let got = api
            .get(&format!("/tx/{}", txid.to_string().to_uppercase()))
            .await;
        assert_eq!(got.ok_json::<Transaction>().txid, txid.to_string());

        let got = api.get(&format!("/tx/{txid}/status")).await;
        assert_eq!(
            got.ok_json::<Status>(),
            expected::status(model, place.height)
        );
        got.assert_class(class);

        let raw = serialize(&tx.tx);
        let got = api.get(&format!("/tx/{txid}/hex")).await;
        assert_eq!(got.ok_text(), raw.to_lower_hex_string());
        got.assert_class(class);
        let got = api.get(&format!("/tx/{txid}/raw")).await;
        assert_eq!(got.ok_bytes(), raw);
        got.assert_class(class);

        proofs(&api, model, &txid, place, class).await;

        let expected: Vec<Spend> = model
            .spends_of(&txid)
            .expect("listed")
            .into_iter()
            .map(|spend| expected::spend(model, spend))
            .collect();
        let got = api.get(&format!("/tx/{txid}/outspends")).await;
        assert_eq!(got.ok_json::<Vec<Spend>>(), expected);
        got.assert_class(SHORT);
        for (vout, expected) in expected.iter().enumerate() {
            let got = api.get(&format!("/tx/{txid}/outspend/{vout}")).await;
            assert_eq!(got.ok_json::<Spend>(), *expected);
            let height = expected
                .status
                .as_ref()
                .and_then(|status| status.block_height);
            got.assert_class(height.map_or(SHORT, |height| class_at(tip, height)));
            spent += usize::from(expected.spent);
        }
        let got = api
            .get(&format!("/tx/{txid}/outspend/{}", expected.len()))
            .await;
        assert_eq!(got.text(), r#"{"spent":false}"#);
    }
    assert!(spent > 100, "the chain has spends: {spent}");
}

/// Both proofs lead to the header's merkle root.
async fn proofs(
    api: &Api,
    model: &cairn_testkit::Model,
    txid: &Txid,
    place: cairn_testkit::Place,
    class: &str,
) {
    let block = model.block_at(place.height).expect("listed");
    let got = api.get(&format!("/tx/{txid}/merkle-proof")).await;
    got.assert_class(class);
    let proof: MerkleProof = got.ok_json();
    assert_eq!(
        (proof.block_height, proof.pos),
        (place.height, place.position)
    );
    let mut hash = txid.to_byte_array();
    let mut position = proof.pos;
    for sibling in &proof.merkle {
        let sibling: TxMerkleNode = sibling.parse().expect("a hash");
        let pair = if position & 1 == 0 {
            [hash, sibling.to_byte_array()].concat()
        } else {
            [sibling.to_byte_array(), hash].concat()
        };
        hash = TxMerkleNode::hash(&pair).to_byte_array();
        position >>= 1;
    }
    assert_eq!(
        hash,
        block.block.header.merkle_root.to_byte_array(),
        "{txid}"
    );

    let got = api.get(&format!("/tx/{txid}/merkleblock-proof")).await;
    got.assert_class(class);
    let bytes = Vec::from_hex(got.ok_text()).expect("hexadecimal");
    let proof: MerkleBlock = deserialize(&bytes).expect("a merkle block");
    assert_eq!(proof.header, block.block.header);
    let (mut found, mut positions) = (Vec::new(), Vec::new());
    proof
        .extract_matches(&mut found, &mut positions)
        .expect("leads to the root");
    assert_eq!((found, positions), (vec![*txid], vec![place.position]));
}

#[tokio::test(flavor = "multi_thread")]
async fn outspends_of_many() {
    let chain = chain();
    let model = chain.model();
    let api = Api::of(model);
    let txids: Vec<Txid> = model
        .transactions()
        .map(|(txid, _)| txid)
        .step_by(7)
        .take(49)
        .collect();
    let unknown = "00".repeat(32);
    let mut asked: Vec<String> = txids.iter().map(Txid::to_string).collect();
    asked.insert(3, unknown);
    let got = api
        .get(&format!("/txs/outspends?txids={}", asked.join(",")))
        .await;
    let mut expected: Vec<Vec<Spend>> = txids
        .iter()
        .map(|txid| {
            let spends = model.spends_of(txid).expect("listed");
            spends
                .into_iter()
                .map(|spend| expected::spend(model, spend))
                .collect()
        })
        .collect();
    expected.insert(3, Vec::new());
    assert_eq!(got.ok_json::<Vec<Vec<Spend>>>(), expected);
    got.assert_class(SHORT);
    let encoded = asked.join("%2C");
    let got = api.get(&format!("/txs/outspends?txids={encoded}")).await;
    assert_eq!(
        got.ok_json::<Vec<Vec<Spend>>>(),
        expected,
        "percent-encoded commas"
    );
}
