//! Decoded transactions.
//!
//! A transaction of Elements is one of Bitcoin with more in each input and output. [`Tx`] is just that: Bitcoin's, and
//! beside it what Elements adds. Code that asks for scripts, outpoints, witnesses or sequence numbers reads both families
//! the same way; code that asks for amounts must ask [`Tx::value`] (or [`Output::amount`]), for an amount may be blinded.

use std::ops::Deref;

use bitcoin::absolute::LockTime;
use bitcoin::consensus::deserialize_partial;
use bitcoin::hashes::Hash;
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, Wtxid,
};

use crate::bytes::DecodeError;
use crate::elements::{AssetId, Confidential, Field, Issuance, Pegin, sha256d};
use crate::network::Family;
use crate::walk::{Coin, InputRef, InputWitness, OutputRef, TxVisitor, walk_tx};

/// A transaction of either family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tx {
    base: Transaction,
    elements: Option<Box<ElementsTx>>,
}

/// What Elements adds to a transaction: for each of its inputs and outputs, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElementsTx {
    /// Of the inputs.
    pub inputs: Vec<ElementsInput>,
    /// Of the outputs.
    pub outputs: Vec<ElementsOutput>,
}

/// What Elements adds to an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElementsInput {
    /// It claims coins of the parent chain.
    pub is_pegin: bool,
    /// Proof of the claim.
    pub pegin_witness: Vec<Vec<u8>>,
    /// What it issues.
    pub issuance: Option<Issuance>,
}

/// What Elements adds to an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementsOutput {
    /// Of what.
    pub asset: Field,
    /// How much.
    pub value: Field,
    /// For the receiver.
    pub nonce: Field,
    /// That the asset is one of those spent; not kept with outputs of other transactions.
    pub surjection_proof: Vec<u8>,
    /// That the value is not negative; not kept with outputs of other transactions.
    pub range_proof: Vec<u8>,
}

impl ElementsOutput {
    fn of(coin: &Confidential<'_>) -> Self {
        Self {
            asset: Field::of(coin.asset),
            value: Field::of(coin.value),
            nonce: Field::of(coin.nonce),
            surjection_proof: Vec::new(),
            range_proof: Vec::new(),
        }
    }

    /// Whether an output with this script pays the fee.
    pub fn is_fee(&self, script: &[u8]) -> bool {
        Coin::Confidential(self.coin()).is_fee(script)
    }

    fn coin(&self) -> Confidential<'_> {
        Confidential {
            asset: self.asset.as_bytes(),
            value: self.value.as_bytes(),
            nonce: self.nonce.as_bytes(),
        }
    }
}

impl Deref for Tx {
    type Target = Transaction;

    /// The part that both families have. Amounts of blinded outputs are 0 in it.
    fn deref(&self) -> &Transaction {
        &self.base
    }
}

impl From<Transaction> for Tx {
    fn from(base: Transaction) -> Self {
        Self {
            base,
            elements: None,
        }
    }
}

impl PartialEq<Transaction> for Tx {
    fn eq(&self, other: &Transaction) -> bool {
        self.elements.is_none() && self.base == *other
    }
}

/// A transaction with what its bytes tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The transaction.
    pub tx: Tx,
    /// Its id.
    pub txid: Txid,
    /// Serialized size in bytes, witness included.
    pub length: usize,
    /// Weight units.
    pub weight: usize,
}

/// A transaction together with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeTx {
    /// The transaction.
    pub tx: Tx,
    /// Its id.
    pub txid: Txid,
    /// Weight units.
    pub weight: u32,
    /// Serialized, with witness.
    pub raw: Vec<u8>,
}

impl WholeTx {
    /// From all of some bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where the bytes end or make no sense, and for bytes after the transaction.
    pub fn parse(family: Family, raw: Vec<u8>) -> Result<Self, DecodeError> {
        let Decoded {
            tx, txid, weight, ..
        } = Tx::decode_all(family, &raw)?;
        Ok(Self {
            tx,
            txid,
            weight: u32::try_from(weight).unwrap_or(u32::MAX),
            raw,
        })
    }

    /// Its id with the witness.
    pub fn wtxid(&self) -> Wtxid {
        self.tx.wtxid(&self.raw)
    }
}

impl From<Transaction> for WholeTx {
    fn from(tx: Transaction) -> Self {
        Self {
            txid: tx.compute_txid(),
            weight: u32::try_from(tx.weight().to_wu()).unwrap_or(u32::MAX),
            raw: bitcoin::consensus::serialize(&tx),
            tx: tx.into(),
        }
    }
}

impl Tx {
    /// The transaction at the start of some bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where the bytes end or make no sense.
    pub fn decode(family: Family, bytes: &[u8]) -> Result<Decoded, DecodeError> {
        match family {
            Family::Bitcoin => {
                let (base, length): (Transaction, usize) =
                    deserialize_partial(bytes).map_err(|_| DecodeError {
                        what: "a transaction that does not parse",
                        at: 0,
                    })?;
                Ok(Decoded {
                    txid: base.compute_txid(),
                    weight: usize::try_from(base.weight().to_wu()).unwrap_or(usize::MAX),
                    tx: base.into(),
                    length,
                })
            }
            Family::Elements => decode_elements(bytes),
        }
    }

    /// A transaction that is all of some bytes.
    ///
    /// # Errors
    /// [`DecodeError`], also for bytes after the transaction.
    pub fn decode_all(family: Family, bytes: &[u8]) -> Result<Decoded, DecodeError> {
        let decoded = Self::decode(family, bytes)?;
        if decoded.length != bytes.len() {
            return Err(DecodeError {
                what: "bytes after the transaction",
                at: decoded.length,
            });
        }
        Ok(decoded)
    }

    /// The id with the witness; `raw` are the bytes the transaction was decoded from.
    pub fn wtxid(&self, raw: &[u8]) -> Wtxid {
        match &self.elements {
            None => self.base.compute_wtxid(),
            Some(_) => Wtxid::from_byte_array(sha256d(&[raw])),
        }
    }

    /// What Elements adds; `None` on Bitcoin.
    pub fn elements(&self) -> Option<&ElementsTx> {
        self.elements.as_deref()
    }

    /// What Elements adds to an input.
    pub fn elements_input(&self, vin: usize) -> Option<&ElementsInput> {
        self.elements.as_ref()?.inputs.get(vin)
    }

    /// What Elements adds to an output.
    pub fn elements_output(&self, vout: usize) -> Option<&ElementsOutput> {
        self.elements.as_ref()?.outputs.get(vout)
    }

    /// The plain amount of an output, base units.
    pub fn value(&self, vout: usize) -> Option<u64> {
        match self.elements_output(vout) {
            Some(output) => output.value.explicit_value(),
            None => Some(self.base.output.get(vout)?.value.to_sat()),
        }
    }

    /// Script and worth of each output, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = OutputRef<'_>> {
        self.base.output.iter().enumerate().map(|(vout, output)| {
            let coin = match self.elements_output(vout) {
                Some(elements) => Coin::Confidential(elements.coin()),
                None => Coin::Sat(output.value.to_sat()),
            };
            OutputRef {
                script: output.script_pubkey.as_bytes(),
                coin,
            }
        })
    }

    /// An output by itself, without its proofs.
    pub fn output(&self, vout: usize) -> Option<Output> {
        let base = self.base.output.get(vout)?.clone();
        let elements = self
            .elements_output(vout)
            .map(|output| Box::new(ElementsOutput::of(&output.coin())));
        Some(Output { base, elements })
    }

    /// What the inputs spend, with the index of the input. A coinbase spends nothing, nor does a peg-in.
    pub fn spends(&self) -> impl Iterator<Item = (u32, OutPoint)> {
        let is_coinbase = self.base.is_coinbase();
        (0u32..)
            .zip(&self.base.input)
            .filter(move |(vin, _)| {
                let pegin = self.elements_input(*vin as usize);
                !is_coinbase && !pegin.is_some_and(|input| input.is_pegin)
            })
            .map(|(vin, input)| (vin, input.previous_output))
    }

    /// The claim of an input that is a well-formed peg-in.
    pub fn pegin(&self, vin: usize) -> Option<Pegin<'_>> {
        let input = self.elements_input(vin).filter(|input| input.is_pegin)?;
        let items: Vec<&[u8]> = input.pegin_witness.iter().map(Vec::as_slice).collect();
        Pegin::parse(&items)
    }

    /// Sum of the outputs that pay a fee in `native`, base units; `None` where it is more than there can be.
    pub fn fee_outputs(&self, native: AssetId) -> Option<u64> {
        self.outputs()
            .filter(|output| output.coin.is_fee(output.script))
            .filter_map(|output| match output.coin {
                Coin::Confidential(coin) if coin.explicit_asset() == Some(native) => {
                    coin.explicit_value()
                }
                _ => None,
            })
            .try_fold(0u64, u64::checked_add)
    }

    /// The weight by which Liquid's nodes price a transaction of `weight`: as if its outputs were not confidential
    /// (ELIP 200).
    pub fn discount_weight(&self, weight: usize) -> usize {
        /// Bytes of a commitment beyond a plain value, and of a nonce beyond none, in weight units.
        const VALUE_WEIGHT: usize = (33 - 9) * 4;
        const NONCE_WEIGHT: usize = 32 * 4;
        let Some(elements) = self.elements() else {
            return weight;
        };
        let saved: usize = elements
            .outputs
            .iter()
            .map(|output| {
                let proofs =
                    with_length(&output.surjection_proof) + with_length(&output.range_proof);
                let value = output.value.commitment().map_or(0, |_| VALUE_WEIGHT);
                let nonce = output.nonce.commitment().map_or(0, |_| NONCE_WEIGHT);
                // Empty proofs take the two bytes of their lengths.
                proofs.saturating_sub(2) + value + nonce
            })
            .sum();
        weight.saturating_sub(saved)
    }
}

/// Serialized size of bytes with their length before them.
fn with_length(bytes: &[u8]) -> usize {
    bitcoin::VarInt::from(bytes.len()).size() + bytes.len()
}

/// An output by itself: of a transaction that others spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    base: TxOut,
    elements: Option<Box<ElementsOutput>>,
}

impl Deref for Output {
    type Target = TxOut;

    /// The part that both families have. The amount of a blinded output is 0 in it.
    fn deref(&self) -> &TxOut {
        &self.base
    }
}

impl From<TxOut> for Output {
    fn from(base: TxOut) -> Self {
        Self {
            base,
            elements: None,
        }
    }
}

impl PartialEq<TxOut> for Output {
    fn eq(&self, other: &TxOut) -> bool {
        self.elements.is_none() && self.base == *other
    }
}

impl From<OutputRef<'_>> for Output {
    fn from(output: OutputRef<'_>) -> Self {
        Self {
            base: base_output(&output),
            elements: match &output.coin {
                Coin::Sat(_) => None,
                Coin::Confidential(coin) => Some(Box::new(ElementsOutput::of(coin))),
            },
        }
    }
}

impl Output {
    /// The plain amount, base units.
    pub fn amount(&self) -> Option<u64> {
        match &self.elements {
            Some(output) => output.value.explicit_value(),
            None => Some(self.base.value.to_sat()),
        }
    }

    /// What Elements adds; `None` on Bitcoin.
    pub fn elements(&self) -> Option<&ElementsOutput> {
        self.elements.as_deref()
    }

    /// What it is worth.
    pub fn coin(&self) -> Coin<'_> {
        match &self.elements {
            Some(elements) => Coin::Confidential(elements.coin()),
            None => Coin::Sat(self.base.value.to_sat()),
        }
    }
}

fn base_output(output: &OutputRef<'_>) -> TxOut {
    TxOut {
        value: Amount::from_sat(output.coin.explicit_value().unwrap_or(0)),
        script_pubkey: ScriptBuf::from_bytes(output.script.to_vec()),
    }
}

/// Collects what a walk passes.
struct Collect {
    base: Transaction,
    elements: ElementsTx,
}

impl<'a> TxVisitor<'a> for Collect {
    type Error = DecodeError;

    fn input(&mut self, _vin: u32, input: &InputRef<'a>) -> Result<(), DecodeError> {
        let (txid, index) = input.outpoint.split_at(32);
        let txid = <[u8; 32]>::try_from(txid).expect("32 of 36 bytes");
        let index = <[u8; 4]>::try_from(index).expect("4 of 36 bytes");
        self.base.input.push(TxIn {
            previous_output: OutPoint::new(Txid::from_byte_array(txid), u32::from_le_bytes(index)),
            script_sig: ScriptBuf::from_bytes(input.script_sig.to_vec()),
            sequence: Sequence(input.sequence),
            witness: Witness::new(),
        });
        self.elements.inputs.push(ElementsInput {
            is_pegin: input.is_pegin,
            pegin_witness: Vec::new(),
            issuance: input.issuance,
        });
        Ok(())
    }

    fn output(&mut self, _vout: u32, output: OutputRef<'a>) -> Result<(), DecodeError> {
        self.base.output.push(base_output(&output));
        if let Coin::Confidential(coin) = &output.coin {
            self.elements.outputs.push(ElementsOutput::of(coin));
        }
        Ok(())
    }

    fn input_witness(&mut self, vin: u32, witness: &InputWitness<'a>) -> Result<(), DecodeError> {
        self.base.input[vin as usize].witness = Witness::from_slice(&witness.script);
        self.elements.inputs[vin as usize].pegin_witness =
            witness.pegin.iter().map(|item| item.to_vec()).collect();
        Ok(())
    }

    fn output_proofs(
        &mut self,
        vout: u32,
        surjection: &'a [u8],
        range: &'a [u8],
    ) -> Result<(), DecodeError> {
        let output = &mut self.elements.outputs[vout as usize];
        output.surjection_proof = surjection.to_vec();
        output.range_proof = range.to_vec();
        Ok(())
    }
}

fn decode_elements(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut collect = Collect {
        base: Transaction {
            version: Version(0),
            lock_time: LockTime::ZERO,
            input: Vec::new(),
            output: Vec::new(),
        },
        elements: ElementsTx::default(),
    };
    let place = walk_tx(Family::Elements, bytes, &mut collect)?;
    let Collect { mut base, elements } = collect;
    // The walk has been past both.
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
        u32::from_le_bytes(*bytes.expect("the walk was here"))
    };
    let base_length = (place.weight - place.length) / 3;
    base.version = Version(number(0).cast_signed());
    base.lock_time = LockTime::from_consensus(number(base_length - 4));
    Ok(Decoded {
        tx: Tx {
            base,
            elements: Some(Box::new(elements)),
        },
        txid: Txid::from_byte_array(place.txid),
        length: place.length,
        weight: place.weight,
    })
}
