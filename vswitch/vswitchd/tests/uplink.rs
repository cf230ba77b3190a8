//! A Node whose network card is the switch's: its own addresses and connections go on behind an
//! internal port, `tools/uplink` moves them there and back, tunnels end at the same address.
//!
//! The Node is a namespace, vswitchd runs in it, its card is a veth to the world: a gateway, behind
//! which more addresses are.

use crate::common::{ChecksumErrors, IDLE_SLEEP, Netns, Switch, iperf3, number, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The machine may be busy with other things.
const SOON: Duration = Duration::from_secs(60);
/// Far above what a connection does that lives on retransmissions: workers of a busy machine may
/// stand still for a second.
const TCP_FLOOR_BPS: f64 = 1e6;

const NODE: [&str; 2] = ["192.168.77.1", "fd77::1"];
const GATEWAY: [&str; 2] = ["192.168.77.254", "fd77::fe"];
/// Behind the gateway: reached by the default route.
const FAR: [&str; 2] = ["198.51.100.7", "2001:db8::7"];

/// Sends back what it gets.
const ECHO: &str = "
import socket, threading
def serve(peer):
    while data := peer.recv(65536):
        peer.sendall(data)
listener = socket.create_server(('::', 2222), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

/// Sends lines and prints what comes back, on one connection.
const SAY: &str = "
import socket, sys
stream = socket.create_connection((sys.argv[1], 2222)).makefile('rw')
for line in sys.stdin:
    stream.write(line); stream.flush()
    print(stream.readline(), end='', flush=True)
";

/// A DHCP server's part: answers one broadcast with another.
const OFFER: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'eth0')
s.bind(('0.0.0.0', 67))
data, peer = s.recvfrom(2000)
s.sendto(b'offer for ' + data, ('255.255.255.255', 68))
";

/// A DHCP client's part: from an unspecified address to everybody, until somebody answers.
const DISCOVER: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[1].encode())
s.settimeout(1)
s.bind(('0.0.0.0', 68))
for _ in range(20):
    s.sendto(b'me', ('255.255.255.255', 67))
    try:
        print(s.recvfrom(2000)[0].decode())
        break
    except TimeoutError:
        pass
";

/// A program in a namespace; ends with this value.
struct Program(Child);

impl Program {
    fn start(ns: &Netns, argv: &[&str]) -> Self {
        let mut command = ns.command(argv);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().expect("ip can be started"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A TCP connection that is kept, as ssh does.
struct Session {
    what: String,
    program: Program,
    lines: Receiver<String>,
    said: u32,
}

impl Session {
    fn open(from: &Netns, to: &str) -> Self {
        let mut program = Program::start(from, &["python3", "-c", SAY, to]);
        let (sender, lines) = channel();
        let stdout = program.0.stdout.take().expect("piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut session = Self { what: format!("{} to {to}", from.name()), program, lines, said: 0 };
        session.goes_on("as it begins");
        session
    }

    /// Says something on the connection and waits for the answer.
    fn goes_on(&mut self, when: &str) {
        self.said += 1;
        let line = format!("line {} {when}", self.said);
        writeln!(self.program.0.stdin.as_mut().expect("piped"), "{line}").expect("the program reads");
        let answer = self.lines.recv_timeout(2 * SOON);
        let answer = answer.unwrap_or_else(|error| panic!("{}: no answer {when}: {error}", self.what));
        assert_eq!(answer, line, "{}", self.what);
    }
}

/// The Node and its world, with what each needs before there is a switch.
struct Site {
    node: Netns,
    world: Netns,
    state: tempfile::TempDir,
}

impl Site {
    fn new(mtu: u32) -> Self {
        let (node, world) = (Netns::new("node"), Netns::new("world"));
        let eth0 = ["type", "veth", "peer", "name", "eth0", "netns", world.name()];
        node.run(&[&["ip", "link", "add", "name", "eth0"], &eth0[..]].concat());
        for (ns, own) in [(&node, NODE), (&world, GATEWAY)] {
            ns.run(&["ip", "link", "set", "dev", "eth0", "mtu", &mtu.to_string()]);
            ns.configure("eth0", &[&format!("{}/24", own[0]), &format!("{}/64", own[1])]);
        }
        node.run(&["ip", "-4", "route", "add", "default", "via", GATEWAY[0], "metric", "100"]);
        node.run(&["ip", "-6", "route", "add", "default", "via", GATEWAY[1]]);
        world.configure("lo", &[&format!("{}/32", FAR[0]), &format!("{}/128", FAR[1])]);
        Self { node, world, state: tempfile::tempdir().expect("a directory") }
    }

    /// Runs `tools/uplink` in the Node.
    fn uplink(&self, args: &[&str]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/uplink");
        let state = format!("VSWITCH_UPLINK_DIR={}", self.state.path().display());
        self.node.run(&[&["env", &state, script.to_str().expect("UTF-8")], args].concat())
    }

    /// Opens connections both ways, over IPv4 and IPv6, near and far.
    fn sessions(&self) -> (Vec<Program>, Vec<Session>) {
        let servers = [&self.node, &self.world].map(|ns| Program::start(ns, &["python3", "-c", ECHO]));
        for ns in [&self.node, &self.world] {
            wait_for("the echo server listens", SOON, || !ns.run(&["ss", "-Hltn", "sport", "=", ":2222"]).is_empty());
        }
        let inwards = NODE.map(|address| Session::open(&self.world, address));
        let outwards = FAR.map(|address| Session::open(&self.node, address));
        (servers.into(), inwards.into_iter().chain(outwards).collect())
    }

    /// Waits until the Node and the world answer each other.
    fn wait_reachable(&self, when: &str) {
        for (from, to) in [(&self.world, NODE), (&self.node, FAR)] {
            for address in to {
                from.wait_reaches(address, SOON, when);
            }
        }
    }

    /// What a Node does with its network, and that nothing does it twice.
    fn works(&self, sessions: &mut [Session], interface: &str, when: &str) {
        self.wait_reachable(when);
        for session in &mut *sessions {
            session.goes_on(when);
        }
        // Who is who is asked anew: ARP and neighbour discovery.
        for ns in [&self.node, &self.world] {
            ns.run(&["ip", "neigh", "flush", "all"]);
        }
        for (from, to) in [(&self.world, NODE), (&self.node, GATEWAY), (&self.node, FAR)] {
            for address in to {
                answers(from, address, &[], when);
            }
        }
        let mut server = Program::start(&self.world, &["python3", "-c", OFFER]);
        wait_for("the server listens", SOON, || !self.world.run(&["ss", "-Hlun", "sport", "=", ":67"]).is_empty());
        let offered = self.node.run(&["python3", "-c", DISCOVER, interface]);
        assert_eq!(offered.trim(), "offer for me", "{when}: broadcasts");
        server.0.wait().expect("it ends by itself");
        for session in sessions {
            session.goes_on(when);
        }
        for ns in [&self.node, &self.world] {
            assert_eq!(ChecksumErrors::of(ns), ChecksumErrors::default(), "{when}: wrong checksums in {}", ns.name());
        }
    }
}

/// Five echo requests are answered within half a minute, and none twice. (Without `-w`, ping takes
/// for lost what takes longer than twice what the others took; with it, it asks on until it has
/// five answers.)
fn answers(from: &Netns, address: &str, more: &[&str], when: &str) {
    let text = from.run(&[&["ping", "-n", "-i", "0.05", "-c", "5", "-w", "30"], more, &[address]].concat());
    assert!(!text.contains("duplicates"), "{when}: {address} from {}: {text}", from.name());
}

/// The configuration of docs/tunnels-and-uplink.md: the card and the Node's own port on one bridge.
fn configuration(mtu: u32, more: &str) -> String {
    format!(
        "[[bridge]]\nname = \"br-ex\"\nfail_mode = \"standalone\"\n\n\
         [[bridge.port]]\nname = \"uplink\"\nnumber = 1\ntype = \"af_packet\"\ninterface = \"eth0\"\nmtu = {mtu}\n\n\
         [[bridge.port]]\nname = \"br-ex\"\ntype = \"internal\"\nqueues = 2\nmtu = {mtu}\n{more}\n"
    )
}

#[test]
fn the_nodes_connections_go_on_when_its_card_is_taken_and_given_back() {
    let site = Site::new(1500);
    let (_servers, mut sessions) = site.sessions();
    let mac = site.node.run(&["cat", "/sys/class/net/eth0/address"]);
    let mut switch = Switch::start_in(&site.node, &configuration(1500, ""));
    site.uplink(&["take", "eth0", "br-ex"]);
    assert_eq!(site.node.run(&["cat", "/sys/class/net/br-ex/address"]), mac);
    assert!(!site.node.run(&["ip", "address", "show", "dev", "eth0"]).contains("inet"), "the card has an address");
    site.works(&mut sessions, "br-ex", "behind a learning bridge");

    switch.vsctl_ok(&["set-fail-mode", "br-ex", "secure"]);
    switch.vsctl_ok(&["add-flow", "br-ex", "table=0,priority=0,actions=NORMAL"]);
    site.works(&mut sessions, "br-ex", "behind NORMAL");

    // As Antrea does it: what is not for Pods goes between uplink and host as it is.
    let flows =
        "table=0,priority=200,in_port=1,actions=output:LOCAL\ntable=0,priority=200,in_port=LOCAL,actions=output:1\n";
    let replaced = switch.vsctl_with(&["replace-flows", "br-ex", "-"], Some(flows));
    assert!(replaced.status.success(), "{replaced:?}");
    site.works(&mut sessions, "br-ex", "behind flows between uplink and host");
    for port in ["uplink", "br-ex"] {
        let port = switch.port("br-ex", port);
        assert!(number(&port, "rx_packets") > 50 && number(&port, "tx_packets") > 50, "{port:#}");
    }

    // It ends, starts, and is killed.
    assert!(switch.terminate().success());
    site.uplink(&["back", "eth0"]);
    site.works(&mut sessions, "eth0", "after the switch ended");
    let default = site.node.run(&["ip", "route", "show", "default"]);
    assert!(default.contains("via 192.168.77.254 dev eth0 metric 100"), "{default}");
    switch.start_again();
    site.uplink(&["take", "eth0", "br-ex"]);
    site.works(&mut sessions, "br-ex", "after it started again");
    switch.kill();
    site.uplink(&["back", "eth0"]);
    site.works(&mut sessions, "eth0", "after it was killed");
    let left = site.node.run(&["nft", "list", "ruleset"]);
    assert!(left.trim().is_empty(), "left behind: {left}");
}

#[test]
fn tunnels_end_at_the_nodes_address_and_the_rest_reaches_the_node() {
    let site = Site::new(1500);
    // A checksum that the kernel leaves to a wire is that of the packet inside the tunnel, which a
    // packet socket's header cannot say.
    site.world.run(&["ethtool", "-K", "eth0", "tx", "off"]);
    let (_servers, mut sessions) = site.sessions();
    let pod = Netns::new("pod");
    let tunnel = |name: &str, remote: &str, key: &str| {
        format!(
            "[[bridge.port]]\nname = {name:?}\ntype = \"vxlan\"\noptions = {{ remote_ip = {remote:?}, key = {key:?} }}\n\n"
        )
    };
    let own = format!("addresses = [\"{}/24\", \"{}/64\"]", NODE[0], NODE[1]);
    let overlay = "[[bridge]]\nname = \"br-int\"\nfail_mode = \"standalone\"\n\n\
                   [[bridge.port]]\nname = \"pod0\"\ntype = \"tap\"\ninterface = \"pod0\"\n\n";
    let config = [&configuration(1500, &own), overlay, &tunnel("tun", GATEWAY[0], "7")].concat();
    let switch = Switch::start_in(&site.node, &config);
    site.uplink(&["take", "eth0", "br-ex"]);
    site.node.run(&["ip", "link", "set", "dev", "pod0", "netns", pod.name()]);
    pod.run(&["ip", "link", "set", "dev", "pod0", "mtu", "1400"]);
    pod.configure("pod0", &["10.99.0.1/24", "fd99::1/64"]);
    let link = ["type", "vxlan", "id", "7", "remote", NODE[0], "dstport", "4789", "dev", "eth0"];
    site.world.run(&[&["ip", "link", "add", "tun0"], &link[..]].concat());
    site.world.run(&["ip", "link", "set", "dev", "tun0", "mtu", "1400"]);
    site.world.configure("tun0", &["10.99.0.2/24", "fd99::2/64"]);

    for address in ["10.99.0.2", "fd99::2"] {
        pod.wait_reaches(address, SOON, "through the tunnel");
        answers(&pod, address, &["-s", "1200"], "through the tunnel");
        let run = iperf3(&site.world, &pod, address, &[]);
        assert!(run.received_bps > TCP_FLOOR_BPS, "TCP to {address} through the tunnel: {} bit/s", run.received_bps);
    }
    // The Node itself, at the same address, at the same time.
    site.works(&mut sessions, "br-ex", "beside tunnels");
    for address in FAR {
        let run = iperf3(&site.world, &site.node, address, &[]);
        assert!(run.received_bps > TCP_FLOOR_BPS, "TCP of the Node to {address}: {} bit/s", run.received_bps);
    }
    // Nothing of the tunnel came to the Node's stack: it would have had no socket for it.
    let udp = site.node.run(&["nstat", "-asz", "UdpNoPorts", "UdpInDatagrams"]);
    let no_ports = udp.lines().find_map(|line| line.strip_prefix("UdpNoPorts")).expect("a counter");
    assert_eq!(no_ports.split_whitespace().next(), Some("0"), "{udp}");
    let port = switch.port("br-int", "tun");
    assert!(number(&port, "rx_packets") > 100 && number(&port, "tx_packets") > 100, "{port:#}");
    // Of a tunnel that we have not, it is the Node's to say so.
    site.world.run(&["ip", "link", "set", "dev", "tun0", "down"]);
    site.world.run(&["ip", "link", "delete", "tun0"]);
    let other = ["type", "vxlan", "id", "9", "remote", NODE[0], "dstport", "4790", "dev", "eth0"];
    site.world.run(&[&["ip", "link", "add", "tun1"], &other[..]].concat());
    site.world.configure("tun1", &["10.98.0.2/24"]);
    wait_for("the Node's stack gets what is for no tunnel of ours", SOON, || {
        site.world.exec(&["ping", "-n", "-c", "1", "-W", "1", "-b", "10.98.0.255"]);
        let udp = site.node.run(&["nstat", "-asz", "UdpNoPorts"]);
        let seen = udp
            .lines()
            .find_map(|line| line.strip_prefix("UdpNoPorts"))
            .and_then(|rest| rest.split_whitespace().next());
        seen.is_some_and(|n| n != "0")
    });
}

/// A connection of jumbo frames goes both ways; `what` names it.
fn jumbo(from: &Netns, to: &Netns, address: &str, what: &str) {
    let header = if address.contains(':') { 48 } else { 28 };
    answers(from, address, &["-M", "do", "-s", &(9000 - header).to_string()], what);
    for direction in [&[][..], &["-R"]] {
        let run = iperf3(to, from, address, direction);
        assert!(run.received_bps > TCP_FLOOR_BPS, "{what} {direction:?}: {} bit/s", run.received_bps);
        let run = iperf3(to, from, address, &[&["-u", "-b", "5M", "-n", "300K", "-l", "8900"], direction].concat());
        assert!(run.lost_percent < 5.0, "{what}, UDP {direction:?}: {} % lost", run.lost_percent);
    }
}

/// A second switch, in the world. What is tagged 100 goes on by a TAP, tag and all, and across a
/// bridge of the kernel to a veth pair. By a packet socket on that it comes back into the switch,
/// to a host port without the tag. So every kind of port of the kernel carries tags. (A kernel need
/// not have VLAN interfaces.)
fn world_behind_a_trunk(site: &Site) -> Switch {
    let port = |name: &str, number: u32, device: &str| {
        format!("[[bridge.port]]\nname = {name:?}\nnumber = {number}\nmtu = 9000\ntype = {device}\n\n")
    };
    let config = [
        IDLE_SLEEP,
        "[[bridge]]\nname = \"outer\"\nfail_mode = \"standalone\"\n\n",
        &port("wire", 1, "\"af_packet\"\ninterface = \"eth0\""),
        &port("trunk", 2, "\"tap\"\ninterface = \"trunk\"\nqueues = 2"),
        "[[bridge]]\nname = \"inner\"\n\n",
    ];
    let switch = Switch::start_in(&site.world, &config.concat());
    site.world.run(&["ip", "address", "flush", "dev", "eth0"]);
    let middle = [
        "link add name middle type bridge",
        "link add name far0 type veth peer name far1",
        "link set dev trunk master middle",
        "link set dev far0 master middle",
    ];
    for words in middle {
        site.world.run(&[&["ip"][..], &words.split(' ').collect::<Vec<_>>()].concat());
    }
    for interface in ["far0", "far1", "middle"] {
        site.world.run(&["ip", "link", "set", "dev", interface, "mtu", "9000", "up"]);
    }
    for interface in ["eth0", "trunk", "far0", "far1", "middle"] {
        site.world.run(&["ip", "link", "set", "dev", interface, "arp", "off"]);
        site.world.run(&["sysctl", "-qw", &format!("net.ipv6.conf.{interface}.disable_ipv6=1")]);
    }
    for (name, arguments) in [
        ("far", &["--number", "1", "--type", "af_packet", "--interface", "far1"][..]),
        ("world0", &["--number", "2", "--type", "internal"]),
    ] {
        switch.vsctl_ok(&[&["add-port", "inner", name, "--mtu", "9000"], arguments].concat());
    }
    switch.vsctl_ok(&["add-flow", "inner", "in_port=1,dl_vlan=100,actions=pop_vlan,output:2"]);
    switch.vsctl_ok(&["add-flow", "inner", "in_port=2,actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:1"]);
    site.world.configure("world0", &[&format!("{}/24", GATEWAY[0]), &format!("{}/64", GATEWAY[1])]);
    switch
}

#[test]
fn tags_and_jumbo_frames_cross_uplink_and_host_port() {
    let site = Site::new(9000);
    let near = Switch::start_in(&site.node, &[IDLE_SLEEP, &configuration(9000, "")].concat());
    site.uplink(&["take", "eth0", "br-ex"]);
    site.wait_reachable("in jumbo frames");
    for address in GATEWAY {
        jumbo(&site.node, &site.world, address, &format!("untagged, {address}"));
    }
    let far = world_behind_a_trunk(&site);
    let flows = "in_port=LOCAL,actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:1\n\
                 in_port=1,dl_vlan=100,actions=pop_vlan,output:LOCAL\n";
    near.vsctl_ok(&["set-fail-mode", "br-ex", "secure"]);
    let replaced = near.vsctl_with(&["replace-flows", "br-ex", "-"], Some(flows));
    assert!(replaced.status.success(), "{replaced:?}");
    site.node.run(&["ip", "neigh", "flush", "all"]);
    site.wait_reachable("behind a trunk");
    for address in GATEWAY {
        jumbo(&site.node, &site.world, address, &format!("tagged, {address}"));
    }
    let known = far.json(&["fdb-show", "outer"]);
    let tagged = known.as_array().expect("an array").iter().filter(|entry| entry["vlan"] == 100).count();
    assert_eq!(tagged, 2, "the Node and the world have addresses in VLAN 100: {known:#}");
    for ns in [&site.node, &site.world] {
        assert_eq!(ChecksumErrors::of(ns), ChecksumErrors::default(), "wrong checksums in {}", ns.name());
    }
    for (switch, bridge, ports) in
        [(&near, "br-ex", ["uplink", "br-ex"]), (&far, "outer", ["wire", "trunk"]), (&far, "inner", ["far", "world0"])]
    {
        for port in ports.map(|port| switch.port(bridge, port)) {
            assert!(number(&port, "rx_packets") > 1000 && number(&port, "tx_packets") > 1000, "{port:#}");
            for reason in ["oversize", "vnet_header", "segmentation", "tx_error"] {
                let drops = [&port["rx_drops"][reason], &port["tx_drops"][reason]];
                assert!(drops.iter().all(|n| n.as_u64().unwrap_or(0) == 0), "{reason}: {port:#}");
            }
        }
    }
}
