//! Kinds of Services that the document does not show.

use super::{cluster_ip, documents, endpoint, endpoints, group, id, service, web};
use crate::testing::{assert_has, document_node, dual_node, dump_of, node_state};
use crate::{Family, NodeState};
use vswitch_flow::spec::{Selection, Update};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// Lines of a table with all of these words.
fn with(node_state: &NodeState, table: &str, words: &[&str]) -> Vec<String> {
    dump_of(node_state, &[table]).into_iter().filter(|line| words.iter().all(|word| line.contains(word))).collect()
}

fn dsr_node() -> v1::NodeConfig {
    let mut node = document_node();
    if let Some(features) = &mut node.features {
        features.dsr = true;
    }
    node
}

#[test]
fn ipv6_is_the_twin_of_ipv4() {
    let mut all = v1::Service { affinity_timeout_seconds: 300, ..cluster_ip("six", "fd00:10:96::15") };
    all.load_balancer_ips.push("fd00:192:168:77::150".to_owned());
    all.ports[0].node_port = 30004;
    let set = endpoints("six", &["fd00:10:10::18", "fd00:10:11::6"]);
    let node_state = node_state(&dual_node(), vec![Object::Service(all), Object::Endpoints(set)]);
    let id = group(&node_state, "six", Family::V6, false).unwrap();
    assert_eq!(group(&node_state, "six", Family::V4, false), None, "it has no IPv4 address");
    let state = "set_field:0x200/0x200->reg0,set_field:0x30000/0x70000->reg4";
    for line in [
        format!("priority=200,tcp6,reg4=0x10000/0x70000,ipv6_dst=fd00:10:96::15,tp_dst=80 actions={state},set_field:{id:#x}->reg7,group:{id}"),
        format!("priority=200,tcp6,reg4=0x90000/0xf0000,tp_dst=30004 actions={state},set_field:0x200000/0x200000->reg4,set_field:{id:#x}->reg7,group:{id}"),
        format!("priority=200,tcp6,reg4=0xc0000/0xf0000,tp_dst=30004 actions=set_field:0x200000/0x200000->reg4,set_field:{id:#x}->reg7"),
        format!(
            "priority=190,tcp6,reg4=0x30000/0x70000,ipv6_dst=fd00:192:168:77::150,tp_dst=80 actions=learn(table=SessionAffinity,hard_timeout=300,priority=200,\
             delete_learned,cookie={:#x},eth_type=0x86dd,nw_proto=6,NXM_OF_TCP_DST[],NXM_NX_IPV6_DST[],NXM_NX_IPV6_SRC[],\
             load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],load:NXM_NX_REG4[26]->NXM_NX_REG4[26],load:NXM_NX_XXREG3[]->NXM_NX_XXREG3[],\
             load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG0[9],load:NXM_NX_REG7[]->NXM_NX_REG7[],load:0x1->NXM_NX_REG4[21]),set_field:0x20000/0x70000->reg4,goto_table:EndpointDNAT",
            0x1_0300_0000_0000 + u64::from(id)
        ),
    ] {
        assert_has(&node_state, &format!("table=ServiceLB, {line}"));
    }
    assert_has(
        &node_state,
        "table=EndpointDNAT, priority=200,tcp6,xxreg3=0xfd000010001000000000000000000018,reg4=0x20050/0x7ffff actions=ct(commit,table=AntreaPolicyEgressRule,\
         zone=65510,nat(dst=[fd00:10:10::18]:80),exec(set_field:0x10/0x10->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
    );
    assert_has(
        &node_state,
        "table=SNATMark, priority=190,ct_state=+new+trk,ipv6,ipv6_src=fd00:10:10::18,ipv6_dst=fd00:10:10::18 \
         actions=ct(commit,table=SNAT,zone=65510,exec(set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark))",
    );
}

#[test]
fn protocols_and_named_ports_are_told_apart() {
    let mut dns = cluster_ip("dns", "10.96.0.10");
    dns.ports = [("tcp", v1::Protocol::Tcp), ("udp", v1::Protocol::Udp), ("sctp", v1::Protocol::Sctp)]
        .map(|(name, protocol)| v1::ServicePort {
            name: name.to_owned(),
            protocol: protocol.into(),
            port: 53,
            node_port: 0,
        })
        .into();
    let sets = ["tcp", "udp", "sctp"].map(|port| {
        let endpoints = vec![v1::Endpoint { port: 5353, ..endpoint("10.10.0.24") }];
        Object::Endpoints(v1::Endpoints { service: "default/dns".to_owned(), port: port.to_owned(), endpoints })
    });
    let dns = v1::Service { affinity_timeout_seconds: 60, ..dns };
    let node_state = node_state(&document_node(), [Object::Service(dns)].into_iter().chain(sets).collect());
    for (protocol, number, port) in
        [("tcp", 6, "NXM_OF_TCP_DST[]"), ("udp", 17, "NXM_OF_UDP_DST[]"), ("sctp", 132, "OXM_OF_SCTP_DST[]")]
    {
        let service = node_state.desired().service("default/dns").unwrap();
        let key = super::group_key("default/dns", service.port(protocol).unwrap(), Family::V4, false);
        let id = node_state.ids().group(&key).unwrap();
        let cookie = 0x1_0300_0000_0000 + u64::from(id);
        assert_has(
            &node_state,
            &format!(
                "table=ServiceLB, priority=190,{protocol},reg4=0x30000/0x70000,nw_dst=10.96.0.10,tp_dst=53 actions=learn(table=SessionAffinity,hard_timeout=60,\
                 priority=200,delete_learned,cookie={cookie:#x},eth_type=0x800,nw_proto={number},{port},NXM_OF_IP_DST[],NXM_OF_IP_SRC[],\
                 load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],load:NXM_NX_REG4[26]->NXM_NX_REG4[26],load:NXM_NX_REG3[]->NXM_NX_REG3[],\
                 load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG0[9],load:NXM_NX_REG7[]->NXM_NX_REG7[]),set_field:0x20000/0x70000->reg4,goto_table:EndpointDNAT"
            ),
        );
        let dnat = format!("{protocol},reg3=0xa0a0018,reg4=0x214e9/0x7ffff");
        assert_eq!(with(&node_state, "EndpointDNAT", &[&dnat, "nat(dst=10.10.0.24:5353)"]).len(), 1);
    }
    assert_eq!(with(&node_state, "SNATMark", &["10.10.0.24"]).len(), 1, "one for all protocols and ports");
}

#[test]
fn internal_policy_local_has_one_group_and_no_short_circuit() {
    let local = v1::Service {
        internal_traffic_policy: v1::TrafficPolicy::Local.into(),
        ..cluster_ip("local", "10.96.1.1")
    };
    let node_state = node_state(&document_node(), vec![Object::Service(local), web("local")]);
    assert_eq!(group(&node_state, "local", Family::V4, false), None);
    let id = id(&node_state, "local", true);
    assert_eq!(with(&node_state, "ServiceLB", &["10.96.1.1"]).len(), 2);
    assert_eq!(with(&node_state, "ServiceLB", &["10.96.1.1", &format!("group:{id}")]).len(), 1);
    assert_eq!(with(&node_state, "EndpointDNAT", &["nat("]).len(), 1, "the other Node's endpoint is not used here");
}

#[test]
fn external_policy_local_of_a_node_port_lets_the_nodes_own_reach_all() {
    let mut service = v1::Service {
        external_traffic_policy: v1::TrafficPolicy::Local.into(),
        ..cluster_ip("np", "10.96.1.2")
    };
    service.ports[0].node_port = 30080;
    let node_state = node_state(&document_node(), vec![Object::Service(service), web("np")]);
    let (all, local) = (id(&node_state, "np", false), id(&node_state, "np", true));
    for (head, group) in [
        ("priority=210,tcp,reg4=0x10090000/0x100f0000,tp_dst=30080", all),
        ("priority=200,tcp,reg4=0x90000/0xf0000,tp_dst=30080", local),
    ] {
        assert_has(
            &node_state,
            &format!(
                "table=ServiceLB, {head} actions=set_field:0x200/0x200->reg0,set_field:0x20000/0x70000->reg4,set_field:0x200000/0x200000->reg4,\
                 set_field:{group:#x}->reg7,group:{group}"
            ),
        );
    }
    assert_eq!(with(&node_state, "ServiceLB", &["10.96.1.2", &format!("group:{all}")]).len(), 1, "inside it is Cluster");
    // A repeated first packet meets the same groups.
    assert_eq!(with(&node_state, "ServiceLB", &["reg4=0x100c0000/0x100f0000", &format!("{all:#x}->reg7")]).len(), 1);
    assert_eq!(with(&node_state, "ServiceLB", &["reg4=0xc0000/0xf0000", &format!("{local:#x}->reg7")]).len(), 1);
}

#[test]
fn a_node_port_alone_serves_what_families_the_node_has() {
    let mut alone = service("alone");
    alone.ports[0].node_port = 30081;
    let set = endpoints("alone", &["10.10.0.24", "fd00:10:10::18"]);
    for (node, families) in [(document_node(), 1), (dual_node(), 2)] {
        let mut set = set.clone();
        set.endpoints.truncate(families);
        let node_state = node_state(&node, vec![Object::Service(alone.clone()), Object::Endpoints(set)]);
        assert_eq!(with(&node_state, "ServiceLB", &["tp_dst=30081", "group:"]).len(), families);
        assert_eq!(with(&node_state, "EndpointDNAT", &["nat(dst="]).len(), families);
        assert_eq!(node_state.store().sizes().1, families, "groups");
    }
}

#[test]
fn groups_in_use_are_told_with_their_buckets() {
    let node_state = node_state(&document_node(), documents());
    let facts = node_state.facts().unwrap();
    let told = |name: &str| {
        let name = format!("default/{name}");
        let service = facts.desired.service(&name).unwrap();
        let used = service.used(&name, &service.ports[0], &facts);
        used.into_iter().map(|used| (used.local, used.group, used.buckets)).collect::<Vec<_>>()
    };
    let (web, other) = (crate::testing::ip("10.10.0.24"), crate::testing::ip("10.10.1.6"));
    let etp = "sample-service-etp-local";
    let all = vec![((web, 80), 0), ((other, 80), 1)];
    let both = vec![(false, id(&node_state, etp, false), all), (true, id(&node_state, etp, true), vec![((web, 80), 0)])];
    assert_eq!(told(etp), both);
    let none = "sample-clusterip-no-ep";
    assert_eq!(told(none), [(false, id(&node_state, none, false), vec![])]);
}

#[test]
fn source_ranges_are_for_the_load_balancer_alone() {
    let mut service = cluster_ip("ranges", "10.96.1.3");
    service.load_balancer_ips.push("192.168.77.160".to_owned());
    service.load_balancer_source_ranges = vec!["192.168.0.0/16".to_owned(), "10.0.0.0/8".to_owned()];
    let objects = vec![Object::Service(service.clone()), web("ranges")];
    let written = node_state(&document_node(), objects);
    let id = id(&written, "ranges", false);
    for range in ["192.168.0.0/16", "10.0.0.0/8"] {
        let source = format!("nw_src={range},");
        assert_eq!(with(&written, "ServiceLB", &[&source, "192.168.77.160", &format!("group:{id}")]).len(), 1);
        assert_eq!(with(&written, "ServiceLB", &[&source, "192.168.77.160"]).len(), 2, "and one for repeated packets");
    }
    let drop = "table=ServiceLB, priority=195,tcp,reg4=0x10000/0x70000,nw_dst=192.168.77.160,tp_dst=80 actions=drop";
    assert_has(&written, drop);
    assert_eq!(with(&written, "ServiceLB", &["10.96.1.3"]).len(), 2);
    // A range of everything lets everybody in.
    service.load_balancer_source_ranges = vec!["0.0.0.0/0".to_owned()];
    let open = node_state(&document_node(), vec![Object::Service(service.clone()), web("ranges")]);
    assert!(with(&open, "ServiceLB", &["priority=195"]).is_empty());
    // Ranges of another family let nobody in.
    service.load_balancer_source_ranges = vec!["fd00::/8".to_owned()];
    let shut = node_state(&dual_node(), vec![Object::Service(service), web("ranges")]);
    assert_eq!(with(&shut, "ServiceLB", &["192.168.77.160"]).len(), 1);
    assert_has(&shut, drop);
}

#[test]
fn dsr_is_learned_here_and_translated_there() {
    let mut service = cluster_ip("dsr", "10.96.1.4");
    service.load_balancer_ips.push("192.168.77.170".to_owned());
    service.set_load_balancer_mode(v1::LoadBalancerMode::Dsr);
    let node_state = node_state(&dsr_node(), vec![Object::Service(service), web("dsr")]);
    let (all, local) = (id(&node_state, "dsr", false), id(&node_state, "dsr", true));
    let state = "set_field:0x200/0x200->reg0,set_field:0x20000/0x70000->reg4,set_field:0x200000/0x200000->reg4";
    for line in [
        format!("table=ServiceLB, priority=200,tcp,reg4=0x10000/0x70000,nw_dst=192.168.77.170,tp_dst=80 actions={state},set_field:{all:#x}->reg7,group:{all}"),
        format!(
            "table=ServiceLB, priority=210,tcp,reg0=0x1/0xf,reg4=0x10000/0x70000,nw_dst=192.168.77.170,tp_dst=80 \
             actions={state},set_field:{local:#x}->reg7,group:{local}"
        ),
        format!(
            "table=DSRServiceMark, priority=200,tcp,reg4=0xc000000/0xe000000,nw_dst=192.168.77.170,tp_dst=80 actions=learn(table=SessionAffinity,idle_timeout=160,\
             fin_idle_timeout=5,priority=210,delete_learned,cookie={:#x},eth_type=0x800,nw_proto=6,NXM_OF_TCP_SRC[],NXM_OF_TCP_DST[],NXM_OF_IP_SRC[],\
             NXM_OF_IP_DST[],load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG4[25],\
             load:NXM_NX_REG3[]->NXM_NX_REG3[]),set_field:0x2000000/0x2000000->reg4,goto_table:EndpointDNAT",
            0x1_0300_0000_0000 + u64::from(all)
        ),
        "table=EndpointDNAT, priority=210,ip,reg4=0x2000000/0x2000000 actions=ct(commit,table=AntreaPolicyEgressRule,zone=65520)".to_owned(),
    ] {
        assert_has(&node_state, &line);
    }
    assert!(with(&node_state, "DSRServiceMark", &["10.96.1.4"]).is_empty(), "inside nothing is different");
    assert!(with(&node_state, "ServiceLB", &["10.96.1.4", "reg0=0x1/0xf"]).is_empty());
    let group = node_state.store().everything().into_iter().find_map(|update| match update {
        Update::AddGroup(group) if group.id == all => Some(group),
        _ => None,
    });
    let buckets = group.unwrap().buckets;
    let to = |bucket: &vswitch_flow::spec::BucketSpec| bucket.actions.last().cloned();
    let next = vswitch_flow::Action::Resubmit { port: None, table: Some(crate::Table::DsrServiceMark.number()), ct: false };
    assert!(buckets.iter().all(|bucket| to(bucket) == Some(next.clone())), "{buckets:?}");
}

#[test]
fn nested_services_lead_to_the_groups_of_others_whoever_comes_first() {
    let outer = v1::Service { nested: true, affinity_timeout_seconds: 10, ..cluster_ip("outer", "10.96.2.1") };
    let set = Object::Endpoints(endpoints("outer", &["10.96.2.2", "10.97.0.1"]));
    let inner = Object::Service(cluster_ip("inner", "10.96.2.2"));
    let mut written = node_state(&document_node(), vec![Object::Service(outer), set]);
    assert!(with(&written, "EndpointDNAT", &["priority=210"]).is_empty(), "the inner one is not there");
    crate::testing::apply(&mut written, vec![inner, web("inner")]);
    let (outer, inner) = (id(&written, "outer", false), id(&written, "inner", false));
    assert_has(
        &written,
        &format!("table=EndpointDNAT, priority=210,tcp,reg3=0xa600202,reg4=0x1000050/0x100ffff actions=set_field:0->reg3,group:{inner}"),
    );
    assert_has(
        &written,
        &format!(
            "table=ServiceLB, priority=200,tcp,reg4=0x10000/0x70000,nw_dst=10.96.2.1,tp_dst=80 actions=set_field:0x200/0x200->reg0,\
             set_field:0x30000/0x70000->reg4,set_field:0x1000000/0x1000000->reg4,set_field:{outer:#x}->reg7,group:{outer}"
        ),
    );
    assert_eq!(with(&written, "ServiceLB", &["learn(", "load:0x1->NXM_NX_REG4[24]"]).len(), 1);
    let write = crate::Write {
        remove: vec![crate::Key::new(crate::ObjectKind::Service, "default/inner")],
        ..crate::Write::default()
    };
    let plan = written.plan(write);
    assert!(plan.result.applied);
    written.settle(plan);
    assert!(with(&written, "EndpointDNAT", &["priority=210"]).is_empty(), "it went with the inner one");
}

#[test]
fn other_nodes_own_addresses_are_behind_no_tunnel() {
    let peer = v1::PeerNode {
        name: "worker-1".to_owned(),
        pod_cidrs: vec!["10.10.1.0/24".to_owned()],
        transport_addresses: vec!["192.168.77.101".to_owned()],
        ..v1::PeerNode::default()
    };
    let outside = v1::Endpoint { node: String::new(), ..endpoint("172.16.0.1") };
    let mut set = endpoints("hosts", &["192.168.77.101", "10.10.1.6"]);
    set.endpoints.push(outside);
    let service = Object::Service(cluster_ip("hosts", "10.96.2.3"));
    let mut written = node_state(&document_node(), vec![service, Object::Endpoints(set)]);
    let remote = |node_state: &NodeState| {
        let groups = node_state.store().everything().into_iter().filter_map(|update| match update {
            Update::AddGroup(group) => Some(group),
            _ => None,
        });
        let buckets: Vec<usize> = groups.flat_map(|group| group.buckets).map(|bucket| bucket.actions.len()).collect();
        assert_eq!(buckets.len(), 3);
        buckets.into_iter().filter(|actions| *actions == 4).count()
    };
    assert_eq!(remote(&written), 2, "nobody said that it is a Node's address");
    crate::testing::apply(&mut written, vec![Object::PeerNode(peer)]);
    assert_eq!(remote(&written), 1);
}

#[test]
fn affinity_lasts_a_day() {
    let long = v1::Service { affinity_timeout_seconds: 86_400, ..cluster_ip("long", "10.96.2.4") };
    let node_state = node_state(&document_node(), vec![Object::Service(long), web("long")]);
    assert_eq!(with(&node_state, "ServiceLB", &["hard_timeout=86400"]).len(), 1);
    assert!(node_state.degraded().is_empty());
}

/// Whatever came before: another selection, other endpoints, another Node.
#[test]
fn maglev_groups_are_the_same_everywhere() {
    let mut service = cluster_ip("even", "10.96.2.6");
    let before = vec![Object::Service(service.clone()), Object::Endpoints(endpoints("even", &["10.10.1.9", "10.10.0.24"]))];
    let mut long = node_state(&document_node(), before);
    service.set_selection(v1::Selection::Maglev);
    let addresses = ["10.10.0.24", "10.10.1.7", "10.10.1.8"];
    let now = vec![Object::Service(service), Object::Endpoints(endpoints("even", &addresses))];
    crate::testing::apply(&mut long, now.clone());
    let short = node_state(&v1::NodeConfig { name: "elsewhere".to_owned(), ..document_node() }, now);
    let ids = |node_state: &NodeState| {
        let mut groups = node_state.store().everything().into_iter().filter_map(|update| match update {
            Update::AddGroup(group) => Some(group),
            _ => None,
        });
        let group = groups.find(|group| matches!(group.selection, Selection::Maglev { param: 0 }));
        group.map(|group| group.buckets.iter().map(|bucket| bucket.id).collect::<Vec<u32>>())
    };
    assert_eq!(ids(&long).map(|ids| ids.len()), Some(3));
    assert_eq!(ids(&long), ids(&short));
    assert!(long.degraded().is_empty() && short.degraded().is_empty());
}

#[test]
fn endpoints_that_are_not_there_are_pending_and_refused_meanwhile() {
    let mut written = node_state(&document_node(), vec![Object::Service(cluster_ip("late", "10.96.2.5"))]);
    let key = crate::Key::new(crate::ObjectKind::Service, "default/late");
    assert_eq!(written.degraded()[&key].all()[0].code, crate::Code::Pending);
    let before = id(&written, "late", false);
    crate::testing::apply(&mut written, vec![web("late")]);
    assert!(written.degraded().is_empty());
    assert_eq!(id(&written, "late", false), before);
}

#[test]
fn shared_flows_stay_as_long_as_one_service_has_the_endpoint() {
    let mut written = node_state(&document_node(), documents());
    let remove = |node_state: &mut NodeState, name: &str| {
        let remove = vec![crate::Key::new(crate::ObjectKind::Service, &format!("default/{name}"))];
        let plan = node_state.plan(crate::Write { remove, ..crate::Write::default() });
        assert!(plan.result.applied);
        node_state.settle(plan);
    };
    for name in
        ["sample-clusterip", "sample-nodeport", "sample-loadbalancer", "sample-service-externalip", "sample-service-etp-local"]
    {
        remove(&mut written, name);
        assert_eq!(with(&written, "EndpointDNAT", &["nat("]).len(), 2, "{name}");
        assert_eq!(with(&written, "SNATMark", &["10.10.0.24"]).len(), 1, "{name}");
    }
    remove(&mut written, "sample-service-session-affinity");
    remove(&mut written, "sample-clusterip-no-ep");
    assert!(written.desired().is_empty(), "Endpoints go with their Services");
    let empty = node_state(&document_node(), Vec::new());
    assert_eq!(crate::testing::dump(&written), crate::testing::dump(&empty));
    assert!(written.ids().group_keys_of("default/sample-clusterip").is_empty());
}
