//! The host plan, and how the host is.
//!
//! The plan is made anew at each question, of the state as it is. What the host's agent reports is
//! kept until the next report. It is no part of the saved state: after a restart the agent reports
//! again.

use super::{Antrea, AntreaError};
use std::time::{SystemTime, UNIX_EPOCH};
use vswitch_antrea::host;
use vswitch_proto::antrea::v1;

/// Most problems of a report.
const PROBLEMS_MAX: usize = 256;
/// Most bytes of a problem's text.
const TEXT_LEN_MAX: usize = 512;

impl Antrea {
    /// The plan of what is in force. None: the caller has it, by its generation.
    ///
    /// # Errors
    /// When there is no Node.
    pub fn host_plan(&self, generation: u64) -> Result<Option<v1::HostPlan>, AntreaError> {
        let state = self.state.lock();
        let facts = state.node_state.facts().ok_or(AntreaError::NotInitialised)?;
        let plan = host::plan(&facts, state.gate_open);
        Ok(Some(plan).filter(|plan| !plan.complete || plan.generation != generation))
    }

    /// Notes how the host is.
    ///
    /// # Errors
    /// When there are too many problems, or one is too long.
    pub fn report_host(&self, report: v1::ReportHostRequest) -> Result<(), AntreaError> {
        let v1::ReportHostRequest { generation, problems } = report;
        let wrong = |reason: String| Err(AntreaError::Request { field: "problems", reason });
        if problems.len() > PROBLEMS_MAX {
            return wrong(format!("{}: at most {PROBLEMS_MAX}", problems.len()));
        }
        let texts = problems.iter().flat_map(|one| [&one.code, &one.item, &one.reason, &one.hint]);
        if let Some(text) = texts.into_iter().find(|text| text.len() > TEXT_LEN_MAX) {
            return wrong(format!("a text of {} bytes: at most {TEXT_LEN_MAX}", text.len()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let reported_unix_ms = u64::try_from(now).unwrap_or(u64::MAX);
        *self.host.lock() = Some(v1::HostState { generation, reported_unix_ms, problems });
        Ok(())
    }
}
