//! Tunnels with real traffic: the tunnel devices of a guest's kernel at the other end, Linux's own
//! Geneve, VXLAN and GRE.
//!
//! A host is in one bridge, or a guest as a Pod, with a tunnel port of each kind beside it; the
//! underlay is a bridge of its own, whose LOCAL port has the tunnels' address and whose uplink is a
//! guest.

use crate::common::{
    Expect, Guest, Host, IDLE_SLEEP, Nic, Switch, WITHOUT_OFFLOADS, Wire, clean, iperf3_to, number, ping,
    receive_errors, unique,
};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// What a capture must have seen in a tunnel.
const INSIDE: [&str; 8] =
    ["ip:tcp", "ip:udp", "ip:icmp", "ip:data", "ipv6:tcp", "ipv6:udp", "ipv6:icmpv6", "ipv6:ipv6.fraghdr:data"];

/// A switch with a host, tunnel ports, and a guest as the only one in the underlay: 192.168.77.2
/// and fd77::2.
struct Scene {
    host: Host,
    guest: Guest,
    switch: Switch,
    /// The bridge of the underlay.
    under: String,
}

impl Scene {
    fn new(properties: &str) -> Self {
        let host = Host::new(Wire::AfPacket, 1);
        let under = format!("vu{}{}", std::process::id(), unique());
        let overlay = "[[bridge]]\nname = \"over\"\nfail_mode = \"standalone\"\n\n\
                       [[bridge.port]]\nname = \"pod\"\ntype = \"vhost-user\"\nnumber = 30\npath = \"@DIR@/pod.sock\"\n\n";
        let tunnel = |name: &str, kind: &str, remote: &str, more: &str| {
            let options = format!("options = {{ remote_ip = {remote:?}, key = \"7\"{more} }}");
            format!("[[bridge.port]]\nname = {name:?}\ntype = {kind:?}\n{options}\n\n")
        };
        let tunnels = [
            tunnel("geneve", "geneve", "192.168.77.2", ""),
            tunnel("geneve6", "geneve", "fd77::2", ""),
            tunnel("vxlan", "vxlan", "192.168.77.2", ", csum = \"true\""),
            tunnel("gre", "gre", "192.168.77.2", ", csum = \"true\""),
        ];
        let underlay = format!(
            "[[bridge]]\nname = {under:?}\nfail_mode = \"standalone\"\n\n\
             [[bridge.port]]\nname = \"peer\"\ntype = \"vhost-user\"\npath = \"@DIR@/peer.sock\"\nunderlay = true\n\n\
             [[bridge.port]]\nname = {under:?}\ntype = \"internal\"\naddresses = [\"192.168.77.1/24\", \"fd77::1/64\"]\n\n",
        );
        let switch = Switch::start(&[IDLE_SLEEP, overlay, &host.config(1), &tunnels.concat(), &underlay].concat());
        // ARP requests and neighbour solicitations of the guest are answered by the kernel behind
        // the LOCAL port.
        crate::common::run(&["ip", "link", "set", "dev", &under, "up"]);
        crate::common::run(&["ip", "address", "add", "192.168.77.1/24", "dev", &under]);
        crate::common::run(&["ip", "address", "add", "fd77::1/64", "dev", &under, "nodad"]);
        host.attach();
        host.ns.run(&["ip", "link", "set", "dev", "eth0", "mtu", "1350"]);
        let nic = Nic::new(&switch.dir().join("peer.sock"), [0, 2]).with(properties);
        let mut guest = Guest::boot("peer", &[nic]);
        guest.configure("eth0", &["192.168.77.2/24", "fd77::2/64"]);
        Self { host, guest, switch, under }
    }

    /// The guest has a tunnel device: 10.99.0.2 and fd99::2.
    fn begin(&mut self, link: &str) {
        self.guest.run(&format!("ip link add tun0 {link} && ip link set tun0 mtu 1350"));
        self.guest.configure("tun0", &["10.99.0.2/24", "fd99::2/64"]);
    }

    /// Ping, datagrams and TCP both ways through a tunnel of the guest's kernel.
    fn talk(&mut self, port: &str, link: &str) {
        self.begin(link);
        let Self { host, guest, switch, .. } = self;
        host.ns.run(&["ip", "neigh", "flush", "all"]);
        for address in ["10.99.0.2", "fd99::2"] {
            host.ns.wait_reaches(address, SOON, port);
            ping(&host.ns, address, 3, 1200);
            ping(&host.ns, address, 3, 4000); // in fragments, inside
            for more in [&["-R"][..], &[], &["-u", "-b", "5M", "-l", "1100"]] {
                iperf3_to(guest, &host.ns, address, more);
            }
        }
        assert_eq!(guest.receive_errors(), [""; 0], "{port}");
        assert_eq!(receive_errors(&host.ns), [""; 0], "{port}");
        let counted = switch.port("over", port);
        for counter in ["rx_packets", "tx_packets"] {
            assert!(number(&counted, counter) > 500, "{port}: it has counted too little: {counted:#}");
        }
    }

    /// The guest's tunnel device goes.
    fn end(&mut self) {
        self.guest.run("ip link del tun0");
    }

    /// Some traffic through the tunnel that is up; all packets of the underlay are copied into a
    /// file, which must be clean.
    fn capture(&mut self, expect: &Expect<'_>) {
        let Self { host, guest, switch, under } = self;
        let file = switch.dir().join(format!("wire{}.pcap", unique()));
        let path = file.to_str().expect("temporary directories have UTF-8 names");
        switch.vsctl_ok(&["add-port", under, "wire", "--type", "pcap", "--tx-file", path, "--number", "9"]);
        switch.vsctl_ok(&["mod-port", under, "wire", "no-flood"]);
        switch.vsctl_ok(&["add-flow", under, "priority=9,actions=output:9,NORMAL"]);
        for address in ["10.99.0.2", "fd99::2"] {
            ping(&host.ns, address, 3, 1200);
            ping(&host.ns, address, 3, 4000);
            let datagrams = ["-u", "-b", "2M", "-l", "1100"];
            for more in [&["-b", "8M"][..], &["-b", "8M", "-R"], &datagrams, &[&datagrams[..], &["-R"]].concat()] {
                iperf3_to(guest, &host.ns, address, more);
            }
        }
        switch.vsctl_ok(&["del-flows", under, "--strict", "priority=9"]);
        // The file is whole when its port is closed.
        switch.vsctl_ok(&["del-port", under, "wire"]);
        clean(&file, expect);
    }
}

#[test]
fn a_guests_tunnels_reach_ours() {
    let mut scene = Scene::new("");
    scene.talk("geneve", "type geneve id 7 remote 192.168.77.1");
    let (from, fields) = ("192.168.77.1", &[("geneve.vni", "0x000007")]);
    scene.capture(&Expect { tunnel: "ip:udp:geneve", inside: &INSIDE, from, fields, sum: false });
    scene.end();
    scene.talk("geneve6", "type geneve id 7 remote fd77::1");
    let (from, fields) = ("fd77::1", &[("geneve.vni", "0x000007")]);
    scene.capture(&Expect { tunnel: "ipv6:udp:geneve", inside: &INSIDE, from, fields, sum: true });
    scene.end();
    scene.talk("vxlan", "type vxlan id 7 remote 192.168.77.1 local 192.168.77.2 dstport 4789 dev eth0");
    let (from, fields) = ("192.168.77.1", &[("vxlan.vni", "7")]);
    scene.capture(&Expect { tunnel: "ip:udp:vxlan", inside: &INSIDE, from, fields, sum: true });
    scene.end();
    scene.talk("gre", "type gretap key 7 remote 192.168.77.1 local 192.168.77.2 ocsum icsum");
    scene.end();
}

#[test]
fn tunnels_of_a_guest_without_offloads_reach_ours() {
    let mut scene = Scene::new(WITHOUT_OFFLOADS);
    scene.talk("geneve", "type geneve id 7 remote 192.168.77.1 udpcsum");
    scene.end();
    scene.talk("gre", "type gretap key 7 remote 192.168.77.1 local 192.168.77.2 ocsum icsum");
    let (from, fields) = ("192.168.77.1", &[("gre.key", "0x00000007")]);
    scene.capture(&Expect { tunnel: "ip:gre", inside: &INSIDE, from, fields, sum: true });
    scene.end();
}

/// What a Pod that is a guest leaves to its device, segments and checksums, is done by the switch
/// on the way into a tunnel of each kind; and what comes out reaches it.
#[test]
fn the_long_segments_of_a_guest_go_into_each_tunnel() {
    let mut scene = Scene::new("");
    let mut pod = Guest::boot("pod", &[Nic::new(&scene.switch.dir().join("pod.sock"), [0, 3])]);
    pod.configure("eth0", &["10.99.0.3/24", "fd99::3/64"]);
    pod.run("ip link set eth0 mtu 1350; iperf3 -s -D");
    for (port, link) in [
        ("geneve", "type geneve id 7 remote 192.168.77.1"),
        ("geneve6", "type geneve id 7 remote fd77::1"),
        ("vxlan", "type vxlan id 7 remote 192.168.77.1 local 192.168.77.2 dstport 4789 dev eth0 udpcsum"),
        ("gre", "type gretap key 7 remote 192.168.77.1 local 192.168.77.2 ocsum icsum"),
    ] {
        scene.begin(link);
        scene.guest.run("pidof iperf3 >/dev/null || iperf3 -s -D");
        pod.run("ip neigh flush all");
        for address in ["10.99.0.2", "fd99::2"] {
            let what = format!("{port}, {address}");
            pod.wait_reaches(address, SOON);
            pod.run(&format!("ping -n -i 0.05 -c 3 -s 4000 {address}"));
            let sent = || {
                let port = scene.switch.port("over", "pod");
                (number(&port, "rx_packets"), number(&port, "rx_bytes"))
            };
            let before = sent();
            pod.run(&format!("iperf3 -c {address} -n 4M"));
            let after = sent();
            let mean = (after.1 - before.1) / (after.0 - before.0).max(1);
            assert!(mean > 3000, "{what}: {mean} bytes per packet: nothing was sent for segmentation");
            pod.run(&format!("iperf3 -c {address} -n 4M -R"));
        }
        for guest in [&mut scene.guest, &mut pod] {
            assert_eq!(guest.receive_errors(), [""; 0], "{port}");
        }
        let counted = scene.switch.port("over", port);
        for counter in ["rx_packets", "tx_packets"] {
            assert!(number(&counted, counter) > 5000, "{port}: it has counted too little: {counted:#}");
        }
        scene.end();
    }
}
