//! What is wrong with one field of an object.

use serde_json::Value;

/// One field of an object that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// Path of the field, such as `spec.ports[0].port`.
    pub field: String,
    /// Kubernetes' name of the fault, such as `FieldValueRequired`.
    pub reason: &'static str,
    /// What is wrong, without the path.
    pub message: String,
}

impl Cause {
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self { field: field.into(), reason: "FieldValueInvalid", message }
    }

    pub(crate) fn required(field: impl Into<String>) -> Self {
        Self { field: field.into(), reason: "FieldValueRequired", message: "Required value".to_owned() }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueForbidden", message: format!("Forbidden: {why}") }
    }

    pub(crate) fn text(&self) -> String {
        if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) }
    }
}
