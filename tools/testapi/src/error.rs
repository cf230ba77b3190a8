//! Refusals: the `Status` object that Kubernetes answers, with its reason, details and code.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::kinds::Kind;

/// A request that was refused.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`.
    pub reason: &'static str,
    /// Sentence for people.
    pub message: String,
    /// `details` of the Status object.
    pub details: Box<Value>,
    /// Seconds after which the client may ask again.
    pub retry_after: Option<u64>,
    /// The answer is plain text, as Kubernetes gives it for a path that no handler has.
    pub plain: bool,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Box::new(json!({})), retry_after: None, plain: false }
    }

    fn of(mut self, kind: &Kind, name: &str) -> Self {
        let mut details = json!({ "kind": kind.plural });
        if !name.is_empty() {
            details["name"] = json!(name);
        }
        if !kind.group.is_empty() {
            details["group"] = json!(kind.group);
        }
        *self.details = details;
        self
    }

    pub(crate) fn no_such_path() -> Self {
        Self { plain: true, ..Self::new(404, "NotFound", "404 page not found\n") }
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.resource())).of(kind, name)
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.resource())).of(kind, name)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource());
        Self::new(409, "Conflict", message).of(kind, name)
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let named = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let message = format!("{}{named} is forbidden: {why}", kind.resource());
        Self::new(403, "Forbidden", message).of(kind, name)
    }

    pub(crate) fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        let texts: Vec<String> = causes.iter().map(Cause::text).collect();
        let said = if let [one] = &texts[..] { one.clone() } else { format!("[{}]", texts.join(", ")) };
        let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
        let message = format!("{}{group} \"{name}\" is invalid: {said}", kind.kind);
        let mut error = Self::new(422, "Invalid", message).of(kind, name);
        error.details["kind"] = json!(kind.kind);
        error.details["causes"] = causes
            .iter()
            .map(|cause| json!({ "reason": cause.reason, "message": cause.message, "field": cause.field }))
            .collect();
        error
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn method() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    pub(crate) fn media(accepted: &str) -> Self {
        let what = "the body of the request was in an unknown format - accepted media types include";
        Self::new(415, "UnsupportedMediaType", format!("{what}: {accepted}"))
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut error = Self::new(504, "Timeout", format!("Timeout: {message}"));
        *error.details = json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        });
        error.retry_after = Some(1);
        error
    }

    /// The Status object.
    pub fn body(&self) -> Value {
        let mut details = self.details.clone();
        if let Some(seconds) = self.retry_after {
            details["retryAfterSeconds"] = json!(seconds);
        }
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "details": details, "code": self.code,
        })
    }
}
