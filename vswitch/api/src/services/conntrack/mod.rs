//! `ConntrackService`. What it asks of the tracker goes past the lock of the switch.

mod dump;
mod filter;
mod options;
mod watch;

use super::api::{Asked, Control};
use super::status::invalid;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_conntrack::{Filter, Policy, Tracker};
use vswitch_control::SwitchError;
use vswitch_control::timeouts;
use vswitch_dataplane::port::FieldError;
use vswitch_dataplane::time::Millis;
use vswitch_messages::connection as present;
use vswitch_proto::v1;

/// See `proto/vswitch/v1/conntrack.proto`.
pub(crate) struct Conntracks {
    control: Control,
    /// Dumps take as long as their readers: they are not among the calls of the switch, which would
    /// wait for them.
    dumps: Arc<Semaphore>,
}

impl Conntracks {
    pub(crate) fn new(control: Control) -> Self {
        Self { control, dumps: Arc::new(Semaphore::new(dump::DUMPS_MAX)) }
    }

    /// Asks the tracker something.
    async fn read<R: Send + 'static>(&self, ask: impl FnOnce(&Tracker) -> R + Send + 'static) -> Result<R, Status> {
        self.control.read(move |switch| ask(switch.conntrack().tracker())).await
    }

    /// Changes the tracker, and logs who asked for it.
    async fn change<R: Send + 'static>(
        &self,
        asked: Asked,
        change: impl FnOnce(&Tracker) -> Result<R, SwitchError> + Send + 'static,
    ) -> Result<R, Status> {
        self.control.change(asked, move |switch| change(switch.conntrack().tracker())).await
    }
}

/// Connections by protocol.
fn protocols(tracker: &Tracker, filter: &Filter) -> Vec<v1::ProtocolCount> {
    let mut counts: [(u64, [u64; 12]); 256] = [(0, [0; 12]); 256];
    tracker.dump(filter, Millis::now().0, |connection| {
        let (all, states) = &mut counts[usize::from(connection.original.protocol)];
        *all += 1;
        if let Some(tcp) = &connection.tcp {
            states[present::merged(tcp) as usize] += 1;
        }
        ControlFlow::Continue(())
    });
    let state = |(state, connections): (i32, u64)| v1::TcpStateCount { state, connections };
    let protocol = |(protocol, (connections, states)): (u32, (u64, [u64; 12]))| v1::ProtocolCount {
        protocol,
        connections,
        tcp_states: (0..).zip(states).filter(|(_, connections)| *connections > 0).map(state).collect(),
    };
    (0..).zip(counts).filter(|(_, (connections, _))| *connections > 0).map(protocol).collect()
}

/// Limits of these zones, or of all that have one or connections.
pub(super) fn limits(tracker: &Tracker, zones: &[u16]) -> v1::GetConntrackLimitsResponse {
    let (limits, mut known) = tracker.limits();
    known.sort_unstable_by_key(|zone| zone.zone);
    if !zones.is_empty() {
        let find = |zone: &u16| {
            let at = known.binary_search_by_key(zone, |known| known.zone);
            at.map_or(vswitch_conntrack::ZoneCount { zone: *zone, ..Default::default() }, |at| known[at])
        };
        known = zones.iter().map(find).collect();
    }
    let zone = |zone: &vswitch_conntrack::ZoneCount| v1::ZoneLimit {
        zone: zone.zone.into(),
        limit: zone.limit,
        count: zone.count,
    };
    v1::GetConntrackLimitsResponse { default_limit: limits.default, zones: known.iter().map(zone).collect() }
}

/// Zones with their new limits.
fn new_limits(request: &v1::SetConntrackLimitsRequest) -> Result<Vec<(u16, u32)>, Status> {
    if request.default_limit.is_none() && request.zones.is_empty() {
        let error = FieldError::new("zones", "nothing is to be set", "give default_limit, or zones with their limits");
        return Err(invalid(&[error]));
    }
    let zones = filter::zones("zones", request.zones.iter().map(|zone| zone.zone))?;
    let limits: Option<Vec<_>> = request.zones.iter().map(|zone| zone.limit).collect();
    let limits = limits.ok_or_else(|| {
        invalid(&[FieldError::new("zones", "a zone has no limit", "give one, or delete it (DeleteConntrackLimits)")])
    })?;
    Ok(zones.into_iter().zip(limits).collect())
}

fn policy_message(policy: &Policy) -> v1::TimeoutPolicy {
    let seconds = timeouts::seconds(policy).map(|(name, seconds)| (name.to_owned(), seconds));
    v1::TimeoutPolicy { seconds: seconds.collect() }
}

/// The default timeouts, and those of zones that have their own.
fn policies(tracker: &Tracker, wanted: Option<u16>) -> v1::ListZoneTimeoutPoliciesResponse {
    let mut zones = tracker.policies();
    zones.retain(|(zone, _)| wanted.is_none_or(|wanted| wanted == *zone));
    zones.sort_unstable_by_key(|(zone, _)| *zone);
    let message = |(zone, policy): &(u16, Policy)| v1::ZoneTimeoutPolicy {
        zone: (*zone).into(),
        policy: Some(policy_message(policy)),
    };
    v1::ListZoneTimeoutPoliciesResponse {
        default_policy: Some(policy_message(&Policy::default())),
        zones: zones.iter().map(message).collect(),
    }
}

/// Takes a zone's own timeouts away, if it has any.
fn delete_policy(tracker: &Tracker, zone: u16) -> Result<(), SwitchError> {
    if tracker.policies().iter().all(|(known, _)| *known != zone) {
        let hint = "`vsctl ct-get-timeouts` lists those that there are".to_owned();
        return Err(SwitchError::NotFound { what: "timeout policy of zone", name: zone.to_string(), hint });
    }
    tracker.set_policy(zone, None);
    Ok(())
}

#[tonic::async_trait]
impl v1::conntrack_service_server::ConntrackService for Conntracks {
    type ListConnectionsStream = BoxStream<v1::ListConnectionsResponse>;
    type WatchConnectionsStream = BoxStream<v1::WatchConnectionsResponse>;

    async fn list_connections(
        &self,
        request: Request<v1::ListConnectionsRequest>,
    ) -> Result<Response<Self::ListConnectionsStream>, Status> {
        let (_, extensions, request) = request.into_parts();
        let filter = filter::filter(request.filter)?;
        let asked = Asked::new("ListConnections", &extensions, &[&format!("{filter:?}")]);
        let conntrack = self.control.use_logged(asked, |switch| Ok(switch.conntrack())).await?;
        let permit = Arc::clone(&self.dumps).acquire_owned().await;
        let permit = permit.map_err(|error| Status::internal(error.to_string()))?;
        let filling = |messages| dump::fill(conntrack, filter, messages, permit, dump::PATIENCE);
        Ok(Response::new(super::watch::until_stopped(self.control.stopping.clone(), filling)))
    }

    async fn flush_connections(
        &self,
        request: Request<v1::FlushConnectionsRequest>,
    ) -> Result<Response<v1::FlushConnectionsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let filter = filter::filter(request.filter)?;
        let asked = Asked::new("FlushConnections", &extensions, &[&format!("{filter:?}")]);
        let flushed = self.change(asked, move |tracker| Ok(tracker.flush(&filter, Millis::now().0))).await?;
        Ok(Response::new(v1::FlushConnectionsResponse { flushed: flushed as u64 }))
    }

    async fn get_conntrack_stats(
        &self,
        request: Request<v1::GetConntrackStatsRequest>,
    ) -> Result<Response<v1::GetConntrackStatsResponse>, Status> {
        let v1::GetConntrackStatsRequest { protocols: wanted, zone } = request.into_inner();
        let zone = zone.map(|zone| filter::zone("zone", zone)).transpose()?;
        let stats = self.read(move |tracker| {
            let filter = Filter { zone, ..Filter::default() };
            let protocols = if wanted { protocols(tracker, &filter) } else { Vec::new() };
            present::stats(tracker.counts(), protocols)
        });
        Ok(Response::new(stats.await?))
    }

    async fn get_conntrack_limits(
        &self,
        request: Request<v1::GetConntrackLimitsRequest>,
    ) -> Result<Response<v1::GetConntrackLimitsResponse>, Status> {
        let zones = filter::zones("zones", request.into_inner().zones)?;
        Ok(Response::new(self.read(move |tracker| limits(tracker, &zones)).await?))
    }

    async fn set_conntrack_limits(
        &self,
        request: Request<v1::SetConntrackLimitsRequest>,
    ) -> Result<Response<v1::SetConntrackLimitsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let zones = new_limits(&request)?;
        let asked = Asked::new("SetConntrackLimits", &extensions, &[&format!("{:?} {zones:?}", request.default_limit)]);
        let set = move |tracker: &Tracker| {
            request.default_limit.into_iter().for_each(|limit| tracker.set_default_limit(Some(limit)));
            zones.into_iter().for_each(|(zone, limit)| tracker.set_limit(zone, Some(limit)));
            Ok(())
        };
        self.change(asked, set).await?;
        Ok(Response::new(v1::SetConntrackLimitsResponse {}))
    }

    async fn delete_conntrack_limits(
        &self,
        request: Request<v1::DeleteConntrackLimitsRequest>,
    ) -> Result<Response<v1::DeleteConntrackLimitsResponse>, Status> {
        let (_, extensions, v1::DeleteConntrackLimitsRequest { default_limit, zones }) = request.into_parts();
        let zones = filter::zones("zones", zones)?;
        let asked = Asked::new("DeleteConntrackLimits", &extensions, &[&format!("{default_limit} {zones:?}")]);
        let delete = move |tracker: &Tracker| {
            if default_limit {
                tracker.set_default_limit(None);
            }
            zones.into_iter().for_each(|zone| tracker.set_limit(zone, None));
            Ok(())
        };
        self.change(asked, delete).await?;
        Ok(Response::new(v1::DeleteConntrackLimitsResponse {}))
    }

    async fn list_zone_timeout_policies(
        &self,
        request: Request<v1::ListZoneTimeoutPoliciesRequest>,
    ) -> Result<Response<v1::ListZoneTimeoutPoliciesResponse>, Status> {
        let zone = request.into_inner().zone.map(|zone| filter::zone("zone", zone)).transpose()?;
        Ok(Response::new(self.read(move |tracker| policies(tracker, zone)).await?))
    }

    async fn set_zone_timeout_policy(
        &self,
        request: Request<v1::SetZoneTimeoutPolicyRequest>,
    ) -> Result<Response<v1::SetZoneTimeoutPolicyResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let missing = || invalid(&[FieldError::new("policy", "not given", "give a zone and its timeouts")]);
        let v1::ZoneTimeoutPolicy { zone, policy } = request.policy.ok_or_else(missing)?;
        let zone = filter::zone("policy.zone", zone)?;
        let mut seconds: Vec<_> = policy.unwrap_or_default().seconds.into_iter().collect();
        seconds.sort_unstable(); // a map has no order, and errors shall
        let pairs = seconds.iter().map(|(name, value)| (name.as_str(), *value));
        let (policy, warnings) = timeouts::policy("policy.seconds", pairs).map_err(|errors| invalid(&errors))?;
        let asked = Asked::new("SetZoneTimeoutPolicy", &extensions, &[&zone.to_string(), &format!("{seconds:?}")]);
        let set = move |tracker: &Tracker| {
            tracker.set_policy(zone, Some(policy));
            Ok(())
        };
        self.change(asked, set).await?;
        Ok(Response::new(v1::SetZoneTimeoutPolicyResponse { warnings }))
    }

    async fn delete_zone_timeout_policy(
        &self,
        request: Request<v1::DeleteZoneTimeoutPolicyRequest>,
    ) -> Result<Response<v1::DeleteZoneTimeoutPolicyResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let zone = filter::zone("zone", request.zone)?;
        let asked = Asked::new("DeleteZoneTimeoutPolicy", &extensions, &[&zone.to_string()]);
        self.change(asked, move |tracker| delete_policy(tracker, zone)).await?;
        Ok(Response::new(v1::DeleteZoneTimeoutPolicyResponse {}))
    }

    async fn get_zone_options(
        &self,
        request: Request<v1::GetZoneOptionsRequest>,
    ) -> Result<Response<v1::GetZoneOptionsResponse>, Status> {
        let zones = filter::zones("zones", request.into_inner().zones)?;
        Ok(Response::new(self.read(move |tracker| options::of(tracker, zones)).await?))
    }

    async fn set_zone_options(
        &self,
        request: Request<v1::SetZoneOptionsRequest>,
    ) -> Result<Response<v1::SetZoneOptionsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let wanted = options::wanted(&request)?;
        let asked = Asked::new("SetZoneOptions", &extensions, &[&format!("{wanted:?}")]);
        let set = move |tracker: &Tracker| {
            wanted.into_iter().for_each(|(zone, on)| tracker.set_established_after_answer(zone, on));
            Ok(())
        };
        self.change(asked, set).await?;
        Ok(Response::new(v1::SetZoneOptionsResponse {}))
    }

    async fn get_tcp_seq_check(
        &self,
        _: Request<v1::GetTcpSeqCheckRequest>,
    ) -> Result<Response<v1::GetTcpSeqCheckResponse>, Status> {
        let enabled = self.read(Tracker::checks_windows).await?;
        Ok(Response::new(v1::GetTcpSeqCheckResponse { enabled }))
    }

    async fn set_tcp_seq_check(
        &self,
        request: Request<v1::SetTcpSeqCheckRequest>,
    ) -> Result<Response<v1::SetTcpSeqCheckResponse>, Status> {
        let (_, extensions, v1::SetTcpSeqCheckRequest { enabled }) = request.into_parts();
        let asked = Asked::new("SetTcpSeqCheck", &extensions, &[&enabled.to_string()]);
        let set = move |tracker: &Tracker| {
            tracker.check_windows(enabled);
            Ok(())
        };
        self.change(asked, set).await?;
        Ok(Response::new(v1::SetTcpSeqCheckResponse {}))
    }

    async fn watch_connections(
        &self,
        request: Request<v1::WatchConnectionsRequest>,
    ) -> Result<Response<Self::WatchConnectionsStream>, Status> {
        let request = request.into_inner();
        let wanted = watch::Wanted::new(request)?;
        let stream = self.control.try_read(|switch| switch.subscribe_connections()).await?;
        let filling = |messages| watch::forward(stream, wanted, messages);
        Ok(Response::new(super::watch::until_stopped(self.control.stopping.clone(), filling)))
    }
}
