//! Names and paths of one chain: the only place that spells a path of its pages.

use std::fmt;
use std::str::FromStr;

use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::{BlockHash, OutPoint, Script, ScriptBuf, Txid};
use cairn_utxo_chain::address::{AddressError, address_of, script_of};
use cairn_utxo_index::{Network, ScriptHash};

use crate::error::PageError;
use crate::present::{Hash, ScriptKind};

/// Inputs, and outputs, on one page of a transaction.
pub(super) const COINS_PER_PAGE: usize = 100;

/// What is known of a chain without its index.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    /// The chain id.
    pub(crate) id: String,
    /// Which rules and address forms.
    pub(crate) network: Network,
    /// Where the Esplora API of the chain is served, without a slash at the end: `/bitcoin-regtest/api`.
    pub(crate) api_base: String,
}

/// An address of the chain, as it is printed, and its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    text: String,
    script: ScriptBuf,
}

impl Address {
    /// The script it stands for.
    pub(crate) fn script_pubkey(&self) -> ScriptBuf {
        self.script.clone()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Chain {
    /// Name of the network for the reader.
    pub(crate) fn network_name(&self) -> &'static str {
        self.network.name()
    }

    /// Path of the newest blocks.
    pub(crate) fn blocks_href(&self) -> String {
        format!("/{}/blocks", self.id)
    }

    /// Path of the blocks from a height downward.
    pub(crate) fn blocks_from_href(&self, height: u32) -> String {
        format!("/{}/blocks/{height}", self.id)
    }

    /// Path of the unconfirmed transactions.
    pub(crate) fn mempool_href(&self) -> String {
        format!("/{}/mempool", self.id)
    }

    /// Path of the form that sends a transaction.
    pub(crate) fn broadcast_href(&self) -> String {
        format!("/{}/broadcast", self.id)
    }

    /// Path of a block.
    pub(crate) fn block_href(&self, hash: &BlockHash) -> String {
        format!("/{}/block/{hash}", self.id)
    }

    /// Path of a transaction.
    pub(crate) fn tx_href(&self, txid: &Txid) -> String {
        format!("/{}/tx/{txid}", self.id)
    }

    /// Path of an output, on the page of the transaction that holds it.
    pub(crate) fn output_href(&self, outpoint: &OutPoint) -> String {
        self.coin_href(&outpoint.txid, outpoint.vout, "outputs", "out")
    }

    /// Path of an input, on the page of the transaction that holds it.
    pub(crate) fn input_href(&self, txid: &Txid, vin: u32) -> String {
        self.coin_href(txid, vin, "inputs", "in")
    }

    fn coin_href(&self, txid: &Txid, index: u32, list: &str, anchor: &str) -> String {
        let tx = self.tx_href(txid);
        match index as usize / COINS_PER_PAGE {
            0 => format!("{tx}#{anchor}-{index}"),
            page => format!("{tx}?{list}={}#{anchor}-{index}", page + 1),
        }
    }

    /// Path of an address.
    pub(crate) fn address_href(&self, address: &Address) -> String {
        format!("/{}/address/{address}", self.id)
    }

    /// Path of a script.
    pub(crate) fn scripthash_href(&self, hash: &ScriptHash) -> String {
        format!("/{}/scripthash/{hash}", self.id)
    }

    /// The address of a script, if its form has one.
    pub(crate) fn address(&self, script: &Script) -> Option<Address> {
        Some(Address {
            text: address_of(script, self.network)?,
            script: script.to_owned(),
        })
    }

    /// Reads an address and checks that it belongs to this chain.
    pub(crate) fn parse_address(&self, text: &str) -> Result<Address, PageError> {
        let script = script_of(text, self.network).map_err(|error| {
            let network = self.network_name();
            PageError::BadRequest(match error {
                AddressError::Invalid => {
                    format!("\u{201c}{text}\u{201d} is not a Bitcoin address.")
                }
                AddressError::OtherNetwork => {
                    format!("\u{201c}{text}\u{201d} is an address, but not one of {network}.")
                }
            })
        })?;
        // As it is printed: a confidential address is shown as the plain one of the same script.
        let text = address_of(&script, self.network).unwrap_or_else(|| text.to_owned());
        Ok(Address { text, script })
    }

    /// How a script is named where it appears.
    pub(crate) fn owner(&self, script: &Script) -> Owner {
        let kind = ScriptKind::of(script);
        let address = self.address(script);
        let href = match &address {
            Some(address) => Some(self.address_href(address)),
            None if kind.unspendable => None,
            None => Some(self.scripthash_href(&ScriptHash::of(script.as_bytes()))),
        };
        Owner {
            href,
            address: address.map(Hash::new),
            kind,
        }
    }
}

/// A script as it is named in lists: by its address, or else by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Page of the script, if the index follows it.
    pub(crate) href: Option<String>,
    /// The address, if the script has one.
    pub(crate) address: Option<Hash>,
    /// What kind of script.
    pub(crate) kind: ScriptKind,
}

/// Reads 64 hex digits as a script hash, in the order SHA-256 outputs it.
pub(super) fn parse_script_hash(text: &str) -> Option<ScriptHash> {
    sha256::Hash::from_str(text)
        .ok()
        .map(|hash| ScriptHash(hash.to_byte_array()))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{regtest, script};
    use super::*;

    #[test]
    fn script_hashes_are_read_in_forward_order() {
        let hash =
            ScriptHash::of(script("76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac").as_bytes());
        let hex = "6191c3b590bfcfa0475e877c302da1e323497acf3b42c08d8fa28e364edf018b";
        assert_eq!(parse_script_hash(hex), Some(hash));
        assert_eq!(parse_script_hash(&hex.to_uppercase()), Some(hash));
        assert!(parse_script_hash(&hex[2..]).is_none());
    }

    #[test]
    fn owners_link_to_what_the_index_follows() {
        let chain = regtest();
        let paid = chain.owner(&script("0014000102030405060708090a0b0c0d0e0f10111213"));
        assert!(paid.address.is_some());
        assert!(paid.href.is_some_and(|h| {
            h.starts_with("/bitcoin-regtest/address/bcrt1qqqqsyqcyq5rqwzqfpg9scrgwpugpzys")
        }));
        let bare = chain.owner(&script("51"));
        assert_eq!(bare.address, None);
        assert!(
            bare.href
                .is_some_and(|h| h.starts_with("/bitcoin-regtest/scripthash/"))
        );
        assert_eq!(chain.owner(&script("6a0141")).href, None);
    }

    #[test]
    fn addresses_of_other_networks_are_told_apart() {
        let chain = regtest();
        let error = |text: &str| {
            chain
                .parse_address(text)
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        assert!(error("nonsense").contains("is not a Bitcoin address"));
        assert!(error("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4").contains("not one of regtest"));
        assert_eq!(error("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"), "");
        assert_eq!(error("BCRT1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KYGT080"), "");
    }

    #[test]
    fn coins_beyond_the_first_page_are_linked_with_their_page() {
        let chain = regtest();
        let txid = Txid::from_byte_array([0x11; 32]);
        let tx = format!("/bitcoin-regtest/tx/{txid}");
        assert_eq!(chain.input_href(&txid, 99), format!("{tx}#in-99"));
        assert_eq!(
            chain.input_href(&txid, 100),
            format!("{tx}?inputs=2#in-100")
        );
        let outpoint = OutPoint {
            txid,
            vout: u32::MAX,
        };
        assert_eq!(
            chain.output_href(&outpoint),
            format!("{tx}?outputs=42949673#out-4294967295")
        );
    }
}
