//! The configuration of Cairn: one TOML file, the environment and the command line become one checked [`Config`].
//!
//! * Precedence: command line > environment > file > defaults. An environment name is `CAIRN_` + the path in upper
//!   case with `__` between its parts (`CAIRN_HTTP__LISTEN`, `CAIRN_CHAIN__0__RPC_URL`).
//! * `${NAME}` inside a string of the file stands for an environment variable; an unset one is an error.
//! * Every problem of all three layers is reported at once, each with its path and its place.
//! * A secret written out in the file or on the command line is refused unless `allow_inline_secrets = true`.
//! * Nothing printed by this crate (`Debug`, `Display`, [`Setting`]) contains a secret or the password of a URL.
//!
//! All keys are rows of one table ([`keys::KEYS`]): the reader, the defaults, the example file, the manual and the
//! suggestions for mistyped names come from it, so they cannot disagree. The reading is done on the parsed TOML tree
//! and not through a derived deserializer, because a deserializer stops at the first problem and does not know lines.
//!
//! This crate knows no network and no store. It reads files only where a key names one that holds a secret.

mod chain;
pub mod keys;
mod layers;
mod load;
mod model;
mod network;
mod problem;
mod reader;
mod redact;
pub mod reference;
mod services;
mod substitute;
mod suggest;
mod table;
mod values;

pub use load::{ConfigFile, Environment, Loaded, Setting, Sources, load};
pub use model::{
    AbiFallback, AddressRange, AntelopeConfig, AssetRegistrySource, CertificateFiles, ChainConfig,
    Config, ElectrumConfig, ElectrumHost, ElementsConfig, EsploraConfig, HttpConfig, JsonProfile,
    Listen, LogFormat, RedisConfig, RpcAuth, RpcConfig, ScannerConfig, StreamConfig,
    TelemetryConfig, TrimPolicy, UtxoConfig, UtxoNetwork,
};
pub use network::{network_name, parse_network};
pub use problem::{ConfigError, Place, Problem, ProblemKind};
pub use redact::redact_url;
