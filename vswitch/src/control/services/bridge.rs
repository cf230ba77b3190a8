//! `BridgeService`.

use super::api::{Asked, Control};
use super::{parse, present};
use tonic::{Request, Response, Status};
use vswitch_proto::v1;

/// See `proto/vswitch/v1/bridge.proto`.
pub(in crate::control) struct Bridges(pub(in crate::control) Control);

#[tonic::async_trait]
impl v1::bridge_service_server::BridgeService for Bridges {
    async fn add_bridge(
        &self,
        request: Request<v1::AddBridgeRequest>,
    ) -> Result<Response<v1::AddBridgeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let config = parse::bridge_config(request.bridge.unwrap_or_default())?;
        let asked = Asked::new("AddBridge", &extensions, &[&config.name]);
        self.0.change(asked, |switch| switch.add_bridge(config)).await?;
        Ok(Response::new(v1::AddBridgeResponse {}))
    }

    async fn delete_bridge(
        &self,
        request: Request<v1::DeleteBridgeRequest>,
    ) -> Result<Response<v1::DeleteBridgeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("DeleteBridge", &extensions, &[&request.name]);
        self.0.change(asked, move |switch| switch.delete_bridge(&request.name)).await?;
        Ok(Response::new(v1::DeleteBridgeResponse {}))
    }

    async fn list_bridges(
        &self,
        _: Request<v1::ListBridgesRequest>,
    ) -> Result<Response<v1::ListBridgesResponse>, Status> {
        let bridges = self.0.read(|switch| switch.bridges()).await?;
        Ok(Response::new(v1::ListBridgesResponse { bridges: bridges.iter().map(present::bridge).collect() }))
    }

    async fn set_bridge(
        &self,
        request: Request<v1::SetBridgeRequest>,
    ) -> Result<Response<v1::SetBridgeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let change = parse::bridge_change(&request)?;
        let fail_mode = change.fail_mode.map_or("", |mode| present::fail_mode(mode).as_str_name());
        let strict = change.strict.map_or("", |strict| if strict { "strict" } else { "not strict" });
        let asked = Asked::new("SetBridge", &extensions, &[&request.name, fail_mode, strict]);
        self.0.change(asked, move |switch| switch.set_bridge(&request.name, change)).await?;
        Ok(Response::new(v1::SetBridgeResponse {}))
    }
}
