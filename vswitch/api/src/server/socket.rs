//! Taking the control socket, and giving it back.

use super::tls::TlsError;
use crate::rights::AuditError;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Owner and group may talk to the switch, others may not.
const SOCKET_MODE: u32 = 0o660;

/// Bytes of a unix socket's path: `sun_path` without its final NUL (unix(7)).
const PATH_LEN_MAX: usize = 107;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Times that the lock file may vanish between opening and locking it, because its holder just
/// left.
const LOCK_TRIES: u32 = 16;

/// Why the control socket could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Its directory is missing.
    #[error("control socket {path:?}: directory {directory:?} does not exist; make it with `mkdir -p {directory:?}`")]
    NoDirectory {
        /// The socket.
        path: PathBuf,
        /// Where it was to be.
        directory: PathBuf,
    },
    /// It does not fit into a socket address.
    #[error("control socket {path:?}: the path has {len} bytes; use one of 1 to {PATH_LEN_MAX} bytes")]
    Length {
        /// The socket.
        path: PathBuf,
        /// Its length in bytes.
        len: usize,
    },
    /// Another instance holds its lock file.
    #[error(
        "control socket {path:?}: another vswitchd, process {pid}, has it (it holds {lock:?}); stop that process or \
         configure another [control] socket"
    )]
    Locked {
        /// The socket.
        path: PathBuf,
        /// The lock file.
        lock: PathBuf,
        /// Process id of the holder, or "unknown".
        pid: String,
    },
    /// Something without a lock file listens there.
    #[error(
        "control socket {path:?}: a process is listening there (`ss -xlp src {path:?}` shows which); stop it or configure \
         another [control] socket"
    )]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has that name.
    #[error(
        "control socket {path:?}: there is {kind} of that name, which is not replaced; move it away or configure another [control] socket"
    )]
    NotSocket {
        /// The socket.
        path: PathBuf,
        /// What is there: "a file", "a directory", ...
        kind: &'static str,
    },
    /// It is to belong to an account that the machine does not have, or to know one.
    #[error("control socket {path:?}: there is no {what} {name}; name one that getent(1) knows")]
    NoAccount {
        /// The socket.
        path: PathBuf,
        /// "user" or "group".
        what: &'static str,
        /// As the configuration has it.
        name: String,
    },
    /// TLS cannot be served.
    #[error("[[control.listener]] tls: {0}")]
    Tls(#[from] TlsError),
    /// TCP cannot be had.
    #[error("[[control.listener]] address {address}: cannot listen: {source}")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The audit file cannot be written.
    #[error("[control] {0}")]
    Audit(#[from] AuditError),
    /// The kernel refused.
    #[error("control socket {path:?}: cannot {what}: {source}")]
    Io {
        /// The socket, or its lock file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl BindError {
    /// Whether another configuration is needed. Otherwise the kernel lacks something now, and a
    /// later start may succeed.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        let source = match self {
            Self::Io { source, .. } => source,
            // An address may come later.
            Self::Tcp { source, .. } => return source.kind() == io::ErrorKind::AddrInUse,
            _ => return true,
        };
        let errors = [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::EIO, libc::ENOSPC, libc::ENOBUFS];
        !source.raw_os_error().is_some_and(|error| errors.contains(&error))
    }
}

fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> BindError {
    move |source| BindError::Io { path: path.to_owned(), what, source }
}

/// A control socket, listening. Dropping it removes the socket and its lock file.
#[derive(Debug)]
pub struct ControlListener {
    listener: UnixListener,
    guard: SocketGuard,
}

impl ControlListener {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.guard.path
    }

    /// The listener, and what removes its socket when it is dropped.
    pub(crate) fn into_parts(self) -> (UnixListener, SocketGuard) {
        (self.listener, self.guard)
    }
}

/// Removes the socket when dropped, if it is still the one that was bound, and then the lock file.
#[derive(Debug)]
pub(crate) struct SocketGuard {
    path: PathBuf,
    device_and_inode: (u64, u64),
    _lock: Lock,
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.device_and_inode) {
            let _ = fs::remove_file(&self.path); // nobody is left to be told
        }
    }
}

/// Takes the control socket: a lock file `PATH.lock` keeps other instances out, a socket that
/// nobody listens on is replaced, and nobody but owner and group can connect at any moment.
///
/// # Errors
/// [`BindError`] says who or what is in the way.
pub fn bind(path: &Path) -> Result<ControlListener, BindError> {
    bind_with(path, &Access { mode: SOCKET_MODE, owner: None, group: None })
}

/// Who may connect to a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) mode: u32,
    /// None: those of the process.
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
}

/// [`bind`], for others than owner and group of the process.
pub(super) fn bind_with(path: &Path, access: &Access) -> Result<ControlListener, BindError> {
    let Access { mode, owner, group } = *access;
    let len = path.as_os_str().len();
    if len == 0 || len > PATH_LEN_MAX {
        return Err(BindError::Length { path: path.to_owned(), len });
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return Err(BindError::NoDirectory { path: path.to_owned(), directory: directory.to_owned() });
    }
    let lock = Lock::take(path)?;
    remove_stale(path)?;
    // Until it has its group, the group of the process may not connect either.
    let at_first = if group.is_some() || owner.is_some() { mode & 0o600 } else { mode };
    let listener = listen(path, at_first).map_err(io_error(path, "listen"))?;
    let metadata = fs::symlink_metadata(path).map_err(io_error(path, "look at the new socket"))?;
    let guard = SocketGuard { path: path.to_owned(), device_and_inode: (metadata.dev(), metadata.ino()), _lock: lock };
    if owner.is_some() || group.is_some() {
        lchown(path, owner, group).map_err(io_error(path, "give it to its owner and group"))?;
    }
    // The umask may have taken more than it should.
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io_error(path, "set the mode"))?;
    Ok(ControlListener { listener, guard })
}

/// Binds so that the socket's mode is at most `mode` from the moment it exists. Linux gives the new
/// inode the mode of the socket itself less the umask (`unix_bind_bsd`), so the mode is set on the
/// descriptor first. The umask is not touched: it belongs to the whole process, and other threads
/// make files too.
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let descriptor = File::from(OwnedFd::from(socket.try_clone()?));
    descriptor.set_permissions(Permissions::from_mode(mode))?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    // A name without a listener would stay behind.
    socket.listen(BACKLOG).inspect_err(|_| drop(fs::remove_file(path)))?;
    Ok(OwnedFd::from(socket).into())
}

/// Makes way for a new socket: removes one that nobody listens on, refuses everything else.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path, "look at what is there")(error)),
    };
    if !kind.is_socket() {
        let kind = if kind.is_dir() {
            "a directory"
        } else if kind.is_symlink() {
            "a symbolic link"
        } else {
            "a file"
        };
        return Err(BindError::NotSocket { path: path.to_owned(), kind });
    }
    match knock(path) {
        Ok(()) => Err(BindError::InUse { path: path.to_owned() }),
        Err(error) => match error.kind() {
            // Nobody listens: the process that made it is gone.
            io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(io_error(path, "remove the stale socket"))
            }
            io::ErrorKind::NotFound => Ok(()),
            // A full queue, or a socket of another type: alive in any case.
            io::ErrorKind::WouldBlock => Err(BindError::InUse { path: path.to_owned() }),
            _ if error.raw_os_error() == Some(libc::EPROTOTYPE) => Err(BindError::InUse { path: path.to_owned() }),
            _ => Err(io_error(path, "find out whether it is in use")(error)),
        },
    }
}

/// Connects, without waiting.
fn knock(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

/// An exclusive lock on `PATH.lock`, which holds the process id of its holder. The kernel releases
/// it when the process ends, however it ends; a clean end removes the file too.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // while it is still locked: see `Lock::take`
    }
}

impl Lock {
    fn take(socket: &Path) -> Result<Self, BindError> {
        let path = PathBuf::from(format!("{}.lock", socket.display()));
        for _ in 0..LOCK_TRIES {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)
                .map_err(io_error(&path, "open the lock file"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(BindError::Locked { path: socket.to_owned(), pid: holder(&mut file), lock: path });
                }
                Err(TryLockError::Error(error)) => return Err(io_error(&path, "lock the lock file")(error)),
            }
            // The last holder may have removed the file after it was opened here: then this is a
            // lock on nothing.
            let locked = file.metadata().map_err(io_error(&path, "look at the lock file"))?;
            if fs::symlink_metadata(&path).is_ok_and(|now| (now.dev(), now.ino()) == (locked.dev(), locked.ino())) {
                let text = format!("{}\n", std::process::id());
                file.set_len(0)
                    .and_then(|()| file.write_all(text.as_bytes()))
                    .map_err(io_error(&path, "write the lock file"))?;
                return Ok(Self { path, _file: file });
            }
        }
        Err(BindError::Locked { path: socket.to_owned(), lock: path, pid: "unknown".to_owned() })
    }
}

/// The process id in a lock file.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let pid = file.take(16).read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok());
    pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())
}

#[cfg(test)]
mod tests;
