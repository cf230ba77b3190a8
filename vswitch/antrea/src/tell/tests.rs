//! What is told of packets and connections.

use super::*;
use crate::NodeState;
use crate::testing::{apply, cluster, document_node, egress, ip, node_state};
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1::{self, object::Object};

/// A TCP segment from a port of one address to a port of another.
fn frame(source: &str, destination: &str, ports: (u16, u16)) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let segment = [&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &[0; 8], &[0x50, 2], &[0; 6]].concat();
    match (ip(source), ip(destination)) {
        (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
            frame.extend([from.octets(), to.octets()].concat());
        }
        (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
            frame.extend([from.octets(), to.octets()].concat());
        }
        other => panic!("{other:?}"),
    }
    frame.extend(segment);
    // What Ethernet adds to short frames is no part of the datagram.
    frame.resize(frame.len().max(60), 0);
    frame
}

fn registers(values: &[(Field, u128)]) -> FlowKey {
    let mut key = FlowKey::default();
    values.iter().for_each(|(field, value)| key.set(*field, *value));
    key
}

fn told(disposition: Disposition, operations: u32, table: crate::Table) -> Vec<(Field, u128)> {
    let flags = (disposition as u32) << 11 | operations << 25 | 3;
    vec![(Field::Reg0, flags.into()), (Field::Reg2, u128::from(table.number()) | 0xabcd_0000)]
}

fn rule(id: &str, direction: v1::Direction, action: v1::RuleAction) -> v1::Rule {
    v1::Rule {
        id: id.to_owned(),
        name: format!("name of {id}"),
        direction: direction.into(),
        action: action.into(),
        logging: true,
        log_label: "label".to_owned(),
        ..v1::Rule::default()
    }
}

/// A K8s policy that isolates web both ways.
fn isolating(name: &str, logged: bool) -> Object {
    Object::NetworkPolicy(v1::NetworkPolicy {
        name: name.to_owned(),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: vec!["web".to_owned()],
        isolates_ingress: true,
        isolates_egress: true,
        log_isolation: logged,
        ..v1::NetworkPolicy::default()
    })
}

/// The document's cluster with a Service, and policies for web.
fn world(node: &v1::NodeConfig) -> NodeState {
    let mut objects = cluster();
    let group = v1::AppliedToGroup { name: "web".to_owned(), pods: vec!["default/web".to_owned()], services: vec![] };
    objects.push(Object::AppliedToGroup(group));
    objects.push(Object::NetworkPolicy(v1::NetworkPolicy {
        name: "acnp:all".to_owned(),
        kind: v1::PolicyKind::AntreaCluster.into(),
        tier: 250,
        priority: 5.0,
        applied_to: vec!["web".to_owned()],
        rules: vec![
            rule("in", v1::Direction::Ingress, v1::RuleAction::Allow),
            rule("out", v1::Direction::Egress, v1::RuleAction::Drop),
        ],
        ..v1::NetworkPolicy::default()
    }));
    objects.extend([
        isolating("np:default/b", true),
        isolating("np:default/a", false),
        isolating("np:default/c", true),
    ]);
    objects.push(Object::Service(v1::Service {
        name: "default/dns".to_owned(),
        ports: vec![v1::ServicePort {
            name: "tcp".to_owned(),
            protocol: v1::Protocol::Tcp.into(),
            port: 53,
            node_port: 30053,
        }],
        cluster_ips: vec!["10.96.0.10".to_owned()],
        ..v1::Service::default()
    }));
    node_state(node, objects)
}

fn naming(node_state: &NodeState) -> Naming<'_> {
    Naming::new(node_state.facts().expect("a Node"))
}

fn number(node_state: &NodeState, rule: &str) -> u32 {
    node_state.ids().rule_by_name("acnp:all", rule).expect("a number")
}

fn log(node_state: &NodeState, metadata: &FlowKey, frame: &[u8]) -> v1::PolicyLog {
    naming(node_state).log(&Decision::of(metadata), &Packet::read(frame).expect("IP"), 7)
}

#[test]
fn a_log_has_all_that_the_rule_was_written_with() {
    let node_state = world(&document_node());
    let (to_web, from_web) = (frame("10.10.0.26", "10.10.0.24", (1000, 80)), frame("10.10.0.24", "10.10.0.25", (1, 2)));
    let (allow, drop) = (number(&node_state, "in"), number(&node_state, "out"));
    let priority = |rule: &str| {
        let key = crate::RuleKey { policy: "acnp:all".into(), rule: rule.into() };
        u32::from(node_state.ids().priorities.get(&key).expect("a priority"))
    };
    let mut metadata = told(Disposition::Allow, 1, crate::Table::AntreaPolicyIngressRule);
    // What an egress rule of another Pod left there is not its number.
    metadata.extend([(Field::Reg6, allow.into()), (Field::Reg5, 99), (Field::Reg3, 98)]);
    let want = v1::PolicyLog {
        rule: Some(v1::RuleRef { policy: "acnp:all".to_owned(), rule: "in".to_owned(), number: allow }),
        rule_name: "name of in".to_owned(),
        table: "AntreaPolicyIngressRule".to_owned(),
        direction: "Ingress".to_owned(),
        disposition: "Allow".to_owned(),
        priority: priority("in"),
        applied_to: "default/web".to_owned(),
        tuple: Some(vswitch_proto::v1::ConnectionTuple {
            src: vec![10, 10, 0, 26],
            dst: vec![10, 10, 0, 24],
            protocol: 6,
            src_port: 1000,
            dst_port: 80,
            icmp: None,
        }),
        packet_len: 40,
        log_label: "label".to_owned(),
        packets: 1,
        unix_ms: 7,
    };
    assert_eq!(log(&node_state, &registers(&metadata), &to_web), want);

    let mut metadata = told(Disposition::Drop, 5, crate::Table::AntreaPolicyEgressRule);
    metadata[0].1 |= 0x400;
    metadata.extend([(Field::Reg3, drop.into()), (Field::Reg5, 99)]);
    let decision = Decision::of(&registers(&metadata));
    assert!(decision.is_logged() && decision.is_recorded());
    let told = log(&node_state, &registers(&metadata), &from_web);
    let rule = told.rule.expect("a rule");
    assert_eq!((rule.rule.as_str(), rule.number, told.priority), ("out", drop, priority("out")));
    assert_eq!((told.direction.as_str(), told.disposition.as_str()), ("Egress", "Drop"));
    assert_eq!(told.applied_to, "default/web");
}

#[test]
fn numbers_that_nobody_has_are_told_as_numbers() {
    let node_state = world(&document_node());
    let strange = frame("1.2.3.4", "4.3.2.1", (1, 2));
    let mut metadata = told(Disposition::Reject, 3, crate::Table::IngressRule);
    metadata[0].1 |= 0x400;
    metadata.push((Field::Reg3, 4_000_000_000));
    let told = log(&node_state, &registers(&metadata), &strange);
    assert_eq!(told.rule, Some(v1::RuleRef { number: 4_000_000_000, ..v1::RuleRef::default() }));
    assert_eq!((told.rule_name.as_str(), told.applied_to.as_str(), told.priority), ("", "", 0));
    assert_eq!(told.disposition, "Reject");
    // A table that Antrea does not have, and one that decides nothing.
    for (table, name) in [(3_u128, "3"), (0, "PipelineRootClassifier"), (255, "255")] {
        let told = log(&node_state, &registers(&[(Field::Reg2, table)]), &strange);
        assert_eq!((told.table.as_str(), told.direction.as_str()), (name, ""));
        assert_eq!(told.rule, Some(v1::RuleRef::default()));
    }
}

#[test]
fn isolation_is_told_by_the_lowest_name() {
    let node_state = world(&document_node());
    let mut metadata = told(Disposition::Drop, 1, crate::Table::IngressDefaultRule);
    // An endpoint's address, not a rule.
    metadata.push((Field::Reg3, 0x0a0a_0018));
    let metadata = registers(&metadata);
    let to_web = frame("10.10.0.26", "10.10.0.24", (1000, 80));
    let logged = log(&node_state, &metadata, &to_web);
    let policy = |rule: Option<v1::RuleRef>| rule.map(|rule| (rule.policy, rule.rule, rule.number)).expect("a rule");
    assert_eq!(policy(logged.rule), ("np:default/b".to_owned(), String::new(), 0), "a is not logged");
    assert_eq!((logged.rule_name.as_str(), logged.priority), ("", 0));
    let packet = Packet::read(&to_web).expect("IP");
    let record = naming(&node_state).denied(&Decision::of(&metadata), &packet, &metadata, 60);
    let verdict = record.ingress_verdict.expect("a verdict");
    assert_eq!((policy(verdict.rule).0.as_str(), verdict.action.as_str()), ("np:default/a", "Drop"));
    // Nobody isolates db.
    let other = log(&node_state, &metadata, &frame("10.10.0.26", "10.10.0.25", (1000, 80)));
    assert_eq!(policy(other.rule), (String::new(), String::new(), 0));
}

#[test]
fn a_denied_record_has_both_addresses_of_its_destination() {
    let node_state = world(&document_node());
    let drop = number(&node_state, "out");
    let mut metadata = told(Disposition::Drop, 4, crate::Table::AntreaPolicyEgressRule);
    metadata[0].1 |= 0x400;
    metadata.extend([
        (Field::Reg3, drop.into()),
        (Field::CtZone, 65520),
        (Field::CtMark, 0x13),
        (Field::CtNwProto, 6),
        (Field::CtNwSrc, 0x0a0a_0018),
        (Field::CtNwDst, 0x0a60_000a),
        (Field::CtTpSrc, 1000),
        (Field::CtTpDst, 53),
    ]);
    let translated = frame("10.10.0.24", "10.10.0.25", (1000, 5353));
    let metadata = registers(&metadata);
    let packet = Packet::read(&translated).expect("IP");
    let record = naming(&node_state).denied(&Decision::of(&metadata), &packet, &metadata, 60);
    let original = record.original.clone().expect("a tuple");
    assert_eq!((original.dst.as_slice(), original.dst_port), ([10, 96, 0, 10].as_slice(), 53));
    assert_eq!(record.kind(), v1::FlowRecordKind::Denied);
    assert_eq!((record.service.as_str(), record.source_pod.as_str()), ("default/dns:tcp", "default/web"));
    assert_eq!((record.destination_pod.as_str(), record.zone, record.mark), ("default/db", 65520, 0x13));
    assert_eq!(record.source(), v1::FlowSource::Pod);
    assert_eq!(record.original_count.map(|count| (count.packets, count.bytes)), Some((1, 60)));
    assert_eq!((record.reply.as_ref(), record.connection_id, record.ingress_verdict.as_ref()), (None, 0, None));
    assert_eq!(record.egress_verdict.and_then(|verdict| verdict.rule).map(|rule| rule.number), Some(drop));
    // A packet without a tracker's tuple has its own, also of the other family.
    let six = frame("fd00:10:10::18", "fd00:10:10::19", (1, 2));
    let packet = Packet::read(&six).expect("IP");
    assert_eq!(packet.original(&FlowKey::default()), packet.tuple);
    assert_eq!(packet.original(&metadata), packet.tuple, "a tuple of the other family is not its");
    assert_eq!(packet.len, 60);
}

#[test]
fn connections_have_their_pods_services_rules_and_egress() {
    let mut node_state = world(&document_node());
    let (allow, drop) = (number(&node_state, "in"), number(&node_state, "out"));
    let label = u128::from(drop) << 32 | u128::from(allow) | 77 << 64;
    let tuple = |to: &str, port| Tuple {
        source: ip("10.10.0.24"),
        destination: ip(to),
        protocol: 6,
        source_port: 1000,
        destination_port: port,
    };
    let parties = naming(&node_state).parties(&tuple("10.96.0.10", 53), ip("10.10.0.25"), label);
    assert_eq!(parties.source_pod.as_deref(), Some("default/web"));
    assert_eq!(parties.destination_pod.as_deref(), Some("default/db"));
    assert_eq!((parties.service.as_deref(), parties.egress.as_deref()), (Some("default/dns:tcp"), None));
    let verdicts =
        [&parties.egress_verdict, &parties.ingress_verdict].map(|verdict| verdict.to_proto().expect("a rule"));
    let names = verdicts.map(|told| (told.rule.map(|rule| rule.rule).unwrap_or_default(), told.action));
    assert_eq!(names, [("out".to_owned(), "Allow".to_owned()), ("in".to_owned(), "Allow".to_owned())]);

    let service = |to: &str, port| naming(&node_state).service(&tuple(to, port));
    assert_eq!(service("192.168.77.102", 30053).as_deref(), Some("default/dns:tcp"), "by NodePort");
    assert_eq!(service("169.254.0.252", 30053).as_deref(), Some("default/dns:tcp"), "translated by the host");
    assert_eq!(service("203.0.113.1", 30053), None, "not an address of the Node");
    assert_eq!(service("192.168.77.102", 53), None);
    let egress_to = |node_state: &NodeState, to: &str| {
        naming(node_state).parties(&tuple(to, 80), ip(to), 0).egress.map(|name| name.to_string())
    };
    assert_eq!(egress_to(&node_state, "203.0.113.1").as_deref(), Some("egress-web"));
    for inside in ["10.10.0.25", "10.10.1.6", "192.168.77.102", "192.168.77.103", "10.96.0.1", "10.10.0.1"] {
        assert_eq!(egress_to(&node_state, inside), None, "{inside}");
    }
    // What went is not known any more; its number is.
    let plan = node_state.plan(crate::Write {
        remove: vec![crate::Key::new(crate::ObjectKind::NetworkPolicy, "acnp:all")],
        ..crate::Write::default()
    });
    node_state.settle(plan);
    let parties = naming(&node_state).parties(&tuple("203.0.113.1", 53), ip("203.0.113.1"), label);
    let told = parties.ingress_verdict.to_proto().and_then(|verdict| verdict.rule);
    assert_eq!(told, Some(v1::RuleRef { number: allow, ..v1::RuleRef::default() }));
    apply(&mut node_state, vec![Object::Egress(v1::Egress { name: "a".to_owned(), ..egress("web") })]);
    assert_eq!(egress_to(&node_state, "203.0.113.1").as_deref(), Some("a"), "the lower name");
    assert!(Parties::default().ingress_verdict.to_proto().is_none());
}

#[test]
fn icmp_has_an_identifier_and_a_type() {
    let mut echo = frame("10.10.0.26", "10.10.0.24", (0x0800, 0));
    echo[23] = 1;
    echo[34..42].copy_from_slice(&[8, 0, 0, 0, 0x12, 0x34, 0, 1]);
    let packet = Packet::read(&echo).expect("IP");
    let told = packet.tuple.to_proto();
    assert_eq!((told.src_port, told.dst_port), (0, 0));
    assert_eq!(told.icmp, Some(vswitch_proto::v1::IcmpEnds { id: 0x1234, r#type: 8, code: 0 }));
    let ct = [(Field::CtNwProto, 1), (Field::CtNwSrc, 5), (Field::CtNwDst, 6), (Field::CtTpSrc, 8)];
    let original = packet.original(&registers(&ct));
    assert_eq!((original.destination, original.source_port), (ip("0.0.0.6"), 0x1234));
}

#[test]
fn no_frame_is_too_short() {
    let whole = frame("10.10.0.26", "10.10.0.24", (1000, 80));
    let six = frame("fd00:10:10::18", "fd00:10:10::19", (1, 2));
    for frame in [whole, six] {
        for len in 0..frame.len() {
            if let Some(packet) = Packet::read(&frame[..len]) {
                assert!(packet.len as usize <= len, "{len}: {packet:?}");
            }
        }
    }
    let arp = [[0xff; 12].as_slice(), &[8, 6], &[0; 28]].concat();
    assert_eq!(Packet::read(&arp), None);
}

#[test]
fn what_comes_again_within_a_second_is_one() {
    let mut merged = Merged::new(1000, 3);
    let add = |merged: &mut Merged<u8, (u8, u32)>, now, key| merged.add(now, key, || (key, 1), |value| value.1 += 1);
    for (now, key) in [(0, 1), (10, 2), (999, 1), (999, 1)] {
        assert_eq!(add(&mut merged, now, key), None);
    }
    assert_eq!(merged.due(999), []);
    assert_eq!(merged.due(1000), [(1, 3)]);
    assert_eq!(add(&mut merged, 1000, 1), None, "a new one");
    assert_eq!(add(&mut merged, 1001, 3), None);
    assert_eq!(add(&mut merged, 1002, 4), Some((2, 1)), "no room: the oldest early");
    assert_eq!(merged.due(5000), [(1, 1), (3, 1), (4, 1)]);
    assert!(merged.is_empty());
    let mut none = Merged::new(1000, 0);
    assert_eq!(add(&mut none, 0, 1), None);
    assert_eq!(none.due(1000), [(1, 1)]);
}
