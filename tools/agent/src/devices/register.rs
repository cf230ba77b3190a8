//! Makes the plug-in known to the kubelet, and again to each kubelet that starts.
//!
//! A kubelet that starts removes all sockets in its directory, and makes `kubelet.sock` anew. It
//! forgets the plug-ins. So the directory is looked at each period: the plug-in registers when
//! `kubelet.sock` is another one, when its own socket has gone, or when no kubelet watches devices.

use super::RESOURCE;
use super::authority::Connection;
use super::plugin::Plugin;
use crate::last_failure::LastFailure;
use std::error::Error;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Endpoint, Server};
use vswitch_net_types::shown;
use vswitch_proto::kubelet::v1beta1::RegisterRequest;
use vswitch_proto::kubelet::v1beta1::device_plugin_server::DevicePluginServer;
use vswitch_proto::kubelet::v1beta1::registration_client::RegistrationClient;

/// The kubelet's socket.
const KUBELET: &str = "kubelet.sock";

/// The plug-in's socket.
const OWN: &str = "vswitch-vhost.sock";

/// A kubelet answers within this time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A kubelet that is told of the plug-in connects within ten seconds.
const UNWATCHED: Duration = Duration::from_secs(30);

/// Calls of one connection at a time.
const CALLS_MAX: usize = 16;

/// The longest pause between two attempts, in periods.
const PAUSE_MAX: u32 = 30;

/// Which file a name means: device, inode, time of its change.
type Identity = (u64, u64, i64, i64);

/// Serves the plug-in, and registers it, until it is aborted.
pub(super) async fn forever(directory: PathBuf, plugin: Plugin, period: Duration) {
    let mut place = Place { directory, plugin, period, served: None };
    let (mut failures, mut told) = (0, LastFailure::default());
    loop {
        match place.register().await {
            Ok(kubelet) => {
                failures = 0;
                told.is_new("");
                tracing::info!("device plug-in: {RESOURCE} is registered at {}", place.kubelet().display());
                place.hold(kubelet).await;
            }
            Err(reason) => {
                if told.is_new(&reason) {
                    tracing::warn!("device plug-in: {}", shown(&reason));
                }
                failures = (failures + 1).min(PAUSE_MAX);
                place.pause(period * failures).await;
            }
        }
    }
}

/// The plug-in in the kubelet's directory.
struct Place {
    directory: PathBuf,
    plugin: Plugin,
    period: Duration,
    served: Option<Served>,
}

/// A socket that is served as long as this lives.
struct Served {
    identity: Identity,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Place {
    fn kubelet(&self) -> PathBuf {
        self.directory.join(KUBELET)
    }

    fn own(&self) -> PathBuf {
        self.directory.join(OWN)
    }

    /// Whether the socket is served, and in its place.
    fn is_served(&self) -> bool {
        let is_there = |served: &Served| !served.task.is_finished() && identity(&self.own()) == Some(served.identity);
        self.served.as_ref().is_some_and(is_there)
    }

    /// Serves, and tells the kubelet; its socket.
    async fn register(&mut self) -> Result<Identity, String> {
        let path = self.kubelet();
        let Some(kubelet) = identity(&path) else {
            return Err(format!(
                "{}: there is no kubelet; is its directory another one (--device-plugin)?",
                path.display()
            ));
        };
        if !self.is_served() {
            self.serve().await?;
        }
        let wrong = |words: &str| format!("{}: {words}", path.display());
        let told = timeout(TIMEOUT, tell(&path)).await.map_err(|_| wrong("the kubelet does not answer"))?;
        told.map_err(|words| wrong(&words))?;
        Ok(kubelet)
    }

    async fn serve(&mut self) -> Result<(), String> {
        self.served = None;
        let path = self.own();
        let wrong = |error: io::Error| format!("{}: {error}", path.display());
        if matches!(timeout(TIMEOUT, UnixStream::connect(&path)).await, Ok(Ok(_))) {
            return Err(format!("{}: another agent with --device-plugin listens there; end that one", path.display()));
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(wrong)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(wrong)?;
        let identity = identity(&path).ok_or_else(|| format!("{}: somebody removes it", path.display()))?;
        let service = DevicePluginServer::new(self.plugin.clone());
        let server = Server::builder().concurrency_limit_per_connection(CALLS_MAX).add_service(service);
        let task = tokio::spawn(async move {
            let incoming = UnixListenerStream::new(listener).map(|stream| stream.map(Connection::new));
            if let Err(error) = server.serve_with_incoming(incoming).await {
                tracing::error!("device plug-in: the socket is not served any more: {}", shown(&error.to_string()));
            }
        });
        self.served = Some(Served { identity, task });
        Ok(())
    }

    /// Waits until the plug-in has to register again.
    async fn hold(&self, kubelet: Identity) {
        let mut watched = Instant::now();
        loop {
            sleep(self.period).await;
            if self.plugin.watchers() > 0 {
                watched = Instant::now();
            }
            if identity(&self.kubelet()) != Some(kubelet) || !self.is_served() || watched.elapsed() >= UNWATCHED {
                return;
            }
        }
    }

    /// Waits, but for a kubelet that starts.
    async fn pause(&self, most: Duration) {
        let (before, until) = (identity(&self.kubelet()), Instant::now() + most);
        while Instant::now() < until && identity(&self.kubelet()) == before {
            sleep(self.period.min(most)).await;
        }
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

/// Tells a kubelet of the plug-in.
async fn tell(kubelet: &Path) -> Result<(), String> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", kubelet.display())).map_err(|error| innermost(&error))?;
    let channel = endpoint.connect().await.map_err(|error| innermost(&error))?;
    let request = RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint: OWN.to_owned(),
        resource_name: RESOURCE.to_owned(),
        options: Some(Plugin::options()),
    };
    let answer = RegistrationClient::new(channel).register(request).await;
    answer.map(drop).map_err(|status| format!("the kubelet refuses the plug-in: {}", status.message()))
}

fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
