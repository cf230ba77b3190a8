//! Objects as they come from an API server: JSON to a tree, without a copy between.
//!
//! Whatever an object says, it is some tree. One odd object does not make the list wrong that it
//! is in.

use crate::source::{Entry, Tree, Value, WrongValue};
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// Metadata that nobody here reads, and that are longer than the rest.
const SKIPPED: &str = "managedFields";

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// All that it says.
    pub(super) tree: Tree,
    /// Of its metadata what following it takes.
    meta: ObjectMeta,
}

impl Object {
    /// An object that says this.
    pub(super) fn new(tree: Tree) -> Self {
        let text = |field: &str| tree.at(&["metadata", field]).and_then(Tree::text).map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Self { tree, meta }
    }

    /// "namespace/name", or the name of what has no namespace.
    pub(super) fn full_name(&self) -> String {
        let name = self.meta.name.as_deref().unwrap_or_default();
        match self.meta.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }

    /// Its UID.
    pub(super) fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// Its resourceVersion.
    pub(super) fn version(&self) -> &str {
        self.meta.resource_version.as_deref().unwrap_or_default()
    }
}

impl Resource for Object {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl<'de> serde::Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Node::Whole.deserialize(from).map(Self::new)
    }
}

/// A value of an object, by its place.
#[derive(Clone, Copy, PartialEq)]
enum Node {
    Whole,
    Metadata,
    Other,
}

impl<'de> DeserializeSeed<'de> for Node {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Tree, D::Error> {
        from.deserialize_any(self)
    }
}

/// Objects have no lines.
fn tree(value: Value) -> Tree {
    Tree { line: 0, value }
}

impl<'de> Visitor<'de> for Node {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(tree(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(tree(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Tree, D::Error> {
        self.deserialize(from)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(tree(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(tree(Value::Int(value)))
    }

    #[allow(clippy::cast_precision_loss)] // no field of ours is as large
    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(tree(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(tree(Value::Float(value)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(tree(Value::Text(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Tree, E> {
        Ok(tree(Value::Text(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(Self::Other)? {
            items.push(item);
        }
        Ok(tree(Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some(key) = from.next_key::<String>()? {
            if self == Self::Metadata && key == SKIPPED {
                from.next_value::<IgnoredAny>()?;
                continue;
            }
            let is_metadata = self == Self::Whole && key == "metadata";
            let value = from.next_value_seed(if is_metadata { Self::Metadata } else { Self::Other })?;
            // No server says a key twice. Nobody knows which one is meant.
            if let Some(place) = places.get(&key) {
                let reason = "is there twice".to_owned();
                let wrong = WrongValue { reason, values: Vec::new(), text: String::new() };
                entries[*place].value = tree(Value::Wrong(Box::new(wrong)));
                continue;
            }
            places.insert(key.clone(), entries.len());
            entries.push(Entry { key, line: 0, value });
        }
        Ok(tree(Value::Map(entries)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_tree_that_its_yaml_is() {
        let text = r#"{"kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "managedFields": [{"a": 1}], "labels": {"a": "b"}},
            "spec": {"list": [1, -2, 1.5, true, null, "t"], "big": 18446744073709551615, "managedFields": 1}}"#;
        let object: Object = serde_json::from_str(text).expect("it is JSON");
        assert_eq!((object.full_name().as_str(), object.uid(), object.version()), ("n/p", "u", "7"));
        let yaml = text.replace(r#""managedFields": [{"a": 1}], "#, "");
        let parsed = crate::source::documents(&yaml).expect("it is YAML").remove(0);
        assert!(object.tree.get("spec").is_some_and(|spec| spec.get("managedFields").is_some()));
        let list = |tree: &Tree| tree.at(&["spec", "list"]).cloned().expect("it is there");
        assert!(list(&object.tree).is_same(&list(&parsed)));
        assert!(object.tree.get("metadata").is_some_and(|meta| meta.is_same(parsed.get("metadata").expect("there"))));
        for odd in ["5", "[]", "{\"metadata\": 5}", "{\"metadata\": {\"name\": {}}}", "null"] {
            let object: Object = serde_json::from_str(odd).expect("it is some object");
            assert_eq!(object.full_name(), "", "{odd}");
        }
        let twice: Object = serde_json::from_str(r#"{"spec": 1, "spec": 2}"#).expect("it is JSON");
        assert!(twice.tree.get("spec").is_some_and(|spec| spec.wrong().is_some()));
    }
}
