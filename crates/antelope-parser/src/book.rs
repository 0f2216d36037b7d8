//! The ABI history of the contracts that are in use, in memory. The whole history is in Redis.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_antelope_abi::Name;

use crate::version::AbiVersion;

/// Versions of one contract that are kept in memory: the newest ones.
pub(crate) const VERSIONS_MAX: usize = 64;
/// Memory for ABIs, in bytes. Contracts that have not been used for longest go first.
const BOOK_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The versions of one contract.
#[derive(Debug, Default)]
pub(crate) struct Contract {
    /// In the order in which they came into force.
    versions: Vec<Arc<AbiVersion>>,
    /// The version of today, from the chain API, for a past of which nothing is known.
    today: Option<Arc<AbiVersion>>,
    used: u64,
    /// Holds for this block only: what could not be found out is asked again for the next one.
    only_for: Option<u32>,
}

impl Contract {
    /// A contract of which nothing could be found out for now.
    pub(crate) fn unknown_in(block_num: u32) -> Self {
        Self {
            only_for: Some(block_num),
            ..Self::default()
        }
    }

    pub(crate) fn new(mut versions: Vec<Arc<AbiVersion>>, today: Option<Arc<AbiVersion>>) -> Self {
        versions.sort_by_key(|version| version.place());
        versions.drain(..versions.len().saturating_sub(VERSIONS_MAX));
        Self {
            versions,
            today,
            used: 0,
            only_for: None,
        }
    }

    /// The version in force for an action: the last one set at or before its place.
    pub(crate) fn for_action(
        &self,
        block_num: u32,
        global_sequence: u64,
    ) -> Option<&Arc<AbiVersion>> {
        self.up_to((block_num, global_sequence))
            .next()
            .or(self.today.as_ref())
    }

    /// The versions that a row of this block can have been written under, the likeliest first.
    pub(crate) fn for_row(&self, block_num: u32) -> impl Iterator<Item = &Arc<AbiVersion>> {
        self.up_to((block_num, u64::MAX)).chain(self.today.as_ref())
    }

    fn up_to(&self, place: (u32, u64)) -> impl Iterator<Item = &Arc<AbiVersion>> {
        let end = self
            .versions
            .partition_point(|version| version.place() <= place);
        self.versions[..end].iter().rev()
    }

    pub(crate) fn newest(&self) -> Option<&Arc<AbiVersion>> {
        self.versions.last()
    }

    fn weight(&self) -> usize {
        64 + self
            .versions
            .iter()
            .chain(&self.today)
            .map(|version| version.weight())
            .sum::<usize>()
    }
}

/// The contracts that are in memory.
#[derive(Debug, Default)]
pub(crate) struct Book {
    contracts: HashMap<Name, Contract>,
    tick: u64,
}

impl Book {
    /// A contract, if it is in memory. A contract of which nothing is known is in memory too, without versions.
    pub(crate) fn get(&self, contract: Name) -> Option<&Contract> {
        self.contracts.get(&contract)
    }

    /// Whether what is known of a contract holds for this block.
    pub(crate) fn has(&mut self, contract: Name, block_num: u32) -> bool {
        let tick = self.tick;
        self.contracts.get_mut(&contract).is_some_and(|found| {
            found.used = tick;
            found.only_for.is_none_or(|only| only == block_num)
        })
    }

    pub(crate) fn insert(&mut self, contract: Name, history: Contract) {
        self.contracts.insert(contract, history);
    }

    /// A new version came into force.
    pub(crate) fn add(&mut self, version: Arc<AbiVersion>) {
        let contract = self.contracts.entry(version.contract).or_default();
        contract.only_for = None;
        let at = contract
            .versions
            .partition_point(|known| known.place() <= version.place());
        if at > 0 && contract.versions[at - 1].place() == version.place() {
            contract.versions[at - 1] = version;
            return;
        }
        contract.versions.insert(at, version);
        if contract.versions.len() > VERSIONS_MAX {
            contract.versions.remove(0);
        }
    }

    /// Forgets what blocks above `common` set: they are undone. Contracts whose older versions may have been dropped to make room
    /// are forgotten as a whole, to be read again.
    pub(crate) fn roll_back(&mut self, common: u32) {
        self.contracts.retain(|_, contract| {
            let before = contract.versions.len();
            contract
                .versions
                .retain(|version| version.block_num <= common);
            before == contract.versions.len() || before < VERSIONS_MAX
        });
    }

    /// A block is done: makes room if need be. Only contracts whose versions are all in Redis may go, which is certain up to
    /// block `stored`.
    pub(crate) fn tidy(&mut self, stored: u32) {
        self.tick += 1;
        // Weighing everything takes a while, and a block adds little.
        if !self.tick.is_multiple_of(256) {
            return;
        }
        let mut weights: Vec<(u64, Name, usize)> = self
            .contracts
            .iter()
            .map(|(name, contract)| (contract.used, *name, contract.weight()))
            .collect();
        let mut total: usize = weights.iter().map(|(_, _, weight)| weight).sum();
        if total <= BOOK_BYTES_MAX {
            return;
        }
        weights.sort_unstable();
        for (_, name, weight) in weights {
            if total <= BOOK_BYTES_MAX / 4 * 3 {
                break;
            }
            let settled = self
                .contracts
                .get(&name)
                .and_then(Contract::newest)
                .is_none_or(|newest| newest.block_num <= stored);
            if settled {
                self.contracts.remove(&name);
                total -= weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(block: u32, sequence: u64) -> Arc<AbiVersion> {
        let bytes = format!("{block}:{sequence}").into_bytes();
        Arc::new(AbiVersion::new(Name(7), block, sequence, bytes.into()))
    }

    fn place(found: Option<&Arc<AbiVersion>>) -> Option<(u32, u64)> {
        found.map(|version| version.place())
    }

    #[test]
    fn the_version_in_force() {
        let mut book = Book::default();
        for (block, sequence) in [(5, 50), (9, 90), (9, 93), (20, 0)] {
            book.add(version(block, sequence));
        }
        let contract = book.get(Name(7)).expect("just added");
        for (block, sequence, expected) in [
            (4, 40, None),
            (5, 49, None),
            // The action that sets an ABI is itself read with it: the receipt counts it too.
            (5, 50, Some((5, 50))),
            (8, 80, Some((5, 50))),
            (9, 92, Some((9, 90))),
            (9, 93, Some((9, 93))),
            (20, 1, Some((20, 0))),
            (30, 1, Some((20, 0))),
        ] {
            assert_eq!(
                place(contract.for_action(block, sequence)),
                expected,
                "{block} {sequence}"
            );
        }
        let rows: Vec<_> = contract.for_row(9).map(|version| version.place()).collect();
        assert_eq!(rows, [(9, 93), (9, 90), (5, 50)]);
        book.roll_back(8);
        assert_eq!(
            place(book.get(Name(7)).and_then(Contract::newest)),
            Some((5, 50))
        );
    }

    #[test]
    fn a_version_that_comes_again_replaces_itself() {
        let mut book = Book::default();
        book.add(version(5, 50));
        book.add(version(5, 50));
        assert_eq!(book.get(Name(7)).expect("added").for_row(9).count(), 1);
        for block in 10..10 + 2 * VERSIONS_MAX as u32 {
            book.add(version(block, 0));
        }
        assert_eq!(
            book.get(Name(7)).expect("added").for_row(u32::MAX).count(),
            VERSIONS_MAX
        );
        // Older versions were dropped, so what remains after going back is not the whole: it is read again.
        book.roll_back(20);
        assert!(book.get(Name(7)).is_none());
    }

    #[test]
    fn what_could_not_be_found_out_is_asked_again() {
        let mut book = Book::default();
        book.insert(Name(7), Contract::unknown_in(5));
        assert!(book.has(Name(7), 5) && !book.has(Name(7), 6));
        book.add(version(6, 60));
        assert!(book.has(Name(7), 7));
    }

    #[test]
    fn today_is_the_last_resort() {
        let today = Some(version(100, 0));
        let contract = Contract::new(vec![version(50, 1)], today);
        assert_eq!(place(contract.for_action(10, 1)), Some((100, 0)));
        assert_eq!(place(contract.for_action(60, 1)), Some((50, 1)));
    }
}
