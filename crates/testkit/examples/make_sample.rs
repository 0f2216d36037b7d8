//! Writes the bundled sample chain, `samples/regtest.blk.gz`, and the page that describes it:
//!
//! ```text
//! cargo run --release -p cairn-testkit --example make_sample -- samples
//! ```
//!
//! The same bytes come out every time; a test compares them with the files in the repository.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cairn_testkit::sample;
use flate2::{Compression, GzBuilder};

fn main() -> Result<()> {
    let dir = PathBuf::from(
        std::env::args()
            .nth(1)
            .context("say into which folder to write, for example: samples")?,
    );
    let file = sample::block_file();
    // No time and no name in the header: the same file in every run.
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(&file)?;
    let packed = gzip.finish()?;
    std::fs::write(dir.join("regtest.blk.gz"), &packed)?;
    std::fs::write(dir.join("README.md"), sample::describe(&sample::blocks()))?;
    println!(
        "{}: {} bytes, {} unpacked",
        dir.join("regtest.blk.gz").display(),
        packed.len(),
        file.len()
    );
    Ok(())
}
