//! A key that is there twice: with the same value it is as if it were there once; with another one
//! its field is wrong, and nothing else.

use crate::common::{CLUSTER, K8S, NODE, files, lines, object, pod, pods, policies};
use vswitch_agent::kinds::understand;
use vswitch_agent::model::Model;
use vswitch_agent::problem::Problem;
use vswitch_agent::project::{Projection, project, text};
use vswitch_agent::source::parts;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{Direction, Kind, RuleAction};

/// What a text comes to, beside the Pods of all tests.
fn projected(more: &str) -> (Projection, Vec<Problem>) {
    let nodes = files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for (name, text) in [("test.yaml", more), ("nodes.yaml", &nodes), ("pods.yaml", &pods())] {
        let trees = parts(text).into_iter().map(|part| part.expect("it is YAML")).collect();
        let (all, odd) = understand(name, trees);
        documents.extend(all);
        problems.extend(odd);
    }
    let (model, odd) = Model::new(documents);
    problems.extend(odd);
    let (projection, odd) = project(&model, NODE);
    problems.extend(odd);
    (projection, problems)
}

fn held(problems: &[Problem]) -> Vec<String> {
    let lines = lines(problems);
    let held = lines.iter().filter_map(|line| line.split_once(": until it is right, "));
    held.map(|(_, held)| held.to_owned()).collect()
}

/// A text with each of its entries between `<` and `>` once, and twice.
fn once_and_twice(text: &str) -> Vec<(String, String)> {
    let plain = |text: &str| text.replace(['<', '>'], "");
    let begins: Vec<usize> = text.match_indices('<').map(|(at, _)| at).collect();
    let twice = begins.iter().map(|at| {
        let end = at + text[*at..].find('>').expect("an end");
        let entry = &text[at + 1..end];
        plain(&format!("{}{entry}, {entry}{}", &text[..*at], &text[end..]))
    });
    twice.map(|twice| (plain(text), twice)).collect()
}

#[test]
fn the_same_twice_is_the_same_once() {
    for document in [
        format!("{K8S}spec: {{<podSelector: {{}}>, <policyTypes: [Ingress]>, ingress: [{{<from: [{{podSelector: {{}}}}]>, ports: [{{<port: 80>, <protocol: TCP>}}]}}]}}\n"),
        format!("{K8S}spec: {{podSelector: {{<matchLabels: {{app: web}}>}}, ingress: [{{from: [{{<podSelector: {{}}>}}]}}], <egress: []>}}\n"),
        format!("{K8S}spec: {{podSelector: {{matchLabels: {{<app: web>}}}}, ingress: [{{<ports: [{{port: 80}}]>}}]}}\n"),
        format!("{CLUSTER}spec: {{<priority: 5>, <tier: platform>, <appliedTo: [{{podSelector: {{matchLabels: {{app: web}}}}}}]>, ingress: [{{<action: Drop>, <from: [{{podSelector: {{}}}}]>, <name: r>}}], <egress: [{{action: Drop}}]>}}\n"),
        "apiVersion: v1\nkind: Service\nmetadata: {<name: s>, <namespace: a>, <labels: {x: y}>}\nspec: {<clusterIP: 10.96.0.9>, <selector: {app: web}>, ports: [{<port: 80>, <name: x>}]}\n".to_owned(),
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: c, labels: {<env: prod>}, annotations: {<x: y>}}\n".to_owned(),
        pod("b", "x", "<app: x>", NODE, "10.10.0.99", "").replace("podIP: 10.10.0.99", "<podIP: 10.10.0.99>, <phase: Running>").replace("nodeName: ", "<nodeName: ").replace("}\nstatus", ">}\nstatus"),
        "apiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {name: t}\nspec: {<priority: 7>}\n".to_owned(),
        "{<apiVersion: v1>, <kind: Namespace>, metadata: {name: c}}\n".to_owned(),
    ] {
        for (once, twice) in once_and_twice(&document) {
            let ((one, problems), (two, more)) = (projected(&once), projected(&twice));
            assert!(!problems.iter().any(Problem::is_error), "{once}{:#?}", lines(&problems));
            assert_eq!(text(&two, false), text(&one, false), "{twice}");
            assert_eq!(lines(&more), lines(&problems), "nothing is said of it: {twice}");
        }
    }
}

#[test]
fn what_means_nothing_here_takes_nothing_with_it() {
    let right = pod("b", "x", "app: x", NODE, "10.10.0.99", ", containers: [{name: x, image: a}]");
    let (expected, _) = projected(&right);
    for (from, to) in [
        ("image: a", "image: a, image: b"),
        ("vswitch/port", "x: 1, x: 2, vswitch/port"),
        ("vswitch/port", "x: y, x: z, vswitch/port"),
        ("nodeName", "volumes: 1, volumes: 2, nodeName"),
        ("podIP", "startTime: 1, startTime: 2, podIP"),
        ("name: x, namespace", "generation: 1, generation: 2, name: x, namespace"),
    ] {
        let (projection, problems) = projected(&right.replacen(from, to, 1));
        assert_eq!(text(&projection, false), text(&expected, false), "{to}: {:#?}", lines(&problems));
        assert!(!problems.iter().any(Problem::is_error), "{to}: {:#?}", lines(&problems));
    }
}

#[test]
fn two_values_are_one_wrong_field_and_name_it() {
    let rule = "ingress: [{action: Drop, from: [{podSelector: {matchLabels: {app: zz}}}]}]";
    let of = |spec: &str| {
        format!("{CLUSTER}spec: {{priority: 5, appliedTo: [{{podSelector: {{matchLabels: {{app: db}}}}}}], {spec}}}\n")
    };
    let ingress = "what comes in is dropped for b/db";
    // Of the whole policy: whom it applies to, in its directions.
    for (document, field, expected) in [
        (of(rule).replace("priority: 5", "priority: 5, priority: 6"), "spec.priority", ingress),
        (of(rule).replace("priority: 5", "priority: 5, tier: a, tier: b"), "spec.tier", ingress),
        (
            of(rule).replace("app: db", "app: db, app: web"),
            "spec.appliedTo[0].podSelector.matchLabels.app",
            "what comes in is dropped for a/web1, a/web2, b/db",
        ),
        (of(&format!("{rule}, ingress: []")), "spec.ingress", ingress),
        (of(rule).replace("name: p", "name: p, name: q"), "metadata.name", ingress),
        (of(rule) + "spec: {}\n", "spec", "everything is dropped for a/web1, a/web2, b/db"),
        (
            format!(
                "{K8S}spec: {{podSelector: {{matchLabels: {{app: web}}}}, policyTypes: [Egress], policyTypes: [Ingress]}}\n"
            ),
            "spec.policyTypes",
            "everything is dropped for a/web1, a/web2",
        ),
        (format!("{K8S}spec: {{podSelector: {{}}}}\nspec: {{}}\n"), "spec", "everything is dropped for a/web1, a/web2"),
    ] {
        let (_, problems) = projected(&document);
        assert_eq!(held(&problems), [expected], "{document}{:#?}", lines(&problems));
        let errors: Vec<_> = problems.iter().filter(|problem| problem.is_error()).collect();
        assert_eq!((errors.len(), errors[0].field.as_str()), (1, field), "{document}{errors:?}");
        assert!(errors[0].reason.starts_with("is there twice, again in line "), "{errors:?}");
    }
    // Of one rule: everything of its direction, at its place.
    for (from, to) in [
        ("action: Drop", "action: Drop, action: Allow"),
        ("app: zz", "app: zz, app: yy"),
        ("from: [", "name: a, name: b, from: ["),
        ("from: [", "from: [], from: ["),
    ] {
        let (projection, problems) = projected(&of(rule).replace(from, to));
        assert_eq!((policies(&projection), held(&problems)), (vec!["acnp:p"], vec![]), "{to}");
        let Object::NetworkPolicy(policy) = object(&projection, Kind::NetworkPolicy, "acnp:p") else {
            panic!("a policy")
        };
        let rules: Vec<_> = policy
            .rules
            .iter()
            .map(|rule| (rule.direction(), rule.action(), rule.peer.clone().unwrap_or_default().address_groups.len()))
            .collect();
        assert_eq!(rules, [(Direction::Ingress, RuleAction::Drop, 0)], "{to}");
    }
    // Of a rule that allows: it is left out.
    let (projection, _) = projected(&format!(
        "{K8S}spec: {{podSelector: {{}}, ingress: [{{from: [], from: [{{podSelector: {{}}}}]}}]}}\n"
    ));
    let Object::NetworkPolicy(policy) = object(&projection, Kind::NetworkPolicy, "np:a/p") else { panic!("a policy") };
    assert!(policy.isolates_ingress && policy.rules.is_empty());
}

#[test]
fn documents_beside_are_read() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.9, selector: {app: web}, ports: [{port: 80}]}\n";
    let item = service.replace('\n', "\n  ");
    for bad in [
        "kind: Pod, kind: Node",
        "kind: ConfigMap, data: 1, data: 2",
        "kind: Pod, metadata: {name: x}, spec: 1, spec: 2",
        "kind: !x Pod",
    ] {
        let list = format!("apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, {bad}}}\n- {item}");
        let (projection, problems) = projected(&list);
        assert!(
            projection.objects.contains_key(&(Kind::Service as i32, "a/s".to_owned())),
            "{bad}: {:#?}",
            lines(&problems)
        );
    }
}
