//! Counters of rules. No packet passes here: what flows count is written into their counters.

use super::{Running, node, object, pod, round};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_control::SwitchApi;
use vswitch_flow::Field;
use vswitch_flow::spec::{FlowFilter, FlowSpec};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::network_policy_service_client::NetworkPolicyServiceClient;
use vswitch_proto::antrea::v1::object::Object;

fn policy(name: &str, actions: &[v1::RuleAction]) -> v1::Object {
    let rule = |(at, action): (usize, &v1::RuleAction)| v1::Rule {
        id: format!("r{at}"),
        direction: v1::Direction::Ingress.into(),
        action: (*action).into(),
        peer: Some(v1::RulePeer {
            blocks: vec![v1::IpBlock { cidr: format!("10.{}.0.0/16", 20 + at), except_cidrs: Vec::new() }],
            ..Default::default()
        }),
        ..Default::default()
    };
    v1::Object {
        object: Some(Object::NetworkPolicy(v1::NetworkPolicy {
            name: format!("acnp:{name}"),
            kind: v1::PolicyKind::AntreaCluster.into(),
            tier: 250,
            priority: 5.0,
            applied_to: vec!["web".to_owned()],
            rules: actions.iter().enumerate().map(rule).collect(),
            ..Default::default()
        })),
    }
}

fn objects(policies: &[v1::Object]) -> Vec<v1::Object> {
    let group = v1::AppliedToGroup { name: "web".to_owned(), pods: vec!["default/web".to_owned()], services: vec![] };
    let group = v1::Object { object: Some(Object::AppliedToGroup(group)) };
    [&[object(pod("web", 24)), group], policies].concat()
}

impl Running {
    /// Rules by policy and name: their priorities and counters.
    async fn rules(&self) -> BTreeMap<String, (u32, v1::RuleStatistics)> {
        let mut client = NetworkPolicyServiceClient::new(self.channel.clone());
        let listed = client.list_network_policies(v1::ListNetworkPoliciesRequest::default()).await.expect("an answer");
        let mut listed = listed.into_inner();
        let mut rules = BTreeMap::new();
        while let Some(part) = listed.message().await.expect("a part") {
            for rule in part.policies.into_iter().flat_map(|policy| policy.rules) {
                let statistics = rule.statistics.expect("counters");
                let named = statistics.rule.clone().expect("a name");
                rules.insert(format!("{}/{}", named.policy, named.rule), (rule.priority, statistics));
            }
        }
        rules
    }

    /// As if packets had met the flows of a rule that `is_one` of them.
    fn count(&self, is_one: impl Fn(&FlowSpec) -> bool, commits: u64, rejects: u64) {
        let flows = self.switch.flows("br-int", &FlowFilter::default()).expect("flows");
        let flow = flows.into_iter().map(|info| info.flow).find(is_one).expect("such a flow");
        let strict = Some(flow.priority);
        let filter = FlowFilter { table: Some(flow.table), matching: flow.matching, strict, ..FlowFilter::default() };
        let stats = self.switch.rule_stats("br-int", &[&filter]).expect("a bridge")[0].clone().expect("a flow");
        stats.commits.fetch_add(commits, Relaxed);
        stats.rejects.fetch_add(rejects, Relaxed);
        stats.packets.fetch_add(1, Relaxed);
    }
}

fn acts_for(number: u32) -> impl Fn(&FlowSpec) -> bool {
    move |flow| flow.matching.get(Field::ConjId) == (number.into(), 0xffff_ffff)
}

#[tokio::test]
async fn sessions_stay_when_a_rule_moves_and_begin_anew_with_its_counters() {
    use v1::RuleAction::{Allow, Drop};
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let allow = policy("b", &[Allow, Allow, Allow]);
    running.sync(round(1), objects(std::slice::from_ref(&allow))).await.expect("a sync");
    let before = running.rules().await;
    let number = |rule: &str| before[rule].1.rule.as_ref().expect("a name").number;
    for (rule, commits) in [("acnp:b/r0", 3), ("acnp:b/r1", 5), ("acnp:b/r2", 7)] {
        running.count(acts_for(number(rule)), commits, 0);
    }
    // Others come between them: of equal keys those that deny are first.
    running.sync(round(2), objects(&[allow.clone(), policy("a", &[Drop, Drop, Drop])])).await.expect("a sync");
    let moved = running.rules().await;
    let sessions = |rules: &BTreeMap<String, (u32, v1::RuleStatistics)>| {
        ["acnp:b/r0", "acnp:b/r1", "acnp:b/r2"].map(|rule| rules[rule].1.sessions)
    };
    let priorities = |rules: &BTreeMap<String, (u32, v1::RuleStatistics)>| {
        ["acnp:b/r0", "acnp:b/r1", "acnp:b/r2"].map(|rule| rules[rule].0)
    };
    assert_ne!(priorities(&before), priorities(&moved), "somebody moved");
    assert_eq!(sessions(&moved), [3, 5, 7]);
    for rule in ["acnp:b/r0", "acnp:b/r1", "acnp:b/r2"] {
        running.count(acts_for(number(rule)), 10, 0);
    }
    assert_eq!(sessions(&running.rules().await), [13, 15, 17], "old and new");
    running.sync(round(3), objects(std::slice::from_ref(&allow))).await.expect("a sync");
    assert_eq!(sessions(&running.rules().await), [13, 15, 17], "wherever they are");
    // A rule that says something else has counters of its own.
    running.sync(round(4), objects(&[policy("b", &[Allow, Drop, Allow])])).await.expect("a sync");
    assert_eq!(sessions(&running.rules().await), [13, 0, 17]);
    running.sync(round(5), objects(std::slice::from_ref(&allow))).await.expect("a sync");
    assert_eq!(sessions(&running.rules().await), [13, 0, 17]);
    running.sync(round(6), objects(&[])).await.expect("a sync");
    running.sync(round(7), objects(std::slice::from_ref(&allow))).await.expect("a sync");
    assert_eq!(sessions(&running.rules().await), [0, 0, 0], "other rules with the same names");
    running.stop().await;
}

#[tokio::test]
async fn answers_are_those_of_the_deny_and_a_pass_counts_by_its_flow() {
    use v1::RuleAction::{Pass, Reject};
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    running.sync(round(1), objects(&[policy("a", &[Reject, Pass])])).await.expect("a sync");
    let rules = running.rules().await;
    let number = |rule: &str| rules[rule].1.rule.as_ref().expect("a name").number;
    let (reject, pass) = (number("acnp:a/r0"), number("acnp:a/r1"));
    running.count(|flow| flow.matching.get(Field::Reg3) == (reject.into(), 0xffff_ffff), 0, 4);
    running.count(acts_for(reject), 0, 4);
    running.count(acts_for(pass), 0, 0);
    let rules = running.rules().await;
    let of = |rule: &str| {
        let counted = &rules[rule].1;
        (counted.new_packets, counted.packets, counted.sessions, counted.rejects_sent)
    };
    assert_eq!((of("acnp:a/r0"), of("acnp:a/r1")), ((1, 1, 0, 4), (1, 1, 0, 0)));
    running.stop().await;
}
