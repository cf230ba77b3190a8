//! Pods with limits (`kubernetes.io/ingress-bandwidth`, `kubernetes.io/egress-bandwidth`): two Pods
//! on veth pairs with the kernel's own offloads, and an agent that reads manifests.

use crate::common::{Host, Netns, Switch, Wire, interface_name, iperf3, number};
use serde_json::Value;
use std::path::Path;

/// Bits per second of the limits.
const RATE: f64 = 100e6;
/// What is sent against them.
const FLOOD: &str = "300M";

const MANIFESTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: v1
kind: Node
metadata: {name: node}
spec: {podCIDR: 10.99.0.0/24, podCIDRs: ["10.99.0.0/24", "fd99::/64"]}
status: {addresses: [{type: InternalIP, address: 192.168.77.102}, {type: InternalIP, address: "fd77::2"}]}
---
apiVersion: vswitch/v1
kind: NodeConfig
metadata: {name: node}
spec:
  bridge: br0
  trafficMode: NoEncap
  gateway: {port: GATEWAY}
"#;

/// Two Pods and a switch.
struct Node {
    switch: Switch,
    pods: [Host; 2],
    gateway: String,
    dir: tempfile::TempDir,
}

fn mac(at: usize) -> String {
    format!("02:00:00:00:99:{:02x}", at + 2)
}

impl Node {
    fn start() -> Self {
        let pods = [2, 3].map(|index| Host::new(Wire::AfPacket, index));
        let gateway = interface_name('g');
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("switch");
        let manifests = dir.path().join("manifests");
        for made in [&state, &manifests] {
            std::fs::create_dir(made).expect("a directory");
        }
        let mut config = format!(
            "[worker]\nidle_sleep_us = 50\n\n[antrea]\nstate_dir = {state:?}\n\n[[bridge]]\nname = \"br0\"\n\
             fail_mode = \"secure\"\n\n[[bridge.port]]\nname = {gateway:?}\nnumber = 2\ntype = \"internal\"\n\n"
        );
        config.extend(pods.iter().zip(11..).map(|(pod, number)| pod.config(number)));
        let switch = Switch::start(&config);
        for (at, pod) in pods.iter().enumerate() {
            pod.ns.run(&["ip", "link", "set", "dev", "eth0", "address", &mac(at)]);
            pod.attach();
        }
        Self { switch, pods, gateway, dir }
    }

    /// Has an agent tell the switch of the Pods; the first one has these annotations.
    fn told(&self, annotations: &[(&str, &str)]) {
        let mut text = MANIFESTS.replace("GATEWAY", &self.gateway);
        for (at, pod) in self.pods.iter().enumerate() {
            let more = annotations.iter().filter(|_| at == 0);
            let more: String =
                more.map(|(name, value)| format!(", kubernetes.io/{name}-bandwidth: {value:?}")).collect();
            text += &format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{at}, namespace: default, annotations: {{vswitch/port: \
                 {}, vswitch/mac: {:?}{more}}}}}\nspec: {{nodeName: node, containers: [{{name: c}}]}}\n\
                 status: {{podIPs: [{{ip: {}}}, {{ip: {:?}}}]}}\n",
                pod.port,
                mac(at),
                pod.v4,
                pod.v6
            );
        }
        let manifests = self.dir.path().join("manifests");
        std::fs::write(manifests.join("all.yaml"), text).expect("a file");
        self.switch.told_by(Path::new(&manifests));
    }

    /// The first Pod, as the switch shows it.
    fn shown(&self) -> Value {
        let pods = self.switch.json(&["antrea", "pods"]);
        let found = pods.as_array().and_then(|pods| pods.iter().find(|pod| pod["name"] == "default/p0"));
        found.cloned().unwrap_or_else(|| panic!("no Pod: {pods:#}"))
    }

    fn dropped(&self, limit: &str) -> u64 {
        number(&self.shown()[limit]["dropped"], "packets")
    }

    /// Where a limit counts: server, client, address of the server.
    fn way(&self, limit: &str) -> (&Netns, &Netns, &str) {
        let [first, second] = &self.pods;
        if limit == "egress_bandwidth" {
            (&second.ns, &first.ns, &second.v4)
        } else {
            (&first.ns, &second.ns, &first.v4)
        }
    }

    /// Bits per second of a second of datagrams that arrive.
    fn flood(&self, limit: &str) -> f64 {
        let (server, client, address) = self.way(limit);
        iperf3(server, client, address, &["-u", "-b", FLOOD, "-l", "1200"]).received_bps
    }
}

/// Datagrams arrive at the rate, and what comes at once beside it: a quarter of a second's. Its
/// meter counts the rest. TCP comes near the rate.
#[test]
fn a_pod_receives_and_sends_no_faster_than_its_limits() {
    let node = Node::start();
    node.told(&[]);
    let [first, second] = &node.pods;
    first.wait_reaches(second);
    assert_eq!((&node.shown()["ingress_bandwidth"], &node.shown()["egress_bandwidth"]), (&Value::Null, &Value::Null));
    node.told(&[("ingress", "100M"), ("egress", "100M")]);
    for limit in ["ingress_bandwidth", "egress_bandwidth"] {
        let before = node.dropped(limit);
        let bps = node.flood(limit);
        assert!((0.9 * RATE..1.5 * RATE).contains(&bps), "{limit}: {bps} bit/s of datagrams");
        assert!(node.dropped(limit) > before, "{limit}: {:#}", node.shown());
        let (server, client, address) = node.way(limit);
        let run = iperf3(server, client, address, &["-t", "3"]);
        assert!((0.7 * RATE..1.3 * RATE).contains(&run.received_bps), "{limit}: {} bit/s of TCP", run.received_bps);
    }
    // By name, at the ports that the packets came in by: both Pods have sent too much.
    for pod in &node.pods {
        let drops = &node.switch.port("br0", &pod.port)["rx_drops"];
        assert!(number(drops, "meter") > 0, "{}: {drops}", pod.port);
    }
}

/// A rate that changes keeps its meter; one that goes takes it along; a restart brings both back.
#[test]
fn limits_change_in_place_and_outlive_a_restart() {
    let mut node = Node::start();
    node.told(&[("egress", "20M")]);
    let [first, second] = &node.pods;
    first.wait_reaches(second);
    let meter = node.shown()["egress_bandwidth"]["meter"].clone();
    assert_eq!(meter, 1024, "{:#}", node.shown());
    node.told(&[("egress", "50M"), ("ingress", "1G")]);
    assert_eq!(node.shown()["egress_bandwidth"]["meter"], meter);
    let bps = node.flood("egress_bandwidth");
    assert!((0.9 * 50e6..1.5 * 50e6).contains(&bps), "{bps} bit/s");
    node.switch.kill();
    node.switch.start_again();
    node.told(&[("egress", "50M"), ("ingress", "1G")]);
    assert_eq!(node.shown()["egress_bandwidth"]["meter"], meter);
    let [first, second] = &node.pods;
    first.wait_reaches(second);
    let bps = node.flood("egress_bandwidth");
    assert!((0.9 * 50e6..1.5 * 50e6).contains(&bps), "{bps} bit/s after a restart");
    node.told(&[]);
    assert_eq!(node.shown()["egress_bandwidth"], Value::Null);
    let meters = node.switch.vsctl_ok(&["dump-meters", "br0"]);
    assert!(!meters.contains("meter=1024"), "{meters}");
    let bps = node.flood("egress_bandwidth");
    assert!(bps > 150e6, "{bps} bit/s without a limit");
}
