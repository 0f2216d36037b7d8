//! Names of the Bitcoin networks in the configuration.

use bitcoin::Network;

/// Every network with its name.
pub(crate) const NETWORKS: [(Network, &str); 5] = [
    (Network::Bitcoin, "mainnet"),
    (Network::Testnet, "testnet"),
    (Network::Testnet4, "testnet4"),
    (Network::Signet, "signet"),
    (Network::Regtest, "regtest"),
];

/// The network of a name in the configuration.
pub fn parse_network(name: &str) -> Option<Network> {
    NETWORKS
        .iter()
        .find(|(_, known)| *known == name)
        .map(|(network, _)| *network)
}

/// The name of a network in the configuration.
pub fn network_name(network: Network) -> &'static str {
    NETWORKS
        .iter()
        .find(|(known, _)| *known == network)
        .map_or("unknown", |(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (network, name) in NETWORKS {
            assert_eq!(parse_network(name), Some(network));
            assert_eq!(network_name(network), name);
        }
        assert_eq!(parse_network("bitcoin"), None);
    }
}
