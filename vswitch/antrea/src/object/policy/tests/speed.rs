//! What a change of one address costs: printed, not asserted, since machines differ. What is asserted is that nothing else changes.

use super::*;
use crate::testing::apply;
use std::time::Instant;

fn members(count: u32) -> Vec<String> {
    (0..count).map(|at| std::net::Ipv4Addr::from(0x0a40_0000 + at * 3).to_string()).collect()
}

#[allow(clippy::print_stdout)] // what it is for
fn change(rules: usize, count: u32) {
    let mut room = document_room(false);
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
    let loaded = apply(&mut room, objects).len();
    let load = begin.elapsed();
    let begin = Instant::now();
    let updates = apply(&mut room, vec![group("many", most)]);
    let took = begin.elapsed();
    println!("{rules} rules, {count} addresses: all of it {load:?} ({loaded} updates), one address for another {took:?}");
    assert_eq!(updates.len(), 2 * rules, "one flow comes and one goes for each rule");
}

#[test]
#[allow(clippy::print_stdout)] // what it is for
fn one_address_of_ten_thousand() {
    for rules in [1, 10] {
        change(rules, 10_000);
    }
}
