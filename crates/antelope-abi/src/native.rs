//! The actions that every chain understands before its system account has an ABI, and those that system ABIs leave out.

use std::sync::LazyLock;

use crate::compile::Abi;

/// The built-in actions of the system account: accounts, code, ABIs, permissions, the start of a block and failed deferred
/// transactions.
#[must_use]
pub fn native_abi() -> &'static Abi {
    static NATIVE: LazyLock<Abi> =
        LazyLock::new(|| Abi::from_json(NATIVE_JSON).expect("the built-in ABI is well-formed"));
    &NATIVE
}

const NATIVE_JSON: &str = r#"{
    "version": "eosio::abi/1.2",
    "structs": [
        {"name": "permission_level", "fields": [{"name": "actor", "type": "name"}, {"name": "permission", "type": "name"}]},
        {"name": "key_weight", "fields": [{"name": "key", "type": "public_key"}, {"name": "weight", "type": "uint16"}]},
        {"name": "permission_level_weight", "fields": [
            {"name": "permission", "type": "permission_level"}, {"name": "weight", "type": "uint16"}]},
        {"name": "wait_weight", "fields": [{"name": "wait_sec", "type": "uint32"}, {"name": "weight", "type": "uint16"}]},
        {"name": "authority", "fields": [
            {"name": "threshold", "type": "uint32"}, {"name": "keys", "type": "key_weight[]"},
            {"name": "accounts", "type": "permission_level_weight[]"}, {"name": "waits", "type": "wait_weight[]"}]},
        {"name": "newaccount", "fields": [
            {"name": "creator", "type": "name"}, {"name": "name", "type": "name"},
            {"name": "owner", "type": "authority"}, {"name": "active", "type": "authority"}]},
        {"name": "setcode", "fields": [
            {"name": "account", "type": "name"}, {"name": "vmtype", "type": "uint8"},
            {"name": "vmversion", "type": "uint8"}, {"name": "code", "type": "bytes"}]},
        {"name": "setabi", "fields": [{"name": "account", "type": "name"}, {"name": "abi", "type": "bytes"}]},
        {"name": "updateauth", "fields": [
            {"name": "account", "type": "name"}, {"name": "permission", "type": "name"},
            {"name": "parent", "type": "name"}, {"name": "auth", "type": "authority"}]},
        {"name": "deleteauth", "fields": [{"name": "account", "type": "name"}, {"name": "permission", "type": "name"}]},
        {"name": "linkauth", "fields": [
            {"name": "account", "type": "name"}, {"name": "code", "type": "name"},
            {"name": "type", "type": "name"}, {"name": "requirement", "type": "name"}]},
        {"name": "unlinkauth", "fields": [
            {"name": "account", "type": "name"}, {"name": "code", "type": "name"}, {"name": "type", "type": "name"}]},
        {"name": "canceldelay", "fields": [
            {"name": "canceling_auth", "type": "permission_level"}, {"name": "trx_id", "type": "checksum256"}]},
        {"name": "onerror", "fields": [{"name": "sender_id", "type": "uint128"}, {"name": "sent_trx", "type": "bytes"}]},
        {"name": "producer_key", "fields": [
            {"name": "producer_name", "type": "name"}, {"name": "block_signing_key", "type": "public_key"}]},
        {"name": "producer_schedule", "fields": [
            {"name": "version", "type": "uint32"}, {"name": "producers", "type": "producer_key[]"}]},
        {"name": "extension", "fields": [{"name": "type", "type": "uint16"}, {"name": "data", "type": "bytes"}]},
        {"name": "block_header", "fields": [
            {"name": "timestamp", "type": "block_timestamp_type"}, {"name": "producer", "type": "name"},
            {"name": "confirmed", "type": "uint16"}, {"name": "previous", "type": "checksum256"},
            {"name": "transaction_mroot", "type": "checksum256"}, {"name": "action_mroot", "type": "checksum256"},
            {"name": "schedule_version", "type": "uint32"}, {"name": "new_producers", "type": "producer_schedule?"},
            {"name": "header_extensions", "type": "extension[]"}]},
        {"name": "onblock", "fields": [{"name": "header", "type": "block_header"}]}
    ],
    "actions": [
        {"name": "newaccount", "type": "newaccount"}, {"name": "setcode", "type": "setcode"},
        {"name": "setabi", "type": "setabi"}, {"name": "updateauth", "type": "updateauth"},
        {"name": "deleteauth", "type": "deleteauth"}, {"name": "linkauth", "type": "linkauth"},
        {"name": "unlinkauth", "type": "unlinkauth"}, {"name": "canceldelay", "type": "canceldelay"},
        {"name": "onerror", "type": "onerror"}, {"name": "onblock", "type": "onblock"}
    ]
}"#;
