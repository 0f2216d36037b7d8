//! Tests of the block page, rendered from records made by hand.

use bitcoin::{OutPoint, ScriptBuf};

use super::super::samples::{block_ref, frame, pays, record, spends, summary, text, txid, wpkh};
use super::*;

fn txs() -> Vec<TxRecord> {
    let mut coinbase = spends(txid(0), 0);
    coinbase.previous_output = OutPoint::null();
    coinbase.script_sig = ScriptBuf::from_bytes(b"\x03abc/Example Pool/".to_vec());
    vec![
        record(vec![coinbase], vec![None], vec![pays(wpkh(1), 312_501_000)]),
        record(
            vec![spends(txid(2), 0)],
            vec![Some(pays(wpkh(1), 100_000))],
            vec![pays(wpkh(2), 99_000)],
        ),
    ]
}

fn render(block: &BlockSummary, next: Option<BlockRef>, page: usize) -> String {
    BlockPage::new(frame(), block, next, &txs(), page)
        .render()
        .expect("the page renders")
}

#[test]
fn a_block_shows_its_facts_and_neighbours() {
    let html = render(&summary(840_001, 2), Some(block_ref(840_002)), 1);
    let seen = text(&html);
    for part in [
        "Block 840,001",
        "3 confirmations",
        "99.8 %",
        "3,993,000 WU",
        "1.79 MB",
        "3.12501 000",
        "Example Pool",
        "0x20000000",
        "0x207fffff",
        "1 to 2 of 2",
        "coinbase",
        "← 840,000",
        "840,002 →",
    ] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
    assert!(
        html.contains(&format!(
            "href=\"/bitcoin-regtest/block/{}\"",
            "aa".repeat(32)
        )),
        "{html}"
    );
}

#[test]
fn a_stale_block_says_so() {
    let stale = BlockSummary {
        in_best_chain: false,
        ..summary(840_001, 2)
    };
    let seen = text(&render(&stale, None, 1));
    assert!(
        seen.contains("stale") && seen.contains("not on the best chain"),
        "{seen}"
    );
    assert!(!seen.contains("confirmation"), "{seen}");
}

#[test]
fn genesis_has_no_predecessor() {
    let html = render(&summary(0, 2), None, 1);
    assert!(!html.contains("rel=\"prev\""), "{html}");
}

#[test]
fn later_pages_number_on_and_leave_the_coinbase_out() {
    let seen = text(&render(&summary(840_001, 27), None, 2));
    assert!(seen.contains("26 to 27 of 27"), "{seen}");
    assert!(!seen.contains("Example Pool"), "{seen}");
}

#[test]
fn names() {
    let hash = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
    assert!(matches!(Name::parse(hash), Ok(Name::Hash(h)) if h.to_string() == hash));
    assert!(matches!(Name::parse("840000"), Ok(Name::Height(840_000))));
    for text in ["", "-1", "4294967296", "abc", &hash[1..], "<b>"] {
        assert!(Name::parse(text).is_err(), "{text}");
    }
}

#[test]
fn page_numbers() {
    assert_eq!(page_number(None).ok(), Some(1));
    assert_eq!(page_number(Some("7")).ok(), Some(7));
    for text in ["0", "-1", "x", "", "99999999999"] {
        assert!(page_number(Some(text)).is_err(), "{text}");
    }
}

#[test]
fn links_between_pages() {
    let only = Pages::new("/b", 1, 25);
    assert!(!only.any());
    let middle = Pages::new("/b", 2, 51);
    assert_eq!(middle.first.as_deref(), Some("/b"));
    assert_eq!(middle.previous.as_deref(), Some("/b"));
    assert_eq!(middle.next.as_deref(), Some("/b?page=3"));
    assert_eq!(middle.last.as_deref(), Some("/b?page=3"));
    let end = Pages::new("/b", 3, 51);
    assert!(end.any() && end.next.is_none() && end.last.is_none());
}
