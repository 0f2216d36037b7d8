//! The keys that only a chain of kind `liquid` has.

use bitcoin::bech32::Hrp;
use cairn_utxo_chain::network::{AddressParams, ElementsKind};

use crate::model::{AssetRegistrySource, ElementsConfig};
use crate::network::{NETWORKS, parse_network};
use crate::problem::ProblemKind;
use crate::reader::{At, Reader};

/// Reads the keys. Problems are left in the reader.
pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>) -> ElementsConfig {
    let kind = read_kind(reader, at);
    ElementsConfig {
        kind,
        parent: read_parent(reader, at).unwrap_or(kind.parent()),
        addresses: read_prefixes(reader, at).unwrap_or(kind.addresses()),
        registry: read_registry(reader, at),
    }
}

fn read_kind(reader: &mut Reader<'_>, at: &At<'_>) -> ElementsKind {
    let name = reader.text(at, "network");
    let found = ElementsKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name);
    if found.is_none() && at.raw.entries.contains_key("network") {
        let names = ElementsKind::ALL.map(ElementsKind::name).join(", ");
        let message =
            format!("\"{name}\" is not a network of kind liquid; expected one of {names}");
        reader.problem(at, "network", ProblemKind::InvalidValue, message);
    }
    found.unwrap_or(ElementsKind::Regtest)
}

fn read_parent(reader: &mut Reader<'_>, at: &At<'_>) -> Option<bitcoin::Network> {
    let name = reader.text(at, "parent_network");
    if name.is_empty() {
        return None;
    }
    let network = parse_network(&name);
    if network.is_none() {
        let names = NETWORKS.map(|(_, name)| name).join(", ");
        let message = format!("\"{name}\" is not a network; expected one of {names}");
        reader.problem(at, "parent_network", ProblemKind::InvalidValue, message);
    }
    network
}

fn read_prefixes(reader: &mut Reader<'_>, at: &At<'_>) -> Option<AddressParams> {
    let text = reader.text(at, "address_prefixes");
    if text.is_empty() {
        return None;
    }
    let prefixes = parse_prefixes(&text);
    if prefixes.is_none() {
        let message = format!(
            "\"{text}\" is not three numbers up to 255 and two prefixes, as in \"235 75 4 ert el\""
        );
        reader.problem(at, "address_prefixes", ProblemKind::InvalidValue, message);
    }
    prefixes
}

fn parse_prefixes(text: &str) -> Option<AddressParams> {
    let mut words = text.split_ascii_whitespace();
    let mut byte = || words.next()?.parse::<u8>().ok();
    let (p2pkh_prefix, p2sh_prefix, blinded_prefix) = (byte()?, byte()?, byte()?);
    let mut prefix = || Hrp::parse(words.next()?).ok();
    let (bech_hrp, blech_hrp) = (prefix()?, prefix()?);
    words.next().is_none().then_some(AddressParams {
        p2pkh_prefix,
        p2sh_prefix,
        blinded_prefix,
        bech_hrp,
        blech_hrp,
    })
}

fn read_registry(reader: &mut Reader<'_>, at: &At<'_>) -> Option<AssetRegistrySource> {
    let text = reader.text(at, "asset_registry");
    if text.is_empty() {
        return None;
    }
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    Some(match is_url {
        true => AssetRegistrySource::Url(text),
        false => AssetRegistrySource::Folder(text.into()),
    })
}
