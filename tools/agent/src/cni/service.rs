//! The calls of the plug-in. A call that has begun is finished, even if its caller has gone.

use super::failure::{Outcome as Done, limited, unavailable};
use super::shared::Shared;
use super::{add, check, remove};
use std::future::Future;
use std::sync::Arc;
use tonic::{Request, Response, Status};
use vswitch_proto::agent::v1::cni_service_server::CniService;
use vswitch_proto::agent::v1::{
    AddRequest, AddResponse, CheckRequest, CheckResponse, DelRequest, DelResponse, GcRequest, GcResponse,
    GetConfigRequest, GetConfigResponse, StatusRequest, StatusResponse,
};

/// The service.
#[derive(Debug)]
pub(super) struct Service(pub(super) Arc<Shared>);

impl Service {
    async fn finish<T, F>(&self, work: impl FnOnce(Arc<Shared>) -> F) -> Result<Done<T>, Status>
    where
        T: Send + 'static,
        F: Future<Output = Done<T>> + Send + 'static,
    {
        let done = tokio::spawn(work(Arc::clone(&self.0))).await;
        done.map_err(|_| Status::internal("a fault of the agent; its log says more"))
    }
}

#[tonic::async_trait]
impl CniService for Service {
    async fn get_config(&self, request: Request<GetConfigRequest>) -> Result<Response<GetConfigResponse>, Status> {
        let request = request.into_inner();
        let done = self.finish(|shared| async move { add::config_of(&shared, request).await }).await?;
        let failed = |failure| GetConfigResponse { failure: Some(failure), ..GetConfigResponse::default() };
        Ok(Response::new(done.unwrap_or_else(failed)))
    }

    async fn add(&self, request: Request<AddRequest>) -> Result<Response<AddResponse>, Status> {
        let request = request.into_inner();
        let done = self.finish(|shared| async move { add::add(&shared, request).await }).await?;
        Ok(Response::new(match done {
            Ok(attached) => AddResponse { failure: None, attached: Some(attached) },
            Err(failure) => AddResponse { failure: Some(failure), attached: None },
        }))
    }

    async fn del(&self, request: Request<DelRequest>) -> Result<Response<DelResponse>, Status> {
        let attachment = request.into_inner().attachment;
        let done = self.finish(|shared| async move { remove::del(&shared, attachment).await }).await?;
        Ok(Response::new(DelResponse { failure: done.err() }))
    }

    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        let request = request.into_inner();
        let done = self.finish(|shared| async move { check::check(&shared, request).await }).await?;
        Ok(Response::new(CheckResponse { failure: done.err() }))
    }

    async fn gc(&self, request: Request<GcRequest>) -> Result<Response<GcResponse>, Status> {
        let request = request.into_inner();
        let done = self.finish(|shared| async move { remove::gc(&shared, request).await }).await?;
        Ok(Response::new(match done {
            Ok(removed) => GcResponse { failure: None, removed },
            Err(failure) => GcResponse { failure: Some(failure), removed: 0 },
        }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let failure = match self.0.node() {
            None => Some(unavailable("the agent has no NodeConfig of this Node yet")),
            Some(node) => {
                let asked = self.0.ports.list(&node.bridge).await;
                asked.err().map(|error| limited(format!("the switch does not answer: {}", error.words())))
            }
        };
        Ok(Response::new(StatusResponse { failure }))
    }
}
