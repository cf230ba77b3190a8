//! What a path names: a kind in a version, and one object of it or all.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::events;
use crate::kinds::Kind;
use crate::store::{Bucket, Name};

/// What a path names.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) kind: Arc<Kind>,
    pub(crate) version: String,
    /// Empty: all Namespaces, or the kind has none.
    pub(crate) namespace: String,
    /// Empty: all objects.
    pub(crate) name: String,
    /// Empty: the object itself.
    pub(crate) subresource: String,
}

impl Target {
    pub(crate) fn key(&self) -> (Bucket, Name) {
        (self.kind.bucket(), (self.namespace.clone(), self.name.clone()))
    }

    /// `plural` or `plural/subresource`.
    pub(crate) fn resource(&self) -> String {
        let plural = &self.kind.plural;
        if self.subresource.is_empty() { plural.clone() } else { format!("{plural}/{}", self.subresource) }
    }

    pub(crate) fn has_status(&self) -> bool {
        self.kind.version(&self.version).is_some_and(|version| version.status)
    }

    pub(crate) fn schema(&self) -> Option<&Value> {
        self.kind.version(&self.version)?.schema.as_ref()
    }

    /// An object of the store in the version that was asked for.
    pub(crate) fn present(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["apiVersion"] = json!(self.kind.api_version(&self.version));
        object["kind"] = json!(self.kind.kind);
        if self.kind.is_event() && !self.kind.group.is_empty() {
            events::from_core(&mut object);
        }
        object
    }
}
