//! Pages by keyset: a cursor names the last row seen, so rows that arrive meanwhile make no older one skipped or repeated.

use redis::Cmd;
use sha2::{Digest, Sha256};

use crate::error::ScannerError;
use crate::ids::ID_MAX;
use crate::scanner::Scanner;
use crate::store::scripts::Step;
use crate::store::{Batch, Slot};

use super::{QueryError, scored};

/// Rows of a page at most.
pub const LIMIT_MAX: usize = 100;
/// Rows of a page unless said otherwise.
pub const LIMIT_DEFAULT: usize = 25;

/// The place after which a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Score of the last row seen.
    pub(crate) score: i64,
    /// The row; none: all of that score.
    pub(crate) member: Option<String>,
}

/// Which list a cursor belongs to: its name and everything that filters it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListId(String);

impl ListId {
    pub(crate) fn new(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self(hex(&hash.finalize()[..4]))
    }

    /// The token of a place.
    pub(crate) fn cursor(&self, score: i64, member: &str) -> String {
        format!("{}.{score}.{}", self.0, hex(member.as_bytes()))
    }

    /// Reads a token of this list.
    pub(crate) fn read(&self, token: &str) -> Result<Position, QueryError> {
        let wrong = || {
            QueryError::invalid(
                "invalid_cursor",
                "cursor is not one that this list gave out",
            )
        };
        let mut parts = token.split('.');
        let (Some(list), Some(score), Some(member), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        if list != self.0 || member.len() > 2 * ID_MAX {
            return Err(wrong());
        }
        let member = unhex(member).ok_or_else(wrong)?;
        Ok(Position {
            score: score.parse().map_err(|_| wrong())?,
            member: Some(member).filter(|member| !member.is_empty()),
        })
    }
}

/// The bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<String> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

/// In which order a list is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Greatest score first, of one score the greatest member first.
    Descending,
    /// The other way round.
    Ascending,
}

/// A part of a list.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) order: Order,
    /// First score inside.
    pub(crate) from: Option<i64>,
    /// First score after it.
    pub(crate) to: Option<i64>,
    pub(crate) after: Option<Position>,
    pub(crate) count: usize,
}

impl Range {
    pub(crate) fn newest(count: usize, after: Option<Position>) -> Self {
        Self {
            order: Order::Descending,
            from: None,
            to: None,
            after,
            count,
        }
    }

    pub(crate) fn write(&self, command: &mut Cmd) {
        let (score, member) = match &self.after {
            None => (String::new(), ""),
            Some(Position { score, member }) => {
                (score.to_string(), member.as_deref().unwrap_or_default())
            }
        };
        command
            .arg(match self.order {
                Order::Descending => "desc",
                Order::Ascending => "asc",
            })
            .arg(self.count)
            .arg(self.from.map_or("-inf".to_owned(), |from| from.to_string()))
            .arg(self.to.map_or("+inf".to_owned(), |to| format!("({to}")))
            .arg(score)
            .arg(member);
    }
}

impl Scanner {
    /// Adds the reading of a part of a list to a batch.
    pub(crate) fn add_page(&self, batch: &mut Batch, key: String, range: &Range) -> Slot {
        self.store()
            .step(batch, Step::Page, key, |command| range.write(command))
    }

    /// Members and scores of a part of a list.
    pub(crate) async fn page(
        &self,
        key: String,
        range: &Range,
    ) -> Result<Vec<(String, i64)>, ScannerError> {
        let flat: Vec<String> = self
            .store()
            .one_step(Step::Page, key, |command| range.write(command))
            .await?;
        Ok(scored(flat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cursors_belong_to_their_list() {
        let list = ListId::new(&["txs", "APU"]);
        let token = list.cursor(1_773_151_517_123, "pur:1 ä");
        let position = list.read(&token).expect("ours");
        assert_eq!(
            (position.score, position.member.as_deref()),
            (1_773_151_517_123, Some("pur:1 ä"))
        );
        assert!(ListId::new(&["txs", "USD"]).read(&token).is_err());
        assert!(ListId::new(&["txsA", "PU"]).read(&token).is_err());
        for wrong in [
            "",
            "x",
            "a.b.c",
            &token[1..],
            &format!("{token}.x"),
            &format!("{token}0"),
        ] {
            assert!(list.read(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn no_token_breaks_the_reader(token in "[0-9a-fA-F.äx-]{0,60}") {
            let _ = ListId::new(&["txs"]).read(&token);
        }
    }
}
