//! `WorkerService`.

use super::api::{Asked, Control};
use super::{parse, present};
use tonic::{Request, Response, Status};
use vswitch_proto::v1;

/// See `proto/vswitch/v1/worker.proto`.
pub(crate) struct Workers(pub(crate) Control);

#[tonic::async_trait]
impl v1::worker_service_server::WorkerService for Workers {
    async fn list_workers(
        &self,
        _: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        let workers = self.0.read(|switch| switch.workers()).await?;
        Ok(Response::new(v1::ListWorkersResponse { workers: workers.iter().map(present::worker).collect() }))
    }

    async fn list_rxqs(&self, _: Request<v1::ListRxqsRequest>) -> Result<Response<v1::ListRxqsResponse>, Status> {
        let mut rxqs = self.0.read(|switch| switch.rxqs()).await?;
        rxqs.sort_by(|a, b| (a.core, &a.port, a.queue).cmp(&(b.core, &b.port, b.queue)));
        Ok(Response::new(v1::ListRxqsResponse { rxqs: rxqs.into_iter().map(present::rxq).collect() }))
    }

    async fn pin_rxq(&self, request: Request<v1::PinRxqRequest>) -> Result<Response<v1::PinRxqResponse>, Status> {
        let (_, extensions, v1::PinRxqRequest { port, queue, core }) = request.into_parts();
        let queue = parse::queue(queue)?;
        let to = core.map_or_else(|| "auto".to_owned(), |core| core.to_string());
        let asked = Asked::new("PinRxq", &extensions, &[&port, &queue.to_string(), &to]);
        self.0.change(asked, move |switch| switch.pin_rxq(&port, queue, core)).await?;
        Ok(Response::new(v1::PinRxqResponse {}))
    }

    async fn rebalance(
        &self,
        request: Request<v1::RebalanceRequest>,
    ) -> Result<Response<v1::RebalanceResponse>, Status> {
        let asked = Asked::new("Rebalance", request.extensions(), &[]);
        let moved = self.0.change(asked, |switch| Ok(switch.rebalance())).await?;
        Ok(Response::new(v1::RebalanceResponse { moved: u32::try_from(moved).unwrap_or(u32::MAX) }))
    }

    async fn clear_statistics(
        &self,
        request: Request<v1::ClearStatisticsRequest>,
    ) -> Result<Response<v1::ClearStatisticsResponse>, Status> {
        let asked = Asked::new("ClearStatistics", request.extensions(), &[]);
        self.0
            .change(asked, |switch| {
                switch.clear_worker_stats();
                Ok(())
            })
            .await?;
        Ok(Response::new(v1::ClearStatisticsResponse {}))
    }
}
