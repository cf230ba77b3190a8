//! Random matches and random text.
#![allow(clippy::cast_possible_truncation)] // small numbers of the cases

use super::*;
use proptest::prelude::*;
use proptest::sample::select;

/// Fields whose bits stand in a match as written, without prerequisite.
const FREE: &[Field] = &[
    Field::Metadata,
    Field::Reg0,
    Field::Reg5,
    Field::Reg15,
    Field::Xreg4,
    Field::Xxreg2,
    Field::TunId,
    Field::TunSrc,
    Field::TunDst,
    Field::TunIpv6Src,
    Field::TunIpv6Dst,
    Field::TunFlags,
    Field::TunGbpId,
    Field::TunGbpFlags,
    Field::CtMark,
    Field::CtZone,
    Field::CtState,
    Field::CtLabel,
    Field::PktMark,
    Field::InPort,
    Field::ConjId,
    Field::ActsetOutput,
    Field::EthDst,
    Field::EthSrc,
    Field::DlVlan,
    Field::VlanPcp,
    Field::TunMetadata0,
    Field::TunMetadata7,
];
const IP: &[Field] = &[Field::NwTos, Field::NwEcn, Field::NwTtl, Field::NwFrag, Field::NwProto];
const V4: &[Field] = &[Field::NwSrc, Field::NwDst];
const V6: &[Field] = &[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label];
const PORTS: &[Field] = &[Field::TpSrc, Field::TpDst];
const TCP: &[Field] = &[Field::TpSrc, Field::TpDst, Field::TcpFlags];
const ARP: &[Field] = &[Field::ArpSpa, Field::ArpTpa, Field::ArpOp, Field::ArpSha, Field::ArpTha];
const ND: &[Field] = &[Field::NdTarget, Field::NdSll, Field::NdReserved, Field::NdOptionsType];
const CT4: &[Field] = &[Field::CtNwSrc, Field::CtNwDst, Field::CtTpSrc, Field::CtTpDst];
const CT6: &[Field] = &[Field::CtIpv6Src, Field::CtIpv6Dst, Field::CtTpSrc, Field::CtTpDst];

/// Base of a match, and the fields that it allows.
const KINDS: &[(&str, &[&[Field]])] = &[
    ("", &[]),
    ("dl_type=0x88cc", &[]),
    ("ip", &[IP, V4]),
    ("ipv6", &[IP, V6]),
    ("tcp,nw_ttl=1", &[V4, TCP]),
    ("tcp6", &[V6, TCP]),
    ("udp", &[V4, PORTS]),
    ("sctp6,nw_frag=first", &[V6, PORTS]),
    ("icmp,icmp_type=3", &[V4]),
    ("icmp6,icmpv6_type=135,icmpv6_code=0", &[V6, ND]),
    ("arp", &[ARP]),
    ("rarp", &[ARP]),
    ("ip,ct_state=+new,ct_nw_proto=6", &[V4, CT4]),
    ("tcp6,ct_state=+trk-inv,ct_nw_proto=17", &[V6, CT6]),
];

/// Masks as people write them, and others.
fn mask() -> impl Strategy<Value = u128> {
    prop_oneof![
        3 => Just(u128::MAX),
        2 => (0u32..128).prop_map(|bits| u128::MAX << bits),
        1 => any::<u128>(),
        1 => (0u32..128).prop_map(|bit| 1 << bit),
    ]
}

fn value() -> impl Strategy<Value = u128> {
    prop_oneof![any::<u128>(), Just(0), Just(u128::MAX), 0u128..256]
}

fn match_strategy() -> impl Strategy<Value = SparseMatch> {
    select(KINDS).prop_flat_map(|(base, allowed)| {
        let fields: Vec<Field> = allowed.iter().chain(&[FREE]).flat_map(|fields| fields.iter().copied()).collect();
        let item = (select(fields), value(), mask());
        proptest::collection::vec(item, 0..8).prop_map(move |items| build(base, &items))
    })
}

/// A match in the form in which the parser leaves it.
fn build(base: &str, items: &[(Field, u128, u128)]) -> SparseMatch {
    let (mut key, mut mask) = parse_match(base, &NoNames).unwrap().value.expand();
    for (field, value, bits) in items.iter().copied() {
        let exact = field.exact_mask();
        let bits = if field.info().maskable { bits & exact } else { exact };
        let present = u128::from(VLAN_PRESENT);
        let (field, value, bits) = match field {
            Field::DlVlan => (Field::VlanTci, value & 0xfff | present, 0xfff | present),
            Field::VlanPcp => (Field::VlanTci, value & 0xe000 | present, 0xe000 | present),
            Field::InPort | Field::ActsetOutput if value as u32 > 0xfeff => (field, 0xffff_fff8 | value & 7, bits),
            // Without name, or with that of another: "no" and "later" are of both bits.
            Field::NwFrag if bits == 2 => (field, 0, bits),
            Field::NwFrag if bits == 1 => (field, 1, bits),
            Field::NwFrag if bits == 3 && value & 3 == 2 => (field, 1, bits),
            _ => (field, value, bits),
        };
        // Not what the base needs.
        if mask.get(field) == 0 {
            key.set_masked(field, value & bits, bits);
            mask.add_bits(field, bits);
        }
    }
    SparseMatch::new(&key, &mask)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_printed_is_read_back(matching in match_strategy()) {
        let text = printed(&matching);
        let parsed = parse_match(&text, &NoNames);
        let parsed = parsed.map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(&parsed.value, &matching, "{}", text);
        prop_assert!(parsed.warnings.is_empty(), "{}: {:?}", text, parsed.warnings);
        // And nothing is printed twice or not at all.
        prop_assert_eq!(printed(&parsed.value), text);
    }

    #[test]
    fn any_text_is_read_or_refused_in_its_bounds(text in "\\PC{0,80}") {
        if let Err(error) = parse_match(&text, &NoNames) {
            prop_assert!(error.column <= text.len() + 1, "{text:?}: {error:?}");
            prop_assert!(!error.reason.is_empty());
        }
    }

    #[test]
    fn any_value_of_any_field_is_read_or_refused(
        field in select(Field::ALL),
        text in "[-+0-9a-fx/.:*|\\[\\]a-z\"\\\\é]{0,40}",
    ) {
        if let Ok((value, mask)) = crate::text::parse_value(field, &text, &NoNames) {
            prop_assert_eq!((value & !field.ones(), mask & !field.ones()), (0, 0));
        }
        let _ = parse_key(&format!("{}={text}", field.name()), &NoNames);
    }

    /// Every value that is printed (as in set_field) is read back.
    #[test]
    fn values_are_read_back(field in select(Field::ALL), value in value(), mask in mask()) {
        let exact = field.exact_mask();
        let mask = if field.info().maskable { mask & exact } else { exact };
        let value = if matches!(field, Field::InPort | Field::ActsetOutput) { value & 0x7fff } else { value & mask };
        // "no" and "later" are of both bits, and not everything is a kind of fragment.
        let named = matches!((value, mask), (0 | 1 | 3, 3) | (1, 1) | (0, 2));
        if mask == 0 || field == Field::NwFrag && !named {
            return Ok(());
        }
        let mut text = String::new();
        crate::text::format_value(field, value, mask, Style::default(), &NoNames, &mut text);
        let read = crate::text::parse_value(field, &text, &NoNames);
        prop_assert_eq!(read, Ok((value, mask)), "{:?} {}", field, text);
    }
}
