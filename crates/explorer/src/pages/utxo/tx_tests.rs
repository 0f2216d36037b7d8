//! Tests of the transaction page, rendered from records made by hand.

use bitcoin::absolute;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{OutPoint, ScriptBuf, Sequence as TxSequence, TxIn, Witness};

use super::super::samples::{
    block_ref, frame, pays, record, regtest, script, spends, text, txid, wpkh,
};
use super::*;

fn data_output(bytes: &[u8]) -> ScriptBuf {
    let push = PushBytesBuf::try_from(bytes.to_vec()).expect("short enough for a push");
    Builder::new()
        .push_opcode(bitcoin::opcodes::all::OP_RETURN)
        .push_slice(push)
        .into_script()
}

fn render_page(
    record: &TxRecord,
    spends: &[Option<Spending>],
    inputs: usize,
    outputs: usize,
) -> Result<String, PageError> {
    let selection = CoinSelection { inputs, outputs };
    Ok(TxPage::new(frame(), record, spends, false, selection)?.render()?)
}

fn render(record: &TxRecord, spends: &[Option<Spending>]) -> String {
    render_page(record, spends, 1, 1).expect("the page renders")
}

#[test]
fn a_payment_shows_both_sides() {
    let mut input = spends(txid(0xaa), 1);
    input.witness = Witness::from_slice(&[vec![0x30, 0x44], vec![0x02; 33]]);
    input.sequence = TxSequence(0xffff_fffd);
    let record = record(
        vec![input],
        vec![Some(pays(wpkh(1), 100_000))],
        vec![pays(wpkh(2), 60_000), pays(wpkh(1), 39_000)],
    );
    let spend = Spending {
        txid: txid(0xcc),
        vin: 3,
        block: Some(block_ref(840_002)),
    };
    let html = render(&record, &[Some(spend), None]);
    let seen = text(&html);
    for part in [
        "3 confirmations",
        "SegWit",
        "RBF",
        "10 min ago",
        "0.001 00000",
        "0.0006 0000",
        "0.00039 000",
        "0.00001 000",
        "840,001",
        "P2WPKH",
        "in block 840,002",
        "unspent",
        "Witness item 1",
        "020202",
        "replaceable",
    ] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
    let chain = regtest();
    for href in [
        format!(
            "href=\"{}\"",
            chain.output_href(&OutPoint {
                txid: txid(0xaa),
                vout: 1
            })
        ),
        format!("href=\"{}\"", chain.input_href(&txid(0xcc), 3)),
        format!(
            "href=\"{}\"",
            chain.owner(&wpkh(2)).href.expect("an address has a page")
        ),
        format!("href=\"/bitcoin-regtest/api/tx/{}/hex\"", record.txid),
    ] {
        assert!(html.contains(&href), "{href} in {html}");
    }
}

#[test]
fn a_coinbase_spends_nothing_and_has_no_fee() {
    let input = TxIn {
        previous_output: OutPoint::null(),
        script_sig: ScriptBuf::from_bytes(b"\x03\x01\x02\x03/Stone & <b>Moss</b>/".to_vec()),
        sequence: TxSequence::MAX,
        witness: Witness::new(),
    };
    let record = record(vec![input], vec![None], vec![pays(wpkh(1), 312_500_000)]);
    let html = render(&record, &[None]);
    let seen = text(&html);
    assert!(seen.contains("New coins and the block's fees"), "{seen}");
    assert!(!seen.contains("Fee rate"), "{seen}");
    assert!(!html.contains("<b>Moss"), "{html}");
    assert!(html.contains("Stone &#38; &#60;b&#62;Moss"), "{html}");
}

#[test]
fn data_outputs_show_their_text_escaped() {
    let hostile = "<script>alert(\"x\")</script>";
    let record = record(
        vec![spends(txid(1), 0)],
        vec![Some(pays(wpkh(1), 1_000))],
        vec![
            pays(data_output(hostile.as_bytes()), 0),
            pays(data_output(&[0xff, 0x00]), 0),
        ],
    );
    let html = render(&record, &[None, None]);
    assert!(!html.contains(hostile), "{html}");
    assert!(
        html.contains("&#60;script&#62;alert(&#34;x&#34;)&#60;/script&#62;"),
        "{html}"
    );
    assert_eq!(
        html.matches("class=\"data\"").count(),
        1,
        "bytes that are no text are shown as hex alone"
    );
    assert_eq!(text(&html).matches("cannot be spent").count(), 2);
}

#[test]
fn a_stale_transaction_says_so() {
    let mut record = record(
        vec![spends(txid(1), 0)],
        vec![Some(pays(wpkh(1), 1_000))],
        vec![pays(wpkh(2), 900)],
    );
    record.block = None;
    let seen = text(&render(&record, &[None]));
    assert!(seen.contains("not confirmed"), "{seen}");
    assert!(
        seen.contains("No block of the best chain holds this transaction"),
        "{seen}"
    );
    assert!(!seen.contains("merkle proof"), "{seen}");
}

#[test]
fn a_waiting_transaction_says_so() {
    let mut record = record(
        vec![spends(txid(1), 0)],
        vec![Some(pays(wpkh(1), 1_000))],
        vec![pays(wpkh(2), 900)],
    );
    record.block = None;
    let spend = Spending {
        txid: txid(0xcc),
        vin: 0,
        block: None,
    };
    let selection = CoinSelection {
        inputs: 1,
        outputs: 1,
    };
    let page = TxPage::new(frame(), &record, &[Some(spend)], true, selection).expect("a page");
    let seen = text(&page.render().expect("it renders"));
    assert!(seen.contains("waits in the mempool"), "{seen}");
    assert!(seen.contains("spent by"), "{seen}");
    assert!(seen.contains("unconfirmed"), "{seen}");
    assert!(!seen.contains("has been replaced"), "{seen}");
}

#[test]
fn lock_times_are_explained() {
    let mut locked = record(
        vec![spends(txid(1), 0)],
        vec![Some(pays(wpkh(1), 1_000))],
        vec![pays(wpkh(2), 900)],
    );
    let mut tx = bitcoin::Transaction::clone(&locked.tx);
    tx.lock_time = absolute::LockTime::from_consensus(840_000);
    locked.tx = tx.clone().into();
    let seen = text(&render(&locked, &[None]));
    assert!(
        seen.contains("not before height 840000 (ignored: every input is final)"),
        "{seen}"
    );
    tx.input[0].sequence = TxSequence(0xffff_fffe);
    locked.tx = tx.into();
    let seen = text(&render(&locked, &[None]));
    assert!(
        seen.contains("not before height 840000") && !seen.contains("ignored"),
        "{seen}"
    );
}

#[test]
fn many_outputs_come_in_pages() {
    let outputs = (0..250).map(|_| pays(script("51"), 1)).collect();
    let record = record(
        vec![spends(txid(1), 0)],
        vec![Some(pays(wpkh(1), 1_000))],
        outputs,
    );
    let spends = vec![None; 250];
    let first = render(&record, &spends);
    assert!(first.contains("id=\"out-99\"") && !first.contains("id=\"out-100\""));
    assert!(first.contains("?inputs=1&#38;outputs=2"), "{first}");
    let last = render_page(&record, &spends, 1, 3).expect("page 3 of 3");
    assert!(last.contains("id=\"out-249\"") && !last.contains("id=\"out-199\""));
    assert!(text(&last).contains("200 to 249 of 250"));
    let beyond = render_page(&record, &spends, 1, 4).expect_err("page 4 of 3");
    assert!(matches!(beyond, PageError::NotFound { .. }), "{beyond}");
    let huge = render_page(&record, &spends, u32::MAX as usize, 1).expect_err("no such page");
    assert!(matches!(huge, PageError::NotFound { .. }), "{huge}");
}

#[test]
fn a_large_witness_is_clipped() {
    let mut input = spends(txid(1), 0);
    input.witness = Witness::from_slice(&vec![vec![0x5a; 3_000]; 40]);
    let record = record(
        vec![input],
        vec![Some(pays(wpkh(1), 1_000))],
        vec![pays(wpkh(2), 900)],
    );
    let html = render(&record, &[None]);
    assert!(html.len() < 100_000, "{} bytes", html.len());
    let seen = text(&html);
    assert!(seen.contains("3000 bytes in all"), "{seen}");
    assert!(seen.contains("16: see the raw data"), "{seen}");
}
