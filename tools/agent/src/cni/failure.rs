//! Failures with the codes of the CNI specification.

use std::io;
use vswitch_proto::agent::v1::Failure;

/// What a step of a command comes to.
pub(super) type Outcome<T> = Result<T, Failure>;

fn failure(code: u32, message: impl Into<String>) -> Failure {
    Failure { code, message: message.into(), details: String::new() }
}

/// The container's network namespace is not there.
pub(super) fn unknown(message: impl Into<String>) -> Failure {
    failure(3, message)
}

/// A value of the environment is wrong.
pub(super) fn environment(message: impl Into<String>) -> Failure {
    failure(4, message)
}

/// The kernel refuses something.
pub(super) fn kernel(what: &str, error: &io::Error) -> Failure {
    failure(5, format!("{what}: {error}"))
}

/// A value of the configuration, or of IPAM, is wrong.
pub(super) fn config(message: impl Into<String>) -> Failure {
    failure(7, message)
}

/// The runtime is to try again.
pub(super) fn again(message: impl Into<String>) -> Failure {
    failure(11, message)
}

/// ADD cannot succeed (STATUS).
pub(super) fn unavailable(message: impl Into<String>) -> Failure {
    failure(50, message)
}

/// ADD cannot succeed, and what is attached may be cut off (STATUS).
pub(super) fn limited(message: impl Into<String>) -> Failure {
    failure(51, message)
}

/// The switch refuses something.
pub(super) fn refused(message: impl Into<String>) -> Failure {
    failure(100, message)
}

/// Something else is in the place.
pub(super) fn taken(message: impl Into<String>) -> Failure {
    failure(101, message)
}

/// Something is missing.
pub(super) fn missing(message: impl Into<String>) -> Failure {
    failure(102, message)
}

/// With a hint.
pub(super) fn hint(failure: Failure, details: impl Into<String>) -> Failure {
    Failure { details: details.into(), ..failure }
}
