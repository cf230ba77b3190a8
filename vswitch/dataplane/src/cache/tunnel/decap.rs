//! The decap cache: the tunnels that packets come out of at a port, with the decision about what is
//! outside.
//!
//! **Where in the walk**: before the compact keys. The packets of a tunnel differ outside in
//! lengths, in what nothing matches, and in the source port (and the flow label of IPv6), which
//! stands for the flow inside. If the decision about them does not ask for that, it is one decision
//! for all of them: it is found here by the rest, which is the same for every flow, and the compact
//! key of the packet is that of what is inside at once. So a packet of an established connection in
//! a tunnel costs one lookup in a table that is as large as there are connections, not two.
//!
//! **Design**: a port has a hint, how a packet of it came out of a tunnel lately; bursts of ports
//! without one pay nothing. A packet that comes by no entry, or about whose inside too little is
//! known, is looked up by its own key, like any other. Those make the entries. Inherited TOS and
//! TTL make an entry each. The packet behind one that came by a decap entry is likely to come by
//! it, too: it is compared with the entry's outer headers before it is read ([`OuterTemplate`]).
//!
//! **Validity**: what an entry says of ports is good for one world; its decision must be good when
//! a packet passes.
//!
//! **Limits**: a fixed number of entries; one that was passed lately keeps its place. Those of
//! decisions that have ended are swept.
//!
//! **Not here**: checksums over what is inside of IPv4, options: those take the way of their own
//! key.

use crate::action::DecapOp;
use crate::cache::fast::compact::{Came, folded};
use crate::cache::tunnel::outer_template::OuterTemplate;
use crate::cache::tunnel::tunnels::{BUSY_MS, K, Tunnel};
use crate::cache::{Cache, Compact, Megaflow, Outer};
use crate::limits::{BURST, PORTS_MAX};
use crate::observe::Counter;
use crate::port::PortId;
use crate::time::Millis;
use std::ops::RangeInclusive;
use std::sync::Arc;
use vswitch_dpdk::{Burst, Mbuf};
use vswitch_flow::action::PortNo;
use vswitch_flow::{Field, FlowMask};

/// Sets of places, and places of a set.
const SETS: usize = if cfg!(test) { 2 } else { 128 };
const WAYS: usize = 4;

/// Bursts without a packet that comes by a decap entry, after which nobody looks for entries any
/// more.
const PATIENCE: u8 = 64;

/// Places that are swept per millisecond.
const SWEEP: usize = 4;

/// All that the packets of a tunnel have in common outside: addresses, id, TOS and TTL, where they
/// are said (see [`Outer`]), MAC addresses, and the port.
type Words = [u64; 8];

/// One tunnel that packets come out of at a port: its outer headers, the decision about them, and
/// the port that the packets enter by.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct DecapEntry {
    /// That of the packet that opened it, if others like it need not be read.
    template: Option<OuterTemplate>,
    words: Words,
    /// The decision about what is outside; none: the place is free.
    megaflow: Option<Arc<Megaflow>>,
    tunnel: Tunnel,
    /// What keys say of that.
    came: Came,
    /// Number of the tunnel port.
    pub(crate) in_port: PortNo,
    /// The world in which it is that port.
    world: u64,
    /// No other entry has it, nor this place when it is another one's.
    serial: u64,
    /// When the last packet passed, in milliseconds.
    heard: Counter,
}

impl Default for DecapEntry {
    fn default() -> Self {
        let tunnel = Tunnel { port: PortId::NONE, number: 0 };
        let came = Came::default();
        let (words, heard) = ([0; 8], Counter::default());
        Self { template: None, words, megaflow: None, tunnel, came, in_port: 0, world: 0, serial: 0, heard }
    }
}

impl DecapEntry {
    /// What it says of ports is true in this world, and its decision is good.
    #[inline]
    fn is_good(&self, world: u64, tick: u64) -> bool {
        self.world == world && self.megaflow.as_ref().is_some_and(|of| of.hot.tick.get() == tick)
    }

    /// Word by word: what was just written as words is not to be read as anything wider.
    #[inline(always)] // in the loop over a burst
    fn is_of(&self, words: &Words) -> bool {
        let [a, b, c, d, e, f, g, h] = *words;
        let [ends, said, place, macs, port, six @ ..] = self.words;
        let six = (f ^ six[0]) | (g ^ six[1]) | (h ^ six[2]);
        (a ^ ends) | (b ^ said) | (c ^ place) | (d ^ macs) | (e ^ port) | six == 0 && self.megaflow.is_some()
    }

    /// The tunnel port.
    #[inline]
    pub(crate) const fn port(&self) -> PortId {
        self.tunnel.port
    }

    /// A packet passes. Returns whether it is the first one of this millisecond.
    #[inline]
    pub(crate) fn pass(&self, now: Millis) -> bool {
        let first = !self.was_passed(now);
        if first {
            self.heard.set(now.0);
        }
        first
    }

    /// A packet has passed in this millisecond.
    #[inline]
    pub(crate) fn was_passed(&self, now: Millis) -> bool {
        self.heard.get() == now.0
    }
}

/// How the packets of a port come out of tunnels, as far as is known.
#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    op: Option<DecapOp>,
    /// Bursts since the last packet that passed an entry.
    idle: u8,
}

/// By which entry a packet of the burst comes.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    serial: u64,
    at: u16,
    /// Bytes in front of what is inside; 0: by none.
    header: u16,
}

/// All entries there are.
#[derive(Debug)]
struct Places {
    sets: Box<[[DecapEntry; WAYS]]>,
    seed: u64,
}

/// The decap cache of one worker.
#[derive(Debug)]
pub(in crate::cache) struct DecapCache {
    places: Places,
    /// By port.
    hints: Box<[Hint]>,
    slots: Box<[Slot; BURST]>,
    /// Some packet of the burst comes by a decap entry.
    used: bool,
    /// Entries that were made.
    opened: u64,
    hand: usize,
}

impl Places {
    /// Index of the set of a tunnel.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // below SETS
    fn set(&self, words: &Words) -> usize {
        let [ends, said, place, macs, port, six @ ..] = *words;
        let ends = ends ^ six[0].rotate_left(17) ^ six[1].rotate_left(31) ^ six[2].rotate_left(47);
        // Two products at a time.
        let (a, b) =
            (folded(ends ^ self.seed, macs ^ K[0]), folded(said ^ place.rotate_left(24) ^ K[1], port ^ self.seed));
        (a ^ b) as usize % SETS
    }

    #[inline(always)] // in the loop over a burst
    fn find(&self, words: &Words) -> Option<(usize, &DecapEntry)> {
        let set = self.set(words);
        let places = self.sets.get(set)?;
        let way = places.iter().position(|entry| entry.is_of(words))?;
        Some((set * WAYS + way, places.get(way)?))
    }

    #[inline]
    fn at(&self, at: usize) -> Option<&DecapEntry> {
        self.sets.get(at / WAYS)?.get(at % WAYS)
    }
}

impl DecapCache {
    /// There is none. The seed is secret, so that nobody can aim at one set.
    pub(in crate::cache) fn new(seed: u64) -> Self {
        Self {
            places: Places { sets: std::iter::repeat_with(Default::default).take(SETS).collect(), seed },
            hints: vec![Hint::default(); PORTS_MAX].into(),
            slots: Box::new([Slot::default(); BURST]),
            used: false,
            opened: 0,
            hand: 0,
        }
    }

    /// By which entry the packet of slot `i` of the burst comes, and the bytes in front of what is
    /// inside. None, too, if its place was given to another one meanwhile.
    #[inline]
    fn of(&self, i: usize) -> Option<(&DecapEntry, usize)> {
        let slot = self.slots.get(i).filter(|slot| slot.header != 0)?;
        let entry = self.places.at(slot.at.into())?;
        (entry.serial == slot.serial).then_some((entry, slot.header.into()))
    }

    /// The first bytes of the packet whose key slot `i` of the burst has.
    #[inline]
    pub(in crate::cache) fn front<'a>(&self, i: usize, mbuf: &'a Mbuf) -> &'a [u8] {
        let header = self.slots.get(i).map_or(0, |slot| slot.header.into());
        mbuf.head().get(header..).unwrap_or_default()
    }

    /// A place for a tunnel: its own, or that of the one that was not used for the longest time.
    /// None: all are busy.
    fn place(&mut self, words: &Words, now: Millis) -> Option<&mut DecapEntry> {
        let set = self.places.set(words);
        let set = &mut self.places.sets[set];
        let own = set.iter().position(|entry| entry.words == *words);
        let oldest = || (0..WAYS).min_by_key(|i| (set[*i].megaflow.is_some(), set[*i].heard.get()));
        let entry = &mut set[own.or_else(oldest)?];
        let busy = entry.megaflow.is_some() && now.0.saturating_sub(entry.heard.get()) < BUSY_MS;
        (own.is_some() || !busy).then_some(entry)
    }

    /// Lets go of decisions that have ended.
    pub(in crate::cache) fn sweep(&mut self) {
        for _ in 0..SWEEP {
            self.hand = (self.hand + 1) % (SETS * WAYS);
            let entry = &mut self.places.sets[self.hand / WAYS][self.hand % WAYS];
            if entry.megaflow.as_ref().is_some_and(|megaflow| megaflow.is_dead()) {
                *entry = DecapEntry::default();
            }
        }
    }
}

/// Of a packet with these outer headers that came in by this port.
#[inline]
fn words(head: &[u8], outer: &Outer, port: PortId) -> Option<Words> {
    let (dst, src) = (head.first_chunk::<8>()?, head.get(8..)?.first_chunk::<4>()?);
    let rest = u64::from(u32::from_le_bytes(*src)) << 16 | u64::from(port.0);
    let [ends, b, c, d, said, place] = *outer;
    Some([ends, said, place, u64::from_le_bytes(*dst), rest, b, c, d])
}

/// Whether a decision that looks at these bits is the same for all packets of a tunnel, whatever
/// flow is inside.
pub(in crate::cache) fn is_for_all_flows(mask: &FlowMask) -> bool {
    [Field::TpSrc, Field::Ipv6Label, Field::DpHash, Field::ConjId].iter().all(|field| mask.get(*field) == 0)
}

impl Cache {
    /// Before a burst of a port: how its packets come out of tunnels, if they do.
    #[inline]
    pub(crate) fn hint(&mut self, port: PortId) -> Option<DecapOp> {
        let decap = &mut self.decap;
        if std::mem::take(&mut decap.used) {
            decap.slots.fill(Slot::default());
        }
        decap.hints.get(port.index()).filter(|_| self.enabled)?.op
    }

    /// Behind a burst whose port had a hint: whether a packet of it passed an entry.
    #[inline]
    pub(crate) fn settle_hint(&mut self, port: PortId, passed: bool) {
        let Some(hint) = self.decap.hints.get_mut(port.index()) else { return };
        hint.idle = if passed { 0 } else { hint.idle + 1 };
        if hint.idle >= PATIENCE {
            *hint = Hint::default();
        }
    }

    /// [`Cache::prepare`] for a burst of a port whose packets come out of tunnels: the compact key
    /// of what comes by a decap entry and is plain is that of what is inside. `outside`: of a
    /// packet in one segment, what its outer headers say, and their bytes. Returns the bytes of all
    /// packets, and whether the length of each is one of `frames`.
    #[inline(always)] // into a function of its own, with what `outside` is
    pub(crate) fn prepare_decap(
        &mut self,
        burst: &Burst,
        (port, world): (PortId, u64),
        frames: &RangeInclusive<usize>,
        outside: impl Fn(&Mbuf) -> Option<(Outer, usize)>,
    ) -> (u64, bool) {
        let Self { decap: DecapCache { places, slots, used, .. }, keys, seeds, tick, .. } = self;
        let (mut bytes, mut ordinary) = (0, true);
        // By which the last one came: the next ones are likely to come by it, too.
        let mut last: Option<(&OuterTemplate, &DecapEntry, Slot)> = None;
        for (mbuf, (key, place)) in burst.iter().zip(keys.iter_mut().zip(slots.iter_mut())) {
            let (head, len) = (mbuf.head(), mbuf.len());
            bytes += len as u64;
            ordinary &= frames.contains(&len);
            let found = if mbuf.nb_segs() > 1 || mbuf.gso_size() != 0 {
                None
            } else if let Some((_, entry, slot)) = last.filter(|(template, ..)| template.fits(head, len)) {
                Some((entry, slot))
            } else {
                let found = outside(mbuf).and_then(|(outer, header)| {
                    let (at, entry) = places.find(&words(head, &outer, port)?)?;
                    // Fewer places, and no longer header, than 2^16
                    #[allow(clippy::cast_possible_truncation)]
                    let slot = Slot { serial: entry.serial, at: at as u16, header: header as u16 };
                    entry.is_good(world, *tick).then_some((entry, slot))
                });
                last = found.and_then(|(entry, slot)| Some((entry.template.as_ref()?, entry, slot)));
                found
            };
            if let Some((entry, slot)) = found
                && let Some(inside) = head.get(slot.header.into()..)
            {
                key.read_inside(inside, &entry.came, seeds);
                if key.is_plain() {
                    (*place, *used) = (slot, true);
                    continue;
                }
            }
            key.read_apart(head, len, (port, 0), seeds);
        }
        self.note_kinds(burst);
        (bytes, ordinary)
    }

    /// Slot `i` is looked up by its own key after all.
    #[cold]
    pub(crate) fn prepare_again(&mut self, i: usize, mbuf: &Mbuf, port: PortId) {
        let mut key = Compact::default();
        if self.enabled {
            key.read_apart(mbuf.head(), mbuf.len(), (port, 0), &self.seeds);
            key.found = self.find(&key);
        }
        if let (Some(place), Some(slot)) = (self.keys.get_mut(i), self.decap.slots.get_mut(i)) {
            (*place, *slot) = (key, Slot::default());
        }
    }

    /// Some packet of the burst comes by a decap entry.
    #[inline]
    pub(crate) const fn has_decap(&self) -> bool {
        self.decap.used
    }

    /// Slot `i` of a burst has the key of what is inside.
    #[inline]
    pub(crate) fn is_inside(&self, i: usize) -> bool {
        self.decap.slots.get(i).is_some_and(|slot| slot.header != 0)
    }

    /// Whether slot `i` of a burst comes by a decap entry, with so many bytes in front of what is
    /// inside.
    #[inline]
    pub(crate) fn comes_by(&self, i: usize, entry: &DecapEntry, header: usize) -> bool {
        self.decap.slots.get(i).is_some_and(|slot| slot.serial == entry.serial && usize::from(slot.header) == header)
    }

    /// The entry of slot `i` of a burst, the decision about what is outside, and its bytes; if the
    /// decision is good.
    #[inline]
    pub(crate) fn decap_entry(&self, i: usize) -> Option<(&DecapEntry, &Arc<Megaflow>, usize)> {
        let (entry, header) = self.decap.of(i)?;
        let megaflow = entry.megaflow.as_ref().filter(|megaflow| megaflow.hot.tick.get() == self.tick)?;
        Some((entry, megaflow, header))
    }

    /// A packet with these outer headers came in by a port, and all that is decided of it is that
    /// it comes out of a tunnel: the next ones may come by a decap entry. Only if the tunnel is
    /// known in this world. `header`: bytes in front of what is inside. `in_port`: of a tunnel
    /// port, its number, if its packets may come by a decap entry.
    pub(crate) fn insert_decap(
        &mut self,
        (megaflow, op): (&Arc<Megaflow>, DecapOp),
        (head, port): (&[u8], PortId),
        (outer, header): (&Outer, usize),
        (world, now): (u64, Millis),
        in_port: impl FnOnce(PortId) -> Option<PortNo>,
    ) {
        if !self.enabled || !megaflow.for_all_flows {
            return;
        }
        let (Some(tunnel), Some(words)) = (self.tunnels.peek(outer, world), words(head, outer, port)) else { return };
        let is_open = |entry: &DecapEntry| {
            let same = entry.megaflow.as_ref().is_some_and(|of| Arc::ptr_eq(of, megaflow));
            same && (entry.world, entry.tunnel) == (world, tunnel)
        };
        if let Some(hint) = self.decap.hints.get_mut(port.index())
            && hint.op.is_none_or(|_| hint.idle > PATIENCE / 2)
        {
            *hint = Hint { op: Some(op), idle: 0 };
        }
        if self.decap.places.find(&words).is_some_and(|(_, entry)| is_open(entry)) {
            return;
        }
        let Some(in_port) = in_port(tunnel.port) else { return };
        let serial = self.decap.opened + 1;
        if let Some(entry) = self.decap.place(&words, now) {
            let (megaflow, heard) = (Some(Arc::clone(megaflow)), Counter::new(now.0.saturating_sub(1)));
            let came = self.seeds.came(tunnel.port, tunnel.number);
            let template = OuterTemplate::of(head, header);
            *entry = DecapEntry { template, words, megaflow, tunnel, came, in_port, world, serial, heard };
            self.decap.opened = serial;
        }
    }

    /// The tunnel with these outer headers is used by a decap entry: it keeps its number.
    pub(crate) fn use_tunnel(&mut self, outer: &Outer, now: Millis) {
        self.tunnels.refresh(outer, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(decap: &mut DecapCache, words: Words, now: Millis) -> bool {
        let Some(entry) = decap.place(&words, now) else { return false };
        let megaflow = Arc::new(Megaflow::tally(Vec::new()));
        *entry = DecapEntry { words, megaflow: Some(megaflow), heard: Counter::new(now.0), ..DecapEntry::default() };
        true
    }

    #[test]
    fn a_crowd_takes_no_busy_doors_place() {
        let mut decap = DecapCache::new(7);
        let busy = [1, 2, 3, 4, 5, 0, 0, 0];
        assert!(fill(&mut decap, busy, Millis(1)));
        let mut refused = 0;
        for i in 1..20_000_u64 {
            let now = Millis(1 + i / 50);
            let (_, entry) = decap.places.find(&busy).unwrap_or_else(|| panic!("gone after {i} others"));
            entry.pass(now);
            refused += u32::from(!fill(&mut decap, [i, i << 9, 0, i, 0, 0, 0, 0], now));
        }
        assert!(refused > 1000, "{refused} found no room: this is no crowd");
    }

    #[test]
    fn ended_decisions_are_let_go() {
        let mut decap = DecapCache::new(7);
        let put: Vec<u64> = (0..64).filter(|i| fill(&mut decap, [*i; 8], Millis(1))).collect();
        let (ended, kept): (Vec<_>, Vec<_>) = put.iter().partition(|i| *i % 2 == 0);
        for i in &ended {
            let (_, entry) = decap.places.find(&[*i; 8]).expect("just put there");
            entry.megaflow.as_ref().expect("has one").kill();
        }
        (0..SETS * WAYS / SWEEP).for_each(|_| decap.sweep());
        let found: Vec<u64> = (0..64).filter(|i| decap.places.find(&[*i; 8]).is_some()).collect();
        assert_eq!((found, ended.is_empty(), kept.is_empty()), (kept, false, false));
    }
}
