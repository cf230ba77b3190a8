//! Random matches and actions, of every kind that has a form in OpenFlow.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use vswitch_flow::action::{
    Bundle, Controller, Ct, CtZone, HashFields, Learn, LearnSource, LearnSpec, Multipath, MultipathAlgorithm, Nat,
    Reason, Sample, SampleDirection, port,
};
use vswitch_flow::text::{NoNames, parse_match};
use vswitch_flow::{Action, Field, SparseMatch, Subfield};

/// Matches that make all kinds of fields available.
const MATCHES: &[&str] = &[
    "",
    "reg0=5,in_port=3,reg7=1/3",
    "metadata=5/0xff,tun_id=7,xxreg1=0x1234/0xffff",
    "dl_vlan=7",
    "vlan_tci=0x3000/0x3000",
    "vlan_tci=0x1000/0x1000,ip,nw_tos=8",
    "dl_vlan=7,dl_vlan_pcp=3,tcp,nw_dst=10.0.0.0/8",
    "arp,arp_op=1,arp_spa=10.0.0.1,arp_sha=02:00:00:00:00:01",
    "ipv6,ipv6_src=fe80::/64,ipv6_label=0x5,nw_frag=no",
    "tcp,tp_dst=80,tcp_flags=+syn-ack",
    "udp6,tp_src=0x50/0xfff0",
    "sctp,tp_dst=7",
    "icmp,icmp_type=8,icmp_code=0",
    "icmp6,icmpv6_type=135,icmpv6_code=0,nd_target=fe80::1,nd_sll=02:00:00:00:00:01",
    "icmp6,icmpv6_type=136,icmpv6_code=0,nd_reserved=4",
    "ct_state=+new+trk,tcp,ct_mark=1/3,ct_zone=5",
    "ct_state=+est-inv+trk,ip,ct_label=5,ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80",
    "conj_id=8,ip,pkt_mark=3,actset_output=3",
    "tun_src=10.0.0.1,tun_flags=+oam,tun_gbp_id=5,tun_metadata0=7,tun_metadata3=0x1200/0xff00",
];

pub(crate) fn matching() -> impl Strategy<Value = SparseMatch> {
    select(MATCHES).prop_map(|text| parse_match(text, &NoNames).unwrap().value)
}

fn fields(accept: impl Fn(Field) -> bool) -> Vec<Field> {
    let named = |field: &Field| !field.info().nxm.is_empty() || !field.info().oxm.is_empty();
    Field::ALL.iter().copied().filter(|field| named(field) && accept(*field)).collect()
}

/// Fields of experimenters have no place in the short headers of Nicira's older actions.
fn is_short(field: Field) -> bool {
    field != Field::ActsetOutput
}

fn bits_of(accept: impl Fn(Field) -> bool) -> BoxedStrategy<Subfield> {
    (select(fields(accept)), any::<u8>(), any::<u8>())
        .prop_map(|(field, start, len)| {
            // What a nicira header can say: up to 64 bits.
            let bits = field.info().bits;
            let start = start % bits;
            Subfield { field, start, len: 1 + len % (bits - start).min(64) }
        })
        .boxed()
}

fn source() -> BoxedStrategy<Subfield> {
    bits_of(is_short)
}

fn target() -> BoxedStrategy<Subfield> {
    bits_of(|field| field.is_writable() && is_short(field))
}

fn pair() -> impl Strategy<Value = (Subfield, Subfield)> {
    (source(), target()).prop_map(|(from, to)| {
        let len = from.len.min(to.len);
        (Subfield { len, ..from }, Subfield { len, ..to })
    })
}

fn set_field() -> BoxedStrategy<Action> {
    let all = fields(|field| field.is_writable() && !matches!(field, Field::TpSrc | Field::TpDst | Field::InPort));
    (select(all), any::<u128>(), any::<u128>(), any::<bool>())
        .prop_map(|(field, value, mask, whole)| {
            let exact = field.exact_mask();
            let maskable = field.info().maskable;
            let mut mask = if whole || !maskable || mask & exact == 0 { exact } else { mask & exact };
            let mut value = value & mask & field.own_bits();
            if field == Field::VlanVid {
                (value, mask) = (value | 0x1000, mask | 0x1001);
            }
            Action::SetField { field, value, mask }
        })
        .boxed()
}

fn controller() -> impl Strategy<Value = Action> {
    let reasons = vec![Reason::NoMatch, Reason::Action, Reason::InvalidTtl, Reason::Group];
    (any::<u16>(), select(reasons), any::<u16>(), vec(any::<u8>(), 0..9), any::<bool>(), option::of(any::<u32>()))
        .prop_map(|(id, reason, max_len, userdata, pause, meter)| {
            let userdata = userdata.into();
            Action::Controller(Box::new(Controller { id, reason, max_len, userdata, pause, meter }))
        })
}

fn hashes() -> impl Strategy<Value = Action> {
    let algorithms = vec![MultipathAlgorithm::ModuloN, MultipathAlgorithm::Hrw, MultipathAlgorithm::IterHash];
    let fields = || select(HashFields::ALL.to_vec());
    let multipath = (fields(), any::<u16>(), select(algorithms), 1u16.., any::<u32>(), target()).prop_map(
        |(fields, basis, algorithm, links, arg, to)| {
            Action::Multipath(Box::new(Multipath { fields, basis, algorithm, links, arg, to }))
        },
    );
    let members = vec(prop_oneof![0u32..0xff00, Just(port::NONE), Just(port::LOCAL)], 0..6);
    let bundle = (fields(), any::<u16>(), any::<bool>(), members, option::of(target())).prop_map(
        |(fields, basis, hrw, members, to)| {
            Action::Bundle(Box::new(Bundle { fields, basis, hrw, members: members.into(), to }))
        },
    );
    prop_oneof![multipath, bundle]
}

fn learn() -> impl Strategy<Value = Action> {
    let immediate = (target(), any::<u128>())
        .prop_map(|(to, value)| (LearnSource::Immediate(value & (u128::MAX >> (128 - u32::from(to.len)))), to));
    let spec = prop_oneof![
        immediate.clone().prop_map(|(from, to)| LearnSpec::Match { from, to }),
        immediate.prop_map(|(from, to)| LearnSpec::Load { from, to }),
        pair().prop_map(|(from, to)| LearnSpec::Match { from: LearnSource::Field(from), to }),
        pair().prop_map(|(from, to)| LearnSpec::Load { from: LearnSource::Field(from), to }),
        source().prop_map(LearnSpec::Output),
    ];
    let numbers = (any::<[u16; 5]>(), any::<u64>(), 0u8..254, any::<u32>());
    (numbers, any::<[bool; 2]>(), option::of(target()), vec(spec, 0..5)).prop_map(|(numbers, flags, result, specs)| {
        let ([idle, hard, fin_idle, fin_hard, priority], cookie, table, limit) = numbers;
        Action::Learn(Box::new(Learn {
            idle_timeout: idle.into(),
            hard_timeout: hard.into(),
            fin_idle_timeout: fin_idle.into(),
            fin_hard_timeout: fin_hard.into(),
            priority,
            cookie,
            table,
            send_flow_rem: flags[0],
            delete_learned: flags[1],
            limit,
            result: result.map(|to| Subfield { len: 1, ..to }),
            specs: specs.into(),
        }))
    })
}

fn nat() -> impl Strategy<Value = Nat> {
    let v4 = (1u32.., 0u32..9).prop_map(|(first, more)| {
        (IpAddr::V4(Ipv4Addr::from(first)), IpAddr::V4(Ipv4Addr::from(first.saturating_add(more))))
    });
    let v6 = (1u128.., 0u128..9).prop_map(|(first, more)| {
        (IpAddr::V6(Ipv6Addr::from(first)), IpAddr::V6(Ipv6Addr::from(first.saturating_add(more))))
    });
    let ports = option::of((1u16.., 0u16..9).prop_map(|(first, more)| (first, first.saturating_add(more))));
    (option::of(any::<bool>()), option::of(prop_oneof![v4, v6]), ports, any::<[bool; 3]>()).prop_map(
        |(source, addresses, ports, [persistent, hash, random])| Nat {
            source,
            addresses,
            ports,
            persistent,
            hash,
            random,
        },
    )
}

fn ct() -> impl Strategy<Value = Action> {
    let zone = prop_oneof![any::<u16>().prop_map(CtZone::Immediate), source().prop_map(CtZone::Field)];
    let exec = vec(set_field(), 0..3);
    (any::<[bool; 2]>(), option::of(0u8..254), zone, any::<u16>(), option::of(nat()), exec).prop_map(
        |([commit, force], table, zone, alg, nat, exec)| {
            Action::Ct(Box::new(Ct { commit, force, table, zone, alg, nat, exec: exec.into() }))
        },
    )
}

fn sample() -> impl Strategy<Value = Action> {
    let directions = vec![SampleDirection::Default, SampleDirection::Ingress, SampleDirection::Egress];
    (any::<u16>(), any::<[u32; 3]>(), option::of(0u32..0xff00), select(directions)).prop_map(
        |(probability, [collector_set, domain, point], port, direction)| {
            Action::Sample(Box::new(Sample { probability, collector_set, domain, point, port, direction }))
        },
    )
}

fn simple() -> BoxedStrategy<Action> {
    let reserved = vec![port::IN_PORT, port::TABLE, port::NORMAL, port::FLOOD, port::ALL, port::LOCAL];
    let out_port = prop_oneof![0u32..0xff00, select(reserved)];
    let outputs = prop_oneof![
        (out_port, option::of(any::<u16>())).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        source().prop_map(|from| Action::OutputField { from, max_len: None }),
        controller(),
        any::<u32>().prop_map(Action::Group),
        (option::of(0u32..0xff00), option::of(0u8..254), any::<bool>())
            .prop_filter("one of them", |(port, table, _)| port.is_some() || table.is_some())
            .prop_map(|(port, table, ct)| Action::Resubmit { port, table, ct }),
        hashes(),
    ];
    let packets = prop_oneof![
        5 => set_field(),
        3 => pair().prop_map(|(from, to)| Action::Move { from, to }),
        1 => any::<u8>().prop_map(Action::SetTtl),
        1 => vec(any::<u16>(), 1..5).prop_map(|ids| Action::DecTtl(ids.into())),
        1 => any::<u16>().prop_map(Action::PushVlan),
        1 => Just(Action::PopVlan),
        1 => (0usize..8).prop_map(|at| Action::DeleteField(Field::ALL[Field::TunMetadata0 as usize + at])),
    ];
    let others = prop_oneof![
        source().prop_map(Action::StackPush),
        target().prop_map(Action::StackPop),
        learn(),
        (any::<u16>(), any::<u16>())
            .prop_map(|(idle, hard)| Action::FinTimeout { idle: idle.into(), hard: hard.into() }),
        (any::<u32>(), 2u8..=64, any::<u8>()).prop_map(|(id, clauses, clause)| Action::Conjunction {
            id,
            clause: clause % clauses,
            clauses
        }),
        vec(any::<u8>(), 0..20).prop_map(Action::note),
        Just(Action::Exit),
        sample(),
        (any::<u16>(), target()).prop_map(|(len, to)| Action::CheckPktLarger { len, to: Subfield { len: 1, ..to } }),
        ct(),
        Just(Action::CtClear),
    ];
    prop_oneof![outputs, packets, others].boxed()
}

/// A list with instructions at its end.
pub(crate) fn actions() -> impl Strategy<Value = Vec<Action>> {
    let nested =
        simple().prop_recursive(3, 10, 4, |inner| vec(inner, 0..4).prop_map(|actions| Action::Clone(actions.into())));
    let metadata = (any::<u64>(), any::<u64>()).prop_map(|(value, mask)| Action::WriteMetadata { value, mask });
    let instructions = (
        option::of(any::<u32>().prop_map(Action::Meter)),
        option::of(Just(Action::ClearActions)),
        option::of(vec(simple(), 0..3).prop_map(|actions| Action::WriteActions(actions.into()))),
        option::of(metadata),
        option::of(any::<u8>().prop_map(Action::GotoTable)),
    );
    (vec(nested, 0..5), instructions).prop_map(|(apply, (meter, clear, write, metadata, goto))| {
        let behind = [clear, write, metadata, goto].into_iter().flatten();
        meter.into_iter().chain(apply).chain(behind).collect()
    })
}

/// The actions with each `set_field` of a part of a field as one for each run of bits.
pub(crate) fn split(actions: &[Action]) -> Vec<Action> {
    actions.iter().flat_map(split_one).collect()
}

fn split_one(action: &Action) -> Vec<Action> {
    match action {
        Action::SetField { field, value, mask } if *mask != field.exact_mask() => {
            let is_option = (Field::TunMetadata0..=Field::TunMetadata7).contains(field);
            // Each load of a VLAN ID sets the present bit.
            let present = if *field == Field::VlanVid { 0x1000 } else { 0 };
            let (mut rest, mut runs) = (*mask & !present, Vec::new());
            while rest != 0 && !is_option {
                let first = rest.trailing_zeros();
                let len = (rest >> first).trailing_ones().min(64);
                let run = u128::from(u64::MAX >> (64 - len)) << first;
                rest &= !run;
                runs.push(Action::SetField { field: *field, value: value & run | present, mask: run | present });
            }
            if runs.is_empty() { vec![action.clone()] } else { runs }
        }
        Action::Clone(actions) => vec![Action::Clone(split(actions).into())],
        Action::WriteActions(actions) => vec![Action::WriteActions(split(actions).into())],
        Action::Ct(ct) => {
            let exec = split(&ct.exec).into();
            vec![Action::Ct(Box::new(Ct { exec, ..(**ct).clone() }))]
        }
        action => vec![action.clone()],
    }
}
