//! Random actions, flows, groups and meters in the form in which the parser leaves them, for tests
//! of everything that takes them.
#![allow(clippy::cast_possible_truncation)] // values are cut to what a field has

use crate::action::{
    Bundle, CheckContext, Controller, Ct, CtZone, HashFields, Learn, LearnSource, LearnSpec, ListPlace, Multipath,
    MultipathAlgorithm, Nat, Reason, Reject, Sample, SampleDirection, check, normalize, port,
};
use crate::field::Format;
use crate::spec::{
    Band, BandKind, BucketSpec, FlowFlags, FlowSpec, GroupKind, GroupSpec, HashedFields, MeterSpec, Method, Selection,
};
use crate::text::{NoNames, parse_match};
use crate::{Action, Field, Subfield};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Matches that make more and more fields available, and some that make none.
pub(crate) const MATCHES: &[&str] = &[
    "",
    "reg0=5,in_port=3",
    "metadata=5/0xff,tun_id=7,reg3[0..3]=2",
    "dl_vlan=7",
    "vlan_tci=0x1000/0x1000,ip",
    "dl_vlan=7,dl_vlan_pcp=3,tcp,nw_dst=10.0.0.0/8",
    "arp,arp_op=1,arp_spa=10.0.0.1",
    "ip,nw_src=10.1.2.0/255.255.254.255,nw_ttl=5",
    "ipv6,ipv6_src=fe80::/64",
    "tcp,tp_dst=80,tcp_flags=+syn-ack",
    "udp,tp_src=0x50/0xfff0",
    "tcp6,ipv6_dst=2001:db8::1",
    "sctp,tp_dst=7",
    "icmp,icmp_type=8,icmp_code=0",
    "icmp6,icmpv6_type=135,icmpv6_code=0,nd_target=fe80::1",
    "icmp6,icmpv6_type=136,icmpv6_code=0",
    "ct_state=+new+trk,tcp,ct_mark=1/3",
    "ct_state=+est-inv+trk,udp6,ct_label=5",
    "conj_id=8,ip",
    "dl_type=0x88cc,dl_dst=01:80:c2:00:00:0e,pkt_mark=3",
];

/// Without the names that stand for others.
fn is_named(field: Field) -> bool {
    let info = field.info();
    !info.nxm.is_empty() || !info.oxm.is_empty()
}

fn fields(accept: impl Fn(Field) -> bool) -> Vec<Field> {
    Field::ALL.iter().copied().filter(|field| is_named(*field) && accept(*field)).collect()
}

/// Bits of a field that is accepted.
fn bits_of(accept: impl Fn(Field) -> bool) -> BoxedStrategy<Subfield> {
    (select(fields(accept)), any::<u8>(), any::<u8>(), any::<bool>())
        .prop_map(|(field, start, len, whole)| {
            let bits = field.info().bits;
            let start = if whole { 0 } else { start % bits };
            let len = if whole { bits } else { 1 + len % (bits - start) };
            Subfield { field, start, len }
        })
        .boxed()
}

fn source() -> BoxedStrategy<Subfield> {
    bits_of(|_| true).boxed()
}

fn target() -> BoxedStrategy<Subfield> {
    bits_of(|field| field.is_writable() && !is_ct(field)).boxed()
}

fn is_ct(field: Field) -> bool {
    matches!(field, Field::CtMark | Field::CtLabel)
}

/// Two subfields of one width.
fn pair(to: impl Fn(Field) -> bool) -> BoxedStrategy<(Subfield, Subfield)> {
    (source(), bits_of(to))
        .prop_map(|(from, to)| {
            let len = from.len.min(to.len);
            (Subfield { len, ..from }, Subfield { len, ..to })
        })
        .boxed()
}

fn bit(sub: Subfield) -> Subfield {
    Subfield { len: 1, ..sub }
}

fn number() -> BoxedStrategy<u128> {
    prop_oneof![any::<u128>(), Just(0), Just(u128::MAX), 0u128..300].boxed()
}

/// A port to send to.
fn out_port() -> BoxedStrategy<u32> {
    let reserved = vec![port::IN_PORT, port::TABLE, port::NORMAL, port::FLOOD, port::ALL, port::LOCAL];
    prop_oneof![3 => 0u32..0xff00, 1 => select(reserved)].boxed()
}

fn set_field(accept: impl Fn(Field) -> bool) -> BoxedStrategy<Action> {
    let all = fields(|field| field.is_writable() && field != Field::DlVlan && accept(field));
    (select(all), number(), number(), any::<bool>())
        .prop_map(|(field, value, mask, whole)| {
            let exact = field.exact_mask();
            let bits = exact & (u128::MAX >> (128 - u32::from(field.info().bits.max(13))));
            let mut mask = if whole || mask & bits == 0 { exact } else { mask & bits };
            if field == Field::VlanVid {
                mask |= 0x1000;
                return Action::SetField { field, value: value & mask | 0x1000, mask };
            }
            let value = match field {
                // Numbers of ports that are printed as they are.
                Field::InPort if mask == exact => value % 0xff00,
                _ => value & mask,
            };
            Action::SetField { field, value, mask }
        })
        .boxed()
}

fn controller() -> BoxedStrategy<Action> {
    let reasons =
        vec![Reason::NoMatch, Reason::Action, Reason::InvalidTtl, Reason::ActionSet, Reason::Group, Reason::PacketOut];
    let max_len = prop_oneof![Just(u16::MAX), any::<u16>()];
    let meter = option::of(1u32..100);
    (any::<u16>(), select(reasons), max_len, vec(any::<u8>(), 0..9), any::<bool>(), meter)
        .prop_map(|(id, reason, max_len, userdata, pause, meter)| {
            Action::Controller(Box::new(Controller {
                id: id % 3,
                reason,
                max_len,
                userdata: userdata.into(),
                pause,
                meter,
            }))
        })
        .boxed()
}

fn hash_fields() -> BoxedStrategy<HashFields> {
    select(HashFields::ALL.to_vec()).boxed()
}

fn multipath() -> BoxedStrategy<Action> {
    let algorithms = vec![
        MultipathAlgorithm::ModuloN,
        MultipathAlgorithm::HashThreshold,
        MultipathAlgorithm::Hrw,
        MultipathAlgorithm::IterHash,
    ];
    (hash_fields(), any::<u16>(), select(algorithms), any::<u16>(), any::<u32>(), target())
        .prop_map(|(fields, basis, algorithm, links, arg, to)| {
            let most = if to.len < 16 { 1u32 << to.len } else { u16::MAX.into() };
            let links = (1 + u32::from(links) % most).min(u16::MAX.into()) as u16;
            Action::Multipath(Box::new(Multipath { fields, basis, algorithm, links, arg, to }))
        })
        .boxed()
}

fn bundle() -> BoxedStrategy<Action> {
    let member = prop_oneof![out_port(), Just(port::NONE)];
    let to = option::of(target().prop_filter("16 bits", |to| to.len >= 16));
    (hash_fields(), any::<u16>(), any::<bool>(), vec(member, 0..5), to)
        .prop_map(|(fields, basis, hrw, members, to)| {
            Action::Bundle(Box::new(Bundle { fields, basis, hrw, members: members.into(), to }))
        })
        .boxed()
}

fn learn_spec() -> BoxedStrategy<LearnSpec> {
    // What stands for a constant in a learned match: values that are printed as one.
    let immediate = bits_of(|field| !matches!(field, Field::NwFrag)).prop_flat_map(|to| {
        let whole = to.start == 0 && to.len == to.field.info().bits;
        let to = match to.field {
            Field::VlanVid | Field::InPort if whole => Subfield::whole(to.field),
            _ => to,
        };
        number().prop_map(move |value| {
            let value = match to.field {
                Field::InPort | Field::ActsetOutput if whole => value % 0xff00,
                field if whole => value & field.exact_mask() & to.mask(),
                _ => value & (to.mask() >> to.start),
            };
            LearnSpec::Match { from: LearnSource::Immediate(value), to }
        })
    });
    let load = (target(), number()).prop_map(|(to, value)| {
        let value = value & (to.mask() >> to.start);
        LearnSpec::Load { from: LearnSource::Immediate(value), to }
    });
    prop_oneof![
        immediate,
        pair(|_| true).prop_map(|(from, to)| LearnSpec::Match { from: LearnSource::Field(from), to }),
        source().prop_map(|to| LearnSpec::Match { from: LearnSource::Field(to), to }),
        load,
        pair(|field| field.is_writable()).prop_map(|(from, to)| LearnSpec::Load { from: LearnSource::Field(from), to }),
        source().prop_map(LearnSpec::Output),
    ]
    .boxed()
}

fn learn() -> BoxedStrategy<Action> {
    let numbers = (any::<[u16; 4]>(), any::<u16>(), any::<u64>(), 0u8..254, 0u32..5);
    let flags = (any::<bool>(), any::<bool>());
    (numbers, flags, option::of(target()), vec(learn_spec(), 0..6))
        .prop_map(|(numbers, flags, result, specs)| {
            let ([idle_timeout, hard_timeout, fin_idle_timeout, fin_hard_timeout], priority, cookie, table, limit) =
                numbers;
            Action::Learn(Box::new(Learn {
                idle_timeout: idle_timeout.into(),
                hard_timeout: hard_timeout.into(),
                fin_idle_timeout: (fin_idle_timeout % 3).into(),
                fin_hard_timeout: (fin_hard_timeout % 3).into(),
                priority,
                cookie,
                table,
                send_flow_rem: flags.0,
                delete_learned: flags.1,
                limit,
                result: result.map(bit),
                specs: specs.into(),
            }))
        })
        .boxed()
}

fn sample() -> BoxedStrategy<Action> {
    let directions = vec![SampleDirection::Default, SampleDirection::Ingress, SampleDirection::Egress];
    (1u16.., any::<[u32; 3]>(), option::of(0u32..0xff00), select(directions))
        .prop_map(|(probability, [collector_set, domain, point], port, direction)| {
            Action::Sample(Box::new(Sample { probability, collector_set, domain, point, port, direction }))
        })
        .boxed()
}

fn addresses() -> BoxedStrategy<(IpAddr, IpAddr)> {
    let v4 = (1u32.., any::<u32>(), any::<bool>()).prop_map(|(first, more, one)| {
        let last = if one { first } else { first.saturating_add(more % 100) };
        (IpAddr::V4(Ipv4Addr::from(first)), IpAddr::V4(Ipv4Addr::from(last)))
    });
    let v6 = (1u128.., any::<u128>(), any::<bool>()).prop_map(|(first, more, one)| {
        let last = if one { first } else { first.saturating_add(more >> 64) };
        (IpAddr::V6(Ipv6Addr::from(first)), IpAddr::V6(Ipv6Addr::from(last)))
    });
    prop_oneof![v4, v6].boxed()
}

fn nat() -> BoxedStrategy<Nat> {
    let ports = option::of((1u16.., 0u16..9).prop_map(|(first, more)| (first, first.saturating_add(more))));
    (option::of(any::<bool>()), option::of(addresses()), ports, any::<bool>(), 0u8..3)
        .prop_map(|(source, addresses, ports, persistent, choice)| match (source, addresses) {
            (Some(_), Some(_)) => Nat { source, addresses, ports, persistent, hash: choice == 1, random: choice == 2 },
            _ => Nat { source, ..Nat::default() },
        })
        .boxed()
}

fn ct() -> BoxedStrategy<Action> {
    let zone = prop_oneof![
        any::<u16>().prop_map(CtZone::Immediate),
        bits_of(|field| field.info().bits >= 16)
            .prop_map(|sub| Subfield { start: sub.start.min(sub.field.info().bits - 16), len: 16, ..sub })
            .prop_map(CtZone::Field),
    ];
    let exec = prop_oneof![set_field(is_ct), pair(is_ct).prop_map(|(from, to)| Action::Move { from, to })];
    let table = option::of(0u8..254);
    (any::<[bool; 2]>(), table, zone, select(vec![0, 21, 69]), option::of(nat()), vec(exec, 0..3))
        .prop_map(|([commit, force], table, zone, alg, nat, exec)| {
            let plain = nat.as_ref().is_none_or(|nat| nat.source.is_none());
            let commit = commit || !plain || !exec.is_empty();
            Action::Ct(Box::new(Ct { commit, force: force && commit, table, zone, alg, nat, exec: exec.into() }))
        })
        .boxed()
}

/// An action without actions inside.
fn simple() -> BoxedStrategy<Action> {
    let table = || 0u8..254;
    let truncated = (0u32..0xff00, option::of(14u16..)).prop_map(|(port, max_len)| Action::Output { port, max_len });
    let resubmit = (option::of(0u32..0xff00), option::of(table()), any::<bool>())
        .prop_filter("a port or a table", |(port, table, _)| port.is_some() || table.is_some())
        .prop_map(|(port, table, ct)| Action::Resubmit { port, table, ct });
    let ports = (any::<bool>(), any::<u16>()).prop_map(|(src, value)| {
        let field = if src { Field::TpSrc } else { Field::TpDst };
        Action::SetField { field, value: value.into(), mask: field.exact_mask() }
    });
    let note = vec(any::<u8>(), 0..20).prop_map(Action::note);
    let options = fields(|field| (Field::TunMetadata0..=Field::TunMetadata7).contains(&field));
    let outputs = prop_oneof![
        out_port().prop_map(|port| Action::Output { port, max_len: None }),
        truncated,
        source().prop_map(|from| Action::OutputField { from, max_len: None }),
        controller(),
        any::<u32>().prop_map(Action::Group),
        resubmit,
        bundle(),
    ];
    let packets = prop_oneof![
        8 => set_field(|field| !is_ct(field)),
        1 => ports,
        3 => pair(|field| field.is_writable() && !is_ct(field)).prop_map(|(from, to)| Action::Move { from, to }),
        1 => any::<u8>().prop_map(Action::SetTtl),
        1 => vec(any::<u16>(), 1..4).prop_map(|ids| Action::DecTtl(ids.into())),
        1 => select(vec![0x8100, 0x88a8]).prop_map(Action::PushVlan),
        1 => Just(Action::PopVlan),
        1 => (0u16..4096).prop_map(Action::SetVlanVid),
        1 => (0u8..8).prop_map(Action::SetVlanPcp),
    ];
    let others = prop_oneof![
        source().prop_map(Action::StackPush),
        target().prop_map(Action::StackPop),
        multipath(),
        learn(),
        (any::<u16>(), any::<u16>())
            .prop_map(|(idle, hard)| Action::FinTimeout { idle: idle.into(), hard: hard.into() }),
        note,
        Just(Action::Exit),
        sample(),
        (any::<u16>(), target()).prop_map(|(len, to)| Action::CheckPktLarger { len, to: bit(to) }),
        ct(),
        Just(Action::CtClear),
        Just(Action::CtForget),
        select(options).prop_map(Action::DeleteField),
    ];
    prop_oneof![outputs, packets, others].boxed()
}

/// Any action but the instructions and conjunctions, clones among them.
pub(crate) fn action() -> BoxedStrategy<Action> {
    simple()
        .prop_recursive(3, 12, 4, |inner| {
            let codes = (any::<bool>(), select(vec![0, 3, 10, 15]), 0u8..=8);
            prop_oneof![
                3 => vec(inner.clone(), 0..4).prop_map(|actions| Action::Clone(actions.into())),
                1 => (codes, select(vec![0, 0, 68, 1400]), vec(inner, 0..4)).prop_map(|((reset, icmp, icmp6), mtu, actions)| {
                    let codes = Reject { reset, icmp, icmp6, ..Reject::default() };
                    let how = if mtu == 0 { codes } else { Reject { mtu, ..Reject::default() } };
                    Action::Reject(Box::new(Reject { actions: actions.into(), ..how }))
                }),
            ]
        })
        .boxed()
}

/// A list as it may be written, whether or not it may be executed anywhere.
pub(crate) fn list() -> BoxedStrategy<Vec<Action>> {
    let conjunction = (any::<u32>(), 2u8..=64, any::<u8>()).prop_map(|(id, clauses, clause)| Action::Conjunction {
        id,
        clause: clause % clauses,
        clauses,
    });
    let instruction = prop_oneof![
        any::<u32>().prop_map(Action::Meter),
        Just(Action::ClearActions),
        vec(simple(), 1..3).prop_map(|actions| Action::WriteActions(actions.into())),
        (any::<u64>(), prop_oneof![Just(u64::MAX), any::<u64>()])
            .prop_map(|(value, mask)| Action::WriteMetadata { value, mask }),
        (0u8..254).prop_map(Action::GotoTable),
    ];
    prop_oneof![8 => vec(action(), 0..6), 1 => vec(conjunction, 1..4), 2 => vec(prop_oneof![action(), instruction], 0..5)].boxed()
}

/// Those actions of a list that are allowed behind those before them, normalised.
fn allowed(actions: Vec<Action>, context: &CheckContext<'_>) -> Vec<Action> {
    let mut kept = Vec::new();
    for action in actions {
        kept.push(action);
        if check(&kept, context).is_err() {
            kept.pop();
        }
    }
    normalize(kept, context.matching)
}

/// A flow that Open vSwitch would take.
pub(crate) fn flow() -> BoxedStrategy<FlowSpec> {
    let numbers = (0u8..254, prop_oneof![Just(32768), any::<u16>()], prop_oneof![Just(0), any::<u64>()]);
    let times = any::<[u16; 3]>().prop_map(|numbers| numbers.map(|number| if number % 2 == 0 { 0 } else { number }));
    (numbers, times, any::<[bool; 5]>(), select(MATCHES), list())
        .prop_map(|(numbers, times, flags, text, actions)| {
            let matching = parse_match(&text.replace("reg3[0..3]=2", "reg3=2/0xf"), &NoNames).expect(text).value;
            let context = CheckContext { matching: Some(&matching), place: ListPlace::Flow { table: numbers.0 } };
            let actions = allowed(actions, &context).into();
            FlowSpec {
                table: numbers.0,
                priority: numbers.1,
                matching: Arc::new(matching),
                cookie: numbers.2,
                idle_timeout: times[0].into(),
                hard_timeout: times[1].into(),
                importance: times[2],
                flags: FlowFlags {
                    send_flow_rem: flags[0],
                    check_overlap: flags[1],
                    reset_counts: flags[2],
                    no_packet_counts: flags[3],
                    no_byte_counts: flags[4],
                },
                actions,
            }
        })
        .boxed()
}

fn selection() -> BoxedStrategy<Selection> {
    let param = || prop_oneof![Just(0), any::<u64>()];
    let plain = |field: Field| {
        matches!(field.info().format, Format::Hex | Format::Ipv4 | Format::Ipv6 | Format::Ethernet)
            && field.info().maskable
    };
    let hashed = (select(fields(|field| field != Field::RecircId)), number()).prop_map(move |(field, mask)| {
        let exact = field.exact_mask();
        (field, if plain(field) && mask & exact != 0 { mask & exact } else { exact })
    });
    let hash = (param(), vec(hashed, 0..5)).prop_map(|(param, fields)| {
        let mut all = HashedFields::default();
        for (field, mask) in fields {
            // Some are there twice.
            let _ = all.add(field, mask);
        }
        Selection::new(GroupKind::Select, Some(Method::Hash), Some(param), Some(all)).expect("a selection")
    });
    let dp_hash = param().prop_map(|param| Selection::DpHash { param });
    let maglev = param().prop_map(|param| Selection::Maglev { param });
    prop_oneof![Just(Selection::Default), dp_hash, maglev, hash].boxed()
}

/// A group that Open vSwitch would take.
pub(crate) fn group() -> BoxedStrategy<GroupSpec> {
    let kinds = vec![GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];
    let bucket = (any::<u8>(), any::<u16>(), option::of(0u32..0xff00), option::of(0u32..100), list());
    (0u32..=0xffff_ff00, select(kinds), selection(), vec(bucket, 0..4))
        .prop_map(|(id, kind, selection, buckets)| {
            let most = if kind == GroupKind::Indirect { 1 } else { usize::MAX };
            let context = CheckContext { matching: None, place: ListPlace::Bucket };
            let buckets = buckets.into_iter().take(most).enumerate().map(|(i, (id, weight, port, group, actions))| {
                let unwatched = kind == GroupKind::FastFailover && port.is_none() && group.is_none();
                BucketSpec {
                    id: u32::from(id) << 8 | i as u32,
                    weight: if kind == GroupKind::Select { weight } else { 0 },
                    watch_port: if unwatched { Some(1) } else { port },
                    watch_group: group,
                    actions: allowed(actions, &context).into(),
                }
            });
            let selection = if kind == GroupKind::Select { selection } else { Selection::Default };
            GroupSpec { id, kind, selection, buckets: buckets.collect() }
        })
        .boxed()
}

/// A meter.
pub(crate) fn meter() -> BoxedStrategy<MeterSpec> {
    let kind = prop_oneof![Just(BandKind::Drop), (1u8..).prop_map(|precedence| BandKind::DscpRemark { precedence })];
    let band = (kind, 1u32.., 1u32..).prop_map(|(kind, rate, burst)| Band { kind, rate, burst });
    (1u32..=0xffff_0000, any::<[bool; 3]>(), vec(band, 1..=8))
        .prop_map(|(id, [pktps, burst, stats], mut bands)| {
            if !burst {
                bands.iter_mut().for_each(|band| band.burst = 0);
            }
            MeterSpec { id, pktps, burst, stats, bands }
        })
        .boxed()
}
