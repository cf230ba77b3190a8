//! Ports of both kernel kinds with the other end in a network namespace, for the tests on real
//! interfaces.

use super::{Link, af_packet, tap};
use crate::observe::{DropReason, PortCounters};
use crate::packet::TxCaps;
use vswitch_dpdk::kernel::testing::{Netns, PlainSocket, eventually, ip, unique_name};
use vswitch_dpdk::{Burst, Mbuf, Mempool};

/// Either kind of port, with its counters.
pub(super) struct Port {
    kind: DeviceKind,
    pub(super) counters: PortCounters,
}

#[allow(clippy::large_enum_variant)] // two of them in a test
enum DeviceKind {
    Tap(tap::TapRxQueue, tap::TapTxQueue, tap::TapDevice),
    AfPacket(af_packet::AfPacketRxQueue, af_packet::AfPacketTxQueue, af_packet::AfPacketDevice),
}

type Drops = Vec<(DropReason, u64)>;

impl Port {
    pub(super) fn receive(&mut self, burst: &mut Burst) {
        match &mut self.kind {
            DeviceKind::Tap(rx, ..) => rx.receive(burst, &self.counters),
            DeviceKind::AfPacket(rx, ..) => rx.receive(burst, &self.counters),
        }
    }

    pub(super) fn send(&mut self, burst: &mut Burst) {
        match &mut self.kind {
            DeviceKind::Tap(_, tx, _) => tx.send(burst, &self.counters),
            DeviceKind::AfPacket(_, tx, _) => tx.send(burst, &self.counters),
        }
        assert!(burst.is_empty(), "send leaves the burst empty");
    }

    pub(super) fn link(&self) -> Link {
        match &self.kind {
            DeviceKind::Tap(.., device) => device.link(),
            DeviceKind::AfPacket(.., device) => device.link(),
        }
    }

    pub(super) fn trouble(&self) -> Option<String> {
        match &self.kind {
            DeviceKind::Tap(.., device) => device.trouble(),
            DeviceKind::AfPacket(.., device) => device.trouble(),
        }
    }

    pub(super) fn missed(&self) -> u64 {
        match &self.kind {
            DeviceKind::Tap(.., device) => device.counters().rx_missed,
            DeviceKind::AfPacket(.., device) => device.counters().rx_missed,
        }
    }

    pub(super) fn set_mtu(&self, mtu: u16) {
        match &self.kind {
            DeviceKind::Tap(.., device) => device.set_mtu(mtu),
            DeviceKind::AfPacket(.., device) => device.set_mtu(mtu),
        }
        .expect("the MTU is set");
    }

    pub(super) fn mac(&self) -> Option<String> {
        match &self.kind {
            DeviceKind::Tap(.., device) => device.mac(),
            DeviceKind::AfPacket(.., device) => device.mac(),
        }
        .map(|mac| mac.to_string())
    }

    pub(super) fn tx_caps(&self) -> TxCaps {
        match &self.kind {
            DeviceKind::Tap(.., device) => device.tx_caps(),
            DeviceKind::AfPacket(.., device) => device.tx_caps(),
        }
    }

    /// The next frame whose destination begins with `prefix`.
    pub(super) fn receive_one(&mut self, prefix: &[u8]) -> Mbuf {
        let mut burst = Burst::new();
        eventually("a frame", || {
            self.receive(&mut burst);
            burst.drain().find(|mbuf| mbuf.head().starts_with(prefix))
        })
    }

    /// Sends frames in one burst.
    pub(super) fn send_all(&mut self, pool: &Mempool, frames: &[Vec<u8>]) {
        let mut burst = Burst::new();
        for frame in frames {
            burst.push(pool.mbuf_from(frame).expect("mbuf")).expect("room");
        }
        self.send(&mut burst);
    }

    /// Drops by reason, received and sent.
    pub(super) fn drops(&self) -> (Drops, Drops) {
        let nonzero = |drops: &crate::observe::Drops| {
            let counts = DropReason::ALL.iter().map(|reason| (*reason, drops.get(*reason)));
            counts.filter(|(_, n)| *n > 0).collect()
        };
        (nonzero(&self.counters.rx_drops), nonzero(&self.counters.tx_drops))
    }
}

/// A port whose other end is `eth0` of a namespace.
pub(super) fn af_packet_port(pool: &Mempool) -> (Netns, String, Port) {
    let (netns, host) = Netns::with_veth();
    let (rx, tx, device) = af_packet::open(&host, pool).expect("a port");
    (netns, host, Port { kind: DeviceKind::AfPacket(rx, tx, device), counters: PortCounters::default() })
}

/// A port whose interface is `eth0` of a namespace.
pub(super) fn tap_port(pool: &Mempool) -> (Netns, Port) {
    let (netns, name) = (Netns::new(), unique_name("t"));
    let (mut rx, mut tx, device) = tap::open(&name, None, 1500, 1, pool).expect("a port");
    let (rx, tx) = (rx.pop().expect("a queue"), tx.pop().expect("a queue"));
    ip(&format!("link set {name} netns {}", netns.name()));
    netns.ip(&format!("link set {name} name eth0"));
    netns.ip("link set eth0 up");
    let mut port = Port { kind: DeviceKind::Tap(rx, tx, device), counters: PortCounters::default() };
    // What IPv6 had to say before the move.
    let mut burst = Burst::new();
    for _ in 0..2 * tap::IDLE_POLLS_MAX {
        port.receive(&mut burst);
        burst.clear();
    }
    (netns, port)
}

/// Runs a test on both kinds, with a socket on the interface at the other end.
pub(super) fn on_both(pool: &Mempool, test: impl Fn(&str, &mut Port, &PlainSocket, &Netns)) {
    let (netns, _, mut port) = af_packet_port(pool);
    test("af_packet", &mut port, &netns.plain_socket("eth0"), &netns);
    drop((netns, port));
    let (netns, mut port) = tap_port(pool);
    test("tap", &mut port, &netns.plain_socket("eth0"), &netns);
    drop((netns, port));
    assert_eq!(pool.in_use(), 0, "mbufs leaked");
}
