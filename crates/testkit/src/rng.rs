//! The random numbers of the generator.
//!
//! A chain must be the same for ever for one seed (the bundled sample is compared byte for byte), so the sequence is
//! spelled out here (SplitMix64) instead of taken from a crate that may change its own, and nothing uses floating point.

/// A reproducible sequence of random numbers. Not for secrets.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// An index into something of length `len`; 0 when it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(u64::from(high.saturating_sub(low)) + 1) as u32
    }

    /// True in `per_mille` of 1000 cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// A number below `n` in which small ones are far more likely: about as likely as 1/(k+1), in powers of two.
    /// 0 when `n` is 0.
    pub fn long_tail(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let bits = u64::from(64 - n.leading_zeros());
        let octave = self.below(bits);
        let start = (1u64 << octave) - 1;
        (start + self.below(1 << octave)).min(n - 1)
    }

    /// Puts a slice into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.index(i + 1));
        }
    }
}

/// Scrambles a number: neighbours come out unrelated, the same number always alike.
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_never_changes() {
        let mut rng = Rng::new(42);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        // SplitMix64 of seed 42, as published with the algorithm's test vectors.
        assert_eq!(
            drawn,
            [
                13679457532755275413,
                2949826092126892291,
                5139283748462763858
            ]
        );
    }

    #[test]
    fn the_long_tail_is_one() {
        let mut rng = Rng::new(1);
        let mut hits = [0u32; 1000];
        for _ in 0..100_000 {
            hits[rng.long_tail(1000) as usize] += 1;
        }
        assert!(
            hits[0] > 8_000,
            "the first is drawn in a tenth of cases: {}",
            hits[0]
        );
        assert!(
            hits[0] > 50 * hits[200],
            "and far more often than the 200th: {}",
            hits[200]
        );
        assert!(
            hits.iter().filter(|h| **h > 0).count() > 900,
            "nearly all are drawn"
        );
    }
}
