//! Services that write objects of one kind.

use super::{AntreaServices, how, list};
use crate::services::api::Asked;
use crate::services::list::parts;
use tonic::codegen::BoxStream;
use tonic::{Extensions, Request, Response, Status};
use vswitch_antrea::{Key, ObjectKind, Table};
use vswitch_antrea_node::{How, Wanted};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

impl AntreaServices {
    /// Writes objects, and takes others away.
    pub(super) async fn write(
        &self,
        rpc: &'static str,
        extensions: &Extensions,
        objects: Vec<Object>,
        remove: Vec<Key>,
        how: How,
    ) -> Result<v1::WriteResult, Status> {
        let (written, gone) = (objects.len().to_string(), remove.len().to_string());
        let asked = Asked::new(rpc, extensions, &[&written, &gone]);
        self.change(asked, move |antrea| antrea.write(objects, remove, how)).await
    }
}

pub(super) fn keys(kind: ObjectKind, names: &[String]) -> Vec<Key> {
    names.iter().map(|name| Key::new(kind, name)).collect()
}

/// Counters of all flows of some tables.
const fn counters(tables: &'static [Table]) -> Wanted {
    Wanted { tables, groups: false, meters: true, rules: false }
}

/// A service with three methods: apply, delete, list.
macro_rules! service {
    (
        $service:ident::$trait:ident: $kind:ident,
        $apply:ident($apply_name:literal, $apply_request:ident.$objects:ident) -> $apply_response:ident,
        $delete:ident($delete_name:literal, $delete_request:ident) -> $delete_response:ident,
        $list:ident($list_request:ident) -> $stream:ident, $list_response:ident.$states:ident by $chunk:literal, $present:path, $table:path,
    ) => {
        #[tonic::async_trait]
        impl v1::$service::$trait for AntreaServices {
            type $stream = BoxStream<v1::$list_response>;

            async fn $apply(
                &self,
                request: Request<v1::$apply_request>,
            ) -> Result<Response<v1::$apply_response>, Status> {
                let (_, extensions, request) = request.into_parts();
                let how = how(request.options)?;
                let objects = request.$objects.into_iter().map(Object::$kind).collect();
                let result = self.write($apply_name, &extensions, objects, Vec::new(), how).await?;
                Ok(Response::new(v1::$apply_response { result: Some(result) }))
            }

            async fn $delete(
                &self,
                request: Request<v1::$delete_request>,
            ) -> Result<Response<v1::$delete_response>, Status> {
                let (_, extensions, request) = request.into_parts();
                let how = how(request.options)?;
                let gone = keys(ObjectKind::$kind, &request.names);
                let result = self.write($delete_name, &extensions, Vec::new(), gone, how).await?;
                Ok(Response::new(v1::$delete_response { result: Some(result) }))
            }

            async fn $list(&self, request: Request<v1::$list_request>) -> Result<Response<Self::$stream>, Status> {
                let names = request.into_inner().names;
                let states =
                    self.read(move |antrea| antrea.show(counters(&[$table]), |shown| $present(shown, &names))).await?;
                Ok(Response::new(parts(states, $chunk, |state| state, |$states| v1::$list_response { $states })))
            }
        }
    };
}

service! {
    pod_service_server::PodService: Pod,
    apply_pods("ApplyPods", ApplyPodsRequest.pods) -> ApplyPodsResponse,
    delete_pods("DeletePods", DeletePodsRequest) -> DeletePodsResponse,
    list_pods(ListPodsRequest) -> ListPodsStream, ListPodsResponse.pods by 256, list::pods, Table::SpoofGuard,
}

service! {
    peer_node_service_server::PeerNodeService: PeerNode,
    apply_peer_nodes("ApplyPeerNodes", ApplyPeerNodesRequest.peers) -> ApplyPeerNodesResponse,
    delete_peer_nodes("DeletePeerNodes", DeletePeerNodesRequest) -> DeletePeerNodesResponse,
    list_peer_nodes(ListPeerNodesRequest) -> ListPeerNodesStream, ListPeerNodesResponse.peers by 256, list::peers, Table::L3Forwarding,
}

service! {
    egress_service_server::EgressService: Egress,
    apply_egresses("ApplyEgresses", ApplyEgressesRequest.egresses) -> ApplyEgressesResponse,
    delete_egresses("DeleteEgresses", DeleteEgressesRequest) -> DeleteEgressesResponse,
    list_egresses(ListEgressesRequest) -> ListEgressesStream, ListEgressesResponse.egresses by 256, list::egresses, Table::EgressMark,
}

service! {
    traffic_control_service_server::TrafficControlService: TrafficControl,
    apply_traffic_controls("ApplyTrafficControls", ApplyTrafficControlsRequest.traffic_controls) -> ApplyTrafficControlsResponse,
    delete_traffic_controls("DeleteTrafficControls", DeleteTrafficControlsRequest) -> DeleteTrafficControlsResponse,
    list_traffic_controls(ListTrafficControlsRequest) -> ListTrafficControlsStream, ListTrafficControlsResponse.traffic_controls by 256, list::traffic_controls, Table::TrafficControl,
}

#[tonic::async_trait]
impl v1::proxy_service_server::ProxyService for AntreaServices {
    type ListServicesStream = BoxStream<v1::ListServicesResponse>;

    async fn apply_services(
        &self,
        request: Request<v1::ApplyServicesRequest>,
    ) -> Result<Response<v1::ApplyServicesResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let objects = request.services.into_iter().map(Object::Service).collect();
        let result = self.write("ApplyServices", &extensions, objects, Vec::new(), how(request.options)?).await?;
        Ok(Response::new(v1::ApplyServicesResponse { result: Some(result) }))
    }

    async fn delete_services(
        &self,
        request: Request<v1::DeleteServicesRequest>,
    ) -> Result<Response<v1::DeleteServicesResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let gone = keys(ObjectKind::Service, &request.names);
        let result = self.write("DeleteServices", &extensions, Vec::new(), gone, how(request.options)?).await?;
        Ok(Response::new(v1::DeleteServicesResponse { result: Some(result) }))
    }

    async fn list_services(
        &self,
        request: Request<v1::ListServicesRequest>,
    ) -> Result<Response<Self::ListServicesStream>, Status> {
        let names = request.into_inner().names;
        let wanted = Wanted { groups: true, ..counters(&[Table::SessionAffinity]) };
        let states = self.read(move |antrea| antrea.show(wanted, |shown| list::services(shown, &names))).await?;
        Ok(Response::new(parts(states, 64, |state| state, |services| v1::ListServicesResponse { services })))
    }

    async fn apply_endpoints(
        &self,
        request: Request<v1::ApplyEndpointsRequest>,
    ) -> Result<Response<v1::ApplyEndpointsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let objects = request.sets.into_iter().map(Object::Endpoints).collect();
        let result = self.write("ApplyEndpoints", &extensions, objects, Vec::new(), how(request.options)?).await?;
        Ok(Response::new(v1::ApplyEndpointsResponse { result: Some(result) }))
    }

    async fn delete_endpoints(
        &self,
        request: Request<v1::DeleteEndpointsRequest>,
    ) -> Result<Response<v1::DeleteEndpointsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let gone = keys(ObjectKind::Endpoints, &request.names);
        let result = self.write("DeleteEndpoints", &extensions, Vec::new(), gone, how(request.options)?).await?;
        Ok(Response::new(v1::DeleteEndpointsResponse { result: Some(result) }))
    }
}
