//! `BridgeService`.

use super::api::{Asked, Control};
use super::{parse, present, waiting};
use std::sync::Arc;
use tonic::{Request, Response, Status};
use vswitch_antrea_node::Antrea;
use vswitch_dataplane::pipeline::FailMode;
use vswitch_proto::v1;

/// See `proto/vswitch/v1/bridge.proto`.
pub(crate) struct Bridges {
    control: Control,
    /// Its Node has a bridge.
    antrea: Arc<Antrea>,
}

impl Bridges {
    pub(crate) fn new(control: Control, antrea: Arc<Antrea>) -> Self {
        Self { control, antrea }
    }
}

#[tonic::async_trait]
impl v1::bridge_service_server::BridgeService for Bridges {
    async fn add_bridge(
        &self,
        request: Request<v1::AddBridgeRequest>,
    ) -> Result<Response<v1::AddBridgeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let config = parse::bridge_config(request.bridge.unwrap_or_default())?;
        let asked = Asked::new("AddBridge", &extensions, &[&config.name]);
        self.control.change(asked, |switch| switch.add_bridge(config)).await?;
        Ok(Response::new(v1::AddBridgeResponse {}))
    }

    async fn delete_bridge(
        &self,
        request: Request<v1::DeleteBridgeRequest>,
    ) -> Result<Response<v1::DeleteBridgeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("DeleteBridge", &extensions, &[&request.name]);
        let antrea = Arc::clone(&self.antrea);
        let call = move |switch: &dyn vswitch_control::SwitchApi| {
            antrea.unless_either_bridge(&request.name, || switch.delete_bridge(&request.name))
        };
        self.control.change(asked, call).await?;
        Ok(Response::new(v1::DeleteBridgeResponse {}))
    }

    async fn list_bridges(
        &self,
        _: Request<v1::ListBridgesRequest>,
    ) -> Result<Response<v1::ListBridgesResponse>, Status> {
        let bridges = self.control.read(|switch| switch.bridges().iter().map(waiting::bridge).collect()).await?;
        Ok(Response::new(v1::ListBridgesResponse { bridges }))
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
        let antrea = Arc::clone(&self.antrea);
        let call = move |switch: &dyn vswitch_control::SwitchApi| match change.fail_mode {
            Some(FailMode::Standalone) => {
                antrea.unless_the_nodes(&request.name, || switch.set_bridge(&request.name, change))
            }
            Some(FailMode::Secure) => {
                antrea.unless_the_gateway_bridge(&request.name, || switch.set_bridge(&request.name, change))
            }
            None => switch.set_bridge(&request.name, change),
        };
        self.control.change(asked, call).await?;
        Ok(Response::new(v1::SetBridgeResponse {}))
    }
}
