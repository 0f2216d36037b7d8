//! From a message to its answer.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

use super::{Session, Spoken};
use crate::limits::Verdict;
use crate::methods::{self, Ask};
use crate::rpc::{Call, Incoming, Item, Json, RpcError, code, parse, write_error, write_result};
use crate::server::Server;
use crate::version::Version;

/// Price of what is no request.
const INVALID_COST: f64 = 1.0;
/// Bytes in and out that cost one unit.
const BYTES_PER_UNIT: f64 = 5_000.0;
/// Requests of a batch that are answered in a row before others get the thread.
const BATCH_TURN: usize = 16;

/// What comes of a message.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The answer, without a line end; empty: none is due.
    pub(super) bytes: Vec<u8>,
    /// The session ends after it, and why.
    pub(super) ends: Option<super::End>,
    /// Whether the answer says so.
    pub(super) is_told: bool,
}

/// Answers a message.
pub(super) async fn answer(
    server: Arc<Server>,
    session: Arc<Session>,
    line: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
) -> Done {
    let mut done = Done::default();
    let asker = Asker {
        server: &server,
        session: &session,
    };
    asker.charge(line.len() as f64 / BYTES_PER_UNIT, &mut done);
    match parse(&line, server.options.limits.batch) {
        Incoming::One(item) => asker.item(item, &mut done, usize::MAX).await,
        Incoming::Batch(items) => {
            let most = server.options.limits.response_bytes;
            done.bytes.push(b'[');
            for (at, item) in items.into_iter().enumerate() {
                if at % BATCH_TURN == BATCH_TURN - 1 {
                    tokio::task::yield_now().await;
                }
                let before = done.bytes.len();
                if before > 1 {
                    done.bytes.push(b',');
                }
                let after_comma = done.bytes.len();
                asker
                    .item(item, &mut done, most.saturating_sub(after_comma))
                    .await;
                if done.bytes.len() == after_comma {
                    done.bytes.truncate(before);
                }
                if done.ends.is_some() {
                    break;
                }
            }
            if done.bytes.len() > 1 {
                done.bytes.push(b']');
            } else {
                // Notifications alone have no answer.
                done.bytes.clear();
            }
        }
    }
    asker.charge(done.bytes.len() as f64 / BYTES_PER_UNIT, &mut done);
    done
}

/// What a client is told that costs too much.
pub(super) fn excessive() -> RpcError {
    RpcError::new(code::EXCESSIVE, "excessive resource usage")
}

struct Asker<'a> {
    server: &'a Arc<Server>,
    session: &'a Arc<Session>,
}

impl Asker<'_> {
    /// Adds a cost; ends the session when there is too much of it.
    fn charge(&self, cost: f64, done: &mut Done) -> Verdict {
        let verdict = self.session.seat.charge(cost, Instant::now());
        if verdict == Verdict::Over && done.ends.is_none() {
            done.ends = Some(super::End::Cost);
        }
        verdict
    }

    /// Answers one request of a message; the answer may have at most `most` bytes.
    async fn item(&self, item: Item<'_>, done: &mut Done, most: usize) {
        match item {
            Item::Silent => {}
            Item::Invalid(error) => {
                self.charge(INVALID_COST, done);
                self.server.metrics.invalid();
                write_error(&mut done.bytes, None, &error);
            }
            Item::Call(call) => {
                let id = call.id;
                let result = self.call(call, done).await;
                let most = most.min(self.server.options.limits.response_bytes);
                match result {
                    Ok(json) if json.len() > most => {
                        let error = RpcError::new(
                            code::LIMIT,
                            "the answer is larger than this server sends",
                        );
                        write_error(&mut done.bytes, Some(id), &error);
                    }
                    Ok(json) => write_result(&mut done.bytes, id, &json),
                    Err(error) => {
                        if error.closes && done.ends.is_none() {
                            done.ends = Some(super::End::Refused);
                        }
                        write_error(&mut done.bytes, Some(id), &error);
                    }
                }
            }
        }
    }

    async fn call(&self, call: Call<'_>, done: &mut Done) -> Result<Json, RpcError> {
        let version = match self.session.spoken() {
            Spoken::Nothing if call.method == "server.version" => {
                let version = methods::negotiate(call.params)?;
                self.session.agree(version);
                return Ok(self.agreed(version));
            }
            Spoken::Nothing if self.server.options.version_first => {
                return Err(RpcError::bad("use server.version to identify client").closing());
            }
            spoken => spoken.version(),
        };
        let Some((place, row)) = methods::lookup(&call.method, version) else {
            self.charge(INVALID_COST, done);
            self.server.metrics.invalid();
            return Err(RpcError::new(
                code::NO_METHOD,
                format!("unknown method {:?} in version {version}", &*call.method),
            ));
        };
        match self.charge(row.cost, done) {
            Verdict::Fine => {}
            Verdict::Wait(time) => tokio::time::sleep(time).await,
            Verdict::Over => {
                done.is_told = true;
                return Err(excessive());
            }
        }
        let ask = Ask {
            server: self.server,
            session: self.session,
            version,
            params: call.params,
        };
        let started = Instant::now();
        let answer = methods::call(&ask, row.method).await;
        self.server
            .metrics
            .request(place, answer.is_ok(), started.elapsed());
        let reply = answer?;
        self.charge(reply.cost, done);
        Ok(reply.json)
    }

    fn agreed(&self, version: Version) -> Json {
        Json::of(&(&self.server.options.software, version.to_string()))
    }
}
