//! What the switch writes for the cluster, with the document's numbers.

use super::compare::{GROUPS, Lines};
use crate::common::{NODE, cluster, lines as problems};
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::Options;
use vswitch_antrea::{Facts, Family, GroupKey, NodeState, Ports, RuleKey, Table, Write};
use vswitch_flow::spec::{FlowSpec, GroupSpec, Update};
use vswitch_flow::text::{FlowCommand, Style, format_flow, format_group, parse_flow, parse_group};

/// Ports of the document's bridge.
const PORTS: [(&str, u32); 10] = [
    ("antrea-tun0", 1),
    ("antrea-gw0", 2),
    ("antrea-tc-tap0", 0x22),
    ("antrea-tc-tap1", 0x23),
    ("client-6-3353ef", 0x24),
    ("web-7975-274540", 0x25),
    ("db-755c6-5080e3", 0x26),
    ("antrea-tc-tap2", 0x27),
    ("antrea-l7-tap0", 0x28),
    ("antrea-l7-tap1", 0x29),
];

const K8S: &str = "np:default/web-app-db-network-policy";
const ACNP: &str = "acnp:web-app-db-network-policy";
const L7: &str = "acnp:ingress-allow-http-request-to-api-v2";

/// The document's numbers of rules.
const RULES: [(&str, &str, u32); 7] = [
    (K8S, "egress-0", 2),
    (K8S, "ingress-0", 3),
    (ACNP, "ingress-1", 4),
    (ACNP, "egress-1", 5),
    (ACNP, "AllowFromClient", 6),
    (ACNP, "AllowToDB", 7),
    (L7, "AllowFromClientL7", 14),
];

/// The document's VLAN of its one rule about HTTP.
const VLAN: u64 = 2;

/// The document's groups: id, whose endpoints, only those of this Node.
const SERVICES: [(u32, &str, bool); 8] = [
    (9, "default/sample-clusterip-no-ep", false),
    (10, "default/sample-clusterip", false),
    (11, "default/sample-service-session-affinity", false),
    (12, "default/sample-nodeport", false),
    (14, "default/sample-loadbalancer", false),
    (16, "default/sample-service-externalip", false),
    (17, "default/sample-service-etp-local", false),
    (18, "default/sample-service-etp-local", true),
];

/// How objects come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// All at once.
    Together,
    /// One by one, the last of each kind first: with other numbers.
    Backwards,
}

/// The cluster's YAML as the agent of its Node tells it.
pub(crate) fn of_the_documents_cluster(order: Order) -> NodeState {
    let mut agent = Agent::new(&cluster(), &[], NODE, Options { is_strict: true, opens_anyway: false });
    assert!(agent.scan() | agent.scan(), "the second reads what is younger than two seconds");
    assert_eq!(problems(agent.problems()), [""; 0]);
    let projection = agent.projection();
    assert!(projection.failed.is_empty(), "{:?}", projection.failed);
    let (node, _) = projection.node.as_ref().expect("the Node is among the cluster's");
    let mut node_state = NodeState::default();
    node_state.set_ports(PORTS.map(|(name, number)| (name.to_owned(), number)).into_iter().collect::<Ports>());
    let plan = node_state.plan_node(node).expect("a good Node");
    node_state.settle(plan);
    let mut objects: Vec<_> = projection.objects.iter().collect();
    if matches!(order, Order::Backwards) {
        objects.reverse();
        objects.sort_by_key(|((kind, _), _)| *kind);
    }
    let batch = if matches!(order, Order::Backwards) { 1 } else { objects.len() };
    for objects in objects.chunks(batch) {
        let objects = objects.iter().filter_map(|(_, projected)| projected.object.object.clone()).collect();
        let plan = node_state.plan(Write { objects, ..Write::default() });
        assert!(plan.result.applied, "{:#?}", plan.result.statuses);
        node_state.settle(plan);
    }
    assert!(node_state.degraded().is_empty(), "{:#?}", node_state.degraded());
    node_state
}

fn facts(node_state: &NodeState) -> Facts<'_> {
    node_state.facts().expect("a Node")
}

/// A flow without its cookie, and its table.
fn of_flow(facts: &Facts<'_>, flow: &FlowSpec) -> (String, String) {
    let mut line = String::new();
    let flow = FlowSpec { cookie: 0, ..flow.clone() };
    format_flow(&flow, None, Style { names: true }, facts, &mut line);
    let table = Table::by_number(flow.table).map_or_else(|| flow.table.to_string(), |table| table.name().to_owned());
    (table, line)
}

fn of_group(facts: &Facts<'_>, group: &GroupSpec) -> (String, String) {
    let mut line = String::new();
    format_group(group, Style { names: true }, facts, &mut line);
    (GROUPS.to_owned(), line)
}

/// A line of a flow or a group as dumps have it, and its table.
pub(crate) fn normal(node_state: &NodeState, text: &str) -> (String, String) {
    let facts = facts(node_state);
    if text.starts_with("group_id=") {
        let parsed = parse_group(text, &facts).unwrap_or_else(|error| panic!("{text}: {error}"));
        return of_group(&facts, &parsed.value.spec);
    }
    let parsed = parse_flow(text, FlowCommand::Add, &facts).unwrap_or_else(|error| panic!("{text}: {error}"));
    let Update::AddFlow(flow) = &parsed.value else { panic!("{text} adds no flow") };
    of_flow(&facts, flow)
}

/// All that the switch has, with the document's numbers of rules, groups and VLANs (difference 11).
pub(crate) fn lines(node_state: &NodeState) -> Lines {
    let facts = facts(node_state);
    let (rules, groups) = (with_strangers(rules(node_state)), with_strangers(groups(node_state)));
    let mut lines = Lines::default();
    for update in node_state.store().everything() {
        let (table, line) = match &update {
            Update::AddFlow(flow) => of_flow(&facts, flow),
            Update::AddGroup(group) => of_group(&facts, group),
            _ => continue,
        };
        let line = match table.as_str() {
            GROUPS | "ServiceLB" => replaced(&line, &groups),
            table if table.ends_with("Rule") || table.ends_with("Metric") => replaced(&line, &rules),
            _ => line,
        };
        assert!(lines.entry(table).or_default().insert(line.clone()), "twice: {line}");
    }
    lines
}

/// Our numbers of the rules.
pub(crate) fn numbers(node_state: &NodeState) -> Vec<Option<u32>> {
    RULES.iter().map(|(policy, rule, _)| node_state.ids().rule_by_name(policy, rule)).collect()
}

/// Texts that name our numbers of rules, and those that name the document's.
fn rules(node_state: &NodeState) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (policy, rule, theirs) in RULES {
        let key = RuleKey { policy: policy.into(), rule: rule.into() };
        let ours = node_state.ids().rule(&key).unwrap_or_else(|| panic!("{key:?} has no number"));
        let texts = |number: u32| {
            let egress = u64::from(number) << 32;
            let in_register = [3, 5, 6].map(|register| format!("set_field:{number:#x}->reg{register}"));
            let others = [
                format!("conjunction({number},"),
                format!("conj_id={number},"),
                format!("conj_id={number} "),
                format!("reg3={number:#x} "),
                format!("set_field:{number:#x}/0xffffffff->ct_label"),
                format!("ct_label={number:#x}/0xffffffff,"),
                format!("set_field:{egress:#x}/0xffffffff00000000->ct_label"),
                format!("ct_label={egress:#x}/0xffffffff00000000,"),
            ];
            in_register.into_iter().chain(others)
        };
        pairs.extend(texts(ours).zip(texts(theirs)));
        if let Some(vlan) = node_state.ids().vlan(&key) {
            let text = |vlan: u64| format!("set_field:{:#x}/0xfff0000000000000000->ct_label", u128::from(vlan) << 64);
            pairs.push((text(vlan.into()), text(VLAN)));
        }
    }
    pairs
}

/// The same of groups.
fn groups(node_state: &NodeState) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (theirs, service, local) in SERVICES {
        let key = GroupKey::Service { service: service.into(), port: "".into(), family: Family::V4, local };
        let ours = node_state.ids().group(&key).unwrap_or_else(|| panic!("{key:?} has no id"));
        let texts = |id: u32| {
            let cookie = 0x1_0300_0000_0000 + u64::from(id);
            let in_flows = [format!("set_field:{id:#x}->reg7,"), format!("cookie={cookie:#x},")];
            in_flows.into_iter().chain([
                format!("set_field:{id:#x}->reg7\n"),
                format!("group:{id}\n"),
                format!("group_id={id},"),
            ])
        };
        pairs.extend(texts(ours).zip(texts(theirs)));
    }
    pairs
}

/// The document's numbers of what is not ours stand out: something has a number there that is
/// nobody's.
fn with_strangers(mut pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    let theirs: Vec<String> = pairs.iter().map(|(_, theirs)| theirs.clone()).collect();
    for text in theirs {
        if !pairs.iter().any(|(ours, _)| *ours == text) {
            pairs.push((text.clone(), format!("(nobody's) {text}")));
        }
    }
    pairs
}

/// A line with other texts, all at once, so that none is replaced twice. A text may end with the
/// line: with a newline.
fn replaced(line: &str, pairs: &[(String, String)]) -> String {
    let line = format!("{line}\n");
    let (mut rest, mut out) = (line.as_str(), String::new());
    while let Some(first) = rest.chars().next() {
        let (taken, put) = match pairs.iter().find(|(from, _)| rest.starts_with(from.as_str())) {
            Some((from, to)) => (from.len(), to.as_str()),
            None => (first.len_utf8(), &rest[..first.len_utf8()]),
        };
        out.push_str(put);
        rest = &rest[taken..];
    }
    out.trim_end().to_owned()
}
