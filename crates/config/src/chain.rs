//! Reading and checking one `[[chain]]`: what every kind has, and the way to the rest.

mod antelope;
mod electrum;
mod liquid;
mod utxo;

use crate::keys::{self, Scope, Section};
use crate::layers::RawSection;
use crate::model::ChainConfig;
use crate::problem::ProblemKind;
use crate::reader::{At, Reader};

/// Longest id.
const ID_CHARS_MAX: usize = 64;
/// First parts of paths on the main listener that are no chain.
const IDS_TAKEN: [&str; 16] = [
    "api",
    "health",
    "metrics",
    "openapi.json",
    "favicon.ico",
    "static",
    "assets",
    "block",
    "blocks",
    "tx",
    "address",
    "scripthash",
    "search",
    "live",
    "mempool",
    "scanner",
];

/// Reads a chain. Problems are left in the reader; the result is meaningful only when there are none.
/// `None`: a kind of ledger that cannot be read.
pub(crate) fn read_chain(
    reader: &mut Reader<'_>,
    raw: &RawSection,
    path: &str,
) -> Option<ChainConfig> {
    let at = At {
        section: Section::Chain,
        raw,
        path,
    };
    let id = read_id(reader, &at);
    let scope = read_kind(reader, &at)?;
    refuse_foreign_keys(reader, &at, scope);
    Some(match scope {
        Scope::Antelope => ChainConfig::Antelope(antelope::read(reader, &at, id)),
        scope => ChainConfig::Utxo(Box::new(utxo::read(reader, &at, id, scope))),
    })
}

/// A key of another kind of chain would be ignored in silence.
fn refuse_foreign_keys(reader: &mut Reader<'_>, at: &At<'_>, scope: Scope) {
    for name in at.raw.entries.keys() {
        let Some(kind) = keys::find(Section::Chain, name)
            .filter(|key| !scope.has_keys_of(key.scope))
            .and_then(|key| key.scope.kind())
        else {
            continue;
        };
        let message = format!("is for chains of kind \"{kind}\"; this one is of another kind");
        reader.problem(at, name, ProblemKind::InvalidValue, message);
    }
}

fn read_id(reader: &mut Reader<'_>, at: &At<'_>) -> String {
    let id = reader.text(at, "id");
    if !at.raw.entries.contains_key("id") {
        return id;
    }
    let problem = if let Some(message) = not_a_name(&id) {
        Some(message)
    } else if id.bytes().all(|byte| byte == b'.') {
        Some(format!(
            "\"{id}\" would be a folder's own or parent name; add a letter"
        ))
    } else if IDS_TAKEN.contains(&id.to_ascii_lowercase().as_str()) {
        Some(format!(
            "\"{id}\" is the beginning of another path on the listener; choose another id"
        ))
    } else {
        None
    };
    if let Some(message) = problem {
        reader.problem(at, "id", ProblemKind::InvalidValue, message);
    }
    id
}

/// Why a text cannot be the name of a chain or of a host, which stand in URLs and in Redis keys.
pub(crate) fn not_a_name(text: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = !text.is_empty() && text.len() <= ID_CHARS_MAX && text.bytes().all(allowed);
    (!fits)
        .then(|| format!("\"{text}\" is not 1 to {ID_CHARS_MAX} characters of A-Z a-z 0-9 . _ -"))
}

/// Whose keys the section has; `None`: the rest of it cannot be understood.
fn read_kind(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Scope> {
    const KINDS: [Scope; 3] = [Scope::Utxo, Scope::Liquid, Scope::Antelope];
    let kind = reader.text(at, "kind");
    if let Some(scope) = KINDS.into_iter().find(|scope| scope.kind() == Some(&*kind)) {
        return Some(scope);
    }
    if !at.raw.entries.contains_key("kind") {
        // Reported as missing. Most chains are of this kind: what else is wrong is worth telling.
        return Some(Scope::Utxo);
    }
    let message =
        format!("\"{kind}\" is not a kind of ledger; expected bitcoin, liquid or antelope");
    reader.problem(at, "kind", ProblemKind::InvalidValue, message);
    None
}
