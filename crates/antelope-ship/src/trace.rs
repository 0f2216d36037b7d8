//! Transactions and the actions that they ran.

use cairn_antelope_abi::{Checksum256, DecodeError, Name, Reader};

use crate::layout::{Layouts, Plan, ProtocolError, choose};
use crate::protocol::Protocol;

/// A transaction of a block, with the actions it ran. Borrows from the message.
#[derive(Clone, Debug)]
pub struct TransactionTrace<'a> {
    /// The transaction's id.
    pub id: Checksum256,
    /// 0 executed, 1 soft_fail, 2 hard_fail, 3 delayed, 4 expired.
    pub status: u8,
    /// Its actions in the order of their creation, which is not the order in which they ran.
    pub actions: Vec<ActionTrace<'a>>,
}

/// One execution of an action by one receiver.
#[derive(Clone, Copy, Debug)]
pub struct ActionTrace<'a> {
    /// Its place in the transaction, from 1.
    pub ordinal: u32,
    /// The action that made it; 0 for one of the transaction itself.
    pub creator_ordinal: u32,
    /// What the chain noted about the execution; `None` when it did not happen.
    pub receipt: Option<Receipt<'a>>,
    /// Whose code ran.
    pub receiver: Name,
    /// The contract that the action is of.
    pub account: Name,
    /// The action's name.
    pub name: Name,
    /// Who authorised it.
    pub authorization: Authorizations<'a>,
    /// Its packed data.
    pub data: &'a [u8],
    /// Whether it is context-free.
    pub context_free: bool,
    /// What it printed: any bytes.
    pub console: &'a [u8],
    /// What it returned, packed; empty when nothing, or when the node does not record it.
    pub return_value: &'a [u8],
}

/// What the chain notes about an execution.
#[derive(Clone, Copy, Debug)]
pub struct Receipt<'a> {
    /// Whose code ran.
    pub receiver: Name,
    /// Digest of the action.
    pub act_digest: &'a [u8],
    /// Its place in the order of all actions of the chain.
    pub global_sequence: u64,
    /// Its place among the receiver's actions.
    pub recv_sequence: u64,
    /// How often the contract's code had been set.
    pub code_sequence: u32,
    /// How often the contract's ABI had been set.
    pub abi_sequence: u32,
}

/// A list of permissions, read when it is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Authorizations<'a> {
    bytes: &'a [u8],
}

/// An account and one of its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermissionLevel {
    /// The account.
    pub actor: Name,
    /// The permission.
    pub permission: Name,
}

const PERMISSION_LEVEL_BYTES: usize = 16;

impl Authorizations<'_> {
    /// The permissions in their order.
    pub fn iter(&self) -> impl Iterator<Item = PermissionLevel> {
        let name = |bytes: &[u8]| {
            Name(
                bytes
                    .iter()
                    .rev()
                    .fold(0, |value, &byte| value << 8 | u64::from(byte)),
            )
        };
        self.bytes
            .chunks_exact(PERMISSION_LEVEL_BYTES)
            .map(move |pair| PermissionLevel {
                actor: name(&pair[..8]),
                permission: name(&pair[8..]),
            })
    }
}

pub(crate) struct TraceLayout {
    transactions: Vec<Plan<TransactionField>>,
    actions: Vec<Plan<ActionField>>,
    action: Plan<ActField>,
    receipts: Vec<Plan<ReceiptField>>,
}

#[derive(Clone, Copy)]
enum TransactionField {
    Id,
    Status,
    Actions,
}

#[derive(Clone, Copy)]
enum ActionField {
    Ordinal,
    CreatorOrdinal,
    Receipt,
    Receiver,
    Act,
    ContextFree,
    Console,
    ReturnValue,
}

#[derive(Clone, Copy)]
enum ActField {
    Account,
    Name,
    Authorization,
    Data,
}

#[derive(Clone, Copy)]
enum ReceiptField {
    Receiver,
    Digest,
    GlobalSequence,
    RecvSequence,
    CodeSequence,
    AbiSequence,
}

/// Fewest bytes of a transaction trace and of an action trace: a lying count is refused before memory is reserved for it.
const TRACE_BYTES_MIN: usize = 32;
const ACTION_BYTES_MIN: usize = 24;

impl TraceLayout {
    pub(crate) fn new(layouts: &Layouts<'_>) -> Result<Self, ProtocolError> {
        layouts.exactly(
            "permission_level",
            &[("actor", "name"), ("permission", "name")],
        )?;
        let id_type = [
            ("id", "checksum256", TransactionField::Id),
            ("id", "transaction_id", TransactionField::Id),
        ];
        Ok(Self {
            transactions: layouts.plans(
                "transaction_trace",
                &[
                    id_type[0],
                    id_type[1],
                    ("status", "uint8", TransactionField::Status),
                    ("action_traces", "action_trace[]", TransactionField::Actions),
                ],
                &[],
            )?,
            actions: layouts.plans(
                "action_trace",
                &[
                    ("action_ordinal", "varuint32", ActionField::Ordinal),
                    (
                        "creator_action_ordinal",
                        "varuint32",
                        ActionField::CreatorOrdinal,
                    ),
                    ("receipt", "action_receipt?", ActionField::Receipt),
                    ("receiver", "name", ActionField::Receiver),
                    ("act", "action", ActionField::Act),
                    ("context_free", "bool", ActionField::ContextFree),
                    ("console", "string", ActionField::Console),
                    ("return_value", "bytes", ActionField::ReturnValue),
                ],
                &["return_value"],
            )?,
            action: layouts.plan(
                "action",
                &[
                    ("account", "name", ActField::Account),
                    ("name", "name", ActField::Name),
                    (
                        "authorization",
                        "permission_level[]",
                        ActField::Authorization,
                    ),
                    ("data", "bytes", ActField::Data),
                ],
                &[],
            )?,
            receipts: layouts.plans(
                "action_receipt",
                &[
                    ("receiver", "name", ReceiptField::Receiver),
                    ("act_digest", "checksum256", ReceiptField::Digest),
                    ("global_sequence", "uint64", ReceiptField::GlobalSequence),
                    ("recv_sequence", "uint64", ReceiptField::RecvSequence),
                    ("code_sequence", "varuint32", ReceiptField::CodeSequence),
                    ("abi_sequence", "varuint32", ReceiptField::AbiSequence),
                ],
                &[],
            )?,
        })
    }
}

impl Protocol {
    /// Reads the traces of a block, in the order in which the transactions ran.
    ///
    /// # Errors
    /// When the bytes do not fit the protocol.
    pub fn read_traces<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Result<Vec<TransactionTrace<'a>>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let count = reader.count(TRACE_BYTES_MIN)?;
        (0..count).map(|_| self.transaction(&mut reader)).collect()
    }

    fn transaction<'a>(
        &self,
        reader: &mut Reader<'a>,
    ) -> Result<TransactionTrace<'a>, DecodeError> {
        let plan = choose(&self.traces.transactions, reader)?;
        let mut trace = TransactionTrace {
            id: [0; 32],
            status: 0,
            actions: Vec::new(),
        };
        plan.read(&self.abi, reader, |field, r| {
            match field {
                TransactionField::Id => trace.id = r.checksum256()?,
                TransactionField::Status => trace.status = r.u8()?,
                TransactionField::Actions => {
                    let count = r.count(ACTION_BYTES_MIN)?;
                    trace.actions = (0..count)
                        .map(|_| self.action(r))
                        .collect::<Result<_, _>>()?;
                }
            }
            Ok(())
        })?;
        Ok(trace)
    }

    fn action<'a>(&self, reader: &mut Reader<'a>) -> Result<ActionTrace<'a>, DecodeError> {
        let plan = choose(&self.traces.actions, reader)?;
        let mut action = ActionTrace {
            ordinal: 0,
            creator_ordinal: 0,
            receipt: None,
            receiver: Name(0),
            account: Name(0),
            name: Name(0),
            authorization: Authorizations::default(),
            data: &[],
            context_free: false,
            console: &[],
            return_value: &[],
        };
        plan.read(&self.abi, reader, |field, r| {
            match field {
                ActionField::Ordinal => action.ordinal = r.varuint32()?,
                ActionField::CreatorOrdinal => action.creator_ordinal = r.varuint32()?,
                ActionField::Receipt => {
                    if r.bool()? {
                        action.receipt = Some(self.receipt(r)?);
                    }
                }
                ActionField::Receiver => action.receiver = r.name()?,
                ActionField::Act => self.act(&mut action, r)?,
                ActionField::ContextFree => action.context_free = r.bool()?,
                ActionField::Console => action.console = r.bytes()?,
                ActionField::ReturnValue => action.return_value = r.bytes()?,
            }
            Ok(())
        })?;
        Ok(action)
    }

    fn act<'a>(
        &self,
        action: &mut ActionTrace<'a>,
        reader: &mut Reader<'a>,
    ) -> Result<(), DecodeError> {
        self.traces.action.read(&self.abi, reader, |field, r| {
            match field {
                ActField::Account => action.account = r.name()?,
                ActField::Name => action.name = r.name()?,
                ActField::Authorization => {
                    let count = r.count(PERMISSION_LEVEL_BYTES)?;
                    action.authorization = Authorizations {
                        bytes: r.take(count * PERMISSION_LEVEL_BYTES)?,
                    };
                }
                ActField::Data => action.data = r.bytes()?,
            }
            Ok(())
        })
    }

    fn receipt<'a>(&self, reader: &mut Reader<'a>) -> Result<Receipt<'a>, DecodeError> {
        let plan = choose(&self.traces.receipts, reader)?;
        let mut receipt = Receipt {
            receiver: Name(0),
            act_digest: &[],
            global_sequence: 0,
            recv_sequence: 0,
            code_sequence: 0,
            abi_sequence: 0,
        };
        plan.read(&self.abi, reader, |field, r| {
            match field {
                ReceiptField::Receiver => receipt.receiver = r.name()?,
                ReceiptField::Digest => receipt.act_digest = r.take(32)?,
                ReceiptField::GlobalSequence => receipt.global_sequence = r.u64()?,
                ReceiptField::RecvSequence => receipt.recv_sequence = r.u64()?,
                ReceiptField::CodeSequence => receipt.code_sequence = r.varuint32()?,
                ReceiptField::AbiSequence => receipt.abi_sequence = r.varuint32()?,
            }
            Ok(())
        })?;
        Ok(receipt)
    }
}
