//! Every key of the configuration, once.

use crate::suggest;
pub use crate::table::KEYS;

/// A part of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Keys before the first header.
    Root,
    /// `[http]`
    Http,
    /// `[telemetry]`
    Telemetry,
    /// `[redis]`
    Redis,
    /// `[stream]`
    Stream,
    /// `[scanner]`
    Scanner,
    /// `[[chain]]`, any number of times.
    Chain,
}

impl Section {
    /// All sections in the order of the file.
    pub const ALL: [Section; 7] = [
        Self::Root,
        Self::Http,
        Self::Telemetry,
        Self::Redis,
        Self::Stream,
        Self::Scanner,
        Self::Chain,
    ];

    /// The name in the file and in paths; empty for the root.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Http => "http",
            Self::Telemetry => "telemetry",
            Self::Redis => "redis",
            Self::Stream => "stream",
            Self::Scanner => "scanner",
            Self::Chain => "chain",
        }
    }

    /// The header line of the file; empty for the root.
    pub fn header(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Http => "[http]",
            Self::Telemetry => "[telemetry]",
            Self::Redis => "[redis]",
            Self::Stream => "[stream]",
            Self::Scanner => "[scanner]",
            Self::Chain => "[[chain]]",
        }
    }

    /// What the section is about.
    pub fn doc(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Http => "The main listener.",
            Self::Telemetry => "Logs and metrics.",
            Self::Redis => "The Redis of event streams and of the application ledger.",
            Self::Stream => "How long the event streams keep their events.",
            Self::Scanner => "The application ledger.",
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

/// Which chains a key of `[[chain]]` is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every kind; also the scope of keys outside `[[chain]]`.
    Every,
    /// Kinds `bitcoin` and `liquid`.
    Utxo,
    /// Kind `liquid`.
    Liquid,
    /// Kind `antelope`.
    Antelope,
}

impl Scope {
    /// Whether chains of this scope have the keys of another: those of Liquid have all of Bitcoin's.
    pub fn has_keys_of(self, keys: Self) -> bool {
        keys == Self::Every || keys == self || (self == Self::Liquid && keys == Self::Utxo)
    }

    /// The kind that the key is for, as the file spells it; `None`: every kind.
    pub fn kind(self) -> Option<&'static str> {
        match self {
            Self::Every => None,
            Self::Utxo => Some("bitcoin"),
            Self::Liquid => Some("liquid"),
            Self::Antelope => Some("antelope"),
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
    /// Which chains it is for.
    pub scope: Scope,
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

/// Keys and sections of the design that this version has no consumer for. Accepting them would promise what is not
/// done, so they are refused by name. `*` = every key of the section.
const PLANNED: &[(&str, &str)] = &[("chain", "publish_events")];

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
