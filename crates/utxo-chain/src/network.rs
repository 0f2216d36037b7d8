//! Which chain: what a network looks like from outside.
//!
//! The networks of Bitcoin and the two public ones of Liquid are known by name. Every other chain of Elements is known by
//! its genesis block: [`ElementsChain::of_genesis`] reads from it what such a chain does not have in common with others.

use std::fmt;
use std::sync::LazyLock;

use bitcoin::hashes::Hash;
use bitcoin::hex::FromHex;
use bitcoin::{BlockHash, Script};
pub use elements::AddressParams;

use crate::bytes::DecodeError;
use crate::elements::{AssetId, issued_native_asset};
use crate::header::Header;
use crate::tx::Tx;
use crate::walk::{BlockVisitor, Coin, TxPlace, walk_block};

/// The two ways of spelling blocks and transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Family {
    /// Bitcoin and its test networks.
    #[default]
    Bitcoin,
    /// Elements: Liquid, its test networks, chains of one's own.
    Elements,
}

/// A chain of one of the families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Bitcoin or a test network of it.
    Bitcoin(bitcoin::Network),
    /// A chain of Elements. There are a handful in a process, each for its whole life.
    Elements(&'static ElementsChain),
}

impl From<bitcoin::Network> for Network {
    fn from(network: bitcoin::Network) -> Self {
        Self::Bitcoin(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Network {
    /// Its family.
    pub fn family(&self) -> Family {
        match self {
            Self::Bitcoin(_) => Family::Bitcoin,
            Self::Elements(_) => Family::Elements,
        }
    }

    /// The chain of Elements, if it is one.
    pub fn elements(&self) -> Option<&'static ElementsChain> {
        match self {
            Self::Bitcoin(_) => None,
            Self::Elements(chain) => Some(chain),
        }
    }

    /// The network of Bitcoin, if it is one.
    pub fn bitcoin(&self) -> Option<bitcoin::Network> {
        match self {
            Self::Bitcoin(network) => Some(*network),
            Self::Elements(_) => None,
        }
    }

    /// The name used in Cairn's configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bitcoin(bitcoin::Network::Bitcoin) => "mainnet",
            Self::Bitcoin(bitcoin::Network::Testnet) => "testnet",
            Self::Bitcoin(bitcoin::Network::Testnet4) => "testnet4",
            Self::Bitcoin(bitcoin::Network::Signet) => "signet",
            Self::Bitcoin(_) => "regtest",
            Self::Elements(chain) => chain.kind.name(),
        }
    }

    /// Hash of block 0.
    pub fn genesis_hash(&self) -> BlockHash {
        match self {
            Self::Bitcoin(network) => bitcoin::constants::genesis_block(*network).block_hash(),
            Self::Elements(chain) => chain.genesis,
        }
    }

    /// What bech32 addresses begin with, before the `1`.
    pub fn bech32_prefix(&self) -> String {
        match self {
            Self::Bitcoin(bitcoin::Network::Bitcoin) => "bc".to_owned(),
            Self::Bitcoin(bitcoin::Network::Regtest) => "bcrt".to_owned(),
            Self::Bitcoin(_) => "tb".to_owned(),
            Self::Elements(chain) => chain.addresses.bech_hrp.to_string(),
        }
    }

    /// Whether deep reorganisations are a matter for the operator: the chains that are worth money.
    pub fn is_main(&self) -> bool {
        match self {
            Self::Bitcoin(network) => *network == bitcoin::Network::Bitcoin,
            Self::Elements(chain) => chain.kind == ElementsKind::Liquid,
        }
    }
}

/// The chains of Elements by the name in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementsKind {
    /// The Liquid network.
    Liquid,
    /// Its public test network.
    LiquidTestnet,
    /// Any other: a test chain, a chain of one's own.
    Regtest,
}

impl ElementsKind {
    /// All of them.
    pub const ALL: [ElementsKind; 3] = [Self::Liquid, Self::LiquidTestnet, Self::Regtest];

    /// The name used in Cairn's configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Liquid => "liquid",
            Self::LiquidTestnet => "liquidtestnet",
            Self::Regtest => "elementsregtest",
        }
    }

    /// The name a node gives in `getblockchaininfo`; `None`: whatever its operator chose.
    pub fn node_name(self) -> Option<&'static str> {
        match self {
            Self::Liquid => Some("liquidv1"),
            Self::LiquidTestnet => Some("liquidtestnet"),
            Self::Regtest => None,
        }
    }

    /// The folder of the chain below the node's data folder.
    pub fn node_folder(self) -> &'static str {
        match self {
            Self::Liquid => "liquidv1",
            Self::LiquidTestnet => "liquidtestnet",
            Self::Regtest => "elementsregtest",
        }
    }

    /// The four bytes before each record of a block file, unless the node was told others.
    pub fn magic(self) -> [u8; 4] {
        match self {
            Self::Liquid => [0xfa, 0xbf, 0xb5, 0xda],
            Self::LiquidTestnet => [0x41, 0x0e, 0xdd, 0x62],
            Self::Regtest => [0x53, 0x19, 0xf2, 0x0e],
        }
    }

    /// The parent chain, unless configured otherwise.
    pub fn parent(self) -> bitcoin::Network {
        match self {
            Self::Liquid => bitcoin::Network::Bitcoin,
            Self::LiquidTestnet => bitcoin::Network::Testnet,
            Self::Regtest => bitcoin::Network::Regtest,
        }
    }

    /// How addresses are written, unless configured otherwise.
    pub fn addresses(self) -> AddressParams {
        match self {
            Self::Liquid => AddressParams::LIQUID,
            Self::LiquidTestnet => AddressParams::LIQUID_TESTNET,
            Self::Regtest => AddressParams::ELEMENTS,
        }
    }

    /// Hash of block 0, where all chains of this name have the same.
    pub fn genesis(self) -> Option<BlockHash> {
        let text = match self {
            Self::Liquid => "1466275836220db2944ca059a3a10ef6fd2ea684b0688d2c379296888a206003",
            Self::LiquidTestnet => {
                "a771da8e52ee6ad581ed1e9a99825e5b3b7992225534eaa2ae23244fe26ab1c1"
            }
            Self::Regtest => return None,
        };
        let mut bytes = <[u8; 32]>::from_hex(text).expect("64 hexadecimal digits");
        bytes.reverse();
        Some(BlockHash::from_byte_array(bytes))
    }
}

/// A chain of Elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementsChain {
    /// Which.
    pub kind: ElementsKind,
    /// Hash of block 0.
    pub genesis: BlockHash,
    /// The asset that fees are paid in, and that coins of the parent chain become.
    pub native_asset: AssetId,
    /// The parent chain.
    pub parent: bitcoin::Network,
    /// How addresses are written.
    pub addresses: AddressParams,
}

/// Why a block cannot be the first of a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// It does not parse.
    #[error("the genesis block does not parse: {0}")]
    Decode(#[from] DecodeError),
    /// It is not the first.
    #[error(
        "block {0} is not a genesis block of an Elements chain: it has a block before it, or another height than 0"
    )]
    NotFirst(BlockHash),
    /// It names neither a native asset nor the commitment that one follows from.
    #[error(
        "the genesis block {0} tells no native asset: its coinbase holds no commitment of 32 bytes"
    )]
    NoAsset(BlockHash),
}

impl ElementsChain {
    /// One of the two public chains; `None` for all others, which only their genesis block tells.
    pub fn known(kind: ElementsKind) -> Option<&'static Self> {
        static LIQUID: LazyLock<ElementsChain> =
            LazyLock::new(|| public(ElementsKind::Liquid, AssetId::LIQUID_BTC));
        static TESTNET: LazyLock<ElementsChain> =
            LazyLock::new(|| public(ElementsKind::LiquidTestnet, AssetId::LIQUIDTESTNET_BTC));
        match kind {
            ElementsKind::Liquid => Some(&LIQUID),
            ElementsKind::LiquidTestnet => Some(&TESTNET),
            ElementsKind::Regtest => None,
        }
    }

    /// The chain that begins with a serialized block.
    ///
    /// The native asset is that of the free coins in the block, or else the one that follows from the commitment in its
    /// coinbase and the genesis block of `parent`.
    ///
    /// # Errors
    /// [`GenesisError`] for anything but a first block.
    pub fn of_genesis(
        kind: ElementsKind,
        block: &[u8],
        parent: bitcoin::Network,
        addresses: AddressParams,
    ) -> Result<Self, GenesisError> {
        let (header, _) = Header::decode(Family::Elements, block)?;
        let is_first =
            header.prev_blockhash == BlockHash::all_zeros() && header.claimed_height() == Some(0);
        if !is_first {
            return Err(GenesisError::NotFirst(header.hash));
        }
        let parent_genesis = bitcoin::constants::genesis_block(parent).block_hash();
        let native_asset =
            native_asset(block, parent_genesis)?.ok_or(GenesisError::NoAsset(header.hash))?;
        Ok(Self {
            kind,
            genesis: header.hash,
            native_asset,
            parent,
            addresses,
        })
    }

    /// Keeps the chain for the rest of the process, so that it can be passed around like a number.
    pub fn keep(self) -> &'static Self {
        Box::leak(Box::new(self))
    }

    /// The genesis block of the parent chain, which peg-outs name.
    pub fn parent_genesis(&self) -> BlockHash {
        bitcoin::constants::genesis_block(self.parent).block_hash()
    }
}

fn public(kind: ElementsKind, native_asset: AssetId) -> ElementsChain {
    ElementsChain {
        kind,
        genesis: kind.genesis().expect("a public chain has a known genesis"),
        native_asset,
        parent: kind.parent(),
        addresses: kind.addresses(),
    }
}

/// The native asset that a genesis block tells.
fn native_asset(block: &[u8], parent_genesis: BlockHash) -> Result<Option<AssetId>, DecodeError> {
    #[derive(Default)]
    struct Lengths(Vec<usize>);
    impl BlockVisitor for Lengths {
        fn spend(&mut self, _vin: u32, _outpoint: [u8; 36]) {}
        fn tx(&mut self, tx: TxPlace) {
            self.0.push(tx.length);
        }
    }
    let mut lengths = Lengths::default();
    let place = walk_block(Family::Elements, block, &mut lengths)?;
    let mut at = place.first_tx;
    let mut commitment = None;
    for (position, length) in lengths.0.into_iter().enumerate() {
        let raw = block.get(at..at + length).unwrap_or_default();
        let tx = Tx::decode_all(Family::Elements, raw)?.tx;
        if position == 0 {
            let script = tx.input.first().map(|input| input.script_sig.as_script());
            commitment = script.and_then(pushed_hash);
        } else if let Some(asset) = tx.outputs().find_map(|output| match output.coin {
            Coin::Confidential(coin) => coin.explicit_asset(),
            Coin::Sat(_) => None,
        }) {
            return Ok(Some(asset));
        }
        at += length;
    }
    Ok(commitment.map(|hash| issued_native_asset(hash, parent_genesis.to_byte_array())))
}

fn pushed_hash(script: &Script) -> Option<[u8; 32]> {
    let first = script.instructions().next()?.ok()?;
    first.push_bytes()?.as_bytes().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use elements::encode::serialize;
    use elements::genesis::{NetworkParams, genesis_block};

    #[test]
    fn public_chains_follow_from_their_genesis_blocks() {
        for (params, kind) in [
            (NetworkParams::liquidv1(), ElementsKind::Liquid),
            (NetworkParams::liquidtestnet(), ElementsKind::LiquidTestnet),
        ] {
            let block = serialize(&genesis_block(&params));
            let chain = ElementsChain::of_genesis(kind, &block, kind.parent(), kind.addresses())
                .expect("a genesis block");
            assert_eq!(Some(&chain), ElementsChain::known(kind), "{}", kind.name());
        }
    }

    #[test]
    fn another_block_is_no_genesis() {
        let mut block = genesis_block(&NetworkParams::liquidv1());
        block.header.height = 1;
        let kind = ElementsKind::Regtest;
        let made =
            |block: &[u8]| ElementsChain::of_genesis(kind, block, kind.parent(), kind.addresses());
        let bytes = serialize(&block);
        assert!(matches!(made(&bytes), Err(GenesisError::NotFirst(_))));
        assert!(matches!(made(&bytes[..70]), Err(GenesisError::Decode(_))));
        block.header.height = 0;
        block.txdata[0].input[0].script_sig = elements::Script::new();
        let bytes = serialize(&block);
        assert!(matches!(made(&bytes), Err(GenesisError::NoAsset(_))));
    }
}
