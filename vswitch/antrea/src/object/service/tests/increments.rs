//! Any sequence of increments ends where one write of its end does; what is reverted has never
//! been.

use crate::testing::{document_node, line, node_state};
use crate::{Key, ObjectKind, Object, NodeState, Write};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_flow::spec::{BucketPlace, BucketSpec, FlowSpec, GroupSpec, Update};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object as Message;

const SERVICES: usize = 4;

fn name(service: usize) -> String {
    format!("default/s{service}")
}

/// Something that an agent does.
#[derive(Clone, Debug)]
enum Step {
    Put(Box<Message>),
    Remove(Key),
}

fn a_service() -> impl Strategy<Value = Step> {
    let policies = (any::<bool>(), any::<bool>(), prop_oneof![Just(0_u32), Just(60)], any::<bool>(), any::<bool>());
    (0..SERVICES, 1_usize..3, 0_u32..3, 0_usize..8, policies).prop_map(
        |(at, ports, node_port, kinds, (internal, external, affinity_timeout_seconds, ranges, nested))| {
            let policy = |local| if local { v1::TrafficPolicy::Local } else { v1::TrafficPolicy::Cluster };
            let port = |index: usize| v1::ServicePort {
                name: format!("p{index}"),
                protocol: [v1::Protocol::Tcp, v1::Protocol::Udp][index].into(),
                port: 80,
                node_port: if node_port > 0 && !nested { 30000 + node_port } else { 0 },
            };
            let with = |bit: usize, address: String| if kinds & bit != 0 { vec![address] } else { vec![] };
            let service = v1::Service {
                name: name(at),
                ports: (0..ports).map(port).collect(),
                cluster_ips: with(1, format!("10.96.0.{}", at + 1)),
                // Two of them want the same one.
                external_ips: if nested { vec![] } else { with(2, format!("192.168.77.{}", 200 + at / 2)) },
                load_balancer_ips: if nested { vec![] } else { with(4, format!("192.168.78.{at}")) },
                internal_traffic_policy: policy(internal).into(),
                external_traffic_policy: policy(external).into(),
                affinity_timeout_seconds,
                nested,
                load_balancer_source_ranges: if ranges { vec!["10.0.0.0/8".to_owned()] } else { vec![] },
                ..v1::Service::default()
            };
            Step::Put(Box::new(Message::Service(service)))
        },
    )
}

fn a_set() -> impl Strategy<Value = Step> {
    let endpoint = (0_u8..8, 0_u8..4, 0_u32..3).prop_map(|(last, state, weight)| v1::Endpoint {
        // The last ones are Services, for nested ones.
        address: if last < 6 { format!("10.10.{}.{}", last % 2, last + 20) } else { format!("10.96.0.{}", last - 5) },
        port: 80,
        node: if last % 2 == 0 { "worker-2" } else { "worker-1" }.to_owned(),
        ready: state < 2,
        serving: state < 3,
        terminating: state == 2,
        weight,
        ..v1::Endpoint::default()
    });
    (0..SERVICES, 0_usize..2, prop::collection::vec(endpoint, 0..5)).prop_map(|(at, port, mut endpoints)| {
        let mut seen = BTreeSet::new();
        endpoints.retain(|endpoint| seen.insert(endpoint.address.clone()));
        let set = v1::Endpoints { service: name(at), port: format!("p{port}"), endpoints };
        Step::Put(Box::new(Message::Endpoints(set)))
    })
}

fn a_removal() -> impl Strategy<Value = Step> {
    (0..SERVICES, 0_usize..3).prop_map(|(at, what)| {
        Step::Remove(match what {
            0 => Key::new(ObjectKind::Service, &name(at)),
            port => Key::new(ObjectKind::Endpoints, &format!("{}:p{}", name(at), port - 1)),
        })
    })
}

fn write(steps: &[Step]) -> Write {
    let mut write = Write::default();
    for step in steps {
        match step {
            Step::Put(message) => write.objects.push((**message).clone()),
            Step::Remove(key) => write.remove.push(key.clone()),
        }
    }
    write
}

/// All of a node state, with its numbers.
fn all_of(node_state: &NodeState) -> Vec<String> {
    let mut all: Vec<String> = node_state.store().everything().iter().map(|update| format!("{update:?}")).collect();
    all.extend(node_state.desired().all().map(|(key, entry)| format!("{key} {:?}", entry.message)));
    all.extend(node_state.degraded().iter().map(|(key, problems)| format!("{key} {problems:?}")));
    for service in 0..SERVICES {
        let numbers = |key| format!("{key:?} {:?}", node_state.ids().group(&key));
        all.extend(node_state.ids().group_keys_of(&name(service)).into_iter().map(numbers));
    }
    all.sort();
    all
}

/// Flows and groups with names in place of numbers, which depend on the way.
fn nameless(node_state: &NodeState) -> BTreeSet<String> {
    let facts = node_state.facts().unwrap();
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for service in 0..SERVICES {
        for key in node_state.ids().group_keys_of(&name(service)) {
            names.insert(node_state.ids().group(&key).unwrap(), format!("<{key:?}>"));
        }
    }
    let named = |line: &str| -> String {
        let word = |word: &str| -> String {
            let word = word.trim_start_matches("actions=");
            let group = word.strip_prefix("group:").and_then(|id| id.parse().ok());
            let register = word.strip_prefix("set_field:0x").and_then(|rest| rest.strip_suffix("->reg7"));
            let register = register.and_then(|id| u32::from_str_radix(id, 16).ok());
            let cookie = word.strip_prefix("cookie=0x10300").and_then(|id| u32::from_str_radix(id, 16).ok());
            match group.or(register).or(cookie) {
                Some(id) => names[&id].clone(),
                None => word.to_owned(),
            }
        };
        line.split([',', ' ', '(', ')']).map(word).collect::<Vec<_>>().join(",")
    };
    let of = |update: Update| match update {
        Update::AddGroup(group) => {
            let mut buckets: Vec<String> =
                group.buckets.iter().map(|bucket| format!("{} {:?}", bucket.weight, bucket.actions)).collect();
            buckets.sort();
            format!("{} {:?} {buckets:?}", names[&group.id], group.selection)
        }
        update => named(&line(&facts, &update)),
    };
    let all = node_state.store().everything().into_iter();
    all.filter(|update| !matches!(update, Update::AddMeter(_))).map(of).collect()
}

/// What a bridge makes of updates.
#[derive(Default)]
struct Bridge {
    flows: BTreeMap<String, FlowSpec>,
    groups: BTreeMap<u32, GroupSpec>,
}

impl Bridge {
    fn key(table: u8, priority: u16, matching: &vswitch_flow::SparseMatch) -> String {
        format!("{table} {priority} {matching:?}")
    }

    fn take(&mut self, update: Update) {
        match update {
            Update::AddFlow(flow) => {
                let used = flow.actions.iter().filter_map(|action| match action {
                    vswitch_flow::Action::Group(id) => Some(*id),
                    _ => None,
                });
                for id in used {
                    assert!(self.groups.contains_key(&id), "no group {id} for {flow:?}");
                }
                self.flows.insert(Self::key(flow.table, flow.priority, &flow.matching), flow);
            }
            Update::DeleteFlows(filter) => {
                if let (Some(priority), Some(table)) = (filter.strict, filter.table) {
                    assert!(self.flows.remove(&Self::key(table, priority, &filter.matching)).is_some());
                }
            }
            Update::AddGroup(group) => assert!(self.groups.insert(group.id, group).is_none()),
            Update::ModifyGroup { spec, .. } => assert!(self.groups.insert(spec.id, spec).is_some()),
            Update::DeleteGroups(Some(id)) => assert!(self.groups.remove(&id).is_some()),
            Update::InsertBuckets { group, place: BucketPlace::Last, buckets } => {
                let there = &mut self.groups.get_mut(&group).unwrap().buckets;
                for bucket in buckets {
                    assert!(there.iter().all(|other| other.id != bucket.id));
                    there.push(bucket);
                }
            }
            Update::RemoveBuckets { group, place: BucketPlace::Before(id) } => {
                let there = &mut self.groups.get_mut(&group).unwrap().buckets;
                let before = there.len();
                there.retain(|bucket| bucket.id != id);
                assert_eq!(there.len() + 1, before);
            }
            // The Node's, which Services do not change.
            Update::AddMeter(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn all(&self) -> BTreeSet<String> {
        let ordered = |group: &GroupSpec| {
            let mut buckets: Vec<BucketSpec> = group.buckets.clone();
            buckets.sort_by_key(|bucket| bucket.id);
            format!("{:?}", GroupSpec { buckets, ..group.clone() })
        };
        let flows = self.flows.values().map(|flow| format!("{flow:?}"));
        flows.chain(self.groups.values().map(ordered)).collect()
    }
}

fn bridge(updates: Vec<Update>) -> Bridge {
    let mut bridge = Bridge::default();
    updates.into_iter().for_each(|update| bridge.take(update));
    bridge
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn increments_end_where_one_write_does(
        writes in prop::collection::vec(prop::collection::vec(prop_oneof![4 => a_service(), 5 => a_set(), 1 => a_removal()], 1..4), 1..24),
        valid_only in any::<bool>(),
    ) {
        let mut increments = node_state(&document_node(), Vec::new());
        let mut there = bridge(increments.store().everything());
        for steps in &writes {
            let before = all_of(&increments);
            let plan = increments.plan(Write { valid_only, ..write(steps) });
            increments.revert(plan);
            prop_assert_eq!(&all_of(&increments), &before, "reverted: {:?}", steps);
            let plan = increments.plan(Write { valid_only, ..write(steps) });
            if !plan.result.applied {
                increments.revert(plan);
                prop_assert_eq!(&all_of(&increments), &before, "refused: {:?}", steps);
                continue;
            }
            plan.updates.iter().cloned().for_each(|update| there.take(update));
            increments.settle(plan);
            prop_assert_eq!(there.all(), bridge(increments.store().everything()).all());
        }
        // Endpoints of a port that their Service has no more have no effect, and would be refused
        // by now.
        let effective = |key: &Key| key.kind != ObjectKind::Endpoints || !increments.degraded().contains_key(key);
        let end = increments.desired().all().filter(|(key, _)| effective(key));
        let end: Vec<Message> = end.map(|(_, entry)| entry.message.clone()).collect();
        let written: Vec<String> = end.iter().map(|message| Object::key_of(message).to_string()).collect();
        let at_once = node_state(&document_node(), end);
        // Who came first has what several claim.
        if increments.desired().contested() != at_once.desired().contested() {
            return Ok(());
        }
        prop_assert_eq!(nameless(&increments), nameless(&at_once), "{:?}", written);
        let degraded = |node_state: &NodeState| -> Vec<String> {
            let services = node_state.degraded().iter().filter(|(key, _)| key.kind == ObjectKind::Service);
            services.map(|(key, problems)| format!("{key} {problems:?}")).collect()
        };
        prop_assert_eq!(degraded(&increments), degraded(&at_once));
    }
}
