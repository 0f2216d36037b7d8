//! Fields of forms as browsers send them (`application/x-www-form-urlencoded`).

use percent_encoding::percent_decode;

/// The first field of a name; empty when there is none. What is not UTF-8 becomes characters that no reader takes.
pub(crate) fn field(body: &[u8], name: &str) -> String {
    body.split(|byte| *byte == b'&')
        .find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .map(|value| {
            let spaced: Vec<u8> = value
                .iter()
                .map(|byte| if *byte == b'+' { b' ' } else { *byte })
                .collect();
            percent_decode(&spaced).decode_utf8_lossy().into_owned()
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_form() {
        for (body, expected) in [
            (&b"tx=00ff"[..], "00ff"),
            (b"a=1&tx=00%0D%0A+ff%2B&b=2", "00\r\n ff+"),
            (b"txs=1", ""),
            (b"tx=%3Cscript%3E", "<script>"),
            (b"tx=%ff%zz", "\u{fffd}%zz"),
            (b"", ""),
        ] {
            assert_eq!(field(body, "tx"), expected, "{body:?}");
        }
    }
}
