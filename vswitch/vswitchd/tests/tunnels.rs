//! Tunnels with real traffic: the kernel's own VXLAN at the other end, and a second switch.
//!
//! A host is in one bridge, a tunnel port beside it; the underlay is a bridge of its own, whose
//! LOCAL port has the tunnel's address and whose uplink is a veth pair to the peer.

use crate::common::{
    Capture, ChecksumErrors, EVERYTHING, Expect, Host, Netns, Switch, Veth, Wire, everything, iperf3, number, ping,
    receive_errors, unique, wait_for,
};
use std::time::Duration;

/// Uplinks, `@` stands for the interface. The first leaves checksums to the kernel, by a vnet
/// header, the second cannot.
const AF_PACKET: &str = "type = \"af_packet\"\ninterface = \"@\"";
const NET_AF_PACKET: &str = "type = \"dpdk\"\ndevargs = \"net_af_packet0,iface=@\"";

/// Far above what a connection does that lives on retransmissions.
const TCP_FLOOR_BPS: f64 = 1e6;
/// Datagrams that a busy machine may lose in front of a packet socket, in percent.
const LOST: f64 = 25.0;

/// A peer with the kernel's tunnel device: 192.168.77.2 and fd77::2 outside, 10.99.0.2 and fd99::2
/// inside.
struct Peer {
    ns: Netns,
    uplink: Veth,
}

impl Peer {
    fn new() -> Self {
        let ns = Netns::new("peer");
        let uplink = Veth::uplink(&ns, "eth0", &["192.168.77.2/24", "fd77::2/64"]);
        Self { ns, uplink }
    }

    /// Makes the tunnel device. (Geneve and GRE, which not every kernel has, are tested with
    /// guests: `guest_tunnels.rs`.)
    fn tunnel(&self, link: &[&str]) {
        self.ns.run(&[&["ip", "link", "add", "tun0"], link].concat());
        self.ns.run(&["ip", "link", "set", "dev", "tun0", "mtu", "1350"]);
        self.ns.configure("tun0", &["10.99.0.2/24", "fd99::2/64"]);
    }
}

/// A switch with a host, a tunnel port and an underlay; `kind` of uplink.
fn switch_for(host: &Host, kind: &str, uplink: &Veth, own: &str, own6: &str, tunnel: &str) -> Switch {
    let under = format!("vu{}{}", std::process::id(), unique());
    let overlay = "[[bridge]]\nname = \"over\"\nfail_mode = \"standalone\"\n\n";
    let underlay = format!(
        "[[bridge]]\nname = {under:?}\nfail_mode = \"standalone\"\n\n\
         [[bridge.port]]\nname = \"up{}\"\n{}\n\n\
         [[bridge.port]]\nname = {under:?}\ntype = \"internal\"\naddresses = [{own:?}, {own6:?}]\n\n",
        unique(),
        kind.replace('@', uplink.host())
    );
    let tunnel = format!("[[bridge.port]]\nname = \"tun\"\nnumber = 9\n{tunnel}\n\n");
    let switch = Switch::start(&[overlay, &host.config(1), &tunnel, &underlay].concat());
    // ARP requests and neighbour solicitations of the peer are answered by the kernel behind the
    // LOCAL port.
    crate::common::run(&["ip", "link", "set", "dev", &under, "up"]);
    crate::common::run(&["ip", "address", "add", own, "dev", &under]);
    crate::common::run(&["ip", "address", "add", own6, "dev", &under, "nodad"]);
    host.attach();
    host.ns.run(&["ip", "link", "set", "dev", &interface(host), "mtu", "1350"]);
    switch
}

/// The interface of a host.
fn interface(host: &Host) -> String {
    let links = host.ns.run(&["ip", "-br", "link"]);
    let mut names = links.lines().filter_map(|line| line.split(['@', ' ']).next());
    names.rfind(|name| *name != "lo").expect("an interface").to_owned()
}

/// Ping and TCP both ways between a host and what has the addresses ..2 at the tunnel's other end.
fn talk(host: &Host, other: &Netns, switch: &Switch) {
    for address in ["10.99.0.2", "fd99::2"] {
        host.ns.wait_reaches(address, Duration::from_secs(60), "through the tunnel");
        ping(&host.ns, address, 3, 1200);
        ping(&host.ns, address, 3, 4000); // fragments inside
        for direction in [&[][..], &["-R"]] {
            let run = iperf3(other, &host.ns, address, direction);
            assert!(run.received_bps > TCP_FLOOR_BPS, "TCP to {address} {direction:?}: {} bit/s", run.received_bps);
            let run = iperf3(
                other,
                &host.ns,
                address,
                &[&["-u", "-b", "5M", "-n", "200K", "-l", "1200"], direction].concat(),
            );
            assert!(run.lost_percent < LOST, "UDP to {address} {direction:?}: {} % lost", run.lost_percent);
        }
    }
    for ns in [&host.ns, other] {
        assert_eq!(receive_errors(ns), [""; 0], "{} has counted errors", ns.name());
    }
    let port = switch.port("over", "tun");
    for counter in ["rx_packets", "tx_packets"] {
        assert!(number(&port, counter) > 1000, "the tunnel port has counted too little: {port:#}");
    }
}

/// Nobody captures: the peer's kernel leaves segmentation and checksums of what is in the tunnel to
/// the wire.
fn with_the_kernel(link: &[&str], tunnel: &str) {
    let (peer, host) = (Peer::new(), Host::new(Wire::AfPacket, 1));
    peer.ns.run(&["ethtool", "-K", "eth0", "tx", "on"]);
    let features = peer.ns.run(&["ethtool", "-k", "eth0"]);
    assert!(features.contains("tx-udp_tnl-segmentation: on"), "{features}");
    peer.tunnel(link);
    let switch = switch_for(&host, AF_PACKET, &peer.uplink, "192.168.77.1/24", "fd77::1/64", tunnel);
    talk(&host, &peer.ns, &switch);
}

/// Everything between a host and the tunnel's other end, with a capture at the other end's side of
/// the wire.
fn captured(host: &Host, peer: &Peer, expect: &Expect<'_>) {
    let capture = Capture::start(&peer.ns, "eth0");
    for (ours, theirs) in [(&host.v4, "10.99.0.2"), (&host.v6, "fd99::2")] {
        host.ns.wait_reaches(theirs, Duration::from_secs(60), "through the tunnel");
        everything((&host.ns, ours), (&peer.ns, theirs));
    }
    capture.stop(expect);
    for ns in [&host.ns, &peer.ns] {
        assert_eq!(receive_errors(ns), [""; 0], "{} has counted errors", ns.name());
    }
}

#[test]
fn vxlan_with_the_kernel() {
    let link = ["type", "vxlan", "id", "7", "remote", "192.168.77.1", "dstport", "4789", "dev", "eth0"];
    with_the_kernel(&link, "type = \"vxlan\"\noptions = { remote_ip = \"192.168.77.2\", key = \"7\" }");
}

#[test]
fn vxlan_with_the_kernel_and_checksums_is_clean_on_the_wire() {
    let (peer, host) = (Peer::new(), Host::new(Wire::AfPacket, 1));
    peer.tunnel(&["type", "vxlan", "id", "7", "remote", "192.168.77.1", "dstport", "4789", "dev", "eth0", "udpcsum"]);
    let tunnel = "type = \"vxlan\"\noptions = { remote_ip = \"192.168.77.2\", key = \"7\", csum = \"true\" }";
    let _switch = switch_for(&host, NET_AF_PACKET, &peer.uplink, "192.168.77.1/24", "fd77::1/64", tunnel);
    let (from, fields) = ("192.168.77.1", &[("vxlan.vni", "7")]);
    captured(&host, &peer, &Expect { tunnel: "ip:udp:vxlan", inside: &EVERYTHING, from, fields, sum: true });
}

#[test]
fn vxlan_over_ipv6_with_the_kernel() {
    let link = ["type", "vxlan", "id", "7", "remote", "fd77::1", "dstport", "4789", "dev", "eth0"];
    with_the_kernel(&link, "type = \"vxlan\"\noptions = { remote_ip = \"fd77::2\", key = \"7\" }");
}

#[test]
fn vxlan_over_ipv6_with_the_kernel_is_clean_on_the_wire() {
    let (peer, host) = (Peer::new(), Host::new(Wire::AfPacket, 1));
    peer.tunnel(&["type", "vxlan", "id", "7", "remote", "fd77::1", "dstport", "4789", "dev", "eth0"]);
    let tunnel = "type = \"vxlan\"\noptions = { remote_ip = \"fd77::2\", key = \"7\" }";
    let _switch = switch_for(&host, NET_AF_PACKET, &peer.uplink, "192.168.77.1/24", "fd77::1/64", tunnel);
    let fields = &[("vxlan.vni", "7")];
    captured(
        &host,
        &peer,
        &Expect { tunnel: "ipv6:udp:vxlan", inside: &EVERYTHING, from: "fd77::1", fields, sum: true },
    );
}

/// The kernel gives a packet the mark that came with it as its group policy, and sends the mark as
/// such.
const MARKS: &str = "table inet marks {
  chain in {
    type filter hook prerouting priority 0
    iifname \"tun0\" meta mark 0x1234 counter
    iifname \"tun0\" meta mark != 0x1234 counter
  }
  chain out {
    type filter hook postrouting priority 0
    oifname \"tun0\" meta mark set 0x4321
  }
}";

#[test]
fn group_policies_reach_the_kernel_and_come_from_it() {
    let (peer, host) = (Peer::new(), Host::new(Wire::AfPacket, 1));
    peer.tunnel(&["type", "vxlan", "id", "7", "remote", "192.168.77.1", "dstport", "4789", "dev", "eth0", "gbp"]);
    let tunnel = "type = \"vxlan\"\noptions = { remote_ip = \"192.168.77.2\", key = \"7\", exts = \"gbp\" }";
    let switch = switch_for(&host, NET_AF_PACKET, &peer.uplink, "192.168.77.1/24", "fd77::1/64", tunnel);
    // ARP is not of nft's family.
    let flows = [
        "in_port=1,actions=set_field:0x1234->tun_gbp_id,output:9",
        "in_port=9,arp,actions=output:1",
        "in_port=9,ip,tun_gbp_id=0x4321,actions=output:1",
        "in_port=9,ipv6,tun_gbp_id=0x4321,actions=output:1",
        "priority=1,in_port=9,actions=drop",
    ];
    let added = switch.vsctl_with(&["add-flows", "over", "-"], Some(&flows.join("\n")));
    assert!(added.status.success(), "{added:?}");
    // It counts from here on: what came before the flows has no policy.
    peer.ns.run(&["nft", MARKS]);
    let fields = &[("vxlan.vni", "7"), ("vxlan.flag_g", "1"), ("vxlan.gbp", "4660")];
    captured(
        &host,
        &peer,
        &Expect { tunnel: "ip:udp:vxlan", inside: &EVERYTHING, from: "192.168.77.1", fields, sum: false },
    );
    let counted = peer.ns.run(&["nft", "list", "chain", "inet", "marks", "in"]);
    let packets = |line: &str| line.split("packets ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
    let counters = counted.lines().filter_map(packets).collect::<Vec<_>>();
    assert!(matches!(counters[..], [with, 0] if with > 500), "packets with the policy, and without: {counted}");
}

/// An address that another node had is the switch's now: who knows it by the other's MAC address
/// learns ours, without a packet of its own or for it.
#[test]
fn neighbours_are_told_whose_an_address_is_now() {
    const OTHERS: &str = "02:00:00:00:77:99";
    let peer = Peer::new();
    let known = |address: &str| peer.ns.run(&["ip", "neigh", "show", address, "dev", "eth0"]);
    let addresses = ["192.168.77.1", "fd77::1"];
    for address in addresses {
        peer.ns.run(&["ip", "neigh", "replace", address, "lladdr", OTHERS, "nud", "stale", "dev", "eth0"]);
        assert!(known(address).contains(OTHERS), "{}", known(address));
    }
    let under = format!("vu{}{}", std::process::id(), unique());
    let switch = Switch::start(&format!(
        "[[bridge]]\nname = {under:?}\nfail_mode = \"standalone\"\n\n\
         [[bridge.port]]\nname = \"up\"\ntype = \"af_packet\"\ninterface = {:?}\n\n\
         [[bridge.port]]\nname = {under:?}\ntype = \"internal\"\naddresses = [\"{}/24\", \"{}/64\"]\n\n",
        peer.uplink.host(),
        addresses[0],
        addresses[1]
    ));
    let ours = switch.port(&under, &under)["mac"].as_str().expect("a MAC address").to_owned();
    for address in addresses {
        wait_for(&format!("{address} is known to be at {ours}"), Duration::from_secs(60), || {
            known(address).contains(&ours)
        });
    }
}

/// A veth pair between two switches; goes when it is dropped.
struct Cable([String; 2]);

impl Cable {
    fn new(mtu: u32) -> Self {
        let ends = [0, 1].map(|_| format!("vt{}c{}", std::process::id(), unique()));
        crate::common::run(&["ip", "link", "add", &ends[0], "type", "veth", "peer", "name", &ends[1]]);
        for end in &ends {
            let mtu = mtu.to_string();
            crate::common::run(&["ip", "link", "set", "dev", end, "addrgenmode", "none", "arp", "off", "mtu", &mtu]);
            crate::common::run(&["ip", "link", "set", "dev", end, "up"]);
        }
        Self(ends)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["link", "delete", &self.0[0]]).status();
    }
}

/// A node: a host, and a flow-based tunnel port; our end of tunnels has a namespace of its own,
/// whose kernel answers ARP requests.
fn node(host: &Host, vtep: &Host, uplink: &str, kind: &str, peer: &str) -> Switch {
    node_with([1500; 2], (host, vtep), uplink, (kind, peer))
}

/// Likewise, with an MTU inside and one outside.
fn node_with(
    [inside, outside]: [u32; 2],
    (host, vtep): (&Host, &Host),
    uplink: &str,
    (kind, peer): (&str, &str),
) -> Switch {
    let own = format!("addresses = [\"{}/24\", \"{}/64\"]\n\n", vtep.v4, vtep.v6);
    let overlay = "[[bridge]]\nname = \"over\"\nfail_mode = \"secure\"\n\n";
    let tunnel = format!(
        "[[bridge.port]]\nname = \"tun\"\nnumber = 9\ntype = {kind:?}\noptions = {{ remote_ip = \"flow\", key = \"flow\" }}\n\n"
    );
    let underlay = format!(
        "[[bridge]]\nname = \"under\"\nfail_mode = \"standalone\"\n\n\
         [[bridge.port]]\nname = \"up\"\ntype = \"af_packet\"\ninterface = {uplink:?}\nmtu = {outside}\n\n"
    );
    let vtep = format!("{}\nmtu = {outside}\n{own}", vtep.config(2).trim_end());
    let host = format!("{}\nmtu = {inside}\n\n", host.config(1).trim_end());
    let switch = Switch::start(&[overlay, &host, &tunnel, &underlay, &vtep].concat());
    let end = if peer.contains(':') { "tun_ipv6_dst" } else { "tun_dst" };
    let out = format!("table=0,in_port=1,actions=set_field:{peer}->{end},set_field:77->tun_id,output:9");
    // What comes is tracked: established connections take the fast path out of the tunnel.
    let flows = [
        &out,
        "table=0,in_port=9,tun_id=77,arp,actions=output:1",
        "table=0,in_port=9,tun_id=77,icmp6,icmp_type=135,actions=output:1",
        "table=0,in_port=9,tun_id=77,icmp6,icmp_type=136,actions=output:1",
        "table=0,priority=1,in_port=9,tun_id=77,ip,actions=ct(commit,zone=3,table=1)",
        "table=0,priority=1,in_port=9,tun_id=77,ipv6,actions=ct(commit,zone=3,table=1)",
        "table=1,in_port=9,tun_id=77,actions=output:1",
    ];
    let added = switch.vsctl_with(&["add-flows", "over", "-"], Some(&flows.join("\n")));
    assert!(added.status.success(), "{added:?}");
    switch
}

#[test]
fn two_switches_reach_each_other() {
    for (kind, six) in [("geneve", false), ("vxlan", true), ("gre", false)] {
        let cable = Cable::new(1500);
        let hosts = [Host::new(Wire::AfPacket, 1), Host::new(Wire::AfPacket, 2)];
        let vteps = [Host::new(Wire::Internal, 101), Host::new(Wire::Internal, 102)];
        let address = |vtep: &Host| if six { vtep.v6.clone() } else { vtep.v4.clone() };
        let switches = [0, 1].map(|i| node(&hosts[i], &vteps[i], &cable.0[i], kind, &address(&vteps[1 - i])));
        for host in hosts.iter().chain(&vteps) {
            host.attach();
        }
        for host in &hosts {
            host.ns.run(&["ip", "link", "set", "dev", &interface(host), "mtu", "1350"]);
        }
        for address in [&hosts[1].v4, &hosts[1].v6] {
            hosts[0].ns.wait_reaches(address, Duration::from_secs(60), kind);
            ping(&hosts[0].ns, address, 3, 1200);
            ping(&hosts[0].ns, address, 3, 4000);
            for direction in [&[][..], &["-R"]] {
                let run = iperf3(&hosts[1].ns, &hosts[0].ns, address, direction);
                assert!(run.received_bps > TCP_FLOOR_BPS, "{kind}: TCP to {address}: {} bit/s", run.received_bps);
            }
        }
        for host in &hosts {
            assert_eq!(host.checksum_errors(), ChecksumErrors::default(), "{kind}: wrong checksums arrived");
        }
        for switch in &switches {
            let port = switch.port("over", "tun");
            assert!(number(&port, "rx_packets") > 1000 && number(&port, "tx_packets") > 1000, "{kind}: {port:#}");
        }
    }
}

/// Jumbo frames of hosts get through tunnels whole where the wire has room for them, by any way
/// that they have checksums and segments.
#[test]
fn jumbo_frames_get_through_tunnels() {
    for (kind, six) in [("geneve", false), ("vxlan", true), ("gre", true)] {
        let cable = Cable::new(9200);
        let hosts = [Host::new(Wire::AfPacket, 1), Host::new(Wire::AfPacket, 2)];
        let vteps = [Host::new(Wire::Internal, 101), Host::new(Wire::Internal, 102)];
        let address = |vtep: &Host| if six { vtep.v6.clone() } else { vtep.v4.clone() };
        hosts.iter().for_each(|host| host.set_mtu(9000));
        let switches = [0, 1].map(|i| {
            let tunnel = (kind, &*address(&vteps[1 - i]));
            node_with([9000, 9200], (&hosts[i], &vteps[i]), &cable.0[i], tunnel)
        });
        hosts.iter().chain(&vteps).for_each(Host::attach);
        for (to, headers) in [(&hosts[1].v4, 28), (&hosts[1].v6, 48)] {
            let ns = &hosts[0].ns;
            ns.wait_reaches(to, Duration::from_secs(60), kind);
            let longest = (9000 - headers).to_string();
            let output = ns.exec(&["ping", "-n", "-c", "3", "-i", "0.05", "-W", "2", "-M", "do", "-s", &longest, to]);
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains(" 0% packet loss"), "{kind}: {longest} bytes to {to}: {output:?}");
            for direction in [&[][..], &["-R"]] {
                let run = iperf3(&hosts[1].ns, ns, to, direction);
                assert!(run.received_bps > TCP_FLOOR_BPS, "{kind}: TCP to {to}: {} bit/s", run.received_bps);
                let run =
                    iperf3(&hosts[1].ns, ns, to, &[&["-u", "-b", "20M", "-n", "1M", "-l", "8900"], direction].concat());
                assert!(run.lost_percent < LOST, "{kind}: UDP to {to} {direction:?}: {} % lost", run.lost_percent);
            }
        }
        for ns in [&hosts[0].ns, &hosts[1].ns] {
            assert_eq!(receive_errors(ns), [""; 0], "{kind}: {} has counted errors", ns.name());
        }
        for switch in &switches {
            let port = switch.port("over", "tun");
            assert!(number(&port, "rx_packets") > 500 && number(&port, "tx_packets") > 500, "{kind}: {port:#}");
        }
    }
}

/// Hosts that believe that 1,500 bytes get through learn what does, and what may be cut is cut; and
/// nothing is lost while a next hop is asked.
#[test]
fn hosts_with_the_usual_mtu_get_through_a_tunnel() {
    let cable = Cable::new(1500);
    let hosts = [Host::new(Wire::AfPacket, 1), Host::new(Wire::AfPacket, 2)];
    let vteps = [Host::new(Wire::Internal, 101), Host::new(Wire::Internal, 102)];
    let switches = [0, 1].map(|i| node(&hosts[i], &vteps[i], &cable.0[i], "geneve", &vteps[1 - i].v4));
    for host in hosts.iter().chain(&vteps) {
        host.attach();
    }
    let pinged = |args: &[&str]| hosts[0].ns.exec(&[&["ping", "-n"], args].concat());
    hosts[0].ns.wait_reaches(&hosts[1].v4, Duration::from_secs(60), "the other host");
    // What a packet may have inside: 1,500 less Ethernet, Geneve, UDP and IPv4.
    for (address, headers, told) in [(&hosts[1].v4, 28, "mtu = 1450"), (&hosts[1].v6, 48, "mtu=1450")] {
        let longest = (1500 - 50 - headers).to_string();
        let output = pinged(&["-c", "1", "-W", "5", "-M", "do", "-s", &longest, address]);
        assert!(output.status.success(), "{longest} bytes to {address}: {output:?}");
        let longer = (1500 - headers).to_string();
        let output = pinged(&["-c", "1", "-W", "5", "-M", "do", "-s", &longer, address]);
        let said = String::from_utf8_lossy(&output.stdout).replace("mtu: ", "mtu=");
        assert!(said.contains(told), "{longer} bytes to {address}: {output:?}");
        for direction in [&[][..], &["-R"]] {
            let run = iperf3(&hosts[1].ns, &hosts[0].ns, address, direction);
            assert!(run.received_bps > TCP_FLOOR_BPS, "TCP to {address} {direction:?}: {} bit/s", run.received_bps);
        }
    }
    // Their fragments are as long as their own link allows.
    hosts[0].ns.run(&["ip", "route", "flush", "cache"]);
    let output = pinged(&["-c", "3", "-i", "0.2", "-W", "5", "-M", "dont", "-s", "4000", &hosts[1].v4]);
    assert!(output.status.success(), "what may be cut: {output:?}");
    for _ in 0..3 {
        switches.iter().for_each(|switch| {
            switch.vsctl_ok(&["tnl-neigh-flush"]);
        });
        let output = pinged(&["-c", "1", "-W", "5", &hosts[1].v4]);
        assert!(output.status.success(), "a packet was lost while a next hop was asked: {output:?}");
    }
    // The other host may have learned it only from how long the segments are that this one offers
    // to take.
    for from in [0, 1] {
        let (ns, to) = (&hosts[from].ns, &hosts[1 - from].v4);
        ns.run(&["ip", "route", "flush", "cache"]);
        let output = ns.exec(&["ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", "1472", to]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("mtu = 1450"), "1472 bytes to {to}: {output:?}");
    }
    for host in &hosts {
        assert_eq!(host.checksum_errors(), ChecksumErrors::default(), "wrong checksums arrived");
    }
    for switch in &switches {
        let port = switch.port("over", "tun");
        assert!(port["tx_drops"]["path_mtu"].as_u64().unwrap_or(0) > 0, "nobody was told: {port:#}");
    }
}
