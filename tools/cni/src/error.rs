//! Errors with the codes of the CNI specification.

use serde_json::{Value, json};
use vswitch_proto::agent::v1::Failure;

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CniError {
    /// Code of the specification; from 100 on the plug-in's own.
    pub(crate) code: u32,
    pub(crate) message: String,
    pub(crate) details: String,
}

impl CniError {
    fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: String::new() }
    }

    /// The version of the configuration is not served, or does not have the command.
    pub(crate) fn version(message: impl Into<String>) -> Self {
        Self::new(1, message)
    }

    /// A field of the configuration asks for something that is not served.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    /// A variable of the environment is missing or wrong.
    pub(crate) fn environment(message: impl Into<String>) -> Self {
        Self::new(4, message)
    }

    /// Something cannot be read, written or started.
    pub(crate) fn io(message: impl Into<String>) -> Self {
        Self::new(5, message)
    }

    /// A text is not what it should be.
    pub(crate) fn decode(message: impl Into<String>) -> Self {
        Self::new(6, message)
    }

    /// The configuration is wrong.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(7, message)
    }

    /// The runtime is to try again.
    pub(crate) fn again(message: impl Into<String>) -> Self {
        Self::new(11, message)
    }

    /// ADD cannot succeed (STATUS).
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(50, message)
    }

    #[must_use]
    pub(crate) fn hint(self, details: impl Into<String>) -> Self {
        Self { details: details.into(), ..self }
    }

    /// As a runtime reads it.
    pub(crate) fn json(&self, version: &str) -> Value {
        let mut value = json!({"cniVersion": version, "code": self.code, "msg": self.message});
        if !self.details.is_empty() {
            value["details"] = self.details.clone().into();
        }
        value
    }
}

impl From<Failure> for CniError {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message, details: failure.details }
    }
}
