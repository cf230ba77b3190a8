//! Drops by policies have their names: of rules, and of policies that isolate ("default deny").

use super::{Running, node, object, pod, round};
use crate::server::tests::soon;
use vswitch_antrea::Table;
use vswitch_control::SwitchApi;
use vswitch_control::drops::{DropDecider, DropEvent};
use vswitch_dataplane::observe::{Direction, DropPlace, DropReason, Drops, Remains};
use vswitch_flow::spec::{FlowFilter, FlowSpec};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::v1::drop_service_client::DropServiceClient;
use vswitch_proto::v1::watch_drops_response::Update;
use vswitch_proto::v1::{DropSample, WatchDropsRequest};

pub(super) fn policies(isolating: &[&str]) -> Vec<v1::Object> {
    let object = |object| v1::Object { object: Some(object) };
    let group = v1::AppliedToGroup { name: "web".to_owned(), pods: vec!["default/web".to_owned()], services: vec![] };
    let deny = v1::Rule {
        id: "deny-ten".to_owned(),
        direction: v1::Direction::Ingress.into(),
        action: v1::RuleAction::Drop.into(),
        peer: Some(v1::RulePeer {
            blocks: vec![v1::IpBlock { cidr: "10.20.0.0/16".to_owned(), except_cidrs: Vec::new() }],
            ..Default::default()
        }),
        ..Default::default()
    };
    let cluster = v1::NetworkPolicy {
        name: "acnp:quarantine".to_owned(),
        kind: v1::PolicyKind::AntreaCluster.into(),
        tier: 250,
        priority: 5.0,
        applied_to: vec!["web".to_owned()],
        rules: vec![deny],
        ..Default::default()
    };
    let k8s = |name: &&str| v1::NetworkPolicy {
        name: format!("np:default/{name}"),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: vec!["web".to_owned()],
        isolates_ingress: true,
        isolates_egress: true,
        ..Default::default()
    };
    let isolating = isolating.iter().map(|name| object(Object::NetworkPolicy(k8s(name))));
    [object(Object::AppliedToGroup(group)), object(Object::NetworkPolicy(cluster))]
        .into_iter()
        .chain(isolating)
        .collect()
}

/// UDP to or from web (10.10.0.24).
pub(super) fn packet(to_web: bool) -> Vec<u8> {
    let (other, web) = ([10, 20, 0, 1], [10, 10, 0, 24]);
    let (from, to) = if to_web { (other, web) } else { (web, other) };
    let mut packet = vec![2, 0, 0, 0, 0, 25, 2, 0, 0, 0, 0, 24, 8, 0];
    packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend([from, to].concat());
    packet.extend([3, 232, 0, 80, 0, 8, 0, 0]);
    packet
}

impl Running {
    /// Flows of a table that drop.
    pub(super) fn denials(&self, table: Table) -> Vec<FlowSpec> {
        let flows = self.switch.flows("br-int", &FlowFilter::default()).expect("flows");
        let flows = flows.into_iter().map(|info| info.flow);
        flows.filter(|flow| flow.table == table.number() && flow.priority > 0).collect()
    }

    /// As if a packet had been dropped by a flow.
    async fn dropped_by(&self, flow: &FlowSpec, packet: &[u8]) -> DropSample {
        let mut service = DropServiceClient::new(self.channel.clone());
        let mut stream = service.watch_drops(WatchDropsRequest::default()).await.expect("a stream").into_inner();
        self.drop_by(flow, packet);
        loop {
            let message = soon("a sample", stream.message()).await.expect("no error").expect("no end");
            if let Some(Update::Sample(sample)) = message.update {
                return sample;
            }
        }
    }

    /// As if a packet had been dropped by a flow: tells those who watch.
    pub(super) fn drop_by(&self, flow: &FlowSpec, packet: &[u8]) {
        let place = DropPlace { port: 0, name: "pweb".to_owned(), bridge: "br-int".to_owned() };
        let drops = Drops::new(&place.into(), Direction::In, &self.switch.drop_sampler);
        self.switch.drop_sampler.set_now(vswitch_dataplane::time::Millis::now());
        drops.count(DropReason::RuleDrop, Remains::Bytes(packet));
        let decider = DropDecider {
            bridge: "br-int".to_owned(),
            table: flow.table,
            table_name: String::new(),
            cookie: Some(flow.cookie),
        };
        self.switch.drop_watchers.tell(|sample| DropEvent {
            reason: sample.reason,
            bridge: sample.place.bridge.clone(),
            port: sample.place.name.clone(),
            direction: sample.direction,
            worker: sample.worker,
            core: 1,
            unix_ms: 5,
            second: 0,
            len: sample.len,
            bytes: sample.bytes().to_vec(),
            decider: Some(decider.clone()),
        });
    }
}

#[tokio::test]
async fn drops_by_rules_and_by_isolation_name_their_policy() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let pods = || vec![object(pod("web", 24)), object(pod("db", 25))];
    // One policy isolates, and then two: such a flow is both's.
    for (number, isolating) in [(5, &["only"][..]), (6, &["a", "b"])] {
        let mut objects = pods();
        objects.extend(policies(isolating));
        running.sync(round(number), objects).await.expect("a sync");

        let denials = running.denials(Table::IngressMetric);
        let mut named = Vec::new();
        for flow in &denials {
            let sample = running.dropped_by(flow, &packet(true)).await;
            let decider = sample.decider.expect("a rule");
            named.push((decider.policy, decider.policy_rule, decider.default_deny));
        }
        let rule = ("acnp:quarantine".to_owned(), "deny-ten".to_owned(), false);
        assert!(named.contains(&rule), "{named:?} of {denials:?}");

        for (table, to_web) in [(Table::IngressDefaultRule, true), (Table::EgressDefaultRule, false)] {
            let denials = running.denials(table);
            assert!(!denials.is_empty(), "{}", table.name());
            for flow in denials {
                let decider = running.dropped_by(&flow, &packet(to_web)).await.decider.expect("a rule");
                let expected = format!("np:default/{}", isolating[0]);
                let told = (decider.policy.as_str(), decider.policy_rule.as_str(), decider.default_deny);
                assert_eq!(told, (expected.as_str(), "", true), "{} {isolating:?}: {flow:?}", table.name());
            }
        }
    }
    let foreign = FlowSpec { cookie: 7, ..running.denials(Table::IngressDefaultRule).remove(0) };
    let decider = running.dropped_by(&foreign, &packet(true)).await.decider.expect("a rule");
    assert_eq!((decider.policy.as_str(), decider.default_deny), ("", false), "a flow of others");
}
