//! Scripts in the assembler notation of the `bitcoin` crate, which every Esplora client shows.
//!
//! The crate's own printer goes through the formatting machinery byte by byte; this one writes the same text from a
//! table. A property test holds the two together.

use std::sync::LazyLock;

use bitcoin::opcodes::Opcode;
use bitcoin::opcodes::all::{OP_PUSHBYTES_75, OP_PUSHDATA1, OP_PUSHDATA2, OP_PUSHDATA4};

use crate::json::JsonBuf;

/// Printed when a script ends inside the length of a push.
const UNEXPECTED_END: &str = "<unexpected end>";
/// Printed in place of the data when a push is longer than the rest of the script.
const PUSH_PAST_END: &str = "<push past end>";

/// The name of every opcode.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    (0..=u8::MAX)
        .map(|byte| match byte {
            // An empty push is printed as the number it leaves on the stack.
            0 => "OP_0".to_owned(),
            _ => format!("{:?}", Opcode::from(byte)),
        })
        .collect()
});

/// Appends the notation of a script, without quotes.
pub(crate) fn write_asm(out: &mut JsonBuf, script: &[u8]) {
    let names = &*NAMES;
    let mut rest = script;
    let mut first = true;
    while let Some((&opcode, after)) = rest.split_first() {
        rest = after;
        let length = if opcode <= OP_PUSHBYTES_75.to_u8() {
            usize::from(opcode)
        } else {
            let width = match Opcode::from(opcode) {
                OP_PUSHDATA1 => 1,
                OP_PUSHDATA2 => 2,
                OP_PUSHDATA4 => 4,
                _ => 0,
            };
            let Some((length, after)) = rest.split_at_checked(width) else {
                out.raw(UNEXPECTED_END);
                return;
            };
            rest = after;
            length
                .iter()
                .rev()
                .fold(0, |sum, &byte| (sum << 8) | usize::from(byte))
        };
        if !first {
            out.raw(" ");
        }
        first = false;
        out.raw(&names[usize::from(opcode)]);
        if length > 0 {
            out.raw(" ");
            let Some((data, after)) = rest.split_at_checked(length) else {
                out.raw(PUSH_PAST_END);
                return;
            };
            out.hex(data);
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::Script;
    use proptest::prelude::*;

    fn asm(script: &[u8]) -> String {
        let mut out = JsonBuf::default();
        write_asm(&mut out, script);
        String::from_utf8(out.into_bytes()).expect("ascii")
    }

    /// Scripts of which a good part is well formed, so that long ones are reached too.
    fn scripts() -> impl Strategy<Value = Vec<u8>> {
        let push = prop::collection::vec(any::<u8>(), 1..80).prop_map(|data| {
            let mut piece = if data.len() <= 75 { vec![] } else { vec![0x4c] };
            piece.push(data.len() as u8);
            piece.extend(data);
            piece
        });
        let piece = prop_oneof![
            4 => push,
            3 => any::<u8>().prop_map(|byte| vec![byte]),
            1 => prop::collection::vec(any::<u8>(), 0..6),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn same_text_as_the_library(script in scripts()) {
            prop_assert_eq!(asm(&script), Script::from_bytes(&script).to_asm_string());
        }
    }

    #[test]
    fn every_opcode_alone() {
        for byte in 0..=u8::MAX {
            assert_eq!(asm(&[byte]), Script::from_bytes(&[byte]).to_asm_string());
            let four = [byte, 0xff, 0xff, 0xff, 0xff];
            assert_eq!(asm(&four), Script::from_bytes(&four).to_asm_string());
        }
    }

    #[test]
    fn known_texts() {
        for (script, text) in [
            (&b""[..], ""),
            (&[0x00][..], "OP_0"),
            (
                &[0x51, 0x02, 0x4e, 0x73][..],
                "OP_PUSHNUM_1 OP_PUSHBYTES_2 4e73",
            ),
            (&[0x76, 0x4d, 0x01][..], "OP_DUP<unexpected end>"),
            (&[0x05, 0x01][..], "OP_PUSHBYTES_5 <push past end>"),
            (&[0x4c, 0x00][..], "OP_PUSHDATA1"),
        ] {
            assert_eq!(asm(script), text);
        }
    }
}
