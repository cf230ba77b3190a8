//! Compact keys.

use super::compact::{Compact, Kind, Seeds};
use crate::dpdk::Mempool;
use crate::packet::L4;
use crate::packet::testing::{Spec, cut, specs};
use crate::port::PortId;
use proptest::prelude::*;
use vswitch_flow::FlowKey;
use vswitch_flow::extract::{Layers, extract};

fn keys(pool: &Mempool, bytes: &[u8], port: u16, seeds: &Seeds) -> (Compact, FlowKey, Layers) {
    let mbuf = pool.mbuf_from(bytes).expect("mbuf");
    let (mut compact, mut key) = (Compact::default(), FlowKey::default());
    // What an earlier packet left there does not matter.
    compact.read(&pool.mbuf_from(&[0x55; 80]).expect("mbuf"), PortId(9), seeds);
    compact.read(&mbuf, PortId(port), seeds);
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
            let n = if a.kind == Kind::V4 { super::compact::WORDS_V4 } else { super::compact::WORDS_V6 };
            let same = a.words[..n] == b.words[..n];
            prop_assert!(!same || (a_key == b_key && a.hash == b.hash), "{:02x?}\n{:02x?}\n{:?}\n{:?}", first, second, a_key, b_key);
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
                let spec = Spec { tags, ..Spec::plain(ipv4, l4, 20) };
                let (key, ..) = keys(&pool, &spec.complete(), 1, &seeds);
                assert!(key.is_plain(), "{spec:?}");
                let mut other = spec.clone();
                other.payload = vec![1; 100];
                (other.tcp_seq, other.ipv4_id, other.padding) = (7, 8, 3);
                let (same, ..) = keys(&pool, &other.complete(), 1, &seeds);
                assert_eq!((key.words, key.hash), (same.words, same.hash), "{spec:?}");
                let (elsewhere, ..) = keys(&pool, &spec.complete(), 2, &seeds);
                assert_ne!(key.words, elsewhere.words, "another port: {spec:?}");
            }
        }
    }
}

#[test]
fn odd_packets_go_the_long_way() {
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
    compact.read(&cut(&pool, &tcp.complete(), &[40]), PortId(1), &seeds);
    assert!(!compact.is_plain(), "headers in two segments");
}
