//! Did you mean: the nearest of a few known words.

/// Bytes of the longest word that gets a suggestion; no key is half as long.
const WORD_MAX: usize = 48;

/// Edit distance with transpositions of neighbours (Damerau-Levenshtein, optimal string alignment), in bytes.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>(), vec![0; b.len() + 1]];
    for (i, x) in a.iter().enumerate() {
        let [before, previous, current] = &mut rows;
        current[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = previous[j] + usize::from(x != y);
            let mut best = replaced.min(previous[j + 1] + 1).min(current[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(before[j - 1] + 1);
            }
            current[j + 1] = best;
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

/// The known word that `word` most likely was meant to be, if any is near: at most a third of it wrong.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_MAX {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_").into_bytes();
    let wanted = plain(word);
    known
        .into_iter()
        .map(|candidate| (distance(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| distance * 3 <= wanted.len().max(candidate.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `"did you mean X? "`, or nothing.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|candidate| format!("did you mean {candidate}? ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_definition() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("mtu", "mtu", 0),
            ("mut", "mtu", 1),
            ("mtuu", "mtu", 1),
            ("mu", "mtu", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a:?} {b:?}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let known = ["name", "number", "mtu", "no_flood", "af_packet"];
        for (word, expected) in [
            ("nmae", Some("name")),
            ("MTU", Some("mtu")),
            ("no-flood", Some("no_flood")),
            ("af-packet", Some("af_packet")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word:?}");
        }
        assert_eq!(nearest(&"n".repeat(1 << 20), known), None);
    }
}
