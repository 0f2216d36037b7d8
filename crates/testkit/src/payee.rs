//! Who is paid in a generated chain: every kind of output script, each by a number.
//!
//! A script is a function of its number, kind included, so that paying a number again is address reuse and the generator needs no
//! list of scripts in memory.

use bitcoin::hashes::{Hash, hash160, sha256};
use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_PUSHNUM_2, OP_PUSHNUM_3, OP_RETURN};
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{
    PubkeyHash, ScriptBuf, ScriptHash, WPubkeyHash, WScriptHash, WitnessProgram, WitnessVersion,
};

use crate::lock::{Lock, MAX_BARE, p2pk_of_bytes};
use crate::rng::{Rng, mix};

/// The signature operations of one bare multisig output, as a block's limit counts them.
const MULTISIG_SIGOPS: u32 = 80;
/// A script longer than this can never be spent (and is kept out of the node's UTXO set).
const MAX_SCRIPT_SIZE: usize = 10_000;

/// An output script and what the generator must know of it.
#[derive(Debug, Clone)]
pub(crate) struct Payee {
    pub(crate) script: ScriptBuf,
    /// How it is spent; `None`: by nobody.
    pub(crate) lock: Option<Lock>,
    /// Signature operations it adds to the block, as the limit of 80,000 counts them.
    pub(crate) sigops: u32,
}

impl Payee {
    pub(crate) fn of_lock(lock: Lock) -> Self {
        let sigops = match lock {
            Lock::Pk(_) | Lock::Pkh(_) => 4,
            Lock::Multisig(_) => MULTISIG_SIGOPS,
            _ => 0,
        };
        Payee {
            script: lock.script_pubkey(),
            lock: Some(lock),
            sigops,
        }
    }

    fn foreign(script: ScriptBuf, sigops: u32) -> Self {
        Payee {
            script,
            lock: None,
            sigops,
        }
    }

    /// The script of a number: of ordinary kinds, in about the proportions of a real chain; two thirds can be spent
    /// without a signature. Of the key-locked ones `signed_per_mille` belong to keys of [`Lock`], the others to nobody.
    pub(crate) fn ordinary(n: u32, signed_per_mille: u32) -> Self {
        let roll = mix(u64::from(n) ^ 0x6b69_6e64);
        let owned = (roll >> 32) % 1000 < u64::from(signed_per_mille);
        match roll % 1000 {
            0..=419 => Self::of_lock(Lock::Wsh(n)),
            420..=619 => Self::of_lock(Lock::Sh(n)),
            620..=719 => Self::of_lock(Lock::ShWsh(n)),
            720..=739 => Self::of_lock(Lock::Bare(n % MAX_BARE + 1)),
            740..=819 if owned => Self::of_lock(Lock::Wpkh(n)),
            740..=819 => Self::foreign(
                ScriptBuf::new_p2wpkh(&WPubkeyHash::from_byte_array(hash20(n))),
                0,
            ),
            820..=889 if owned => Self::of_lock(Lock::Pkh(n)),
            820..=889 => Self::foreign(
                ScriptBuf::new_p2pkh(&PubkeyHash::from_byte_array(hash20(n))),
                4,
            ),
            890..=949 if owned => Self::of_lock(Lock::Tr(n)),
            890..=949 => Self::foreign(witness_script(WitnessVersion::V1, &hash32(n)), 0),
            950..=959 if owned => Self::of_lock(Lock::ShWpkh(n)),
            950..=959 => Self::foreign(
                ScriptBuf::new_p2sh(&ScriptHash::from_byte_array(hash20(n))),
                0,
            ),
            960..=979 => Self::foreign(
                ScriptBuf::new_p2wsh(&WScriptHash::from_byte_array(hash32(n))),
                0,
            ),
            980..=989 if owned => Self::of_lock(Lock::Pk(n)),
            980..=989 => Self::foreign(p2pk_of_bytes(&key33(n)), 4),
            _ if owned => Self::of_lock(Lock::Multisig(n)),
            _ => Self::foreign(multisig_2_of_3(n), MULTISIG_SIGOPS),
        }
    }

    /// A script that anyone can spend without a signature.
    pub(crate) fn open(n: u32) -> Self {
        match mix(u64::from(n)) % 3 {
            0 => Self::of_lock(Lock::Sh(n)),
            _ => Self::of_lock(Lock::Wsh(n)),
        }
    }

    /// One of the rare kinds.
    pub(crate) fn exotic(rng: &mut Rng) -> Self {
        let n = rng.next_u64() as u32;
        // Few distinct numbers, so that the rare scripts are used repeatedly too.
        let few = n % 50;
        match rng.below(14) {
            0 => Self::of_lock(Lock::Anchor),
            1 => Self::of_lock(Lock::Empty),
            2 => Self::of_lock(Lock::FutureWitness(few)),
            3 => Self::of_lock(Lock::Bare(few + 1)),
            4 => Self::foreign(data_script(rng), 0),
            5 => Self::foreign(p2pk_of_bytes(&key65(few)), 4),
            6 => Self::foreign(p2pk_of_bytes(&key33(few)), 4),
            7 => Self::foreign(multisig_2_of_3(few), MULTISIG_SIGOPS),
            // Begin with an opcode that may not be executed (OP_CAT, OP_VERIF, OP_RESERVED): unspendable, yet in the UTXO set.
            8 => Self::foreign(ScriptBuf::from_bytes(vec![0x7e, 0x51, few as u8]), 0),
            9 => Self::foreign(
                ScriptBuf::from_bytes(vec![0x65, 0x04, few as u8, 1, 2, 3]),
                0,
            ),
            10 => Self::foreign(ScriptBuf::from_bytes(vec![0x50]), 0),
            // Ends in the middle of a push.
            11 => Self::foreign(ScriptBuf::from_bytes(vec![0x4c, 0x20, few as u8]), 0),
            // Version 16, the longest program there can be.
            12 => Self::foreign(
                witness_script(
                    WitnessVersion::V16,
                    &[hash20(few), hash20(few + 1)].concat(),
                ),
                0,
            ),
            // One byte too long to be spendable; rare, as it is big.
            _ if rng.chance(60) => {
                Self::foreign(ScriptBuf::from_bytes(vec![0x61; MAX_SCRIPT_SIZE + 1]), 0)
            }
            // As long as spendable goes is too big to have often, so a long one of 300 bytes.
            _ => Self::foreign(ScriptBuf::from_bytes(vec![0x61; 300]), 0),
        }
    }

    /// A data output.
    pub(crate) fn data(rng: &mut Rng) -> Self {
        Self::foreign(data_script(rng), 0)
    }
}

/// Texts of the data outputs: short notes, so that somebody who looks at the chain has something to read.
const NOTES: [&str; 16] = [
    "A cairn marks the way where there is no path.",
    "Stone upon stone: each block rests on the one before.",
    "Receipt 4711: two sacks of flour, one of salt",
    "Logbook: wind from the north-west, all well on board",
    "To whoever finds this: greetings from regtest",
    "Lost: one umbrella. Found: the same umbrella.",
    "Minutes of the harbour council, page 12",
    "The tide table is not a suggestion.",
    "Invoice settled in full, with thanks",
    "h\u{e9}llo w\u{f6}rld, gr\u{fc}\u{df}e, \u{4f60}\u{597d}, \u{3053}\u{3093}\u{306b}\u{3061}\u{306f}",
    "Chess by mail: 14. Nf3 Nc6",
    "Measured twice, cut once, hashed twice.",
    "Beehive 3: queen seen, honey 11 kg",
    "Delivery note: 400 bricks, 2 broken",
    "Happy birthday, Ada!",
    "This space intentionally left on chain",
];

fn data_script(rng: &mut Rng) -> ScriptBuf {
    let builder = Builder::new().push_opcode(OP_RETURN);
    match rng.below(8) {
        0 => builder.into_script(),
        1 => {
            // Binary data in two pushes.
            let (a, b) = (rng.next_u64().to_le_bytes(), hash32(rng.next_u64() as u32));
            builder.push_slice(a).push_slice(b).into_script()
        }
        2 => {
            // Not a push: bytes that no script parser likes.
            let mut script = builder.into_script().into_bytes();
            script.extend([0x4d, 0xff]);
            ScriptBuf::from_bytes(script)
        }
        _ => {
            let note = NOTES[rng.index(NOTES.len())];
            let push = PushBytesBuf::try_from(note.as_bytes().to_vec()).expect("a note is short");
            builder.push_slice(push).into_script()
        }
    }
}

fn witness_script(version: WitnessVersion, program: &[u8]) -> ScriptBuf {
    let program = WitnessProgram::new(version, program).expect("programs here have 2 to 40 bytes");
    ScriptBuf::new_witness_program(&program)
}

fn multisig_2_of_3(n: u32) -> ScriptBuf {
    Builder::new()
        .push_opcode(OP_PUSHNUM_2)
        .push_slice(key33(n))
        .push_slice(key33(n.wrapping_add(1)))
        .push_slice(key65(n.wrapping_add(2)))
        .push_opcode(OP_PUSHNUM_3)
        .push_opcode(OP_CHECKMULTISIG)
        .into_script()
}

fn hash20(n: u32) -> [u8; 20] {
    hash160::Hash::hash(&n.to_be_bytes()).to_byte_array()
}

fn hash32(n: u32) -> [u8; 32] {
    sha256::Hash::hash(&n.to_be_bytes()).to_byte_array()
}

/// Looks like a compressed key.
fn key33(n: u32) -> [u8; 33] {
    let mut key = [0x02; 33];
    key[1..].copy_from_slice(&hash32(n));
    key
}

/// Looks like an uncompressed key.
fn key65(n: u32) -> [u8; 65] {
    let mut key = [0x04; 65];
    key[1..33].copy_from_slice(&hash32(n));
    key[33..].copy_from_slice(&hash32(!n));
    key
}
