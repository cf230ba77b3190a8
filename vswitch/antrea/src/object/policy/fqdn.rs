//! Names in rules, and what is known of them.

use crate::problem::{Code, Problems};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a name (RFC 1035).
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// How a pattern means names. In this order: what is looked up comes before what is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    /// One.
    One,
    /// All below it.
    Below,
    /// Text with `*`, each of which stands for any bytes, dots among them, or none.
    Glob,
}

/// What names a rule means: one, all below one, or those that a text with `*` in any place fits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    form: Form,
    /// The name, without the `*.` of [`Form::Below`].
    name: Arc<str>,
}

impl Pattern {
    /// `www.example.com`, `*.example.com`, `*api.*.example.com`; neither case nor a dot at the end
    /// matters. (Antrea makes a regular expression of it, where `*` is `.*`.)
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let whole = text.strip_suffix('.').unwrap_or(text);
        let label = |label: &str| {
            (1..=LABEL_MAX).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*'))
        };
        if whole.len() > NAME_MAX || !whole.split('.').all(label) {
            return Err(format!(
                "{text:?} is no name: www.example.com, or with * for any characters, *.example.com, *example.com"
            ));
        }
        let mut name = whole.to_ascii_lowercase();
        while name.contains("**") {
            name = name.replace("**", "*");
        }
        let below = name.strip_prefix("*.").filter(|rest| !rest.contains('*')).map(Arc::from);
        Ok(match below {
            Some(name) => Self { form: Form::Below, name },
            None => Self { form: if name.contains('*') { Form::Glob } else { Form::One }, name: name.into() },
        })
    }

    /// Those of a set that mean a name (in lower case, without a dot at its end).
    pub(crate) fn meaning<'a, V>(set: &'a BTreeMap<Self, V>, name: &str) -> impl Iterator<Item = (&'a Self, &'a V)> {
        let parents = name.match_indices('.').filter(|(at, _)| *at > 0).filter_map(|(at, _)| name.get(at + 1..));
        let below = parents.map(|parent| Self { form: Form::Below, name: parent.into() });
        let looked_up = std::iter::once(Self { form: Form::One, name: name.into() }).chain(below);
        let first = Self { form: Form::Glob, name: "".into() };
        let searched = set.range(first..).filter(|(pattern, _)| pattern.matches(name));
        looked_up.filter_map(|pattern| set.get_key_value(&pattern)).chain(searched)
    }

    /// Whether a name, in lower case and without a dot at its end, is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self.form {
            Form::One => *name == *self.name,
            Form::Below => name.strip_suffix(&*self.name).is_some_and(|front| front.len() > 1 && front.ends_with('.')),
            Form::Glob => fits(self.name.as_bytes(), name.as_bytes()),
        }
    }

    /// What all names that it means end with.
    fn end(&self) -> &str {
        match self.form {
            Form::Glob => self.name.rsplit('*').next().unwrap_or_default(),
            _ => &self.name,
        }
    }
}

/// Whether a text fits a pattern with `*`. Each `*` takes as little as it can: at most as many
/// steps as the product of both lengths.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at) == Some(&b'*') {
            again = Some((at, from));
            at += 1;
        } else if pattern.get(at) == text.get(from) {
            (at, from) = (at + 1, from + 1);
        } else if let Some((star, taken)) = again {
            again = Some((star, taken + 1));
            (at, from) = (star + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at.min(pattern.len())..].iter().all(|byte| *byte == b'*')
}

/// Reads some, each once, in order.
pub(super) fn read(field: &str, texts: &[String], most: usize, problems: &mut Problems) -> Vec<Pattern> {
    if texts.len() > most {
        problems.push(Code::Limit, field, format!("there are {}, at most {most}", texts.len()));
        return Vec::new();
    }
    let mut patterns: Vec<Pattern> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let field = format!("{field}[{at}]");
        let Some(pattern) = problems.take(&field, Pattern::parse(text)) else { continue };
        if patterns.contains(&pattern) {
            problems.twice(&field, text);
        } else {
            patterns.push(pattern);
        }
    }
    patterns.sort();
    patterns
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.form == Form::Below { "*." } else { "" }, self.name)
    }
}

/// Addresses of names, as answers to Pods told them: kept by whoever reads those answers. By the
/// name's bytes from its end, so that names below one are neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<Vec<u8>, BTreeSet<IpAddr>>);

fn reversed(name: &str) -> Vec<u8> {
    name.bytes().rev().collect()
}

impl Names {
    /// A name has these addresses from now on; none: it is forgotten. Returns those that it had.
    pub fn set(&mut self, name: &str, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let key = reversed(name);
        let old = if addresses.is_empty() { self.0.remove(&key) } else { self.0.insert(key, addresses) };
        old.unwrap_or_default()
    }

    /// Addresses of all names that a pattern means.
    pub fn of<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = IpAddr> + use<'a> {
        let end = reversed(pattern.end());
        let one = self.0.get(&end).filter(|_| pattern.form == Form::One);
        let from = (Bound::Included(end.clone()), Bound::Unbounded);
        let same_end = self.0.range::<Vec<u8>, _>(from).take_while(move |(name, _)| name.starts_with(&end));
        let meant = |name: &[u8]| {
            let name: Vec<u8> = name.iter().rev().copied().collect();
            std::str::from_utf8(&name).is_ok_and(|name| pattern.matches(name))
        };
        let many = (pattern.form != Form::One).then_some(same_end).into_iter().flatten();
        let many = many.filter(move |(name, _)| meant(name));
        one.into_iter().chain(many.map(|(_, addresses)| addresses)).flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_names() {
        for (pattern, name, wanted) in [
            ("www.example.com", "www.example.com", true),
            ("WWW.Example.com", "www.example.com", true),
            ("www.example.com", "a.www.example.com", false),
            ("*.example.com", "www.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*.example.com", "badexample.com", false),
            ("*example.com", "badexample.com", true),
            ("*example.com", "example.com", true),
            ("*example.com", "example.com.evil.org", false),
            ("*", "com", true),
            ("www.*.com", "www.a.b.com", true),
            ("www.*.com", "www.com", false),
            ("foo*.Bar.com.", "food.bar.com", true),
            ("foo*.bar.com", "foo.bar.com", true),
            ("*.*.x", "a.b.x", true),
            ("*.*.x", "a.x", false),
            ("a**b.x", "ab.x", true),
            ("www.example.com.", "www.example.com", true),
            ("*.example.com.", "www.example.com", true),
        ] {
            let pattern = Pattern::parse(pattern).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(pattern.matches(name), wanted, "{pattern:?} {name}");
        }
        for bad in ["", ".", "*..", "a..b", ".a", "a..", "*..a", "a b", "a?.b", "ä.de", &"a".repeat(64), &"a.".repeat(130)] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_have_the_addresses_of_their_patterns() {
        let mut names = Names::default();
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let all = ["example.com", "www.example.com", "a.b.example.com", "badexample.com", "www.example.org", "com"];
        for (name, last) in all.iter().zip(1..) {
            assert!(names.set(name, BTreeSet::from([ip(last)])).is_empty());
        }
        for pattern in ["example.com", "*.example.com", "www.example.com", "*.com", "*.b.example.com", "*.www.example.com", "*example.com", "*", "w*.example.*", "*.*.com", "*com"] {
            let pattern = Pattern::parse(pattern).unwrap_or_else(|error| panic!("{error}"));
            let wanted: BTreeSet<IpAddr> =
                all.iter().zip(1..).filter(|(name, _)| pattern.matches(name)).map(|(_, last)| ip(last)).collect();
            assert_eq!(names.of(&pattern).collect::<BTreeSet<_>>(), wanted, "{pattern}");
            for name in all {
                let set = BTreeMap::from([(pattern.clone(), ())]);
                assert_eq!(Pattern::meaning(&set, name).count() == 1, pattern.matches(name), "{pattern} {name}");
            }
        }
        assert_eq!(names.set("com", BTreeSet::new()), BTreeSet::from([ip(6)]));
        assert_eq!(names.set("com", BTreeSet::new()), BTreeSet::new());
    }

    /// Whether a text fits, by trying everything.
    fn slowly(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|taken| slowly(rest, &text[taken..])),
            Some((byte, rest)) => text.split_first().is_some_and(|(first, text)| first == byte && slowly(rest, text)),
        }
    }

    proptest::proptest! {
        #[test]
        fn a_star_stands_for_anything_in_any_place(pattern in "[ab.*]{0,8}", name in "[ab.]{0,10}") {
            proptest::prop_assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), slowly(pattern.as_bytes(), name.as_bytes()));
            let Ok(parsed) = Pattern::parse(&pattern) else { return Ok(()) };
            let plain = pattern.strip_suffix('.').unwrap_or(&pattern);
            // A name has no empty labels.
            if name.split('.').all(|label| !label.is_empty()) {
                proptest::prop_assert_eq!(parsed.matches(&name), slowly(plain.as_bytes(), name.as_bytes()), "{} {}", pattern, name);
            }
            proptest::prop_assert_eq!(Pattern::parse(&parsed.to_string()), Ok(parsed));
        }
    }

    #[test]
    fn what_is_made_to_take_long_does_not() {
        let pattern = Pattern::parse(&vec!["*a".repeat(31); 4].join(".")).unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..1000 {
            assert!(!pattern.matches(&"a".repeat(253)));
        }
    }
}
