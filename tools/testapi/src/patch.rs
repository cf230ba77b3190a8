//! Patches: JSON merge patch, JSON patch, strategic merge patch, and apply.
//!
//! The strategic kind merges the lists that Kubernetes merges (`merge_key`), and knows
//! `$patch: delete` and `replace`, `$deleteFromPrimitiveList`, `$retainKeys` and
//! `$setElementOrder` (the order itself is not kept). All other lists are replaced.
//! Apply merges the same lists, and those that a custom resource's schema calls maps. A field that
//! the same manager applied before and leaves out now is removed. Managers do not conflict.

use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// RFC 7386.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// RFC 6902.
pub(crate) fn json_patch(target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let wrong = |what: &str| ApiError::bad(format!("error decoding patch: {what}"));
    let failed = |what: String| ApiError::new(422, "Invalid", format!("the server rejected our request: {what}"));
    for operation in patch.as_array().ok_or_else(|| wrong("it is not a list of operations"))? {
        let path = operation["path"].as_str().ok_or_else(|| wrong("an operation has no path"))?;
        let value = || operation.get("value").cloned().ok_or_else(|| wrong("an operation has no value"));
        let from = || {
            let from = operation["from"].as_str().ok_or_else(|| wrong("an operation has no from"))?;
            target.pointer(from).cloned().ok_or_else(|| failed(format!("{from} is not there")))
        };
        match operation["op"].as_str().unwrap_or_default() {
            "add" => insert(target, path, value()?),
            "replace" => take(target, path).and_then(|_| insert(target, path, value().ok()?)),
            "remove" => take(target, path).map(|_| ()),
            "copy" => {
                let moved = from()?;
                insert(target, path, moved)
            }
            "move" => {
                let moved = from()?;
                take(target, operation["from"].as_str().unwrap_or_default());
                insert(target, path, moved)
            }
            "test" => (target.pointer(path) == operation.get("value")).then_some(()),
            _ => return Err(wrong("an operation is unknown")),
        }
        .ok_or_else(|| failed(format!("{} of {path} failed", operation["op"])))?;
    }
    Ok(())
}

fn parent<'a>(target: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((target.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~")))
}

fn insert(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    match parent(target, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(list), key) if key == "-" => list.push(value),
        (Value::Array(list), key) => {
            let at = key.parse().ok().filter(|at| *at <= list.len())?;
            list.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn take(target: &mut Value, path: &str) -> Option<Value> {
    match parent(target, path)? {
        (Value::Object(map), key) => map.remove(&key),
        (Value::Array(list), key) => {
            let at: usize = key.parse().ok().filter(|at| *at < list.len())?;
            Some(list.remove(at))
        }
        _ => None,
    }
}

/// The fields that tell the items of a list apart: Kubernetes' merge keys of the kinds built in.
pub(crate) fn merge_key(field: &str, items: &[Value]) -> Vec<String> {
    let has = |key: &str| items.iter().any(|item| item.get(key).is_some());
    let key = match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "secrets" => "name",
        "ports" if has("containerPort") => "containerPort",
        "ports" if has("port") => "port",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "conditions" | "addresses" if has("type") => "type",
        "podIPs" | "hostIPs" | "hostAliases" => "ip",
        "topologySpreadConstraints" => "topologyKey",
        "ownerReferences" => "uid",
        _ => return Vec::new(),
    };
    vec![key.to_owned()]
}

/// What a list is merged by: field name, its new items and the schema at hand; no key: replaced.
type Keys<'a> = &'a dyn Fn(&str, &[Value], Option<&Value>) -> Vec<String>;

/// Strategic merge patch of a kind built in.
pub(crate) fn strategic(target: &mut Value, patch: &Value) {
    merge_lists(target, patch, None, &|field, items, _| merge_key(field, items));
}

/// Server-side apply, with the schema of a custom resource.
pub(crate) fn apply(target: &mut Value, before: Option<&Value>, applied: &Value, schema: Option<&Value>) {
    let by_schema = |field: &str, items: &[Value], schema: Option<&Value>| match schema {
        Some(schema) if schema["x-kubernetes-list-type"] == "map" => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().map(Vec::as_slice).unwrap_or_default();
            keys.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(_) => Vec::new(),
        None => merge_key(field, items),
    };
    if let Some(before) = before {
        withdraw(target, before, applied);
    }
    merge_lists(target, applied, schema, &by_schema);
}

/// Removes what was applied before and is not applied now.
fn withdraw(target: &mut Value, before: &Value, now: &Value) {
    let (Value::Object(target), Value::Object(before)) = (target, before) else { return };
    for (key, value) in before {
        match (target.get_mut(key), now.get(key)) {
            (Some(inner), Some(now)) => withdraw(inner, value, now),
            (Some(_), None) => {
                target.remove(key);
            }
            _ => {}
        }
    }
}

fn merge_lists(target: &mut Value, patch: &Value, schema: Option<&Value>, keys: Keys<'_>) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if patch.get("$patch").is_some_and(|directive| directive == "replace") || !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else { return };
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        target.retain(|key, _| kept.iter().any(|one| one == key));
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(list) = target.get_mut(field).and_then(Value::as_array_mut) {
                list.retain(|item| !gone.contains(item));
            }
        } else if !key.starts_with('$') {
            merge_field(target, key, value, inner(schema, key), keys);
        }
    }
}

fn inner<'a>(schema: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    let schema = schema?;
    // Below a place that the schema leaves open, lists are replaced, as the schema's silence means.
    schema["properties"].get(key).or(schema.get("additionalProperties")).or(Some(&Value::Null))
}

fn merge_field(target: &mut Map<String, Value>, key: &str, value: &Value, schema: Option<&Value>, keys: Keys<'_>) {
    match value {
        Value::Null => {
            target.remove(key);
        }
        Value::Array(items) => {
            let by = keys(key, items, schema);
            let list = target.entry(key.to_owned()).or_insert_with(|| json!([]));
            match list.as_array_mut() {
                Some(list) if !by.is_empty() => merge_items(list, items, &by, schema, keys),
                Some(list) if key == "finalizers" => {
                    let new: Vec<Value> = items.iter().filter(|item| !list.contains(item)).cloned().collect();
                    list.extend(new);
                }
                _ => *list = value.clone(),
            }
        }
        _ => merge_lists(target.entry(key.to_owned()).or_insert(Value::Null), value, schema, keys),
    }
}

fn merge_items(list: &mut Vec<Value>, items: &[Value], by: &[String], schema: Option<&Value>, keys: Keys<'_>) {
    if items.iter().any(|item| item.get("$patch").is_some_and(|directive| directive == "replace")) {
        list.clear();
    }
    for item in items {
        let same = |other: &Value| by.iter().all(|key| other.get(key) == item.get(key));
        match item.get("$patch").and_then(Value::as_str) {
            Some("delete") => list.retain(|other| !same(other)),
            Some(_) => {}
            None => match list.iter_mut().find(|other| same(other)) {
                Some(found) => merge_lists(found, item, schema.map(|schema| &schema["items"]), keys),
                None => list.push(item.clone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_removes_nulls_and_replaces_lists() {
        let mut target = json!({ "a": { "b": 1, "c": [1, 2] }, "d": 1 });
        merge(&mut target, &json!({ "a": { "b": null, "c": [3] }, "d": { "e": { "f": null } } }));
        assert_eq!(target, json!({ "a": { "c": [3] }, "d": { "e": {} } }));
    }

    #[test]
    fn json_patch_goes_in_order() {
        let mut target = json!({ "a": [1, 2], "m": {} });
        let patch = json!([
            { "op": "test", "path": "/a/0", "value": 1 },
            { "op": "add", "path": "/a/1", "value": 9 },
            { "op": "add", "path": "/a/-", "value": 8 },
            { "op": "add", "path": "/m/x~1y", "value": "z" },
            { "op": "move", "from": "/a/0", "path": "/first" },
            { "op": "copy", "from": "/first", "path": "/again" },
            { "op": "replace", "path": "/again", "value": 7 },
            { "op": "remove", "path": "/first" },
        ]);
        json_patch(&mut target, &patch).unwrap();
        assert_eq!(target, json!({ "a": [9, 2, 8], "m": { "x/y": "z" }, "again": 7 }));
        for operation in [
            json!({ "op": "test", "path": "/a/0", "value": 1 }),
            json!({ "op": "remove", "path": "/none" }),
            json!({ "op": "replace", "path": "/none", "value": 1 }),
            json!({ "op": "add", "path": "/a/9", "value": 1 }),
        ] {
            assert_eq!(json_patch(&mut target, &json!([operation])).unwrap_err().code, 422, "{operation}");
        }
        assert_eq!(json_patch(&mut target, &json!({})).unwrap_err().code, 400);
    }

    #[test]
    fn strategic_merges_lists_by_key() {
        let mut target = json!({ "spec": {
            "containers": [{ "name": "a", "image": "1", "args": ["x"] }, { "name": "b" }],
            "taints": [{ "key": "t" }],
        } });
        let patch = json!({ "spec": {
            "$setElementOrder/containers": [{ "name": "a" }, { "name": "c" }],
            "containers": [{ "name": "a", "image": "2" }, { "name": "c" }, { "name": "b", "$patch": "delete" }],
            "taints": [{ "key": "u" }],
        } });
        strategic(&mut target, &patch);
        let spec = json!({
            "containers": [{ "name": "a", "image": "2", "args": ["x"] }, { "name": "c" }],
            "taints": [{ "key": "u" }],
        });
        assert_eq!(target, json!({ "spec": spec }));
    }

    #[test]
    fn apply_withdraws_what_is_no_longer_applied() {
        let mut target = json!({ "spec": { "a": 1, "b": 2, "other": 3 } });
        let before = json!({ "spec": { "a": 1, "b": 2 } });
        apply(&mut target, Some(&before), &json!({ "spec": { "a": 5 } }), None);
        assert_eq!(target, json!({ "spec": { "a": 5, "other": 3 } }));
    }

    #[test]
    fn apply_merges_lists_that_the_schema_calls_maps() {
        let list = json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] });
        let schema = json!({ "properties": { "conditions": list, "items": { "type": "array" } } });
        let mut target = json!({ "conditions": [{ "type": "A", "status": "True" }], "items": [1] });
        let applied = json!({ "conditions": [{ "type": "B", "status": "True" }], "items": [2] });
        apply(&mut target, None, &applied, Some(&schema));
        assert_eq!(target["conditions"].as_array().unwrap().len(), 2);
        assert_eq!(target["items"], json!([2]));
    }
}
