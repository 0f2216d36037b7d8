//! The configuration from outside: texts in, values or errors out.

mod layers;
mod pages;
mod problems;
mod redaction;
mod values;

use cairn_config::{ConfigError, ConfigFile, Environment, Loaded, Sources};

/// Loads a text as the file `cairn.toml`, with an environment and `path=value` overrides.
fn load_with(
    text: &str,
    environment: &[(&str, &str)],
    overrides: &[(&str, &str)],
) -> Result<Loaded, ConfigError> {
    cairn_config::load(&Sources {
        file: Some(ConfigFile {
            name: "cairn.toml".to_owned(),
            text: text.to_owned(),
        }),
        environment: Environment::from_pairs(environment.iter().copied()),
        overrides: overrides
            .iter()
            .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
            .collect(),
    })
}

fn load(text: &str) -> Result<Loaded, ConfigError> {
    load_with(text, &[], &[])
}

fn valid(text: &str) -> Loaded {
    load(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// A chain with everything it needs, and more keys.
fn chain(keys: &str) -> String {
    format!(
        "[[chain]]\nid = \"a\"\nkind = \"bitcoin\"\nnetwork = \"regtest\"\nblocks_dir = \"/blocks\"\n{keys}\n"
    )
}

/// A chain of kind `liquid` with everything it needs, and more keys.
fn liquid(keys: &str) -> String {
    chain(keys)
        .replace("\"bitcoin\"", "\"liquid\"")
        .replace("\"regtest\"", "\"elementsregtest\"")
}

/// A chain of kind `antelope` with everything it needs, and more keys.
fn antelope(keys: &str) -> String {
    format!("[[chain]]\nid = \"a\"\nkind = \"antelope\"\nship_url = \"ws://x:8080\"\n{keys}\n")
}

/// The first chain, of kind `bitcoin`.
fn utxo(config: &cairn_config::Config) -> &cairn_config::UtxoConfig {
    config
        .utxo_chains()
        .next()
        .expect("a chain of kind bitcoin")
}
