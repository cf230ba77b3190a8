//! What Open vSwitch 3.1 has of each match: loaded with `ovs-ofctl -O OpenFlow15 add-flow`, read
//! with `--no-stats dump-flows`.
#![allow(clippy::cast_possible_truncation)] // small numbers of the cases

use super::*;
use crate::text::{NoNames, Style};

mod keys;
mod random;

/// Ports p1 (1), antrea-gw0 (2).
struct Ports;

impl Names for Ports {
    fn port(&self, name: &str) -> Option<u32> {
        ["p1", "antrea-gw0"].iter().position(|port| *port == name).map(|i| i as u32 + 1)
    }
    fn port_name(&self, number: u32) -> Option<&str> {
        ["p1", "antrea-gw0"].get(number.checked_sub(1)? as usize).copied()
    }
    fn table(&self, _: &str) -> Option<u8> {
        None
    }
    fn table_name(&self, _: u8) -> Option<&str> {
        None
    }
}

fn printed(matching: &SparseMatch) -> String {
    let mut out = String::new();
    format_match(matching, Style::default(), &NoNames, &mut out);
    out
}

/// What is in the switch after a match was read, and how many warnings there were.
fn read(text: &str) -> (String, usize) {
    let parsed = parse_match(text, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}"));
    let out = printed(&parsed.value);
    let again = parse_match(&out, &NoNames).unwrap_or_else(|e| panic!("{text}: printed as {out}: {e}"));
    assert_eq!(again.value, parsed.value, "{text}: printed as {out}");
    assert_eq!(again.warnings, Vec::<String>::new(), "{text}: printed as {out}");
    (out, parsed.warnings.len())
}

#[test]
fn every_field_has_the_form_of_ovs() {
    let cases = [
        ("", ""),
        ("ip", "ip"),
        ("ip,ip", "ip"),
        ("ip,tcp", "tcp"),
        ("ip,nw_proto=6", "tcp"),
        ("ip,nw_proto=2", "ip,nw_proto=2"),
        ("ip,nw_proto=0", "ip,nw_proto=0"),
        ("ipv6,nw_proto=58", "icmp6"),
        ("dl_type=0x800", "ip"),
        ("eth_type=2048", "ip"),
        ("dl_type=0x0800,nw_proto=6", "tcp"),
        ("dl_type=0x86dd,nw_proto=6,tp_dst=5", "tcp6,tp_dst=5"),
        ("dl_type=0x88cc", "dl_type=0x88cc"),
        ("dl_type=0x5ff", "dl_type=0x05ff"),
        ("arp", "arp"),
        ("rarp", "rarp"),
        ("mpls", "mpls"),
        ("mplsm", "mplsm"),
        ("sctp6", "sctp6"),
        ("eth", ""),
        ("packet_type=(0,0)", ""),
        ("ip,nw_tos=0x28/0xff", "ip,nw_tos=40"),
        ("ip,ip_dscp=10", "ip,nw_tos=40"),
        ("ip,nw_ecn=1", "ip,nw_ecn=1"),
        ("ip,ip_ecn=2,nw_tos=40", "ip,nw_tos=40,nw_ecn=2"),
        ("ip,nw_ttl=5", "ip,nw_ttl=5"),
        ("ip,nw_frag=yes", "ip,nw_frag=yes"),
        ("ip,nw_frag=first", "ip,nw_frag=first"),
        ("ip,ip_frag=later", "ip,nw_frag=later"),
        ("ip,nw_frag=not_later", "ip,nw_frag=not_later"),
        ("ip,nw_frag=no", "ip,nw_frag=no"),
        ("ip,ip_frag=*", "ip"),
        ("ip,nw_src=10.0.0.1,nw_dst=10.0.0.0/8", "ip,nw_src=10.0.0.1,nw_dst=10.0.0.0/8"),
        ("ip,ip_src=10.0.0.1,nw_dst=10.1.0.0/255.255.0.0", "ip,nw_src=10.0.0.1,nw_dst=10.1.0.0/16"),
        ("ip,nw_src=10.0.3.0/255.0.255.0", "ip,nw_src=10.0.3.0/255.0.255.0"),
        ("ip,nw_src=0.0.0.0/0", "ip"),
        ("ip,nw_src=*", "ip"),
        ("ipv6,ipv6_src=::1,ipv6_dst=2001:db8::/32", "ipv6,ipv6_src=::1,ipv6_dst=2001:db8::/32"),
        ("ipv6,ipv6_src=::ffff:1.2.3.4", "ipv6,ipv6_src=::ffff:1.2.3.4"),
        ("ipv6,ipv6_src=::1.2.3.4", "ipv6,ipv6_src=::1.2.3.4"),
        ("ipv6,ipv6_src=1:0:0:2::/ffff:0:0:ffff::", "ipv6,ipv6_src=1:0:0:2::/ffff:0:0:ffff::"),
        ("ipv6,ipv6_label=5", "ipv6,ipv6_label=0x00005"),
        ("ipv6,ipv6_label=0x5/0xff", "ipv6,ipv6_label=0x00005/0x000ff"),
        ("dl_src=0:1:2:3:4:5", "dl_src=00:01:02:03:04:05"),
        ("dl_src=00:11:22:00:00:00/ff:ff:ff:00:00:00", "dl_src=00:11:22:00:00:00/ff:ff:ff:00:00:00"),
        ("eth_dst=01:00:00:00:00:00/01:00:00:00:00:00", "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"),
        ("dl_dst=00:11:22:33:44:55/ff:ff:ff:ff:ff:ff", "dl_dst=00:11:22:33:44:55"),
        ("tcp,tp_dst=80", "tcp,tp_dst=80"),
        ("tcp,tcp_dst=0x50/0xfff0", "tcp,tp_dst=0x50/0xfff0"),
        ("udp,tcp_dst=80", "udp,tp_dst=80"),
        ("udp6,udp_src=0x10", "udp6,tp_src=16"),
        ("tcp,tp_src=010", "tcp,tp_src=8"),
        ("sctp,sctp_src=1", "sctp,tp_src=1"),
        ("udp,nw_frag=yes,tp_dst=80", "udp,nw_frag=yes,tp_dst=80"),
        ("icmp,icmp_type=8,icmp_code=0", "icmp,icmp_type=8,icmp_code=0"),
        ("icmp,tp_src=8", "icmp,icmp_type=8"),
        (
            "icmp6,icmpv6_type=135,icmpv6_code=0,nd_reserved=5,nd_options_type=1,nd_target=fe80::/10,nd_sll=0:0:0:0:0:1",
            "icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::/10,nd_sll=00:00:00:00:00:01,nd_reserved=5,nd_options_type=1",
        ),
        ("icmp6,icmp_type=136,nd_tll=00:01:02:03:04:05", "icmp6,icmp_type=136,nd_tll=00:01:02:03:04:05"),
        (
            "arp,arp_tha=0:0:0:0:0:2/0:0:0:0:0:f,arp_sha=0:0:0:0:0:1,arp_op=1,arp_tpa=1.2.3.4,arp_spa=1.2.3.0/24",
            "arp,arp_spa=1.2.3.0/24,arp_tpa=1.2.3.4,arp_op=1,arp_sha=00:00:00:00:00:01,arp_tha=00:00:00:00:00:02/00:00:00:00:00:0f",
        ),
        ("arp,nw_src=1.2.3.4,nw_proto=1", "arp,arp_spa=1.2.3.4,arp_op=1"),
        ("tcp,tcp_flags=+syn-ack", "tcp,tcp_flags=+syn-ack"),
        ("tcp,tcp_flags=0x2/0x12", "tcp,tcp_flags=+syn-ack"),
        ("tcp,tcp_flags=2", "tcp,tcp_flags=syn"),
        ("tcp,tcp_flags=syn|ack", "tcp,tcp_flags=syn|ack"),
        ("tcp,tcp_flags=[200]", "tcp,tcp_flags=[200]"),
        ("tcp,tcp_flags=0x800/0xe00", "tcp,tcp_flags=-[200]-[400]+[800]"),
        ("tcp,tcp_flags=0/0xfff", "tcp,tcp_flags=0"),
        ("tcp,tcp_flags=0xfff", "tcp,tcp_flags=fin|syn|rst|psh|ack|urg|ece|cwr|ns|[200]|[400]|[800]"),
        ("reg0=1/3", "reg0=0x1/0x3"),
        ("reg15=0", "reg15=0"),
        ("xreg0=5", "reg0=0,reg1=0x5"),
        ("xreg0=0x500000000/0xf00000000", "reg0=0x5/0xf"),
        ("xxreg1=0x12345678000000000000000000000001", "reg4=0x12345678,reg5=0,reg6=0,reg7=0x1"),
        ("xxreg3=0x5", "reg12=0,reg13=0,reg14=0,reg15=0x5"),
        ("metadata=7/0xff", "metadata=0x7/0xff"),
        ("tunnel_id=9/0xf", "tun_id=0x9/0xf"),
        ("tun_id=0", "tun_id=0"),
        ("tun_src=1.2.3.4,tun_dst=1.2.0.0/16", "tun_src=1.2.3.4,tun_dst=1.2.0.0/16"),
        ("tun_ipv6_src=::1,tun_ipv6_dst=fe80::/10", "tun_ipv6_src=::1,tun_ipv6_dst=fe80::/10"),
        ("tun_gbp_id=5,tun_gbp_flags=8", "tun_gbp_id=5,tun_gbp_flags=0x8"),
        ("tun_gbp_id=5/0xf", "tun_gbp_id=0x5/0xf"),
        ("tun_flags=oam", "tun_flags=+oam"),
        ("tun_flags=0", "tun_flags=-oam"),
        ("pkt_mark=5/0xf", "pkt_mark=0x5/0xf"),
        ("conj_id=0x10", "conj_id=16"),
        ("in_port=1", "in_port=1"),
        ("in_port_oxm=1", "in_port=1"),
        ("in_port=local", "in_port=LOCAL"),
        ("in_port=65534", "in_port=LOCAL"),
        ("in_port=NONE", "in_port=ANY"),
        ("in_port=65280", "in_port=65280"),
        ("actset_output=1", "actset_output=1"),
        ("ct_state=+new-est", "ct_state=+new-est"),
        ("ct_state=trk", "ct_state=trk"),
        ("ct_state=0x21", "ct_state=new|trk"),
        ("ct_state=0x21/0x21", "ct_state=+new+trk"),
        ("ct_state=0", "ct_state=0"),
        ("ct_state=0/0", ""),
        ("ct_state=+trk-inv+new-est-rel-rpl-snat+dnat", "ct_state=new|trk|dnat"),
        ("ct_zone=5", "ct_zone=5"),
        ("ct_mark=5", "ct_mark=0x5"),
        ("ct_label=0x5/0xff", "ct_label=0x5/0xff"),
        ("ct_label=0x12345678900000000000000000000001", "ct_label=0x12345678900000000000000000000001"),
        (
            "ct_state=+trk+new,ip,ct_nw_src=1.2.3.4,ct_nw_dst=1.2.3.0/24,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=2/3",
            "ct_state=+new+trk,ct_nw_src=1.2.3.4,ct_nw_dst=1.2.3.0/24,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=0x2/0x3,ip",
        ),
        ("ct_state=+trk-inv,ip,ct_nw_proto=6", "ct_state=-inv+trk,ct_nw_proto=6,ip"),
        ("ip,ct_state=-trk+new,ct_nw_proto=6", "ct_state=+new-trk,ct_nw_proto=6,ip"),
        ("ct_state=+new,ct_nw_proto=6", "ct_state=+new,ct_nw_proto=6"),
        (
            "ct_state=+new,ipv6,ct_ipv6_dst=2::/16,ct_ipv6_src=::1,ct_nw_proto=6",
            "ct_state=+new,ct_ipv6_src=::1,ct_ipv6_dst=2::/16,ct_nw_proto=6,ipv6",
        ),
        ("dl_vlan=5,dl_vlan_pcp=3", "dl_vlan=5,dl_vlan_pcp=3"),
        ("dl_vlan_pcp=3", "dl_vlan_pcp=3"),
        ("vlan_pcp=3,dl_vlan=7", "dl_vlan=7,dl_vlan_pcp=3"),
        ("dl_vlan=0xffff", "vlan_tci=0x0000/0x1fff"),
        ("vlan_tci=0", "vlan_tci=0x0000/0x1fff"),
        ("vlan_tci=0x1123", "dl_vlan=291,dl_vlan_pcp=0"),
        ("vlan_tci=0x1000/0x1000", "vlan_tci=0x1000/0x1000"),
        ("vlan_tci=0x3000/0xf000", "dl_vlan_pcp=1"),
        ("vlan_tci=5/0x0fff", "vlan_tci=0x0005/0x0fff"),
        ("vlan_vid=0x1005", "dl_vlan=5"),
        ("vlan_vid=5", "vlan_tci=0x0005/0x1fff"),
        ("vlan_vid=0x1000/0x1000", "vlan_tci=0x1000/0x1000"),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), (expected.to_owned(), 0), "{text}");
    }
}

#[test]
fn items_may_come_in_any_order() {
    let text = "tcp_flags=+syn,tp_dst=2,tp_src=1,nw_frag=no,nw_ttl=3,nw_ecn=1,nw_tos=4,nw_dst=2.0.0.0,nw_src=1.0.0.0,tcp,\
                dl_dst=0:0:0:0:0:2,dl_src=0:0:0:0:0:1,dl_vlan=1,in_port=2,metadata=3,tun_dst=1.1.1.1,tun_id=4,reg1=1,reg0=0,\
                ct_nw_proto=6,ct_label=1,ct_mark=2,ct_zone=3,ct_state=+est,conj_id=9,pkt_mark=8";
    let expected = "pkt_mark=0x8,conj_id=9,ct_state=+est,ct_zone=3,ct_mark=0x2,ct_label=0x1,ct_nw_proto=6,tcp,reg0=0,reg1=0x1,\
                    tun_id=0x4,tun_dst=1.1.1.1,metadata=0x3,in_port=2,dl_vlan=1,dl_src=00:00:00:00:00:01,dl_dst=00:00:00:00:00:02,\
                    nw_src=1.0.0.0,nw_dst=2.0.0.0,nw_tos=4,nw_ecn=1,nw_ttl=3,nw_frag=no,tp_src=1,tp_dst=2,tcp_flags=+syn";
    assert_eq!(read(text), (expected.to_owned(), 0));
}

#[test]
fn what_ovs_changes_silently_is_changed_with_a_warning() {
    let cases = [
        // A field without its prerequisite goes.
        ("tp_dst=80", ""),
        ("nw_src=1.2.3.4", ""),
        ("nw_proto=6", ""),
        ("nw_proto=6,tp_dst=5", ""),
        ("nw_ttl=5", ""),
        ("nw_frag=yes", ""),
        ("ipv6_label=1", ""),
        ("arp_op=1", ""),
        ("tcp_flags=+syn", ""),
        ("ip,tp_dst=80", "ip"),
        ("udp,tcp_flags=+syn", "udp"),
        ("ipv6,nw_src=1.2.3.4", "ipv6"),
        ("ip,ipv6_src=::1", "ip"),
        ("igmp,tp_src=1", "ip,nw_proto=2"),
        ("icmp6,icmp_type=135,nd_tll=0:1:2:3:4:5", "icmp6,icmp_type=135"),
        ("icmp6,icmp_type=133,nd_target=::1", "icmp6,icmp_type=133"),
        ("icmp6,icmp_type=135,icmp_code=1,nd_target=::1", "icmp6,icmp_type=135,icmp_code=1"),
        ("ct_state=+trk+new,ip,ct_tp_src=1", "ct_state=+new+trk,ip"),
        ("ct_state=+trk,ip,ct_nw_proto=0", "ct_state=+trk,ip"),
        ("ip,ct_tp_src=1", "ip"),
        // Bits outside the mask are cleared.
        ("reg0=5/3", "reg0=0x1/0x3"),
        ("ip,nw_src=10.0.0.5/24", "ip,nw_src=10.0.0.0/24"),
        ("ip,nw_src=10.0.0.5/0", "ip"),
        ("ipv6,ipv6_src=1::2/::ffff", "ipv6,ipv6_src=::2/::ffff"),
        ("tcp,tp_dst=0x51/0xfff0", "tcp,tp_dst=0x50/0xfff0"),
        ("dl_src=00:11:22:33:44:55/ff:ff:ff:00:00:00", "dl_src=00:11:22:00:00:00/ff:ff:ff:00:00:00"),
        // Values too large for the field are cut, if OpenFlow has bytes for them.
        ("dl_vlan=5000", "dl_vlan=904"),
        ("dl_vlan_pcp=8", "dl_vlan_pcp=0"),
        ("ip,ip_dscp=64", "ip,nw_tos=0"),
        ("ip,nw_tos=41", "ip,nw_tos=40"),
        ("ip,nw_ecn=7", "ip,nw_ecn=3"),
        ("arp,arp_op=256", "arp,arp_op=0"),
        ("vlan_vid=0x2005", "vlan_tci=0x0005/0x1fff"),
    ];
    for (text, expected) in cases {
        let (out, warnings) = read(text);
        assert_eq!(out, expected, "{text}");
        assert!(warnings > 0, "{text}: no warning");
    }
    let parsed = parse_match("tp_dst=80", &NoNames).unwrap();
    assert_eq!(
        parsed.warnings,
        ["tp_dst (or icmp_code) is ignored: it needs tcp, udp, sctp, icmp or their IPv6 forms in the match"]
    );
    let parsed = parse_match("ip,nw_src=10.0.0.5/24", &NoNames).unwrap();
    assert_eq!(parsed.warnings, ["nw_src=10.0.0.5/24 has bits outside its mask and matches 10.0.0.0/24"]);
    let parsed = parse_match("tcp,tp_dst=0x51/0xfff0", &NoNames).unwrap();
    assert_eq!(parsed.warnings, ["tp_dst=0x51/0xfff0 has bits outside its mask and matches 0x50/0xfff0"]);
    let parsed = parse_match("dl_vlan=5000", &NoNames).unwrap();
    assert_eq!(parsed.warnings, ["dl_vlan=5000 does not fit into the field and matches 904"]);
}

#[test]
fn wrong_matches_are_refused_with_place_code_and_hint() {
    // Text, column, code, a part of the reason, a part of the hint.
    let cases = [
        ("ip,tp_dts=80", 4, "", "tp_dts", "tp_dst"),
        ("foo", 1, "", "\"foo\"", ""),
        ("tpc", 1, "", "\"tpc\"", "tcp"),
        ("tcp=1", 5, "", "tcp takes no value", "write tcp alone"),
        ("ip,nw_src=10.0.0", 11, "", "10.0.0", "10.0.0.0/8"),
        ("ip,nw_src=10.0.0.5/33", 20, "", "33", "0 to 32"),
        ("ipv6,ipv6_src=1::2/129", 20, "", "129", "0 to 128"),
        ("ipv6,ipv6_src=1::2::3", 15, "", "1::2::3", "2001:db8::1"),
        ("ip,nw_frag=sometimes", 12, "", "sometimes", "not_later"),
        ("reg0=0x100000000", 6, "", "too large", "0 to 0xffffffff"),
        ("reg0=5/0x100000000", 8, "", "too large", "0 to 0xffffffff"),
        ("reg0=-1", 6, "", "no number", "decimal"),
        ("reg0=1x", 6, "", "no number", "decimal"),
        ("tcp,tp_src=65536", 12, "", "too large", "0 to 0xffff"),
        ("icmp,icmp_type=300", 16, "", "too large", "0 to 0xff"),
        ("tcp,tp_src=", 12, "", "no value", "tp_src=*"),
        ("tcp,tp_src", 5, "", "no value", "tp_src=*"),
        ("icmp,icmp_type=8/0xf", 16, "", "in parts", "icmp_type=*"),
        ("icmp,tp_src=8/0xf", 1, "OFPBMC_BAD_MASK", "one byte", "0 to 255"),
        ("icmp,tp_src=300", 1, "OFPBMC_BAD_MASK", "one byte", "0 to 255"),
        ("dl_type=0x800/0xff00", 9, "", "in parts", "eth_type=*"),
        ("conj_id=5/1", 9, "", "in parts", ""),
        ("ct_zone=5/7", 9, "", "in parts", ""),
        ("dl_src=00:11:22:33:44", 8, "", "Ethernet address", "00:11:22:33:44:55"),
        ("dl_src=00:11:22:33:44:555", 8, "", "Ethernet address", ""),
        ("dl_src=00:11:22:33:44:55:66", 8, "", "Ethernet address", ""),
        ("ct_state=+foo", 11, "", "foo", "new est rel"),
        ("ct_state=+new-newt", 15, "", "newt", "did you mean new"),
        ("ct_state=+new-new", 15, "", "twice", ""),
        ("ct_state=0x100", 10, "", "0x100", "flags are"),
        ("tcp,tcp_flags=0x1000", 15, "", "0x1000", "flags are fin syn"),
        ("tcp,tcp_flags=+syn[200]", 16, "", "syn[200]", ""),
        ("in_port=p1", 9, "", "no port \"p1\"", "LOCAL"),
        ("in_port=LOCLA", 9, "", "LOCLA", "did you mean LOCAL"),
        ("in_port=70000", 9, "", "70000", "0xfeff"),
        ("in_port=\"p1", 9, "", "quotes", ""),
        ("ipv6,ipv6_label=0x100005", 17, "OFPBMC_BAD_VALUE", "20 bits", "0xfffff"),
        ("recirc_id=1", 11, "OFPBRC_EPERM", "recirc_id", ""),
        ("dp_hash=1/1", 9, "OFPBRC_EPERM", "dp_hash", ""),
        ("packet_type=(1,0x800)", 13, "", "packet_type", "(0,0)"),
        // No packet can match both.
        ("tcp,udp", 5, "", "contradicts", ""),
        ("ip,dl_type=0x86dd", 12, "", "contradicts", ""),
        ("reg0=1,reg0=2", 13, "", "contradicts", ""),
        ("xreg0=1,reg0=2", 14, "", "contradicts", ""),
        // Refused by the switch.
        ("vlan_tci=5", 1, "OFPBMC_BAD_PREREQ", "vlan_tci", "0x1000"),
        ("vlan_tci=0x51/0xfff0", 1, "OFPBMC_BAD_PREREQ", "vlan_tci", "0x1000"),
        ("tcp,nw_frag=later,tp_dst=80", 1, "OFPBMC_BAD_PREREQ", "later fragments", "not_later"),
        ("tcp,nw_frag=later,tcp_flags=+syn", 1, "OFPBMC_BAD_PREREQ", "later fragments", ""),
        ("ip,ct_nw_proto=6", 1, "OFPBMC_BAD_PREREQ", "ct_nw_proto", "+trk-inv"),
        ("ct_state=+trk,ip,ct_nw_src=1.2.3.4", 1, "OFPBMC_BAD_PREREQ", "ct_nw_src", "+new"),
        ("ct_state=+inv+trk,ip,ct_nw_proto=6", 1, "OFPBMC_BAD_PREREQ", "ct_nw_proto", "+new"),
        ("ct_state=-new+trk,ip,ct_nw_proto=6", 1, "OFPBMC_BAD_PREREQ", "ct_nw_proto", "+new"),
        ("ct_state=+new,ct_nw_src=1.2.3.4", 1, "OFPBAC_MATCH_INCONSISTENT", "needs ip and", ""),
        ("ct_state=+new,ip,ct_ipv6_src=::1", 1, "OFPBAC_MATCH_INCONSISTENT", "needs ipv6 and", ""),
    ];
    for (text, column, code, reason, hint) in cases {
        let error = parse_match(text, &NoNames).expect_err(text);
        assert_eq!((error.column, error.code), (column, code), "{text}: {error}");
        assert!(error.reason.contains(reason), "{text}: {error}");
        assert!(error.hint.contains(hint), "{text}: {error}");
    }
}

#[test]
fn items_end_at_commas_and_blanks_but_not_inside_of_quotes_and_parentheses() {
    let items = |text| Items::new(text).map(|item| (item.key, item.value, item.value_column)).collect::<Vec<_>>();
    assert_eq!(items("tcp,tp_dst=80"), [("tcp", None, 1), ("tp_dst", Some("80"), 12)]);
    assert_eq!(
        items(" tcp, tp_dst=80 ,,in_port=\"a, b\""),
        [("tcp", None, 2), ("tp_dst", Some("80"), 14), ("in_port", Some("\"a, b\""), 27)]
    );
    assert_eq!(
        items("packet_type=(0,0) x=\"\\\",\" y=a=b"),
        [("packet_type", Some("(0,0)"), 13), ("x", Some("\"\\\",\""), 21), ("y", Some("a=b"), 29)]
    );
    assert_eq!(items(""), []);
    assert_eq!(items("\"\\"), [("\"\\", None, 1)]);
    assert_eq!(items("=é)("), [("", Some("é)("), 2)]);
}

#[test]
fn ports_are_named_if_asked_to_and_quoted_if_needed() {
    let names = Style { names: true };
    for (text, plain, named) in [
        ("in_port=p1", "in_port=1", "in_port=p1"),
        ("in_port=\"p1\"", "in_port=1", "in_port=p1"),
        ("in_port=antrea-gw0", "in_port=2", "in_port=\"antrea-gw0\""),
        ("in_port=\"antrea-gw0\"", "in_port=2", "in_port=\"antrea-gw0\""),
        ("in_port=9", "in_port=9", "in_port=9"),
        ("in_port=LOCAL", "in_port=LOCAL", "in_port=LOCAL"),
    ] {
        let parsed = parse_match(text, &Ports).unwrap();
        let (mut out, mut out_named) = (String::new(), String::new());
        format_match(&parsed.value, Style::default(), &Ports, &mut out);
        format_match(&parsed.value, names, &Ports, &mut out_named);
        assert_eq!((out.as_str(), out_named.as_str()), (plain, named), "{text}");
    }
}

#[test]
fn a_builder_takes_only_what_belongs_to_matches() {
    let mut builder = MatchBuilder::new(&NoNames);
    assert_eq!(builder.add("priority", Some("5")), Ok(false));
    assert_eq!(builder.add("actions", Some("drop")), Ok(false));
    assert_eq!(builder.add("", None), Ok(false));
    assert_eq!(builder.add(&"x".repeat(1000), None), Ok(false));
    assert_eq!(builder.add("TCP", None), Ok(true));
    let error = builder.add("tp_dst", Some("80,")).unwrap_err();
    assert_eq!((error.column, error.field.as_str()), (1, "tp_dst"));
    // Too many items end.
    let many = (0..=MAX_ITEMS).try_for_each(|_| builder.add("tcp", None).map(|_| ()));
    assert!(many.unwrap_err().reason.contains("more than 256 items"));
}
