//! What rules do that the document does not show.

use super::*;
use crate::testing::{apply, assert_has, ip};
use crate::{ObjectKind, Write};
use std::collections::BTreeSet;

fn with(policy: v1::NetworkPolicy) -> NodeState {
    with_all(&document_node(), vec![object(policy)])
}

fn with_all(node: &v1::NodeConfig, more: Vec<Object>) -> NodeState {
    let mut objects = ["client", "web", "db"].map(|name| a_pod(name, false)).to_vec();
    objects.extend([applied("web", &["web"]), group("client", &["10.10.0.26"]), group("none", &[])]);
    objects.extend(more);
    node_state(node, objects)
}

fn has(node_state: &NodeState, text: &[&str]) {
    text.iter().for_each(|line| assert_has(node_state, line));
}

fn problems(node_state: &NodeState, name: &str) -> Vec<(String, String)> {
    let of = |problems: &crate::Problems| -> Vec<(String, String)> {
        problems.all().iter().map(|problem| (problem.code.name().to_owned(), problem.field.clone())).collect()
    };
    node_state.degraded().iter().filter(|(key, _)| &*key.name == name).flat_map(|(_, problems)| of(problems)).collect()
}

#[test]
fn allow_that_is_logged_forks_behind_ct() {
    let mut policy = acnp("a", 5.0, vec![rule("in", ALLOW, from("client"), vec![tcp(80)])]);
    policy.rules[0].logging = true;
    // Table AntreaPolicyIngressRule is number 0x7c.
    has(&with(policy), &["table=AntreaPolicyIngressRule, priority=14500,conj_id=2,ip actions=set_field:0x2->reg6,ct(commit,table=IngressMetric,zone=65520,exec(set_field:0x2/0xffffffff->ct_label)),set_field:0/0x1800->reg0,set_field:0x2000000/0xfe000000->reg0,set_field:0x7c/0xff->reg2,set_field:0x400000/0x600000->reg0,goto_table:Output"]);
}

#[test]
fn denies_that_somebody_is_told_of_fork_behind_a_group() {
    let mut drop = rule("in", DROP, from("client"), Vec::new());
    drop.logging = true;
    let reject = rule("in2", v1::RuleAction::Reject, from("client"), Vec::new());
    let node_state = with(acnp("a", 5.0, vec![drop.clone(), reject]));
    let group = node_state.ids().group(&crate::GroupKey::Log(Table::IngressMetric)).unwrap_or_default();
    has(&node_state, &[
        &format!("table=AntreaPolicyIngressRule, priority=14500,conj_id=2 actions=set_field:0x2->reg3,set_field:0x400/0x400->reg0,set_field:0x800/0x1800->reg0,set_field:0x2000000/0xfe000000->reg0,set_field:0x7c/0xff->reg2,group:{group}"),
        &format!("table=AntreaPolicyIngressRule, priority=14499,conj_id=3 actions=set_field:0x3->reg3,set_field:0x400/0x400->reg0,set_field:0x1000/0x1800->reg0,set_field:0x4000000/0xfe000000->reg0,set_field:0x7c/0xff->reg2,group:{group}"),
        "table=IngressMetric, priority=201,reg0=0x400/0x400,reg3=0x3 actions=ct_forget",
    ]);
    assert_eq!(node_state.store().sizes().1, 1);
    let told: Vec<String> = node_state.store().everything().iter().filter(|update| matches!(update, vswitch_flow::spec::Update::AddGroup(_))).map(|update| format!("{update:?}")).collect();
    assert_eq!(told.len(), 1);
    // Denied connections are recorded: every deny is told of, isolation too.
    let mut node = document_node();
    node.record_denied = true;
    drop.logging = false;
    let node_state = with_all(&node, vec![object(acnp("a", 5.0, vec![drop])), object(k8s("b", Vec::new()))]);
    let group = node_state.ids().group(&crate::GroupKey::Log(Table::IngressMetric)).unwrap_or_default();
    has(&node_state, &[
        &format!("table=AntreaPolicyIngressRule, priority=14500,conj_id=2 actions=set_field:0x2->reg3,set_field:0x400/0x400->reg0,set_field:0x800/0x1800->reg0,set_field:0x8000000/0xfe000000->reg0,set_field:0x7c/0xff->reg2,group:{group}"),
        "table=IngressDefaultRule, priority=200,reg1=0x25 actions=set_field:0x800/0x1800->reg0,set_field:0x8000000/0xfe000000->reg0,set_field:0x84/0xff->reg2,set_field:0x400000/0x600000->reg0,ct_forget,goto_table:Output",
        "table=EgressDefaultRule, priority=200,ip,nw_src=10.10.0.24 actions=set_field:0x800/0x1800->reg0,set_field:0x8000000/0xfe000000->reg0,set_field:0x50/0xff->reg2,set_field:0x400000/0x600000->reg0,ct_forget,goto_table:Output",
    ]);
}

#[test]
fn pass_goes_on_to_k8s() {
    let mut logged = rule("egress", v1::RuleAction::Pass, None, Vec::new());
    logged.logging = true;
    let node_state = with(acnp("a", 5.0, vec![rule("in", v1::RuleAction::Pass, from("client"), vec![tcp(80)]), logged]));
    let group = node_state.ids().group(&crate::GroupKey::Log(Table::EgressRule)).unwrap_or_default();
    has(&node_state, &[
        "table=AntreaPolicyIngressRule, priority=14500,conj_id=2 actions=set_field:0x2->reg6,goto_table:IngressRule",
        &format!("table=AntreaPolicyEgressRule, priority=14500,conj_id=3 actions=set_field:0x3->reg5,set_field:0x1800/0x1800->reg0,set_field:0x2000000/0xfe000000->reg0,set_field:0x48/0xff->reg2,group:{group}"),
    ]);
    assert!(lines(&node_state, Table::IngressMetric).is_empty());
}

#[test]
fn isolation_is_shared_and_logged_above() {
    let mut logged = k8s("b", Vec::new());
    logged.log_isolation = true;
    let mut node_state = with_all(&document_node(), vec![object(k8s("a", Vec::new())), object(logged), object(k8s("c", Vec::new()))]);
    has(&node_state, &[
        "table=IngressDefaultRule, priority=200,reg1=0x25 actions=ct_forget",
        "table=IngressDefaultRule, priority=201,reg1=0x25 actions=set_field:0x800/0x1800->reg0,set_field:0x2000000/0xfe000000->reg0,set_field:0x84/0xff->reg2,set_field:0x400000/0x600000->reg0,ct_forget,goto_table:Output",
    ]);
    assert_eq!(lines(&node_state, Table::IngressDefaultRule).len(), 2);
    let gone = crate::Key::new(ObjectKind::NetworkPolicy, "np:default/a");
    let plan = node_state.plan(Write { remove: vec![gone], ..Write::default() });
    assert!(plan.updates.is_empty(), "others isolate still: {:?}", plan.updates);
    node_state.settle(plan);
}

#[test]
fn baseline_rules_are_behind_isolation() {
    let mut policy = acnp("a", 5.0, vec![rule("in", DROP, from("client"), Vec::new()), rule("egress", ALLOW, None, vec![tcp(80)])]);
    policy.tier = 253;
    has(&with(policy), &[
        "table=IngressDefaultRule, priority=130,ip,nw_src=10.10.0.26 actions=conjunction(2,1/2)",
        "table=IngressDefaultRule, priority=130,reg1=0x25 actions=conjunction(2,2/2)",
        "table=IngressDefaultRule, priority=130,conj_id=2 actions=set_field:0x2->reg3,set_field:0x400/0x400->reg0,goto_table:IngressMetric",
        "table=EgressDefaultRule, priority=130,ip,nw_src=10.10.0.24 actions=conjunction(3,1/2)",
        "table=EgressDefaultRule, priority=130,tcp,tp_dst=80 actions=conjunction(3,2/2)",
        "table=EgressDefaultRule, priority=130,conj_id=3,ip actions=set_field:0x3->reg5,ct(commit,table=EgressMetric,zone=65520,exec(set_field:0x300000000/0xffffffff00000000->ct_label))",
    ]);
}

#[test]
fn the_last_tier_is_behind_the_baseline_tier_and_the_first_one_ahead_of_all() {
    let of = |name: &str, tier: u32, priority: f64| {
        let policy = acnp(name, priority, vec![rule("in", DROP, from("client"), Vec::new())]);
        object(v1::NetworkPolicy { tier, ..policy })
    };
    let all = [("late", 254, 0.0), ("base", 253, 5.0), ("second", 1, 1.0), ("first", 0, 0.0)];
    let node_state = with_all(&document_node(), all.map(|(name, tier, priority)| of(name, tier, priority)).to_vec());
    for (name, table, priority) in [
        ("late", Table::IngressDefaultRule, 90),
        ("base", Table::IngressDefaultRule, 130),
        ("second", Table::AntreaPolicyIngressRule, 64780),
        ("first", Table::AntreaPolicyIngressRule, 64980),
    ] {
        let found = format!(", priority={priority},conj_id={}", number(&node_state, &format!("acnp:{name}"), "in"));
        let lines = lines(&node_state, table);
        assert!(lines.iter().any(|line| line.contains(&found)), "{name}: {found} in {lines:#?}");
    }
}

#[test]
fn dimensions_fall_away_or_match_nothing() {
    let empty = rule("in", DROP, from("none"), vec![tcp(80)]);
    let any = rule("in2", DROP, None, vec![tcp(81)]);
    let node_state = with(acnp("a", 5.0, vec![empty, any]));
    let clauses: Vec<String> = lines(&node_state, Table::AntreaPolicyIngressRule).into_iter().filter(|line| line.contains("conjunction")).collect();
    let wanted = [
        "priority=14499,reg1=0x25 actions=conjunction(3,1/2)",
        "priority=14499,tcp,tp_dst=81 actions=conjunction(3,2/2)",
        "priority=14500,reg1=0x25 actions=conjunction(2,2/3)",
        "priority=14500,tcp,tp_dst=80 actions=conjunction(2,3/3)",
    ];
    assert_eq!(clauses.len(), wanted.len(), "{clauses:#?}");
    has(&node_state, &wanted.map(|line| format!("table=AntreaPolicyIngressRule, {line}")).each_ref().map(String::as_str));
    assert_eq!(problems(&node_state, "acnp:a"), [("EMPTY".to_owned(), "rules[0].peer".to_owned())]);
}

#[test]
fn blocks_ranges_and_icmp_are_decomposed() {
    let blocks = vec![v1::IpBlock { cidr: "10.0.0.0/24".to_owned(), except_cidrs: vec!["10.0.0.0/25".to_owned(), "10.0.0.192/26".to_owned()] }];
    let mut rules = vec![rule("in", DROP, Some(v1::RulePeer { blocks, ..v1::RulePeer::default() }), Vec::new())];
    let udp = v1::PortMatch { protocol: v1::Protocol::Udp.into(), port: 8000, end_port: 8005, ..v1::PortMatch::default() };
    let icmp = v1::PortMatch { protocol: v1::Protocol::Icmp.into(), icmp_type: Some(8), icmp_code: Some(0), ..v1::PortMatch::default() };
    let sctp = v1::PortMatch { protocol: v1::Protocol::Sctp.into(), source_port: 7, ..v1::PortMatch::default() };
    rules[0].ports = vec![udp, icmp, sctp];
    has(&with(acnp("a", 5.0, rules)), &[
        "table=AntreaPolicyIngressRule, priority=14500,ip,nw_src=10.0.0.128/26 actions=conjunction(2,1/3)",
        "table=AntreaPolicyIngressRule, priority=14500,udp,tp_dst=0x1f40/0xfffc actions=conjunction(2,3/3)",
        "table=AntreaPolicyIngressRule, priority=14500,udp,tp_dst=0x1f44/0xfffe actions=conjunction(2,3/3)",
        "table=AntreaPolicyIngressRule, priority=14500,icmp,icmp_type=8,icmp_code=0 actions=conjunction(2,3/3)",
        "table=AntreaPolicyIngressRule, priority=14500,sctp,tp_src=7 actions=conjunction(2,3/3)",
    ]);
}

fn service(name: &str) -> Object {
    let port = v1::ServicePort { port: 80, node_port: 30080, ..v1::ServicePort::default() };
    let cluster_ips = vec!["10.96.0.50".to_owned()];
    Object::Service(v1::Service { name: name.to_owned(), ports: vec![port], cluster_ips, ..v1::Service::default() })
}

/// Groups of a Service; if its own module claimed none, one as it would.
fn groups_of(node_state: &mut NodeState, service: &str) -> Vec<u32> {
    if node_state.ids().groups_of(service).is_empty() {
        let (service, port) = (service.into(), "".into());
        let key = crate::GroupKey::Service { service, port, family: crate::Family::V4, local: false };
        node_state.ids_mut().claim_group(&key).unwrap_or_else(|problem| panic!("{problem:?}"));
    }
    node_state.ids().groups_of(service)
}

#[test]
fn services_are_known_by_their_groups() {
    let mut node_state = with_all(&document_node(), vec![service("default/s")]);
    let ids = groups_of(&mut node_state, "default/s");
    let peer = v1::RulePeer { services: vec!["default/s".to_owned()], ..v1::RulePeer::default() };
    let mut to = rule("egress", DROP, Some(peer), Vec::new());
    let mut from_outside = rule("in", DROP, from("client"), Vec::new());
    from_outside.applied_to = vec!["services".to_owned()];
    to.applied_to = vec!["web".to_owned()];
    let mut policy = acnp("a", 5.0, vec![to, from_outside]);
    policy.applied_to.clear();
    let services = Object::AppliedToGroup(v1::AppliedToGroup { name: "services".to_owned(), services: vec!["default/s".to_owned()], pods: Vec::new() });
    apply(&mut node_state, vec![services, object(policy)]);
    for id in ids {
        has(&node_state, &[
            &format!("table=AntreaPolicyEgressRule, priority=14500,reg7={id:#x} actions=conjunction(2,2/2)"),
            &format!("table=AntreaPolicyIngressRule, priority=14500,reg7={id:#x},reg4=0x80000/0x80000 actions=conjunction(3,2/2)"),
        ]);
    }
    has(&node_state, &[
        "table=AntreaPolicyIngressRule, priority=14500,ct_state=+new,ip,ct_nw_src=10.10.0.26 actions=conjunction(3,1/2)",
    ]);
}

#[test]
fn names_open_their_addresses_and_answers_wait() {
    let mut to = rule("egress", ALLOW, None, vec![tcp(443)]);
    to.peer = Some(v1::RulePeer { fqdns: vec!["*.example.com".to_owned()], ..v1::RulePeer::default() });
    let mut node_state = with(acnp("a", 5.0, vec![to]));
    has(&node_state, &[
        "table=AntreaPolicyIngressRule, priority=64991,ct_state=+rpl+trk,udp,tp_src=53 actions=conjunction(1,1/2)",
        "table=AntreaPolicyIngressRule, priority=64991,ct_state=+rpl+trk,tcp,tp_src=53 actions=conjunction(1,1/2)",
        "table=AntreaPolicyIngressRule, priority=64991,reg1=0x25 actions=conjunction(1,2/2)",
        "table=AntreaPolicyIngressRule, priority=64991,conj_id=1 actions=meter:258,controller(reason=no_match,id=62375,userdata=02,pause),goto_table:IngressMetric",
    ]);
    assert!(problems(&node_state, "acnp:a").is_empty());
    let mut node = document_node();
    node.fqdn = Some(v1::FqdnConfig { servers: vec!["10.96.0.10".to_owned()], ..v1::FqdnConfig::default() });
    let plan = node_state.plan_node(&node).unwrap_or_else(|problems| panic!("{problems:?}"));
    node_state.settle(plan);
    has(&node_state, &[
        "table=AntreaPolicyIngressRule, priority=64991,ct_state=+rpl+trk,udp,tp_src=53 actions=conjunction(1,1/3)",
        "table=AntreaPolicyIngressRule, priority=64991,reg1=0x25 actions=conjunction(1,2/3)",
        "table=AntreaPolicyIngressRule, priority=64991,ip,nw_src=10.96.0.10 actions=conjunction(1,3/3)",
    ]);
    let before = crate::testing::dump(&node_state);
    let name = |name: &str, addresses: &[&str]| (name.to_owned(), addresses.iter().map(|text| ip(text)).collect::<BTreeSet<_>>());
    let mut tell = |names: Vec<(String, BTreeSet<std::net::IpAddr>)>, settle: bool| {
        let plan = node_state.plan_names(names.into_iter().collect()).unwrap_or_else(|problems| panic!("{problems:?}"));
        let changed = plan.updates.len();
        if settle { node_state.settle(plan) } else { node_state.revert(plan) }
        (changed, crate::testing::dump(&node_state))
    };
    assert_eq!(tell(vec![name("www.example.com", &["192.0.2.1"])], false), (1, before.clone()));
    assert_eq!(tell(vec![name("www.other.com", &["192.0.2.2"])], true).0, 0);
    let (changed, after) = tell(vec![name("www.example.com", &["192.0.2.1", "2001:db8::1"])], true);
    assert_eq!(changed, 1);
    let facts_room = with_all(&document_node(), Vec::new());
    let wanted = crate::testing::normal(&facts_room.facts().unwrap_or_else(|| panic!("no Node")), "table=AntreaPolicyEgressRule, priority=14500,ip,nw_dst=192.0.2.1 actions=conjunction(2,2/3)");
    assert!(after["AntreaPolicyEgressRule"].contains(&wanted), "{after:#?}");
    assert_eq!(tell(vec![name("www.example.com", &[])], true), (1, before));
}

#[test]
fn multicast_has_tables_of_its_own() {
    let mut node = document_node();
    node.features = node.features.map(|features| v1::Features { multicast: true, ..features });
    let data = v1::PortMatch { multicast_group: "239.1.1.1".to_owned(), ..v1::PortMatch::default() };
    let igmp = v1::PortMatch { protocol: v1::Protocol::Igmp.into(), igmp_type: Some(0x16), ..v1::PortMatch::default() };
    let rules = vec![rule("egress", DROP, None, vec![data.clone()]), rule("in", ALLOW, None, vec![data]), rule("egress2", DROP, None, vec![igmp])];
    let node_state = with_all(&node, vec![object(acnp("a", 5.0, rules))]);
    has(&node_state, &[
        "table=MulticastEgressRule, priority=14500,ip,nw_src=10.10.0.24 actions=conjunction(2,1/2)",
        "table=MulticastEgressRule, priority=14500,ip,nw_dst=239.1.1.1 actions=conjunction(2,2/2)",
        "table=MulticastEgressRule, priority=14500,conj_id=2 actions=set_field:0x2->reg3,set_field:0x400/0x400->reg0,goto_table:MulticastEgressMetric",
        "table=MulticastEgressMetric, priority=201,reg0=0x400/0x400,reg3=0x2 actions=ct_forget",
        "table=MulticastIngressRule, priority=14500,conj_id=3 actions=set_field:0x3->reg3,goto_table:MulticastIngressMetric",
        "table=MulticastIngressMetric, priority=200,reg0=0/0x400,reg3=0x3 actions=goto_table:MulticastIngressPodMetric",
    ]);
}

#[test]
fn igmp_is_judged_by_its_reader() {
    use crate::object::policy::igmp::{Judge, Message};
    let mut node = document_node();
    node.features = node.features.map(|features| v1::Features { multicast: true, ..features });
    let igmp = |kind: u32, group: &str| v1::PortMatch {
        protocol: v1::Protocol::Igmp.into(),
        igmp_type: Some(kind),
        multicast_group: group.to_owned(),
        ..v1::PortMatch::default()
    };
    let allow = rule("egress", ALLOW, None, vec![igmp(0x16, "239.1.1.1")]);
    let rules = vec![allow, rule("egress2", DROP, None, vec![igmp(0x16, "")])];
    let node_state = with_all(&node, vec![object(acnp("a", 5.0, rules))]);
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    let asked = |pod: &str, kind: u8, group: [u8; 4]| {
        let message =
            Message { pod, is_from_pod: true, kind, group: Some(group.into()), other: ip("224.0.0.22") };
        Judge::new(facts).verdict(&message).map(|verdict| (verdict.rule.rule.to_string(), verdict.is_allowed))
    };
    assert_eq!(asked("default/web", 0x16, [239, 1, 1, 1]), Some(("egress".to_owned(), true)));
    assert_eq!(asked("default/web", 0x16, [239, 1, 1, 2]), Some(("egress2".to_owned(), false)));
    assert_eq!(asked("default/web", 0x22, [239, 1, 1, 2]), None);
    assert_eq!(asked("default/db", 0x16, [239, 1, 1, 2]), None);
    assert!(!lines(&node_state, Table::MulticastEgressRule).iter().any(|line| line.contains("conjunction")));
}

#[test]
fn packets_that_enter_again_are_judged_without_a_connection() {
    let mut node = document_node();
    node.set_traffic_mode(v1::TrafficMode::NetworkPolicyOnly);
    node.features = Some(v1::Features { proxy: Some(false), ..v1::Features::default() });
    (node.tunnel, node.l7) = (None, None);
    let told = v1::Rule { logging: true, ..rule("egress", ALLOW, None, vec![tcp(80)]) };
    let node_state = with_all(&node, vec![object(k8s("a", vec![told.clone()]))]);
    has(&node_state, &[
        "table=EgressRule, priority=64995,conj_id=2,reg4=0x20000000/0x20000000 actions=set_field:0x2->reg5,goto_table:EgressMetric",
        "table=EgressMetric, priority=200,reg4=0x20000000/0x20000000,reg5=0x2 actions=goto_table:L3Forwarding",
    ]);
    assert_eq!(problems(&node_state, "np:default/a"), [("FEATURE".to_owned(), "rules[0].logging".to_owned())]);
    let part = node_state.store().compiled(&crate::Key::new(ObjectKind::NetworkPolicy, "np:default/a")).unwrap_or_else(|| panic!("no flows"));
    let counters = part.flows().iter().filter(|flow| flow.flow.table == Table::EgressMetric.number());
    let named: Vec<_> = counters.map(|flow| crate::rules_of(&flow.flow)).collect();
    assert!(named.len() > 1 && named.iter().all(|rules| *rules == [2]), "what counts for a rule names it: {named:?}");
    let node_state = with_all(&document_node(), vec![object(k8s("a", vec![told]))]);
    assert!(node_state.degraded().is_empty());
    assert!(!lines(&node_state, Table::EgressMetric).iter().any(|line| line.contains("reg5")));
}

fn http(mut rule: v1::Rule) -> v1::Rule {
    rule.l7_protocols = vec![v1::L7Protocol { definition: r#"{"http":{}}"#.to_owned() }];
    rule
}

#[test]
fn an_l7_rule_without_ports_is_about_all_of_tcp() {
    let node_state = with(acnp("a", 5.0, vec![http(rule("in", ALLOW, from("client"), Vec::new()))]));
    has(&node_state, &["table=AntreaPolicyIngressRule, priority=14500,tcp actions=conjunction(2,3/3)"]);
}

/// Without its port, and where the host translates Services, nobody reads what it is to read.
#[test]
fn nothing_passes_by_the_engine() {
    let to_engine = "table=Output, priority=212,ct_mark=0x80/0x80,reg0=0x200000/0x600000 actions=";
    let mut node_state = with(acnp("a", 5.0, vec![http(rule("in", ALLOW, from("client"), Vec::new()))]));
    has(&node_state, &[&format!("{to_engine}push_vlan:0x8100,move:NXM_NX_CT_LABEL[64..75]->OXM_OF_VLAN_VID[],output:40")]);
    let others = crate::testing::PORTS.iter().filter(|(name, _)| *name != "antrea-l7-tap0");
    let plan = node_state.plan_ports(others.map(|(name, number)| ((*name).to_owned(), *number)).collect());
    node_state.settle(plan.unwrap_or_else(|problems| panic!("{problems:?}")));
    has(&node_state, &[&format!("{to_engine}drop")]);
    let mut node = document_node();
    node.set_traffic_mode(v1::TrafficMode::NetworkPolicyOnly);
    node.features = Some(v1::Features { proxy: Some(false), l7_network_policy: true, ..v1::Features::default() });
    node.tunnel = None;
    let node_state = with_all(&node, vec![object(acnp("a", 5.0, vec![http(rule("egress", ALLOW, None, Vec::new()))]))]);
    has(&node_state, &["table=AntreaPolicyEgressRule, priority=64995,conj_id=2,reg4=0x20000000/0x20000000 actions=drop"]);
    assert_eq!(problems(&node_state, "acnp:a"), [("FEATURE".to_owned(), "rules[0].l7_protocols".to_owned())]);
}

#[test]
fn a_pod_that_comes_later_is_bound_at_once() {
    let policy = || object(k8s("a", vec![rule("in", ALLOW, from("pods"), vec![tcp(80)])]));
    let objects = || vec![applied("web", &["web"]), group_of_pods("pods", &["client"]), policy()];
    let mut late = node_state(&document_node(), objects());
    assert_eq!(problems(&late, "pods"), [("PENDING".to_owned(), "members[0].pod".to_owned())]);
    assert_eq!(problems(&late, "web"), [("PENDING".to_owned(), "pods[0]".to_owned())]);
    apply(&mut late, vec![a_pod("client", false), a_pod("web", false)]);
    let mut early = vec![a_pod("client", false), a_pod("web", false)];
    early.extend(objects());
    assert_eq!(crate::testing::dump(&late), crate::testing::dump(&node_state(&document_node(), early)));
    assert!(late.degraded().is_empty());
}

#[test]
fn a_node_that_has_less_keeps_what_can_be() {
    let mut node_state = document_node_state(false);
    let mut node = document_node();
    node.features = Some(v1::Features { l7_network_policy: false, ..node.features.unwrap_or_default() });
    node.l7 = None;
    let plan = node_state.plan_node(&node).unwrap_or_else(|problems| panic!("{problems:?}"));
    node_state.settle(plan);
    let ingress = lines(&node_state, Table::AntreaPolicyIngressRule);
    assert!(ingress.iter().any(|line| line.contains("tp_dst=8080")), "{ingress:#?}");
    let number = number(&node_state, "acnp:ingress-allow-http-request-to-api-v2", "AllowFromClientL7");
    has(&node_state, &[&format!("table=IngressMetric, priority=201,reg0=0x400/0x400,reg3={number:#x} actions=ct_forget")]);
    assert!(!lines(&node_state, Table::IngressMetric).iter().any(|line| line.contains(&format!("ct_label={number:#x}/"))), "it allows nothing");
    assert_eq!(problems(&node_state, "acnp:ingress-allow-http-request-to-api-v2"), [("FEATURE".to_owned(), "rules[0].l7_protocols".to_owned())]);
    has(&node_state, &["table=IngressDefaultRule, priority=200,reg1=0x25 actions=ct_forget"]);
}

#[test]
fn rules_make_room_and_their_policies_are_written_anew() {
    let deny = |priority| vec![rule("in", priority, from("client"), vec![tcp(80)])];
    let mut node_state = with_all(&document_node(), vec![object(acnp("a", 5.0, deny(ALLOW))), object(acnp("b", 5.01, deny(ALLOW)))]);
    has(&node_state, &["table=AntreaPolicyIngressRule, priority=14500,reg1=0x25 actions=conjunction(2,2/3)", "table=AntreaPolicyIngressRule, priority=14499,reg1=0x25 actions=conjunction(3,2/3)"]);
    let before = (crate::testing::dump(&node_state), format!("{:?}", node_state.ids().priorities));
    let plan = node_state.plan(Write { objects: vec![object(acnp("c", 5.0, deny(DROP)))], ..Write::default() });
    node_state.revert(plan);
    assert_eq!((crate::testing::dump(&node_state), format!("{:?}", node_state.ids().priorities)), before);
    apply(&mut node_state, vec![object(acnp("c", 5.0, deny(DROP)))]);
    has(&node_state, &[
        "table=AntreaPolicyIngressRule, priority=14501,reg1=0x25 actions=conjunction(4,2/3)",
        "table=AntreaPolicyIngressRule, priority=14500,reg1=0x25 actions=conjunction(2,2/3)",
    ]);
    let other = |id: u32| node_state.store().everything().into_iter().filter(|update| matches!(update, vswitch_flow::spec::Update::AddFlow(flow) if flow.actions.iter().any(|action| matches!(action, vswitch_flow::Action::Conjunction { id: other, .. } if *other == id)))).count();
    assert_eq!([2, 3, 4].map(other), [3, 3, 3]);
    // Written again with other content it keeps its number.
    apply(&mut node_state, vec![object(acnp("a", 7.0, deny(DROP)))]);
    assert_eq!(number(&node_state, "acnp:a", "in"), 2);
    let gone = crate::Key::new(ObjectKind::NetworkPolicy, "acnp:a");
    let plan = node_state.plan(Write { remove: vec![gone], ..Write::default() });
    node_state.settle(plan);
    apply(&mut node_state, vec![object(acnp("a", 7.0, deny(DROP)))]);
    assert_eq!(number(&node_state, "acnp:a", "in"), 5, "a number is not another's soon");
}
