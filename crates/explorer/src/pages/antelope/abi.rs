//! `/{chain}/abi/{contract}`: every version of a contract's ABI that is kept, and what one of them says.

use std::collections::BTreeSet;

use askama::Template;
use cairn_antelope_abi::{AbiDef, Name};
use cairn_antelope_parser::{AbiVersion, read_abi_versions};

use super::Pages;
use crate::error::PageError;
use crate::present::{Copy, Hash, bytes, count};
use crate::site::Shell;

/// Lines of a version that are shown.
const LINES_MAX: usize = 2_000;

/// The page where a contract is chosen.
#[derive(Template)]
#[template(path = "antelope/abi_form.html")]
pub(super) struct FormPage {
    shell: Shell,
    action: String,
}

impl FormPage {
    /// The empty form.
    pub(super) fn new(pages: &Pages) -> Result<Self, PageError> {
        Ok(Self {
            shell: pages.frame("ABIs", "abi"),
            action: format!("/{}/abi", pages.paths().id()),
        })
    }
}

/// The page of a contract.
#[derive(Template)]
#[template(path = "antelope/abi.html")]
pub(super) struct AbiPage {
    shell: Shell,
    form_href: String,
    contract: String,
    account_href: String,
    versions: Vec<VersionRow>,
    shown: Option<Shown>,
}

/// One version in the list.
struct VersionRow {
    href: String,
    block: String,
    block_href: String,
    sequence: String,
    sha256: Hash,
    size: String,
    added: usize,
    removed: usize,
    is_shown: bool,
}

/// What one version says.
struct Shown {
    block: String,
    sha256: Hash,
    copy: Copy,
    failure: Option<String>,
    lines: Vec<Line>,
    lines_more: usize,
}

/// One declaration, and whether the version before had it.
struct Line {
    text: String,
    /// `added`, `removed` or nothing.
    mark: &'static str,
}

impl AbiPage {
    /// Reads the versions of a contract; `version` is the place of the one that is shown, counted from the oldest.
    pub(super) async fn read(
        pages: &Pages,
        contract: &str,
        version: Option<&str>,
    ) -> Result<Self, PageError> {
        let name = Name::parse(contract).map_err(|error| {
            PageError::BadRequest(format!(
                "\u{201c}{}\u{201d} is not the name of a contract: {error}.",
                contract.chars().take(64).collect::<String>()
            ))
        })?;
        let versions = read_abi_versions(&pages.ledger.redis, name).await?;
        if versions.is_empty() {
            return Err(PageError::not_found(format!(
                "No ABI of {contract} is known: it is no contract, or it never set one while the chain was followed."
            )));
        }
        let index = match version {
            None => versions.len() - 1,
            Some(text) => text
                .parse::<usize>()
                .ok()
                .filter(|index| *index < versions.len())
                .ok_or_else(|| {
                    PageError::not_found(format!("{contract} has no such version of its ABI."))
                })?,
        };
        Ok(Self::new(pages, contract, &versions, index))
    }

    fn new(pages: &Pages, contract: &str, versions: &[AbiVersion], index: usize) -> Self {
        let paths = pages.paths();
        let declared: Vec<Result<BTreeSet<String>, String>> =
            versions.iter().map(declarations).collect();
        let set = |index: usize| declared.get(index).and_then(|found| found.as_ref().ok());
        let rows = versions
            .iter()
            .enumerate()
            .map(|(at, version)| {
                let (added, removed) = match (at.checked_sub(1).and_then(set), set(at)) {
                    (Some(before), Some(now)) => (
                        now.difference(before).count(),
                        before.difference(now).count(),
                    ),
                    (None, Some(now)) => (now.len(), 0),
                    _ => (0, 0),
                };
                VersionRow {
                    href: format!("{}?version={at}", paths.abi(contract)),
                    block: count(version.block_num.into()),
                    block_href: paths.block(version.block_num),
                    sequence: match version.global_sequence {
                        0 => "-".to_owned(),
                        sequence => count(sequence),
                    },
                    sha256: Hash::new(hex(&version.sha256)),
                    size: bytes(version.bytes.len() as u64),
                    added,
                    removed,
                    is_shown: at == index,
                }
            })
            .rev()
            .collect();
        let shown = versions.get(index).map(|version| {
            let before = index.checked_sub(1).and_then(set);
            let (lines, failure) = match declared.get(index) {
                Some(Ok(now)) => (lines(before, now), None),
                Some(Err(why)) => (Vec::new(), Some(why.clone())),
                None => (Vec::new(), None),
            };
            Shown {
                block: count(version.block_num.into()),
                sha256: Hash::new(hex(&version.sha256)),
                copy: Copy::new(hex(&version.sha256)),
                failure,
                lines_more: lines.len().saturating_sub(LINES_MAX),
                lines: lines.into_iter().take(LINES_MAX).collect(),
            }
        });
        AbiPage {
            shell: pages.frame(&format!("ABI of {contract}"), "abi"),
            form_href: format!("/{}/abi", paths.id()),
            contract: contract.to_owned(),
            account_href: paths.account(contract),
            versions: rows,
            shown,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The declarations of a version, one text each; an empty ABI has none.
fn declarations(version: &AbiVersion) -> Result<BTreeSet<String>, String> {
    if version.bytes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let def = AbiDef::from_bytes(&version.bytes).map_err(|error| error.to_string())?;
    Ok(describe(&def))
}

fn describe(def: &AbiDef) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for action in &def.actions {
        lines.insert(format!("action {}: {}", action.name, action.r#type));
    }
    for result in &def.action_results {
        lines.insert(format!("result of {}: {}", result.name, result.result_type));
    }
    for table in &def.tables {
        lines.insert(format!(
            "table {}: {} by {}",
            table.name,
            table.r#type,
            if table.key_names.is_empty() {
                "its key".to_owned()
            } else {
                table.key_names.join(", ")
            }
        ));
    }
    for item in &def.structs {
        let fields: Vec<String> = item
            .fields
            .iter()
            .map(|field| format!("{} {}", field.r#type, field.name))
            .collect();
        let base = if item.base.is_empty() {
            String::new()
        } else {
            format!(": {}", item.base)
        };
        lines.insert(format!(
            "struct {}{base} {{ {} }}",
            item.name,
            fields.join("; ")
        ));
    }
    for alias in &def.types {
        lines.insert(format!("type {} = {}", alias.new_type_name, alias.r#type));
    }
    for variant in &def.variants {
        lines.insert(format!(
            "variant {} = {}",
            variant.name,
            variant.types.join(" | ")
        ));
    }
    lines
}

/// All declarations of two versions, marked by who has them.
fn lines(before: Option<&BTreeSet<String>>, now: &BTreeSet<String>) -> Vec<Line> {
    let Some(before) = before else {
        return now
            .iter()
            .map(|text| Line {
                text: text.clone(),
                mark: "",
            })
            .collect();
    };
    now.union(before)
        .map(|text| Line {
            text: text.clone(),
            mark: match (before.contains(text), now.contains(text)) {
                (false, _) => "added",
                (_, false) => "removed",
                (true, true) => "",
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(lines: &[&str]) -> BTreeSet<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn declarations_are_marked_by_version() {
        let marked: Vec<(String, &str)> = lines(Some(&set(&["a", "b"])), &set(&["b", "c"]))
            .into_iter()
            .map(|line| (line.text, line.mark))
            .collect();
        assert_eq!(
            marked,
            [
                ("a".to_owned(), "removed"),
                ("b".to_owned(), ""),
                ("c".to_owned(), "added")
            ]
        );
        assert!(
            lines(None, &set(&["a"]))
                .iter()
                .all(|line| line.mark.is_empty())
        );
    }
}
