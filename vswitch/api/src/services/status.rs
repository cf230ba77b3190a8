//! Errors of the switch as gRPC statuses.
//!
//! A status travels in HTTP/2 headers. Clients take 8 KiB of them (gRPC's soft limit) or 16 KiB
//! (hyper), and a longer list reaches the caller as an unreadable protocol error; so everything in
//! a status that came from the caller is cut. Some of it came from another client or a guest; so
//! what a terminal would obey is escaped.

use std::borrow::Cow;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};
use vswitch_control::SwitchError;
use vswitch_dataplane::port::FieldError;
use vswitch_net_types::shown;

/// Bytes of a status message. The header may triple them (percent encoding), the details repeat
/// them in base64.
const MESSAGE_LEN_MAX: usize = 1024;

/// Bytes of all field violations in a status.
const VIOLATIONS_LEN_MAX: usize = 2048;

/// Bytes of one field violation.
const VIOLATION_LEN_MAX: usize = 512;

/// The status for an error. Its message is the error's text: what, where, how to fix it.
pub(super) fn status(error: &SwitchError) -> Status {
    let code = match error {
        SwitchError::Invalid(errors) => return invalid(errors),
        SwitchError::NotFound { .. } => Code::NotFound,
        SwitchError::Exists { .. } => Code::AlreadyExists,
        SwitchError::Exhausted { .. } => Code::ResourceExhausted,
        SwitchError::Precondition(_) => Code::FailedPrecondition,
        SwitchError::Device { .. } | SwitchError::Busy(_) => Code::Unavailable,
        SwitchError::Late(_) => Code::DeadlineExceeded,
    };
    Status::new(code, clip(&shown(&error.to_string()), MESSAGE_LEN_MAX))
}

/// Fields that hold a whole text of the operator's, who never saw the field: the message does not
/// name it.
const TEXT_FIELDS: [&str; 3] = ["filter", "flow", "text"];

/// INVALID_ARGUMENT with every wrong field: one line each in the message, a `google.rpc.BadRequest`
/// in the details.
pub(super) fn invalid(errors: &[FieldError]) -> Status {
    let line = |error: &FieldError| match TEXT_FIELDS.contains(&error.field) {
        true => shown(&error.description()).into_owned(),
        false => shown(&error.to_string()).into_owned(),
    };
    let lines: Vec<String> = errors.iter().map(line).collect();
    let fields: Vec<_> = errors.iter().map(|error| (error.field, error.description())).collect();
    invalid_lines(&lines, fields.iter().map(|(field, description)| (*field, description.as_str())))
}

/// Likewise, of fields whose paths are made for the request.
pub(super) fn invalid_paths<'a>(wrong: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Status {
    let lines: Vec<_> =
        wrong.clone().map(|(field, problem)| shown(&format!("{field}: {problem}")).into_owned()).collect();
    invalid_lines(&lines, wrong)
}

fn invalid_lines<'a>(lines: &[String], fields: impl Iterator<Item = (&'a str, &'a str)>) -> Status {
    let mut room = VIOLATIONS_LEN_MAX;
    let violations = fields.map_while(|(field, description)| {
        let violation = FieldViolation::new(field, clip(&shown(description), VIOLATION_LEN_MAX));
        room = room.checked_sub(violation.field.len() + violation.description.len())?;
        Some(violation)
    });
    let details = ErrorDetails::with_bad_request(violations.collect::<Vec<_>>());
    Status::with_error_details(Code::InvalidArgument, clip(&lines.join("\n"), MESSAGE_LEN_MAX), details)
}

/// A text of several lines, each as people are shown it.
pub(super) fn lines_shown(text: &str) -> String {
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
}

/// The text, or its beginning, of at most `len_max` bytes plus the mark of the cut.
pub(super) fn clip(text: &str, len_max: usize) -> Cow<'_, str> {
    if text.len() <= len_max {
        text.into()
    } else {
        format!("{}...", &text[..text.floor_char_boundary(len_max)]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_code_and_its_text() {
        let field = || FieldError::new("mtu", "9 is out of range", "use 68 to 9702");
        let name = || "br0".to_owned();
        let hint = || "`vsctl list-br` lists them".to_owned();
        let cases = [
            (
                SwitchError::NotFound { what: "bridge", name: name(), hint: hint() },
                Code::NotFound,
                "bridge \"br0\" does not exist; `vsctl list-br` lists them",
            ),
            (
                SwitchError::Exists { what: "bridge", name: name(), hint: "delete it first".to_owned() },
                Code::AlreadyExists,
                "bridge \"br0\" already exists; delete it first",
            ),
            (SwitchError::Invalid(vec![field()]), Code::InvalidArgument, "mtu: 9 is out of range; use 68 to 9702"),
            (
                SwitchError::Exhausted { what: "ports", limit: 1024 },
                Code::ResourceExhausted,
                "ports: the limit of 1024 is reached",
            ),
            (
                SwitchError::Device { name: "p0".to_owned(), reason: "no such device".to_owned() },
                Code::Unavailable,
                "port \"p0\": no such device",
            ),
            (SwitchError::Busy("worker-1 has not moved".to_owned()), Code::Unavailable, "worker-1 has not moved"),
            (SwitchError::Late("worker-1 is late".to_owned()), Code::DeadlineExceeded, "worker-1 is late"),
            (SwitchError::Precondition("stopping".to_owned()), Code::FailedPrecondition, "stopping"),
        ];
        for (error, code, message) in cases {
            let status = status(&error);
            assert_eq!((status.code(), status.message()), (code, message), "{error:?}");
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        let name = || "p\n\u{1b}[2J\u{202e}".to_owned();
        let refused = status(&SwitchError::NotFound { what: "port", name: name(), hint: name() });
        let wrong = invalid(&[FieldError::new("mtu", name(), name()), FieldError::new("text", name(), name())]);
        let details = wrong.get_error_details();
        let fields = details.bad_request().expect("fields").field_violations.iter().map(|field| &*field.description);
        for text in fields.chain(wrong.message().lines()).chain([refused.message()]) {
            assert!(!text.chars().any(char::is_control) && !text.contains('\u{202e}'), "{text:?}");
        }
        assert_eq!(wrong.message().lines().count(), 2);
    }

    #[test]
    fn invalid_fields_are_all_in_message_and_details() {
        let errors =
            [FieldError::new("mtu", "9 is out of range", "use 68"), FieldError::new("mac", "bad", "use another")];
        let status = invalid(&errors);
        assert_eq!(status.message(), "mtu: 9 is out of range; use 68\nmac: bad; use another");
        let request = status.get_details_bad_request().expect("a BadRequest in the details");
        let got: Vec<_> = request.field_violations.iter().map(|v| (v.field.as_str(), v.description.as_str())).collect();
        assert_eq!(got, [("mtu", "9 is out of range; use 68"), ("mac", "bad; use another")]);
    }

    #[test]
    fn texts_are_told_without_their_field_and_hints_only_where_there_are_some() {
        let status = invalid(&[FieldError::new("text", "column 1: bad", ""), FieldError::new("mtu", "bad", "")]);
        assert_eq!(status.message(), "column 1: bad\nmtu: bad");
        let request = status.get_details_bad_request().expect("a BadRequest in the details");
        let violation = &request.field_violations[0];
        assert_eq!((violation.field.as_str(), violation.description.as_str()), ("text", "column 1: bad"));
    }

    #[test]
    fn a_status_fits_into_headers_whatever_the_caller_sent() {
        // 200 fields with 1 KiB of text that percent encoding triples.
        let errors: Vec<_> =
            (0..200).map(|_| FieldError::new("external_ids", "\u{e9}".repeat(512), "use less")).collect();
        let long = SwitchError::NotFound { what: "bridge", name: "\u{e9}\n".repeat(1 << 20), hint: String::new() };
        for status in [invalid(&errors), status(&long)] {
            let response = status.into_http::<tonic::body::Body>();
            let bytes: usize =
                response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
            assert!(bytes < 8192, "the header list has {bytes} bytes");
        }
    }

    #[test]
    fn clipping_respects_characters() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("abcd", 3), "abc...");
        assert_eq!(clip("ab\u{e9}d", 3), "ab...", "the third byte is inside a character");
    }
}
