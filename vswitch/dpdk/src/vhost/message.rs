//! One vhost-user message in the library's hands: its fields, and the descriptors that came with
//! it.
//!
//! Source of the layout: QEMU, docs/interop/vhost-user.rst; where the library keeps descriptors:
//! `struct vhu_msg_context` of DPDK 22.11 (lib/vhost/vhost_user.h), which it passes to external
//! handlers. `layout` tries it out before the first port is opened.

use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

pub(super) const GET_FEATURES: u32 = 1;
pub(super) const SET_FEATURES: u32 = 2;
pub(super) const RESET_OWNER: u32 = 4;
pub(super) const SET_MEM_TABLE: u32 = 5;
pub(super) const SET_VRING_NUM: u32 = 8;
pub(super) const SET_VRING_ADDR: u32 = 9;
pub(super) const SET_VRING_BASE: u32 = 10;
pub(super) const GET_VRING_BASE: u32 = 11;
pub(super) const SET_VRING_KICK: u32 = 12;
pub(super) const SET_VRING_CALL: u32 = 13;
pub(super) const SET_VRING_ERR: u32 = 14;
pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
pub(super) const SET_VRING_ENABLE: u32 = 18;
pub(super) const NET_SET_MTU: u32 = 20;
pub(super) const SET_STATUS: u32 = 39;
pub(super) const GET_STATUS: u32 = 40;

/// Regions of a memory table, and descriptors of a message (`VHOST_MEMORY_MAX_NREGIONS`).
pub(super) const REGIONS_MAX: usize = 8;

/// Bytes of a message's header: request, flags, size, of 4 bytes each in host byte order.
pub(super) const HEADER: usize = 12;
/// Where the descriptors are: behind the longest payload, 632 bytes of a crypto session.
pub(super) const FDS: usize = HEADER + 632;
pub(super) const FD_COUNT: usize = FDS + 4 * REGIONS_MAX;

/// Bytes of `struct vhu_msg_context`.
pub(super) const CONTEXT_LEN: usize = FD_COUNT + 4;

/// A region of guest memory as the front end describes it; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) guest: u64,
    pub(super) size: u64,
    pub(super) user: u64,
    pub(super) offset: u64,
}

/// A message.
pub(super) struct Message<'a>(&'a mut [u8; CONTEXT_LEN]);

impl<'a> Message<'a> {
    pub(super) const fn new(bytes: &'a mut [u8; CONTEXT_LEN]) -> Self {
        Self(bytes)
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(word)
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[at..at + 8]);
        u64::from_ne_bytes(word)
    }

    pub(super) fn set_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn request(&self) -> u32 {
        self.u32(0)
    }

    /// The ring that a message about a ring names.
    pub(super) fn ring(&self) -> usize {
        self.u32(HEADER) as usize
    }

    /// The ring that a message with a descriptor for a ring names.
    pub(super) fn ring_of_fd(&self) -> usize {
        self.u32(HEADER) as usize & 0xff
    }

    /// A message with a descriptor for a ring says that it has one (`VHOST_USER_VRING_NOFD_MASK`).
    pub(super) fn has_fd(&self) -> bool {
        self.u32(HEADER) & 0x100 == 0
    }

    /// The value of a `struct vhost_vring_state`.
    pub(super) fn value(&self) -> u32 {
        self.u32(HEADER + 4)
    }

    pub(super) fn set_value(&mut self, value: u32) {
        self.set_u32(HEADER + 4, value);
    }

    /// The features of `SET_FEATURES`.
    pub(super) fn features(&self) -> u64 {
        self.u64(HEADER)
    }

    /// Addresses of a `struct vhost_vring_addr`: descriptors, used ring, available ring (packed:
    /// descriptors, device and driver event area).
    pub(super) fn ring_addresses(&self) -> [u64; 3] {
        [8, 16, 24].map(|at| self.u64(HEADER + at))
    }

    /// The regions of a memory table; none if there are too many of them.
    pub(super) fn regions(&self) -> Option<impl ExactSizeIterator<Item = Region> + '_> {
        let n = self.u32(HEADER) as usize;
        (n <= REGIONS_MAX).then(|| {
            (0..n).map(|i| {
                let [guest, size, user, offset] = [0, 8, 16, 24].map(|at| self.u64(HEADER + 8 + 32 * i + at));
                Region { guest, size, user, offset }
            })
        })
    }

    fn fd(&self, i: usize) -> RawFd {
        RawFd::from_ne_bytes(self.u32(FDS + 4 * i).to_ne_bytes())
    }

    /// How many descriptors came with the message; none if the fields contradict each other, as
    /// they would elsewhere than in the layout above.
    pub(super) fn fd_count(&self) -> Option<usize> {
        let n = self.u32(FD_COUNT) as usize;
        let fits = |n: &usize| *n <= REGIONS_MAX && (0..REGIONS_MAX).all(|i| (self.fd(i) >= 0) == (i < *n));
        Some(n).filter(fits)
    }

    /// The descriptors of the message; empty if it has none.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let n = self.fd_count().unwrap_or(0);
        // SAFETY: open, not negative, and the message's own until somebody closes them, which takes
        // `&mut self`.
        (0..n).map(|i| unsafe { BorrowedFd::borrow_raw(self.fd(i)) }).collect()
    }

    /// Gives the library another descriptor in the place of the first one, which is closed.
    pub(super) fn replace_fd(&mut self, fd: OwnedFd) {
        if self.fd_count().unwrap_or(0) == 0 {
            return;
        }
        let old = self.fd(0);
        self.set_u32(FDS, u32::from_ne_bytes(fd.into_raw_fd().to_ne_bytes()));
        // SAFETY: received with this message, owned by nobody else, and no longer named in it.
        drop(unsafe { OwnedFd::from_raw_fd(old) });
    }

    /// Closes the descriptors of a message that the library is not going to handle; it would leak
    /// them.
    pub(super) fn close_fds(&mut self) {
        for i in 0..self.fd_count().unwrap_or(0) {
            let fd = self.fd(i);
            self.set_u32(FDS + 4 * i, u32::MAX); // -1: as the library marks it
            // SAFETY: received with this message, owned by nobody else, and no longer named in it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        self.set_u32(FD_COUNT, 0);
    }
}

/// A message without descriptors, for tests.
#[cfg(test)]
pub(super) fn for_tests(request: u32, payload: &[u8]) -> [u8; CONTEXT_LEN] {
    let mut bytes = [0; CONTEXT_LEN];
    bytes[..4].copy_from_slice(&request.to_ne_bytes());
    bytes[HEADER..HEADER + payload.len()].copy_from_slice(payload);
    bytes[FDS..FD_COUNT].fill(0xff);
    bytes
}

/// Gives such a message a descriptor, which stays its owner's.
#[cfg(test)]
pub(super) fn with_fd(bytes: &mut [u8; CONTEXT_LEN], fd: RawFd) {
    bytes[FDS..FDS + 4].copy_from_slice(&fd.to_ne_bytes());
    bytes[FD_COUNT..].copy_from_slice(&1_u32.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::with_fd as put;
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn descriptors_are_closed_once() {
        let file = tempfile::tempfile().expect("a file");
        let mut bytes = for_tests(SET_MEM_TABLE, &[]);
        let other = file.try_clone().expect("a descriptor");
        put(&mut bytes, other.into_raw_fd());
        let mut message = Message::new(&mut bytes);
        assert_eq!(message.fds().len(), 1);
        message.close_fds();
        assert!(message.fds().is_empty() && message.fd(0) == -1);
        message.close_fds();
    }

    #[test]
    fn a_descriptor_takes_the_place_of_another_one() {
        let (old, new) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
        let mut bytes = for_tests(SET_VRING_CALL, &[]);
        let passed = new.try_clone().expect("a descriptor");
        let raw = passed.as_raw_fd();
        Message::new(&mut bytes).replace_fd(passed.into());
        assert!(Message::new(&mut bytes).fds().is_empty(), "a message without one gets none");
        let (old_raw, passed) = (old.as_raw_fd(), new.try_clone().expect("a descriptor"));
        put(&mut bytes, old.into_raw_fd());
        let mut message = Message::new(&mut bytes);
        message.replace_fd(passed.into());
        assert_eq!((message.fds().len(), message.fd(0)), (1, raw), "the number that was free again");
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::fcntl(old_raw, libc::F_GETFD) }, -1, "the other one is closed");
        message.close_fds();
    }

    #[test]
    fn descriptors_that_do_not_add_up_are_left_alone() {
        let file = tempfile::tempfile().expect("a file");
        let mut bytes = for_tests(SET_MEM_TABLE, &[]);
        put(&mut bytes, file.as_raw_fd());
        bytes[FD_COUNT] = 2;
        assert!(Message::new(&mut bytes).fds().is_empty());
        bytes[FD_COUNT] = 9;
        Message::new(&mut bytes).close_fds();
        assert!(file.metadata().is_ok(), "still open");
    }

    /// Bounded and exhaustive: each number, with each set of descriptors that are there.
    #[test]
    fn descriptors_count_only_if_all_places_agree() {
        for n in 0..=REGIONS_MAX + 2 {
            for there in 0..1_u32 << REGIONS_MAX {
                let mut bytes = for_tests(SET_MEM_TABLE, &[]);
                let mut message = Message::new(&mut bytes);
                for i in 0..REGIONS_MAX {
                    message.set_u32(FDS + 4 * i, if there >> i & 1 == 1 { 1000 } else { u32::MAX });
                }
                message.set_u32(FD_COUNT, u32::try_from(n).expect("small"));
                let agrees = n <= REGIONS_MAX && there == (1 << n) - 1;
                assert_eq!(message.fd_count(), Some(n).filter(|_| agrees), "{n} with {there:#b}");
            }
        }
    }

    /// Bounded and exhaustive: each field of each region is where it belongs, and nowhere else.
    #[test]
    fn all_fields_of_all_regions_are_read_from_their_own_bytes() {
        for n in 0..=REGIONS_MAX {
            for at in 0..32 * REGIONS_MAX {
                let mut table = vec![0; 8 + 32 * REGIONS_MAX];
                table[0] = u8::try_from(n).expect("small");
                table[8 + at] = 0xa5;
                let mut bytes = for_tests(SET_MEM_TABLE, &table);
                let message = Message::new(&mut bytes);
                let regions: Vec<Region> = message.regions().expect("few").collect();
                assert_eq!(regions.len(), n);
                let value = 0xa5_u64 << (8 * (at % 8));
                for (i, Region { guest, size, user, offset }) in regions.into_iter().enumerate() {
                    for (field, found) in [guest, size, user, offset].into_iter().enumerate() {
                        let is_here = at / 8 == 4 * i + field;
                        assert_eq!(found, if is_here { value } else { 0 }, "byte {at}, field {field} of region {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_memory_table_has_at_most_eight_regions() {
        let mut table = vec![0; 8 + 8 * 32];
        table[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        for n in [0_u32, 1, 8, 9, u32::MAX] {
            table[..4].copy_from_slice(&n.to_ne_bytes());
            let mut bytes = for_tests(SET_MEM_TABLE, &table);
            let message = Message::new(&mut bytes);
            let regions = message.regions().map(|regions| regions.len());
            assert_eq!(regions, Some(n as usize).filter(|n| *n <= 8));
            if n == 1 {
                let region = message.regions().and_then(|mut regions| regions.next());
                assert_eq!(region, Some(Region { guest: 7, size: 0, user: 0, offset: 0 }));
            }
        }
    }
}
