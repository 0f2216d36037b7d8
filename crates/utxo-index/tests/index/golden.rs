//! Every row of a fixed little chain, byte for byte, reviewed in the diff.

use anyhow::{Context, Result, ensure};
use bitcoin::{Amount, OutPoint, TxOut};
use cairn_testkit::{Coin, Lock, TestChain, spend};
use cairn_utxo_index::Db;

use crate::support::Fixture;

/// Set it to write the files anew after a wanted change.
const UPDATE_VARIABLE: &str = "CAIRN_UPDATE_GOLDEN";

/// Outputs to one script: enough rows for an entry of the cache.
const BUSY_OUTPUTS: u32 = 101;

/// The generator's chain of seed 42, where transactions begin at height 101, and one block of a known transaction.
fn chain() -> Result<TestChain> {
    let mut chain = TestChain::small(42, 101);
    let coin = chain.coins(1).pop().context("a coin")?;
    let change = coin.value - u64::from(BUSY_OUTPUTS) * 546 - 10_000;
    let busy = TxOut {
        value: Amount::from_sat(546),
        script_pubkey: Lock::Wsh(0x8000_0001).script_pubkey(),
    };
    let mut outputs = vec![busy; BUSY_OUTPUTS as usize];
    outputs.push(TxOut {
        value: Amount::from_sat(change),
        script_pubkey: Lock::Wsh(0x8000_0002).script_pubkey(),
    });
    let first = spend(&[coin], outputs);
    let outpoint = OutPoint::new(first.compute_txid(), BUSY_OUTPUTS);
    let coin = Coin {
        outpoint,
        value: change,
        lock: Lock::Wsh(0x8000_0002),
    };
    let data = bitcoin::ScriptBuf::from_bytes(vec![0x6a, 0x02, 0xca, 0x12]);
    let second = spend(
        &[coin],
        vec![TxOut {
            value: Amount::ZERO,
            script_pubkey: data,
        }],
    );
    chain.mine(vec![first, second]);
    // Deep enough for the cache to keep what the busy script gives.
    (0..6).for_each(|_| drop(chain.mine(Vec::new())));
    Ok(chain)
}

#[test]
fn rows_of_a_little_chain() -> Result<()> {
    let chain = chain()?;
    let fixture = Fixture::with(|config| config.address_search = true)?;
    fixture.follow(chain.model())?;
    // Filled on demand, so ask; the entries of the cache are golden as well.
    let view = fixture.view()?;
    for (script, _) in chain.model().scripts() {
        let script = cairn_utxo_index::ScriptHash(*script);
        view.stats(&script)?;
        view.utxos(&script)?;
    }
    for db in Db::ALL {
        let mut text = Vec::new();
        fixture.index.dump_rows(db, &mut text)?;
        let text = shown(db, &String::from_utf8(text)?);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("tests/golden/{db}.rows"));
        if std::env::var_os(UPDATE_VARIABLE).is_some() {
            std::fs::create_dir_all(path.parent().context("has a folder")?)?;
            std::fs::write(&path, &text)?;
        }
        let golden =
            std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        ensure!(
            text == golden,
            "the rows of {db} changed; if that is meant, run with {UPDATE_VARIABLE}=1, review the diff and raise the \
             layout version"
        );
    }
    Ok(())
}

/// The rows that are about the last two blocks or about no block; the hundred empty ones before would only fill pages.
fn shown(db: Db, text: &str) -> String {
    let keep = |line: &str| match (db, &line[..2]) {
        // One of each kind of the rows of a block is enough.
        (Db::Txstore, "42" | "44" | "4d" | "58" | "43" | "4f" | "54")
        | (Db::History, "44" | "48" | "53" | "61") => line.len() > 2 && is_sampled(line),
        _ => true,
    };
    let mut out: String = text
        .lines()
        .filter(|line| keep(line))
        .map(|line| format!("{line}\n"))
        .collect();
    out.push_str(&format!("# {} rows in all\n", text.lines().count()));
    out
}

/// One row in eight, chosen by its own first hash byte, so that the choice never moves.
fn is_sampled(line: &str) -> bool {
    u8::from_str_radix(line.get(2..4).unwrap_or("00"), 16).is_ok_and(|byte| byte % 8 == 0)
}
