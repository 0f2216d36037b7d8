//! Token symbols and amounts, with the texts that nodes print.

use crate::json;

/// The letters of a token: up to seven bytes, the first in the lowest byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolCode(pub u64);

/// A symbol code (bytes 1 to 7) and the number of decimals (byte 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(pub u64);

/// An amount in the smallest unit of its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asset {
    /// The amount: 10000 is one whole of a symbol with four decimals.
    pub amount: i64,
    /// What the amount counts.
    pub symbol: Symbol,
}

impl SymbolCode {
    /// Appends the letters. Bytes that are no letters come from hostile data and are shown as the characters with their
    /// numbers, escaped for JSON.
    pub fn write_to(self, out: &mut Vec<u8>) {
        let mut rest = self.0;
        while rest > 0 {
            let byte = (rest & 0xff) as u8;
            rest >>= 8;
            match byte {
                0x20..=0x7e if byte != b'"' && byte != b'\\' => out.push(byte),
                _ => {
                    out.extend_from_slice(b"\\u00");
                    json::hex(out, &[byte]);
                }
            }
        }
    }
}

impl Symbol {
    /// The number of decimals.
    #[must_use]
    pub fn precision(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// The letters.
    #[must_use]
    pub fn code(self) -> SymbolCode {
        SymbolCode(self.0 >> 8)
    }

    /// Appends `4,EOS`.
    pub fn write_to(self, out: &mut Vec<u8>) {
        json::u64(out, u64::from(self.precision()));
        out.push(b',');
        self.code().write_to(out);
    }
}

impl Asset {
    /// Appends `1.0000 EOS`: exactly the symbol's decimals, the sign in front, no point when there are no decimals.
    pub fn write_to(self, out: &mut Vec<u8>) {
        if self.amount < 0 {
            out.push(b'-');
        }
        let precision = usize::from(self.symbol.precision());
        let start = out.len();
        json::u64(out, self.amount.unsigned_abs());
        if precision > 0 {
            let digits = out.len() - start;
            if digits <= precision {
                // Zeros in front, so that one digit stands before the point.
                let missing = precision + 1 - digits;
                out.splice(start..start, std::iter::repeat_n(b'0', missing));
            }
            let point = out.len() - precision;
            out.insert(point, b'.');
        }
        out.push(b' ');
        self.symbol.code().write_to(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(precision: u8, code: &str) -> Symbol {
        let mut bytes = [0; 8];
        bytes[0] = precision;
        bytes[1..=code.len()].copy_from_slice(code.as_bytes());
        Symbol(u64::from_le_bytes(bytes))
    }

    #[test]
    fn amounts() {
        // amount, decimals, code, text: as nodes print them
        for (amount, precision, code, text) in [
            (-10_000, 4, "EOS", "-1.0000 EOS"),
            (0, 0, "A", "0 A"),
            (0, 18, "ABCDEFG", "0.000000000000000000 ABCDEFG"),
            (1, 18, "WEI", "0.000000000000000001 WEI"),
            (i64::MAX, 4, "EOS", "922337203685477.5807 EOS"),
            (i64::MIN, 4, "EOS", "-922337203685477.5808 EOS"),
            (10, 0, "UNIT", "10 UNIT"),
            (-5, 1, "X", "-0.5 X"),
        ] {
            let mut out = Vec::new();
            let symbol = symbol(precision, code);
            Asset { amount, symbol }.write_to(&mut out);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }

    #[test]
    fn hostile_symbols_stay_valid_json() {
        let mut out = vec![b'"'];
        Symbol(u64::MAX).write_to(&mut out);
        Symbol(0x2200_5c0a_0022_ff04).write_to(&mut out);
        out.push(b'"');
        serde_json::from_slice::<String>(&out).expect("a JSON string");
    }
}
