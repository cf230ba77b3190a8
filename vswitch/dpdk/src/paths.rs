//! Sockets and files that are opened without following links.
//!
//! **Where in the walk**: nowhere; the control side opens devices by it.
//!
//! **Design**: whoever may write to a directory can put a link there. So no component of a path may
//! be a link. What the process makes or reads itself is opened here, and drivers are handed
//! `/proc/self/fd/N`: they open the same file again. What drivers connect to has a path that begins
//! with two slashes: the `connect` of dpdk-sys (`paths.c`) follows no link there, each time.
//!
//! **Limits**: a directory whose name another process may change is opened once, here; a file in it
//! may be removed by its owner at any time.

use dpdk_sys as sys;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Rights of a capture that the switch makes.
const CAPTURE_MODE: u32 = 0o640;

/// First bytes of captures (pcap-savefile(5), both byte orders, microseconds and nanoseconds;
/// pcapng).
const CAPTURES: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// Something open under a name that leads to it, whatever happens to its path.
#[derive(Debug)]
pub struct Held {
    /// What keeps the name good.
    _fd: OwnedFd,
    /// A path below `/proc/self/fd`.
    path: PathBuf,
}

impl Held {
    /// The name, for as long as this lives.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn of(fd: OwnedFd, leaf: Option<&OsStr>) -> Self {
        let mut path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        path.extend(leaf);
        Self { _fd: fd, path }
    }
}

/// A name in a directory in which a socket is to be made. The directory must be there.
///
/// # Errors
/// When the path is not absolute, ends in no name, or its directory cannot be opened; a link is no
/// directory.
pub fn to_make(path: &Path) -> io::Result<Held> {
    let (Some(directory), Some(leaf)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it ends in no name"));
    };
    let fd = open(directory, libc::O_PATH | libc::O_DIRECTORY, 0)?;
    Ok(Held::of(fd, Some(leaf)))
}

/// The path by which a driver connects to a socket without following links.
#[must_use]
pub fn to_connect(path: &Path) -> PathBuf {
    let mut marked = OsStr::new("/").to_owned();
    marked.push(path);
    marked.into()
}

/// A capture to read.
///
/// # Errors
/// When there is no such regular file, or it is no capture.
pub fn to_read(path: &Path) -> io::Result<Held> {
    // Opening a FIFO would wait for its writer.
    let mut file = File::from(open(path, libc::O_RDONLY | libc::O_NONBLOCK, 0)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if !is_capture(&mut file)? {
        return Err(io::Error::other("it is no capture"));
    }
    Ok(Held::of(file.into(), None))
}

/// A capture to write: a new file, or one that the switch wrote before and writes again.
///
/// # Errors
/// When the file cannot be made, or there is one that is not the switch's own capture. That one is
/// left as it is.
pub fn to_write(path: &Path) -> io::Result<Held> {
    let new = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    match open(path, new, CAPTURE_MODE) {
        Ok(fd) => return Ok(Held::of(fd, None)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let mut file = File::from(open(path, libc::O_RDWR | libc::O_NONBLOCK, 0)?);
    let found = file.metadata()?;
    // SAFETY: takes nothing.
    let own = found.uid() == unsafe { libc::geteuid() };
    if !found.is_file() || found.nlink() != 1 || !own || !(found.len() == 0 || is_capture(&mut file)?) {
        return Err(io::Error::other("it is there, and no capture that the switch wrote"));
    }
    Ok(Held::of(file.into(), None))
}

fn is_capture(file: &mut File) -> io::Result<bool> {
    let mut first = [0; 4];
    match file.read_exact(&mut first) {
        Ok(()) => Ok(CAPTURES.contains(&first)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn open(path: &Path, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: NUL-terminated; the result is a descriptor of ours or negative.
    let fd = unsafe { sys::vs_open_no_links(path.as_ptr(), flags, mode) };
    // SAFETY: fresh, and nobody else's.
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::{UnixListener, UnixStream};

    const PCAP: &[u8] = &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];

    /// A directory whose own path has no links.
    fn directory() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = fs::canonicalize(directory.path()).expect("it is there");
        (directory, path)
    }

    #[test]
    fn no_component_may_be_a_link() {
        let (_keep, at) = directory();
        fs::create_dir(at.join("real")).expect("made");
        fs::write(at.join("real/a.pcap"), PCAP).expect("written");
        symlink(at.join("real"), at.join("link")).expect("linked");
        symlink(at.join("real/a.pcap"), at.join("real/l.pcap")).expect("linked");
        assert!(to_read(&at.join("real/a.pcap")).is_ok());
        for wrong in ["link/a.pcap", "real/l.pcap", "real/../real/a.pcap", "real/..", "real/a.pcap/b", "none/a.pcap"] {
            assert!(to_read(&at.join(wrong)).is_err(), "{wrong}");
            assert!(to_write(&at.join(wrong)).is_err(), "{wrong}");
        }
        assert!(to_make(&at.join("link/sock")).is_err() && to_make(&at.join("real/sock")).is_ok());
        assert!(to_read(Path::new("real/a.pcap")).is_err(), "relative");
        assert!(to_make(Path::new("/")).is_err());
        assert_eq!(fs::read(at.join("real/a.pcap")).expect("there"), PCAP);
    }

    #[test]
    fn only_own_captures_are_written_again() {
        let (_keep, at) = directory();
        let made = to_write(&at.join("new.pcap")).expect("made");
        fs::write(made.path(), PCAP).expect("its name leads to it");
        assert_eq!(fs::read(at.join("new.pcap")).expect("there"), PCAP);
        assert!(to_write(&at.join("new.pcap")).is_ok(), "written again");
        fs::write(at.join("precious"), "precious").expect("written");
        assert!(to_write(&at.join("precious")).is_err());
        fs::hard_link(at.join("new.pcap"), at.join("second")).expect("linked");
        assert!(to_write(&at.join("second")).is_err(), "it has another name, too");
        assert!(to_write(&at).is_err(), "a directory");
        assert!(to_read(&at).is_err() && to_read(&at.join("precious")).is_err());
        assert_eq!(fs::read(at.join("precious")).expect("there"), b"precious");
    }

    /// Connects as drivers do: by the path.
    fn reaches(path: &Path) -> io::Result<()> {
        UnixStream::connect(to_connect(path)).map(drop)
    }

    #[test]
    fn connections_follow_no_links_and_reach_sockets_only() {
        let (_keep, at) = directory();
        fs::create_dir(at.join("b")).expect("made");
        let _listener = UnixListener::bind(at.join("b/sock")).expect("bound");
        symlink(at.join("b/sock"), at.join("sock")).expect("linked");
        symlink(at.join("b"), at.join("a")).expect("linked");
        fs::write(at.join("file"), "").expect("written");
        assert!(reaches(&at.join("b/sock")).is_ok());
        assert!(UnixStream::connect(at.join("sock")).is_ok(), "others' connections are as ever");
        for (wrong, why) in
            [("sock", libc::ENOTSOCK), ("a/sock", libc::ENOTDIR), ("file", libc::ENOTSOCK), ("none", libc::ENOENT)]
        {
            let said = reaches(&at.join(wrong)).expect_err(wrong).raw_os_error();
            assert_eq!(said, Some(why), "{wrong}");
        }
    }
}
