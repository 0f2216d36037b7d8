//! What Elements adds to Bitcoin: values and assets that may be blinded, issuances, pegs, signed headers.
//!
//! Byte forms are those of `primitives/confidential.h`, `primitives/transaction.h` and `primitives/block.h` of Elements.
//! Nothing here checks cryptography; a commitment is 33 bytes.

mod ext;
mod field;
mod issuance;
mod peg;

pub use ::elements::AssetId;

pub(crate) use self::ext::skip_ext;
pub use self::ext::{BlockExt, DynafedParams, block_ext};
pub use self::field::{Confidential, Field};
pub(crate) use self::issuance::read_issuance;
pub use self::issuance::{Issuance, IssuanceKind, issued_native_asset};
pub use self::peg::{Pegin, Pegout};

use sha2::{Digest, Sha256};

/// Double SHA-256 of some bytes that follow each other. Uses the processor's own instructions where there are some.
pub(crate) fn sha256d(parts: &[&[u8]]) -> [u8; 32] {
    let mut once = Sha256::new();
    for part in parts {
        once.update(part);
    }
    Sha256::digest(once.finalize()).into()
}
