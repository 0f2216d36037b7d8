//! Which version of an ABI a row was written under.

use cairn_antelope_abi::Profile;
use cairn_antelope_ship::ContractRow;

use crate::book::Contract;
use crate::compiled::CompiledAbis;
use crate::events::{Buffers, Value};
use crate::observer::Undecoded;

/// Earlier versions that are tried for a row that does not fit the newest one.
const EARLIER_VERSIONS_MAX: usize = 16;

/// Decodes a row into `buffers.data`.
///
/// The ABI at the end of the block comes first. A row that does not fit it, or leaves bytes over, was written under an earlier
/// version: those are tried, newest first, and one that the row fits exactly wins. Only a version that can be used opens the way
/// to earlier ones: when a contract has taken its ABI away, its rows have no type.
pub(crate) fn decode_row(
    contract: Option<&Contract>,
    row: &ContractRow<'_>,
    block_num: u32,
    profile: Profile,
    cache: &CompiledAbis,
    buffers: &mut Buffers,
) -> Value {
    let mut versions = contract
        .into_iter()
        .flat_map(|contract| contract.for_row(block_num));
    let Some(newest) = versions.next() else {
        return Value::raw(Undecoded::NoAbi, "the contract has no ABI");
    };
    let abi = match newest.abi(cache) {
        Ok(abi) => abi,
        Err(why) if newest.bytes.is_empty() => return Value::raw(Undecoded::NoAbi, why),
        Err(why) => return Value::raw(Undecoded::BadAbi, why),
    };
    let first = match abi.table_type(row.table) {
        Some(ty) => buffers.decode(abi, ty, row.value, profile),
        None => Value::raw(
            Undecoded::NotInAbi,
            "the contract's ABI does not have this table",
        ),
    };
    if matches!(first, Value::Decoded { trailing: 0 }) {
        return first;
    }
    for version in versions.take(EARLIER_VERSIONS_MAX) {
        if version.sha256 == newest.sha256 {
            continue;
        }
        let Some((abi, ty)) = version
            .abi(cache)
            .ok()
            .and_then(|abi| Some((abi, abi.table_type(row.table)?)))
        else {
            continue;
        };
        let earlier = buffers.decode(abi, ty, row.value, profile);
        if matches!(earlier, Value::Decoded { trailing: 0 }) {
            return earlier;
        }
    }
    // None fits better. The buffer holds the last attempt, so the first one is made again.
    if let (Value::Decoded { .. }, Some(ty)) = (&first, abi.table_type(row.table)) {
        return buffers.decode(abi, ty, row.value, profile);
    }
    first
}
