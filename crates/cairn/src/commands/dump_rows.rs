//! `cairn dump-rows`: all rows of a database as text.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::anyhow;
use cairn_utxo_index::Db;

use crate::cli::{Common, Database, DumpArgs};
use crate::data_dir::DataDirLock;
use crate::failure::Failure;
use crate::services::chain::open_index;
use crate::settings;

/// Bytes written to stdout at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Runs the command.
pub(crate) fn run(common: &Common, args: &DumpArgs) -> Result<ExitCode, Failure> {
    let loaded = settings::load_with_chains(common)?;
    let config = settings::utxo_chain(&loaded.config, &args.chain)?;
    settings::start_logs(&loaded)?;
    if settings::existing_index(&loaded.config, &args.chain).is_none() {
        return Err(no_index(&args.chain).into());
    }
    let _lock = DataDirLock::take(&loaded.config.data_dir)?;
    let index = open_index(&loaded.config, config)?;
    let db = match args.db {
        Database::Txstore => Db::Txstore,
        Database::History => Db::History,
        Database::Cache => Db::Cache,
    };
    let stdout = io::stdout().lock();
    let mut out = Pipe {
        inner: BufWriter::with_capacity(BUFFER_BYTES, stdout),
        is_broken: false,
    };
    let written = index.dump_rows(db, &mut out);
    match written {
        // Who reads no further (`| head`) has what they wanted.
        Err(_) if out.is_broken => Ok(ExitCode::SUCCESS),
        Err(error) => Err(anyhow!(error).into()),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// The failure of a command on an index that has not been made.
pub(crate) fn no_index(chain: &str) -> anyhow::Error {
    anyhow!("chain {chain} has no index yet; `cairn index --chain {chain}` makes it")
}

/// A writer that remembers whether its reader has gone.
struct Pipe<W: Write> {
    inner: BufWriter<W>,
    is_broken: bool,
}

impl<W: Write> Pipe<W> {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_broken |=
            matches!(&result, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.inner.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.note(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn a_gone_reader_is_remembered() {
        let mut pipe = Pipe {
            inner: BufWriter::with_capacity(1, Gone),
            is_broken: false,
        };
        assert!(pipe.write_all(b"line\n").is_err());
        assert!(pipe.is_broken);
    }

    #[test]
    fn other_failures_are_failures() {
        let mut pipe = Pipe {
            inner: BufWriter::with_capacity(1, Gone),
            is_broken: false,
        };
        assert!(pipe.flush().is_err());
        assert!(!pipe.is_broken);
    }
}
