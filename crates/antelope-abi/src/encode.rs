//! JSON to bytes: the inverse of decoding, for programs that send actions and for tests.
//!
//! Done by `rs_abieos`, which is older than this crate and shares no code with its decoder.

use rs_abieos::AbiHandle;

use crate::error::AbiError;

/// Encodes JSON values along one ABI.
pub struct Encoder {
    handle: AbiHandle,
}

impl Encoder {
    /// An encoder for the binary form of an ABI.
    ///
    /// # Errors
    /// When the bytes are no ABI, or one that the encoder's library refuses: it is stricter than [`Abi`](crate::Abi).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AbiError> {
        let handle = AbiHandle::from_bin(bytes).map_err(|e| AbiError::Encode(e.to_string()))?;
        Ok(Self { handle })
    }

    /// An encoder for the JSON form of an ABI.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    pub fn from_json(json: &str) -> Result<Self, AbiError> {
        let handle = AbiHandle::from_json(json).map_err(|e| AbiError::Encode(e.to_string()))?;
        Ok(Self { handle })
    }

    /// The bytes of a value of type `ty` given as JSON.
    ///
    /// # Errors
    /// When the type is unknown or the value does not fit it.
    pub fn encode(&mut self, ty: &str, json: &str) -> Result<Vec<u8>, AbiError> {
        self.handle
            .json_to_bin(ty, json)
            .map_err(|e| AbiError::Encode(format!("{ty}: {e}")))
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}
