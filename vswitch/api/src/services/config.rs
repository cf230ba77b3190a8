//! `ConfigService`.

use super::api::{Asked, Control};
use super::status::invalid;
use crate::shares::Peer;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::runtime::Handle;
use tonic::{Request, Response, Status};
use vswitch_control::SwitchApi;
use vswitch_control::running::{Applied, CONFIRM_MAX, How, Running, Source};
use vswitch_dataplane::port::FieldError;
use vswitch_proto::v1;

/// See `proto/vswitch/v1/config.proto`.
pub(crate) struct Configs {
    control: Control,
    running: Arc<Running>,
}

impl Configs {
    pub(crate) fn new(control: Control, running: Arc<Running>) -> Self {
        Self { control, running }
    }
}

/// How long an apply waits for its confirmation.
fn confirm(seconds: u32) -> Result<Option<Duration>, Status> {
    let wait = Duration::from_secs(seconds.into());
    if wait > CONFIRM_MAX {
        let hint = format!("use 1 to {}, or 0 for no confirmation", CONFIRM_MAX.as_secs());
        return Err(invalid(&[FieldError::new("confirm_seconds", format!("{seconds} is out of range"), hint)]));
    }
    Ok(Some(wait).filter(|wait| !wait.is_zero()))
}

fn applied(applied: Applied) -> v1::AppliedConfig {
    let Applied { source, at, changes, state, confirm_by } = applied;
    let (source, client) = match source {
        Source::File => ("file", String::new()),
        Source::Client { who } => ("client", who),
    };
    let unix_ms = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let left = confirm_by.map(|by| by.saturating_duration_since(Instant::now()).as_millis().div_ceil(1000));
    v1::AppliedConfig {
        source: source.to_owned(),
        client,
        unix_ms: u64::try_from(unix_ms).unwrap_or(u64::MAX),
        changes,
        state,
        seconds_left: left.map(|left| u32::try_from(left).unwrap_or(u32::MAX)),
    }
}

/// Takes an apply back after this time, unless it is confirmed by then.
async fn take_back(running: Arc<Running>, number: u64, wait: Duration) {
    tokio::time::sleep(wait).await;
    let _ = tokio::task::spawn_blocking(move || running.expire(number)).await;
}

#[tonic::async_trait]
impl v1::config_service_server::ConfigService for Configs {
    async fn get_config(&self, _: Request<v1::GetConfigRequest>) -> Result<Response<v1::GetConfigResponse>, Status> {
        let running = Arc::clone(&self.running);
        let export = self.control.try_read(move |_| running.export()).await?;
        Ok(Response::new(v1::GetConfigResponse { text: export.text, left_out: export.left_out }))
    }

    async fn apply_config(
        &self,
        request: Request<v1::ApplyConfigRequest>,
    ) -> Result<Response<v1::ApplyConfigResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let v1::ApplyConfigRequest { text, name, dry_run, confirm_seconds } = request;
        let who = extensions.get::<Peer>().map(|peer| peer.identity.principal.to_string());
        let source = Source::Client { who: who.unwrap_or_default() };
        let name = PathBuf::from(if name.is_empty() { "text" } else { &name });
        let asked = Asked::new("ApplyConfig", &extensions, &[&name.to_string_lossy()]);
        let how = How { name, source, dry_run, confirm: confirm(confirm_seconds)? };
        let (running, runtime) = (Arc::clone(&self.running), Handle::current());
        let apply = move |_: &dyn SwitchApi| {
            let outcome = running.apply(&text, &how)?;
            if let Some(number) = outcome.pending {
                // Here, since the handler ends with its client.
                runtime.spawn(take_back(running, number, Duration::from_secs(confirm_seconds.into())));
            }
            Ok(outcome)
        };
        let outcome = match dry_run {
            true => self.control.try_read(apply).await?,
            false => self.control.change(asked, apply).await?,
        };
        Ok(Response::new(v1::ApplyConfigResponse {
            changes: outcome.changes,
            restart: outcome.restart,
            refused: outcome.refused,
            warnings: outcome.warnings,
            pending: outcome.pending.is_some(),
        }))
    }

    async fn confirm_config(
        &self,
        request: Request<v1::ConfirmConfigRequest>,
    ) -> Result<Response<v1::ConfirmConfigResponse>, Status> {
        let (_, extensions, v1::ConfirmConfigRequest { revert }) = request.into_parts();
        let asked = Asked::new("ConfirmConfig", &extensions, &[if revert { "revert" } else { "keep" }]);
        let running = Arc::clone(&self.running);
        let call = move |_: &dyn SwitchApi| {
            if revert { running.roll_back() } else { running.confirm() }
        };
        self.control.change(asked, call).await?;
        Ok(Response::new(v1::ConfirmConfigResponse {}))
    }

    async fn get_config_state(
        &self,
        _: Request<v1::GetConfigStateRequest>,
    ) -> Result<Response<v1::GetConfigStateResponse>, Status> {
        let running = Arc::clone(&self.running);
        let (last, differences) = self.control.try_read(move |_| running.info()).await?;
        Ok(Response::new(v1::GetConfigStateResponse {
            last: last.map(applied),
            changes: differences.changes,
            restart: differences.restart,
            refused: differences.refused,
            problems: differences.warnings,
        }))
    }
}
