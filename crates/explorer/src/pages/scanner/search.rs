//! What a search text names in the ledger.

use cairn_scanner::{FoundKind, Scanner};

use super::paths;
use crate::error::PageError;
use crate::ledger::{Findings, Hit};

/// Looks a text up: point reads and bounded ranges.
pub(super) async fn find(scanner: &Scanner, text: &str) -> Result<Findings, PageError> {
    let found = scanner.search(text).await?;
    let mut findings = Findings::default();
    for (kind, id) in found.results {
        let Some((href, what)) = place(kind, &id) else {
            continue;
        };
        // A revision is found by its number and by its root.
        let exact = id == found.text || kind == FoundKind::Block;
        findings.hits.push(if exact {
            Hit::exact(href, id, what)
        } else {
            Hit::near(href, id, what)
        });
    }
    if findings.hits.is_empty() {
        findings.tried.push(
            "a transaction, a player or agent, a space, a game, a revision or its root, a message"
                .to_owned(),
        );
    }
    Ok(findings)
}

/// The page of something that was found, and what it is.
fn place(kind: FoundKind, id: &str) -> Option<(String, &'static str)> {
    Some(match kind {
        FoundKind::Tx => (paths::tx(id), "purchase"),
        FoundKind::Block => (paths::block(id.parse().ok()?, None), "revision"),
        FoundKind::Node => (paths::node(id), "account"),
        FoundKind::Analytics => (paths::view("analytics"), "message"),
        FoundKind::Space => (paths::space(id), "space"),
        FoundKind::Game => (paths::game(id), "game"),
        FoundKind::None => return None,
    })
}
