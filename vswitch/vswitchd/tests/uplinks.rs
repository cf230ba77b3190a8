//! A switch with two uplinks, each the underlay of its own addresses: tunnels leave by the one that
//! the routes say, with that one's address, and change over while they carry traffic.
//!
//! The peer has a link to each, and the kernel's VXLAN at an address of neither: it answers to
//! where the last packet of a host came from.

use crate::common::{ChecksumErrors, Host, Netns, Switch, Veth, Wire, iperf3, ping};
use std::process::Stdio;
use std::time::Duration;

/// Far above what a connection does that lives on retransmissions.
const TCP_FLOOR_BPS: f64 = 1e6;

/// Our end and the peer's of a wire, without prefix length, IPv4 and IPv6.
struct Link {
    interface: &'static str,
    ours: [&'static str; 2],
    theirs: [&'static str; 2],
}

const NEAR: Link = Link { interface: "eth0", ours: ["192.168.77.1", "fd77::1"], theirs: ["192.168.77.2", "fd77::2"] };
const FAR: Link = Link { interface: "eth1", ours: ["192.168.78.1", "fd78::1"], theirs: ["192.168.78.2", "fd78::2"] };

/// The far end of flow-based tunnels, behind either link.
const BEHIND: [&str; 2] = ["10.44.0.9", "fd44::9"];

/// Counts what comes in tunnels: by the right wire from the right address, and all.
const COUNTERS: &str = "table inet tunnels {
  counter near { }
  counter far { }
  counter total { }
  chain in {
    type filter hook prerouting priority 0
    udp dport 4789 counter name total
    iifname eth0 udp dport 4789 ip saddr 192.168.77.1 counter name near
    iifname eth0 udp dport 4789 ip6 saddr fd77::1 counter name near
    iifname eth1 udp dport 4789 ip saddr 192.168.78.1 counter name far
    iifname eth1 udp dport 4789 ip6 saddr fd78::1 counter name far
  }
}";

/// The other end of both wires.
struct Peer {
    ns: Netns,
    wires: [Veth; 2],
}

impl Peer {
    fn new() -> Self {
        let ns = Netns::new("peer");
        let wires = [NEAR, FAR].map(|link| {
            let [four, six] = link.theirs;
            Veth::uplink(&ns, link.interface, &[&format!("{four}/24"), &format!("{six}/64")])
        });
        ns.configure("lo", &[&format!("{}/32", BEHIND[0]), &format!("{}/128", BEHIND[1])]);
        // Who asks in one tunnel for an address of the other gets no answer.
        ns.run(&["sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2"]);
        ns.run(&["nft", COUNTERS]);
        Self { ns, wires }
    }

    /// Makes a tunnel device with these addresses inside.
    fn tunnel(&self, name: &str, link: &[&str], addresses: [&str; 2]) {
        self.ns.run(&[&["ip", "link", "add", name, "type", "vxlan", "dstport", "4789"], link].concat());
        self.ns.run(&["ip", "link", "set", "dev", name, "mtu", "1350"]);
        self.ns.configure(name, &[&format!("{}/24", addresses[0]), &format!("{}/64", addresses[1])]);
    }

    /// Packets in tunnels since the last time: by the near wire as it should be, by the far one
    /// likewise, and all.
    fn counted(&self) -> [u64; 3] {
        let text = self.ns.run(&["nft", "reset", "counters", "table", "inet", "tunnels"]);
        ["near", "far", "total"].map(|name| {
            let of = text.split(&format!("counter {name} {{")).nth(1);
            let packets = of.and_then(|rest| rest.split("packets ").nth(1)?.split(' ').next()?.parse().ok());
            packets.unwrap_or_else(|| panic!("no counter {name} in {text}"))
        })
    }
}

/// A host that is our end of a wire's tunnels: an internal port with the addresses of the link,
/// whose kernel answers for them.
fn vtep(link: &Link, index: u8) -> Host {
    let mut vtep = Host::new(Wire::Internal, index);
    [vtep.v4, vtep.v6] = link.ours.map(str::to_owned);
    vtep
}

/// The port of a host in bridge "over", tunnel ports beside it, and a bridge for each wire.
fn switch_for(host: &Host, peer: &Peer, vteps: &[Host; 2], tunnels: &str) -> Switch {
    let mut config = format!("[[bridge]]\nname = \"over\"\nfail_mode = \"standalone\"\n\n{}{tunnels}", host.config(1));
    for (i, vtep) in vteps.iter().enumerate() {
        config += &format!(
            "[[bridge]]\nname = \"under{i}\"\nfail_mode = \"standalone\"\n\n\
             [[bridge.port]]\nname = \"up{i}\"\ntype = \"af_packet\"\ninterface = {:?}\n\n\
             {}\naddresses = [\"{}/24\", \"{}/64\"]\n\n",
            peer.wires[i].host(),
            vtep.config(20).trim_end(),
            vtep.v4,
            vtep.v6
        );
    }
    let switch = Switch::start(&config);
    for each in vteps.iter().chain([host]) {
        each.attach();
    }
    host.ns.run(&["ip", "link", "set", "dev", "eth0", "mtu", "1350"]);
    switch
}

/// Ping and TCP both ways between a host and what has these addresses at a tunnel's other end.
fn talk(host: &Host, peer: &Peer, addresses: [&str; 2]) {
    for address in addresses {
        host.ns.wait_reaches(address, Duration::from_secs(60), "through the tunnel");
        ping(&host.ns, address, 3, 4000); // fragments inside
        for direction in [&[][..], &["-R"]] {
            let run = iperf3(&peer.ns, &host.ns, address, &[&["-n", "8M"], direction].concat());
            assert!(run.received_bps > TCP_FLOOR_BPS, "TCP to {address} {direction:?}: {} bit/s", run.received_bps);
        }
    }
}

fn no_checksum_errors(host: &Host, peer: &Peer) {
    for ns in [&host.ns, &peer.ns] {
        assert_eq!(ChecksumErrors::of(ns), ChecksumErrors::default(), "wrong checksums arrived in {}", ns.name());
    }
}

#[test]
fn each_tunnel_leaves_by_the_uplink_that_its_other_end_is_on() {
    let (peer, host, vteps) = (Peer::new(), Host::new(Wire::AfPacket, 1), [vtep(&NEAR, 101), vtep(&FAR, 102)]);
    let insides = [["10.99.0.2", "fd99::2"], ["10.98.0.2", "fd98::2"]];
    peer.tunnel("tun7", &["id", "7", "remote", NEAR.ours[0], "dev", "eth0"], insides[0]);
    peer.tunnel("tun8", &["id", "8", "remote", FAR.ours[1], "dev", "eth1"], insides[1]);
    let tunnels = [(7, NEAR.theirs[0]), (8, FAR.theirs[1])].map(|(key, remote)| {
        format!(
            "[[bridge.port]]\nname = \"tun{key}\"\nnumber = {key}\ntype = \"vxlan\"\noptions = {{ remote_ip = {remote:?}, key = \"{key}\" }}\n\n"
        )
    });
    let _switch = switch_for(&host, &peer, &vteps, &tunnels.concat());
    host.ns.configure("eth0", &["10.98.0.1/24", "fd98::1/64"]);
    talk(&host, &peer, insides[0]);
    talk(&host, &peer, insides[1]);
    let [near, far, all] = peer.counted();
    // Floods go into both.
    assert!(near > 1000 && far > 1000 && near + far == all, "by the near wire {near}, the far one {far}, of {all}");
    // One of them alone, once it is known where everybody is.
    talk(&host, &peer, insides[1]);
    let [near, far, all] = peer.counted();
    assert!(near < 100 && far > 1000 && near + far == all, "by the near wire {near}, the far one {far}, of {all}");
    no_checksum_errors(&host, &peer);
}

/// For each family of the underlay: a default gateway, then a longer prefix by the other uplink,
/// and back.
#[test]
fn a_route_moves_a_tunnel_to_the_other_uplink_under_traffic() {
    for (family, end, defaults, longer) in
        [(0, "tun_dst", "0.0.0.0/0", "10.44.0.0/16"), (1, "tun_ipv6_dst", "::/0", "fd44::/32")]
    {
        let (peer, host, vteps) = (Peer::new(), Host::new(Wire::AfPacket, 1), [vtep(&NEAR, 101), vtep(&FAR, 102)]);
        let inside = ["10.99.0.2", "fd99::2"];
        // By a type of service of its own, else the kernel keeps the route of the address that it
        // had learned first.
        peer.tunnel("tun0", &["id", "7", "local", BEHIND[family], "tos", "0x10"], inside);
        let tunnel = "[[bridge.port]]\nname = \"tun\"\nnumber = 9\ntype = \"vxlan\"\noptions = { remote_ip = \"flow\", key = \"flow\" }\n\n";
        let switch = switch_for(&host, &peer, &vteps, tunnel);
        let flows = format!(
            "in_port=1,actions=set_field:{}->{end},set_field:7->tun_id,output:9\nin_port=9,tun_id=7,actions=output:1",
            BEHIND[family]
        );
        let added = switch.vsctl_with(&["add-flows", "over", "-"], Some(&flows));
        assert!(added.status.success(), "{added:?}");
        switch.vsctl_ok(&["route-add", defaults, &vteps[0].port, NEAR.theirs[family]]);
        let by = |when: &str, expected: &Link| {
            talk(&host, &peer, inside);
            let [near, far, all] = peer.counted();
            let (right, wrong) = if expected.interface == NEAR.interface { (near, far) } else { (far, near) };
            assert!(
                right > 1000 && wrong == 0 && right == all,
                "underlay {}, {when}: by {} {right} packets, by the other wire {wrong}, of {all}",
                BEHIND[family],
                expected.interface
            );
        };
        by("default gateway", &NEAR);

        let to_far = ["route-add", longer, &vteps[1].port, FAR.theirs[family]];
        pinged_across(&host, || drop(switch.vsctl_ok(&to_far)));
        peer.counted();
        by("longer prefix", &FAR);

        connected_across(&host, &peer, || drop(switch.vsctl_ok(&["route-del", longer])));
        peer.counted();
        by("and back", &NEAR);

        // Many packets at once for a next hop that is not known: some wait, the others are lost.
        let unknown = || {
            switch.vsctl_ok(&["tnl-neigh-flush"]);
            switch.vsctl_ok(&to_far);
        };
        connected_across(&host, &peer, unknown);
        peer.counted();
        by("next hop unknown", &FAR);
        no_checksum_errors(&host, &peer);
    }
}

/// Carries out a change in the middle of pings, of which none may be lost: they wait while the next
/// hop is asked for its address.
fn pinged_across(host: &Host, change: impl FnOnce()) {
    let pinging = host
        .ns
        .command(&["ping", "-n", "-i", "0.02", "-c", "50", "-W", "2", "10.99.0.2"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ping is installed");
    std::thread::sleep(Duration::from_millis(500));
    change();
    let pinged = pinging.wait_with_output().expect("our own child can be waited for");
    let said = String::from_utf8_lossy(&pinged.stdout);
    assert!(said.contains("50 received"), "pings were lost by the change: {said}");
}

/// Carries out a change in the middle of a connection, which must go on behind it.
fn connected_across(host: &Host, peer: &Peer, change: impl FnOnce() + Send) {
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            change();
        });
        iperf3(&peer.ns, &host.ns, "10.99.0.2", &["-t", "5"])
    });
    assert!(run.received_bps > TCP_FLOOR_BPS, "TCP across the change: {} bit/s", run.received_bps);
    let parts = run.report["intervals"].as_array().into_iter().flatten().map(|part| &part["sum"]);
    // There may be a last one of no time at all.
    let whole = parts.filter(|sum| sum["seconds"].as_f64().is_some_and(|seconds| seconds > 0.5));
    let behind = whole.filter_map(|sum| sum["bits_per_second"].as_f64()).next_back();
    assert!(behind.is_some_and(|bps| bps > TCP_FLOOR_BPS), "TCP behind the change: {behind:?} bit/s");
}
