//! The bundled sample chain is what its recipe makes.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cairn_testkit::{REGTEST_MAGIC, parse_plain, sample};

const REMEDY: &str =
    "make it again: cargo run --release -p cairn-testkit --example make_sample -- samples";

#[test]
fn the_bundled_chain_comes_from_its_seed() -> Result<()> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let packed = std::fs::read(samples.join("regtest.blk.gz")).context(REMEDY)?;
    ensure!(
        packed.len() < 4_000_000,
        "the sample has {} bytes; it is meant to be small",
        packed.len()
    );
    let mut bundled = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bundled)?;
    ensure!(
        bundled == sample::block_file(),
        "samples/regtest.blk.gz differs from its recipe; {REMEDY}"
    );

    let blocks = parse_plain(&bundled, REGTEST_MAGIC)?;
    let page = std::fs::read_to_string(samples.join("README.md")).context(REMEDY)?;
    ensure!(
        page == sample::describe(&blocks),
        "samples/README.md differs from what is in the chain; {REMEDY}"
    );
    Ok(())
}
