//! The services of `proto/antrea/v1`: what an agent of Antrea's kind says. What is made of it is
//! [`vswitch_antrea_node`]'s business.

mod apply;
mod events;
mod list;
mod multicast;
mod node;
mod policy;
mod records;
mod statistics;
mod sync;
mod syncs;
mod traceflow;

pub(crate) use statistics::rule_statistics;

use super::api::{Asked, Control};
use super::status::{clip, invalid, lines_shown, status};
use crate::shares::{Limits, Pool, current};
use std::sync::Arc;
use syncs::Syncs;
use tokio::sync::Semaphore;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};
use vswitch_antrea::Problems;
use vswitch_antrea_node::{Antrea, AntreaError};
use vswitch_control::switch::pipeline::WriteError;
use vswitch_dataplane::limits::ANTREA_RECORD_WALKS_MAX;
use vswitch_dataplane::port::FieldError;
use vswitch_proto::antrea::v1;

/// Bytes of a status message.
const MESSAGE_LEN_MAX: usize = 1024;
/// Bytes of one field violation.
const VIOLATION_LEN_MAX: usize = 256;
/// Field violations of a status: those that fit into a header list.
const VIOLATIONS_MAX: usize = 6;

/// All services of `antrea.v1`.
#[derive(Clone)]
pub(crate) struct AntreaServices {
    control: Control,
    antrea: Arc<Antrea>,
    /// Syncs that are being received.
    syncs: Arc<Syncs>,
    /// Reads and changes at a time: they wait for each other anyway, and are not to keep others
    /// from the switch meanwhile.
    reads: Arc<Pool>,
    changes: Arc<Pool>,
    /// Walks through all connections for records: they take as long as their readers.
    walks: Arc<Semaphore>,
}

/// Calls of [`Antrea`] at a time.
const CALLS: Limits = Limits { total: 2, share: 2, reserve: 0 };

impl AntreaServices {
    pub(crate) fn new(control: Control, antrea: Arc<Antrea>) -> Self {
        let walks = Arc::new(Semaphore::new(ANTREA_RECORD_WALKS_MAX));
        let [reads, changes] = [(); 2].map(|()| Arc::new(Pool::new(CALLS)));
        Self { control, antrea, syncs: Arc::default(), reads, changes, walks }
    }

    /// Asks on a blocking thread.
    async fn read<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&Antrea) -> Result<R, AntreaError> + Send + 'static,
    ) -> Result<R, Status> {
        let permit = self.reads.take(current(), 1).await;
        let antrea = Arc::clone(&self.antrea);
        let call = move |_: &dyn vswitch_control::SwitchApi| {
            // Held by the call, not by the handler, which the client may cancel.
            let _permit = permit;
            ask(&antrea)
        };
        self.control.read(call).await?.map_err(|error| refused(&error))
    }

    /// Does something that waits for workers, on a blocking thread.
    async fn act<R: Send + 'static>(
        &self,
        call: impl FnOnce(&Antrea) -> Result<R, AntreaError> + Send + 'static,
    ) -> Result<R, Status> {
        let permit = self.changes.take(current(), 1).await;
        let antrea = Arc::clone(&self.antrea);
        let call = move |_: &dyn vswitch_control::SwitchApi| {
            let _permit = permit;
            call(&antrea)
        };
        self.control.write(call).await?.map_err(|error| refused(&error))
    }

    /// Changes something, and logs who asked for it and how it went.
    async fn change<R: Send + 'static>(
        &self,
        asked: Asked,
        change: impl FnOnce(&Antrea) -> Result<R, AntreaError> + Send + 'static,
    ) -> Result<R, Status> {
        let call = move |antrea: &Antrea| {
            let result = change(antrea);
            asked.log(result.as_ref().err().map(ToString::to_string).as_deref());
            result
        };
        self.act(call).await
    }
}

/// The status for an error.
fn refused(error: &AntreaError) -> Status {
    let code = match error {
        AntreaError::Node(problems) => return wrong_node(problems),
        AntreaError::Request { field, reason } => return invalid(&[FieldError::new(field, reason.clone(), "")]),
        AntreaError::Switch(error) | AntreaError::Write(WriteError::Switch(error)) => return status(error),
        AntreaError::Write(WriteError::Refused(_)) => Code::Internal,
        AntreaError::NotInitialised | AntreaError::OldRound { .. } | AntreaError::Precondition(_) => {
            Code::FailedPrecondition
        }
    };
    Status::new(code, clip(&lines_shown(&error.to_string()), MESSAGE_LEN_MAX))
}

/// INVALID_ARGUMENT with every wrong field of a `NodeConfig`; NOT_FOUND if all that is wrong is
/// that ports are not there.
fn wrong_node(problems: &Problems) -> Status {
    // Ports that are not there are not wrong by themselves.
    let missing = problems.all().iter().all(|problem| problem.code == vswitch_antrea::Code::Port);
    wrong("node", problems, if missing { Code::NotFound } else { Code::InvalidArgument })
}

/// A status with every wrong field of a message.
fn wrong(message: &str, problems: &Problems, code: Code) -> Status {
    let text = |problem: &vswitch_antrea::Problem| match problem.hint.as_str() {
        "" => format!("{}: {}", problem.code.name(), problem.reason),
        hint => format!("{}: {}; {hint}", problem.code.name(), problem.reason),
    };
    let field = |problem: &vswitch_antrea::Problem| match problem.field.as_str() {
        "" => message.to_owned(),
        field => format!("{message}.{field}"),
    };
    let lines: Vec<String> = problems.all().iter().map(|p| format!("{}: {}", field(p), text(p))).collect();
    let violation = |p| FieldViolation::new(clip(&field(p), VIOLATION_LEN_MAX), clip(&text(p), VIOLATION_LEN_MAX));
    let violations: Vec<FieldViolation> = problems.all().iter().take(VIOLATIONS_MAX).map(violation).collect();
    let details = ErrorDetails::with_bad_request(violations);
    Status::with_error_details(code, clip(&lines.join("\n"), MESSAGE_LEN_MAX), details)
}

/// How objects are to be written.
fn how(options: Option<v1::WriteOptions>) -> Result<vswitch_antrea_node::How, Status> {
    let options = options.unwrap_or_default();
    Ok(vswitch_antrea_node::How {
        valid_only: valid_only("options.mode", options.mode)?,
        round: options.round,
        dry_run: options.dry_run,
    })
}

/// Whether good objects are applied though others are refused.
fn valid_only(field: &'static str, mode: i32) -> Result<bool, Status> {
    match v1::WriteMode::try_from(mode) {
        Ok(v1::WriteMode::ValidOnly) => Ok(true),
        Ok(v1::WriteMode::Unspecified | v1::WriteMode::AllOrNothing) => Ok(false),
        Err(_) => {
            let hint = "use ALL_OR_NOTHING (1) or VALID_ONLY (2)";
            Err(invalid(&[FieldError::new(field, format!("{mode} is no mode"), hint)]))
        }
    }
}
