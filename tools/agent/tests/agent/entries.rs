//! One entry of a document is wrong: it has no effect and is told, the rest is in force.

use crate::common::{NODE, endpoints, object};
use crate::dual::Scene;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Kind};

const SERVICE: &str = "apiVersion: v1
kind: Service
metadata: {name: s, namespace: prod}
spec:
  clusterIPs: [10.96.0.77]
  ports: [{name: http, port: 80}]
";

fn slice(name: &str, endpoints: &str, ports: &str) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}, namespace: prod, \
         labels: {{kubernetes.io/service-name: s}}}}\naddressType: IPv4\nendpoints: [{endpoints}]\nports: [{ports}]\n"
    )
}

const HTTP: &str = "{name: http, port: 8080}";

#[test]
fn an_endpoint_or_port_of_a_slice_that_is_wrong_is_left_out_and_told_of_the_slice() {
    let of = |address: &str| format!("{{addresses: [{address}]}}");
    let good = slice("s1", &of("10.10.0.13"), HTTP);
    let bad = ["10.10.0.1333", "x", "224.0.0.1", "0.0.0.0", "127.0.0.1", "255.255.255.255", "''", "5", "[a]"];
    let mut cases: Vec<String> = bad.iter().map(|address| slice("s2", &of(address), HTTP)).collect();
    for odd in ["null", "{}", "5", "{addresses: []}", "{addresses: [10.10.0.15], conditions: {ready: x}}"] {
        cases.push(slice("s2", odd, HTTP));
    }
    for odd in [
        "{name: http, port: 0}",
        "{name: http, port: x}",
        "{name: http, port: 70000}",
        "{name: http, port: 80, protocol: tcp}",
        "5",
    ] {
        cases.push(slice("s2", &of("10.10.0.15"), odd));
    }
    for case in &cases {
        let mut scene = Scene::new(&[SERVICE, &good, case]);
        let all = |scene: &Scene| endpoints(scene.projection(), "prod/s:http");
        assert_eq!(all(&scene), ["10.10.0.13:8080  ready,serving"], "{case}");
        let told = scene.errors("EndpointSlice prod/s2: ");
        assert!(told.len() == 1 && told[0].contains("/2.yaml:"), "{case}: {told:?}");
        // Its Pod is replaced: that comes through while the other one is wrong.
        scene.write("1.yaml", &slice("s1", &of("10.10.0.14"), HTTP));
        assert_eq!(all(&scene), ["10.10.0.14:8080  ready,serving"], "{case}");
    }
    // Beside right ones of the same slice, fresh and while it runs; all that are wrong are told, by
    // their places.
    let mixed = |good: &str| {
        slice("s1", &["10.10.0.1333", good, "x", "{a: b}"].map(of).join(", "), &format!("{{port: 0}}, {HTTP}"))
    };
    let mut scene = Scene::new(&[SERVICE, &mixed("10.10.0.13")]);
    for good in ["10.10.0.13", "10.10.0.14"] {
        scene.write("1.yaml", &mixed(good));
        assert_eq!(endpoints(scene.projection(), "prod/s:http"), [format!("{good}:8080  ready,serving")]);
        let told = scene.errors("EndpointSlice prod/s1: ");
        for field in
            ["endpoints[0].addresses[0]", "endpoints[2].addresses[0]", "endpoints[3].addresses[0]", "ports[0].port"]
        {
            assert!(told.iter().any(|line| line.contains(&format!(": {field}: "))), "{field}: {told:?}");
        }
        assert_eq!(told.len(), 4, "{told:?}");
    }
    // One that was right and has nothing right any more stays as it was.
    for bad in [slice("s1", &of("x"), HTTP), slice("s1", &of("10.10.0.15"), "{port: 0}"), slice("s1", "null", HTTP)] {
        let mut scene = Scene::new(&[SERVICE, &good]);
        scene.write("1.yaml", &bad);
        assert_eq!(endpoints(scene.projection(), "prod/s:http"), ["10.10.0.13:8080  ready,serving"], "{bad}");
    }
    // What is odd beside the address leaves the endpoint in.
    for odd in ["hints: 5", "hints: {forZones: [5]}", "zone: 5", "nodeName: 5", "targetRef: 5", "hostname: [a]"] {
        let scene = Scene::new(&[SERVICE, &slice("s1", &format!("{{addresses: [10.10.0.13], {odd}}}"), HTTP)]);
        assert_eq!(endpoints(scene.projection(), "prod/s:http"), ["10.10.0.13:8080  ready,serving"], "{odd}");
        assert_eq!(scene.errors("EndpointSlice prod/s1: ").len(), 1, "{odd}");
    }
}

#[test]
fn an_entry_of_a_service_that_is_wrong_leaves_the_rest_in_force() {
    let slice = slice("s1", "{addresses: [10.10.0.13]}", HTTP);
    let with = |from: &str, to: &str| SERVICE.replacen(from, to, 1);
    let spec = |more: &str| format!("{SERVICE}  {more}\n");
    let meta = |more: &str| with("namespace: prod", &format!("namespace: prod, {more}"));
    let cases = [
        with("[10.96.0.77]", "[10.96.0.77, 'fd00:96::zz']"),
        with("[10.96.0.77]", "[x, 10.96.0.77]"),
        with("[10.96.0.77]", "[10.96.0.77, 5]"),
        with("[10.96.0.77]", "[10.96.0.77, 224.0.0.1]"),
        with("port: 80}", "port: 80}, {name: b, port: 0}"),
        with("port: 80}", "port: 80}, {name: b, port: 70000}"),
        with("port: 80}", "port: 80}, {name: b}"),
        with("port: 80}", "port: 80}, {name: b, port: 81, protocol: tcp}"),
        with("port: 80}", "port: 80}, {name: b, port: 81, targetPort: '81'}"),
        with("port: 80}", "port: 80}, 5"),
        with("port: 80}", "port: 80, nodePort: 99999}"),
        with("port: 80}", "port: 80, nodePort: x}"),
        spec("externalIPs: [x]"),
        spec("externalIPs: 5"),
        spec("ipFamilies: [x]"),
        spec("ipFamilies: x"),
        spec("externalTrafficPolicy: foo"),
        spec("internalTrafficPolicy: [foo]"),
        spec("sessionAffinity: foo"),
        spec("sessionAffinityConfig: {clientIP: {timeoutSeconds: x}}"),
        spec("publishNotReadyAddresses: x"),
        spec("type: foo"),
        spec("selector: {a: 5}"),
        spec("selector: [a]"),
        spec("loadBalancerSourceRanges: [x]"),
        format!("{SERVICE}status: {{loadBalancer: {{ingress: [{{ip: x}}]}}}}\n"),
        format!("{SERVICE}status: {{loadBalancer: 5}}\n"),
        format!("{SERVICE}status: 5\n"),
        meta("labels: {a: 5}"),
        meta("labels: [a]"),
        meta("uid: 5"),
        meta("annotations: [a]"),
        meta("deletionTimestamp: 5"),
        meta("annotations: {a: 5, b: true, c: 1.5}"),
    ];
    let right = Scene::new(&[SERVICE, &slice]).service();
    for case in &cases {
        let mut scene = Scene::new(&[case, &slice]);
        assert_eq!(scene.service(), right, "{case}");
        assert_eq!(endpoints(scene.projection(), "prod/s:http"), ["10.10.0.13:8080  ready,serving"], "{case}");
        assert!(!scene.errors("Service prod/s: ").is_empty(), "{case}");
        // Nothing of that depends on what was before, and the agent forgets nothing of it.
        scene.write("0.yaml", &format!("# again\n{case}"));
        assert_eq!(scene.service(), right, "{case}");
        // One that was right stays as it was.
        let mut scene = Scene::new(&[&spec("sessionAffinity: ClientIP"), &slice]);
        let before = scene.service();
        scene.write("0.yaml", case);
        assert!(scene.service() == before || case.contains("Ranges"), "{case}");
    }
}

/// Whoever names a Service by its selector gets no smaller set.
#[test]
fn who_may_come_in_and_whom_a_selector_means_is_never_guessed() {
    let service = |more: &str| {
        format!("{SERVICE}  type: LoadBalancer\n  {more}\nstatus: {{loadBalancer: {{ingress: [{{ip: 192.0.2.9}}]}}}}\n")
    };
    let scene = Scene::new(&[&service("loadBalancerSourceRanges: [x]")]);
    assert_eq!(scene.service().load_balancer_ips, [""; 0], "nobody may use them");
    let scene = Scene::new(&[&service("loadBalancerSourceRanges: [x, 192.0.2.0/24]")]);
    assert_eq!(scene.service().load_balancer_source_ranges, ["192.0.2.0/24"]);
    assert!(!Scene::new(&[&service("loadBalancerSourceRanges: [5]")]).has(Kind::Service, "prod/s"));
    let group = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g}\n\
                 spec: {serviceReference: {name: s, namespace: prod}}\n";
    let drop = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n\
                spec: {priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{group: g}]}]}\n";
    let scene = Scene::new(&[&service("selector: {app: web, n: 5}"), group, drop]);
    assert!(scene.errors("the selector of Service prod/s is not understood").len() == 1, "{:?}", scene.errors(""));
    let Object::NetworkPolicy(policy) = object(scene.projection(), Kind::NetworkPolicy, "acnp:p") else { panic!("it") };
    let peers: Vec<_> = policy.rules.iter().map(|rule| rule.peer.clone().unwrap_or_default()).collect();
    assert_eq!(peers, [v1::RulePeer::default()], "everything is dropped");
}

#[test]
fn one_wrong_entry_of_its_own_node_leaves_the_node_in_force() {
    let right = Scene::new(&[]).node().clone();
    let v4 = |node: &v1::NodeConfig| {
        let only = |texts: &[String]| texts.iter().filter(|text| !text.contains(':')).cloned().collect::<Vec<_>>();
        let addresses = node.gateway.as_ref().map(|gateway| only(&gateway.addresses)).unwrap_or_default();
        (
            only(&node.pod_cidrs),
            addresses,
            node.gateway.as_ref().map(|gateway| gateway.mac.clone()),
            node.bridge.clone(),
        )
    };
    let label = "    kubernetes.io/hostname: k8s-node-control-plane\n";
    let address = "    - type: InternalIP\n      address: 192.168.77.102\n";
    let spec = "  bridge: br0\n";
    let line = |line: &str, more: &str| (line.to_owned(), format!("{line}{more}"));
    let to = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let mut cases = vec![
        line(label, "    v: 5\n"),
        to(label, "    - a\n"),
        line(address, "    - type: X\n"),
        line(address, "    - 5\n"),
        line(address, "    - {type: InternalIP, address: x}\n"),
        to("fd00:10:10::/64", "fd00:zz::/64"),
        to("fd00:10:10::/64", "5"),
        to("- fd00:10:10::1", "- x"),
        to("- fd00:10:10::1", "- 5"),
        to("    - fd00:10:10::/64\n", ""),
        to("      - fd00:10:10::1\n", ""),
        line("    - 192.168.77.102/24\n", "    - x\n"),
        line("    - 192.168.77.102/24\n", "    - fd00::1\n"),
        line("    - 10.96.0.0/12\n", "    - x\n"),
    ];
    for more in [
        "foo: 1",
        "nodePortAddresses: [x]",
        "nodePortAddresses: 5",
        "egressExceptCIDRs: [x]",
        "packetLimits: [{category: x}]",
        "packetLimits: [5]",
        "takenOver: [x]",
        "localProbe: foo",
        "recordDenied: 'yes'",
        "fqdn: {minTtlSeconds: 5}",
        "fqdn: {servers: [x]}",
        "zones: {mainV4: x}",
        "zones: 5",
        "virtualMAC: x",
        "reentranceMAC: 5",
        "virtualServiceAddresses: [x]",
        "uplink: {port: u}",
        "uplink: {port: u, mac: x}",
        "uplink: 5",
        "topologyZone: 5",
    ] {
        cases.push(line(spec, &format!("  {more}\n")));
    }
    cases.push(to("    proxyAll: true\n", "    proxyAll: true\n    quux: true\n"));
    cases.push(to("    proxyAll: true\n", "    proxyAll: 'true'\n"));
    for (from, to) in &cases {
        let scene = Scene::of(from, to, &[]);
        assert_eq!(v4(scene.node()), v4(&right), "{to}");
        assert!(!scene.1.problems().is_empty(), "{to}");
        assert_eq!(scene.node().transport_addresses, right.transport_addresses, "{to}");
        assert_eq!(scene.node().service_cidrs, right.service_cidrs, "{to}");
        let is_of_six = to.contains("zz") || from.contains("fd00:10");
        let families = if is_of_six { v1::Families::Ipv4 } else { v1::Families::Dual };
        assert_eq!(scene.node().families(), families, "{to}");
    }
    // Bits behind a length say nothing.
    for (from, to) in [("    - 10.10.0.0/24\n", "    - 10.10.0.7/24\n"), ("    - 10.96.0.0/12", "    - 10.96.0.1/12")] {
        let scene = Scene::of(from, to, &[]);
        assert_eq!((scene.node(), scene.errors("")), (&right, vec![]), "{to}");
    }
    // What is required and cannot be read is not guessed.
    for (from, to) in [("bridge: br0", "bridge: 5"), ("mac: ba:5e", "mac: x"), ("port: antrea-gw0", "port: [x]")] {
        assert!(Scene::of(from, to, &[]).projection().node.is_none(), "{to}");
    }
}

#[test]
fn in_policy_only_the_gateway_says_the_families() {
    let mut scene = Scene::new(&[]);
    let mut nodes = scene.text("nodes.yaml");
    for (from, to) in [
        ("  podCIDR: 10.10.0.0/24\n", "  unschedulable: false\n"),
        ("  podCIDRs:\n    - 10.10.0.0/24\n    - fd00:10:10::/64\n", ""),
        ("trafficMode: Encap", "trafficMode: NetworkPolicyOnly"),
        ("  tunnel:\n    port: antrea-tun0\n", ""),
    ] {
        assert!(nodes.contains(from), "{from:?} is in it");
        nodes = nodes.replacen(from, to, 1);
    }
    scene.write("nodes.yaml", &nodes);
    assert_eq!((scene.node().families(), scene.errors("")), (v1::Families::Dual, vec![]));
    let six = "      - fd00:10:10::1\n";
    scene.write("nodes.yaml", &nodes.replacen(six, "", 1));
    assert_eq!((scene.node().families(), scene.errors("")), (v1::Families::Ipv4, vec![]));
    let services = "  serviceCIDRs:\n    - fd00:10:96::/64\n";
    scene.write("nodes.yaml", &nodes.replacen(six, "", 1).replacen("  serviceCIDRs:\n", services, 1));
    let [error] = &scene.errors("")[..] else { panic!("one: {:?}", scene.errors("")) };
    assert!(error.ends_with("spec: IPv6 is left out: it needs an IPv6 address of the gateway"), "{error}");
}

#[test]
fn an_egress_has_the_address_that_is_right() {
    let egress = |spec: &str| {
        format!(
            "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {{name: e}}\nspec: {{appliedTo: {{podSelector: {{}}}}, {spec}}}\nstatus: {{egressNode: {NODE}}}\n"
        )
    };
    let address = |scene: &Scene| match object(scene.projection(), Kind::Egress, "e") {
        Object::Egress(egress) => egress.address.clone(),
        _ => panic!("an Egress"),
    };
    for spec in [
        "egressIPs: [x, 192.168.77.50]",
        "egressIPs: [192.168.77.50, 5]",
        "egressIP: x, egressIPs: [192.168.77.50]",
        "egressIP: 192.168.77.50, egressIPs: 5",
        "egressIP: 192.168.77.50, egressIPs: [x]",
    ] {
        let scene = Scene::new(&[&egress(spec)]);
        assert_eq!(address(&scene), "192.168.77.50", "{spec}");
        assert_eq!(scene.errors("Egress e: ").len(), 1, "{spec}");
        let mut scene = Scene::new(&[&egress("egressIP: 192.168.77.51")]);
        scene.write("0.yaml", &egress(spec));
        assert_eq!(address(&scene), "192.168.77.51", "{spec}");
    }
    for spec in ["egressIPs: [x]", "egressIP: 192.168.77.500", "egressIP: 5"] {
        assert!(!Scene::new(&[&egress(spec)]).has(Kind::Egress, "e"), "{spec}");
    }
}
