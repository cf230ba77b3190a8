//! What happens to an object between the request and the store: types, names, defaults, validation.
//!
//! Kinds built in are plain stores: their fields are neither validated nor defaulted, but for
//! Namespaces, CustomResourceDefinitions, Events and the status of new Pods. Pods go at once when
//! they are deleted. Kubernetes has more of all this: a test that needs it runs on the real server.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::error::ApiError;
use crate::events;
use crate::kinds::Kind;
use crate::meta::{self, text};
use crate::schema;
use crate::state::State;
use crate::target::Target;

/// How a write is meant.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Write {
    /// Nothing is stored.
    pub(crate) dry_run: bool,
    /// Unknown fields are refused (`fieldValidation=Strict`).
    pub(crate) strict: bool,
    /// Status is taken too: the test's own writes.
    pub(crate) whole: bool,
}

impl State {
    /// Types, Namespace and name of what came in must be those of the path.
    pub(crate) fn take_in(&mut self, target: &Target, object: &mut Value) -> Result<(), ApiError> {
        let kind = &target.kind;
        let Some(map) = object.as_object_mut() else {
            return Err(ApiError::bad("the body is not an object"));
        };
        for (field, wanted) in [("apiVersion", kind.api_version(&target.version)), ("kind", kind.kind.clone())] {
            match map.get(field).and_then(Value::as_str).unwrap_or_default() {
                "" if kind.builtin => {
                    map.insert(field.to_owned(), json!(wanted));
                }
                "" => return Err(ApiError::bad(format!("Object '{field}' is missing in the body"))),
                found if found != wanted => {
                    let why = format!("the {field} in the data ({found}) does not match the expected one ({wanted})");
                    return Err(ApiError::bad(why));
                }
                _ => {}
            }
        }
        let metadata = map.entry("metadata").or_insert_with(|| json!({}));
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(ApiError::bad("metadata is not an object"));
        };
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        metadata.retain(|_, value| !value.is_null());
        let is_map = |map: &serde_json::Map<String, Value>, field: &str| {
            map.get(field).is_none_or(|value| value.is_object() || value.is_null())
        };
        let mut wrong = ["labels", "annotations"].into_iter().filter(|field| !is_map(metadata, field));
        if let Some(field) = wrong.next() {
            return Err(ApiError::bad(format!("metadata.{field} is not an object")));
        }
        let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
        if kind.namespaced && namespace.is_empty() {
            metadata.insert("namespace".to_owned(), json!(target.namespace));
        } else if namespace != target.namespace {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad(why));
        }
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        if !target.name.is_empty() && name != target.name {
            let why = "the name of the object";
            return Err(ApiError::bad(format!("{why} ({name}) does not match the name on the URL ({})", target.name)));
        }
        if let Some(field) = ["spec", "status"].into_iter().find(|field| kind.builtin && !is_map(map, field)) {
            return Err(ApiError::bad(format!("{field} is not an object")));
        }
        if kind.is_event() {
            events::to_core(object);
        }
        Ok(())
    }

    pub(crate) fn check_namespace(&self, target: &Target) -> Result<(), ApiError> {
        if !target.kind.namespaced || !self.options.namespaces_exist {
            return Ok(());
        }
        let namespaces = self.kinds.find("", "v1", "namespaces");
        let bucket = (String::new(), "namespaces".to_owned());
        match (self.store.get(&bucket, &(String::new(), target.namespace.clone())), namespaces) {
            (None, Some(kind)) => Err(ApiError::not_found(kind, &target.namespace)),
            (Some(found), _) if !found["metadata"]["deletionTimestamp"].is_null() => {
                let why = format!(
                    "unable to create new content in namespace {} because it is being terminated",
                    target.namespace
                );
                Err(ApiError::forbidden(&target.kind, &target.name, &why))
            }
            _ => Ok(()),
        }
    }

    /// What the server gives a new object.
    pub(crate) fn fill_new(&mut self, target: &Target, object: &mut Value, write: Write) {
        let kind = &target.kind;
        let uid = self.random.uid();
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(uid);
        metadata["creationTimestamp"] = json!(meta::now());
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("deletionTimestamp");
            metadata.remove("generation");
        }
        if kind.generation {
            object["metadata"]["generation"] = json!(1);
        }
        // Nodes come with their status: the kubelet registers them so.
        if target.has_status()
            && !write.whole
            && !kind.is("", "nodes")
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
        }
        if kind.is("", "pods") && object["status"].is_null() {
            object["status"] = json!({ "phase": "Pending" });
        }
        self.refill(target, object);
    }

    /// What the server gives an object at each write.
    pub(crate) fn refill(&self, target: &Target, object: &mut Value) {
        if target.kind.is("", "namespaces") {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(target.name);
            if object["spec"]["finalizers"].is_null() {
                object["spec"] = json!({ "finalizers": ["kubernetes"] });
            }
            if object["status"]["phase"].is_null() {
                object["status"] = json!({ "phase": "Active" });
            }
        }
        if !target.kind.is_crd() {
            return;
        }
        let names = &mut object["spec"]["names"];
        if !names.is_object() {
            return;
        }
        let kind = text(names, "/kind").to_owned();
        for (field, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            if names[field].is_null() {
                names[field] = json!(value);
            }
        }
        if object["spec"]["conversion"].is_null() {
            object["spec"]["conversion"] = json!({ "strategy": "None" });
        }
        if !object["status"]["conditions"].is_array() {
            let since = meta::now();
            let condition = |name: &str, reason: &str| json!({ "type": name, "status": "True", "reason": reason, "message": "", "lastTransitionTime": since });
            let conditions =
                [condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")];
            object["status"] = json!({ "conditions": conditions, "storedVersions": [] });
        }
        object["status"]["acceptedNames"] = object["spec"]["names"].clone();
        let versions = object["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let stored: Vec<Value> =
            versions.iter().filter(|one| one["storage"] == true).map(|one| one["name"].clone()).collect();
        for version in stored {
            if let Some(known) = object["status"]["storedVersions"].as_array_mut()
                && !known.contains(&version)
            {
                known.push(version);
            }
        }
    }

    pub(crate) fn validate(&self, target: &Target, object: &mut Value, write: Write) -> Result<(), ApiError> {
        let kind = &target.kind;
        let mut causes = Vec::new();
        let label = kind.is("", "namespaces") || kind.is("", "services");
        causes.extend(meta::name_fault(&target.name, kind.group.starts_with("rbac."), label));
        meta::label_faults(object, &mut causes);
        if let Some(schema) = target.schema() {
            let dropped = schema::admit(schema, object, &mut causes);
            if write.strict && !dropped.is_empty() {
                let fields: Vec<String> = dropped.iter().map(|path| format!("unknown field \"{path}\"")).collect();
                return Err(ApiError::bad(format!("strict decoding error: {}", fields.join(", "))));
            }
        }
        if kind.is_event() {
            causes.extend(event_faults(object));
        }
        if kind.is_crd()
            && let Err(found) = Kind::of_crd(object)
        {
            causes.extend(found);
        }
        if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(kind, &target.name, &causes)) }
    }
}

/// An Event without `eventTime` is in the Namespace of its object, `default` if that has none. One
/// with it may be elsewhere, but needs all fields of the newer form; for an object that has no
/// Namespace it is in `kube-system`. (Newer servers than 1.20 take `default`, too.)
fn event_faults(event: &Value) -> Vec<Cause> {
    let involved = text(event, "/involvedObject/namespace");
    let namespace = text(event, "/metadata/namespace");
    let newer = !text(event, "/eventTime").is_empty();
    let fits = match (involved, newer) {
        ("", false) => namespace == "default",
        ("", true) => namespace == "kube-system",
        (_, false) => involved == namespace,
        (_, true) => true,
    };
    let mut causes = Vec::new();
    if !fits {
        causes.push(Cause::invalid("involvedObject.namespace", &json!(involved), "does not match event.namespace"));
    }
    let needed =
        [("reportingComponent", "reportingController"), ("reportingInstance", ""), ("action", ""), ("reason", "")];
    for (field, told) in needed.iter().filter(|_| newer) {
        if text(event, &format!("/{field}")).is_empty() {
            causes.push(Cause::required(if told.is_empty() { *field } else { *told }));
        }
    }
    causes
}
