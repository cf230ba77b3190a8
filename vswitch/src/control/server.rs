//! Stands in for the gRPC server: holds the control socket and answers nobody.

use super::Switch;
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::net::UnixListener;

/// Takes the control socket; one that nobody listens on is replaced.
///
/// # Errors
/// When it is in use, or cannot be made.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Closes every connection until `shutdown` is ready.
///
/// # Errors
/// When the socket fails.
pub async fn serve(
    _switch: Arc<Switch>,
    listener: UnixListener,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            accepted = listener.accept() => drop(accepted?),
            () = &mut shutdown => break,
        }
    }
    let path = listener.local_addr()?.as_pathname().map(Path::to_owned);
    path.map_or(Ok(()), std::fs::remove_file)
}
