//! Label and field selectors of lists and watches.
//!
//! Field selectors know the fields that Kubernetes indexes for a kind; others are refused.

use serde_json::Value;

use crate::error::ApiError;
use crate::kinds::Kind;

#[derive(Debug, Clone, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// Both selectors of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selectors {
    labels: Vec<Requirement>,
    fields: Vec<(String, String, bool)>,
}

impl Selectors {
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = pieces(labels)?.iter().map(|piece| requirement(piece)).collect::<Result<_, _>>()?;
        let mut parsed = Vec::new();
        for piece in fields.split(',').filter(|piece| !piece.is_empty()) {
            let (key, value, equal) = if let Some((key, value)) = piece.split_once("!=") {
                (key, value, false)
            } else if let Some((key, value)) = piece.split_once('=') {
                (key, value.strip_prefix('=').unwrap_or(value), true)
            } else {
                return Err(ApiError::bad(format!("invalid field selector: '{piece}'; can't understand it")));
            };
            if !known(kind, key) {
                return Err(ApiError::bad(format!("field label not supported: {key}")));
            }
            parsed.push((key.to_owned(), value.to_owned(), equal));
        }
        Ok(Self { labels, fields: parsed })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// `object` is as the store has it: Events in the core group's form.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
        let holds = |requirement: &Requirement| match requirement {
            Requirement::In(key, values) => label(key).is_some_and(|value| values.iter().any(|one| one == value)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|value| values.iter().all(|one| one != value)),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
        };
        self.labels.iter().all(holds)
            && self.fields.iter().all(|(key, value, equal)| (field(object, key) == *value) == *equal)
    }
}

fn field(object: &Value, key: &str) -> String {
    let key =
        if let Some(rest) = key.strip_prefix("regarding.") { format!("involvedObject.{rest}") } else { key.to_owned() };
    match object.pointer(&format!("/{}", key.replace('.', "/"))) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None if key == "spec.unschedulable" => "false".to_owned(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn known(kind: &Kind, key: &str) -> bool {
    if key == "metadata.name" || (key == "metadata.namespace" && (kind.namespaced || !kind.builtin)) {
        return true;
    }
    let fields: &[&str] = match kind.plural.as_str() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reason",
            "reportingComponent",
            "type",
        ],
        _ => &[],
    };
    kind.builtin && fields.contains(&key)
}

/// Splits at commas that are outside parentheses.
fn pieces(text: &str) -> Result<Vec<&str>, ApiError> {
    let (mut pieces, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                pieces.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    pieces.push(text[start..].trim());
    if depth != 0 {
        return Err(unreadable(text));
    }
    Ok(pieces.into_iter().filter(|piece| !piece.is_empty()).collect())
}

fn unreadable(text: &str) -> ApiError {
    ApiError::bad(format!("unable to parse requirement: found '{text}'"))
}

fn requirement(piece: &str) -> Result<Requirement, ApiError> {
    let key = |text: &str| {
        let text = text.trim();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if text.is_empty() || !text.chars().all(fits) { Err(unreadable(piece)) } else { Ok(text.to_owned()) }
    };
    let one = |text: &str| vec![text.trim().to_owned()];
    if let Some(text) = piece.strip_prefix('!') {
        return Ok(Requirement::Absent(key(text)?));
    }
    if let Some((name, set)) = piece.split_once('(') {
        let values: Vec<String> = set.trim_end_matches(')').split(',').map(|value| value.trim().to_owned()).collect();
        return match name.trim().rsplit_once(char::is_whitespace) {
            Some((name, "in")) => Ok(Requirement::In(key(name)?, values)),
            Some((name, "notin")) => Ok(Requirement::NotIn(key(name)?, values)),
            _ => Err(unreadable(piece)),
        };
    }
    if let Some((name, value)) = piece.split_once("!=") {
        return Ok(Requirement::NotIn(key(name)?, one(value)));
    }
    if let Some((name, value)) = piece.split_once('=') {
        return Ok(Requirement::In(key(name)?, one(value.strip_prefix('=').unwrap_or(value))));
    }
    Ok(Requirement::Exists(key(piece)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Kinds;

    fn matches(labels: &str, fields: &str) -> Result<bool, u16> {
        let pods = Kinds::default().find("", "v1", "pods").unwrap().clone();
        let object = json!({
            "metadata": { "name": "p", "namespace": "d", "labels": { "app": "web", "x.y/tier": "2" } },
            "spec": { "nodeName": "n1" },
        });
        Selectors::parse(&pods, labels, fields).map(|all| all.matches(&object)).map_err(|error| error.code)
    }

    #[test]
    fn labels() {
        for yes in ["", "app", "app=web", "app==web,x.y/tier!=3", "app in (a, web)", "no notin (a),!no", "no!=1"] {
            assert_eq!(matches(yes, ""), Ok(true), "{yes}");
        }
        for no in ["!app", "app=db", "app!=web", "app notin (web)", "x.y/tier in (1,3)", "app,no"] {
            assert_eq!(matches(no, ""), Ok(false), "{no}");
        }
        for wrong in ["app in web)", "=a", "app of (a)", "a b"] {
            assert_eq!(matches(wrong, ""), Err(400), "{wrong}");
        }
    }

    #[test]
    fn fields() {
        assert_eq!(matches("", "metadata.name=p,spec.nodeName==n1"), Ok(true));
        assert_eq!(matches("", "spec.nodeName!=n1"), Ok(false));
        assert_eq!(matches("", "spec.nodeName="), Ok(false));
        assert_eq!(matches("", "spec.hostNetwork=true"), Err(400));
        assert_eq!(matches("", "metadata.name"), Err(400));
    }
}
