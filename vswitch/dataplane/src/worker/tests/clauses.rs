//! Flows of more clauses than an OpenFlow message has room for.

use super::bed::{Bed, udp};
use vswitch_flow::action::limits::MAX_CLAUSES;
use vswitch_flow::text::{NoNames, parse_bundle_line};

/// All rules of a priority that name a port are in its one flow.
fn port(rules: impl Iterator<Item = usize>) -> String {
    let clauses: Vec<String> = rules.map(|rule| format!("conjunction({rule},2/2)")).collect();
    format!("priority=200,udp,tp_dst=80,actions={}", clauses.join(","))
}

#[test]
fn as_many_rules_name_a_port_as_there_may_be() {
    for cache in [true, false] {
        let mut bed = Bed::new(3);
        bed.shared.enable(cache);
        let last = MAX_CLAUSES + 1;
        bed.program(&[
            &port(2..=last),
            "priority=200,ip,nw_src=10.0.0.1,actions=conjunction(7777,1/2)",
            &format!("priority=200,ip,nw_src=10.0.0.3,actions=conjunction({last},1/2)"),
            "priority=190,conj_id=7777,ip,actions=output:2",
            &format!("priority=190,conj_id={last},ip,actions=output:3"),
        ]);
        let says = |bed: &mut Bed, source: u8| {
            bed.receive(1, &udp(source, 9, 80));
            bed.ports()
        };
        for _ in 0..3 {
            assert_eq!([1, 3, 4].map(|source| says(&mut bed, source)), [vec![2], vec![3], vec![]], "cache {cache}");
        }
        bed.program(&[&port((2..=last).filter(|rule| *rule != 7777))]);
        assert_eq!([1, 3].map(|source| says(&mut bed, source)), [vec![], vec![3]], "one rule less");
        bed.program(&[&port([7777].into_iter())]);
        assert_eq!([1, 3].map(|source| says(&mut bed, source)), [vec![2], vec![]], "one alone");
    }
    let refused = parse_bundle_line(&port(2..MAX_CLAUSES + 3), &NoNames).expect_err("one too many");
    assert!(refused.to_string().contains("65536 conjunctions"), "{refused}");
}
