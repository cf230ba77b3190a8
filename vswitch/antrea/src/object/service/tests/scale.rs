//! What many Services take. Not timed as a test: `cargo nextest run --release -p vswitch-antrea
//! --run-ignored only -E 'test(scale)' --no-capture`.

use super::{cluster_ip, endpoints};
use crate::Write;
use crate::testing::{document_node, node_state};
use std::net::Ipv4Addr;
use std::time::Instant;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn services(many: usize, each: usize) -> (Vec<Object>, Vec<v1::Endpoints>) {
    let service = |at: usize| cluster_ip(&format!("s{at}"), &format!("10.96.{}.{}", at / 250, at % 250 + 1));
    let set = |at: usize| {
        let number = |of: usize| u32::try_from(at * each + of).unwrap_or_default() + 0x0a14_0000;
        let address = |of: usize| Ipv4Addr::from(number(of)).to_string();
        let addresses: Vec<String> = (0..each).map(address).collect();
        endpoints(&format!("s{at}"), &addresses.iter().map(String::as_str).collect::<Vec<_>>())
    };
    ((0..many).map(|at| Object::Service(service(at))).collect(), (0..many).map(set).collect())
}

fn measure(many: usize, each: usize) {
    let (mut objects, sets) = services(many, each);
    objects.extend(sets.iter().cloned().map(Object::Endpoints));
    let mut node_state = node_state(&document_node(), Vec::new());
    let start = Instant::now();
    let plan = node_state.plan(Write { objects, ..Write::default() });
    assert!(plan.result.applied);
    let updates = plan.updates.len();
    node_state.settle(plan);
    println!("{many} Services x {each} endpoints: planned in {:?}, {updates} updates, {:?}", start.elapsed(), node_state.store().sizes());
    let mut changed = sets[many / 2].clone();
    changed.endpoints[each / 2].address = "10.10.0.99".to_owned();
    let start = Instant::now();
    let plan = node_state.plan(Write { objects: vec![Object::Endpoints(changed)], ..Write::default() });
    let updates = plan.updates.len();
    node_state.settle(plan);
    println!("  one endpoint is another one: {:?}, {updates} updates", start.elapsed());
    let start = Instant::now();
    let plan = node_state.plan(Write { objects: vec![Object::Service(cluster_ip("s-new", "10.97.0.1"))], ..Write::default() });
    node_state.settle(plan);
    println!("  one more Service: {:?}", start.elapsed());
}

#[test]
#[ignore = "measures"]
fn scale() {
    measure(1000, 10);
    measure(10_000, 10);
    measure(2, 5000);
    measure(1, 16_384);
}
