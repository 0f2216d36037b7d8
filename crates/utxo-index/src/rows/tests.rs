//! The worked vectors of the layout, and what must hold for any bytes.

use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash;
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::{BlockHash, OutPoint, Transaction, Txid};

use cairn_utxo_chain::elements::Issuance;
use cairn_utxo_chain::walk::{Coin, OutputRef};
use cairn_utxo_chain::{AssetId, Family, Field, Output};

use super::*;
use crate::types::{AssetStats, IssuedStats, NativeStats, ScriptHash, ScriptStats};

fn bytes(hex: &str) -> Vec<u8> {
    Vec::from_hex(&hex.replace([' ', '\n'], "")).expect("test vector is hex")
}

#[test]
fn scripthash_and_rows_of_a_funded_and_spent_output() {
    let script = bytes("76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac");
    let scripthash = ScriptHash::of(&script);
    assert_eq!(
        scripthash.to_string(),
        "6191c3b590bfcfa0475e877c302da1e323497acf3b42c08d8fa28e364edf018b"
    );
    let funding = Txid::from_byte_array([0x11; 32]);
    let spending = Txid::from_byte_array([0x22; 32]);
    let (ones, twos) = ("11".repeat(32), "22".repeat(32));
    let key = hist_funding_key(&scripthash, 840_000, &funding, 1, 546);
    assert_eq!(
        key.to_lower_hex_string(),
        format!("48{scripthash}000cd14046{ones}000000010000000000000222")
    );
    let outpoint = OutPoint::new(funding, 1);
    let key = hist_spending_key(&scripthash, 840_001, &spending, 0, &outpoint, 546);
    assert_eq!(
        key.to_lower_hex_string(),
        format!("48{scripthash}000cd14153{twos}00000000{ones}000000010000000000000222")
    );
    let key = edge_key(&outpoint, &spending, 0);
    assert_eq!(
        key.to_lower_hex_string(),
        format!("53{ones}00000001{twos}00000000")
    );
}

const RAW_TX: &str = "02000000000101aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0100000000fdffffff0260ea00000000000016
    00141415161718191a1b1c1d1e1f20212223242526275898000000000000160014000102030405060708090a0b0c0d0e0f101112130247304402
    201111111111111111111111111111111111111111111111111111111111111111022022222222222222222222222222222222222222222222
    222222222222222222220121023333333333333333333333333333333333333333333333333333333333333333 40d10c00";

#[test]
fn rows_of_a_whole_transaction() {
    let raw = bytes(RAW_TX);
    let tx: Transaction = deserialize(&raw).expect("vector decodes");
    let txid = tx.compute_txid();
    assert_eq!(
        txid.to_string(),
        "5ad8d5e9aa56fc502bcc5e03e70d451d07bd8b1864e9d17b3f0732e8f18a5f2d"
    );
    assert_eq!((tx.total_size(), tx.weight().to_wu()), (222, 561));
    let id = "2d5f8af1e832073f7bd1e964188bbd071d450de7035ecc2b50fc56aae9d5d85a";
    let block = BlockHash::from_byte_array([0xbb; 32]);
    assert_eq!(tx_key(&txid).to_lower_hex_string(), format!("54{id}"));
    assert_eq!(
        conf_key(&txid, &block).to_lower_hex_string(),
        format!("43{id}{}", "bb".repeat(32))
    );
    assert_eq!(
        out_key(&txid, 0).to_lower_hex_string(),
        format!("4f{id}00000000")
    );
    let out = &tx.output[0];
    let mut value = Vec::new();
    write_out_value(out.script_pubkey.as_bytes(), out.value.to_sat(), &mut value);
    assert_eq!(
        value.to_lower_hex_string(),
        "00141415161718191a1b1c1d1e1f2021222324252627000000000000ea60"
    );
    let funded = ScriptHash::of(out.script_pubkey.as_bytes());
    assert_eq!(
        hist_funding_key(&funded, 840_001, &txid, 0, out.value.to_sat()).to_lower_hex_string(),
        format!(
            "48334402e62930d7cc01226fc7a456c6f481eed74974783e46ea1d2127276e4bc2000cd14146{id}00000000000000000000ea60"
        )
    );
    let spent = tx.input[0].previous_output;
    let spent_script = ScriptHash::of(&bytes("0014000102030405060708090a0b0c0d0e0f10111213"));
    assert_eq!(
        hist_spending_key(&spent_script, 840_001, &txid, 0, &spent, 100_000).to_lower_hex_string(),
        format!(
            "48b14041d9db450672155f52d3d1adedc0e63730faae1bb21e6f2d30b3ae6e5042000cd14153{id}00000000{}\
             0000000100000000000186a0",
            "aa".repeat(32)
        )
    );
    assert_eq!(
        edge_key(&spent, &txid, 0).to_lower_hex_string(),
        format!("53{}00000001{id}00000000", "aa".repeat(32))
    );
}

/// A value, asset or nonce that is a commitment.
fn commitment(prefix: u8) -> [u8; 33] {
    let mut bytes = [0x5a; 33];
    bytes[0] = prefix;
    bytes
}

fn blinded_value() -> Field {
    Field::parse_value(&commitment(9)).expect("a commitment")
}

/// An output of Elements of a plain asset, with a blinded or a plain value.
fn elements_output(value: &[u8]) -> Output {
    let asset = Field::asset(AssetId::from_byte_array([4; 32]));
    let coin = cairn_utxo_chain::elements::Confidential {
        asset: asset.as_bytes(),
        value,
        nonce: &commitment(2),
    };
    OutputRef {
        script: &[0x51, 0x52],
        coin: Coin::Confidential(coin),
    }
    .into()
}

#[test]
fn rows_of_elements_have_the_bytes_of_the_layout() {
    let (txid, other) = (
        Txid::from_byte_array([0x11; 32]),
        Txid::from_byte_array([0x22; 32]),
    );
    let (ones, twos) = ("11".repeat(32), "22".repeat(32));
    let asset = AssetId::from_byte_array([0x44; 32]);
    let fours = "44".repeat(32);
    let script = ScriptHash([0x33; 32]);
    let threes = "33".repeat(32);
    let blinded = format!("09{}", "5a".repeat(32));
    // The value is the last field of a key: 1, 9 or 33 bytes.
    for (value, hex) in [
        (Field::NULL, "00".to_owned()),
        (Field::value(546), "010000000000000222".to_owned()),
        (blinded_value(), blinded.clone()),
    ] {
        let key = hist_funding_key(&script, 7, &txid, 1, RowValue::Field(value));
        assert_eq!(
            key.to_lower_hex_string(),
            format!("48{threes}0000000746{ones}00000001{hex}")
        );
        let spent = OutPoint::new(other, 3);
        let key = hist_spending_key(&script, 7, &txid, 1, &spent, RowValue::Field(value));
        assert_eq!(
            key.to_lower_hex_string(),
            format!("48{threes}0000000753{ones}00000001{twos}00000003{hex}")
        );
        assert_eq!(
            history_record_len(Family::Elements, &key[1..]),
            Some(key.len() - 1)
        );
    }
    let funding = OutPoint::new(other, 3);
    let start = |letter: &str| format!("49{fours}00000007{letter}{ones}00000001");
    let issuance = |amount, tokens| AssetEvent::Issuance {
        vin: 1,
        is_reissuance: false,
        amount,
        tokens,
    };
    for (event, hex) in [
        (
            AssetEvent::Burn { vout: 1, amount: 9 },
            format!("{}0000000000000009", start("42")),
        ),
        (
            AssetEvent::Funding {
                vout: 1,
                value: blinded_value(),
            },
            format!("{}{blinded}", start("46")),
        ),
        (
            issuance(Some(9), None),
            format!("{}0001000000000000000900", start("49")),
        ),
        (
            issuance(None, Some(9)),
            format!("{}0000010000000000000009", start("49")),
        ),
        (
            AssetEvent::Pegin { vin: 1, amount: 9 },
            format!("{}0000000000000009", start("4e")),
        ),
        (
            AssetEvent::Pegout { vout: 1, amount: 9 },
            format!("{}0000000000000009", start("4f")),
        ),
        (
            AssetEvent::Spending {
                vin: 1,
                funding,
                value: Field::value(546),
            },
            format!("{}{twos}00000003010000000000000222", start("53")),
        ),
    ] {
        let row = AssetKey {
            asset,
            height: 7,
            txid,
            event,
        };
        let key = row.encode();
        assert_eq!(key.to_lower_hex_string(), hex);
        assert_eq!(AssetKey::decode(&key).expect("own row"), row);
    }
    let supply = SupplyKey {
        asset,
        height: 7,
        txid,
    };
    assert_eq!(
        supply.encode().to_lower_hex_string(),
        format!("4a{fours}00000007{ones}")
    );
    let issued = IssuedAsset {
        txid,
        vin: 1,
        spent: funding,
        issuance: Issuance {
            blinding_nonce: [0; 32],
            entropy: [0x66; 32],
            amount: Field::value(9),
            tokens: Field::NULL,
        },
        token: AssetId::from_byte_array([0x55; 32]),
    };
    let mut value = Vec::new();
    issued.write(&mut value);
    assert_eq!(
        value.to_lower_hex_string(),
        format!(
            "{ones}00000001{twos}000000030000004a{}{}01000000000000000900{}",
            "00".repeat(32),
            "66".repeat(32),
            "55".repeat(32)
        )
    );
    let (mut value, output) = (Vec::new(), elements_output(&commitment(8)));
    write_out_value(output.script_pubkey.as_bytes(), output.coin(), &mut value);
    assert_eq!(
        value.to_lower_hex_string(),
        format!(
            "00000002515208{}0104{}02{}",
            "5a".repeat(32),
            "04".repeat(31),
            "5a".repeat(32)
        )
    );
}

fn elements_samples() -> Vec<(Db, Row)> {
    let hash = BlockHash::from_byte_array([7; 32]);
    let txid = Txid::from_byte_array([9; 32]);
    let asset = AssetId::from_byte_array([4; 32]);
    let header = elements_header();
    let row = |event| AssetKey {
        asset,
        height: 5,
        txid,
        event,
    };
    let issued = IssuedAsset {
        txid,
        vin: 2,
        spent: OutPoint::new(txid, 70_000),
        issuance: Issuance {
            blinding_nonce: [0; 32],
            entropy: [1; 32],
            amount: blinded_value(),
            tokens: Field::value(3),
        },
        token: AssetId::from_byte_array([5; 32]),
    };
    let stats = ScriptStats {
        tx_count: 1,
        funded_txo_count: 2,
        spent_txo_count: 4,
        ..ScriptStats::default()
    };
    let issued_stats = IssuedStats {
        tx_count: 1,
        issuance_count: 2,
        issued_amount: 3,
        burned_amount: 4,
        has_blinded_issuances: true,
        reissuance_tokens: Some(5),
        burned_reissuance_tokens: 6,
    };
    let native_stats = NativeStats {
        tx_count: 1,
        burned_amount: 7,
        ..NativeStats::default()
    };
    vec![
        (Db::Txstore, Row::Header(hash, header)),
        (
            Db::Txstore,
            Row::Output(OutPoint::new(txid, 1), elements_output(&commitment(8))),
        ),
        (
            Db::History,
            Row::History(HistKey {
                script: ScriptHash([3; 32]),
                height: 5,
                txid,
                side: HistSide::Funding { vout: 1 },
                value: RowValue::Field(blinded_value()),
            }),
        ),
        (Db::History, Row::Issued(asset, issued)),
        (
            Db::History,
            Row::Asset(row(AssetEvent::Pegin { vin: 1, amount: 2 })),
        ),
        (
            Db::History,
            Row::Supply(SupplyKey {
                asset,
                height: 5,
                txid,
            }),
        ),
        (Db::Cache, Row::Stats(ScriptHash([3; 32]), stats, hash)),
        (
            Db::Cache,
            Row::AssetStats(asset, AssetStats::Issued(issued_stats), hash),
        ),
        (
            Db::Cache,
            Row::AssetStats(asset, AssetStats::Native(native_stats), hash),
        ),
    ]
}

/// A header before the dynamic federation: 76 bytes, challenge, solution.
fn elements_header() -> Vec<u8> {
    let mut header = vec![0; 76];
    header[0] = 1;
    header.extend_from_slice(&[1, 0x51, 2, 0x52, 0x53]);
    header
}

/// All samples with the family of their chain.
fn all_samples() -> Vec<(Family, Db, Row)> {
    let bitcoin = samples()
        .into_iter()
        .map(|(db, row)| (Family::Bitcoin, db, row));
    let elements = elements_samples();
    bitcoin
        .chain(
            elements
                .into_iter()
                .map(|(db, row)| (Family::Elements, db, row)),
        )
        .collect()
}

fn samples() -> Vec<(Db, Row)> {
    let hash = BlockHash::from_byte_array([7; 32]);
    let txid = Txid::from_byte_array([9; 32]);
    let other = Txid::from_byte_array([10; 32]);
    let script = ScriptHash([3; 32]);
    let header = bitcoin::constants::genesis_block(bitcoin::Network::Regtest).header;
    let header = bitcoin::consensus::serialize(&header);
    let meta = BlockMeta {
        weight: 1,
        size: 2,
        tx_count: 3,
    };
    let hist = |side| HistKey {
        script,
        height: 5,
        txid,
        side,
        value: RowValue::Sat(6),
    };
    let stats = ScriptStats {
        tx_count: 1,
        funded_txo_count: 2,
        funded_txo_sum: 3,
        spent_txo_count: 4,
        spent_txo_sum: 5,
    };
    let features = Features {
        address_search: true,
        ..Features::default()
    };
    let version = Version {
        layout: LAYOUT_VERSION,
        features,
        genesis: hash,
    };
    let funding = OutPoint::new(other, 70_000);
    vec![
        (Db::Txstore, Row::Header(hash, header)),
        (Db::Txstore, Row::Txids(hash, vec![txid, other])),
        (Db::Txstore, Row::Meta(hash, meta)),
        (Db::Txstore, Row::Added(hash)),
        (Db::Txstore, Row::Tx(txid, vec![1, 2, 3])),
        (Db::Txstore, Row::Confirmed(txid, hash)),
        (
            Db::Txstore,
            Row::Output(
                OutPoint::new(txid, 70_000),
                bitcoin::TxOut {
                    value: bitcoin::Amount::from_sat(546),
                    script_pubkey: bitcoin::ScriptBuf::from_bytes(vec![0x51]),
                }
                .into(),
            ),
        ),
        (Db::Txstore, Row::Tip(hash)),
        (Db::Txstore, Row::Version(Db::Txstore, version)),
        (Db::Txstore, Row::Loaded(Db::Txstore)),
        (
            Db::History,
            Row::History(hist(HistSide::Funding { vout: 70_000 })),
        ),
        (
            Db::History,
            Row::History(hist(HistSide::Spending { vin: 1, funding })),
        ),
        (
            Db::History,
            Row::Edge(EdgeKey {
                funding,
                txid,
                vin: 1,
            }),
        ),
        (Db::History, Row::Address("bcrt1qexample".into())),
        (Db::History, Row::Indexed(hash)),
        (Db::History, Row::Version(Db::History, version)),
        (Db::History, Row::Loaded(Db::History)),
        (Db::Cache, Row::Stats(script, stats, hash)),
        (
            Db::Cache,
            Row::Utxos(
                script,
                vec![OutPoint::new(txid, 1), OutPoint::new(txid, 2)],
                hash,
            ),
        ),
        (Db::Cache, Row::Version(Db::Cache, version)),
    ]
}

#[test]
fn every_kind_decodes_to_what_was_encoded() {
    let mut seen = std::collections::BTreeSet::new();
    for (family, db, row) in all_samples() {
        let (key, value) = row.encode(family);
        assert_eq!(
            Row::decode(family, db, &key, &value).expect("own row decodes"),
            row
        );
        seen.insert(RowKind::of(db, key[0]).expect("own tag is known"));
    }
    assert_eq!(
        seen.len(),
        RowKind::ALL.len(),
        "a kind of row has no sample"
    );
}

#[test]
fn wrong_lengths_and_tags_are_named() {
    for (family, db, row) in all_samples() {
        let (key, value) = row.encode(family);
        // An address has no fixed length; every other key is damaged by one byte more.
        if !matches!(row, Row::Address(_)) {
            let mut long = key.clone();
            long.push(0);
            let error = Row::decode(family, db, &long, &value).expect_err("a longer key is damage");
            assert!(
                error.to_string().contains(&long.to_lower_hex_string()),
                "{error}"
            );
        }
        if !matches!(row, Row::Tx(..) | Row::Output(..)) {
            let mut long = value.clone();
            long.push(0);
            Row::decode(family, db, &key, &long).expect_err("a longer value is damage");
        }
    }
    let error = Row::decode(Family::Bitcoin, Db::History, b"Bxx", b"")
        .expect_err("B is not a row of history");
    assert!(error.to_string().contains("unknown tag 0x42"), "{error}");
    Row::decode(Family::Bitcoin, Db::Txstore, b"", b"").expect_err("an empty key is damage");
}

/// A small generator of bytes (xorshift), so that this unit test needs no crate.
fn noise(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state as u8
}

#[test]
fn any_bytes_decode_to_an_error_or_to_themselves() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let lengths = [
        0, 1, 2, 32, 33, 34, 36, 37, 40, 56, 65, 69, 70, 72, 73, 75, 80, 82, 83, 88, 118, 119, 143,
    ];
    let mut decoded = 0;
    for round in 0..60_000usize {
        let db = Db::ALL[round % 3];
        let family = [Family::Bitcoin, Family::Elements][(round / 3) % 2];
        let mut key: Vec<u8> = (0..lengths[round % lengths.len()])
            .map(|_| noise(&mut state))
            .collect();
        let value: Vec<u8> = (0..lengths[(round / 7) % lengths.len()])
            .map(|_| noise(&mut state))
            .collect();
        let kinds: Vec<RowKind> = RowKind::ALL
            .into_iter()
            .filter(|kind| kind.db() == db)
            .collect();
        if let Some(first) = key.first_mut() {
            *first = kinds[(noise(&mut state) as usize) % kinds.len()].tag();
        }
        if let Some(side) = key.get_mut(37) {
            *side = if noise(&mut state) & 1 == 0 {
                b'F'
            } else {
                b'S'
            };
        }
        let value = if noise(&mut state) & 1 == 0 {
            Vec::new()
        } else {
            value
        };
        if let Ok(row) = Row::decode(family, db, &key, &value) {
            decoded += 1;
            assert_eq!(row.encode(family), (key, value));
        }
    }
    assert!(
        decoded > 100,
        "the test must also meet rows that decode, met {decoded}"
    );
}

#[test]
fn unspendable_is_the_nodes_rule() {
    for family in [Family::Bitcoin, Family::Elements] {
        assert!(is_unspendable(family, &[0x6a]));
        assert!(is_unspendable(family, &vec![0x51; 10_001]));
        assert!(!is_unspendable(family, &vec![0x51; 10_000]));
        // A bare disabled opcode (OP_VERIF) is in the node's UTXO set and must stay visible.
        assert!(!is_unspendable(family, &[0x65]));
    }
    assert!(!is_unspendable(Family::Bitcoin, &[]));
    assert!(is_unspendable(Family::Elements, &[]));
}

#[test]
fn order_of_history_keys() {
    let script = ScriptHash([5; 32]);
    let txid = Txid::from_byte_array([8; 32]);
    let funding = hist_funding_key(&script, 9, &txid, 1, 1).to_vec();
    let spending = hist_spending_key(&script, 9, &txid, 0, &OutPoint::null(), 1).to_vec();
    let later = hist_funding_key(&script, 10, &Txid::all_zeros(), 0, 1).to_vec();
    assert!(funding < spending && spending < later);
    let group = HistKey::group_key(&spending).to_vec();
    assert!(funding < group && group < spending);
    assert!(
        spending.starts_with(&height_key(RowKind::History, &script.0, 9))
            && spending.starts_with(&id_prefix(RowKind::History, &script.0))
    );
}

#[test]
fn every_kind_is_in_the_table_of_the_documentation() {
    let table = include_str!("../../../../docs/utxo-index.md");
    for kind in RowKind::ALL {
        let start = format!("| `{}` | `{}` ", kind.db(), kind.tag() as char);
        let lines = table
            .lines()
            .filter(|line| line.starts_with(&start))
            .count();
        assert_eq!(
            lines, 1,
            "docs/utxo-index.md needs one line for {kind:?}, beginning with {start:?}"
        );
    }
}
