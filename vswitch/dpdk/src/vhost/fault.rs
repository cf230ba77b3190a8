//! Guests that take their memory away.
//!
//! A guest's memory is its file, which the library maps. The guest may shrink it at any time;
//! whoever touches a page that is gone gets SIGBUS, which would be the end of the switch and of
//! everybody's traffic. Instead the handler puts empty pages in place of the whole mapping, and
//! whoever was in it goes on, in rings full of zeros; the guest is disconnected as soon as the
//! control side hears of it ([`dismiss`]).
//!
//! **Only guests' memory**: [`Files`] says which files are guests', from before the library maps
//! them until they are disconnected. Any other SIGBUS is handled as if this module did not exist.
//!
//! **In the handler** nothing is allocated, and no descriptor is opened: a process that has used up
//! its descriptors survives, too. The handler reads `/proc/self/maps` piece by piece, which takes
//! less than a millisecond, once per mapping that is lost. Threads that lose one at the same time
//! read one after the other.
//!
//! **Not here**: memory that fails (`BUS_MCEERR_AR`), peers of other devices with shared memory
//! (memif).

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Files of all guests together: 1,024 devices of 8 regions, twice, since a guest that connects
/// again may have both. A message with more is refused.
const FILES_MAX: usize = 16_384;

static FILES: [AtomicU64; FILES_MAX] = [const { AtomicU64::new(0) }; FILES_MAX];
static LOST: [AtomicBool; FILES_MAX] = [const { AtomicBool::new(false) }; FILES_MAX];
/// Any of them.
static ANY_LOST: AtomicBool = AtomicBool::new(false);

/// What SIGBUS did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// `/proc/self/maps`, opened before the first guest comes.
static MAPS: OnceLock<File> = OnceLock::new();

/// A thread reads [`MAPS`].
static READING: AtomicBool = AtomicBool::new(false);

/// Device and inode of a file, as one number that is not 0.
fn id(major: u64, minor: u64, inode: u64) -> u64 {
    (major << 52 ^ minor << 40 ^ inode).max(1)
}

/// The memory files of one connection, known to the handler until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Files(Vec<usize>);

impl Files {
    /// These files. What is no file is left out: its mapping is refused. None: there is no room.
    pub(super) fn of(fds: &[BorrowedFd<'_>]) -> Option<Self> {
        let mut files = Self::default();
        for id in fds.iter().filter_map(|fd| file_id(*fd)) {
            files.0.push(enter(id)?);
        }
        Some(files)
    }

    /// One of them was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.0.iter().any(|slot| LOST[*slot].load(Acquire))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for slot in self.0.drain(..) {
            LOST[slot].store(false, Relaxed);
            FILES[slot].store(0, Release);
        }
    }
}

fn file_id(fd: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: plain data.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: one stat is written.
    let rc = unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) };
    (rc == 0).then(|| id(libc::major(stat.st_dev).into(), libc::minor(stat.st_dev).into(), stat.st_ino))
}

fn enter(id: u64) -> Option<usize> {
    let take = |file: &AtomicU64| file.load(Relaxed) == 0 && file.compare_exchange(0, id, AcqRel, Relaxed).is_ok();
    FILES.iter().position(take)
}

/// Whether memory of any guest was lost since the last call.
pub(super) fn take_lost() -> bool {
    ANY_LOST.load(Relaxed) && ANY_LOST.swap(false, AcqRel)
}

/// Makes losing a guest's memory survivable. Does so once.
///
/// # Errors
/// The kernel does not tell this process's mappings: no guest may come.
pub(super) fn install() -> std::io::Result<()> {
    if MAPS.get().is_none() {
        let _ = MAPS.set(File::open("/proc/self/maps")?); // another thread may have set it
    }
    BEFORE.get_or_init(|| {
        // SAFETY: plain data.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: the handler is a function of the kind that SA_SIGINFO asks for, and does nothing
        // that a handler may not.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
        before
    });
    Ok(())
}

extern "C" fn on_sigbus(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    // SAFETY: the kernel passes what SA_SIGINFO asks for; SIGBUS has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code != libc::BUS_ADRERR || !replace(address) {
        // The instruction is executed again, and the signal comes again.
        let before = BEFORE.get().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the action that was there before, or none.
        unsafe { libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()) };
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Puts empty pages in place of the guest's mapping that the address is in; false if it is in none.
fn replace(address: usize) -> bool {
    let Some(mapping) = mapping_of(address) else { return false };
    if !mapping.shared && mapping.inode == 0 {
        return true; // another thread was here first
    }
    let id = id(mapping.major, mapping.minor, mapping.inode);
    let mut known = false;
    for (file, lost) in FILES.iter().zip(&LOST) {
        if file.load(Acquire) == id {
            lost.store(true, Release);
            known = true;
        }
    }
    if !known || !mapping.shared {
        return false;
    }
    ANY_LOST.store(true, Release);
    let (at, len) = (mapping.start as *mut c_void, mapping.end - mapping.start);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: it replaces a whole mapping of a guest's file by one of the same length. Whoever
    // reads and writes there trusts nothing that it reads: the library, our rings, and copies of
    // what is borrowed.
    unsafe { libc::mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) != libc::MAP_FAILED }
}

/// The mapping that an address is in, as the kernel tells now.
fn mapping_of(address: usize) -> Option<Mapping> {
    let fd = MAPS.get()?.as_raw_fd();
    // The kernel keeps a place per open file: two that read would each lose theirs.
    while READING.swap(true, Acquire) {
        // SAFETY: takes nothing and gives nothing.
        unsafe { libc::sched_yield() };
    }
    let found = find(fd, address);
    READING.store(false, Release);
    found
}

/// The same, of this open `/proc/self/maps`.
fn find(fd: RawFd, address: usize) -> Option<Mapping> {
    let (mut lines, mut at, mut chunk) = (Lines::default(), 0, [0_u8; 1024]);
    loop {
        // SAFETY: at most as many bytes as there is room for are written.
        let n = unsafe { libc::pread(fd, chunk.as_mut_ptr().cast(), chunk.len(), at) };
        let read = usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| chunk.get(..n))?;
        at += n as libc::off_t;
        let found = read.iter().find_map(|byte| lines.feed(*byte).filter(|mapping| mapping.contains(address)));
        if found.is_some() {
            return found;
        }
    }
}

/// A line of `/proc/self/maps` (proc_pid_maps(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    shared: bool,
    major: u64,
    minor: u64,
    inode: u64,
}

impl Mapping {
    const fn contains(&self, address: usize) -> bool {
        self.start <= address && address < self.end
    }
}

/// Reads lines byte by byte: `start-end rwxs offset major:minor inode path`, numbers in hexadecimal
/// but for the inode.
#[derive(Debug, Default)]
struct Lines {
    line: Mapping,
    /// Field of the line; from [`PATH`] on there is nothing to read.
    field: usize,
    number: u64,
}

/// Fields in front of the path: start, end, rights, offset, major, minor, inode.
const PATH: usize = 7;

impl Lines {
    #[allow(clippy::cast_possible_truncation)] // addresses of this process
    fn feed(&mut self, byte: u8) -> Option<Mapping> {
        match (self.field, byte) {
            (_, b'\n') => {
                self.end_field();
                return Some(std::mem::take(self).line);
            }
            (0, b'-') | (4, b':') | (1..=3 | 5..=6, b' ') => self.end_field(),
            (2, byte) => self.line.shared |= byte == b's',
            (6, digit) => self.number = self.number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))),
            (..PATH, digit) => {
                let digit = char::from(digit).to_digit(16).unwrap_or_default();
                self.number = self.number << 4 | u64::from(digit);
            }
            _ => {}
        }
        None
    }

    #[allow(clippy::cast_possible_truncation)] // as above
    fn end_field(&mut self) {
        let number = std::mem::take(&mut self.number);
        match self.field {
            0 => self.line.start = number as usize,
            1 => self.line.end = number as usize,
            4 => self.line.major = number,
            5 => self.line.minor = number,
            6 => self.line.inode = number,
            _ => {}
        }
        self.field += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::linux::fs::MetadataExt;

    /// 64 KiB of a file in tmpfs, and where they are mapped.
    fn mapped() -> (File, *mut c_void) {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in tmpfs");
        file.set_len(1 << 16).expect("sizes");
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 1 << 16, rights, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED);
        (file, at)
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let text = "5581b0a3c000-5581b0a3e000 r--p 00000000 fe:00 1318017                    /usr/bin/cat\n\
                    7f0000000000-7f0000400000 rw-s 00001000 00:01 2051                       /memfd:mem (deleted)\n\
                    7ffd1c5e4000-7ffd1c605000 rw-p 00000000 00:00 0 \n";
        let mut lines = Lines::default();
        let read: Vec<Mapping> = text.bytes().filter_map(|byte| lines.feed(byte)).collect();
        let mapping = |start, end, shared, major, minor, inode| Mapping { start, end, shared, major, minor, inode };
        assert_eq!(
            read,
            [
                mapping(0x5581_b0a3_c000, 0x5581_b0a3_e000, false, 0xfe, 0, 1_318_017),
                mapping(0x7f00_0000_0000, 0x7f00_0040_0000, true, 0, 1, 2051),
                mapping(0x7ffd_1c5e_4000, 0x7ffd_1c60_5000, false, 0, 0, 0),
            ]
        );
    }

    #[test]
    fn the_mapping_of_a_file_is_found_under_the_id_that_its_descriptor_has() {
        install().expect("maps");
        let (file, at) = mapped();
        let found = mapping_of(at as usize + 4097).expect("it is mapped");
        assert_eq!((found.start, found.shared), (at as usize, true), "{found:?}");
        assert_eq!(found.inode, file.metadata().expect("a file").st_ino());
        assert_eq!(Some(id(found.major, found.minor, found.inode)), file_id(file.as_fd()));
        let local = 0;
        let stack = mapping_of(&raw const local as usize).expect("the stack is mapped");
        assert_eq!((stack.shared, stack.inode), (false, 0), "{stack:?}");
        // SAFETY: mapped above.
        unsafe { libc::munmap(at, 1 << 16) };
        assert_eq!(mapping_of(at as usize), None);
    }

    #[test]
    fn a_guests_memory_that_is_gone_reads_as_zeros_and_is_told() {
        install().expect("maps");
        let (file, at) = mapped();
        let files = Files::of(&[file.as_fd()]).expect("room");
        let byte = at.cast::<u8>().wrapping_add(5000);
        // SAFETY: inside the mapping.
        unsafe { byte.write_volatile(7) };
        file.set_len(0).expect("shrinks");
        assert!(!files.is_lost());
        // SAFETY: inside the mapping: the handler replaces it.
        assert_eq!(unsafe { byte.read_volatile() }, 0);
        assert!(files.is_lost() && take_lost() && !take_lost());
        // SAFETY: mapped above.
        unsafe { libc::munmap(at, 1 << 16) };
        let slots = files.0.clone();
        drop(files);
        assert!(slots.iter().all(|slot| FILES[*slot].load(Relaxed) == 0 && !LOST[*slot].load(Relaxed)));
    }

    #[test]
    fn memory_that_is_gone_is_survived_without_a_free_descriptor_and_by_several_threads() {
        install().expect("maps");
        let files: Vec<(File, *mut c_void)> = (0..8).map(|_| mapped()).collect();
        let known: Vec<Files> = files.iter().map(|(file, _)| Files::of(&[file.as_fd()]).expect("room")).collect();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: one limit is written.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
        let none = libc::rlimit { rlim_cur: 0, ..limit };
        // SAFETY: one limit is read.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
        assert!(File::open("/proc/self/maps").is_err(), "there is no free descriptor");
        files.iter().for_each(|(file, _)| file.set_len(0).expect("shrinks"));
        std::thread::scope(|scope| {
            for at in files.iter().map(|(_, at)| *at as usize) {
                // SAFETY: inside a mapping: the handler replaces it.
                scope.spawn(move || assert_eq!(unsafe { (at as *const u8).read_volatile() }, 0));
            }
        });
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        assert!(known.iter().all(Files::is_lost));
    }
}
