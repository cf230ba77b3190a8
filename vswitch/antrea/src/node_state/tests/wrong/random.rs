//! Random sets, in random order, in increments.

use super::*;
use proptest::prelude::*;

/// Objects by number and form; form 0 is right, and in nobody's way.
fn random(number: usize, form: u8) -> Object {
    let pods = ["client", "web", "db"];
    match number {
        0..3 => {
            let mut this = pod(pods[number]);
            let next = pod(pods[(number + 1) % 3]);
            match form {
                1 => this.addresses = next.addresses,
                2 => this.port = next.port,
                3 => this.port = "late".to_owned(),
                4 => this.mac = None,
                _ => {}
            }
            Object::Pod(this)
        }
        3..6 => {
            let mut this = service(&format!("s{number}"), &format!("10.96.0.{number}"));
            this.external_ips = match form {
                1 => vec!["10.10.0.24".to_owned()],
                2 => vec!["192.168.77.200".to_owned(); 2],
                3 => vec!["fd00::1".to_owned()],
                _ => Vec::new(),
            };
            if form == 4 {
                this.ports.clear();
            }
            Object::Service(this)
        }
        6..9 => set(&format!("s{}", number - 3)),
        9..12 => {
            let mut this = policy(&format!("p{number}"), &["web"]);
            match form {
                1 => this.rules[0].direction = 7,
                2 => this.tier = 3,
                3 => this.rules[0].peer.get_or_insert_default().address_groups.push("later".to_owned()),
                4 => this.applied_to.push("nobody".to_owned()),
                _ => {}
            }
            Object::NetworkPolicy(this)
        }
        12 => Object::AddressGroup(group("clients", if form == 1 { &["10.10.0.26", "x"] } else { &["10.10.0.26"] })),
        _ => Object::AppliedToGroup(applied("web", &["default/web"])),
    }
}

const NUMBERS: usize = 14;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_right_by_itself_works_as_if_the_wrong_ones_were_not_there(
        forms in prop::collection::vec(prop_oneof![2 => Just(0_u8), 3 => 1_u8..5], NUMBERS),
        order in Just((0..NUMBERS).collect::<Vec<usize>>()).prop_shuffle(),
        chunk in 1_usize..5,
    ) {
        let mut real = node_state(&dual_node(), Vec::new());
        let mut bridge = Bridge::of(&real);
        for some in order.chunks(chunk) {
            let objects: Vec<Object> = some.iter().map(|number| random(*number, forms[*number])).collect();
            let write = || Write { objects: objects.clone(), valid_only: true, ..Write::default() };
            let before = (dump(&real), real.degraded().clone(), real.desired().contested().clone());
            let plan = real.plan(write());
            real.revert(plan);
            prop_assert_eq!(&(dump(&real), real.degraded().clone(), real.desired().contested().clone()), &before, "reverted");
            let plan = real.plan(write());
            prop_assert!(plan.result.applied);
            bridge.take(&plan.updates.iter().filter(|update| !matches!(update, vswitch_flow::spec::Update::DeleteFlows(filter) if filter.strict.is_none())).cloned().collect::<Vec<_>>());
            real.settle(plan);
            bridge.is_as(&real);
        }
        // As if the wrong ones were not there: each flow of what is right and in nobody's way.
        let right = order.iter().copied().filter(|number| forms[*number] == 0);
        let right: Vec<Object> = right.map(|number| random(number, 0)).collect();
        let ideal = node_state(&dual_node(), right.clone());
        let lines = |node_state: &NodeState, key: &Key| -> Vec<String> {
            let part = node_state.store().compiled(key).map(|part| part.flows().iter().map(|flow| format!("{:?}", flow.id)).collect::<Vec<_>>());
            part.unwrap_or_default()
        };
        let taken = |object: &Object| {
            let Object::Pod(pod) = object else { return false };
            let key = crate::Object::key_of(object);
            real.desired().of(ObjectKind::Pod).any(|(other, entry)| match &entry.message {
                Object::Pod(other_pod) => *other != key && (other_pod.addresses == pod.addresses || other_pod.port == pod.port),
                _ => false,
            })
        };
        for object in right.iter().filter(|object| matches!(object, Object::Pod(_)) && !taken(object)) {
            let key = crate::Object::key_of(object);
            prop_assert_eq!(lines(&real, &key), lines(&ideal, &key), "{}", key);
        }
        let front = |node_state: &NodeState, address: &str| {
            dump(node_state)["ServiceLB"].iter().filter(|line| line.contains(&format!("nw_dst={address},"))).count()
        };
        for number in (3..6).filter(|number| forms[*number] != 4) {
            prop_assert_eq!(front(&real, &format!("10.96.0.{number}")), 3, "cluster IPs work");
        }
        if real.desired().pod_of(&"10.10.0.24".parse().unwrap()).is_some() {
            prop_assert_eq!(front(&real, "10.10.0.24"), 0, "a Pod's address is captured");
        }
        // Whoever is named by a policy in any form is isolated.
        let bound = real.facts().unwrap().pod("default/web").map(|pod| PORTS.iter().find(|(name, _)| *name == pod.port).map_or(0, |(_, number)| *number));
        if let Some(port) = bound {
            let drops = |line: &String| line.contains(&format!("reg1={port:#x} actions=ct_forget")) && (line.contains("priority=200") || line.contains("priority=64985"));
            prop_assert!(dump(&real).values().flatten().any(drops), "web is not bound");
        }
        let after = again(&real);
        prop_assert_eq!((dump(&after), after.degraded()), (dump(&real), real.degraded()), "restart");
    }
}
