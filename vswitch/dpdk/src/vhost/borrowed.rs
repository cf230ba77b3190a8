//! Packets that are borrowed from a guest: their payload stays where it is in the guest's memory,
//! and is copied once, into the ring of the guest that gets them.
//!
//! **Where in the walk**: in [`super::Rings::receive`]. The library copies what guests send into
//! mbufs, and once more into the next guest's buffers: with segmentation offloaded, that is most of
//! what a byte costs. So long TCP packets to be segmented, with sane headers, are taken here
//! instead, [`HEAD`] bytes of each copied. Everything else (short, odd or contradictory ones,
//! packed rings) is left to the library, which finds its ring as it was.
//!
//! **Lock**: borrowing lasts while the library holds the ring's `access_lock`: this runs inside
//! `rte_vhost_dequeue_burst`, where that asks its pool for mbufs (the shim passes that on), and
//! whoever wants to change the guest's memory or to move the ring waits for the lock, and for the
//! worker who ends the device. So the packets go all their way from here ([`ZeroCopy::forward`]),
//! and none may be left when they have gone it; that is counted. If one is left all the same, the
//! port is put into quarantine ([`Shared::quarantine`]): the guest's memory stays mapped until the
//! process ends, and no guest connects to the port any more. Meanwhile nobody may wait for a ring
//! of the *same* guest: `vhost-events` may have that one already, and wait for this one. What goes
//! back to the port that it came from is therefore sent later (`Walk::burst_borrowed` of the
//! workers). Rings of other guests may be waited for: one thread handles all messages, one at a
//! time.
//!
//! **Never trust the guest**: each descriptor is read once, each address checked against its
//! regions, chains have at most [`PIECES_MAX`] pieces (`chain`). What decides anything lies in the
//! head, which is copied. The guest may change the rest until the packet is sent; as it could have
//! before.

use super::ZeroCopy;
use super::chain::{self, PIECES_MAX, Piece, Region, Regions};
use super::features;
use super::features::negotiated_features;
use super::shared::Shared;
use crate::lcore;
use crate::limits::{BURST, FRAME_MAX};
use crate::{Csum, Mbuf, Mempool};
use dpdk_sys as sys;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Release;
use sys::rte_mbuf;

/// Bytes in front that are copied: room for all headers.
const HEAD: usize = 512;

/// Packets that are borrowed at a time. All may be for their sender, for which they wait, and a
/// full burst does not.
const LOANS_MAX: usize = BURST - 1;

/// Regions of a memory table (`VHOST_MEMORY_MAX_NREGIONS`).
const REGIONS_MAX: u32 = 8;

/// What of a virtio-net header is read (virtio 1.1, 5.1.6): flags, type, lengths of headers and of
/// segments, and where the sum is.
const VNET_READ: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// Where a guest's memory is mapped here, as seen last.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// Of which state of which device this is.
    of: Option<(c_int, u64)>,
    regions: Regions,
}

// SAFETY: addresses; whoever uses them holds the ring's lock.
unsafe impl Send for GuestMemory {}

impl GuestMemory {
    /// Reads the table anew unless this is of that state of the device. With the lock of a ring.
    fn refresh(&mut self, vid: c_int, state: u64) {
        if self.of == Some((vid, state)) {
            return;
        }
        let mut regions = [sys::vs_region::default(); REGIONS_MAX as usize];
        // SAFETY: the device exists while one of its rings is locked; room for so many regions.
        let n = unsafe { sys::vs_vhost_memory(vid, regions.as_mut_ptr(), REGIONS_MAX) };
        let n = usize::try_from(n).unwrap_or(0);
        self.regions.set(regions[..n].iter().map(|region| {
            let sys::vs_region { guest, size, here } = *region;
            Region { guest, size, here: here.cast_const().cast() }
        }));
        self.of = Some((vid, state));
    }
}

/// A call of `rte_vhost_dequeue_burst` that may borrow.
pub(super) struct Taking<'a, 'b> {
    pub(super) vid: c_int,
    pub(super) ring: u16,
    pub(super) shared: &'a Shared,
    pub(super) pool: &'a Mempool,
    /// Mbufs that may be taken.
    pub(super) budget: u32,
    pub(super) zero_copy: &'a mut ZeroCopy<'b>,
    /// Packets that were borrowed, and are gone.
    pub(super) taken: u16,
}

/// What the shim calls.
///
/// # Safety
/// `context` is a [`Taking`] that nobody else uses; the library holds the lock of its ring.
pub(super) unsafe extern "C" fn take(context: *mut c_void, n: u16) -> c_int {
    // SAFETY: as above.
    let taking = unsafe { &mut *context.cast::<Taking<'_, '_>>() };
    lcore::set_in_library(true);
    let taken = taking.run(n);
    lcore::set_in_library(false);
    c_int::from(taken)
}

impl Taking<'_, '_> {
    /// Borrows what can be of up to `n` packets, and takes it all its way. False if nothing was
    /// taken from the ring.
    fn run(&mut self, n: u16) -> bool {
        // Of this device: the socket's may be those of a successor.
        let features = negotiated_features(self.vid);
        if !features::allows_borrowing(features) {
            return false;
        }
        let header = features::header_len(features);
        let mut raw = sys::vs_ring::default();
        // SAFETY: the device is there, and its ring locked.
        if unsafe { sys::vs_vhost_ring(self.vid, self.ring, &raw mut raw) } != 0 {
            return false;
        }
        let Some(ring) = Ring::new(&raw) else { return false };
        self.zero_copy.memory.refresh(self.vid, self.shared.memory_state());
        let mut heads = [0; BURST];
        let mut taken = 0;
        for slot in heads.iter_mut().take(usize::from(n).min(LOANS_MAX)) {
            let head = ring.available(taken);
            let Some(mbuf) = self.borrow(&ring, head, header) else { break };
            *slot = head;
            taken += 1;
            let _ = self.zero_copy.burst.push(mbuf); // empty before, and long enough for `heads`
        }
        if taken == 0 {
            return false;
        }
        (self.zero_copy.forward)(self.zero_copy.burst);
        self.zero_copy.burst.clear();
        // SAFETY: reads a number of this thread.
        let left = unsafe { sys::vs_mbufs_borrowed() };
        if left > 0 {
            self.quarantine(left);
        }
        ring.give_back(&heads[..taken.into()]);
        let (available, used) = (raw.available.wrapping_add(taken), raw.used.wrapping_add(taken));
        // SAFETY: as above.
        unsafe { sys::rte_vhost_set_vring_base(self.vid, self.ring, available, used) };
        self.taken = taken;
        true
    }

    /// Mbufs refer to the guest's memory, and nobody knows where they are: it must stay, and no
    /// more of it may be borrowed.
    #[cold]
    fn quarantine(&self, left: u16) {
        for region in self.zero_copy.memory.regions.iter() {
            let len = usize::try_from(region.size).unwrap_or(usize::MAX);
            // SAFETY: notes two numbers.
            let is_kept = unsafe { sys::vs_keep_mapped(region.here.cast_mut().cast(), len) };
            // Without this, what is read there next may be anybody's.
            assert!(is_kept, "{left} mbufs refer to the memory of a guest, and there is no room to keep it");
        }
        // SAFETY: sets a number of this thread.
        unsafe { sys::vs_mbufs_give_up() };
        self.shared.quarantine();
    }

    /// The packet whose first descriptor this is, behind `header` bytes. None, and nothing has
    /// happened, if the library is to have it, or there are not enough mbufs.
    fn borrow(&mut self, ring: &Ring<'_>, head: u16, header: usize) -> Option<Mbuf> {
        let mut pieces = [Piece::NONE; PIECES_MAX];
        let pieces = ring.pieces(self.zero_copy.memory, head, &mut pieces)?;
        let whole: usize = pieces.iter().map(|piece| piece.len).sum();
        let len = whole.checked_sub(header)?;
        if len <= self.pool.segment_len() || len > FRAME_MAX {
            return None;
        }
        let gso_size = gso_size(pieces[0].copy::<VNET_READ>().filter(|_| pieces[0].len >= header)?)?;
        // The header goes.
        pieces[0].skip(header);
        let mut first = [0; HEAD];
        let mut copied = 0;
        for piece in pieces.iter_mut() {
            copied += piece.move_to(&mut first[copied..]);
        }
        let rest = || pieces.iter().filter(|piece| piece.len > 0);
        let segments = 1 + rest().count();
        let mut mbufs = [ptr::null_mut::<rte_mbuf>(); 1 + PIECES_MAX];
        let needed = u32::try_from(segments).ok().filter(|needed| *needed <= self.budget)?;
        // SAFETY: the pool lives; there is room for so many.
        if unsafe { sys::vs_mbuf_alloc_bulk(self.pool.as_ptr(), mbufs.as_mut_ptr(), needed) } != 0 {
            return None;
        }
        self.budget -= needed;
        for (i, piece) in rest().enumerate() {
            #[allow(clippy::cast_possible_truncation)] // FRAME_MAX less HEAD
            // SAFETY: fresh mbufs, ours. What is borrowed stays mapped while the ring is locked.
            unsafe {
                sys::vs_mbuf_borrow(mbufs[i + 1], piece.at.cast_mut().cast(), piece.len as u16);
                (*mbufs[i]).next = mbufs[i + 1];
            }
        }
        // SAFETY: a fresh mbuf, ours, with room for more than HEAD bytes; the lengths are those of
        // the chain.
        let mut mbuf = unsafe {
            let raw = mbufs[0];
            let to = (*raw).buf_addr.cast::<u8>().add((*raw).data_off.into());
            ptr::copy_nonoverlapping(first.as_ptr(), to, copied);
            #[allow(clippy::cast_possible_truncation)] // FRAME_MAX, HEAD, PIECES_MAX
            {
                (*raw).data_len = copied as u16;
                (*raw).pkt_len = len as u32;
                (*raw).nb_segs = segments as u16;
            }
            Mbuf::from_raw(NonNull::new_unchecked(raw))
        };
        mbuf.set_csum(Csum::Partial);
        mbuf.set_gso_size(gso_size);
        Some(mbuf)
    }
}

/// The segment size of a packet whose header says that it is TCP to be segmented and summed, in the
/// way that all do; the library would make the same of it (of TCP; other packets of that kind the
/// port refuses or copies).
fn gso_size(header: [u8; VNET_READ]) -> Option<u16> {
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let (size, start, field) = (word(4), word(6), word(8));
    // Ethernet, IP and TCP are at least that long: the library looks no further either.
    let start_max = match header[1] & !GSO_ECN {
        GSO_TCPV4 => 14 + 20 + 20,
        GSO_TCPV6 => 14 + 40 + 20,
        _ => return None,
    };
    (header[0] & NEEDS_CSUM != 0 && size != 0 && start <= start_max && field == 16).then_some(size)
}

/// A split ring whose lock is held.
struct Ring<'a> {
    raw: &'a sys::vs_ring,
}

impl<'a> Ring<'a> {
    fn new(raw: &'a sys::vs_ring) -> Option<Self> {
        let there = !raw.descriptors.is_null() && !raw.available_ring.is_null() && !raw.used_ring.is_null();
        (there && raw.size.is_power_of_two()).then_some(Self { raw })
    }

    /// The first descriptor of the `i`-th packet that is available; the ring has it.
    fn available(&self, i: u16) -> u16 {
        let slot = self.raw.available.wrapping_add(i) & (self.raw.size - 1);
        // SAFETY: `flags`, `idx`, and so many entries (virtio 1.1, 2.6.6): the library checked that
        // they are mapped, and the guard that they are aligned.
        unsafe { self.raw.available_ring.cast::<u16>().add(2 + usize::from(slot)).read_volatile() }
    }

    /// The pieces of a chain; none if it is one for the library.
    fn pieces<'b>(&self, memory: &GuestMemory, head: u16, pieces: &'b mut [Piece]) -> Option<&'b mut [Piece]> {
        let table = self.raw.descriptors.cast_const().cast();
        // SAFETY: the ring's table has so many entries, is mapped while the ring is locked, and
        // aligned (the guard); the regions are those of its guest.
        unsafe { chain::pieces(table, self.raw.size, &memory.regions, head, pieces) }
    }

    /// Gives chains back to the guest, by their first descriptors.
    fn give_back(&self, heads: &[u16]) {
        let ring = self.raw.used_ring;
        let mut at = self.raw.used;
        for head in heads {
            let slot = usize::from(at & (self.raw.size - 1));
            // SAFETY: `flags`, `idx`, and `size` entries of an index and a length, of 4 bytes each
            // (virtio 1.1, 2.6.8): mapped and aligned, as above.
            unsafe { ring.cast::<[u32; 2]>().byte_add(4).add(slot).write_volatile([(*head).into(), 0]) };
            at = at.wrapping_add(1);
        }
        // SAFETY: `idx`, as above; only the device writes it. Behind the entries.
        unsafe { AtomicU16::from_ptr(ring.cast::<u16>().add(1)) }.store(at, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_of_tcp_to_be_segmented_are_borrowed() {
        let header = |flags, kind, size: u16, start: u16, field: u16| {
            let [s, t, f] = [size, start, field].map(u16::to_le_bytes);
            [flags, kind, 54, 0, s[0], s[1], t[0], t[1], f[0], f[1]]
        };
        for (what, header, expected) in [
            ("IPv4", header(1, 1, 1448, 34, 16), Some(1448)),
            ("IPv6, congested, behind a tag", header(1, 0x84, 1428, 58, 16), Some(1428)),
            ("no sum", header(0, 1, 1448, 34, 16), None),
            ("valid, not to be summed", header(2, 1, 1448, 34, 16), None),
            ("UFO", header(1, 3, 1448, 34, 16), None),
            ("no GSO", header(1, 0, 1448, 34, 16), None),
            ("segments of nothing", header(1, 1, 0, 34, 16), None),
            ("a sum elsewhere", header(1, 1, 1448, 34, 6), None),
            ("a sum of the payload", header(1, 1, 1448, 55, 16), None),
        ] {
            assert_eq!(gso_size(header), expected, "{what}");
        }
    }
}
