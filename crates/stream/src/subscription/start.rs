//! Where a subscription begins that has no position yet.

use cairn_redis::Redis;

use crate::checkpoint::Checkpoint;
use crate::entry::EntryId;
use crate::keys;
use crate::scan::Reader;
use crate::subscription::error::SubscriptionError;
use crate::subscription::names::EventSource;
use crate::subscription::options::StartFrom;

/// The id that a new group is made with: what it is given comes after it. `$` is the end.
pub(super) async fn resolve(
    redis: &Redis,
    source: &EventSource,
    start: StartFrom,
    allow_gap: bool,
) -> Result<String, SubscriptionError> {
    match start {
        StartFrom::LastKnown => Ok("$".to_owned()),
        StartFrom::First => Ok("0-0".to_owned()),
        StartFrom::Block(num) => Ok(before_block(redis, source, num, allow_gap)
            .await?
            .to_string()),
        StartFrom::HeadMinus(blocks) => {
            let head = Checkpoint::read(redis, source.chain()).await?.position;
            let head = head.ok_or_else(|| SubscriptionError::NoHead {
                key: keys::sync(source.chain()),
            })?;
            let num = head.num.saturating_sub(blocks);
            Ok(before_block(redis, source, num, allow_gap)
                .await?
                .to_string())
        }
    }
}

/// The id just before the first event of a block or a later one. Found by halving: logarithmic in the stream's length.
pub(super) async fn before_block(
    redis: &Redis,
    source: &EventSource,
    num: u32,
    allow_gap: bool,
) -> Result<EntryId, SubscriptionError> {
    let reader = Reader::of(redis, source.key());
    let key = reader.key().to_owned();
    let not_published = || SubscriptionError::NotPublished {
        key: key.clone(),
        wanted: num,
    };
    let state = reader.state().await?.ok_or_else(not_published)?;
    let is_trimmed = state.added > state.length;
    if let Some(first) = state.first
        && is_trimmed
        && !allow_gap
        && let Some((_, first_block)) = reader.block_at(first).await?
        && num < first_block
    {
        return Err(SubscriptionError::Trimmed {
            key,
            wanted: num,
            first_block,
        });
    }
    let found = reader
        .first_of_block(num)
        .await?
        .ok_or_else(not_published)?;
    // A fork event stands before the blocks of its branch and has the number of the first of them; nothing to step over.
    Ok(found.previous())
}
