//! What is wrong names its file, its line, its object and its field; nothing panics.

use crate::common::{NODE, files, lines, pod, projected};
use std::fs;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::Options;
use vswitch_agent::project::text;

const POLICY: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\nspec:\n";
const CLUSTER: &str =
    "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec:\n  priority: 1\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {vswitch/port: p, vswitch/mac: '02:00:00:00:00:01'}}\n";
const EGRESS: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {name: e}\n";
const CONTROL: &str = "apiVersion: crd.antrea.io/v1alpha2\nkind: TrafficControl\nmetadata: {name: t}\nspec:\n";

/// One document each, and the whole line that it is answered with.
fn check(mistakes: impl IntoIterator<Item = (String, String)>) {
    let mut wrong = Vec::new();
    for (document, expected) in mistakes {
        let (_, problems) = projected(&document);
        let errors: Vec<_> = problems.iter().filter(|problem| problem.is_error()).cloned().collect();
        if lines(&errors) != [expected.clone()] {
            wrong.push(format!("{document}is answered {:#?},\nand not {expected:?}\n", lines(&errors)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn mistakes_in_documents_pods_and_policies_of_kubernetes() {
    let np = "test.yaml:5 NetworkPolicy default/p: ";
    check([
        // Documents.
        ("[1, 2]\n".to_owned(), "test.yaml:1: not a mapping".to_owned()),
        ("kind: Pod\n".to_owned(), "test.yaml:1 Pod: apiVersion: is required, a string".to_owned()),
        ("apiVersion: v1\n".to_owned(), "test.yaml:1: kind: is required, a string".to_owned()),
        ("apiVersion: v1\nkind: Pod\n".to_owned(), "test.yaml:1 Pod: metadata: is required".to_owned()),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    app: 5\n".to_owned(),
            "test.yaml:6 Pod a: metadata.labels.app: invalid type: integer `5`, expected a string; quote it".to_owned(),
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: b}\n".to_owned(),
            "test.yaml:3 Node b/a: metadata.namespace: this kind has no namespace".to_owned(),
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a/b}\n".to_owned(), "test.yaml:3 Pod a/b: metadata.name: \"a/b\" is no name".to_owned()),
        // Pods.
        (
            format!("{}spec: {{nodeName: {NODE}}}\nstatus: {{podIP: 10.0.0.1}}\n", POD.replace("02:00", "2:00")),
            "test.yaml:1 Pod default/a: metadata.annotations[vswitch/mac]: \"2:00:00:00:00:01\" is no MAC address".to_owned(),
        ),
        // Policies of Kubernetes.
        (format!("{POLICY}  podSelector: {{matchLabel: {{a: b}}}}\n"), "test.yaml:5 NetworkPolicy default/p: spec.podSelector.matchLabel: unknown field; known here: matchLabels, matchExpressions".to_owned()),
        (
            format!("{POLICY}  podSelector: {{matchExpressions: [{{key: a, operator: In}}]}}\n"),
            format!("{np}spec.podSelector.matchExpressions[0].values: is required with In and NotIn"),
        ),
        (format!("{POLICY}  policyTypes: [Ingres]\n"), "test.yaml:5 NetworkPolicy default/p: spec.policyTypes[0]: \"Ingres\" is not one of Ingress, Egress".to_owned()),
        (format!("{POLICY}  ingress: [{{from: [{{}}]}}]\n"), format!("{np}spec.ingress[0].from[0]: needs podSelector, namespaceSelector or ipBlock")),
        (format!("{POLICY}  ingress: [{{from: [{{ipBlock: {{cidr: 10.0.0.0/33}}}}]}}]\n"), format!("{np}spec.ingress[0].from[0].ipBlock.cidr: \"10.0.0.0/33\" is no prefix")),
        (format!("{POLICY}  ingress: [{{from: [{{ipBlock: {{cidr: 10.0.0.0/8, except: [x]}}}}]}}]\n"), format!("{np}spec.ingress[0].from[0].ipBlock.except[0]: \"x\" is no prefix")),
        (format!("{POLICY}  egress: [{{ports: [{{protocol: tcp}}]}}]\n"), format!("{np}spec.egress[0].ports[0].protocol: \"tcp\" is not one of TCP, UDP, SCTP")),
        (format!("{POLICY}  egress: [{{ports: [{{port: 80, endPort: 79}}]}}]\n"), format!("{np}spec.egress[0].ports[0].endPort: is below port")),
        (format!("{POLICY}  egress: [{{ports: [{{port: http, endPort: 79}}]}}]\n"), format!("{np}spec.egress[0].ports[0].endPort: goes with no port by name")),
        (format!("{POLICY}  egress: [{{ports: [{{port: '443'}}]}}]\n"), format!("{np}spec.egress[0].ports[0].port: \"443\" is no name of a port; a number is written without quotes")),
        (format!("{POLICY}  egress: [{{ports: [{{port: a--b}}]}}]\n"), format!("{np}spec.egress[0].ports[0].port: \"a--b\" is no name of a port")),
        (format!("{POLICY}  egress: [{{ports: [{{port: 65536}}]}}]\n"), format!("{np}spec.egress[0].ports[0].port: 65536 is no port, which is 1 to 65535")),
    ]);
}

#[test]
fn mistakes_in_antreas_kinds_and_services() {
    let [five, six, acnp] = [5, 6, 7].map(|line| format!("test.yaml:{line} ClusterNetworkPolicy p: "));
    let all = "appliedTo: [{podSelector: {}}]";
    check([
        // Antrea's.
        (format!("{CLUSTER}  tier: gold\n  {all}\n"), format!("{six}spec.tier: there is no Tier \"gold\"")),
        (format!("{CLUSTER}  {all}\n").replace("priority: 1", "priority: 0.5"), format!("{five}spec.priority: 0.5 is not in 1 to 10000")),
        (format!("{CLUSTER}  {all}\n").replace("  priority: 1\n", ""), "test.yaml:4 ClusterNetworkPolicy p: spec.priority: is required".to_owned()),
        (format!("{CLUSTER}  {all}\n  ingress: [{{action: Deny}}]\n"), "test.yaml:7 ClusterNetworkPolicy p: spec.ingress[0].action: \"Deny\" is not one of Allow, Drop, Reject, Pass".to_owned()),
        (format!("{CLUSTER}  ingress: [{{action: Drop}}]\n"), format!("{six}spec.ingress[0].appliedTo: is required: the policy has none")),
        (format!("{CLUSTER}  {all}\n  ingress: [{{action: Drop, {all}}}]\n"), format!("{acnp}spec.ingress[0].appliedTo: the policy has one already")),
        (format!("{CLUSTER}  {all}\n  ingress: [{{action: Drop, from: [{{fqdn: a.b}}]}}]\n"), format!("{acnp}spec.ingress[0].from[0].fqdn: is for rules of egress")),
        (format!("{CLUSTER}  {all}\n  ingress: [{{action: Drop, to: [{{fqdn: a.b}}]}}]\n"), format!("{acnp}spec.ingress[0].to: is for the other direction")),
        (format!("{CLUSTER}  {all}\n  egress: [{{action: Drop, toServices: [{{name: s}}]}}]\n"), format!("{acnp}spec.egress[0].toServices[0].namespace: is required")),
        (format!("{CLUSTER}  {all}\n  egress: [{{action: Drop, protocols: [{{}}]}}]\n"), format!("{acnp}spec.egress[0].protocols[0]: needs one of icmp and igmp")),
        (format!("{CLUSTER}  {all}\n  egress: [{{action: Drop, to: [{{ipBlock: {{cidr: 239.0.0.0/8}}}}]}}]\n"), format!("{acnp}spec.egress[0].to: a prefix of multicast groups is one group: /32")),
        (format!("{CLUSTER}  {all}\n  egress: [{{action: Drop, to: [{{ipBlock: {{cidr: 239.1.1.1/32}}}}, {{fqdn: a.b}}]}}]\n"), format!("{acnp}spec.egress[0].to: multicast groups need a rule of their own")),
        (format!("{CLUSTER}  {all}\n  egress: [{{action: Drop, to: [{{ipBlock: {{cidr: 239.1.1.1/32}}}}], protocols: [{{igmp: {{}}}}]}}]\n"), format!("{acnp}spec.egress[0].protocols: igmp names its group itself (groupAddress), and icmp goes to none")),
        // Services.
        (format!("{SERVICE}  clusterIP: 10.96.0.1\n"), "test.yaml:4 Service default/s: spec.ports: is required".to_owned()),
        (format!("{SERVICE}  clusterIP: 10.96.0.1\n  ports: [{{port: 80, protocol: ICMP}}]\n"), "test.yaml:6 Service default/s: spec.ports[0].protocol: \"ICMP\" is not one of TCP, UDP, SCTP".to_owned()),
        (format!("{SERVICE}  clusterIP: 10.96.0.1\n  ports: [{{port: 80000}}]\n"), "test.yaml:6 Service default/s: spec.ports[0].port: invalid value: integer `80000`, expected u16".to_owned()),
        (format!("{SERVICE}  clusterIP: 10.96.0.1\n  ports: [{{port: 80, targetPort: '80'}}]\n"), "test.yaml:6 Service default/s: spec.ports[0].targetPort: \"80\" is no name of a port; a number is written without quotes".to_owned()),
        (format!("{SERVICE}  clusterIP: 10.96.0.1\n  loadBalancerSourceRanges: [10.0.0.0/33]\n  ports: [{{port: 80}}]\n"), "test.yaml:6 Service default/s: spec.loadBalancerSourceRanges[0]: \"10.0.0.0/33\" is no prefix".to_owned()),
        // Egresses and TrafficControls.
        (format!("{EGRESS}spec: {{egressIP: 10.0.0.1, appliedTo: {{}}}}\n"), "test.yaml:4 Egress e: spec.appliedTo: needs podSelector, namespaceSelector or group".to_owned()),
        (format!("{EGRESS}spec: {{egressIP: 10.0.0.1, appliedTo: {{podSelector: {{}}}}, bandwidth: {{rate: fast, burst: 1k}}}}\n"), "test.yaml:4 Egress e: spec.bandwidth.rate: \"fast\" is no quantity of bits, such as 500k or 10M".to_owned()),
        (format!("{CONTROL}  appliedTo: {{podSelector: {{}}}}\n  direction: Both\n  action: Mirror\n  targetPort: {{}}\n"), "test.yaml:8 TrafficControl t: spec.targetPort: needs one of ovsInternal and device".to_owned()),
        (format!("{CONTROL}  appliedTo: {{podSelector: {{}}}}\n  direction: Both\n  action: Mirror\n  targetPort: {{geneve: {{remoteIP: 1.1.1.1}}}}\n"), "test.yaml:8 TrafficControl t: spec.targetPort.geneve: tunnels are not made here; add the port to the bridge, and name it as a device".to_owned()),
    ]);
}

#[test]
fn what_goes_with_nothing_else_and_what_is_of_another_namespace() {
    let with_namespaces = |more: &str| {
        let document = format!(
            "{CLUSTER}  appliedTo: [{{podSelector: {{}}}}]\n  ingress: [{{action: Drop, from: [{{namespaces: {{match: Self}}, {more}}}]}}]\n"
        );
        let line = "test.yaml:7 ClusterNetworkPolicy p: spec.ingress[0].from[0].namespaces: goes with podSelector only";
        (document, line.to_owned())
    };
    check(
        [
            "serviceAccount: {name: a, namespace: b}",
            "fqdn: a.b",
            "nodeSelector: {}",
            "externalEntitySelector: {}",
            "scope: ClusterSet",
            "namespaceSelector: {}",
        ]
        .map(with_namespaces),
    );
    let namespaced =
        CLUSTER.replace("ClusterNetworkPolicy", "NetworkPolicy").replace("name: p", "name: p, namespace: a");
    check(["serviceAccount", "service"].map(|field| {
        let document = format!("{namespaced}  appliedTo: [{{{field}: {{name: s, namespace: b}}}}]\n");
        let reason = "a policy of a namespace applies to nothing of another one";
        (document, format!("test.yaml:6 NetworkPolicy a/p: spec.appliedTo[0].{field}.namespace: {reason}"))
    }));
}

#[test]
fn nodes_in_applied_to_go_with_nothing_else() {
    let others = [
        "podSelector: {}",
        "namespaceSelector: {}",
        "externalEntitySelector: {}",
        "group: g",
        "serviceAccount: {name: a, namespace: b}",
    ];
    let applied = |more: &str| format!("appliedTo: [{{nodeSelector: {{}}, {more}}}]");
    let field = "appliedTo[0].nodeSelector: goes with nothing else";
    check(others.map(|more| {
        let document = format!("{CLUSTER}  {}\n  ingress: [{{action: Drop}}]\n", applied(more));
        (document, format!("test.yaml:6 ClusterNetworkPolicy p: spec.{field}"))
    }));
    check(others.map(|more| {
        let document = format!("{CLUSTER}  ingress: [{{action: Drop, {}}}]\n", applied(more));
        (document, format!("test.yaml:6 ClusterNetworkPolicy p: spec.ingress[0].{field}"))
    }));
}

/// Every type in both directions: the schema of Antrea's policies has queries in ingress, and
/// reports in egress.
#[test]
fn igmp_messages_are_of_the_direction_of_their_rule() {
    let sides = [
        ("ingress", &[0x11][..], "is 0x11 (query) in rules of ingress"),
        ("egress", &[0x12, 0x16, 0x22], "is 0x12, 0x16 or 0x22 (report of version 1, 2 or 3) in rules of egress"),
    ];
    for (side, known, reason) in sides {
        for kind in 0..=u8::MAX {
            let rule = format!("{side}: [{{action: Drop, protocols: [{{igmp: {{igmpType: {kind}}}}}]}}]");
            let document = format!("{CLUSTER}  appliedTo: [{{podSelector: {{}}}}]\n  {rule}\n");
            if known.contains(&kind) {
                crate::common::good(&document);
            } else {
                let field = format!("spec.{side}[0].protocols[0].igmp.igmpType");
                check([(document, format!("test.yaml:7 ClusterNetworkPolicy p: {field}: {reason}"))]);
            }
        }
    }
}

#[test]
fn names_of_rules_that_are_there_twice_are_told_and_leave_no_rule_out() {
    for (rules, fields) in [
        ("ingress: [{name: a, action: Drop}, {name: a, action: Allow}]", ["ingress[0]", "ingress[1]"]),
        ("egress: [{name: a, action: Drop}, {action: Drop}, {name: a, action: Pass}]", ["egress[0]", "egress[2]"]),
        ("ingress: [{name: a, action: Drop}]\n  egress: [{name: a, action: Drop}]", ["ingress[0]", "egress[0]"]),
    ] {
        let pod = pod("a", "x", "app: x", NODE, "10.10.0.11", "");
        let document = format!("{CLUSTER}  appliedTo: [{{podSelector: {{}}}}]\n  {rules}\n{pod}");
        let (projection, problems) = projected(&document);
        let reason = "\"a\" is the name of another rule of the policy, too; Antrea refuses that";
        let told = fields.map(|field| format!("ClusterNetworkPolicy p: spec.{field}.name: {reason}"));
        let ends: Vec<_> =
            lines(&problems).iter().map(|line| line.split_once(' ').unwrap_or_default().1.to_owned()).collect();
        assert_eq!(ends, told, "{rules}");
        assert!(problems.iter().all(|problem| !problem.is_error() && problem.clone().strictly().is_error()));
        let text = text(&projection, false);
        assert_eq!(text.matches("Rule {").count(), rules.matches("action:").count(), "{text}");
    }
}

#[test]
fn unknown_kinds_are_told_and_left_out_and_those_of_no_meaning_silently() {
    for (api, kind, meaning) in [
        ("v1", "Gadget", "its kind is not known"),
        ("crd.antrea.io/v1beta1", "IPPool", "addresses are not given out of pools here"),
        ("policy.networking.k8s.io/v1alpha1", "ExternalNetworkSet", "policies of this kind are not served"),
        ("example.com/v1", "Widget", "its kind is not known"),
    ] {
        let (_, problems) = projected(&format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a}}\n"));
        let line = format!("test.yaml:1 {kind} a: kind: {api} {kind} is left out: {meaning}");
        assert!(lines(&problems)[0].starts_with(&line) && problems.len() == 1, "{problems:?}");
        assert!(!problems[0].is_error() && problems[0].clone().strictly().is_error());
    }
    for (api, kind) in [
        ("apps/v1", "Deployment"),
        ("v1", "ConfigMap"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("networking.k8s.io/v1", "Ingress"),
        ("networking.k8s.io/v1", "ServiceCIDR"),
        ("metallb.io/v1beta1", "IPAddressPool"),
        ("cert-manager.io/v1", "Certificate"),
    ] {
        let document = format!("apiVersion: {api}\nkind: {kind}\nspec: {{anything: [1]}}\n");
        assert_eq!(lines(&projected(&document).1), [""; 0], "{api} {kind}");
    }
    assert_eq!(lines(&projected("").1), [""; 0]);
}

#[test]
fn versions_of_known_kinds_are_read_as_the_known_one() {
    let text = "apiVersion: crd.antrea.io/v1alpha1\nkind: Tier\nmetadata: {name: a}\nspec: {priority: 5}\n";
    let (_, problems) = projected(text);
    let line = "test.yaml:1 Tier a: apiVersion: \"crd.antrea.io/v1alpha1\" is read as crd.antrea.io/v1beta1";
    assert_eq!(lines(&problems), [line]);
    assert!(!problems[0].is_error());
}

#[test]
fn selectors_that_match_nothing_are_odd_and_match_nothing() {
    let text_of = |document: String| {
        let (projection, problems) = projected(&document);
        assert!(problems.iter().all(|problem| !problem.is_error()), "{problems:?}");
        (text(&projection, false), lines(&problems))
    };
    let (_, problems) = text_of(format!("{POLICY}  podSelector: {{matchLabels: {{a: b}}}}\n"));
    assert_eq!(problems, ["test.yaml:5 NetworkPolicy default/p: spec.podSelector: selects no Pod"]);

    let pod = format!("---\n{POD}spec: {{nodeName: {NODE}}}\nstatus: {{podIP: 10.10.0.9}}\n");
    let from = "ingress: [{from: [{podSelector: {matchLabels: {a: b}}}]}]";
    let (text, problems) = text_of(format!("{POLICY}  podSelector: {{}}\n  {from}\n{pod}"));
    assert_eq!(
        problems,
        ["test.yaml:6 NetworkPolicy default/p: spec.ingress[0].from: pods a=b of namespace default: there are none"]
    );
    assert!(
        text.contains("AddressGroup {\n    name: \"pods a=b of namespace default\",\n}"),
        "an empty group, which is not anybody: {text}"
    );
}

/// A file that is half written: cut at each line and in the middle of each, and in the middle of
/// each word.
#[test]
fn files_cut_anywhere_name_file_and_line_or_are_shorter() {
    let mut cuts = 0;
    for (name, text) in files() {
        for (end, _) in text.char_indices() {
            let is_line = text[..end].ends_with('\n');
            if !is_line && end % 7 != 0 {
                continue;
            }
            cuts += 1;
            match vswitch_agent::source::documents(&text[..end]) {
                Ok(trees) => {
                    let (documents, problems) = vswitch_agent::kinds::understand(&name, trees);
                    for line in lines(&problems) {
                        assert!(
                            line.starts_with(&format!("{name}:")) && !line.starts_with(&format!("{name}:0")),
                            "{line}"
                        );
                    }
                    let (model, _) = vswitch_agent::model::Model::new(documents);
                    vswitch_agent::project::project(&model, NODE);
                }
                Err(error) => {
                    let last = text[..end].lines().count();
                    assert!(
                        (1..=last + 1).contains(&error.line) && !error.reason.is_empty(),
                        "{name} at {end}: {error:?}"
                    );
                }
            }
        }
    }
    assert!(cuts > 500, "{cuts}");
}

#[test]
fn a_policy_that_goes_wrong_stays_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files() {
        fs::write(dir.path().join(name), text).expect("written");
    }
    let mut agent = Agent::new(dir.path(), &[], NODE, Options::default());
    assert!(agent.scan() | agent.scan());
    let before = text(agent.projection(), false);
    let policies = dir.path().join("policies.yaml");
    let right = fs::read_to_string(&policies).expect("readable");
    // The parser finds nothing wrong with it, the resolver does.
    fs::write(&policies, right.replace("tier: application", "tier: gold")).expect("written");
    assert!(agent.scan() | agent.scan());
    let expected = "ClusterNetworkPolicy web-app-db-network-policy: spec.tier: there is no Tier \"gold\"";
    assert!(lines(agent.problems()).iter().any(|line| line.ends_with(expected)), "{:?}", agent.problems());
    assert_eq!(text(agent.projection(), false), before);

    let mut strict = Agent::new(dir.path(), &[], NODE, Options { is_strict: true, opens_anyway: false });
    assert!(strict.scan() | strict.scan());
    assert!(strict.is_wrong() && strict.projection().objects.is_empty() && strict.projection().node.is_none());
}

#[test]
fn new_pods_are_held_back_while_something_cannot_be_read() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files() {
        fs::write(dir.path().join(name), text).expect("written");
    }
    let options = [false, true].map(|opens_anyway| Options { is_strict: false, opens_anyway });
    let mut agents = options.map(|options| Agent::new(dir.path(), &[], NODE, options));
    let mut scan = || {
        agents.each_mut().map(|agent| {
            assert!(agent.scan() | agent.scan());
            (text(agent.projection(), false).contains("default/new"), lines(agent.problems()))
        })
    };
    scan();
    let bad = dir.path().join("bad.yaml");
    fs::write(&bad, "kind: [").expect("written");
    fs::write(dir.path().join("new.yaml"), pod("default", "new", "app: web", NODE, "10.10.0.99", "")).expect("written");
    let [(is_there, problems), (is_there_anyway, _)] = scan();
    assert!(!is_there && is_there_anyway);
    let expected = "new.yaml:2 Pod default/new: is new, and held back until";
    assert!(problems.iter().any(|line| line.contains(expected)), "{problems:?}");
    fs::remove_file(&bad).expect("removed");
    let [(is_there, problems), _] = scan();
    assert!(is_there && problems.is_empty(), "{problems:?}");
}
