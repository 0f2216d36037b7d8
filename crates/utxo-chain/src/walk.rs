//! One pass over serialized transactions and blocks, without allocation.
//!
//! The family is looked at once for a block or a transaction; below that each has its own walk: `bitcoin_slices` for
//! Bitcoin, the one in this module for Elements. A walk checks the form of the bytes and that they are all there, nothing
//! else. The first load sees every byte of a chain through it.

use std::ops::ControlFlow;

use bitcoin::TxMerkleNode;
use bitcoin::hashes::Hash as _;
use bitcoin_slices::{Visit as _, Visitor, bsl};

use crate::bytes::{DecodeError, Reader};
use crate::elements::{Confidential, Issuance, read_issuance, sha256d};
use crate::header::{BITCOIN_HEADER_LEN, Header};
use crate::network::Family;

/// Bits of an input's output index that say what the input is, but in a coinbase.
const ISSUANCE_BIT: u32 = 1 << 31;
const PEGIN_BIT: u32 = 1 << 30;
const INDEX_MASK: u32 = PEGIN_BIT - 1;
/// Flag of a transaction of Elements that says "witnesses follow".
const WITNESS_FLAG: u8 = 1;

/// What an output is worth, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coin<'a> {
    /// Bitcoin: satoshi.
    Sat(u64),
    /// Elements.
    Confidential(Confidential<'a>),
}

impl From<u64> for Coin<'_> {
    fn from(satoshi: u64) -> Self {
        Self::Sat(satoshi)
    }
}

impl Coin<'_> {
    /// The amount in base units, if it is plain.
    #[inline]
    pub fn explicit_value(&self) -> Option<u64> {
        match self {
            Self::Sat(amount) => Some(*amount),
            Self::Confidential(coin) => coin.explicit_value(),
        }
    }

    /// Whether an output with this script pays the fee: Elements writes fees down as outputs without a script.
    #[inline]
    pub fn is_fee(&self, script: &[u8]) -> bool {
        match self {
            Self::Sat(_) => false,
            Self::Confidential(coin) => {
                script.is_empty()
                    && coin.explicit_value().is_some()
                    && coin.explicit_asset().is_some()
            }
        }
    }
}

/// An output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRef<'a> {
    /// scriptPubKey.
    pub script: &'a [u8],
    /// What it is worth.
    pub coin: Coin<'a>,
}

/// An input.
#[derive(Debug, Clone, Copy)]
pub struct InputRef<'a> {
    /// The outpoint as Bitcoin serializes it: txid, then the index in little-endian order, without the bits of Elements.
    pub outpoint: [u8; 36],
    /// It claims coins of the parent chain instead of an output.
    pub is_pegin: bool,
    /// What it issues.
    pub issuance: Option<Issuance>,
    /// scriptSig.
    pub script_sig: &'a [u8],
    /// Sequence number.
    pub sequence: u32,
}

/// What Elements serializes for an input after all outputs. The lists are reused: copy what is to stay.
#[derive(Debug, Default)]
pub struct InputWitness<'a> {
    /// Range proof of the issued amount.
    pub amount_proof: &'a [u8],
    /// Range proof of the issued tokens.
    pub token_proof: &'a [u8],
    /// Script witness.
    pub script: Vec<&'a [u8]>,
    /// Peg-in witness.
    pub pegin: Vec<&'a [u8]>,
}

/// Takes the parts of a transaction as a walk comes to them: inputs, outputs, then (Elements only) witnesses.
pub trait TxVisitor<'a> {
    /// Why a walk may end early.
    type Error: From<DecodeError>;

    /// An input.
    ///
    /// # Errors
    /// Ends the walk.
    fn input(&mut self, _vin: u32, _input: &InputRef<'a>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// An output.
    ///
    /// # Errors
    /// Ends the walk.
    fn output(&mut self, _vout: u32, _output: OutputRef<'a>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// An input's witness, on Elements.
    ///
    /// # Errors
    /// Ends the walk.
    fn input_witness(&mut self, _vin: u32, _witness: &InputWitness<'a>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// An output's surjection proof and range proof, on Elements.
    ///
    /// # Errors
    /// Ends the walk.
    fn output_proofs(
        &mut self,
        _vout: u32,
        _surjection: &'a [u8],
        _range: &'a [u8],
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A transaction that was walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxPlace {
    /// Its id, internal byte order.
    pub txid: [u8; 32],
    /// Serialized size in bytes, witness included.
    pub length: usize,
    /// Weight units.
    pub weight: usize,
}

/// Walks over the transaction at the start of `bytes`.
///
/// # Errors
/// The visitor's, and [`DecodeError`] where the bytes end or make no sense.
pub fn walk_tx<'a, V: TxVisitor<'a>>(
    family: Family,
    bytes: &'a [u8],
    visitor: &mut V,
) -> Result<TxPlace, V::Error> {
    match family {
        Family::Bitcoin => walk_bitcoin_tx(bytes, visitor),
        Family::Elements => {
            let mut reader = Reader::new(bytes);
            walk_elements_tx(bytes, &mut reader, visitor)
        }
    }
}

/// Takes the parts of a block that a first load needs.
pub trait BlockVisitor {
    /// An input that spends an output: no coinbase, no peg-in, nothing in the genesis block. `outpoint` is the txid, then
    /// the index in little-endian order.
    fn spend(&mut self, vin: u32, outpoint: [u8; 36]);
    /// The transaction whose inputs were given since the last one.
    fn tx(&mut self, tx: TxPlace);
}

/// A block that was walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// Bytes of the header.
    pub header_length: usize,
    /// Where the first transaction begins.
    pub first_tx: usize,
    /// Serialized size in bytes; the bytes given may be longer.
    pub size: usize,
    /// Weight units of the whole block.
    pub weight: usize,
    /// What the header says of the transactions.
    pub merkle_root: [u8; 32],
}

/// Walks over the block at the start of `bytes`.
///
/// # Errors
/// [`DecodeError`] where the bytes end or make no sense.
pub fn walk_block(
    family: Family,
    bytes: &[u8],
    visitor: &mut impl BlockVisitor,
) -> Result<BlockPlace, DecodeError> {
    match family {
        Family::Bitcoin => walk_bitcoin_block(bytes, visitor),
        Family::Elements => walk_elements_block(bytes, visitor),
    }
}

/// Brings the visits of `bitcoin_slices` to a [`TxVisitor`].
struct BitcoinTx<'v, V, E> {
    visitor: &'v mut V,
    error: Option<E>,
}

impl<'a, V: TxVisitor<'a>> BitcoinTx<'_, V, V::Error> {
    fn flow(&mut self, result: Result<(), V::Error>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

fn walk_bitcoin_tx<'a, V: TxVisitor<'a>>(
    bytes: &'a [u8],
    visitor: &mut V,
) -> Result<TxPlace, V::Error> {
    struct Places<'v, 'a, V: TxVisitor<'a>> {
        inner: BitcoinTx<'v, V, V::Error>,
        bytes: &'a [u8],
    }
    impl<'a, V: TxVisitor<'a>> Places<'_, 'a, V> {
        /// The same bytes with the lifetime of the whole: the library hands them out for the visit only.
        fn whole(&self, part: &[u8]) -> &'a [u8] {
            let start = (part.as_ptr() as usize).wrapping_sub(self.bytes.as_ptr() as usize);
            self.bytes
                .get(start..start + part.len())
                .unwrap_or_default()
        }
    }
    impl<'a, V: TxVisitor<'a>> Visitor for Places<'_, 'a, V> {
        fn visit_tx_in(&mut self, vin: usize, tx_in: &bsl::TxIn) -> ControlFlow<()> {
            let input = InputRef {
                outpoint: outpoint(tx_in),
                is_pegin: false,
                issuance: None,
                script_sig: self.whole(tx_in.script_sig()),
                sequence: tx_in.sequence(),
            };
            let result = self.inner.visitor.input(vin as u32, &input);
            self.inner.flow(result)
        }

        fn visit_tx_out(&mut self, vout: usize, out: &bsl::TxOut) -> ControlFlow<()> {
            let output = OutputRef {
                script: self.whole(out.script_pubkey()),
                coin: Coin::Sat(out.value()),
            };
            let result = self.inner.visitor.output(vout as u32, output);
            self.inner.flow(result)
        }
    }
    let mut places = Places {
        inner: BitcoinTx {
            visitor,
            error: None,
        },
        bytes,
    };
    let visited = bsl::Transaction::visit(bytes, &mut places);
    if let Some(error) = places.inner.error {
        return Err(error);
    }
    let parsed = visited.map_err(|_| DecodeError {
        what: "a transaction that does not parse",
        at: 0,
    })?;
    let tx = parsed.parsed();
    Ok(TxPlace {
        txid: tx.txid().to_byte_array(),
        length: parsed.consumed(),
        weight: tx.weight() as usize,
    })
}

fn outpoint(tx_in: &bsl::TxIn) -> [u8; 36] {
    let mut outpoint = [0; 36];
    outpoint.copy_from_slice(tx_in.prevout().as_ref());
    outpoint
}

fn walk_bitcoin_block(
    bytes: &[u8],
    visitor: &mut impl BlockVisitor,
) -> Result<BlockPlace, DecodeError> {
    struct Places<'v, V> {
        visitor: &'v mut V,
        is_coinbase: bool,
        tx_bytes: usize,
        weight: usize,
    }
    impl<V: BlockVisitor> Visitor for Places<'_, V> {
        fn visit_tx_in(&mut self, vin: usize, tx_in: &bsl::TxIn) -> ControlFlow<()> {
            if !self.is_coinbase {
                self.visitor.spend(vin as u32, outpoint(tx_in));
            }
            ControlFlow::Continue(())
        }

        fn visit_transaction(&mut self, tx: &bsl::Transaction) -> ControlFlow<()> {
            let place = TxPlace {
                txid: tx.txid().to_byte_array(),
                length: tx.as_ref().len(),
                weight: tx.weight() as usize,
            };
            self.is_coinbase = false;
            self.tx_bytes += place.length;
            self.weight += place.weight;
            self.visitor.tx(place);
            ControlFlow::Continue(())
        }
    }
    let mut places = Places {
        visitor,
        is_coinbase: true,
        tx_bytes: 0,
        weight: 0,
    };
    let parsed = bsl::Block::visit(bytes, &mut places).map_err(|_| DecodeError {
        what: "a block that does not parse",
        at: places.tx_bytes.min(bytes.len()),
    });
    let (tx_bytes, weight) = (places.tx_bytes, places.weight);
    let parsed = parsed?;
    let size = parsed.consumed();
    let first_tx = size - tx_bytes;
    let mut merkle_root = [0; 32];
    merkle_root.copy_from_slice(parsed.parsed().header().merkle_root());
    Ok(BlockPlace {
        header_length: BITCOIN_HEADER_LEN,
        first_tx,
        size,
        weight: weight + 4 * first_tx,
        merkle_root,
    })
}

/// The walk over a transaction of Elements; `reader` stands at its start in `whole`.
fn walk_elements_tx<'a, V: TxVisitor<'a>>(
    whole: &'a [u8],
    reader: &mut Reader<'a>,
    visitor: &mut V,
) -> Result<TxPlace, V::Error> {
    const EARLY: &str = "the transaction ends early";
    let start = reader.at();
    reader.take(4, EARLY)?;
    let flags_error = reader.error("flags of a transaction that are not known");
    let flags = reader.u8(EARLY)?;
    if flags & !WITNESS_FLAG != 0 {
        return Err(flags_error.into());
    }
    let inputs = count(reader)?;
    for vin in 0..inputs {
        let input = read_input(reader)?;
        visitor.input(vin, &input)?;
    }
    let outputs = count(reader)?;
    for vout in 0..outputs {
        let coin = Coin::Confidential(Confidential::read(reader)?);
        let script = reader.var_bytes(EARLY)?;
        visitor.output(vout, OutputRef { script, coin })?;
    }
    reader.take(4, EARLY)?;
    let base_end = reader.at();
    if flags & WITNESS_FLAG != 0 {
        let mut witness = InputWitness::default();
        for vin in 0..inputs {
            witness.amount_proof = reader.var_bytes(EARLY)?;
            witness.token_proof = reader.var_bytes(EARLY)?;
            read_items(reader, &mut witness.script)?;
            read_items(reader, &mut witness.pegin)?;
            visitor.input_witness(vin, &witness)?;
        }
        for vout in 0..outputs {
            let surjection = reader.var_bytes(EARLY)?;
            let range = reader.var_bytes(EARLY)?;
            visitor.output_proofs(vout, surjection, range)?;
        }
    }
    // The id is over everything but the witness, as if there were none.
    let base = &whole[start..base_end];
    let txid = sha256d(&[&base[..4], &[0], &base[5..]]);
    let length = reader.at() - start;
    Ok(TxPlace {
        txid,
        length,
        weight: base.len() * 3 + length,
    })
}

/// A count of inputs or outputs; each takes more than a byte, so a larger one ends at the end of the bytes.
fn count(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let error = reader.error("more inputs or outputs than there can be");
    u32::try_from(reader.compact("the transaction ends early")?).map_err(|_| error)
}

fn read_input<'a>(reader: &mut Reader<'a>) -> Result<InputRef<'a>, DecodeError> {
    const EARLY: &str = "the input ends early";
    let txid: &[u8; 32] = reader.array(EARLY)?;
    let mut index = reader.u32(EARLY)?;
    let script_sig = reader.var_bytes(EARLY)?;
    let sequence = reader.u32(EARLY)?;
    let (mut is_pegin, mut issuance) = (false, None);
    if index != u32::MAX {
        is_pegin = index & PEGIN_BIT != 0;
        if index & ISSUANCE_BIT != 0 {
            issuance = Some(read_issuance(reader)?);
        }
        index &= INDEX_MASK;
    }
    let mut outpoint = [0; 36];
    outpoint[..32].copy_from_slice(txid);
    outpoint[32..].copy_from_slice(&index.to_le_bytes());
    Ok(InputRef {
        outpoint,
        is_pegin,
        issuance,
        script_sig,
        sequence,
    })
}

fn read_items<'a>(reader: &mut Reader<'a>, items: &mut Vec<&'a [u8]>) -> Result<(), DecodeError> {
    const EARLY: &str = "the witness ends early";
    items.clear();
    for _ in 0..reader.compact(EARLY)? {
        items.push(reader.var_bytes(EARLY)?);
    }
    Ok(())
}

fn walk_elements_block(
    bytes: &[u8],
    visitor: &mut impl BlockVisitor,
) -> Result<BlockPlace, DecodeError> {
    struct Spends<'v, V> {
        visitor: &'v mut V,
        spends: bool,
    }
    impl<V: BlockVisitor> TxVisitor<'_> for Spends<'_, V> {
        type Error = DecodeError;

        fn input(&mut self, vin: u32, input: &InputRef<'_>) -> Result<(), DecodeError> {
            if self.spends && !input.is_pegin {
                self.visitor.spend(vin, input.outpoint);
            }
            Ok(())
        }
    }
    let (header, header_length) = Header::decode(Family::Elements, bytes)?;
    let mut reader = Reader::new(bytes);
    reader.take(header_length, "the block ends early")?;
    let count = reader.compact("the block ends early")?;
    let first_tx = reader.at();
    let mut weight = 4 * first_tx;
    // What the genesis block's second transaction names as spent exists nowhere.
    let is_genesis = header.claimed_height() == Some(0);
    for position in 0..count {
        let mut spends = Spends {
            visitor: &mut *visitor,
            spends: position > 0 && !is_genesis,
        };
        let place = walk_elements_tx(bytes, &mut reader, &mut spends)?;
        weight += place.weight;
        visitor.tx(place);
    }
    Ok(BlockPlace {
        header_length,
        first_tx,
        size: reader.at(),
        weight,
        merkle_root: header.merkle_root.to_byte_array(),
    })
}

/// The size of the block at the start of `bytes`, if it is there in whole: it parses, has transactions, and they fit the
/// merkle root of its header.
pub fn whole_block(family: Family, bytes: &[u8]) -> Option<usize> {
    #[derive(Default)]
    struct Ids(Vec<TxMerkleNode>);
    impl BlockVisitor for Ids {
        fn spend(&mut self, _vin: u32, _outpoint: [u8; 36]) {}
        fn tx(&mut self, tx: TxPlace) {
            self.0.push(TxMerkleNode::from_byte_array(tx.txid));
        }
    }
    let mut ids = Ids::default();
    let place = walk_block(family, bytes, &mut ids).ok()?;
    let root = bitcoin::merkle_tree::calculate_root(ids.0.into_iter())?;
    (root.to_byte_array() == place.merkle_root).then_some(place.size)
}
