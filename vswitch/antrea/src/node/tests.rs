//! What the Node writes, and with it the Pods, peers, Egresses and `TrafficControl`s of the
//! document.

mod modes;
mod overlaps;
mod read;

use crate::testing::{assert_has, cluster, document, document_node, dual_node, dump, dump_of, node_state, normal};
use crate::{NodeState, Table};
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1::PacketCategory as Category;
use vswitch_proto::antrea::v1::object::Object;

/// Lines of the document that others write, or that differ (by a part of each), and ours in their
/// place.
type Difference = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Services' and policies' lines, and the differences that docs/antrea.md lists, by their number
/// there.
const DIFFERENCES: [Difference; 26] = [
    // 16: what the engine reads comes back with source 7 and its state.
    (
        "Classifier",
        &["antrea-l7-tap1"],
        &[
            r#"table=Classifier, priority=200,in_port="antrea-l7-tap1",vlan_tci=0x1000/0x1000 actions=pop_vlan,set_field:0x7/0xf->reg0,goto_table:UnSNAT"#,
        ],
    ),
    (
        "ConntrackZone",
        &[],
        &[
            "table=ConntrackZone, priority=203,ip,reg0=0/0x800000 actions=set_field:0x800000/0x800000->reg0,ct(table=ConntrackZone,zone=65520)",
            "table=ConntrackZone, priority=202,ct_state=+rpl+trk,ct_mark=0x10/0x10,ip,reg0=0x7/0xf actions=set_field:0x200/0x200->reg0,ct(table=L3Forwarding,zone=65520,nat)",
            "table=ConntrackZone, priority=202,ct_state=+rpl+trk,ct_mark=0/0x10,ip,reg0=0x7/0xf actions=goto_table:L3Forwarding",
            "table=ConntrackZone, priority=202,ct_state=-rpl+trk,ip,reg0=0x7/0xf actions=goto_table:L3Forwarding",
            "table=ConntrackZone, priority=201,ct_state=+rpl+trk,ct_mark=0x80/0xc0,ip actions=goto_table:ConntrackState",
        ],
    ),
    (
        "L3Forwarding",
        &[],
        &["table=L3Forwarding, priority=191,ct_state=-rpl+trk,ip,reg0=0x7/0xf actions=goto_table:EgressMark"],
    ),
    ("L3DecTTL", &[], &["table=L3DecTTL, priority=210,ip,reg0=0x7/0xf actions=goto_table:SNATMark"]),
    // 1: the return port is tap1.
    (
        "Classifier",
        &["antrea-tc-tap2"],
        &[
            r#"table=Classifier, priority=200,in_port="antrea-tc-tap1" actions=set_field:0x6/0xf->reg0,goto_table:L3Forwarding"#,
        ],
    ),
    // 15: what Pods tag.
    (
        "Classifier",
        &[],
        &[
            r#"table=Classifier, priority=195,in_port="client-6-3353ef",vlan_tci=0x1000/0x1000 actions=drop"#,
            r#"table=Classifier, priority=195,in_port="web-7975-274540",vlan_tci=0x1000/0x1000 actions=drop"#,
            r#"table=Classifier, priority=195,in_port="db-755c6-5080e3",vlan_tci=0x1000/0x1000 actions=drop"#,
        ],
    ),
    (
        "ARPSpoofGuard",
        &[],
        &[
            r#"table=ARPSpoofGuard, priority=205,arp,in_port="client-6-3353ef",vlan_tci=0x1000/0x1000 actions=drop"#,
            r#"table=ARPSpoofGuard, priority=205,arp,in_port="web-7975-274540",vlan_tci=0x1000/0x1000 actions=drop"#,
            r#"table=ARPSpoofGuard, priority=205,arp,in_port="db-755c6-5080e3",vlan_tci=0x1000/0x1000 actions=drop"#,
        ],
    ),
    // 6: repeated first packets.
    (
        "ConntrackState",
        &[],
        &[
            "table=ConntrackState, priority=190,ct_state=+new+trk,ct_mark=0x10/0x10,ip actions=set_field:0x200/0x200->reg0,set_field:0x40000/0x70000->reg4,resubmit(,NodePortMark,ct),resubmit(,ServiceLB,ct),set_field:0x20000/0x70000->reg4,goto_table:AntreaPolicyEgressRule",
        ],
    ),
    ("NodePortMark", &[], &["table=NodePortMark, priority=100,reg4=0x40000/0x70000 actions=drop"]),
    // 4: with traffic.
    ("SessionAffinity", &["hard_timeout=300"], &[]),
    (
        "ServiceLB",
        &["group:9", "group:10", "group:11", "group:12", "group:14", "group:16", "group:17", "group:18", "learn("],
        &["table=ServiceLB, priority=100,reg4=0x40000/0x70000 actions=drop"],
    ),
    // 7, 11: a meter, a controller of their own, an answer.
    (
        "EndpointDNAT",
        &["userdata=04", "10.10.0.24:80", "10.10.1.6:80"],
        &[
            "table=EndpointDNAT, priority=200,reg0=0x4000/0x4000 actions=meter:259,controller(reason=no_match,id=62377,userdata=04),reject(icmp=3,icmp6=4,IN_PORT)",
            "table=EndpointDNAT, priority=201,reg0=0x4001/0x400f actions=meter:259,controller(reason=no_match,id=62377,userdata=04),reject(icmp=3,icmp6=4,move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],move:NXM_NX_TUN_IPV6_SRC[]->NXM_NX_TUN_IPV6_DST[],IN_PORT)",
        ],
    ),
    ("AntreaPolicyEgressRule", &["priority=14500", "priority=14499"], &[]),
    ("EgressRule", &["conj"], &[]),
    ("EgressDefaultRule", &["nw_src=10.10.0.24"], &[]),
    ("EgressMetric", &["priority=200"], &[]),
    // 5: every packet is marked; 8: the source MAC tells the host.
    (
        "EgressMark",
        &["set_field:0x1/0xff->pkt_mark"],
        &[
            "table=EgressMark, priority=200,ct_state=+trk,ip,tun_dst=192.168.77.112 actions=set_field:0x1/0xff->pkt_mark,set_field:0x20/0xf0->reg0,set_field:0e:00:00:00:01:01->eth_src,goto_table:L2ForwardingCalc",
            r#"table=EgressMark, priority=200,ct_state=+trk,ip,in_port="web-7975-274540" actions=set_field:0x1/0xff->pkt_mark,set_field:0x20/0xf0->reg0,set_field:0e:00:00:00:01:01->eth_src,goto_table:L2ForwardingCalc"#,
            // 16
            "table=EgressMark, priority=201,ct_state=+trk,ip,reg0=0x7/0xf,nw_src=10.10.0.24 actions=set_field:0x1/0xff->pkt_mark,set_field:0x20/0xf0->reg0,set_field:0e:00:00:00:01:01->eth_src,goto_table:L2ForwardingCalc",
            "table=EgressMark, priority=201,ip,reg0=0x7/0xf,nw_src=10.10.0.26 actions=set_field:ba:5e:d1:55:aa:c0->eth_src,set_field:aa:bb:cc:dd:ee:ff->eth_dst,set_field:192.168.77.113->tun_dst,set_field:0x10/0xf0->reg0,set_field:0x80000/0x80000->reg0,goto_table:L2ForwardingCalc",
        ],
    ),
    ("SNATMark", &["nw_src=10.10.0.23", "nw_src=10.10.0.24"], &[]),
    // 5: connSNAT in the SNAT zone, too.
    (
        "SNAT",
        &["nat(src="],
        &[
            "table=SNAT, priority=200,ct_state=+new+trk,ct_mark=0x40/0x40,ip,reg0=0x2/0xf actions=ct(commit,table=L2ForwardingCalc,zone=65521,nat(src=169.254.0.253),exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark))",
            "table=SNAT, priority=200,ct_state=+new+trk,ct_mark=0x40/0x40,ip,reg0=0x3/0xf actions=ct(commit,table=L2ForwardingCalc,zone=65521,nat(src=10.10.0.1),exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark))",
            "table=SNAT, priority=190,ct_state=+new+trk,ct_mark=0x20/0x20,ip,reg0=0x2/0xf actions=ct(commit,table=L2ForwardingCalc,zone=65521,nat(src=10.10.0.1),exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark))",
        ],
    ),
    // 9: a redirect goes before a mirror.
    (
        "TrafficControl",
        &["set_field:0x22->reg9"],
        &[
            "table=TrafficControl, priority=201,reg1=0x25 actions=set_field:0x22->reg9,set_field:0x800000/0xc00000->reg4,goto_table:IngressSecurityClassifier",
            // 16
            "table=TrafficControl, priority=210,reg0=0x200007/0x60000f actions=goto_table:Output",
            r#"table=TrafficControl, priority=201,in_port="web-7975-274540" actions=set_field:0x22->reg9,set_field:0x800000/0xc00000->reg4,goto_table:IngressSecurityClassifier"#,
        ],
    ),
    // 8: no marks of sockets on internal ports.
    (
        "IngressSecurityClassifier",
        &["pkt_mark=", "reg0=0x20/0xf0"],
        &[
            // 12: and the MAC address says so, too.
            "table=IngressSecurityClassifier, priority=200,reg0=0x20/0xf0,reg1=0x2 actions=goto_table:IngressMetric",
            "table=IngressSecurityClassifier, priority=210,ct_state=-rpl+trk,ip,reg0=0x2/0xf,reg4=0x10000000/0x10000000 actions=goto_table:ConntrackCommit",
        ],
    ),
    ("AntreaPolicyIngressRule", &["conj"], &[]),
    ("IngressRule", &["conj"], &[]),
    ("IngressDefaultRule", &["reg1=0x25"], &[]),
    ("IngressMetric", &["priority=200"], &[]),
    // 5: hairpins leave by a port, all operations. 7: answers.
    (
        "Output",
        &["IN_PORT", "userdata=01.02"],
        &[
            "table=Output, priority=210,ct_mark=0x40/0x40,reg0=0x200000/0x600000 actions=IN_PORT",
            // 16
            "table=Output, priority=213,ct_mark=0xc0/0xc0,reg0=0x200000/0x600000 actions=IN_PORT",
            "table=Output, priority=214,reg0=0x200007/0x60000f actions=output:NXM_NX_REG1[]",
            "table=Output, priority=200,reg0=0x4400000/0xfe600000 actions=meter:256,controller(reason=no_match,id=62373,userdata=01.02),reject(IN_PORT)",
            "table=Output, priority=201,reg0=0x4400001/0xfe60000f actions=meter:256,controller(reason=no_match,id=62373,userdata=01.02),reject(move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],move:NXM_NX_TUN_IPV6_SRC[]->NXM_NX_TUN_IPV6_DST[],IN_PORT)",
            "table=Output, priority=200,reg0=0x6400000/0xfe600000 actions=meter:256,controller(reason=no_match,id=62373,userdata=01.03),reject(IN_PORT)",
            "table=Output, priority=201,reg0=0x6400001/0xfe60000f actions=meter:256,controller(reason=no_match,id=62373,userdata=01.03),reject(move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],move:NXM_NX_TUN_IPV6_SRC[]->NXM_NX_TUN_IPV6_DST[],IN_PORT)",
            "table=Output, priority=200,reg0=0x8400000/0xfe600000 actions=meter:256,controller(reason=no_match,id=62373,userdata=01.04)",
            "table=Output, priority=200,reg0=0xa400000/0xfe600000 actions=meter:256,controller(reason=no_match,id=62373,userdata=01.05)",
            "table=Output, priority=200,reg0=0xc400000/0xfe600000 actions=meter:256,controller(reason=no_match,id=62373,userdata=01.06),reject(IN_PORT)",
            "table=Output, priority=201,reg0=0xc400001/0xfe60000f actions=meter:256,controller(reason=no_match,id=62373,userdata=01.06),reject(move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],move:NXM_NX_TUN_IPV6_SRC[]->NXM_NX_TUN_IPV6_DST[],IN_PORT)",
            "table=Output, priority=200,reg0=0xe400000/0xfe600000 actions=meter:256,controller(reason=no_match,id=62373,userdata=01.07),reject(IN_PORT)",
            "table=Output, priority=201,reg0=0xe400001/0xfe60000f actions=meter:256,controller(reason=no_match,id=62373,userdata=01.07),reject(move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],move:NXM_NX_TUN_IPV6_SRC[]->NXM_NX_TUN_IPV6_DST[],IN_PORT)",
        ],
    ),
];

/// The document's lines of a table with its differences, each of which must be one.
fn expected(node_state: &NodeState, table: &str) -> BTreeSet<String> {
    let mut lines = document(node_state, table);
    let facts = node_state.facts().unwrap();
    for (_, without, with) in DIFFERENCES.iter().filter(|(of, _, _)| *of == table) {
        for part in *without {
            let before = lines.len();
            lines.retain(|line| !line.contains(part));
            assert!(lines.len() < before, "{table}: the document has no {part}");
        }
        for line in *with {
            assert!(lines.insert(normal(&facts, line)), "the document has this itself: {line}");
        }
    }
    lines
}

#[test]
fn the_documents_cluster_writes_the_documents_lines() {
    let node_state = node_state(&document_node(), cluster());
    let facts = node_state.facts().unwrap();
    for table in Table::ALL.iter().filter(|table| table.exists(facts.features())).map(|table| table.name()) {
        let (have, want) = (dump_of(&node_state, &[table]), expected(&node_state, table));
        let more: Vec<&String> = have.difference(&want).collect();
        let less: Vec<&String> = want.difference(&have).collect();
        assert!(more.is_empty() && less.is_empty(), "{table}: there is\n{more:#?}\nand there is no\n{less:#?}");
    }
}

#[test]
fn a_node_without_objects_has_no_flow_that_a_node_with_some_has_not() {
    let (empty, full) =
        (dump(&node_state(&document_node(), Vec::new())), dump(&node_state(&document_node(), cluster())));
    for (table, lines) in &empty {
        assert!(lines.is_subset(&full[table]), "{table}");
    }
    assert!(!empty["L2ForwardingCalc"].iter().any(|line| line.contains("reg1=0x25")));
}

#[test]
fn meters_have_the_rates_that_are_asked_for() {
    let mut node = document_node();
    let limit = |category: Category, rate_pps| {
        let mut limit = vswitch_proto::antrea::v1::PacketLimit { rate_pps, ..Default::default() };
        limit.set_category(category);
        limit
    };
    node.packet_limits =
        vec![limit(Category::PolicyLog, 700), limit(Category::PolicyReject, 900), limit(Category::Dns, 5)];
    let node_state = node_state(&node, Vec::new());
    let facts = node_state.facts().unwrap();
    let mut part = crate::CompiledObject::new(&crate::Key::node(), node_state.ids());
    super::compile::compile(&facts, &mut part);
    let rates: Vec<String> = part.meters().iter().map(|meter| format!("{} {:?}", meter.id, meter.bands)).collect();
    let wanted = [(256, 700), (257, 5000), (258, 5), (259, 5000)];
    for ((id, rate), told) in wanted.iter().zip(&rates) {
        assert!(told.starts_with(&format!("{id} ")) && told.contains(&format!("rate: {rate}")), "{told}");
    }
    assert_eq!(rates.len(), 4);
}

#[test]
fn ipv6_has_twins() {
    let node = dual_node();
    let node_state = node_state(&node, Vec::new());
    for line in [
        "table=PipelineRootClassifier, priority=200,ipv6 actions=goto_table:Classifier",
        "table=SpoofGuard, priority=200,ipv6,in_port=2 actions=goto_table:IPv6",
        "table=IPv6, priority=200,icmp6,icmp_type=135,icmp_code=0 actions=NORMAL",
        "table=IPv6, priority=200,icmp6,icmp_type=136,icmp_code=0 actions=NORMAL",
        "table=IPv6, priority=211,icmp6,ipv6_src=::,icmp_type=135,icmp_code=0 actions=NORMAL",
        "table=IPv6, priority=200,icmp6,reg0=0x3/0xf,ipv6_dst=ff00::/8,icmp_type=143 actions=NORMAL",
        "table=IPv6, priority=190,ipv6,reg0=0x3/0xf,ipv6_src=fe80::/10 actions=drop",
        "table=IPv6, priority=0 actions=goto_table:UnSNAT",
        "table=Classifier, priority=210,ipv6,in_port=2,ipv6_src=fd00:10:10::1 actions=set_field:0x2/0xf->reg0,set_field:0x10000000/0x10000000->reg4,goto_table:SpoofGuard",
        "table=UnSNAT, priority=200,ipv6,ipv6_dst=fc01::aabb:ccdd:eeff actions=ct(table=ConntrackZone,zone=65511,nat)",
        "table=ConntrackZone, priority=200,ipv6 actions=ct(table=ConntrackState,zone=65510,nat)",
        "table=ConntrackState, priority=190,ct_state=+new+trk,ct_mark=0x10/0x10,ipv6 actions=set_field:0x200/0x200->reg0,set_field:0x40000/0x70000->reg4,resubmit(,NodePortMark,ct),resubmit(,ServiceLB,ct),set_field:0x20000/0x70000->reg4,goto_table:AntreaPolicyEgressRule",
        "table=NodePortMark, priority=200,ipv6,ipv6_dst=fc01::aabb:ccdd:eefe actions=set_field:0x80000/0x80000->reg4",
        "table=L3Forwarding, priority=200,ipv6,reg0=0/0x200,ipv6_dst=fd00:10:10::/64 actions=goto_table:L2ForwardingCalc",
        "table=EgressMark, priority=210,ipv6,ipv6_dst=fd00:10:96::/64 actions=set_field:0x20/0xf0->reg0,goto_table:L2ForwardingCalc",
        "table=SNAT, priority=190,ct_state=+new+trk,ct_mark=0x20/0x20,ipv6,reg0=0x2/0xf actions=ct(commit,table=L2ForwardingCalc,zone=65511,nat(src=[fd00:10:10::1]),exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark))",
        "table=ConntrackCommit, priority=200,ct_state=+new+trk-snat,ct_mark=0/0x10,ipv6 actions=ct(commit,table=Output,zone=65510,exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
    ] {
        assert_has(&node_state, line);
    }
}

/// Addresses of the document, and those that the dual cluster has beside them.
const TWINS: [(&str, &str); 16] = [
    ("10.10.0.0/24", "fd00:10:10::/64"),
    ("10.10.1.0/24", "fd00:10:10:1::/64"),
    ("10.96.0.0/12", "fd00:10:96::/64"),
    ("192.168.77.102", "fd00:192:168:77::102"),
    ("192.168.77.103", "fd00:192:168:77::103"),
    ("192.168.77.112", "fd00:192:168:77::112"),
    ("192.168.77.113", "fd00:192:168:77::113"),
    ("169.254.0.252", "fc01::aabb:ccdd:eefe"),
    ("169.254.0.253", "fc01::aabb:ccdd:eeff"),
    ("10.10.0.24", "fd00:10:10::18"),
    ("10.10.0.25", "fd00:10:10::19"),
    ("10.10.0.26", "fd00:10:10::1a"),
    ("10.10.0.1", "fd00:10:10::1"),
    ("10.10.1.1", "fd00:10:10:1::1"),
    ("65520", "65510"),
    ("65521", "65511"),
];

/// The line about IPv6 that a line about IPv4 has beside it.
fn twin(line: &str) -> Option<String> {
    let (head, actions) = line.split_once(" actions=")?;
    let ip = head.split(',').any(|part| part.trim() == "ip");
    if !ip {
        return None;
    }
    let parts: Vec<String> = head
        .split(',')
        .map(|part| match part {
            "ip" => "ipv6".to_owned(),
            part => part
                .replace("nw_src=", "ipv6_src=")
                .replace("nw_dst=", "ipv6_dst=")
                .replace("tun_dst=", "tun_ipv6_dst="),
        })
        .collect();
    let actions = actions.replace("->tun_dst", "->tun_ipv6_dst");
    let line = format!("{} actions={actions}", parts.join(","));
    Some(TWINS.iter().fold(line, |line, (four, six)| line.replace(four, six)))
}

/// The document's cluster with both families. Marks of Egresses are in order of their names.
fn dual_cluster() -> Vec<Object> {
    let six =
        |four: &str| TWINS.iter().find(|(twin, _)| *twin == four).unwrap_or_else(|| panic!("{four}")).1.to_owned();
    let twins = cluster().into_iter().flat_map(|object| match object {
        Object::Pod(mut pod) => {
            pod.addresses.push(six(&pod.addresses[0]));
            vec![Object::Pod(pod)]
        }
        Object::PeerNode(mut peer) => {
            peer.pod_cidrs.push(six(&peer.pod_cidrs[0]));
            peer.transport_addresses.push(six(&peer.transport_addresses[0]));
            vec![Object::PeerNode(peer)]
        }
        Object::Egress(egress) => {
            let mut twin = egress.clone();
            twin.name.push_str("-six");
            twin.address = six(&egress.address);
            vec![Object::Egress(egress), Object::Egress(twin)]
        }
        other => vec![other],
    });
    twins.collect()
}

#[test]
fn ipv6_has_a_twin_of_every_line_about_ipv4() {
    let node_state = node_state(&dual_node(), dual_cluster());
    let facts = node_state.facts().unwrap();
    let all = dump(&node_state);
    let mut twins = 0;
    for (table, lines) in all.iter().filter(|(table, _)| *table != "SpoofGuard") {
        for line in lines {
            let Some(twin) = twin(line) else { continue };
            // The IPv6 Egress has the next mark.
            let twin = twin
                .replace("0x1/0xff->pkt_mark", "0x2/0xff->pkt_mark")
                .replace("00:01:01->eth_src", "00:01:02->eth_src");
            let twin = normal(
                &facts,
                &format!("table={table},{}", twin.split_once(", ").map_or(twin.as_str(), |(_, rest)| rest)),
            );
            assert!(lines.contains(&twin), "{line} has no twin:\n{twin}\n{lines:#?}");
            twins += 1;
        }
        // And nothing else: but for neighbour discovery and groups.
        let of = |ip: &str| {
            lines.iter().filter(|line| line.contains(&format!(",{ip},")) || line.contains(&format!(",{ip} "))).count()
        };
        assert!(table == "IPv6" || of("ip") == of("ipv6"), "{table}");
    }
    assert!(twins > 40, "{twins}");
}
