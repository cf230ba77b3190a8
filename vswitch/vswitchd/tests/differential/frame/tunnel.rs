//! Tunnel headers and what is in them: `geneve=(vni=5 opts=ffff/80/01020304 inner=(tcp))`,
//! `vxlan=(vni=5 inner=(..))`, `gre=(key=5 inner=(..))`. `rest=HEX` instead of `inner=` is whatever
//! bytes. What is not given is as it should be.

use super::words::{int, parse, split};
use super::{Names, number, sum};
use crate::record::unhex;

/// The packet that is in a tunnel has this type.
const ETHERNET: u16 = 0x6558;

/// The bytes that `payload` gives for a header whose words are right.
///
/// # Panics
/// When they are not.
pub(crate) fn tunnel_payload(kind: &str, words: &str) -> Vec<u8> {
    payload(kind, words, &Names::new()).expect("a kind of tunnel").unwrap_or_else(|error| panic!("{error}"))
}

/// Parses `(WORDS)` of a header of this kind; the bytes from the header on. None: no tunnel header
/// is called so.
pub(super) fn payload(kind: &str, value: &str, names: &Names) -> Option<Result<Vec<u8>, String>> {
    let header = match kind {
        "geneve" => geneve,
        "vxlan" => vxlan,
        "gre" => gre,
        _ => return None,
    };
    let Some(words) = value.strip_prefix('(').and_then(|value| value.strip_suffix(')')) else {
        return Some(Err(format!("{value:?}: a tunnel header is in parentheses")));
    };
    Some(Words::new(words, names).and_then(|words| {
        let bytes = header(&words).ok_or_else(|| format!("{value:?}: a value is wrong"))?;
        match words.unknown(kind) {
            Some(word) => Err(format!("{word:?}: {kind} has no such word")),
            None => Ok(bytes),
        }
    }))
}

struct Words<'a> {
    words: Vec<(&'a str, &'a str)>,
    rest: Vec<u8>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str, names: &Names) -> Result<Self, String> {
        let words: Vec<_> = split(text).iter().map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
        let mut rest = Vec::new();
        for (key, value) in &words {
            match *key {
                "inner" => {
                    let inner = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
                    rest = parse(inner.ok_or_else(|| format!("{value:?}: inner is in parentheses"))?, names)?;
                }
                "rest" => rest = unhex(value).ok_or_else(|| format!("{value}: no hexadecimal bytes"))?,
                _ => {}
            }
        }
        Ok(Self { words, rest })
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find(|(word, _)| *word == key).map(|(_, value)| *value)
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A number; none: it is given and wrong.
    fn number<T: TryFrom<u64>>(&self, key: &str, default: T) -> Option<T> {
        self.get(key).map_or(Some(default), int)
    }

    fn unknown(&self, kind: &str) -> Option<&'a str> {
        let known: &[&str] = match kind {
            "geneve" => &["vni", "opts", "optlen", "version", "oam", "crit", "reserved", "proto"],
            "vxlan" => &["vni", "flags", "gbp", "reserved"],
            _ => &["key", "seq", "csum", "badsum", "flags", "proto"],
        };
        let is_known = |word: &str| word == "inner" || word == "rest" || known.contains(&word);
        self.words.iter().map(|(word, _)| *word).find(|word| !is_known(word))
    }
}

/// `vni=N opts=CLASS/TYPE/HEX,... oam crit version=N optlen=WORDS proto=N reserved=N` (RFC 8926,
/// 3.4).
fn geneve(words: &Words<'_>) -> Option<Vec<u8>> {
    let mut options = Vec::new();
    for option in words.get("opts").into_iter().flat_map(|text| text.split(',')) {
        let parts = option.split('/').map(unhex).collect::<Option<Vec<_>>>()?;
        let [class, kind, value] = parts.as_slice() else { return None };
        options.extend_from_slice(class);
        options.extend_from_slice(kind);
        options.push(number(value.len() / 4));
        options.extend_from_slice(value);
    }
    let len: u8 = words.number("optlen", number(options.len() / 4))?;
    let flags = u8::from(words.has("oam")) << 7 | u8::from(words.has("crit")) << 6;
    let mut bytes = vec![words.number("version", 0_u8)? << 6 | len & 0x3f, flags];
    bytes.extend_from_slice(&words.number("proto", ETHERNET)?.to_be_bytes());
    bytes.extend_from_slice(&words.number("vni", 0_u32)?.to_be_bytes()[1..]);
    bytes.push(words.number("reserved", 0)?);
    Some([bytes, options, words.rest.clone()].concat())
}

/// `vni=N flags=N gbp=FLAGS:ID reserved=N` (RFC 7348, 5; draft-smith-vxlan-group-policy).
fn vxlan(words: &Words<'_>) -> Option<Vec<u8>> {
    let gbp = match words.get("gbp") {
        Some(text) => {
            let (flags, id) = text.split_once(':')?;
            Some((int::<u8>(flags)?, int::<u16>(id)?))
        }
        None => None,
    };
    let flags = words.number("flags", if gbp.is_some() { 0x88 } else { 0x08_u8 })?;
    let (policy, id) = gbp.unwrap_or_default();
    let mut bytes = vec![flags, policy];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&words.number("vni", 0_u32)?.to_be_bytes()[1..]);
    bytes.push(words.number("reserved", 0)?);
    Some([bytes, words.rest.clone()].concat())
}

/// `key=N seq=N csum badsum flags=N proto=N` (RFC 2784, RFC 2890).
fn gre(words: &Words<'_>) -> Option<Vec<u8>> {
    let has_sum = words.has("csum") || words.has("badsum");
    let flag = |there: bool, flag: u16| if there { flag } else { 0 };
    let flags = flag(has_sum, 0x8000) | flag(words.has("key"), 0x2000) | flag(words.has("seq"), 0x1000);
    let mut bytes = words.number("flags", flags)?.to_be_bytes().to_vec();
    bytes.extend_from_slice(&words.number("proto", ETHERNET)?.to_be_bytes());
    if has_sum {
        bytes.extend_from_slice(&[0; 4]);
    }
    for key in ["key", "seq"].into_iter().filter(|key| words.has(key)) {
        bytes.extend_from_slice(&words.number(key, 0_u32)?.to_be_bytes());
    }
    bytes.extend_from_slice(&words.rest);
    if has_sum {
        let sum = !sum(&bytes) ^ u16::from(words.has("badsum"));
        bytes[4..6].copy_from_slice(&sum.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::hex;

    #[test]
    fn headers_are_those_of_the_standards() {
        let cases = [
            ("geneve", "(vni=5 rest=aabb)", "0000655800000500aabb"),
            (
                "geneve",
                "(vni=0xabcdef opts=ffff/80/01020304,0102/01/ oam crit)",
                "03c06558abcdef00ffff80010102030401020100",
            ),
            ("geneve", "(version=1 optlen=63 proto=0x0800)", "7f00080000000000"),
            ("vxlan", "(vni=5)", "0800000000000500"),
            ("vxlan", "(vni=5 gbp=0x48:9)", "8848000900000500"),
            ("vxlan", "(flags=0 reserved=7)", "0000000000000007"),
            ("gre", "(rest=01)", "0000655801"),
            ("gre", "(key=5 seq=7)", "300065580000000500000007"),
            ("gre", "(csum rest=0001)", "800065581aa600000001"),
            ("gre", "(badsum rest=0001)", "800065581aa700000001"),
        ];
        for (kind, words, expected) in cases {
            let found = payload(kind, words, &Names::new()).expect("a kind").map(|bytes| hex(&bytes));
            assert_eq!(found.as_deref(), Ok(expected), "{kind}={words}");
        }
        for (kind, words) in [("geneve", "vni=5"), ("gre", "(vni=5)"), ("vxlan", "(vni=x)"), ("geneve", "(opts=1/2)")] {
            assert!(payload(kind, words, &Names::new()).is_some_and(|result| result.is_err()), "{kind}={words}");
        }
    }
}
