//! Names in rules, and what is known of them.

use crate::problem::{Code, Problems};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a name (RFC 1035).
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// What names a rule means: one, or all below one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    name: Arc<str>,
    below: bool,
}

impl Pattern {
    /// `www.example.com`, `*.example.com`; case does not matter.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        let label = |label: &str| {
            (1..=LABEL_MAX).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if name.len() > NAME_MAX || !name.split('.').all(label) {
            return Err(format!("{text:?} is no name: www.example.com, or *.example.com"));
        }
        Ok(Self { name: name.to_ascii_lowercase().into(), below })
    }

    /// All patterns that mean a name (in lower case, without a dot at its end), whether there are any such or not.
    pub(crate) fn meaning(name: &str) -> impl Iterator<Item = Self> {
        let parents = name.match_indices('.').filter(|(at, _)| *at > 0).filter_map(|(at, _)| name.get(at + 1..));
        let below = parents.map(|parent| Self { name: parent.into(), below: true });
        std::iter::once(Self { name: name.into(), below: false }).chain(below)
    }

    /// Whether a name, in lower case and without a dot at its end, is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        if self.below {
            name.strip_suffix(&*self.name).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
        } else {
            *name == *self.name
        }
    }
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
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)
    }
}

/// Addresses of names, as answers to Pods told them: kept by whoever reads those answers. By the name's bytes from its end, so that
/// names below one are neighbours.
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
    pub fn of(&self, pattern: &Pattern) -> impl Iterator<Item = IpAddr> {
        let mut key = reversed(&pattern.name);
        let one = self.0.get(&key).filter(|_| !pattern.below);
        key.push(b'.');
        let from = (Bound::Excluded(key.clone()), Bound::Unbounded);
        let below = self.0.range::<Vec<u8>, _>(from).take_while(move |(name, _)| name.starts_with(&key));
        let many = pattern.below.then_some(below).into_iter().flatten();
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
        ] {
            let pattern = Pattern::parse(pattern).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(pattern.matches(name), wanted, "{pattern:?} {name}");
        }
        for bad in ["", "*", "*.", "a..b", ".a", "a.", "a*.b", "*.*.a", "a b", "ä.de", &"a".repeat(64), &"a.".repeat(130)] {
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
        for pattern in ["example.com", "*.example.com", "www.example.com", "*.com", "*.b.example.com", "*.www.example.com"] {
            let pattern = Pattern::parse(pattern).unwrap_or_else(|error| panic!("{error}"));
            let wanted: BTreeSet<IpAddr> =
                all.iter().zip(1..).filter(|(name, _)| pattern.matches(name)).map(|(_, last)| ip(last)).collect();
            assert_eq!(names.of(&pattern).collect::<BTreeSet<_>>(), wanted, "{pattern}");
            for name in all {
                assert_eq!(Pattern::meaning(name).any(|other| other == pattern), pattern.matches(name), "{pattern} {name}");
            }
        }
        assert_eq!(names.set("com", BTreeSet::new()), BTreeSet::from([ip(6)]));
        assert_eq!(names.set("com", BTreeSet::new()), BTreeSet::new());
    }
}
