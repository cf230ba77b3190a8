//! What tells one tunnel from another in a compact key: a number for all that the outer headers said of a packet.
//!
//! A packet that comes out of a tunnel has more in its key than its bytes: the ends of the tunnel, its id, TOS and TTL outside. A [`Compact`] of it has a number in their place, the same for
//! the same values for as long as they are remembered here, and never given to others afterwards. What is forgotten (its place was taken) has another number when it comes back, and is
//! recorded anew.
//!
//! **Not here**: packets with options, group policy or flags; they go the long way.

use super::Compact;

/// Sets of places, and places of a set.
const SETS: usize = 64;
const WAYS: usize = 4;

/// What the outer headers said: addresses (IPv4 in the first word alone); id, TOS, TTL, and the port that the tunnel is.
pub(crate) type Outer = [u64; 5];

/// Numbers of tunnels, of one worker.
#[derive(Debug)]
pub(super) struct Tunnels {
    places: Box<[[(Outer, u64); WAYS]; SETS]>,
    /// Last number given.
    last: u64,
}

impl Default for Tunnels {
    fn default() -> Self {
        Self { places: Box::new([[([0; 5], 0); WAYS]; SETS]), last: 0 }
    }
}

impl Tunnels {
    /// The number of a tunnel; not 0. Numbers are never used up: 2^64 packets do not come.
    pub(super) fn number(&mut self, outer: &Outer, seed: u64) -> u64 {
        let mut hash = seed;
        for word in outer {
            hash = super::compact::folded(hash ^ word, 0x9e37_79b9_7f4a_7c15);
        }
        #[allow(clippy::cast_possible_truncation)] // below SETS
        let set = &mut self.places[hash as usize % SETS];
        if let Some((_, number)) = set.iter().find(|(known, number)| known == outer && *number != 0) {
            return *number;
        }
        self.last += 1;
        // The longest known goes.
        if let Some(oldest) = set.iter_mut().min_by_key(|(_, number)| *number) {
            *oldest = (*outer, self.last);
        }
        self.last
    }
}

impl super::Cache {
    /// The compact key of a packet that came out of a tunnel; not plain if nothing is kept, or it is not.
    pub(crate) fn key_inside(&mut self, mbuf: &crate::dpdk::Mbuf, port: crate::port::PortId, outer: &Outer) -> Compact {
        let mut key = Compact::default();
        if self.enabled {
            let number = self.tunnels.number(outer, self.seeds.one());
            key.read_inside(mbuf, port, number, &self.seeds);
            key.found = self.find(&key);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_one_tunnel_for_ever() {
        let mut tunnels = Tunnels::default();
        let mut given = std::collections::HashMap::new();
        // Many more than there is room for, some of them again and again.
        for i in 0..20_000_u64 {
            let outer = if i % 3 == 0 { [7, 0, 0, 0, i % 5] } else { [i, i << 7, 0, 0, 1] };
            let number = tunnels.number(&outer, 99);
            assert_ne!(number, 0);
            assert_eq!(tunnels.number(&outer, 99), number, "at once again: {outer:?}");
            let first = given.entry(number).or_insert(outer);
            assert_eq!(*first, outer, "{number} was another tunnel's");
        }
    }

    #[test]
    fn few_tunnels_keep_their_numbers() {
        let mut tunnels = Tunnels::default();
        let outer = |i: u64| [i, 0, 0, 0, 0];
        let numbers: Vec<u64> = (0..WAYS as u64).map(|i| tunnels.number(&outer(i), 1)).collect();
        for _ in 0..100 {
            let again: Vec<u64> = (0..WAYS as u64).map(|i| tunnels.number(&outer(i), 1)).collect();
            assert_eq!(again, numbers);
        }
    }
}
