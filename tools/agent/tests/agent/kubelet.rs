//! A kubelet, as far as device plug-ins know it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use vswitch_proto::kubelet::v1beta1::device_plugin_client::DevicePluginClient;
use vswitch_proto::kubelet::v1beta1::registration_server::{Registration, RegistrationServer};
use vswitch_proto::kubelet::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateRequest, Empty, ListAndWatchResponse, RegisterRequest,
};

/// Nothing takes so long.
const LONG: Duration = Duration::from_secs(60);

/// A kubelet that runs. It stops with this value, and leaves its sockets, as one that is killed.
pub struct Kubelet {
    directory: PathBuf,
    told: mpsc::UnboundedReceiver<RegisterRequest>,
    server: JoinHandle<()>,
}

struct Registry {
    told: mpsc::UnboundedSender<RegisterRequest>,
    refuses: bool,
}

#[tonic::async_trait]
impl Registration for Registry {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        self.told.send(request.into_inner()).map_err(|_| Status::aborted("it ends"))?;
        if self.refuses { Err(Status::unknown("unsupported version")) } else { Ok(Response::new(Empty {})) }
    }
}

impl Kubelet {
    /// Starts as a kubelet does: what was in the directory goes.
    pub fn start(directory: &Path, refuses: bool) -> Self {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            fs::remove_file(entry.path()).expect("removed");
        }
        let listener = UnixListener::bind(directory.join("kubelet.sock")).expect("bound");
        let (sender, told) = mpsc::unbounded_channel();
        let service = RegistrationServer::new(Registry { told: sender, refuses });
        let server = tokio::spawn(async move {
            let _ = Server::builder().add_service(service).serve_with_incoming(UnixListenerStream::new(listener)).await;
        });
        Self { directory: directory.to_owned(), told, server }
    }

    /// What a plug-in says of itself, the next time that it does.
    pub async fn told(&mut self) -> RegisterRequest {
        timeout(LONG, self.told.recv()).await.expect("in time").expect("it runs")
    }

    /// The plug-in that has registered.
    pub async fn plugin(&self, told: &RegisterRequest) -> Plugin {
        assert!(!told.endpoint.contains('/'), "a name: {told:?}");
        let path = self.directory.join(&told.endpoint);
        let endpoint = Endpoint::from_shared(format!("unix://{}", path.display())).expect("an address");
        Plugin(DevicePluginClient::new(endpoint.connect().await.expect("connected")))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A connection to a plug-in.
pub struct Plugin(pub DevicePluginClient<Channel>);

impl Plugin {
    /// Its devices, now and when they change.
    pub async fn devices(&mut self) -> Devices {
        Devices(self.0.list_and_watch(Empty {}).await.expect("a stream").into_inner())
    }

    /// Devices for one container.
    pub async fn allocate(&mut self, ids: &[&str]) -> Result<AllocateResponse, Status> {
        let devices_i_ds = ids.iter().map(|id| (*id).to_owned()).collect();
        let request = AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_i_ds }] };
        self.0.allocate(request).await.map(Response::into_inner)
    }
}

/// A stream of devices.
pub struct Devices(Streaming<ListAndWatchResponse>);

impl Devices {
    /// The next list: number of devices, and how healthy all are.
    pub async fn next(&mut self) -> (usize, String) {
        let list = timeout(LONG, self.0.next()).await.expect("in time").expect("it goes on").expect("a list").devices;
        let health = list.first().expect("a device").health.clone();
        assert!(list.iter().all(|device| device.health == health && device.id.len() <= 63), "{list:?}");
        (list.len(), health)
    }

    /// Waits until all are so.
    pub async fn become_all(&mut self, health: &str) {
        while self.next().await.1 != health {}
    }
}
