//! Network namespaces of containers.

use super::failure::{Outcome, environment, kernel, unknown};
use nix::sched::{CloneFlags, setns};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use vswitch_net_types::shown;

/// Which namespace it is: device and inode.
pub(super) type NetnsId = (u64, u64);

fn id_of(file: &File) -> io::Result<NetnsId> {
    file.metadata().map(|data| (data.dev(), data.ino()))
}

/// Which namespace is at a path, if there is something.
pub(super) fn id_at(path: &str) -> Option<NetnsId> {
    fs::metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

/// Opens the namespace of a container: it must be one of the network, and not the Node's.
pub(super) async fn open(path: &str) -> Outcome<(File, NetnsId)> {
    let name = shown(path);
    if !Path::new(path).is_absolute() {
        return Err(environment(format!("network namespace {name:?} is no absolute path")));
    }
    // What is no namespace, such as a pipe, is not waited for.
    let flags = nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(unknown(format!("network namespace {name:?} is not there")));
        }
        Err(error) => return Err(kernel(&format!("network namespace {name:?}"), &error)),
    };
    let id = id_of(&file).map_err(|error| kernel("network namespace", &error))?;
    if id_at("/proc/self/ns/net") == Some(id) {
        return Err(environment(format!("network namespace {name:?} is the Node's own")));
    }
    match inside(&file, || Ok(())).await {
        Ok(()) => Ok((file, id)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(environment(format!("{name:?} is no network namespace")))
        }
        Err(error) => Err(kernel(&format!("network namespace {name:?} cannot be entered"), &error)),
    }
}

/// Does something in a namespace, on a thread that ends with it.
pub(super) async fn inside<T: Send + 'static>(
    netns: &File,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (netns, runtime) = (netns.try_clone()?, Handle::current());
    let (done, result) = oneshot::channel();
    let body = move || {
        let entered = setns(&netns, CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
        // Sockets that are opened here belong to the runtime, and to this namespace.
        let _runtime = runtime.enter();
        let _ = done.send(entered.and_then(|()| work()));
    };
    std::thread::Builder::new().name("cni-netns".to_owned()).spawn(body)?;
    result.await.map_err(|_| io::Error::other("the thread ended"))?
}
