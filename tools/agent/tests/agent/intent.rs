//! Random documents with wrong ones among them: what is right by itself is told as if the wrong
//! ones were not there, and no packet passes that what was meant would deny.

pub mod verdict;

use crate::common::{NODE, pod, read};
use proptest::prelude::*;
use verdict::Verdicts;
use vswitch_agent::model::Model;
use vswitch_agent::project::{Memory, Projection, project, project_after};
use vswitch_proto::antrea::v1::Kind;

/// Labels of the Pods: `app` and `env` of two values each, on this Node and on another.
fn pods() -> Vec<String> {
    let mut pods = Vec::new();
    for (i, namespace) in ["x", "y"].iter().enumerate() {
        for (j, (app, env)) in [("a", "p"), ("b", "p"), ("a", "q")].iter().enumerate() {
            let (node, net) = if j == 2 { ("k8s-node-worker-1", 1) } else { (NODE, 0) };
            let address = format!("10.10.{net}.{}", 10 * (i + 1) + j);
            pods.push(pod(namespace, &format!("p{j}"), &format!("app: {app}, env: {env}"), node, &address, ""));
        }
    }
    pods
}

/// A policy as it is meant, and as somebody may have written it.
#[derive(Clone, Debug)]
struct Policy {
    meant: String,
    written: String,
}

impl Policy {
    fn is_right(&self) -> bool {
        self.meant == self.written
    }
}

fn selector() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "{}",
        "{matchLabels: {app: a}}",
        "{matchLabels: {env: p}}",
        "{matchLabels: {app: b, env: p}}",
    ])
    .prop_map(str::to_owned)
}

fn peer() -> impl Strategy<Value = String> {
    prop_oneof![
        selector().prop_map(|pods| format!("{{podSelector: {pods}}}")),
        selector().prop_map(|pods| format!("{{namespaceSelector: {{}}, podSelector: {pods}}}")),
        Just("{ipBlock: {cidr: 10.10.0.0/16, except: [10.10.1.0/24]}}".to_owned()),
    ]
}

fn list(all: &[String]) -> String {
    format!("[{}]", all.join(", "))
}

/// Fields of a rule beside its action.
fn rule(side: &'static str) -> impl Strategy<Value = String> {
    let port = prop::sample::select(vec![
        "{port: 80}",
        "{port: 443}",
        "{port: 80, endPort: 443}",
        "{protocol: UDP, port: 80}",
    ]);
    let ports = prop::collection::vec(port.prop_map(str::to_owned), 0..3);
    (prop::collection::vec(peer(), 0..3), ports)
        .prop_map(move |(peers, ports)| format!("{side}: {}, ports: {}", list(&peers), list(&ports)))
}

/// How a text may be spoilt: what, with what, and whether it still means the same.
const SPOILS: [(&str, &str); 19] = [
    ("ports: [{", "ports: [{brandNew: 1, "),
    ("ports: [{", "prts: [{"),
    ("port: 80", "port: 70000"),
    ("action: Drop", "action: Deny"),
    ("action: Allow", "action: Allow, brandNew: {}"),
    ("podSelector: {matchLabels", "podSelector: {matchLabel"),
    ("cidr: 10.10.0.0/16", "cidr: 10.10.0.0/66"),
    ("spec: {", "spec: {brandNew: [], "),
    ("priority: ", "priority: x"),
    ("metadata: {", "metadata: {labels: 5, "),
    ("spec: {", "spec: [{"),
    ("number: 80", "number: 70000"),
    ("protocols: [{", "protocols: [{brandNew: 1, "),
    ("protocols: [{", "protocls: [{"),
    ("action: Deny", "action: Block"),
    ("action: Accept", "action: Accept, brandNew: {}"),
    ("networks: [10", "networks: [x10"),
    ("subject: {", "subject: {brandNew: {}, "),
    ("{pods: {", "{brandNew: {"),
];

/// A rule of a ClusterNetworkPolicy of policy.networking.k8s.io.
fn admin_rule(is_ingress: bool) -> impl Strategy<Value = String> {
    let of_pods = prop_oneof![
        Just("{namespaces: {}}".to_owned()),
        selector().prop_map(|pods| format!("{{pods: {{namespaceSelector: {{}}, podSelector: {pods}}}}}")),
    ];
    let peer = (of_pods, prop::bool::ANY).prop_map(move |(pods, is_network)| {
        if is_network && !is_ingress { "{networks: [10.10.0.0/24, 9.9.9.9/32]}".to_owned() } else { pods }
    });
    let protocol = prop::sample::select(vec![
        "{tcp: {destinationPort: {number: 80}}}",
        "{tcp: {destinationPort: {range: {start: 80, end: 443}}}}",
        "{udp: {destinationPort: {number: 80}}}",
    ]);
    let protocols = prop::collection::vec(protocol.prop_map(str::to_owned), 0..3);
    let action = prop::sample::select(vec!["Accept", "Deny", "Pass"]);
    (action, prop::collection::vec(peer, 1..3), protocols).prop_map(move |(action, peers, protocols)| {
        let side = if is_ingress { "from" } else { "to" };
        let protocols = if protocols.is_empty() { String::new() } else { format!(", protocols: {}", list(&protocols)) };
        format!("{{action: {action}, {side}: {}{protocols}}}", list(&peers))
    })
}

/// A ClusterNetworkPolicy of policy.networking.k8s.io.
fn admin_policy(i: usize) -> impl Strategy<Value = Policy> {
    let rules = (prop::collection::vec(admin_rule(true), 0..3), prop::collection::vec(admin_rule(false), 0..3));
    let place = (0..100_usize, prop::sample::select(vec!["Admin", "Baseline"]));
    (place, selector(), rules, spoil()).prop_map(move |((priority, tier), applied, (ingress, egress), spoil)| {
        let meant = format!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {{name: n{i}}}\n\
             spec: {{tier: {tier}, priority: {}, subject: {{pods: {{namespaceSelector: {{}}, podSelector: {applied}}}}}, \
             ingress: {}, egress: {}}}\n",
            10 * priority + i,
            list(&ingress),
            list(&egress)
        );
        Policy { written: spoilt(&meant, spoil), meant }
    })
}

/// How a policy is spoilt, and at which of the places where it can be; None: it is not.
fn spoil() -> impl Strategy<Value = Option<(usize, usize)>> {
    prop::option::of((0..SPOILS.len(), 0..4_usize))
}

/// A text at one of the places where it can be spoilt so.
fn spoilt(meant: &str, spoil: Option<(usize, usize)>) -> String {
    let written = spoil.and_then(|(spoil, place)| {
        let (right, wrong) = SPOILS[spoil];
        let places: Vec<usize> = meant.match_indices(right).map(|(at, _)| at).collect();
        let at = *places.get(place % places.len().max(1))?;
        Some(format!("{}{wrong}{}", &meant[..at], &meant[at + right.len()..]))
    });
    written.unwrap_or_else(|| meant.to_owned())
}

/// A policy of any kind.
fn policy(i: usize) -> impl Strategy<Value = Policy> {
    prop_oneof![3 => other_policy(i), 2 => admin_policy(i)]
}

fn other_policy(i: usize) -> impl Strategy<Value = Policy> {
    let class = prop::sample::select(vec!["K8s", "Antrea", "Cluster"]);
    let action = || prop::sample::select(vec!["Allow", "Drop", "Reject", "Pass"]);
    let rules =
        (prop::collection::vec((action(), rule("from")), 0..3), prop::collection::vec((action(), rule("to")), 0..3));
    let namespace = prop::sample::select(vec!["x", "y"]);
    let tier = prop::sample::select(vec!["emergency", "application", "baseline"]);
    let place = (1..4_u32, tier, namespace);
    (class, place, selector(), rules, spoil()).prop_map(
        move |(class, (priority, tier, namespace), applied, (ingress, egress), spoil)| {
            let with_action = |(action, rule): &(&str, String)| match class {
                "K8s" => format!("{{{rule}}}"),
                // Pass means nothing in the baseline tier.
                _ if tier == "baseline" && *action == "Pass" => format!("{{action: Drop, {rule}}}"),
                _ => format!("{{action: {action}, {rule}}}"),
            };
            let sections = [("ingress", &ingress), ("egress", &egress)].map(|(name, rules)| {
                let rules: Vec<String> = rules.iter().map(with_action).collect();
                if rules.is_empty() { String::new() } else { format!(", {name}: {}", list(&rules)) }
            });
            let (api, kind, meta, head) = match class {
                "K8s" => (
                    "networking.k8s.io/v1",
                    "NetworkPolicy",
                    format!(", namespace: {namespace}"),
                    format!("podSelector: {applied}"),
                ),
                _ => {
                    let is_cluster = class == "Cluster";
                    let kind = if is_cluster { "ClusterNetworkPolicy" } else { "NetworkPolicy" };
                    let meta = if is_cluster { String::new() } else { format!(", namespace: {namespace}") };
                    let head =
                        format!("priority: {priority}.{i}, tier: {tier}, appliedTo: [{{podSelector: {applied}}}]");
                    ("crd.antrea.io/v1beta1", kind, meta, head)
                }
            };
            let meant = format!(
                "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: n{i}{meta}}}\nspec: {{{head}{}}}\n",
                sections.concat()
            );
            Policy { written: spoilt(&meant, spoil), meant }
        },
    )
}

/// What is odd and harmless beside policies.
fn noise() -> impl Strategy<Value = Vec<String>> {
    let all = vec![
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: 5}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: z, namespace: z}\nspec: [\n",
        "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {name: e}\nspec: {appliedTo: {}}\n",
        "5\n",
        "apiVersion: v1\nkind: ConfigMap\n",
    ];
    prop::sample::subsequence(all, 0..4).prop_map(|all| all.into_iter().map(str::to_owned).collect())
}

fn documents(texts: &[String]) -> Model {
    let nodes = crate::common::files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
    let mut all = read("nodes.yaml", &nodes).0;
    for (i, text) in texts.iter().enumerate() {
        let name = format!("{i}.yaml");
        for part in vswitch_agent::source::parts(text) {
            match part {
                Ok(tree) => all.extend(vswitch_agent::kinds::understand(&name, vec![tree]).0),
                Err(unread) => all.extend(vswitch_agent::kinds::understand_unread(&name, &unread)),
            }
        }
    }
    Model::new(all).0
}

fn projection(texts: &[String]) -> Projection {
    project(&documents(texts), NODE).0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_wrong_is_open_and_what_is_right_stays(
        policies in (policy(0), policy(1), policy(2), policy(3)).prop_map(|(a, b, c, d)| vec![a, b, c, d]),
        noise in noise(),
        before in prop::bool::ANY,
    ) {
        let of = |texts: Vec<&String>| pods().into_iter().chain(texts.into_iter().cloned()).collect::<Vec<_>>();
        let meant = projection(&of(policies.iter().map(|policy| &policy.meant).collect()));
        let right = projection(&of(policies.iter().filter(|policy| policy.is_right()).map(|policy| &policy.meant).collect()));
        let mut texts = of(policies.iter().map(|policy| &policy.written).collect());
        texts.extend(noise);
        let model = documents(&texts);
        let mut memory = Memory::default();
        if before {
            // All was right before.
            project_after(&documents(&of(policies.iter().map(|policy| &policy.meant).collect())), NODE, &mut memory);
        }
        let told = project_after(&model, NODE, &mut memory).0;
        for (key, projected) in &right.objects {
            prop_assert_eq!(told.objects.get(key).map(|now| &now.object), Some(&projected.object), "{:?}", key);
        }
        let pods = |projection: &Projection| projection.objects.keys().filter(|(kind, _)| *kind == Kind::Pod as i32).count();
        prop_assert_eq!(pods(&told), pods(&meant));
        let (meant, told) = (Verdicts::new(&meant), Verdicts::new(&told));
        for packet in Verdicts::packets() {
            prop_assert!(meant.passes(&packet) || !told.passes(&packet), "{:?} passes:\n{:#?}", packet, policies);
        }
    }
}

#[test]
fn the_model_of_verdicts_denies_and_allows() {
    let deny = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: n, namespace: x}\nspec: {podSelector: {matchLabels: {app: a}}, ingress: [{ports: [{port: 80}]}]}\n";
    let texts: Vec<String> = pods().into_iter().chain([deny.to_owned()]).collect();
    let verdicts = Verdicts::new(&projection(&texts));
    let passed: Vec<bool> = Verdicts::packets().map(|packet| verdicts.passes(&packet)).collect();
    assert!(passed.contains(&true) && passed.contains(&false));
    let all = Verdicts::new(&projection(&pods()));
    assert!(Verdicts::packets().all(|packet| all.passes(&packet)));
}
