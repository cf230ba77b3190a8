//! Values as `set_field` prints them in Open vSwitch 3.1, ports, names and subfields. (Matches have
//! their own tests.)
#![allow(clippy::cast_possible_truncation)] // small numbers of the cases

use super::*;
use crate::Subfield;
use crate::text::NoNames;

fn shown(field: Field, value: u128, mask: u128) -> String {
    let mut out = String::new();
    format_value(field, value, mask, Style::default(), &NoNames, &mut out);
    out
}

#[test]
fn values_of_set_field() {
    // What was written before `->`, and what OVS dumps.
    let cases = [
        (Field::TcpDst, "0x50/0xfff0", "80/0xfff0"),
        (Field::TcpDst, "80", "80"),
        (Field::Ipv6Label, "0x5/0xff", "0x5/0xff"),
        (Field::Ipv6Label, "5", "0x5"),
        (Field::NwSrc, "10.0.0.0/24", "10.0.0.0/24"),
        (Field::NwEcn, "1", "1"),
        (Field::NwTos, "40", "40"),
        (Field::IpDscp, "10", "10"),
        (Field::NwTtl, "5", "5"),
        (Field::ArpOp, "2", "2"),
        (Field::EthSrc, "00:01:02:03:04:05", "00:01:02:03:04:05"),
        (Field::EthSrc, "00:01:02:00:00:00/ff:ff:ff:00:00:00", "00:01:02:00:00:00/ff:ff:ff:00:00:00"),
        (Field::Metadata, "5", "0x5"),
        (Field::CtLabel, "0x5/0xf", "0x5/0xf"),
        (Field::Xreg0, "5", "0x5"),
        (Field::Xxreg0, "5/0xff", "0x5/0xff"),
        (Field::InPort, "LOCAL", "LOCAL"),
        (Field::InPort, "1", "1"),
        (Field::VlanVid, "4101", "4101"),
        (Field::VlanPcp, "3", "3"),
        (Field::VlanTci, "0x1005", "0x1005"),
        (Field::NdReserved, "5", "5"),
        (Field::NdOptionsType, "1", "1"),
        (Field::NdTarget, "::1", "::1"),
        (Field::IcmpType, "3", "3"),
        (Field::TunIpv6Dst, "::1", "::1"),
        (Field::TunGbpId, "0x3/0xf", "3/0xf"),
        (Field::TunGbpFlags, "0x8", "0x8"),
        (Field::TunFlags, "oam", "oam"),
        (Field::PktMark, "5", "0x5"),
        (Field::Reg0, "0", "0"),
    ];
    for (field, text, expected) in cases {
        let (value, mask) = parse_value(field, text, &NoNames).unwrap_or_else(|e| panic!("{field:?} {text}: {e}"));
        assert_eq!(shown(field, value, mask), expected, "{field:?} {text}");
        // All ones is no mask, even where the field has bits that no value has.
        if !text.contains('/') {
            assert_eq!(shown(field, value, field.ones()), expected, "{field:?} {text}");
        }
    }
}

#[test]
fn bits_outside_a_mask_are_left_to_the_caller() {
    assert_eq!(parse_value(Field::Reg0, "5/3", &NoNames), Ok((5, 3)));
    assert_eq!(parse_value(Field::NwSrc, "10.0.0.5/24", &NoNames), Ok((0x0a00_0005, 0xffff_ff00)));
    assert_eq!(parse_value(Field::Reg0, "*", &NoNames), Ok((0, 0)));
    assert_eq!(parse_value(Field::CtState, "0x21", &NoNames), Ok((0x21, 0xff)));
    assert_eq!(parse_value(Field::NwTos, "40", &NoNames), Ok((40, 0xfc)));
    assert_eq!(parse_value(Field::NwTtl, "40/0xff", &NoNames), Ok((40, 0xff)));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    for (field, text, hint) in [
        (Field::NwTos, "41", "multiple of 4"),
        (Field::ArpOp, "256", "0 to 255"),
        (Field::IpDscp, "64", "0 to 63"),
        (Field::DlVlan, "5000", "0 to 4095"),
        (Field::VlanPcp, "8", "0 to 7"),
        (Field::VlanVid, "0x2000", "0 to 8191"),
        (Field::Reg0, "0x1ffffffff", "0 to 0xffffffff"),
        (Field::CtLabel, "0x100000000000000000000000000000000", "decimal"),
        (Field::Ipv6Label, "0x100000", "0 to 0xfffff"),
    ] {
        let error = parse_value(field, text, &NoNames).expect_err(text);
        assert!(error.hint.contains(hint), "{field:?} {text}: {error}");
        assert!(!error.field.is_empty(), "{field:?} {text}");
    }
}

#[test]
fn numbers() {
    for (text, number) in [
        ("0", Some(0)),
        ("00", Some(0)),
        ("010", Some(8)),
        ("0x10", Some(16)),
        ("0XfF", Some(255)),
        ("340282366920938463463374607431768211455", Some(u128::MAX)),
        ("340282366920938463463374607431768211456", None),
        ("0xffffffffffffffffffffffffffffffff", Some(u128::MAX)),
        ("0xfffffffffffffffff", Some(0xf_ffff_ffff_ffff_ffff)),
        ("9999999999999999", Some(9_999_999_999_999_999)),
        ("09", None),
        ("0x", None),
        ("", None),
        ("+1", None),
        ("1 ", None),
        ("é", None),
    ] {
        assert_eq!(number::parse(text), number, "{text}");
    }
}

#[test]
fn addresses_have_the_form_of_inet_ntop() {
    for text in [
        "::",
        "::1",
        "::1.2.3.4",
        "::ffff:1.2.3.4",
        "::1:0:0",
        "1::",
        "1:0:0:2::",
        "0:1::",
        "1:2:3:4:5:6:7:8",
        "::ffff",
    ] {
        let (value, mask) = parse_value(Field::Ipv6Src, text, &NoNames).unwrap();
        assert_eq!(shown(Field::Ipv6Src, value, mask), text);
    }
    for (text, mask) in [("1::/0", 0), ("1::/1", 1 << 127), ("1::/128", u128::MAX), ("1::/::f", 15)] {
        assert_eq!(parse_value(Field::Ipv6Src, text, &NoNames).unwrap().1, mask, "{text}");
    }
}

/// A port of every kind of name.
struct Ports;

const NAMES: [&str; 6] = ["eth0", "antrea-gw0", "a\"b\\c", "x_y", "7up", "a\u{1}é\n"];

impl Names for Ports {
    fn port(&self, name: &str) -> Option<u32> {
        NAMES.iter().position(|port| *port == name).map(|i| i as u32)
    }
    fn port_name(&self, number: u32) -> Option<&str> {
        NAMES.get(number as usize).copied()
    }
    fn table(&self, _: &str) -> Option<u8> {
        None
    }
    fn table_name(&self, _: u8) -> Option<&str> {
        None
    }
}

#[test]
fn ports_and_their_names() {
    let quoted = ["eth0", "\"antrea-gw0\"", "\"a\\\"b\\\\c\"", "\"x_y\"", "\"7up\"", "\"a\\u0001é\\n\""];
    for (number, text) in (0..).zip(quoted) {
        let mut out = String::new();
        format_port(number, Style { names: true }, &Ports, &mut out);
        assert_eq!(out, text);
        assert_eq!(parse_port(text, &Ports), Ok(number));
    }
    assert_eq!(parse_port("antrea-gw0", &Ports), Ok(1), "without quotes");
    for (text, number) in [
        ("local", 0xffff_fffe),
        ("65534", 0xffff_fffe),
        ("0xfffffffe", 0xffff_fffe),
        ("65280", 0xffff_ff00),
        ("IN_PORT", 0xffff_fff8),
        ("Any", 0xffff_ffff),
        ("NONE", 0xffff_ffff),
        ("65279", 65279),
    ] {
        assert_eq!(parse_port(text, &Ports), Ok(number), "{text}");
    }
    for text in [
        "65536",
        "0xfffffeff",
        "4294967296",
        "-1",
        "",
        "\"",
        "\"eth0",
        "eth0\"",
        "\"a\"b\"",
        "\"\\u00\"",
        "\"\\x\"",
        "nope",
    ] {
        assert!(parse_port(text, &Ports).is_err(), "{text}");
    }
}

#[test]
fn subfields() {
    let cases = [
        ("NXM_NX_REG0[0..3]", Field::Reg0, 0, 4, "NXM_NX_REG0[0..3]"),
        ("reg0[3]", Field::Reg0, 3, 1, "NXM_NX_REG0[3]"),
        ("NXM_NX_REG0[3..3]", Field::Reg0, 3, 1, "NXM_NX_REG0[3]"),
        ("NXM_NX_REG0[0..31]", Field::Reg0, 0, 32, "NXM_NX_REG0[]"),
        ("reg0[]", Field::Reg0, 0, 32, "NXM_NX_REG0[]"),
        ("nxm_nx_reg0", Field::Reg0, 0, 32, "NXM_NX_REG0[]"),
        ("xreg1[0..31]", Field::Xreg1, 0, 32, "OXM_OF_PKT_REG1[0..31]"),
        ("OXM_OF_PKT_REG0[]", Field::Xreg0, 0, 64, "OXM_OF_PKT_REG0[]"),
        ("NXM_NX_XXREG0[0..31]", Field::Xxreg0, 0, 32, "NXM_NX_XXREG0[0..31]"),
        ("OXM_OF_METADATA[0..31]", Field::Metadata, 0, 32, "OXM_OF_METADATA[0..31]"),
        ("OXM_OF_VLAN_VID[]", Field::VlanVid, 0, 12, "OXM_OF_VLAN_VID[]"),
        ("OXM_OF_IP_ECN[]", Field::NwEcn, 0, 2, "NXM_NX_IP_ECN[]"),
        ("tcp_flags[]", Field::TcpFlags, 0, 12, "NXM_NX_TCP_FLAGS[]"),
        ("NXM_NX_IP_FRAG[]", Field::NwFrag, 0, 2, "NXM_NX_IP_FRAG[]"),
        ("NXM_NX_TUN_FLAGS[0]", Field::TunFlags, 0, 1, "NXM_NX_TUN_FLAGS[]"),
        ("NXM_NX_CT_STATE[]", Field::CtState, 0, 32, "NXM_NX_CT_STATE[]"),
        // 16 and 32 bits of the same number.
        ("NXM_OF_IN_PORT[]", Field::InPort, 0, 16, "NXM_OF_IN_PORT[]"),
        ("in_port", Field::InPort, 0, 16, "NXM_OF_IN_PORT[]"),
        ("OXM_OF_IN_PORT[]", Field::InPort, 0, 32, "OXM_OF_IN_PORT[]"),
        ("NXM_OF_IN_PORT[0..3]", Field::InPort, 0, 4, "NXM_OF_IN_PORT[0..3]"),
        ("OXM_OF_IN_PORT[16..31]", Field::InPort, 16, 16, "OXM_OF_IN_PORT[16..31]"),
        ("nw_src[]", Field::NwSrc, 0, 32, "NXM_OF_IP_SRC[]"),
        ("ERICOXM_OF_ICMPV6_ND_RESERVED[]", Field::NdReserved, 0, 32, "ERICOXM_OF_ICMPV6_ND_RESERVED[]"),
        ("dl_vlan[0..3]", Field::DlVlan, 0, 4, "dl_vlan[0..3]"),
    ];
    for (text, field, start, len, expected) in cases {
        let sub = parse_subfield(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(sub, Subfield { field, start, len }, "{text}");
        let mut out = String::new();
        format_subfield(sub, &mut out);
        assert_eq!(out, expected, "{text}");
    }
    let mut out = String::new();
    format_subfield(Subfield::whole(Field::VlanVid), &mut out);
    assert_eq!(out, "OXM_OF_VLAN_VID[]");
    for (text, column, reason, hint) in [
        ("reg16[]", 1, "reg16", "did you mean reg1"),
        ("NXM_NX_REGO[]", 1, "NXM_NX_REGO", "did you mean NXM_NX_REG0"),
        ("NXM_NX_REG0[32]", 12, "no bit 32", "bits 0 to 31"),
        ("NXM_NX_REG0[4..3]", 12, "after", ""),
        ("NXM_NX_REG0[1..", 12, "does not end", ""),
        ("NXM_NX_REG0[1..2]x", 12, "does not end", ""),
        ("NXM_NX_REG0[a]", 12, "\"a\"", ""),
        ("NXM_NX_REG0[1..999]", 12, "\"999\"", ""),
        ("OXM_OF_VLAN_VID[12]", 16, "no bit 12", ""),
        ("", 1, "\"\"", ""),
        ("[]", 1, "\"\"", ""),
    ] {
        let error = parse_subfield(text).expect_err(text);
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.reason.contains(reason) && error.hint.contains(hint), "{text}: {error}");
    }
}
