//! Scripts as addresses and back, in both families.

use bitcoin::{Script, ScriptBuf};

use crate::network::Network;

/// Why a text is not an address of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is no address at all.
    #[error("not an address")]
    Invalid,
    /// It is one of another network.
    #[error("an address of another network")]
    OtherNetwork,
}

/// The address of a script as it is printed, on Elements the unconfidential one; `None` for a script that has none.
pub fn address_of(script: &Script, network: Network) -> Option<String> {
    match network {
        Network::Bitcoin(network) => bitcoin::Address::from_script(script, network)
            .ok()
            .map(|address| address.to_string()),
        Network::Elements(chain) => {
            let script = elements::Script::from(script.to_bytes());
            elements::Address::from_script(&script, None, &chain.addresses)
                .map(|address| address.to_string())
        }
    }
}

/// The script that an address stands for. Confidential addresses stand for the same script as the plain ones.
///
/// # Errors
/// [`AddressError`] for any other text.
pub fn script_of(text: &str, network: Network) -> Result<ScriptBuf, AddressError> {
    match network {
        Network::Bitcoin(network) => {
            let address = text
                .parse::<bitcoin::Address<bitcoin::address::NetworkUnchecked>>()
                .map_err(|_| AddressError::Invalid)?;
            let address = address
                .require_network(network)
                .map_err(|_| AddressError::OtherNetwork)?;
            Ok(address.script_pubkey())
        }
        Network::Elements(chain) => {
            match elements::Address::parse_with_params(text, &chain.addresses) {
                Ok(address) => Ok(ScriptBuf::from_bytes(address.script_pubkey().into_bytes())),
                Err(_) if is_foreign(text) => Err(AddressError::OtherNetwork),
                Err(_) => Err(AddressError::Invalid),
            }
        }
    }
}

/// The plain form of an address of a chain of Elements, and whether the text was a confidential one.
pub fn unconfidential(text: &str, network: Network) -> Option<(String, bool)> {
    let chain = network.elements()?;
    let address = elements::Address::parse_with_params(text, &chain.addresses).ok()?;
    let is_blinded = address.is_blinded();
    Some((address.to_unconfidential().to_string(), is_blinded))
}

/// Whether a text is an address of some network, if not of the one that it was tried on.
fn is_foreign(text: &str) -> bool {
    text.parse::<elements::Address>().is_ok()
        || text
            .parse::<bitcoin::Address<bitcoin::address::NetworkUnchecked>>()
            .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{ElementsChain, ElementsKind};

    fn liquid() -> Network {
        Network::Elements(ElementsChain::known(ElementsKind::Liquid).expect("known"))
    }

    #[test]
    fn a_confidential_address_means_the_script_of_the_plain_one() {
        let script = elements::Script::from(vec![
            0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
        ]);
        let Network::Elements(chain) = liquid() else {
            panic!("liquid is a chain of Elements")
        };
        let secp = elements::secp256k1_zkp::Secp256k1::new();
        let key = elements::secp256k1_zkp::SecretKey::from_slice(&[7; 32]).expect("a key");
        let blinder = elements::secp256k1_zkp::PublicKey::from_secret_key(&secp, &key);
        let plain =
            elements::Address::from_script(&script, None, &chain.addresses).expect("it has one");
        let blinded = plain.to_confidential(blinder);
        let expected = ScriptBuf::from_bytes(script.to_bytes());
        for text in [
            plain.to_string(),
            blinded.to_string(),
            blinded.to_string().to_uppercase(),
        ] {
            assert_eq!(script_of(&text, liquid()), Ok(expected.clone()), "{text}");
        }
        assert_eq!(address_of(&expected, liquid()), Some(plain.to_string()));
        assert_eq!(
            unconfidential(&blinded.to_string(), liquid()),
            Some((plain.to_string(), true))
        );
    }

    #[test]
    fn other_networks_addresses_are_told_from_no_addresses() {
        let bitcoins = "bc1qqqqsyqcyq5rqwzqfpg9scrgwpugpzysn4v0345";
        assert_eq!(
            script_of(bitcoins, liquid()),
            Err(AddressError::OtherNetwork)
        );
        assert_eq!(
            script_of("ex1nothing", liquid()),
            Err(AddressError::Invalid)
        );
        let main = Network::Bitcoin(bitcoin::Network::Bitcoin);
        assert!(script_of(bitcoins, main).is_ok());
        let regtest = Network::Bitcoin(bitcoin::Network::Regtest);
        assert_eq!(
            script_of(bitcoins, regtest),
            Err(AddressError::OtherNetwork)
        );
    }

    #[test]
    fn addresses_by_network() {
        use bitcoin::Network as Of;
        let address = |hex: &str, network: Of| {
            let script = ScriptBuf::from_hex(hex).expect("hexadecimal");
            address_of(&script, Network::Bitcoin(network))
        };
        for (network, text) in [
            (Of::Bitcoin, "bc1pfeessrawgf"),
            (Of::Testnet, "tb1pfees9rn5nz"),
            (Of::Testnet4, "tb1pfees9rn5nz"),
            (Of::Signet, "tb1pfees9rn5nz"),
            (Of::Regtest, "bcrt1pfeesnyr2tx"),
        ] {
            assert_eq!(address("51024e73", network).as_deref(), Some(text));
        }
        let bare_key = format!("21{}ac", "02".repeat(33));
        assert_eq!(address(&bare_key, Of::Bitcoin), None);
        assert_eq!(address("0015aa", Of::Bitcoin), None);
    }
}
