//! What was observed on Open vSwitch 3.1, where we do as it does; then what holds of any
//! translation.

use super::*;
use crate::{Family, protocol};
use proptest::prelude::*;
use std::collections::HashSet;

const CLIENT: u128 = 0x0a00_000b;
const SERVER: u128 = 0x0a00_0002;
const NAT: u128 = 0x0a00_004d;
const HASH: u64 = 0x1234_5678_9abc_def0;

fn tuple(src: (u128, u16), dst: (u128, u16)) -> Tuple {
    let (src, dst) = (End { addr: src.0, port: src.1 }, End { addr: dst.0, port: dst.1 });
    Tuple { src, dst, protocol: protocol::TCP, zone: 1, ..Tuple::default() }
}

fn snat(addr: u128) -> Nat {
    Nat { side: Some(NatSide::Src), addresses: Some((addr, addr)), ..Nat::default() }
}

fn dnat(addr: u128) -> Nat {
    Nat { side: Some(NatSide::Dst), ..snat(addr) }
}

/// Connections as a tracker would hold them: tuples of replies that are taken.
#[derive(Default)]
struct Taken(HashSet<Tuple>);

impl Taken {
    fn choose(&self, original: &Tuple, nat: &Nat) -> Option<Tuple> {
        choose(original, nat, HASH, |reply| !self.0.contains(reply))
    }

    /// Chooses and takes.
    fn take(&mut self, original: &Tuple, nat: &Nat) -> Option<Tuple> {
        let reply = self.choose(original, nat)?;
        assert!(self.0.insert(reply), "{reply:?} was not free");
        Some(reply)
    }
}

/// Source ports that clients of one port get behind one address.
fn source_ports(port: u16, clients: u128) -> Vec<u16> {
    let mut taken = Taken::default();
    let ports = (0..clients).map(|client| taken.take(&tuple((CLIENT + client, port), (SERVER, 80)), &snat(NAT)));
    ports.map(|reply| reply.expect("a free port").dst.port).collect()
}

#[test]
fn source_ports_go_upward_in_their_class() {
    for (port, expected) in [
        (1000, [1000, 1001, 1002, 1003]),
        (511, [511, 1, 2, 3]),
        (512, [512, 600, 601, 602]),
        (599, [599, 600, 601, 602]),
        (1023, [1023, 600, 601, 602]),
        (1024, [1024, 1025, 1026, 1027]),
        (65_535, [65_535, 1024, 1025, 1026]),
        (1, [1, 2, 3, 4]),
    ] {
        assert_eq!(source_ports(port, 4), expected, "of {port}");
    }
    let all: HashSet<u16> = source_ports(300, 511).into_iter().collect();
    assert_eq!(all, (1..=511).collect());
}

#[test]
fn another_destination_uses_the_port_again() {
    let mut taken = Taken::default();
    for dst in [(SERVER, 80), (SERVER, 81), (SERVER + 1, 80)] {
        let reply = taken.take(&tuple((CLIENT, 1000), dst), &snat(NAT)).expect("a free port");
        assert_eq!((reply.src, reply.dst), (End { addr: dst.0, port: dst.1 }, End { addr: NAT, port: 1000 }));
        let clash = taken.take(&tuple((CLIENT + 1, 1000), dst), &snat(NAT)).expect("a free port");
        assert_eq!(clash.dst.port, 1001);
    }
}

#[test]
fn a_range_of_source_ports_is_used_up_and_not_more() {
    let nat = Nat { ports: Some((5000, 5003)), ..snat(NAT) };
    let mut taken = Taken::default();
    let ports: Vec<u16> = (0..4)
        .map(|client| taken.take(&tuple((CLIENT + client, 5001), (SERVER, 80)), &nat).expect("a free port").dst.port)
        .collect();
    for pair in ports.windows(2) {
        assert_eq!(pair[1], if pair[0] == 5003 { 5000 } else { pair[0] + 1 }, "{ports:?}");
    }
    let late = tuple((CLIENT + 9, 5001), (SERVER, 80));
    assert_eq!(taken.choose(&late, &nat), None);
    taken.0.retain(|reply| reply.dst.port != 5002);
    assert_eq!(taken.choose(&late, &nat).expect("the one that was freed").dst.port, 5002);
}

#[test]
fn addresses_by_hash_then_ports_then_the_next_address() {
    let nat = Nat { addresses: Some((NAT, NAT + 3)), ports: Some((5000, 5001)), ..snat(0) };
    let mut taken = Taken::default();
    let found: Vec<End> = (0..8)
        .map(|client| taken.take(&tuple((CLIENT + client, 7), (SERVER, 80)), &nat).expect("a free tuple").dst)
        .collect();
    for pair in found.chunks(2) {
        assert_eq!(pair[0].addr, pair[1].addr, "ports of an address first: {found:?}");
    }
    for pair in found.chunks(2).collect::<Vec<_>>().windows(2) {
        let next = if pair[0][0].addr == NAT + 3 { NAT } else { pair[0][0].addr + 1 };
        assert_eq!(pair[1][0].addr, next, "{found:?}");
    }
    assert_eq!(taken.choose(&tuple((CLIENT, 7), (SERVER, 80)), &nat), None);
    let firsts: HashSet<u128> = (0..64)
        .map(|hash| choose(&tuple((CLIENT, 7), (SERVER, 80)), &nat, hash, |_| true).expect("free").dst.addr)
        .collect();
    assert_eq!(firsts.len(), 4, "every address is the first one by some hash");
}

#[test]
fn destination_clashes_change_the_source_port() {
    let mut taken = Taken::default();
    let nat = Nat { ports: Some((80, 80)), ..dnat(SERVER) };
    for (dst, port) in [((NAT, 80), 1000), ((NAT + 1, 8080), 1001), ((SERVER, 80), 1002)] {
        let reply = taken.take(&tuple((CLIENT, 1000), dst), &nat).expect("a free tuple");
        assert_eq!(reply.src, End { addr: SERVER, port: 80 });
        assert_eq!(reply.dst, End { addr: CLIENT, port }, "to {dst:?}");
    }
    let kept = taken.choose(&tuple((CLIENT, 1003), (NAT, 443)), &dnat(SERVER)).expect("a free tuple");
    assert_eq!(kept.src, End { addr: SERVER, port: 443 }, "without ports the port is kept");
}

#[test]
fn destination_ranges_are_spread_by_hash() {
    let nat = Nat { addresses: Some((SERVER, SERVER + 3)), ports: Some((8080, 8083)), ..dnat(0) };
    let original = tuple((CLIENT, 1000), (NAT, 80));
    let ends: HashSet<End> = (0..400_u64)
        .map(|number| choose(&original, &nat, number.wrapping_mul(0x9e37_79b9_7f4a_7c15), |_| true).expect("free").src)
        .collect();
    assert_eq!(ends.len(), 16);
}

#[test]
fn identity_and_oneself() {
    let original = tuple((CLIENT, 1000), (SERVER, 80));
    for nat in [snat(CLIENT), dnat(SERVER), snat(0), dnat(0), Nat { addresses: None, ..snat(0) }, Nat::default()] {
        assert_eq!(Taken::default().choose(&original, &nat), Some(original.reversed()), "{nat:?}");
    }
    let hairpin = Taken::default().choose(&original, &dnat(CLIENT)).expect("a free tuple");
    assert_eq!((hairpin.src, hairpin.dst), (End { addr: CLIENT, port: 80 }, End { addr: CLIENT, port: 1000 }));
    let mut taken = Taken::default();
    taken.0.insert(original.reversed());
    assert_eq!(taken.choose(&original, &Nat::default()), None, "bare: no other tuple will do");
    assert_eq!(taken.choose(&original, &snat(0)).expect("a free port").dst, End { addr: CLIENT, port: 1001 });
}

#[test]
fn identifiers_are_changed_on_a_clash() {
    for (family, protocol, request, reply) in
        [(Family::V4, protocol::ICMP, 8 << 8, 0), (Family::V6, protocol::ICMPV6, 128 << 8, 129 << 8)]
    {
        for nat in [snat(NAT), Nat { ports: Some((5000, 5000)), ..snat(NAT) }] {
            let mut taken = Taken::default();
            for (client, id) in [(CLIENT, 65_535), (CLIENT + 1, 0), (CLIENT + 2, 1)] {
                let original = Tuple { family, protocol, ..tuple((client, 65_535), (SERVER, request)) };
                let chosen = taken.take(&original, &nat).expect("a free identifier");
                assert_eq!((chosen.src, chosen.dst), (End { addr: SERVER, port: id }, End { addr: NAT, port: reply }));
                let sent = chosen.reversed();
                assert_eq!((sent.src, sent.dst), (End { addr: NAT, port: id }, End { addr: SERVER, port: request }));
            }
        }
    }
}

/// One ICMP id from many hosts (P14 of docs/testing.md, "Numbers of hostile inputs").
#[test]
fn one_identifier_of_a_thousand_hosts() {
    let mut taken = Taken::default();
    for client in 0..1000 {
        let ping = Tuple { protocol: protocol::ICMP, ..tuple((CLIENT + client, 7), (SERVER, 8 << 8)) };
        assert!(taken.take(&ping, &snat(NAT)).is_some(), "host {client}");
    }
}

#[test]
fn many_addresses_do_not_make_an_address_small() {
    let nat = Nat { addresses: Some((NAT, NAT + 99)), ..snat(0) };
    let original = tuple((CLIENT, 40_000), (SERVER, 80));
    let first = choose(&original, &nat, HASH, |_| true).expect("free").dst;
    let found = choose(&original, &nat, HASH, |reply| !(40_000..40_050).contains(&reply.dst.port)).expect("free").dst;
    assert_eq!(found, End { addr: first.addr, port: 40_050 });
}

#[test]
fn without_ports_addresses_only() {
    let nat = Nat { addresses: Some((NAT, NAT + 1)), ports: Some((1, 9)), ..snat(0) };
    let mut taken = Taken::default();
    let gre = |client| Tuple { protocol: 47, ..tuple((client, 0), (SERVER, 0)) };
    let found: HashSet<End> = (0..2).map(|n| taken.take(&gre(CLIENT + n), &nat).expect("an address").dst).collect();
    assert_eq!(found, [NAT, NAT + 1].map(|addr| End { addr, port: 0 }).into());
    assert_eq!(taken.choose(&gre(CLIENT + 2), &nat), None);
}

#[test]
fn random_begins_elsewhere_each_time() {
    let nat = Nat { ports: Some((1024, 65_535)), random: true, ..snat(NAT) };
    let original = tuple((CLIENT, 1000), (SERVER, 80));
    let ports: HashSet<u16> =
        (0..100).map(|_| choose(&original, &nat, HASH, |_| true).expect("free").dst.port).collect();
    assert!(ports.len() > 90, "{} ports", ports.len());
    let fixed = Nat { random: false, ..nat };
    assert_eq!(choose(&original, &fixed, HASH, |_| true), choose(&original, &fixed, HASH, |_| true));
}

#[test]
fn a_search_ends() {
    let original = tuple((CLIENT, 40_000), (SERVER, 80));
    let (wide, huge) = (Some((1024, 65_535)), Some((1, u128::MAX)));
    for nat in [
        snat(NAT),
        dnat(NAT),
        Nat { ports: wide, ..snat(NAT) },
        Nat { ports: wide, ..dnat(NAT) },
        Nat { addresses: huge, ..snat(0) },
        Nat { addresses: huge, ports: wide, ..dnat(0) },
        Nat { addresses: Some((9, 3)), ports: Some((9, 3)), ..snat(0) },
        Nat { addresses: Some((u128::MAX, u128::MAX)), ports: Some((65_535, 65_535)), ..snat(0) },
    ] {
        let mut probes = 0;
        let found = choose(&original, &nat, HASH, |_| {
            probes += 1;
            false
        });
        assert_eq!(found, None, "{nat:?}");
        assert!(probes <= 1024, "{nat:?}: {probes} probes");
    }
}

/// Every member of a wide range is tried for somebody; and among few taken ones the free ones are
/// found at once.
#[test]
fn wide_ranges_are_searched_everywhere() {
    let nat = Nat { ports: Some((1024, 65_535)), ..snat(NAT) };
    let original = tuple((CLIENT, 40_000), (SERVER, 80));
    let mut tried = HashSet::new();
    for number in 0..2000_u64 {
        let mut mine = HashSet::new();
        choose(&original, &nat, number.wrapping_mul(0x9e37_79b9_7f4a_7c15), |reply| {
            assert!(mine.insert(*reply), "{reply:?} twice");
            false
        });
        assert_eq!(mine.len(), 1024);
        tried.extend(mine);
    }
    assert_eq!(tried.len(), 64_512);
    // Nine tenths of the range taken, in one piece: the half of the probes that is spread finds the
    // rest.
    let found = choose(&original, &nat, 0, |reply| reply.dst.port > 59_000);
    assert!(found.is_some());
}

/// A wide range of destination ports that is full leaves some probes for source ports.
#[test]
fn source_ports_have_a_share() {
    let nat = Nat { ports: Some((1024, 65_535)), ..dnat(SERVER) };
    let original = tuple((CLIENT, 40_000), (NAT, 80));
    let found = choose(&original, &nat, HASH, |reply| reply.dst.port != 40_000).expect("a free source port");
    assert_eq!(found.dst, End { addr: CLIENT, port: 40_001 });
}

/// `src/nat/ovs31.txt` is what Open vSwitch 3.1.0 chose for random connections; its first lines say
/// how to read it.
#[test]
fn as_open_vswitch_on_random_connections() {
    let (mut nat, mut taken, mut chosen) = (Nat::default(), Taken::default(), 0);
    let address = |word: &str| u128::from(u32::from(word.parse::<std::net::Ipv4Addr>().expect(word)));
    let end = |words: &[&str]| (address(words[0]), words[1].parse::<u16>().expect(words[1]));
    for (number, line) in (1..).zip(include_str!("ovs31.txt").lines().filter(|line| !line.starts_with('#'))) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "nat" {
            let side = Some(if words[1] == "src" { NatSide::Src } else { NatSide::Dst });
            let ports = words[4].parse().ok().map(|port| (port, port));
            nat = Nat { side, addresses: Some((address(words[2]), address(words[3]))), ports, random: false };
            taken = Taken::default();
            continue;
        }
        let udp = |src, dst| Tuple { protocol: protocol::UDP, ..tuple(src, dst) };
        let original = udp(end(&words[..2]), end(&words[2..4]));
        let expected = (words[5] != "-").then(|| udp(end(&words[5..7]), end(&words[7..])));
        assert_eq!(taken.choose(&original, &nat), expected, "line {number} of them: {line}, {nat:?}");
        taken.0.extend(expected);
        if expected.is_some() {
            taken.0.insert(original);
            chosen += 1;
        }
    }
    assert!(chosen > 250, "{chosen} were chosen");
}

fn nats() -> impl Strategy<Value = Nat> {
    let side = prop_oneof![Just(None), Just(Some(NatSide::Src)), Just(Some(NatSide::Dst))];
    let addresses = proptest::option::of((0_u128..20, 0_u128..6).prop_map(|(first, more)| (first, first + more)));
    let any_ports = (any::<u16>(), prop_oneof![0_u16..6, any::<u16>()]);
    let ports = proptest::option::of(any_ports.prop_map(|(first, more)| (first, first.saturating_add(more))));
    (side, addresses, ports, any::<bool>()).prop_map(|(side, addresses, ports, random)| Nat {
        side,
        addresses,
        ports,
        random,
    })
}

fn tuples() -> impl Strategy<Value = Tuple> {
    let port = prop_oneof![Just(0_u16), 500_u16..620, 1000_u16..1030, 65_530..=u16::MAX, any::<u16>()];
    let end = (1_u128..20, port).prop_map(|(addr, port)| End { addr, port });
    let protocol = prop_oneof![Just(protocol::TCP), Just(protocol::UDP), Just(protocol::ICMP), Just(47)];
    (end.clone(), end, protocol).prop_map(|(src, dst, protocol)| {
        let (src_port, dst_port) = match protocol {
            protocol::ICMP => (src.port, 8 << 8),
            47 => (0, 0),
            _ => (src.port, dst.port),
        };
        Tuple { protocol, ..tuple((src.addr, src_port), (dst.addr, dst_port)) }
    })
}

fn class(port: u16) -> u8 {
    if port < 512 { 0 } else { 1 + u8::from(port > 1023) }
}

/// Whether replies to `original` may have this tuple.
fn is_member(original: &Tuple, nat: &Nat, reply: &Tuple) -> bool {
    let as_is = original.reversed();
    let Some(side) = nat.side else { return *reply == as_is };
    let (own, new, kept) = match side {
        NatSide::Src => (as_is.dst.addr, reply.dst, (reply.src.addr, as_is.src.addr)),
        NatSide::Dst => (as_is.src.addr, reply.src, (reply.dst.addr, as_is.dst.addr)),
    };
    let (first, last) = nat.addresses.filter(|range| range.0 != 0).unwrap_or((own, own));
    let address = (first..=last).contains(&new.addr) && kept.0 == kept.1;
    let rest = (reply.family, reply.protocol, reply.zone) == (as_is.family, as_is.protocol, as_is.zone);
    let source_class = class(reply.dst.port) == class(as_is.dst.port);
    let ports = match (side, nat.ports) {
        _ if original.is_icmp() => reply.dst.port == as_is.dst.port,
        _ if !original.has_ports() => (reply.src.port, reply.dst.port) == (0, 0),
        (NatSide::Src, Some((first, last))) => {
            (first..=last).contains(&reply.dst.port) && reply.src.port == as_is.src.port
        }
        (NatSide::Dst, Some((first, last))) => (first..=last).contains(&reply.src.port) && source_class,
        (_, None) => reply.src.port == as_is.src.port && source_class,
    };
    address && rest && ports
}

proptest! {
    #[test]
    fn found_is_free_and_in_range(original in tuples(), nat in nats(), hash: u64, busy in 0_u64..=16, salt: u64) {
        let is_free = |reply: &Tuple| {
            let ends = [reply.src, reply.dst].map(|end| end.addr << 16 | u128::from(end.port));
            let mixed = u64::try_from(ends[0] << 21 ^ ends[1]).expect("addresses below 32");
            (mixed ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 >= busy
        };
        let mut tried = HashSet::new();
        let found = choose(&original, &nat, hash, |reply| {
            assert!(is_member(&original, &nat, reply), "{reply:?} for {original:?}, {nat:?}");
            tried.insert(*reply);
            is_free(reply)
        });
        match found {
            Some(reply) => {
                prop_assert!(is_free(&reply) && tried.contains(&reply));
                prop_assert_eq!(tried.iter().filter(|reply| is_free(reply)).count(), 1, "the first free one");
            }
            None => prop_assert!(tried.iter().all(|reply| !is_free(reply))),
        }
    }

    /// Of ranges that the probes suffice for, nothing is overlooked.
    #[test]
    fn none_means_none(src: u8, addresses in 1_u16..5, ports in 1_u16..250, first in 1_u16..60_000, hash: u64, free in any::<prop::sample::Index>()) {
        let original = tuple((CLIENT, u16::from(src)), (SERVER, 80));
        let nat = Nat { addresses: Some((NAT, NAT + u128::from(addresses) - 1)), ports: Some((first, first + ports - 1)), ..snat(0) };
        let free = free.index(usize::from(addresses) * usize::from(ports));
        let (address, port) = (free / usize::from(ports), u16::try_from(free % usize::from(ports)).expect("below 250"));
        let only = End { addr: NAT + address as u128, port: first + port };
        let found = choose(&original, &nat, hash, |reply| reply.dst == only);
        prop_assert_eq!(found.map(|reply| reply.dst), Some(only));
    }
}
