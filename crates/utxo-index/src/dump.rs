//! All rows of a database as text, for comparing two indexes.

use std::io::Write;

use bitcoin::hex::DisplayHex;

use crate::engine::{Cursor, Family, Store};
use crate::index::IndexError;

/// Writes one line `key value` in lower-case hex per row, in key order over all families. Rows of a kind lie in one
/// family and kinds are told apart by the first byte, so the merge is by key.
pub(crate) fn dump_rows(store: &Store, out: &mut dyn Write) -> Result<(), IndexError> {
    let snapshot = store.snapshot();
    let mut cursors: Vec<Cursor<'_>> = Family::of_db(store.kind())
        .map(|family| {
            let mut cursor = snapshot.range_cursor(family, Vec::new(), None);
            cursor.seek(&[]);
            cursor
        })
        .collect();
    loop {
        let mut least: Option<(usize, &[u8])> = None;
        for (at, cursor) in cursors.iter().enumerate() {
            if let Some(key) = cursor.key()?
                && least.is_none_or(|(_, other)| key < other)
            {
                least = Some((at, key));
            }
        }
        let Some((at, _)) = least else { break };
        if let Some((key, value)) = cursors[at].item()? {
            writeln!(out, "{} {}", key.as_hex(), value.as_hex())?;
        }
        cursors[at].next();
    }
    out.flush()?;
    Ok(())
}
