//! Antelope: a real `nodeos`, and recorded sessions of one with the answers of independent programs.

mod chain_api;
mod nodeos;
mod pack;
mod recorded;
mod transaction;

pub use nodeos::{NODEOS_EXE_VARIABLE, Nodeos, NodeosError, NodeosOptions};
pub use pack::Packer;
pub use recorded::{
    Frame, FrameKind, PRIV_WASM, PROBE_WASM, ProtocolCase, Recording, SHIP_ABI, final_state,
    protocol_cases,
};
pub use transaction::{DEVELOPMENT_KEY, PackedAction};
