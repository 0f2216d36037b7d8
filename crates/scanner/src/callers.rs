//! What a caller may need beside its call: an answer kept for a retry, and telling a browser's session.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::ScannerError;
use crate::event::read_from_browser;
use crate::faults::{Fault, Faults};
use crate::read::page::hex;
use crate::request::Command;
use crate::scanner::Scanner;

/// How long the answer of a request with an idempotency key is kept, seconds.
const KEPT_SECONDS: u64 = 86_400;

/// What is known about an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    New,
    /// The same request was answered: this is the answer.
    Answered(String),
    /// Another request was made with this key.
    OtherRequest,
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

impl Scanner {
    /// Looks for the answer of an earlier request with this key.
    pub async fn kept_answer(&self, key: &str, request: &[u8]) -> Result<Kept, ScannerError> {
        let name = self.keys().idempotency(&digest(&[key.as_bytes()]));
        let kept: Option<String> = self.store().one("GET", name, |_| {}).await?;
        Ok(
            match kept.as_deref().and_then(|kept| kept.split_once(' ')) {
                None => Kept::New,
                Some((hash, answer)) if hash == digest(&[request]) => {
                    Kept::Answered(answer.to_owned())
                }
                Some(_) => Kept::OtherRequest,
            },
        )
    }

    /// Keeps the answer of a request that succeeded.
    pub async fn keep_answer(
        &self,
        key: &str,
        request: &[u8],
        answer: &str,
    ) -> Result<(), ScannerError> {
        let name = self.keys().idempotency(&digest(&[key.as_bytes()]));
        self.store()
            .one::<redis::Value>("SET", name, |set| {
                set.arg(format!("{} {answer}", digest(&[request])));
                set.arg("NX").arg("EX").arg(KEPT_SECONDS);
            })
            .await
            .map(drop)
    }

    /// Whether a browser's session is the application's current one. The session id is a credential: it is compared in
    /// a time that does not depend on where it differs, and never kept.
    pub async fn is_session(&self, sid: &str) -> Result<bool, ScannerError> {
        let current: Option<String> = self
            .store()
            .one("HGET", self.keys().app_session(), |get| {
                get.arg("sid");
            })
            .await?;
        // Digests of the same length, whose difference tells nothing about the texts.
        Ok(current
            .is_some_and(|current| digest(&[current.as_bytes()]) == digest(&[sid.as_bytes()])))
    }

    /// Reads what a browser tells.
    pub fn read_browser_event(&self, json: &str, sid: Option<&str>) -> Result<Command, Vec<Fault>> {
        let host = self.options().host.as_str();
        let who = digest(&[
            b"cairn anonymous",
            host.as_bytes(),
            sid.unwrap_or("").as_bytes(),
        ]);
        let mut faults = Faults::default();
        let event = read_from_browser(
            json,
            sid,
            self.clock().now(),
            &Uuid::now_v7().to_string(),
            &format!("anon:{}", &who[..16]),
            &mut faults,
        );
        match event {
            Some(event) if faults.is_empty() => Ok(Command::Event { event }),
            _ => Err(faults.into_vec()),
        }
    }

    /// Removes a node's events, their bodies and its traits; aggregate counts stay, and so does the ledger.
    pub async fn erase_analytics(&self, node_id: &str) -> Result<u64, ScannerError> {
        const AT_ONCE: usize = 200;
        let keys = self.keys();
        let mut erased = 0;
        loop {
            let ids: Vec<String> = self
                .store()
                .one("ZRANGE", keys.by_user(node_id), |range| {
                    range.arg(0).arg(AT_ONCE - 1);
                })
                .await?;
            if ids.is_empty() {
                break;
            }
            // The list of the name keeps its entry, as a count: it says neither who nor what.
            let mut batch = crate::store::Batch::new();
            for id in &ids {
                batch.add("DEL", keys.event_body(id), |_| {});
            }
            batch.barrier();
            let slot = batch.add("ZREM", keys.by_user(node_id), |remove| {
                remove.arg(&ids);
            });
            self.store().send(batch).await?.take::<redis::Value>(slot)?;
            erased += ids.len() as u64;
        }
        for key in [keys.traits(node_id), keys.agg_user(node_id)] {
            self.store().one::<redis::Value>("DEL", key, |_| {}).await?;
        }
        Ok(erased)
    }
}
