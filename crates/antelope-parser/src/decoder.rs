//! A block and the history of ABIs in, the block's events out. No I/O.

use std::collections::HashSet;
use std::sync::Arc;

use cairn_antelope_abi::{Abi, DecodeError, Name, Profile, Reader, native_abi};
use cairn_antelope_ship::{
    ActionTrace, BlockPosition, ContractRow, Receipt, ReceivedBlock, TableDelta,
};
use cairn_stream::{BlockEvents, BlockId, BlockTime, ChainLabel, Position};

use crate::book::{Book, Contract};
use crate::compiled::{AbiCounts, CompiledAbis};
use crate::events::{
    BLOCK_EVENT_BYTES_MAX, Buffers, TransactionOf, Value, hex_text, push_action, push_native,
    push_row, set_abi_action, system_account,
};
use crate::observer::Undecoded;
use crate::rows::decode_row;
use crate::version::AbiVersion;

const CONTRACT_ROWS: &str = "contract_row";
const ACCOUNTS: &str = "account";

/// A block that cannot be read. It is not passed over: the same block is asked for again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BlockError {
    /// Bytes that do not fit the protocol.
    #[error("block {num}: its {part} cannot be read: {cause}")]
    Unreadable {
        /// The block.
        num: u32,
        /// Which part.
        part: &'static str,
        /// Why not.
        cause: DecodeError,
    },
    /// The node left out a part that was asked for.
    #[error(
        "block {num}: the node sent no {part}: its history has a hole there, use another node or replay this one"
    )]
    Missing {
        /// The block.
        num: u32,
        /// Which part.
        part: &'static str,
    },
    /// A time that no calendar has.
    #[error("block {num}: its time cannot be")]
    Time {
        /// The block.
        num: u32,
    },
}

/// What [`Decoder::decode`] came to.
pub enum Step {
    /// The ABI history of these contracts is needed first: [`Decoder::know`], then again.
    Needs(Vec<Name>),
    /// The block's events.
    Done(Box<DecodedBlock>),
}

/// A decoded block.
#[derive(Debug)]
pub struct DecodedBlock {
    /// Its events, a fork before it among them.
    pub events: BlockEvents,
    /// ABIs that came into force with it, in order.
    pub abis: Vec<Arc<AbiVersion>>,
    /// Values that could not be decoded, by contract and reason.
    pub undecoded: Vec<(Name, Undecoded)>,
    /// The last block that stays valid, when this one is the first of another branch.
    pub forked_from: Option<u32>,
    /// How many blocks were undone.
    pub undone_blocks: u32,
    /// Bytes of the message that it came in.
    pub frame_bytes: usize,
}

/// Turns blocks into events, one after the other.
pub struct Decoder {
    chain: ChainLabel,
    profile: Profile,
    irreversible_only: bool,
    book: Book,
    cache: CompiledAbis,
    buffers: Buffers,
    /// The block that carries the whole state of the chain: no ABI can be missing there.
    full_state_at: Option<u32>,
    /// A fork that may not be published yet: its common block and the head of the branch that was left. Until it is, the stored
    /// history still has versions of that branch.
    leaving: Option<(u32, u32)>,
}

impl Decoder {
    /// A decoder that knows no ABI yet.
    #[must_use]
    pub fn new(chain: &ChainLabel, profile: Profile, irreversible_only: bool) -> Self {
        Self {
            chain: chain.clone(),
            profile,
            irreversible_only,
            book: Book::default(),
            cache: CompiledAbis::new(),
            buffers: Buffers::default(),
            full_state_at: None,
            leaving: None,
        }
    }

    /// The number of the block whose rows are the whole state of the chain: the first one of a node's history.
    pub fn set_full_state(&mut self, block_num: u32) {
        self.full_state_at = Some(block_num);
    }

    /// Tells what is known of a contract's ABIs, oldest first; `today` is the ABI that the chain API gives, for a past of
    /// which nothing is known.
    pub fn know(
        &mut self,
        contract: Name,
        mut versions: Vec<AbiVersion>,
        today: Option<AbiVersion>,
    ) {
        if let Some((common, _)) = self.leaving {
            versions.retain(|version| version.block_num <= common);
        }
        let versions = versions.into_iter().map(Arc::new).collect();
        self.book
            .insert(contract, Contract::new(versions, today.map(Arc::new)));
    }

    /// Tells that nothing can be found out of a contract's ABIs for now. It is asked for again with the next block that needs it.
    pub fn know_nothing_in(&mut self, contract: Name, block_num: u32) {
        self.book.insert(contract, Contract::unknown_in(block_num));
    }

    /// How often ABIs were found compiled.
    #[must_use]
    pub fn abi_counts(&self) -> AbiCounts {
        self.cache.counts()
    }

    /// Decodes a block. `stored` is the newest block whose ABIs are certain to be stored.
    ///
    /// # Errors
    /// When the block cannot be read. Its ABIs have not come into force then, nor when others are needed first.
    pub fn decode(&mut self, block: &ReceivedBlock, stored: u32) -> Result<Step, BlockError> {
        let parts = Parts::read(block)?;
        if self.leaving.is_some_and(|(_, old_head)| stored > old_head) {
            self.leaving = None;
        }
        if let Some(fork) = &block.fork {
            let old_head = fork.undone.last().map_or(fork.common.num, |last| last.num);
            let (common, old_head) = self
                .leaving
                .map_or((fork.common.num, old_head), |(common, before)| {
                    (common.min(fork.common.num), before.max(old_head))
                });
            self.leaving = Some((common, old_head));
        }
        let needs = self.needs(&parts, block);
        if !needs.is_empty() {
            return Ok(Step::Needs(needs));
        }
        let common = block.fork.as_ref().map(|fork| fork.common.num);
        if let Some(common) = common {
            self.book.roll_back(common);
        }
        let mut work = Work {
            events: BlockEvents::new(
                &self.chain,
                position(block.this),
                block.previous.map(|previous| BlockId(previous.id)),
                parts.time,
            ),
            abis: Vec::new(),
            undecoded: Vec::new(),
        };
        let lib = if self.irreversible_only || block.last_irreversible.num > block.this.num {
            block.this
        } else {
            block.last_irreversible
        };
        work.events.set_lib(position(lib));
        if self.irreversible_only {
            work.events.set_irreversible();
        }
        let undone = block.fork.as_ref().map_or(&[][..], |fork| &fork.undone);
        if let Some(old_head) = undone.last() {
            work.events.fork(position(*old_head));
        }
        self.actions(&parts, block, &mut work);
        self.account_abis(&parts, block, &mut work);
        self.contract_rows(&parts, block.this.num, &mut work);
        self.native_rows(&parts, block, &mut work);
        let settled = self
            .leaving
            .map_or(stored, |(common, _)| common.min(stored));
        self.book.tidy(settled);
        Ok(Step::Done(Box::new(DecodedBlock {
            events: work.events,
            abis: work.abis,
            undecoded: work.undecoded,
            forked_from: common,
            undone_blocks: u32::try_from(undone.len()).unwrap_or(u32::MAX),
            frame_bytes: block.bytes_len(),
        })))
    }

    /// Contracts whose history must be known for this block and is not in memory.
    fn needs(&mut self, parts: &Parts<'_>, block: &ReceivedBlock) -> Vec<Name> {
        let is_full_state = block.previous.is_none() || self.full_state_at == Some(block.this.num);
        let mut wanted = HashSet::new();
        for entry in &parts.actions {
            // A receipt counts the contract's ABIs: with none there is nothing to look for.
            if entry.receipt.abi_sequence > 0 {
                wanted.insert(entry.action.account);
            }
            if let Some((account, _)) = set_abi(&entry.action) {
                wanted.insert(account);
            }
        }
        if !is_full_state {
            wanted.extend(parts.rows.iter().map(|(row, _)| row.code));
            wanted.extend(
                parts
                    .accounts
                    .iter()
                    .filter(|(_, abi)| !abi.is_empty())
                    .map(|(name, _)| *name),
            );
        }
        let mut needs: Vec<Name> = wanted
            .into_iter()
            .filter(|name| !self.book.has(*name, block.this.num))
            .collect();
        needs.sort_unstable();
        needs
    }

    fn actions(&mut self, parts: &Parts<'_>, block: &ReceivedBlock, work: &mut Work) {
        for entry in &parts.actions {
            let (action, receipt) = (&entry.action, &entry.receipt);
            if let Some((account, bytes)) = set_abi(action) {
                let sequence = self
                    .book
                    .get(account)
                    .and_then(Contract::newest)
                    .map_or(0, |newest| newest.abi_sequence);
                let version = AbiVersion::new(
                    account,
                    block.this.num,
                    receipt.global_sequence,
                    bytes.into(),
                )
                .in_block(block.this.id, sequence.saturating_add(1));
                self.add(version, work);
            }
            let value = self.action_value(action, receipt, block.this.num, work);
            work.note(action.account, &value);
            let transaction = TransactionOf {
                id_hex: &parts.transactions[entry.transaction].id_hex,
                status: parts.transactions[entry.transaction].status,
            };
            push_action(
                &mut work.events,
                action,
                receipt,
                transaction,
                &value,
                &mut self.buffers,
            );
        }
    }

    fn action_value(
        &mut self,
        action: &ActionTrace<'_>,
        receipt: &Receipt<'_>,
        block_num: u32,
        work: &Work,
    ) -> Value {
        self.buffers.returned.clear();
        if work.is_full() {
            return Value::raw(
                Undecoded::TooLarge,
                "the events of this block are larger than the bound",
            );
        }
        let is_system = action.account == system_account();
        let version = self
            .book
            .get(action.account)
            .and_then(|contract| contract.for_action(block_num, receipt.global_sequence));
        let found: Result<&Abi, (Undecoded, &str)> = match version {
            None => Err((Undecoded::NoAbi, "the contract has no ABI")),
            Some(version) => version.abi(&self.cache).map_err(|why| {
                let reason = if version.bytes.is_empty() {
                    Undecoded::NoAbi
                } else {
                    Undecoded::BadAbi
                };
                (reason, why)
            }),
        };
        let returned = found
            .ok()
            .and_then(|abi| Some((abi, abi.result_type(action.name)?)));
        self.buffers
            .decode_returned(returned, action.return_value, self.profile);
        let typed = found.and_then(|abi| {
            abi.action_type(action.name).map(|ty| (abi, ty)).ok_or((
                Undecoded::NotInAbi,
                "the contract's ABI does not have this action",
            ))
        });
        // The system account's own actions have a meaning without its ABI, and `onblock` is left out of many.
        let native = || {
            is_system
                .then(|| Some((native_abi(), native_abi().action_type(action.name)?)))
                .flatten()
        };
        match typed.or_else(|why| native().ok_or(why)) {
            Ok((abi, ty)) => self.buffers.decode(abi, ty, action.data, self.profile),
            Err((why, text)) => Value::raw(why, text),
        }
    }

    /// ABIs that the state tells and no action told: those of the first block of a history.
    fn account_abis(&mut self, parts: &Parts<'_>, block: &ReceivedBlock, work: &mut Work) {
        for (name, bytes) in &parts.accounts {
            if bytes.is_empty() {
                // A new account, or an ABI taken away by an action that was seen.
                continue;
            }
            let known = self.book.get(*name).and_then(Contract::newest);
            if known.is_some_and(|newest| *newest.bytes == **bytes) {
                continue;
            }
            let sequence = known.map_or(0, |newest| newest.abi_sequence);
            let version = AbiVersion::new(*name, block.this.num, 0, (*bytes).into())
                .in_block(block.this.id, sequence);
            self.add(version, work);
        }
    }

    fn add(&mut self, version: AbiVersion, work: &mut Work) {
        let version = Arc::new(version);
        self.book.add(Arc::clone(&version));
        work.abis.push(version);
    }

    fn contract_rows(&mut self, parts: &Parts<'_>, block_num: u32, work: &mut Work) {
        for (row, is_present) in &parts.rows {
            let value = if work.is_full() {
                Value::raw(
                    Undecoded::TooLarge,
                    "the events of this block are larger than the bound",
                )
            } else {
                let contract = self.book.get(row.code);
                decode_row(
                    contract,
                    row,
                    block_num,
                    self.profile,
                    &self.cache,
                    &mut self.buffers,
                )
            };
            work.note(row.code, &value);
            push_row(
                &mut work.events,
                row,
                *is_present,
                &value,
                &mut self.buffers,
            );
        }
    }

    fn native_rows(&mut self, parts: &Parts<'_>, block: &ReceivedBlock, work: &mut Work) {
        let protocol = block.protocol();
        for table in parts
            .tables
            .iter()
            .filter(|table| table.name != CONTRACT_ROWS)
        {
            let mut rows: Vec<_> = table
                .rows
                .iter()
                .map(|row| {
                    // A row without a readable key still has bytes to tell it apart.
                    let key = protocol.native_key(table.name, row.data);
                    (
                        key.unwrap_or_else(|_| hex_text(&row.data[..row.data.len().min(32)])),
                        row,
                    )
                })
                .collect();
            rows.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (key, row) in rows {
                self.buffers.data.clear();
                let value = if work.is_full() {
                    Value::raw(
                        Undecoded::TooLarge,
                        "the events of this block are larger than the bound",
                    )
                } else {
                    match protocol.native_json(
                        table.name,
                        row.data,
                        self.profile,
                        &mut self.buffers.data,
                    ) {
                        Ok(decoded) => Value::Decoded {
                            trailing: decoded.trailing,
                        },
                        Err(error) => Value::raw(Undecoded::DoesNotFit, error.to_string()),
                    }
                };
                work.note(system_account(), &value);
                push_native(
                    &mut work.events,
                    table.name,
                    &key,
                    row.present,
                    row.data,
                    &value,
                    &mut self.buffers,
                );
            }
        }
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// What is being made of a block.
struct Work {
    events: BlockEvents,
    abis: Vec<Arc<AbiVersion>>,
    undecoded: Vec<(Name, Undecoded)>,
}

impl Work {
    fn is_full(&self) -> bool {
        self.events.bytes() > BLOCK_EVENT_BYTES_MAX
    }

    fn note(&mut self, contract: Name, value: &Value) {
        if let Value::Raw { why, .. } = value {
            self.undecoded.push((contract, *why));
        }
    }
}

struct Transaction {
    id_hex: String,
    status: u8,
}

struct Executed<'a> {
    action: ActionTrace<'a>,
    receipt: Receipt<'a>,
    /// Index among the block's transactions.
    transaction: usize,
}

/// Everything of a block that is read before anything is made of it.
struct Parts<'a> {
    time: BlockTime,
    transactions: Vec<Transaction>,
    /// Actions that happened, in the order in which they ran.
    actions: Vec<Executed<'a>>,
    tables: Vec<TableDelta<'a>>,
    /// Rows of contracts, by code, scope, table and primary key.
    rows: Vec<(ContractRow<'a>, bool)>,
    /// Accounts that are there after the block, with their ABIs.
    accounts: Vec<(Name, &'a [u8])>,
}

impl<'a> Parts<'a> {
    fn read(block: &'a ReceivedBlock) -> Result<Self, BlockError> {
        let num = block.this.num;
        let unreadable =
            |part: &'static str| move |cause| BlockError::Unreadable { num, part, cause };
        let protocol = block.protocol();
        let result = block.result().map_err(unreadable("message"))?;
        let bytes = result
            .block
            .ok_or(BlockError::Missing { num, part: "block" })?;
        let header = protocol.read_header(bytes).map_err(unreadable("header"))?;
        let time = BlockTime::from_unix_ms(header.timestamp.unix_millis())
            .ok_or(BlockError::Time { num })?;

        let mut transactions = Vec::new();
        let mut actions = Vec::new();
        // Block 1 has no traces.
        let traces = match result.traces {
            Some(bytes) => protocol.read_traces(bytes).map_err(unreadable("traces"))?,
            None if num > 1 => {
                return Err(BlockError::Missing {
                    num,
                    part: "traces",
                });
            }
            None => Vec::new(),
        };
        for trace in traces {
            let transaction = transactions.len();
            transactions.push(Transaction {
                id_hex: hex_text(&trace.id),
                status: trace.status,
            });
            actions.extend(trace.actions.into_iter().filter_map(|action| {
                // An action without a receipt did not happen.
                let receipt = action.receipt?;
                Some(Executed {
                    action,
                    receipt,
                    transaction,
                })
            }));
        }
        actions.sort_by_key(|executed| executed.receipt.global_sequence);

        let deltas = result.deltas.ok_or(BlockError::Missing {
            num,
            part: "state changes",
        })?;
        let tables = protocol
            .read_deltas(deltas)
            .map_err(unreadable("state changes"))?;
        let (mut rows, mut accounts) = (Vec::new(), Vec::new());
        for table in &tables {
            for row in &table.rows {
                match table.name {
                    CONTRACT_ROWS => {
                        let read = protocol
                            .read_contract_row(row.data)
                            .map_err(unreadable("rows"))?;
                        rows.push((read, row.present));
                    }
                    ACCOUNTS if row.present => {
                        let read = protocol
                            .read_account(row.data)
                            .map_err(unreadable("accounts"))?;
                        accounts.push((read.name, read.abi));
                    }
                    _ => {}
                }
            }
        }
        rows.sort_by_key(|(row, _)| (row.code, row.scope, row.table, row.primary_key));
        Ok(Self {
            time,
            transactions,
            actions,
            tables,
            rows,
            accounts,
        })
    }
}

/// The account and the ABI, when this is the execution that sets one.
fn set_abi<'a>(action: &ActionTrace<'a>) -> Option<(Name, &'a [u8])> {
    let system = system_account();
    if action.account != system || action.receiver != system || action.name != set_abi_action() {
        return None;
    }
    let mut reader = Reader::new(action.data);
    Some((reader.name().ok()?, reader.bytes().ok()?))
}

fn position(block: BlockPosition) -> Position {
    Position {
        num: block.num,
        id: BlockId(block.id),
    }
}
