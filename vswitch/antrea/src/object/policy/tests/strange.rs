//! Messages that nobody means: whatever they say, there is an answer.

use super::*;
use crate::Write;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    let odd = [
        "", "web", "client", "/", "a/b", "np:", "np:a/b", "acnp:x", "anp:a/b", "10.0.0.0/8", "0.0.0.0/0", "::/0", "10.0.0.1",
        "fd00::1", "*.a.b", "a.b", "239.1.1.1", "\u{0}", "x=1,y actions=drop",
    ];
    prop_oneof![prop::sample::select(odd.to_vec()).prop_map(str::to_owned), ".{0,12}"]
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![prop::sample::select(vec![0, 1, 2, 80, 253, 254, 255, 256, 65535, 65536, u32::MAX]), any::<u32>()]
}

fn choice() -> impl Strategy<Value = i32> {
    prop_oneof![-1..8i32, any::<i32>()]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

prop_compose! {
    fn ports()(
        protocol in choice(), port in number(), end_port in number(), source_port in number(), source_end_port in number(),
        icmp_type in prop::option::of(number()), icmp_code in prop::option::of(number()), igmp_type in prop::option::of(number()),
        multicast_group in text()
    ) -> v1::PortMatch {
        v1::PortMatch { protocol, port, end_port, source_port, source_end_port, icmp_type, icmp_code, igmp_type, multicast_group }
    }
}

prop_compose! {
    fn peer()(address_groups in texts(), blocks in prop::collection::vec((text(), texts()), 0..3), fqdns in texts(), services in texts()) -> v1::RulePeer {
        let blocks = blocks.into_iter().map(|(cidr, except_cidrs)| v1::IpBlock { cidr, except_cidrs }).collect();
        v1::RulePeer { address_groups, blocks, fqdns, services }
    }
}

prop_compose! {
    fn a_rule()(
        id in text(), name in text(), direction in choice(), action in choice(), peer in prop::option::of(peer()),
        ports in prop::collection::vec(ports(), 0..3), applied_to in texts(), logging: bool, log_label in text(), l7 in texts()
    ) -> v1::Rule {
        let l7_protocols = l7.into_iter().map(|definition| v1::L7Protocol { definition }).collect();
        v1::Rule { id, name, direction, action, peer, ports, applied_to, logging, log_label, l7_protocols }
    }
}

prop_compose! {
    fn a_policy()(
        name in text(), uid in text(), kind in choice(), tier in number(), priority: f64, applied_to in texts(),
        rules in prop::collection::vec(a_rule(), 0..4), isolates_ingress: bool, isolates_egress: bool, log_isolation: bool
    ) -> v1::NetworkPolicy {
        v1::NetworkPolicy { name, uid, kind, tier, priority, applied_to, rules, isolates_ingress, isolates_egress, log_isolation }
    }
}

proptest! {
    #[test]
    fn there_is_an_answer(policies in prop::collection::vec(a_policy(), 1..3), members in texts(), pods in texts(), services in texts(), valid_only: bool) {
        let mut node_state = document_node_state(true);
        let members = members.iter().map(String::as_str).collect::<Vec<_>>();
        let mut objects: Vec<Object> = policies.into_iter().map(object).collect();
        objects.push(group("client", &members));
        objects.push(Object::AppliedToGroup(v1::AppliedToGroup { name: "web".to_owned(), pods, services }));
        let plan = node_state.plan(Write { objects, valid_only, ..Write::default() });
        for status in &plan.result.statuses {
            // Nothing that an agent writes may come out as a mistake of ours.
            prop_assert!(status.problems.iter().all(|problem| problem.code != "PIPELINE"), "{:#?}", status);
        }
        node_state.settle(plan);
    }
}
