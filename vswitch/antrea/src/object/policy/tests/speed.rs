//! What a change of one address costs: printed, not asserted, since machines differ. What is
//! asserted is that nothing else changes.

use super::*;
use crate::testing::apply;
use std::time::Instant;

fn members(count: u32) -> Vec<String> {
    (0..count).map(|at| std::net::Ipv4Addr::from(0x0a40_0000 + at * 3).to_string()).collect()
}

#[allow(clippy::print_stdout)] // what it is for
fn change(rules: usize, count: u32) {
    let mut node_state = document_node_state(false);
    let texts = members(count + 1);
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (few, most) = (&all[1..], &all[..all.len() - 1]);
    let policies = (0..rules).map(|at| {
        let rules = vec![rule("AllowToMany", ALLOW, from("many"), vec![tcp(1000 + u32::try_from(at).unwrap_or(0))])];
        object(acnp(&format!("many-{at}"), 100.0 + u32::try_from(at).map_or(0.0, f64::from), rules))
    });
    let begin = Instant::now();
    let mut objects = vec![group("many", few)];
    objects.extend(policies);
    let loaded = apply(&mut node_state, objects).len();
    let load = begin.elapsed();
    // The best of some, there and back: the machine does other things, too.
    let change = |at: usize| {
        let begin = Instant::now();
        let updates = apply(&mut node_state, vec![group("many", if at.is_multiple_of(2) { most } else { few })]);
        assert_eq!(updates.len(), 2 * rules, "one flow comes and one goes for each rule");
        begin.elapsed()
    };
    let took = (0..8).map(change).min().unwrap_or_default();
    println!("{rules} rules, {count} addresses: all of it {load:?} ({loaded} updates), one address for another {took:?}");
}

#[test]
#[allow(clippy::print_stdout)] // what it is for
fn one_address_of_ten_thousand() {
    for rules in [1, 10] {
        change(rules, 10_000);
    }
}
