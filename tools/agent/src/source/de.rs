//! Trees to typed values, by serde. An error knows the path and the line of the field that it is
//! about.

use super::tree::{Entry, Tree, Value};
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, Visitor, value::StrDeserializer};
use std::fmt::{self, Display, Write as _};

/// Fields that nobody knows, of different places, that one document may have.
const UNKNOWN_MAX: usize = 200;

/// What is wrong with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldError {
    /// Line of the value; 0 until it is known.
    pub line: usize,
    /// Path of the field: `spec.ports[0].port`.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// How to make it right; may be empty.
    pub hint: String,
    /// Nobody knows the field; without it the rest may be good.
    pub is_unknown: bool,
}

impl FieldError {
    /// An error of a field of which no more is known.
    pub fn new(line: usize, path: &str, reason: impl Into<String>) -> Self {
        Self { line, path: path.to_owned(), reason: reason.into(), ..Self::default() }
    }

    /// The same, seen from what the field is in.
    #[must_use]
    pub fn below(mut self, line: usize, step: &str) -> Self {
        if self.line == 0 {
            self.line = line;
        }
        let joined = step.is_empty() || self.path.is_empty() || self.path.starts_with('[');
        let between = if joined { "" } else { "." };
        self.path = format!("{step}{between}{}", self.path);
        self
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl std::error::Error for FieldError {}

impl de::Error for FieldError {
    fn custom<T: Display>(message: T) -> Self {
        let message = message.to_string();
        let hint = if message.ends_with("expected a string") { "quote it" } else { "" };
        Self { reason: message, hint: hint.to_owned(), ..Self::default() }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let hint = format!("known here: {}", list(expected));
        Self { path: field.to_owned(), reason: "unknown field".to_owned(), hint, is_unknown: true, ..Self::default() }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self { reason: format!("{variant:?} is not one of {}", list(expected)), ..Self::default() }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { path: field.to_owned(), reason: "is required".to_owned(), ..Self::default() }
    }
}

fn list(names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { ", " });
    }
    if text.is_empty() { "nothing".to_owned() } else { text }
}

/// A typed value of a tree.
pub fn typed<T: DeserializeOwned>(tree: &Tree) -> Result<T, FieldError> {
    T::deserialize(De(tree)).map_err(|error| error.below(tree.line, ""))
}

/// A typed value of a tree without the fields that nobody knows; they are taken out of the tree and
/// told in `unknown`.
pub fn typed_without_unknown<T: DeserializeOwned>(
    tree: &mut Tree,
    unknown: &mut Vec<FieldError>,
) -> Result<T, FieldError> {
    for _ in 0..UNKNOWN_MAX {
        match typed(tree) {
            Err(error) if error.is_unknown => {
                let cut = tree.cut(&error.path);
                if cut.is_empty() {
                    return Err(error);
                }
                unknown.extend(cut.into_iter().map(|(path, line)| FieldError { line, path, ..error.clone() }));
            }
            result => return result,
        }
    }
    typed(tree)
}

struct De<'a>(&'a Tree);

impl<'de> Deserializer<'de> for De<'_> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(list) => visitor.visit_seq(Items { list, next: 0 }),
            Value::Map(entries) => visitor.visit_map(Fields { entries, next: 0 }),
            Value::Wrong(wrong) => Err(FieldError { reason: wrong.reason.clone(), ..FieldError::default() }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        if self.0.value == Value::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    // Kubernetes takes `field: null` as if the field were not there.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match &self.0.value {
            Value::Null => visitor.visit_seq(Items { list: &[], next: 0 }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match &self.0.value {
            Value::Null => visitor.visit_map(Fields { entries: &[], next: 0 }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match &self.0.value {
            // Serde would take it field by field
            Value::List(_) => Err(de::Error::custom("a sequence, expected a mapping")),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match &self.0.value {
            Value::Text(text) => visitor.visit_enum(StrDeserializer::new(text)),
            Value::Wrong(_) => self.deserialize_any(visitor),
            _ => Err(de::Error::custom("expected a word")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

struct Items<'a> {
    list: &'a [Tree],
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, FieldError> {
        let Some(item) = self.list.get(self.next) else { return Ok(None) };
        let step = format!("[{}]", self.next);
        self.next += 1;
        seed.deserialize(De(item)).map(Some).map_err(|error| error.below(item.line, &step))
    }
}

struct Fields<'a> {
    entries: &'a [Entry],
    next: usize,
}

impl<'de> de::MapAccess<'de> for Fields<'_> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldError> {
        let Some(entry) = self.entries.get(self.next) else { return Ok(None) };
        let key = seed.deserialize(StrDeserializer::<FieldError>::new(&entry.key));
        key.map(Some).map_err(|error| FieldError { line: entry.line, ..error })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FieldError> {
        let Some(entry) = self.entries.get(self.next) else { return Err(de::Error::custom("no value")) };
        self.next += 1;
        seed.deserialize(De(&entry.value)).map_err(|error| error.below(entry.line, &entry.key))
    }
}

#[cfg(test)]
mod tests {
    use super::super::yaml::documents;
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(default)]
        inner: Vec<Inner>,
        name: String,
        some: Option<Inner>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        port: u16,
        how: Option<How>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    enum How {
        Fast,
        Slow,
    }

    fn outer(text: &str) -> Result<Outer, FieldError> {
        typed(&documents(text).expect("it is YAML")[0])
    }

    #[test]
    fn values_come_through() {
        let inner = || Inner { port: 80, how: Some(How::Fast) };
        let expected =
            Outer { inner: vec![inner(), Inner { port: 1, how: None }], name: "x".to_owned(), some: Some(inner()) };
        let text = "name: x\ninner:\n- {port: 80, how: Fast}\n- {port: 1, how: null}\nsome: {port: 80, how: Fast}\n";
        assert_eq!(outer(text), Ok(expected));
        let expected = Outer { inner: vec![], name: "x".to_owned(), some: None };
        assert_eq!(outer("name: x\ninner:\nsome:\n"), Ok(expected), "null is not given");
    }

    #[test]
    fn fields_that_nobody_knows_are_left_out_wherever_they_are() {
        let text =
            "name: x\nnew: 1\ninner:\n- {port: 1, more: {a: b}}\n- port: 2\n  more: 5\nsome: {port: 3, more: 1}\n";
        let mut tree = documents(text).expect("it is YAML").remove(0);
        let mut unknown = Vec::new();
        let outer: Outer = typed_without_unknown(&mut tree, &mut unknown).expect("the rest is good");
        assert_eq!((outer.inner.len(), outer.some.map(|inner| inner.port)), (2, Some(3)));
        let mut told: Vec<_> = unknown.iter().map(|error| (error.line, error.path.as_str())).collect();
        told.sort_unstable();
        assert_eq!(told, [(2, "new"), (4, "inner[0].more"), (6, "inner[1].more"), (7, "some.more")]);
        let mut tree = documents("name: 5\nnew: 1\n").expect("it is YAML").remove(0);
        let error = typed_without_unknown::<Outer>(&mut tree, &mut unknown).expect_err("a number is no name");
        assert_eq!(error.path, "name");
    }

    #[test]
    fn errors_name_field_and_line() {
        for (text, line, path, reason) in [
            ("name: x\ninner:\n- port: 80\n- port: 1\n  prot: 2\n", 5, "inner[1].prot", "unknown field"),
            ("name: x\ninner:\n- how: Fast\n", 3, "inner[0].port", "is required"),
            ("name: x\ninner:\n- port: 70000\n", 3, "inner[0].port", "invalid value: integer `70000`, expected u16"),
            ("name: 5\n", 1, "name", "invalid type: integer `5`, expected a string"),
            ("name: x\nsome:\n  port: 1\n  how: Fats\n", 4, "some.how", "\"Fats\" is not one of Fast, Slow"),
            ("name: x\nsome: [1]\n", 2, "some", "a sequence, expected a mapping"),
            ("name: x\nsome: {port: 1, how: {}}\n", 2, "some.how", "expected a word"),
        ] {
            let error = outer(text).expect_err(text);
            assert_eq!((error.line, error.path.as_str(), error.reason.as_str()), (line, path, reason));
        }
    }
}
