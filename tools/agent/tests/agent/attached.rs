//! Pods that the CNI server has attached, or has not attached yet.

use crate::common::{CLUSTER, NODE, files, lines, object, pod, read};
use std::collections::BTreeSet;
use vswitch_agent::attach::{Attachment, Attachments, attach};
use vswitch_agent::model::Model;
use vswitch_agent::problem::Problem;
use vswitch_agent::project::{Projection, project};
use vswitch_proto::antrea::v1::Endpoints;
use vswitch_proto::antrea::v1::Kind;
use vswitch_proto::antrea::v1::group_member::Member;
use vswitch_proto::antrea::v1::object::Object;

/// A Pod of this Node as the API server has it.
fn bare(name: &str, status: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: a, labels: {{app: {name}}}}}\n\
         spec: {{nodeName: {NODE}}}\nstatus: {{{status}}}\n"
    )
}

/// Denies what comes from Pods `app=web` to Pods `app=db`, and allows it to Pods `app=api`.
fn policies() -> String {
    let one = |name: &str, to: &str, action: &str| {
        let head = CLUSTER.replace("name: p", &format!("name: {name}"));
        format!(
            "---\n{head}spec: {{priority: 5, appliedTo: [{{podSelector: {{matchLabels: {{app: {to}}}}}}}], ingress: \
             [{{action: {action}, from: [{{podSelector: {{matchLabels: {{app: web}}}}}}]}}]}}\n"
        )
    };
    one("deny", "db", "Drop") + &one("allow", "api", "Allow")
}

fn others() -> String {
    pod("a", "db", "app: db", NODE, "10.10.0.14", "") + &pod("a", "api", "app: api", NODE, "10.10.0.15", "")
}

fn web() -> Attachments {
    let attachment = Attachment {
        uid: String::new(),
        port: "web-1".to_owned(),
        mac: "02:76:0a:0a:00:11".to_owned(),
        addresses: vec!["10.10.0.17".parse().expect("an address")],
    };
    [("a/web".to_owned(), attachment)].into()
}

fn projected(text: &str, attachments: Option<&Attachments>) -> (Projection, Vec<Problem>) {
    let nodes = files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
    let (mut all, mut problems) = read("test.yaml", text);
    all.extend(read("nodes.yaml", &nodes).0);
    let all = attachments.map_or_else(|| all.clone(), |attachments| attach(all.clone(), attachments, NODE));
    let (mut model, more) = Model::new(all);
    model.gives_ports = attachments.is_some();
    problems.extend(more);
    let (projection, more) = project(&model, NODE);
    problems.extend(more);
    (projection, problems)
}

/// Lines about the Pod.
fn about(problems: &[Problem]) -> Vec<String> {
    lines(problems).into_iter().filter(|line| line.contains("Pod a/web")).collect()
}

/// Addresses and Pods in address groups whose names say that Pods in doubt are meant, or that not.
fn peers(projection: &Projection, in_doubt: bool) -> BTreeSet<String> {
    let of = |name: &String| {
        let Object::AddressGroup(group) = object(projection, Kind::AddressGroup, name) else { panic!("a group") };
        let members = group.members.iter().filter_map(|member| member.member.as_ref());
        let text = |member: &Member| match member {
            Member::Pod(name) | Member::Address(name) => name.clone(),
        };
        members.map(text).collect::<Vec<_>>()
    };
    let groups = projection.objects.keys().filter(|(kind, _)| *kind == Kind::AddressGroup as i32);
    groups.map(|(_, name)| name).filter(|name| name.contains("may be one") == in_doubt).flat_map(of).collect()
}

#[test]
fn a_pod_that_waits_for_its_port_is_no_problem() {
    for status in ["", "podIP: 10.10.0.17"] {
        let text = bare("web", status);
        let (projection, problems) = projected(&text, Some(&Attachments::new()));
        assert_eq!(about(&problems), [""; 0], "{status}");
        assert!(!projection.objects.contains_key(&(Kind::Pod as i32, "a/web".to_owned())));
        assert!(!about(&projected(&text, None).1).is_empty(), "without the server it is one");
    }
}

#[test]
fn a_pod_that_was_attached_has_its_port_before_its_address_is_known() {
    let (projection, problems) = projected(&bare("web", "phase: Pending"), Some(&web()));
    assert_eq!(about(&problems), [""; 0]);
    let Object::Pod(pod) = object(&projection, Kind::Pod, "a/web") else { panic!("a Pod") };
    assert_eq!((pod.port.as_str(), pod.addresses.as_slice()), ("web-1", ["10.10.0.17".to_owned()].as_slice()));
}

#[test]
fn rules_that_deny_mean_a_pod_without_document_or_port() {
    let scenes = [
        ("no document", others() + &policies(), web()),
        ("no port", bare("web", "podIP: 10.10.0.17") + &others() + &policies(), Attachments::new()),
    ];
    for (what, text, attachments) in scenes {
        let (projection, _) = projected(&text, Some(&attachments));
        assert!(!projection.objects.contains_key(&(Kind::Pod as i32, "a/web".to_owned())), "{what}");
        assert!(peers(&projection, true).contains("10.10.0.17"), "{what}: {:#?}", projection.objects.keys());
        assert!(!peers(&projection, false).contains("10.10.0.17"), "{what}");
    }
    let text = bare("web", "") + &others() + &policies();
    let (projection, _) = projected(&text, Some(&web()));
    assert!(peers(&projection, false).contains("a/web"), "{:?}", peers(&projection, false));
}

fn with_net1() -> Attachments {
    let mut all = web();
    let attachment = Attachment {
        port: "web-2".to_owned(),
        mac: "02:76:0a:0a:00:12".to_owned(),
        addresses: vec!["10.10.0.18".parse().expect("an address")],
        ..all["a/web"].clone()
    };
    all.insert("a/web@net1".to_owned(), attachment);
    all
}

/// Members of all groups that policies are applied to.
fn bound(projection: &Projection) -> BTreeSet<String> {
    let groups = projection.objects.keys().filter(|(kind, _)| *kind == Kind::AppliedToGroup as i32);
    let of = |(_, name): &(i32, String)| match object(projection, Kind::AppliedToGroup, name) {
        Object::AppliedToGroup(group) => group.pods.clone(),
        other => panic!("a group: {other:?}"),
    };
    groups.flat_map(of).collect()
}

#[test]
fn policies_bind_each_interface_and_services_mean_the_pods_own() {
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\n\
                   spec: {clusterIP: 10.96.0.9, selector: {app: web}, ports: [{port: 80, protocol: TCP}]}\n";
    let own = policies().replace("matchLabels: {app: db}", "matchLabels: {app: web}");
    let text = bare("web", "phase: Running") + &others() + &own + service;
    let (projection, problems) = projected(&text, Some(&with_net1()));
    assert_eq!(about(&problems), [""; 0]);
    let Object::Pod(pod) = object(&projection, Kind::Pod, "a/web@net1") else { panic!("a Pod") };
    assert_eq!((pod.port.as_str(), pod.addresses.as_slice()), ("web-2", ["10.10.0.18".to_owned()].as_slice()));
    let bound = bound(&projection);
    assert!(bound.contains("a/web") && bound.contains("a/web@net1"), "{bound:?}");
    let peers = peers(&projection, false);
    assert!(peers.contains("a/web") && peers.contains("a/web@net1"), "{peers:?}");
    let Object::Endpoints(Endpoints { endpoints, .. }) = object(&projection, Kind::Endpoints, "a/s:") else {
        panic!("endpoints")
    };
    assert_eq!(endpoints.iter().map(|one| one.address.as_str()).collect::<Vec<_>>(), ["10.10.0.17"]);
}

#[test]
fn rules_that_deny_mean_what_multus_tells_of_a_pod_of_another_node() {
    let status = |ips: &str| {
        let text = format!(r#"[{{"name": "pods", "interface": "net1", "ips": [{ips}]}}]"#);
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: a, labels: {{app: web}}, annotations: \
             {{'k8s.v1.cni.cncf.io/network-status': '{text}'}}}}\nspec: {{nodeName: n2}}\n\
             status: {{podIPs: [{{ip: 10.10.1.17}}]}}\n"
        )
    };
    let all = |ips: &str| projected(&(status(ips) + &others() + &policies()), None).0;
    let projection = all(r#""10.10.1.17", "10.10.1.18""#);
    let (in_doubt, known) = (peers(&projection, true), peers(&projection, false));
    assert!(in_doubt.contains("10.10.1.18"), "{in_doubt:?}");
    assert!(known.contains("10.10.1.17") && !known.contains("10.10.1.18"), "{known:?}");
    // Whoever writes the annotation cannot have others denied, nor Nodes.
    let nodes = files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
    let node =
        nodes.split("address: ").nth(1).and_then(|rest| rest.split(['}', ',', '\n']).next()).expect("an address");
    let forged = all(&format!(r#""10.10.0.14", "{}""#, node.trim().trim_matches(['"', '\''])));
    let plain = all("");
    assert_eq!(peers(&forged, true), peers(&plain, true), "{node}");
    assert_eq!(peers(&forged, false), peers(&plain, false));
}
