//! Telling the processor what will be read soon.
//!
//! Records of a partition are read in the order of their keys, which is no order in memory: without a hint nearly every
//! record waits for main memory.

/// Bytes that one hint covers.
const LINE_BYTES: usize = 64;

/// Starts to load `length` bytes at a place that is read a little later. Places outside of the slice are ignored.
#[inline]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the hint takes an address")
)]
pub(super) fn prefetch(bytes: &[u8], at: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(ahead) = bytes.get(at..(at + length).min(bytes.len())) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in ahead.chunks(LINE_BYTES) {
            // SAFETY: the hint reads and writes nothing that a program can see, and the address is inside the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at, length, LINE_BYTES);
}
