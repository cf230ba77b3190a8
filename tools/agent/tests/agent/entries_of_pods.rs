//! One entry of a Pod or Namespace is wrong: the rest is in force. Where a policy may mean what
//! cannot be read, the object is in doubt.

use crate::common::{K8S, NODE, object, policies};
use crate::dual::Scene;
use vswitch_proto::antrea::v1::group_member::Member;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Kind};

fn pod(meta: &str, spec: &str, status: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: prod, labels: {{app: x}}, annotations: \
         {{vswitch/port: pp, vswitch/mac: '02:00:00:00:00:77'}}{meta}}}\nspec: {{nodeName: {NODE}{spec}}}\n\
         status: {{podIPs: [{{ip: 10.10.0.77}}]{status}}}\n"
    )
}

/// A policy that selects the Pod, and one of others of its namespace.
fn policy(selector: &str) -> String {
    format!(
        "{}spec: {{podSelector: {{matchLabels: {{{selector}}}}}}}\n",
        K8S.replace("namespace: a", "namespace: prod")
    )
}

#[test]
fn what_means_nothing_to_the_network_lets_a_fresh_pod_in() {
    let ip = |ips: &str| pod("", "", "").replace("[{ip: 10.10.0.77}]", ips);
    let plain = [
        pod(", uid: 5", "", ""),
        pod(", deletionTimestamp: 5", "", ""),
        pod("", "", ", conditions: 5"),
        pod("", "", ", conditions: [{type: Ready}]"),
        pod("", "", ", podIP: 5"),
        pod("", "", "").replace("vswitch/port: pp", "vswitch/port: pp, a: 5, b: true"),
        pod("", ", containers: [{ports: [{containerPort: x}, {containerPort: 80}]}]", ""),
        pod("", ", containers: [{name: 5}], initContainers: [{name: []}]", ""),
        ip("[{ip: 10.10.0.77}, {ip: 'fd00:zz::13'}]"),
        ip("[{ip: 'fd00::1/64'}, {ip: 10.10.0.77}]"),
        ip("[{ip: 10.10.0.77}, {ip: 5}]"),
        ip("[{ip: 10.10.0.77}, {}]"),
        ip("[{ip: 10.10.0.77}, {ip: '::'}]"),
        pod("", "", "").replace("vswitch/port: pp", "vswitch/port: pp, vswitch/addresses: '10.10.0.77,fd00:zz::1'"),
    ];
    let right = Scene::new(&[&pod("", "", "")]).pod("prod/p");
    for case in &plain {
        for selector in ["app: x", "app: y"] {
            let scene = Scene::new(&[case, &policy(selector)]);
            assert_eq!(scene.pod("prod/p"), right, "{case}");
            assert!(!scene.errors("Pod prod/p: ").is_empty(), "{case}");
            assert!(policies(scene.projection()).iter().all(|name| !name.contains("held")), "{case}");
        }
        // One that was right stays as it was.
        let both = pod("", "", "").replace("[{ip: 10.10.0.77}]", "[{ip: 10.10.0.77}, {ip: 'fd00:10:10::77'}]");
        let mut scene = Scene::new(&[&both]);
        let before = scene.pod("prod/p");
        scene.write("0.yaml", case);
        assert_eq!(scene.pod("prod/p").port, before.port, "{case}");
        assert!(scene.pod("prod/p") == before || case.contains("addresses"), "{case}");
    }
}

/// Whether a rule of a ClusterNetworkPolicy `q` is about packets of a Pod, or of everybody.
fn is_peer(scene: &Scene, name: &str) -> bool {
    let Object::NetworkPolicy(policy) = object(scene.projection(), Kind::NetworkPolicy, "acnp:q") else { panic!("it") };
    let is_it = |member: &v1::GroupMember| match &member.member {
        Some(Member::Pod(pod)) => pod == name,
        Some(Member::Address(address)) => address == "10.10.0.77",
        None => false,
    };
    let has = |group: &String| match object(scene.projection(), Kind::AddressGroup, group) {
        Object::AddressGroup(group) => group.members.iter().any(is_it),
        _ => panic!("a group"),
    };
    policy.rules.iter().filter_map(|rule| rule.peer.as_ref()).flat_map(|peer| &peer.address_groups).any(has)
}

#[test]
fn what_a_policy_may_mean_leaves_a_fresh_pod_in_doubt() {
    let held = |scene: &Scene| policies(scene.projection()).iter().any(|name| name.contains("held"));
    // Labels: any policy of the namespace may bind it.
    let labels = |labels: &str| pod("", "", "").replace("{app: x}", labels);
    for case in
        [labels("{app: x, v: 5}"), labels("{app: x, v: [a]}"), labels("5"), labels("[a]"), labels("{app: true}")]
    {
        for selector in ["app: x", "app: y", "v: '5'"] {
            let scene = Scene::new(&[&case, &policy(selector)]);
            assert_eq!(scene.pod("prod/p").port, "pp", "{case}");
            assert!(held(&scene), "{case} {selector}");
        }
        assert!(Scene::new(&[&case]).errors("Pod prod/p: ").len() == 1, "{case}");
        // No rule that allows means it by a label, be it one that it does not have; a rule that
        // denies does.
        for (action, is_meant) in [("Allow", false), ("Drop", true)] {
            let rule = format!(
                "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {{name: q}}\nspec: {{priority: 1, \
                 appliedTo: [{{podSelector: {{matchLabels: {{app: z}}}}}}], ingress: [{{action: {action}, from: \
                 [{{podSelector: {{matchExpressions: [{{key: v, operator: DoesNotExist}}]}}}}]}}]}}\n"
            );
            let other =
                pod("", "", "").replace("app: x", "app: z, v: z").replace("name: p,", "name: z,").replace(".77", ".78");
            let other = other.replace(": pp", ": pz").replace("00:77", "00:78");
            let scene = Scene::new(&[&case, &rule, &other]);
            assert_eq!(is_peer(&scene, "prod/p"), is_meant, "{case} {action}");
        }
    }
    // Its account: policies for accounts.
    let of = |account: &str| {
        format!(
            "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {{name: p}}\nspec: {{priority: 1, \
             appliedTo: [{{{account}}}], ingress: [{{action: Drop}}]}}\n"
        )
    };
    for (case, account, is_held) in [
        (", serviceAccountName: [x]", "serviceAccount: {name: a, namespace: prod}", true),
        (", serviceAccountName: b", "serviceAccount: {name: a, namespace: prod}", false),
    ] {
        let scene = Scene::new(&[&pod("", case, ""), &of(account)]);
        assert_eq!((scene.pod("prod/p").port.as_str(), held(&scene)), ("pp", is_held), "{case}");
    }
    // Where it is, is not guessed.
    for case in [
        pod("", "", "").replace(&format!("nodeName: {NODE}"), "nodeName: 5"),
        pod("", ", hostNetwork: x", ""),
        // Rules may mean its ports by their names.
        pod("", ", containers: 5", ""),
        pod("", ", containers: [5]", ""),
        pod("", ", containers: [{ports: 5}]", ""),
        pod("", ", containers: [{ports: [5]}]", ""),
        pod("", ", containers: [{ports: [{name: http, containerPort: x}]}]", ""),
        pod("", ", containers: [{ports: [{name: [http], containerPort: 80}]}]", ""),
        pod("", ", containers: [{ports: [{name: http, containerPort: 80, protocol: 5}]}]", ""),
        pod("", ", initContainers: [{restartPolicy: 5}]", ""),
        pod("", "", "").replace("name: p,", "name: 5,"),
        pod("", "", "").replace("namespace: prod", "namespace: [prod]"),
        pod("", "", "").replace("vswitch/port: pp, ", ""),
        pod("", "", "").replace("vswitch/port: pp", "vswitch/port: pp, vswitch/vlan: x"),
        pod("", "", "").replace("[{ip: 10.10.0.77}]", "[{ip: x}]"),
    ] {
        assert!(!Scene::new(&[&case]).has(Kind::Pod, "prod/p"), "{case}");
    }
}

#[test]
fn pods_stay_when_their_namespace_comes_with_an_entry_that_is_wrong() {
    let namespace = |more: &str| {
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: prod, labels: {{env: prod}}{more}}}\n")
    };
    let drop = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n\
                spec: {priority: 1, appliedTo: [{namespaceSelector: {matchLabels: {v: '5'}}}], ingress: [{action: Drop}]}\n";
    for (more, is_in_doubt) in [
        (", annotations: {a: 1}", false),
        (", annotations: [a]", false),
        (", uid: 5", false),
        (", deletionTimestamp: 5", false),
        (", foo: 1", false),
        ("LABEL", true),
    ] {
        let text = namespace(if is_in_doubt { "" } else { more });
        let text = if is_in_doubt { text.replace("{env: prod}", "{env: prod, v: 5}") } else { text };
        let mut running = Scene::new(&[&pod("", "", ""), drop]);
        running.write("9.yaml", &text);
        for scene in [running, Scene::new(&[&pod("", "", ""), drop, &text])] {
            assert_eq!(scene.pod("prod/p").port, "pp", "{text}");
            let is_held = policies(scene.projection()).iter().any(|name| name.contains("held"));
            assert_eq!(is_held, is_in_doubt, "{text}");
        }
    }
}
