//! What has just happened: the shared event stream of the ledger, read in the order of arrival.

use std::time::Duration;

use cairn_redis::Dedicated;
use redis::streams::StreamReadReply;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::ScannerError;
use crate::read::events::StreamId;
use crate::scanner::Scanner;
use crate::tx::Tx;

/// How long one reading waits for something new.
const BLOCK: Duration = Duration::from_secs(1);
/// Entries of one reading.
const COUNT: usize = 500;

/// An entry of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEntry {
    /// Its place.
    pub id: StreamId,
    /// [`crate::TX_EVENT`] or [`crate::BLOCK_EVENT`], or a kind that a later program made.
    pub kind: String,
    /// The row, in its public form.
    pub json: String,
}

/// The end of the stream, followed.
#[derive(Debug)]
pub struct FeedTail {
    connection: Dedicated,
    key: String,
    last: StreamId,
    scanner: Scanner,
}

impl FeedTail {
    /// Begins at the newest entry there is.
    pub async fn open(scanner: &Scanner) -> Result<Self, ScannerError> {
        let newest: Vec<(String, Vec<String>)> = scanner
            .store()
            .one("XREVRANGE", scanner.stream_key().to_owned(), |command| {
                command.arg("+").arg("-").arg("COUNT").arg(1);
            })
            .await?;
        let last = newest.first().and_then(|(id, _)| StreamId::parse(id));
        Ok(Self {
            connection: scanner.redis().dedicated(BLOCK).await?,
            key: scanner.stream_key().to_owned(),
            last: last.unwrap_or_default(),
            scanner: scanner.clone(),
        })
    }

    /// What is new; empty after a second without anything.
    pub async fn next(&mut self) -> Result<Vec<FeedEntry>, ScannerError> {
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT")
            .arg(COUNT)
            .arg("BLOCK")
            .arg(u64::try_from(BLOCK.as_millis()).unwrap_or(1000))
            .arg("STREAMS")
            .arg(&self.key)
            .arg(self.last.to_string());
        let reply: Option<StreamReadReply> = read
            .query_async(&mut self.connection)
            .await
            .map_err(|error| self.connection.explain(&self.key, &error))?;
        let mut entries = Vec::new();
        for entry in reply
            .into_iter()
            .flat_map(|reply| reply.keys)
            .flat_map(|key| key.ids)
        {
            let Some(id) = StreamId::parse(&entry.id) else {
                continue;
            };
            self.last = id;
            let data: Option<String> = entry.get("data");
            entries.extend(data.and_then(|data| self.scanner.feed_entry(id, &data)));
        }
        Ok(entries)
    }
}

impl Scanner {
    /// The public form of a stored row.
    fn public_row(&self, json: &str) -> Option<String> {
        if self.options().public_detail {
            return Some(json.to_owned());
        }
        let tx = Tx::from_json(json, self.keys().host()).ok()?;
        Some(tx.to_json(false))
    }

    fn feed_entry(&self, id: StreamId, data: &str) -> Option<FeedEntry> {
        #[derive(Deserialize)]
        struct Data<'a> {
            kind: String,
            #[serde(borrow)]
            data: &'a RawValue,
        }
        let Data { kind, data } = serde_json::from_str(data).ok()?;
        let json = if kind == crate::feed::TX_EVENT {
            self.public_row(data.get())?
        } else {
            data.get().to_owned()
        };
        Some(FeedEntry { id, kind, json })
    }

    /// Entries after a place, oldest first; and whether some between are no longer held.
    pub async fn feed_after(
        &self,
        after: StreamId,
        count: usize,
    ) -> Result<(Vec<FeedEntry>, bool), ScannerError> {
        let key = self.stream_key().to_owned();
        let mut batch = crate::store::Batch::new();
        let found = batch.add("XRANGE", key.clone(), |command| {
            command
                .arg(format!("({after}"))
                .arg("+")
                .arg("COUNT")
                .arg(count);
        });
        let first = batch.add("XRANGE", key, |command| {
            command.arg("-").arg("+").arg("COUNT").arg(1);
        });
        let mut answers = self.store().send(batch).await?;
        let found: Vec<(String, Vec<String>)> = answers.take(found)?;
        let first: Vec<(String, Vec<String>)> = answers.take(first)?;
        let first = first.first().and_then(|(id, _)| StreamId::parse(id));
        let gap = first.is_some_and(|first| after < first);
        let entries = found
            .into_iter()
            .filter_map(|(id, fields)| {
                let id = StreamId::parse(&id)?;
                let data = fields.chunks_exact(2).find(|pair| pair[0] == "data")?;
                self.feed_entry(id, &data[1])
            })
            .collect();
        Ok((entries, gap))
    }
}
