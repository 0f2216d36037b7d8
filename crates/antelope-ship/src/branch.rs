//! The end of a chain as it is known here: the blocks that may still be undone, and how the next one fits.

use std::collections::VecDeque;
use std::fmt;

use cairn_antelope_abi::Checksum256;

/// The most blocks that are remembered. Chains with 21 producers keep about 330 that may be undone; Savanna a handful.
pub const BRANCH_BLOCKS_MAX: usize = 8192;

/// A block by number and id.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BlockPosition {
    /// Its number.
    pub num: u32,
    /// Its id, whose first four bytes are the number too.
    pub id: Checksum256,
}

impl fmt::Debug for BlockPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.num)?;
        self.id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A change to another branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkSeen {
    /// The last block that both branches have.
    pub common: BlockPosition,
    /// The blocks that are left, oldest first.
    pub undone: Vec<BlockPosition>,
}

/// How a block fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It follows the last block.
    Follows,
    /// It is the first block of another branch.
    Fork(ForkSeen),
    /// It is known already.
    Known,
    /// There are blocks between the last one and it.
    Gap,
    /// It stands on a block that is not known here: its branch left earlier. The node must be asked again, with what is
    /// known here.
    Elsewhere,
    /// Its branch left before the last irreversible block: this is not the same chain.
    Irreversible,
}

/// The blocks known here, oldest first, from the last irreversible one on.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    blocks: VecDeque<BlockPosition>,
}

impl Branch {
    /// From blocks with rising numbers, the last irreversible one first. Numbers that do not rise one by one end the list:
    /// what stands before them cannot be relied on.
    #[must_use]
    pub fn from_blocks(blocks: impl IntoIterator<Item = BlockPosition>) -> Self {
        let mut branch = Self::default();
        for block in blocks {
            if branch
                .last()
                .is_some_and(|last| last.num.checked_add(1) != Some(block.num))
            {
                branch.blocks.clear();
            }
            branch.blocks.push_back(block);
        }
        branch
    }

    /// The newest block.
    #[must_use]
    pub fn last(&self) -> Option<BlockPosition> {
        self.blocks.back().copied()
    }

    /// All blocks, oldest first.
    pub fn blocks(&self) -> impl Iterator<Item = BlockPosition> {
        self.blocks.iter().copied()
    }

    /// The block of this number.
    #[must_use]
    pub fn at(&self, num: u32) -> Option<BlockPosition> {
        let first = self.blocks.front()?.num;
        self.blocks.get(num.checked_sub(first)? as usize).copied()
    }

    /// How a block fits, without taking it.
    #[must_use]
    pub fn judge(&self, this: BlockPosition, previous: Option<BlockPosition>) -> Admission {
        let Some(last) = self.last() else {
            return Admission::Follows;
        };
        if this.num > last.num {
            return if last.num.checked_add(1) != Some(this.num) {
                Admission::Gap
            } else if previous == Some(last) {
                Admission::Follows
            } else {
                Admission::Elsewhere
            };
        }
        if self.at(this.num) == Some(this) {
            return Admission::Known;
        }
        let Some(common) = this.num.checked_sub(1).and_then(|num| self.at(num)) else {
            return Admission::Irreversible;
        };
        if previous != Some(common) {
            return Admission::Elsewhere;
        }
        let undone = self
            .blocks
            .iter()
            .filter(|block| block.num > common.num)
            .copied()
            .collect();
        Admission::Fork(ForkSeen { common, undone })
    }

    /// Takes a block that [`judge`](Self::judge) said follows or forks, and forgets what lies before `last_irreversible`.
    pub fn push(&mut self, this: BlockPosition, last_irreversible: u32) {
        while self
            .blocks
            .back()
            .is_some_and(|block| block.num >= this.num)
        {
            self.blocks.pop_back();
        }
        self.blocks.push_back(this);
        while self.blocks.len() > 1
            && (self.blocks.len() > BRANCH_BLOCKS_MAX
                || self
                    .blocks
                    .front()
                    .is_some_and(|first| first.num < last_irreversible))
        {
            self.blocks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(num: u32, branch: u8) -> BlockPosition {
        let mut id = [branch; 32];
        id[..4].copy_from_slice(&num.to_be_bytes());
        BlockPosition { num, id }
    }

    fn branch(numbers: std::ops::RangeInclusive<u32>) -> Branch {
        Branch::from_blocks(numbers.map(|num| block(num, 0)))
    }

    #[test]
    fn how_blocks_fit() {
        let known = branch(90..=104);
        let fork = |from: u32| {
            Admission::Fork(ForkSeen {
                common: block(from, 0),
                undone: (from + 1..=104).map(|num| block(num, 0)).collect(),
            })
        };
        // block, the one before it, verdict
        for (this, previous, verdict) in [
            (block(105, 0), Some(block(104, 0)), Admission::Follows),
            (block(105, 1), Some(block(104, 0)), Admission::Follows),
            (block(105, 1), Some(block(104, 1)), Admission::Elsewhere),
            (block(105, 1), None, Admission::Elsewhere),
            (block(106, 0), Some(block(105, 0)), Admission::Gap),
            (block(104, 0), Some(block(103, 0)), Admission::Known),
            (block(90, 0), Some(block(89, 0)), Admission::Known),
            (block(104, 1), Some(block(103, 0)), fork(103)),
            (block(91, 1), Some(block(90, 0)), fork(90)),
            (block(93, 1), Some(block(92, 1)), Admission::Elsewhere),
            (block(90, 1), Some(block(89, 0)), Admission::Irreversible),
            (block(5, 0), Some(block(4, 0)), Admission::Irreversible),
            (block(0, 0), None, Admission::Irreversible),
        ] {
            assert_eq!(
                known.judge(this, previous),
                verdict,
                "{this:?} after {previous:?}"
            );
        }
        assert_eq!(
            Branch::default().judge(block(7, 0), None),
            Admission::Follows
        );
        let end = Branch::from_blocks([block(u32::MAX, 0)]);
        assert_eq!(end.judge(block(u32::MAX, 1), None), Admission::Irreversible);
    }

    #[test]
    fn what_is_forgotten() {
        let mut known = branch(90..=104);
        known.push(block(93, 1), 91);
        assert_eq!(
            known.blocks().map(|b| b.num).collect::<Vec<_>>(),
            [91, 92, 93]
        );
        assert_eq!(known.last(), Some(block(93, 1)));
        // While catching up, everything is irreversible; the last block stays.
        known.push(block(94, 1), 500);
        assert_eq!(known.blocks().count(), 1);
        let mut long = Branch::default();
        for num in 1..=BRANCH_BLOCKS_MAX as u32 + 10 {
            long.push(block(num, 0), 1);
        }
        assert_eq!(long.blocks().count(), BRANCH_BLOCKS_MAX);
        // A list with a hole counts from behind the hole.
        let holed = Branch::from_blocks([block(1, 0), block(2, 0), block(5, 0), block(6, 0)]);
        assert_eq!(holed.blocks().map(|b| b.num).collect::<Vec<_>>(), [5, 6]);
    }

    proptest::proptest! {
        /// Whatever is offered, the branch stays a chain of rising numbers, and a fork's undone blocks are those that a plain
        /// list would lose.
        #[test]
        fn stays_a_chain(steps in proptest::collection::vec((0u32..12, 0u8..4, 0u32..12), 0..200)) {
            let mut known = Branch::default();
            let mut plain: Vec<BlockPosition> = Vec::new();
            for (back, id, lib) in steps {
                let num = plain.last().map_or(100, |last| last.num + 2 - back.min(8));
                let this = block(num, id);
                let previous = plain.iter().rev().find(|b| b.num + 1 == num).copied();
                let judged = known.judge(this, previous);
                if let Admission::Fork(fork) = &judged {
                    let lost: Vec<_> = plain.iter().filter(|b| b.num >= num).copied().collect();
                    proptest::prop_assert_eq!(&fork.undone, &lost);
                }
                if matches!(judged, Admission::Follows | Admission::Fork(_)) {
                    plain.retain(|b| b.num < num);
                    plain.push(this);
                    let lib = num.saturating_sub(lib);
                    known.push(this, lib);
                    let first = known.blocks().next().expect("just pushed").num;
                    plain.retain(|b| b.num >= first);
                    proptest::prop_assert_eq!(known.blocks().collect::<Vec<_>>(), plain.clone());
                }
            }
        }
    }
}
