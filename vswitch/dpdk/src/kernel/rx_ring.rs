//! The mapped receive ring of a packet socket (`TPACKET_V2`, the kernel's
//! Documentation/networking/packet_mmap.rst).

use super::{PacketSocket, VNET_LEN};
use crate::limits::FRAME_MAX;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a block: one allocation of the kernel. A power of two, since it rounds up to one.
const BLOCK: usize = 1 << 20;

/// Frames of a block. A 16th would make them 64 KiB, less than a GSO packet with its headers.
const PER_BLOCK: usize = 15;

/// Bytes of a frame, a multiple of `TPACKET_ALIGNMENT`. Not a power of two, so frames do not share
/// cache sets.
const FRAME: usize = BLOCK / PER_BLOCK / libc::TPACKET_ALIGNMENT * libc::TPACKET_ALIGNMENT;

/// Blocks: four bursts of frames and some.
const BLOCKS: usize = 9;

const FRAMES: usize = BLOCKS * PER_BLOCK;

/// What the kernel puts in front of the packet is less than this: its header, the link-layer
/// address, the virtio-net header, and alignment (80 + 10 bytes).
const OVERHEAD: usize = 128;

const _: () = assert!(FRAME >= OVERHEAD + FRAME_MAX, "a frame holds the largest packet");

/// The ring, mapped. The kernel owns a frame until it sets `TP_STATUS_USER` in it, then we do until
/// we clear it.
#[derive(Debug)]
pub struct RxRing {
    map: NonNull<u8>,
    next: usize,
    /// Closed after the ring is unmapped.
    socket: Arc<PacketSocket>,
}

// SAFETY: the mapping belongs to this value alone; it may be used from any one thread.
unsafe impl Send for RxRing {}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no frame is borrowed any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), Self::BYTES) };
    }
}

/// A packet in the ring. Dropping it gives the frame back to the kernel, so the ring cannot get
/// stuck.
#[derive(Debug)]
pub struct RxFrame<'a> {
    status: &'a AtomicU32,
    next: &'a mut usize,
    /// Virtio-net header, in host byte order. Its offsets count without the stripped tag.
    pub header: [u8; VNET_LEN],
    /// The VLAN tag that the kernel took out from behind the addresses: TPID and TCI, as on the
    /// wire.
    pub tag: Option<[u8; 4]>,
    /// The packet was longer than the frame, or the kernel's description of it does not fit the
    /// frame: not to be used.
    pub truncated: bool,
    bytes: &'a [u8],
}

impl RxFrame<'_> {
    /// The packet, without the stripped tag.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

impl Drop for RxFrame<'_> {
    fn drop(&mut self) {
        // Pairs with the kernel's barrier before it writes the frame anew.
        self.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        *self.next = (*self.next + 1) % FRAMES;
    }
}

/// Where the packet lies in its frame.
struct Layout {
    start: usize,
    len: usize,
}

/// Checks the kernel's description of a frame; none when the packet was cut or does not lie in the
/// frame.
fn layout(header: &libc::tpacket2_hdr) -> Option<Layout> {
    let (start, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
    let fits = start >= size_of::<libc::tpacket2_hdr>() + VNET_LEN && len <= FRAME.checked_sub(start)?;
    (fits && header.tp_snaplen == header.tp_len).then_some(Layout { start, len })
}

impl RxRing {
    /// Bytes of kernel memory that a ring takes.
    pub const BYTES: usize = BLOCK * BLOCKS;

    /// What to ask of `PACKET_RX_RING`.
    pub(super) fn request() -> libc::tpacket_req {
        let [block, blocks, frame, frames] =
            [BLOCK, BLOCKS, FRAME, FRAMES].map(|n| libc::c_uint::try_from(n).expect("small constants"));
        libc::tpacket_req { tp_block_size: block, tp_block_nr: blocks, tp_frame_size: frame, tp_frame_nr: frames }
    }

    /// Maps the ring that was requested of the descriptor.
    pub(super) fn new(fd: BorrowedFd<'_>, socket: Arc<PacketSocket>) -> io::Result<Self> {
        // SAFETY: a fresh mapping wherever the kernel likes.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Self::BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { map, next: 0, socket })
    }

    /// The socket that the ring belongs to.
    #[must_use]
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// The next packet, if the kernel has filled its frame. No system call.
    #[inline]
    pub fn next_frame(&mut self) -> Option<RxFrame<'_>> {
        let offset = self.next / PER_BLOCK * BLOCK + self.next % PER_BLOCK * FRAME;
        // SAFETY: `next` < FRAMES, so that the frame lies in the mapping; frames are 16-byte
        // aligned and begin with tp_status. Both sides access that word atomically.
        let (frame, status) = unsafe {
            let frame = self.map.add(offset);
            (frame, AtomicU32::from_ptr(frame.as_ptr().cast()))
        };
        // Pairs with the kernel's barrier between filling the frame and handing it over.
        let flags = status.load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the frame is ours until `status` is cleared, which the RxFrame does when it is
        // dropped; all that is read from it borrows from that. It begins with a tpacket2_hdr, plain
        // data. `layout` has checked that header and packet lie inside the frame.
        let (tag, found) = unsafe {
            let header = frame.cast::<libc::tpacket2_hdr>().read();
            let found = layout(&header).map(|at| {
                let vnet = frame.add(at.start - VNET_LEN).cast::<[u8; VNET_LEN]>().read();
                (vnet, std::slice::from_raw_parts(frame.add(at.start).as_ptr(), at.len))
            });
            (tag(flags, &header), found)
        };
        let truncated = found.is_none();
        let (header, bytes) = found.unwrap_or(([0; VNET_LEN], &[]));
        Some(RxFrame { status, next: &mut self.next, header, tag, truncated, bytes })
    }
}

/// The VLAN tag that the kernel keeps beside the packet.
fn tag(flags: u32, header: &libc::tpacket2_hdr) -> Option<[u8; 4]> {
    if flags & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    // Kernels before 3.14 do not give the TPID: they knew no other than 802.1Q.
    let tpid = if flags & libc::TP_STATUS_VLAN_TPID_VALID == 0 { 0x8100 } else { header.tp_vlan_tpid };
    let [a, b] = tpid.to_be_bytes();
    let [c, d] = header.tp_vlan_tci.to_be_bytes();
    Some([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(mac: u16, snaplen: u32, len: u32) -> libc::tpacket2_hdr {
        // SAFETY: plain data.
        let mut header: libc::tpacket2_hdr = unsafe { std::mem::zeroed() };
        (header.tp_mac, header.tp_snaplen, header.tp_len) = (mac, snaplen, len);
        header
    }

    #[test]
    fn only_packets_that_lie_whole_in_their_frame_are_read() {
        let largest = u32::try_from(FRAME - 76).expect("small");
        for (mac, snaplen, len, ok) in [
            (76, 60, 60, true),
            (76, 0, 0, true),
            (76, largest, largest, true),
            (76, largest + 1, largest + 1, false),
            (76, 60, 61, false),
            (76, u32::MAX, u32::MAX, false),
            (41, 60, 60, false),
            (0, 60, 60, false),
            (u16::MAX, 60, 60, true),
            (u16::MAX, 65_536, 65_536, false),
        ] {
            assert_eq!(layout(&header(mac, snaplen, len)).is_some(), ok, "mac {mac} snaplen {snaplen} len {len}");
        }
    }

    #[test]
    fn stripped_tags_are_given_as_on_the_wire() {
        let mut header = header(76, 60, 60);
        (header.tp_vlan_tci, header.tp_vlan_tpid) = (0x6064, 0x88a8);
        let valid = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID;
        assert_eq!(tag(libc::TP_STATUS_USER, &header), None);
        assert_eq!(tag(valid, &header), Some([0x81, 0, 0x60, 0x64]));
        assert_eq!(tag(valid | libc::TP_STATUS_VLAN_TPID_VALID, &header), Some([0x88, 0xa8, 0x60, 0x64]));
    }

    #[test]
    fn geometry_is_what_the_kernel_demands() {
        assert_eq!((FRAME % libc::TPACKET_ALIGNMENT, BLOCK % 4096, BLOCK / FRAME), (0, 0, PER_BLOCK));
        assert_eq!(RxRing::BYTES, 9 << 20);
    }
}
