//! Ports on an existing interface of the host (kind `af_packet`): a veth, a physical interface,
//! through a packet socket.
//!
//! **Where in the walk**: both ends. Receive copies packets out of a mapped ring without a system
//! call; send is one `sendmmsg` per burst.
//!
//! **Design**: the interface belongs to somebody else. Its flags are not touched (promiscuous mode
//! is a reference that goes with the socket); when it goes down or away, the port stays, with its
//! link down. Checksums and GSO cross both ways unfinished, VLAN tags that the kernel took out are
//! put back.
//!
//! There is no transmit ring: a frame in it stays taken until whoever receives the packet has
//! consumed it (on a veth: the Pod's application, when it pleases), and the kernel makes an skb of
//! it anyway. Nor is the interface's queueing discipline bypassed: the bypass drops packets that
//! the device cannot segment itself.
//!
//! **Limits**: [`RxRing::BYTES`] (9 MiB) of kernel memory per port: 135 frames, each for a whole
//! GSO packet. A packet longer than that ("BIG TCP") is dropped as oversize. Packets that hardware
//! merged (LRO) come without a checksum that could be finished and are dropped as vnet_header:
//! `ethtool -K IF lro off`; GRO is welcome. Linux sends frames of at most the interface's MTU, plus
//! 14 bytes of header and one 802.1Q tag. What the kernel merges that a virtio-net header cannot
//! say (SCTP) it drops itself, and counts as missed.
//!
//! **Threads**: each queue has one user at a time; the device may be used from any thread.
//!
//! **Not here**: keeping the host out. Its own stack sees received packets too: leave the interface
//! without addresses (IPv6 autoconfiguration off) and out of Linux bridges.

use super::{DeviceCounters, Link};
use crate::limits::BURST;
use crate::observe::{DropReason, PortCounters, Remains};
use crate::packet::{Mac, TxCaps, VnetHdr};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vswitch_dpdk::kernel::{Gather, KernelError, Outgoing, PacketSocket, RxFrame, RxRing, release_takes_uso};
use vswitch_dpdk::{Burst, Mbuf, Mempool};

/// Opens a port on the interface, which must exist and be an Ethernet.
///
/// # Errors
/// Names the interface, the call that the kernel refused, and how to fix it.
pub fn open(
    interface: &str,
    pool: &Mempool,
) -> Result<(AfPacketRxQueue, AfPacketTxQueue, AfPacketDevice), KernelError> {
    let (socket, ring) = PacketSocket::open(interface)?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rx = AfPacketRxQueue { ring, pool: pool.clone(), segments: Vec::with_capacity(SEGMENTS) };
    let packets = Vec::with_capacity(BURST);
    let tx = AfPacketTxQueue { socket: Arc::clone(&socket), gather: Gather::default(), packets };
    Ok((rx, tx, AfPacketDevice { socket, missed: AtomicU64::new(0), uso: release_takes_uso(&release) }))
}

/// Bytes of a VLAN tag, and where it belongs: behind the two addresses.
const TAG: u16 = 4;
const TAG_AT: usize = 12;

/// Segments of the largest packet that a frame of the ring holds, with room to spare.
const SEGMENTS: usize = 40;

/// Packets from the interface.
#[derive(Debug)]
pub struct AfPacketRxQueue {
    ring: RxRing,
    pool: Mempool,
    /// Scratch space, empty between packets.
    segments: Vec<Mbuf>,
}

impl AfPacketRxQueue {
    /// Appends what came in, up to a full burst. An interface that is down or gone gives nothing.
    pub fn receive(&mut self, burst: &mut Burst, counters: &PortCounters) {
        for _ in burst.len()..BURST {
            let Some(frame) = self.ring.next_frame() else { return };
            match packet(&frame, &self.pool, &mut self.segments) {
                Ok(mbuf) => {
                    // There is room: the loop counts the slots.
                    let _ = burst.push(mbuf);
                }
                Err(reason) => counters.refuse(reason, Remains::Bytes(frame.bytes())),
            }
        }
    }
}

/// Copies a packet out of its frame, with its tag back in place.
fn packet(frame: &RxFrame<'_>, pool: &Mempool, segments: &mut Vec<Mbuf>) -> Result<Mbuf, DropReason> {
    if frame.truncated {
        return Err(DropReason::Oversize);
    }
    let bytes = frame.bytes();
    let mut header = VnetHdr::from_bytes(&frame.header);
    let mbuf = match frame.tag {
        None => copy([bytes], pool, segments),
        Some(tag) => {
            let (addresses, rest) = bytes.split_at_checked(TAG_AT).ok_or(DropReason::EthShort)?;
            header = behind_tag(header).ok_or(DropReason::VnetHeader)?;
            copy([addresses, &tag, rest], pool, segments)
        }
    };
    let mut mbuf = mbuf.ok_or(DropReason::NoMbuf)?;
    header.accept(&mut mbuf)?;
    Ok(mbuf)
}

/// The header for the packet with its tag back in place.
fn behind_tag(mut header: VnetHdr) -> Option<VnetHdr> {
    if header.flags & VnetHdr::NEEDS_CSUM != 0 {
        header.csum_start = header.csum_start.checked_add(TAG)?;
    }
    if header.hdr_len != 0 {
        // Only a hint: where it overflows, any value will do.
        header.hdr_len = header.hdr_len.saturating_add(TAG);
    }
    Some(header)
}

/// A packet with the bytes of all parts; none when the pool has too few segments. `segments` is
/// left empty.
fn copy<const N: usize>(parts: [&[u8]; N], pool: &Mempool, segments: &mut Vec<Mbuf>) -> Option<Mbuf> {
    let mut last = pool.alloc()?;
    for mut part in parts {
        loop {
            let room = last.tailroom_mut();
            let n = room.len().min(part.len());
            room[..n].copy_from_slice(&part[..n]);
            last.grow(n);
            part = &part[n..];
            if part.is_empty() {
                break;
            }
            let Some(fresh) = pool.alloc() else {
                segments.clear();
                return None;
            };
            segments.push(std::mem::replace(&mut last, fresh));
        }
    }
    // From the back, so that each step of the chain is one link.
    while let Some(mut segment) = segments.pop() {
        segment.chain(last);
        last = segment;
    }
    Some(last)
}

/// Packets to the interface.
#[derive(Debug)]
pub struct AfPacketTxQueue {
    socket: Arc<PacketSocket>,
    gather: Gather,
    /// Scratch space, empty between bursts.
    packets: Vec<Outgoing>,
}

/// What a refusal means for the packets behind the one that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// This packet only.
    One(DropReason),
    /// All the rest would meet the same.
    Rest(DropReason),
}

impl AfPacketTxQueue {
    /// Sends the burst and leaves it empty. Drops: [`DropReason::TxFull`], [`DropReason::LinkDown`]
    /// (interface down or gone), [`DropReason::VnetHeader`], [`DropReason::TxError`] (refused, such
    /// as longer than the interface's MTU).
    pub fn send(&mut self, burst: &mut Burst, counters: &PortCounters) {
        for mbuf in burst.drain() {
            match VnetHdr::describe(&mbuf) {
                Ok(header) => self.packets.push(Outgoing { header: header.to_bytes(), mbuf }),
                Err(reason) => counters.tx_drops.count(reason, Remains::Packet(&mbuf)),
            }
        }
        let sent = |packets: &[Outgoing]| {
            counters.tx_packets.add(packets.len() as u64);
            counters.tx_bytes.add(packets.iter().map(|packet| packet.mbuf.len() as u64).sum());
        };
        let mut rest = &self.packets[..];
        // The first ENETDOWN may be news of a time when the interface was down: the socket keeps it
        // until asked.
        let mut stale = true;
        // Each turn but that one sends or drops at least one packet.
        while !rest.is_empty() {
            match self.socket.send(&mut self.gather, rest) {
                Ok(n) => {
                    let (taken, left) = rest.split_at(n.clamp(1, rest.len()));
                    sent(taken);
                    rest = left;
                }
                Err(error) if stale && error.raw_os_error() == Some(libc::ENETDOWN) => stale = false,
                Err(error) => match refusal(&error) {
                    Refusal::One(reason) => {
                        counters.tx_drops.count(reason, Remains::Packet(&rest[0].mbuf));
                        rest = &rest[1..];
                    }
                    Refusal::Rest(reason) => {
                        rest.iter().for_each(|one| counters.tx_drops.count(reason, Remains::Packet(&one.mbuf)));
                        break;
                    }
                },
            }
        }
        self.packets.clear();
    }
}

/// Why the kernel did not take a packet.
fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        // The socket's send buffer is full.
        Some(libc::EAGAIN) => Refusal::Rest(DropReason::TxFull),
        // The interface's queue dropped this packet; a veth says so too of one that its peer
        // refuses.
        Some(libc::ENOBUFS) => Refusal::One(DropReason::TxFull),
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Refusal::Rest(DropReason::LinkDown),
        _ => Refusal::One(DropReason::TxError),
    }
}

/// The control side.
#[derive(Debug)]
pub struct AfPacketDevice {
    socket: Arc<PacketSocket>,
    missed: AtomicU64,
    uso: bool,
}

impl AfPacketDevice {
    /// Up while the interface exists, is up and has carrier.
    #[must_use]
    pub fn link(&self) -> Link {
        let up = self.socket.running();
        Link { up, speed_mbps: if up { self.socket.speed_mbps() } else { 0 } }
    }

    /// That the interface is gone, if it is. One of the same name that comes later is another one.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let gone = || format!("{}: the interface is gone: remove the port and add it again", self.socket.interface());
        self.socket.mtu().is_none().then(gone)
    }

    /// Address of the interface; none when it is gone.
    #[must_use]
    pub fn mac(&self) -> Option<Mac> {
        self.socket.mac().map(Mac)
    }

    /// Index of the interface; none when it is gone.
    #[must_use]
    pub fn interface_index(&self) -> Option<u32> {
        self.socket.index()
    }

    /// MTU of the interface, in bytes; none when it is gone.
    #[must_use]
    pub fn mtu(&self) -> Option<u32> {
        self.socket.mtu()
    }

    /// Sets the MTU of the interface, in bytes.
    ///
    /// # Errors
    /// When the kernel refuses it or the interface is gone.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), KernelError> {
        self.socket.set_mtu(mtu)
    }

    /// Nothing: the interface's flags are its owner's. The switch keeps packets from a port that is
    /// down.
    ///
    /// # Errors
    /// None; the signature is that of every device.
    pub fn set_admin(&self, _up: bool) -> Result<(), KernelError> {
        Ok(())
    }

    /// What may be sent unfinished: all, UDP trains where the kernel knows them (Linux 6.2).
    #[must_use]
    pub fn tx_caps(&self) -> TxCaps {
        TxCaps { csum: true, tso4: true, tso6: true, uso: self.uso }
    }

    /// Names of the offloads in use.
    #[must_use]
    pub const fn offloads(&self) -> &'static [&'static str] {
        super::KERNEL_OFFLOADS
    }

    /// `rx_missed`: packets that found the ring full.
    #[must_use]
    pub fn counters(&self) -> DeviceCounters {
        // The kernel starts over at each reading; readers that come at once share what it gives.
        let new = self.socket.take_missed();
        DeviceCounters { rx_missed: self.missed.fetch_add(new, Relaxed) + new, ..DeviceCounters::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_dpdk::kernel::testing::filler;

    #[test]
    fn offsets_move_behind_the_tag() {
        let header = VnetHdr { flags: 1, hdr_len: 66, csum_start: 34, csum_offset: 16, ..VnetHdr::default() };
        let moved = behind_tag(header).expect("room");
        assert_eq!((moved.csum_start, moved.hdr_len, moved.csum_offset), (38, 70, 16));
        let none = VnetHdr { flags: 2, csum_start: 9, ..VnetHdr::default() };
        assert_eq!(behind_tag(none), Some(none));
        assert_eq!(behind_tag(VnetHdr { csum_start: 65_533, ..header }), None);
    }

    #[test]
    fn parts_fill_segments_and_an_empty_pool_takes_nothing() {
        let pool = Mempool::for_tests(40);
        let mut segments = Vec::with_capacity(SEGMENTS);
        let bytes = filler(65_557);
        for len in [0, 1, 12, 2047, 2048, 2049, 65_557] {
            let (a, b) = bytes[..len].split_at(len.min(12));
            let mbuf = copy([a, &[1, 2, 3, 4], b], &pool, &mut segments).expect("mbuf");
            assert_eq!(mbuf.to_vec(), [a, &[1, 2, 3, 4], b].concat(), "{len}");
            assert_eq!(mbuf.nb_segs(), (len + 4).div_ceil(2048), "{len}");
        }
        let held = pool.mbuf_from(&bytes[..20_000]).expect("mbuf");
        assert!(copy([&bytes], &pool, &mut segments).is_none());
        assert_eq!((segments.len(), pool.in_use()), (0, held.nb_segs()));
    }

    #[test]
    fn refusals_say_who_is_meant() {
        for (errno, refused) in [
            (libc::EAGAIN, Refusal::Rest(DropReason::TxFull)),
            (libc::ENOBUFS, Refusal::One(DropReason::TxFull)),
            (libc::ENETDOWN, Refusal::Rest(DropReason::LinkDown)),
            (libc::ENXIO, Refusal::Rest(DropReason::LinkDown)),
            (libc::EMSGSIZE, Refusal::One(DropReason::TxError)),
            (libc::EINVAL, Refusal::One(DropReason::TxError)),
        ] {
            assert_eq!(refusal(&io::Error::from_raw_os_error(errno)), refused, "errno {errno}");
        }
    }
}
