//! Directories that a container can write to, such as that of a vhost-user socket: make, empty,
//! own, remove.
//!
//! **Design**: a container may have put anything into its directory: symbolic links, deep trees,
//! devices, sockets. It may change all that while the agent works there. So nothing below the root
//! is reached by a path: each step opens one name relative to a file descriptor, and never follows
//! a link. The directory itself lies in directories that only root can write to. No container can
//! put something else in its place.
//!
//! **Emptying** needs no recursion: a directory that is not empty gives its directories to the top,
//! and is removed. So the depth of a tree costs neither stack nor file descriptors.
//!
//! **Limits**: one call removes [`STEPS_MAX`] entries, and fails if more is left. The next call
//! goes on there. The file system is the Node's: a container can fill it.
//!
//! **Threads**: all calls block. They are short, but for an emptying of many entries.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, getegid, geteuid, unlinkat};
use std::ffi::{CStr, CString};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Entries that one call of [`VhostDir::empty`] removes or moves: about a second's work.
pub const STEPS_MAX: usize = 100_000;

/// Where devices' directories for hugepages are, if a file system of hugepages is mounted above.
pub const HUGEPAGES: &str = "/dev/hugepages/vswitch";

/// Entries that are read at once.
const BATCH: usize = 256;

/// Bytes of a name: a UID has 36, an interface 15.
const NAME_MAX: usize = 64;

/// A directory, by nobody's name.
const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A directory that a container can write to.
#[derive(Debug)]
pub struct VhostDir {
    path: PathBuf,
    parent: OwnedFd,
    name: String,
    own: OwnedFd,
}

/// Whether a name may be that of a directory: one segment of a path, not hidden.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= NAME_MAX && !name.starts_with('.') && name.bytes().all(is_plain)
}

impl VhostDir {
    /// The directory `root/NAMES[0]/NAMES[1]...`; it is made, and so is what leads there, if it is
    /// not there. Then it is root's, mode 0700. One that is there stays as it is.
    ///
    /// # Errors
    /// A name is none ([`is_name`]), the root can be written by others than root, something that is
    /// no directory is in the way, or the system refuses.
    pub fn make(root: &Path, names: &[&str]) -> io::Result<Self> {
        checked(names)?;
        DirBuilder::new().recursive(true).mode(0o755).create(root)?;
        let found = Self::walk(root, names, true)?;
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "somebody removes it"))
    }

    /// The directory, if it is there.
    ///
    /// # Errors
    /// As of [`make`](Self::make).
    pub fn open(root: &Path, names: &[&str]) -> io::Result<Option<Self>> {
        Self::walk(root, names, false)
    }

    fn walk(root: &Path, names: &[&str], makes: bool) -> io::Result<Option<Self>> {
        checked(names)?;
        let mut options = File::options();
        let file = match options.read(true).custom_flags(OFlag::O_DIRECTORY.bits()).open(root) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut parent: OwnedFd = file.into();
        let mut path = root.to_owned();
        for (i, name) in names.iter().enumerate() {
            safe(&parent, &path)?;
            path.push(name);
            let is_last = i + 1 == names.len();
            if makes {
                let mode = if is_last { 0o700 } else { 0o755 };
                match mkdirat(&parent, *name, Mode::from_bits_truncate(mode)) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            let own = match openat(&parent, *name, DIRECTORY, Mode::empty()) {
                Ok(own) => own,
                Err(Errno::ENOENT) => return Ok(None),
                Err(Errno::ELOOP | Errno::ENOTDIR) => {
                    return Err(invalid(format!("{} is no directory; remove it", path.display())));
                }
                Err(errno) => return Err(errno.into()),
            };
            if is_last {
                return Ok(Some(Self { path, parent, name: (*name).to_owned(), own }));
            }
            parent = own;
        }
        Ok(None)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory itself, not what is in it, an owner, a group and a mode.
    ///
    /// # Errors
    /// The system refuses.
    pub fn own(&self, user: u32, group: u32, mode: u32) -> io::Result<()> {
        fchown(&self.own, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        Ok(fchmod(&self.own, Mode::from_bits_truncate(mode & 0o7777))?)
    }

    /// Makes the directory the agent's alone, and empty. In this order: the user of before shall
    /// not write to it any more.
    ///
    /// # Errors
    /// As of [`empty`](Self::empty).
    pub fn withdraw(&self) -> io::Result<()> {
        self.own(geteuid().as_raw(), getegid().as_raw(), 0o700)?;
        self.empty()
    }

    /// Whether there is a socket of a name in it. (A link to one is none.)
    #[must_use]
    pub fn has_socket(&self, name: &str) -> bool {
        let found = fstatat(&self.own, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        is_name(name) && found.is_ok_and(|stat| kind(stat.st_mode) == SFlag::S_IFSOCK)
    }

    /// Removes all that is in the directory.
    ///
    /// # Errors
    /// There is more than one call removes, somebody makes more all the time, or the system
    /// refuses.
    pub fn empty(&self) -> io::Result<()> {
        let mut work = Work { steps: 0, lifted: 0 };
        loop {
            let names = list(&self.own)?;
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                self.clear(&name, &mut work)?;
            }
        }
    }

    /// Removes one entry: a directory's directories go to the top.
    fn clear(&self, name: &CStr, work: &mut Work) -> io::Result<()> {
        loop {
            work.step(&self.path)?;
            if is_removed(&self.own, name)? {
                return Ok(());
            }
            let inner = match openat(&self.own, name, DIRECTORY, Mode::empty()) {
                Ok(inner) => inner,
                // Somebody has put something else there meanwhile.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for child in list(&inner)? {
                work.step(&self.path)?;
                if !is_removed(&inner, &child)? {
                    self.lift(&inner, &child, work)?;
                }
            }
        }
    }

    /// Moves a directory to the top, under a name that is free.
    fn lift(&self, from: &OwnedFd, child: &CStr, work: &mut Work) -> io::Result<()> {
        loop {
            work.step(&self.path)?;
            work.lifted += 1;
            match renameat(from, child, &self.own, format!(".{}", work.lifted).as_str()) {
                Ok(()) | Err(Errno::ENOENT) => return Ok(()),
                Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR | Errno::EISDIR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Empties the directory, and removes it.
    ///
    /// # Errors
    /// As of [`empty`](Self::empty), or somebody writes to it.
    pub fn remove(self) -> io::Result<()> {
        self.empty()?;
        match unlinkat(&self.parent, self.name.as_str(), UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What one call has done.
struct Work {
    steps: usize,
    lifted: usize,
}

impl Work {
    fn step(&mut self, path: &Path) -> io::Result<()> {
        self.steps += 1;
        if self.steps <= STEPS_MAX {
            return Ok(());
        }
        Err(io::Error::other(format!("{}: more than {STEPS_MAX} entries; try again", path.display())))
    }
}

/// Refuses what is no name, before anything is made.
fn checked(names: &[&str]) -> io::Result<()> {
    if !names.is_empty() && names.iter().all(|name| is_name(name)) {
        return Ok(());
    }
    Err(invalid(format!("{names:?}: a name has up to {NAME_MAX} letters, digits, `-`, `_` and `.`")))
}

fn invalid(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, words)
}

fn kind(mode: u32) -> SFlag {
    SFlag::from_bits_truncate(mode) & SFlag::S_IFMT
}

/// Whether nobody but root, or whom the agent runs as, can put something into a directory.
fn safe(directory: &OwnedFd, path: &Path) -> io::Result<()> {
    let stat = fstat(directory)?;
    let is_ours = stat.st_uid == 0 || stat.st_uid == geteuid().as_raw();
    if is_ours && stat.st_mode & 0o022 == 0 {
        return Ok(());
    }
    Err(invalid(format!("{}: others than root can write there: chown 0:0, chmod go-w", path.display())))
}

/// Some names of a directory, in any order.
fn list(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    // Opened again: each descriptor of a directory has its own place in it.
    let mut entries = Dir::openat(directory.as_fd(), ".", DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in entries.iter() {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
        if names.len() == BATCH {
            break;
        }
    }
    Ok(names)
}

/// Removes a file, a link, or an empty directory. False: it is a directory that is not empty.
fn is_removed(directory: &OwnedFd, name: &CStr) -> io::Result<bool> {
    match unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(true),
        Err(Errno::EISDIR) => {}
        Err(errno) => return Err(errno.into()),
    }
    match unlinkat(directory, name, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests;
