//! Work in the network namespace that an interface is in, which need not be ours: an interface of
//! the host may be moved into a Pod after it was made.

use super::check;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// Whether the descriptor names the namespace of this thread.
pub(super) fn is_ours(netns: &File) -> io::Result<bool> {
    let (theirs, ours) = (netns.metadata()?, std::fs::metadata("/proc/thread-self/ns/net")?);
    Ok((theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()))
}

/// Runs `f` on a short-lived thread inside the namespace. The calling thread never changes its own:
/// it could fail to come back. Sockets that `f` makes stay in that namespace and keep it alive, so
/// they should not live long.
pub(super) fn inside<R: Send>(netns: &File, f: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, || {
            // SAFETY: a live descriptor; only this thread is moved, and it ends with this closure.
            check(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) }.into())?;
            f()
        })?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}
