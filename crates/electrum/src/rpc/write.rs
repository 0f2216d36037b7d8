//! Writing answers. Hex and numbers, which are most of what an Electrum server says, are written by hand.

use std::fmt::Display;
use std::io::Write;

use serde::Serialize;

use super::error::RpcError;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A JSON value being written. Text only ever grows; the caller sees to it that commas and brackets are in their places.
#[derive(Debug, Default, Clone)]
pub(crate) struct Json(Vec<u8>);

impl Json {
    /// An empty text.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// With room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// A value that has a JSON form.
    pub(crate) fn of(value: &(impl Serialize + ?Sized)) -> Self {
        let mut json = Self::new();
        json.value(value);
        json
    }

    /// Text as it stands: punctuation, keys, literals.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// A whole number.
    pub(crate) fn number(&mut self, number: impl Display) -> &mut Self {
        write!(self.0, "{number}").expect("writing to memory cannot fail");
        self
    }

    /// A small whole number, quickly.
    pub(crate) fn integer(&mut self, mut number: u64) -> &mut Self {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[at..]);
        self
    }

    /// Bytes as a string of hex digits.
    pub(crate) fn hex(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.push(b'"');
        self.hex_digits(bytes.iter());
        self.0.push(b'"');
        self
    }

    /// A hash as a string of hex digits in display order, which is the reverse.
    pub(crate) fn hash(&mut self, hash: impl AsRef<[u8]>) -> &mut Self {
        self.0.push(b'"');
        self.hex_digits(hash.as_ref().iter().rev());
        self.0.push(b'"');
        self
    }

    /// Hex digits without quotes.
    pub(crate) fn hex_digits<'b>(
        &mut self,
        bytes: impl ExactSizeIterator<Item = &'b u8>,
    ) -> &mut Self {
        self.0.reserve(bytes.len() * 2 + 1);
        for byte in bytes {
            self.0.extend_from_slice(&[
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        }
        self
    }

    /// A list of hashes in display order.
    pub(crate) fn hashes<H: AsRef<[u8]>>(&mut self, hashes: &[H]) -> &mut Self {
        self.list(hashes, |json, hash| {
            json.hash(hash);
        })
    }

    /// A list, each item written by `item`.
    pub(crate) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.0.push(b'[');
        for (at, value) in items.into_iter().enumerate() {
            if at > 0 {
                self.0.push(b',');
            }
            item(self, value);
        }
        self.0.push(b']');
        self
    }

    /// Any value that has a JSON form.
    pub(crate) fn value(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        serde_json::to_writer(&mut self.0, value)
            .expect("values here are plain and memory takes everything");
        self
    }

    /// One character many times.
    pub(crate) fn repeat(&mut self, character: u8, times: usize) -> &mut Self {
        self.0.resize(self.0.len() + times, character);
        self
    }

    /// Another text at the end of this one.
    pub(crate) fn append(&mut self, other: &Json) -> &mut Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    /// How long the text is.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The answer to a call: its id as the client wrote it, and the result.
pub(crate) fn write_result(out: &mut Vec<u8>, id: &str, result: &Json) {
    out.reserve(result.len() + id.len() + 36);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
}

/// An error answer; without an id where none could be read.
pub(crate) fn write_error(out: &mut Vec<u8>, id: Option<&str>, error: &RpcError) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.unwrap_or("null").as_bytes());
    let body = Json::of(&serde_json::json!({"code": error.code, "message": error.message}));
    out.extend_from_slice(b",\"error\":");
    out.extend_from_slice(body.as_bytes());
    out.push(b'}');
}

/// A notification of ours.
pub(crate) fn write_notification(out: &mut Vec<u8>, method: &str, params: &Json) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"");
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(b"\",\"params\":");
    out.extend_from_slice(params.as_bytes());
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_hex() {
        let mut json = Json::new();
        json.list([0, 7, 10, 1_234_567, u64::MAX], |json, number| {
            json.integer(number);
        });
        assert_eq!(json.as_bytes(), b"[0,7,10,1234567,18446744073709551615]");
        let mut json = Json::new();
        json.hex(&[0x00, 0xff, 0x1a]).raw(",").hash([0x01u8, 0x02]);
        assert_eq!(json.as_bytes(), br#""00ff1a","0201""#);
    }

    #[test]
    fn answers_are_json() {
        let mut out = Vec::new();
        write_error(
            &mut out,
            Some("\"a\""),
            &RpcError::bad("no \"such\"\nthing"),
        );
        let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(value["error"]["message"], "no \"such\"\nthing");
        assert_eq!(
            (&value["id"], &value["error"]["code"]),
            (&"a".into(), &1.into())
        );
        assert!(!out.contains(&b'\n'), "one line");
    }
}
