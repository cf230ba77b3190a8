//! Tunnels that packets came out of: what was found out about them, and a number for each that stands for it in compact keys.
//!
//! A packet that comes out of a tunnel has more in its key than its bytes: the ends of the tunnel, its id, TOS and TTL outside. A [`Compact`] of it has a number in their place, the same for
//! the same values for as long as they are remembered here, and never given to others afterwards. What is forgotten (its place was taken) has another number when it comes back, and is
//! recorded anew. Beside the number lies the port that the tunnel is, which is good for one world.
//!
//! **Not here**: packets with options, group policy or flags; they go the long way.

use super::Compact;
use crate::dpdk::Mbuf;
use crate::port::PortId;
use crate::time::Millis;

/// Sets of places, and places of a set.
const SETS: usize = 64;
const WAYS: usize = 4;

/// What the outer headers said: addresses (those of IPv4 in the first word alone), id, TOS and TTL; and where it was said: kind, UDP port, home.
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
struct Place {
    outer: Outer,
    tunnel: Tunnel,
    /// The world in which it is that port.
    world: u64,
    /// Who sent the last packet, and when, as far as anybody was told.
    source: [u8; 6],
    heard: Millis,
}

const NOBODY: Place = Place {
    outer: [0; 6],
    tunnel: Tunnel { port: PortId::NONE, number: 0 },
    world: 0,
    source: [0; 6],
    heard: Millis(0),
};

/// The tunnels that one worker knows.
#[derive(Debug)]
pub(super) struct Tunnels {
    places: Box<[[Place; WAYS]; SETS]>,
    /// Last number given. Numbers are never used up: 2^64 packets do not come.
    last: u64,
    seed: u64,
}

impl Tunnels {
    /// None is known. The seed is secret, so that nobody can aim at one set.
    pub(super) fn new(seed: u64) -> Self {
        Self { places: Box::new([[NOBODY; WAYS]; SETS]), last: 0, seed }
    }

    #[inline]
    fn set(&mut self, outer: &Outer) -> &mut [Place; WAYS] {
        let fold = |hash: u64, word: &u64| super::compact::folded(hash ^ word, 0x9e37_79b9_7f4a_7c15);
        let hash = outer.iter().fold(self.seed, fold);
        #[allow(clippy::cast_possible_truncation)] // below SETS
        let at = hash as usize % SETS;
        &mut self.places[at]
    }

    #[inline]
    fn place(&mut self, outer: &Outer) -> Option<&mut Place> {
        self.set(outer).iter_mut().find(|place| place.outer == *outer && place.tunnel.number != 0)
    }

    #[inline]
    fn known(&mut self, outer: &Outer, world: u64) -> Option<Tunnel> {
        self.place(outer).filter(|place| place.world == world).map(|place| place.tunnel)
    }

    fn note(&mut self, outer: &Outer, world: u64, port: PortId) -> Tunnel {
        if let Some(place) = self.place(outer)
            && place.tunnel.port == port
        {
            place.world = world;
            return place.tunnel;
        }
        self.last += 1;
        let tunnel = Tunnel { port, number: self.last };
        // The longest known goes; of what it was itself, another port is another tunnel.
        let set = self.set(outer);
        let at = set.iter().position(|place| place.outer == *outer);
        let oldest = || (0..WAYS).min_by_key(|i| set[*i].tunnel.number).unwrap_or(0);
        let at = at.unwrap_or_else(oldest);
        set[at] = Place { outer: *outer, tunnel, world, ..NOBODY };
        tunnel
    }

    fn hears(&mut self, outer: &Outer, source: [u8; 6], now: Millis) -> bool {
        let Some(place) = self.place(outer) else { return true };
        let news = place.heard != now || place.source != source;
        (place.heard, place.source) = (now, source);
        news
    }
}

impl super::Cache {
    /// The tunnel that a packet came by, if that is known in this world.
    #[inline]
    pub(crate) fn known_tunnel(&mut self, outer: &Outer, world: u64) -> Option<Tunnel> {
        self.tunnels.known(outer, world)
    }

    /// Notes which port a tunnel is.
    pub(crate) fn note_tunnel(&mut self, outer: &Outer, world: u64, port: PortId) -> Tunnel {
        self.tunnels.note(outer, world, port)
    }

    /// Whether it is news that this address sends by a tunnel: the first time, and once a millisecond.
    #[inline]
    pub(crate) fn hears_by(&mut self, outer: &Outer, source: [u8; 6], now: Millis) -> bool {
        self.tunnels.hears(outer, source, now)
    }

    /// The compact key of a packet that came out of a tunnel; not plain if nothing is kept, or it is not.
    #[inline]
    pub(crate) fn key_inside(&mut self, mbuf: &Mbuf, tunnel: Tunnel) -> Compact {
        let mut key = Compact::default();
        if self.enabled {
            key.read_inside(mbuf, tunnel.port, tunnel.number, &self.seeds);
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
        // Many more than there is room for, some of them again and again, some of them by another port.
        for i in 0..20_000_u64 {
            let (outer, port) =
                if i % 3 == 0 { (outer(i % 5), PortId(1 + (i % 2) as u16)) } else { (outer(i), PortId(1)) };
            let tunnel = tunnels.note(&outer, i, port);
            assert_eq!((tunnel.port, tunnels.known(&outer, i)), (port, Some(tunnel)), "at once again: {outer:?}");
            assert_eq!(tunnels.known(&outer, i + 1), None, "another world");
            let first = *given.entry(tunnel.number).or_insert((outer, port));
            assert_eq!(first, (outer, port), "{} was another tunnel's", tunnel.number);
        }
        assert!(!given.contains_key(&0));
    }

    #[test]
    fn few_tunnels_keep_their_numbers_from_world_to_world() {
        let mut tunnels = Tunnels::new(1);
        let mut all = |world| (0..WAYS as u64).map(|i| tunnels.note(&outer(i), world, PortId(3))).collect::<Vec<_>>();
        let first = all(1);
        for world in 2..100 {
            assert_eq!(all(world), first);
        }
    }

    #[test]
    fn a_sender_is_news_once_a_millisecond_and_when_it_is_another() {
        let mut tunnels = Tunnels::new(1);
        tunnels.note(&outer(1), 1, PortId(3));
        let mut hears = |source, ms| tunnels.hears(&outer(1), [source; 6], Millis(ms));
        assert_eq!([hears(1, 5), hears(1, 5), hears(2, 5), hears(2, 5), hears(2, 6)], [true, false, true, false, true]);
    }
}
