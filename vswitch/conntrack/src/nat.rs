//! Which tuple a connection is translated to.
//!
//! Candidates are tried in an order that depends on the tuple alone (and on chance, if `random`),
//! until one is free or [`PROBES`] were tried. A range with no more candidates than that is
//! searched whole. Of a larger one every member is some connection's candidate: half the probes run
//! upward from where the search begins, the other half is spread evenly over the rest. So only a
//! range that is nearly full may be refused though it has room: with one port in a hundred free,
//! for three connections in 100,000.

use crate::{End, Tuple};
use std::cell::Cell;
use std::ops::ControlFlow;

#[cfg(test)]
mod tests;

/// Most candidates that are tried for a connection: many enough that a range of 64k is found full
/// by mistake only when it is nearly full, and few enough that a worker is not held up for long by
/// connections that find a full range. (Open vSwitch tries 128 neighbours, then some more by
/// chance.)
const PROBES: u32 = 1024;

/// With more than one address, at least this many candidates of an address are tried before the
/// next address is (Open vSwitch's first round).
const PROBES_ADDRESS: u32 = 128;

/// What is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatSide {
    /// The source of the original direction.
    Src,
    /// Its destination.
    Dst,
}

/// `nat(...)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    /// None: bare `nat`, as the connection has it.
    pub side: Option<NatSide>,
    /// First and last address; IPv4 in the low 32 bits. None, or a first address of zero: the
    /// original's own.
    pub addresses: Option<(u128, u128)>,
    /// First and last port. Only of protocols with ports: an ICMP identifier is kept if it can be.
    pub ports: Option<(u16, u16)>,
    /// `random`: where to begin in the range of ports is random, not by hash.
    pub random: bool,
}

/// The tuple of the replies to a new connection that is translated like this, one that `is_free`;
/// none if none of those that may be tried is. `hash`: of the original tuple, keyed.
///
/// - Source, no ports: the original's source port if it is free, else the next one upward in its
///   class (1-511, 600-1023, 1024-65535), around.
/// - Source with ports: from a port by hash upward, around.
/// - Destination: the port as it is, or with ports from one by hash upward, around; if none is
///   free, another source port as above.
/// - ICMP: the identifier as it is, else the next one upward, around. Other protocols have their
///   addresses only.
/// - Addresses: from one by hash upward, around, each with all its ports before the next.
/// - Bare: nothing is translated.
pub fn choose(original: &Tuple, nat: &Nat, hash: u64, mut is_free: impl FnMut(&Tuple) -> bool) -> Option<Tuple> {
    let as_is = original.reversed();
    let Some(side) = nat.side else {
        return is_free(&as_is).then_some(as_is);
    };
    let plan = Plan::new(original, nat, side, hash);
    let (mut left, mut found) = (PROBES, None);
    for number in 0..plan.addresses {
        let base = plan.at_address(as_is, number);
        let mut probe = |tuple: Tuple| {
            left -= 1;
            if is_free(&tuple) {
                found = Some(tuple);
            }
            if found.is_some() || left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if plan.search(base, &mut probe).is_break() {
            break;
        }
    }
    found
}

/// What there is to try.
struct Plan {
    side: NatSide,
    /// First address of the range.
    address: u128,
    /// How many addresses the range has, and which of them is tried first.
    address_ring: (u128, u128),
    /// How many addresses are tried.
    addresses: u32,
    /// Destination ports, if another one is asked for.
    dst: Option<Ring>,
    /// Source ports, of ICMP identifiers; none of protocols without.
    src: Option<Ring>,
    /// Identifiers have the same place in both tuples, ports do not.
    is_icmp: bool,
    /// Candidates tried of each address.
    share: u32,
}

impl Plan {
    fn new(original: &Tuple, nat: &Nat, side: NatSide, hash: u64) -> Self {
        let own = match side {
            NatSide::Src => original.src.addr,
            NatSide::Dst => original.dst.addr,
        };
        let (first, last) = nat.addresses.filter(|&(first, _)| first != 0).unwrap_or((own, own));
        let count = last.saturating_sub(first).saturating_add(1);
        let ports = nat.ports.filter(|_| original.has_ports());
        let start = if nat.random { dice(hash) } else { hash >> 32 };
        let class = if original.has_ports() {
            Some(Ring::of_class(original.src.port, start))
        } else {
            original.is_icmp().then(|| Ring::new(original.src.port, (0, u16::MAX), start))
        };
        let (dst, src) = match (side, ports) {
            (NatSide::Src, Some(range)) => (None, Some(Ring::by_hash(range, start))),
            (NatSide::Dst, Some(range)) => (Some(Ring::by_hash(range, start)), class),
            (_, None) => (None, class),
        };
        let each = dst.map_or(0, |ring| ring.len()) + src.map_or(1, |ring| ring.len());
        let all = count.saturating_mul(u128::from(each));
        let addresses = u32::try_from(count).map_or(PROBES, |count| count.min(PROBES));
        let share = if all <= u128::from(PROBES) { each } else { (PROBES / addresses).max(PROBES_ADDRESS).min(each) };
        Self {
            side,
            address: first,
            addresses,
            address_ring: (count, u128::from(hash & 0xffff_ffff) % count),
            dst,
            src,
            is_icmp: original.is_icmp(),
            share,
        }
    }

    /// The tuple of the replies with the address that comes as the `number`th.
    fn at_address(&self, as_is: Tuple, number: u32) -> Tuple {
        let (count, first) = self.address_ring;
        let room = count - first;
        let number = u128::from(number);
        let offset = if number < room { first + number } else { number - room };
        let mut tuple = as_is;
        match self.side {
            NatSide::Src => tuple.dst.addr = self.address + offset,
            NatSide::Dst => tuple.src.addr = self.address + offset,
        }
        tuple
    }

    /// Tries what is to be tried of one address.
    fn search(&self, mut base: Tuple, probe: &mut impl FnMut(Tuple) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut share = self.share;
        if let Some(ring) = self.dst {
            // Something is left for source ports.
            let tries = ring.len().min(share - share / 4);
            share -= tries;
            for port in ring.ports(tries) {
                probe(Tuple { src: End { port, ..base.src }, ..base })?;
            }
            base.src.port = ring.start;
        }
        let Some(ring) = self.src else {
            return probe(base);
        };
        for port in ring.ports(ring.len().min(share)) {
            let mut tuple = base;
            if self.is_icmp {
                tuple.src.port = port;
            } else {
                tuple.dst.port = port;
            }
            probe(tuple)?;
        }
        ControlFlow::Continue(())
    }
}

/// Ports in the order in which they are tried.
#[derive(Clone, Copy)]
struct Ring {
    /// Tried first. May lie below the others.
    start: u16,
    first: u16,
    last: u16,
    /// Which ones are tried when not all are.
    phase: u64,
}

impl Ring {
    fn new(start: u16, (first, last): (u16, u16), phase: u64) -> Self {
        Self { start, first, last: last.max(first), phase }
    }

    /// Ports of a range, from one by hash.
    fn by_hash(range: (u16, u16), hash: u64) -> Self {
        let ring = Self::new(range.0, range, hash);
        Self { start: ring.first + low_bits(hash % u64::from(ring.len())), ..ring }
    }

    /// The class of a port, from itself.
    fn of_class(port: u16, phase: u64) -> Self {
        let class = match port {
            0..512 => (1, 511),
            512..1024 => (600, 1023),
            1024.. => (1024, u16::MAX),
        };
        Self::new(port, class, phase)
    }

    /// How many there are; `start` counts if it is none of the others.
    fn len(&self) -> u32 {
        u32::from(self.last) - u32::from(self.first) + 1 + u32::from(self.start < self.first)
    }

    /// The one at a place of the order in which all would be tried.
    fn at(&self, place: u32) -> u16 {
        let (start, first, last) = (u32::from(self.start), u32::from(self.first), u32::from(self.last));
        let port = if start < first {
            // The start, then all from the first on.
            if place == 0 { start } else { first + place - 1 }
        } else if place <= last - start {
            start + place
        } else {
            first + (place - (last - start) - 1)
        };
        low_bits(u64::from(port))
    }

    /// So many of them, all different: all in order, or the first half of them in order and then
    /// one of each of equal parts of the rest.
    fn ports(self, tries: u32) -> impl Iterator<Item = u16> {
        let len = self.len();
        let near = if tries >= len { len } else { tries - tries / 2 };
        let step = (len - near).checked_div(tries.min(len) - near).unwrap_or(0);
        let phase = self.phase.checked_rem(u64::from(step)).map_or(0, low_bits);
        let far = (0..tries.min(len) - near).map(move |number| near + number * step + u32::from(phase));
        (0..near).chain(far).map(move |place| self.at(place))
    }
}

/// A number below 65,536 as such.
#[expect(clippy::cast_possible_truncation, reason = "the callers' numbers are ports")]
const fn low_bits(number: u64) -> u16 {
    number as u16
}

/// Something that nobody foresees who does not know the key of the hash, and another one each time.
fn dice(hash: u64) -> u64 {
    thread_local! {
        static THROWS: Cell<u64> = const { Cell::new(0) };
    }
    let throw = THROWS.get().wrapping_add(1);
    THROWS.set(throw);
    // splitmix64
    let mut bits = hash.wrapping_add(throw.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
