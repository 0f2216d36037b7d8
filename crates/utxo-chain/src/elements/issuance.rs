//! Issuances: a new asset, or more of one.

use bitcoin::OutPoint;
use bitcoin::hashes::Hash;

use ::elements::hashes::sha256;
use ::elements::issuance::AssetEntropy;
use ::elements::{AssetId, ContractHash};

use super::Field;
use super::field::read_value;
use crate::bytes::{DecodeError, Reader};

/// An issuance in an input, in its consensus form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issuance {
    /// Zeros for a new asset; for a reissuance the blinding factor of the token that allows it.
    pub blinding_nonce: [u8; 32],
    /// New asset: hash of its contract, in internal order. Reissuance: the asset's entropy.
    pub entropy: [u8; 32],
    /// How much is issued.
    pub amount: Field,
    /// How many reissuance tokens are issued.
    pub tokens: Field,
}

/// What an issuance creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuanceKind {
    /// The asset.
    pub asset: AssetId,
    /// The token that allows to issue more of it.
    pub token: AssetId,
    /// What both ids are derived from.
    pub entropy: [u8; 32],
    /// More of a known asset.
    pub is_reissuance: bool,
}

impl Issuance {
    /// Appends the consensus form: nonce, entropy, amount, tokens.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.blinding_nonce);
        bytes.extend_from_slice(&self.entropy);
        bytes.extend_from_slice(self.amount.as_bytes());
        bytes.extend_from_slice(self.tokens.as_bytes());
    }

    /// An issuance that is all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] where the bytes end or make no sense.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let issuance = read_issuance(&mut reader)?;
        if reader.at() != bytes.len() {
            return Err(reader.error("bytes after the issuance"));
        }
        Ok(issuance)
    }

    /// Whether more of a known asset is issued.
    pub fn is_reissuance(&self) -> bool {
        self.blinding_nonce != [0; 32]
    }

    /// The ids that follow from the issuance and the output its input spends. The token is the confidential one if the
    /// issued amount is blinded, as the node has it.
    pub fn kind(&self, spent: &OutPoint) -> IssuanceKind {
        let entropy = if self.is_reissuance() {
            AssetEntropy::from_byte_array(self.entropy)
        } else {
            entropy(spent, self.entropy)
        };
        IssuanceKind {
            asset: AssetId::from_entropy(entropy),
            token: AssetId::reissuance_token_from_entropy(
                entropy,
                self.amount.commitment().is_some(),
            ),
            entropy: entropy.to_byte_array(),
            is_reissuance: self.is_reissuance(),
        }
    }

    /// The contract's hash, internal order; `None` for a reissuance, and for an asset without a contract.
    pub fn contract_hash(&self) -> Option<[u8; 32]> {
        (!self.is_reissuance() && self.entropy != [0; 32]).then_some(self.entropy)
    }
}

fn entropy(spent: &OutPoint, contract: [u8; 32]) -> AssetEntropy {
    let spent = ::elements::OutPoint::new(
        ::elements::Txid::from_byte_array(spent.txid.to_byte_array()),
        spent.vout,
    );
    let contract =
        ContractHash::from_byte_array(sha256::Hash::from_byte_array(contract).to_byte_array());
    AssetId::generate_asset_entropy(spent, contract)
}

/// The native asset of a chain without free coins: issued, as it were, by the commitment to the chain's parameters in the
/// genesis coinbase, with the parent chain's genesis block as the contract.
pub fn issued_native_asset(commitment: [u8; 32], parent_genesis: [u8; 32]) -> AssetId {
    let spent = OutPoint::new(bitcoin::Txid::from_byte_array(commitment), 0);
    AssetId::from_entropy(entropy(&spent, parent_genesis))
}

pub(crate) fn read_issuance(reader: &mut Reader<'_>) -> Result<Issuance, DecodeError> {
    const WHAT: &str = "the issuance ends early";
    Ok(Issuance {
        blinding_nonce: *reader.array(WHAT)?,
        entropy: *reader.array(WHAT)?,
        amount: Field::of(read_value(reader)?),
        tokens: Field::of(read_value(reader)?),
    })
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use bitcoin::hex::FromHex;

    use super::*;

    /// 32 bytes of printed hexadecimal, internal order.
    fn internal(text: &str) -> [u8; 32] {
        let mut bytes = <[u8; 32]>::from_hex(text).expect("hex");
        bytes.reverse();
        bytes
    }

    #[test]
    fn ids_are_those_of_the_vectors() {
        const ZERO: &str = "0000000000000000000000000000000000000000000000000000000000000000";
        let commitment = {
            let mut bytes = [2; 33];
            bytes[0] = 8;
            Field::parse_value(&bytes).expect("a commitment")
        };
        let plain = Field::value(1);
        let vectors = [
            (
                "05a047c98e82a848dee94efcf32462b065198bebf2404d201ba2e06db30b28f4:0",
                ZERO,
                "746f447f691323502cad2ef646f932613d37a83aeaa2133185b316648df4b70a",
                "dcd60818d863b5c026c40b2bc3ba6fdaf5018bcc8606c18adf7db4da0bcd8533",
                plain,
                "c1adb114f4f87d33bf9ce90dd4f9ca523dd414d6cd010a7917903e2009689530",
            ),
            (
                "05a047c98e82a848dee94efcf32462b065198bebf2404d201ba2e06db30b28f4:0",
                ZERO,
                "746f447f691323502cad2ef646f932613d37a83aeaa2133185b316648df4b70a",
                "dcd60818d863b5c026c40b2bc3ba6fdaf5018bcc8606c18adf7db4da0bcd8533",
                commitment,
                "d08425cac1a728360ae7c8aad2b21e9a04d1ab1c09959562661e5f13d9c5f803",
            ),
            (
                "c76664aa4be760056dcc39b59637eeea8f3c3c3b2aeefb9f23a7b99945a2931e:1",
                ZERO,
                "bc67a13736341d8ad19e558433483a38cae48a44a5a8b5598ca0b01b5f9f9f41",
                "2ec6c1a06e895b06fffb8dc36084255f890467fb906565b0c048d4c807b4a129",
                commitment,
                "d09d205ff7c626ca98c91fed24787ff747fec62194ed1b7e6ef6cc775a1a1fdc",
            ),
            (
                "ee45365ddb62e8822182fbdd132fb156b4991e0b7411cff4aab576fd964f2edb:0",
                "e06e6d4933e76afd7b9cc6a013e0855aa60bbe6d2fca1c27ec6951ff5f1a20c9",
                "1922da340705eef526640b49d28b08928630d1ad52db0f945f3c389267e292c9",
                "8eebf6109bca0331fe559f0cbd1ef846a2bbb6812f3ae3d8b0b610170cc21a4e",
                plain,
                "eb02cbc591c9ede071625c129f0a1fab386202cb27a894a45be0d564e961d6bc",
            ),
        ];
        for (spent, contract, entropy, asset, amount, token) in vectors {
            let spent = OutPoint::from_str(spent).expect("an outpoint");
            let first = Issuance {
                blinding_nonce: [0; 32],
                entropy: internal(contract),
                amount,
                tokens: Field::NULL,
            };
            let kind = first.kind(&spent);
            assert_eq!(kind.entropy, internal(entropy));
            assert_eq!(kind.asset.to_string(), asset);
            assert_eq!(kind.token.to_string(), token);
            assert_eq!(first.contract_hash().is_some(), contract != ZERO);
            // A reissuance names the entropy; what it spends does not matter.
            let again = Issuance {
                blinding_nonce: [1; 32],
                entropy: internal(entropy),
                ..first
            };
            let other = OutPoint::new(spent.txid, 7);
            let repeated = again.kind(&other);
            assert_eq!((repeated.asset, repeated.token), (kind.asset, kind.token));
            assert!(repeated.is_reissuance && again.contract_hash().is_none());
            let mut bytes = Vec::new();
            again.write(&mut bytes);
            assert_eq!(Issuance::parse(&bytes).expect("as written"), again);
            assert!(Issuance::parse(&bytes[..bytes.len() - 1]).is_err());
        }
    }
}
