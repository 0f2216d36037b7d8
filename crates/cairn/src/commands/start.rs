//! `cairn start`: everything the configuration names, until asked to stop.

use std::process::ExitCode;

use crate::app::App;
use crate::cli::Common;
use crate::failure::Failure;
use crate::stop::Stop;
use crate::{settings, system};

/// Runs the command.
pub(crate) fn run(common: &Common) -> Result<ExitCode, Failure> {
    let loaded = settings::load_with_chains(common)?;
    let logs = settings::start_logs(&loaded)?;
    system::raise_open_files();
    let runtime = system::runtime()?;
    let stop = Stop::new();
    runtime.block_on(async {
        stop.on_signals()?;
        let app = App::start(&loaded.config, &logs, &stop).await?;
        system::notify_ready();
        app.run().await
    })?;
    Ok(ExitCode::SUCCESS)
}
