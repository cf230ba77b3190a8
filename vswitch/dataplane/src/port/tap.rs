//! TAP ports (kinds `tap` and `internal`): an interface that the switch makes for the host or a
//! Pod.
//!
//! **Where in the walk**: both ends. The host's packets come by `read`, ours go by `write`, one
//! call per packet: TAP has no call for several.
//!
//! **Design**: the interface belongs to its descriptors. It goes when the last of the values here
//! is dropped, and may be renamed or moved to another network namespace while they live; everything
//! here follows it there. Checksums and GSO cross both ways unfinished. An idle queue is polled
//! less and less often, down to one in [`IDLE_POLLS_MAX`].
//!
//! **Queues**: each is a descriptor of its own, for one direction as for the other. Of a connection
//! the kernel remembers the queue by which our last packet came and answers by it, so what a worker
//! sent it gets the answers of, if it polls the queue of its own number; what the host begins is
//! spread by a hash. Carrier, address, MTU and namespace are the interface's, whatever the queue.
//!
//! **Limits**: a receive queue keeps [`SegmentReader::SPARES`] mbufs at hand.
//!
//! **Threads**: each queue has one user at a time; the device may be used from any thread.

use super::{DeviceCounters, Link};
use crate::limits::BURST;
use crate::observe::{DropReason, PortCounters, Remains};
use crate::packet::{Mac, TxCaps, VnetHdr};
use std::sync::Arc;
use vswitch_dpdk::kernel::{Gather, KernelError, Outgoing, SegmentReader, Tap, TapState, Unreadable, VNET_LEN};
use vswitch_dpdk::{Burst, Mempool};

const _: () = assert!(VNET_LEN == VnetHdr::LEN);

/// Polls of an idle receive queue per system call, at most.
pub const IDLE_POLLS_MAX: u32 = 64;

/// Makes the interface, brings it up and opens it. `mac` none: a random local address; `mtu` in
/// bytes; `queues` each way, at least 1.
///
/// # Errors
/// Names the interface, the call that the kernel refused, and how to fix it.
pub fn open(
    interface: &str,
    mac: Option<Mac>,
    mtu: u16,
    queues: u16,
    pool: &Mempool,
) -> Result<(Vec<TapRxQueue>, Vec<TapTxQueue>, TapDevice), KernelError> {
    let tap = Arc::new(Tap::create(interface, mac.map(|mac| mac.0), mtu, queues)?);
    let rx = |queue| {
        let reader = SegmentReader::new(pool);
        TapRxQueue { tap: Arc::clone(&tap), queue, reader, idle: Idle::default() }
    };
    let tx = |queue| TapTxQueue { tap: Arc::clone(&tap), queue, gather: Gather::default() };
    let all = 0..tap.queues();
    Ok((all.clone().map(rx).collect(), all.map(tx).collect(), TapDevice { tap }))
}

/// How many polls to skip: none after traffic, then 1, 2, 4 and so on after each poll that found
/// nothing.
#[derive(Debug, Default)]
struct Idle {
    skip: u32,
    next: u32,
}

impl Idle {
    /// Whether this poll is skipped.
    fn skips(&mut self) -> bool {
        let skips = self.skip > 0;
        self.skip = self.skip.saturating_sub(1);
        skips
    }

    fn found(&mut self, anything: bool) {
        self.next = if anything { 0 } else { (self.next * 2).clamp(1, IDLE_POLLS_MAX - 1) };
        self.skip = self.next;
    }
}

/// Packets of the host.
#[derive(Debug)]
pub struct TapRxQueue {
    tap: Arc<Tap>,
    queue: usize,
    reader: SegmentReader,
    idle: Idle,
}

impl TapRxQueue {
    /// Appends what came in, up to a full burst. A deleted interface gives nothing.
    pub fn receive(&mut self, burst: &mut Burst, counters: &PortCounters) {
        if burst.is_full() || self.idle.skips() {
            return;
        }
        let mut anything = false;
        for _ in burst.len()..BURST {
            match self.reader.read(self.tap.fd(self.queue)) {
                // The kernel had a packet that the header cannot describe, and dropped it.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    counters.refuse(DropReason::VnetHeader, Remains::Nothing);
                }
                // EAGAIN, or EBADFD of a deleted interface: nothing now, and the same back-off.
                Ok(None) | Err(_) => break,
                Ok(Some(Err(fault))) => counters.refuse(unreadable(fault), Remains::Nothing),
                Ok(Some(Ok(mut packet))) => match VnetHdr::from_bytes(&packet.header).accept(&mut packet.mbuf) {
                    Ok(()) => {
                        // There is room: the loop counts the slots.
                        let _ = burst.push(packet.mbuf);
                    }
                    Err(reason) => counters.refuse(reason, Remains::Packet(&packet.mbuf)),
                },
            }
            anything = true;
        }
        self.idle.found(anything);
    }

    /// Ends the back-off: the next poll looks. For a worker that slept, since its polls are few and
    /// far between.
    pub fn wake(&mut self) {
        self.idle = Idle::default();
    }
}

/// Packets to the host.
#[derive(Debug)]
pub struct TapTxQueue {
    tap: Arc<Tap>,
    queue: usize,
    gather: Gather,
}

impl TapTxQueue {
    /// Sends the burst and leaves it empty. Drops: [`DropReason::TxFull`], [`DropReason::LinkDown`]
    /// (interface down or deleted), [`DropReason::VnetHeader`], [`DropReason::TxError`].
    pub fn send(&mut self, burst: &mut Burst, counters: &PortCounters) {
        let (mut packets, mut bytes) = (0, 0);
        // After this the rest of the burst would meet the same answer, at a system call each.
        let mut closed = None;
        for mbuf in burst.drain() {
            let described = closed.map_or_else(|| VnetHdr::describe(&mbuf), Err);
            let packet = Outgoing { header: described.unwrap_or_default().to_bytes(), mbuf };
            let write = |_| self.tap.write(self.queue, &mut self.gather, &packet).map_err(|error| reason(&error));
            match described.and_then(write) {
                Ok(()) => {
                    packets += 1;
                    bytes += packet.mbuf.len() as u64;
                }
                Err(reason) => {
                    if matches!(reason, DropReason::TxFull | DropReason::LinkDown) {
                        closed = Some(reason);
                    }
                    counters.tx_drops.count(reason, Remains::Packet(&packet.mbuf));
                }
            }
        }
        counters.tx_packets.add(packets);
        counters.tx_bytes.add(bytes);
    }
}

/// Why the kernel did not take a packet.
fn reason(error: &std::io::Error) -> DropReason {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => DropReason::TxFull,
        Some(libc::EIO | libc::EBADFD) => DropReason::LinkDown,
        _ => DropReason::TxError,
    }
}

/// The control side.
#[derive(Debug)]
pub struct TapDevice {
    tap: Arc<Tap>,
}

impl TapDevice {
    /// Up while the interface exists and its owner keeps it up. A TAP has no speed.
    #[must_use]
    pub fn link(&self) -> Link {
        Link { up: self.tap.state() == TapState::Up, speed_mbps: 0 }
    }

    /// That the interface was deleted, if it was.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let gone = || format!("{}: the interface is gone: remove the port and add it again", self.tap.name());
        (self.tap.state() == TapState::Gone).then(gone)
    }

    /// Address of the interface; none when it is gone.
    #[must_use]
    pub fn mac(&self) -> Option<Mac> {
        self.tap.mac().map(Mac)
    }

    /// Index of the interface; none when it is gone, or in another network namespace.
    #[must_use]
    pub fn interface_index(&self) -> Option<u32> {
        self.tap.index_here()
    }

    /// MTU of the interface, in bytes; none when it is gone, or in another network namespace.
    #[must_use]
    pub fn mtu(&self) -> Option<u32> {
        self.tap.mtu_here()
    }

    /// Sets the MTU of the interface, in bytes, wherever it is now.
    ///
    /// # Errors
    /// When the kernel refuses; in another network namespace it needs CAP_SYS_ADMIN.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), KernelError> {
        self.tap.set_mtu(mtu)
    }

    /// Gives or takes the interface's carrier, as a switch does to a cable. Whether it is up stays
    /// its owner's business.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn set_admin(&self, up: bool) -> Result<(), KernelError> {
        self.tap.set_carrier(up)
    }

    /// What may be sent unfinished: all, UDP trains where the kernel knows them (Linux 6.2).
    #[must_use]
    pub fn tx_caps(&self) -> TxCaps {
        TxCaps { csum: true, tso4: true, tso6: true, uso: self.tap.takes_uso() }
    }

    /// Queues each way.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.tap.queues()
    }

    /// Names of the offloads in use.
    #[must_use]
    pub const fn offloads(&self) -> &'static [&'static str] {
        super::KERNEL_OFFLOADS
    }

    /// `rx_missed`: packets of the host that found the interface's queue full.
    #[must_use]
    pub fn counters(&self) -> DeviceCounters {
        DeviceCounters { rx_missed: self.tap.missed(), ..DeviceCounters::default() }
    }
}

/// Why a packet that the kernel had is dropped.
const fn unreadable(fault: Unreadable) -> DropReason {
    match fault {
        Unreadable::NoMbuf => DropReason::NoMbuf,
        Unreadable::Oversize => DropReason::Oversize,
        Unreadable::VnetHeader => DropReason::VnetHeader,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_polls_double_up_to_the_bound_and_traffic_ends_them() {
        let mut idle = Idle::default();
        let mut gaps = Vec::new();
        for _ in 0..9 {
            gaps.push((0..).take_while(|_| idle.skips()).count());
            idle.found(false);
        }
        assert_eq!(gaps, [0, 1, 2, 4, 8, 16, 32, 63, 63]);
        idle.found(true);
        assert!(!idle.skips());
    }
}
