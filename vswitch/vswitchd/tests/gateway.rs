//! A gateway bridge in both modes: host, wire and one Pod by real kernels. An agent sets up the
//! host's side by the host plan. What is here of the host is what it has without a switch:
//! addresses of its own, and a default route.

mod failures;
mod lengths;
mod scenes;

use crate::common::{ChecksumErrors, Netns, Switch, Veth, wait_for};
use scenes::{by_the_host, endpoints_on_the_host, host_and_wire, pods_side, policies, ports, ports_of_a_pod};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const MANIFESTS: &str = include_str!("gateway.yaml");
const GATEWAY_MAC: &str = "ba:5e:d1:55:aa:c0";
const NODE_MAC: &str = "02:42:ac:12:00:03";
const POD_MAC: &str = "02:00:00:00:00:02";

/// Addresses of a family.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    /// The Node's, on the wire, and the length of the link.
    node: &'static str,
    link: u8,
    /// Another one of the host.
    other: &'static str,
    outside: &'static str,
    /// Behind `outside`.
    far: &'static str,
    gateway: &'static str,
    pod: &'static str,
    pod_length: u8,
    service_cidr: &'static str,
    balancer: &'static str,
    /// The masquerade prefix, without the last digit.
    masquerade: &'static str,
}

const FAMILIES: [Addresses; 2] = [
    Addresses {
        node: "172.18.0.3",
        link: 16,
        other: "172.20.0.2",
        outside: "172.18.0.1",
        far: "203.0.113.9",
        gateway: "10.244.1.1",
        pod: "10.244.1.3",
        pod_length: 24,
        service_cidr: "10.96.0.0/16",
        balancer: "172.18.0.10",
        masquerade: "169.254.169.",
    },
    Addresses {
        node: "fc00::3",
        link: 64,
        other: "fc20::2",
        outside: "fc00::1",
        far: "fd00:203::9",
        gateway: "fd00:10:244:1::1",
        pod: "fd00:10:244:1::3",
        pod_length: 64,
        service_cidr: "fd00:10:96::/112",
        balancer: "fc00::10",
        masquerade: "fd69::",
    },
];

impl Addresses {
    fn cluster_ip(&self, last: u8) -> String {
        let prefix = self.service_cidr.split('/').next().unwrap_or_default();
        match prefix.strip_suffix("::") {
            Some(prefix) => format!("{prefix}::{last}"),
            None => format!("{}.{last}", prefix.rsplit_once('.').unwrap_or_default().0),
        }
    }

    fn masquerade(&self, last: u8) -> String {
        format!("{}{last}", self.masquerade)
    }
}

fn url(address: &str, port: u16) -> String {
    if address.contains(':') { format!("http://[{address}]:{port}/") } else { format!("http://{address}:{port}/") }
}

/// Says who it is and whom it sees.
const SERVE: &str = r"
import http.server, socket, socketserver, sys, threading
MAPPED = '::ffff:'
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        text = f'{sys.argv[1]} sees {self.client_address[0].removeprefix(MAPPED)}\n'.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    address_family, allow_reuse_address, daemon_threads = socket.AF_INET6, True, True
def datagrams(port):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as udp:
        udp.bind(('::', port))
        while True:
            peer = udp.recvfrom(100)[1]
            udp.sendto(f'{sys.argv[1]} sees {peer[0].removeprefix(MAPPED)}'.encode(), peer)
for port in map(int, sys.argv[2:]):
    threading.Thread(target=Server(('::', port), Answer).serve_forever).start()
    threading.Thread(target=datagrams, args=(port,)).start()
";

/// A connection from a port that is held while others come: each line on standard input is a
/// request, whose answer is printed.
const HOLD: &str = r"
import http.client, sys
host, port, own = sys.argv[1:4]
connection = http.client.HTTPConnection(host, int(port), timeout=60, source_address=('', int(own)) if ':' not in host else ('::', int(own)))
for _ in sys.stdin:
    connection.request('GET', '/')
    print(connection.getresponse().read().decode().strip(), flush=True)
";

/// A child that goes with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client that a script is, which asks once for each line that it reads and prints the answer.
struct Held {
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
    _program: Server,
}

impl Held {
    fn start(ns: &Netns, script: &str, arguments: &[&str]) -> Self {
        let mut program = ns
            .command(&[&["python3", "-c", script], arguments].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program");
        let asked = program.stdin.take().expect("piped");
        let answers = BufReader::new(program.stdout.take().expect("piped"));
        Self { asked, answers, _program: Server(program) }
    }

    /// Asks, and returns what it hears; empty: the script has ended.
    fn ask(&mut self) -> String {
        self.asked.write_all(b"\n").expect("it reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }
}

/// What is declared first goes first.
struct Node {
    servers: Vec<Server>,
    switch: Switch,
    _wire: Veth,
    pod: Netns,
    outside: Netns,
    node: Netns,
    /// Interfaces of the Node: gateway, and the host's on the gateway bridge.
    gateway: String,
    phy: String,
    /// The Pod's interface.
    tap: String,
    dir: tempfile::TempDir,
}

/// The cluster, with the gateway bridge in this mode.
fn manifests(mode: &str, gateway: &str) -> String {
    MANIFESTS.replace("GATEWAY", gateway).replace("MODE", mode)
}

fn name(kind: &str) -> String {
    format!("vt{}{kind}", std::process::id())
}

impl Node {
    fn start(mode: &str) -> Self {
        let (gateway, phy, tap) = (name("g"), name("p"), name("t"));
        let (pod, node, outside) = (Netns::new("pod"), Netns::new("node"), Netns::new("outside"));
        let on_wire: Vec<String> = FAMILIES.iter().map(|of| format!("{}/{}", of.outside, of.link)).collect();
        let wire = Veth::uplink(&outside, "eth0", &on_wire.iter().map(String::as_str).collect::<Vec<_>>());
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["manifests", "switch"] {
            std::fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        let own: Vec<String> = FAMILIES.iter().map(|of| format!("{:?}", format!("{}/{}", of.node, of.link))).collect();
        let switch = Switch::start(&format!(
            "[worker]\nidle_sleep_us = 50\n\n[conntrack]\nstate_file = {:?}\n\n\
             [antrea]\nstate_dir = {:?}\n\n[[bridge]]\nname = \"br-int\"\nfail_mode = \"secure\"\n\n\
             [[bridge.port]]\nname = {gateway:?}\nnumber = 2\ntype = \"internal\"\n\n\
             [[bridge.port]]\nname = \"web\"\nnumber = 11\ntype = \"tap\"\ninterface = {tap:?}\n\n\
             [[bridge.port]]\nname = \"to-phy\"\nnumber = 3\ntype = \"patch\"\npeer = \"to-int\"\nno_flood = true\n\n\
             [[bridge]]\nname = \"br-phy\"\nfail_mode = \"standalone\"\n\n\
             [[bridge.port]]\nname = \"wire\"\nnumber = 1\ntype = \"af_packet\"\ninterface = {:?}\n\n\
             [[bridge.port]]\nname = \"to-int\"\nnumber = 2\ntype = \"patch\"\npeer = \"to-phy\"\nno_flood = true\n\n\
             [[bridge.port]]\nname = {phy:?}\nnumber = 3\ntype = \"internal\"\naddresses = [{}]\n\n",
            dir.path().join("switch/connections"),
            dir.path().join("switch"),
            wire.host(),
            own.join(", "),
        ));
        std::fs::write(dir.path().join("manifests/all.yaml"), manifests(mode, &gateway)).expect("a file");
        let mut started = Self { servers: Vec::new(), switch, _wire: wire, pod, outside, node, gateway, phy, tap, dir };
        started.plug();
        started.kernels();
        started
    }

    /// Gives the interfaces that the switch made to the Node and the Pod, with addresses, and
    /// routes: what a Node and a Pod have without an agent.
    fn plug(&self) {
        let Self { node, pod, gateway, phy, tap, .. } = self;
        for (ns, interface, mac) in [(node, gateway, GATEWAY_MAC), (node, phy, NODE_MAC), (pod, tap, POD_MAC)] {
            let made = Path::new("/sys/class/net").join(interface);
            wait_for(&format!("the switch makes {interface}"), SOON, || made.exists());
            ns.take(interface);
            ns.run(&["ip", "link", "set", "dev", interface, "address", mac]);
        }
        pod.run(&["ip", "link", "set", "dev", tap, "up"]);
        for of in FAMILIES {
            node.configure(phy, &[&format!("{}/{}", of.node, of.link)]);
            node.run(&["ip", "route", "add", "default", "via", of.outside, "src", of.node]);
            pod.configure(tap, &[&format!("{}/{}", of.pod, of.pod_length)]);
            pod.run(&["ip", "route", "add", "default", "via", of.gateway]);
        }
    }

    /// What does not go with the switch: addresses, routes, and who answers.
    fn kernels(&mut self) {
        let (node, pod, outside) = (&self.node, &self.pod, &self.outside);
        for of in FAMILIES {
            node.run(&["ip", "address", "add", of.other, "dev", "lo"]);
            outside.run(&["ip", "address", "add", of.far, "dev", "lo"]);
            outside.run(&["ip", "route", "add", of.service_cidr, "via", of.node]);
        }
        let counting = format!(
            "table inet seen {{
               counter pods {{ }}
               counter services {{ }}
               chain in {{
                 type filter hook prerouting priority -300
                 iifname {phy} tcp dport {{ 31746, 31747, 31748, 30014 }} counter name services
                 iifname {phy} ip daddr 10.244.1.0/24 counter name pods
                 iifname {gateway} ip daddr != 10.244.1.1 counter name pods
                 iifname {gateway} ip6 daddr fd00:203::/64 counter name pods
               }}
             }}",
            phy = self.phy,
            gateway = self.gateway,
        );
        node.run(&["nft", &counting]);
        for (ns, who, ports) in [(pod, "pod", "8080 8082"), (node, "host", "8081 22"), (outside, "outside", "8080")] {
            let server = ns
                .command(&["python3", "-c", SERVE, who])
                .args(ports.split(' '))
                .stdin(Stdio::null())
                .spawn()
                .expect("a program");
            self.servers.push(Server(server));
            let last = format!(":{}", ports.rsplit(' ').next().unwrap_or_default());
            let listens = || ns.run(&["ss", "-Hltn", "sport", "=", &last]).lines().count() == 1;
            wait_for(&format!("{who} listens"), SOON, listens);
        }
    }

    /// Tells the switch what the manifests say, once it knows the host's MAC address.
    fn tell(&self, mode: &str) {
        let has_mac = || self.switch.port("br-phy", &self.phy)["mac"] == NODE_MAC;
        wait_for("the switch knows the host's MAC address", SOON, has_mac);
        self.sync();
        let answered = || {
            let node = self.switch.json(&["antrea", "node"]);
            let hops = node["next_hops"].as_array().cloned().unwrap_or_default();
            hops.len() == 2 && hops.iter().all(|hop| hop["mac"].is_string())
        };
        wait_for("next hops have answered", SOON, answered);
        let status = self.switch.json(&["antrea", "status"]);
        assert_eq!(status["gate_open"], true, "{status:#}");
        let node = self.switch.json(&["antrea", "node"]);
        assert_eq!(node["node"]["uplink"]["gateway"]["mode"], mode, "nothing was left out: {node:#}");
    }

    /// Has an agent tell the switch what the manifests say now.
    fn sync(&self) {
        self.switch.told_by(&self.dir.path().join("manifests"));
    }

    /// Starts the agent of the host, and waits until the host is as planned.
    fn set_up_host(&mut self) {
        let agent = self
            .node
            .command(&[])
            .arg(Switch::agent())
            .args(["--host", "--period-ms", "300", "--state"])
            .arg(self.dir.path().join("state"))
            .arg("--socket")
            .arg(self.switch.socket())
            .stdin(Stdio::null())
            .spawn()
            .expect("a program");
        self.servers.push(Server(agent));
        self.host_is_as_planned();
    }

    /// Waits until nothing that the plan says is missing.
    fn host_is_as_planned(&self) {
        wait_for("the host is as planned", SOON, || {
            let told = self.switch.json(&["antrea", "status"])["host"].clone();
            let problems = told["problems"].as_array().cloned().unwrap_or_default();
            told["generation"].is_string() && problems.iter().all(|problem| problem["code"] == "REPAIRED")
        });
    }

    /// Packets of Pods and of their Services that the host's kernel saw since the last time.
    fn seen(&self) -> String {
        self.node.run(&["nft", "reset", "counters", "table", "inet", "seen"])
    }
}

#[test]
fn a_shared_gateway_bridge_serves_host_wire_and_pods() {
    let mut node = Node::start("Shared");
    for of in &FAMILIES {
        host_and_wire(&node, of, "before anything is told");
    }
    node.tell("shared");
    node.set_up_host();
    for of in &FAMILIES {
        host_and_wire(&node, of, "with a gateway bridge");
        node.seen();
        pods_side(&node, of);
        let seen = node.seen();
        assert_eq!(seen.matches("packets 0 bytes 0").count(), 2, "packets of Pods at the host: {seen}");
        endpoints_on_the_host(&node, of);
        ports_of_a_pod(&node, of);
        policies(&node, of);
        ports(&node, of);
    }
    for ns in [&node.pod, &node.node, &node.outside] {
        assert_eq!(ChecksumErrors::of(ns), ChecksumErrors::default());
    }
    let secure = node.switch.vsctl(&["set-fail-mode", "br-phy", "secure"]);
    assert!(String::from_utf8_lossy(&secure.stderr).contains("gateway bridge"), "{secure:?}");
    node.switch.vsctl_ok(&["antrea", "reset", "--yes"]);
    let flows = node.switch.vsctl_ok(&["dump-flows", "br-phy"]);
    assert_eq!(flows.lines().filter(|line| line.contains("actions=")).count(), 1, "only NORMAL stays: {flows}");
    for of in &FAMILIES {
        host_and_wire(&node, of, "after a reset");
    }
}

#[test]
fn a_local_gateway_bridge_has_the_host_serve_the_wire() {
    let mut node = Node::start("Local");
    node.tell("local");
    node.set_up_host();
    for of in &FAMILIES {
        host_and_wire(&node, of, "with a gateway bridge");
        by_the_host(&node, of);
        endpoints_on_the_host(&node, of);
        ports_of_a_pod(&node, of);
    }
    for ns in [&node.pod, &node.node, &node.outside] {
        assert_eq!(ChecksumErrors::of(ns), ChecksumErrors::default());
    }
}
