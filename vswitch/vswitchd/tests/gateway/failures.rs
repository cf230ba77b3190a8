//! Endpoints that move between the Pod and the host, and a switch that is stopped or killed.

use super::scenes::{asks, hears, host_and_wire};
use super::{Addresses, FAMILIES, HOLD, Held, Node, SOON};
use crate::common::wait_for;

/// A client of UDP with a port of its own. It asks until it hears something.
const DATAGRAMS: &str = r"
import socket, sys
host, port, own = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
udp = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('', own))
udp.connect((host, port))
udp.settimeout(2)
def ask():
    for _ in range(30):
        try:
            udp.send(b'?')
            return udp.recv(100).decode()
        except TimeoutError:
            pass
        except ConnectionRefusedError:
            return 'refused'
    return 'silence'
for _ in sys.stdin:
    print(ask(), flush=True)
";

/// Port of the Node at which the Service is whose endpoint moves.
const ROAMS: u16 = 30021;

/// Where its endpoint is.
#[derive(Clone, Copy)]
enum Place {
    Pod,
    Host,
    Nowhere,
}

/// The Service, its only endpoint at this place, and who may ask it.
fn roams(place: Place) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: roams, namespace: default}}\nspec:\n  type: NodePort\n  \
         clusterIPs: [\"10.96.0.21\", \"fd00:10:96::21\"]\n  ipFamilies: [IPv4, IPv6]\n  externalTrafficPolicy: Local\n  ports:\n    \
         - {{name: tcp, protocol: TCP, port: 80, targetPort: 8080, nodePort: {ROAMS}}}\n    \
         - {{name: udp, protocol: UDP, port: 80, targetPort: 8080, nodePort: {ROAMS}}}\n\
         ---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: roams, namespace: default}}\nspec:\n  \
         podSelector: {{matchLabels: {{app: web}}}}\n  policyTypes: [Ingress]\n  ingress:\n    \
         - ports: [{{protocol: UDP, port: 8080}}]\n"
    );
    for (of, family) in FAMILIES.iter().zip(["IPv4", "IPv6"]) {
        let (endpoints, port) = match place {
            Place::Pod => (format!("{{addresses: [{:?}], nodeName: node}}", of.pod), 8080),
            Place::Host => (format!("{{addresses: [{:?}], nodeName: node}}", of.node), 8081),
            Place::Nowhere => (String::new(), 8080),
        };
        text += &format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: roams-{}\n  namespace: default\n  \
             labels: {{kubernetes.io/service-name: roams}}\naddressType: {family}\nendpoints: [{endpoints}]\nports:\n  \
             - {{name: tcp, port: {port}, protocol: TCP}}\n  - {{name: udp, port: {port}, protocol: UDP}}\n",
            family.to_lowercase(),
        );
    }
    text
}

impl Node {
    fn put(&self, place: Place) {
        std::fs::write(self.dir.path().join("manifests/roams.yaml"), roams(place)).expect("a file");
        self.sync();
        self.host_is_as_planned();
    }
}

/// One socket of UDP, and new connections of TCP, find the endpoint wherever it goes, and it sees
/// the client.
fn moves(node: &Node) {
    let seen = |of: &Addresses, who: &str| format!("{who} sees {}", of.outside);
    let mut sockets = FAMILIES.map(|of| {
        let own = if of.link == 64 { "5602" } else { "5601" };
        Held::start(&node.outside, DATAGRAMS, &[of.node, &ROAMS.to_string(), own])
    });
    let places = [
        (Place::Pod, "pod"),
        (Place::Host, "host"),
        (Place::Pod, "pod"),
        (Place::Nowhere, ""),
        (Place::Host, "host"),
        (Place::Nowhere, ""),
        (Place::Pod, "pod"),
    ];
    for (i, (place, who)) in places.into_iter().enumerate() {
        node.put(place);
        for (of, socket) in FAMILIES.iter().zip(&mut sockets) {
            let what = format!("move {i}, the endpoint is at {who:?}, for {}", of.outside);
            if who.is_empty() {
                assert_eq!(socket.ask(), "refused", "UDP, {what}");
                assert_eq!(asks(&node.outside, of.node, ROAMS, &[]), Err(Some(7)), "TCP, {what}");
            } else {
                assert_eq!(socket.ask(), seen(of, who), "UDP, {what}");
                hears(&node.outside, of.node, ROAMS, &seen(of, who), &format!("TCP, {what}"));
            }
        }
    }
}

/// Connections of all kinds go on behind a stop. Behind a kill new ones are made.
fn restarts(node: &mut Node) {
    let mut held = Vec::new();
    for of in &FAMILIES {
        let outside = format!("outside sees {}", of.node);
        for (ns, to, port, wanted) in [
            (&node.node, of.far, "8080", outside.clone()),
            (&node.pod, of.far, "8080", outside),
            (&node.outside, of.node, "31746", format!("pod sees {}", of.outside)),
            (&node.outside, of.node, "30012", format!("host sees {}", of.outside)),
        ] {
            held.push((Held::start(ns, HOLD, &[to, port, "0"]), wanted, format!("{to} port {port}")));
        }
    }
    let goes_on = |held: &mut Vec<(Held, String, String)>, when: &str| {
        for (client, wanted, what) in held {
            assert_eq!(client.ask(), *wanted, "{when}: {what}");
        }
    };
    goes_on(&mut held, "before the stop");
    node.switch.terminate();
    node.back();
    goes_on(&mut held, "after a stop");
    drop(held);
    wait_for("everything is written", SOON, || !node.dir.path().join("switch/unwritten").exists());
    node.switch.kill();
    node.back();
    for of in &FAMILIES {
        host_and_wire(node, of, "after a kill");
        hears(&node.outside, of.node, 31746, &format!("pod sees {}", of.outside), "after a kill: outside -> Pod");
    }
}

impl Node {
    /// The switch is there again: what it kept is in force, and the host's agent sets up its part.
    fn back(&mut self) {
        self.switch.start_again();
        self.plug();
        // It waits for the port with the Node's MAC address.
        let opened = || self.switch.json(&["antrea", "status"])["gate_open"] == true;
        wait_for("what was in force before the stop is in force again", SOON, opened);
        self.host_is_as_planned();
    }
}

#[test]
fn a_shared_gateway_bridge_follows_endpoints_and_outlives_restarts() {
    let mut node = Node::start("Shared");
    node.tell("shared");
    node.set_up_host();
    moves(&node);
    restarts(&mut node);
}
