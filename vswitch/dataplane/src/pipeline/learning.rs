//! The Ethernet learning switch: OpenFlow's `NORMAL` action in a bridge without VLAN configuration
//! (IEEE 802.1D; ovs-actions(7), "normal").

use super::{FailMode, FdbKey, FdbPlace, FdbReader, Sighting};
use crate::observe::DropReason;
use crate::packet::{L2, Mac};
use crate::port::PortId;

/// What is to happen with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearningVerdict {
    /// Leaves by one port.
    Output(PortId),
    /// Leaves by every port of the bridge's flood list but the one it came from.
    Flood,
    /// Dies.
    Drop(DropReason),
}

/// A packet's addresses as keys of the MAC table, with their hashes. The default is that of no
/// packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup {
    source: FdbKey,
    destination: FdbKey,
    source_place: FdbPlace,
    destination_place: FdbPlace,
}

impl Lookup {
    /// Prepares both lookups and asks for their cache lines.
    #[inline]
    #[must_use]
    pub fn new(fdb: FdbReader<'_>, l2: L2) -> Self {
        let source = FdbKey::new(l2.source, l2.vlan);
        let destination = FdbKey::new(l2.destination, l2.vlan);
        let (source_place, destination_place) = (fdb.place(source), fdb.place(destination));
        fdb.prefetch(source_place);
        fdb.prefetch(destination_place);
        Self { source, destination, source_place, destination_place }
    }

    /// It is that of a packet.
    #[inline]
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.source != FdbKey::default()
    }
}

/// Whether `NORMAL` does more with a packet than [`decide`] does: tags that say no VLAN are taken
/// off, some are wrong, and vendors' link protocols are not forwarded. Such packets take the slow
/// path.
#[inline]
#[must_use]
pub fn is_special(l2: &L2) -> bool {
    // Vendors' addresses begin with 01:00:0c or 00:e0:2b.
    l2.odd_tag || matches!(l2.destination >> 24, 0x01_000c | 0x00_e02b) && is_vendors(Mac::from_u64(l2.destination))
}

/// Addresses of vendors' link protocols that Open vSwitch does not forward: EDP, EAPS; ISL, CDP and
/// others, PVST+, FlexLink, CFM.
#[must_use]
pub fn is_vendors(mac: Mac) -> bool {
    let mac = mac.to_u64();
    matches!(
        mac,
        0x00e0_2b00_0000
            | 0x00e0_2b00_0004
            | 0x00e0_2b00_0006
            | 0x0100_0c00_0000
            | 0x0100_0ccc_cccc
            | 0x0100_0ccc_cccd
            | 0x0100_0ccd_cdcd
            | 0x0100_0ccc_ccc0..=0x0100_0ccc_ccc7
    )
}

/// Learns the source, seen on `in_port`, and finds where the packet goes.
#[inline(always)] // in the walk's inner loop: a call costs as much as a lookup
pub fn decide(
    fail_mode: FailMode,
    fdb: FdbReader<'_>,
    lookup: &Lookup,
    in_port: PortId,
    seen: Sighting,
) -> LearningVerdict {
    if fail_mode == FailMode::Secure {
        return LearningVerdict::Drop(DropReason::BridgeSecure);
    }
    let flood = lookup.destination.is_multicast();
    if flood && lookup.destination.is_reserved() {
        return LearningVerdict::Drop(DropReason::ReservedMulticast);
    }
    if !lookup.source.is_multicast() {
        fdb.learn(&lookup.source, lookup.source_place, seen);
    }
    if flood {
        return LearningVerdict::Flood;
    }
    match fdb.lookup(&lookup.destination, lookup.destination_place) {
        Some(port) if port == in_port => LearningVerdict::Drop(DropReason::SamePort),
        Some(port) => LearningVerdict::Output(port),
        None => LearningVerdict::Flood,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{Bridge, Fdb};
    use std::sync::Arc;

    fn bridge(fail_mode: FailMode) -> Bridge {
        Bridge::new("br", fail_mode, Arc::new(Fdb::new(16, 300)))
    }

    fn run(bridge: &Bridge, destination: u64, source: u64, in_port: u16) -> LearningVerdict {
        let l2 = L2 { destination, source, vlan: 0, odd_tag: false };
        let (port, fdb) = (PortId(in_port), bridge.fdb.reader());
        decide(bridge.fail_mode, fdb, &Lookup::new(fdb, l2), port, Sighting::new(port, 0))
    }

    #[test]
    fn learns_floods_and_filters_like_open_vswitch() {
        let bridge = bridge(FailMode::Standalone);
        let broadcast = 0xffff_ffff_ffff;
        assert_eq!(run(&bridge, 0xb, 0xa, 1), LearningVerdict::Flood, "unknown destination");
        assert_eq!(run(&bridge, 0xa, 0xb, 2), LearningVerdict::Output(PortId(1)));
        assert_eq!(run(&bridge, 0xb, 0xa, 1), LearningVerdict::Output(PortId(2)));
        assert_eq!(run(&bridge, 0xb, 0xc, 2), LearningVerdict::Drop(DropReason::SamePort));
        assert_eq!(run(&bridge, broadcast, 0xa, 1), LearningVerdict::Flood);
        assert_eq!(run(&bridge, 0x0180_c200_000e, 0xa, 1), LearningVerdict::Drop(DropReason::ReservedMulticast));
        assert_eq!(run(&bridge, 0x0180_c200_0010, 0xa, 1), LearningVerdict::Flood, "only 00 to 0f are reserved");
        assert_eq!(
            run(&bridge, 0xa, 0x0100_5e00_0001, 3),
            LearningVerdict::Output(PortId(1)),
            "multicast source: forwarded"
        );
        assert_eq!(run(&bridge, 0x0100_5e00_0001, 0xa, 1), LearningVerdict::Flood, "and not learned");
        assert_eq!(run(&bridge, 0xb, 0, 4), LearningVerdict::Output(PortId(2)));
        assert_eq!(run(&bridge, 0, 0xb, 2), LearningVerdict::Output(PortId(4)), "the zero address is learned");
    }

    #[test]
    fn secure_bridge_drops_and_learns_nothing() {
        let bridge = bridge(FailMode::Secure);
        assert_eq!(run(&bridge, 0xb, 0xa, 1), LearningVerdict::Drop(DropReason::BridgeSecure));
        assert_eq!(bridge.fdb.stats().entries, 0);
    }
}
