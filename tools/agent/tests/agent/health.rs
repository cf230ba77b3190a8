//! Health check NodePorts: what load balancers hear of the agent. curl asks.

use crate::common::{NODE, files, lines, read};
use crate::double::Switch;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vswitch_agent::model::Model;
use vswitch_agent::project::{Projection, project};

/// A Service, its slices, and a port for its health check. `local` endpoints of this Node in either
/// family, ready ones.
fn service(name: &str, port: u16, local: [&[&str]; 2]) -> String {
    let slice = |family: usize| {
        let one = |address: &&str, node: &str, ready: bool| {
            format!("{{addresses: ['{address}'], nodeName: {node}, conditions: {{ready: {ready}}}}}")
        };
        let (far, ending) = [("10.10.1.13", "10.10.0.99"), ("fd00:10:10:1::13", "fd00:10:10::99")][family];
        let mut all: Vec<String> = local[family].iter().map(|address| one(address, NODE, true)).collect();
        all.push(one(&far, "k8s-node-worker-1", true));
        all.push(one(&ending, NODE, false));
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}-{family}, namespace: default, \
             labels: {{kubernetes.io/service-name: {name}}}}}\naddressType: {}\nports: [{{name: x, port: 8080, protocol: TCP}}, \
             {{name: y, port: 8081, protocol: TCP}}]\nendpoints: [{}]\n",
            ["IPv4", "IPv6"][family],
            all.join(", ")
        )
    };
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  type: LoadBalancer\n  \
         externalTrafficPolicy: Local\n  healthCheckNodePort: {port}\n  ipFamilies: [IPv4, IPv6]\n  clusterIPs: [10.96.9.{}, 'fd00:10:96::{}']\n  \
         ports: [{{name: x, port: 80, nodePort: {}}}, {{name: y, port: 81}}]\n{}{}",
        port % 250,
        port % 250,
        30_000 + port % 1000,
        slice(0),
        slice(1)
    )
}

/// The cluster's Node, with both families and NodePorts.
fn nodes() -> String {
    let nodes = files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
    let at = nodes.find("apiVersion: vswitch/v1").expect("the NodeConfig");
    format!(
        "{}apiVersion: vswitch/v1\nkind: NodeConfig\nmetadata: {{name: {NODE}}}\nspec:\n  bridge: br0\n  trafficMode: NoEncap\n  \
         families: Dual\n  gateway: {{port: antrea-gw0, mac: 'ba:5e:d1:55:aa:c0', addresses: [10.10.0.1, 'fd00:10:10::1']}}\n  \
         podCIDRs: [10.10.0.0/24, 'fd00:10:10::/64']\n  serviceCIDRs: [10.96.0.0/12, 'fd00:10:96::/64']\n  features: {{proxyAll: true}}\n",
        &nodes[..at]
    )
}

/// Ports that are free in both families.
fn free_ports<const N: usize>() -> [u16; N] {
    let held: Vec<_> =
        std::iter::from_fn(|| Some(TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a port"))).take(N).collect();
    std::array::from_fn(|at| held[at].local_addr().expect("bound").port())
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An agent that watches a directory; what it says is in `errors`.
fn agent(dir: &Path, socket: &Path, errors: &Path, more: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vswitch-agent"));
    command.arg("--dir").arg(dir).args(["--node", NODE, "--no-state", "--period-ms", "50"]).args(more);
    command.arg("--socket").arg(socket).stdin(Stdio::null());
    Running(command.stderr(fs::File::create(errors).expect("made")).spawn().expect("it runs"))
}

const HOSTS: [&str; 2] = ["127.0.0.1", "[::1]"];

/// What curl hears: status, headers in lower case, body; None: nobody is there.
fn curl(host: &str, port: u16) -> Option<(String, String, String)> {
    let url = format!("http://{host}:{port}/healthz");
    let output = Command::new("curl")
        .args(["-sS", "-i", "--noproxy", "*", "--max-time", "10", &url])
        .output()
        .expect("curl runs");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let (head, body) = said.split_once("\r\n\r\n")?;
    let (status, headers) = head.split_once("\r\n")?;
    Some((status.to_owned(), headers.to_lowercase(), body.to_owned()))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn body(name: &str, count: usize, healthy: bool) -> String {
    format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"{name}\"\n\t}},\n\t\"localEndpoints\": {count},\n\t\
         \"serviceProxyHealthy\": {healthy}\n}}"
    )
}

/// A directory with these documents beside the Node's.
fn directory(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("nodes.yaml"), nodes()).expect("written");
    tell(dir.path(), text);
    dir
}

fn tell(dir: &Path, text: &str) {
    fs::write(dir.join("new"), text).expect("written");
    fs::rename(dir.join("new"), dir.join("services.yaml")).expect("renamed");
}

/// What the Node is to know of documents that have nothing wrong.
fn projected(text: &str) -> Projection {
    let (documents, mut problems) = read("test.yaml", text);
    let (model, more) = Model::new(documents);
    problems.extend(more);
    let (projection, more) = project(&model, NODE);
    problems.extend(more);
    problems.retain(vswitch_agent::problem::Problem::is_error);
    assert_eq!(lines(&problems), [""; 0], "{text}");
    projection
}

#[test]
fn only_a_load_balancer_with_policy_local_has_one() {
    let whole = [nodes(), service("web", 30500, [&["10.10.0.1"], &[]])].concat();
    let of = |from: &str, to: &str| {
        let mut checks = projected(&whole.replacen(from, to, 1)).health_checks;
        checks.remove("default/web").map(|check| (check.port, check.local_endpoints))
    };
    assert_eq!(of("", ""), Some((30500, [Some(1), Some(0)])), "an address with two ports is one endpoint");
    assert_eq!(of("ipFamilies: [IPv4, IPv6]", "ipFamilies: [IPv4]"), Some((30500, [Some(1), None])));
    for (from, to) in [
        ("type: LoadBalancer", "type: NodePort"),
        ("externalTrafficPolicy: Local", "externalTrafficPolicy: Cluster"),
        ("healthCheckNodePort: 30500", "healthCheckNodePort: 0"),
        ("proxyAll: true", "proxyAll: false"),
    ] {
        assert_eq!(of(from, to), None, "{to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn load_balancers_are_answered_as_by_kube_proxy() {
    let switch = Switch::start().await;
    let [port, other] = free_ports();
    let all = |local: [&[&str]; 2]| [service("web", port, local), service("db", other, [&[], &[]])].concat();
    let dir = directory(&all([&["10.10.0.11", "10.10.0.12"], &["fd00:10:10::11"]]));
    let errors = dir.path().join("errors");
    let running = agent(dir.path(), switch.socket(), &errors, &[]);
    for (host, count) in HOSTS.into_iter().zip([2, 1]) {
        wait_until("a Service with local endpoints", || {
            curl(host, port).is_some_and(|(status, ..)| status == "HTTP/1.1 200 OK")
        });
        let (_, headers, said) = curl(host, port).expect("it answers");
        assert_eq!(said, body("web", count, true), "{host}");
        let weight = format!("x-load-balancing-endpoint-weight: {count}");
        for header in ["content-type: application/json", "x-content-type-options: nosniff", weight.as_str()] {
            assert!(headers.lines().any(|line| line == header), "{header}: {headers}");
        }
        let (status, headers, said) = curl(host, other).expect("it answers");
        assert_eq!((status.as_str(), said), ("HTTP/1.1 503 Service Unavailable", body("db", 0, true)), "{host}");
        assert!(headers.contains("x-load-balancing-endpoint-weight: 0"), "{headers}");
    }
    // An endpoint leaves; then the Service does.
    tell(dir.path(), &all([&["10.10.0.12"], &[]]));
    let said = |host, count, status: &str| {
        curl(host, port).is_some_and(|(head, _, said)| head.contains(status) && said == body("web", count, true))
    };
    wait_until("one endpoint has left", || said(HOSTS[0], 1, "200") && said(HOSTS[1], 0, "503"));
    // A document that goes wrong changes nothing.
    let wrong = all([&["10.10.0.12"], &[]]).replacen("ports: [{name: x, port: 80,", "ports: [] #", 1);
    tell(dir.path(), &wrong);
    wait_until("the document is told", || {
        fs::read_to_string(&errors).is_ok_and(|told| told.contains("Service default/web: spec.ports: is required"))
    });
    assert!(said(HOSTS[0], 1, "200") && said(HOSTS[1], 0, "503"), "a listener stays");
    tell(dir.path(), &service("db", other, [&[], &[]]));
    wait_until("nobody answers for a Service that is gone", || HOSTS.iter().all(|host| curl(host, port).is_none()));
    assert!(HOSTS.iter().all(|host| curl(host, other).is_some()), "the other one is there");
    drop(running);
    assert!(HOSTS.iter().all(|host| curl(host, other).is_none()), "it ends with the agent");
}

#[test]
fn a_node_whose_switch_does_not_answer_is_not_healthy() {
    let [port] = free_ports();
    let dir = directory(&service("web", port, [&["10.10.0.11"], &[]]));
    let socket = dir.path().join("socket");
    let _running = agent(dir.path(), &socket, &dir.path().join("errors"), &[]);
    let said = |healthy, status: &str| {
        curl(HOSTS[0], port).is_some_and(|(head, _, said)| head.contains(status) && said == body("web", 1, healthy))
    };
    for _ in 0..2 {
        wait_until("there is no switch", || said(false, "503"));
        // With its connections it ends with its runtime.
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let switch = runtime.block_on(Switch::start());
        symlink(switch.socket(), &socket).expect("linked");
        wait_until("the switch forwards", || said(true, "200"));
        fs::remove_file(&socket).expect("removed");
        drop(runtime);
    }
    wait_until("the switch is gone", || said(false, "503"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_not_free_is_told_and_stops_nothing() {
    let switch = Switch::start().await;
    let [port, other] = free_ports();
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("free");
    let same = service("web2", other, [&["10.10.0.11"], &[]])
        .replace("10.96.9.", "10.96.8.")
        .replace("fd00:10:96::", "fd00:10:96:0:1::");
    let same = same.replace("nodePort: ", "nodePort: 3").replace("nodePort: 330", "nodePort: 32");
    let dir = directory(
        &[service("db", port, [&["10.10.0.12"], &[]]), service("web", other, [&["10.10.0.11"], &[]]), same].concat(),
    );
    let errors = dir.path().join("errors");
    let _running = agent(dir.path(), switch.socket(), &errors, &[]);
    wait_until("the other port is served", || {
        curl(HOSTS[0], other).is_some_and(|(_, _, said)| said == body("web", 1, true))
    });
    wait_until("the other family is served", || curl(HOSTS[1], port).is_some());
    let told = fs::read_to_string(&errors).expect("readable");
    let line = |name: &str, reason: &str| {
        told.lines()
            .filter(|line| line.contains(&format!("Service default/{name}: spec.healthCheckNodePort: {reason}")))
            .count()
    };
    assert_eq!(line("db", &format!("0.0.0.0 port {port}: Address already in use")), 1, "{told}");
    assert_eq!(line("web2", &format!("{other} is that of Service default/web, too")), 1, "{told}");
    drop(taken);
    wait_until("the port is free, and served", || {
        curl(HOSTS[0], port).is_some_and(|(_, _, said)| said == body("db", 1, true))
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_say_nothing_do_not_keep_others_out() {
    let switch = Switch::start().await;
    let [port] = free_ports();
    let dir = directory(&service("web", port, [&["10.10.0.11"], &["fd00:10:10::11"]]));
    let _running = agent(dir.path(), switch.socket(), &dir.path().join("errors"), &[]);
    wait_until("it is served", || curl(HOSTS[0], port).is_some());
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(at).expect("it accepts")).collect();
    for _ in 0..3 {
        assert!(curl(HOSTS[0], port).is_some_and(|(status, ..)| status.contains("200")), "one more is answered");
    }
    // A header that is too long is refused; one that never ends has its time.
    let long = silent.last_mut().expect("one");
    let _ = long.write_all(format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(20_000)).as_bytes());
    long.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let mut said = String::new();
    let _ = long.read_to_string(&mut said);
    assert!(!said.contains("200 OK"), "{said}");
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "it is closed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_may_serve_them() {
    let switch = Switch::start().await;
    let [port] = free_ports();
    let dir = directory(&service("web", port, [&["10.10.0.11"], &[]]));
    let _running = agent(dir.path(), switch.socket(), &dir.path().join("errors"), &["--no-health-checks"]);
    wait_until("everything is told", || switch.state().gate_open);
    // Longer than the agent's period: it would be there by now.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        assert!(curl(HOSTS[0], port).is_none());
    }
}
