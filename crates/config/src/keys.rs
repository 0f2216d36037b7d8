//! Every key of the configuration, once.

use crate::suggest;

/// A part of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Keys before the first header.
    Root,
    /// `[http]`
    Http,
    /// `[telemetry]`
    Telemetry,
    /// `[[chain]]`, any number of times.
    Chain,
}

impl Section {
    /// All sections in the order of the file.
    pub const ALL: [Section; 4] = [Self::Root, Self::Http, Self::Telemetry, Self::Chain];

    /// The name in the file and in paths; empty for the root.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Http => "http",
            Self::Telemetry => "telemetry",
            Self::Chain => "chain",
        }
    }

    /// The header line of the file; empty for the root.
    pub fn header(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Http => "[http]",
            Self::Telemetry => "[telemetry]",
            Self::Chain => "[[chain]]",
        }
    }

    /// What the section is about.
    pub fn doc(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Http => "The main listener.",
            Self::Telemetry => "Logs and metrics.",
            Self::Chain => "One section per chain; repeat it for more.",
        }
    }
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A string that must not be written out.
    Secret,
    /// A string that may hold a password before its `@`.
    Url,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds, both included.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A list of strings.
    TextList,
}

impl Kind {
    /// How the type is called in messages and in the manual.
    pub fn describe(self) -> String {
        match self {
            Self::Text | Self::Url => "a string".to_owned(),
            Self::Secret => "a string (secret)".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::TextList => "a list of strings".to_owned(),
        }
    }
}

/// How the example file shows a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// With its default.
    Default,
    /// With this TOML value, as the key has no usable default or a telling value is better.
    Value(&'static str),
    /// As a comment with this TOML value: the key makes sense only in some installations.
    Commented(&'static str),
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Where it stands.
    pub section: Section,
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The default as a TOML value; `None`: the key must be given.
    pub default: Option<&'static str>,
    /// How the example file shows it.
    pub example: Example,
    /// What it does, with the unit of numbers.
    pub doc: &'static str,
}

impl Key {
    /// `http.listen`, `chain.rpc_url`, `data_dir`.
    pub fn path(&self) -> String {
        match self.section {
            Section::Root => self.name.to_owned(),
            section => format!("{}.{}", section.name(), self.name),
        }
    }

    /// The name of the environment variable that sets the key (in the first chain).
    pub fn variable(&self) -> String {
        let name = self.name.to_ascii_uppercase();
        match self.section {
            Section::Root => format!("CAIRN_{name}"),
            Section::Chain => format!("CAIRN_CHAIN__0__{name}"),
            section => format!("CAIRN_{}__{name}", section.name().to_ascii_uppercase()),
        }
    }
}

/// Largest memory budget that may be configured, in MB: 1 TB.
const MEMORY_MB_MAX: i64 = 1_000_000;
/// Smallest memory budget, in MB: below it the stores have no room for one block's rows.
const MEMORY_MB_MIN: i64 = 64;
/// Largest value of the limits that count rows or entries.
const COUNT_MAX: i64 = 1_000_000_000;
/// Largest number of worker threads.
const THREADS_MAX: i64 = 1024;

const fn key(
    section: Section,
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    example: Example,
    doc: &'static str,
) -> Key {
    Key {
        section,
        name,
        kind,
        default,
        example,
        doc,
    }
}

const FALSE: Option<&str> = Some("false");
const EMPTY: Option<&str> = Some("\"\"");

/// The table of all keys, in the order of the example file.
pub const KEYS: &[Key] = &[
    key(
        Section::Root,
        "data_dir",
        Kind::Text,
        Some("\"cairn-data\""),
        Example::Default,
        "Folder below which Cairn writes everything; made if missing. Relative to the working directory.",
    ),
    key(
        Section::Root,
        "allow_inline_secrets",
        Kind::Bool,
        FALSE,
        Example::Default,
        "Accept passwords written out in this file or on the command line. Without it they are given as \"${NAME}\" or in a file of their own.",
    ),
    key(
        Section::Http,
        "listen",
        Kind::Text,
        Some("\"127.0.0.1:3000\""),
        Example::Default,
        "Explorer, all HTTP APIs, /health/live, /health/ready, /metrics (see telemetry.metrics_listen) and /openapi.json. HOST:PORT or unix:/path.",
    ),
    key(
        Section::Http,
        "cors",
        Kind::TextList,
        Some("[]"),
        Example::Default,
        "Web origins that may call the APIs from a browser (\"https://wallet.example\"); \"*\" = all.",
    ),
    key(
        Section::Telemetry,
        "log",
        Kind::Text,
        Some("\"info\""),
        Example::Default,
        "Which log lines to write, as a tracing filter: \"info\", \"debug\", \"info,cairn_utxo_index=debug\". Logs go to stderr.",
    ),
    key(
        Section::Telemetry,
        "format",
        Kind::Text,
        Some("\"auto\""),
        Example::Default,
        "Form of log lines: \"text\", \"json\", or \"auto\" = text on a terminal and JSON elsewhere.",
    ),
    key(
        Section::Telemetry,
        "metrics_listen",
        Kind::Text,
        EMPTY,
        Example::Default,
        "A second listener for /metrics and /health alone; http.listen then has no /metrics. \"\" = none. HOST:PORT or unix:/path.",
    ),
    key(
        Section::Chain,
        "id",
        Kind::Text,
        None,
        Example::Value("\"bitcoin-regtest\""),
        "Name of the chain in URLs, metrics and folders: 1 to 64 of A-Z a-z 0-9 . _ -; required.",
    ),
    key(
        Section::Chain,
        "kind",
        Kind::Text,
        None,
        Example::Value("\"bitcoin\""),
        "What kind of ledger it is: \"bitcoin\"; required.",
    ),
    key(
        Section::Chain,
        "network",
        Kind::Text,
        None,
        Example::Value("\"regtest\""),
        "mainnet, testnet, testnet4, signet or regtest; required.",
    ),
    key(
        Section::Chain,
        "rpc_url",
        Kind::Url,
        EMPTY,
        Example::Value("\"http://127.0.0.1:18443\""),
        "The node's RPC address, http://HOST:PORT. \"\" = none: the block files alone are indexed.",
    ),
    key(
        Section::Chain,
        "rpc_cookie_file",
        Kind::Text,
        EMPTY,
        Example::Default,
        "File with the node's cookie, read again at each connection. \"\" = the network's .cookie below node_dir when no rpc_user is given.",
    ),
    key(
        Section::Chain,
        "rpc_user",
        Kind::Text,
        EMPTY,
        Example::Default,
        "User name instead of a cookie; needs rpc_password or rpc_password_file.",
    ),
    key(
        Section::Chain,
        "rpc_password",
        Kind::Secret,
        EMPTY,
        Example::Commented("\"${BITCOIN_RPC_PASSWORD}\""),
        "Password of rpc_user, as a reference to an environment variable.",
    ),
    key(
        Section::Chain,
        "rpc_password_file",
        Kind::Text,
        EMPTY,
        Example::Default,
        "File that holds the password of rpc_user; read at start, a line end after it is ignored.",
    ),
    key(
        Section::Chain,
        "node_dir",
        Kind::Text,
        EMPTY,
        Example::Default,
        "The node's data directory, as its -datadir: the cookie and the block files are found below it. \"\" = none.",
    ),
    key(
        Section::Chain,
        "blocks_dir",
        Kind::Text,
        EMPTY,
        Example::Default,
        "Folder of the blk*.dat files. \"\" = that of the network below node_dir; with neither, blocks are fetched from rpc_url.",
    ),
    key(
        Section::Chain,
        "signet_challenge",
        Kind::Text,
        EMPTY,
        Example::Default,
        "Challenge of a custom signet, hex. \"\" = the public signet.",
    ),
    key(
        Section::Chain,
        "magic",
        Kind::Text,
        EMPTY,
        Example::Default,
        "The 4 bytes before each block in the files, 8 hex digits, when they are neither the network's nor those of signet_challenge. \"\" = theirs.",
    ),
    key(
        Section::Chain,
        "esplora_listen",
        Kind::Text,
        EMPTY,
        Example::Default,
        "A listener with the Esplora API of this chain at its root, for clients made for electrs. \"\" = none. HOST:PORT or unix:/path.",
    ),
    key(
        Section::Chain,
        "light_mode",
        Kind::Bool,
        FALSE,
        Example::Default,
        "Keep no transaction bodies: a smaller index that asks the node for them at each request. Fixed when the index is made.",
    ),
    key(
        Section::Chain,
        "address_search",
        Kind::Bool,
        FALSE,
        Example::Default,
        "Keep the rows that search addresses by prefix. Fixed when the index is made.",
    ),
    key(
        Section::Chain,
        "index_unspendables",
        Kind::Bool,
        FALSE,
        Example::Default,
        "Keep history rows of provably unspendable outputs too. Fixed when the index is made.",
    ),
    key(
        Section::Chain,
        "utxos_limit",
        Kind::Integer {
            min: 1,
            max: COUNT_MAX,
        },
        Some("10000"),
        Example::Default,
        "Largest number of unspent outputs listed for one script, outputs; beyond it the answer is an error.",
    ),
    key(
        Section::Chain,
        "history_limit",
        Kind::Integer {
            min: 0,
            max: COUNT_MAX,
        },
        Some("0"),
        Example::Default,
        "Largest history listed in one answer that has no pages, transactions. 0 = no limit, pages instead: the only value of this version, all whose answers have pages.",
    ),
    key(
        Section::Chain,
        "scan_rows_max",
        Kind::Integer {
            min: 1,
            max: COUNT_MAX,
        },
        Some("100000"),
        Example::Default,
        "History rows one request may visit, rows; beyond it the request fails and the work done is kept, so that asking again continues.",
    ),
    key(
        Section::Chain,
        "memory_mb",
        Kind::Integer {
            min: MEMORY_MB_MIN,
            max: MEMORY_MB_MAX,
        },
        Some("1024"),
        Example::Default,
        "Memory budget of this chain's index, MB (1,000,000 bytes): caches, write buffers and load buffers together. Less is slower, not fatal.",
    ),
    key(
        Section::Chain,
        "threads",
        Kind::Integer {
            min: 0,
            max: THREADS_MAX,
        },
        Some("0"),
        Example::Default,
        "Worker threads of the first load, threads. 0 = one per core.",
    ),
];

/// Keys and sections of the design that this version has no consumer for. Accepting them would promise what is not
/// done, so they are refused by name. `*` = every key of the section.
const PLANNED: &[(&str, &str)] = &[
    ("redis", "*"),
    ("stream", "*"),
    ("scanner", "*"),
    ("chain", "zmq_url"),
    ("chain", "electrum_listen"),
    ("chain", "electrum_tls_listen"),
    ("chain", "electrum_ws_listen"),
    ("chain", "tls_cert_file"),
    ("chain", "tls_key_file"),
    ("chain", "publish_events"),
    ("chain", "ship_url"),
    ("chain", "chain_url"),
    ("chain", "abi_fallback"),
    ("chain", "irreversible_only"),
    ("chain", "start_block"),
    ("chain", "expect_chain_id"),
    ("chain", "json_profile"),
];

/// The key of a section by name.
pub fn find(section: Section, name: &str) -> Option<&'static Key> {
    KEYS.iter()
        .find(|key| key.section == section && key.name == name)
}

/// The section of a name in the file.
pub(crate) fn find_section(name: &str) -> Option<Section> {
    Section::ALL
        .into_iter()
        .find(|section| !section.name().is_empty() && section.name() == name)
}

/// Whether a later version will know this key (`name` empty: this section).
pub(crate) fn is_planned(section: &str, name: &str) -> bool {
    PLANNED.iter().any(|(planned_section, planned)| {
        *planned_section == section && (*planned == name || *planned == "*")
    })
}

/// The path of the known key nearest to a name; keys of the same section are preferred.
pub(crate) fn nearest_key(section: Option<Section>, name: &str) -> String {
    /// A key of another section must be this much nearer.
    const OTHER_SECTION: usize = 1;
    let keys = KEYS.iter().map(|key| {
        let handicap = usize::from(section.is_some_and(|own| own != key.section)) * OTHER_SECTION;
        (key.name, handicap, key.path())
    });
    let sections = Section::ALL
        .into_iter()
        .filter(|_| matches!(section, None | Some(Section::Root)))
        .filter(|known| !known.name().is_empty())
        .map(|known| (known.name(), 0, known.header().to_owned()));
    // The table is never empty, so there is always a nearest one.
    suggest::nearest(name, sections.chain(keys)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(key.doc.ends_with('.'), "{}: {}", key.path(), key.doc);
            assert!(
                KEYS[..index].iter().all(|other| other.path() != key.path()),
                "{} is there twice",
                key.path()
            );
            assert!(!is_planned(key.section.name(), key.name), "{}", key.path());
        }
    }

    #[test]
    fn nearest_keys() {
        for (section, name, expected) in [
            (Some(Section::Http), "lisen", "http.listen"),
            (Some(Section::Root), "listen", "http.listen"),
            (Some(Section::Root), "htpp", "[http]"),
            (Some(Section::Chain), "rpcurl", "chain.rpc_url"),
            (Some(Section::Chain), "utxo_limit", "chain.utxos_limit"),
            (Some(Section::Telemetry), "cors", "http.cors"),
            (Some(Section::Root), "datadir", "data_dir"),
        ] {
            assert_eq!(nearest_key(section, name), expected, "{section:?} {name}");
        }
    }
}
