//! Ids of buckets: the lowest that are free, or digests that are the same on every Node.

use super::{Bucket, GroupKey, Ids};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Ids that a bucket may have.
const BUCKET_IDS: u32 = vswitch_flow::spec::limits::MAX_BUCKET + 1;

/// The id that an endpoint's bucket has wherever ids are to be the same. Never to be changed: Nodes
/// of different versions are to agree. (The finaliser of SplitMix64.)
fn digest((address, port): &Bucket) -> u32 {
    let (family, address) = match address {
        IpAddr::V4(address) => (4_u64, u128::from(address.to_bits())),
        IpAddr::V6(address) => (6, address.to_bits()),
    };
    #[allow(clippy::cast_possible_truncation)] // the halves of it
    let words = [family << 16 | u64::from(*port), address as u64, (address >> 64) as u64];
    let mut bits = 0_u64;
    for word in words {
        bits = (bits ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
    }
    u32::try_from(bits % u64::from(BUCKET_IDS)).unwrap_or_default()
}

impl Ids {
    /// Ids of a group's buckets: endpoints that stay keep theirs, new ones get the lowest that are
    /// free.
    pub fn claim_buckets(&mut self, key: &GroupKey, endpoints: &BTreeSet<Bucket>) {
        let old = self.buckets.get(key);
        if old.is_some_and(|old| {
            old.len() == endpoints.len() && endpoints.iter().all(|endpoint| old.contains_key(endpoint))
        }) {
            return;
        }
        let kept = old.into_iter().flat_map(|old| old.iter()).filter(|(endpoint, _)| endpoints.contains(endpoint));
        let mut buckets: BTreeMap<Bucket, u32> = kept.map(|(endpoint, id)| (*endpoint, *id)).collect();
        let used: BTreeSet<u32> = buckets.values().copied().collect();
        let mut free = (0..).filter(|id| !used.contains(id));
        for endpoint in endpoints {
            if !buckets.contains_key(endpoint) {
                buckets.insert(*endpoint, free.next().unwrap_or_default());
            }
        }
        Arc::make_mut(&mut self.buckets).insert(key.clone(), Arc::new(buckets));
    }

    /// The same for a group that every Node is to have with the same ids: a digest of address and
    /// port. Of two equal ones the higher address has the next that is free.
    pub fn claim_digests(&mut self, key: &GroupKey, endpoints: &BTreeSet<Bucket>) {
        let mut used = BTreeSet::new();
        let mut free = |endpoint: &Bucket| {
            let mut id = digest(endpoint);
            while !used.insert(id) {
                id = (id + 1) % BUCKET_IDS;
            }
            id
        };
        let buckets: BTreeMap<Bucket, u32> = endpoints.iter().map(|endpoint| (*endpoint, free(endpoint))).collect();
        if self.buckets.get(key).is_none_or(|old| **old != buckets) {
            Arc::make_mut(&mut self.buckets).insert(key.clone(), Arc::new(buckets));
        }
    }

    /// The id of an endpoint's bucket.
    #[must_use]
    pub fn bucket(&self, key: &GroupKey, endpoint: &Bucket) -> Option<u32> {
        self.buckets.get(key)?.get(endpoint).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn digests_are_the_same_on_every_node() {
        let key = GroupKey::Multicast([239, 1, 1, 1].into());
        let endpoint = |last: u32| (IpAddr::from(std::net::Ipv4Addr::from_bits(0x0a0a_0000 + last)), 80);
        let (mut ids, mut other) = (Ids::default(), Ids::default());
        let all: BTreeSet<Bucket> = (0..16_384).map(endpoint).collect();
        ids.claim_digests(&key, &all);
        // Another history.
        other.claim_buckets(&key, &(5..500).map(endpoint).collect());
        other.claim_digests(&key, &all);
        let of = |ids: &Ids| all.iter().filter_map(|endpoint| ids.bucket(&key, endpoint)).collect::<Vec<u32>>();
        assert_eq!(of(&ids), of(&other));
        assert_eq!(of(&ids).into_iter().collect::<BTreeSet<u32>>().len(), all.len(), "none is there twice");
        assert!(of(&ids).iter().all(|id| *id < BUCKET_IDS));
        // For ever: what they are is part of the contract between Nodes.
        let v6 = (IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), 443);
        assert_eq!([digest(&endpoint(1)), digest(&v6)], [4_100_616_854, 426_384_818]);
        assert_ne!(digest(&endpoint(1)), digest(&(endpoint(1).0, 81)));
    }

    #[test]
    fn of_two_equal_digests_the_higher_address_has_the_next() {
        // Found by trying: the birthday of 32 bits comes after some 100,000.
        let mut seen = HashMap::new();
        let twins = (0_u32..).find_map(|i| {
            let endpoint = (IpAddr::from(std::net::Ipv4Addr::from_bits(i)), 80);
            seen.insert(digest(&endpoint), endpoint).map(|first| (first, endpoint))
        });
        let Some((low, high)) = twins else { panic!("no twins") };
        let key = GroupKey::Multicast([239, 1, 1, 1].into());
        let mut ids = Ids::default();
        ids.claim_digests(&key, &[high, low].into());
        let both = [low, high].map(|endpoint| ids.bucket(&key, &endpoint));
        assert_eq!(both, [Some(digest(&low)), Some((digest(&low) + 1) % BUCKET_IDS)]);
        ids.claim_digests(&key, &[high].into());
        assert_eq!(ids.bucket(&key, &high), Some(digest(&high)));
    }

    #[test]
    fn endpoints_that_stay_keep_their_buckets() {
        let mut ids = Ids::default();
        let key = GroupKey::Multicast([239, 1, 1, 1].into());
        let endpoint = |last: u8| (IpAddr::from([10, 0, 0, last]), 80);
        ids.claim_buckets(&key, &[1, 2, 3].map(endpoint).into());
        let before = ids.clone();
        ids.claim_buckets(&key, &[0, 1, 3].map(endpoint).into());
        assert_eq!([1, 3, 0].map(|last| ids.bucket(&key, &endpoint(last))), [Some(0), Some(2), Some(1)]);
        assert_eq!(before.bucket(&key, &endpoint(2)), Some(1), "a clone is not changed");
        ids.release_group(&key);
        assert_eq!(ids.bucket(&key, &endpoint(1)), None);
    }
}
