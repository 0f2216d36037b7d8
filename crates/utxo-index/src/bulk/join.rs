//! Stage 2 of the first load: the transactions of each partition are sorted by id, their rows written, and their
//! outputs joined with the inputs that spend them.
//!
//! Because both spills are cut by the same bits of the transaction id, a partition holds everything it needs: no
//! output is ever looked up in a database. The `T`, `C`, `O` and `S` rows come out ascending and go straight into
//! sorted files; the `H` rows are ordered by script and go to the history spill.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::PathBuf;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{BlockHash, OutPoint, Txid};
use cairn_utxo_chain::elements::Pegin;
use cairn_utxo_chain::walk::{InputRef, InputWitness, OutputRef, TxVisitor, walk_tx};
use cairn_utxo_chain::{DecodeError, ElementsChain, Network};

use super::add::{EDGE_RECORD_BYTES, Partitioned, TX_RECORD_BYTES};
use super::collected::SortedRuns;
use super::files::{FileFactory, SortedFiles};
use super::prefetch::prefetch;
use super::spill::SpillWriter;
use crate::asset_events::{self, OfAsset};
use crate::engine::Family;
use crate::index::IndexError;
use crate::rows::{self, AssetKey, SupplyKey};
use crate::types::ScriptHash;

/// How many records ahead memory is asked for, and how much of a transaction: most are shorter.
const TXS_AHEAD: usize = 6;
const TX_AHEAD_BYTES: usize = 384;
const EDGES_AHEAD: usize = 12;

/// What the second stage reads and where it writes.
pub(super) struct JoinStage<'a> {
    pub(super) factory: &'a FileFactory,
    pub(super) txs: &'a Partitioned,
    pub(super) edges: &'a Partitioned,
    pub(super) history: &'a Partitioned,
    /// Best chain, by height.
    pub(super) chain: &'a [BlockHash],
    pub(super) network: Network,
    pub(super) light_mode: bool,
    pub(super) index_unspendables: bool,
}

/// Files with their family.
pub(super) type Files = Vec<(Family, Vec<PathBuf>)>;

/// One worker of the stage. Its buffers last as long as the stage does.
pub(super) struct Joiner<'a> {
    stage: &'a JoinStage<'a>,
    history: SpillWriter<'a>,
    raw: Vec<u8>,
    edges: Vec<u8>,
    tx_order: Vec<(u64, u32)>,
    edge_order: Vec<u128>,
}

/// Rows that are few.
pub(super) struct Collected<'a> {
    pub(super) addresses: Option<SortedRuns<'a>>,
    pub(super) assets: Option<SortedRuns<'a>>,
}

/// Names of the runs of rows that are few.
pub(super) struct CollectedRuns {
    pub(super) addresses: Vec<String>,
    pub(super) assets: Vec<String>,
}

impl Collected<'_> {
    fn finish(self) -> std::io::Result<CollectedRuns> {
        let finish = |runs: Option<SortedRuns<'_>>| runs.map_or(Ok(Vec::new()), SortedRuns::finish);
        Ok(CollectedRuns {
            addresses: finish(self.addresses)?,
            assets: finish(self.assets)?,
        })
    }

    /// Notes what a transaction does with an asset, in each block that holds it.
    fn asset(
        &mut self,
        heights: &[u32],
        txid: Txid,
        (asset, event): OfAsset,
    ) -> std::io::Result<()> {
        let Some(assets) = &mut self.assets else {
            return Ok(());
        };
        for &height in heights {
            let row = AssetKey {
                asset,
                height,
                txid,
                event,
            };
            assets.push(row.encode().to_vec())?;
            if event.is_supply() {
                let row = SupplyKey {
                    asset,
                    height,
                    txid,
                };
                assets.push(row.encode().to_vec())?;
            }
        }
        Ok(())
    }
}

/// Everything that is written for one contiguous range of partitions.
struct Rows<'a, 'w> {
    txs: SortedFiles<'a>,
    conf: SortedFiles<'a>,
    outs: SortedFiles<'a>,
    edge: SortedFiles<'a>,
    history: &'w mut SpillWriter<'a>,
    collected: Collected<'a>,
    network: Network,
    index_unspendables: bool,
    /// Value of the row at hand.
    value: Vec<u8>,
}

impl<'a> Joiner<'a> {
    /// `buffer_bytes` is for the rows on their way to the history spill.
    pub(super) fn new(stage: &'a JoinStage<'a>, buffer_bytes: usize) -> Self {
        let history = &stage.history;
        Self {
            stage,
            history: SpillWriter::new(&history.spill, history.partitions, buffer_bytes),
            raw: Vec::new(),
            edges: Vec::new(),
            tx_order: Vec::new(),
            edge_order: Vec::new(),
        }
    }

    /// Joins the partitions of a range and gives back its files. `label` tells them from those of other ranges;
    /// `before` is asked before each partition.
    pub(super) fn range(
        &mut self,
        partitions: Range<usize>,
        label: &str,
        collected: Collected<'a>,
        before: impl Fn(usize) -> Result<(), IndexError>,
    ) -> Result<(Files, CollectedRuns), IndexError> {
        let stage = self.stage;
        let files = |family| stage.factory.files(family, label);
        let mut rows = Rows {
            txs: files(Family::Txs),
            conf: files(Family::Confs),
            outs: files(Family::Outs),
            edge: files(Family::Edges),
            history: &mut self.history,
            collected,
            network: stage.network,
            index_unspendables: stage.index_unspendables,
            value: Vec::new(),
        };
        for partition in partitions {
            before(partition)?;
            let (txs, edges) = (&stage.txs.spill, &stage.edges.spill);
            txs.read(partition, 0, u64::MAX, &mut self.raw)?;
            edges.read(partition, 0, u64::MAX, &mut self.edges)?;
            order_txs(&self.raw, &mut self.tx_order)?;
            order_edges(&self.edges, &mut self.edge_order)?;
            let spends = Spends {
                records: &self.edges,
                order: &self.edge_order,
                next: 0,
            };
            stage.partition(&mut rows, &self.raw, &self.tx_order, spends)?;
        }
        let runs = rows.collected.finish()?;
        let files = [rows.txs, rows.conf, rows.outs, rows.edge];
        let files = files.into_iter().map(SortedFiles::finish);
        Ok((files.collect::<Result<_, _>>()?, runs))
    }

    /// Writes out what is buffered. Must be called after the last range.
    pub(super) fn finish(mut self) -> Result<(), IndexError> {
        Ok(self.history.flush()?)
    }
}

impl JoinStage<'_> {
    /// Writes all rows of one partition, whose transactions and edges are sorted.
    fn partition(
        &self,
        rows: &mut Rows<'_, '_>,
        raw: &[u8],
        order: &[(u64, u32)],
        mut spends: Spends<'_>,
    ) -> Result<(), IndexError> {
        let mut at = 0;
        while at < order.len() {
            if let Some(&(_, ahead)) = order.get(at + TXS_AHEAD) {
                prefetch(raw, ahead as usize, TX_AHEAD_BYTES);
            }
            let first = TxRecord::at(raw, order[at].1)?;
            let mut end = at + 1;
            // Only equal prefixes can be equal ids.
            while end < order.len()
                && order[end].0 == order[at].0
                && TxRecord::at(raw, order[end].1)?.txid == first.txid
            {
                end += 1;
            }
            if let Some(edge) = spends.before(first.txid) {
                return Err(self.missing_output(edge));
            }
            self.tx(rows, raw, &order[at..end], &mut spends)?;
            at = end;
        }
        match spends.peek() {
            Some(edge) => Err(self.missing_output(edge)),
            None => Ok(()),
        }
    }

    /// Writes all rows of one transaction id; `places` are its records, one per block that holds it.
    fn tx(
        &self,
        rows: &mut Rows<'_, '_>,
        raw: &[u8],
        places: &[(u64, u32)],
        spends: &mut Spends<'_>,
    ) -> Result<(), IndexError> {
        let first = TxRecord::at(raw, places[0].1)?;
        let txid = Txid::from_byte_array(*first.txid);
        if !self.light_mode {
            rows.txs.push(&rows::tx_key(&txid), first.raw)?;
        }
        let mut heights = Vec::with_capacity(places.len());
        for &(_, offset) in places {
            heights.push(TxRecord::at(raw, offset)?.height);
        }
        let mut blocks = Vec::with_capacity(heights.len());
        for &height in &heights {
            blocks.push(*self.chain.get(height as usize).ok_or_else(|| {
                IndexError::Corrupt(format!("spilled transaction {txid} names height {height}, beyond the load's target; remove the index folder to start again"))
            })?);
        }
        blocks.sort_unstable();
        for block in &blocks {
            rows.conf.push(&rows::conf_key(&txid, block), &[])?;
        }
        let mut parts = Parts {
            rows,
            txid: &txid,
            heights: &heights,
            spends,
            elements: self.network.elements(),
            pegins: Vec::new(),
        };
        walk_tx(self.network.family(), first.raw, &mut parts).map_err(|error| match error {
            PartError::Index(error) => error,
            PartError::Decode(error) => IndexError::Corrupt(format!(
                "spilled transaction {txid} does not parse: {error}"
            )),
        })?;
        // Inputs that name an output index this transaction does not have.
        match spends.of(&first.txid[..]) {
            Some(edge) => Err(self.missing_output(edge)),
            None => Ok(()),
        }
    }

    fn missing_output(&self, edge: Edge<'_>) -> IndexError {
        let block = self
            .chain
            .get(edge.height as usize)
            .map(ToString::to_string);
        IndexError::Corrupt(format!(
            "block {} at height {}: input {} of transaction {} spends {}, which no block up to the load's target \
             creates. The block files or the node are damaged or of another chain: check the node, then start again \
             with an empty index folder",
            block.unwrap_or_default(),
            edge.height,
            edge.vin,
            Txid::from_byte_array(*edge.spender),
            OutPoint::new(Txid::from_byte_array(*edge.txid), edge.vout),
        ))
    }
}

/// Visits the parts of one transaction.
struct Parts<'r, 'a, 'w, 's, 'e> {
    rows: &'r mut Rows<'a, 'w>,
    txid: &'r Txid,
    heights: &'r [u32],
    spends: &'s mut Spends<'e>,
    /// On Elements.
    elements: Option<&'static ElementsChain>,
    /// Inputs that are peg-ins: their witnesses come later.
    pegins: Vec<u32>,
}

/// Why a walk over a spilled transaction ended.
enum PartError {
    Index(IndexError),
    Decode(DecodeError),
}

impl From<IndexError> for PartError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

impl From<DecodeError> for PartError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl<'t> TxVisitor<'t> for Parts<'_, '_, '_, '_, '_> {
    type Error = PartError;

    #[inline]
    fn input(&mut self, vin: u32, input: &InputRef<'t>) -> Result<(), PartError> {
        match self.elements {
            None => Ok(()),
            Some(chain) => Ok(self.elements_input(chain, vin, input)?),
        }
    }

    #[inline]
    fn output(&mut self, vout: u32, output: OutputRef<'t>) -> Result<(), PartError> {
        Ok(self.add_output(vout, output)?)
    }

    fn input_witness(&mut self, vin: u32, witness: &InputWitness<'t>) -> Result<(), PartError> {
        if let Some(chain) = self.elements
            && self.pegins.contains(&vin)
            && let Some(pegin) = Pegin::parse(&witness.pegin)
            && let Some(event) = asset_events::of_pegin(chain, vin, &pegin)
        {
            self.add_asset(event)?;
        }
        Ok(())
    }
}

impl Parts<'_, '_, '_, '_, '_> {
    fn elements_input(
        &mut self,
        chain: &ElementsChain,
        vin: u32,
        input: &InputRef<'_>,
    ) -> Result<(), IndexError> {
        if input.is_pegin {
            self.pegins.push(vin);
        }
        let Some(issuance) = &input.issuance else {
            return Ok(());
        };
        let spent = outpoint(&input.outpoint);
        let Some((event, first)) =
            asset_events::of_issuance(chain, *self.txid, vin, spent, issuance)
        else {
            return Ok(());
        };
        if let (Some(first), Some(assets)) = (first, &mut self.rows.collected.assets) {
            let mut entry = rows::issued_key(&event.0).to_vec();
            first.write(&mut entry);
            assets.push(entry)?;
        }
        self.add_asset(event)
    }

    fn add_asset(&mut self, event: OfAsset) -> Result<(), IndexError> {
        let collected = &mut self.rows.collected;
        Ok(collected.asset(self.heights, *self.txid, event)?)
    }

    fn add_output(&mut self, vout: u32, output: OutputRef<'_>) -> Result<(), IndexError> {
        if let Some(chain) = self.elements
            && let Some(event) = asset_events::of_output(chain, vout, &output)
        {
            self.add_asset(event)?;
        }
        let OutputRef { script, coin } = output;
        let rows = &mut *self.rows;
        rows.value.clear();
        rows::write_out_value(script, coin, &mut rows.value);
        rows.outs
            .push(&rows::out_key(self.txid, vout), &rows.value)?;
        let listed = (rows.index_unspendables
            || !rows::is_unspendable(rows.network.family(), script))
            && !coin.is_fee(script);
        let mut edge = self.spends.of_output(self.txid.as_byte_array(), vout);
        if !listed && edge.is_none() {
            return Ok(());
        }
        let scripthash = ScriptHash(sha256::Hash::hash(script).to_byte_array());
        if listed {
            for &height in self.heights {
                let key = rows::hist_funding_key(&scripthash, height, self.txid, vout, coin);
                rows.history.push(&scripthash.0, &[&key[1..]])?;
            }
            if let Some(addresses) = &mut rows.collected.addresses {
                addresses.push_address(script, rows.network)?;
            }
        }
        while let Some(spend) = edge {
            let spender = Txid::from_byte_array(*spend.spender);
            let outpoint = OutPoint::new(*self.txid, vout);
            rows.edge
                .push(&rows::edge_key(&outpoint, &spender, spend.vin), &[])?;
            let key = rows::hist_spending_key(
                &scripthash,
                spend.height,
                &spender,
                spend.vin,
                &outpoint,
                coin,
            );
            rows.history.push(&scripthash.0, &[&key[1..]])?;
            if let Some(chain) = self.elements
                && let Some(event) = asset_events::of_spend(chain, spend.vin, outpoint, &output)
            {
                let at = [spend.height];
                rows.collected.asset(&at, spender, event)?;
            }
            edge = self.spends.of_output(self.txid.as_byte_array(), vout);
        }
        Ok(())
    }
}

/// An outpoint as it is serialized.
fn outpoint(bytes: &[u8; 36]) -> OutPoint {
    let (txid, index) = bytes.split_at(32);
    OutPoint::new(
        Txid::from_byte_array(txid.try_into().expect("32 of 36 bytes")),
        u32::from_le_bytes(index.try_into().expect("4 of 36 bytes")),
    )
}

struct TxRecord<'a> {
    txid: &'a [u8; 32],
    height: u32,
    raw: &'a [u8],
}

impl<'a> TxRecord<'a> {
    fn at(records: &'a [u8], offset: u32) -> Result<Self, IndexError> {
        Self::parse(records.get(offset as usize..).unwrap_or_default()).ok_or_else(damaged_spill)
    }

    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (txid, rest) = bytes.split_first_chunk::<32>()?;
        let (height, rest) = rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let raw = rest.get(..u32::from_le_bytes(*length) as usize)?;
        Some(Self {
            txid,
            height: u32::from_le_bytes(*height),
            raw,
        })
    }
}

pub(super) fn damaged_spill() -> IndexError {
    IndexError::Corrupt(
        "the first load's scratch files are damaged: remove the index folder to start again".into(),
    )
}

fn prefix(hash: &[u8; 32]) -> u64 {
    u64::from_be_bytes(hash[..8].try_into().expect("8 of 32 bytes"))
}

/// Fills `order` with the places of the records, by txid.
fn order_txs(records: &[u8], order: &mut Vec<(u64, u32)>) -> Result<(), IndexError> {
    order.clear();
    let mut at = 0;
    while at < records.len() {
        let record = TxRecord::parse(&records[at..]).ok_or_else(damaged_spill)?;
        // A partition is far below 4 GiB: the number of partitions grows with the chain.
        order.push((
            prefix(record.txid),
            u32::try_from(at).map_err(|_| damaged_spill())?,
        ));
        at += TX_RECORD_BYTES + record.raw.len();
    }
    order.sort_unstable();
    // Equal prefixes are the two places of one transaction, or ids ground out to look alike.
    let full = |&(_, at): &(u64, u32)| {
        let at = at as usize;
        &records[at..at + 32]
    };
    for run in order
        .chunk_by_mut(|a, b| a.0 == b.0)
        .filter(|run| run.len() > 1)
    {
        run.sort_by(|a, b| full(a).cmp(full(b)));
    }
    Ok(())
}

/// Fills `order` with (first half of the txid, output index, record number), ascending by outpoint.
fn order_edges(records: &[u8], order: &mut Vec<u128>) -> Result<(), IndexError> {
    order.clear();
    if !records.len().is_multiple_of(EDGE_RECORD_BYTES) {
        return Err(damaged_spill());
    }
    for (number, record) in records.chunks_exact(EDGE_RECORD_BYTES).enumerate() {
        let edge = Edge::parse(record).ok_or_else(damaged_spill)?;
        let number = u32::try_from(number).map_err(|_| damaged_spill())?;
        order.push(
            u128::from(prefix(edge.txid)) << 64 | u128::from(edge.vout) << 32 | u128::from(number),
        );
    }
    order.sort_unstable();
    let outpoint = |order: &u128| {
        let at = edge_number(*order) * EDGE_RECORD_BYTES;
        Edge::parse(&records[at..at + EDGE_RECORD_BYTES]).map(|edge| (edge.txid, edge.vout))
    };
    for run in order
        .chunk_by_mut(|a, b| a >> 64 == b >> 64)
        .filter(|run| run.len() > 1)
    {
        let alike = run
            .windows(2)
            .all(|pair| outpoint(&pair[0]).map(|o| o.0) == outpoint(&pair[1]).map(|o| o.0));
        if !alike {
            run.sort_by(|a, b| outpoint(a).cmp(&outpoint(b)));
        }
    }
    Ok(())
}

fn edge_number(order: u128) -> usize {
    (order & u128::from(u32::MAX)) as usize
}

/// An input with the output it spends.
#[derive(Clone, Copy)]
struct Edge<'a> {
    txid: &'a [u8; 32],
    vout: u32,
    spender: &'a [u8; 32],
    vin: u32,
    height: u32,
}

impl<'a> Edge<'a> {
    fn parse(record: &'a [u8]) -> Option<Self> {
        let (txid, rest) = record.split_first_chunk::<32>()?;
        let (vout, rest) = rest.split_first_chunk::<4>()?;
        let (spender, rest) = rest.split_first_chunk::<32>()?;
        let (vin, rest) = rest.split_first_chunk::<4>()?;
        let (height, _) = rest.split_first_chunk::<4>()?;
        let [vout, vin, height] = [vout, vin, height].map(|n| u32::from_le_bytes(*n));
        Some(Self {
            txid,
            vout,
            spender,
            vin,
            height,
        })
    }
}

/// The edges of a partition, walked once in the order of their outpoints.
struct Spends<'a> {
    records: &'a [u8],
    order: &'a [u128],
    next: usize,
}

impl<'a> Spends<'a> {
    fn peek(&self) -> Option<Edge<'a>> {
        let at = edge_number(*self.order.get(self.next)?) * EDGE_RECORD_BYTES;
        Edge::parse(&self.records[at..])
    }

    /// An edge that was passed by: its transaction id is lower than `txid`.
    fn before(&self, txid: &[u8; 32]) -> Option<Edge<'a>> {
        self.peek()
            .filter(|edge| edge.txid.cmp(txid) == Ordering::Less)
    }

    fn of(&self, txid: &[u8]) -> Option<Edge<'a>> {
        self.peek().filter(|edge| edge.txid[..] == *txid)
    }

    /// Takes the next edge if it spends this output.
    #[inline]
    fn of_output(&mut self, txid: &[u8; 32], vout: u32) -> Option<Edge<'a>> {
        let edge = self
            .peek()
            .filter(|edge| edge.vout == vout && edge.txid == txid)?;
        self.next += 1;
        if let Some(&ahead) = self.order.get(self.next + EDGES_AHEAD) {
            prefetch(
                self.records,
                edge_number(ahead) * EDGE_RECORD_BYTES,
                EDGE_RECORD_BYTES,
            );
        }
        Some(edge)
    }
}
