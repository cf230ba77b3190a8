//! Tunnels that packets came out of: what was found out about them, and a number for each that
//! stands for it in compact keys.
//!
//! A packet that comes out of a tunnel has more in its key than its bytes: the ends of the tunnel,
//! its id, TOS and TTL outside. A [`Compact`] of it has a number in their place, the same for the
//! same values for as long as they are remembered here, and never given to others afterwards. What
//! is forgotten (its place was taken) has another number when it comes back, and is recorded anew.
//! Beside the number lies the port that the tunnel is, which is good for one world.
//!
//! **Not here**: packets with options, group policy or flags; they take the slow path.

use crate::cache::Compact;
use crate::cache::fast::compact::folded;
use crate::port::PortId;
use crate::time::Millis;
use vswitch_dpdk::Mbuf;

/// Sets of places, and places of a set.
const SETS: usize = 256;
const WAYS: usize = 4;

/// Two odd numbers without a pattern.
pub(in crate::cache) const K: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// A tunnel that was used so lately keeps its place: whoever finds a set full of such ones goes
/// without a number.
pub(in crate::cache) const BUSY_MS: u64 = 100;

/// What the outer headers said: addresses (those of IPv4 in the first word alone), id, TOS and TTL;
/// and where it was said: kind, UDP port, VTEP.
pub(crate) type Outer = [u64; 6];

/// A tunnel, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tunnel {
    /// The port that it is.
    pub(crate) port: PortId,
    /// What stands for it in keys; not 0.
    pub(crate) number: u64,
}

#[derive(Clone, Copy, Debug)]
struct TunnelPlace {
    outer: Outer,
    tunnel: Tunnel,
    /// The world in which it is that port.
    world: u64,
    /// Who sent the last packet, and when, as far as anybody was told.
    source: [u8; 6],
    heard: Millis,
}

const NOBODY: TunnelPlace = TunnelPlace {
    outer: [0; 6],
    tunnel: Tunnel { port: PortId::NONE, number: 0 },
    world: 0,
    source: [0; 6],
    heard: Millis(0),
};

/// The tunnels that one worker knows.
#[derive(Debug)]
pub(in crate::cache) struct Tunnels {
    places: Box<[[TunnelPlace; WAYS]; SETS]>,
    /// Last number given. Numbers are never used up: 2^64 packets do not come.
    last: u64,
    seed: u64,
}

impl Tunnels {
    /// None is known. The seed is secret, so that nobody can aim at one set.
    pub(in crate::cache) fn new(seed: u64) -> Self {
        Self { places: Box::new([[NOBODY; WAYS]; SETS]), last: 0, seed }
    }

    #[inline]
    fn set(&mut self, outer: &Outer) -> &mut [TunnelPlace; WAYS] {
        // Two products at a time; of IPv4 the words between are 0.
        let [a, b, c, d, said, place] = *outer;
        let (ends, rest) = (folded(a ^ self.seed, b ^ c ^ K[0]), folded(said ^ K[1], place ^ d ^ self.seed));
        #[allow(clippy::cast_possible_truncation)] // below SETS
        let at = folded(ends ^ K[0], rest ^ K[1]) as usize % SETS;
        &mut self.places[at]
    }

    #[inline]
    fn place(&mut self, outer: &Outer) -> Option<&mut TunnelPlace> {
        // Word by word: what was just written as words is not to be read as anything wider.
        let [a, b, c, d, said, from] = *outer;
        self.set(outer).iter_mut().find(|place| {
            place.outer[0] == a
                && place.outer[4] == said
                && place.outer[5] == from
                && place.outer[1] == b
                && place.outer[2] == c
                && place.outer[3] == d
                && place.tunnel.number != 0
        })
    }

    #[inline]
    fn known(&mut self, outer: &Outer, world: u64, source: [u8; 6], now: Millis) -> Option<(Tunnel, bool)> {
        let place = self.place(outer).filter(|place| place.world == world)?;
        let news = place.heard != now || place.source != source;
        (place.heard, place.source) = (now, source);
        Some((place.tunnel, news))
    }

    pub(in crate::cache) fn peek(&mut self, outer: &Outer, world: u64) -> Option<Tunnel> {
        self.place(outer).filter(|place| place.world == world).map(|place| place.tunnel)
    }

    /// It is used elsewhere.
    pub(in crate::cache) fn refresh(&mut self, outer: &Outer, now: Millis) {
        if let Some(place) = self.place(outer) {
            place.heard = now;
        }
    }

    fn note(&mut self, outer: &Outer, world: u64, port: PortId, now: Millis) -> Option<Tunnel> {
        if let Some(place) = self.place(outer)
            && place.tunnel.port == port
        {
            place.world = world;
            return Some(place.tunnel);
        }
        let number = self.last + 1;
        let set = self.set(outer);
        // By another port it is another tunnel, in its own place. Else the longest unused goes.
        let own = set.iter().position(|place| place.outer == *outer && place.tunnel.number != 0);
        let oldest = || (0..WAYS).min_by_key(|i| (set[*i].tunnel.number != 0, set[*i].heard.0));
        let at = own.or_else(oldest)?;
        let place = &mut set[at];
        if own.is_none() && place.tunnel.number != 0 && now.0.saturating_sub(place.heard.0) < BUSY_MS {
            return None;
        }
        let tunnel = Tunnel { port, number };
        *place = TunnelPlace { outer: *outer, tunnel, world, heard: now, ..NOBODY };
        self.last = number;
        Some(tunnel)
    }
}

impl crate::cache::Cache {
    /// The tunnel that a packet from this address came by, if that is known in this world; and
    /// whether it is news that this address sends by it: once a millisecond it is.
    #[inline]
    pub(crate) fn known_tunnel(
        &mut self,
        outer: &Outer,
        world: u64,
        source: [u8; 6],
        now: Millis,
    ) -> Option<(Tunnel, bool)> {
        self.tunnels.known(outer, world, source, now)
    }

    /// Notes which port a tunnel is; none: there is no room among those that are busy.
    pub(crate) fn note_tunnel(&mut self, outer: &Outer, world: u64, port: PortId, now: Millis) -> Option<Tunnel> {
        self.tunnels.note(outer, world, port, now)
    }

    /// The compact key of a packet that came out of a tunnel; not plain if nothing is kept, or it
    /// is not.
    #[inline]
    pub(crate) fn key_inside(&mut self, mbuf: &Mbuf, tunnel: Tunnel) -> Compact {
        let mut key = Compact::default();
        if self.enabled {
            key.read_apart(mbuf.head(), mbuf.len(), (tunnel.port, tunnel.number), &self.seeds);
            key.found = self.find(&key);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const fn outer(i: u64) -> Outer {
        [i, i << 7, 0, 0, 0, 1]
    }

    #[test]
    fn a_number_is_of_one_tunnel_for_ever() {
        let mut tunnels = Tunnels::new(99);
        let mut given = HashMap::new();
        // Many more than there is room for, some of them again and again, some of them by another
        // port.
        for i in 0..50_000_u64 {
            let again = i % 3 == 0;
            let (outer, port) = (outer(if again { i % 5 } else { i }), PortId(if again && i % 2 == 0 { 2 } else { 1 }));
            let Some(tunnel) = tunnels.note(&outer, i, port, Millis(i)) else { continue };
            let mut known = |world| tunnels.known(&outer, world, [2; 6], Millis(i)).map(|(tunnel, _)| tunnel);
            assert_eq!((tunnel.port, known(i)), (port, Some(tunnel)), "at once again: {outer:?}");
            assert_eq!(known(i + 1), None, "another world");
            let first = *given.entry(tunnel.number).or_insert((outer, port));
            assert_eq!(first, (outer, port), "{} was another tunnel's", tunnel.number);
        }
        assert!(!given.contains_key(&0) && given.len() > 10_000, "{} numbers", given.len());
    }

    #[test]
    fn few_tunnels_keep_their_numbers_from_world_to_world() {
        let mut tunnels = Tunnels::new(1);
        let mut all = |world| {
            (0..WAYS as u64).map(|i| tunnels.note(&outer(i), world, PortId(3), Millis(world))).collect::<Vec<_>>()
        };
        let first = all(1);
        for world in 2..100 {
            assert_eq!(all(world), first);
        }
    }

    #[test]
    fn a_crowd_takes_no_busy_tunnels_place() {
        let mut tunnels = Tunnels::new(5);
        let busy = outer(0);
        let number = tunnels.note(&busy, 1, PortId(3), Millis(1)).expect("there is room");
        let mut refused = 0;
        for i in 1..20_000_u64 {
            let now = Millis(1 + i / 50);
            let known = tunnels.known(&busy, 1, [2; 6], now).map(|(tunnel, _)| tunnel);
            assert_eq!(known, Some(number), "after {i} others");
            refused += u32::from(tunnels.note(&outer(i), 1, PortId(3), now).is_none());
        }
        assert!(refused > 1000, "{refused} found no room: this is no crowd");
    }

    #[test]
    fn a_sender_is_news_once_a_millisecond_and_when_it_is_another() {
        let mut tunnels = Tunnels::new(1);
        tunnels.note(&outer(1), 1, PortId(3), Millis(1));
        let mut news = |source, ms| tunnels.known(&outer(1), 1, [source; 6], Millis(ms)).map(|(_, news)| news);
        let told = [news(1, 5), news(1, 5), news(2, 5), news(2, 5), news(2, 6)];
        assert_eq!(told, [true, false, true, false, true].map(Some));
    }
}
