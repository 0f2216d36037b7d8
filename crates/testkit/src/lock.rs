//! Scripts that this crate can spend, and how it spends them.
//!
//! There is no wallet in the node of the tests, so the outputs of generated chains are locked by scripts whose spending needs no
//! signature where possible (`<n> OP_DROP OP_TRUE` behind a hash), and by keys derived from a number where a signature is wanted.

use bitcoin::hashes::{Hash, sha256};
use bitcoin::key::{Keypair, Secp256k1, TapTweak};
use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_CHECKSIG, OP_DROP, OP_PUSHNUM_1, OP_PUSHNUM_2};
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::{All, Message, SecretKey};
use bitcoin::sighash::{EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, CompressedPublicKey, OutPoint, PublicKey, ScriptBuf, Sequence, Transaction, TxIn,
    TxOut, Witness, WitnessProgram, WitnessVersion, absolute,
};
use std::sync::LazyLock;

static SECP: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);

/// The largest number of a [`Lock::Bare`].
pub(crate) const MAX_BARE: u32 = 0x007f_ffff;

/// A script that this crate knows how to spend. The number makes distinct scripts of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lock {
    /// P2WSH of `<n> OP_DROP OP_TRUE`. No signature.
    Wsh(u32),
    /// P2SH of `<n> OP_DROP OP_TRUE`. No signature.
    Sh(u32),
    /// P2SH of the P2WSH script. No signature.
    ShWsh(u32),
    /// A bare 4-byte script that pushes a 3-byte number (1 to 2^23-1, so that it is neither zero nor "negative zero"): anyone can spend it with nothing.
    Bare(u32),
    /// Pay-to-anchor, `51024e73`: anyone can spend it with nothing.
    Anchor,
    /// The empty script: spent by pushing "true".
    Empty,
    /// An output of witness version 2, which has no rules yet: anyone can spend it with nothing.
    FutureWitness(u32),
    /// P2PK of a compressed key; signed.
    Pk(u32),
    /// P2PKH; signed.
    Pkh(u32),
    /// P2WPKH; signed.
    Wpkh(u32),
    /// P2SH of P2WPKH; signed.
    ShWpkh(u32),
    /// P2TR, key path; signed.
    Tr(u32),
    /// Bare 1-of-2 multisig; signed.
    Multisig(u32),
}

/// An output that can be spent, with what spending it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coin {
    /// Where it is.
    pub outpoint: OutPoint,
    /// Satoshi.
    pub value: u64,
    /// How it is locked.
    pub lock: Lock,
}

fn keypair(n: u32) -> Keypair {
    // A hash is a valid key except in one of 2^127 cases.
    let hash = sha256::Hash::hash(format!("cairn test key {n}").as_bytes());
    let secret =
        SecretKey::from_slice(&hash.to_byte_array()).expect("a hash is below the group order");
    Keypair::from_secret_key(&SECP, &secret)
}

fn public_key(n: u32) -> PublicKey {
    PublicKey::new(keypair(n).public_key())
}

fn compressed_key(n: u32) -> CompressedPublicKey {
    CompressedPublicKey(keypair(n).public_key())
}

/// `<n> OP_DROP OP_TRUE`.
fn inner_script(n: u32) -> ScriptBuf {
    Builder::new()
        .push_slice(n.to_le_bytes())
        .push_opcode(OP_DROP)
        .push_opcode(OP_PUSHNUM_1)
        .into_script()
}

fn push_only(bytes: &[u8]) -> ScriptBuf {
    let push =
        PushBytesBuf::try_from(bytes.to_vec()).expect("a script or signature is far below 4 GiB");
    Builder::new().push_slice(push).into_script()
}

impl Lock {
    /// The output script.
    pub fn script_pubkey(&self) -> ScriptBuf {
        match *self {
            Lock::Wsh(n) => inner_script(n).to_p2wsh(),
            Lock::Sh(n) => inner_script(n).to_p2sh(),
            Lock::ShWsh(n) => inner_script(n).to_p2wsh().to_p2sh(),
            Lock::Bare(n) => {
                let [a, b, c, _] = n.to_le_bytes();
                ScriptBuf::from_bytes(vec![3, a, b, c])
            }
            Lock::Anchor => ScriptBuf::from_bytes(vec![0x51, 0x02, 0x4e, 0x73]),
            Lock::Empty => ScriptBuf::new(),
            Lock::FutureWitness(n) => {
                // The last byte makes the program "true" as a stack element, whatever the number: even an output without
                // rules cannot be spent when its script leaves "false".
                let [a, b, c, d] = n.to_le_bytes();
                let program = WitnessProgram::new(WitnessVersion::V2, &[a, b, c, d, 0x77])
                    .expect("5 bytes are a valid length of a program");
                ScriptBuf::new_witness_program(&program)
            }
            Lock::Pk(n) => ScriptBuf::new_p2pk(&public_key(n)),
            Lock::Pkh(n) => ScriptBuf::new_p2pkh(&public_key(n).pubkey_hash()),
            Lock::Wpkh(n) => ScriptBuf::new_p2wpkh(&compressed_key(n).wpubkey_hash()),
            Lock::ShWpkh(n) => ScriptBuf::new_p2wpkh(&compressed_key(n).wpubkey_hash()).to_p2sh(),
            Lock::Tr(n) => ScriptBuf::new_p2tr(&SECP, keypair(n).x_only_public_key().0, None),
            Lock::Multisig(n) => Builder::new()
                .push_opcode(OP_PUSHNUM_1)
                .push_key(&public_key(n))
                .push_key(&public_key(n.wrapping_add(1)))
                .push_opcode(OP_PUSHNUM_2)
                .push_opcode(OP_CHECKMULTISIG)
                .into_script(),
        }
    }

    /// Whether spending it takes a signature.
    pub fn needs_signature(&self) -> bool {
        matches!(
            self,
            Lock::Pk(_)
                | Lock::Pkh(_)
                | Lock::Wpkh(_)
                | Lock::ShWpkh(_)
                | Lock::Tr(_)
                | Lock::Multisig(_)
        )
    }

    /// The scriptSig and witness that spend it, for the kinds that need no signature.
    fn unsigned_proof(&self) -> (ScriptBuf, Witness) {
        match *self {
            Lock::Wsh(n) => (
                ScriptBuf::new(),
                Witness::from_slice(&[inner_script(n).as_bytes()]),
            ),
            Lock::Sh(n) => (push_only(inner_script(n).as_bytes()), Witness::new()),
            Lock::ShWsh(n) => {
                let inner = inner_script(n);
                (
                    push_only(inner.to_p2wsh().as_bytes()),
                    Witness::from_slice(&[inner.as_bytes()]),
                )
            }
            Lock::Empty => (
                Builder::new().push_opcode(OP_PUSHNUM_1).into_script(),
                Witness::new(),
            ),
            _ => (ScriptBuf::new(), Witness::new()),
        }
    }

    /// The scriptSig and witness that spend input `vin` of `tx`, for the kinds that need a signature. `spent` are the outputs
    /// of all inputs.
    fn signed_proof(&self, tx: &Transaction, vin: usize, spent: &[TxOut]) -> (ScriptBuf, Witness) {
        const INPUT_EXISTS: &str = "the input signed is one of the transaction";
        let mut cache = SighashCache::new(tx);
        let value = spent[vin].value;
        let script = &spent[vin].script_pubkey;
        let ecdsa = |n: u32, digest: [u8; 32]| -> Vec<u8> {
            let signature =
                SECP.sign_ecdsa(&Message::from_digest(digest), &keypair(n).secret_key());
            let mut bytes = signature.serialize_der().to_vec();
            bytes.push(EcdsaSighashType::All as u8);
            bytes
        };
        let legacy = |cache: &SighashCache<&Transaction>| -> [u8; 32] {
            cache
                .legacy_signature_hash(vin, script, EcdsaSighashType::All as u32)
                .expect(INPUT_EXISTS)
                .to_byte_array()
        };
        match *self {
            Lock::Pk(n) => (push_only(&ecdsa(n, legacy(&cache))), Witness::new()),
            Lock::Pkh(n) => {
                let signature = PushBytesBuf::try_from(ecdsa(n, legacy(&cache)))
                    .expect("a signature has 73 bytes");
                let script_sig = Builder::new()
                    .push_slice(signature)
                    .push_key(&public_key(n))
                    .into_script();
                (script_sig, Witness::new())
            }
            Lock::Multisig(n) => {
                let signature = PushBytesBuf::try_from(ecdsa(n, legacy(&cache)))
                    .expect("a signature has 73 bytes");
                // The leading zero is the element that the opcode pops in excess.
                (
                    Builder::new()
                        .push_int(0)
                        .push_slice(signature)
                        .into_script(),
                    Witness::new(),
                )
            }
            Lock::Wpkh(n) | Lock::ShWpkh(n) => {
                let key = compressed_key(n);
                let program = ScriptBuf::new_p2wpkh(&key.wpubkey_hash());
                let digest = cache
                    .p2wpkh_signature_hash(vin, &program, value, EcdsaSighashType::All)
                    .expect(INPUT_EXISTS)
                    .to_byte_array();
                let witness = Witness::from_slice(&[ecdsa(n, digest), key.to_bytes().to_vec()]);
                let script_sig = if matches!(self, Lock::ShWpkh(_)) {
                    push_only(program.as_bytes())
                } else {
                    ScriptBuf::new()
                };
                (script_sig, witness)
            }
            Lock::Tr(n) => {
                let digest = cache
                    .taproot_key_spend_signature_hash(
                        vin,
                        &Prevouts::All(spent),
                        TapSighashType::Default,
                    )
                    .expect(INPUT_EXISTS)
                    .to_byte_array();
                let tweaked = keypair(n).tap_tweak(&SECP, None).to_keypair();
                // Without auxiliary randomness, so that a chain is the same in every run.
                let signature =
                    SECP.sign_schnorr_no_aux_rand(&Message::from_digest(digest), &tweaked);
                (
                    ScriptBuf::new(),
                    Witness::from_slice(&[signature.serialize()]),
                )
            }
            _ => self.unsigned_proof(),
        }
    }
}

/// A transaction that spends `coins` into `outputs`, valid as it is. What the outputs leave over is the fee; the caller sees to
/// it that they are not more than the coins.
pub fn spend(coins: &[Coin], outputs: Vec<TxOut>) -> Transaction {
    let input = coins
        .iter()
        .map(|coin| {
            let (script_sig, witness) = coin.lock.unsigned_proof();
            TxIn {
                previous_output: coin.outpoint,
                script_sig,
                sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
                witness,
            }
        })
        .collect();
    let mut tx = Transaction {
        version: Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input,
        output: outputs,
    };
    if coins.iter().any(|coin| coin.lock.needs_signature()) {
        let spent: Vec<TxOut> = coins
            .iter()
            .map(|coin| TxOut {
                value: Amount::from_sat(coin.value),
                script_pubkey: coin.lock.script_pubkey(),
            })
            .collect();
        for (vin, coin) in coins.iter().enumerate() {
            if coin.lock.needs_signature() {
                let (script_sig, witness) = coin.lock.signed_proof(&tx, vin, &spent);
                tx.input[vin].script_sig = script_sig;
                tx.input[vin].witness = witness;
            }
        }
    }
    tx
}

/// A transaction with as many outputs as wanted (up to some 70,000 fit into a block), output `i` locked by
/// [`Lock::Bare`]`(i + 1)`, all of the same value. Ids beyond 65,535 need more than 16 bits.
pub fn wide_transaction(coin: &Coin, outputs: u32) -> Transaction {
    let value = Amount::from_sat(coin.value / u64::from(outputs.max(1)));
    let outputs = (1..=outputs)
        .map(|n| TxOut {
            value,
            script_pubkey: Lock::Bare(n).script_pubkey(),
        })
        .collect();
    spend(std::slice::from_ref(coin), outputs)
}

/// A P2PK script for any bytes that look like a key, valid or not: nobody checks it before it is spent.
pub(crate) fn p2pk_of_bytes(key: &[u8]) -> ScriptBuf {
    let push = PushBytesBuf::try_from(key.to_vec()).expect("a key is at most 65 bytes");
    Builder::new()
        .push_slice(push)
        .push_opcode(OP_CHECKSIG)
        .into_script()
}
