//! Options that are fixed when an index is made, and what they change.

use anyhow::{Context, Result, ensure};
use bitcoin::Network;
use cairn_testkit::{TestChain, is_unspendable};
use cairn_utxo_index::{Index, IndexError, QueryError, ScriptHash};

use crate::answers::check_answers;
use crate::support::Fixture;

#[test]
fn light_mode_answers_the_same() -> Result<()> {
    let mut chain = TestChain::small(21, 130);
    for bulk in [true, false] {
        let fixture = Fixture::with(|config| {
            config.light_mode = true;
            config.bulk = bulk;
        })?;
        fixture.follow(chain.model())?;
        fixture.check_rows(chain.model(), false)?;
        check_answers(&*fixture.view()?, chain.model(), 500, false)?;
        chain.fork(7, 9);
        fixture.follow(chain.model())?;
        check_answers(&*fixture.view()?, chain.model(), 500, false)?;
        // A node that is away is not an unknown transaction.
        let txid = chain
            .model()
            .transactions()
            .next()
            .context("a transaction")?
            .0;
        fixture.source.set_failing(true);
        ensure!(matches!(
            fixture.view()?.tx(&txid),
            Err(QueryError::Node(_))
        ));
        // The next round is another index of the longer chain.
        chain = TestChain::small(22, 130);
    }
    Ok(())
}

#[test]
fn address_search() -> Result<()> {
    let chain = TestChain::small(23, 130);
    let without = Fixture::of(chain.model())?;
    ensure!(matches!(
        without.view()?.addresses("bcrt1", 10),
        Err(QueryError::AddressSearchDisabled)
    ));
    let with = Fixture::with(|config| config.address_search = true)?;
    with.follow(chain.model())?;
    let view = with.view()?;
    let all = chain.model().addresses();
    for prefix in ["bcrt1", "bcrt1q", "BCRT1Q", "2", "m", "bcrt1qx", "zzz", ""] {
        let folded = if prefix.starts_with("BCRT") {
            prefix.to_lowercase()
        } else {
            prefix.to_owned()
        };
        let wanted: Vec<&String> = all
            .iter()
            .filter(|address| address.starts_with(&folded))
            .take(10)
            .collect();
        ensure!(
            view.addresses(prefix, 10)?.iter().collect::<Vec<_>>() == wanted,
            "prefix {prefix:?}"
        );
    }
    Ok(())
}

#[test]
fn unspendable_outputs() -> Result<()> {
    let chain = TestChain::small(24, 140);
    let data: Vec<ScriptHash> = chain
        .model()
        .scripts()
        .filter(|(_, script)| is_unspendable(script))
        .map(|(hash, _)| ScriptHash(*hash))
        .collect();
    ensure!(!data.is_empty(), "the chain has data outputs");
    let without = Fixture::of(chain.model())?;
    let with = Fixture::with(|config| config.index_unspendables = true)?;
    with.follow(chain.model())?;
    for script in &data {
        ensure!(without.view()?.stats(script)?.tx_count == 0);
        ensure!(with.view()?.stats(script)?.funded_txo_count > 0);
        ensure!(with.view()?.utxos(script)?.is_empty());
    }
    Ok(())
}

#[test]
fn another_chain_or_other_options_are_refused_with_both_sides() -> Result<()> {
    let chain = TestChain::small(25, 105);
    let fixture = Fixture::of(chain.model())?;
    let mut config = fixture.config.clone();
    let Fixture { dir, index, .. } = fixture;
    drop(index);
    let refusal = |config: &cairn_utxo_index::IndexConfig| -> Result<String> {
        match Index::open(config.clone()) {
            Err(IndexError::Mismatch(text)) => Ok(text),
            Err(other) => Err(other.into()),
            Ok(_) => anyhow::bail!("opened"),
        }
    };
    config.network = Network::Signet.into();
    let text = refusal(&config)?;
    ensure!(
        text.contains("signet")
            && text.contains("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206")
    );
    config.network = Network::Regtest.into();
    config.address_search = true;
    let text = refusal(&config)?;
    ensure!(
        text.contains("address search off")
            && text.contains("address search on")
            && text.contains("delete")
    );
    config.address_search = false;
    let index = Index::open(config.clone())?;
    ensure!(index.view().is_some_and(|view| view.tip().height == 105));
    // The same folder a second time: a clear text, not a lock file's name alone.
    let error = Index::open(config).err().context("two processes at once")?;
    ensure!(error.to_string().contains("in use"), "{error}");
    drop(dir);
    Ok(())
}

#[test]
fn a_source_of_another_chain_is_refused() -> Result<()> {
    let chain = TestChain::small(26, 105);
    let fixture = Fixture::of(chain.model())?;
    let other = cairn_testkit::Model::new(Network::Signet);
    fixture.source.follow(&other);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let error = fixture
        .index
        .sync(&*fixture.source, None, &stop)
        .err()
        .context("another chain")?;
    ensure!(matches!(error, IndexError::Mismatch(_)), "{error}");
    ensure!(fixture.view()?.tip().height == 105);
    Ok(())
}

#[test]
fn a_small_index_opens_at_once_in_little_memory() -> Result<()> {
    let chain = TestChain::small(27, 120);
    let fixture = Fixture::with(|config| config.memory_bytes = 1 << 30)?;
    fixture.follow(chain.model())?;
    let before = resident_bytes()?;
    let started = std::time::Instant::now();
    let fixture = fixture.reopen()?;
    ensure!(
        started.elapsed() < std::time::Duration::from_secs(1),
        "opened after {:?}",
        started.elapsed()
    );
    let grown = resident_bytes()?.saturating_sub(before);
    ensure!(grown < 50 << 20, "opening took {grown} bytes");
    ensure!(fixture.view()?.tip().height == 120);
    Ok(())
}

fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .context("VmRSS")?;
    let kilobytes: u64 = line
        .split_whitespace()
        .nth(1)
        .context("a number")?
        .parse()?;
    Ok(kilobytes << 10)
}
