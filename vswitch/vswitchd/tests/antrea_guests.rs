//! A Linux guest in QEMU, on a vhost-user port with all its offloads, as a Pod of a Node of
//! Antrea's kind, which `vswitch-agent` tells a real `vswitchd` of: Services that it serves and
//! asks, and policies that bind it.

use crate::common::{ChecksumErrors, Guest, Netns, Nic, Switch, number, wait_for};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const MANIFESTS: &str = include_str!("antrea_guests.yaml");
const GATEWAY_MAC: &str = "ba:5e:d1:55:aa:c0";
const VIRTUAL_MAC: &str = "aa:bb:cc:dd:ee:ff";
const POD_MAC: &str = "02:00:00:00:00:02";
/// Of the Service that the guest serves.
const NODE_PORT: u16 = 30080;

/// Addresses of a family, as URLs have them.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    gateway: &'static str,
    vm: &'static str,
    pod: &'static str,
    /// Of the Services.
    to_vm: &'static str,
    to_pod: &'static str,
    to_either: &'static str,
    to_nobody: &'static str,
    balancer: &'static str,
    external: &'static str,
    /// Where the Node's kernel finds Services.
    services: [&'static str; 4],
    virtual_service: &'static str,
    /// Of the Node, and what its kernel would translate that to for NodePorts.
    node_ports: [&'static str; 2],
    /// A host behind the Node.
    outside: &'static str,
    length: u8,
}

const FAMILIES: [Addresses; 2] = [
    Addresses {
        gateway: "10.10.0.1",
        vm: "10.10.0.21",
        pod: "10.10.0.22",
        to_vm: "10.96.0.21",
        to_pod: "10.96.0.22",
        to_either: "10.96.0.23",
        to_nobody: "10.96.0.24",
        balancer: "192.168.77.150",
        external: "192.168.77.151",
        services: ["10.96.0.0/12", "192.168.77.150/32", "192.168.77.151/32", "169.254.0.252/32"],
        virtual_service: "169.254.0.253",
        node_ports: ["192.168.77.102", "169.254.0.252"],
        outside: "203.0.113.9",
        length: 24,
    },
    Addresses {
        gateway: "fd00:10:10::1",
        vm: "fd00:10:10::21",
        pod: "fd00:10:10::22",
        to_vm: "fd00:10:96::21",
        to_pod: "fd00:10:96::22",
        to_either: "fd00:10:96::23",
        to_nobody: "fd00:10:96::24",
        balancer: "fd00:192:168:77::150",
        external: "fd00:192:168:77::151",
        services: [
            "fd00:10:96::/64",
            "fd00:192:168:77::150/128",
            "fd00:192:168:77::151/128",
            "fc01::aabb:ccdd:eefe/128",
        ],
        virtual_service: "fc01::aabb:ccdd:eeff",
        node_ports: ["fd00:192:168:77::102", "fc01::aabb:ccdd:eefe"],
        outside: "fd00:203::9",
        length: 64,
    },
];

fn url(address: &str, port: u16, path: &str) -> String {
    if address.contains(':') {
        format!("http://[{address}]:{port}/{path}")
    } else {
        format!("http://{address}:{port}/{path}")
    }
}

/// Says whom it sees, or sends a file.
const SERVE: &str = r"
import http.server, socket, socketserver, threading
FILE = bytes(range(256)) * 12000
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen = self.client_address[0].removeprefix('::ffff:')
        text = FILE if self.path == '/file' else f'pod sees {seen}\n'.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    address_family, allow_reuse_address, daemon_threads = socket.AF_INET6, True, True
for port in (8080, 8081, 8082):
    threading.Thread(target=Server(('::', port), Answer).serve_forever).start()
";

/// The Node. (What is declared first goes first.)
struct Node {
    vm: Guest,
    switch: Switch,
    server: Child,
    pod: Netns,
    node: Netns,
    dir: tempfile::TempDir,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Node {
    fn start() -> Self {
        let (gateway, tap) = (format!("vt{}g", std::process::id()), format!("vt{}t", std::process::id()));
        let (pod, node) = (Netns::new("pod"), Netns::new("node"));
        let switch = Switch::start(&format!(
            "[[bridge]]\nname = \"br-int\"\nfail_mode = \"secure\"\n\n\
             [[bridge.port]]\nname = {gateway:?}\nnumber = 2\ntype = \"internal\"\n\n\
             [[bridge.port]]\nname = \"pod\"\nnumber = 11\ntype = \"tap\"\ninterface = {tap:?}\n\n\
             [[bridge.port]]\nname = \"vm\"\nnumber = 12\ntype = \"vhost-user\"\npath = \"@DIR@/vm.sock\"\n\n",
        ));
        // It boots meanwhile.
        let vm = Guest::start("vm", &[Nic::new(&switch.dir().join("vm.sock"), [0, 1])]);
        for (ns, interface, mac) in [(&node, &gateway, GATEWAY_MAC), (&pod, &tap, POD_MAC)] {
            let made = Path::new("/sys/class/net").join(interface);
            wait_for(&format!("the switch makes {interface}"), SOON, || made.exists());
            ns.take(interface);
            ns.run(&["ip", "link", "set", "dev", interface, "address", mac]);
        }
        node.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
        for of in FAMILIES {
            let on_link = |address: &str| format!("{address}/{}", of.length);
            node.configure(&gateway, &[&on_link(of.gateway)]);
            pod.configure(&tap, &[&on_link(of.pod)]);
            pod.run(&["ip", "route", "add", "default", "via", of.gateway]);
            node.run(&["ip", "address", "add", of.outside, "dev", "lo"]);
            let neighbour = ["ip", "neigh", "replace", of.virtual_service, "lladdr", VIRTUAL_MAC, "dev", &gateway];
            node.run(&[&neighbour[..], &["nud", "permanent"]].concat());
            node.run(&["ip", "route", "add", of.virtual_service, "dev", &gateway]);
            for services in of.services {
                node.run(&["ip", "route", "add", services, "via", of.virtual_service, "dev", &gateway, "onlink"]);
            }
        }
        let server = pod.command(&["python3", "-c", SERVE]).stdin(Stdio::null()).spawn().expect("a program");
        pod.run(&["sh", "-c", "iperf3 -s -D"]);
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("all.yaml"), MANIFESTS.replace("GATEWAY", &gateway)).expect("a file");
        let mut node = Self { vm, switch, server, pod, node, dir };
        node.tell();
        node.attach();
        node
    }

    /// Tells the switch what the manifests say.
    fn tell(&self) {
        self.switch.told_by(self.dir.path());
    }

    /// The guest's addresses, and what answers there: whom it sees, and a file.
    fn attach(&mut self) {
        self.vm.wait_until_ready();
        for of in FAMILIES {
            self.vm.configure("eth0", &[&format!("{}/{}", of.vm, of.length)]);
            self.vm.run(&format!("ip route add default via {}", of.gateway));
        }
        let answer = "mkdir -p /tmp/www/cgi-bin && cd /tmp/www && head -c 3000000 /dev/urandom >file \
                      && printf '#!/bin/busybox sh\\necho; echo vm sees $REMOTE_ADDR | sed -e s/::ffff:// -e s/[][]//g\\n' >cgi-bin/who && chmod 755 cgi-bin/who";
        self.vm.run(answer);
        for port in [8080, 8081, 8082] {
            self.vm.run(&format!("httpd -p {port} -h /tmp/www"));
        }
        for of in FAMILIES {
            let (vm, pod) = (&mut self.vm, &self.pod);
            vm.wait_reaches(of.pod, SOON);
            vm.wait_reaches(of.gateway, SOON);
            let listens = || pod.run(&["ss", "-Hltn", "sport", "=", ":8082"]).lines().count() == 1;
            wait_for("pod's server", SOON, listens);
        }
    }

    /// What the guest hears when it asks; what is wrong else.
    fn vm_asks(&mut self, url: &str) -> Result<String, String> {
        let (success, text) = self.vm.exec(&format!("timeout 2 wget -q -O - {url}"));
        if success { Ok(text.trim().to_owned()) } else { Err(text) }
    }

    /// Segments of TCP that the guest has got.
    fn segments(&mut self) -> u64 {
        let text = self.vm.run("nstat -asz TcpInSegs");
        let count =
            text.lines().find_map(|line| line.strip_prefix("TcpInSegs")?.split_whitespace().next()?.parse().ok());
        count.unwrap_or_else(|| panic!("nstat says nothing of segments: {text}"))
    }

    /// How much larger than a segment packets were that came in by a port since.
    fn mean_len(&self, port: &str, before: (u64, u64)) -> u64 {
        let (packets, bytes) = self.received(port);
        (bytes - before.1) / (packets - before.0).max(1)
    }

    fn received(&self, port: &str) -> (u64, u64) {
        let port = self.switch.port("br-int", port);
        (number(&port, "rx_packets"), number(&port, "rx_bytes"))
    }

    /// What was counted for a rule, by its policy and how it begins.
    fn counted(&self, policy: &str, which: &str) -> Value {
        let rules = self.switch.json(&["antrea", "rules", "--policy", policy]);
        let is_it = |rule: &&Value| rule["id"] == which || rule["name"] == which;
        let found = rules.as_array().and_then(|rules| rules.iter().find(is_it));
        found.unwrap_or_else(|| panic!("policy {policy} has no rule {which}: {rules:#}"))["statistics"].clone()
    }
}

/// What a namespace hears when it asks; the exit status of curl else: 7 refused, 28 silence.
fn asks(ns: &Netns, url: &str, more: &[&str]) -> Result<String, Option<i32>> {
    let answer = ns.exec(&[&["curl", "-gsS", "-m", "2"], more, &[url]].concat());
    let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if answer.status.success() { Ok(text) } else { Err(answer.status.code()) }
}

/// What pod and outside ask the guest, and what it asks them. Returns how many connections pod was
/// allowed.
fn services(node: &mut Node, of: Addresses) -> u64 {
    let vm_sees = |address: &str| format!("vm sees {address}");
    let pod_sees = |address: &str| format!("pod sees {address}");
    let who = "cgi-bin/who";
    assert_eq!(asks(&node.pod, &url(of.vm, 8080, who), &[]).as_deref(), Ok(&*vm_sees(of.pod)), "pod -> vm");
    assert_eq!(
        asks(&node.pod, &url(of.to_vm, 80, who), &[]).as_deref(),
        Ok(&*vm_sees(of.pod)),
        "pod -> ClusterIP -> vm"
    );
    assert_eq!(node.vm_asks(&url(of.pod, 8080, "")).as_deref(), Ok(&*pod_sees(of.vm)), "vm -> pod");
    assert_eq!(node.vm_asks(&url(of.to_pod, 80, "")).as_deref(), Ok(&*pod_sees(of.vm)), "vm -> ClusterIP -> pod");
    // Its answer comes back to it only if it sees somebody else.
    assert_eq!(node.vm_asks(&url(of.to_vm, 80, who)).as_deref(), Ok(&*vm_sees(of.gateway)), "vm -> ClusterIP -> vm");
    assert_eq!(
        asks(&node.node, &url(of.to_vm, 80, who), &[]).as_deref(),
        Ok(&*vm_sees(of.gateway)),
        "Node -> ClusterIP -> vm"
    );
    let outside = ["--interface", of.outside];
    for (address, kind) in [(of.balancer, "LoadBalancer"), (of.external, "external IP")] {
        let heard = asks(&node.node, &url(address, 80, who), &outside);
        assert_eq!(heard.as_deref(), Ok(&*vm_sees(of.outside)), "outside -> {kind} -> vm");
    }
    let heard = asks(&node.pod, &url(of.external, 80, who), &[]);
    assert_eq!(heard.as_deref(), Ok(&*vm_sees(of.pod)), "pod -> external IP -> vm");
    let [own, translated] = of.node_ports;
    assert_eq!(
        asks(&node.node, &url(translated, NODE_PORT, who), &outside).as_deref(),
        Ok(&*vm_sees(of.outside)),
        "outside -> NodePort -> vm"
    );
    assert_eq!(
        asks(&node.pod, &url(own, NODE_PORT, who), &[]).as_deref(),
        Ok(&*vm_sees(of.pod)),
        "pod -> NodePort -> vm"
    );
    assert!(node.segments() > 0, "the guest counts what comes");
    // A connection of TCP says who measures what, datagrams follow.
    let measured = node.vm.run(&format!("timeout 10 iperf3 -c {} -u -k 100 -l 1200 -b 5M -J", of.to_pod));
    let measured: Value = serde_json::from_str(&measured).expect("iperf3 prints JSON");
    let (sent, lost) = (number(&measured["end"]["sum"], "packets"), number(&measured["end"]["sum"], "lost_packets"));
    assert!(sent >= 100 && lost < sent / 2, "UDP, vm -> ClusterIP -> pod: {:#}", measured["end"]);

    // Both ways through Services, translated and in large segments.
    let (vm, pod) = (node.received("vm"), node.received("pod"));
    let file = node.vm.run("sha256sum </tmp/www/file");
    let fetch = format!("curl -gsS -m 30 '{}' | sha256sum", url(of.to_vm, 80, "file"));
    assert_eq!(node.pod.run(&["sh", "-c", &fetch]), file, "pod fetches through ClusterIP what vm has");
    let here = node.pod.run(&["sh", "-c", "curl -s http://127.0.0.1:8080/file | sha256sum"]);
    let fetch = format!("timeout 30 wget -q -O - {} | sha256sum", url(of.to_pod, 80, "file"));
    assert_eq!(node.vm.run(&fetch), here, "vm fetches through ClusterIP what pod has");
    let (from_vm, from_pod) = (node.mean_len("vm", vm), node.mean_len("pod", pod));
    assert!(
        from_vm > 3000 || from_pod > 3000,
        "vm: {from_vm}, pod: {from_pod} bytes per packet: nothing was sent for segmentation"
    );
    5
}

/// The guest, and the Node, stay with the endpoint that answered them first, be it the guest or
/// pod.
fn affinity(node: &mut Node, of: Addresses) {
    let either = url(of.to_either, 80, "cgi-bin/who");
    let first = node.vm_asks(&either).expect("an answer");
    // The other endpoint is as likely each time.
    for _ in 0..7 {
        assert_eq!(node.vm_asks(&either).as_deref(), Ok(&*first), "vm -> ClusterIP -> either");
    }
    let first = asks(&node.node, &either, &[]).expect("an answer");
    for _ in 0..7 {
        assert_eq!(asks(&node.node, &either, &[]).as_deref(), Ok(&*first), "Node -> ClusterIP -> either");
    }
}

/// What policies refuse and drop. Returns how many connections Reject has refused in each
/// direction.
fn denials(node: &mut Node, of: Addresses) -> u64 {
    let before = node.segments();
    for (address, port, what) in [(of.vm, 8081, "pod -> vm"), (of.to_vm, 81, "pod -> ClusterIP -> vm")] {
        assert_eq!(asks(&node.pod, &url(address, port, ""), &[]), Err(Some(7)), "{what} is refused");
    }
    assert_eq!(asks(&node.pod, &url(of.vm, 8082, ""), &[]), Err(Some(28)), "pod -> vm is silence");
    assert_eq!(node.segments(), before, "what is denied reached the guest");
    let nobody = (of.to_nobody, 80, "vm -> ClusterIP without endpoints");
    for (address, port, what) in [(of.pod, 8081, "vm -> pod"), (of.to_pod, 81, "vm -> ClusterIP -> pod"), nobody] {
        let heard = node.vm_asks(&url(address, port, "")).expect_err("it is refused");
        assert!(heard.contains("Connection refused"), "{what}: {heard}");
    }
    let heard = node.vm_asks(&url(of.pod, 8082, "")).expect_err("it is silence");
    assert!(!heard.contains("wget:"), "wget is ended, and has heard nothing until then: vm -> pod: {heard}");
    2
}

#[test]
fn a_guest_is_a_pod_with_services_and_policies() {
    let mut node = Node::start();
    let refused: u64 = FAMILIES.into_iter().map(|of| denials(&mut node, of)).sum();
    let allowed: u64 = FAMILIES.into_iter().map(|of| services(&mut node, of)).sum();
    FAMILIES.into_iter().for_each(|of| affinity(&mut node, of));
    let by_pod = node.counted("np:default/vm", "ingress-0");
    assert_eq!(by_pod["sessions"], allowed, "{by_pod}");
    assert!(number(&by_pod, "packets") > 6 * allowed && number(&by_pod, "bytes") > 6_000_000, "{by_pod}");
    assert_eq!(node.counted("np:default/vm", "ingress-1")["sessions"], 3 * FAMILIES.len() as u64, "from outside");
    // Without it DropPassed would decide, before the policy of K8s.
    let passed = node.counted("acnp:first", "PassPod");
    assert!(number(&passed, "packets") >= allowed, "PassPod: {passed}");
    assert_eq!(node.counted("acnp:vm", "DropPassed")["packets"], 0, "what was passed on");
    for rule in ["RefuseIn", "RefuseOut"] {
        let counted = node.counted("acnp:vm", rule);
        assert!(number(&counted, "rejects_sent") >= refused, "{rule}: {counted}");
        assert_eq!(
            (&counted["rejects_sent"], &counted["sessions"]),
            (&counted["packets"], &0.into()),
            "{rule}: {counted}"
        );
    }
    let dropped = node.counted("acnp:vm", "DropOut");
    assert!(number(&dropped, "packets") >= 2 && dropped["rejects_sent"] == 0, "{dropped}");
    assert_eq!(node.vm.receive_errors(), [""; 0]);
    for ns in [&node.pod, &node.node] {
        assert_eq!(ChecksumErrors::of(ns), ChecksumErrors::default());
    }
}
