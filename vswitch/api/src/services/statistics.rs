//! `StatisticsService`.

use super::api::Control;
use super::{limits, present};
use crate::calls::Calls;
use std::sync::Arc;
use tonic::{Request, Response, Status};
use vswitch_control::log_state::LOG;
use vswitch_control::{PortInfo, SwitchError};
use vswitch_proto::v1;

/// See `proto/vswitch/v1/statistics.proto`.
pub(crate) struct Statistics {
    control: Control,
    calls: Arc<Calls>,
}

impl Statistics {
    pub(crate) fn new(control: Control, calls: Arc<Calls>) -> Self {
        Self { control, calls }
    }
}

/// All ports, or the one with a name.
fn select(bridge: &str, ports: Vec<PortInfo>, name: Option<&str>) -> Result<Vec<PortInfo>, SwitchError> {
    let Some(name) = name else { return Ok(ports) };
    let found = ports.into_iter().find(|port| port.config.name == name);
    found.map(|port| vec![port]).ok_or_else(|| SwitchError::NotFound {
        what: "port",
        name: name.to_owned(),
        hint: format!("`vsctl list-ports {bridge}` lists the ports of bridge {bridge:?}"),
    })
}

#[tonic::async_trait]
impl v1::statistics_service_server::StatisticsService for Statistics {
    async fn get_port_statistics(
        &self,
        request: Request<v1::GetPortStatisticsRequest>,
    ) -> Result<Response<v1::GetPortStatisticsResponse>, Status> {
        let v1::GetPortStatisticsRequest { bridge, port } = request.into_inner();
        let ports =
            self.control.try_read(move |switch| select(&bridge, switch.ports(&bridge)?, port.as_deref())).await?;
        Ok(Response::new(v1::GetPortStatisticsResponse { ports: ports.iter().map(present::port_statistics).collect() }))
    }

    async fn get_mempool(&self, _: Request<v1::GetMempoolRequest>) -> Result<Response<v1::GetMempoolResponse>, Status> {
        let mempool = self.control.read(|switch| switch.mempool()).await?;
        Ok(Response::new(v1::GetMempoolResponse { mempool: Some(present::mempool(mempool)) }))
    }

    async fn get_limits(
        &self,
        request: Request<v1::GetLimitsRequest>,
    ) -> Result<Response<v1::GetLimitsResponse>, Status> {
        let v1::GetLimitsRequest { port } = request.into_inner();
        Ok(Response::new(self.control.try_read(move |switch| limits::limits(switch, port.as_deref())).await?))
    }

    /// Not behind calls of the switch: it may be asked because they wait.
    async fn get_log(&self, _: Request<v1::GetLogRequest>) -> Result<Response<v1::GetLogResponse>, Status> {
        Ok(Response::new(v1::GetLogResponse { log: Some(present::log(&LOG.info())) }))
    }

    /// Likewise.
    async fn get_calls(&self, _: Request<v1::GetCallsRequest>) -> Result<Response<v1::GetCallsResponse>, Status> {
        Ok(Response::new(self.calls.read()))
    }

    /// Likewise.
    async fn get_health(&self, _: Request<v1::GetHealthRequest>) -> Result<Response<v1::GetHealthResponse>, Status> {
        Ok(Response::new(present::health(self.control.health().await?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_testkit::double;

    #[test]
    fn one_port_or_all_or_an_error_that_helps() {
        let ports = || vec![double::port("br0", "p0", 1), double::port("br0", "p1", 2)];
        assert_eq!(select("br0", ports(), None).expect("all").len(), 2);
        let one = select("br0", ports(), Some("p1")).expect("p1");
        assert_eq!(one.iter().map(|port| port.number).collect::<Vec<_>>(), [2]);
        let error = select("br0", ports(), Some("p2")).expect_err("p2 does not exist").to_string();
        assert_eq!(error, "port \"p2\" does not exist; `vsctl list-ports br0` lists the ports of bridge \"br0\"");
    }
}
