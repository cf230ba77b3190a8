//! The plug-in's socket. Only root may connect.

use super::service::Service;
use super::shared::Shared;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use vswitch_net_types::shown;
use vswitch_proto::agent::v1::cni_service_server::CniServiceServer;

/// Calls of one connection at a time. (The plug-in makes one after the other.)
const CALLS_MAX: usize = 8;

/// Listens; takes the place of an agent that has ended.
pub(super) async fn listen(path: &Path) -> Result<UnixListener, String> {
    let wrong = |error: io::Error| format!("{}: {error}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(wrong)?;
    }
    if UnixStream::connect(path).await.is_ok() {
        return Err(format!("{}: another agent with --cni listens there; end that one first", path.display()));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(wrong)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(wrong)?;
    Ok(listener)
}

/// Serves until the agent ends.
pub(super) async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    let incoming = UnixListenerStream::new(listener).filter(|connection| match connection {
        Ok(stream) => is_root(stream),
        Err(_) => false, // the caller has gone before it was accepted
    });
    let server = tonic::transport::Server::builder().concurrency_limit_per_connection(CALLS_MAX);
    let mut server = server;
    let served = server.add_service(CniServiceServer::new(Service(shared))).serve_with_incoming(incoming).await;
    if let Err(error) = served {
        tracing::error!("cni: the socket is not served any more: {}", shown(&error.to_string()));
    }
}

/// Whether the other end is root's.
fn is_root(stream: &UnixStream) -> bool {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 => true,
        Ok(peer) => {
            tracing::warn!("cni: user {} may not ask: only root may", peer.uid());
            false
        }
        Err(_) => false,
    }
}
