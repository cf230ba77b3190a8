//! `MulticastService`.

use super::apply::keys;
use super::list::{in_table, of, total};
use super::{AntreaServices, how};
use crate::services::api::Asked;
use crate::services::list::parts;
use crate::services::status::invalid;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_antrea::{GroupKey, Key, ObjectKind, Table};
use vswitch_antrea_node::{Shown, Wanted};
use vswitch_dataplane::port::FieldError;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// Groups of one request.
const GROUPS_MAX: usize = 4096;
/// Items of one message.
const CHUNK: usize = 256;
/// Counters that listings look at.
const GROUPS: Wanted = Wanted { tables: &[Table::MulticastRouting], groups: false, meters: false, rules: false };
const PODS: Wanted = Wanted {
    tables: &[Table::MulticastEgressPodMetric, Table::MulticastIngressPodMetric],
    groups: false,
    meters: false,
    rules: false,
};

#[tonic::async_trait]
impl v1::multicast_service_server::MulticastService for AntreaServices {
    type ListMulticastGroupsStream = BoxStream<v1::ListMulticastGroupsResponse>;
    type ListMulticastStatisticsStream = BoxStream<v1::ListMulticastStatisticsResponse>;

    async fn set_multicast_config(
        &self,
        request: Request<v1::SetMulticastConfigRequest>,
    ) -> Result<Response<v1::SetMulticastConfigResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let config = request.config.unwrap_or_default();
        let asked = Asked::new("SetMulticastConfig", &extensions, &[]);
        self.change(asked, move |antrea| antrea.set_multicast(config)).await?;
        Ok(Response::new(v1::SetMulticastConfigResponse {}))
    }

    async fn apply_multicast_groups(
        &self,
        request: Request<v1::ApplyMulticastGroupsRequest>,
    ) -> Result<Response<v1::ApplyMulticastGroupsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        few("groups", request.groups.len())?;
        let how = how(request.options)?;
        self.read(|antrea| antrea.require_said_groups()).await?;
        let objects = request.groups.into_iter().map(Object::MulticastGroup).collect();
        let result = self.write("ApplyMulticastGroups", &extensions, objects, Vec::new(), how).await?;
        Ok(Response::new(v1::ApplyMulticastGroupsResponse { result: Some(result) }))
    }

    async fn delete_multicast_groups(
        &self,
        request: Request<v1::DeleteMulticastGroupsRequest>,
    ) -> Result<Response<v1::DeleteMulticastGroupsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        few("addresses", request.addresses.len())?;
        let how = how(request.options)?;
        self.read(|antrea| antrea.require_said_groups()).await?;
        let gone = keys(ObjectKind::MulticastGroup, &request.addresses);
        let result = self.write("DeleteMulticastGroups", &extensions, Vec::new(), gone, how).await?;
        Ok(Response::new(v1::DeleteMulticastGroupsResponse { result: Some(result) }))
    }

    async fn list_multicast_groups(
        &self,
        request: Request<v1::ListMulticastGroupsRequest>,
    ) -> Result<Response<Self::ListMulticastGroupsStream>, Status> {
        let addresses = request.into_inner().addresses;
        let states = self.read(move |antrea| antrea.show(GROUPS, |shown| groups(shown, &addresses))).await?;
        let message = |groups| v1::ListMulticastGroupsResponse { groups };
        Ok(Response::new(parts(states, CHUNK, |state| state, message)))
    }

    async fn list_multicast_statistics(
        &self,
        request: Request<v1::ListMulticastStatisticsRequest>,
    ) -> Result<Response<Self::ListMulticastStatisticsStream>, Status> {
        let names = request.into_inner().pods;
        let counted = self.read(move |antrea| antrea.show(PODS, |shown| statistics(shown, &names))).await?;
        let message = |pods| v1::ListMulticastStatisticsResponse { pods };
        Ok(Response::new(parts(counted, CHUNK, |pod| pod, message)))
    }
}

fn few(field: &'static str, count: usize) -> Result<(), Status> {
    if count <= GROUPS_MAX {
        return Ok(());
    }
    let reason = format!("{count} groups, at most {GROUPS_MAX}");
    Err(invalid(&[FieldError::new(field, reason, "ask in several requests")]))
}

/// Groups that are there: said, or joined.
fn groups(shown: &Shown<'_>, addresses: &[String]) -> Vec<v1::MulticastGroupState> {
    let mut there: BTreeSet<Ipv4Addr> = shown.desired().joined().groups().collect();
    there.extend(
        shown.desired().of(ObjectKind::MulticastGroup).filter_map(|(key, _)| key.name.parse::<Ipv4Addr>().ok()),
    );
    if !addresses.is_empty() {
        let wanted: BTreeSet<Ipv4Addr> = addresses.iter().filter_map(|text| text.parse().ok()).collect();
        there.retain(|group| wanted.contains(group));
    }
    there.into_iter().map(|group| state(shown, group)).collect()
}

fn state(shown: &Shown<'_>, group: Ipv4Addr) -> v1::MulticastGroupState {
    let key = Key::new(ObjectKind::MulticastGroup, &group.to_string());
    let said = shown.desired().get(&key).and_then(|entry| match &entry.message {
        Object::MulticastGroup(message) => Some(message.clone()),
        _ => None,
    });
    let joined = || {
        let receivers = shown.desired().joined().receivers(group).cloned().unwrap_or_default();
        v1::MulticastGroup {
            address: group.to_string(),
            pods: receivers.pods.iter().map(|life| life.pod.to_string()).collect(),
            nodes: receivers.nodes.iter().map(ToString::to_string).collect(),
        }
    };
    v1::MulticastGroupState {
        group: Some(said.unwrap_or_else(joined)),
        members: shown.igmp.members(group),
        group_id: shown.ids().group(&GroupKey::Multicast(group.into())).unwrap_or(0),
        forwarded: Some(total(&in_table(shown, &key, Table::MulticastRouting))),
    }
}

/// What Pods sent and received.
fn statistics(shown: &Shown<'_>, names: &[String]) -> Vec<v1::MulticastPodStatistics> {
    let of_pod = |(key, _): (&Key, &Object)| v1::MulticastPodStatistics {
        pod: key.name.to_string(),
        sent: Some(total(&in_table(shown, key, Table::MulticastEgressPodMetric))),
        received: Some(total(&in_table(shown, key, Table::MulticastIngressPodMetric))),
    };
    of(shown, ObjectKind::Pod, names).into_iter().map(of_pod).collect()
}
