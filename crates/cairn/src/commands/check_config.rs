//! `cairn check-config`: is the configuration valid, and where does each value come from.

use std::process::ExitCode;

use cairn_config::{ConfigError, Loaded};
use serde_json::{Value, json};

use crate::cli::Common;
use crate::failure::{EXIT_FAILED, Failure};
use crate::settings;

/// Exit code for a secret that is written out.
const EXIT_SECRET: u8 = 2;

/// Runs the command.
pub(crate) fn run(common: &Common, as_json: bool) -> Result<ExitCode, Failure> {
    let result = match settings::sources(common) {
        Ok(sources) => settings::load(&sources).map(point_out_no_chains),
        Err(Failure::Config(error)) => Err(error),
        Err(other) => return Err(other),
    };
    match (&result, as_json) {
        (_, true) => println!("{:#}", to_json(&result)),
        (Ok(loaded), false) => print_valid(loaded),
        (Err(error), false) => eprintln!("{error}"),
    }
    Ok(match result {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) if error.has_literal_secret() => ExitCode::from(EXIT_SECRET),
        Err(_) => ExitCode::from(EXIT_FAILED),
    })
}

/// A configuration without a chain is whole, but nothing can be done with it.
fn point_out_no_chains(mut loaded: Loaded) -> Loaded {
    if loaded.config.chains.is_empty() && loaded.config.scanner.is_none() {
        loaded
            .warnings
            .push("no [[chain]] section: there is nothing to index".to_owned());
    }
    loaded
}

fn print_valid(loaded: &Loaded) {
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    let width = loaded
        .settings
        .iter()
        .map(|setting| setting.path.len())
        .max()
        .unwrap_or_default();
    for setting in &loaded.settings {
        println!(
            "{:width$} = {}  # {}",
            setting.path, setting.value, setting.place
        );
    }
    println!("the configuration is valid");
}

fn to_json(result: &Result<Loaded, ConfigError>) -> Value {
    match result {
        Ok(loaded) => json!({
            "valid": true,
            "problems": [],
            "warnings": loaded.warnings,
            "settings": loaded.settings.iter().map(|setting| json!({
                "path": setting.path,
                "value": setting.value,
                "origin": setting.place.to_string(),
            })).collect::<Vec<_>>(),
        }),
        Err(error) => json!({
            "valid": false,
            "problems": error.problems.iter().map(|problem| json!({
                "kind": problem.kind.name(),
                "place": problem.place.to_string(),
                "path": problem.path,
                "message": problem.message,
            })).collect::<Vec<_>>(),
            "warnings": [],
            "settings": [],
        }),
    }
}
