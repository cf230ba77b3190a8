//! Tunnels that Pods make themselves (kind, k3s, Docker in a Pod), through the switch: their kernel
//! leaves segmentation and checksums of what is inside to whoever sends on, and nobody in between
//! knows the tunnel.

use crate::common::{Host, Switch, Wire, everything, number, run, wait_for};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// A device of a Pod's kernel, and whether it is over IPv6. `@REMOTE@` and `@LOCAL@` are the ends.
const TUNNELS: [(&str, &str, bool); 12] = [
    ("vxlan", "vxlan id 5 remote @REMOTE@ local @LOCAL@ dstport 4789 dev @DEV@ noudpcsum", false),
    ("vxlan, checksum", "vxlan id 5 remote @REMOTE@ local @LOCAL@ dstport 8472 dev @DEV@ udpcsum", false),
    (
        "vxlan over IPv6",
        "vxlan id 5 remote @REMOTE@ local @LOCAL@ dstport 4789 dev @DEV@ udp6zerocsumtx udp6zerocsumrx",
        true,
    ),
    ("vxlan over IPv6, checksum", "vxlan id 5 remote @REMOTE@ local @LOCAL@ dstport 4789 dev @DEV@", true),
    ("geneve", "geneve id 5 remote @REMOTE@", false),
    ("geneve, checksum", "geneve id 5 remote @REMOTE@ udpcsum", false),
    ("geneve over IPv6", "geneve id 5 remote @REMOTE@", true),
    ("gretap", "gretap remote @REMOTE@ local @LOCAL@ key 7", false),
    ("gretap, checksum", "gretap remote @REMOTE@ local @LOCAL@ csum", false),
    ("ip6gretap", "ip6gretap remote @REMOTE@ local @LOCAL@", true),
    ("ipip", "ipip remote @REMOTE@ local @LOCAL@", false),
    ("ip6tnl", "ip6tnl mode any remote @REMOTE@ local @LOCAL@", true),
];

/// tcpdump of what an interface of a Pod receives, which the switch has made whole.
struct Inbound {
    child: Child,
    dir: tempfile::TempDir,
}

impl Inbound {
    fn start(host: &Host) -> Self {
        let dir = tempfile::Builder::new().prefix("vswitch-capture-").tempdir().expect("a temporary directory");
        let log = std::fs::File::create(dir.path().join("log")).expect("a log");
        let child = host
            .ns
            .command(&["tcpdump", "-i", &interface(host)])
            .args(["-Q", "in", "-s", "0", "-B", "16384"])
            .args(["--immediate-mode", "-U", "-Z", "root", "-c", "3000", "-w"])
            .arg(dir.path().join("wire.pcap"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("tcpdump is installed (tools/setup)");
        let inbound = Self { child, dir };
        wait_for("tcpdump listens", SOON, || {
            std::fs::read_to_string(inbound.dir.path().join("log")).is_ok_and(|log| log.contains("listening on"))
        });
        inbound
    }

    /// Ends it. Segments of TCP in a tunnel were there, none of them longer than the MTU, and each
    /// checksum in them is right.
    fn stop(mut self, what: &str) {
        // It may have ended by itself, with 3000 packets.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).stderr(Stdio::null()).status();
        wait_for("tcpdump ends", SOON, || self.child.try_wait().expect("our own child").is_some());
        let file = self.dir.path().join("wire.pcap");
        let file = file.to_str().expect("UTF-8");
        let options = "ip.check_checksum:TRUE tcp.check_checksum:TRUE udp.check_checksum:TRUE";
        let ask = |filter: &str| {
            let mut words = vec!["tshark", "-n", "-r", file, "-d", "udp.port==8472,vxlan"];
            words.extend(options.split(' ').flat_map(|option| ["-o", option]));
            words.extend(["-Y", filter, "-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message"]);
            run(&words).lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let segments =
            ask("tcp.len > 1000 && (vxlan || geneve || gre || ip.proto == 4 || ipv6.nxt == 4 || ipv6.nxt == 41)");
        assert!(segments.len() > 50, "{what}: {} segments in the tunnel", segments.len());
        assert_eq!(ask("frame.len > 1514"), [""; 0], "{what}: too long");
        // What needed no cutting may still have a partial outer checksum, which no wire has seen.
        let wrong = "tcp.len > 1000 && (ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 \
                     || gre.checksum.status == 0)";
        // Linux writes 0 as all ones for every protocol (`skb_checksum_help`), at which tshark
        // wonders.
        let wrong =
            ask(wrong).into_iter().filter(|line| !line.contains("0xffff instead of 0x0000")).collect::<Vec<_>>();
        assert_eq!(wrong, [""; 0], "{what}: wrong checksums");
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two hosts, wired so, on a bridge.
fn pair(a: Wire, b: Wire) -> (Host, Host, Switch) {
    let (a, b) = (Host::new(a, 1), Host::new(b, 2));
    let bridge = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";
    let switch = Switch::start(&[bridge, &a.config(1), &b.config(2)].concat());
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    b.wait_reaches(&a);
    (a, b, switch)
}

/// The interface of a host that has no tunnel yet.
fn interface(host: &Host) -> String {
    let links = host.ns.run(&["ip", "-br", "link"]);
    let mut names = links.lines().filter_map(|line| line.split(['@', ' ']).next());
    // Some kernels make devices of their own in each namespace.
    names.rfind(|name| name.starts_with("eth") || name.starts_with("vt")).expect("an interface").to_owned()
}

/// Gives both hosts the device; false where this kernel does not know it.
fn tunnel(a: &Host, b: &Host, device: &str, v6: bool) -> bool {
    for (own, other, last) in [(a, b, 1), (b, a, 2)] {
        let (local, remote) = if v6 { (&own.v6, &other.v6) } else { (&own.v4, &other.v4) };
        let device = device.replace("@REMOTE@", remote).replace("@LOCAL@", local).replace("@DEV@", &interface(own));
        let words = [&["ip", "link", "add", "tun9", "type"][..], &device.split(' ').collect::<Vec<_>>()].concat();
        let made = own.ns.exec(&words);
        let text = String::from_utf8_lossy(&made.stderr).into_owned();
        if text.contains("Unknown device type") {
            return false;
        }
        assert!(made.status.success(), "{device}: {text}");
        own.ns.run(&["ip", "link", "set", "dev", "tun9", "mtu", "1350"]);
        let addresses: &[&str] = &[&format!("10.88.0.{last}/24"), &format!("fd88::{last}/64")];
        // IPv4 in IPv4 has no IPv6 inside.
        own.ns.configure("tun9", if device.starts_with("ipip") { &addresses[..1] } else { addresses });
    }
    true
}

/// Everything crosses each kind of tunnel that this kernel has, and VXLAN is one of them.
fn all_tunnels(a: Wire, b: Wire) {
    let (a, b, switch) = pair(a, b);
    let idle = switch.mbufs_in_use();
    let mut done = Vec::new();
    for (name, device, v6) in TUNNELS {
        if !tunnel(&a, &b, device, v6) {
            continue;
        }
        let inbound = [Inbound::start(&a), Inbound::start(&b)];
        let families: &[(&str, &str)] = &[("10.88.0.1", "10.88.0.2"), ("fd88::1", "fd88::2")];
        a.ns.wait_reaches(families[0].1, SOON, name);
        // Until both had the tunnel, each packet without a checksum was a wrong one.
        let before = [&a, &b].map(Host::checksum_errors);
        for (own, other) in if name == "ipip" { &families[..1] } else { families } {
            a.ns.wait_reaches(other, SOON, name);
            everything((&a.ns, own), (&b.ns, other));
        }
        inbound.into_iter().for_each(|inbound| inbound.stop(name));
        for (host, before) in [&a, &b].into_iter().zip(before) {
            let port = switch.port("br0", &host.port);
            assert_eq!(port["rx_drops"]["vnet_header"].as_u64().unwrap_or(0), 0, "{name}: {port:#}");
            assert_eq!(port["tx_drops"]["segmentation"].as_u64().unwrap_or(0), 0, "{name}: {port:#}");
            assert!(number(&port, "rx_packets") > 100, "{name}: {port:#}");
            assert_eq!(host.checksum_errors(), before, "{name}: at port {}", host.port);
        }
        for host in [&a, &b] {
            host.ns.run(&["ip", "link", "delete", "tun9"]);
        }
        done.push(name);
    }
    assert!(done.iter().filter(|name| name.starts_with("vxlan")).count() == 4, "only {done:?}");
    wait_for("mbufs come back", SOON, || switch.mbufs_in_use() <= idle);
}

#[test]
fn pods_on_veth_pairs_talk_in_tunnels_of_their_own() {
    all_tunnels(Wire::AfPacket, Wire::AfPacket);
}

#[test]
fn a_pod_on_a_veth_pair_and_one_on_a_tap_talk_in_tunnels_of_their_own() {
    all_tunnels(Wire::AfPacket, Wire::Tap);
}
