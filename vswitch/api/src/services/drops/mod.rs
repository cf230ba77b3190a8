//! `DropService`.

mod filter;
mod watch;

use super::api::{Asked, Control};
use filter::Filter;
use std::collections::HashMap;
use std::sync::Arc;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_antrea_node::Antrea;
use vswitch_control::drops::{DropCount, DropEvent, explain};
use vswitch_dataplane::limits::{DROP_RATE_DEFAULT, DROP_RATE_MAX};
use vswitch_dataplane::observe::Direction;
use vswitch_dataplane::port::FieldError;
use vswitch_proto::v1;

/// See `proto/vswitch/v1/drop.proto`.
pub(crate) struct Drops {
    control: Control,
    /// Knows which policies drop.
    antrea: Arc<Antrea>,
}

impl Drops {
    pub(crate) fn new(control: Control, antrea: Arc<Antrea>) -> Self {
        Self { control, antrea }
    }
}

fn direction(direction: Direction) -> v1::DropDirection {
    match direction {
        Direction::In => v1::DropDirection::In,
        Direction::Out => v1::DropDirection::Out,
    }
}

fn count(count: DropCount, pods: &HashMap<String, String>) -> v1::PortDrops {
    let pod = pods.get(&count.port).or_else(|| count.external_ids.get("pod")).cloned();
    v1::PortDrops {
        pod: pod.unwrap_or_default(),
        bridge: count.bridge,
        port: count.port,
        direction: direction(count.direction).into(),
        reason: count.reason.name().to_owned(),
        class: count.reason.class().name().to_owned(),
        total: count.total,
        rates: count.rates.map(|rates| v1::DropRates {
            last_1s: rates.last_1s,
            last_10s: rates.last_10s,
            last_60s: rates.last_60s,
        }),
        external_ids: count.external_ids,
    }
}

/// A packet that was dropped: with the policy of the rule that decided, and the Pod of the port.
pub(super) fn sample(antrea: &Antrea, event: &DropEvent) -> v1::DropSample {
    let denied = event.decider.as_ref().and_then(|decider| {
        antrea.denied_by((&decider.bridge, decider.table, decider.cookie?), &event.bytes, event.len)
    });
    let (rule, default_deny) = denied.unwrap_or_default();
    let decider = event.decider.as_ref().map(|decider| v1::DropDecider {
        bridge: decider.bridge.clone(),
        table: decider.table.into(),
        table_name: decider.table_name.clone(),
        cookie: decider.cookie,
        policy: rule.policy,
        policy_rule: rule.rule,
        default_deny,
    });
    v1::DropSample {
        reason: event.reason.name().to_owned(),
        class: event.reason.class().name().to_owned(),
        bridge: event.bridge.clone(),
        port: event.port.clone(),
        direction: direction(event.direction).into(),
        core: event.core,
        unix_ms: event.unix_ms,
        length: u32::try_from(event.len).unwrap_or(u32::MAX),
        packet: event.bytes.clone(),
        decider,
        pod: antrea.pod_of_port(&event.port).unwrap_or_default(),
    }
}

/// The samples per second that a request asks for.
fn rate(asked: u32) -> Result<u32, Status> {
    match asked {
        0 => Ok(DROP_RATE_DEFAULT),
        1..=DROP_RATE_MAX => Ok(asked),
        _ => {
            let problem = format!("{asked} is out of range");
            let error = FieldError::new("samples_per_second", problem, format!("use 1 to {DROP_RATE_MAX}, or 0"));
            Err(super::status::invalid(&[error]))
        }
    }
}

#[tonic::async_trait]
impl v1::drop_service_server::DropService for Drops {
    type WatchDropsStream = BoxStream<v1::WatchDropsResponse>;

    async fn list_drops(
        &self,
        request: Request<v1::ListDropsRequest>,
    ) -> Result<Response<v1::ListDropsResponse>, Status> {
        let filter = Filter::new(request.into_inner().filter.unwrap_or_default())?;
        let antrea = Arc::clone(&self.antrea);
        let (drops, pods) = self
            .control
            .try_read(move |switch| {
                filter.check(&switch.bridges())?;
                let mut drops = switch.drops();
                drops.retain(|one| filter.allows(&one.bridge, &one.port, one.reason));
                Ok((drops, antrea.pods_of_ports()))
            })
            .await?;
        let mut drops: Vec<v1::PortDrops> = drops.into_iter().map(|one| count(one, &pods)).collect();
        let by = |one: &v1::PortDrops| (one.bridge.clone(), one.port.clone(), one.direction, one.reason.clone());
        drops.sort_by_cached_key(by);
        Ok(Response::new(v1::ListDropsResponse { drops }))
    }

    async fn watch_drops(
        &self,
        request: Request<v1::WatchDropsRequest>,
    ) -> Result<Response<Self::WatchDropsStream>, Status> {
        let (_, extensions, request) = request.into_parts();
        let filter = Filter::new(request.filter.unwrap_or_default())?;
        let rate = rate(request.samples_per_second)?;
        let asked = Asked::new("WatchDrops", &extensions, &[]);
        let stream = self.control.use_logged(asked, move |switch| switch.watch_drops(rate)).await?;
        let watch = watch::Watch::new(self.control.clone(), Arc::clone(&self.antrea), stream, filter, rate);
        let stopping = self.control.stopping.clone();
        Ok(Response::new(super::watch::until_stopped(stopping, |messages| watch.run(messages))))
    }

    async fn get_drop_explanation(
        &self,
        request: Request<v1::GetDropExplanationRequest>,
    ) -> Result<Response<v1::GetDropExplanationResponse>, Status> {
        let reason = filter::reason("reason", &request.into_inner().reason)?;
        let explanation = explain(reason);
        Ok(Response::new(v1::GetDropExplanationResponse {
            reason: reason.name().to_owned(),
            class: reason.class().name().to_owned(),
            sentence: reason.sentence().to_owned(),
            cause: explanation.cause.to_owned(),
            look: explanation.look.to_owned(),
            change: explanation.change.to_owned(),
        }))
    }
}
