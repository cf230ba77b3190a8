//! What was observed on Open vSwitch, line by line, and what a decision may use.

use super::*;
use Field::{ConjId, EthType, InPort, NwDst, NwProto, NwSrc, Reg0, Reg1, TpDst, TpSrc};

/// Three fields for three clauses.
const A: (Field, u128) = (InPort, 1);
const B: (Field, u128) = (Reg0, 2);
const C: (Field, u128) = (Reg1, 3);
const MISS: u32 = 99;

fn one(field: (Field, u128)) -> SparseMatch {
    matching(&[field])
}

fn conj(id: u32) -> SparseMatch {
    matching(&[(ConjId, id.into())])
}

/// Clauses 1/2 on A and 2/2 on B of id 5 at priority 10, its flow at `priority`, and a table-miss
/// flow.
fn two_clauses(priority: u16) -> Both {
    Both::new([
        soft(10, one(A), &[(5, 1, 2)], 1),
        soft(10, one(B), &[(5, 2, 2)], 2),
        plain(priority, conj(5), 50),
        plain(0, matching(&[]), MISS),
    ])
}

#[test]
fn a_conjunction_needs_all_clauses() {
    let both = two_clauses(10);
    assert_eq!(both.find(&[A, B]), Some((50, 5)));
    assert_eq!(both.find(&[A]), Some((MISS, 0)));
    assert_eq!(both.find(&[B]), Some((MISS, 0)));
    assert_eq!(both.find(&[]), Some((MISS, 0)));
}

#[test]
fn a_plain_flow_wins_at_equal_priority_whatever_was_added_first() {
    for first in [true, false] {
        let mut both = Both::default();
        let hard = || plain(10, matching(&[(EthType, 0x800)]), 7);
        if first {
            both.insert(hard());
        }
        both.insert(soft(10, one(A), &[(5, 1, 2)], 1));
        both.insert(soft(10, one(B), &[(5, 2, 2)], 2));
        both.insert(plain(20, conj(5), 50));
        if !first {
            both.insert(hard());
        }
        assert_eq!(both.find(&[A, B, (EthType, 0x800)]), Some((7, 0)));
        assert_eq!(both.find(&[A, B]), Some((50, 5)));
    }
}

#[test]
fn clauses_of_different_priorities_do_not_combine() {
    // AntreaPolicyIngressRule of the pipeline document: conjunction 4 at 14600 and 14599.
    let both = Both::new([
        soft(14600, one(A), &[(4, 1, 2)], 1),
        soft(14599, one(B), &[(4, 2, 2)], 2),
        plain(14600, conj(4), 40),
        plain(0, matching(&[]), MISS),
    ]);
    assert_eq!(both.find(&[A, B]), Some((MISS, 0)));
}

#[test]
fn the_second_lookup_is_in_the_whole_table_at_any_priority() {
    for priority in [1, 9, 10, 11, 60_000] {
        assert_eq!(two_clauses(priority).find(&[A, B]), Some((50, 5)), "conj_id flow at {priority}");
    }
    // K8s rules: clauses at 200, conj_id flow at 190, and a plain flow between them.
    let mut both = two_clauses(8);
    both.insert(plain(9, matching(&[A, B]), 9));
    assert_eq!(both.find(&[A, B]), Some((9, 5)), "a plain flow above the conj_id flow beats it");
}

#[test]
fn without_a_conj_id_flow_the_table_miss_flow_wins_and_other_ids_are_not_tried() {
    let mut both = Both::new([
        soft(10, one(A), &[(5, 1, 2)], 1),
        soft(10, one(B), &[(5, 2, 2)], 2),
        soft(9, one(A), &[(6, 1, 2)], 3),
        soft(9, one(B), &[(6, 2, 2)], 4),
        plain(10, conj(6), 60),
    ]);
    assert_eq!(both.find(&[A, B]), None);
    both.insert(plain(0, matching(&[]), MISS));
    assert_eq!(both.find(&[A, B]), Some((MISS, 5)));
    both.remove(&one(A), 10);
    assert_eq!(both.find(&[A, B]), Some((60, 6)));
}

#[test]
fn what_is_incomplete_gives_way_to_the_next_lower_priority_but_not_below_the_plain_flow() {
    let mut both = Both::new([
        soft(30, one(A), &[(3, 1, 2)], 1),
        soft(20, one(A), &[(5, 1, 2)], 2),
        soft(20, one(B), &[(5, 2, 2)], 3),
        plain(1, conj(5), 50),
        plain(0, matching(&[]), MISS),
    ]);
    assert_eq!(both.find(&[A, B]), Some((50, 5)));
    both.insert(plain(19, one(B), 19));
    assert_eq!(both.find(&[A, B]), Some((19, 5)), "the plain flow is above the conj_id flow");
    both.remove(&one(B), 19);
    both.insert(plain(20, one(B), 20));
    assert_eq!(both.find(&[A, B]), Some((20, 0)), "it took the place of a clause");
    both.insert(soft(20, one(B), &[(5, 2, 2)], 3));
    assert_eq!(both.find(&[A, B]), Some((50, 5)));
    both.insert(plain(20, one(C), 21));
    assert_eq!(both.find(&[A, B, C]), Some((21, 0)), "never below the plain flow");
}

#[test]
fn of_two_complete_ids_the_one_listed_first_wins() {
    for ids in [[4, 5], [5, 4]] {
        let list = |k| ids.map(|id| (id, k, 2));
        let both = Both::new([
            soft(10, one(A), &list(1), 1),
            soft(10, one(B), &list(2), 2),
            plain(10, conj(4), 4),
            plain(10, conj(5), 5),
        ]);
        assert_eq!(both.find(&[A, B]), Some((ids[0], ids[0])));
    }
}

#[test]
fn clause_counts_that_disagree_never_match() {
    let both = Both::new([
        soft(10, one(A), &[(5, 1, 2)], 1),
        soft(10, one(B), &[(5, 2, 3)], 2),
        plain(10, conj(5), 50),
        plain(0, matching(&[]), MISS),
    ]);
    assert_eq!(both.find(&[A, B]), Some((MISS, 0)));
    assert_eq!(both.find(&[A, B, C]), Some((MISS, 0)));
}

#[test]
fn one_flow_never_counts_for_two_clauses_of_an_id() {
    let mut both = Both::new([
        soft(10, one(A), &[(5, 1, 3), (5, 2, 3)], 1),
        soft(10, one(B), &[(5, 3, 3)], 2),
        plain(10, conj(5), 50),
        plain(0, matching(&[]), MISS),
    ]);
    assert_eq!(both.find(&[A, B]), Some((MISS, 0)));
    both.insert(soft(10, one(C), &[(5, 3, 3)], 3));
    assert_eq!(both.find(&[A, B, C]), Some((MISS, 0)), "three flows, but A would have to be two of them");
    both.insert(soft(10, one(C), &[(5, 2, 3), (5, 3, 3)], 3));
    assert_eq!(both.find(&[A, B, C]), Some((50, 5)), "A is 1, C is 2, B is 3");
    both.insert(soft(10, one(B), &[(6, 3, 3)], 2));
    assert_eq!(both.find(&[A, B, C]), Some((MISS, 0)));
}

#[test]
fn a_clause_of_sixty_four_counts_and_numbers_out_of_range_do_not() {
    let fields: Vec<(Field, u128)> = (0..64).map(|i| (Field::Xxreg0, 1u128 << i)).collect();
    let bit = |i: usize| masked(&[(fields[i].0, fields[i].1, fields[i].1)]);
    let mut both = Both::new([plain(10, conj(5), 50)]);
    for i in 0..64u8 {
        both.insert(soft(10, bit(i.into()), &[(5, i + 1, 64)], i.into()));
    }
    assert_eq!(both.find(&[(Field::Xxreg0, u64::MAX.into())]), Some((50, 5)));
    assert_eq!(both.find(&[(Field::Xxreg0, (u64::MAX - 8).into())]), None);
    let both = Both::new([
        plain(1, conj(5), 50),
        soft(10, one(A), &[(5, 1, 1), (6, 3, 2)], 1),
        soft(10, one(B), &[(5, 2, 1), (6, 1, 2)], 2),
        soft(10, one(C), &[(5, 1, 0), (5, 66, 65), (5, 1, 255)], 2),
    ]);
    assert_eq!(both.find(&[A, B, C]), None);
}

#[test]
fn conj_id_zero_matches_ordinary_packets() {
    let both = Both::new([plain(10, conj(0), 1), plain(20, conj(1), 2)]);
    assert_eq!(both.find(&[A]), Some((1, 0)));
}

#[test]
fn adding_replaces_the_entry_of_equal_match_and_priority_be_it_a_clause_or_not() {
    let mut both = two_clauses(10);
    assert_eq!(both.insert(plain(10, one(A), 7)), Some(1));
    assert_eq!(both.find(&[A, B]), Some((7, 0)));
    assert_eq!(both.insert(soft(10, one(A), &[(5, 1, 2)], 8)), Some(7));
    assert_eq!(both.find(&[A, B]), Some((50, 5)));
    assert_eq!((both.fast.len(), both.fast.iter().count()), (4, 4));
    assert_eq!(both.fast.get(&one(A), 10).map(|e| e.data), Some(8));
    assert_eq!(both.fast.get(&one(A), 11).map(|e| e.data), None);
    assert_eq!(both.insert(soft(10, one(A), &[(6, 1, 2)], 9)), Some(8));
    assert_eq!(both.find(&[A, B]), Some((MISS, 0)));
}

#[test]
fn of_overlapping_entries_of_equal_priority_the_first_added_wins() {
    for (first, second) in [(A, B), (B, A)] {
        let mut both = Both::new([plain(5, one(first), 1), plain(5, one(second), 2)]);
        assert_eq!(both.find(&[A, B]), Some((1, 0)));
        both.insert(plain(5, one(first), 3));
        assert_eq!(both.find(&[A, B]), Some((3, 0)), "what replaces takes the place");
        both.insert(soft(5, one(first), &[(1, 1, 2)], 4));
        both.insert(plain(5, one(first), 5));
        assert_eq!(both.find(&[A, B]), Some((5, 0)), "also by way of a clause");
        both.remove(&one(first), 5);
        both.insert(plain(5, one(first), 6));
        assert_eq!(both.find(&[A, B]), Some((2, 0)), "what comes back comes last");
    }
}

#[test]
fn a_floor_wins_against_equal_and_lower_priorities() {
    let both = two_clauses(10);
    let find = |floor| both.lookup(&packet(&[A, B]), Some(floor)).0;
    assert_eq!(find(9), Some((50, 5)));
    assert_eq!(find(10), None);
    assert_eq!(both.lookup(&packet(&[A]), Some(0)).0, None);
    assert_eq!(two_clauses(8).lookup(&packet(&[A, B]), Some(9)).0, None, "found in the second lookup, below the floor");
}

/// Subtables are tried in the order of their first entries, but it is the entry found that counts.
#[test]
fn the_first_added_wins_also_where_its_subtable_comes_later() {
    let other = (InPort, 2);
    let mut both = Both::new([plain(5, one(other), 1), plain(5, one(B), 2), plain(5, one(A), 3)]);
    assert_eq!(both.find(&[A, B]), Some((2, 0)), "in_port has an earlier entry, but of another port");
    let mut clause_first = Both::new([soft(5, one(A), &[(1, 1, 2)], 1), plain(5, one(B), 2), plain(5, one(other), 3)]);
    clause_first.insert(plain(5, one(A), 4));
    assert_eq!(clause_first.find(&[A, B]), Some((4, 0)), "in the place of the clause, before all others");
    both.remove(&one(other), 5);
    assert_eq!(both.find(&[A, B]), Some((2, 0)));
}

#[test]
fn the_second_lookup_uses_bits_too_but_for_conj_id() {
    let mut both = two_clauses(1);
    both.insert(plain(2, matching(&[(ConjId, 5), (TpDst, 80)]), 51));
    let clauses = [(InPort, u128::from(u32::MAX)), (Reg0, u128::from(u32::MAX))];
    assert_eq!(both.lookup(&packet(&[A, B]), None), (Some((50, 5)), mask(&[clauses[0], clauses[1], (TpDst, 0xffc0)])));
    let port = (TpDst, 0xffff);
    assert_eq!(
        both.lookup(&packet(&[A, B, (TpDst, 80)]), None),
        (Some((51, 5)), mask(&[clauses[0], clauses[1], port]))
    );
    assert_eq!(both.used(&[A]), mask(&clauses), "nothing complete: no bit of the conj_id flows");
}

/// Of routes by /24: the ethertype and 24 bits, and for a packet elsewhere only the bits that tell.
#[test]
fn routes_use_no_more_than_their_prefixes() {
    let route = |i: u128| masked(&[(EthType, 0x800, 0xffff), (NwDst, 0x0a00_0000 | i << 8, 0xffff_ff00)]);
    let mut both = Both::new((0..200).map(|i| plain(100, route(i), 1)));
    let ip = |both: &Both, dst: u128| both.used(&[(EthType, 0x800), (NwDst, dst), (NwSrc, 7), (TpDst, 80)]);
    assert_eq!(ip(&both, 0x0a00_0505), mask(&[(EthType, 0xffff), (NwDst, 0xffff_ff00)]));
    assert_eq!(ip(&both, 0x8a00_0505), mask(&[(NwDst, 0x8000_0000)]));
    assert_eq!(ip(&both, 0x0a00_ff05), mask(&[(NwDst, 0xffff_e000)]), "10.0.192.0/19 is taken, 10.0.224.0/19 is not");
    assert_eq!(both.used(&[(EthType, 0x806), (NwDst, 0x0a00_0505)]), mask(&[(EthType, 0xffff)]), "ARP ends at L2");
    (128..200).for_each(|i| assert_eq!(both.remove(&route(i), 100), Some(1)));
    assert_eq!(ip(&both, 0x0a00_ff05), mask(&[(NwDst, 0xffff_8000)]), "with 10.0.128.0/17 gone");
}

/// Longer prefixes of higher priority that a packet does not have cost only the bits that tell.
#[test]
fn longest_prefixes_are_skipped_by_the_trie() {
    let mut both = Both::default();
    for len in [8, 16, 24, 32] {
        for i in 0..8u128 {
            let bits = u128::from(u32::MAX << (32 - len));
            let value = 0x0a00_0000 | i << 16 | i << 8 | i;
            both.insert(plain(len, masked(&[(EthType, 0x800, 0xffff), (NwDst, value & bits, bits)]), u32::from(len)));
        }
    }
    let used = |dst: u128| both.lookup(&packet(&[(EthType, 0x800), (NwDst, dst)]), None);
    assert_eq!(used(0x0a03_0303), (Some((32, 0)), mask(&[(EthType, 0xffff), (NwDst, 0xffff_ffff)])));
    assert_eq!(used(0x0a03_9303), (Some((16, 0)), mask(&[(EthType, 0xffff), (NwDst, 0xffff_8000)])));
    assert_eq!(used(0x0a83_0303), (Some((8, 0)), mask(&[(EthType, 0xffff), (NwDst, 0xff80_0000)])));
}

#[test]
fn early_stages_keep_later_fields_out() {
    let flow = |i: u128| matching(&[(InPort, i), (EthType, 0x800), (NwProto, 6), (TpDst, 80)]);
    let mut both = Both::new((0..20).map(|i| plain(5, flow(i), 1)));
    let all = [(InPort, u128::from(u32::MAX)), (EthType, 0xffff), (NwProto, 0xff), (TpDst, 0xffff)];
    let used =
        |both: &Both, i, eth, proto, port| both.used(&[(InPort, i), (EthType, eth), (NwProto, proto), (TpDst, port)]);
    assert_eq!(used(&both, 77, 0x800, 6, 80), mask(&all[..1]));
    assert_eq!(used(&both, 7, 0x806, 6, 80), mask(&all[..2]));
    assert_eq!(used(&both, 7, 0x800, 17, 80), mask(&all[..3]));
    assert_eq!(used(&both, 7, 0x800, 6, 0x8050), mask(&[(TpDst, 0x8000)]));
    assert_eq!(used(&both, 7, 0x800, 6, 80), mask(&all));
    both.remove(&flow(7), 5);
    assert_eq!(used(&both, 7, 0x800, 6, 80), mask(&all[..1]), "no flow of port 7 any more");
}

/// Addresses that no flow has cost the first bits that tell, also where ports are compared behind
/// them.
#[test]
fn services_use_no_more_than_the_prefixes_of_their_addresses() {
    let service = |i: u128| matching(&[(EthType, 0x800), (NwDst, 0x0a60_0000 | i), (NwProto, 6), (TpDst, 80)]);
    let both = Both::new((0..20).map(|i| plain(5, service(i), 1)));
    let used = |dst: u128, port| both.used(&[(EthType, 0x800), (NwDst, dst), (NwProto, 6), (TpDst, port)]);
    assert_eq!(used(0x8a60_0001, 80), mask(&[(NwDst, 0x8000_0000)]));
    assert_eq!(used(0x0a60_0100, 80), mask(&[(NwDst, 0xffff_ff00)]));
    assert_eq!(used(0x0a60_0007, 0x8050), mask(&[(TpDst, 0x8000)]));
    let pair = |i: u128| matching(&[(EthType, 0x800), (NwSrc, 0x0a00_0000 | i), (NwDst, 0x0a60_0000 | i)]);
    let both = Both::new((0..20).map(|i| plain(5, pair(i), 1)));
    let used = both.used(&[(EthType, 0x800), (NwSrc, 0x8a00_0001), (NwDst, 0x8a60_0001)]);
    assert_eq!(used, mask(&[(NwDst, 0x8000_0000)]), "of two that tell, the destination");
}

/// Which connection a packet belongs to is looked at behind its state, zone, mark and Ethernet
/// type, as its own addresses are.
#[test]
fn tuples_of_connections_are_in_the_stages_of_those_of_packets() {
    use Field::{CtIpv6Dst, CtNwDst, CtNwProto, CtState, CtTpDst, CtZone};
    let all = |field: Field| (field, field.ones());
    for (address, eth_type) in [(CtNwDst, 0x800), (CtIpv6Dst, 0x86dd)] {
        let flow = |i| matching(&[(CtState, 0x22), (CtZone, 7), (EthType, eth_type), (address, i), (CtTpDst, 80)]);
        let both = Both::new((1..20).map(|i| plain(5, flow(i), 1)));
        let used = |state, zone, eth, dst, port| {
            both.used(&[(CtState, state), (CtZone, zone), (EthType, eth), (address, dst), (CtTpDst, port)])
        };
        let mut expected = vec![all(CtState), all(CtZone)];
        assert_eq!(used(0x21, 7, eth_type, 3, 80), mask(&expected));
        assert_eq!(used(0x22, 8, eth_type, 3, 80), mask(&expected));
        expected.push(all(EthType));
        assert_eq!(used(0x22, 7, 0x806, 3, 80), mask(&expected));
        expected.push(all(address));
        assert_eq!(used(0x22, 7, eth_type, 99, 80), mask(&expected));
        expected.push(all(CtTpDst));
        assert_eq!(used(0x22, 7, eth_type, 3, 81), mask(&expected));
        assert_eq!(used(0x22, 7, eth_type, 3, 80), mask(&expected));
    }
    let few = Both::new([plain(5, matching(&[(CtNwProto, 17), (CtTpDst, 80), (CtZone, 5)]), 1)]);
    let used = |proto, port, zone| few.used(&[(CtNwProto, proto), (CtTpDst, port), (CtZone, zone)]);
    assert_eq!(used(6, 81, 6), mask(&[all(CtZone)]));
    assert_eq!(used(6, 81, 5), mask(&[all(CtNwProto)]));
    assert_eq!(used(17, 81, 5), mask(&[all(CtTpDst)]));
}

#[test]
fn a_few_flows_are_told_apart_by_one_field_each() {
    let both = Both::new([
        plain(5, matching(&[(InPort, 3), (EthType, 0x800), (TpDst, 80)]), 1),
        plain(4, matching(&[(InPort, 3), (EthType, 0x86dd)]), 2),
        plain(0, matching(&[]), MISS),
    ]);
    let port = (InPort, u128::from(u32::MAX));
    assert_eq!(both.used(&[(InPort, 1), (EthType, 0x800)]), mask(&[port]));
    assert_eq!(both.used(&[(InPort, 3), (EthType, 0x806)]), mask(&[(EthType, 0xffff)]));
    assert_eq!(both.used(&[(InPort, 3), (EthType, 0x86dd)]), mask(&[port, (EthType, 0xffff)]));
}

#[test]
fn a_lookup_ends_when_nothing_can_beat_what_it_found() {
    let both = Both::new([
        plain(5, one(A), 1),
        plain(5, one(B), 2),
        soft(5, one(C), &[(5, 1, 2)], 3),
        soft(5, matching(&[(TpSrc, 1)]), &[(5, 2, 2)], 4),
    ]);
    assert_eq!(both.used(&[A, B, C]), mask(&[(InPort, u128::from(u32::MAX))]));
}
