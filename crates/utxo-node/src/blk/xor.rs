//! The obfuscation key of block files.
//!
//! A node of version 28 or later XORs its block files with an 8-byte key kept in `xor.dat` in the same folder: the byte at
//! file offset `i` with `key[i % 8]`. An absent file or a key of zeros means plain files.

use std::io::ErrorKind;
use std::path::Path;

use crate::source::SourceError;

/// Name of the key file.
pub const KEY_FILE: &str = "xor.dat";
/// Length of the key, bytes.
pub const KEY_LEN: usize = 8;

/// The key of a folder of block files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XorKey([u8; KEY_LEN]);

impl XorKey {
    /// A key from its bytes.
    pub const fn new(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// Reads `xor.dat` of a folder; a missing file is the key of zeros.
    ///
    /// # Errors
    /// [`SourceError::Refused`] naming the file (and the length found) if it cannot be read or is not 8 bytes long.
    pub fn read(folder: &Path) -> Result<Self, SourceError> {
        let path = folder.join(KEY_FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                return Err(SourceError::Refused(format!(
                    "cannot read {}: {error}",
                    path.display()
                )));
            }
        };
        let key: [u8; KEY_LEN] = bytes.as_slice().try_into().map_err(|_| {
            SourceError::Refused(format!(
                "{} holds {} bytes, a key has {KEY_LEN}: restore the file of the node that wrote the block files \
                 (remove it only if they are plain)",
                path.display(),
                bytes.len()
            ))
        })?;
        Ok(Self(key))
    }

    /// The bytes of the key.
    pub const fn bytes(&self) -> [u8; KEY_LEN] {
        self.0
    }

    /// Whether the files are plain.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; KEY_LEN]
    }

    /// XORs bytes that stand at file offset `offset`; doing it twice undoes it.
    pub fn apply(&self, bytes: &mut [u8], offset: u64) {
        if self.is_zero() {
            return;
        }
        let mut turned = self.0;
        turned.rotate_left((offset % KEY_LEN as u64) as usize);
        let word = u64::from_ne_bytes(turned);
        let (words, rest) = bytes.as_chunks_mut::<KEY_LEN>();
        for chunk in words {
            *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
        }
        for (byte, key) in rest.iter_mut().zip(turned) {
            *byte ^= key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The fast form equals the definition, whatever the offset and length.
        #[test]
        fn apply_is_the_definition(key: [u8; 8], offset in 0_u64..1 << 40, bytes: Vec<u8>) {
            let expected: Vec<u8> = bytes
                .iter()
                .enumerate()
                .map(|(i, byte)| byte ^ key[((offset + i as u64) % 8) as usize])
                .collect();
            let mut found = bytes.clone();
            XorKey::new(key).apply(&mut found, offset);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn absent_zero_and_wrong_keys() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(
            XorKey::read(folder.path()).expect("absent is plain"),
            XorKey::default()
        );
        std::fs::write(folder.path().join(KEY_FILE), [0; 8]).expect("written");
        assert!(
            XorKey::read(folder.path())
                .expect("zeros are plain")
                .is_zero()
        );
        std::fs::write(folder.path().join(KEY_FILE), [1, 2, 3, 4, 5, 6, 7, 8]).expect("written");
        assert_eq!(
            XorKey::read(folder.path()).expect("a key").bytes(),
            [1, 2, 3, 4, 5, 6, 7, 8]
        );
        for wrong in [0, 7, 9] {
            std::fs::write(folder.path().join(KEY_FILE), vec![1; wrong]).expect("written");
            let text = XorKey::read(folder.path())
                .expect_err("a wrong length")
                .to_string();
            assert!(
                text.contains("xor.dat") && text.contains(&format!("{wrong} bytes")),
                "{text}"
            );
        }
    }
}
