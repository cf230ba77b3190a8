//! Groups, as flows and buckets (ref 2.5).

use crate::membership::{PodLife, Receivers};
use crate::testing::{apply, assert_has, document_node, dump, dump_of, peer, pod, degraded, refused, node_state};
use crate::{Key, ObjectKind, NodeState, Write};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use vswitch_flow::spec::Update;
use vswitch_flow::text::format_group;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const OUT: &str = "set_field:0x200000/0x600000->reg0";

fn node(is_said: bool) -> v1::NodeConfig {
    let mut node = document_node();
    node.features = node.features.map(|features| v1::Features { multicast: true, ..features });
    if is_said {
        node.taken_over = vec![v1::PacketCategory::Igmp.into()];
    }
    node
}

fn objects() -> Vec<Object> {
    let pods = ["web", "db"].map(|name| Object::Pod(pod(name)));
    pods.into_iter().chain([Object::PeerNode(peer())]).collect()
}

fn said(pods: &[&str], nodes: &[&str]) -> v1::MulticastGroup {
    v1::MulticastGroup {
        address: GROUP.to_string(),
        pods: pods.iter().map(|pod| format!("default/{pod}")).collect(),
        nodes: nodes.iter().map(ToString::to_string).collect(),
    }
}

/// Groups of multicast as lines.
fn groups(node_state: &NodeState) -> Vec<String> {
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    let of = |update| match update {
        Update::AddGroup(group) if facts.ids.group(&super::Target::Group(GROUP).group()) == Some(group.id) => {
            let mut line = String::new();
            format_group(&group, vswitch_flow::text::Style { names: true }, &facts, &mut line);
            Some(line)
        }
        _ => None,
    };
    node_state.store().everything().into_iter().filter_map(of).collect()
}

fn join(node_state: &mut NodeState, pods: &[&str], nodes: &[&str]) -> Vec<Update> {
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    let life = |name: &&str| PodLife::of(&facts, &Key::new(ObjectKind::Pod, &format!("default/{name}")));
    let receivers = Receivers {
        pods: pods.iter().filter_map(life).collect(),
        nodes: nodes.iter().map(|name| (*name).into()).collect(),
    };
    let plan = node_state.plan_groups([(GROUP, receivers)].into()).unwrap_or_else(|problems| panic!("{problems:?}"));
    let updates = plan.updates.clone();
    node_state.settle(plan);
    updates
}

#[test]
fn the_nodes_flows_are_those_of_the_reference() {
    let node_state = node_state(&node(false), vec![Object::PeerNode(peer())]);
    for line in [
        "table=PipelineIPClassifier, priority=210,ip,nw_dst=224.0.0.0/4 actions=goto_table:MulticastEgressRule",
        "table=Classifier, priority=210,ip,in_port=1,nw_dst=224.0.0.0/4 actions=set_field:0x1/0xf->reg0,goto_table:MulticastEgressRule",
        "table=Classifier, priority=200,igmp,in_port=CONTROLLER actions=goto_table:PipelineIPClassifier",
        "table=MulticastEgressRule, priority=64990,igmp,reg0=0x3/0xf actions=goto_table:MulticastRouting",
        "table=MulticastEgressPodMetric, priority=210,igmp actions=goto_table:MulticastRouting",
        "table=MulticastRouting, priority=210,igmp,reg0=0x1/0xf actions=meter:260,controller(reason=no_match,id=62376,userdata=03)",
        "table=MulticastRouting, priority=210,igmp,reg0=0x2/0xf actions=drop",
        "table=MulticastRouting, priority=210,igmp,reg0=0x3/0xf actions=meter:260,controller(reason=no_match,id=62376,userdata=03)",
        "table=MulticastRouting, priority=190,ip actions=set_field:0x200000/0x600000->reg0,set_field:0x2->reg1,goto_table:MulticastOutput",
        "table=MulticastOutput, priority=210,reg0=0x200001/0x60000f,reg1=0x2 actions=drop",
        "table=MulticastOutput, priority=210,reg0=0x200002/0x60000f,reg1=0x1 actions=drop",
        "table=MulticastOutput, priority=210,reg0=0x200001/0x60000f,reg1=0x1 actions=drop",
        "table=MulticastOutput, priority=200,reg0=0x200000/0x600000 actions=output:NXM_NX_REG1[]",
    ] {
        assert_has(&node_state, line);
    }
    let routing = dump_of(&node_state, &["MulticastRouting"]);
    assert_eq!(routing.len(), 7, "and its miss, everybody's, all Nodes': {routing:#?}");
}

#[test]
fn without_the_feature_there_is_nothing_of_it() {
    let without = node_state(&document_node(), objects());
    for (table, lines) in dump(&without) {
        assert!(!table.contains("Multicast"), "{table}");
        assert!(!lines.iter().any(|line| line.contains("224.0.0") || line.contains("igmp")), "{table}: {lines:?}");
    }
    // What a Node had and gives back leaves nothing.
    let mut node_state = node_state(&node(false), objects());
    join(&mut node_state, &["web"], &["worker-1"]);
    let plan = node_state.plan_node(&document_node()).unwrap_or_else(|problems| panic!("{problems:?}"));
    node_state.settle(plan);
    assert_eq!(dump(&node_state), dump(&without));
    assert_eq!(node_state.store().sizes(), without.store().sizes());
}

#[test]
fn a_group_leads_to_pods_nodes_and_the_gateway() {
    let mut node_state = node_state(&node(false), objects());
    join(&mut node_state, &["web"], &["worker-1"]);
    let id = node_state.ids().group(&super::Target::Group(GROUP).group()).unwrap_or_default();
    assert_has(&node_state, &format!("table=MulticastRouting, priority=200,ip,nw_dst=239.1.1.1 actions=group:{id}"));
    assert_eq!(groups(&node_state), [format!(
        "group_id={id},type=all,bucket=bucket_id:0,actions={OUT},set_field:0x2->reg1,resubmit(,MulticastOutput),\
         bucket=bucket_id:1,actions={OUT},set_field:0x25->reg1,resubmit(,MulticastIngressRule),\
         bucket=bucket_id:2,actions={OUT},set_field:0x1->reg1,set_field:192.168.77.103->tun_dst,resubmit(,MulticastOutput)"
    )]);
    // One more: one bucket more, and nothing else.
    let updates = join(&mut node_state, &["web", "db"], &["worker-1"]);
    assert!(matches!(updates.as_slice(), [Update::InsertBuckets { buckets, .. }] if buckets.len() == 1), "{updates:?}");
    assert!(join(&mut node_state, &["web", "db"], &["worker-1"]).is_empty());
    let updates = join(&mut node_state, &["db"], &["worker-1"]);
    assert!(matches!(updates.as_slice(), [Update::RemoveBuckets { .. }]), "{updates:?}");
    let updates = join(&mut node_state, &[], &[]);
    assert_eq!(updates.len(), 2, "its flow and its group: {updates:?}");
    assert!(groups(&node_state).is_empty() && node_state.ids().group(&super::Target::Group(GROUP).group()).is_none());
}

#[test]
fn who_goes_gets_nothing_and_one_of_its_name_neither() {
    let mut node_state = node_state(&node(false), objects());
    join(&mut node_state, &["web", "db"], &["worker-1"]);
    let remove = vec![Key::new(ObjectKind::Pod, "default/web"), Key::new(ObjectKind::PeerNode, "worker-1")];
    let plan = node_state.plan(Write { remove, ..Write::default() });
    node_state.settle(plan);
    let without = groups(&node_state);
    assert_eq!(without[0].matches("bucket_id").count(), 2, "{without:?}");
    apply(&mut node_state, vec![Object::Pod(pod("web"))]);
    assert_eq!(groups(&node_state), without, "another Pod of its name has joined nothing");
    // A sync of everything does not sweep what no agent declared.
    let objects: Vec<Object> = node_state.desired().all().map(|(_, entry)| entry.message.clone()).collect();
    let plan = node_state.plan(Write { objects, sweep: ObjectKind::WRITTEN.into(), ..Write::default() });
    assert!(plan.updates.is_empty(), "{:?}", plan.updates);
    node_state.settle(plan);
    // A write that is reverted changes nothing.
    let before = (dump(&node_state), node_state.store().sizes());
    let receivers = BTreeMap::from([(GROUP, Receivers::default())]);
    let plan = node_state.plan_groups(receivers).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert!(!plan.updates.is_empty());
    node_state.revert(plan);
    assert_eq!((dump(&node_state), node_state.store().sizes()), before);
    assert_eq!(groups(&node_state), without);
}

#[test]
fn everybodys_and_all_nodes_groups_follow_pods_and_peers() {
    let mut node_state = node_state(&node(false), Vec::new());
    let buckets = |node_state: &NodeState| -> Vec<usize> {
        let of = |update| match update {
            Update::AddGroup(group) => Some(group.buckets.len()),
            _ => None,
        };
        let mut all: Vec<usize> = node_state.store().everything().into_iter().filter_map(of).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(buckets(&node_state), [0, 1], "no peers; the gateway");
    apply(&mut node_state, objects());
    assert_eq!(buckets(&node_state), [1, 3]);
    for (target, line) in [
        (super::Target::Everybody, "priority=200,ip,nw_dst=224.0.0.0/24"),
        (super::Target::Nodes, "priority=210,igmp,in_port=CONTROLLER"),
    ] {
        let id = node_state.ids().group(&target.group()).unwrap_or_default();
        assert_has(&node_state, &format!("table=MulticastRouting, {line} actions=group:{id}"));
    }
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::PeerNode, "worker-1")], ..Write::default() });
    node_state.settle(plan);
    assert_eq!(buckets(&node_state), [0, 3]);
}

#[test]
fn a_node_full_of_pods_leads_to_as_many_as_there_may_be() {
    let mut node_state = NodeState::default();
    let names = |at: u32| format!("pod-{at}-with-a-long-n");
    let ports = crate::testing::PORTS.map(|(name, number)| (name.to_owned(), number));
    node_state.set_ports((0..1100).map(|at| (names(at), 1000 + at)).chain(ports).collect());
    let mut node = node(false);
    node.pod_cidrs = vec!["10.10.0.0/20".to_owned()];
    let plan = node_state.plan_node(&node).unwrap_or_else(|problems| panic!("{problems:?}"));
    node_state.settle(plan);
    let pod = |at: u32| v1::Pod {
        name: format!("default/pod-{at}"),
        port: names(at),
        addresses: vec![Ipv4Addr::from_bits(0x0a0a_0100 + at).to_string()],
        mac: crate::testing::mac(&format!("02:00:00:00:{:02x}:{:02x}", at >> 8, at & 0xff)),
        vlan: 0, uid: String::new(), ..v1::Pod::default() };
    apply(&mut node_state, (0..1100).map(|at| Object::Pod(pod(at))).collect());
    let sizes = node_state.store().sizes();
    assert_eq!(sizes.2, 1000 + 1, "1000 Pods and the gateway");
    let told = node_state.degraded().get(&super::Target::Everybody.key()).map(|problems| problems.all()[0].code);
    assert_eq!(told, Some(crate::Code::Limit));
}

#[test]
fn an_agent_says_groups_if_it_reads_igmp() {
    let problems = degraded(&mut node_state(&node(false), objects()), Object::MulticastGroup(said(&["web"], &[])));
    assert_eq!(problems[0].code, "FEATURE", "{problems:?}");
    assert!(problems[0].hint.contains("taken_over"), "{problems:?}");
    let mut node_state = node_state(&node(true), objects());
    join(&mut node_state, &["db"], &[]);
    assert!(groups(&node_state).is_empty(), "what is heard does not count");
    apply(&mut node_state, vec![Object::MulticastGroup(said(&["web", "later"], &["worker-1"]))]);
    assert_eq!(groups(&node_state)[0].matches("bucket_id").count(), 3, "{:?}", groups(&node_state));
    let key = Key::new(ObjectKind::MulticastGroup, "239.1.1.1");
    assert!(node_state.degraded().contains_key(&key), "a Pod is not there");
    // The agent gives IGMP back: what it said is no more.
    let plan = node_state.plan_node(&node(false)).unwrap_or_else(|problems| panic!("{problems:?}"));
    node_state.settle(plan);
    assert_eq!(node_state.degraded()[&key].all()[0].code, crate::Code::Feature);
    assert_eq!(groups(&node_state)[0].matches("bucket_id").count(), 2, "the one that was heard: {:?}", groups(&node_state));
}

#[test]
fn what_is_wrong_with_a_group_is_found_at_once() {
    let mut node_state = node_state(&node(true), objects());
    let mut bad = |change: &dyn Fn(&mut v1::MulticastGroup)| {
        let mut group = said(&["web"], &["worker-1"]);
        change(&mut group);
        let problems = refused(&mut node_state, Object::MulticastGroup(group));
        problems.into_iter().map(|problem| format!("{} {}", problem.code, problem.field)).collect::<Vec<_>>()
    };
    for address in ["224.0.0.251", "10.0.0.1", "ff02::1", "group"] {
        assert_eq!(bad(&|group| group.address = address.to_owned()), ["VALUE address"], "{address}");
    }
    assert_eq!(bad(&|group| group.pods.push("web".to_owned())), ["VALUE pods[1]"]);
    let many: Vec<String> = (0..1000).map(|at| format!("default/p{at}")).collect();
    assert_eq!(bad(&|group| group.pods = many.clone()), ["LIMIT pods"]);
}
