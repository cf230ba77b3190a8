//! YAML as a tree whose nodes know their lines.

use std::collections::BTreeMap;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Its line, from 1.
    pub line: usize,
    /// What it is.
    pub value: Value,
}

/// What YAML's core schema knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing given; as if the field were not there.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// Text.
    Text(String),
    /// A sequence.
    List(Vec<Tree>),
    /// A mapping in the order of the file; no key is there twice.
    Map(Vec<Entry>),
    /// What nobody can take for a value. What is beside it is as good as without it.
    Wrong(Box<WrongValue>),
}

/// Why something is no value.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongValue {
    /// What is wrong with it.
    pub reason: String,
    /// Values that may be meant, if any can be read.
    pub values: Vec<Tree>,
    /// Text of it that is no value that may be meant.
    pub text: String,
}

/// Different values of one key that are kept: one more is no YAML any more.
const DIFFERENT_MAX: usize = 16;

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key as it is written.
    pub key: String,
    /// Line of the key.
    pub line: usize,
    /// The value.
    pub value: Tree,
}

impl Tree {
    /// The value of a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// The value at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, key| tree.get(key))
    }

    /// All values that may be meant at a path of keys: more than one where a key is there twice.
    pub fn all(&self, path: &[&str]) -> Vec<&Self> {
        match (&self.value, path) {
            (Value::Wrong(wrong), _) if !wrong.values.is_empty() => {
                wrong.values.iter().flat_map(|value| value.all(path)).collect()
            }
            (_, []) => vec![self],
            (_, [first, rest @ ..]) => self.get(first).map_or_else(Vec::new, |value| value.all(rest)),
        }
    }

    /// Why it is no value.
    pub fn wrong(&self) -> Option<&str> {
        match &self.value {
            Value::Wrong(wrong) => Some(&wrong.reason),
            _ => None,
        }
    }

    /// Line of the first thing in it that is no value, and why.
    pub fn first_wrong(&self) -> Option<(usize, &str)> {
        match &self.value {
            Value::Wrong(wrong) => Some((self.line, &wrong.reason)),
            Value::Map(entries) => entries.iter().find_map(|entry| entry.value.first_wrong()),
            Value::List(list) => list.iter().find_map(Self::first_wrong),
            _ => None,
        }
    }

    /// Whether both say the same, wherever they are written.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Map(one), Value::Map(two)) => {
                let is_same = |(one, two): (&Entry, &Entry)| one.key == two.key && one.value.is_same(&two.value);
                one.len() == two.len() && one.iter().zip(two).all(is_same)
            }
            (Value::List(one), Value::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.is_same(two))
            }
            // Nobody knows what it says.
            (Value::Wrong(_), _) | (_, Value::Wrong(_)) => false,
            (one, two) => one == two,
        }
    }

    /// Takes note of another value of the same key. What is said twice means the same once; else
    /// neither is taken. False: there are too many.
    pub(super) fn or(&mut self, other: Self) -> bool {
        if let Value::Wrong(wrong) = &mut self.value
            && !wrong.values.is_empty()
        {
            if wrong.values.iter().any(|value| value.is_same(&other)) {
                return true;
            }
            wrong.values.push(other);
            return wrong.values.len() <= DIFFERENT_MAX;
        }
        if !self.is_same(&other) {
            let reason = format!("is there twice, again in line {}, and says something else", other.line);
            let first = Self { line: self.line, value: std::mem::replace(&mut self.value, Value::Null) };
            self.value = Value::Wrong(Box::new(WrongValue { reason, values: vec![first, other], text: String::new() }));
        }
        true
    }

    /// Text, if it is some.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Lines of all fields by their paths: `spec.ports[0].port`, `metadata.annotations[a/b]`.
    pub fn lines(&self) -> BTreeMap<String, usize> {
        let mut lines = BTreeMap::new();
        self.add_lines("", &mut lines);
        lines
    }

    fn add_lines(&self, path: &str, lines: &mut BTreeMap<String, usize>) {
        match &self.value {
            Value::Map(entries) => {
                for entry in entries {
                    let key = &entry.key;
                    let below = match (path.is_empty(), key.contains(['.', '/', '[', ']'])) {
                        (true, _) => key.clone(),
                        (false, true) => format!("{path}[{key}]"),
                        (false, false) => format!("{path}.{key}"),
                    };
                    entry.value.add_lines(&below, lines);
                    lines.insert(below, entry.line);
                }
            }
            Value::List(list) => {
                for (i, item) in list.iter().enumerate() {
                    let below = format!("{path}[{i}]");
                    item.add_lines(&below, lines);
                    lines.insert(below, item.line);
                }
            }
            _ => {}
        }
    }

    /// Takes away the field at `path`, and those at paths that differ in places in sequences only;
    /// paths and lines of them.
    pub fn cut(&mut self, path: &str) -> Vec<(String, usize)> {
        let mut cut = Vec::new();
        self.cut_below("", &shape(path), &mut cut);
        cut
    }

    fn cut_below(&mut self, path: &str, wanted: &str, cut: &mut Vec<(String, usize)>) {
        match &mut self.value {
            Value::Map(entries) => entries.retain_mut(|entry| {
                let below = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
                let own = shape(&below);
                if own == wanted {
                    cut.push((below, entry.line));
                    return false;
                }
                if wanted.starts_with(&own) {
                    entry.value.cut_below(&below, wanted, cut);
                }
                true
            }),
            Value::List(list) => {
                for (i, item) in list.iter_mut().enumerate() {
                    item.cut_below(&format!("{path}[{i}]"), wanted, cut);
                }
            }
            _ => {}
        }
    }

    /// Takes the value of a key out of the mapping.
    pub fn take(&mut self, key: &str) -> Option<Self> {
        let Value::Map(entries) = &mut self.value else { return None };
        let place = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(place).value)
    }

    /// The value of a key of the mapping, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.value {
            Value::Map(entries) => entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value),
            _ => None,
        }
    }

    /// Takes keys away from the mapping at `path`, and from each element of a sequence there.
    pub fn strip(&mut self, path: &[&str], keys: &[&str]) {
        match (&mut self.value, path) {
            (Value::Map(entries), []) => entries.retain(|entry| !keys.contains(&entry.key.as_str())),
            (Value::Map(entries), [first, rest @ ..]) => {
                entries.iter_mut().filter(|entry| entry.key == *first).for_each(|entry| entry.value.strip(rest, keys));
            }
            (Value::List(list), _) => list.iter_mut().for_each(|tree| tree.strip(path, keys)),
            _ => {}
        }
    }
}

/// A path without places in sequences: `spec.ports[].port`.
fn shape(path: &str) -> String {
    let mut shape = String::new();
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('[') {
        let digits = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_place = digits.len() < behind.len() && digits.starts_with(']');
        shape = format!("{shape}{before}[");
        rest = if is_place { digits } else { behind };
    }
    shape + rest
}

/// A plain scalar by YAML's core schema; whole numbers of other bases as `kubectl` reads them.
pub(crate) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Value::Text(text.to_owned()); // also .inf and inf, which no field of ours may be
    }
    if let Some(number) = of_base(text, digits).or_else(|| text.parse().ok()) {
        return Value::Int(number);
    }
    match text.parse() {
        Ok(number) if digits.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) => Value::Float(number),
        _ => Value::Text(text.to_owned()),
    }
}

/// A whole number with a prefix: `0x50`, `0b1010000`, `0o120`, and `0120`, which is octal to
/// go-yaml, too. A decimal number in its place would be another port. `0900` is no octal number,
/// and decimal there.
fn of_base(text: &str, digits: &str) -> Option<i64> {
    let behind = digits.strip_prefix('0').filter(|behind| !behind.is_empty())?;
    let (base, digits) = match behind.as_bytes()[0].to_ascii_lowercase() {
        b'x' => (16, &behind[1..]),
        b'o' => (8, &behind[1..]),
        b'b' => (2, &behind[1..]),
        _ => (8, behind),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let number = i64::from_str_radix(digits, base).ok()?;
    Some(if text.starts_with('-') { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_each_base_are_what_kubectl_reads() {
        for number in (0..=65_536).step_by(7) {
            for text in [
                format!("{number}"),
                format!("0{number:o}"),
                format!("0o{number:o}"),
                format!("0O{number:o}"),
                format!("0x{number:x}"),
                format!("0X{number:X}"),
                format!("0b{number:b}"),
                format!("+0{number:o}"),
            ] {
                assert_eq!(plain(&text), Value::Int(number), "{text}");
            }
            assert_eq!(plain(&format!("-0{number:o}")), Value::Int(-number));
        }
        assert_eq!(["00", "0900", "080"].map(plain), [0, 900, 80].map(Value::Int));
        for text in ["0x", "0xg", "0o8", "0b2", "0x-1", "0o+1", "0bé"] {
            assert_eq!(plain(text), Value::Text(text.to_owned()));
        }
    }

    #[test]
    fn plain_scalars_are_what_the_core_schema_says() {
        assert_eq!(plain("~"), Value::Null);
        assert_eq!(plain("true"), Value::Bool(true));
        assert_eq!(plain("-5"), Value::Int(-5));
        assert_eq!(plain("0x1f"), Value::Int(31));
        assert_eq!(plain("1.5"), Value::Float(1.5));
        assert_eq!(plain("1e3"), Value::Float(1000.0));
        for text in [
            "yes",
            "10.10.0.24",
            "10.0.0.0/8",
            "fd00::18",
            "5e:b5:e3:a6:90:b7",
            "inf",
            ".inf",
            "500k",
            "1-2",
            "3.",
            ".",
        ] {
            let value = plain(text);
            assert!(text == "3." || value == Value::Text(text.to_owned()), "{text}: {value:?}");
        }
    }

    #[test]
    fn a_second_value_is_the_first_one_or_makes_both_wrong() {
        let leaf = |number, line| Tree { line, value: Value::List(vec![Tree { line, value: Value::Int(number) }]) };
        let mut tree = leaf(1, 1);
        assert!(tree.or(leaf(1, 5)) && tree == leaf(1, 1), "on another line it is the same");
        assert!(tree.or(leaf(2, 7)) && tree.or(leaf(1, 8)) && tree.or(leaf(2, 9)));
        assert_eq!(tree.wrong(), Some("is there twice, again in line 7, and says something else"));
        assert_eq!(tree.all(&[]), [&leaf(1, 1), &leaf(2, 7)]);
        assert!(!tree.is_same(&tree), "nobody knows what it says");
        assert!(!(3..50).all(|number| tree.or(leaf(number, 10))), "there is an end");
    }

    #[test]
    fn stripping_goes_through_sequences() {
        let entry = |key: &str, value| Entry { key: key.to_owned(), line: 1, value: Tree { line: 1, value } };
        let item = || Tree { line: 1, value: Value::Map(vec![entry("keep", Value::Null), entry("drop", Value::Null)]) };
        let mut tree = Tree { line: 1, value: Value::Map(vec![entry("list", Value::List(vec![item(), item()]))]) };
        tree.strip(&["list"], &["drop"]);
        let Value::Map(entries) = &tree.value else { panic!("a mapping") };
        let Value::List(list) = &entries[0].value.value else { panic!("a sequence") };
        assert!(list.iter().all(|item| item.get("drop").is_none() && item.get("keep").is_some()));
    }
}
