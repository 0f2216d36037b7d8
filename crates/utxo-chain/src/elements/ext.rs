//! The end of a header of Elements: challenge and solution, or the parameters of a dynamic federation.

use crate::bytes::{DecodeError, Reader};

const EARLY: &str = "the header ends early";

/// What a header of Elements has instead of proof of work, borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockExt<'a> {
    /// Before the dynamic federation: a script, and what satisfies it.
    Proof {
        /// The script that signs blocks.
        challenge: &'a [u8],
        /// What satisfies it.
        solution: &'a [u8],
    },
    /// Since then.
    Dynafed {
        /// Parameters in force.
        current: DynafedParams<'a>,
        /// Parameters that this block votes for.
        proposed: DynafedParams<'a>,
        /// Signatures.
        signblock_witness: Vec<&'a [u8]>,
    },
}

/// Parameters of a federation as a header spells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DynafedParams<'a> {
    /// None.
    Null,
    /// Those of the running epoch, with all that does not concern signing as one hash.
    Compact {
        /// The script that signs blocks.
        signblockscript: &'a [u8],
        /// Most bytes of signatures.
        signblock_witness_limit: u32,
        /// Hash of the rest.
        elided_root: &'a [u8; 32],
    },
    /// In full, in the first block of an epoch and in proposals.
    Full {
        /// The script that signs blocks.
        signblockscript: &'a [u8],
        /// Most bytes of signatures.
        signblock_witness_limit: u32,
        /// scriptPubKey of the federation's address on the parent chain.
        fedpeg_program: &'a [u8],
        /// The script behind it.
        fedpegscript: &'a [u8],
        /// Keys that may peg out.
        extension_space: Vec<&'a [u8]>,
    },
}

/// The end of a serialized header, which is all of `header`.
///
/// # Errors
/// [`DecodeError`] where the bytes end or make no sense.
pub fn block_ext(header: &[u8]) -> Result<BlockExt<'_>, DecodeError> {
    /// Version, previous block, merkle root, time, height.
    const BEFORE: usize = 4 + 32 + 32 + 4 + 4;
    let mut reader = Reader::new(header);
    let version = reader.u32(EARLY)?;
    reader.take(BEFORE - 4, EARLY)?;
    let ext = if version & crate::header::DYNAFED_BIT == 0 {
        BlockExt::Proof {
            challenge: reader.var_bytes(EARLY)?,
            solution: reader.var_bytes(EARLY)?,
        }
    } else {
        BlockExt::Dynafed {
            current: params(&mut reader)?,
            proposed: params(&mut reader)?,
            signblock_witness: list(&mut reader)?,
        }
    };
    if reader.at() != header.len() {
        return Err(reader.error("bytes after the header"));
    }
    Ok(ext)
}

/// Passes over the end of a header; gives back the offset up to which the block hash covers it.
pub(crate) fn skip_ext(reader: &mut Reader<'_>, is_dynafed: bool) -> Result<usize, DecodeError> {
    if is_dynafed {
        params(reader)?;
        params(reader)?;
        let hashed = reader.at();
        list(reader)?;
        Ok(hashed)
    } else {
        reader.var_bytes(EARLY)?;
        let hashed = reader.at();
        reader.var_bytes(EARLY)?;
        Ok(hashed)
    }
}

fn params<'a>(reader: &mut Reader<'a>) -> Result<DynafedParams<'a>, DecodeError> {
    let unknown = reader.error("a form of federation parameters that is not known");
    Ok(match reader.u8(EARLY)? {
        0 => DynafedParams::Null,
        1 => DynafedParams::Compact {
            signblockscript: reader.var_bytes(EARLY)?,
            signblock_witness_limit: reader.u32(EARLY)?,
            elided_root: reader.array(EARLY)?,
        },
        2 => DynafedParams::Full {
            signblockscript: reader.var_bytes(EARLY)?,
            signblock_witness_limit: reader.u32(EARLY)?,
            fedpeg_program: reader.var_bytes(EARLY)?,
            fedpegscript: reader.var_bytes(EARLY)?,
            extension_space: list(reader)?,
        },
        _ => return Err(unknown),
    })
}

/// A counted list of byte strings. Each takes a byte at least, so the list is never longer than the bytes.
fn list<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, DecodeError> {
    let count = reader.compact(EARLY)?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(reader.var_bytes(EARLY)?);
    }
    Ok(items)
}
