//! `NodeService`.

use super::AntreaServices;
use crate::services::api::Asked;
use crate::services::status::invalid;
use tonic::{Request, Response, Status};
use vswitch_dataplane::port::FieldError;
use vswitch_proto::antrea::v1;

#[tonic::async_trait]
impl v1::node_service_server::NodeService for AntreaServices {
    async fn initialize(
        &self,
        request: Request<v1::InitializeRequest>,
    ) -> Result<Response<v1::InitializeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let Some(node) = request.node else {
            return Err(invalid(&[FieldError::new("node", "it is not given", "say what the Node is")]));
        };
        let asked = Asked::new("Initialize", &extensions, &[&node.name, &node.bridge]);
        let done = self.change(asked, move |antrea| antrea.initialize(&node, request.round)).await?;
        Ok(Response::new(v1::InitializeResponse {
            tables: done.tables,
            unchanged: done.unchanged,
            degraded: done.degraded,
        }))
    }

    async fn get_node(&self, _: Request<v1::GetNodeRequest>) -> Result<Response<v1::GetNodeResponse>, Status> {
        Ok(Response::new(self.read(|antrea| antrea.node()).await?))
    }

    async fn reset(&self, request: Request<v1::ResetRequest>) -> Result<Response<v1::ResetResponse>, Status> {
        let (_, extensions, v1::ResetRequest { round }) = request.into_parts();
        let asked = Asked::new("Reset", &extensions, &[]);
        self.change(asked, move |antrea| antrea.reset(round)).await?;
        Ok(Response::new(v1::ResetResponse {}))
    }

    async fn get_host_plan(
        &self,
        request: Request<v1::GetHostPlanRequest>,
    ) -> Result<Response<v1::GetHostPlanResponse>, Status> {
        let v1::GetHostPlanRequest { generation } = request.into_inner();
        let plan = self.read(move |antrea| antrea.host_plan(generation)).await?;
        Ok(Response::new(v1::GetHostPlanResponse { plan }))
    }

    async fn report_host(
        &self,
        request: Request<v1::ReportHostRequest>,
    ) -> Result<Response<v1::ReportHostResponse>, Status> {
        let report = request.into_inner();
        self.read(move |antrea| antrea.report_host(report)).await?;
        Ok(Response::new(v1::ReportHostResponse {}))
    }
}
