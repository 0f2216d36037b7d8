//! What a client calls a thing it asks about: notifications repeat it letter by letter.

use bitcoin::Txid;
use bitcoin::hashes::Hash;
use bitcoin::hex::FromHex;
use cairn_utxo_chain::address::script_of;
use cairn_utxo_index::Network;
use cairn_utxo_index::ScriptHash;

use crate::rpc::{Json, RpcError};

/// Bytes of the longest script taken: what fits into a block.
const SCRIPT_BYTES_MAX: usize = 4_000_000;

/// How a script is named in a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptStyle {
    /// `blockchain.scripthash.*`: by its hash.
    Hash,
    /// `blockchain.scriptpubkey.*`, from 1.7: by itself. Answers are objects.
    Script,
    /// `blockchain.address.*`, an addition of this server: by an address.
    Address,
}

impl ScriptStyle {
    /// The name of the argument.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Hash => "scripthash",
            Self::Script => "scriptpubkey",
            Self::Address => "address",
        }
    }

    /// The method of notifications.
    fn notification(self) -> &'static str {
        match self {
            Self::Hash => "blockchain.scripthash.subscribe",
            Self::Script => "blockchain.scriptpubkey.subscribe",
            Self::Address => "blockchain.address.subscribe",
        }
    }

    /// The script that a text names.
    pub(crate) fn read(self, text: &str, network: Network) -> Result<ScriptHash, RpcError> {
        match self {
            Self::Hash => {
                let mut bytes = <[u8; 32]>::from_hex(text)
                    .map_err(|_| RpcError::bad("a script hash has 64 hex digits"))?;
                bytes.reverse();
                Ok(ScriptHash(bytes))
            }
            Self::Script if text.len() > SCRIPT_BYTES_MAX * 2 => {
                Err(RpcError::bad("a script has at most 4000000 bytes"))
            }
            Self::Script => Vec::<u8>::from_hex(text)
                .map(|script| ScriptHash::of(&script))
                .map_err(|_| RpcError::bad("a script is written in hex digits")),
            Self::Address => script_of(text, network)
                .map(|script| ScriptHash::of(script.as_bytes()))
                .map_err(|_| RpcError::bad(format!("not an address of {network}"))),
        }
    }

    /// What to call the script in notifications.
    pub(crate) fn label(self, text: &str) -> ScriptLabel {
        let is_canonical = self == Self::Hash
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        ScriptLabel {
            style: self,
            // A hash in lower case is the key itself, written backwards: nothing to keep.
            text: (!is_canonical).then(|| text.into()),
        }
    }
}

/// What a session calls a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptLabel {
    style: ScriptStyle,
    text: Option<Box<str>>,
}

impl ScriptLabel {
    /// The method of its notifications.
    pub(crate) fn method(&self) -> &'static str {
        self.style.notification()
    }

    /// Writes the name.
    pub(crate) fn write(&self, json: &mut Json, key: &ScriptHash) {
        match &self.text {
            Some(text) => json.value(&**text),
            None => json.hash(key.0),
        };
    }
}

/// What a session calls a transaction, alone or of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutpointLabel(Option<Box<str>>);

impl OutpointLabel {
    /// A transaction's id as the client wrote it.
    pub(crate) fn new(text: &str, txid: &Txid) -> Self {
        Self((text != txid.to_string()).then(|| text.into()))
    }

    /// Writes the id.
    pub(crate) fn write(&self, json: &mut Json, txid: &Txid) {
        match &self.0 {
            Some(text) => json.value(&**text),
            None => json.hash(txid.to_byte_array()),
        };
    }
}

/// A transaction's id.
pub(crate) fn read_txid(text: &str) -> Result<Txid, RpcError> {
    text.parse()
        .map_err(|_| RpcError::bad("a transaction hash has 64 hex digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: Network = Network::Bitcoin(bitcoin::Network::Bitcoin);
    const TEST: Network = Network::Bitcoin(bitcoin::Network::Regtest);

    #[test]
    fn one_script_by_all_its_names() {
        // The script of the genesis coinbase's first famous address.
        let hash = "8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161";
        let script = "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac";
        let address = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa";
        let expected = ScriptStyle::Hash.read(hash, MAIN).expect("a hash");
        assert_eq!(ScriptStyle::Script.read(script, MAIN), Ok(expected));
        assert_eq!(ScriptStyle::Address.read(address, MAIN), Ok(expected));
        assert_eq!(
            ScriptStyle::Hash.read(&hash.to_uppercase(), MAIN),
            Ok(expected)
        );
        assert!(ScriptStyle::Address.read(address, TEST).is_err());
        for (style, text) in [
            (ScriptStyle::Hash, ""),
            (ScriptStyle::Hash, &hash[1..]),
            (ScriptStyle::Hash, &format!("{hash}00")),
            (ScriptStyle::Hash, &hash.replace('8', "g")),
            (ScriptStyle::Script, "0"),
            (ScriptStyle::Script, "xx"),
            (ScriptStyle::Address, "1A1z"),
        ] {
            assert_eq!(style.read(text, MAIN).expect_err(text).code, 1);
        }
        let mut json = Json::new();
        for label in [
            ScriptStyle::Hash.label(hash),
            ScriptStyle::Hash.label(&hash.to_uppercase()),
            ScriptStyle::Address.label(address),
        ] {
            label.write(json.raw(" "), &expected);
        }
        let shown = format!(" \"{hash}\" \"{}\" \"{address}\"", hash.to_uppercase());
        assert_eq!(json.as_bytes(), shown.as_bytes());
    }
}
