//! What a network looks like from outside: magic, names, folders, how blocks are proven.
//!
//! The magic is the four bytes before every record of a block file. They are given in file order.

use bitcoin::Target;
use bitcoin::consensus::Encodable;
use bitcoin::hashes::{Hash, sha256d};
use cairn_utxo_chain::Network;
use cairn_utxo_chain::network::ElementsKind;

/// The networks of Bitcoin that Cairn knows by name.
pub const NETWORKS: [bitcoin::Network; 5] = [
    bitcoin::Network::Bitcoin,
    bitcoin::Network::Testnet,
    bitcoin::Network::Testnet4,
    bitcoin::Network::Signet,
    bitcoin::Network::Regtest,
];

/// Magic of a network (of signet: with the default challenge).
pub fn magic(network: impl Into<Network>) -> [u8; 4] {
    match network.into() {
        Network::Bitcoin(network) => network.magic().to_bytes(),
        Network::Elements(chain) => chain.kind.magic(),
    }
}

/// Magic of a signet with its own challenge script: the first four bytes of the double SHA-256 of the script with its
/// length before it.
pub fn signet_magic(challenge: &[u8]) -> [u8; 4] {
    let mut bytes = Vec::with_capacity(challenge.len() + 9);
    challenge
        .to_vec()
        .consensus_encode(&mut bytes)
        .expect("writing to memory cannot fail, a Vec has no limit");
    let hash = sha256d::Hash::hash(&bytes).to_byte_array();
    [hash[0], hash[1], hash[2], hash[3]]
}

/// The easiest target a header of this network may claim; `None` where blocks are signed and not worked for.
pub fn pow_limit(network: impl Into<Network>) -> Option<Target> {
    match network.into() {
        Network::Bitcoin(network) => Some(network.params().max_attainable_target),
        Network::Elements(_) => None,
    }
}

/// The name a node gives in `getblockchaininfo`; `None` where its operator chose it.
pub fn core_name(network: impl Into<Network>) -> Option<&'static str> {
    match network.into() {
        Network::Bitcoin(network) => Some(network.to_core_arg()),
        Network::Elements(chain) => chain.kind.node_name(),
    }
}

/// The folder of the network below the node's data folder; empty for mainnet.
pub fn node_folder(network: impl Into<Network>) -> &'static str {
    match network.into() {
        Network::Bitcoin(bitcoin::Network::Bitcoin) => "",
        Network::Bitcoin(bitcoin::Network::Testnet) => "testnet3",
        Network::Bitcoin(bitcoin::Network::Testnet4) => "testnet4",
        Network::Bitcoin(bitcoin::Network::Signet) => "signet",
        Network::Bitcoin(_) => "regtest",
        Network::Elements(chain) => chain.kind.node_folder(),
    }
}

/// The network (or Liquid network) whose block files begin with these bytes, by name.
pub(crate) fn name_of_magic(bytes: [u8; 4]) -> Option<&'static str> {
    // Regtest and Liquid share a magic, so one name would be a guess.
    if bytes == [0xfa, 0xbf, 0xb5, 0xda] {
        return Some("regtest or Liquid");
    }
    let kind = ElementsKind::ALL
        .into_iter()
        .find(|kind| kind.magic() == bytes);
    kind.map(ElementsKind::name).or_else(|| {
        let network = NETWORKS
            .into_iter()
            .find(|network| magic(*network) == bytes);
        network.map(|network| Network::Bitcoin(network).name())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hex::FromHex;

    #[test]
    fn magics_are_those_in_the_files() {
        use bitcoin::Network;
        let expected: [(Network, [u8; 4]); 5] = [
            (Network::Bitcoin, [0xf9, 0xbe, 0xb4, 0xd9]),
            (Network::Testnet, [0x0b, 0x11, 0x09, 0x07]),
            (Network::Testnet4, [0x1c, 0x16, 0x3f, 0x28]),
            (Network::Signet, [0x0a, 0x03, 0xcf, 0x40]),
            (Network::Regtest, [0xfa, 0xbf, 0xb5, 0xda]),
        ];
        for (network, bytes) in expected {
            assert_eq!(magic(network), bytes, "{network}");
        }
    }

    #[test]
    fn a_signet_challenge_gives_its_magic() {
        let challenge = Vec::from_hex(
            "512103b3b3721560a0d98a211a4bf38b910c4a0c97f435861e65e136c9993cd99fb34151ae",
        )
        .expect("the vector is hex");
        assert_eq!(signet_magic(&challenge), [0x8d, 0xe4, 0x5d, 0xa0]);
    }

    #[test]
    fn core_names_are_those_of_getblockchaininfo() {
        let names: Vec<_> = NETWORKS
            .iter()
            .filter_map(|network| core_name(*network))
            .collect();
        assert_eq!(names, ["main", "test", "testnet4", "signet", "regtest"]);
    }
}
