//! Structural schemas of custom resources: pruning, defaults and validation, in this order.
//!
//! Left out: CEL rules (`x-kubernetes-validations`), formats, `multipleOf` and `uniqueItems`.

use regex::Regex;
use serde_json::{Map, Value};

use crate::cause::Cause;

/// Drops unknown fields, fills defaults, and finds what is wrong. Gives the paths it dropped.
pub(crate) fn admit(schema: &Value, object: &mut Value, causes: &mut Vec<Cause>) -> Vec<String> {
    let mut dropped = Vec::new();
    prune(schema, object, "", true, &mut dropped);
    fill(schema, object);
    check(schema, object, "", causes);
    dropped
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn prune(schema: &Value, value: &mut Value, path: &str, whole: bool, dropped: &mut Vec<String>) {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let whole = whole || schema["x-kubernetes-embedded-resource"] == true;
    match value {
        Value::Object(map) => {
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                if whole && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                let known = schema["properties"].get(&name).or_else(|| {
                    schema.get("additionalProperties").filter(|open| open.is_object() || **open == Value::Bool(true))
                });
                match (known, map.get_mut(&name)) {
                    (Some(known), Some(inner)) => prune(known, inner, &join(path, &name), false, dropped),
                    (None, Some(_)) if !open => {
                        map.remove(&name);
                        dropped.push(join(path, &name));
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            for (i, item) in items.iter_mut().enumerate() {
                prune(&schema["items"], item, &format!("{path}[{i}]"), false, dropped);
            }
        }
        _ => {}
    }
}

fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let none = Map::new();
            for (name, inner) in schema["properties"].as_object().unwrap_or(&none) {
                if let (Some(default), None) = (inner.get("default"), map.get(name)) {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, inner) in map.iter_mut() {
                let known = schema["properties"].get(name).or(schema.get("additionalProperties"));
                fill(known.unwrap_or(&Value::Null), inner);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(&schema["items"], item)),
        _ => {}
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    let found = type_of(value);
    if schema["x-kubernetes-int-or-string"] == true {
        if found != "integer" && found != "string" {
            let why = format!("{path} in body must be of type integer,string: \"{found}\"");
            causes.push(Cause::invalid(path, &Value::from(found), &why));
        }
    } else if let Some(wanted) = schema["type"].as_str() {
        let integral = value.as_f64().is_some_and(|number| number.fract() == 0.0);
        let fits = wanted == found || (wanted == "number" && found == "integer") || (wanted == "integer" && integral);
        if !fits {
            let why = format!("{path} in body must be of type {wanted}: \"{found}\"");
            causes.push(Cause::invalid(path, &Value::from(found), &why));
            return;
        }
    }
    check_enum(schema, value, path, causes);
    match value {
        Value::Object(map) => check_object(schema, map, path, causes),
        Value::Array(items) => {
            check_size(schema, ("minItems", "maxItems"), items.len(), value, path, causes);
            if schema["items"].is_object() {
                let each = items.iter().enumerate();
                each.for_each(|(i, item)| check(&schema["items"], item, &format!("{path}[{i}]"), causes));
            }
        }
        Value::String(text) => check_text(schema, text, path, causes),
        Value::Number(_) => check_number(schema, value, path, causes),
        _ => {}
    }
    check_combined(schema, value, path, causes);
}

fn check_enum(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(allowed) = schema["enum"].as_array() else { return };
    if !allowed.contains(value) {
        let list: Vec<String> = allowed.iter().map(Value::to_string).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", list.join(", "));
        causes.push(Cause { field: path.to_owned(), reason: "FieldValueNotSupported", message });
    }
}

fn check_object(schema: &Value, map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            causes.push(Cause::required(join(path, name)));
        }
    }
    let whole = Value::Object(map.clone());
    check_size(schema, ("minProperties", "maxProperties"), map.len(), &whole, path, causes);
    for (name, inner) in map {
        let known = schema["properties"].get(name).or(schema.get("additionalProperties"));
        if let Some(known) = known.filter(|known| known.is_object()) {
            check(known, inner, &join(path, name), causes);
        }
    }
}

fn check_size(
    schema: &Value,
    (least, most): (&str, &str),
    size: usize,
    value: &Value,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let size = size as u64;
    if let Some(least) = schema[least].as_u64().filter(|least| size < *least) {
        let why = format!("{path} in body should have at least {least} items");
        causes.push(Cause::invalid(path, value, &why));
    }
    if let Some(most) = schema[most].as_u64().filter(|most| size > *most) {
        let message = format!("Too many: {size}: must have at most {most} items");
        causes.push(Cause { field: path.to_owned(), reason: "FieldValueTooMany", message });
    }
}

fn check_text(schema: &Value, text: &str, path: &str, causes: &mut Vec<Cause>) {
    let value = Value::from(text);
    let length = text.chars().count() as u64;
    if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
        let why = format!("{path} in body should be at least {least} chars long");
        causes.push(Cause::invalid(path, &value, &why));
    }
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
        let message = format!("Too long: may not be longer than {most}");
        causes.push(Cause { field: path.to_owned(), reason: "FieldValueTooLong", message });
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        // A pattern that cannot be read matches nothing: strict, as this server is.
        if !Regex::new(pattern).is_ok_and(|regex| regex.is_match(text)) {
            let why = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(path, &value, &why));
        }
    }
}

fn check_number(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(number) = value.as_f64() else { return };
    if let Some(least) = schema["minimum"].as_f64() {
        let above = schema["exclusiveMinimum"] == true;
        if number < least || (above && number <= least) {
            let than = if above { "greater than" } else { "greater than or equal to" };
            let why = format!("{path} in body should be {than} {least}");
            causes.push(Cause::invalid(path, value, &why));
        }
    }
    if let Some(most) = schema["maximum"].as_f64() {
        let below = schema["exclusiveMaximum"] == true;
        if number > most || (below && number >= most) {
            let than = if below { "less than" } else { "less than or equal to" };
            let why = format!("{path} in body should be {than} {most}");
            causes.push(Cause::invalid(path, value, &why));
        }
    }
}

fn check_combined(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let fits = |schema: &Value| {
        let mut causes = Vec::new();
        check(schema, value, path, &mut causes);
        causes.is_empty()
    };
    let mut refuse = |what: &str| {
        causes.push(Cause::invalid(path, value, &format!("{path} in body must {what}")));
    };
    if let Some(any) = schema["anyOf"].as_array()
        && !any.iter().any(fits)
    {
        refuse("validate at least one schema (anyOf)");
    }
    if let Some(one) = schema["oneOf"].as_array()
        && one.iter().filter(|schema| fits(schema)).count() != 1
    {
        refuse("validate one and only one schema (oneOf)");
    }
    if let Some(all) = schema["allOf"].as_array()
        && !all.iter().all(fits)
    {
        refuse("validate all the schemas (allOf)");
    }
    if schema["not"].is_object() && fits(&schema["not"]) {
        refuse("not validate the schema (not)");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "properties": { "spec": {
            "type": "object",
            "required": ["mode"],
            "properties": {
                "mode": { "type": "string", "enum": ["a", "b"] },
                "count": { "type": "integer", "minimum": 1, "maximum": 5 },
                "name": { "type": "string", "pattern": "^x", "maxLength": 3 },
                "port": { "x-kubernetes-int-or-string": true },
                "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                "list": { "type": "array", "items": { "type": "object", "properties": { "n": { "type": "number" } } } },
                "given": { "type": "boolean", "default": true },
            },
        } } })
    }

    fn faults(spec: &Value) -> Vec<String> {
        let mut causes = Vec::new();
        admit(&schema(), &mut json!({ "spec": spec }), &mut causes);
        let mut fields: Vec<String> = causes.into_iter().map(|cause| cause.field).collect();
        fields.sort();
        fields
    }

    #[test]
    fn faults_are_told_by_path() {
        assert_eq!(faults(&json!({ "mode": "a", "count": 5, "name": "xy", "port": "http" })), [""; 0]);
        assert_eq!(faults(&json!({})), ["spec.mode"]);
        assert_eq!(faults(&json!({ "mode": "c", "count": 0 })), ["spec.count", "spec.mode"]);
        assert_eq!(faults(&json!({ "mode": "a", "count": 6, "name": "y" })), ["spec.count", "spec.name"]);
        assert_eq!(faults(&json!({ "mode": "a", "name": "xyzz", "port": true })), ["spec.name", "spec.port"]);
        assert_eq!(faults(&json!({ "mode": "a", "labels": { "l": 1 } })), ["spec.labels.l"]);
        assert_eq!(faults(&json!({ "mode": "a", "list": [{ "n": 1 }, { "n": "1" }] })), ["spec.list[1].n"]);
        assert_eq!(faults(&json!({ "mode": null })), ["spec.mode"]);
    }

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let mut object = json!({
            "kind": "X", "metadata": { "name": "n" }, "extra": 1,
            "spec": { "mode": "a", "none": 1, "open": { "kept": 1 }, "list": [{ "m": 1 }] },
        });
        let mut dropped = admit(&schema(), &mut object, &mut Vec::new());
        dropped.sort();
        assert_eq!(dropped, ["extra", "spec.list[0].m", "spec.none"]);
        assert_eq!(object["spec"], json!({ "mode": "a", "open": { "kept": 1 }, "list": [{}], "given": true }));
        assert_eq!(object["metadata"]["name"], "n");
    }

    #[test]
    fn combined_schemas() {
        let one = json!({ "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] });
        for (value, right) in [(json!({ "a": 1 }), true), (json!({ "a": 1, "b": 1 }), false), (json!({}), false)] {
            let mut causes = Vec::new();
            check(&one, &value, "spec", &mut causes);
            assert_eq!(causes.is_empty(), right, "{value}");
        }
    }
}
