//! Several documents of one object that differ: the one that is in force counts, and what any of
//! them denies does not pass while none was in force.

use crate::common::{CLUSTER, NODE, pod};
use crate::intent::verdict::Verdicts;
use crate::watched::Watched;
use vswitch_agent::project::Projection;
use vswitch_proto::antrea::v1::Kind;

/// Pods of two namespaces, with the addresses that verdicts know.
fn pods() -> String {
    let mut pods = String::new();
    for (i, namespace) in ["x", "y"].iter().enumerate() {
        pods += &format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
        for (j, (app, env)) in [("a", "p"), ("b", "p"), ("a", "q")].iter().enumerate() {
            let (node, net) = if j == 2 { ("k8s-node-worker-1", 1) } else { (NODE, 0) };
            let address = format!("10.10.{net}.{}", 10 * (i + 1) + j);
            pods += &pod(namespace, &format!("p{j}"), &format!("app: {app}, env: {env}"), node, &address, "");
        }
    }
    pods
}

/// Policies of one name, of Kubernetes.
fn of_kubernetes() -> Vec<String> {
    let head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: n, namespace: x}\n";
    let specs = [
        "podSelector: {}, ingress: [{}]",
        "podSelector: {}",
        "podSelector: {matchLabels: {app: a}}, ingress: [{ports: [{port: 80}]}]",
        "podSelector: {matchLabels: {app: a}}, ingress: [{ports: [{port: 80}]}, {from: [{podSelector: {}}]}]",
        "podSelector: {matchLabels: {app: b}}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}]}]",
        "podSelector: {}, policyTypes: [Ingress, Egress], egress: [{}]",
    ];
    specs.iter().map(|spec| format!("{head}spec: {{{spec}}}\n")).collect()
}

/// Policies of one name, of Antrea.
fn of_antrea() -> Vec<String> {
    let (all, a) = ("appliedTo: [{podSelector: {}}]", "appliedTo: [{podSelector: {matchLabels: {app: a}}}]");
    let from = "from: [{podSelector: {matchLabels: {env: q}}}]";
    let specs = [
        format!("priority: 5, {all}, ingress: [{{action: Allow}}]"),
        format!("priority: 5, {all}, ingress: [{{action: Drop, {from}}}]"),
        format!("priority: 1, {all}, ingress: [{{action: Allow, {from}}}, {{action: Reject, ports: [{{port: 80}}]}}]"),
        format!("priority: 9, {a}, egress: [{{action: Drop}}]"),
        format!("priority: 1, tier: emergency, {a}, ingress: [{{action: Allow, {from}}}]"),
        format!("priority: 2, tier: baseline, {all}, ingress: [{{action: Drop, ports: [{{port: 443}}]}}]"),
        format!("priority: 5, ingress: [{{action: Drop, {from}, {a}}}, {{action: Allow, {all}}}]"),
    ];
    specs.iter().map(|spec| format!("{CLUSTER}spec: {{{spec}}}\n")).collect()
}

fn passes_no_more(told: &Projection, than: &Projection, what: &str) {
    let (told, than) = (Verdicts::new(told), Verdicts::new(than));
    for packet in Verdicts::packets() {
        assert!(!told.passes(&packet) || than.passes(&packet), "{packet:?} passes: {what}");
    }
}

#[test]
fn at_a_fresh_start_nothing_passes_that_one_of_two_policies_of_one_name_denies() {
    let pods = pods();
    for all in [of_kubernetes(), of_antrea()] {
        for one in &all {
            let alone = Watched::new(&[("p.yaml", one), ("pods.yaml", &pods)]);
            for other in all.iter().filter(|other| *other != one) {
                for files in [["1.yaml", "2.yaml"], ["2.yaml", "1.yaml"]] {
                    let mut both = Watched::new(&[("pods.yaml", &pods), (files[0], one), (files[1], other)]);
                    let what = format!("{one}{other}{:#?}", both.lines());
                    passes_no_more(both.agent.projection(), alone.agent.projection(), &what);
                    assert!(both.tells(&["2.yaml", "is in", "1.yaml:1 already, which counts"]), "{what}");
                    let text = both.text();
                    both.look();
                    both.write("other.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: z}\n");
                    assert_eq!(both.text(), text, "it stays so: {what}");
                    both.remove(files[1]);
                    assert_eq!(both.text(), alone.text());
                }
            }
        }
    }
}

#[test]
fn a_policy_in_force_stays_whatever_comes_by_its_name_wherever() {
    let pods = pods();
    for all in [of_kubernetes(), of_antrea()] {
        for one in &all {
            let alone = Watched::new(&[("p.yaml", one), ("pods.yaml", &pods)]);
            for other in all.iter().filter(|other| *other != one) {
                let its_own = Watched::new(&[("p.yaml", other), ("pods.yaml", &pods)]);
                let in_front = format!("{other}---\n{one}");
                for (name, text) in [("1.yaml", other), ("9.yaml", other), ("5.yaml", &in_front)] {
                    let mut both = Watched::new(&[("pods.yaml", &pods), ("5.yaml", one)]);
                    both.write(name, text);
                    let what = format!("{name} {one}{other}{:#?}", both.lines());
                    passes_no_more(both.agent.projection(), alone.agent.projection(), &what);
                    if one.starts_with(CLUSTER) {
                        passes_no_more(both.agent.projection(), its_own.agent.projection(), &what);
                    }
                    assert!(both.agent.is_wrong());
                    // It goes wrong itself: the other one does not take its place.
                    if name != "5.yaml" {
                        both.write("5.yaml", &one.replace("spec: {", "spec: {x: y, "));
                        for _ in 0..2 {
                            passes_no_more(both.agent.projection(), alone.agent.projection(), &what);
                            both.write("other.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: z}\n");
                        }
                        both.remove("5.yaml");
                        assert_eq!(both.text(), its_own.text(), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_file_of_what_is_in_force_gets_another_name_while_there_is_another_one() {
    let policies = of_antrea();
    let mut both = Watched::new(&[("pods.yaml", &pods()), ("5.yaml", &policies[1])]);
    both.write("1.yaml", &policies[0]);
    let before = both.text();
    std::fs::rename(both.dir.path().join("5.yaml"), both.dir.path().join("6.yaml")).expect("renamed");
    for _ in 0..5 {
        both.agent.scan();
        assert_eq!(both.text(), before);
    }
}

/// Documents that come again, with another value of a field.
fn again() -> Vec<(String, &'static str, &'static str)> {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: x}\nspec: {clusterIP: 10.96.7.7, \
                   ports: [{port: 80}]}\n";
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nmetadata: {name: s1, namespace: x, \
                 labels: {kubernetes.io/service-name: s}}\nports: [{port: 80}]\nendpoints: [{addresses: [10.10.0.10]}]\n";
    let egress = "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {name: e}\nspec: {appliedTo: {podSelector: {}}, \
                  egressIP: 192.168.77.50}\nstatus: {egressNode: k8s-node-worker-1}\n";
    let pod = pod("x", "c", "app: c", NODE, "10.10.0.55", "").replacen("---\n", "", 1);
    vec![
        (pod.clone(), "podIP: 10.10.0.55", "podIP: 10.10.0.56"),
        (pod, "vswitch/port: x-c", "vswitch/port: x-d"),
        (service.to_owned(), "10.96.7.7", "10.96.7.8"),
        (format!("{service}---\n{slice}"), "10.10.0.10", "10.10.0.11"),
        (egress.to_owned(), "192.168.77.50", "192.168.77.51"),
    ]
}

#[test]
fn any_other_object_in_force_stays_when_it_comes_again_in_front() {
    let pods = pods();
    for (document, from, to) in again() {
        let other = document.replace(from, to);
        let mut watched = Watched::new(&[("pods.yaml", &pods), ("5.yaml", &document)]);
        let before = watched.text();
        assert!(!watched.agent.is_wrong(), "{:#?}", watched.lines());
        for (name, text) in [("1.yaml", other.clone()), ("5.yaml", format!("{other}---\n{document}"))] {
            watched.write(name, &text);
            assert!(watched.tells(&["already, which counts"]), "{:#?}", watched.lines());
            assert_eq!(watched.text(), before, "{name} {to}");
            if name == "1.yaml" {
                watched.remove(name);
            }
        }
        // A change of the one in force is a change.
        watched.write("1.yaml", &other);
        watched.write("5.yaml", &document.replace(from, &format!("{from} ")));
        assert_eq!(watched.text(), before);
        watched.remove("5.yaml");
        assert_ne!(watched.text(), before, "the other one is alone");
    }
}

#[test]
fn what_documents_say_differently_is_allowed_by_the_one_in_force_or_by_all() {
    let c = |labels: &str| pod("x", "c", labels, NODE, "10.10.0.55", "").replacen("---\n", "", 1);
    let far = |labels: &str| c(labels).replace(NODE, "k8s-node-worker-1");
    let space =
        |labels: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: x, labels: {{{labels}}}}}\n");
    let group = |label: &str| {
        format!(
            "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {{name: g}}\nspec: {{podSelector: {{matchLabels: {{app: {label}}}}}}}\n"
        )
    };
    let from = |peer: &str| {
        let head = "spec: {priority: 5, appliedTo: [{podSelector: {matchLabels: {app: d}}}]";
        format!("{CLUSTER}{head}, ingress: [{{action: Allow, from: [{peer}]}}]}}\n")
    };
    let d = pod("y", "d", "app: d", NODE, "10.10.0.66", "");
    let e = pod("x", "e", "app: e", NODE, "10.10.0.67", "");
    let by_app = from("{podSelector: {matchLabels: {app: e}}, namespaceSelector: {}}");
    let by_space = from("{namespaceSelector: {matchLabels: {env: e}}}");
    let by_missing = from(
        "{namespaceSelector: {matchExpressions: [{key: env, operator: NotIn, values: [p]}, {key: own, operator: DoesNotExist}]}}",
    );
    let own = pods().replacen("name: y", "name: y, labels: {own: y}", 1);
    for (policy, weak, strong, more) in [
        (by_app.clone(), c("app: e"), c("app: c"), ""),
        (by_app, far("app: e"), far("app: c"), ""),
        (by_space, space("env: e"), space("env: p"), e.as_str()),
        (by_missing, space("own2: x"), space("env: p"), e.as_str()),
        (from("{group: g}"), group("e"), group("c"), e.as_str()),
    ] {
        let base = own.replacen("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n", "", 1);
        let base = if weak.contains("kind: Namespace") { base } else { own.clone() };
        let base = format!("{base}{d}{more}");
        let is_open = |watched: &Watched| {
            let allowed = watched.allowed();
            ["10.10.0.55", "x/c", "x/e"].iter().any(|name| allowed.contains(*name)) || allowed.contains("*")
        };
        let mut watched = Watched::new(&[("base.yaml", &base), ("p.yaml", &policy), ("5.yaml", &weak)]);
        assert!(is_open(&watched), "{policy}{weak}{:#?}", watched.lines());
        watched.write("5.yaml", &strong);
        assert!(!is_open(&watched), "{policy}{strong}");
        for (name, text) in [("1.yaml", weak.clone()), ("5.yaml", format!("{weak}---\n{strong}"))] {
            watched.write(name, &text);
            assert!(!is_open(&watched), "{name} {policy}{weak}");
            watched.begin_anew();
            assert!(!is_open(&watched), "fresh {name} {policy}{weak}{:#?}", watched.lines());
            watched.look();
            assert!(!is_open(&watched));
            if name == "1.yaml" {
                watched.remove(name);
            }
        }
        assert!(watched.has(Kind::Pod, "y/d"));
    }
}
