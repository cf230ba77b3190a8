//! Tunnels with real traffic: the kernel's own VXLAN at the other end.
//!
//! A host is in one bridge, a tunnel port beside it; the underlay is a bridge of its own, whose LOCAL port has the tunnel's address and whose uplink is a veth pair to the peer.

mod common;

use common::{ChecksumErrors, Host, Netns, Switch, Veth, Wire, iperf3, number, ping, unique, wait_for};
use std::time::Duration;

/// Far above what a connection does that lives on retransmissions.
const TCP_FLOOR_BPS: f64 = 20e6;

/// A peer with the kernel's tunnel device: 192.168.77.2 and fd77::2 outside, 10.99.0.2 and fd99::2 inside.
struct Peer {
    ns: Netns,
    uplink: Veth,
}

impl Peer {
    fn new() -> Self {
        let ns = Netns::new("peer");
        let uplink = Veth::new(&ns, "eth0");
        ns.configure("eth0", &["192.168.77.2/24", "fd77::2/64"]);
        // A checksum that the kernel leaves to a wire is that of the packet inside the tunnel, which a packet socket's header cannot say.
        ns.run(&["ethtool", "-K", "eth0", "tx", "off"]);
        Self { ns, uplink }
    }

    /// Makes the tunnel device. (Geneve and GRE, which not every kernel has, are tested with guests: `guest_tunnels.rs`.)
    fn tunnel(&self, link: &[&str]) {
        self.ns.run(&[&["ip", "link", "add", "tun0"], link].concat());
        self.ns.run(&["ip", "link", "set", "dev", "tun0", "mtu", "1350"]);
        self.ns.configure("tun0", &["10.99.0.2/24", "fd99::2/64"]);
    }
}

/// A switch with a host, a tunnel port and an underlay.
fn switch_for(host: &Host, uplink: &Veth, own: &str, own6: &str, tunnel: &str) -> Switch {
    let under = format!("vu{}{}", std::process::id(), unique());
    let overlay = "[[bridge]]\nname = \"over\"\nfail_mode = \"standalone\"\n\n";
    let underlay = format!(
        "[[bridge]]\nname = {under:?}\nfail_mode = \"standalone\"\n\n\
         [[bridge.port]]\nname = \"up{}\"\ntype = \"af_packet\"\ninterface = {:?}\n\n\
         [[bridge.port]]\nname = {under:?}\ntype = \"internal\"\naddresses = [{own:?}, {own6:?}]\n\n",
        unique(),
        uplink.host()
    );
    let tunnel = format!("[[bridge.port]]\nname = \"tun\"\nnumber = 9\n{tunnel}\n\n");
    let switch = Switch::start(&[overlay, &host.config(1), &tunnel, &underlay].concat());
    // ARP requests and neighbour solicitations of the peer are answered by the kernel behind the LOCAL port.
    common::run(&["ip", "link", "set", "dev", &under, "up"]);
    common::run(&["ip", "address", "add", own, "dev", &under]);
    common::run(&["ip", "address", "add", own6, "dev", &under, "nodad"]);
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
        wait_for(&format!("{address} answers through the tunnel"), Duration::from_secs(10), || {
            host.ns.exec(&["ping", "-n", "-c", "1", "-W", "1", address]).status.success()
        });
        ping(&host.ns, address, 3, 1200);
        ping(&host.ns, address, 3, 4000); // fragments inside
        for direction in [&[][..], &["-R"]] {
            let run = iperf3(other, &host.ns, address, direction);
            assert!(run.received_bps > TCP_FLOOR_BPS, "TCP to {address} {direction:?}: {} bit/s", run.received_bps);
        }
    }
    for ns in [&host.ns, other] {
        assert_eq!(ChecksumErrors::of(ns), ChecksumErrors::default(), "wrong checksums arrived");
    }
    let port = switch.port("over", "tun");
    for counter in ["rx_packets", "tx_packets"] {
        assert!(number(&port, counter) > 1000, "the tunnel port has counted too little: {port:#}");
    }
}

fn with_the_kernel(link: &[&str], tunnel: &str) {
    let (peer, host) = (Peer::new(), Host::new(Wire::AfPacket, 1));
    peer.tunnel(link);
    let switch = switch_for(&host, &peer.uplink, "192.168.77.1/24", "fd77::1/64", tunnel);
    talk(&host, &peer.ns, &switch);
}

#[test]
fn vxlan_with_the_kernel() {
    let link = ["type", "vxlan", "id", "7", "remote", "192.168.77.1", "dstport", "4789", "dev", "eth0"];
    with_the_kernel(&link, "type = \"vxlan\"\noptions = { remote_ip = \"192.168.77.2\", key = \"7\" }");
}

#[test]
fn vxlan_with_the_kernel_and_checksums() {
    let link = ["type", "vxlan", "id", "7", "remote", "192.168.77.1", "dstport", "4789", "dev", "eth0", "udpcsum"];
    with_the_kernel(
        &link,
        "type = \"vxlan\"\noptions = { remote_ip = \"192.168.77.2\", key = \"7\", csum = \"true\" }",
    );
}

#[test]
fn vxlan_over_ipv6_with_the_kernel() {
    let link = ["type", "vxlan", "id", "7", "remote", "fd77::1", "dstport", "4789", "dev", "eth0"];
    with_the_kernel(&link, "type = \"vxlan\"\noptions = { remote_ip = \"fd77::2\", key = \"7\" }");
}
