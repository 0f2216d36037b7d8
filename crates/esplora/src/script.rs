//! What the API says about a script: its type, its address, and the scripts inside an input.

use bitcoin::opcodes::{Class, ClassifyContext, Opcode};
use bitcoin::script::Instruction;
use bitcoin::{Script, TxIn, TxOut};

/// First byte of the last witness item when that item is an annex.
const ANNEX_TAG: u8 = 0x50;

/// The `scriptpubkey_type` of a script. Tested in this order: a script that fits two kinds is the first.
///
/// `multisig` is told apart from `unknown` only for clients of the mempool line.
pub(crate) fn script_type(script: &Script, tell_multisig: bool) -> &'static str {
    if script.is_empty() {
        "empty"
    } else if script.is_op_return() {
        "op_return"
    } else if script.is_p2pk() {
        "p2pk"
    } else if script.is_p2pkh() {
        "p2pkh"
    } else if script.is_p2sh() {
        "p2sh"
    } else if script.is_p2wpkh() {
        "v0_p2wpkh"
    } else if script.is_p2wsh() {
        "v0_p2wsh"
    } else if script.is_p2tr() {
        "v1_p2tr"
    } else if starts_unspendably(script) {
        "provably_unspendable"
    } else if tell_multisig && script.is_multisig() {
        "multisig"
    } else {
        "unknown"
    }
}

/// Whether the first opcode ends every execution: an opcode that always returns or is illegal even when not executed.
fn starts_unspendably(script: &Script) -> bool {
    script.as_bytes().first().is_some_and(|&byte| {
        let class = Opcode::from(byte).classify(ClassifyContext::Legacy);
        class == Class::ReturnOp || class == Class::IllegalOp
    })
}

/// The scripts that an input reveals.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct InnerScripts<'a> {
    /// P2SH: what the scriptSig pushes last.
    pub(crate) redeem: Option<&'a [u8]>,
    /// P2WSH, also nested: the last witness item. Taproot script path: the leaf script.
    pub(crate) witness: Option<&'a [u8]>,
}

/// Finds the scripts that an input reveals, given the output that it spends.
pub(crate) fn inner_scripts<'a>(input: &'a TxIn, prevout: &TxOut) -> InnerScripts<'a> {
    let spent = prevout.script_pubkey.as_script();
    let redeem = if spent.is_p2sh() {
        match input.script_sig.instructions().last() {
            Some(Ok(Instruction::PushBytes(bytes))) => Some(bytes.as_bytes()),
            _ => None,
        }
    } else {
        None
    };
    let witness =
        if spent.is_p2wsh() || redeem.is_some_and(|script| Script::from_bytes(script).is_p2wsh()) {
            input.witness.last()
        } else if spent.is_p2tr() {
            leaf_script(input)
        } else {
            None
        };
    InnerScripts { redeem, witness }
}

/// The leaf script of a Taproot script path. Without an annex, one witness item is a key path and two or more are a
/// script path whose last item is the control block.
fn leaf_script(input: &TxIn) -> Option<&[u8]> {
    let witness = &input.witness;
    let has_annex = witness.len() >= 2 && witness.last()?.first() == Some(&ANNEX_TAG);
    let items = witness.len() - usize::from(has_annex);
    if items < 2 {
        None
    } else {
        witness.nth(items - 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hex::FromHex;
    use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Witness};

    fn script(hex: &str) -> ScriptBuf {
        ScriptBuf::from_bytes(Vec::from_hex(hex).expect("test hex"))
    }

    #[test]
    fn types_in_order() {
        let key = "02".to_owned() + &"11".repeat(32);
        let hash20 = "22".repeat(20);
        let hash32 = "33".repeat(32);
        for (hex, kind) in [
            (String::new(), "empty"),
            ("6a".to_owned(), "op_return"),
            ("6a0401020304".to_owned(), "op_return"),
            (format!("21{key}ac"), "p2pk"),
            (format!("41{}ac", "04".repeat(65)), "p2pk"),
            (format!("76a914{hash20}88ac"), "p2pkh"),
            (format!("a914{hash20}87"), "p2sh"),
            (format!("0014{hash20}"), "v0_p2wpkh"),
            (format!("0020{hash32}"), "v0_p2wsh"),
            (format!("5120{hash32}"), "v1_p2tr"),
            ("51024e73".to_owned(), "unknown"),
            // OP_VERIF and a disabled opcode end any execution; OP_RESERVED does in a legacy script.
            ("65".to_owned(), "provably_unspendable"),
            ("7e".to_owned(), "provably_unspendable"),
            ("50".to_owned(), "provably_unspendable"),
            (format!("5121{key}51ae"), "unknown"),
            ("51".to_owned(), "unknown"),
        ] {
            assert_eq!(script_type(&script(&hex), false), kind, "{hex}");
        }
        assert_eq!(
            script_type(&script(&format!("5121{key}51ae")), true),
            "multisig"
        );
        assert_eq!(script_type(&script("51"), true), "unknown");
    }

    fn input(script_sig: &str, witness: &[&str]) -> TxIn {
        let items: Vec<Vec<u8>> = witness
            .iter()
            .map(|hex| Vec::from_hex(hex).expect("test hex"))
            .collect();
        TxIn {
            previous_output: OutPoint::null(),
            script_sig: script(script_sig),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(&items),
        }
    }

    fn inner(
        spent: &str,
        script_sig: &str,
        witness: &[&str],
    ) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let prevout = TxOut {
            value: Amount::ZERO,
            script_pubkey: script(spent),
        };
        let input = input(script_sig, witness);
        let found = inner_scripts(&input, &prevout);
        (
            found.redeem.map(<[u8]>::to_vec),
            found.witness.map(<[u8]>::to_vec),
        )
    }

    #[test]
    fn inner_scripts_of_every_kind() {
        let p2sh = format!("a914{}87", "22".repeat(20));
        let p2wsh = format!("0020{}", "33".repeat(32));
        let p2tr = format!("5120{}", "33".repeat(32));
        assert_eq!(
            inner(&p2sh, "0151025152", &[]),
            (Some(vec![0x51, 0x52]), None)
        );
        assert_eq!(
            inner(&p2sh, "00", &[]),
            (Some(vec![]), None),
            "an empty push is an empty script"
        );
        assert_eq!(
            inner(&p2sh, "51", &[]),
            (None, None),
            "a number is not a push of bytes"
        );
        assert_eq!(inner(&p2sh, "0551", &[]), (None, None), "broken scriptSig");
        assert_eq!(inner(&p2wsh, "", &["aa", "51"]), (None, Some(vec![0x51])));
        assert_eq!(inner(&p2wsh, "", &[]), (None, None));
        let nested = inner(&p2sh, &format!("22{p2wsh}"), &["aa", "52"]);
        assert_eq!(
            nested,
            (Some(script(&p2wsh).into_bytes()), Some(vec![0x52]))
        );
        assert_eq!(inner(&p2tr, "", &["aa"]), (None, None), "key path");
        assert_eq!(
            inner(&p2tr, "", &["aa", "50bb"]),
            (None, None),
            "key path with annex"
        );
        assert_eq!(
            inner(&p2tr, "", &["50"]),
            (None, None),
            "one item is never an annex"
        );
        assert_eq!(inner(&p2tr, "", &["53", "c0"]), (None, Some(vec![0x53])));
        assert_eq!(
            inner(&p2tr, "", &["aa", "53", "c0", "50"]),
            (None, Some(vec![0x53]))
        );
        assert_eq!(inner(&p2tr, "", &[]), (None, None));
        let p2pkh = format!("76a914{}88ac", "22".repeat(20));
        assert_eq!(inner(&p2pkh, "0151025152", &["51"]), (None, None));
    }
}
