//! The keys of a chain of kind `antelope`.

use bitcoin::hex::FromHex;

use crate::model::{AbiFallback, AntelopeConfig, JsonProfile, Listen};
use crate::problem::ProblemKind;
use crate::reader::{At, Reader};
use crate::redact::redact_url;
use crate::values::read_choice;

/// Reads the keys. Problems are left in the reader; the result is meaningful only when there are none.
pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>, id: String) -> AntelopeConfig {
    let ship_url = reader.text(at, "ship_url");
    if ship_url.is_empty() && reader.is_blank(at, "ship_url") {
        let message = "the chain has no source: give ship_url, the node's State History address";
        reader.problem(at, "", ProblemKind::Missing, message);
    } else if !is_url(&ship_url, &["ws://", "wss://", "unix:"]) {
        let message =
            format!("\"{ship_url}\" is not ws://HOST:PORT, wss://HOST:PORT or unix:/path");
        reader.problem(at, "ship_url", ProblemKind::InvalidValue, message);
    }
    let chain_url = reader.text(at, "chain_url");
    if !chain_url.is_empty() && !is_url(&chain_url, &["http://", "https://"]) {
        let message = format!(
            "\"{}\" is not http://HOST:PORT or https://HOST:PORT",
            redact_url(&chain_url)
        );
        reader.problem(at, "chain_url", ProblemKind::InvalidValue, message);
    }
    let abi_fallback = read_choice(
        reader,
        at,
        "abi_fallback",
        [
            ("rpc-current", AbiFallback::RpcCurrent),
            ("fail", AbiFallback::Fail),
        ],
    );
    let json_profile = read_choice(
        reader,
        at,
        "json_profile",
        [
            ("wharfkit", JsonProfile::Wharfkit),
            ("nodeos", JsonProfile::Nodeos),
        ],
    );
    AntelopeConfig {
        id,
        ship_url,
        chain_url: (!chain_url.is_empty()).then_some(chain_url),
        abi_fallback,
        irreversible_only: reader.bool(at, "irreversible_only"),
        start_block: reader.signed(at, "start_block"),
        expect_chain_id: read_chain_id(reader, at),
        json_profile,
    }
}

/// A scheme, and something that can be a host after it.
fn is_url(text: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = schemes
        .iter()
        .find_map(|scheme| Some((*scheme, text.strip_prefix(scheme)?)))
    else {
        return false;
    };
    if text.contains(char::is_whitespace) {
        return false;
    }
    if scheme == "unix:" {
        return !rest.is_empty();
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    Listen::parse(host).is_ok() || Listen::parse(&format!("{host}:80")).is_ok()
}

fn read_chain_id(reader: &mut Reader<'_>, at: &At<'_>) -> Option<[u8; 32]> {
    let text = reader.text(at, "expect_chain_id");
    if text.is_empty() {
        return None;
    }
    let id = <[u8; 32]>::from_hex(&text).ok();
    if id.is_none() {
        let message = format!("\"{text}\" is not 64 hex digits");
        reader.problem(at, "expect_chain_id", ProblemKind::InvalidValue, message);
    }
    id
}
