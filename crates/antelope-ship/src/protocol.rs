//! One version of the messages.

use std::collections::HashMap;

use cairn_antelope_abi::{
    Abi, AbiDef, BlockTimestamp, Checksum256, DecodeError, Name, Reader, Reason, TypeId,
};

use crate::branch::BlockPosition;
use crate::delta::DeltaLayout;
use crate::layout::{Layouts, Plan, ProtocolError, choose};
use crate::tables::NativeTable;
use crate::trace::TraceLayout;

/// The messages of one node: which variants and fields it uses is known from the ABI that it sent.
pub struct Protocol {
    pub(crate) abi: Abi,
    requests: Requests,
    results: Vec<ResultPlan>,
    /// The type of a block that stands in a result as itself, not as bytes (EOSIO 2.1).
    inline_block: Option<(TypeId, bool)>,
    pub(crate) traces: TraceLayout,
    pub(crate) deltas: DeltaLayout,
    pub(crate) tables: HashMap<String, NativeTable>,
}

struct Requests {
    status: u8,
    blocks: u8,
    acknowledge: u8,
}

enum ResultPlan {
    Status(Plan<StatusField>),
    Blocks(Plan<BlockField>),
    Other,
}

#[derive(Clone, Copy)]
enum StatusField {
    Head,
    Irreversible,
    TraceBegin,
    TraceEnd,
    StateBegin,
    StateEnd,
    ChainId,
    /// May be missing at the end.
    ChainIdExtension,
}

#[derive(Clone, Copy)]
enum BlockField {
    Head,
    Irreversible,
    This,
    Previous,
    Block,
    InlineBlock,
    Traces,
    OptionalTraces,
    Deltas,
    OptionalDeltas,
}

/// Where a node is and what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The newest block.
    pub head: BlockPosition,
    /// The newest block that cannot be undone.
    pub last_irreversible: BlockPosition,
    /// The first block with traces; equal to the end when there are none.
    pub trace_begin: u32,
    /// One past the last block with traces.
    pub trace_end: u32,
    /// The first block with state changes.
    pub state_begin: u32,
    /// One past the last block with state changes.
    pub state_end: u32,
    /// The chain's id; old nodes do not tell it.
    pub chain_id: Option<Checksum256>,
}

/// What to ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlocksRequest {
    /// The first block.
    pub start: u32,
    /// One past the last block; `u32::MAX` for no end.
    pub end: u32,
    /// How many results may be under way without an acknowledgement.
    pub window: u32,
    /// Blocks that are known: the node starts earlier when it has others in their places.
    pub have: Vec<BlockPosition>,
    /// Whether to leave out blocks that may still be undone.
    pub irreversible_only: bool,
}

/// A block as a node sent it. Borrows from the message.
#[derive(Clone, Debug)]
pub struct BlockResult<'a> {
    /// The node's newest block at that moment.
    pub head: BlockPosition,
    /// The node's newest irreversible block at that moment.
    pub last_irreversible: BlockPosition,
    /// This block; `None` when the node had nothing to say.
    pub this: Option<BlockPosition>,
    /// The block before it; `None` for the first one of a chain.
    pub previous: Option<BlockPosition>,
    /// The block's bytes, from its timestamp on.
    pub block: Option<&'a [u8]>,
    /// Packed `transaction_trace[]`; `None` when the node has none for this block.
    pub traces: Option<&'a [u8]>,
    /// Packed `table_delta[]`.
    pub deltas: Option<&'a [u8]>,
}

/// What a block's header says that the rest of a result does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// The time of the block.
    pub timestamp: BlockTimestamp,
    /// Who made it.
    pub producer: Name,
    /// The id of the block before it.
    pub previous: Checksum256,
}

/// A message from the node.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// The answer to a status request.
    Status(Status),
    /// A block.
    Block(BlockResult<'a>),
    /// Something of a kind that was not asked for.
    Other,
}

const POSITION: &str = "block_position";

impl Protocol {
    /// Reads the ABI that a node sends first.
    ///
    /// # Errors
    /// When it is no ABI, or not one of a State History version that has what is needed here.
    pub fn from_abi_json(text: &str) -> Result<Self, ProtocolError> {
        let def = AbiDef::from_json(text)?;
        let abi = Abi::from_def(&def);
        let layouts = Layouts {
            def: &def,
            abi: &abi,
        };
        layouts.exactly(
            POSITION,
            &[("block_num", "uint32"), ("block_id", "checksum256")],
        )?;
        let requests = requests(&layouts)?;
        let results = layouts
            .alternatives("result")?
            .iter()
            .map(|name| result_plan(&layouts, name))
            .collect::<Result<Vec<_>, _>>()?;
        let has = |wanted: fn(&ResultPlan) -> bool, what: &str| {
            results
                .iter()
                .any(wanted)
                .then_some(())
                .ok_or_else(|| ProtocolError::Missing(format!("result for {what}")))
        };
        has(|plan| matches!(plan, ResultPlan::Status(_)), "get_status")?;
        has(|plan| matches!(plan, ResultPlan::Blocks(_)), "get_blocks")?;
        layouts.begins(
            "block_header",
            &[
                ("timestamp", "block_timestamp_type"),
                ("producer", "name"),
                ("confirmed", "uint16"),
                ("previous", "checksum256"),
            ],
        )?;
        let inline_block = ["signed_block_variant", "signed_block"]
            .iter()
            .find_map(|name| Some((abi.type_id(name)?, layouts.is_variant(name))));
        let traces = TraceLayout::new(&layouts)?;
        let deltas = DeltaLayout::new(&layouts)?;
        let tables = NativeTable::all(&layouts)?;
        Ok(Self {
            requests,
            results,
            inline_block,
            traces,
            deltas,
            tables,
            abi,
        })
    }

    /// The ABI itself.
    #[must_use]
    pub fn abi(&self) -> &Abi {
        &self.abi
    }

    /// A request for the node's status.
    #[must_use]
    pub fn status_request(&self) -> Vec<u8> {
        vec![self.requests.status]
    }

    /// A request for blocks with everything in them.
    #[must_use]
    pub fn blocks_request(&self, request: &BlocksRequest) -> Vec<u8> {
        let mut out = Vec::with_capacity(24 + request.have.len() * 36);
        out.push(self.requests.blocks);
        for number in [request.start, request.end, request.window] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let mut count = request.have.len();
        while count >= 0x80 {
            out.push((count & 0x7f) as u8 | 0x80);
            count >>= 7;
        }
        out.push(count as u8);
        for position in &request.have {
            out.extend_from_slice(&position.num.to_le_bytes());
            out.extend_from_slice(&position.id);
        }
        // Block, traces and deltas are always wanted: the block has the time, the deltas have the ABIs.
        out.extend_from_slice(&[u8::from(request.irreversible_only), 1, 1, 1]);
        out
    }

    /// Says that `count` results have been dealt with.
    #[must_use]
    pub fn acknowledgement(&self, count: u32) -> Vec<u8> {
        let mut out = vec![self.requests.acknowledge];
        out.extend_from_slice(&count.to_le_bytes());
        out
    }

    /// Reads a message from the node.
    ///
    /// # Errors
    /// When the bytes do not fit the protocol.
    pub fn read<'a>(&self, bytes: &'a [u8]) -> Result<Message<'a>, DecodeError> {
        let mut reader = Reader::new(bytes);
        match choose(&self.results, &mut reader)? {
            ResultPlan::Status(plan) => self.read_status(plan, &mut reader).map(Message::Status),
            ResultPlan::Blocks(plan) => self.read_block(plan, &mut reader).map(Message::Block),
            ResultPlan::Other => Ok(Message::Other),
        }
    }

    fn read_status(
        &self,
        plan: &Plan<StatusField>,
        reader: &mut Reader<'_>,
    ) -> Result<Status, DecodeError> {
        let mut status = Status::default();
        plan.read(&self.abi, reader, |field, r| {
            match field {
                StatusField::Head => status.head = position(r)?,
                StatusField::Irreversible => status.last_irreversible = position(r)?,
                StatusField::TraceBegin => status.trace_begin = r.u32()?,
                StatusField::TraceEnd => status.trace_end = r.u32()?,
                StatusField::StateBegin => status.state_begin = r.u32()?,
                StatusField::StateEnd => status.state_end = r.u32()?,
                StatusField::ChainIdExtension if r.is_empty() => {}
                StatusField::ChainId | StatusField::ChainIdExtension => {
                    status.chain_id = Some(r.checksum256()?)
                }
            }
            Ok(())
        })?;
        Ok(status)
    }

    fn read_block<'a>(
        &self,
        plan: &Plan<BlockField>,
        reader: &mut Reader<'a>,
    ) -> Result<BlockResult<'a>, DecodeError> {
        let mut block = BlockResult {
            head: BlockPosition::default(),
            last_irreversible: BlockPosition::default(),
            this: None,
            previous: None,
            block: None,
            traces: None,
            deltas: None,
        };
        plan.read(&self.abi, reader, |field, r| {
            match field {
                BlockField::Head => block.head = position(r)?,
                BlockField::Irreversible => block.last_irreversible = position(r)?,
                BlockField::This => block.this = optional(r, position)?,
                BlockField::Previous => block.previous = optional(r, position)?,
                BlockField::Block => block.block = optional(r, Reader::bytes)?,
                BlockField::InlineBlock => block.block = optional(r, |r| self.inline_block(r))?,
                BlockField::Traces => block.traces = Some(r.bytes()?),
                BlockField::OptionalTraces => block.traces = optional(r, Reader::bytes)?,
                BlockField::Deltas => block.deltas = Some(r.bytes()?),
                BlockField::OptionalDeltas => block.deltas = optional(r, Reader::bytes)?,
            }
            Ok(())
        })?;
        if let (Some(this), Some(previous)) = (block.this, block.previous)
            && previous.num.checked_add(1) != Some(this.num)
        {
            return Err(reader.error(Reason::Type(format!(
                "block {} says that block {} is before it",
                this.num, previous.num
            ))));
        }
        Ok(block)
    }

    fn inline_block<'a>(&self, reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
        let Some((ty, is_variant)) = self.inline_block else {
            return Err(reader.error(Reason::Type(
                "the protocol has no type for blocks".to_owned(),
            )));
        };
        let mut start = reader.position();
        if is_variant {
            let mut ahead = reader.clone();
            ahead.varuint32()?;
            start = ahead.position();
        }
        self.abi.skip(ty, reader)?;
        Ok(reader.since(start))
    }

    /// Reads the beginning of a block.
    ///
    /// # Errors
    /// When the bytes end within it.
    pub fn read_header(&self, block: &[u8]) -> Result<BlockHeader, DecodeError> {
        let mut reader = Reader::new(block);
        let timestamp = BlockTimestamp(reader.u32()?);
        let producer = reader.name()?;
        reader.u16()?;
        Ok(BlockHeader {
            timestamp,
            producer,
            previous: reader.checksum256()?,
        })
    }
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protocol")
            .field("tables", &self.tables.len())
            .finish_non_exhaustive()
    }
}

fn position(reader: &mut Reader<'_>) -> Result<BlockPosition, DecodeError> {
    Ok(BlockPosition {
        num: reader.u32()?,
        id: reader.checksum256()?,
    })
}

fn optional<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    if reader.bool()? {
        read(reader).map(Some)
    } else {
        Ok(None)
    }
}

fn requests(layouts: &Layouts<'_>) -> Result<Requests, ProtocolError> {
    layouts.exactly("get_status_request_v0", &[])?;
    layouts.exactly("get_blocks_ack_request_v0", &[("num_messages", "uint32")])?;
    layouts.exactly(
        "get_blocks_request_v0",
        &[
            ("start_block_num", "uint32"),
            ("end_block_num", "uint32"),
            ("max_messages_in_flight", "uint32"),
            ("have_positions", "block_position[]"),
            ("irreversible_only", "bool"),
            ("fetch_block", "bool"),
            ("fetch_traces", "bool"),
            ("fetch_deltas", "bool"),
        ],
    )?;
    let kinds = layouts.alternatives("request")?;
    let index = |name: &str| {
        kinds
            .iter()
            .position(|kind| kind == name)
            .and_then(|at| u8::try_from(at).ok())
            .filter(|at| *at < 0x80)
            .ok_or_else(|| ProtocolError::Missing(format!("request {name}")))
    };
    Ok(Requests {
        status: index("get_status_request_v0")?,
        blocks: index("get_blocks_request_v0")?,
        acknowledge: index("get_blocks_ack_request_v0")?,
    })
}

fn result_plan(layouts: &Layouts<'_>, name: &str) -> Result<ResultPlan, ProtocolError> {
    if name.starts_with("get_status_result") {
        let plan = layouts.plan(
            name,
            &[
                ("head", POSITION, StatusField::Head),
                ("last_irreversible", POSITION, StatusField::Irreversible),
                ("trace_begin_block", "uint32", StatusField::TraceBegin),
                ("trace_end_block", "uint32", StatusField::TraceEnd),
                ("chain_state_begin_block", "uint32", StatusField::StateBegin),
                ("chain_state_end_block", "uint32", StatusField::StateEnd),
                ("chain_id", "checksum256", StatusField::ChainId),
                ("chain_id", "checksum256$", StatusField::ChainIdExtension),
            ],
            &["chain_id"],
        )?;
        return Ok(ResultPlan::Status(plan));
    }
    if name.starts_with("get_blocks_result") {
        let plan = layouts.plan(
            name,
            &[
                ("head", POSITION, BlockField::Head),
                ("last_irreversible", POSITION, BlockField::Irreversible),
                ("this_block", "block_position?", BlockField::This),
                ("prev_block", "block_position?", BlockField::Previous),
                ("block", "bytes?", BlockField::Block),
                ("block", "signed_block?", BlockField::InlineBlock),
                ("block", "signed_block_variant?", BlockField::InlineBlock),
                ("traces", "bytes", BlockField::Traces),
                ("traces", "bytes?", BlockField::OptionalTraces),
                ("deltas", "bytes", BlockField::Deltas),
                ("deltas", "bytes?", BlockField::OptionalDeltas),
            ],
            &[],
        )?;
        return Ok(ResultPlan::Blocks(plan));
    }
    Ok(ResultPlan::Other)
}
