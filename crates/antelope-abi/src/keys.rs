//! Texts of public keys and signatures.
//!
//! Text: `PUB_K1_`, `PUB_R1_`, `PUB_WA_`, `SIG_K1_` … and base58 of the data with the first four bytes of the RIPEMD-160
//! of data and kind. The older text of K1 keys, `EOS…`, has no kind in its checksum.

use bitcoin::base58;
use bitcoin::hashes::{Hash, ripemd160};

use crate::error::{DecodeError, Reason};
use crate::reader::Reader;

const POINT_LEN: usize = 33;
const COMPACT_SIGNATURE_LEN: usize = 65;
/// The longest WebAuthn data that is turned into text: base58 takes time with the square of the length.
const WEBAUTHN_BYTES_MAX: usize = 2048;

const KINDS: [&str; 3] = ["K1", "R1", "WA"];

fn text(prefix: &str, kind: &str, data: &[u8], suffix: &str) -> String {
    let mut hashed = data.to_vec();
    hashed.extend_from_slice(suffix.as_bytes());
    let checksum = ripemd160::Hash::hash(&hashed);
    hashed.truncate(data.len());
    hashed.extend_from_slice(&checksum.as_byte_array()[..4]);
    format!("{prefix}{kind}{}", base58::encode(&hashed))
}

/// Reads a public key and gives its text; `legacy` chooses `EOS…` for K1 keys, as nodes print them.
///
/// # Errors
/// When the bytes end, the kind is unknown, or a WebAuthn key is longer than 2,048 bytes.
pub fn public_key_text(reader: &mut Reader<'_>, legacy: bool) -> Result<String, DecodeError> {
    let kind = reader.u8()?;
    let start = reader.position();
    match kind {
        0 | 1 => {
            reader.take(POINT_LEN)?;
        }
        2 => {
            reader.take(POINT_LEN)?;
            reader.u8()?;
            reader.bytes()?;
        }
        other => return Err(DecodeError::new(Reason::KeyKind(other), start - 1)),
    }
    let data = bounded(reader, start)?;
    if kind == 0 && legacy {
        return Ok(text("EOS", "", data, ""));
    }
    let kind = KINDS[usize::from(kind)];
    Ok(text("PUB_", &format!("{kind}_"), data, kind))
}

/// Reads a signature and gives its text.
///
/// # Errors
/// When the bytes end, the kind is unknown, or a WebAuthn signature is longer than 2,048 bytes.
pub fn signature_text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let kind = reader.u8()?;
    let start = reader.position();
    match kind {
        0 | 1 => {
            reader.take(COMPACT_SIGNATURE_LEN)?;
        }
        2 => {
            reader.take(COMPACT_SIGNATURE_LEN)?;
            reader.bytes()?;
            reader.bytes()?;
        }
        other => return Err(DecodeError::new(Reason::KeyKind(other), start - 1)),
    }
    let data = bounded(reader, start)?;
    let kind = KINDS[usize::from(kind)];
    Ok(text("SIG_", &format!("{kind}_"), data, kind))
}

fn bounded<'a>(reader: &Reader<'a>, start: usize) -> Result<&'a [u8], DecodeError> {
    let data = reader.since(start);
    if data.len() > WEBAUTHN_BYTES_MAX {
        return Err(DecodeError::new(Reason::KeyLength(data.len()), start));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_development_key_in_both_texts() {
        // The well-known key of every test chain.
        let mut bytes = vec![0, 2];
        bytes.extend_from_slice(&[
            0xc0, 0xde, 0xd2, 0xbc, 0x1f, 0x13, 0x05, 0xfb, 0x0f, 0xaa, 0xc5, 0xe6, 0xc0, 0x3e,
            0xe3, 0xa1, 0x92, 0x42, 0x34, 0x98, 0x54, 0x27, 0xb6, 0x16, 0x7c, 0xa5, 0x69, 0xd1,
            0x3d, 0xf4, 0x35, 0xcf,
        ]);
        assert_eq!(
            public_key_text(&mut Reader::new(&bytes), true).as_deref(),
            Ok("EOS6MRyAjQq8ud7hVNYcfnVPJqcVpscN5So8BhtHuGYqET5GDW5CV")
        );
        assert_eq!(
            public_key_text(&mut Reader::new(&bytes), false).as_deref(),
            Ok("PUB_K1_6MRyAjQq8ud7hVNYcfnVPJqcVpscN5So8BhtHuGYqET5BoDq63")
        );
        bytes[0] = 9;
        assert!(public_key_text(&mut Reader::new(&bytes), true).is_err());
    }

    #[test]
    fn a_webauthn_key_that_is_too_long() {
        let mut bytes = vec![2];
        bytes.extend_from_slice(&[7; 34]);
        bytes.extend_from_slice(&[0xff, 0x3f]);
        bytes.resize(bytes.len() + 0x1fff, b'a');
        let error =
            public_key_text(&mut Reader::new(&bytes), false).expect_err("longer than the bound");
        assert!(matches!(error.reason(), Reason::KeyLength(_)), "{error}");
    }
}
