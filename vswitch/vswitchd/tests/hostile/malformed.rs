//! Malformed packets: by default what Open vSwitch does with them, on a strict bridge or port a
//! drop with a name.

use crate::bed::{BRIDGE, Bed};
use std::collections::BTreeMap;
use vswitch_testkit::frames::*;

/// Number and what is fed in, the frame, why it is dropped on an ordinary port and on a strict one
/// ("-": it is not).
type Case = (&'static str, Vec<u8>, &'static str, &'static str);

fn with(mut frame: Vec<u8>, at: usize, bits: u8) -> Vec<u8> {
    frame[at] ^= bits;
    frame
}

fn tagged(tags: usize, inner: &[u8]) -> Vec<u8> {
    [&inner[..12], &[0x81, 0, 0, 5].repeat(tags), &inner[12..]].concat()
}

/// P01 to P06.
fn link_and_lengths() -> Vec<Case> {
    let udp = || udp4(None, b"ping");
    let ip = |change: fn(&mut Ip4)| {
        let mut ip = Ip4::new(17);
        change(&mut ip);
        ip.frame(&sealed4(17, vswitch_testkit::frames::udp(None, b"ping")))
    };
    let labels = |n: usize| eth(0x8847, &[[0, 1, 0, 64].repeat(n), vec![0, 1, 1, 64]].concat());
    vec![
        ("P01 1 byte", vec![2], "eth_short", "eth_short"),
        ("P01 13 bytes", udp()[..13].to_vec(), "eth_short", "eth_short"),
        ("P01 14 bytes", eth(0x88b5, &[]), "-", "eth_short"),
        ("P01 15 bytes", eth(0x88b5, &[0]), "-", "-"),
        ("P02 the MTU", eth(0x88b5, &[7; 1500]), "-", "-"),
        ("P02 more than the MTU with two tags", eth(0x88b5, &[7; 1509]), "oversize", "oversize"),
        ("P03 tag cut off", eth(0x8100, &[0, 5, 8]), "-", "vlan_short"),
        ("P03 second tag cut off", eth(0x8100, &[0, 5, 0x81, 0, 0, 6]), "-", "vlan_short"),
        ("P03 16 tags", tagged(16, &udp()), "-", "-"),
        ("P03 malformed behind two tags", tagged(2, &udp()[..40]), "-", "ip_len"),
        ("P04 16 labels", labels(15), "-", "-"),
        ("P04 255 labels", labels(254), "-", "mpls_depth"),
        ("P04 no bottom of the stack", eth(0x8848, &[0, 1, 0, 64].repeat(3)), "-", "mpls_depth"),
        ("P05 good", udp(), "-", "-"),
        ("P05 ihl 0", ip(|ip| ip.first = Some(0x40)), "-", "ip_len"),
        ("P05 ihl 4", ip(|ip| ip.first = Some(0x44)), "-", "ip_len"),
        ("P05 ihl past the packet", ip(|ip| ip.first = Some(0x4f)), "-", "ip_len"),
        ("P05 total below the header", ip(|ip| ip.total = Some(19)), "-", "ip_len"),
        ("P05 total beyond the frame", ip(|ip| ip.total = Some(33)), "-", "ip_len"),
        ("P05 version 0", ip(|ip| ip.first = Some(0x05)), "-", "ip_ver"),
        ("P05 version 6", ip(|ip| ip.first = Some(0x65)), "-", "ip_ver"),
        ("P05 IPv6 longer than its frame", Ip6 { payload_len: Some(13), ..Ip6::new(17) }.frame(&udp6()), "-", "ip_len"),
        ("P05 version 4 behind 0x86dd", Ip6 { first: 0x40, ..Ip6::new(17) }.frame(&udp6()), "-", "ip_ver"),
        ("P06 1 byte of padding", [udp(), vec![9]].concat(), "-", "-"),
        ("P06 1400 bytes of padding", [udp(), vec![9; 1400]].concat(), "-", "-"),
    ]
}

/// P07 to P12.
fn internet_and_transport() -> Vec<Case> {
    let options = |options: &[u8]| Ip4::with(17, options).frame(&sealed4(17, udp(None, b"ping")));
    let ttl = |ttl| Ip4 { ttl, ..Ip4::new(17) }.frame(&sealed4(17, udp(None, b"ping")));
    let good = || udp4(None, b"ping");
    vec![
        ("P07 option of length 0", options(&[130, 0]), "-", "ip_opt"),
        ("P07 option past the header", options(&[130, 5]), "-", "ip_opt"),
        ("P07 loose source route", options(&[131, 7, 4, 10, 0, 0, 9]), "-", "ip_opt"),
        ("P07 40 bytes of NOP", options(&[1; 40]), "-", "-"),
        ("P08 protocol 0", Ip4::new(0).frame(b"anything"), "-", "-"),
        ("P08 protocol 255", Ip4::new(255).frame(b"anything"), "-", "-"),
        ("P09 TTL 0", ttl(0), "-", "ttl"),
        ("P09 TTL 1", ttl(1), "-", "-"),
        ("P09 hop limit 0", Ip6 { hop_limit: 0, ..Ip6::new(17) }.frame(&udp6()), "-", "ttl"),
        ("P10 IPv4 checksum", with(good(), 24, 1), "-", "csum"),
        ("P10 UDP checksum", with(good(), 40, 1), "-", "csum"),
        ("P10 no UDP checksum", Ip4::new(17).frame(&udp(None, b"ping")), "-", "-"),
        ("P10 TCP checksum", with(tcp4(16, None, &[]), 50, 1), "-", "csum"),
        ("P11 offset 0", tcp4(2, Some(0), &[]), "-", "tcp_hdr"),
        ("P11 offset 15", tcp4(2, Some(15), &[]), "-", "tcp_hdr"),
        ("P11 option of length 0", tcp4(2, None, &[2, 0, 0, 0]), "-", "tcp_hdr"),
        ("P11 option of length 255", tcp4(2, None, &[8, 255, 0, 0]), "-", "tcp_hdr"),
        ("P11 SYN and FIN", tcp4(3, None, &[]), "-", "tcp_hdr"),
        ("P11 null", tcp4(0, None, &[]), "-", "tcp_hdr"),
        ("P11 xmas", tcp4(0x29, None, &[]), "-", "tcp_hdr"),
        ("P11 SYN and RST", tcp4(6, None, &[]), "-", "tcp_hdr"),
        ("P11 SYN", tcp4(2, None, &[2, 4, 5, 0xb4]), "-", "-"),
        ("P12 length 0", udp4(Some(0), b"ping"), "-", "udp_len"),
        ("P12 length 7", udp4(Some(7), b"ping"), "-", "udp_len"),
        ("P12 longer than the packet", udp4(Some(13), b"ping"), "-", "udp_len"),
        ("P12 shorter than the packet", udp4(Some(11), b"ping"), "-", "udp_len"),
        ("P12 no checksum over IPv6", Ip6::new(17).frame(&udp(None, b"ping")), "-", "csum"),
        ("half an ICMP header", Ip4::new(1).frame(&[8, 0, 0xf7, 0xff]), "-", "icmp_hdr"),
    ]
}

/// P15, P16, P20, P22.
fn neighbours_and_extensions() -> Vec<Case> {
    const PAD: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let lladdr = |kind: u8| [kind, 1, 0, 0, 0, 0, 0, 9];
    let redirect = nd6(137, 0, 40, &lladdr(2));
    let arp_with = |head: [u8; 6]| eth(0x0806, &arp(head));
    let mut group = arp_with(ARP_HEAD);
    group[22] = 1;
    vec![
        ("P15 redirect", redirect, "-", "-"),
        ("P15 option of length 0", nd6(135, 0, 24, &[1, 0, 0, 0, 0, 0, 0, 9]), "-", "nd_opt"),
        ("P15 option past the end", nd6(135, 0, 24, &[1, 2, 0, 0, 0, 0, 0, 9]), "-", "nd_opt"),
        ("P15 64 options", nd6(134, 0, 16, &lladdr(1).repeat(64)), "-", "nd_opt"),
        ("P15 from behind a router", Ip6::new(58).frame(&sealed6(58, nd(136, 0, 24, &[]))), "-", "nd_opt"),
        ("P16 8 extension headers", extended(&[(60, PAD); 8]), "-", "-"),
        ("P16 64 extension headers", extended(&[(60, PAD); 64]), "-", "ip6_ext"),
        ("P16 hop-by-hop not first", extended(&[(60, PAD), (0, PAD)]), "-", "ip6_ext"),
        ("P16 length 255", extended(&[(0, &[255, 1, 4, 0, 0, 0, 0])]), "-", "ip6_ext"),
        ("P16 jumbo payload", extended(&[(0, &[0, 0xc2, 4, 0, 1, 0, 0])]), "-", "ip6_ext"),
        ("P16 routing type 0", extended(&[(43, &[&[2, 0, 0, 0, 0, 0, 0][..], &address(9)].concat())]), "-", "ip6_ext"),
        ("P16 segments left", extended(&[(43, &[&[2, 4, 2, 0, 0, 0, 0][..], &address(9)].concat())]), "-", "ip6_ext"),
        ("P16 authentication of 8 bytes", extended(&[(51, &[0, 0, 0, 0, 0, 0, 1])]), "-", "ip6_ext"),
        ("P16 no next header", Ip6::new(59).frame(&[]), "-", "-"),
        ("P20 request", arp_with(ARP_HEAD), "-", "-"),
        ("P20 hardware length 5", arp_with([0, 1, 8, 0, 5, 4]), "-", "arp"),
        ("P20 protocol length 16", arp_with([0, 1, 8, 0, 6, 16]), "-", "arp"),
        ("P20 cut off", arp_with(ARP_HEAD)[..41].to_vec(), "-", "arp"),
        ("P20 sender is a group", group, "-", "arp"),
        ("P22 LLDP cut off", eth(0x88cc, &[2, 7, 4, 0, 0xff, 0xff, 0xfe, 1]), "-", "-"),
        ("P22 LACP", eth(0x8809, &[1, 1, 1, 255]), "-", "-"),
        ("P22 STP", eth(3, &[0x42, 0x42, 3]), "-", "-"),
        ("P22 IGMP", Ip4::new(2).frame(&[0x11, 0, 0xde, 0xad, 1]), "-", "-"),
        ("P22 BFD", udp4(None, &[0x20, 0xff, 0, 0]), "-", "-"),
    ]
}

/// Every case on an ordinary bridge, on a strict bridge, on a strict port, and on an ordinary
/// bridge again: what leaves is what came, and what does not is counted under its name, where it
/// came in, and nowhere else.
#[test]
fn what_open_vswitch_forwards_a_strict_port_drops_by_name() {
    let mut bed = Bed::new(2);
    bed.add(&["actions=output:2"]);
    let cases = [link_and_lengths(), internet_and_transport(), neighbours_and_extensions()].concat();
    let modes: [(&str, &[&[&str]], bool); 4] = [
        ("default", &[], false),
        ("bridge", &[&["set-strict", BRIDGE, "on"]], true),
        ("port", &[&["set-strict", BRIDGE, "off"], &["mod-port", BRIDGE, "p1", "strict"]], true),
        ("off again", &[&["mod-port", BRIDGE, "p1", "no-strict"]], false),
    ];
    let mut wrong = Vec::new();
    let mut expected = BTreeMap::new();
    for (mode, commands, strict) in modes {
        commands.iter().for_each(|command| drop(bed.switch.vsctl_ok(command)));
        for (name, frame, default, when_strict) in &cases {
            let reason = if strict { *when_strict } else { *default };
            let sent = bed.send("p1", frame);
            let wanted = if reason == "-" { vec![("p2".to_owned(), frame.clone())] } else { Vec::new() };
            if sent != wanted {
                wrong.push(format!("{mode}, {name}: {sent:?}"));
            }
            if reason != "-" {
                *expected.entry(reason.to_owned()).or_insert(0_u64) += 1;
            }
            let drops = bed.drops(BRIDGE, "p1");
            if drops != expected {
                wrong.push(format!("{mode}, {name}: drops are {drops:?}, not {expected:?}"));
                expected = drops;
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    // What an operator sees.
    let shown = bed.switch.vsctl_ok(&["dump-ports", BRIDGE]);
    for (reason, count) in &expected {
        assert!(shown.contains(&format!("{reason}={count}")), "{reason}={count} in\n{shown}");
    }
    assert!(bed.drops(BRIDGE, "p2").is_empty(), "nothing came in by p2");
    bed.settle();
}

/// What rules see of malformed packets by default (P05, P11, P16, P20): the fields that Open
/// vSwitch gives them.
#[test]
fn rules_see_zeros_in_broken_headers() {
    let mut bed = Bed::new(2);
    let broken = Ip4 { total: Some(19), ..Ip4::new(17) }.frame(&udp(None, b"ping"));
    let cases = [
        ("ip,nw_src=0.0.0.0,nw_dst=0.0.0.0,nw_proto=0,nw_ttl=0", broken),
        ("tcp,nw_src=10.0.0.1,tp_src=0,tp_dst=0,tcp_flags=0", tcp4(2, Some(0), &[])),
        ("udp,tp_src=53,tp_dst=5353", udp4(Some(0), b"ping")),
        ("ipv6,ipv6_src=2001:db8::1,nw_proto=0", extended(&[(0, &[255, 1, 4, 0, 0, 0, 0])])),
        ("arp,arp_spa=0.0.0.0,arp_op=0", eth(0x0806, &arp([0, 1, 8, 0, 5, 4]))),
        ("dl_type=0x8100,vlan_tci=0/0x1fff", eth(0x8100, &[0, 5, 8])),
    ];
    for (matching, frame) in cases {
        bed.load(&["priority=0,actions=drop", &format!("priority=9,{matching},actions=output:2")]);
        assert_eq!(bed.fate(&frame), (vec!["p2".to_owned()], "-".to_owned()), "{matching}");
    }
    bed.settle();
}

/// P06, P08: what a packet of one kind leaves in the caches is not used for one of another. All 256
/// protocols, with and without padding, each beside the others; with the cache and without it the
/// same bytes leave.
#[test]
fn no_packet_suffers_from_what_another_taught_the_cache() {
    let mut bed = Bed::new(3);
    bed.add(&[
        "priority=9,tcp,actions=mod_tp_dst:99,output:2",
        "priority=9,udp,actions=mod_nw_tos:8,mod_tp_src:77,output:2",
        "priority=8,ip,nw_proto=0,actions=mod_nw_dst:9.9.9.9,output:3",
        "priority=7,ip,nw_proto=255,actions=drop",
        "priority=6,ip,actions=mod_nw_src:8.8.8.8,dec_ttl,output:2",
    ]);
    let frames: Vec<Vec<u8>> = (0..=255_u8)
        .flat_map(|protocol| {
            let payload = sealed4(protocol, [vec![0; 2], vec![0; 18]].concat());
            let frame = Ip4::new(protocol).frame(&payload);
            [frame.clone(), [frame, vec![0x5a; usize::from(protocol) + 1]].concat()]
        })
        .collect();
    bed.cache(false);
    let plain: Vec<_> = frames.iter().map(|frame| bed.send("p1", frame)).collect();
    assert_eq!(plain.iter().filter(|sent| sent.is_empty()).count(), 2, "protocol 255 alone is dropped");
    bed.cache(true);
    for stride in [1, 2, 85, 511] {
        for i in 0..frames.len() {
            let i = i * stride % frames.len();
            assert_eq!(bed.send("p1", &frames[i]), plain[i], "protocol {}, every {stride}th", i / 2);
        }
    }
    bed.settle();
}

/// P09: dec_ttl at 0 and 1, on both kinds of addresses, and a packet that two bridges pass to each
/// other until its TTL is used up.
#[test]
fn a_ttl_that_is_used_up_ends_a_packet_by_name() {
    let patches = "[[bridge]]\nname = \"br1\"\nfail_mode = \"secure\"\n\n\
                   [[bridge.port]]\nname = \"b\"\nnumber = 9\ntype = \"patch\"\npeer = \"a\"\n\n";
    let own = "[[bridge.port]]\nname = \"a\"\nnumber = 9\ntype = \"patch\"\npeer = \"b\"\n\n";
    let mut bed = Bed::with(2, "", &format!("{own}{patches}"));
    bed.add(&["in_port=1,ip,actions=dec_ttl,output:2", "in_port=1,ipv6,actions=dec_ttl,output:2"]);
    for (ttl, reason) in [(0, "invalid_ttl"), (1, "invalid_ttl"), (2, "-"), (255, "-")] {
        let v4 = Ip4 { ttl, ..Ip4::new(17) }.frame(&sealed4(17, udp(None, b"ping")));
        let v6 = Ip6 { hop_limit: ttl, ..Ip6::new(17) }.frame(&udp6());
        for frame in [v4, v6] {
            let wanted = if reason == "-" { vec!["p2".to_owned()] } else { Vec::new() };
            assert_eq!(bed.fate(&frame), (wanted, reason.to_owned()), "TTL {ttl}");
        }
    }
    // Round and round between the bridges: the TTL ends it at the 20th, and each round's copy has
    // left.
    bed.load(&["in_port=1,ip,actions=output:9", "in_port=9,ip,actions=dec_ttl,output:2,IN_PORT"]);
    bed.switch.vsctl_ok(&["add-flow", "br1", "ip,actions=IN_PORT"]);
    let frame = Ip4 { ttl: 20, ..Ip4::new(17) }.frame(&sealed4(17, udp(None, b"ping")));
    assert_eq!(bed.ports("p1", &frame), vec!["p2"; 19]);
    assert_eq!(bed.drops(BRIDGE, "p1").get("resubmit_depth"), None);
    // With more TTL than depth the loop is cut, and nothing of it leaves.
    let frame = Ip4 { ttl: 200, ..Ip4::new(17) }.frame(&sealed4(17, udp(None, b"ping")));
    assert_eq!(bed.fate(&frame), (Vec::new(), "resubmit_depth".to_owned()));
    bed.settle();
}

/// P20, P21: a port that claims 400 addresses of a table of 64 gets its share and no more, what it
/// does not get is flooded, and other ports still learn theirs; a static address stays where it is.
#[test]
fn a_flood_of_addresses_stays_within_the_table() {
    let mut bed = Bed::with(3, "fdb_entries = 64", "");
    bed.add(&["actions=NORMAL"]);
    bed.switch.vsctl_ok(&["fdb-add", BRIDGE, "p3", "0", "02:00:00:00:00:fe"]);
    let from = |high: u8, low: u8, to: u8| {
        let mut frame = eth(0x88b5, &[0; 46]);
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 1, high, low]);
        frame
    };
    for high in 0..4 {
        for low in 0..100 {
            assert_eq!(bed.ports("p1", &from(high, low, 0xaa)), ["p2", "p3"], "to an unknown address: flooded");
        }
    }
    bed.send("p2", &from(9, 9, 0xaa));
    let fdb = bed.switch.json(&["fdb-show", BRIDGE]);
    let entries = fdb.as_array().or_else(|| fdb["entries"].as_array()).expect("addresses");
    let at = |port: &str| entries.iter().filter(|entry| entry["port"] == port).count();
    assert!(at("p1") <= 48 && at("p1") > 0, "three quarters of 64: {fdb:#}");
    assert_eq!((at("p2"), at("p3")), (1, 1), "{fdb:#}");
    // The static address cannot be taken.
    let mut thief = from(0, 0, 0xaa);
    thief[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xfe]);
    bed.send("p1", &thief);
    assert_eq!(bed.ports("p1", &from(0, 1, 0xfe)), ["p3"]);
    bed.settle();
}

/// P22: what control protocols send from a tenant's port is never handed to a controller unasked;
/// NORMAL forwards none of it that is for bridges.
#[test]
fn control_protocols_are_dropped_by_normal_and_reach_nobody() {
    let mut bed = Bed::new(2);
    bed.add(&["actions=NORMAL"]);
    for last in 0..16 {
        let mut frame = eth(0x8809, &[1, 1, 1, 255, 0, 0, 0, 0]);
        frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, last]);
        assert_eq!(bed.fate(&frame), (Vec::new(), "reserved_multicast".to_owned()), "01:80:c2:00:00:{last:02x}");
    }
    bed.settle();
}
