//! The tree over the leaves of a world snapshot: root, proof, and its check.
//!
//! A leaf's digest is SHA-256 over a domain, a zero byte and the payload; an inner node's, over another domain, a zero
//! byte and the *hex text* of both children. Pairs from left to right; an odd level pairs its last digest with itself.

use sha2::{Digest, Sha256};

use crate::json::JsonObject;

/// Domain of leaves.
const LEAF_DOMAIN: &[u8] = b"wilforlan:player-chain:leaf";
/// Domain of inner nodes.
const NODE_DOMAIN: &[u8] = b"wilforlan:player-chain:node";

/// On which side of the path a sibling stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before.
    Left,
    /// After.
    Right,
}

/// One step of a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// Where it stands.
    pub side: Side,
    /// Its digest, hex.
    pub hash: String,
}

impl Sibling {
    /// The JSON form: `{"side", "hash"}`.
    pub fn to_json(&self) -> String {
        let side = match self.side {
            Side::Left => "left",
            Side::Right => "right",
        };
        JsonObject::new()
            .text("side", side)
            .text("hash", &self.hash)
            .end()
    }
}

fn hex(hash: Sha256) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Digest of a leaf's payload.
pub fn leaf_digest(payload: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(LEAF_DOMAIN);
    hash.update([0]);
    hash.update(payload.as_bytes());
    hex(hash)
}

fn node(left: &str, right: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(NODE_DOMAIN);
    hash.update([0]);
    hash.update(left.as_bytes());
    hash.update(right.as_bytes());
    hex(hash)
}

fn next_level(level: &[String]) -> Vec<String> {
    level
        .chunks(2)
        .map(|pair| node(&pair[0], pair.get(1).unwrap_or(&pair[0])))
        .collect()
}

/// The root of an ordered list of digests.
pub fn root<S: AsRef<str>>(digests: &[S]) -> String {
    let mut level: Vec<String> = digests.iter().map(|d| d.as_ref().to_owned()).collect();
    if level.is_empty() {
        return leaf_digest("");
    }
    while level.len() > 1 {
        level = next_level(&level);
    }
    level.swap_remove(0)
}

/// The siblings of a leaf, from the bottom; `None` when there is no such leaf.
pub fn proof<S: AsRef<str>>(digests: &[S], index: usize) -> Option<Vec<Sibling>> {
    if index >= digests.len() {
        return None;
    }
    let mut level: Vec<String> = digests.iter().map(|d| d.as_ref().to_owned()).collect();
    let mut at = index;
    let mut siblings = Vec::new();
    while level.len() > 1 {
        let (side, sibling) = if at.is_multiple_of(2) {
            (Side::Right, level.get(at + 1).unwrap_or(&level[at]))
        } else {
            (Side::Left, &level[at - 1])
        };
        siblings.push(Sibling {
            side,
            hash: sibling.clone(),
        });
        level = next_level(&level);
        at /= 2;
    }
    Some(siblings)
}

/// The root that a leaf and its siblings lead to.
pub fn fold(digest: &str, siblings: &[Sibling]) -> String {
    siblings
        .iter()
        .fold(digest.to_owned(), |below, sibling| match sibling.side {
            Side::Left => node(&sibling.hash, &below),
            Side::Right => node(&below, &sibling.hash),
        })
}

/// Whether a text is a digest: 64 lower-case hex digits.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "b87257bc5705b9089335eef391141bb4dcac51c36eda88f75c282577b812bfb9";
    const B: &str = "bb8b08bd1e559eb5014bdaa83e5c147416daad2a2ed6287bdeaa3da0663ae36a";
    const C: &str = "107643a5130e8b6389d6119fbcea92f2d7d242d09dd4e8244397f9fb9cc67e77";
    const AB: &str = "5bb9062d39275fed021ab71cf8b1577061ccef8661b3ae6886bcbe501fbeb423";

    #[test]
    fn vectors() {
        assert_eq!(
            root::<&str>(&[]),
            "19c6bc0cf49b1c404af321c281e3faad3c2da150811562aa25a5cf6e3d8d6c80"
        );
        assert_eq!(leaf_digest("cairn-example-genesis"), A);
        assert_eq!(
            leaf_digest(r#"{"bounds":{"maxX":9,"maxY":9,"minX":0,"minY":0},"sid":"s1","v":1}"#),
            B
        );
        assert_eq!(
            leaf_digest(
                r#"{"agentId":"a1","kind":"agent","name":"Ada","nodeId":"n1","x":3,"y":4}"#
            ),
            C
        );
        assert_eq!(node(A, B), AB);
        assert_eq!(
            node(C, C),
            "ae7369bed90f7cd41ff418e6e2d8cb719e59992888ef1725c64c34b66f05d198"
        );
        assert_eq!(
            root(&[A, B, C]),
            "1ada55f445b7b1039a376a246b66e22d8e02c2feaa5458cfdc5fdc0d446fd0fd"
        );
        let expected = [(Side::Right, C), (Side::Left, AB)].map(|(side, hash)| Sibling {
            side,
            hash: hash.to_owned(),
        });
        assert_eq!(proof(&[A, B, C], 2).as_deref(), Some(&expected[..]));
    }

    proptest! {
        #[test]
        fn proofs_fold_to_the_root(count in 1usize..40, pick in 0usize..40) {
            let digests: Vec<String> = (0..count).map(|i| leaf_digest(&i.to_string())).collect();
            let index = pick % count;
            let siblings = proof(&digests, index).expect("there is such a leaf");
            prop_assert_eq!(fold(&digests[index], &siblings), root(&digests));
            prop_assert_ne!(fold(&leaf_digest("other"), &siblings), root(&digests));
        }
    }
}
