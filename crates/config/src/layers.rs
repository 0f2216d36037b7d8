//! The three layers (file, environment, command line) laid over each other, values still unchecked.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::keys::{self, Key, Kind, Section};
use crate::load::{ConfigFile, Environment};
use crate::problem::{Place, Problem, ProblemKind};

/// Most chains that can be configured: a bound on what the environment can make grow.
pub(crate) const CHAINS_MAX: usize = 64;

/// A value as it was given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawValue {
    Text(String),
    Bool(bool),
    Integer(i64),
    List(Vec<RawValue>),
    /// A type no key has; how to call it.
    Other(&'static str),
}

/// A value and where it was given.
#[derive(Debug, Clone)]
pub(crate) struct RawEntry {
    pub(crate) value: RawValue,
    pub(crate) place: Place,
}

/// The entries of one section, by key name.
#[derive(Debug, Clone)]
pub(crate) struct RawSection {
    pub(crate) place: Place,
    pub(crate) entries: BTreeMap<&'static str, RawEntry>,
}

impl RawSection {
    fn at(place: Place) -> Self {
        Self {
            place,
            entries: BTreeMap::new(),
        }
    }
}

/// Everything that was given.
#[derive(Debug)]
pub(crate) struct RawConfig {
    /// Every section but the chains, given or not.
    sections: BTreeMap<Section, RawSection>,
    pub(crate) chains: Vec<RawSection>,
}

impl RawConfig {
    pub(crate) fn empty() -> Self {
        Self {
            sections: Section::ALL
                .into_iter()
                .map(|section| (section, RawSection::at(Place::Default)))
                .collect(),
            chains: Vec::new(),
        }
    }

    /// A section that is not repeated.
    pub(crate) fn section(&self, section: Section) -> &RawSection {
        &self.sections[&section]
    }

    fn section_mut(&mut self, section: Section) -> &mut RawSection {
        self.sections
            .entry(section)
            .or_insert_with(|| RawSection::at(Place::Default))
    }
}

/// Finds lines of byte offsets in a file.
struct Lines<'a> {
    file: &'a ConfigFile,
}

impl Lines<'_> {
    fn place(&self, span: Range<usize>) -> Place {
        let before = self.file.text.get(..span.start).unwrap_or(&self.file.text);
        Place::Line {
            file: self.file.name.clone(),
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        }
    }
}

/// Lays the file down.
pub(crate) fn read_file(raw: &mut RawConfig, file: &ConfigFile, problems: &mut Vec<Problem>) {
    let lines = Lines { file };
    let (document, errors) = DeTable::parse_recoverable(&file.text);
    if !errors.is_empty() {
        // Only the parser's message: its full text quotes the line, which may hold a secret.
        problems.extend(errors.iter().map(|error| {
            Problem {
                kind: ProblemKind::Syntax,
                place: error
                    .span()
                    .map_or(Place::File(file.name.clone()), |span| lines.place(span)),
                path: String::new(),
                message: format!("not valid TOML: {}", error.message()),
            }
        }));
        return;
    }
    for (name, value) in document.get_ref() {
        let place = lines.place(name.span());
        let text: &str = name.get_ref();
        match (keys::find(Section::Root, text), keys::find_section(text)) {
            (Some(key), _) => insert(raw.section_mut(Section::Root), key, value, place),
            (None, Some(Section::Chain)) => read_chains(raw, value, &place, &lines, problems),
            (None, Some(section)) => {
                let target = raw.section_mut(section);
                target.place = place;
                read_table(target, section, section.name(), value, &lines, problems);
            }
            (None, None) => problems.push(unknown_key(None, "", text, place)),
        }
    }
}

fn read_chains(
    raw: &mut RawConfig,
    value: &Spanned<DeValue<'_>>,
    place: &Place,
    lines: &Lines<'_>,
    problems: &mut Vec<Problem>,
) {
    let Some(tables) = value.get_ref().as_array() else {
        problems.push(Problem {
            kind: ProblemKind::WrongType,
            place: place.clone(),
            path: "chain".to_owned(),
            message: "a chain is a section with double brackets: [[chain]]".to_owned(),
        });
        return;
    };
    for (index, table) in tables.iter().enumerate().take(CHAINS_MAX) {
        let mut section = RawSection::at(lines.place(table.span()));
        let path = format!("chain[{index}]");
        read_table(&mut section, Section::Chain, &path, table, lines, problems);
        raw.chains.push(section);
    }
    if tables.len() > CHAINS_MAX {
        problems.push(Problem {
            kind: ProblemKind::InvalidValue,
            place: place.clone(),
            path: "chain".to_owned(),
            message: format!("{} chains; at most {CHAINS_MAX} are possible", tables.len()),
        });
    }
}

fn read_table(
    target: &mut RawSection,
    section: Section,
    path: &str,
    value: &Spanned<DeValue<'_>>,
    lines: &Lines<'_>,
    problems: &mut Vec<Problem>,
) {
    let Some(table) = value.get_ref().as_table() else {
        problems.push(Problem {
            kind: ProblemKind::WrongType,
            place: target.place.clone(),
            path: path.to_owned(),
            message: format!("this is a section; write it as {}", section.header()),
        });
        return;
    };
    for (name, value) in table {
        let place = lines.place(name.span());
        let text: &str = name.get_ref();
        match keys::find(section, text) {
            Some(key) => insert(target, key, value, place),
            None => problems.push(unknown_key(Some(section), path, text, place)),
        }
    }
}

fn insert(target: &mut RawSection, key: &'static Key, value: &Spanned<DeValue<'_>>, place: Place) {
    let value = raw_value(value.get_ref());
    target.entries.insert(key.name, RawEntry { value, place });
}

fn raw_value(value: &DeValue<'_>) -> RawValue {
    match value {
        DeValue::String(text) => RawValue::Text(text.clone().into_owned()),
        DeValue::Boolean(value) => RawValue::Bool(*value),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).map_or(
            RawValue::Other("an integer that is too large"),
            RawValue::Integer,
        ),
        DeValue::Array(values) => RawValue::List(
            values
                .iter()
                .map(|value| raw_value(value.get_ref()))
                .collect(),
        ),
        DeValue::Float(_) => RawValue::Other("a number with a fraction"),
        DeValue::Datetime(_) => RawValue::Other("a date"),
        DeValue::Table(_) => RawValue::Other("a table"),
    }
}

fn unknown_key(section: Option<Section>, path: &str, name: &str, place: Place) -> Problem {
    let section_name = section.map_or(name, |section| section.name());
    let planned = keys::is_planned(section_name, name);
    let nearest = keys::nearest_key(section.or(Some(Section::Root)), name);
    let what = if planned {
        "this version of Cairn does not support this key yet"
    } else {
        "unknown key"
    };
    Problem {
        kind: if planned {
            ProblemKind::Unsupported
        } else {
            ProblemKind::UnknownKey
        },
        place,
        path: match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        },
        message: format!("{what}; nearest known key: {nearest}"),
    }
}

/// Prefix of the environment's names.
const VARIABLE_PREFIX: &str = "CAIRN_";
/// Between the parts of a path in a variable's name.
const VARIABLE_SEPARATOR: &str = "__";
/// Variables with the prefix that belong to the command line.
const VARIABLES_OF_COMMANDS: &[&str] = &["CAIRN_CONFIG"];

/// Lays the environment over what is there. Returns the names with the prefix that look like no path at all: whether
/// they are mistakes is known only when the references of the file are.
pub(crate) fn read_environment(
    raw: &mut RawConfig,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Vec<String> {
    let mut strays = Vec::new();
    for (name, value) in environment.iter() {
        let Some(path) = name.strip_prefix(VARIABLE_PREFIX) else {
            continue;
        };
        if VARIABLES_OF_COMMANDS.contains(&name) {
            continue;
        }
        let parts: Vec<String> = path
            .split(VARIABLE_SEPARATOR)
            .map(str::to_ascii_lowercase)
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let place = Place::Variable(name.to_owned());
        if let [single] = parts.as_slice()
            && keys::find(Section::Root, single).is_none()
        {
            strays.push(name.to_owned());
            continue;
        }
        let Ok(value) = value else {
            problems.push(Problem {
                kind: ProblemKind::InvalidValue,
                place,
                path: parts.join("."),
                message: "the value is not UTF-8".to_owned(),
            });
            continue;
        };
        if let Err(problem) = overlay(raw, &parts, value, place, chain_by_variable) {
            problems.push(problem);
        }
    }
    strays
}

/// Lays the command line's `path=value` pairs over what is there.
pub(crate) fn read_overrides(
    raw: &mut RawConfig,
    overrides: &[(String, String)],
    problems: &mut Vec<Problem>,
) {
    for (path, value) in overrides {
        let place = Place::CommandLine(format!("--set {path}"));
        // A chain's id may hold dots: what lies between `chain.` and the last dot names the chain.
        let parts: Vec<&str> = match path
            .strip_prefix("chain.")
            .and_then(|rest| rest.rsplit_once('.'))
        {
            Some((chain, key)) => vec!["chain", chain, key],
            None => path.split('.').collect(),
        };
        if let Err(problem) = overlay(raw, &parts, value, place, chain_by_id) {
            problems.push(problem);
        }
    }
}

type ChainFinder = fn(&RawConfig, &str) -> Option<usize>;

fn chain_by_id(raw: &RawConfig, name: &str) -> Option<usize> {
    find_chain(raw, |id| id == name)
}

/// Names of variables have no `-` and `.`, and usually no lower case.
fn chain_by_variable(raw: &RawConfig, name: &str) -> Option<usize> {
    find_chain(raw, |id| {
        id.to_ascii_lowercase().replace(['-', '.'], "_") == name
    })
}

fn find_chain(raw: &RawConfig, matches: impl Fn(&str) -> bool) -> Option<usize> {
    let mut found = raw.chains.iter().enumerate().filter(|(_, chain)| {
        matches!(chain.entries.get("id"), Some(RawEntry { value: RawValue::Text(id), .. }) if matches(id))
    });
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Some(index),
        _ => None,
    }
}

fn overlay(
    raw: &mut RawConfig,
    parts: &[&str],
    value: &str,
    place: Place,
    find_chain: ChainFinder,
) -> Result<(), Problem> {
    let (section, path, name, index) = match parts {
        [name] => (Section::Root, String::new(), *name, None),
        ["chain", chain, name] => {
            let index = match chain.parse::<usize>() {
                Ok(index) if index <= raw.chains.len() && index < CHAINS_MAX => index,
                _ => find_chain(raw, chain).ok_or_else(|| Problem {
                    kind: ProblemKind::UnknownKey,
                    place: place.clone(),
                    path: parts.join("."),
                    message: format!(
                        "there is no chain \"{chain}\"; name one by its id or by its number from 0 to {}",
                        raw.chains.len()
                    ),
                })?,
            };
            (
                Section::Chain,
                format!("chain[{index}]"),
                *name,
                Some(index),
            )
        }
        [section, name]
            if keys::find_section(section).is_some_and(|known| known != Section::Chain) =>
        {
            // The guard has found it.
            let known = keys::find_section(section).unwrap_or(Section::Root);
            (known, (*section).to_owned(), *name, None)
        }
        [section, rest @ ..] if keys::is_planned(section, "") => {
            return Err(Problem {
                path: format!("{section}.{}", rest.join(".")),
                ..unknown_key(None, "", section, place)
            });
        }
        _ => {
            let last = parts.last().copied().unwrap_or_default();
            return Err(Problem {
                path: parts.join("."),
                ..unknown_key(None, "", last, place)
            });
        }
    };
    let Some(key) = keys::find(section, name) else {
        let section = (section != Section::Root).then_some(section);
        return Err(unknown_key(section, &path, name, place));
    };
    let value = text_value(key.kind, value);
    let target = match (section, index) {
        (Section::Chain, index) => {
            let index = index.unwrap_or_default();
            if index == raw.chains.len() {
                raw.chains.push(RawSection::at(place.clone()));
            }
            &mut raw.chains[index]
        }
        (section, _) => raw.section_mut(section),
    };
    target.entries.insert(key.name, RawEntry { value, place });
    Ok(())
}

/// A value given as plain text. What does not fit the type stays text, so that the reader reports it.
fn text_value(kind: Kind, text: &str) -> RawValue {
    let as_text = || RawValue::Text(text.to_owned());
    match kind {
        Kind::Text | Kind::Secret | Kind::Url => as_text(),
        Kind::Bool => match text {
            "true" | "1" => RawValue::Bool(true),
            "false" | "0" => RawValue::Bool(false),
            _ => as_text(),
        },
        Kind::Integer { .. } => text.parse().map_or_else(|_| as_text(), RawValue::Integer),
        Kind::TextList if text.trim_start().starts_with('[') => {
            DeValue::parse(text).map_or_else(|_| as_text(), |value| raw_value(value.get_ref()))
        }
        Kind::TextList => RawValue::List(
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| RawValue::Text(item.to_owned()))
                .collect(),
        ),
    }
}
