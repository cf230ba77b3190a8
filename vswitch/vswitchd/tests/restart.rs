//! A switch that is stopped, or killed, and started again: connections through a Service go on, and
//! nothing passes that policies deny.
//!
//! A Node of Antrea's kind with four Pods, as `vswitch-agent` tells the switch of it: two that
//! serve, a client that may ask them, and one that may not. The agent runs once at the start; what
//! is in force after a restart is what the switch kept.

use crate::common::{Netns, Switch, Veth, number, wait_for};
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// MAC address of the gateway: where Pods send what is not for a Pod.
const GATEWAY: &str = "ba:5e:d1:55:aa:c0";

/// The Service, by family.
const SERVICE: [&str; 2] = ["10.96.0.10", "fd00:10:96::10"];

/// Name, last part of the addresses, port number.
const PODS: [(&str, u8, u32); 4] = [("client", 10, 11), ("one", 21, 12), ("two", 22, 13), ("evil", 66, 14)];

/// Says its name and the number of each line that it gets.
const SERVE: &str = "
import socket, sys, threading
name = sys.argv[1]
def talk(peer):
    for line in peer.makefile('r'):
        peer.sendall(f'{name} {line}'.encode())
def serve(family, address):
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind((address, 8080))
    listener.listen()
    while True:
        threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=serve, args=(socket.AF_INET, '0.0.0.0'), daemon=True).start()
serve(socket.AF_INET6, '::')
";

/// Sends numbered lines on one connection, and prints who answered which; ends at the first wrong
/// one.
const ASK: &str = "
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 80), timeout=60)
answers = peer.makefile('r')
for number in range(1_000_000):
    peer.sendall(f'{number}\\n'.encode())
    line = answers.readline().split()
    if len(line) != 2 or line[1] != str(number):
        sys.exit(f'{number}: {line}')
    print(line[0], number, flush=True)
    time.sleep(0.02)
";

/// Sends what is denied, without end: first segments, segments of nothing, datagrams.
const STORM: &str = "
import socket, sys, time
targets = [(socket.AF_INET, sys.argv[1]), (socket.AF_INET6, sys.argv[2])]
while True:
    for family, address in targets:
        with socket.socket(family, socket.SOCK_STREAM) as tcp, socket.socket(family, socket.SOCK_DGRAM) as udp:
            tcp.setblocking(False)
            try:
                tcp.connect_ex((address, 8080))
                udp.sendto(b'x', (address, 8080))
            except OSError:
                pass
            time.sleep(0.01)
";

/// Prints a line for each source that it sees, the first time, and one for each packet of one of
/// these.
const SNIFF: &str = "
import socket, sys
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
denied = {socket.inet_pton(socket.AF_INET, sys.argv[1]), socket.inet_pton(socket.AF_INET6, sys.argv[2])}
seen = set()
print('ready', flush=True)
while True:
    frame, where = sniffer.recvfrom(2048)
    if where[2] == socket.PACKET_OUTGOING:
        continue
    kind = frame[12:14]
    source = frame[26:30] if kind == b'\\x08\\x00' else frame[22:38] if kind == b'\\x86\\xdd' else b''
    if source in denied:
        print('denied', frame.hex(), flush=True)
    elif source not in seen:
        seen.add(source)
        print('seen', source.hex(), flush=True)
";

/// A program in a namespace, with its output in a file. It ends with this.
struct Program {
    child: Child,
    output: tempfile::NamedTempFile,
}

impl Program {
    fn start(ns: &Netns, argv: &[&str]) -> Self {
        let output = tempfile::NamedTempFile::new().expect("a file");
        let both = || Stdio::from(output.reopen().expect("a file"));
        let to = fs::File::options().append(true).open(output.path()).expect("a file");
        let child = ns
            .command(&[&["python3", "-u", "-c"], argv].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::from(to))
            .stderr(both())
            .spawn()
            .expect("a program");
        Self { child, output }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.output.path()).expect("text")
    }

    fn lines(&self) -> usize {
        self.said().lines().count()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Pod {
    ns: Netns,
    veth: Veth,
    name: &'static str,
    last: u8,
}

impl Pod {
    fn addresses(&self) -> [String; 2] {
        addresses(self.last)
    }
}

fn addresses(last: u8) -> [String; 2] {
    [format!("10.10.0.{last}"), format!("fd00:10:10::{last}")]
}

fn mac(last: u8) -> String {
    format!("0a:00:00:00:00:{last:02x}")
}

/// The Node.
struct Node {
    pods: Vec<Pod>,
    dir: tempfile::TempDir,
    switch: Switch,
}

impl Node {
    /// All of it, but told of nothing.
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["manifests", "state"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        fs::write(dir.path().join("manifests/all.yaml"), manifests()).expect("a file");
        let pods: Vec<Pod> = PODS
            .iter()
            .map(|&(name, last, _)| {
                let ns = Netns::new(name);
                let veth = Veth::new(&ns, "eth0");
                Pod { ns, veth, name, last }
            })
            .collect();
        let ports: String = pods
            .iter()
            .zip(PODS)
            .map(|(pod, (name, _, number))| {
                let interface = pod.veth.host();
                format!("[[bridge.port]]\nname = {name:?}\nnumber = {number}\ntype = \"af_packet\"\ninterface = {interface:?}\n\n")
            })
            .collect();
        let state = dir.path().join("state");
        let config = format!(
            "[conntrack]\nconnections = 65536\nstate_file = {:?}\n\n[antrea]\nstate_dir = {state:?}\n\n\
             [[bridge]]\nname = \"br-int\"\nfail_mode = \"secure\"\n\n\
             [[bridge.port]]\nname = \"gw{}\"\nnumber = 2\ntype = \"internal\"\n\n{ports}",
            state.join("connections"),
            std::process::id(),
        );
        let node = Self { pods, dir, switch: Switch::start(&config) };
        node.pods.iter().for_each(|pod| node.attach(pod));
        node
    }

    /// Addresses and neighbours: nothing has to be asked for.
    fn attach(&self, pod: &Pod) {
        let [v4, v6] = pod.addresses();
        pod.ns.run(&["ip", "link", "set", "dev", "eth0", "address", &mac(pod.last)]);
        pod.ns.run(&["ethtool", "-K", "eth0", "tx", "off"]);
        pod.ns.configure("eth0", &[&format!("{v4}/24"), &format!("{v6}/64")]);
        let mut neighbours =
            vec![("10.10.0.1".to_owned(), GATEWAY.to_owned()), ("fd00:10:10::1".to_owned(), GATEWAY.to_owned())];
        for (_, last, _) in PODS.iter().filter(|(_, last, _)| *last != pod.last) {
            neighbours.extend(addresses(*last).map(|address| (address, mac(*last))));
        }
        for (address, mac) in neighbours {
            pod.ns.run(&["ip", "neigh", "replace", &address, "lladdr", &mac, "dev", "eth0", "nud", "permanent"]);
        }
        pod.ns.run(&["ip", "route", "add", "default", "via", "10.10.0.1"]);
        pod.ns.run(&["ip", "-6", "route", "add", "default", "via", "fd00:10:10::1"]);
    }

    fn pod(&self, name: &str) -> &Pod {
        self.pods.iter().find(|pod| pod.name == name).expect("a Pod")
    }

    /// Tells the switch what the manifests say, once.
    fn tell(&self) {
        self.switch.told_by(&self.dir.path().join("manifests"));
    }

    fn status(&self) -> (bool, bool) {
        let status = self.switch.json(&["antrea", "status"]);
        (status["gate_open"] == true, status["restored"] == true)
    }

    fn connections(&self) -> u64 {
        number(&self.switch.json(&["ct-counters-show"]), "connections")
    }

    /// One connection for each family.
    fn ask(&self) -> Vec<Program> {
        let client = &self.pod("client").ns;
        SERVICE.iter().map(|address| Program::start(client, &[ASK, address])).collect()
    }
}

/// `gw`: an interface of the host's, so it has a name of its own.
fn manifests() -> String {
    let pods: String = PODS
        .iter()
        .map(|(name, last, _)| {
            let [v4, v6] = addresses(*last);
            let app = if matches!(*name, "one" | "two") { "web" } else { name };
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: default\n  labels: {{app: {app}}}\n  \
                 annotations: {{vswitch/port: {name}, vswitch/mac: {:?}}}\nspec: {{nodeName: node}}\n\
                 status:\n  podIPs: [{{ip: {v4:?}}}, {{ip: {v6:?}}}]\n---\n",
                mac(*last)
            )
        })
        .collect();
    let slice = |family: &str, which: usize| {
        let ends: String = [21, 22]
            .iter()
            .map(|last| format!("  - {{addresses: [{:?}], nodeName: node}}\n", addresses(*last)[which]))
            .collect();
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: web-{which}\n  namespace: default\n  \
             labels: {{kubernetes.io/service-name: web}}\naddressType: {family}\nports:\n  - {{name: http, protocol: TCP, port: 8080}}\nendpoints:\n{ends}---\n"
        )
    };
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: default}}\n---\n\
         apiVersion: v1\nkind: Node\nmetadata: {{name: node}}\nspec:\n  podCIDRs: [\"10.10.0.0/24\", \"fd00:10:10::/64\"]\n\
         status:\n  addresses: [{{type: InternalIP, address: 192.168.77.102}}, {{type: InternalIP, address: \"fd00:192:168:77::102\"}}]\n---\n\
         apiVersion: vswitch/v1\nkind: NodeConfig\nmetadata: {{name: node}}\nspec:\n  bridge: br-int\n  trafficMode: NoEncap\n  \
         transportAddresses: [\"192.168.77.102/24\", \"fd00:192:168:77::102/64\"]\n  \
         gateway:\n    port: gw{}\n    mac: {GATEWAY}\n    addresses: [\"10.10.0.1\", \"fd00:10:10::1\"]\n  \
         serviceCIDRs: [\"10.96.0.0/12\", \"fd00:10:96::/64\"]\n---\n{pods}\
         apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: default}}\nspec:\n  clusterIPs: [{:?}, {:?}]\n  ipFamilies: [IPv4, IPv6]\n  \
         ports: [{{name: http, protocol: TCP, port: 80, targetPort: 8080}}]\n---\n{}{}\
         apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: web, namespace: default}}\nspec:\n  \
         podSelector: {{matchLabels: {{app: web}}}}\n  policyTypes: [Ingress]\n  ingress:\n    - from: [{{podSelector: {{matchLabels: {{app: client}}}}}}]\n      \
         ports: [{{protocol: TCP, port: 8080}}]\n",
        std::process::id(),
        SERVICE[0],
        SERVICE[1],
        slice("IPv4", 0),
        slice("IPv6", 1),
    )
}

/// Waits until so many more lines are there.
fn goes_on(programs: &[Program], what: &str) {
    for program in programs {
        let before = program.lines();
        wait_for(&format!("{what}: {}", program.said().lines().last().unwrap_or("nothing yet")), SOON, || {
            program.lines() >= before + 20
        });
    }
}

#[test]
fn connections_through_a_service_survive_a_restart_and_denied_pairs_stay_denied() {
    let mut node = Node::start();
    node.tell();
    assert_eq!(node.status(), (true, false));
    let servers: Vec<Program> =
        ["one", "two"].map(|name| Program::start(&node.pod(name).ns, &[SERVE, name])).into_iter().collect();
    let [evil4, evil6] = addresses(66);
    let sniffers = ["one", "two"].map(|name| Program::start(&node.pod(name).ns, &[SNIFF, &evil4, &evil6]));
    for (name, sniffer) in ["one", "two"].iter().zip(&sniffers) {
        wait_for("a sniffer", SOON, || sniffer.lines() > 0);
        wait_for("a server", SOON, || {
            node.pod(name).ns.run(&["ss", "-Hltn", "sport", "=", ":8080"]).lines().count() == 2
        });
    }
    let [one4, one6] = addresses(21);
    let storm = Program::start(&node.pod("evil").ns, &[STORM, &one4, &one6]);
    let asked = node.ask();
    goes_on(&asked, "before the stop");
    let denied_before = node.switch.port("br-int", "evil")["rx_packets"].as_u64().unwrap_or(0);
    assert!(denied_before > 0, "evil sends nothing: {}", storm.said());

    // A clean stop, twice: nobody tells the switch anything again.
    for _ in 0..2 {
        let before = node.connections();
        assert!(before >= 2, "{before}");
        node.switch.terminate();
        node.switch.start_again();
        assert_eq!(node.status(), (true, true), "{}", node.switch.log());
        assert!(node.connections() >= 2, "{}", node.switch.log());
        goes_on(&asked, "after a stop");
    }
    for program in &asked {
        let said = program.said();
        let names: std::collections::HashSet<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names.len(), 1, "another endpoint answered:\n{said}");
        assert!(["one", "two"].contains(names.iter().next().expect("a name")), "{said}");
    }
    node.tell();
    assert_eq!(node.status(), (true, false), "an agent has synced");
    goes_on(&asked, "after a sync");
    drop(asked);

    // Killed, with everything written: policies are in force at once, connections begin anew.
    wait_for("everything is written", SOON, || !node.dir.path().join("state/unwritten").exists());
    node.switch.kill();
    node.switch.start_again();
    assert_eq!(node.status(), (true, true), "{}", node.switch.log());
    goes_on(&node.ask(), "after a kill");

    // Killed with answered calls that are not written: nothing passes until an agent has synced.
    node.switch.kill();
    fs::write(node.dir.path().join("state/unwritten"), "").expect("a mark");
    node.switch.start_again();
    assert_eq!(node.status(), (false, false), "{}", node.switch.log());
    let asked = node.ask();
    std::thread::sleep(Duration::from_secs(2));
    assert!(asked.iter().all(|program| program.lines() == 0), "the gate is shut: {}", asked[0].said());
    node.tell();
    assert_eq!(node.status(), (true, false));
    goes_on(&asked, "after a sync opened the gate");

    let evil = number(&node.switch.port("br-int", "evil"), "rx_packets");
    assert!(evil > 0, "evil was silent in the end: {}", storm.said());
    let seen: String = sniffers.iter().map(Program::said).collect();
    assert!(!seen.contains("denied"), "{seen}");
    for client in addresses(10) {
        let address: std::net::IpAddr = client.parse().expect("an address");
        let octets = match address {
            std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
            std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        assert!(seen.contains(&format!("seen {hex}\n")), "the sniffers see nothing of {client}: {seen}");
    }
    drop(servers);
    for line in node.switch.log().lines().filter(|line| line.contains("took_ms")) {
        println!("{line}");
    }
}
