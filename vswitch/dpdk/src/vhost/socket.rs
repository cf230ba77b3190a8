//! Socket files before they are bound, and the library's connections, which it does not hand out.

use super::VhostError;
use crate::paths::{self, Held};
use std::ffi::{CString, OsStr};
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Bytes of a socket's path, with its NUL (`struct sockaddr_un`).
const PATH_MAX: usize = 108;

#[allow(clippy::cast_possible_truncation)] // constants that fit
const FAMILY: libc::sa_family_t = libc::AF_UNIX as libc::sa_family_t;
#[allow(clippy::cast_possible_truncation)] // constants that fit
const ADDRESS_LEN: libc::socklen_t = size_of::<libc::sockaddr_un>() as libc::socklen_t;
#[allow(clippy::cast_possible_truncation)] // constants that fit
const INT_LEN: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;

/// The path by which librte_vhost is to know a socket, and the open directory of a server's, for
/// which the path is good.
pub(super) fn name_for_library(path: &Path, client: bool) -> Result<(CString, Option<Held>), VhostError> {
    c_path(path, path)?;
    if client {
        return Ok((c_path(path, &paths::to_connect(path))?, None));
    }
    let no_directory = |source| VhostError::Directory { path: path.to_owned(), source };
    let held = paths::to_make(path).map_err(no_directory)?;
    Ok((c_path(path, held.path())?, Some(held)))
}

/// A path as librte_vhost takes it; `shown` is what its owner calls it.
fn c_path(shown: &Path, path: &Path) -> Result<CString, VhostError> {
    let wrong = |problem| VhostError::Path { path: shown.to_owned(), problem };
    let bytes = path.as_os_str().as_bytes();
    match bytes.len() {
        0 => Err(wrong("it is empty")),
        PATH_MAX.. => Err(wrong("it is too long")),
        _ => CString::new(bytes).map_err(|_| wrong("it contains a NUL")),
    }
}

/// Checks what has the name of a client's socket now: nothing yet, or a socket.
pub(super) fn prepare_client(path: &Path) -> Result<(), VhostError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => expect_socket(path, metadata.file_type()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(VhostError::Io { path: path.to_owned(), action: "look at it", source: error })
        }
        Err(_) => Ok(()),
    }
}

/// Makes the name of a server's socket free: a socket on which nobody listens is what a killed
/// predecessor left. Anything else, symbolic links among it, is left alone. `path` is for messages,
/// `name` is the one in the open directory.
pub(super) fn prepare_server(path: &Path, name: &Path) -> Result<(), VhostError> {
    let failed = |action, source| VhostError::Io { path: path.to_owned(), action, source };
    let no_directory = |source| VhostError::Directory { path: path.to_owned(), source };
    // After a bind that failed the library closes its descriptor twice and unlinks what is there:
    // bind must not fail.
    may_write(name.parent().unwrap_or(Path::new("/"))).map_err(no_directory)?;
    match std::fs::symlink_metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("look at it", error)),
        Ok(metadata) => expect_socket(path, metadata.file_type())?,
    }
    let in_use = || VhostError::InUse { path: path.to_owned(), who: "another process that listens on it" };
    match probe(name) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(name).map_err(|error| failed("remove the stale file", error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // EAGAIN: somebody listens, with a full backlog.
        Ok(()) => Err(in_use()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(in_use()),
        Err(error) => Err(failed("see whether somebody listens on it", error)),
    }
}

/// Removes a socket on which nobody listens. Anything else is left alone.
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match probe(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Whether this process may make files in a directory.
fn may_write(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: NUL-terminated.
    let rc = unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn expect_socket(path: &Path, kind: std::fs::FileType) -> Result<(), VhostError> {
    let what = if kind.is_socket() {
        return Ok(());
    } else if kind.is_symlink() {
        "symbolic link"
    } else if kind.is_dir() {
        "directory"
    } else if kind.is_file() {
        "file"
    } else {
        "device or pipe"
    };
    Err(VhostError::NotASocket { path: path.to_owned(), what })
}

/// Tries to connect, without waiting.
fn probe(path: &Path) -> io::Result<()> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fresh and ours.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: plain data.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = FAMILY;
    for (to, from) in address.sun_path[..PATH_MAX - 1].iter_mut().zip(path.as_os_str().as_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    // SAFETY: the address is a sockaddr_un of that size, NUL-terminated.
    let rc = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), ADDRESS_LEN) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Finds the library's newest connection of a socket among this process's descriptors, `known` ones
/// excepted. Its listener or its peer has the path for a name; nothing else in the process that is
/// left open across exec does.
///
/// A peer in a container may have bound the same socket under another directory: then the last
/// component decides.
pub(super) fn find_connection(path: &CString, client: bool, known: &[RawFd]) -> Option<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    let mut similar = None;
    for entry in entries.flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        if known.contains(&fd) || !is_connection(fd) {
            continue;
        }
        let Some(name) = name_of(fd, client) else { continue };
        // A client's path begins with a slash more: `paths::to_connect`.
        if name == path.as_bytes() || client && Some(name.as_slice()) == path.as_bytes().strip_prefix(b"/") {
            return Some(fd);
        }
        if client && file_name(&name) == file_name(path.as_bytes()) {
            similar = Some(fd);
        }
    }
    similar
}

fn file_name(path: &[u8]) -> Option<&OsStr> {
    Path::new(OsStr::from_bytes(path)).file_name()
}

/// A stream socket that does not listen, opened by something that does not care for exec (the
/// library; Rust always does).
fn is_connection(fd: RawFd) -> bool {
    // SAFETY: F_GETFD takes no pointer; a descriptor that was closed meanwhile is an error.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0
        && flags & libc::FD_CLOEXEC == 0
        && option(fd, libc::SO_DOMAIN) == Some(libc::AF_UNIX)
        && option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
        && option(fd, libc::SO_ACCEPTCONN) == Some(0)
}

fn option(fd: RawFd, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = INT_LEN;
    // SAFETY: the value is an int of that length.
    let rc = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len) };
    (rc == 0).then_some(value)
}

/// The name of the socket, or of its peer.
fn name_of(fd: RawFd, peer: bool) -> Option<Vec<u8>> {
    // SAFETY: plain data.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    let mut len = ADDRESS_LEN;
    // SAFETY: the kernel writes at most `len` bytes.
    let rc = unsafe {
        let at = (&raw mut address).cast();
        if peer { libc::getpeername(fd, at, &raw mut len) } else { libc::getsockname(fd, at, &raw mut len) }
    };
    let bytes = (len as usize).checked_sub(offset_of!(libc::sockaddr_un, sun_path)).filter(|n| rc == 0 && *n > 0)?;
    let name: Vec<u8> =
        address.sun_path.iter().take(bytes).map(|c| c.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
    (!name.is_empty()).then_some(name)
}

/// Makes a connection non-blocking: a peer that sends half a message is disconnected, one that
/// reads no replies misses them. Front ends send each message with one call, so that it is there as
/// a whole. And closes it on exec: a child process that kept it would hide from the peer that we
/// closed it.
pub(super) fn adopt(fd: RawFd) {
    // SAFETY: no pointers; on a descriptor that was closed meanwhile it fails.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags >= 0 {
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
    }
}

/// A descriptor of our own for a connection: the library closes its before it says so, and the
/// number may be another's then.
pub(super) fn own(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: takes and gives numbers.
    let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: new, and nobody else's.
    (own >= 0).then(|| unsafe { OwnedFd::from_raw_fd(own) })
}

/// Ends a connection: the library notices as if its peer had.
pub(super) fn hang_up(fd: &OwnedFd) {
    // SAFETY: takes numbers.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Whether the peer of a connection is gone.
pub(super) fn is_hung_up(fd: RawFd) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one pollfd; no waiting.
    let n = unsafe { libc::poll(&raw mut poll, 1, 0) };
    n > 0 && poll.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn error(result: Result<(), VhostError>) -> String {
        result.expect_err("an error").to_string()
    }

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let prepare_server = |path: std::path::PathBuf| {
            let (_, held) = name_for_library(&path, false)?;
            prepare_server(&path, held.expect("of a server").path())
        };
        let at = |name: &str| dir.path().join(name);
        assert!(prepare_server(at("new")).is_ok());

        let listener = UnixListener::bind(at("live")).expect("bind");
        assert!(error(prepare_server(at("live"))).contains("in use"));
        drop(listener);
        assert!(at("live").exists(), "dropping a listener leaves the file: a stale socket");
        std::os::unix::fs::symlink(at("live"), at("link")).expect("symlink");
        assert!(error(prepare_server(at("link"))).contains("symbolic link"));
        assert!(at("link").symlink_metadata().is_ok() && at("live").exists(), "both are left alone");
        assert!(prepare_server(at("live")).is_ok());
        assert!(!at("live").exists(), "the stale socket was removed");

        std::fs::write(at("file"), "precious").expect("write");
        assert!(error(prepare_server(at("file"))).contains("is a file, not a socket"));
        assert_eq!(std::fs::read(at("file")).expect("read"), b"precious");
        std::fs::create_dir(at("dir")).expect("mkdir");
        assert!(error(prepare_server(at("dir"))).contains("directory"));
        assert!(error(prepare_server(at("none/sock"))).contains("mkdir -p"));
        assert!(error(prepare_server(at("file/sock"))).contains("Not a directory") || !at("file/sock").exists());
    }

    #[test]
    fn only_what_is_stale_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let _live = UnixListener::bind(at("live")).expect("bind");
        drop(UnixListener::bind(at("stale")).expect("bind"));
        std::os::unix::fs::symlink(at("stale"), at("link")).expect("symlink");
        std::fs::write(at("file"), "precious").expect("write");
        for (name, stays) in [("live", true), ("link", true), ("file", true), ("stale", false), ("none", false)] {
            remove_stale(&at(name)).expect("allowed");
            assert_eq!(at(name).symlink_metadata().is_ok(), stays, "{name}");
        }
    }

    #[test]
    fn a_client_socket_may_appear_later() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(prepare_client(&dir.path().join("none/sock")).is_ok());
        assert!(error(prepare_client(dir.path())).contains("directory"));
    }

    #[test]
    fn paths_that_the_library_would_cut_are_refused() {
        let name = |path: &str, client| name_for_library(Path::new(path), client);
        let (path, _) = name(&format!("/{}", "x".repeat(105)), true).expect("of 106 bytes");
        assert_eq!(path.as_bytes().len(), 107);
        for bad in [String::new(), format!("/{}", "x".repeat(106)), "/a\0b".to_owned()] {
            assert!(matches!(name(&bad, true), Err(VhostError::Path { .. })), "{bad:?}");
        }
        let long = format!("/tmp/{}", "x".repeat(100));
        assert!(matches!(name(&long, false), Err(VhostError::Path { .. })), "{long:?}");
    }
}
