//! Scripts: their kind, their text, the data they carry. Nothing here trusts a script; everything is bounded.

use bitcoin::hex::DisplayHex;
use bitcoin::script::Instruction;
use bitcoin::{Script, TxIn, TxOut};

/// Characters of one script, witness item or asm text that a page shows.
const CLIP_CHARS: usize = 2_048;
/// Shortest run of printable characters that is shown of a coinbase's script.
const COINBASE_RUN_MIN: usize = 4;

/// A text that may be too long for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clipped {
    /// The beginning, at most [`CLIP_CHARS`] characters.
    pub(crate) text: String,
    /// Bytes of the whole value, when the text shows only the beginning.
    pub(crate) whole_bytes: Option<usize>,
}

impl Clipped {
    /// Bytes as hex.
    pub(crate) fn hex(bytes: &[u8]) -> Self {
        let shown = &bytes[..bytes.len().min(CLIP_CHARS / 2)];
        Clipped {
            text: shown.to_lower_hex_string(),
            whole_bytes: (shown.len() < bytes.len()).then_some(bytes.len()),
        }
    }

    /// A script as opcodes.
    pub(crate) fn asm(script: &Script) -> Self {
        // One byte of script gives at least two characters, so the prefix is enough to fill the clip; a cut inside a
        // push shows as an unexpected end, which the clip then hides.
        let whole = script.len();
        let prefix = Script::from_bytes(&script.as_bytes()[..whole.min(CLIP_CHARS)]);
        let mut text = prefix.to_asm_string();
        let clipped = whole > CLIP_CHARS || text.chars().count() > CLIP_CHARS;
        if clipped && let Some((end, _)) = text.char_indices().nth(CLIP_CHARS) {
            text.truncate(end);
        }
        Clipped {
            text,
            whole_bytes: clipped.then_some(whole),
        }
    }
}

/// What kind of output a script makes, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScriptKind {
    /// Short name: `P2WPKH`.
    pub(crate) name: &'static str,
    /// The name spelled out.
    pub(crate) title: &'static str,
    /// Whether nobody can ever spend it.
    pub(crate) unspendable: bool,
}

impl ScriptKind {
    /// Recognises a scriptPubKey, in the order of the Esplora types.
    pub(crate) fn of(script: &Script) -> Self {
        let (name, title, unspendable) = if script.is_empty() {
            ("empty", "empty script, spendable by anyone", false)
        } else if script.is_op_return() {
            ("OP_RETURN", "data output, not spendable", true)
        } else if script.is_p2pk() {
            ("P2PK", "pay to public key", false)
        } else if script.is_p2pkh() {
            ("P2PKH", "pay to public key hash", false)
        } else if script.is_p2sh() {
            ("P2SH", "pay to script hash", false)
        } else if script.is_p2wpkh() {
            ("P2WPKH", "pay to witness public key hash", false)
        } else if script.is_p2wsh() {
            ("P2WSH", "pay to witness script hash", false)
        } else if script.is_p2tr() {
            ("P2TR", "pay to taproot", false)
        } else if script.as_bytes() == ANCHOR_SCRIPT {
            ("P2A", "pay to anchor, spendable by anyone", false)
        } else if script.is_witness_program() {
            (
                "witness",
                "witness program of a version without rules yet",
                false,
            )
        } else if script.is_multisig() {
            ("multisig", "bare multisignature", false)
        } else {
            ("script", "non-standard script", false)
        };
        ScriptKind {
            name,
            title,
            unspendable,
        }
    }
}

/// The script of a pay-to-anchor output (Bitcoin Core 28).
const ANCHOR_SCRIPT: &[u8] = &[0x51, 0x02, 0x4e, 0x73];

/// The scripts that an input reveals: its redeem script (P2SH) and its witness script (P2WSH also nested, or the leaf
/// of a Taproot script path), each with its name.
pub(crate) fn inner_scripts(input: &TxIn, prevout: &TxOut) -> Vec<(&'static str, Clipped)> {
    let mut found = Vec::new();
    let spent = prevout.script_pubkey.as_script();
    let mut program = spent;
    let redeem = if spent.is_p2sh() {
        last_push(&input.script_sig)
    } else {
        None
    };
    if let Some(redeem) = redeem {
        found.push(("Redeem script", Clipped::asm(redeem)));
        program = redeem;
    }
    if program.is_p2wsh() {
        if let Some(script) = input.witness.last() {
            found.push(("Witness script", Clipped::asm(Script::from_bytes(script))));
        }
    } else if spent.is_p2tr()
        && let Some(leaf) = input.witness.taproot_leaf_script()
    {
        found.push(("Tapscript", Clipped::asm(leaf.script)));
    }
    found
}

/// The bytes that the last instruction pushes, if the script pushes only and is well formed.
fn last_push(script: &Script) -> Option<&Script> {
    match script.instructions().last()? {
        Ok(Instruction::PushBytes(bytes)) => Some(Script::from_bytes(bytes.as_bytes())),
        _ => None,
    }
}

/// The text in a data output: what its pushes hold, if that is UTF-8 and wholly printable.
pub(crate) fn data_text(script: &Script) -> Option<String> {
    if !script.is_op_return() {
        return None;
    }
    let mut data = Vec::new();
    for instruction in script.instructions().skip(1) {
        match instruction {
            Ok(Instruction::PushBytes(bytes)) => data.extend_from_slice(bytes.as_bytes()),
            Ok(Instruction::Op(_)) => {}
            Err(_) => return None,
        }
        if data.len() > CLIP_CHARS {
            return None;
        }
    }
    let text = String::from_utf8(data).ok()?;
    let text = text.trim();
    (!text.is_empty() && text.chars().all(is_printable)).then(|| text.to_owned())
}

/// What a miner wrote into the coinbase's script: the printable ASCII runs of some length, joined by spaces.
pub(crate) fn coinbase_text(script: &Script) -> Option<String> {
    let bytes = &script.as_bytes()[..script.len().min(CLIP_CHARS)];
    let runs: Vec<&str> = bytes
        .split(|b| !matches!(b, 0x20..=0x7e))
        .filter(|run| run.len() >= COINBASE_RUN_MIN)
        .filter_map(|run| std::str::from_utf8(run).ok())
        .map(str::trim)
        .filter(|run| !run.is_empty())
        .collect();
    (!runs.is_empty()).then(|| runs.join(" "))
}

/// Whether a character can stand on a page without misleading: no control characters but line feeds and tabs, none
/// that turn the direction of the text, none without width.
fn is_printable(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' => false,
        '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff0}'..='\u{ffff}' => false,
        '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}' => false,
        c => !c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hex::FromHex;
    use bitcoin::opcodes::all::OP_RETURN;
    use bitcoin::script::{Builder, PushBytesBuf};
    use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Witness};

    use super::*;

    fn script(hex: &str) -> ScriptBuf {
        ScriptBuf::from_bytes(Vec::from_hex(hex).expect("the test's own hex"))
    }

    fn data(bytes: &[u8]) -> ScriptBuf {
        let push = PushBytesBuf::try_from(bytes.to_vec()).expect("short enough for a push");
        Builder::new()
            .push_opcode(OP_RETURN)
            .push_slice(push)
            .into_script()
    }

    #[test]
    fn kinds_are_recognised() {
        let key = "02".repeat(33);
        for (hex, name) in [
            (String::new(), "empty"),
            ("6a".to_owned(), "OP_RETURN"),
            (format!("21{key}ac"), "P2PK"),
            (
                "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac".to_owned(),
                "P2PKH",
            ),
            (format!("a914{}87", "11".repeat(20)), "P2SH"),
            (format!("0014{}", "11".repeat(20)), "P2WPKH"),
            (format!("0020{}", "11".repeat(32)), "P2WSH"),
            (format!("5120{}", "11".repeat(32)), "P2TR"),
            ("51024e73".to_owned(), "P2A"),
            (format!("5220{}", "11".repeat(32)), "witness"),
            (format!("5121{key}51ae"), "multisig"),
            ("51".to_owned(), "script"),
            ("4c".to_owned(), "script"),
        ] {
            assert_eq!(ScriptKind::of(&script(&hex)).name, name, "{hex}");
        }
        assert!(ScriptKind::of(&script("6a")).unspendable);
    }

    #[test]
    fn data_is_shown_only_when_it_is_text() {
        assert_eq!(
            data_text(&data(b"hello, world")).as_deref(),
            Some("hello, world")
        );
        assert_eq!(
            data_text(&data("süß €".as_bytes())).as_deref(),
            Some("süß €")
        );
        assert_eq!(data_text(&data(b"\xff\xfe\x00")), None, "not UTF-8");
        assert_eq!(data_text(&data(b"a\x07b")), None, "a control character");
        assert_eq!(
            data_text(&data("abc\u{202e}def".as_bytes())),
            None,
            "turns the text round"
        );
        assert_eq!(data_text(&data("\u{200b}".as_bytes())), None, "no width");
        assert_eq!(data_text(&data(b"   ")), None, "nothing to see");
        assert_eq!(data_text(&script("6a4c")), None, "ends inside a push");
        assert_eq!(data_text(&script("51")), None, "not a data output");
    }

    #[test]
    fn coinbase_texts_are_the_printable_runs() {
        let bytes = b"\x03\x40\xd1\x0c\x04abcd\x00/Example Pool/\xfa\xbe\x01xy";
        let script = ScriptBuf::from_bytes(bytes.to_vec());
        assert_eq!(
            coinbase_text(&script).as_deref(),
            Some("abcd /Example Pool/")
        );
        assert_eq!(coinbase_text(&ScriptBuf::from_bytes(vec![1, 2, 3])), None);
    }

    #[test]
    fn long_values_are_clipped_and_say_so() {
        let short = Clipped::hex(&[0xab; 10]);
        assert_eq!((short.text.len(), short.whole_bytes), (20, None));
        let long = Clipped::hex(&vec![0xab; 5_000]);
        assert_eq!(
            (long.text.len(), long.whole_bytes),
            (CLIP_CHARS, Some(5_000))
        );
        let ops = ScriptBuf::from_bytes(vec![0x61; 4_000_000]);
        let asm = Clipped::asm(&ops);
        assert_eq!(
            (asm.text.chars().count(), asm.whole_bytes),
            (CLIP_CHARS, Some(4_000_000))
        );
    }

    #[test]
    fn damaged_scripts_have_an_asm_too() {
        assert!(Clipped::asm(&script("4c")).text.contains("unexpected end"));
        assert_eq!(Clipped::asm(&script("")).text, "");
    }

    #[test]
    fn inner_scripts_of_each_kind() {
        let output = |hex: &str| TxOut {
            value: Amount::ZERO,
            script_pubkey: script(hex),
        };
        let input = |sig: &str, witness: &[&[u8]]| TxIn {
            previous_output: OutPoint::null(),
            script_sig: script(sig),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(witness),
        };
        let names = |input: &TxIn, output: &TxOut| -> Vec<(&str, String)> {
            inner_scripts(input, output)
                .into_iter()
                .map(|(n, c)| (n, c.text))
                .collect()
        };
        let p2sh = output(&format!("a914{}87", "11".repeat(20)));
        let p2wsh = output(&format!("0020{}", "11".repeat(32)));
        let p2tr = output(&format!("5120{}", "11".repeat(32)));
        let one = "OP_PUSHNUM_1".to_owned();

        assert_eq!(
            names(&input("0151", &[]), &p2sh),
            [("Redeem script", one.clone())]
        );
        assert_eq!(
            names(&input("", &[&[0x51]]), &p2wsh),
            [("Witness script", one.clone())]
        );
        let nested = format!("220020{}", "11".repeat(32));
        let both = names(&input(&nested, &[&[0x51]]), &p2sh);
        assert_eq!(
            both.iter().map(|b| b.0).collect::<Vec<_>>(),
            ["Redeem script", "Witness script"]
        );
        let control = [0xc0; 33];
        assert_eq!(
            names(&input("", &[&[0x51], &control]), &p2tr),
            [("Tapscript", one)]
        );
        assert_eq!(
            names(&input("", &[&[0x51; 64]]), &p2tr),
            [],
            "a key path reveals no script"
        );
        assert_eq!(
            names(&input("4c", &[]), &p2sh),
            [],
            "a damaged scriptSig reveals nothing"
        );
        assert_eq!(names(&input("", &[]), &p2wsh), [], "no witness, no script");
    }
}
