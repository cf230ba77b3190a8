//! Names in rules, and what is known of them.

use crate::problem::{Code, Problems};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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
            problems.push(Code::Duplicate, field, format!("{text:?} is there twice"));
        }
        patterns.push(pattern);
    }
    patterns.sort();
    patterns
}

/// Addresses of names, as answers to Pods told them: kept by whoever reads those answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<Arc<str>, BTreeSet<IpAddr>>);

impl Names {
    /// A name has these addresses from now on; none: it is forgotten. Returns those that it had.
    pub fn set(&mut self, name: &str, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let old = if addresses.is_empty() { self.0.remove(name) } else { self.0.insert(name.into(), addresses) };
        old.unwrap_or_default()
    }

    /// Addresses of all names that a pattern means.
    pub fn of<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = IpAddr> + 'a {
        let one = self.0.get(&pattern.name).filter(|_| !pattern.below);
        let many = self.0.iter().filter(|(name, _)| pattern.below && pattern.matches(name));
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
}
