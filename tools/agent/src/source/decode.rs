//! Bytes of a file to its text, whatever wrote it.

use std::borrow::Cow;

/// Bytes that show which encoding a text without a mark has.
const SHOWN: usize = 64;

/// [`char::REPLACEMENT_CHARACTER`] in UTF-16.
const LOST: u16 = 0xfffd;

/// The text of a file: UTF-8, or UTF-16 as some editors and shells write it. Lines end as they do
/// everywhere. Bytes that are neither become [`char::REPLACEMENT_CHARACTER`]; the line of the first
/// of them, from 1.
pub(super) fn decode(bytes: &[u8]) -> (String, Option<usize>) {
    let text = match width(bytes) {
        Some(order) => {
            let unit = |pair: &[u8]| pair.try_into().map_or(LOST, order);
            let units: Vec<u16> = bytes.chunks(2).map(unit).collect();
            Cow::Owned(String::from_utf16_lossy(&units))
        }
        None => String::from_utf8_lossy(bytes),
    };
    let text = if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.into_owned() };
    let is_lost = |line: &str| line.contains(char::REPLACEMENT_CHARACTER);
    let lost = text.lines().position(is_lost).map(|place| place + 1);
    (text, lost)
}

/// How two bytes of UTF-16 are one unit; None: it is no UTF-16. Without a mark, every second byte
/// of its first signs is zero.
fn width(bytes: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match bytes {
        [0xff, 0xfe, ..] => return Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => return Some(u16::from_be_bytes),
        _ => {}
    }
    let shown = &bytes[..bytes.len().min(SHOWN) & !1];
    let is_zero = |first: usize| shown.len() >= 4 && shown.iter().skip(first).step_by(2).all(|byte| *byte == 0);
    match (is_zero(0), is_zero(1)) {
        (false, true) => Some(u16::from_le_bytes),
        (true, false) => Some(u16::from_be_bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_of_a_text_is_that_text() {
        let text = "# caf\u{e9}\nkind: Pod\n";
        let utf16 = |order: fn(u16) -> [u8; 2], mark: &str| -> Vec<u8> {
            format!("{mark}{text}").encode_utf16().flat_map(order).collect()
        };
        for mark in ["", "\u{feff}"] {
            for order in [u16::to_le_bytes, u16::to_be_bytes] {
                let (decoded, lost) = decode(&utf16(order, mark));
                assert_eq!((decoded.trim_start_matches('\u{feff}'), lost), (text, None));
            }
        }
        for end in ["\n", "\r\n", "\r"] {
            assert_eq!(decode(text.replace('\n', end).as_bytes()), (text.to_owned(), None));
        }
        assert_eq!(decode(b""), (String::new(), None));
    }

    #[test]
    fn bytes_that_are_no_text_are_named_by_their_line() {
        let (text, lost) = decode(b"a: 1\n# caf\xe9\n");
        assert_eq!((text.as_str(), lost), ("a: 1\n# caf\u{fffd}\n", Some(2)));
        assert_eq!(decode(&[0xff, 0xfe, 0xff]).1, Some(1), "half a sign");
        assert_eq!(decode(&[0, 1]).0, "\0\u{1}");
    }
}
