//! Pieces of JSON text, appended to a byte buffer. Everything appended is UTF-8.

/// Appends a JSON string with its quotes. Control characters, quotes and backslashes are escaped as JavaScript does.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

/// Appends a JSON string from bytes that ought to be UTF-8; what is not becomes U+FFFD.
pub fn lossy_string(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => string(out, text),
        Err(_) => string(out, &String::from_utf8_lossy(bytes)),
    }
}

fn escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut start = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[start..index]);
        start = index + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0a => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x0d => out.extend_from_slice(b"\\r"),
            _ => {
                out.extend_from_slice(b"\\u00");
                hex(out, &[byte]);
            }
        }
    }
    out.extend_from_slice(&bytes[start..]);
}

/// Appends a string as abieos escapes it: `\uXXXX` in capitals for every control character, DEL among them.
pub(crate) fn abieos_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\0'..='\x1f' | '\x7f' => {
                    out.extend_from_slice(b"\\u00");
                    hex_upper(out, &[character as u8]);
                }
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out.extend(std::iter::repeat_n(b'?', chunk.invalid().len()));
    }
    out.push(b'"');
}

/// Appends a string without the bytes that are not UTF-8, as nodes print it.
pub(crate) fn pruned_string(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => string(out, text),
        Err(_) => {
            out.push(b'"');
            for chunk in bytes.utf8_chunks() {
                escaped(out, chunk.valid());
            }
            out.push(b'"');
        }
    }
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

fn hex_with(out: &mut Vec<u8>, bytes: &[u8], digits: &[u8; 16]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    for (pair, &byte) in out[start..].chunks_exact_mut(2).zip(bytes) {
        pair[0] = digits[usize::from(byte >> 4)];
        pair[1] = digits[usize::from(byte & 15)];
    }
}

/// Appends lower-case hex digits, without quotes.
pub fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    hex_with(out, bytes, LOWER);
}

pub(crate) fn hex_upper(out: &mut Vec<u8>, bytes: &[u8]) {
    hex_with(out, bytes, UPPER);
}

/// Appends a whole number in decimal digits.
pub fn u64(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value;
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a whole number in decimal digits, with a sign when it is negative.
pub fn i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    u64(out, value.unsigned_abs());
}

/// Appends a floating-point number as JavaScript prints it, from its shortest digits (`{:e}` of the number). `zero_sign`
/// keeps the sign of a negative zero, which JavaScript drops.
pub(crate) fn shortest(out: &mut Vec<u8>, exponent_form: &str, zero_sign: bool) {
    let (mantissa, exponent) = exponent_form
        .split_once('e')
        .unwrap_or((exponent_form, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let digits: Vec<u8> = mantissa.bytes().filter(|&b| b != b'.').collect();
    if negative && (digits != b"0" || zero_sign) {
        out.push(b'-');
    }
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // The place of the point, counted from the first digit.
    let point = exponent.saturating_add(1);
    let zeros = |n: i32| std::iter::repeat_n(b'0', usize::try_from(n).unwrap_or_default());
    if count <= point && point <= 21 {
        out.extend_from_slice(&digits);
        out.extend(zeros(point - count));
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or_default());
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else if -6 < point && point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(zeros(-point));
        out.extend_from_slice(&digits);
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        u64(out, u64::from(exponent.unsigned_abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("everything written is UTF-8")
    }

    #[test]
    fn floats_as_javascript_prints_them() {
        // value, text: typed into a JavaScript console
        for (value, expected) in [
            (0.0f64, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (123_456.789, "123456.789"),
            (1e-6, "0.000001"),
            (1.5e-7, "1.5e-7"),
            (5e-324, "5e-324"),
            (1e308, "1e+308"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
        ] {
            assert_eq!(
                text(|out| shortest(out, &format!("{value:e}"), false)),
                expected
            );
        }
        assert_eq!(
            text(|out| shortest(out, &format!("{:e}", -0.0f64), true)),
            "-0"
        );
    }

    #[test]
    fn strings_are_escaped() {
        let hostile = "a\"b\\c\u{8}\t\n\u{c}\r\u{1}\u{7f}é☃";
        let ours = text(|out| string(out, hostile));
        assert_eq!(
            ours,
            serde_json::to_string(hostile).expect("a string has a JSON form")
        );
        assert_eq!(
            text(|out| lossy_string(out, b"f\xff\xfe\xc3(o")),
            "\"f\u{fffd}\u{fffd}\u{fffd}(o\""
        );
        assert_eq!(
            text(|out| pruned_string(out, b"f\xff\xfe\xc3(o")),
            "\"f(o\""
        );
        assert_eq!(
            text(|out| abieos_string(out, b"f\xff\xfe\xc3(o\x7f\n")),
            "\"f???(o\\u007F\\u000A\""
        );
    }

    proptest::proptest! {
        #[test]
        fn numbers_have_the_digits_of_the_standard_library(value: i64) {
            proptest::prop_assert_eq!(text(|out| i64(out, value)), value.to_string());
            proptest::prop_assert_eq!(text(|out| u64(out, value.cast_unsigned())), value.cast_unsigned().to_string());
        }

        #[test]
        fn floats_read_back_as_themselves(bits: u64) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                let written = text(|out| shortest(out, &format!("{value:e}"), true));
                proptest::prop_assert_eq!(written.parse::<f64>().expect("a number").to_bits(), bits);
            }
        }
    }
}
