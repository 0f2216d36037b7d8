//! Published revisions of the application's world snapshot, and the leaves they consist of.

use serde::{Deserialize, Serialize};

use crate::faults::{Fault, Faults};
use crate::fields::{Fields, elements, unquote};
use crate::json::JsonObject;
use crate::merkle;
use crate::money::Rounding;
use crate::time::AtMs;

/// Longest root, hex digits.
pub(crate) const ROOT_DIGITS_MAX: usize = 128;
/// Revisions of an epoch: scores are `epoch × 2³² + rev`, exact in a double.
const REVS_PER_EPOCH: i64 = 1 << 32;
/// Epochs.
const EPOCH_MAX: i64 = (1 << 20) - 1;
/// Longest label, bytes.
const LABEL_MAX: usize = 200;
/// Longest stable key of a leaf, bytes.
const LEAF_KEY_MAX: usize = 500;
/// Leaves of a revision at most.
const LEAVES_MAX: usize = 100_000;

/// What ties a transaction to the world at that moment: the newest revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The revision.
    pub rev: i64,
    /// Its root.
    pub root: String,
}

/// A revision's place in the order of all: by epoch, then revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Height {
    /// How often the application began again at revision 0.
    pub epoch: i64,
    /// The revision within the epoch.
    pub rev: i64,
}

impl Height {
    /// Checks the ranges.
    pub fn new(epoch: i64, rev: i64) -> Option<Self> {
        let fits = (0..=EPOCH_MAX).contains(&epoch) && (0..REVS_PER_EPOCH).contains(&rev);
        fits.then_some(Self { epoch, rev })
    }

    /// The score in the sorted set.
    pub(crate) fn score(self) -> i64 {
        self.epoch * REVS_PER_EPOCH + self.rev
    }

    /// From the score.
    pub(crate) fn from_score(score: i64) -> Option<Self> {
        Self::new(score / REVS_PER_EPOCH, score % REVS_PER_EPOCH).filter(|_| score >= 0)
    }

    /// Greatest possible score of the epoch.
    pub(crate) fn epoch_end(epoch: i64) -> i64 {
        epoch * REVS_PER_EPOCH + (REVS_PER_EPOCH - 1)
    }
}

/// A revision as told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The revision.
    pub rev: i64,
    /// The epoch; the current one when not said.
    pub epoch: Option<i64>,
    /// The root over the leaves, lower-case hex.
    pub root: String,
    /// Number of leaves.
    pub leaf_count: i64,
    /// When it was published, milliseconds since 1970.
    pub at_ms: i64,
    /// People, agents and buildings on the map.
    pub occupants: Option<i64>,
    /// Leaves added, changed or removed since the revision before.
    pub leaf_delta: Option<i64>,
    /// A name.
    pub label: Option<String>,
}

/// One element of the snapshot: its stable key and digest.
pub type Leaf = (String, String);

impl Block {
    /// Reads and checks a revision; `None` with faults noted.
    pub(crate) fn read(json: &str, path: &str, latest: AtMs, faults: &mut Faults) -> Option<Self> {
        let mut fields = Fields::parse(json, path, Rounding::Refuse, faults);
        fields.required("rev");
        let rev = fields.integer("rev", 0);
        let epoch = fields.integer("epoch", 0);
        if Height::new(epoch.unwrap_or(0), rev.unwrap_or(0)).is_none()
            && rev.is_some_and(|rev| rev >= REVS_PER_EPOCH)
        {
            fields.fault("rev", "too_large", "is 2^32 or more");
        }
        if epoch.is_some_and(|epoch| epoch > EPOCH_MAX) {
            fields.fault("epoch", "too_large", format!("is more than {EPOCH_MAX}"));
        }
        fields.required("merkleRootHex");
        let root = fields.hex("merkleRootHex", ROOT_DIGITS_MAX);
        fields.required("merkleLeafCount");
        let leaf_count = fields.integer("merkleLeafCount", 0);
        let at = fields.required_instant("at", latest);
        let occupants = fields.integer("occupantCount", 0);
        let leaf_delta = fields.integer("leafDeltaCount", 0);
        let label = fields.short_text("label", LABEL_MAX);
        if !fields.faults().is_empty() {
            return None;
        }
        Some(Self {
            rev: rev?,
            epoch,
            root: root?,
            leaf_count: leaf_count?,
            at_ms: at?.ms(),
            occupants,
            leaf_delta,
            label,
        })
    }

    /// The JSON form, as stored and served; the epoch is settled.
    pub(crate) fn to_json(&self, epoch: i64) -> String {
        JsonObject::new()
            .number("rev", self.rev)
            .number("epoch", epoch)
            .text("merkleRootHex", &self.root)
            .number("merkleLeafCount", self.leaf_count)
            .text("at", &AtMs::clamped(self.at_ms).to_string())
            .number_or_null("occupantCount", self.occupants)
            .number_or_null("leafDeltaCount", self.leaf_delta)
            .text_or_null("label", self.label.as_deref())
            .end()
    }

    /// Reads a stored revision.
    pub(crate) fn from_json(json: &str) -> Result<Self, Vec<Fault>> {
        let mut faults = Faults::default();
        Self::read(json, "", AtMs::clamped(i64::MAX), &mut faults).ok_or(faults.into_vec())
    }
}

/// Reads the ordered leaves of a revision and checks them against it: number, distinct keys, root.
pub(crate) fn read_leaves(
    json: &str,
    block: Option<&Block>,
    faults: &mut Faults,
) -> Option<Vec<Leaf>> {
    let Some(items) = elements(json) else {
        faults.add("leaves", "wrong_type", "is not a list");
        return None;
    };
    if items.len() > LEAVES_MAX {
        faults.add(
            "leaves",
            "too_long",
            format!("has more than {LEAVES_MAX} entries"),
        );
        return None;
    }
    let mut leaves = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        leaves.extend(read_leaf(item.get(), index, faults));
    }
    if !faults.is_empty() {
        return None;
    }
    let mut keys: Vec<&str> = leaves.iter().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        faults.add(
            "leaves",
            "duplicate_key",
            format!("{:?} comes twice", pair[0]),
        );
        return None;
    }
    let block = block?;
    let digests: Vec<&str> = leaves.iter().map(|(_, digest)| digest.as_str()).collect();
    if usize::try_from(block.leaf_count) != Ok(leaves.len()) {
        faults.add(
            "block.merkleLeafCount",
            "merkle_mismatch",
            format!(
                "is {}, but {} leaves are given",
                block.leaf_count,
                leaves.len()
            ),
        );
        return None;
    }
    let root = merkle::root(&digests);
    if root != block.root {
        faults.add(
            "block.merkleRootHex",
            "merkle_mismatch",
            format!("is not the root of the leaves, which is {root}"),
        );
        return None;
    }
    Some(leaves)
}

/// `[stableKey, digest]`, or the same as an object.
fn read_leaf(json: &str, index: usize, faults: &mut Faults) -> Option<Leaf> {
    let path = format!("leaves[{index}]");
    let (key, digest) = if json.trim_start().starts_with('[') {
        let pair = elements(json)?;
        let [key, digest] = pair.as_slice() else {
            faults.add(&path, "wrong_type", "is not a pair of key and digest");
            return None;
        };
        (
            unquote(key.get())?.into_owned(),
            unquote(digest.get())?.into_owned(),
        )
    } else {
        let mut fields = Fields::parse(json, &path, Rounding::Refuse, faults);
        fields.required("stableKey");
        fields.required("leafDigestHex");
        let key = fields.text("stableKey").map(|text| text.into_owned());
        let digest = fields.text("leafDigestHex").map(|text| text.into_owned());
        (key?, digest?)
    };
    let digest = digest.to_ascii_lowercase();
    if key.is_empty() || key.len() > LEAF_KEY_MAX || key.chars().any(char::is_control) {
        faults.add(&path, "invalid_key", "has no usable key");
        return None;
    }
    if !merkle::is_digest(&digest) {
        faults.add(&path, "not_hex", "has a digest that is not 64 hex digits");
        return None;
    }
    Some((key, digest))
}
