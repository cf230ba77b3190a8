//! A restart of the agent is as if it had run on.

use crate::common::{NODE, files, lines};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::Options;
use vswitch_agent::kinds::Document;
use vswitch_agent::problem::Problem;
use vswitch_agent::project::text;

/// A state that all wrong forms below leave something of.
const BASE: [(&str, &str); 12] = [
    ("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {env: prod}}\n"),
    (
        "web.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: a, labels: {app: web}, annotations: {vswitch/port: p1, vswitch/mac: '02:00:00:00:00:01'}}\nspec: {nodeName: k8s-node-control-plane, containers: [{name: x, ports: [{name: http, containerPort: 80}]}]}\nstatus: {podIPs: [{ip: 10.10.0.11}]}\n",
    ),
    (
        "db.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: a, labels: {app: db}, annotations: {vswitch/port: p2, vswitch/mac: '02:00:00:00:00:02'}}\nspec: {nodeName: k8s-node-control-plane}\nstatus: {podIPs: [{ip: 10.10.0.12}]}\n",
    ),
    (
        "far.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: far, namespace: a, labels: {app: far}}\nspec: {nodeName: k8s-node-worker-1}\nstatus: {podIPs: [{ip: 10.10.1.13}]}\n",
    ),
    (
        "np.yaml",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: np, namespace: a}\nspec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: http}]}]}\n",
    ),
    (
        "anp.yaml",
        "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: anp, namespace: a}\nspec: {priority: 5.5, tier: mine, appliedTo: [{podSelector: {matchLabels: {app: db}}}], egress: [{action: Reject, to: [{podSelector: {matchLabels: {app: far}}}], l7Protocols: []}]}\n",
    ),
    (
        "acnp.yaml",
        "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: acnp}\nspec: {priority: 5, tier: mine, appliedTo: [{group: webs}], ingress: [{action: Drop, from: [{podSelector: {matchLabels: {app: far}}}]}]}\n",
    ),
    (
        "group.yaml",
        "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: webs}\nspec: {podSelector: {matchLabels: {app: web}}}\n",
    ),
    ("tier.yaml", "apiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {name: mine}\nspec: {priority: 30}\n"),
    (
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.10, selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n",
    ),
    (
        "node.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: n9, labels: {zone: z}}\nspec: {podCIDR: 10.10.9.0/24, podCIDRs: [10.10.9.0/24]}\nstatus: {addresses: [{type: InternalIP, address: 192.168.77.109}]}\n",
    ),
    (
        "egress.yaml",
        "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {name: e}\nspec: {appliedTo: {podSelector: {matchLabels: {app: db}}}, egressIP: 192.168.77.200}\nstatus: {egressNode: n9}\n",
    ),
];

/// Of a right text, one that is not right, or says something else.
fn mutated(text: &str, how: usize) -> String {
    match how {
        0 => text.to_owned(),
        1 => text.replace("app: ", "app: x"),
        2 => text.replace("kind: ", "kind: X"),
        3 => text.replace("metadata:", "metadatas:"),
        4 => text.replace("priority: ", "priority: x"),
        5 => text.replace("10.10.", "10.10.999."),
        6 => text.replace("10.96.0.10", "10.96.0.999").replace("192.168.77.", "192.168.77.2222"),
        7 => text[..text.len() * 2 / 3].to_owned(),
        8 => text[..text.len() - 4].to_owned(),
        9 => "@@[".to_owned(),
        10 => String::new(),
        11 => text.replace("action: ", "action: X").replace("policyTypes: [", "policyTypes: [X"),
        12 => text.replace("spec:", "spec: 5\nspecs:"),
        13 => text.replace("labels:", "Labels:"),
        14 => text.replace("podSelector:", "podselector:"),
        15 => format!("{text}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{c: \"d"),
        16 => text.replace("name: ", "name: y"),
        17 => text.replace("namespace: a", "namespace: [a]"),
        18 => text.replace("10.10.1.13", "10.10.0.11").replace("webs", "dbs").replace("30", "35"),
        _ => text.replace("podIPs: [{ip", "podIPs: [{ip: x}, {ip"),
    }
}

const MUTATIONS: usize = 20;

/// Two agents on the same files: one that runs on, and one that is started anew at each step.
struct Pair {
    dir: tempfile::TempDir,
    state: tempfile::TempDir,
    on: Agent,
    again: Agent,
}

fn agent(dir: &Path, state: &Path) -> Agent {
    Agent::new(dir, &[], NODE, Options::default()).remembering(state)
}

fn look(agent: &mut Agent) {
    (0..4).for_each(|_| {
        agent.scan();
    });
}

impl Pair {
    fn new(documents: &[(&str, &str)]) -> Self {
        let (dir, state) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let nodes = files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
        let on = Agent::new(dir.path(), &[], NODE, Options::default());
        let again = agent(dir.path(), state.path());
        let mut pair = Self { dir, state, on, again };
        pair.write("nodes.yaml", &nodes);
        documents.iter().for_each(|(name, text)| pair.write(name, text));
        pair.look();
        pair
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).expect("written");
    }

    fn look(&mut self) {
        look(&mut self.on);
        look(&mut self.again);
    }

    /// Ends the second agent, changes files, and starts it again: it knows what the first one
    /// knows.
    fn step(&mut self, change: impl FnOnce(&Path)) -> Result<(), TestCaseError> {
        change(self.dir.path());
        self.again = agent(self.dir.path(), self.state.path());
        self.look();
        self.is_same("after a start")?;
        // And once more, with nothing that has changed.
        self.again = agent(self.dir.path(), self.state.path());
        let of = |agent: &Agent| text(agent.projection(), true);
        prop_assert_eq!(of(&self.on), of(&self.again), "as it was saved");
        look(&mut self.again);
        self.is_same("after a second start")
    }

    fn is_same(&self, when: &str) -> Result<(), TestCaseError> {
        let of = |agent: &Agent| text(agent.projection(), true);
        prop_assert_eq!(of(&self.on), of(&self.again), "{}", when);
        prop_assert_eq!(lines(self.on.problems()), lines(self.again.problems()), "{}", when);
        Ok(())
    }
}

/// A change of files.
#[derive(Clone, Debug)]
enum Edit {
    Write(usize, usize),
    Remove(usize),
    Rename(usize, usize),
    Double(usize, usize),
    Join(usize, usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let file = || 0..BASE.len();
    let edit = prop_oneof![
        5 => (file(), 0..MUTATIONS).prop_map(|(file, how)| Edit::Write(file, how)),
        1 => file().prop_map(Edit::Remove),
        1 => (file(), 0..3_usize).prop_map(|(file, to)| Edit::Rename(file, to)),
        1 => (file(), 0..MUTATIONS).prop_map(|(file, how)| Edit::Double(file, how)),
        1 => (file(), 0..MUTATIONS).prop_map(|(file, how)| Edit::Join(file, how)),
    ];
    prop::collection::vec(edit, 1..8)
}

fn apply(dir: &Path, edit: &Edit) {
    let path = |file: usize| dir.join(BASE[file].0);
    match edit {
        Edit::Write(file, how) => fs::write(path(*file), mutated(BASE[*file].1, *how)).expect("written"),
        Edit::Remove(file) => drop(fs::remove_file(path(*file))),
        Edit::Rename(file, to) => drop(fs::rename(path(*file), dir.join(format!("z{to}.yaml")))),
        Edit::Double(file, how) => fs::write(dir.join("a.yaml"), mutated(BASE[*file].1, *how)).expect("written"),
        Edit::Join(file, how) => {
            let other = (file + 1) % BASE.len();
            let both = format!("{}---\n{}", BASE[other].1, mutated(BASE[*file].1, *how));
            fs::write(path(other), both).expect("written");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_edits_a_restart_is_as_if_it_had_run_on(edits in edits()) {
        let mut pair = Pair::new(&BASE);
        for edit in &edits {
            pair.step(|dir| apply(dir, edit))?;
        }
    }
}

/// Each wrong form of each document: what was right before the restart is there after it.
#[test]
fn each_wrong_form_at_a_start_is_what_it_is_while_running() {
    let mut pair = Pair::new(&BASE);
    for (file, (name, right)) in BASE.iter().enumerate() {
        for how in 0..MUTATIONS {
            for edit in [Edit::Write(file, how), Edit::Join(file, how)] {
                let result = pair.step(|dir| apply(dir, &edit));
                result.unwrap_or_else(|error| panic!("{name} {how} {edit:?}: {error}"));
            }
            let result = pair
                .step(|dir| BASE.iter().for_each(|(name, right)| fs::write(dir.join(name), right).expect("written")));
            result.unwrap_or_else(|error| panic!("{name} {how}, right again: {error}\n{right}"));
        }
    }
}

/// Of two documents that have become the same, the one that counted counts.
#[test]
fn of_two_that_are_the_same_the_one_in_force_stays() {
    let mut pair = Pair::new(&BASE);
    for edit in [Edit::Double(6, 11), Edit::Write(6, 11), Edit::Write(6, 4), Edit::Double(6, 0)] {
        pair.step(|dir| apply(dir, &edit)).unwrap_or_else(|error| panic!("{edit:?}: {error}"));
    }
}

/// All that a document may be is the same when it is saved and loaded.
#[test]
fn what_is_saved_is_what_is_loaded() {
    let all = [
        "apiVersion: crd.antrea.io/v1alpha2\nkind: TrafficControl\nmetadata: {name: t}\nspec: {appliedTo: {}, direction: Both, action: Mirror, targetPort: {vxlan: {remoteIP: 1.2.3.4}}}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.10, selector: {app: 5}, ports: [{port: 80}]}\n",
        "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec: {tier: Admin, priority: 0, subject: {namespaces: {}}, ingress: [{action: Pass, from: [{namespaces: {}}], protocols: [{destinationNamedPort: x}]}, {action: Deny}], egress: [{action: Accept, to: [{networks: [10.0.0.0/8]}, {domainNames: ['*.a.b']}, {nodes: {}}]}]}\n",
        "apiVersion: crd.antrea.io/v1beta1\nkind: ExternalIPPool\nmetadata: {name: x}\nspec: {ipRanges: [{cidr: 10.0.0.0/8}], subnetInfo: {gateway: 10.0.0.1, prefixLength: 8}, nodeSelector: {matchLabels: {a: b}}}\n",
        "apiVersion: crd.antrea.io/v1beta1\nkind: Group\nmetadata: {name: g, namespace: a}\nspec: {ipBlocks: [{cidr: 10.0.0.0/8}]}\n",
        "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p, deletionTimestamp: now}\nspec: {priority: 0.1, appliedTo: [{podSelector: {}}], ingress: [{action: Allow, from: [{namespaces: {match: Self}}], ports: [{protocol: TCP, port: 80, endPort: 90}, {port: x}]}, {action: Allow, protocols: [{icmp: {icmpType: 8}}, {igmp: {igmpType: 17}}], to: 5}, {action: Allow, l7Protocols: [{http: {host: x}}, {tls: {sni: y}}], toServices: []}]}\n",
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s, namespace: a, labels: {kubernetes.io/service-name: s}}\naddressType: IPv4\nendpoints: [{addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: x}, hints: {forZones: [{name: z}]}}]\nports: [{name: x, port: 80, protocol: TCP}]\n",
    ];
    let mut texts: Vec<String> = all.iter().map(|text| (*text).to_owned()).collect();
    texts.extend(files().into_iter().map(|(_, text)| text));
    texts.extend(BASE.iter().flat_map(|(_, text)| (0..MUTATIONS).map(|how| mutated(text, how))));
    let mut kinds = std::collections::BTreeSet::new();
    for text in texts {
        let Ok(trees) = vswitch_agent::source::documents(&text) else { continue };
        let (documents, problems) = vswitch_agent::kinds::understand("f", trees);
        for document in &documents {
            let name = format!("{:?}", document.body);
            kinds.insert(name.split(['(', ' ']).next().unwrap_or_default().to_owned());
        }
        let saved = serde_json::to_string(&(&documents, &problems)).expect("it can be saved");
        let loaded: (Vec<Document>, Vec<Problem>) = serde_json::from_str(&saved).expect("it can be loaded");
        assert_eq!(format!("{loaded:#?}"), format!("{:#?}", (documents, problems)), "{text}");
    }
    assert_eq!(kinds.len(), 18, "each body that is kept (what is left out is not): {kinds:?}");
}

/// A Pod or Node whose addresses are not there any more keeps those of before, over starts, too.
#[test]
fn addresses_that_no_document_says_any_more_stay() {
    for (file, lost) in [(1, "podIPs"), (3, "podIPs"), (10, "addresses")] {
        let (name, right) = BASE[file];
        for edits in [vec![(name, true)], vec![("a.yaml", true), (name, false)]] {
            let mut pair = Pair::new(&BASE);
            let before = lines_of(&pair);
            for (name, is_written) in edits {
                let path = pair.dir.path().join(name);
                let without = right.replace(lost, "xs");
                let edit = |_: &Path| {
                    if is_written { fs::write(&path, &without) } else { fs::remove_file(&path) }.expect("done");
                };
                pair.step(edit).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            assert_eq!(lines_of(&pair), before, "{name}");
        }
    }
}

/// What is told, without the files that say so.
fn lines_of(pair: &Pair) -> Vec<String> {
    let told = text(pair.again.projection(), true);
    told.lines().filter(|line| !line.starts_with('#')).map(ToOwned::to_owned).collect()
}

/// Of a Pod that is doubled in each wrong form, and then in it only.
#[test]
fn a_wrong_double_of_a_file_that_goes() {
    for file in [1, 3, 10] {
        for how in 0..MUTATIONS {
            let mut pair = Pair::new(&BASE);
            for edit in [Edit::Double(file, how), Edit::Remove(file), Edit::Remove(4)] {
                pair.step(|dir| apply(dir, &edit)).unwrap_or_else(|error| panic!("{how} {edit:?}: {error}"));
            }
        }
    }
}
