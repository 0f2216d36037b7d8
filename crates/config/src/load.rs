//! From the three layers to a checked configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::chain;
use crate::keys::Section;
use crate::layers::{self, RawConfig, RawEntry, RawValue};
use crate::model::{ChainConfig, Config, HttpConfig, Listen, LogFormat, TelemetryConfig};
use crate::problem::{ConfigError, Place, Problem, ProblemKind};
use crate::reader::{At, Reader};
use crate::services;
use crate::values::read_listen;

/// Longest configuration file, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of a configuration file.
#[derive(Clone)]
pub struct ConfigFile {
    /// Its name, for messages.
    pub name: String,
    /// Its text. It may hold secrets: nothing prints it.
    pub text: String,
}

impl std::fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigFile")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl ConfigFile {
    /// Reads a file of at most 1 MiB.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let problem = |message: String| {
            ConfigError::from(Problem {
                kind: ProblemKind::Unreadable,
                place: Place::File(name.clone()),
                path: String::new(),
                message,
            })
        };
        let cannot =
            |error: std::io::Error| problem(format!("cannot read the configuration: {error}"));
        let bytes = std::fs::metadata(path).map_err(cannot)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(problem(format!(
                "the file holds {bytes} bytes; a configuration has at most {FILE_BYTES_MAX}"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(cannot)?;
        Ok(Self { name, text })
    }
}

/// Environment variables, passed in so that nothing here reads the process's own.
#[derive(Clone, Default)]
pub struct Environment {
    /// `None`: set, but not UTF-8.
    variables: BTreeMap<String, Option<String>>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets.
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok())))
            .collect();
        Self { variables }
    }

    /// Given variables.
    pub fn from_pairs<N: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), Some(value.into())))
            .collect();
        Self { variables }
    }

    /// A variable; `Err` when its value is not UTF-8.
    pub(crate) fn get(&self, name: &str) -> Option<Result<&str, ()>> {
        self.variables
            .get(name)
            .map(|value| value.as_deref().ok_or(()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Result<&str, ()>)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref().ok_or(())))
    }
}

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file, if there is one.
    pub file: Option<ConfigFile>,
    /// The environment.
    pub environment: Environment,
    /// `path` and value pairs of the command line: (`http.listen`, `0.0.0.0:80`), (`chain.0.rpc_url`, …),
    /// (`chain.bitcoin-main.rpc_url`, …). Later ones win.
    pub overrides: Vec<(String, String)>,
}

/// One value in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key's path: `http.listen`, `chain[0].rpc_url`.
    pub path: String,
    /// The value; secrets and URL passwords are replaced by `***`.
    pub value: serde_json::Value,
    /// Where it was given.
    pub place: Place,
}

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The checked configuration.
    pub config: Config,
    /// Every key with its value in force, safe to print.
    pub settings: Vec<Setting>,
    /// What is suspicious but not wrong.
    pub warnings: Vec<String>,
}

impl Loaded {
    /// A problem with the value of a key that only its user can judge (the syntax of a log filter).
    pub fn problem(&self, path: &str, message: String) -> Problem {
        Problem {
            kind: ProblemKind::InvalidValue,
            place: self
                .settings
                .iter()
                .find(|setting| setting.path == path)
                .map_or(Place::Default, |setting| setting.place.clone()),
            path: path.to_owned(),
            message,
        }
    }
}

/// Lays the sources over each other and checks the result. All problems are reported at once.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let mut raw = RawConfig::empty();
    let mut problems = Vec::new();
    if let Some(file) = &sources.file {
        layers::read_file(&mut raw, file, &mut problems);
        if problems
            .iter()
            .any(|problem| problem.kind == ProblemKind::Syntax)
        {
            // What the rest means is unknown.
            return Err(ConfigError { problems });
        }
    }
    let strays = layers::read_environment(&mut raw, &sources.environment, &mut problems);
    layers::read_overrides(&mut raw, &sources.overrides, &mut problems);

    let mut reader = Reader {
        environment: &sources.environment,
        allow_inline_secrets: matches!(
            raw.section(Section::Root)
                .entries
                .get("allow_inline_secrets"),
            Some(RawEntry {
                value: RawValue::Bool(true),
                ..
            })
        ),
        problems,
        settings: Vec::new(),
        referenced: Default::default(),
    };
    let config = read(&mut reader, &raw);
    if !reader.problems.is_empty() {
        let mut problems = reader.problems;
        problems.sort_by_key(|problem| match &problem.place {
            Place::Line { line, .. } => *line,
            _ => usize::MAX,
        });
        return Err(ConfigError { problems });
    }
    let warnings = strays
        .into_iter()
        .filter(|name| !reader.referenced.contains(name))
        .map(|name| {
            format!("environment variable {name} has the prefix of settings but names none; the parts of a path are joined by two underscores (CAIRN_HTTP__LISTEN)")
        })
        .collect();
    Ok(Loaded {
        config,
        settings: reader.settings,
        warnings,
    })
}

fn read(reader: &mut Reader<'_>, raw: &RawConfig) -> Config {
    let root = At {
        section: Section::Root,
        raw: raw.section(Section::Root),
        path: "",
    };
    let data_dir = reader.text(&root, "data_dir");
    if data_dir.is_empty() && root.raw.entries.contains_key("data_dir") {
        reader.problem(
            &root,
            "data_dir",
            ProblemKind::InvalidValue,
            "must not be empty",
        );
    }
    reader.bool(&root, "allow_inline_secrets");
    let http = read_http(reader, raw);
    let telemetry = read_telemetry(reader, raw);
    let chains: Vec<_> = raw
        .chains
        .iter()
        .enumerate()
        .filter_map(|(index, section)| {
            chain::read_chain(reader, section, &format!("chain[{index}]"))
        })
        .collect();
    let config = Config {
        data_dir: PathBuf::from(data_dir),
        http,
        telemetry,
        redis: services::read_redis(reader, raw),
        stream: services::read_stream(reader, raw),
        scanner: services::read_scanner(reader, raw),
        chains,
    };
    // A chain that could not be read at all has been reported; without it the numbers of the others do not fit.
    if config.chains.len() == raw.chains.len() {
        check_unique_ids(reader, raw, &config);
        check_stream_of_ledger(reader, raw, &config);
        check_unique_listeners(reader, raw, &config);
    }
    config
}

fn read_http(reader: &mut Reader<'_>, raw: &RawConfig) -> HttpConfig {
    let at = At {
        section: Section::Http,
        raw: raw.section(Section::Http),
        path: Section::Http.name(),
    };
    let text = reader.text(&at, "listen");
    let listen = Listen::parse(&text).unwrap_or_else(|message| {
        reader.problem(&at, "listen", ProblemKind::InvalidValue, message);
        Listen::Tcp {
            host: String::new(),
            port: 0,
        }
    });
    let cors = reader.list(&at, "cors");
    for origin in &cors {
        if origin != "*" && !is_origin(origin) {
            let message = format!(
                "\"{origin}\" is not an origin; expected \"*\" or SCHEME://HOST[:PORT] without a path"
            );
            reader.problem(&at, "cors", ProblemKind::InvalidValue, message);
        }
    }
    HttpConfig { listen, cors }
}

/// `scheme://host[:port]`, as browsers send it.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else {
        return false;
    };
    !scheme.is_empty()
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
        && !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}

fn read_telemetry(reader: &mut Reader<'_>, raw: &RawConfig) -> TelemetryConfig {
    let at = At {
        section: Section::Telemetry,
        raw: raw.section(Section::Telemetry),
        path: Section::Telemetry.name(),
    };
    let log = reader.text(&at, "log");
    let format = match reader.text(&at, "format").as_str() {
        "auto" => LogFormat::Auto,
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        other => {
            let message =
                format!("\"{other}\" is not a form of log lines; expected auto, text or json");
            reader.problem(&at, "format", ProblemKind::InvalidValue, message);
            LogFormat::Auto
        }
    };
    let metrics_listen = read_listen(reader, &at, "metrics_listen");
    TelemetryConfig {
        log,
        format,
        metrics_listen,
    }
}

fn chain_at<'a>(raw: &'a RawConfig, index: usize, path: &'a str) -> At<'a> {
    At {
        section: Section::Chain,
        raw: &raw.chains[index],
        path,
    }
}

fn check_unique_ids(reader: &mut Reader<'_>, raw: &RawConfig, config: &Config) {
    for (index, chain) in config.chains.iter().enumerate() {
        // Folders of two ids that differ in case alone are one folder on some file systems.
        let first = config.chains[..index].iter().position(|other| {
            other.id().eq_ignore_ascii_case(chain.id()) && !chain.id().is_empty()
        });
        if let Some(first) = first {
            let path = format!("chain[{index}]");
            let message = format!(
                "\"{}\" is the id of chain[{first}] already; ids differ in more than case",
                chain.id()
            );
            reader.problem(
                &chain_at(raw, index, &path),
                "id",
                ProblemKind::InvalidValue,
                message,
            );
        }
    }
}

/// The ledger's events and a chain's would share a stream.
fn check_stream_of_ledger(reader: &mut Reader<'_>, raw: &RawConfig, config: &Config) {
    let Some(scanner) = &config.scanner else {
        return;
    };
    if config.chain(&scanner.chain_id).is_some() {
        let at = services::scanner_at(raw);
        let message = format!(
            "\"{}\" is the id of a chain; the ledger needs a stream of its own",
            scanner.chain_id
        );
        reader.problem(&at, "chain_id", ProblemKind::InvalidValue, message);
    }
}

fn check_unique_listeners(reader: &mut Reader<'_>, raw: &RawConfig, config: &Config) {
    let mut taken = vec![("http.listen".to_owned(), config.http.listen.clone())];
    let mut check = |listen: &Listen, at: &At<'_>, name: &str| {
        let any_port = matches!(listen, Listen::Tcp { port: 0, .. });
        match taken.iter().find(|(_, other)| other == listen) {
            Some((path, _)) if !any_port => {
                let message = format!("{listen} is taken by {path} already");
                reader.problem(at, name, ProblemKind::InvalidValue, message);
            }
            _ => taken.push((at.path_of(name), listen.clone())),
        }
    };
    let telemetry = At {
        section: Section::Telemetry,
        raw: raw.section(Section::Telemetry),
        path: Section::Telemetry.name(),
    };
    if let Some(listen) = &config.telemetry.metrics_listen {
        check(listen, &telemetry, "metrics_listen");
    }
    for (index, chain) in config.chains.iter().enumerate() {
        let ChainConfig::Utxo(chain) = chain else {
            continue;
        };
        let path = format!("chain[{index}]");
        let at = chain_at(raw, index, &path);
        if let Some(listen) = &chain.esplora_listen {
            check(listen, &at, "esplora_listen");
        }
        for (name, listen) in chain.electrum.listeners() {
            check(listen, &at, name);
        }
    }
}
