//! The table of fields, against the manual and against itself.

use super::*;
use crate::text::{NoNames, parse_match};
use crate::{FlowKey, FlowMask, WORDS};

/// ovs-fields(7): name, other name, NXM, OXM, whether maskable, whether writable.
#[test]
fn names_and_access_are_those_of_the_manual() {
    let mut count = 0;
    for line in include_str!("tests/ovs-fields.txt").lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split(' ').collect();
        let [name, alias, nxm, oxm, masking, access] = columns[..] else { panic!("{line}") };
        let field = field_by_name(name).unwrap_or_else(|| panic!("{line}: not there"));
        for name in [alias, nxm, oxm].into_iter().filter(|name| *name != "-") {
            for name in [name.to_owned(), name.to_ascii_lowercase(), name.to_ascii_uppercase()] {
                assert_eq!(field_by_name(&name), Some(field), "{line}: {name}");
            }
        }
        assert_eq!(field.info().maskable, masking == "maskable", "{line}");
        assert_eq!(field.is_writable(), access == "read/write", "{line}");
        count += 1;
    }
    assert_eq!(count, 98, "fields of the manual that are ours");
}

#[test]
fn every_field_is_found_by_its_name_and_names_are_unique() {
    let mut seen = std::collections::HashSet::new();
    for field in Field::ALL.iter().copied() {
        let info = field.info();
        for name in [field.name(), info.nxm, info.oxm].iter().chain(info.aliases).filter(|name| !name.is_empty()) {
            assert!(seen.insert(name.to_ascii_lowercase()) || name.starts_with("tp_"), "{name} twice");
        }
        let expected = match field {
            // TCP's, in ovs-fields(7).
            Field::TpSrc => Field::TcpSrc,
            Field::TpDst => Field::TcpDst,
            field => field,
        };
        assert_eq!(field_by_name(field.name()), Some(expected));
    }
    assert_eq!(field_by_name(&"x".repeat(200)), None);
    assert_eq!(field_by_name(""), None);
}

#[test]
fn fields_lie_within_words_and_overlap_only_where_they_share() {
    let mut owners: Vec<(Field, FlowMask)> = Vec::new();
    let shares = |a: Field, b: Field| {
        let group = |field: Field| match field {
            field if (Field::Reg0..=Field::Xxreg3).contains(&field) => 1,
            Field::VlanTci | Field::DlVlan | Field::VlanVid | Field::VlanPcp => 2,
            Field::NwSrc | Field::ArpSpa => 3,
            Field::NwDst | Field::ArpTpa => 4,
            Field::NwTos | Field::IpDscp | Field::NwEcn => 5,
            Field::NwProto | Field::ArpOp => 6,
            Field::TpSrc | Field::TcpSrc | Field::UdpSrc | Field::SctpSrc | Field::IcmpType | Field::Icmpv6Type => 7,
            Field::TpDst | Field::TcpDst | Field::UdpDst | Field::SctpDst | Field::IcmpCode | Field::Icmpv6Code => 8,
            Field::ArpSha | Field::NdSll => 9,
            Field::ArpTha | Field::NdTll => 10,
            _ => 0,
        };
        group(a) == group(b) && group(a) != 0
    };
    for field in Field::ALL.iter().copied() {
        let place = field.location();
        let words = if place.width > 64 { 2 } else { 1 };
        assert!(place.word as usize + words <= WORDS, "{field:?}");
        assert!(words == 2 || u32::from(place.shift) + field.width() <= 64, "{field:?}");
        assert_eq!(field.exact_mask() & !field.ones(), 0, "{field:?}");
        let mut mask = FlowMask::default();
        mask.add(field);
        assert_eq!(mask.get(field), field.ones(), "{field:?}");
        for (other, bits) in &owners {
            let overlap = bits.0.iter().zip(&mask.0).any(|(a, b)| a & b != 0);
            assert!(!overlap || shares(field, *other), "{field:?} overlaps {other:?}");
        }
        owners.push((field, mask));
    }
}

#[test]
fn prerequisites() {
    let met = |text: &str, field: Field| {
        let matching = parse_match(text, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}")).value;
        field.prerequisites_met_by(&matching)
    };
    let cases: &[(&str, &[Field], &[Field])] = &[
        (
            "",
            &[Field::Reg0, Field::EthSrc, Field::VlanTci, Field::TunId, Field::CtMark],
            &[Field::NwSrc, Field::TcpSrc, Field::VlanPcp, Field::CtNwSrc],
        ),
        (
            "ip",
            &[Field::NwSrc, Field::NwTtl, Field::IpDscp],
            &[Field::Ipv6Src, Field::TcpDst, Field::ArpOp, Field::TpDst],
        ),
        ("ipv6", &[Field::Ipv6Src, Field::NwTtl], &[Field::NwSrc, Field::NdTarget]),
        ("tcp", &[Field::TcpDst, Field::TpDst, Field::TcpFlags], &[Field::UdpDst, Field::IcmpType]),
        ("tcp6", &[Field::TcpDst], &[Field::UdpDst]),
        ("udp", &[Field::UdpDst, Field::TpDst], &[Field::TcpDst, Field::TcpFlags]),
        ("udp,nw_frag=first", &[Field::UdpDst], &[]),
        ("udp,nw_frag=later", &[Field::NwSrc], &[Field::UdpDst, Field::TpDst]),
        ("sctp", &[Field::SctpDst], &[Field::TcpDst]),
        ("icmp", &[Field::IcmpType, Field::TpSrc], &[Field::Icmpv6Type]),
        ("icmp6", &[Field::Icmpv6Type], &[Field::IcmpType, Field::NdTarget]),
        ("icmp6,icmpv6_type=135", &[Field::NdTarget, Field::NdSll, Field::NdReserved], &[Field::NdTll]),
        ("icmp6,icmpv6_type=136,icmpv6_code=0", &[Field::NdTarget, Field::NdTll], &[Field::NdSll]),
        ("icmp6,icmpv6_type=136,icmpv6_code=1", &[], &[Field::NdTarget, Field::NdTll]),
        ("arp", &[Field::ArpOp, Field::ArpSha], &[Field::NwSrc, Field::NwProto]),
        ("rarp", &[Field::ArpOp], &[Field::NwSrc]),
        ("igmp", &[Field::NwSrc, Field::IgmpGroup], &[Field::TpSrc]),
        ("dl_vlan=5", &[Field::VlanPcp], &[]),
        ("vlan_tci=0x1000/0x1000", &[Field::VlanPcp], &[]),
        ("vlan_tci=0", &[], &[Field::VlanPcp]),
        ("ip,ct_state=+trk", &[], &[Field::CtNwSrc, Field::CtNwProto]),
        ("ip,ct_state=-new+trk", &[], &[Field::CtNwProto]),
        ("ip,ct_state=+trk-inv", &[Field::CtNwSrc, Field::CtNwProto], &[Field::CtIpv6Src]),
        ("ipv6,ct_state=+est", &[Field::CtIpv6Src, Field::CtTpDst], &[Field::CtNwSrc]),
    ];
    for (text, there, not_there) in cases {
        for field in *there {
            assert!(met(text, *field), "{text}: {field:?}");
        }
        for field in *not_there {
            assert!(!met(text, *field), "{text}: {field:?}");
        }
    }
}

#[test]
fn packets_have_fields() {
    let mut key = FlowKey::default();
    assert!(Field::Reg0.exists_in(&key) && !Field::TcpDst.exists_in(&key));
    key.set(Field::EthType, 0x800);
    key.set(Field::NwProto, 6);
    assert!(Field::TcpDst.exists_in(&key));
    key.set(Field::NwFrag, 3);
    assert!(!Field::TcpDst.exists_in(&key) && Field::NwSrc.exists_in(&key));
    // Tracked and not invalid.
    key.set(Field::CtState, 0x20);
    assert!(Field::CtNwSrc.exists_in(&key) && !Field::CtIpv6Src.exists_in(&key));
    key.set(Field::CtState, 0x30);
    assert!(!Field::CtNwSrc.exists_in(&key));
}
