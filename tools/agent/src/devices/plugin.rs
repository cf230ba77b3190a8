//! `v1beta1.DevicePlugin`.

use super::allocate::Allocator;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use vswitch_net_types::shown;
use vswitch_proto::kubelet::v1beta1::device_plugin_server::DevicePlugin;
use vswitch_proto::kubelet::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, Device, DevicePluginOptions, Empty,
    ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse,
};

/// Who may watch at a time: one kubelet, and its successor.
const WATCHERS_MAX: usize = 8;

/// The service, for all connections of a kubelet.
#[derive(Clone, Debug)]
pub(super) struct Plugin {
    allocator: Arc<Allocator>,
    healthy: watch::Receiver<bool>,
    /// Streams of devices that are open.
    watchers: watch::Sender<usize>,
}

impl Plugin {
    pub(super) fn new(allocator: Allocator, healthy: watch::Receiver<bool>) -> Self {
        Self { allocator: Arc::new(allocator), healthy, watchers: watch::Sender::new(0) }
    }

    /// The number of streams of devices that are open.
    pub(super) fn watchers(&self) -> usize {
        *self.watchers.borrow()
    }

    /// What a kubelet is to know.
    pub(super) fn options() -> DevicePluginOptions {
        DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true }
    }
}

/// Counts as long as it lives.
struct Watcher(watch::Sender<usize>);

impl Watcher {
    fn new(watchers: &watch::Sender<usize>) -> Option<Self> {
        let has_room = |count: &mut usize| {
            let is_counted = *count < WATCHERS_MAX;
            *count += usize::from(is_counted);
            is_counted
        };
        watchers.send_if_modified(has_room).then(|| Self(watchers.clone()))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    type ListAndWatchStream = ReceiverStream<Result<ListAndWatchResponse, Status>>;

    async fn get_device_plugin_options(&self, _: Request<Empty>) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(Self::options()))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let Some(watcher) = Watcher::new(&self.watchers) else {
            return Err(Status::resource_exhausted(format!("{WATCHERS_MAX} watch already")));
        };
        let (sender, receiver) = mpsc::channel(1);
        let (allocator, mut healthy) = (Arc::clone(&self.allocator), self.healthy.clone());
        tokio::spawn(async move {
            let _watcher = watcher;
            loop {
                let health = if *healthy.borrow_and_update() { "Healthy" } else { "Unhealthy" }.to_owned();
                let devices = allocator.ids().map(|id| Device { id, health: health.clone() }).collect();
                if sender.send(Ok(ListAndWatchResponse { devices })).await.is_err() {
                    return;
                }
                tokio::select! {
                    changed = healthy.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let requests = request.into_inner().container_requests;
        let preferred = requests.iter().map(|one| {
            let device_i_ds = self.allocator.preferred(one)?;
            Ok(ContainerPreferredAllocationResponse { device_i_ds })
        });
        let container_responses = preferred.collect::<Result<_, Status>>()?;
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let requests = request.into_inner().container_requests;
        let allocated = async {
            self.allocator.check(requests.iter().map(|one| &one.devices_i_ds))?;
            let mut container_responses = Vec::new();
            for one in &requests {
                container_responses.push(self.allocator.allocate(&one.devices_i_ds).await?);
            }
            Ok(Response::new(AllocateResponse { container_responses }))
        };
        let allocated: Result<_, Status> = allocated.await;
        allocated.inspect_err(|status| tracing::error!("device plug-in: Allocate: {}", shown(status.message())))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
