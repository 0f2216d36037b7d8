//! How much waits at which fee rate.

use rpds::RedBlackTreeMapSync;

use super::FeeRate;

/// A bin is closed when it holds more than this, virtual bytes.
const BIN_VSIZE: u64 = 50_000;

/// A range of fee rates with the size of the transactions in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramBin {
    /// The lowest rate in the bin.
    pub rate: FeeRate,
    /// Virtual bytes of all transactions in it.
    pub vsize: u64,
}

/// Bins from the highest rate to the lowest. Each holds more than 50,000 virtual bytes, but for the last; transactions of
/// one rate are in one bin.
pub(super) fn bins(rates: &RedBlackTreeMapSync<FeeRate, u64>) -> Vec<HistogramBin> {
    let mut bins = Vec::new();
    let mut open: Option<HistogramBin> = None;
    for (rate, vsize) in rates.iter().rev() {
        let bin = HistogramBin {
            rate: *rate,
            vsize: open.map_or(0, |bin| bin.vsize) + vsize,
        };
        open = if bin.vsize > BIN_VSIZE {
            bins.push(bin);
            None
        } else {
            Some(bin)
        };
    }
    bins.extend(open);
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins_of(list: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut rates = RedBlackTreeMapSync::new_sync();
        for (fee, vsize) in list {
            rates.insert_mut(
                FeeRate {
                    fee: *fee,
                    weight: 4,
                },
                *vsize,
            );
        }
        bins(&rates)
            .iter()
            .map(|bin| (bin.rate.fee, bin.vsize))
            .collect()
    }

    #[test]
    fn bins_close_above_their_size() {
        assert_eq!(bins_of(&[]), []);
        assert_eq!(bins_of(&[(7, 50_000)]), [(7, 50_000)]);
        assert_eq!(
            bins_of(&[(9, 30_000), (8, 20_000), (7, 1), (6, 10)]),
            [(7, 50_001), (6, 10)]
        );
        assert_eq!(
            bins_of(&[(9, 200_000), (1, 60_000)]),
            [(9, 200_000), (1, 60_000)]
        );
    }
}
