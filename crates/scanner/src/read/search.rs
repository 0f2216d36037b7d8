//! One field for everything: point reads and bounded ranges, so that an unknown text costs what a known one does.

use crate::block::Height;
use crate::ids::{check_id, check_tx_id};
use crate::scanner::Scanner;
use crate::store::{Batch, Slot};

use super::QueryError;

/// Results at most.
const RESULTS_MAX: usize = 10;
/// From so many characters on, beginnings match too.
const PREFIX_CHARS_MIN: usize = 4;
/// Longest text, bytes.
const TEXT_MAX: usize = 200;

/// What something found is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundKind {
    /// A transaction.
    Tx,
    /// A revision.
    Block,
    /// An account.
    Node,
    /// An event.
    Analytics,
    /// A space.
    Space,
    /// A game.
    Game,
    /// Nothing.
    None,
}

impl FoundKind {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Block => "block",
            Self::Node => "node",
            Self::Analytics => "analytics",
            Self::Space => "space",
            Self::Game => "game",
            Self::None => "none",
        }
    }
}

/// What a search found, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The text, trimmed.
    pub text: String,
    /// Kinds and ids.
    pub results: Vec<(FoundKind, String)>,
}

impl Scanner {
    /// Searches.
    pub async fn search(&self, text: &str) -> Result<Found, QueryError> {
        let text = text.trim();
        if text.len() > TEXT_MAX {
            return Err(QueryError::invalid(
                "invalid_query",
                "q is longer than 200 bytes",
            ));
        }
        let mut found = Found {
            text: text.to_owned(),
            results: Vec::new(),
        };
        let Ok(id) = check_id(text) else {
            return Ok(found);
        };
        let epoch = self.current_epoch().await?;
        let keys = self.keys();
        let mut batch = Batch::new();
        let exists = |batch: &mut Batch, key: String| batch.add("EXISTS", key, |_| {});
        let member = |batch: &mut Batch, key: String| {
            batch.add("ZSCORE", key, |command| {
                command.arg(id);
            })
        };
        let tx = check_tx_id(id)
            .ok()
            .map(|id| exists(&mut batch, keys.tx(id)));
        let rev = crate::money::parse_integer(id)
            .filter(|_| id.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|rev| Height::new(epoch, rev));
        let block = rev.map(|at| {
            batch.add("ZCOUNT", keys.blocks(), |command| {
                command.arg(at.score()).arg(at.score());
            })
        });
        let root = id.to_ascii_lowercase();
        let root = batch.add("ZRANGEBYLEX", keys.block_roots(), |command| {
            command
                .arg(format!("[{root}:"))
                .arg(format!("({root};"))
                .arg("LIMIT")
                .arg(0)
                .arg(1);
        });
        let node = member(&mut batch, keys.nodes());
        let event = exists(&mut batch, keys.event_body(id));
        let space = member(&mut batch, keys.spaces());
        let game = member(&mut batch, keys.games());
        let prefixes: Vec<(FoundKind, Slot)> = if id.chars().count() >= PREFIX_CHARS_MIN {
            [
                (FoundKind::Node, keys.nodes()),
                (FoundKind::Space, keys.spaces()),
                (FoundKind::Game, keys.games()),
            ]
            .into_iter()
            .map(|(kind, key)| (kind, add_prefix(&mut batch, key, id)))
            .collect()
        } else {
            Vec::new()
        };
        let mut answers = self.store().send(batch).await?;
        let mut add = |kind: FoundKind, id: String| {
            let entry = (kind, id);
            if found.results.len() < RESULTS_MAX && !found.results.contains(&entry) {
                found.results.push(entry);
            }
        };
        if let Some(slot) = tx
            && answers.take::<bool>(slot)?
        {
            add(FoundKind::Tx, id.to_owned());
        }
        if let (Some(slot), Some(at)) = (block, rev)
            && answers.take::<u64>(slot)? > 0
        {
            add(FoundKind::Block, at.rev.to_string());
        }
        if let Some(at) = answers
            .take::<Vec<String>>(root)?
            .first()
            .and_then(|m| place_of(m))
        {
            add(FoundKind::Block, at.rev.to_string());
        }
        for (kind, slot) in [
            (FoundKind::Node, node),
            (FoundKind::Analytics, event),
            (FoundKind::Space, space),
            (FoundKind::Game, game),
        ] {
            let is_there = match kind {
                FoundKind::Analytics => answers.take::<bool>(slot)?,
                _ => answers.take::<Option<String>>(slot)?.is_some(),
            };
            if is_there {
                add(kind, id.to_owned());
            }
        }
        for (kind, slot) in prefixes {
            for id in answers.take::<Vec<String>>(slot)? {
                add(kind, id);
            }
        }
        Ok(found)
    }
}

fn add_prefix(batch: &mut Batch, key: String, prefix: &str) -> Slot {
    batch.add("ZRANGEBYLEX", key, |command| {
        let mut end = b"(".to_vec();
        end.extend_from_slice(prefix.as_bytes());
        // No id holds this byte, so it sorts after everything that begins with the text.
        end.push(0xff);
        command
            .arg(format!("[{prefix}"))
            .arg(end)
            .arg("LIMIT")
            .arg(0)
            .arg(RESULTS_MAX);
    })
}

/// The place in an entry of the index of roots.
fn place_of(member: &str) -> Option<Height> {
    let (_, score) = member.split_once(':')?;
    Height::from_score(score.parse().ok()?)
}
