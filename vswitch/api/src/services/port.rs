//! `PortService`.

use super::api::{Asked, Control};
use super::{parse, waiting, watch};
use std::sync::Arc;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_antrea_node::Antrea;
use vswitch_proto::v1;

/// See `proto/vswitch/v1/port.proto`.
pub(crate) struct Ports {
    control: Control,
    /// Its objects hold ports.
    antrea: Arc<Antrea>,
}

impl Ports {
    pub(crate) fn new(control: Control, antrea: Arc<Antrea>) -> Self {
        Self { control, antrea }
    }
}

#[tonic::async_trait]
impl v1::port_service_server::PortService for Ports {
    type WatchPortsStream = BoxStream<v1::WatchPortsResponse>;

    async fn add_port(&self, request: Request<v1::AddPortRequest>) -> Result<Response<v1::AddPortResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let config = parse::port_config(request.port.unwrap_or_default())?;
        let asked = Asked::new("AddPort", &extensions, &[&request.bridge, &config.name, config.kind.name()]);
        let antrea = Arc::clone(&self.antrea);
        let call = move |switch: &dyn vswitch_control::SwitchApi| {
            let added = switch.add_port(&request.bridge, config)?;
            antrea.port_added(&request.bridge, &added.config.name);
            Ok(v1::AddPortResponse { port: Some(waiting::port(&added)), warnings: waiting::warnings(&added) })
        };
        Ok(Response::new(self.control.change(asked, call).await?))
    }

    async fn delete_port(
        &self,
        request: Request<v1::DeletePortRequest>,
    ) -> Result<Response<v1::DeletePortResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("DeletePort", &extensions, &[&request.bridge, &request.name]);
        let antrea = Arc::clone(&self.antrea);
        let call = move |switch: &dyn vswitch_control::SwitchApi| {
            let v1::DeletePortRequest { bridge, name } = &request;
            antrea.unless_held(bridge, name, || switch.delete_port(bridge, name))
        };
        self.control.change(asked, call).await?;
        Ok(Response::new(v1::DeletePortResponse {}))
    }

    async fn list_ports(
        &self,
        request: Request<v1::ListPortsRequest>,
    ) -> Result<Response<v1::ListPortsResponse>, Status> {
        let bridge = request.into_inner().bridge;
        let list = move |switch: &dyn vswitch_control::SwitchApi| {
            Ok(switch.ports(&bridge)?.iter().map(waiting::port).collect())
        };
        Ok(Response::new(v1::ListPortsResponse { ports: self.control.try_read(list).await? }))
    }

    async fn modify_port(
        &self,
        request: Request<v1::ModifyPortRequest>,
    ) -> Result<Response<v1::ModifyPortResponse>, Status> {
        let (_, extensions, mut request) = request.into_parts();
        let change = parse::port_change(&mut request)?;
        let asked = Asked::new("ModifyPort", &extensions, &[&request.bridge, &request.name, &format!("{change:?}")]);
        let call = move |switch: &dyn vswitch_control::SwitchApi| {
            Ok(waiting::port(&switch.modify_port(&request.bridge, &request.name, &change)?))
        };
        Ok(Response::new(v1::ModifyPortResponse { port: Some(self.control.change(asked, call).await?) }))
    }

    async fn watch_ports(
        &self,
        request: Request<v1::WatchPortsRequest>,
    ) -> Result<Response<Self::WatchPortsStream>, Status> {
        let include_existing = request.into_inner().include_existing;
        // Subscribed before the ports are listed: what happens between the two is told twice rather
        // than never.
        let (events, existing) = self
            .control
            .read(move |switch| (switch.subscribe(), if include_existing { switch.bridges() } else { Vec::new() }))
            .await?;
        Ok(Response::new(watch::ports(&existing, events, self.control.stopping.clone())))
    }
}
