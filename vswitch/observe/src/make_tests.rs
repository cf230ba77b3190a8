//! What becomes of records, logs, refusals and samples.

use super::*;
use crate::Limits;
use crate::testing::{ADDRESSES, frame};
use vswitch_proto::v1::DropDecider;

/// Of each family the first address is that of the local Pod shop/web-1, by the node's objects; the
/// second that of the remote Pod data/db-0, by the agent's word.
fn names() -> Names {
    let names = Names::new(Limits { names: 10, bytes: 1 << 20 });
    let remote = |address: &str| Name {
        address: address.to_owned(),
        namespace: "data".to_owned(),
        pod: "db-0".to_owned(),
        node: "worker-2".to_owned(),
        labels: [("app".to_owned(), "db".to_owned())].into(),
        ..Name::default()
    };
    names.apply(ADDRESSES.iter().map(|(_, to)| remote(to)).collect(), 1, true).expect("room");
    names
}

fn local(address: &IpAddr) -> Option<String> {
    let is_own = ADDRESSES.iter().any(|(own, _)| own.parse() == Ok(*address));
    is_own.then(|| "shop/web-1".to_owned())
}

fn with<R>(ask: impl FnOnce(Maker<'_>) -> R) -> R {
    ask(Maker { names: &names(), local: &local })
}

fn ends(observation: &Observation) -> (String, String) {
    let end =
        |name: &Option<Name>| name.as_ref().map(|name| format!("{}/{}", name.namespace, name.pod)).unwrap_or_default();
    (end(&observation.source), end(&observation.destination))
}

fn tuple(from: &str, to: &str) -> Option<ConnectionTuple> {
    let bytes = |text: &str| crate::address_bytes(&text.parse().expect("an address"));
    Some(ConnectionTuple { src: bytes(from), dst: bytes(to), protocol: 6, src_port: 41234, dst_port: 5432, icmp: None })
}

fn sample(from: &str, to: &str, decider: DropDecider) -> DropSample {
    let packet = frame(from, to, 6, 1000);
    DropSample {
        reason: "rule_drop".to_owned(),
        class: "policy".to_owned(),
        bridge: "br-int".to_owned(),
        port: "web-1".to_owned(),
        direction: DropDirection::In.into(),
        unix_ms: 7,
        length: u32::try_from(packet.len()).expect("a short frame"),
        packet: packet[..128].to_vec(),
        decider: Some(decider),
        ..DropSample::default()
    }
}

#[test]
fn drops_name_their_policy_and_both_ends() {
    let denies = DropDecider {
        table: 50,
        table_name: "EgressDefaultRule".to_owned(),
        policy: "np:shop/web".to_owned(),
        default_deny: true,
        ..DropDecider::default()
    };
    for (own, other) in ADDRESSES {
        let dropped = with(|make| {
            let sample = DropSample { pod: "shop/web-1".to_owned(), ..sample(own, other, denies.clone()) };
            make.drop(&sample, Direction::Egress)
        });
        assert_eq!(ends(&dropped), ("shop/web-1".to_owned(), "data/db-0".to_owned()));
        assert_eq!(dropped.direction(), Direction::Egress);
        let want = ObservedPolicy {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            kind: "NetworkPolicy".to_owned(),
            rule: String::new(),
            default_deny: true,
        };
        assert_eq!((&dropped.egress_denied_by[..], dropped.ingress_denied_by.len()), (&[want][..], 0));
        assert_eq!((dropped.verdict(), dropped.tcp_flags), (ObservationVerdict::Dropped, 2));
        assert_eq!(dropped.destination.expect("a name").labels["app"], "db");
        // The other way round: an explicit rule of the receiver's policy, which refuses.
        let refuses = DropDecider {
            table_name: "IngressMetric".to_owned(),
            policy: "acnp:strict".to_owned(),
            policy_rule: "no-db".to_owned(),
            ..DropDecider::default()
        };
        let refused = DropSample { reason: "rejected".to_owned(), ..sample(other, own, refuses) };
        let refused = with(|make| make.drop(&refused, Direction::Ingress));
        assert_eq!(ends(&refused), ("data/db-0".to_owned(), "shop/web-1".to_owned()));
        assert_eq!((refused.verdict(), refused.direction()), (ObservationVerdict::Refused, Direction::Ingress));
        let policy = &refused.ingress_denied_by[0];
        assert_eq!((policy.name.as_str(), policy.rule.as_str(), policy.default_deny), ("strict", "no-db", false));
    }
}

#[test]
fn a_pod_that_sends_with_a_foreign_address_is_named_by_its_port() {
    let (_, remote) = ADDRESSES[0];
    let spoofed =
        DropSample { pod: "shop/evil".to_owned(), decider: None, ..sample(remote, "1.2.3.4", DropDecider::default()) };
    let spoofed = with(|make| make.drop(&spoofed, Direction::Ingress));
    assert_eq!(ends(&spoofed), ("shop/evil".to_owned(), String::new()));
    assert_eq!(spoofed.source.as_ref().map(|name| name.labels.len()), Some(0), "nothing of the Pod with the address");
    assert_eq!(spoofed.direction(), Direction::Egress);
    let short =
        DropSample { packet: vec![1, 2], pod: String::new(), ..sample(remote, "1.2.3.4", DropDecider::default()) };
    let short = with(|make| make.drop(&short, Direction::Unspecified));
    assert_eq!((short.tuple, short.source, short.destination), (None, None, None));
}

#[test]
fn records_are_beginnings_and_ends() {
    let (own, remote) = ADDRESSES[0];
    let rule = RuleRef { policy: "anp:shop/allow".to_owned(), rule: "r1".to_owned(), number: 3 };
    let record = FlowRecord {
        kind: FlowRecordKind::New.into(),
        connection_id: 9,
        original: tuple(own, "10.96.0.10"),
        reply: tuple(remote, own),
        start_unix_ms: 5,
        end_unix_ms: 8,
        source_pod: "shop/web-1".to_owned(),
        service: "data/db:sql".to_owned(),
        egress_verdict: Some(FlowVerdict { rule: Some(rule), action: "Allow".to_owned() }),
        ..FlowRecord::default()
    };
    let begin = with(|make| make.record(&record)).expect("a beginning");
    assert_eq!(
        (begin.kind(), begin.unix_ms, begin.verdict()),
        (ObservationKind::Begin, 5, ObservationVerdict::Forwarded)
    );
    assert_eq!(ends(&begin), ("shop/web-1".to_owned(), "data/db-0".to_owned()), "the endpoint's name");
    assert_eq!((begin.endpoint_address.len(), begin.endpoint_port, begin.service.as_str()), (4, 41234, "data/db:sql"));
    assert_eq!(begin.egress_allowed_by[0].kind, "AntreaNetworkPolicy");
    let of = |kind: FlowRecordKind| with(|make| make.record(&FlowRecord { kind: kind.into(), ..record.clone() }));
    let end = of(FlowRecordKind::End).expect("an end");
    assert_eq!((end.kind(), end.unix_ms, end.connection_id), (ObservationKind::End, 8, 9));
    assert!(of(FlowRecordKind::Update).is_none() && of(FlowRecordKind::Denied).is_none());
}

#[test]
fn logs_and_refusals() {
    let (own, remote) = ADDRESSES[1];
    let log = PolicyLog {
        rule: Some(RuleRef { policy: "acnp:strict".to_owned(), rule: "r2".to_owned(), number: 4 }),
        rule_name: "no-db".to_owned(),
        direction: "Ingress".to_owned(),
        disposition: "Reject".to_owned(),
        applied_to: "shop/web-1".to_owned(),
        tuple: tuple(remote, own),
        packets: 3,
        unix_ms: 6,
        ..PolicyLog::default()
    };
    let told = with(|make| make.log(&log));
    assert_eq!((told.kind(), told.verdict()), (ObservationKind::Policy, ObservationVerdict::Refused));
    assert_eq!((told.ingress_denied_by[0].rule.as_str(), told.ingress_denied_by[0].default_deny), ("no-db", false));
    assert_eq!(ends(&told), ("data/db-0".to_owned(), "shop/web-1".to_owned()));
    assert_eq!(told.original_count.map(|count| count.packets), Some(3));
    let isolated = RuleRef { policy: "np:shop/web".to_owned(), ..RuleRef::default() };
    let isolated =
        PolicyLog { rule: Some(isolated), rule_name: String::new(), disposition: "Drop".to_owned(), ..log.clone() };
    assert!(with(|make| make.log(&isolated)).ingress_denied_by[0].default_deny);
    let allowed = with(|make| make.log(&PolicyLog { disposition: "Allow".to_owned(), ..log }));
    assert_eq!((allowed.verdict(), allowed.ingress_allowed_by.len()), (ObservationVerdict::Forwarded, 1));
    let refused = ServiceRefused { service: "data/none:sql".to_owned(), tuple: tuple(own, "fd00:96::1"), packets: 2 };
    let refused = with(|make| make.refused(&refused, 11));
    assert_eq!(
        (refused.unix_ms, refused.service.as_str(), refused.direction()),
        (11, "data/none:sql", Direction::Egress)
    );
}
