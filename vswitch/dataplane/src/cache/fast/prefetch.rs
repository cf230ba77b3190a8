//! What first packets of connections will read, asked for while the burst is still being read.
//!
//! A packet that no cache of compact keys knows is going to meet `ct()`, if those before it did,
//! and its connection is looked for in the zones in which theirs were. So the lines of the
//! tracker's index are asked for by these zones, for all such packets of the burst at once: else
//! they would be waited for one after the other. All of it is a guess, that changes nothing when it
//! is wrong.

use crate::cache::fast::compact::CompactKind;
use crate::cache::fast::exact::NOWHERE;
use crate::cache::{Cache, Compact};
use crate::limits::PORTS_MAX;
use crate::packet::{tcp, udp};
use crate::port::PortId;
use vswitch_conntrack::{End, Family, Tracker, Tuple};
use vswitch_dpdk::{Burst, Mbuf, prefetch, prefetch_to_write};

/// Zones that are remembered of a port.
const ZONES: usize = 2;

/// By port: the zones in which its packets met `ct()` lately, the last one first.
#[derive(Debug)]
pub(in crate::cache) struct Zones(Box<[[Option<u16>; ZONES]]>);

impl Default for Zones {
    fn default() -> Self {
        Self(vec![[None; ZONES]; PORTS_MAX].into())
    }
}

impl Zones {
    #[inline]
    fn of(&self, port: PortId) -> [Option<u16>; ZONES] {
        self.0.get(port.index()).copied().unwrap_or_default()
    }

    #[inline]
    fn met(&mut self, port: PortId, zone: u16) {
        if let Some(zones) = self.0.get_mut(port.index())
            && zones[0] != Some(zone)
        {
            zones.rotate_right(1);
            zones[0] = Some(zone);
        }
    }
}

impl Cache {
    /// A packet of the port whose burst this is met `ct()` in this zone.
    #[inline]
    pub(crate) fn met(&mut self, zone: u16) {
        self.zones.met(self.payer, zone);
    }

    /// The packets of the port whose burst this is meet `ct()`, as far as is known.
    #[inline]
    pub(in crate::cache) fn meets_ct(&self) -> bool {
        self.zones.of(self.payer)[0].is_some()
    }

    /// The packet is likely to open a connection: it is not kept in the exact-match cache.
    #[inline]
    pub(crate) fn opens(&self, key: &Compact, mbuf: &Mbuf) -> bool {
        self.meets_ct() && key.opens(mbuf.head())
    }

    /// Asks for what the packets of the burst will read of the tracker that were not found.
    pub(crate) fn look_ahead(&self, burst: &Burst, tracker: &Tracker) {
        let zones = self.zones.of(self.payer);
        if zones[0].is_none() {
            return;
        }
        let unknown = self.keys.iter().zip(burst.iter()).enumerate().filter(|(_, (key, _))| key.found == NOWHERE);
        for tuple in unknown.filter_map(|(i, (key, mbuf))| key.tuple(self.decap.front(i, mbuf))) {
            for zone in zones.into_iter().flatten() {
                tracker.lines_of(&Tuple { zone, ..tuple }).into_iter().for_each(prefetch);
            }
        }
    }

    /// Asks for the place of the worker's next new connection, if the port's packets open any.
    #[inline]
    pub(crate) fn look_for_place(&self, tracker: &Tracker, worker: usize) {
        if self.meets_ct()
            && let Some(word) = tracker.next_place(worker)
        {
            prefetch_to_write(word);
            tracker.next_apart(worker).for_each(prefetch_to_write);
        }
    }
}

/// Of TCP's flags.
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

impl Compact {
    /// `head`: the first bytes of its packet. It is of a segment that opens a connection, or
    /// answers such a one: no program is made of what becomes of it.
    #[inline]
    pub(in crate::cache) fn opens(&self, head: &[u8]) -> bool {
        self.tcp_flags(head) & SYN != 0
    }

    /// Likewise: it is of the first segment of a connection.
    #[inline]
    pub(crate) fn is_first(&self, head: &[u8]) -> bool {
        self.tcp_flags(head) & (SYN | ACK) == SYN
    }

    /// 0 of another protocol.
    #[inline]
    fn tcp_flags(&self, head: &[u8]) -> u8 {
        let layers = self.layers();
        let byte = |at: u16| head.get(usize::from(at)).copied().unwrap_or_default();
        let protocol = match self.kind {
            CompactKind::None => return 0,
            CompactKind::V4 => byte(layers.l3 + 9),
            CompactKind::V6 => byte(layers.l3 + 6),
        };
        if protocol == tcp::PROTOCOL { byte(layers.l4 + 13) } else { 0 }
    }

    /// It is of IPv6.
    #[inline]
    pub(crate) fn is_v6(&self) -> bool {
        self.kind == CompactKind::V6
    }

    /// `head`: the first bytes of its packet. Addresses and ports, if it is of TCP or UDP.
    pub(in crate::cache) fn tuple(&self, head: &[u8]) -> Option<Tuple> {
        let layers = self.layers();
        let (l3, l4) = (head.get(layers.l3.into()..)?, head.get(layers.l4.into()..)?);
        let [a, b, c, d] = *l4.first_chunk()?;
        let (src_port, dst_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (protocol, family, src, dst) = match self.kind {
            CompactKind::None => return None,
            CompactKind::V4 => {
                let address = |at: usize| Some(u32::from_be_bytes(*l3.get(at..)?.first_chunk()?).into());
                (*l3.get(9)?, Family::V4, address(12)?, address(16)?)
            }
            CompactKind::V6 => {
                let address = |at: usize| Some(u128::from_be_bytes(*l3.get(at..)?.first_chunk()?));
                (*l3.get(6)?, Family::V6, address(8)?, address(24)?)
            }
        };
        let end = |addr: u128, port: u16| End { addr, port };
        let tuple = Tuple { src: end(src, src_port), dst: end(dst, dst_port), family, protocol, ..Tuple::default() };
        matches!(protocol, tcp::PROTOCOL | udp::PROTOCOL).then_some(tuple)
    }
}
