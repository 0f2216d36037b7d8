//! Block headers of both families: what every header has, and how it is proven.

use bitcoin::block::Version;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, CompactTarget, TxMerkleNode};

use crate::bytes::{DecodeError, Reader};
use crate::elements::{self, sha256d};
use crate::network::Family;

/// Bytes of a header of Bitcoin.
pub const BITCOIN_HEADER_LEN: usize = 80;
/// Bit of the serialized version that says "with parameters of a dynamic federation"; it is not part of the version.
pub(crate) const DYNAFED_BIT: u32 = 1 << 31;

/// A header, decoded. The serialized form of a header of Elements cannot be made from it: it leaves out challenge,
/// solution, parameters and signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its hash: on Bitcoin over all 80 bytes, on Elements over all but the block's solution or signatures.
    pub hash: BlockHash,
    /// Version; on Elements without the bit of the dynamic federation.
    pub version: Version,
    /// Hash of the block before; zeros in genesis.
    pub prev_blockhash: BlockHash,
    /// Merkle root over the txids.
    pub merkle_root: TxMerkleNode,
    /// Unix seconds.
    pub time: u32,
    /// What proves the block.
    pub proof: Proof,
}

/// What proves a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Bitcoin: work.
    Work {
        /// The target, compact.
        bits: CompactTarget,
        /// What the miner counted up.
        nonce: u32,
    },
    /// Elements: the federation's signatures. The header says its own height.
    Signed {
        /// Height; genesis is 0.
        height: u32,
    },
}

impl Header {
    /// The header at the start of a serialized header or block, and its length.
    ///
    /// # Errors
    /// [`DecodeError`] where the bytes end or make no sense.
    pub fn decode(family: Family, bytes: &[u8]) -> Result<(Self, usize), DecodeError> {
        match family {
            Family::Bitcoin => decode_bitcoin(bytes),
            Family::Elements => decode_elements(bytes),
        }
    }

    /// A header that is all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`], also for bytes after the header.
    pub fn decode_all(family: Family, bytes: &[u8]) -> Result<Self, DecodeError> {
        let (header, length) = Self::decode(family, bytes)?;
        if length != bytes.len() {
            return Err(DecodeError {
                what: "bytes after the header",
                at: length,
            });
        }
        Ok(header)
    }

    /// The height that the header itself claims; Bitcoin's do not.
    pub fn claimed_height(&self) -> Option<u32> {
        match self.proof {
            Proof::Work { .. } => None,
            Proof::Signed { height } => Some(height),
        }
    }

    /// The same as Bitcoin's own type; `None` on Elements.
    pub fn to_bitcoin(&self) -> Option<bitcoin::block::Header> {
        match self.proof {
            Proof::Work { bits, nonce } => Some(bitcoin::block::Header {
                version: self.version,
                prev_blockhash: self.prev_blockhash,
                merkle_root: self.merkle_root,
                time: self.time,
                bits,
                nonce,
            }),
            Proof::Signed { .. } => None,
        }
    }
}

impl From<bitcoin::block::Header> for Header {
    fn from(header: bitcoin::block::Header) -> Self {
        Self {
            hash: header.block_hash(),
            version: header.version,
            prev_blockhash: header.prev_blockhash,
            merkle_root: header.merkle_root,
            time: header.time,
            proof: Proof::Work {
                bits: header.bits,
                nonce: header.nonce,
            },
        }
    }
}

impl PartialEq<bitcoin::block::Header> for Header {
    fn eq(&self, other: &bitcoin::block::Header) -> bool {
        self.to_bitcoin().as_ref() == Some(other)
    }
}

/// What both families begin with.
struct Start {
    version: u32,
    prev_blockhash: BlockHash,
    merkle_root: TxMerkleNode,
    time: u32,
}

impl Start {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "the header ends early";
        Ok(Self {
            version: reader.u32(WHAT)?,
            prev_blockhash: BlockHash::from_byte_array(*reader.array(WHAT)?),
            merkle_root: TxMerkleNode::from_byte_array(*reader.array(WHAT)?),
            time: reader.u32(WHAT)?,
        })
    }

    fn finish(self, hash: [u8; 32], version: u32, proof: Proof) -> Header {
        Header {
            hash: BlockHash::from_byte_array(hash),
            version: Version::from_consensus(version.cast_signed()),
            prev_blockhash: self.prev_blockhash,
            merkle_root: self.merkle_root,
            time: self.time,
            proof,
        }
    }
}

fn decode_bitcoin(bytes: &[u8]) -> Result<(Header, usize), DecodeError> {
    const WHAT: &str = "the header ends early";
    let mut reader = Reader::new(bytes);
    let start = Start::read(&mut reader)?;
    let proof = Proof::Work {
        bits: CompactTarget::from_consensus(reader.u32(WHAT)?),
        nonce: reader.u32(WHAT)?,
    };
    let hash = sha256d(&[&bytes[..BITCOIN_HEADER_LEN]]);
    let version = start.version;
    Ok((start.finish(hash, version, proof), BITCOIN_HEADER_LEN))
}

fn decode_elements(bytes: &[u8]) -> Result<(Header, usize), DecodeError> {
    let mut reader = Reader::new(bytes);
    let start = Start::read(&mut reader)?;
    let height = reader.u32("the header ends early")?;
    let is_dynafed = start.version & DYNAFED_BIT != 0;
    let hashed = elements::skip_ext(&mut reader, is_dynafed)?;
    let hash = sha256d(&[&bytes[..hashed]]);
    let version = start.version & !DYNAFED_BIT;
    Ok((
        start.finish(hash, version, Proof::Signed { height }),
        reader.at(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::consensus::serialize;

    #[test]
    fn bitcoins_header_is_the_librarys() {
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
        let bytes = serialize(&genesis);
        let (header, length) = Header::decode(Family::Bitcoin, &bytes).expect("a header");
        assert_eq!(length, BITCOIN_HEADER_LEN);
        assert_eq!(header, Header::from(genesis.header));
        assert_eq!(header.hash, genesis.block_hash());
        assert_eq!(header.to_bitcoin(), Some(genesis.header));
        assert!(Header::decode(Family::Bitcoin, &bytes[..79]).is_err());
        assert!(Header::decode_all(Family::Bitcoin, &bytes[..81]).is_err());
    }
}
