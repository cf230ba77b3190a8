//! Compact keys, and masks.

use crate::cache::fast::compact::{Compact, Seeds};
use crate::cache::fast::path::Paths;
use crate::cache::slow::last_hit::LastHit;
use crate::cache::slow::tuples::{EVERYTHING, Tuples};
use crate::cache::{CacheShared, Megaflow};
use crate::limits::{MEGAFLOW_MASKS_MAX, PATH_VARIANTS_MAX, PATHS_MAX};
use crate::packet::L4;
use crate::packet::testing::{Spec, cut, specs};
use crate::pipeline::Translation;
use crate::port::PortId;
use crate::time::Millis;
use proptest::prelude::*;
use std::sync::Arc;
use vswitch_dpdk::Mempool;
use vswitch_flow::extract::{Layers, extract};
use vswitch_flow::{Field, FlowKey, FlowMask};

fn keys(pool: &Mempool, bytes: &[u8], port: u16, seeds: &Seeds) -> (Compact, FlowKey, Layers) {
    let mbuf = pool.mbuf_from(bytes).expect("mbuf");
    let (mut compact, mut key) = (Compact::default(), FlowKey::default());
    // What an earlier packet left there does not matter.
    compact.read(&pool.mbuf_from(&[0x55; 80]).expect("mbuf"), &seeds.came(PortId(9), 0), seeds);
    compact.read(&mbuf, &seeds.came(PortId(port), 0), seeds);
    let layers = extract(mbuf.head(), mbuf.len(), &mut key);
    (compact, key, layers)
}

/// A packet, some bytes of it changed, and what it is cut to.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let front = prop_oneof![Just(vec![]), Just(vec![5_u16]), Just(vec![5, 6])];
    let spec = (specs(30), front, any::<bool>()).prop_map(|(mut spec, tags, simple)| {
        spec.tags = tags;
        if simple {
            spec.ip_options = 0;
            spec.extensions.clear();
        }
        spec
    });
    let change =
        (0..100_usize, prop_oneof![any::<u8>(), Just(0), Just(1), Just(6), Just(17), Just(58), Just(128), Just(0x45)]);
    let changes = proptest::collection::vec(change, 0..4);
    (spec, changes, prop_oneof![4 => Just(usize::MAX), 1 => 14..100_usize]).prop_map(|(spec, changes, len)| {
        let mut bytes = spec.complete();
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(len);
        bytes
    })
}

#[test]
fn equal_compact_keys_are_equal_packets_to_every_rule() {
    let (pool, seeds) = (Mempool::for_tests(64), Seeds::random());
    let plain = std::cell::Cell::new(0_u32);
    let change = (0..90_usize, any::<u8>());
    let pairs = (damaged(), proptest::collection::vec(change, 0..3), any::<bool>());
    proptest!(ProptestConfig::with_cases(20_000), |((first, changes, longer) in pairs)| {
        let mut second = first.clone();
        for (at, value) in changes {
            let at = at % second.len();
            second[at] = value;
        }
        if longer {
            second.push(0x77);
        }
        let (a, a_key, a_layers) = keys(&pool, &first, 1, &seeds);
        let (b, b_key, b_layers) = keys(&pool, &second, 1, &seeds);
        for (compact, layers) in [(&a, a_layers), (&b, b_layers)] {
            if compact.is_plain() {
                prop_assert_eq!(compact.layers(), layers);
                plain.set(plain.get() + 1);
            }
        }
        if a.is_plain() && b.is_plain() && a.kind == b.kind {
            let same = a.tag == b.tag;
            prop_assert!(!same || a_key == b_key && a.hash == b.hash, "{:02x?}\n{:02x?}\n{:?}\n{:?}", first, second, a_key, b_key);
        }
    });
    assert!(plain.get() > 10_000, "only {} plain packets", plain.get());
}

#[test]
fn ordinary_packets_are_plain_and_what_nobody_matches_does_not_show() {
    let (pool, seeds) = (Mempool::for_tests(64), Seeds::random());
    for ipv4 in [true, false] {
        for l4 in [L4::Tcp, L4::Udp] {
            for tags in [vec![], vec![5]] {
                // Some of them shorter than a key, which is then padded, and most others not.
                let spec = Spec { tags, ..Spec::plain(ipv4, l4, 0) };
                let (key, ..) = keys(&pool, &spec.complete(), 1, &seeds);
                assert!(key.is_plain(), "{spec:?}");
                let mut other = spec.clone();
                other.payload = vec![1; 100];
                (other.tcp_seq, other.ipv4_id, other.padding) = (7, 8, 3);
                let (same, ..) = keys(&pool, &other.complete(), 1, &seeds);
                assert_eq!((key.tag, key.hash), (same.tag, same.hash), "{spec:?}");
                let (elsewhere, ..) = keys(&pool, &spec.complete(), 2, &seeds);
                assert_ne!(key.tag, elsewhere.tag, "another port: {spec:?}");
            }
        }
    }
}

#[test]
fn odd_packets_take_the_slow_path() {
    let (pool, seeds) = (Mempool::for_tests(64), Seeds::random());
    let tcp = Spec::plain(true, L4::Tcp, 20);
    let six = Spec::plain(false, L4::Tcp, 20);
    let change = |spec: &Spec, at: usize, value: u8| {
        let mut bytes = spec.complete();
        bytes[at] = value;
        bytes
    };
    for (what, bytes) in [
        ("IPv4 options", Spec { ip_options: 1, ..tcp.clone() }.complete()),
        ("more fragments", change(&tcp, 20, 0x20)),
        ("a later fragment", change(&tcp, 21, 1)),
        ("a length beyond the frame", change(&tcp, 16, 1)),
        ("a length within the headers", change(&tcp, 17, 30)),
        ("a TCP offset of 4", change(&tcp, 46, 0x40)),
        ("a TCP offset beyond the packet", change(&tcp, 46, 0xf0)),
        ("another protocol", change(&tcp, 23, 47)),
        ("version 5", change(&tcp, 14, 0x55)),
        ("two tags", Spec { tags: vec![1, 2], ..tcp.clone() }.complete()),
        ("IPv6 extensions", Spec { extensions: vec![(0, 1)], ..six.clone() }.complete()),
        ("a neighbour solicitation", {
            let mut bytes = change(&six, 20, 58);
            bytes[54..56].copy_from_slice(&[135, 0]);
            bytes
        }),
        ("an IPv6 length beyond the frame", change(&six, 18, 1)),
        ("ARP", [&[2; 12][..], &[8, 6], &[0; 46]].concat()),
        ("no type", vec![2; 14]),
    ] {
        let (key, ..) = keys(&pool, &bytes, 1, &seeds);
        assert!(!key.is_plain(), "{what}: {bytes:02x?}");
    }
    let mut compact = Compact::default();
    compact.read(&cut(&pool, &tcp.complete(), &[40]), &seeds.came(PortId(1), 0), &seeds);
    assert!(!compact.is_plain(), "headers in two segments");
}

/// A packet of a port, and a mask that looks at these bits of its source.
fn masked(port: u32, bits: u32) -> (FlowKey, FlowMask) {
    let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
    key.set(Field::InPort, port.into());
    key.set(Field::EthType, 0x800);
    key.set(Field::NwSrc, bits.into());
    [Field::InPort, Field::RecircId, Field::EthType].into_iter().for_each(|field| mask.add(field));
    mask.add_bits(Field::NwSrc, bits.into());
    (key, mask)
}

/// Keeps a decision for a packet with a mask.
fn keep(tuples: &mut Tuples, key: &FlowKey, mask: &FlowMask) -> Option<Arc<Megaflow>> {
    let hash = tuples.place(key, mask)?;
    let translation = Translation { mask: mask.clone(), ..Translation::default() };
    let megaflow = Arc::new(Megaflow::new(translation, key, None, hash, 0));
    tuples.insert(Arc::clone(&megaflow), key, mask);
    Some(megaflow)
}

#[test]
fn every_port_stage_and_type_has_masks_of_its_own() {
    let mut tuples = Tuples::new(7);
    let all: Vec<Arc<Megaflow>> = (1..=u32::try_from(MEGAFLOW_MASKS_MAX).expect("few"))
        .map(|bits| {
            let (key, mask) = masked(1, bits);
            keep(&mut tuples, &key, &mask).expect("room")
        })
        .collect();
    let one_more = masked(1, 1000);
    assert!(tuples.is_full_for(&one_more.0, &one_more.1) && keep(&mut tuples, &one_more.0, &one_more.1).is_none());
    assert!(!tuples.is_full_for(&one_more.0, &masked(1, 3).1), "a mask that is there");
    for (field, value) in [(Field::InPort, 2), (Field::RecircId, 1), (Field::EthType, 0x86dd)] {
        let mut key = one_more.0.clone();
        key.set(field, value);
        assert!(tuples.find(&key).is_none() && !tuples.is_full_for(&key, &one_more.1), "{field:?}");
        let kept = keep(&mut tuples, &key, &one_more.1).expect("room");
        assert!(Arc::ptr_eq(&tuples.find(&key).expect("kept"), &kept));
    }
    // Packets that are like one in everything are kept, however many masks there are.
    let exact = keep(&mut tuples, &one_more.0, &EVERYTHING).expect("always room");
    assert!(tuples.find(&one_more.0).is_some());
    assert_eq!(tuples.masks(), MEGAFLOW_MASKS_MAX + 4);
    all.iter().chain([&exact]).for_each(|megaflow| tuples.remove(megaflow));
    assert_eq!(tuples.masks(), 3);
    assert!(tuples.find(&masked(1, 5).0).is_none());
    assert!(keep(&mut tuples, &one_more.0, &one_more.1).is_some(), "room again");
}

#[test]
fn the_mask_with_the_fewest_hits_gives_way() {
    let mut tuples = Tuples::new(7);
    let keys = [1, 2, 4, 8].map(|bits| {
        let (key, mask) = masked(1, bits);
        keep(&mut tuples, &key, &mask);
        key
    });
    // Far more often than numbers are kept.
    for _ in 0..10_000 {
        for (key, hits) in keys.iter().zip([4, 3, 2, 1]) {
            (0..hits).for_each(|_| assert!(tuples.find(key).is_some()));
        }
    }
    let least = tuples.least_used(&masked(1, 0).0);
    assert_eq!(least.len(), 1);
    assert!(least[0].matching().matches(&masked(1, 8).0), "{:?}", least[0].matching());
    assert!(tuples.least_used(&masked(2, 0).0).is_empty(), "nothing of another port");
}

#[test]
fn the_tuple_that_is_looked_for_ahead_is_the_one_that_extraction_reads() {
    let (pool, seeds) = (Mempool::for_tests(64), Seeds::random());
    let seen = std::cell::Cell::new([0_u32; 2]);
    proptest!(ProptestConfig::with_cases(5000), |(bytes in damaged())| {
        let (compact, key, _) = keys(&pool, &bytes, 7, &seeds);
        let field = |field| key.get(field);
        let (tcp, udp) = (field(Field::NwProto) == 6, field(Field::NwProto) == 17);
        let mbuf = pool.mbuf_from(&bytes).expect("mbuf");
        let tuple = compact.tuple(mbuf.head());
        prop_assert_eq!(tuple.is_some(), compact.is_plain() && (tcp || udp));
        prop_assert_eq!(compact.opens(mbuf.head()), compact.is_plain() && tcp && field(Field::TcpFlags) & 2 != 0);
        let Some(tuple) = tuple else { return Ok(()) };
        let addresses = match tuple.family {
            vswitch_conntrack::Family::V4 => [Field::NwSrc, Field::NwDst],
            vswitch_conntrack::Family::V6 => [Field::Ipv6Src, Field::Ipv6Dst],
        };
        prop_assert_eq!([tuple.src.addr, tuple.dst.addr], addresses.map(field));
        let ports = [tuple.src.port, tuple.dst.port].map(u128::from);
        prop_assert_eq!(ports, [Field::TpSrc, Field::TpDst].map(field));
        prop_assert_eq!(u128::from(tuple.protocol), field(Field::NwProto));
        let [all, opening] = seen.get();
        seen.set([all + 1, opening + u32::from(compact.opens(mbuf.head()))]);
    });
    let [all, opening] = seen.get();
    assert!(all > 500 && opening > 20, "{all} tuples, {opening} of SYNs");
}

#[test]
fn the_last_decision_is_for_packets_that_fit_it_until_it_ends() {
    let (mut tuples, mut last_hit) = (Tuples::new(3), LastHit::new(5));
    let (key, mask) = masked(1, 8);
    let mut other = key.clone();
    other.set(Field::NwSrc, 0);
    let megaflow = keep(&mut tuples, &key, &mask).expect("room");
    assert!(last_hit.take(megaflow.bridge, &key).is_none(), "nothing yet");
    last_hit.put(&key, Arc::clone(&megaflow));
    assert!(last_hit.take(megaflow.bridge + 1, &key).is_none(), "of another bridge");
    assert!(last_hit.take(megaflow.bridge, &other).is_none(), "another source");
    let found = last_hit.take(megaflow.bridge, &key).expect("the last one");
    assert!(Arc::ptr_eq(&found, &megaflow) && last_hit.take(megaflow.bridge, &key).is_none(), "taken out");
    last_hit.put(&key, found);
    megaflow.kill();
    (0..100).for_each(|_| last_hit.sweep());
    assert_eq!(Arc::strong_count(&megaflow), 2, "the tuples' and ours: what has ended is held by nobody");
    last_hit.put(&key, Arc::clone(&megaflow));
    assert!(last_hit.take(megaflow.bridge, &key).is_none(), "nor remembered again");
}

/// Megaflows, each of which is a path's only step.
fn chains(n: u32) -> Vec<Arc<Megaflow>> {
    let mut tuples = Tuples::new(3);
    (0..n)
        .filter_map(|i| {
            let (key, mask) = masked(i, 8);
            keep(&mut tuples, &key, &mask)
        })
        .collect()
}

fn macs(i: usize) -> [u8; 12] {
    std::array::from_fn(|at| i.to_le_bytes()[at % 8])
}

#[test]
fn who_varies_mac_addresses_has_few_paths_and_leaves_those_of_others_alone() {
    let (mut paths, shared, chains) = (Paths::default(), CacheShared::default(), chains(2));
    let [varied, other] = [0, 1].map(|i| std::slice::from_ref(&chains[i]));
    let of_other = paths.intern(other, PortId(1), macs(7), &shared).expect("a path");
    for i in 1..=PATH_VARIANTS_MAX {
        assert!(paths.may_vary(varied, macs(i)), "variant {i}");
        paths.intern(varied, PortId(2), macs(i), &shared).expect("a path");
    }
    assert!(!paths.may_vary(varied, macs(99)), "one more");
    assert!(paths.may_vary(varied, macs(1)) && paths.may_vary(other, macs(99)), "one that is there; of other steps");
    let again = paths.intern(other, PortId(1), macs(7), &shared).expect("a path");
    assert!(Arc::ptr_eq(&again, &of_other));
    // No program has any of them: they go, and there is room again.
    (0..10).for_each(|_| paths.sweep(PATH_VARIANTS_MAX));
    assert_eq!(paths.len(), 1, "the one that is held");
    assert!(paths.may_vary(varied, macs(99)));
}

#[test]
fn a_path_that_cannot_be_found_any_more_still_tells_when_its_packets_came() {
    let (mut paths, shared) = (Paths::default(), CacheShared::default());
    let chains = chains(3 * u32::try_from(PATHS_MAX).expect("few in tests"));
    let all: Vec<_> = chains
        .iter()
        .map(|megaflow| paths.intern(std::slice::from_ref(megaflow), PortId(1), macs(0), &shared).expect("a path"))
        .collect();
    assert_eq!(paths.len(), PATHS_MAX, "paths that can be found");
    all.iter().for_each(|path| path.count(60, Millis(5000)));
    (0..4).for_each(|_| paths.sweep(PATHS_MAX));
    for (i, megaflow) in chains.iter().enumerate() {
        assert_eq!(megaflow.used(), Millis(5000), "of path {i}");
    }
    drop(all);
    (0..4).for_each(|_| paths.sweep(PATHS_MAX));
    assert_eq!(paths.len(), 0, "nobody has them any more");
}
