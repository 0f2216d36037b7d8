//! Random chains, reorganisations, restarts: rows and answers equal the model's at every step.

use anyhow::{Result, ensure};
use cairn_testkit::TestChain;
use cairn_utxo_index::Db;
use proptest::prelude::*;

use crate::answers::check_answers;
use crate::support::{Fixture, rows};

/// One thing that can happen to a node.
#[derive(Debug, Clone)]
enum Step {
    Grow(u32),
    Fork {
        depth: u32,
        new_len: u32,
    },
    /// `invalidateblock`: the chain only gets shorter.
    Back(u32),
    /// Away to another branch, seen there, and back.
    ThereAndBack {
        depth: u32,
        new_len: u32,
    },
    Restart,
    /// The cache is deleted between two runs.
    DeleteCache,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u32..8).prop_map(Step::Grow),
        3 => (1u32..12, 1u32..14).prop_map(|(depth, new_len)| Step::Fork { depth, new_len }),
        1 => (1u32..9).prop_map(Step::Back),
        1 => (1u32..6, 1u32..7).prop_map(|(depth, new_len)| Step::ThereAndBack { depth, new_len }),
        1 => Just(Step::Restart),
        1 => Just(Step::DeleteCache),
    ]
}

fn run(seed: u64, height: u32, bulk: bool, steps: &[Step]) -> Result<()> {
    let mut chain = TestChain::small(seed, height);
    let mut fixture = Fixture::with(|config| {
        config.bulk = bulk;
        config.address_search = seed.is_multiple_of(2);
        config.index_unspendables = seed.is_multiple_of(3);
        config.utxos_limit = 40;
    })?;
    fixture.follow(chain.model())?;
    fixture.check_rows(chain.model(), true)?;
    for step in steps {
        match step {
            Step::Grow(blocks) => drop(chain.grow(*blocks)),
            Step::Fork { depth, new_len } => drop(chain.fork(*depth, *new_len)),
            Step::Back(depth) => drop(chain.rewind(*depth)),
            Step::ThereAndBack { depth, new_len } => {
                let before = (rows(&fixture.index, Db::History)?, chain.model().tip().hash);
                let orphaned = chain.rewind(*depth);
                chain.grow(*new_len);
                fixture.follow(chain.model())?;
                chain.rewind(*new_len);
                chain.connect(&orphaned);
                fixture.follow(chain.model())?;
                ensure!(chain.model().tip().hash == before.1);
                let mut after = rows(&fixture.index, Db::History)?;
                after.retain(|key, _| key[0] != b'a' || before.0.contains_key(key));
                ensure!(
                    after == before.0,
                    "coming back restores the history byte by byte"
                );
            }
            Step::Restart => fixture = fixture.reopen()?,
            Step::DeleteCache => {
                let cache = fixture.dir.path().join("cache");
                let Fixture {
                    dir,
                    config,
                    index,
                    source,
                } = fixture;
                drop(index);
                std::fs::remove_dir_all(cache)?;
                let index = cairn_utxo_index::Index::open(config.clone())?;
                fixture = Fixture {
                    dir,
                    config,
                    index,
                    source,
                };
            }
        }
        fixture.follow(chain.model())?;
        fixture.check_rows(chain.model(), true)?;
        let (limit, unspendables) = (
            fixture.config.utxos_limit,
            fixture.config.index_unspendables,
        );
        check_answers(&*fixture.view()?, chain.model(), limit, unspendables)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 32, ..ProptestConfig::default() })]

    #[test]
    fn rows_and_answers_equal_the_model(
        seed in 0u64..1_000,
        height in 100u32..130,
        bulk in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..6),
    ) {
        if let Err(error) = run(seed, height, bulk, &steps) {
            return Err(TestCaseError::fail(format!("{error:#}")));
        }
    }
}

#[test]
fn bulk_and_following_write_the_same_rows() -> Result<()> {
    for seed in [1, 6] {
        let chain = TestChain::small(seed, 160);
        let load = |bulk: bool, light_mode: bool| -> Result<_> {
            let fixture = Fixture::with(|config| {
                config.bulk = bulk;
                config.light_mode = light_mode;
                config.address_search = true;
                config.index_unspendables = seed == 6;
            })?;
            fixture.follow(chain.model())?;
            fixture.check_rows(chain.model(), false)?;
            let mut all = rows(&fixture.index, Db::Txstore)?;
            all.extend(rows(&fixture.index, Db::History)?);
            all.remove(b"F".as_slice());
            Ok(all)
        };
        for light_mode in [false, true] {
            ensure!(
                load(true, light_mode)? == load(false, light_mode)?,
                "seed {seed}, light mode {light_mode}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_reorganisation_of_300_blocks() -> Result<()> {
    let mut chain = TestChain::small(11, 420);
    let fixture = Fixture::of(chain.model())?;
    let outcome = {
        chain.fork(300, 310);
        fixture.follow(chain.model())?
    };
    ensure!(outcome.undone == 300 && outcome.blocks == 310);
    fixture.check_rows(chain.model(), true)?;
    check_answers(&*fixture.view()?, chain.model(), 500, false)
}
