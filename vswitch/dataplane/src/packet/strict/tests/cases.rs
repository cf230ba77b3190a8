//! The cases of the table in the front door, each in both modes.

use super::{fields, verdict_of};
use vswitch_testkit::frames::*;

const SYN: u8 = 2;
const ACK: u8 = 16;

/// Case, what is fed in, the frame, what rules see of it, and why a strict port refuses it ("-": it
/// does not).
type Case = (&'static str, &'static str, Vec<u8>, &'static str, &'static str);

fn run(cases: Vec<Case>) {
    let mut wrong = String::new();
    for (number, name, frame, default, strict) in cases {
        let found = (fields(&frame), verdict_of(&frame));
        if (found.0.as_str(), found.1) != (default, strict) {
            wrong += &format!(
                "{number} {name}: {found:?} but {:?}\n  {}\n",
                (default, strict),
                frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn changed(mut frame: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    frame[at] = byte;
    frame
}

fn tagged(tags: &[(u16, u16)], inner: &[u8]) -> Vec<u8> {
    let mut frame = inner[..12].to_vec();
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend_from_slice(&inner[12..]);
    frame
}

#[test]
fn p01_to_p04_link() {
    let udp = || udp4(None, b"ping");
    let plain = "udp,IPS,tp_src=53,tp_dst=5353";
    let labels = |n: usize| {
        let mut stack = [0, 1, 0, 64].repeat(n);
        if let Some(last) = stack.iter_mut().nth_back(1) {
            *last = 1;
        }
        eth(0x8847, &stack)
    };
    let mut cases: Vec<Case> = vec![
        ("P01", "14 bytes", eth(0x88b5, &[]), "dl_type=0x88b5", "eth_short"),
        ("P01", "14 bytes of IPv4", eth(0x0800, &[]), "ip,ZEROS", "eth_short"),
        ("P01", "15 bytes", eth(0x88b5, &[0]), "dl_type=0x88b5", "-"),
        ("P01", "a frame with a length", eth(3, &[0xfe, 0xfe, 3]), "dl_type=0x05ff", "-"),
        ("P05", "SNAP and short IPv4", eth(30, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45]), "ip,ZEROS", "ip_len"),
        ("P03", "a tag cut off before its type", eth(0x8100, &[0, 5, 8]), "dl_type=0x8100", "vlan_short"),
        ("P03", "a tag cut in the middle", eth(0x88a8, &[0]), "dl_type=0x88a8", "vlan_short"),
        (
            "P03",
            "a second tag cut off",
            eth(0x88a8, &[0, 5, 0x81, 0, 0, 6]),
            "dl_vlan=5,dl_vlan_pcp=0,vlan_tci1=0x0000,dl_type=0x8100",
            "vlan_short",
        ),
        ("P03", "a priority tag", tagged(&[(0x8100, 0xe000)], &udp()), "", "-"),
        ("P03", "0x88a8 inside 0x8100", tagged(&[(0x8100, 5), (0x88a8, 6)], &udp()), "", "-"),
        ("P03", "a malformed packet behind two tags", tagged(&[(0x88a8, 5), (0x8100, 6)], &udp()[..40]), "", "ip_len"),
        ("P03", "a third tag is payload", tagged(&[(0x8100, 1); 3], &udp()[..40]), "", "-"),
        ("P03", "16 tags", tagged(&[(0x8100, 1); 16], &udp()), "", "-"),
        ("P03", "no tag", udp(), plain, "-"),
        ("P04", "one label", labels(1), "mpls,mpls_label=16,mpls_tc=0,mpls_ttl=64,mpls_bos=1", "-"),
        ("P04", "16 labels", labels(16), "", "-"),
        ("P04", "17 labels", labels(17), "", "mpls_depth"),
        ("P04", "255 labels", labels(255), "", "mpls_depth"),
        ("P04", "no bottom", eth(0x8848, &[0, 1, 0, 64].repeat(3)), "", "mpls_depth"),
        ("P04", "half a label", eth(0x8847, &[0, 1]), "", "mpls_depth"),
    ];
    // What rules see of tags and labels is the business of extraction's tests: here only that
    // nothing changes it.
    for case in &mut cases {
        if case.3.is_empty() || matches!(case.0, "P04") {
            case.3 = fields(&case.2).leak();
        }
    }
    run(cases);
    for len in 0..14 {
        assert_eq!(verdict_of(&udp()[..len]), "eth_short", "{len} bytes");
    }
}

#[test]
fn p05_p06_lengths_and_versions() {
    let ip4 = |change: fn(&mut Ip4)| {
        let mut ip = Ip4::new(17);
        change(&mut ip);
        ip.frame(&sealed4(17, udp(None, b"ping")))
    };
    let ip6 = |change: fn(&mut Ip6)| {
        let mut ip = Ip6::new(17);
        change(&mut ip);
        ip.frame(&udp6())
    };
    let (udp, udp6) = ("udp,IPS,tp_src=53,tp_dst=5353", "udp6,IPS,tp_src=53,tp_dst=5353");
    let mut cases: Vec<Case> = vec![
        ("P05", "good", ip4(|_| ()), udp, "-"),
        ("P05", "ihl 15 beyond the packet", ip4(|ip| ip.first = Some(0x4f)), "ip,ZEROS", "ip_len"),
        ("P05", "total below the header", ip4(|ip| ip.total = Some(19)), "ip,ZEROS", "ip_len"),
        ("P05", "total 0", ip4(|ip| ip.total = Some(0)), "ip,ZEROS", "ip_len"),
        ("P05", "total one beyond the frame", ip4(|ip| ip.total = Some(33)), "ip,ZEROS", "ip_len"),
        ("P05", "total 65535", ip4(|ip| ip.total = Some(65535)), "ip,ZEROS", "ip_len"),
        ("P05", "header cut off", eth(0x0800, &[0x45; 19]), "ip,ZEROS", "ip_len"),
        ("P05", "version 0", ip4(|ip| ip.first = Some(0x05)), udp, "ip_ver"),
        ("P05", "version 6 in IPv4", ip4(|ip| ip.first = Some(0x65)), udp, "ip_ver"),
        ("P05", "good IPv6", ip6(|_| ()), udp6, "-"),
        ("P05", "version 4 in IPv6", ip6(|ip| ip.first = 0x40), udp6, "ip_ver"),
        ("P05", "IPv6 payload one beyond the frame", ip6(|ip| ip.payload_len = Some(13)), "ipv6,ZEROS", "ip_len"),
        ("P05", "IPv6 payload 65535", ip6(|ip| ip.payload_len = Some(65535)), "ipv6,ZEROS", "ip_len"),
        ("P05", "IPv6 header cut off", eth(0x86dd, &[0x60; 39]), "ipv6,ZEROS", "ip_len"),
    ];
    for first in 0x40..0x45 {
        let ip = Ip4 { first: Some(first), ..Ip4::new(17) };
        cases.push((
            "P05",
            "ihl 0 to 4",
            ip.frame(&sealed4(17, vswitch_testkit::frames::udp(None, b"ping"))),
            "ip,ZEROS",
            "ip_len",
        ));
    }
    for padding in [1, 2, 17, 1500] {
        let padded = |frame: Vec<u8>| [frame, vec![0x5a; padding]].concat();
        cases.push(("P06", "padding", padded(ip4(|_| ())), udp, "-"));
        cases.push(("P06", "padding behind IPv6", padded(ip6(|_| ())), udp6, "-"));
        cases.push(("P06", "padding is no payload", padded(udp4(Some(13), b"ping")), udp, "udp_len"));
        cases.push(("P06", "padding is no header", padded(Ip4::new(17).frame(b"1234567")), "", "udp_len"));
    }
    for case in &mut cases {
        if case.3.is_empty() {
            case.3 = "udp,IPS,tp_src=0,tp_dst=0";
        }
    }
    run(cases);
}

#[test]
fn p07_options_of_ipv4() {
    let with = |options: &[u8]| Ip4::with(17, options).frame(&sealed4(17, udp(None, b"ping")));
    let timestamp = [&[68, 40, 5, 0][..], &[0; 36]].concat();
    let cases = [
        ("length 0", with(&[130, 0]), "ip_opt"),
        ("length 1", with(&[130, 1]), "ip_opt"),
        ("length past the header", with(&[130, 5]), "ip_opt"),
        ("no length", with(&[1, 1, 1, 130]), "ip_opt"),
        ("loose source route", with(&[131, 7, 4, 10, 0, 0, 9]), "ip_opt"),
        ("strict source route", with(&[1, 137, 7, 4, 10, 0, 0, 9]), "ip_opt"),
        ("record route without pointer", with(&[7, 2]), "ip_opt"),
        ("record route with pointer 3", with(&[7, 7, 3, 0, 0, 0, 0]), "ip_opt"),
        ("timestamp of 3 bytes", with(&[68, 3, 5]), "ip_opt"),
        ("timestamp with pointer 4", with(&[68, 8, 4, 0, 0, 0, 0, 0]), "ip_opt"),
        ("40 bytes of NOP", with(&[1; 40]), "-"),
        ("record route", with(&[&[7, 39, 4][..], &[0; 36]].concat()), "-"),
        ("timestamp", with(&timestamp), "-"),
        ("router alert", with(&[148, 4, 0, 0]), "-"),
        ("behind the end everything is padding", with(&[0, 131, 0, 0]), "-"),
    ];
    let case = |(name, frame, strict)| ("P07", name, frame, "udp,IPS,tp_src=53,tp_dst=5353", strict);
    run(cases.map(case).into());
}

#[test]
fn p08_every_protocol_number() {
    for protocol in 0..=255 {
        // What has no header that we know is forwarded, whatever it carries.
        let known = matches!(protocol, 1 | 6 | 17);
        let payload = [0xa5; 40];
        let strict = verdict_of(&Ip4::new(protocol).frame(&payload));
        assert_eq!(strict == "-", !known, "protocol {protocol} over IPv4: {strict}");
        let known = matches!(protocol, 0 | 6 | 17 | 43 | 44 | 51 | 58 | 60);
        let strict = verdict_of(&Ip6::new(protocol).frame(&payload));
        // A fragment header of these bytes is that of a fragment.
        assert_eq!(strict == "-", !known || protocol == 44, "next header {protocol} over IPv6: {strict}");
    }
}

#[test]
fn p09_ttl() {
    for (ttl, strict) in [(0, "ttl"), (1, "-"), (255, "-")] {
        let frame = Ip4 { ttl, ..Ip4::new(17) }.frame(&sealed4(17, udp(None, b"ping")));
        assert_eq!(verdict_of(&frame), strict, "TTL {ttl}");
        let shown = format!("udp,IPS,nw_tos=0,nw_ecn=0,nw_ttl={ttl},nw_frag=no,tp_src=53,tp_dst=5353");
        assert_eq!(fields(&frame), shown);
        let frame = Ip6 { hop_limit: ttl, ..Ip6::new(17) }.frame(&udp6());
        assert_eq!(verdict_of(&frame), strict, "hop limit {ttl}");
    }
}

#[test]
fn p10_checksums() {
    let wrong = |frame: Vec<u8>, at: usize| {
        let byte = frame[at] ^ 1;
        changed(frame, at, byte)
    };
    let echo4 = Ip4::new(1).frame(&sealed4(1, vec![8, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3]));
    let echo6 = Ip6::new(58).frame(&sealed6(58, vec![128, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3]));
    let udp_frame = || udp4(None, b"odd");
    let none = Ip4::new(17).frame(&udp(None, b"ping"));
    let none6 = Ip6::new(17).frame(&udp(None, b"ping"));
    let zero = Ip4 { checksum: Some(0), ..Ip4::new(17) }.frame(&sealed4(17, udp(None, b"ping")));
    let fragment = Ip4 { fragment: 0x2000, ..Ip4::new(17) }.frame(&[0xa5; 16]);
    let (udp, udp6) = ("udp,IPS,tp_src=53,tp_dst=5353", "udp6,IPS,tp_src=53,tp_dst=5353");
    let tcp = "tcp,IPS,tp_src=1000,tp_dst=80,tcp_flags=ack";
    let (icmp, icmp6) = ("icmp,IPS,icmp_type=8,icmp_code=0", "icmp6,IPS,icmp_type=128,icmp_code=0");
    run(vec![
        ("P10", "good UDP of odd length", udp_frame(), udp, "-"),
        ("P10", "IPv4 header", wrong(udp_frame(), 24), udp, "csum"),
        ("P10", "IPv4 header checksum 0", zero, udp, "csum"),
        ("P10", "UDP", wrong(udp_frame(), 40), udp, "csum"),
        ("P10", "UDP's last byte", wrong(udp_frame(), 44), udp, "csum"),
        ("P10", "no UDP checksum", none, udp, "-"),
        ("P12", "no UDP checksum over IPv6", none6, udp6, "csum"),
        ("P10", "TCP", wrong(tcp4(ACK, None, &[]), 50), tcp, "csum"),
        ("P10", "good ICMP", echo4.clone(), icmp, "-"),
        ("P10", "ICMP", wrong(echo4, 36), icmp, "csum"),
        ("P10", "good ICMPv6", echo6.clone(), icmp6, "-"),
        ("P10", "ICMPv6", wrong(echo6, 56), icmp6, "csum"),
        (
            "P10",
            "fragments are not summed",
            fragment,
            "udp,IPS,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=first,tp_src=42405,tp_dst=42405",
            "-",
        ),
        (
            "-",
            "half an ICMP header",
            Ip4::new(1).frame(&[8, 0, 0xf7, 0xff]),
            "icmp,IPS,icmp_type=0,icmp_code=0",
            "icmp_hdr",
        ),
        ("-", "half an ICMPv6 header", Ip6::new(58).frame(&[135; 7]), "icmp6,IPS,icmp_type=0,icmp_code=0", "icmp_hdr"),
    ]);
}

#[test]
fn p11_tcp() {
    let none = "tcp,IPS,tp_src=0,tp_dst=0,tcp_flags=0";
    let syn = "tcp,IPS,tp_src=1000,tp_dst=80,tcp_flags=syn";
    let mss = [2, 4, 5, 0xb4];
    let mut cases: Vec<Case> = vec![
        ("P11", "offset past the end", tcp4(SYN, Some(7), &[]), none, "tcp_hdr"),
        ("P11", "offset 15", tcp4(SYN, Some(15), &[]), none, "tcp_hdr"),
        ("P11", "header cut off", Ip4::new(6).frame(&sealed4(6, tcp(SYN, None, &[])[..19].to_vec())), none, "tcp_hdr"),
        ("P11", "nothing", Ip4::new(6).frame(&[]), none, "tcp_hdr"),
        ("P11", "maximum segment size", tcp4(SYN, None, &mss), syn, "-"),
        ("P11", "40 bytes of NOP", tcp4(SYN, None, &[1; 40]), syn, "-"),
        ("P11", "the end first", tcp4(SYN, None, &[0, 2, 0, 9]), syn, "-"),
        ("P11", "option of length 0", tcp4(SYN, None, &[2, 0, 0, 0]), syn, "tcp_hdr"),
        ("P11", "option of length 1", tcp4(SYN, None, &[2, 1, 0, 0]), syn, "tcp_hdr"),
        ("P11", "option of length 255", tcp4(SYN, None, &[8, 255, 0, 0]), syn, "tcp_hdr"),
        ("P11", "option one too long", tcp4(SYN, None, &[1, 2, 4, 0]), syn, "tcp_hdr"),
        ("P11", "option without length", tcp4(SYN, None, &[1, 1, 1, 2]), syn, "tcp_hdr"),
    ];
    for offset in 0..5 {
        cases.push(("P11", "offset 0 to 4", tcp4(SYN, Some(offset), &[]), none, "tcp_hdr"));
    }
    run(cases);
    for (flags, name, strict) in [
        (0x00, "null", "tcp_hdr"),
        (0x01, "FIN alone", "tcp_hdr"),
        (0x03, "SYN+FIN", "tcp_hdr"),
        (0x06, "SYN+RST", "tcp_hdr"),
        (0x29, "xmas", "tcp_hdr"),
        (0x3f, "all", "tcp_hdr"),
        (0x08, "PSH alone", "tcp_hdr"),
        (0x05, "FIN+RST", "tcp_hdr"),
        (0x02, "SYN", "-"),
        (0xc2, "SYN+ECE+CWR", "-"),
        (0x12, "SYN+ACK", "-"),
        (0x10, "ACK", "-"),
        (0x18, "PSH+ACK", "-"),
        (0x11, "FIN+ACK", "-"),
        (0x39, "FIN+ACK+PSH+URG", "-"),
        (0x04, "RST", "-"),
        (0x14, "RST+ACK", "-"),
    ] {
        assert_eq!(verdict_of(&tcp4(flags, None, &[])), strict, "{name}");
        let frame = Ip6::new(6).frame(&sealed6(6, tcp(flags, None, &[])));
        assert_eq!(verdict_of(&frame), strict, "{name} over IPv6");
        assert!(fields(&frame).starts_with("tcp6,IPS,tp_src=1000,tp_dst=80,tcp_flags="), "{name}: {}", fields(&frame));
    }
}

#[test]
fn p12_udp() {
    let plain = "udp,IPS,tp_src=53,tp_dst=5353";
    run(vec![
        ("P12", "length 0", udp4(Some(0), b"ping"), plain, "udp_len"),
        ("P12", "length 7", udp4(Some(7), b"ping"), plain, "udp_len"),
        ("P12", "length one too long", udp4(Some(13), b"ping"), plain, "udp_len"),
        ("P12", "length one too short", udp4(Some(11), b"ping"), plain, "udp_len"),
        ("P12", "nothing in it", udp4(None, b""), plain, "-"),
        ("P12", "7 bytes", Ip4::new(17).frame(&[0; 7]), "udp,IPS,tp_src=0,tp_dst=0", "udp_len"),
        ("P12", "7 bytes over IPv6", Ip6::new(17).frame(&[0; 7]), "udp6,IPS,tp_src=0,tp_dst=0", "udp_len"),
    ]);
}

#[test]
fn p15_neighbour_discovery() {
    let lladdr = |kind: u8| [kind, 1, 0, 0, 0, 0, 0, 9];
    let frames = [
        ("solicitation", nd6(135, 0, 24, &lladdr(1)), "-"),
        ("advertisement", nd6(136, 0, 24, &lladdr(2)), "-"),
        ("advertisement without options", nd6(136, 0, 24, &[]), "-"),
        ("router solicitation", nd6(133, 0, 8, &lladdr(1)), "-"),
        ("router advertisement", nd6(134, 0, 16, &lladdr(1)), "-"),
        ("redirect", nd6(137, 0, 40, &lladdr(2)), "-"),
        ("an option that nobody knows", nd6(135, 0, 24, &[200, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "-"),
        ("32 options", nd6(136, 0, 24, &lladdr(2).repeat(32)), "-"),
        ("33 options", nd6(136, 0, 24, &lladdr(2).repeat(33)), "nd_opt"),
        ("64 options", nd6(134, 0, 16, &lladdr(1).repeat(64)), "nd_opt"),
        ("option of length 0", nd6(135, 0, 24, &[1, 0, 0, 0, 0, 0, 0, 9]), "nd_opt"),
        ("option past the end", nd6(135, 0, 24, &[1, 2, 0, 0, 0, 0, 0, 9]), "nd_opt"),
        ("half an option", nd6(135, 0, 24, &[1, 1, 0, 0]), "nd_opt"),
        ("one byte of an option", nd6(135, 0, 24, &[1]), "nd_opt"),
        ("solicitation cut off", nd6(135, 0, 23, &[]), "nd_opt"),
        ("router advertisement cut off", nd6(134, 0, 12, &[]), "nd_opt"),
        ("redirect cut off", nd6(137, 0, 39, &[]), "nd_opt"),
        ("code 1", nd6(136, 1, 24, &lladdr(2)), "nd_opt"),
        ("from behind a router", Ip6::new(58).frame(&sealed6(58, nd(136, 0, 24, &[]))), "nd_opt"),
        ("an echo request with the same bytes", nd6(128, 0, 24, &[1, 0, 0, 0]), "-"),
    ];
    for (name, frame, strict) in frames {
        assert_eq!(verdict_of(&frame), strict, "{name}");
        assert!(fields(&frame).starts_with("icmp6,IPS,"), "{name}: {}", fields(&frame));
    }
    let shown = fields(&nd6(135, 0, 24, &lladdr(1)));
    assert!(shown.contains("nd_target=2001:db8::2,nd_sll=00:00:00:00:00:09"), "{shown}");
    let shown = fields(&nd6(135, 0, 24, &[1, 0, 0, 0, 0, 0, 0, 9]));
    assert!(!shown.contains("nd_sll=00:00:00:00:00:09"), "{shown}");
}

#[test]
fn p16_extension_headers() {
    const PAD: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let jumbo: &[u8] = &[0, 0xc2, 4, 0, 1, 0, 0];
    let routing = |head: [u8; 7]| [&head[..], &address(9)].concat();
    // One segment, `left` of it, and the last entry that it claims.
    let segments = |left: u8, last: u8| routing([2, 4, left, last, 0, 0, 0]);
    let ah: &[u8] = &[4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routed = |left: u8, to: u8| {
        let (next, bytes) = chain(&[(43, &segments(left, 0))], 17, &sealed6_to(address(to), 17, udp(None, b"ping")));
        Ip6::new(next).frame(&bytes)
    };
    let seen = "udp6,IPS,tp_src=53,tp_dst=5353";
    let cut = "ipv6,IPS,nw_proto=0,nw_tos=0,nw_ecn=0,nw_ttl=0,nw_frag=no";
    let eight = [(60, PAD); 8];
    let nine = [(60, PAD); 9];
    let no_next = |payload: &[u8]| Ip6::new(59).frame(payload);
    run(vec![
        ("P16", "hop-by-hop", extended(&[(0, PAD)]), seen, "-"),
        ("P16", "hop-by-hop and two of destination", extended(&[(0, PAD), (60, PAD), (60, PAD)]), seen, "-"),
        ("P16", "8 headers", extended(&eight), seen, "-"),
        ("P16", "9 headers", extended(&nine), seen, "ip6_ext"),
        ("P16", "64 headers", extended(&[(60, PAD); 64]), seen, "ip6_ext"),
        ("P16", "hop-by-hop second", extended(&[(60, PAD), (0, PAD)]), seen, "ip6_ext"),
        ("P16", "hop-by-hop twice", extended(&[(0, PAD), (0, PAD)]), seen, "ip6_ext"),
        ("P16", "length 255 past the end", extended(&[(0, &[255, 1, 4, 0, 0, 0, 0])]), cut, "ip6_ext"),
        ("P16", "jumbo payload", extended(&[(0, jumbo)]), seen, "ip6_ext"),
        ("P16", "jumbo payload for the destination", extended(&[(60, jumbo)]), seen, "ip6_ext"),
        ("P16", "option past the header", extended(&[(0, &[0, 1, 5, 0, 0, 0, 0])]), seen, "ip6_ext"),
        ("P16", "option without length", extended(&[(0, &[0, 1, 3, 0, 0, 0, 5])]), seen, "ip6_ext"),
        ("P16", "30 bytes of padding", extended(&[(0, &[&[3][..], &[0; 30]].concat())]), seen, "-"),
        ("P16", "38 bytes of padding", extended(&[(0, &[&[4][..], &[0; 38]].concat())]), seen, "ip6_ext"),
        ("P16", "routing type 0", extended(&[(43, &routing([2, 0, 0, 0, 0, 0, 0]))]), seen, "ip6_ext"),
        ("P16", "home address", extended(&[(43, &routing([2, 2, 0, 0, 0, 0, 0]))]), seen, "-"),
        ("P16", "two home addresses left", extended(&[(43, &routing([2, 2, 2, 0, 0, 0, 0]))]), seen, "ip6_ext"),
        ("P16", "segment routing, at its end", routed(0, 2), seen, "-"),
        ("P16", "segment routing, on the way", routed(1, 9), seen, "-"),
        ("P16", "segment routing, sum for the next hop", routed(1, 2), seen, "csum"),
        ("P16", "more segments left than there are", extended(&[(43, &segments(2, 0))]), seen, "ip6_ext"),
        ("P16", "last entry past the header", extended(&[(43, &segments(0, 1))]), seen, "ip6_ext"),
        ("P16", "routing that nobody knows", extended(&[(43, &[0, 200, 1, 0, 0, 0, 0])]), seen, "-"),
        ("P16", "authentication", extended(&[(51, ah)]), seen, "-"),
        ("P16", "authentication of 8 bytes", extended(&[(51, &[0, 0, 0, 0, 0, 0, 1])]), seen, "ip6_ext"),
        ("P16", "authentication of 12 bytes", extended(&[(51, &[1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1])]), seen, "ip6_ext"),
        ("P16", "authentication past the end", extended(&[(51, &[255, 0, 0, 0, 0, 0, 1])]), cut, "ip6_ext"),
        ("P16", "no next header", no_next(&[]), "ipv6,IPS,nw_proto=59", "-"),
        ("P16", "no next header, and bytes", no_next(&[1, 2, 3]), "ipv6,IPS,nw_proto=59", "-"),
        ("P16", "atomic fragment", extended(&[(44, &[0, 0, 0, 0, 0, 0, 7])]), seen, "-"),
        ("P16", "atomic fragment of half a header", Ip6::new(44).frame(&[17, 0, 0, 0]), cut, "ip6_ext"),
        ("P16", "nothing behind the header that is announced", Ip6::new(60).frame(&[]), cut, "ip6_ext"),
    ]);
    // 2048 bytes in one header: nothing wrong with that.
    let mut options = vec![255];
    while options.len() < 2047 {
        let n = (2047 - options.len() - 2).min(255);
        options.extend([1, u8::try_from(n).expect("a byte")]);
        options.resize(options.len() + n, 0);
    }
    assert_eq!(verdict_of(&extended(&[(60, &options)])), "-", "2048 bytes of options");
    // Behind the header of a fragment nothing is looked at.
    for fragment in [[0, 0, 1], [0, 0, 8], [0, 0xff, 0xf9]] {
        let header = [&fragment[..], &[0, 0, 0, 7]].concat();
        let (next, bytes) = chain(&[(44, &header)], 17, &[0xa5; 8]);
        assert_eq!(verdict_of(&Ip6::new(next).frame(&bytes)), "-", "{fragment:?}");
    }
}

#[test]
fn p20_arp() {
    let good = eth(0x0806, &arp(ARP_HEAD));
    let seen = "arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_op=1,arp_sha=00:00:00:00:00:01,arp_tha=00:00:00:00:00:00";
    let group = seen.replace("arp_sha=00:00", "arp_sha=01:00").leak();
    run(vec![
        ("P20", "request", good.clone(), seen, "-"),
        ("P20", "request with padding", [good.clone(), vec![0; 18]].concat(), seen, "-"),
        ("P20", "one byte short", good[..41].to_vec(), "arp,ZEROS", "arp"),
        ("P20", "hardware length 5", eth(0x0806, &arp([0, 1, 8, 0, 5, 4])), "arp,ZEROS", "arp"),
        ("P20", "hardware length 255", eth(0x0806, &arp([0, 1, 8, 0, 255, 4])), "arp,ZEROS", "arp"),
        ("P20", "protocol length 16", eth(0x0806, &arp([0, 1, 8, 0, 6, 16])), "arp,ZEROS", "arp"),
        ("P20", "another protocol", eth(0x0806, &arp([0, 1, 0x86, 0xdd, 6, 4])), "arp,ZEROS", "arp"),
        ("P20", "another hardware", eth(0x0806, &arp([0, 6, 8, 0, 6, 4])), "arp,ZEROS", "arp"),
        ("P20", "sender is a group", changed(good.clone(), 22, 1), group, "arp"),
        ("P20", "RARP cut off", eth(0x8035, &arp(ARP_HEAD)[..27]), "rarp,ZEROS", "arp"),
    ]);
}

#[test]
fn p22_control_protocols_are_never_parsed() {
    let lldp = eth(0x88cc, &[2, 7, 4, 0, 0xff, 0xff, 0xfe, 1]);
    let lacp = eth(0x8809, &[1, 1, 1, 255]);
    let stp = eth(3, &[0x42, 0x42, 3]);
    let igmp = Ip4::new(2).frame(&[0x11, 0, 0xde, 0xad, 1]);
    let bfd = udp4(None, &[0x20, 0xff, 0, 0]);
    // A listener report of 65535 records that are not there, behind a router alert.
    let report = sealed6(58, vec![143, 0, 0, 0, 0, 0, 0xff, 0xff]);
    let (next, bytes) = chain(&[(0, &[0, 5, 2, 0, 0, 1, 0])], 58, &report);
    let mld = Ip6 { hop_limit: 1, ..Ip6::new(next) }.frame(&bytes);
    for (name, frame) in [("LLDP", lldp), ("LACP", lacp), ("STP", stp), ("IGMP", igmp), ("BFD", bfd), ("MLD", mld)] {
        assert_eq!(verdict_of(&frame), "-", "{name}: {}", fields(&frame));
    }
}
