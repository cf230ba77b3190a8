//! Whether librte_vhost hands messages over as [`super::message`] reads them: tried out before the
//! first port is opened.
//!
//! **Where in the walk**: nowhere; [`super::Vhost::open`] asks.
//!
//! **Design**: `struct vhu_msg_context` is the library's own, so neither its headers nor its
//! version tell where it keeps descriptors. The switch therefore talks to the library once as a
//! front end, over a socket of its own. It sends two messages with known bytes and known
//! descriptors, and compares what the library's callback gets. The first one also shows that the
//! library calls the shim's `recvmsg`: that takes its descriptor away. If anything differs, no
//! vhost-user port is opened. With wrong offsets the switch would close descriptors of others.
//!
//! **Limits**: needs a directory for temporary files (`TMPDIR`, else `/tmp`) to make a socket in.
//! What the library does with a message afterwards is not tried out.
//!
//! **Threads**: the one that opens a port, under its lock; `vhost-events` runs the callback.

use super::callbacks::Table;
use super::message::{self, CONTEXT_LEN, FDS, HEADER, Message, REGIONS_MAX};
use super::send_fds::send_with_fds;
use dpdk_sys as sys;
use parking_lot::Mutex;
use std::collections::hash_map::RandomState;
use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

/// The library answers in microseconds, unless its thread gets no core.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Between two looks whether the library has ended the conversation.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes of the longest payload.
const PAYLOAD: usize = FDS - HEADER;

/// Version 1 of the protocol, in a message's flags.
const VERSION: u32 = 1;

type Context = [u8; CONTEXT_LEN];

/// Why no port can be opened.
#[derive(Debug)]
pub(super) enum LayoutError {
    /// The library is not as the switch expects it.
    Differs(&'static str),
    /// It could not be tried out.
    Io(io::Error),
}

/// Where the callback puts what it got.
static SEEN: Mutex<Option<mpsc::Sender<Context>>> = Mutex::new(None);

static OPS: Table<sys::rte_vhost_user_extern_ops> =
    Table(sys::rte_vhost_user_extern_ops { pre_msg_handle: Some(keep_message), post_msg_handle: None });

unsafe extern "C" fn new_connection(vid: c_int) -> c_int {
    // SAFETY: the device exists; the table is static; the library copies it.
    unsafe { sys::rte_vhost_extern_callback_register(vid, &raw const OPS.0, std::ptr::null_mut()) }
}

unsafe extern "C" fn keep_message(_: c_int, context: *mut c_void) -> sys::rte_vhost_msg_result {
    // SAFETY: the library's message, used by this thread only. If it is shorter than we believe,
    // bytes behind it on this thread's stack are read, and found wrong.
    let bytes = unsafe { context.cast::<Context>().read_unaligned() };
    if let Some(seen) = SEEN.lock().as_ref() {
        let _ = seen.send(bytes); // nobody waits any more
    }
    sys::RTE_VHOST_MSG_RESULT_OK
}

/// Tries the library out, once per process. The caller holds the lock of opening; EAL is up.
pub(super) fn check() -> Result<(), LayoutError> {
    static CHECKED: OnceLock<Result<(), &'static str>> = OnceLock::new();
    if let Some(checked) = CHECKED.get() {
        return checked.map_err(LayoutError::Differs);
    }
    let found = match try_out() {
        Ok(()) => Ok(()),
        Err(LayoutError::Differs(why)) => Err(why),
        Err(error) => return Err(error), // it may be better the next time
    };
    CHECKED.get_or_init(|| found).map_err(LayoutError::Differs)
}

fn try_out() -> Result<(), LayoutError> {
    let directory = Directory::make().map_err(LayoutError::Io)?;
    let path = directory.0.join("s");
    let listener = UnixListener::bind(&path).map_err(LayoutError::Io)?;
    let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|error| LayoutError::Io(error.into()))?;
    let (seen, messages) = mpsc::channel();
    *SEEN.lock() = Some(seen);
    let result = Registered::connect(&c_path).and_then(|registered| {
        listener.set_nonblocking(true).map_err(LayoutError::Io)?;
        let (front_end, _) = listener.accept().map_err(LayoutError::Io)?;
        let result = converse(&front_end, &messages);
        drop(registered); // first: the library would connect again
        result
    });
    *SEEN.lock() = None;
    result
}

/// Sends two messages and compares what comes.
fn converse(mut front_end: &UnixStream, messages: &mpsc::Receiver<Context>) -> Result<(), LayoutError> {
    let files: Vec<_> = (0..REGIONS_MAX).map(|_| memory()).collect::<Result<_, _>>().map_err(LayoutError::Io)?;
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    front_end.set_nonblocking(true).map_err(LayoutError::Io)?;
    let first = header(message::GET_FEATURES, 0);
    send_with_fds(front_end, &first, &fds[..1]).map_err(LayoutError::Io)?;
    check_first(next(front_end, messages)?).map_err(LayoutError::Differs)?;
    let payload: Vec<u8> = (1..=u8::MAX).cycle().take(PAYLOAD).collect();
    // As front ends do: what shim.c looks ahead for comes with a write of its own, or with the
    // header.
    send_with_fds(front_end, &[&header(message::SET_MEM_TABLE, PAYLOAD)[..], &payload].concat(), &fds)
        .map_err(LayoutError::Io)?;
    front_end.flush().map_err(LayoutError::Io)?;
    check_second(next(front_end, messages)?, &payload, &fds).map_err(LayoutError::Differs)
}

fn header(request: u32, size: usize) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    #[allow(clippy::cast_possible_truncation)] // at most PAYLOAD
    for (at, word) in bytes.chunks_exact_mut(4).zip([request, VERSION, size as u32]) {
        at.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The next message that the callback gets.
fn next(front_end: &UnixStream, messages: &mpsc::Receiver<Context>) -> Result<Context, LayoutError> {
    let until = Instant::now() + ANSWER_MAX;
    loop {
        match messages.recv_timeout(LOOK) {
            Ok(bytes) => return Ok(bytes),
            Err(_) if has_ended(front_end) => {
                return Err(LayoutError::Differs("it refuses a message of vhost-user"));
            }
            Err(_) if Instant::now() < until => {}
            Err(_) => return Err(LayoutError::Io(io::ErrorKind::TimedOut.into())),
        }
    }
}

fn has_ended(mut front_end: &UnixStream) -> bool {
    matches!(io::Read::read(&mut front_end, &mut [0; 64]), Ok(0))
}

/// A message that takes no descriptors, and was sent with one.
fn check_first(mut bytes: Context) -> Result<(), &'static str> {
    if bytes[..HEADER] != header(message::GET_FEATURES, 0) {
        return Err("messages have another layout");
    }
    let mut message = Message::new(&mut bytes);
    match message.fd_count() {
        Some(0) => Ok(()),
        Some(_) => {
            message.close_fds();
            Err("it does not call the switch's recvmsg, so it would leak descriptors")
        }
        None => Err("messages have their descriptors elsewhere"),
    }
}

/// The longest message, with as many descriptors as there can be.
fn check_second(mut bytes: Context, payload: &[u8], sent: &[BorrowedFd<'_>]) -> Result<(), &'static str> {
    if bytes[..HEADER] != header(message::SET_MEM_TABLE, PAYLOAD) || bytes[HEADER..FDS] != *payload {
        return Err("messages have another layout");
    }
    let mut message = Message::new(&mut bytes);
    let is_same = message.fd_count() == Some(sent.len())
        && message.fds().iter().zip(sent).all(|(fd, sent)| identity(*fd).is_some_and(|is| Some(is) == identity(*sent)));
    if !is_same {
        return Err("messages have their descriptors elsewhere");
    }
    let is_closed_on_exec = message.fds().iter().all(|fd| {
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) & libc::FD_CLOEXEC != 0 }
    });
    message.close_fds();
    if is_closed_on_exec { Ok(()) } else { Err("it does not call the switch's recvmsg") }
}

/// What file is open.
fn identity(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let metadata = File::from(fd.try_clone_to_owned().ok()?).metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn memory() -> io::Result<File> {
    // SAFETY: NUL-terminated.
    let fd = unsafe { libc::memfd_create(c"vswitch-probe".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, and nobody else's.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// A directory of its own, which goes with what is in it.
struct Directory(PathBuf);

impl Directory {
    fn make() -> io::Result<Self> {
        // A name that others cannot take beforehand.
        let random = RandomState::new().build_hasher().finish();
        let path = std::env::temp_dir().join(format!("vswitch-probe-{random:016x}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The library as a client of a socket.
struct Registered<'a>(&'a CStr);

impl<'a> Registered<'a> {
    fn connect(path: &'a CStr) -> Result<Self, LayoutError> {
        static DEVICE: OnceLock<Table<sys::rte_vhost_device_ops>> = OnceLock::new();
        let device = DEVICE.get_or_init(|| {
            Table(sys::rte_vhost_device_ops { new_connection: Some(new_connection), ..Default::default() })
        });
        let check =
            |rc: c_int| if rc == 0 { Ok(()) } else { Err(LayoutError::Io(io::Error::other("librte_vhost refuses"))) };
        // SAFETY: NUL-terminated, and copied by the library.
        check(unsafe { sys::rte_vhost_driver_register(path.as_ptr(), sys::RTE_VHOST_USER_CLIENT) })?;
        let registered = Self(path);
        // SAFETY: as above; the table is static.
        check(unsafe { sys::rte_vhost_driver_callback_register(path.as_ptr(), &raw const device.0) })?;
        // SAFETY: as above; callbacks may come from here on.
        check(unsafe { sys::rte_vhost_driver_start(path.as_ptr()) })?;
        Ok(registered)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        // SAFETY: NUL-terminated and registered. No worker knows the device.
        unsafe { sys::rte_vhost_driver_unregister(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    fn context(request: u32, payload: &[u8], fds: &[File], shift: usize) -> Context {
        let mut bytes = [0xff; CONTEXT_LEN + 64];
        bytes[..HEADER].copy_from_slice(&header(request, payload.len()));
        bytes[HEADER..HEADER + payload.len()].copy_from_slice(payload);
        let (at, count) = (FDS + shift, u32::try_from(fds.len()).expect("few"));
        for (i, fd) in fds.iter().enumerate() {
            let fd = fd.try_clone().expect("a descriptor").into_raw_fd();
            bytes[at + 4 * i..at + 4 * i + 4].copy_from_slice(&fd.to_ne_bytes());
        }
        bytes[at + 4 * REGIONS_MAX..at + 4 * REGIONS_MAX + 4].copy_from_slice(&count.to_ne_bytes());
        *bytes.first_chunk().expect("longer")
    }

    #[test]
    fn this_library_is_as_the_switch_expects_it() {
        let _eal = crate::eal::start_for_tests();
        let open = || std::fs::read_dir("/proc/self/fd").expect("there").count();
        try_out().expect("the library's threads are started");
        let before = open();
        for _ in 0..3 {
            try_out().expect("the same again");
        }
        assert_eq!(open(), before, "no descriptor is left");
        check().expect("told");
    }

    #[test]
    fn another_layout_is_noticed() {
        let files: Vec<_> = (0..REGIONS_MAX).map(|_| memory().expect("memory")).collect();
        let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let payload = vec![7; PAYLOAD];
        let table = |files: &[File], shift| context(message::SET_MEM_TABLE, &payload, files, shift);
        assert_eq!(check_second(table(&files, 0), &payload, &fds), Ok(()));
        for shift in [4, 8, 16, 32] {
            assert!(check_second(table(&files, shift), &payload, &fds).is_err(), "shifted by {shift}");
            assert!(check_first(context(message::GET_FEATURES, &[], &[], shift)).is_err(), "shifted by {shift}");
        }
        assert!(check_second(table(&files[1..], 0), &payload, &fds).is_err(), "one is missing");
        let turned: Vec<_> = fds.iter().rev().copied().collect();
        assert!(check_second(table(&files, 0), &payload, &turned).is_err(), "they are others");
        assert!(check_second(table(&files, 0), &payload[1..], &fds).is_err(), "other bytes");
        assert!(check_second(context(message::SET_VRING_NUM, &payload, &files, 0), &payload, &fds).is_err());
    }

    #[test]
    fn a_library_with_a_recvmsg_of_its_own_is_noticed() {
        let files = [memory().expect("memory")];
        assert_eq!(check_first(context(message::GET_FEATURES, &[], &[], 0)), Ok(()));
        let kept = check_first(context(message::GET_FEATURES, &[], &files, 0));
        assert!(kept.is_err_and(|why| why.contains("recvmsg")));
        let table = context(message::SET_MEM_TABLE, &[7; PAYLOAD], &files, 0);
        let copies = Message::new(&mut table.clone()).fds().iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>();
        for fd in copies {
            // SAFETY: takes numbers.
            unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
        }
        let kept = check_second(table, &[7; PAYLOAD], &[files[0].as_fd()]);
        assert!(kept.is_err_and(|why| why.contains("recvmsg")));
    }
}
