//! What can go wrong, how it is told, and the exit code.

use crate::cli::{self, Cli, Format};
use crate::yaml;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use vswitch_net_types::shown;
use vswitch_proto::v1;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The arguments are wrong, or help was asked for.
    #[error("{0}")]
    Usage(#[from] clap::Error),
    /// The switch cannot be reached, or does not answer.
    #[error("{socket:?}: {reason}; {}", hint(.reason))]
    Unreachable {
        /// Its socket, or its address.
        socket: PathBuf,
        /// What happened.
        reason: String,
    },
    /// The switch refused.
    #[error("{}", .0.message())]
    Refused(Box<Status>),
    /// It answered, and is not healthy. The answer is printed already.
    #[error("the switch is not healthy")]
    Unhealthy,
    /// Updates of a transaction, or lines, are wrong or were refused. Nothing has changed.
    #[error("{}", bad_updates(.updates, *.count))]
    Updates {
        /// Those that are told.
        updates: Vec<BadUpdate>,
        /// How many there are.
        count: u64,
    },
    /// A file cannot be read.
    #[error("{name}:{}{error}", if error.get_ref().is_some_and(|e| e.is::<BadLine>()) { "" } else { " " })]
    Input {
        /// Its name.
        name: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The machine or its switch has faults. The answer, which tells them, is printed already.
    #[error("the machine or its switch has faults")]
    Diagnosed(u8),
    /// A program that was started failed. It has said why itself.
    #[error("{program} failed: {status}")]
    Program {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// Flows differ. The answer is printed already.
    #[error("the flows differ")]
    Differ,
    /// The answer could not be written.
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
}

/// A line that is no text. Its place is told like that of any other bad line: `FILE:LINE: PROBLEM`.
#[derive(Debug, thiserror::Error)]
#[error("{number}: {problem}")]
pub(crate) struct BadLine {
    /// Of the line, from 1.
    pub(crate) number: u32,
    /// What is wrong with it.
    pub(crate) problem: &'static str,
}

impl Error {
    /// 1: refused. 2: wrong usage. 3: not reached. 0 if only the reader of the output went away, or
    /// help was asked for.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(error) => u8::try_from(error.exit_code()).unwrap_or(2),
            Self::Unreachable { .. } => 3,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Differ => 2, // as ovs-ofctl
            Self::Diagnosed(code) => *code,
            Self::Refused(_)
            | Self::Updates { .. }
            | Self::Input { .. }
            | Self::Unhealthy
            | Self::Program { .. }
            | Self::Output(_) => 1,
        }
    }

    /// A word for scripts: gRPC's name of the status code, or one of our own.
    fn code(&self) -> &'static str {
        match self {
            Self::Usage(_) => "USAGE",
            Self::Unreachable { .. } => "UNREACHABLE",
            Self::Refused(status) => code_name(status.code()),
            Self::Updates { updates, .. } if updates.iter().any(|update| update.refused) => "FAILED_PRECONDITION",
            Self::Updates { .. } => "INVALID_ARGUMENT",
            Self::Input { .. } => "INPUT",
            Self::Unhealthy => "UNHEALTHY",
            Self::Program { .. } => "PROGRAM",
            Self::Differ => "DIFFER",
            Self::Diagnosed(_) => "DIAGNOSED",
            Self::Output(_) => "OUTPUT",
        }
    }

    /// `{"error": {"code", "exit_code", "message", "fields"}}`; fields only where the switch named
    /// some.
    fn json(&self) -> Value {
        let message = match self {
            Self::Usage(error) => error.render().to_string().trim_end().to_owned(),
            other => other.to_string(),
        };
        let mut error = json!({ "code": self.code(), "exit_code": self.exit_code(), "message": message });
        if let Self::Refused(status) = self
            && let Some(request) = status.get_details_bad_request()
        {
            let violations = request.field_violations.into_iter();
            error["fields"] = violations.map(|v| json!({ "field": v.field, "description": v.description })).collect();
        }
        if let Self::Updates { updates, count } = self {
            error["count"] = (*count).into();
            error["updates"] = updates.iter().map(BadUpdate::json).collect();
        }
        json!({ "error": error })
    }

    /// Tells the error on stderr (help on stdout). What cannot be written is lost; the exit code
    /// still says it.
    pub(crate) fn report(&self, format: Format) -> ExitCode {
        let as_json = format != Format::Text;
        let _ = match self {
            Self::Usage(error) if !as_json || error.exit_code() == 0 => error.print(),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Self::Unhealthy if !as_json => Ok(()),
            Self::Differ | Self::Diagnosed(_) => Ok(()),
            _ if format == Format::Yaml => write!(io::stderr().lock(), "{}", yaml::document(&self.json())),
            _ if as_json => writeln!(io::stderr().lock(), "{}", self.json()),
            _ => writeln!(io::stderr().lock(), "{}", self.text()),
        };
        ExitCode::from(self.exit_code())
    }

    /// With the usage of the verb, if it is wrong usage that the verb itself found.
    pub(crate) fn of_verb(self, cli: &Cli) -> Self {
        match self {
            Self::Usage(error) => Self::Usage(cli::wrong_use(error, cli)),
            other => other,
        }
    }

    /// One line, or one line per wrong field.
    fn text(&self) -> String {
        let message = self.to_string();
        message.lines().map(|line| format!("vsctl: {}", shown(line))).collect::<Vec<_>>().join("\n")
    }

    /// From the status of a call. One that this side made (its source is a transport error) means
    /// that the switch is away.
    pub(crate) fn from_status(status: Status, socket: &std::path::Path) -> Self {
        match std::error::Error::source(&status) {
            Some(source) => Self::Unreachable { socket: socket.to_owned(), reason: innermost(source) },
            None => Self::Refused(Box::new(status)),
        }
    }
}

/// Bad updates that are told as text; programs get all of them.
const BAD_UPDATES_MAX: usize = 20;

/// An update or a line that is wrong or was refused.
#[derive(Debug)]
pub(crate) struct BadUpdate {
    place: String,
    line: u32,
    column: u32,
    code: String,
    reason: String,
    field: String,
    hint: String,
    refused: bool,
}

/// Where a line came from: `FILE:LINE`, or nothing for the command line.
pub(crate) fn place(file: &str, line: u32) -> String {
    if file.is_empty() || line == 0 { String::new() } else { format!("{file}:{line}: ") }
}

impl BadUpdate {
    /// From its status; the tag is the number of its line.
    pub(crate) fn new(file: &str, status: &v1::UpdateStatus) -> Self {
        Self {
            place: place(file, status.tag),
            line: status.tag,
            column: status.column,
            code: status.code.clone(),
            reason: status.reason.clone(),
            field: status.field.clone(),
            hint: status.hint.clone(),
            refused: status.outcome() == v1::UpdateOutcome::Refused,
        }
    }

    /// `FILE:LINE: column C: reason; hint`.
    fn text(&self) -> String {
        let Self { place, column, code, reason, hint, .. } = self;
        let column = if *column == 0 { String::new() } else { format!("column {column}: ") };
        let code = if code.starts_with("OFP") || self.refused { format!("{code}: ") } else { String::new() };
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        format!("{place}{column}{code}{reason}{hint}")
    }

    fn json(&self) -> Value {
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        json!({
            "line": (self.line != 0).then_some(self.line),
            "column": (self.column != 0).then_some(self.column),
            "code": self.code,
            "reason": self.reason,
            "field": some(&self.field),
            "hint": some(&self.hint),
        })
    }
}

fn bad_updates(updates: &[BadUpdate], count: u64) -> String {
    let mut lines: Vec<_> = updates.iter().take(BAD_UPDATES_MAX).map(BadUpdate::text).collect();
    let more = count.saturating_sub(lines.len() as u64);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

/// Tells what was odd, on stderr. What cannot be written is lost.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        let _ = writeln!(io::stderr().lock(), "vsctl: warning: {}", shown(warning));
    }
}

/// Likewise for programs, where the answer itself has no room for it.
pub(crate) fn warn_json(warnings: &[String]) {
    let _ = writeln!(io::stderr().lock(), "{}", json!({ "warnings": warnings }));
}

/// Tells what an empty answer means, on stderr. What cannot be written is lost.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// What to do about a switch that cannot be reached.
fn hint(reason: &str) -> &'static str {
    if reason.starts_with("Permission denied") {
        "become root, or a member of the group that owns the socket"
    } else if reason.contains("fatal alert") {
        "the switch does not take this client's certificate: its log says why (--cert, --key)"
    } else if reason.contains("invalid peer certificate") {
        "the certificate of the switch is not for that host, or not of that authority (--ca)"
    } else {
        "is vswitchd running? (--socket or VSWITCH_SOCKET names another socket)"
    }
}

/// The text of the last error of a chain: what the kernel said.
pub(crate) fn innermost(mut error: &(dyn std::error::Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tonic_types::{ErrorDetails, FieldViolation};

    #[test]
    fn a_refusal_keeps_code_text_and_fields() {
        let details =
            ErrorDetails::with_bad_request(vec![FieldViolation::new("mtu", "9 is out of range; use 68 to 9702")]);
        let text = "mtu: 9 is out of range; use 68 to 9702\nmac: bad\u{1b}[2J; use another";
        let status = Status::with_error_details(Code::InvalidArgument, text, details);
        let error = Error::from_status(status, Path::new("/s"));
        assert_eq!(error.exit_code(), 1);
        assert_eq!(
            error.text(),
            "vsctl: mtu: 9 is out of range; use 68 to 9702\nvsctl: mac: bad\\u{1b}[2J; use another",
            "one line per field, nothing that a terminal obeys"
        );
        let want = json!({ "error": {
            "code": "INVALID_ARGUMENT",
            "exit_code": 1,
            "message": text,
            "fields": [{ "field": "mtu", "description": "9 is out of range; use 68 to 9702" }],
        }});
        assert_eq!(error.json(), want);
    }

    #[test]
    fn a_broken_connection_is_not_a_refusal() {
        let broken = io::Error::from(io::ErrorKind::ConnectionReset);
        let error = Error::from_status(Status::from_error(Box::new(broken)), Path::new("/run/x.sock"));
        assert_eq!((error.exit_code(), error.code()), (3, "UNREACHABLE"));
        let text = error.text();
        assert!(text.starts_with("vsctl: \"/run/x.sock\": connection reset; is vswitchd running?"), "{text}");
        let closed = io::Error::from_raw_os_error(13);
        let closed = Error::Unreachable { socket: "/s".into(), reason: innermost(&closed) }.to_string();
        let want =
            "\"/s\": Permission denied (os error 13); become root, or a member of the group that owns the socket";
        assert_eq!(closed, want);
        let refused = Error::from_status(Status::unavailable("port \"p0\": no such device"), Path::new("/s"));
        assert_eq!((refused.exit_code(), refused.code()), (1, "UNAVAILABLE"));
        assert_eq!(refused.json()["error"].get("fields"), None);
    }

    #[test]
    fn a_bad_line_is_told_like_all_bad_lines() {
        let input = |error| Error::Input { name: "-".to_owned(), error }.to_string();
        let line = BadLine { number: 2, problem: "it is not UTF-8" };
        assert_eq!(input(io::Error::new(io::ErrorKind::InvalidData, line)), "-:2: it is not UTF-8");
        assert_eq!(input(io::Error::from_raw_os_error(2)), "-: No such file or directory (os error 2)");
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        assert_eq!(Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).exit_code(), 0);
        assert_eq!(Error::from(io::Error::from(io::ErrorKind::StorageFull)).exit_code(), 1);
    }
}
