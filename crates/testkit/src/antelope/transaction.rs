//! Transactions with the development key: packed, signed, and in the form in which a node takes them.

use std::time::{SystemTime, UNIX_EPOCH};

use bitcoin::hashes::{Hash, ripemd160, sha256};
use bitcoin::hex::DisplayHex;
use bitcoin::secp256k1::{Message, Secp256k1, SecretKey};
use bitcoin::{PrivateKey, base58};
use serde_json::{Value, json};

use super::pack::Packer;

/// The well-known key of every Antelope test chain, public half, in the text that a genesis file takes.
pub const DEVELOPMENT_KEY: &str = "EOS6MRyAjQq8ud7hVNYcfnVPJqcVpscN5So8BhtHuGYqET5GDW5CV";
/// Its private half.
pub(crate) const DEVELOPMENT_SECRET: &str = "5KQwrPbwdL6PhXujxW37FSSQZ1JiwsST4cqQzDeyXtP79zkvFD3";

const LIFETIME_SECONDS: u64 = 600;

/// An action with packed data, authorised by the active permission of one account.
#[derive(Clone, Debug)]
pub struct PackedAction {
    /// The contract.
    pub account: String,
    /// The action's name.
    pub name: String,
    /// Who authorises it.
    pub actor: String,
    /// Its data.
    pub data: Vec<u8>,
}

impl PackedAction {
    /// An action of `account`, authorised by `actor`.
    pub fn new(account: &str, name: &str, actor: &str, data: Vec<u8>) -> Self {
        PackedAction {
            account: account.to_owned(),
            name: name.to_owned(),
            actor: actor.to_owned(),
            data,
        }
    }

    /// `eosio::newaccount` of an account that the development key owns.
    pub fn new_account(name: &str) -> Self {
        let authority = |packer: Packer| {
            packer
                .u32(1)
                .varuint(1)
                .raw(&public_key())
                .u16(1)
                .varuint(0)
                .varuint(0)
        };
        let data = authority(authority(Packer::new().name("eosio").name(name))).done();
        Self::new("eosio", "newaccount", "eosio", data)
    }

    /// `eosio::setcode`.
    pub fn set_code(account: &str, wasm: &[u8]) -> Self {
        let data = Packer::new().name(account).u8(0).u8(0).bytes(wasm).done();
        Self::new("eosio", "setcode", account, data)
    }

    /// `eosio::setabi`.
    pub fn set_abi(account: &str, abi: &[u8]) -> Self {
        Self::new(
            "eosio",
            "setabi",
            account,
            Packer::new().name(account).bytes(abi).done(),
        )
    }

    fn pack(&self, packer: Packer) -> Packer {
        packer
            .name(&self.account)
            .name(&self.name)
            .varuint(1)
            .name(&self.actor)
            .name("active")
            .bytes(&self.data)
    }
}

/// The development key as the binary format has it.
pub(crate) fn public_key() -> Vec<u8> {
    let point = secret().public_key(&Secp256k1::signing_only()).serialize();
    Packer::new().u8(0).raw(&point).done()
}

fn secret() -> SecretKey {
    PrivateKey::from_wif(DEVELOPMENT_SECRET)
        .expect("the development key is well-formed")
        .inner
}

/// A signed transaction as `/v1/chain/send_transaction2` takes it. `salt` makes equal actions different transactions;
/// `reference` is the id of a block of the chain.
pub(crate) fn signed(
    chain_id: &[u8],
    reference: &[u8],
    salt: u64,
    actions: &[PackedAction],
) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970")
        .as_secs();
    let expiration =
        u32::try_from(now + LIFETIME_SECONDS + salt % 1000).expect("before the year 2106");
    let mut packer = Packer::new()
        .u32(expiration)
        .raw(&[reference[3], reference[2]])
        .raw(&reference[8..12])
        .varuint(0)
        .u8(0)
        .varuint(0)
        .varuint(0)
        .varuint(actions.len());
    for action in actions {
        packer = action.pack(packer);
    }
    let packed = packer.varuint(0).done();
    let mut signed = chain_id.to_vec();
    signed.extend_from_slice(&packed);
    signed.extend_from_slice(&[0; 32]);
    json!({
        "return_failure_trace": true,
        "retry_trx": false,
        "transaction": {
            "signatures": [sign(sha256::Hash::hash(&signed).to_byte_array())],
            "compression": 0,
            "packed_context_free_data": "",
            "packed_trx": packed.to_lower_hex_string(),
        },
    })
}

/// Nodes take only signatures whose two numbers need exactly 32 bytes.
fn sign(digest: [u8; 32]) -> String {
    let curve = Secp256k1::signing_only();
    for attempt in 0u8..=u8::MAX {
        let signature = curve.sign_ecdsa_recoverable_with_noncedata(
            &Message::from_digest(digest),
            &secret(),
            &[attempt; 32],
        );
        let (recovery, compact) = signature.serialize_compact();
        let canonical =
            |number: &[u8]| number[0] & 0x80 == 0 && !(number[0] == 0 && number[1] & 0x80 == 0);
        if canonical(&compact[..32]) && canonical(&compact[32..]) {
            let mut data = vec![31 + u8::try_from(recovery.to_i32()).expect("0 to 3")];
            data.extend_from_slice(&compact);
            let checksum = ripemd160::Hash::hash(&[&data[..], b"K1"].concat());
            data.extend_from_slice(&checksum.to_byte_array()[..4]);
            return format!("SIG_K1_{}", base58::encode(&data));
        }
    }
    unreachable!("one signature in three is canonical")
}
