//! `LogService`.

use super::api::Asked;
use super::status::status;
use std::time::Duration;
use tonic::{Request, Response, Status};
use vswitch_control::log_filter::{FILTERS, FilterInfo, LogFilters};
use vswitch_proto::v1;

/// See `proto/vswitch/v1/log.proto`. It does not ask the switch: a user may look for why that
/// does not answer.
pub(crate) struct Logs;

fn filters() -> Result<&'static LogFilters, Status> {
    FILTERS.get().ok_or_else(|| Status::unimplemented("the log of this process has no filter that can be changed"))
}

fn filter(info: FilterInfo) -> v1::LogFilter {
    let FilterInfo { filter, configured, left, number: _ } = info;
    let seconds_left = left.map(|left| u32::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u32::MAX));
    v1::LogFilter { filter, configured, seconds_left }
}

#[tonic::async_trait]
impl v1::log_service_server::LogService for Logs {
    async fn get_log_filter(
        &self,
        _: Request<v1::GetLogFilterRequest>,
    ) -> Result<Response<v1::GetLogFilterResponse>, Status> {
        Ok(Response::new(v1::GetLogFilterResponse { filter: Some(filter(filters()?.info())) }))
    }

    async fn set_log_filter(
        &self,
        request: Request<v1::SetLogFilterRequest>,
    ) -> Result<Response<v1::SetLogFilterResponse>, Status> {
        let (_, extensions, v1::SetLogFilterRequest { filter: text, seconds }) = request.into_parts();
        let filters = filters()?;
        let asked = Asked::new("SetLogFilter", &extensions, &[&text, &seconds.to_string()]);
        // Before it is in force: the filter may let no such line through.
        let was = filters.info().filter;
        tracing::info!(was, filter = text, seconds, "the filter of the log is to change");
        let result = filters.set(&text, seconds);
        asked.log(result.as_ref().err().map(ToString::to_string).as_deref());
        let info = result.map_err(|error| status(&error))?;
        if seconds > 0 {
            let number = info.number;
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(seconds.into())).await;
                if filters.expire(number) {
                    tracing::info!("the filter of the log is that of the start again");
                }
            });
        }
        Ok(Response::new(v1::SetLogFilterResponse { filter: Some(filter(info)) }))
    }
}
