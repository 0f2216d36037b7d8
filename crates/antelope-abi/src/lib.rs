//! The binary format of Antelope chains, contract ABIs, and the JSON of decoded values.
//!
//! [`Abi`] is one version of a contract's ABI, compiled for decoding: from its bytes as `setabi` carries them or from its
//! JSON form. [`Abi::decode`] turns bytes into JSON text in one of three [`Profile`]s without building a tree between.
//! [`Reader`] reads the format itself and is what the hot, hand-written decoders stand on. [`Name`], [`Symbol`], [`Asset`]
//! and the keys have types and texts of their own. [`Encoder`] goes the other way, from JSON to bytes.
//!
//! Every byte is from outside: an ABI is whatever somebody sent to the chain. Nothing here panics, recursion and
//! output are bounded, and a type that makes no sense is an error where it is used, not where the ABI is loaded, so that
//! one broken structure does not hide the rest of a contract.
//!
//! No I/O, no clock, no knowledge of blocks.

mod asset;
mod compile;
mod decode;
mod def;
mod encode;
mod error;
pub mod json;
mod keys;
mod name;
mod native;
mod reader;
mod time;

pub use asset::{Asset, Symbol, SymbolCode};
pub use compile::{Abi, Shape, TypeId};
pub use decode::{DEPTH_MAX, Decoded, OUTPUT_BYTES_BASE, OUTPUT_BYTES_PER_INPUT_BYTE, Profile};
pub use def::{
    ABI_BYTES_MAX, AbiDef, ActionDef, ActionResultDef, FieldDef, StructDef, TableDef, TypeDef,
    VariantDef,
};
pub use encode::Encoder;
pub use error::{AbiError, DecodeError, Reason};
pub use keys::{public_key_text, signature_text};
pub use name::{Name, NameError, NameText};
pub use native::native_abi;
pub use reader::{Checksum256, Reader};
pub use time::{BlockTimestamp, micros_text};
