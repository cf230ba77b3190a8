//! Guest memory, before the library maps it.
//!
//! `SET_MEM_TABLE` unmaps the old memory first, and when it then fails to map the new one leaves
//! the rings pointing to where the old one was. So a table must be known to be good before the
//! library sees it.

use super::message::Region;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// What starts and sizes of regions are multiples of: the page. Rings that are aligned then never
/// straddle a region's end.
const PAGE: u64 = 4096;

/// Whether the library can map these regions, and nobody but the kernel serves their pages: an
/// error says why not.
pub(super) fn check(regions: impl Iterator<Item = Region>, fds: &[BorrowedFd<'_>]) -> Result<(), &'static str> {
    let regions = regions.collect::<Vec<_>>();
    if regions.is_empty() || regions.len() != fds.len() {
        return Err("not one descriptor per region");
    }
    // All are held until all are checked: they must fit together.
    let mut trials = Vec::with_capacity(fds.len());
    for (region, fd) in regions.iter().zip(fds) {
        trials.push(check_region(*region, *fd)?);
    }
    // An address would mean two places, and which one, only the order of the regions would say.
    if overlap(&regions, |region| region.guest) || overlap(&regions, |region| region.user) {
        return Err("regions that overlap");
    }
    Ok(())
}

/// Whether two regions, which do not go around, have an address in common.
fn overlap(regions: &[Region], at: impl Fn(&Region) -> u64) -> bool {
    let shares = |a: &Region, b: &Region| at(a) < at(b) + b.size && at(b) < at(a) + a.size;
    regions.iter().enumerate().any(|(i, a)| regions[..i].iter().any(|b| shares(a, b)))
}

fn check_region(region: Region, fd: BorrowedFd<'_>) -> Result<Trial, &'static str> {
    let Region { guest, size, user, offset } = region;
    if size == 0 || [guest, size, user, offset].iter().any(|value| value % PAGE != 0) {
        return Err("a region that is empty or not made of pages");
    }
    if guest.checked_add(size).is_none() || user.checked_add(size).is_none() {
        return Err("a region that goes around the address space");
    }
    // SAFETY: plain data.
    let mut stat: libc::stat = unsafe { zeroed() };
    // SAFETY: one stat is written.
    if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } != 0 || stat.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err("memory that is not a file");
    }
    // SAFETY: plain data.
    let mut volume: libc::statfs = unsafe { zeroed() };
    // SAFETY: one statfs is written.
    let rc = unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut volume) };
    // Elsewhere a read may take for ever (FUSE, NFS), with a worker waiting in it.
    if rc != 0 || ![libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC].contains(&volume.f_type) {
        return Err("memory that is neither in tmpfs nor in hugetlbfs");
    }
    let end = offset.checked_add(size);
    if end.is_none_or(|end| u64::try_from(stat.st_size).is_ok_and(|len| end > len)) {
        return Err("a region beyond the end of its file");
    }
    // As the library rounds it.
    let block = u64::try_from(stat.st_blksize).ok().filter(|block| *block > 0);
    let len = end.zip(block).and_then(|(end, block)| end.checked_next_multiple_of(block));
    let len = len.and_then(|len| usize::try_from(len).ok()).ok_or("a region of impossible size")?;
    Trial::new(fd, len).ok_or("memory that cannot be mapped")
}

/// A mapping as the library makes it; never touched, so that it costs nothing.
struct Trial {
    at: *mut libc::c_void,
    len: usize,
}

impl Trial {
    fn new(fd: BorrowedFd<'_>, len: usize) -> Option<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        (at != libc::MAP_FAILED).then_some(Self { at, len })
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and never handed out.
        unsafe { libc::munmap(self.at, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    /// Bounded and exhaustive: two regions of a few pages, at the bottom and at the top.
    #[test]
    fn all_small_overlaps_are_found() {
        let top = u64::MAX - 8;
        for base in [0, top] {
            for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
                for (long, short) in (1..5).flat_map(|long| (1..5).map(move |short| (long, short))) {
                    let region = |start: u64, size| Region { guest: base + start, size, user: 0, offset: 0 };
                    let shares = (a..a + long).any(|at| (b..b + short).contains(&at));
                    let found = overlap(&[region(a, long), region(b, short)], |region| region.guest);
                    assert_eq!(found, shares, "{a}+{long} and {b}+{short} from {base:#x}");
                }
            }
        }
    }

    const GOOD: Region = Region { guest: 0, size: 2 * PAGE, user: 1 << 32, offset: PAGE };

    fn memory(len: u64) -> File {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in tmpfs");
        file.set_len(len).expect("sizes");
        file
    }

    #[test]
    fn only_what_can_be_mapped_passes() {
        let file = memory(3 * PAGE);
        let one = |region: Region| check([region].into_iter(), &[file.as_fd()]);
        assert_eq!(one(GOOD), Ok(()));
        for (what, region) in [
            ("empty", Region { size: 0, ..GOOD }),
            ("odd size", Region { size: PAGE + 1, ..GOOD }),
            ("odd offset", Region { offset: 1, ..GOOD }),
            ("odd guest address", Region { guest: 2, ..GOOD }),
            ("odd user address", Region { user: 3, ..GOOD }),
            ("beyond the end", Region { size: 3 * PAGE, ..GOOD }),
            ("around the file", Region { offset: PAGE.wrapping_neg(), ..GOOD }),
            ("around guest memory", Region { guest: PAGE.wrapping_neg(), ..GOOD }),
            ("around user memory", Region { user: PAGE.wrapping_neg(), ..GOOD }),
        ] {
            assert!(one(region).is_err(), "{what}");
        }
        assert!(check([GOOD, GOOD].into_iter(), &[file.as_fd()]).is_err(), "a descriptor is missing");
        assert!(check([].into_iter(), &[]).is_err(), "no memory at all");
    }

    #[test]
    fn regions_have_no_address_in_common() {
        let file = memory(8 * PAGE);
        let region = |guest: u64, user: u64, pages: u64| Region {
            guest: guest * PAGE,
            size: pages * PAGE,
            user: user * PAGE,
            offset: 0,
        };
        for (what, regions, passes) in [
            ("neighbours", vec![region(0, 10, 2), region(2, 12, 2)], true),
            ("neighbours, the other way round", vec![region(2, 12, 2), region(0, 10, 2)], true),
            ("crossed", vec![region(0, 12, 2), region(2, 10, 2)], true),
            ("twice the same", vec![region(0, 10, 2), region(0, 10, 2)], false),
            ("a page of the guest's twice", vec![region(0, 10, 3), region(2, 20, 2)], false),
            ("a page of the user's twice", vec![region(10, 2, 2), region(20, 0, 3)], false),
            ("one in the other", vec![region(0, 10, 8), region(3, 30, 1)], false),
            (
                "the first and the last",
                vec![region(0, 10, 2), region(2, 20, 2), region(4, 30, 2), region(1, 40, 1)],
                false,
            ),
            ("up to the last address", vec![region((1 << 52) - 3, 10, 2), region(0, 20, 2)], true),
        ] {
            let fds = vec![file.as_fd(); regions.len()];
            let verdict = check(regions.into_iter(), &fds);
            assert_eq!(verdict, if passes { Ok(()) } else { Err("regions that overlap") }, "{what}");
        }
    }

    #[test]
    fn only_memory_passes() {
        let (null, (pipe, _other)) = (File::open("/dev/null").expect("there"), std::io::pipe().expect("a pipe"));
        let text = File::open("/proc/self/maps").expect("there");
        let read_only = {
            let named = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
            named.as_file().set_len(3 * PAGE).expect("sizes");
            File::open(named.path()).expect("there")
        };
        let huge = memory(1 << 62);
        let huge_region = Region { size: 1 << 61, ..GOOD };
        for (what, region, fd) in [
            ("a device", GOOD, null.as_fd()),
            ("a pipe", GOOD, pipe.as_fd()),
            ("a file of procfs", GOOD, text.as_fd()),
            ("a file that may not be written", GOOD, read_only.as_fd()),
            ("more than there are addresses", huge_region, huge.as_fd()),
        ] {
            assert!(check([region].into_iter(), &[fd]).is_err(), "{what}");
        }
    }
}
