//! Loading the configuration for a command.

use std::path::{Path, PathBuf};

use cairn_config::{
    ChainConfig, Config, ConfigError, ConfigFile, Environment, Loaded, LogFormat, Sources,
    UtxoConfig,
};
use cairn_telemetry::{Format, Logs};
use secrecy::ExposeSecret as _;

use crate::cli::Common;
use crate::failure::Failure;

/// The file that is read without `--config`, if it exists.
const DEFAULT_FILE: &str = "cairn.toml";

/// The layers that the command line names.
pub(crate) fn sources(common: &Common) -> Result<Sources, Failure> {
    let file = match &common.config {
        Some(path) => Some(ConfigFile::read(path)?),
        None if Path::new(DEFAULT_FILE).exists() => {
            Some(ConfigFile::read(Path::new(DEFAULT_FILE))?)
        }
        None => None,
    };
    Ok(Sources {
        file,
        environment: Environment::of_process(),
        overrides: overrides(common)?,
    })
}

/// The command line's own layer: shorthands first, so that `--set` wins.
pub(crate) fn overrides(common: &Common) -> Result<Vec<(String, String)>, Failure> {
    let mut overrides: Vec<(String, String)> = [
        ("data_dir", &common.data_dir),
        ("http.listen", &common.listen),
        ("telemetry.log", &common.log),
    ]
    .into_iter()
    .filter_map(|(path, value)| Some((path.to_owned(), value.clone()?)))
    .collect();
    for pair in &common.set {
        let Some((path, value)) = pair.split_once('=') else {
            // The text may hold a secret; its first part is enough to find it.
            return Err(Failure::Usage(
                "--set needs KEY=VALUE; one of them has no =".to_owned(),
            ));
        };
        overrides.push((path.trim().to_owned(), value.to_owned()));
    }
    Ok(overrides)
}

/// A valid configuration, or all its problems.
pub(crate) fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let loaded = cairn_config::load(sources)?;
    if let Err(error) = cairn_telemetry::check_filter(&loaded.config.telemetry.log) {
        return Err(loaded.problem("telemetry.log", error.to_string()).into());
    }
    if let Some(url) = &loaded.config.redis.url
        && let Err(error) = cairn_redis::Target::parse(url.expose_secret())
    {
        return Err(loaded.problem("redis.url", error.to_string()).into());
    }
    let antelope: Vec<&String> = loaded
        .config
        .antelope_chains()
        .map(|chain| &chain.id)
        .collect();
    if let [first, second, ..] = antelope.as_slice() {
        let message = format!(
            "two Antelope chains, {first} and {second}, cannot share one Redis database: the keys of ABI histories have no chain in their \
             name. Run a second Cairn with another redis.url, for example another database number at its end"
        );
        let path = format!("chain.{second}.kind");
        return Err(loaded.problem(&path, message).into());
    }
    Ok(loaded)
}

/// The same, for commands that work on chains.
pub(crate) fn load_with_chains(common: &Common) -> Result<Loaded, Failure> {
    let sources = sources(common)?;
    let loaded = load(&sources)?;
    if loaded.config.chains.is_empty() && loaded.config.scanner.is_none() {
        let place = match &sources.file {
            Some(file) => format!("{} names", file.name),
            None => format!("there is no {DEFAULT_FILE} here, and nothing else names"),
        };
        return Err(Failure::Usage(format!(
            "{place} a chain: add a [[chain]] section (cairn.example.toml has one of each kind), or try `cairn demo`"
        )));
    }
    Ok(loaded)
}

/// The chain that a command was asked for.
pub(crate) fn chain<'a>(config: &'a Config, id: &str) -> Result<&'a ChainConfig, Failure> {
    config.chain(id).ok_or_else(|| {
        let known: Vec<&str> = config.chains.iter().map(ChainConfig::id).collect();
        Failure::Usage(format!(
            "there is no chain \"{id}\" in the configuration; it has: {}",
            known.join(", ")
        ))
    })
}

/// The chain that a command was asked for, where only a UTXO chain will do.
pub(crate) fn utxo_chain<'a>(config: &'a Config, id: &str) -> Result<&'a UtxoConfig, Failure> {
    match chain(config, id)? {
        ChainConfig::Utxo(chain) => Ok(chain),
        ChainConfig::Antelope(_) => Err(Failure::Usage(format!(
            "\"{id}\" is an Antelope chain: it has a stream and no index; this command works on indexes"
        ))),
    }
}

/// Sets up the log output and repeats the configuration's warnings there.
pub(crate) fn start_logs(loaded: &Loaded) -> Result<Logs, Failure> {
    let telemetry = &loaded.config.telemetry;
    let format = match telemetry.format {
        LogFormat::Auto => Format::Auto,
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    let logs = Logs::init(&telemetry.log, format).map_err(anyhow::Error::from)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(logs)
}

/// Where the index of a chain is, if it has been made.
pub(crate) fn existing_index(config: &Config, id: &str) -> Option<PathBuf> {
    Some(config.chain_dir(id)).filter(|dir| dir.is_dir())
}
