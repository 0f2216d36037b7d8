//! Tests of the pages of one script, rendered from records made by hand.

use bitcoin::OutPoint;

use super::super::samples::{block_ref, frame, pays, record, regtest, spends, text, txid, wpkh};
use super::*;

fn stats() -> ScriptStats {
    ScriptStats {
        tx_count: 3,
        funded_txo_count: 3,
        funded_txo_sum: 250_000,
        spent_txo_count: 1,
        spent_txo_sum: 100_000,
    }
}

fn address(byte: u8) -> Subject {
    Subject::Address(
        regtest()
            .address(&wpkh(byte))
            .expect("a script with an address"),
    )
}

/// Receives 50,000; then spends 100,000 and gets 39,000 back.
fn records() -> Vec<TxRecord> {
    let received = record(
        vec![spends(txid(1), 0)],
        vec![Some(pays(wpkh(9), 60_000))],
        vec![pays(wpkh(1), 50_000)],
    );
    let sent = record(
        vec![spends(txid(2), 0)],
        vec![Some(pays(wpkh(1), 100_000))],
        vec![pays(wpkh(2), 60_000), pays(wpkh(1), 39_000)],
    );
    vec![sent, received]
}

fn history(
    subject: &Subject,
    stats: Result<ScriptStats, QueryError>,
    more: bool,
) -> Result<String, PageError> {
    let records = records();
    let part = Part {
        records: &records,
        continued: false,
        more,
        waiting: Vec::new(),
        waiting_stats: ScriptStats::default(),
        chart: None,
    };
    Ok(HistoryPage::new(frame(), subject, stats, part)?.render()?)
}

#[test]
fn history_shows_totals_and_net_changes() {
    let html = history(&address(1), Ok(stats()), false).expect("the page renders");
    let seen = text(&html);
    for part in [
        "Balance 0.0015 0000",
        "BTC in 2 outputs",
        "Received 0.0025 0000",
        "BTC in 3 outputs",
        "Sent 0.001 00000",
        "BTC from 1 output ",
        "\u{2212}0.00061 000",
        "+0.0005 0000",
        "P2WPKH",
        "Unspent outputs (2)",
    ] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
    assert!(!seen.contains("Older"), "{seen}");
}

#[test]
fn a_longer_history_links_to_the_rest() {
    let html = history(&address(1), Ok(stats()), true).expect("the page renders");
    let last = &records()[1].txid;
    assert!(html.contains(&format!("?after={last}\"")), "{html}");
}

#[test]
fn a_script_hash_finds_its_script_and_address() {
    let hash = Subject::Script(ScriptHash::of(wpkh(1).as_bytes()));
    let html = history(&hash, Ok(stats()), false).expect("the page renders");
    let address = regtest()
        .address(&wpkh(1))
        .expect("a script with an address");
    assert!(
        html.contains(&format!("href=\"/bitcoin-regtest/address/{address}\"")),
        "{html}"
    );
    assert!(text(&html).contains("\u{2212}0.00061 000"));
}

#[test]
fn a_history_too_large_for_totals_is_still_shown() {
    let html = history(&address(1), Err(QueryError::TooManyRows), true).expect("the page renders");
    let seen = text(&html);
    assert!(seen.contains("larger than one request may read"), "{seen}");
    assert!(!seen.contains("Balance"), "{seen}");
    assert!(seen.contains("+0.0005 0000"), "{seen}");
}

#[test]
fn impossible_totals_are_a_defect_and_not_a_number() {
    let broken = ScriptStats {
        spent_txo_sum: 300_000,
        ..stats()
    };
    let error = history(&address(1), Ok(broken), false).expect_err("more spent than received");
    assert!(matches!(error, PageError::Internal(_)), "{error}");
}

fn unspent(utxos: Option<&[Utxo]>, page: usize) -> Result<String, PageError> {
    let chain = regtest();
    let subject = address(1);
    let profile = Profile::new(
        &chain,
        &subject,
        Some(wpkh(1)),
        Ok(stats()),
        ScriptStats::default(),
    )?;
    Ok(UnspentPage::new(frame(), profile, utxos, page)?.render()?)
}

#[test]
fn unspent_outputs_come_newest_first_in_pages() {
    let utxos: Vec<Utxo> = (0..150u32)
        .map(|i| Utxo {
            outpoint: OutPoint {
                txid: txid(7),
                vout: i,
            },
            value: Some(bitcoin::Amount::from_sat(u64::from(i) + 1)),
            block: block_ref(1_000 + i),
        })
        .collect();
    let first = unspent(Some(&utxos), 1).expect("page 1");
    let place = |html: &str, height: &str| html.find(height).unwrap_or_else(|| panic!("{height}"));
    assert!(place(&first, ">1,149<") < place(&first, ">1,050<"));
    assert!(!first.contains(">1,049<"));
    assert!(first.contains("/utxo?page=2"));
    let second = unspent(Some(&utxos), 2).expect("page 2");
    assert!(text(&second).contains("101 to 150 of 150"));
    assert!(matches!(
        unspent(Some(&utxos), 3),
        Err(PageError::NotFound { .. })
    ));
}

#[test]
fn too_many_and_no_unspent_outputs_are_friendly_lines() {
    let many = text(&unspent(None, 1).expect("the page renders"));
    assert!(many.contains("more unspent outputs"), "{many}");
    let none = text(&unspent(Some(&[]), 1).expect("the page renders"));
    assert!(none.contains("No unspent outputs."), "{none}");
}
