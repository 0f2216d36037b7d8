//! Long random lives of a chain against a model that is a plain list of event ids.

use cairn_redis::Redis;
use cairn_stream::{BlockEvents, ChainLabel, EventHead, Position, Publisher, StreamError, keys};
use cairn_testkit::RedisServer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::chain::{block, fork_block, ids, position};
use crate::{connect, event_ids, label, open};

#[derive(Debug, Clone)]
enum Step {
    /// Blocks with these numbers of events, in one call.
    Blocks(Vec<u64>),
    /// Back by this many blocks, then a first block of another branch with this many events.
    Fork(u32, u64),
    /// The writer stops and another starts.
    Reopen,
    /// The checkpoint is deleted while no writer is there.
    LoseCheckpoint,
    /// The checkpoint is that of some steps before.
    OldCheckpoint,
    /// A newer writer opens, and this one tries to go on.
    Overtaken,
    /// An event of a block that has passed is sent into the stream again.
    Again(prop::sample::Index),
    /// The last irreversible block is this far behind the newest.
    Irreversible(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::collection::vec(0_u64..4, 1..5).prop_map(Step::Blocks),
        3 => (1_u32..5, 0_u64..3).prop_map(|(back, count)| Step::Fork(back, count)),
        2 => Just(Step::Reopen),
        1 => Just(Step::LoseCheckpoint),
        1 => Just(Step::OldCheckpoint),
        1 => Just(Step::Overtaken),
        2 => any::<prop::sample::Index>().prop_map(Step::Again),
        2 => (0_u32..6).prop_map(Step::Irreversible),
    ];
    prop::collection::vec(step, 1..25)
}

/// The chain as it is, and the ids that the stream must hold.
struct Life<'a> {
    server: &'a RedisServer,
    redis: Redis,
    chain: ChainLabel,
    publisher: Publisher,
    /// The chain's blocks with their numbers of events.
    blocks: Vec<(Position, u64)>,
    branch: u8,
    lib: u32,
    expected: Vec<String>,
    saved: Vec<String>,
}

impl Life<'_> {
    fn tip(&self) -> Option<Position> {
        self.blocks.last().map(|(position, _)| *position)
    }

    fn make(&mut self, count: u64) -> BlockEvents {
        let previous = self.tip();
        let this = position(previous.map_or(1, |previous| previous.num + 1), self.branch);
        self.blocks.push((this, count));
        self.expected
            .extend(ids(&self.chain, this.num, self.branch, count));
        let mut made = block(&self.chain, this, previous, count);
        self.tell_lib(&mut made);
        made
    }

    fn tell_lib(&self, made: &mut BlockEvents) {
        let lib = self
            .blocks
            .iter()
            .find(|(position, _)| position.num == self.lib);
        if let Some((lib, _)) = lib {
            made.set_lib(*lib);
        }
    }

    async fn take(&mut self, step: &Step) -> Result<(), StreamError> {
        match step {
            Step::Blocks(counts) => {
                let made: Vec<BlockEvents> = counts.iter().map(|count| self.make(*count)).collect();
                self.publisher.publish(&made).await?;
            }
            Step::Fork(back, count) => {
                let Some(tip) = self.tip() else { return Ok(()) };
                let keep = tip.num.saturating_sub(*back);
                if keep == 0 || keep < self.lib || self.branch == u8::MAX {
                    return Ok(());
                }
                self.blocks.retain(|(position, _)| position.num <= keep);
                self.branch += 1;
                let (this, previous) = (position(keep + 1, self.branch), self.tip());
                self.blocks.push((this, *count));
                self.expected
                    .push(format!("{}:f:{keep}:{}", self.chain, this.id.short()));
                self.expected
                    .extend(ids(&self.chain, this.num, self.branch, *count));
                let mut made = fork_block(&self.chain, this, previous, tip, *count);
                self.tell_lib(&mut made);
                self.publisher.publish(&[made]).await?;
            }
            Step::Reopen => self.reopen().await,
            Step::LoseCheckpoint => {
                self.save();
                self.server
                    .run::<()>(&format!("DEL {}", keys::sync(&self.chain)));
                self.reopen().await;
            }
            Step::OldCheckpoint => {
                let old = std::mem::take(&mut self.saved);
                self.save();
                let key = keys::sync(&self.chain);
                self.server.run::<()>(&format!("DEL {key}"));
                for pair in old.chunks(2) {
                    self.server
                        .run::<()>(&format!("HSET {key} {} {}", pair[0], pair[1]));
                }
                self.reopen().await;
            }
            Step::Overtaken => {
                let (newer, _) = open(&self.redis, &self.chain).await;
                let mut old = std::mem::replace(&mut self.publisher, newer);
                let made = self.make(1);
                let error = old.publish(std::slice::from_ref(&made)).await;
                assert!(
                    matches!(error, Err(StreamError::Fenced { .. })),
                    "{error:?}"
                );
                self.publisher.publish(&[made]).await?;
            }
            Step::Again(index) => {
                // Without a checkpoint the entries alone tell where the chain is, and blocks without events are not among them.
                let newest = crate::entries(self.server, &self.chain)
                    .iter()
                    .filter_map(|(_, fields)| {
                        let head = EventHead::parse(fields[0].1.as_bytes()).expect("an event");
                        let named = head.block.or_else(|| {
                            let (from, id) = head.fork?;
                            Some(Position { num: from + 1, id })
                        })?;
                        let is_ours = self.blocks.iter().any(|(block, _)| *block == named);
                        is_ours.then_some(named.num)
                    })
                    .max();
                let texts: Vec<String> = crate::entries(self.server, &self.chain)
                    .into_iter()
                    .map(|(_, fields)| fields[0].1.clone())
                    .filter(|text| {
                        let head = EventHead::parse(text.as_bytes()).expect("an event");
                        // Of a branch that was left, one above that would be a block, or a fork, like any other.
                        let named = head.block.or(head.old_head);
                        named.is_some_and(|block| Some(block.num) <= newest)
                    })
                    .collect();
                if !texts.is_empty() {
                    let text = index.get(&texts);
                    redis::cmd("XADD")
                        .arg(keys::events(&self.chain))
                        .arg("*")
                        .arg("data")
                        .arg(text)
                        .query::<String>(&mut self.server.connection())
                        .expect("added");
                    self.expected.push(crate::event_id(text));
                }
            }
            Step::Irreversible(behind) => {
                if let Some(tip) = self.tip() {
                    self.lib = self.lib.max(tip.num.saturating_sub(*behind));
                }
            }
        }
        Ok(())
    }

    fn save(&mut self) {
        self.saved = self
            .server
            .run(&format!("HGETALL {}", keys::sync(&self.chain)));
    }

    /// A new writer goes on where the chain with all its events is in the stream: blocks without events at the end may be
    /// given again, nothing else.
    async fn reopen(&mut self) {
        let (publisher, resume) = open(&self.redis, &self.chain).await;
        self.publisher = publisher;
        let at = match resume.position {
            None => 0,
            Some(position) => {
                let at = self.blocks.iter().position(|(known, _)| *known == position);
                at.expect("a block of the chain") + 1
            }
        };
        for known in &resume.reversible {
            assert!(
                self.blocks.iter().any(|(block, _)| block == known),
                "{known} is no block of the chain"
            );
        }
        let missing = self.blocks.split_off(at);
        for (this, count) in missing {
            assert_eq!(count, 0, "block {this} with events is not in the stream");
            let made = block(&self.chain, this, self.tip(), 0);
            self.blocks.push((this, 0));
            self.publisher
                .publish(&[made])
                .await
                .expect("an empty block");
        }
    }
}

#[test]
fn every_life_leaves_the_stream_of_the_model() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let redis = runtime.block_on(connect(&server.url()));
    let mut runner = TestRunner::new(Config {
        cases: 60,
        failure_persistence: None,
        ..Config::default()
    });
    let count = std::cell::Cell::new(0);
    runner
        .run(&steps(), |steps| {
            count.set(count.get() + 1);
            let chain = label(&format!("life-{}", count.get()));
            runtime.block_on(async {
                let (publisher, _) = open(&redis, &chain).await;
                let mut life = Life {
                    server: &server,
                    redis: redis.clone(),
                    chain: chain.clone(),
                    publisher,
                    blocks: Vec::new(),
                    branch: 0,
                    lib: 0,
                    expected: Vec::new(),
                    saved: Vec::new(),
                };
                for step in &steps {
                    life.take(step).await.expect("every step succeeds");
                    assert_eq!(event_ids(&server, &chain), life.expected, "after {step:?}");
                }
                assert_eq!(life.publisher.position(), life.tip());
            });
            Ok(())
        })
        .expect("the model holds");
}
