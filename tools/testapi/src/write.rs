//! Create, update, patch and delete.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admit::Write;
use crate::cause::Cause;
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::meta::text;
use crate::patch;
use crate::selector::Selectors;
use crate::state::State;
use crate::store::{Bucket, Name};
use crate::target::Target;

/// The four kinds of patches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PatchKind {
    Merge,
    Json,
    Strategic,
    Apply,
}

impl PatchKind {
    pub(crate) fn of(media: &str, kind: &Kind) -> Result<Self, ApiError> {
        match media {
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/json-patch+json" => Ok(Self::Json),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" if kind.builtin => Ok(Self::Strategic),
            _ => {
                let strategic = if kind.builtin { ", application/strategic-merge-patch+json" } else { "" };
                let known = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
                Err(ApiError::media(&format!("{known}{strategic}")))
            }
        }
    }
}

const CHANGED: &str = "the object has been modified; please apply your changes to the latest version and try again";

impl State {
    /// Makes an object what is given, status included if it is given: the test's own writes.
    pub(crate) fn apply(&mut self, object: Value) -> Result<Value, ApiError> {
        let target = self.object_target(&object)?;
        let write = Write { whole: true, ..Write::default() };
        let (bucket, name) = target.key();
        if target.name.is_empty() || self.store.get(&bucket, &name).is_none() {
            return self.create(&Target { name: String::new(), ..target }, object, write);
        }
        let mut object = object;
        object["metadata"]["resourceVersion"] =
            self.store.get(&bucket, &name).map_or(Value::Null, |old| old["metadata"]["resourceVersion"].clone());
        self.update(&target, object, write)
    }

    pub(crate) fn create(&mut self, target: &Target, mut object: Value, write: Write) -> Result<Value, ApiError> {
        self.take_in(target, &mut object)?;
        let kind = target.kind.clone();
        if text(&object, "/metadata/name").is_empty() && !text(&object, "/metadata/generateName").is_empty() {
            let name = format!("{}{}", text(&object, "/metadata/generateName"), self.random.suffix());
            object["metadata"]["name"] = json!(name);
        }
        let name = text(&object, "/metadata/name").to_owned();
        let target = &Target { name: name.clone(), ..target.clone() };
        self.check_namespace(target)?;
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(ApiError::bad("resourceVersion should not be set on objects to be created"));
        }
        self.fill_new(target, &mut object, write);
        self.validate(target, &mut object, write)?;
        let (bucket, key) = target.key();
        if self.store.get(&bucket, &key).is_some() {
            return Err(ApiError::already_exists(&kind, &name));
        }
        if write.dry_run {
            return Ok(target.present(&object));
        }
        Ok(target.present(&self.keep(&kind, &bucket, &key, object)))
    }

    fn keep(&mut self, kind: &Kind, bucket: &Bucket, name: &Name, object: Value) -> Arc<Value> {
        let object = self.store.put(bucket, name, object);
        if kind.is_crd()
            && let Ok(kind) = Kind::of_crd(&object)
        {
            self.kinds.add(kind);
        }
        object
    }

    pub(crate) fn find(&self, target: &Target) -> Result<Arc<Value>, ApiError> {
        let (bucket, name) = target.key();
        self.store.get(&bucket, &name).cloned().ok_or_else(|| ApiError::not_found(&target.kind, &target.name))
    }

    pub(crate) fn update(&mut self, target: &Target, mut object: Value, write: Write) -> Result<Value, ApiError> {
        self.take_in(target, &mut object)?;
        let kind = target.kind.clone();
        let old = self.find(target)?;
        check_versions(target, &old, &object)?;
        if write.whole {
            carry(&old, &mut object);
            if object["status"].is_null() {
                copy(&old, &mut object, "status");
            }
        } else if target.subresource == "status" {
            object = with_status(&kind, &old, &object);
        } else {
            carry(&old, &mut object);
            if target.has_status() {
                copy(&old, &mut object, "status");
            }
        }
        self.refill(target, &mut object);
        self.validate(target, &mut object, write)?;
        if kind.generation && specification(&old, target) != specification(&object, target) {
            let generation = old["metadata"]["generation"].as_u64().unwrap_or_default();
            object["metadata"]["generation"] = json!(generation + 1);
        }
        object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        if write.dry_run || object == *old {
            return Ok(target.present(&object));
        }
        let (bucket, name) = target.key();
        if !object["metadata"]["deletionTimestamp"].is_null() && no_finalizers(&object) {
            self.erase(&kind, &bucket, &name);
            return Ok(target.present(&object));
        }
        Ok(target.present(&self.keep(&kind, &bucket, &name, object)))
    }

    /// The object after the patch, and whether it was created.
    pub(crate) fn patch(
        &mut self,
        target: &Target,
        kind: PatchKind,
        patch: &Value,
        manager: &str,
        write: Write,
    ) -> Result<(Value, bool), ApiError> {
        let (bucket, name) = target.key();
        let current = self.store.get(&bucket, &name).cloned();
        let manager = (manager.to_owned(), target.subresource.clone());
        let place = (bucket, name);
        if kind == PatchKind::Apply && current.is_none() && target.subresource.is_empty() {
            let mut object = patch.clone();
            if let Some(fields) = object.as_object_mut() {
                let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
                metadata["name"] = json!(target.name);
            }
            let created = self.create(&Target { name: String::new(), ..target.clone() }, object, write)?;
            if !write.dry_run {
                self.applied.entry(place).or_default().insert(manager, patch.clone());
            }
            return Ok((created, true));
        }
        let current = self.find(target)?;
        let mut object = target.present(&current);
        match kind {
            PatchKind::Merge => patch::merge(&mut object, patch),
            PatchKind::Strategic => patch::strategic(&mut object, patch),
            PatchKind::Json => patch::json_patch(&mut object, patch)?,
            PatchKind::Apply => {
                let before = self.applied.get(&place).and_then(|managers| managers.get(&manager));
                patch::apply(&mut object, before, patch, target.schema());
            }
        }
        if !object["metadata"].is_object() {
            let why = Cause::invalid("metadata", &object["metadata"], "must be an object");
            return Err(ApiError::invalid(&target.kind, &target.name, &[why]));
        }
        let updated = self.update(target, object, write)?;
        if kind == PatchKind::Apply && !write.dry_run {
            self.applied.entry(place).or_default().insert(manager, patch.clone());
        }
        Ok((updated, false))
    }

    /// Deletes one object. With finalizers it stays, marked, and is the answer.
    pub(crate) fn delete(&mut self, target: &Target, options: &Value, dry_run: bool) -> Result<Value, ApiError> {
        let old = self.find(target)?;
        for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (asked, has) =
                (text(options, &format!("/preconditions/{field}")), text(&old["metadata"], &format!("/{field}")));
            if !asked.is_empty() && asked != has {
                let why = format!("Precondition failed: {what} in precondition: {asked}, {what} in object meta: {has}");
                return Err(ApiError::conflict(&target.kind, &target.name, &why));
            }
        }
        let (bucket, name) = target.key();
        if !no_finalizers(&old) {
            let mut marked = Value::clone(&old);
            if marked["metadata"]["deletionTimestamp"].is_null() && !dry_run {
                marked["metadata"]["deletionTimestamp"] = json!(crate::meta::now());
                marked["metadata"]["deletionGracePeriodSeconds"] = json!(0);
                marked = Value::clone(&self.store.put(&bucket, &name, marked));
            }
            return Ok(target.present(&marked));
        }
        if !dry_run {
            self.erase(&target.kind.clone(), &bucket, &name);
        }
        let mut details = json!({ "name": target.name, "kind": target.kind.plural, "uid": old["metadata"]["uid"] });
        if !target.kind.group.is_empty() {
            details["group"] = json!(target.kind.group);
        }
        Ok(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details }))
    }

    /// Removes an object and what goes with it: a Namespace's objects, a definition's objects.
    fn erase(&mut self, kind: &Kind, bucket: &Bucket, name: &Name) {
        if kind.is("", "namespaces") {
            for (bucket, inner) in self.store.in_namespace(&name.1) {
                self.store.remove(&bucket, &inner);
                self.applied.remove(&(bucket, inner));
            }
        }
        if kind.is_crd()
            && let Some((plural, group)) = name.1.split_once('.')
        {
            let inner = (group.to_owned(), plural.to_owned());
            let names: Vec<Name> = self.store.all(&inner).map(|(name, _)| name.clone()).collect();
            for name in names {
                self.store.remove(&inner, &name);
                self.applied.remove(&(inner.clone(), name));
            }
            self.kinds.remove(group, plural);
        }
        self.store.remove(bucket, name);
        self.applied.remove(&(bucket.clone(), name.clone()));
    }

    pub(crate) fn delete_all(
        &mut self,
        target: &Target,
        selectors: &Selectors,
        dry_run: bool,
    ) -> Result<Vec<Value>, ApiError> {
        let all = self.store.all(&target.kind.bucket());
        let inside = |name: &Name| target.namespace.is_empty() || name.0 == target.namespace;
        let chosen: Vec<(Name, Arc<Value>)> = all
            .filter(|(name, object)| inside(name) && selectors.matches(object))
            .map(|(name, object)| (name.clone(), object.clone()))
            .collect();
        for (name, _) in &chosen {
            let one = Target { namespace: name.0.clone(), name: name.1.clone(), ..target.clone() };
            self.delete(&one, &Value::Null, dry_run)?;
        }
        Ok(chosen.into_iter().map(|(_, object)| target.present(&object)).collect())
    }
}

fn no_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

fn check_versions(target: &Target, old: &Value, object: &Value) -> Result<(), ApiError> {
    let (kind, name) = (&target.kind, &target.name);
    let (asked, has) = (text(object, "/metadata/resourceVersion"), text(old, "/metadata/resourceVersion"));
    if asked.is_empty() && !kind.unconditional() {
        let cause = Cause {
            field: "metadata.resourceVersion".to_owned(),
            reason: "FieldValueInvalid",
            message: "Invalid value: 0x0: must be specified for an update".to_owned(),
        };
        return Err(ApiError::invalid(kind, name, &[cause]));
    }
    if !asked.is_empty() && asked != has {
        return Err(ApiError::conflict(kind, name, CHANGED));
    }
    let (asked, has) = (text(object, "/metadata/uid"), text(old, "/metadata/uid"));
    if !asked.is_empty() && asked != has {
        let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {has}");
        return Err(ApiError::conflict(kind, name, &why));
    }
    Ok(())
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    if let Some(map) = to.as_object_mut() {
        match from.get(field) {
            Some(value) => map.insert(field.to_owned(), value.clone()),
            None => map.remove(field),
        };
    }
}

/// What no client may change.
fn carry(old: &Value, object: &mut Value) {
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        copy(&old["metadata"], &mut object["metadata"], field);
    }
}

/// The old object with the new status. Kinds built in take labels and annotations along.
fn with_status(kind: &Kind, old: &Value, new: &Value) -> Value {
    let mut object = old.clone();
    copy(new, &mut object, "status");
    if kind.builtin {
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            copy(&new["metadata"], &mut object["metadata"], field);
        }
    }
    object
}

/// What `metadata.generation` counts.
fn specification(object: &Value, target: &Target) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        for field in ["metadata", "apiVersion", "kind"] {
            map.remove(field);
        }
        if target.has_status() {
            map.remove("status");
        }
    }
    object
}
