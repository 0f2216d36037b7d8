//! The nearest known name to a mistyped one.

/// Names longer than this are compared by their first characters only: the cost is quadratic in the length.
const COMPARED_CHARS_MAX: usize = 64;

/// Number of insertions, deletions, replacements and swaps of neighbours between two names, letters without case and
/// `-` taken for `_`.
pub(crate) fn edit_distance(left: &str, right: &str) -> usize {
    let left = normal_chars(left);
    let right = normal_chars(right);
    let width = right.len() + 1;
    // Three rows of the table of distances between all prefixes: the swap looks two rows back.
    let mut before_last: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (row, left_char) in left.iter().enumerate() {
        let mut current = vec![row + 1; width];
        for (column, right_char) in right.iter().enumerate() {
            let replaced = last[column] + usize::from(left_char != right_char);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0
                && column > 0
                && *left_char == right[column - 1]
                && left[row - 1] == *right_char;
            if swapped {
                best = best.min(before_last[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        before_last = last;
        last = current;
    }
    last[right.len()]
}

fn normal_chars(name: &str) -> Vec<char> {
    name.chars()
        .take(COMPARED_CHARS_MAX)
        .map(|c| match c {
            '-' => '_',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// The candidate with the smallest distance plus its handicap; of equals the first.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = (&'a str, usize, String)>,
) -> Option<String> {
    candidates
        .map(|(candidate, handicap, shown)| (edit_distance(name, candidate) + handicap, shown))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, shown)| shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (left, right, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("listen", "listen", 0),
            ("Listen", "listen", 0),
            ("rpc-url", "rpc_url", 0),
            ("lisen", "listen", 1),
            ("lsiten", "listen", 1),
            ("utxo_limit", "utxos_limit", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(left, right), expected, "{left} {right}");
            assert_eq!(edit_distance(right, left), expected, "{right} {left}");
        }
    }

    #[test]
    fn nearest_prefers_the_own_section() {
        let candidates = || {
            [
                ("listen", 1, "http.listen".to_owned()),
                ("lister", 0, "lister".to_owned()),
            ]
            .into_iter()
        };
        assert_eq!(nearest("listed", candidates()), Some("lister".to_owned()));
        assert_eq!(
            nearest("listen", candidates()),
            Some("http.listen".to_owned())
        );
    }
}
