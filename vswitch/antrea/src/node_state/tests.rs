//! Rooms.

mod bridge;
mod random;
mod restart;
mod strange;
mod wrong;

use crate::testing::{
    apply, cluster, degraded, document, document_node, dump, dump_of, egress, ip, mac, node_state, peer, pod,
    traffic_control,
};
use crate::{Flush, Key, NodeState, ObjectKind, Write};
use bridge::Bridge;
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::ObjectOutcome as Outcome;
use vswitch_proto::antrea::v1::object::Object;

#[test]
fn misses_are_the_documents() {
    let node_state = node_state(&document_node(), Vec::new());
    for table in
        ["PipelineRootClassifier", "SessionAffinity", "ServiceLB", "L3Forwarding", "EgressMark", "SNAT", "Output"]
    {
        let miss = |lines: BTreeSet<String>| -> Vec<String> {
            lines.into_iter().filter(|line| line.contains("priority=0 ")).collect()
        };
        assert_eq!(miss(dump_of(&node_state, &[table])), miss(document(&node_state, table)), "{table}");
    }
}

/// Plans and settles; what became of each object, by its name.
fn write(node_state: &mut NodeState, write: Write) -> Vec<(String, Outcome)> {
    let plan = node_state.plan(write);
    let told = outcomes(&plan.result);
    node_state.settle(plan);
    told
}

fn outcomes(result: &v1::WriteResult) -> Vec<(String, Outcome)> {
    let statuses = result.statuses.iter();
    statuses.map(|status| (status.object.clone().unwrap_or_default().name, status.outcome())).collect()
}

fn is(names: &[(&str, Outcome)]) -> Vec<(String, Outcome)> {
    names.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect()
}

fn pod_key(name: &str) -> Key {
    Key::new(ObjectKind::Pod, &format!("default/{name}"))
}

#[test]
fn a_write_of_what_is_there_changes_nothing() {
    let mut node_state = node_state(&document_node(), cluster());
    let ids = format!("{:?}", node_state.ids());
    for sweep in [BTreeSet::new(), ObjectKind::WRITTEN.into()] {
        let plan = node_state.plan(Write { objects: cluster(), sweep, ..Write::default() });
        assert!(plan.updates.is_empty() && plan.flush.is_empty(), "{:?}", plan.updates);
        assert!(plan.result.applied && plan.result.flows_changed == 0 && plan.result.meters_changed == 0);
        assert_eq!(plan.result.counts.get("UNCHANGED"), Some(&(cluster().len() as u64)), "{:?}", plan.result.counts);
        assert_eq!(plan.result.counts.len(), 1);
        node_state.settle(plan);
    }
    assert_eq!(format!("{:?}", node_state.ids()), ids);
    let plan = node_state.plan_node(&document_node()).unwrap();
    assert!(plan.updates.is_empty(), "{:?}", plan.updates);
    node_state.settle(plan);
}

#[test]
fn increments_come_to_what_one_sync_comes_to() {
    let mut grown = node_state(&document_node(), Vec::new());
    let mut bridge = Bridge::of(&grown);
    for object in cluster() {
        bridge.take(&apply(&mut grown, vec![object]));
        bridge.is_as(&grown);
    }
    let synced = node_state(&document_node(), cluster());
    assert_eq!(dump(&grown), dump(&synced));
    assert!(grown.degraded().is_empty(), "{:?}", grown.degraded());
}

#[test]
fn a_sweep_takes_what_is_not_sent_of_its_kinds_alone() {
    let mut node_state = node_state(&document_node(), cluster());
    let objects = vec![Object::Pod(pod("web")), Object::Pod(pod("web2"))];
    let plan = node_state.plan(Write { objects, sweep: [ObjectKind::Pod].into(), ..Write::default() });
    let told = outcomes(&plan.result);
    let want = [
        ("default/web", Outcome::Unchanged),
        ("default/web2", Outcome::Applied),
        ("default/client", Outcome::Removed),
        ("default/db", Outcome::Removed),
        // Because of them: their Pods are not there.
        ("egress-client", Outcome::Degraded),
        ("mirror-db-to-local", Outcome::Degraded),
    ];
    assert_eq!(told, is(&want));
    assert_eq!(plan.flush, [Flush::Address(ip("10.10.0.25")), Flush::Address(ip("10.10.0.26"))]);
    node_state.settle(plan);
    assert_eq!(node_state.desired().of(ObjectKind::Egress).count(), 2, "another kind");
    // They come back with what others said of them meanwhile.
    apply(&mut node_state, cluster());
    write(&mut node_state, Write { remove: vec![pod_key("web2")], ..Write::default() });
    assert_eq!(dump(&node_state), dump(&crate::testing::node_state(&document_node(), cluster())));
}

#[test]
fn reverted_is_as_before() {
    let mut node_state = node_state(&document_node(), cluster());
    let state =
        |node_state: &NodeState| (dump(node_state), format!("{:?} {:?}", node_state.ids(), node_state.degraded()));
    let before = state(&node_state);
    let mut other = pod("web");
    other.addresses = vec!["10.10.0.99".to_owned()];
    let remove =
        vec![pod_key("db"), Key::new(ObjectKind::Egress, "egress-client"), Key::new(ObjectKind::PeerNode, "worker-1")];
    let plan = node_state.plan(Write { objects: vec![Object::Pod(other)], remove, ..Write::default() });
    assert!(plan.result.applied && !plan.updates.is_empty());
    node_state.revert(plan);
    assert_eq!(state(&node_state), before);
    let mut node = document_node();
    node.egress_except_cidrs = vec!["10.0.0.0/8".to_owned()];
    let plan = node_state.plan_node(&node).unwrap();
    assert_eq!(plan.result.flows_changed, 1);
    node_state.revert(plan);
    assert_eq!(state(&node_state), before);
    assert!(node_state.plan(Write::default()).updates.is_empty());
}

#[test]
fn one_bad_object_refuses_all_or_itself() {
    let bad = v1::Pod { mac: None, ..pod("web") };
    let objects = || vec![Object::Pod(pod("client")), Object::Pod(bad.clone()), Object::Pod(pod("db"))];
    let mut node_state = node_state(&document_node(), Vec::new());
    let empty = dump(&node_state);
    let plan = node_state.plan(Write { objects: objects(), ..Write::default() });
    assert!(!plan.result.applied && plan.updates.is_empty() && plan.flush.is_empty());
    let want = [
        ("default/client", Outcome::NotApplied),
        ("default/web", Outcome::Refused),
        ("default/db", Outcome::NotApplied),
    ];
    assert_eq!(outcomes(&plan.result), is(&want));
    node_state.settle(plan);
    assert_eq!(dump(&node_state), empty);
    assert!(node_state.desired().is_empty());

    let told = write(&mut node_state, Write { objects: objects(), valid_only: true, ..Write::default() });
    let want =
        [("default/client", Outcome::Applied), ("default/web", Outcome::Refused), ("default/db", Outcome::Applied)];
    assert_eq!(told, is(&want));
    let good = crate::testing::node_state(&document_node(), vec![Object::Pod(pod("client")), Object::Pod(pod("db"))]);
    assert_eq!(dump(&node_state), dump(&good));
}

#[test]
fn what_is_refused_leaves_its_old_form_in_force() {
    let mut node_state = node_state(&document_node(), vec![Object::Pod(pod("web")), Object::Pod(pod("db"))]);
    let before = dump(&node_state);
    let bad = v1::Pod { addresses: Vec::new(), ..pod("web") };
    let told = write(&mut node_state, Write { objects: vec![Object::Pod(bad)], valid_only: true, ..Write::default() });
    assert_eq!(told, is(&[("default/web", Outcome::Refused)]));
    assert_eq!(dump(&node_state), before);
    // In a sync, too: refusal is no removal.
    let bad = v1::Pod { mac: None, ..pod("web") };
    let write_ = Write {
        objects: vec![Object::Pod(bad)],
        valid_only: true,
        sweep: [ObjectKind::Pod].into(),
        ..Write::default()
    };
    let told = write(&mut node_state, write_);
    assert_eq!(told, is(&[("default/web", Outcome::Refused), ("default/db", Outcome::Removed)]));
    assert!(node_state.desired().get(&pod_key("web")).is_some());
}

#[test]
fn names_that_are_there_twice_are_refused_whole() {
    let mut node_state = node_state(&document_node(), vec![Object::Pod(pod("db"))]);
    let other = v1::Pod { addresses: vec!["10.10.0.77".to_owned()], ..pod("web") };
    let twice =
        Write { objects: vec![Object::Pod(pod("web")), Object::Pod(other)], valid_only: true, ..Write::default() };
    assert_eq!(write(&mut node_state, twice), is(&[("default/web", Outcome::Refused)]));
    assert!(node_state.desired().get(&pod_key("web")).is_none(), "neither of the two");
    let moved = v1::Pod { addresses: vec!["10.10.0.77".to_owned()], ..pod("db") };
    let both =
        Write { objects: vec![Object::Pod(moved)], remove: vec![pod_key("db")], valid_only: true, ..Write::default() };
    assert_eq!(write(&mut node_state, both), is(&[("default/db", Outcome::Refused)]));
    assert_eq!(node_state.desired().pod("default/db").map(|pod| pod.addresses.clone()), Some(vec![ip("10.10.0.25")]));
    let remove = vec![pod_key("nobody"), pod_key("db"), pod_key("db")];
    let told = write(&mut node_state, Write { remove, ..Write::default() });
    assert_eq!(told, is(&[("default/nobody", Outcome::Absent), ("default/db", Outcome::Removed)]));
}

#[test]
fn claims_move_between_objects_of_one_write() {
    let (web, db) = (pod("web"), pod("db"));
    let mut node_state = node_state(&document_node(), vec![Object::Pod(web.clone()), Object::Pod(db.clone())]);
    let swapped = [
        v1::Pod { addresses: db.addresses.clone(), mac: db.mac.clone(), ..web.clone() },
        v1::Pod {
            addresses: web.addresses.clone(),
            mac: web.mac.clone(),
            port: db.port.clone(),
            name: db.name,
            vlan: 0,
            uid: String::new(),
            ..v1::Pod::default()
        },
    ];
    let plan = node_state.plan(Write { objects: swapped.clone().map(Object::Pod).into(), ..Write::default() });
    assert!(plan.result.applied, "{:?}", plan.result.statuses);
    assert_eq!(plan.flush, [Flush::Address(ip("10.10.0.24")), Flush::Address(ip("10.10.0.25"))], "nobody inherits");
    node_state.settle(plan);
    assert_eq!(dump(&node_state), dump(&crate::testing::node_state(&document_node(), swapped.map(Object::Pod).into())));
    // From one that goes to one that comes.
    let heir = v1::Pod { name: "default/heir".to_owned(), ..web.clone() };
    let heir = v1::Pod { addresses: web.addresses, mac: mac("fa:b7:53:74:21:a7"), ..heir };
    let plan = node_state.plan(Write {
        objects: vec![Object::Pod(heir)],
        remove: vec![pod_key("web"), pod_key("db")],
        ..Write::default()
    });
    assert!(plan.result.applied, "{:?}", plan.result.statuses);
    node_state.settle(plan);
}

#[test]
fn a_pod_of_the_same_name_with_another_uid_inherits_no_connections() {
    let web = |uid: &str| Object::Pod(v1::Pod { uid: uid.to_owned(), ..pod("web") });
    let mut node_state = node_state(&document_node(), vec![web("u1")]);
    for (uid, ends) in [("u1", false), ("u2", true), ("", false), ("u3", false), ("u4", true)] {
        let plan = node_state.plan(Write { objects: vec![web(uid)], ..Write::default() });
        let expected: &[Flush] = if ends { &[Flush::Address(ip("10.10.0.24"))] } else { &[] };
        assert_eq!((&plan.flush[..], plan.updates.len()), (expected, 0), "{uid:?}");
        node_state.settle(plan);
    }
    let long = Object::Pod(v1::Pod { uid: "u".repeat(129), ..pod("web") });
    let problems = crate::testing::refused(&mut node_state, long);
    assert_eq!((&*problems[0].code, &*problems[0].field), ("RANGE", "uid"));
}

#[test]
fn of_two_that_claim_the_same_the_one_in_force_has_it_until_it_goes() {
    let twin = v1::Pod {
        name: "default/twin".to_owned(),
        mac: mac("02:00:00:00:00:01"),
        port: "web2-6f8c-1a2b3".to_owned(),
        ..pod("web")
    };
    let mut node_state = node_state(&document_node(), Vec::new());
    let alone = |pod: &v1::Pod| dump(&crate::testing::node_state(&document_node(), vec![Object::Pod(pod.clone())]));
    // Of those that come together the first by name.
    let objects = vec![Object::Pod(pod("web")), Object::Pod(twin.clone())];
    let told = write(&mut node_state, Write { objects, ..Write::default() });
    assert_eq!(told, is(&[("default/web", Outcome::Degraded), ("default/twin", Outcome::Applied)]));
    assert_eq!(dump(&node_state), alone(&twin), "the other one has no flow, and cannot send from the address");
    let problem = &node_state.degraded()[&pod_key("web")].all()[0];
    assert_eq!((problem.code.name(), problem.field.as_str()), ("OVERLAP", "addresses[0]"));
    assert_eq!(problem.other.as_ref().map(|other| &*other.name), Some("default/twin"));
    // It goes: in the same transaction the other one works. Nobody inherits its connections.
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Pod, "default/twin")], ..Write::default() });
    assert_eq!(outcomes(&plan.result), is(&[("default/twin", Outcome::Removed), ("default/web", Outcome::Applied)]));
    assert_eq!(plan.flush, [Flush::Address(ip("10.10.0.24"))]);
    node_state.settle(plan);
    assert_eq!(dump(&node_state), alone(&pod("web")));
    // One that comes later does not take it, though its name is lower; and when it goes, nothing of
    // the other one ends.
    let told = write(&mut node_state, Write { objects: vec![Object::Pod(twin)], ..Write::default() });
    assert_eq!(told, is(&[("default/twin", Outcome::Degraded)]));
    assert_eq!(dump(&node_state), alone(&pod("web")));
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Pod, "default/twin")], ..Write::default() });
    assert!(plan.flush.is_empty() && plan.updates.is_empty(), "{:?}", plan.flush);
    node_state.settle(plan);
}

#[test]
fn a_pod_may_be_named_before_it_is_there_and_after_it_went() {
    let names = || vec![Object::Egress(egress("web")), Object::TrafficControl(traffic_control("web"))];
    let mut node_state = node_state(&document_node(), names());
    let degraded: Vec<String> = node_state.degraded().keys().map(ToString::to_string).collect();
    assert_eq!(degraded, ["Egress egress-web", "TrafficControl redirect-web-to-local"]);
    assert!(
        node_state
            .degraded()
            .values()
            .flat_map(crate::Problems::all)
            .all(|problem| problem.code == crate::Code::Pending)
    );
    let told = write(&mut node_state, Write { objects: vec![Object::Pod(pod("web"))], ..Write::default() });
    let want = [
        ("default/web", Outcome::Applied),
        ("egress-web", Outcome::Applied),
        ("redirect-web-to-local", Outcome::Applied),
    ];
    assert_eq!(told, is(&want));
    assert!(node_state.degraded().is_empty());
    let whole = [names(), vec![Object::Pod(pod("web"))]].concat();
    assert_eq!(dump(&node_state), dump(&crate::testing::node_state(&document_node(), whole)));
    write(&mut node_state, Write { remove: vec![pod_key("web")], ..Write::default() });
    assert_eq!(dump(&node_state), dump(&crate::testing::node_state(&document_node(), names())));
}

#[test]
fn an_egress_waits_for_its_node() {
    let mut node_state = node_state(&document_node(), vec![Object::Pod(pod("client"))]);
    let problems = degraded(&mut node_state, Object::Egress(egress("client")));
    assert_eq!((problems[0].code.as_str(), problems[0].field.as_str()), ("PENDING", "node"));
    // The peer is refused, in the same write.
    let bad = v1::PeerNode { transport_addresses: Vec::new(), ..peer() };
    let objects = vec![Object::Egress(egress("client")), Object::PeerNode(bad)];
    let told = write(&mut node_state, Write { objects, valid_only: true, ..Write::default() });
    assert_eq!(told, is(&[("egress-client", Outcome::Degraded), ("worker-1", Outcome::Refused)]));
    apply(&mut node_state, vec![Object::Egress(egress("client")), Object::PeerNode(peer())]);
    let told =
        write(&mut node_state, Write { remove: vec![Key::new(ObjectKind::PeerNode, "worker-1")], ..Write::default() });
    assert_eq!(told, is(&[("worker-1", Outcome::Removed), ("egress-client", Outcome::Degraded)]));
    crate::testing::assert_has(
        &node_state,
        r#"table=EgressMark, priority=200,ip,in_port="client-6-3353ef" actions=drop"#,
    );
}

#[test]
fn another_node_leaves_objects_without_effect_and_takes_them_back() {
    let mut node_state = node_state(&document_node(), cluster());
    let before = dump(&node_state);
    let mut node = document_node();
    node.features =
        Some(v1::Features { traffic_control: false, egress: Some(false), ..node.features.unwrap_or_default() });
    let plan = node_state.plan_node(&node).unwrap();
    node_state.settle(plan);
    assert_eq!(node_state.degraded().len(), 4, "{:?}", node_state.degraded());
    assert!(
        node_state
            .degraded()
            .values()
            .flat_map(crate::Problems::all)
            .any(|problem| problem.code == crate::Code::Feature)
    );
    assert!(!dump(&node_state).contains_key("EgressMark"));
    let plan = node_state.plan_node(&document_node()).unwrap();
    node_state.settle(plan);
    assert!(node_state.degraded().is_empty());
    assert_eq!(dump(&node_state), before);
    let mut bad = document_node();
    bad.gateway = None;
    assert!(node_state.plan_node(&bad).is_err());
    assert_eq!(dump(&node_state), before);
}

#[test]
fn ports_are_held() {
    let node_state = node_state(&document_node(), cluster());
    let held = node_state.held_ports();
    assert_eq!(held.get("antrea-gw0"), Some(&Key::node()));
    assert_eq!(held.get("web-7975-274540"), Some(&pod_key("web")));
    assert_eq!(
        held.get("antrea-tc-tap1").map(ToString::to_string).as_deref(),
        Some("TrafficControl redirect-web-to-local")
    );
    assert_eq!(held.get("probe0"), None);
    // By the index is what is found by looking at all.
    for (port, key) in &held {
        let holders = node_state.holders(&[port.clone()].into());
        assert!(holders.contains(key), "{port}: {holders:?}");
        assert!(holders.iter().all(|key| node_state.ports_of(key).contains(port)), "{port}: {holders:?}");
    }
    assert_eq!(node_state.holders(&held.keys().cloned().collect()), held.values().cloned().collect());
    assert_eq!(node_state.holders(&["probe0".to_owned()].into()), BTreeSet::new());
}
