//! The nearest valid word to a misspelt one, for messages of the kind "did you mean ...?".

/// Words longer than this are not compared (and no valid one is).
const MAX_WORD: usize = 48;

/// The candidate that takes the fewest edits to get from `word`; the first of several.
///
/// An edit is an insertion, a deletion, a replacement or a swap of neighbours. Case does not
/// matter, and `-` equals `_`. None: no candidate is near enough, which is one edit, and one more
/// per four bytes.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > MAX_WORD {
        return None;
    }
    let near = 1 + word.len() / 4;
    candidates
        .into_iter()
        .map(|candidate| (distance(word.as_bytes(), candidate.as_bytes(), near), candidate))
        .filter(|(distance, _)| *distance <= near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `"did you mean X? "`, or nothing: see [`nearest`].
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|candidate| format!("did you mean {candidate}? ")).unwrap_or_default()
}

fn same(a: u8, b: u8) -> bool {
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    plain(a) == plain(b)
}

/// Damerau-Levenshtein distance (optimal string alignment); anything above `max` if it is more than
/// that.
fn distance(a: &[u8], b: &[u8], max: usize) -> usize {
    if b.len() > MAX_WORD || a.len().abs_diff(b.len()) > max {
        return usize::MAX;
    }
    // Rows i-2, i-1 and i of the table.
    let mut rows = [[0usize; MAX_WORD + 1]; 3];
    for (j, cell) in rows[1].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        let [before, last, row] = &mut rows;
        row[0] = i;
        for j in 1..=b.len() {
            let mut best = (last[j - 1] + usize::from(!same(a[i - 1], b[j - 1]))).min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) {
                best = best.min(before[j - 2] + 1);
            }
            row[j] = best;
        }
        rows.rotate_left(1);
        // Each row comes from the two before it, and nothing ever gets less: most words of many are
        // given up early.
        if rows[..2].iter().all(|row| row[..=b.len()].iter().all(|cell| *cell > max)) {
            return usize::MAX;
        }
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_words() {
        let words = ["tp_dst", "tp_src", "nw_src", "ip", "ipv6"];
        for (typo, right) in [("tp_dts", "tp_dst"), ("tp_srcc", "tp_src"), ("nwsrc", "nw_src"), ("NW_SRX", "nw_src")] {
            assert_eq!(nearest(typo, words), Some(right), "{typo}");
        }
        let keys = ["name", "number", "mtu", "no_flood", "af_packet"];
        for (typo, right) in [("nmae", "name"), ("MTU", "mtu"), ("no-flood", "no_flood"), ("af-packet", "af_packet")] {
            assert_eq!(nearest(typo, keys), Some(right), "{typo}");
        }
        assert_eq!(nearest("zzz", keys), None);
        assert_eq!(nearest("nw_sr", ["nw_srv", "nw_src"]), Some("nw_srv"), "the first of those that are as near");
        assert_eq!(did_you_mean("nmae", keys), "did you mean name? ");
        assert_eq!(did_you_mean("zzz", keys), "");
        assert_eq!(nearest("entirely_other", words), None);
        assert_eq!(nearest("", words), None);
        assert_eq!(nearest(&"x".repeat(100_000), words), None);
    }

    #[test]
    fn distances() {
        for (a, b, d) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "acb", 1),
            ("abc", "abc", 0),
            ("ca", "abc", 3),
            ("kitten", "sitting", 3),
            ("pdo", "pod", 1),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes(), 5), d, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes(), 5), d, "{b} {a}");
            assert!(distance(a.as_bytes(), b.as_bytes(), 0) >= d.min(1), "{a} {b}");
        }
    }
}
