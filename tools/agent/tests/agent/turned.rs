//! Documents and files that turn into something else: what they held stays, or counts as it was
//! meant.

use crate::common::{K8S, NODE, applied, endpoints, lines, object, pod, pods, policies, projected};
use crate::watched::Watched;
use std::fs;
use std::path::Path;
use vswitch_proto::antrea::v1::Kind;
use vswitch_proto::antrea::v1::object::Object;

/// Isolates the Pods web.
const SPEC: &str = "spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}";

/// The policy as one of a list's items, with what it says of itself.
fn item(head: &str) -> String {
    format!("- {{{head}metadata: {{name: p, namespace: a}}, {SPEC}}}\n")
}

fn list(api: &str, kind: &str, head: &str) -> String {
    format!("{}---\napiVersion: {api}\nkind: {kind}\nitems:\n{}", pods(), item(head))
}

#[test]
fn a_policy_in_a_list_whose_kind_is_misspelt_binds() {
    const POLICY: &str = "apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, ";
    for kind in ["list", "LisT", "Lists", "Lst", "podlist", "NetworkPolicylist"] {
        let (projection, problems) = projected(&list("v1", kind, POLICY));
        assert_eq!(policies(&projection), ["np:a/p"], "{kind}");
        let told = lines(&problems);
        assert!(told.iter().any(|line| line.contains(&format!("{kind:?} is no kind that is read"))), "{told:?}");
        assert!(projection.objects.keys().any(|(kind, _)| *kind == Kind::Pod as i32));
    }
    // What is in them may say nothing of itself: something is held then.
    for (api, kind) in [
        ("networking.k8s.io/v1", "NetworkPolicyList"),
        ("networking.k8s.io/v1", "NetworkPolicylist"),
        ("v1", "NetworkPoliciesList"),
        ("config.kubernetes.io/v1", "ResourceList"),
    ] {
        let (projection, _) = projected(&list(api, kind, ""));
        assert!(!policies(&projection).is_empty(), "{api} {kind}");
    }
    // Lists of others, and what is no list.
    for (api, kind) in
        [("example.com/v1", "Allowlist"), ("example.com/v1", "WidgetList"), ("apps/v1", "DeploymentList")]
    {
        let (projection, _) = projected(&list(api, kind, "spec2: 5, "));
        assert!(policies(&projection).is_empty(), "{api} {kind}: {:?}", policies(&projection));
    }
}

#[test]
fn a_list_that_becomes_another_word_keeps_its_policy() {
    let policy = item("apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, ");
    let right = format!("apiVersion: v1\nkind: List\nitems:\n{policy}");
    for wrong in ["kind: list\nmetadata: {name: x}", "kind: Lst", "kind: lists\nmetadata: {}"] {
        let mut watched = Watched::new(&[("pods.yaml", pods().trim_start_matches("---\n")), ("l.yaml", &right)]);
        let before = policies(watched.agent.projection()).len();
        watched.write("l.yaml", &right.replace("kind: List", wrong));
        assert_eq!((policies(watched.agent.projection()).len(), before), (1, 1), "{wrong}");
    }
}

/// Makes something else of a file.
type Turn = fn(&Path);

#[test]
fn a_file_that_is_no_file_any_more_keeps_what_it_said() {
    let policy = format!("{K8S}{SPEC}\n");
    let turned: [(&str, Turn); 3] = [
        ("p.yaml", |path| {
            fs::remove_file(path).expect("removed");
            std::os::unix::fs::symlink("/dev/null", path).expect("linked");
        }),
        ("p.yaml", |path| {
            fs::remove_file(path).expect("removed");
            let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
            assert!(made.success());
        }),
        ("sub/p.yaml", |path| {
            let dir = path.parent().expect("a directory");
            fs::remove_dir_all(dir).expect("removed");
            fs::write(dir, "text").expect("written");
        }),
    ];
    for (name, turn) in turned {
        let mut watched = Watched::new(&[("pods.yaml", pods().trim_start_matches("---\n"))]);
        fs::create_dir_all(watched.dir.path().join("sub")).expect("made");
        watched.write(name, &policy);
        assert_eq!(policies(watched.agent.projection()), ["np:a/p"]);
        turn(&watched.dir.path().join(name));
        watched.look();
        watched.look();
        assert_eq!(policies(watched.agent.projection()), ["np:a/p"], "{name}");
        let told = lines(watched.agent.problems());
        assert!(told.iter().any(|line| line.ends_with("is no file or directory of manifests")), "{told:?}");
    }
}

#[test]
fn a_policy_whose_group_is_misspelt_holds_the_pods_that_it_selects() {
    for head in [
        "apiVersion: Networking.k8s.io/v1\nkind: NetworkPolicy",
        "kind: NetworkPolicy",
        "apiVersion: networking.k8s.io/v1\nkind: networkpolicy",
    ] {
        let text = format!("{}---\n{head}\nmetadata: {{name: p, namespace: a}}\n{SPEC}\n", pods());
        let other = pod("a", "other", "app: other", NODE, "10.10.0.19", "");
        let (projection, _) = projected(&format!("{text}{other}"));
        let held: Vec<&str> = policies(&projection);
        assert_eq!(held.len(), 1, "{head}: {held:?}");
        let Object::NetworkPolicy(policy) = object(&projection, Kind::NetworkPolicy, held[0]) else { panic!() };
        assert_eq!(
            (policy.isolates_ingress || !policy.rules.is_empty(), policy.isolates_egress),
            (true, false),
            "{head}"
        );
        let bound: Vec<String> = policy.applied_to.iter().flat_map(|group| applied(&projection, group)).collect();
        assert_eq!(bound, ["a/web1", "a/web2"], "{head}");
    }
    // What may be Antrea's holds all of the namespace.
    let text = format!(
        "{}---\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: a}}\n{}\n",
        pods(),
        SPEC.replace("spec: {", "spec: {appliedTo: [], ")
    );
    let (projection, _) = projected(&text);
    let Object::NetworkPolicy(policy) = object(&projection, Kind::NetworkPolicy, policies(&projection)[0]) else {
        panic!()
    };
    assert!(policy.applied_to.iter().any(|group| applied(&projection, group).len() >= 2));
}

#[test]
fn a_slice_with_nothing_right_takes_no_endpoints_away() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\n\
                   spec: {clusterIP: 10.96.0.9, selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n";
    let slice = |kind: &str, endpoints: &str| {
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: e, namespace: a, labels: {{kubernetes.io/service-name: s}}}}\naddressType: {kind}\nports: [{{port: 8080}}]\nendpoints: {endpoints}\n"
        )
    };
    let of = |more: &str| endpoints(&projected(&format!("{service}{}{more}", pods())).0, "a/s:").len();
    assert_eq!(of(""), 3);
    for (kind, entries, expected) in [
        ("IPv4", "[{addresses: [10.10.0.999]}]", 3),
        ("IPv4", "[{addresses: ['fd00::1']}]", 3),
        ("FQDN", "[{addresses: [a.b]}]", 3),
        ("IPv4", "[{addresses: [10.10.0.999]}, {addresses: [10.10.0.11]}]", 1),
        ("IPv4", "[]", 0),
    ] {
        assert_eq!(of(&slice(kind, entries)), expected, "{kind} {entries}");
    }
}

#[test]
fn a_misspelt_list_of_sources_lets_nobody_in() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\n\
                   spec: {type: LoadBalancer, clusterIP: 10.96.0.9, loadBalancerSourceRanges: [10.0.0.0/8], ports: [{port: 80}]}\n\
                   status: {loadBalancer: {ingress: [{ip: 192.168.77.100}]}}\n";
    let addresses = |text: &str| match object(&projected(text).0, Kind::Service, "a/s") {
        Object::Service(service) => (service.load_balancer_ips.len(), service.cluster_ips.len()),
        _ => panic!("a Service"),
    };
    assert_eq!(addresses(service), (1, 1));
    for wrong in ["loadbalancerSourceRanges", "loadBalancerSourceRange", "loadBalancerSourcesRanges"] {
        let text = service.replace("loadBalancerSourceRanges", wrong);
        assert_eq!(addresses(&text), (0, 1), "{wrong}");
        let told = lines(&projected(&text).1);
        assert!(told.iter().any(|line| line.contains("is it loadBalancerSourceRanges?")), "{told:?}");
    }
}

#[test]
fn policies_of_antrea_that_are_off_are_told() {
    let policy = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec: {priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}\n";
    let mut watched = Watched::new(&[("p.yaml", policy)]);
    let told = |watched: &Watched| {
        lines(watched.agent.problems())
            .iter()
            .filter(|line| line.contains("binds nobody: features.antreaPolicy"))
            .count()
    };
    assert_eq!(told(&watched), 0);
    let nodes = fs::read_to_string(watched.dir.path().join("nodes.yaml")).expect("readable");
    let off = nodes.replace("features:", "features:\n    antreaPolicy: false");
    let off = if off == nodes { nodes.replace("features: {", "features: {antreaPolicy: false, ") } else { off };
    watched.write("nodes.yaml", &off);
    assert_eq!(told(&watched), 1, "{:?}", lines(watched.agent.problems()));
}

#[test]
fn a_directory_by_another_spelling_is_the_same() {
    let (dir, state) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let nodes = crate::common::files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
    fs::write(dir.path().join("nodes.yaml"), nodes).expect("written");
    fs::write(dir.path().join("pods.yaml"), pods()).expect("written");
    fs::write(dir.path().join("p.YAML"), format!("{K8S}{SPEC}\n")).expect("written");
    let plain = dir.path().to_str().expect("UTF-8").to_owned();
    let agent = |dir: &str| {
        let mut agent =
            vswitch_agent::agent::Agent::new(dir.as_ref(), &[], NODE, Default::default()).remembering(state.path());
        for _ in 0..4 {
            agent.scan();
        }
        agent
    };
    assert_eq!(policies(agent(&plain).projection()), ["np:a/p"]);
    let bound = |agent: &vswitch_agent::agent::Agent| applied(agent.projection(), "pods app=web of namespace a");
    let before = bound(&agent(&plain));
    fs::write(dir.path().join("p.YAML"), format!("{K8S}{}\n", SPEC.replace("podSelector:", "podSelectors:")))
        .expect("written");
    for other in [format!("{plain}/"), plain.replacen("/tmp", "/tmp/.", 1), plain.clone()] {
        assert_eq!(bound(&agent(&other)), before, "{other}: what was right is not known");
    }
}
