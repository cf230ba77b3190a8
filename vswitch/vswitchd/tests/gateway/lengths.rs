//! Packets of every length in mode Shared: throughput both ways, datagrams in dozens of fragments,
//! and who is told that a packet is too long for the way.

use super::{Addresses, FAMILIES, Node, SOON, Server};
use crate::common::{ChecksumErrors, Netns, wait_for};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// The Pod's MTU; the wire has 1500.
const POD_MTU: usize = 1400;
/// A packet that the wire carries, and the Pod's link does not.
const LONG: usize = 1450;
/// MTU of a link behind the router outside, and a packet that the Pod's link carries.
const BEHIND_MTU: usize = 1300;
const SENT: usize = 1380;

const IPERF3: &str = "31749";
const ECHO: &str = "31750";

/// Answers each datagram by its length.
const ECHOES: &str = r"
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 5300))
while True:
    data, peer = s.recvfrom(65536)
    s.sendto(str(len(data)).encode(), peer)
";

/// What a program does that sends until it is told that its packets, which are not to be cut, are
/// too long: it prints the path's MTU. Or it prints that there is an answer.
const UNTIL_TOLD: &str = r"
import errno, socket, sys, time
def socket_to(six):
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(*((socket.IPPROTO_IPV6, 23) if six else (socket.IPPROTO_IP, 10)), 2)
    s.settimeout(0.3)
    return s
def until_told(s, six, size):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            s.send(b'x' * size)
            return f'answered {s.recv(65536).decode()}'
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                return s.getsockopt(*((socket.IPPROTO_IPV6, 24) if six else (socket.IPPROTO_IP, 14)))
    return 'silence'
";

/// It sends to an address.
const ASKS: &str = r"
host, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = socket_to(':' in host)
s.connect((host, port))
print(until_told(s, ':' in host, size))
";

/// It sends to the one that asks it, at this address; then a short one.
const ANSWERS: &str = r"
host, size = sys.argv[1], int(sys.argv[2])
s = socket_to(':' in host)
s.bind((host, 5301))
print('bound', flush=True)
s.settimeout(60)
_, peer = s.recvfrom(100)
s.connect(peer)
s.settimeout(0.3)
told = until_told(s, ':' in host, size)
s.send(b'short')
print(told, flush=True)
";

/// It asks once and prints the length of what it hears.
const HEARS: &str = r"
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(60)
s.connect((sys.argv[1], 5301))
s.send(b'who')
print(len(s.recv(65536)))
";

impl Addresses {
    /// Bytes of data of a datagram whose IP packet has this length.
    fn data_of(&self, packet: usize) -> String {
        (packet - if self.node.contains(':') { 48 } else { 28 }).to_string()
    }
}

fn spawn(ns: &Netns, argv: &[&str]) -> std::process::Child {
    ns.command(argv).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a program")
}

/// What a sender of packets of this length is told.
fn told(ns: &Netns, of: &Addresses, address: &str, port: &str, packet: usize) -> String {
    let script = format!("{UNTIL_TOLD}{ASKS}");
    ns.run(&["python3", "-c", &script, address, port, &of.data_of(packet)]).trim().to_owned()
}

/// Senders on the wire and on the host learn the MTU of the Pod's link, by whatever address.
fn senders_are_told(node: &Node, of: &Addresses) {
    let mtu = POD_MTU.to_string();
    // As an answer to the Pod's own connection.
    let script = format!("{UNTIL_TOLD}{ANSWERS}");
    let mut child = spawn(&node.outside, &["python3", "-c", &script, of.far, &of.data_of(LONG)]);
    let mut says = BufReader::new(child.stdout.take().expect("piped")).lines();
    let _child = Server(child);
    assert_eq!(says.next().expect("a line").expect("text"), "bound");
    let heard = node.pod.run(&["python3", "-c", HEARS, of.far]);
    assert_eq!(heard.trim(), "5", "the Pod hears the short answer alone");
    assert_eq!(says.next().expect("a line").expect("text"), mtu, "answers to a Pod");
    assert_eq!(told(&node.outside, of, of.balancer, "5300", LONG), mtu, "outside -> load balancer");
    assert_eq!(told(&node.node, of, &of.cluster_ip(10), "5300", LONG), mtu, "host -> ClusterIP");
    // What the answers have taught.
    let family = if of.node.contains(':') { "-6" } else { "-4" };
    node.outside.run(&["ip", family, "route", "flush", "cache"]);
    assert_eq!(told(&node.outside, of, of.node, ECHO, LONG), mtu, "outside -> NodePort");
    // What just fits comes there.
    let answered = format!("answered {}", of.data_of(POD_MTU));
    assert_eq!(told(&node.outside, of, of.node, ECHO, POD_MTU), answered);
    assert_eq!(told(&node.node, of, &of.cluster_ip(10), "5300", POD_MTU), answered);
}

/// A router outside tells of a link behind it: Pods and the host hear of their own packets.
fn errors_of_routers(node: &Node) {
    let behind = Netns::new("behind");
    node.outside.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
    node.outside.run(&["ip", "link", "add", "back", "type", "veth", "peer", "name", "eth0", "netns", behind.name()]);
    let mtu = BEHIND_MTU.to_string();
    for (ns, interface, last) in [(&node.outside, "back", 1), (&behind, "eth0", 9)] {
        ns.run(&["ip", "link", "set", "dev", interface, "mtu", &mtu]);
        ns.configure(interface, &[&format!("198.51.100.{last}/24"), &format!("fd00:198::{last}/64")]);
    }
    for (of, router, address) in
        [(&FAMILIES[0], "198.51.100.1", "198.51.100.9"), (&FAMILIES[1], "fd00:198::1", "fd00:198::9")]
    {
        behind.run(&["ip", "route", "add", "default", "via", router]);
        node.pod.wait_reaches(address, SOON, "Pod -> behind the router");
        assert_eq!(told(&node.pod, of, address, "9", SENT), mtu, "Pod -> {address}");
        assert_eq!(told(&node.node, of, address, "9", SENT), mtu, "host -> {address}");
    }
}

/// TCP and datagrams of 60,000 bytes between outside and the Pod, both ways.
fn throughput(node: &Node, of: &Addresses) {
    for direction in [&[][..], &["-R"]] {
        let run = |more: &[&str]| -> serde_json::Value {
            let argv = [&["timeout", "60", "iperf3", "-c", of.node, "-p", IPERF3, "-J"], more, direction];
            let text = node.outside.run(&argv.concat());
            serde_json::from_str(&text).expect("JSON")
        };
        let tcp = run(&["-n", "8M"]);
        let bytes = tcp["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
        assert!(bytes > 4 << 20, "TCP {direction:?} by {}: {bytes} bytes arrived: {tcp:#}", of.node);
        let udp = run(&["-u", "-l", "60000", "-b", "10M", "-n", "1200000"]);
        let count = |key: &str| udp["end"]["sum"][key].as_i64().unwrap_or(0);
        let arrived = count("packets") - count("lost_packets");
        assert!(arrived >= 5, "UDP {direction:?} by {}: {arrived} datagrams arrived: {udp:#}", of.node);
    }
}

#[test]
fn long_packets_and_those_that_are_too_long() {
    let mut node = Node::start(&format!("Shared, podMtu: {POD_MTU}"));
    node.tell("shared");
    node.set_up_host();
    node.pod.run(&["ip", "link", "set", "dev", &node.tap, "mtu", &POD_MTU.to_string()]);
    for argv in [&["iperf3", "-s"][..], &["python3", "-c", ECHOES]] {
        node.servers.push(Server(spawn(&node.pod, argv)));
    }
    let listen = |kind: &str, port: &str| node.pod.run(&["ss", kind, "sport", "=", port]).lines().count() == 1;
    wait_for("iperf3 listens", SOON, || listen("-Hltn", ":5201"));
    wait_for("the Pod answers datagrams", SOON, || listen("-Hlun", ":5300"));
    for of in &FAMILIES {
        node.outside.wait_reaches(of.node, SOON, "outside -> host");
        senders_are_told(&node, of);
        throughput(&node, of);
    }
    errors_of_routers(&node);
    let wire = node.switch.port("br-phy", "wire");
    assert!(wire["rx_drops"]["path_mtu"].as_u64().unwrap_or(0) > 0, "{wire:#}");
    for ns in [&node.pod, &node.node, &node.outside] {
        assert_eq!(ChecksumErrors::of(ns), ChecksumErrors::default());
    }
}
