//! Header changes, and what they do to the mask.

use super::*;

const ALWAYS: &str = "recirc_id=0,";

fn one(matching: &str, actions: impl Into<Vec<Action>>) -> Setup {
    let mut setup = Setup::new();
    setup.flow(0, matching, actions);
    setup
}

fn ip(rest: &str) -> String {
    format!(
        "in_port=1,{rest},nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02"
    )
}

#[test]
fn every_header_has_its_op() {
    let nd = "in_port=1,icmp6,ipv6_src=fe80::1,ipv6_dst=ff02::1,icmp_type=135,icmp_code=0,nd_target=fe80::2,\
              nd_sll=02:00:00:00:00:01,dl_src=02:00:00:00:00:01";
    let tcp6 = "in_port=1,tcp6,ipv6_src=fe80::1,ipv6_dst=fe80::2,tcp_dst=80,nw_ttl=64";
    let cases: Vec<(String, Action, &str)> = vec![
        (TCP.into(), set(Field::EthDst, 0x0a), "set(eth(dst=00:00:00:00:00:0a)),p2"),
        (TCP.into(), set(Field::EthSrc, 0x0b), "set(eth(src=00:00:00:00:00:0b)),p2"),
        (TCP.into(), set(Field::NwSrc, 0x0a00_0009), "set(ipv4(src=10.0.0.9)),p2"),
        (TCP.into(), set_bits(Field::NwDst, 9, 0xff), "set(ipv4(dst=0.0.0.9/0.0.0.255)),p2"),
        (TCP.into(), set(Field::IpDscp, 10), "set(ipv4(tos=40)),p2"),
        (TCP.into(), set(Field::NwEcn, 3), "set(ipv4(tos=3/0x3)),p2"),
        (TCP.into(), Action::SetTtl(7), "set(ipv4(ttl=7)),p2"),
        (TCP.into(), set(Field::TcpDst, 81), "set(ports(dst=81)),p2"),
        (TCP.into(), set(Field::TpSrc, 82), "set(ports(src=82)),p2"),
        (TCP.into(), set(Field::Reg3, 82), "p2"),
        (TCP.into(), set(Field::PktMark, 82), "p2"),
        (ip("icmp,icmp_type=8"), set(Field::IcmpType, 0), "set(icmp(type=0)),p2"),
        (ARP.into(), set(Field::ArpOp, 2), "set(arp(op=2)),p2"),
        (ARP.into(), set(Field::ArpSpa, 0x0a00_0009), "set(arp(sip=10.0.0.9)),p2"),
        (ARP.into(), set(Field::ArpTha, 9), "set(arp(tha=00:00:00:00:00:09)),p2"),
        (tcp6.into(), set(Field::Ipv6Dst, 1), "set(ipv6(dst=::1)),p2"),
        (tcp6.into(), set(Field::Ipv6Label, 5), "set(ipv6(label=0x5)),p2"),
        (tcp6.into(), Action::DecTtl([0].into()), "set(ipv6(hlimit=63)),p2"),
        (nd.into(), set(Field::NdTarget, 1), "set(nd(target=::1)),p2"),
        (nd.into(), set(Field::NdSll, 9), "set(nd(sll=00:00:00:00:00:09)),p2"),
        (nd.into(), set(Field::Icmpv6Type, 136), "set(icmp(type=136)),p2"),
    ];
    for (packet, action, expected) in cases {
        let setup = one("in_port=1", [action.clone(), out(2)]);
        assert_eq!(setup.ops(&packet), expected, "{packet}: {action:?}");
    }
}

#[test]
fn fields_that_the_packet_lacks_are_not_set() {
    let later = ip("udp,nw_frag=later");
    let first = ip("udp,nw_frag=first");
    let cases = [
        (TCP, set(Field::ArpOp, 2)),
        (TCP, set(Field::Ipv6Dst, 2)),
        (TCP, set(Field::UdpDst, 2)),
        (TCP, set(Field::IcmpType, 2)),
        (TCP, set(Field::NdTarget, 2)),
        (TCP, set(Field::VlanPcp, 2)),
        (ARP, set(Field::NwTtl, 2)),
        (ARP, set(Field::NwDst, 2)),
        (&later, set(Field::UdpDst, 2)),
        (TCP, copy("NXM_OF_ARP_SPA[]", "NXM_OF_IP_DST[]")),
        (TCP, copy("NXM_OF_IP_DST[]", "NXM_OF_ARP_SPA[]")),
    ];
    for (packet, action) in cases {
        let setup = one("in_port=1", [action.clone(), out(2)]);
        assert_eq!(setup.ops(packet), "p2", "{packet}: {action:?}");
    }
    let setup = one("in_port=1", [set(Field::UdpDst, 2), out(2)]);
    assert_eq!(setup.ops(&first), "set(ports(dst=2)),p2", "the first fragment has its ports");
}

#[test]
fn protocol_zero_is_no_header_to_write() {
    // CVE-2023-1668: whether the header is written hangs on the protocol, so the protocol is in the
    // mask.
    let setup = one("in_port=1", [set(Field::NwDst, 9), resubmit(1)]);
    let mut setup = setup;
    setup.flow(1, "ip,nw_dst=0.0.0.9", [out(2)]);
    assert_eq!(setup.ops(&ip("ip,nw_proto=0")), "p2", "matches see it, the packet does not");
    assert_eq!(setup.mask(&ip("ip,nw_proto=0")), format!("{ALWAYS}ip,in_port=1,nw_proto=0,nw_frag=no"));
    assert_eq!(setup.ops(&ip("ip,nw_proto=99")), "set(ipv4(dst=0.0.0.9)),p2");
    assert_eq!(setup.mask(&ip("ip,nw_proto=99")), format!("{ALWAYS}ip,in_port=1,nw_proto=99,nw_frag=no"));
    let setup = one("in_port=1", [set(Field::ArpSpa, 9), out(2)]);
    assert_eq!(setup.ops(&ARP.replace("arp_op=1", "arp_op=0")), "p2");
}

#[test]
fn constant_writes_use_nothing() {
    let mut setup =
        one("in_port=1", [set(Field::EthDst, 9), set(Field::TcpDst, 9), set_bits(Field::NwDst, 9, 0xff), resubmit(1)]);
    setup.flow(1, "dl_dst=00:00:00:00:00:09,tcp,tcp_dst=9,nw_dst=10.0.0.9", [out(2)]);
    assert_eq!(setup.ops(TCP), "set(eth(dst=00:00:00:00:00:09)),set(ipv4(dst=0.0.0.9/0.0.0.255)),set(ports(dst=9)),p2");
    // Only what is still the packet's: 24 bits of the address.
    assert_eq!(setup.mask(TCP), format!("{ALWAYS}tcp,in_port=1,nw_dst=10.0.0.0/24,nw_frag=no"));
}

#[test]
fn what_is_read_is_used() {
    let cases = [
        (copy("NXM_OF_IP_SRC[8..15]", "NXM_NX_REG0[0..7]"), "ip,in_port=1,nw_src=0.0.0.0/0.0.255.0,nw_frag=no"),
        (copy("NXM_OF_ETH_SRC[]", "NXM_OF_ETH_DST[]"), "ip,in_port=1,dl_src=02:00:00:00:00:01,nw_frag=no"),
        (copy("NXM_OF_TCP_DST[]", "NXM_NX_REG0[0..15]"), "tcp,in_port=1,nw_frag=no,tp_dst=80"),
        (Action::StackPush(sub("NXM_OF_IP_DST[0..7]")), "ip,in_port=1,nw_dst=0.0.0.2/0.0.0.255,nw_frag=no"),
        (Action::DecTtl([0].into()), "tcp,in_port=1,nw_ttl=64,nw_frag=no"),
        (
            Action::OutputField { from: sub("NXM_OF_IP_DST[0..7]"), max_len: None },
            "ip,in_port=1,nw_dst=0.0.0.2/0.0.0.255,nw_frag=no",
        ),
        (Action::OutputField { from: sub("NXM_NX_REG0[]"), max_len: None }, "ip,in_port=1,nw_frag=no"),
    ];
    for (action, expected) in cases {
        let setup = one("in_port=1", [action.clone(), out(3)]);
        assert_eq!(setup.mask(TCP), format!("{ALWAYS}{expected}"), "{action:?}");
    }
    // Reading what was written uses nothing, and copies of the packet's bits stay known.
    let setup = one(
        "in_port=1",
        [
            set(Field::EthSrc, 9),
            copy("NXM_OF_ETH_SRC[]", "NXM_OF_ETH_DST[]"),
            copy("NXM_OF_IP_SRC[]", "NXM_NX_REG0[]"),
            copy("NXM_NX_REG0[0..7]", "NXM_OF_IP_DST[0..7]"),
            out(2),
        ],
    );
    assert_eq!(setup.mask(TCP), format!("{ALWAYS}tcp,in_port=1,nw_src=10.0.0.1,nw_frag=no"));
    assert_eq!(
        setup.ops(TCP),
        "set(eth(src=00:00:00:00:00:09,dst=00:00:00:00:00:09)),\
                                set(ipv4(dst=0.0.0.1/0.0.0.255)),p2"
    );
}

#[test]
fn commits_are_lazy() {
    // Commits come before each output, and only for what changed since the last one.
    let setup =
        one("tcp", [set(Field::NwTtl, 5), out(2), out(3), set(Field::NwTtl, 5), out(4), set(Field::NwTtl, 6), out(5)]);
    assert_eq!(setup.ops(TCP), "set(ipv4(ttl=5)),p2,p3,p4,set(ipv4(ttl=6)),p5");
}

#[test]
fn tags_are_pushed_and_popped() {
    let tagged = |tci: &str| format!("{TCP},vlan_tci={tci}");
    let vid = |vid: u128| set(Field::VlanVid, 0x1000 | vid);
    let cases: Vec<(String, Vec<Action>, &str)> = vec![
        (TCP.into(), vec![Action::PushVlan(0x8100), vid(5)], "push_vlan(tpid=0x8100,vid=5,pcp=0),p2"),
        (TCP.into(), vec![Action::SetVlanVid(5)], "push_vlan(tpid=0x8100,vid=5,pcp=0),p2"),
        (TCP.into(), vec![Action::SetVlanPcp(5)], "push_vlan(tpid=0x8100,vid=0,pcp=5),p2"),
        (TCP.into(), vec![vid(5)], "push_vlan(tpid=0x8100,vid=5,pcp=0),p2"),
        (TCP.into(), vec![set(Field::VlanTci, 0x5005)], "push_vlan(tpid=0x8100,vid=5,pcp=2),p2"),
        (TCP.into(), vec![Action::PopVlan], "p2"),
        (TCP.into(), vec![Action::PushVlan(0x88a8), Action::PopVlan], "p2"),
        (tagged("0x1005"), vec![Action::PopVlan], "pop_vlan,p2"),
        (tagged("0x1005"), vec![set(Field::VlanTci, 0)], "pop_vlan,p2"),
        (tagged("0x1005"), vec![vid(6)], "set(vlan(tci=0x0006/0x1fff)),p2"),
        (tagged("0x1005"), vec![Action::SetVlanPcp(3)], "set(vlan(tci=0x6000/0xf000)),p2"),
        (
            tagged("0x1005"),
            vec![Action::PopVlan, Action::PushVlan(0x8100), vid(7)],
            "pop_vlan,push_vlan(tpid=0x8100,vid=7,pcp=0),p2",
        ),
        (
            tagged("0x1005"),
            vec![vid(6), Action::PushVlan(0x88a8), vid(7)],
            "set(vlan(tci=0x0006/0x1fff)),push_vlan(tpid=0x88a8,vid=7,pcp=0),p2",
        ),
        (tagged("0x1005"), vec![vid(6), Action::PushVlan(0x88a8), Action::PopVlan], "set(vlan(tci=0x0006/0x1fff)),p2"),
    ];
    for (packet, mut actions, expected) in cases {
        actions.push(out(2));
        let setup = one("in_port=1", actions.clone());
        assert_eq!(setup.ops(&packet), expected, "{packet}: {actions:?}");
    }
}

#[test]
fn the_inner_tag_comes_up() {
    let mut packet = key(&format!("{TCP},vlan_tci=0x1005"));
    packet.set(Field::VlanTpid0, 0x88a8);
    packet.set(Field::VlanTpid1, 0x8100);
    packet.set(Field::VlanTci1, 0x1006);
    let run = |setup: &Setup| {
        let translation = setup.translate(&packet, Start::Table);
        (setup.show(&translation), translation)
    };
    let mut setup = one("in_port=1", [Action::PopVlan, resubmit(1)]);
    setup.flow(1, "dl_vlan=6", [out(2), set(Field::VlanVid, 0x1007), out(3), Action::PopVlan, resubmit(2)]);
    setup.flow(2, "vlan_tci=0", [out(4)]);
    let (ops, translation) = run(&setup);
    assert_eq!(ops, "pop_vlan,p2,set(vlan(tci=0x0007/0x1fff)),p3,pop_vlan,p4");
    let mask = &translation.mask;
    assert_eq!(mask.get(Field::VlanTci), 0x1000, "of the outer tag, that it is there");
    assert_eq!(mask.get(Field::VlanTci1), 0xffff, "the inner one came up");
    // Of three tags the innermost is lost, as in Open vSwitch.
    let mut setup = one("in_port=1", [Action::PushVlan(0x88a8), set(Field::VlanVid, 0x1009), out(2), resubmit(1)]);
    setup.flow(1, "dl_vlan=9", [Action::PopVlan, resubmit(2)]);
    setup.flow(2, "dl_vlan=5", [Action::PopVlan, resubmit(3)]);
    setup.flow(3, "dl_vlan=6", [out(3)]);
    let kept = "pop_vlan,pop_vlan,push_vlan(tpid=0x88a8,vid=5,pcp=0),push_vlan(tpid=0x88a8,vid=9,pcp=0),p2";
    assert_eq!(run(&setup).0, kept);
}

/// Guards of neighbor discovery, as an agent writes them for each address of a Pod: five and more
/// are looked up in stages.
fn guards(count: u32) -> Setup {
    let mut setup = Setup::new();
    setup.flow_in(0, 0, 0, "", [out(2)]);
    for i in 1..=count {
        let guard = format!(
            "icmp6,in_port={},dl_src=02:00:00:00:00:{i:02x},icmp_type=136,icmp_code=0,nd_target=fd00::{i}",
            i % PORTS + 1
        );
        setup.flow_in(0, 0, 210, &guard, []);
    }
    setup
}

#[test]
fn guards_of_neighbor_discovery_do_not_look_at_ports() {
    for count in [1, 4, 5, 6, 100] {
        let setup = guards(count);
        for i in [1, count, count + 1] {
            let of = format!("in_port={},dl_src=02:00:00:00:00:{i:02x}", i % PORTS + 1);
            for (packet, protocol) in [
                ("tcp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tcp_src=2000,tcp_dst=80,tcp_flags=syn", "tcp6"),
                ("udp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,udp_src=2000,udp_dst=53", "udp6"),
                ("tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tcp_src=2000,tcp_dst=80", "ip"),
                ("udp6,nw_frag=first,udp_src=2000,udp_dst=53", "udp6"),
            ] {
                let mask = setup.mask(&format!("{packet},{of}"));
                let beyond = ["tp_src", "tp_dst", "_src=2000", "icmp", "nd_", "ipv6_"];
                assert!(beyond.iter().all(|field| !mask.contains(field)), "{count} guards, {packet},{of}: {mask}");
                assert!(mask.contains(protocol) || mask.contains("ip"), "{count} guards, {packet},{of}: {mask}");
            }
            let echo = format!("icmp6,icmp_type=128,icmp_code=0,ipv6_src=fd00::1,{of}");
            assert!(!setup.mask(&echo).contains("nd_target"), "{count} guards: {}", setup.mask(&echo));
            let advert = format!("icmp6,icmp_type=136,icmp_code=0,nd_target=fd00::{i},{of}");
            assert_eq!(
                setup.ops(&advert),
                if i <= count { "drop: rule_drop" } else { "p2" },
                "{count} guards, {advert}"
            );
        }
    }
}

#[test]
fn tags_and_the_mask() {
    let tagged = format!("{TCP},vlan_tci=0x1005");
    let setup = one("in_port=1", [Action::PushVlan(0x8100), set(Field::VlanVid, 0x1005), out(2)]);
    assert_eq!(setup.mask(TCP), format!("{ALWAYS}ip,in_port=1,vlan_tci=0x0000/0x1000,nw_frag=no"));
    let setup = one("in_port=1", [Action::PopVlan, out(2)]);
    let expected = format!("{ALWAYS}ip,in_port=1,vlan_tci=0x1000/0x1000,vlan_tci1=0x0000/0x1000,nw_frag=no");
    assert_eq!(setup.mask(&tagged), expected);
    let setup = one("in_port=1", [set(Field::VlanVid, 0x1006), out(2)]);
    assert_eq!(setup.mask(&tagged), format!("{ALWAYS}ip,in_port=1,vlan_tci=0x1000/0x1000,nw_frag=no"));
}

#[test]
fn in_port_can_be_written() {
    let mut setup =
        one("in_port=1", [copy("NXM_OF_IN_PORT[]", "NXM_NX_REG0[0..15]"), set(Field::InPort, 0), out(1), resubmit(1)]);
    setup.flow(1, "in_port=0,reg0=1", [out(2)]);
    assert_eq!(setup.ops(TCP), "p1,p2", "hairpin");
    // Sixteen bits of it: reserved ports stay what they are.
    let setup = one("", [set_bits(Field::InPort, 0xfffe, 0xffff), out(port::LOCAL), out(1)]);
    assert_eq!(setup.ops(TCP), "p1");
    let setup = one("", [set_bits(Field::InPort, 1, 0xffff), out(1), out(port::LOCAL)]);
    let mut local = key(TCP);
    local.set(Field::InPort, u128::from(port::LOCAL));
    assert_eq!(setup.show(&setup.translate(&local, Start::Table)), "LOCAL");
}

#[test]
fn meters_see_the_packet_as_long_as_it_came() {
    use vswitch_flow::spec::{Band, BandKind, MeterSpec};
    let bands = vec![Band { kind: BandKind::Drop, rate: 10, burst: 10 }];
    let spec = MeterSpec { id: 7, pktps: true, burst: true, stats: true, bands };
    let mut setup = Setup::new();
    setup.meter(spec);
    setup.flow(0, "", [Action::PushVlan(0x8100), set(Field::NwTtl, 9), resubmit(1)]);
    setup.flow(1, "", [Action::Meter(7), out(2)]);
    assert_eq!(setup.ops(TCP), "set(ipv4(ttl=9)),meter(7),push_vlan(tpid=0x8100,vid=0,pcp=0),p2");
    assert!(setup.run(TCP).deps.groups);
    // A meter in a clone stops the clone only.
    setup.flow(0, "", [Action::Clone([Action::Meter(7), out(2)].into()), out(3)]);
    assert_eq!(setup.ops(TCP), "clone(meter(7),p2),p3");
}
