//! The paths of the ledger's pages: those that readers of the application's own scanner know.

use crate::present::{path_segment, query_value};

/// The dashboard, and with `view` most other pages.
pub(super) const ROOT: &str = "/scanner";

/// A view of the ledger.
pub(super) fn view(name: &str) -> String {
    format!("{ROOT}?view={name}")
}

/// A path with those parameters that are not empty.
pub(super) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut out = path.to_owned();
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        out.push(if out.contains('?') { '&' } else { '?' });
        out.push_str(name);
        out.push('=');
        out.push_str(&query_value(value));
    }
    out
}

/// A transaction.
pub(super) fn tx(id: &str) -> String {
    format!("{ROOT}/txs/{}", path_segment(id))
}

/// An account.
pub(super) fn node(id: &str) -> String {
    format!("{ROOT}/nodes/{}", path_segment(id))
}

/// A space. A name between two underscores each (`__parking__`) stands for no space: its transactions are all there is to see.
pub(super) fn space(id: &str) -> String {
    let name = path_segment(id);
    if id.len() >= 4 && id.starts_with("__") && id.ends_with("__") {
        format!("{ROOT}?view=txs&spaceId={name}")
    } else {
        format!("{ROOT}/spaces/{name}")
    }
}

/// A game.
pub(super) fn game(id: &str) -> String {
    format!("{ROOT}/games/{}", path_segment(id))
}

/// A revision of the current epoch, or of another one.
pub(super) fn block(rev: i64, epoch: Option<i64>) -> String {
    match epoch {
        None => format!("{ROOT}/blocks/{rev}"),
        Some(epoch) => format!("{ROOT}/blocks/{rev}?epoch={epoch}"),
    }
}
