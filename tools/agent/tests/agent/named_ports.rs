//! Ports of Pods by name: what Kubernetes refuses, or what is misspelt, is wrong. A rule that
//! denies by the name means the Pod on, and a rule that allows by it means no more than before.

use crate::common::{CLUSTER, K8S, NODE, object, pod};
use crate::watched::Watched;
use vswitch_proto::antrea::v1::group_member::Member;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{Direction, Kind, NetworkPolicy, Protocol, Rule, RuleAction};

const FAR: &str = "k8s-node-worker-1";
const PORT: &str = "{name: web, containerPort: 80, protocol: TCP}";

fn containers(port: &str) -> String {
    format!(", containers: [{{name: x, ports: [{port}]}}]")
}

/// Forms of a Pod's containers that are wrong, and that may have the port.
fn wrong() -> Vec<String> {
    let ports = [
        "{name: web, containerPort: 0}",
        "{name: web, containerPort: -1}",
        "{name: web, containerPort: 65616}",
        "{name: web, containerPort: '80'}",
        "{name: web, containerPort: 80, protocol: tcp}",
        "{name: web, containerPort: 80, protocol: ''}",
        "{name: web, containerPort: 80, protocol: ICMP}",
        "{name: Web, containerPort: 80}",
        "{name: 'web ', containerPort: 80}",
        "{name: webwebwebwebwebweb, containerPort: 80}",
        "{name: web--a, containerPort: 80}",
        "{name: '80', containerPort: 80}",
        "{Name: web, containerPort: 80}",
        "{nam: web, containerPort: 80}",
        "{name: web, containerport: 80}",
        "{name: web, containerPort: 80, Protocol: TCP}",
    ];
    let mut all: Vec<String> = ports.into_iter().map(containers).collect();
    // Beside one that is right, and in a container that stays.
    all.push(containers("{name: a, containerPort: 81}, {name: web, containerPort: 0}"));
    let first =
        |policy: &str| format!(", containers: [{{name: x}}], initContainers: [{{name: y, {policy}, ports: [{PORT}]}}]");
    all.extend(["restartPolicy: always", "restartpolicy: Always", "restartPolicy: ''"].map(first));
    let right = containers(PORT);
    let words =
        [("containers:", "Containers:"), ("containers:", "container:"), ("ports:", "Ports:"), ("ports:", "port:")];
    all.extend(words.map(|(from, to)| right.replace(from, to)));
    all.extend([", containers: null", ", containers: []", ", containers: {x: 1}"].map(str::to_owned));
    all
}

/// Whether the rule names the port by its number, or all ports of its protocol, for this Pod.
fn means(watched: &Watched, rule: &Rule, of: &str) -> bool {
    let has = |kind, group: &String| match object(watched.agent.projection(), kind, group) {
        Object::AppliedToGroup(group) => group.pods.iter().any(|pod| pod == of),
        Object::AddressGroup(group) => group.members.iter().any(|member| match &member.member {
            Some(Member::Pod(text) | Member::Address(text)) => text == of,
            None => false,
        }),
        _ => false,
    };
    let peer = rule.peer.clone().unwrap_or_default();
    let is_it = match rule.direction() {
        Direction::Ingress => rule.applied_to.iter().any(|group| has(Kind::AppliedToGroup, group)),
        _ => peer.address_groups.iter().any(|group| has(Kind::AddressGroup, group)),
    };
    let is_port = |port: &vswitch_proto::antrea::v1::PortMatch| {
        port.protocol() == Protocol::Tcp && [0, 80].contains(&port.port) && port.end_port == 0
    };
    is_it && rule.ports.iter().any(is_port)
}

fn rules(watched: &Watched) -> Vec<(NetworkPolicy, Rule)> {
    let objects = watched.agent.projection().objects.values().filter_map(|projected| projected.object.object.clone());
    let policy =
        objects.filter_map(|object| if let Object::NetworkPolicy(policy) = object { Some(policy) } else { None });
    policy.flat_map(|policy| policy.rules.clone().into_iter().map(move |rule| (policy.clone(), rule))).collect()
}

fn is_denied(watched: &Watched, of: &str) -> bool {
    let denies = |rule: &Rule| [RuleAction::Drop, RuleAction::Reject].contains(&rule.action());
    rules(watched).iter().any(|(_, rule)| denies(rule) && means(watched, rule, of))
}

/// Rules that allow, but those whose port is 80.
fn is_open(watched: &Watched) -> bool {
    let is_80 = |rule: &Rule| rule.ports.len() == 1 && rule.ports[0].port == 80 && rule.ports[0].end_port == 0;
    rules(watched).iter().any(|(_, rule)| rule.action() == RuleAction::Allow && !is_80(rule))
}

fn others() -> String {
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n".to_owned();
    [space, pod("a", "c", "app: c", NODE, "10.10.0.72", &containers("{containerPort: 1}"))].concat()
}

fn local(more: &str) -> String {
    pod("a", "d", "app: d", NODE, "10.10.0.71", more).replacen("---\n", "", 1)
}

fn far(more: &str) -> String {
    pod("a", "r", "app: r", FAR, "10.10.1.21", more).replacen("---\n", "", 1)
}

#[test]
fn a_rule_that_denies_by_a_name_means_a_pod_whose_port_is_wrong() {
    let spec = |action: &str, to: &str, rules: &str| {
        let select = |app: &str| format!("{{podSelector: {{matchLabels: {{app: {app}}}}}}}");
        let ports = "ports: [{protocol: TCP, port: web}]";
        let rule = format!("[{{action: {action}, {rules}: [{}], {ports}}}]", select(if to == "d" { "c" } else { "r" }));
        let section = if rules == "from" { "ingress" } else { "egress" };
        format!("{CLUSTER}spec: {{priority: 5, appliedTo: [{}], {section}: {rule}}}\n", select(to))
    };
    for (right, who, policy) in
        [(local as fn(&str) -> String, "a/d", spec("Drop", "d", "from")), (far, "10.10.1.21", spec("Drop", "c", "to"))]
    {
        let text = right(&containers(PORT));
        let scene = |text: &str| Watched::new(&[("0.yaml", &others()), ("1.yaml", text), ("p.yaml", &policy)]);
        let mut watched = scene(&text);
        let before = watched.text();
        assert!(is_denied(&watched, who) && !watched.agent.is_wrong(), "{before}{:#?}", watched.lines());
        for wrong in wrong() {
            watched.write("1.yaml", &right(&wrong));
            assert!(watched.agent.is_wrong() && watched.tells(&["Pod a/"]), "{wrong}{:#?}", watched.lines());
            assert!(is_denied(&watched, who), "{wrong}{}{:#?}", watched.text(), watched.lines());
            watched.write("1.yaml", &text);
            assert_eq!(watched.text(), before, "{wrong}");
            let fresh = scene(&right(&wrong));
            let is_there = who != "a/d" || fresh.has(Kind::Pod, "a/d");
            assert!(!is_there || is_denied(&fresh, who), "fresh {wrong}{}{:#?}", fresh.text(), fresh.lines());
        }
        // A Pod that is right, and has no such port, is not meant.
        watched.write("1.yaml", &right(&containers("{name: other, containerPort: 81}")));
        assert!(!is_denied(&watched, who) && !watched.agent.is_wrong(), "{:#?}", watched.lines());
        watched.write("1.yaml", &right(&containers("{name: web, containerPort: 80, hostPort: 1, hostIP: x}")));
        assert!(is_denied(&watched, who) && !watched.agent.is_wrong(), "{:#?}", watched.lines());
    }
}

#[test]
fn a_rule_that_allows_by_a_name_never_means_all_ports() {
    let ingress = format!(
        "{K8S}spec: {{podSelector: {{matchLabels: {{app: d}}}}, policyTypes: [Ingress], ingress: [{{ports: [{{port: \
         web}}]}}]}}\n"
    );
    let egress = format!(
        "{K8S}spec: {{podSelector: {{matchLabels: {{app: c}}}}, policyTypes: [Egress], egress: [{{to: [{{podSelector: \
         {{}}}}], ports: [{{port: web}}]}}]}}\n"
    );
    let antrea = format!(
        "{CLUSTER}spec: {{priority: 5, appliedTo: [{{podSelector: {{matchLabels: {{app: d}}}}}}], ingress: [{{action: \
         Allow, ports: [{{protocol: TCP, port: web}}]}}, {{action: Drop}}]}}\n"
    );
    for (right, policy) in [(local as fn(&str) -> String, &ingress), (local, &antrea), (far, &egress)] {
        let scene = |text: &str| Watched::new(&[("0.yaml", &others()), ("1.yaml", text), ("p.yaml", policy)]);
        let allowed =
            |watched: &Watched| rules(watched).iter().filter(|(_, rule)| rule.action() == RuleAction::Allow).count();
        let mut watched = scene(&right(&containers(PORT)));
        assert_eq!((allowed(&watched), is_open(&watched)), (1, false), "{}", watched.text());
        for wrong in wrong() {
            watched.write("1.yaml", &right(&wrong));
            assert!(!is_open(&watched), "{wrong}{}", watched.text());
            let fresh = scene(&right(&wrong));
            assert_eq!(allowed(&fresh), 0, "{wrong}{}", fresh.text());
        }
    }
}

#[test]
fn a_wrong_port_without_a_name_is_left_out() {
    for port in ["{containerPort: 0}", "{containerPort: 70000}", "{containerPort: 80, protocol: tcp}"] {
        let watched = Watched::new(&[("0.yaml", &others()), ("1.yaml", &local(&containers(port)))]);
        assert!(watched.agent.is_wrong() && watched.has(Kind::Pod, "a/d"), "{port}{:#?}", watched.lines());
    }
    // Other fields that nobody knows are none of a port.
    for more in [
        ", containers: [{name: x, newField: 1}]",
        ", newField: 1",
        ", containers: [{ports: [{newer: 1, containerPort: 2}]}]",
    ] {
        let watched = Watched::new(&[("0.yaml", &others()), ("1.yaml", &local(more))]);
        assert!(!watched.agent.is_wrong() && watched.has(Kind::Pod, "a/d"), "{more}{:#?}", watched.lines());
    }
}
