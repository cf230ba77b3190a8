//! Flows.

use super::*;

#[test]
fn adds_replace_and_deletes_remove() {
    let mut bench = Bench::default();
    assert_eq!(bench.ok(&[add(3, 10, 1, 7, &[]), add(0, 10, 1, 8, &[output(2)])]), [1, 1]);
    assert_eq!(bench.flows(), ["0/10:8", "3/10:7"]);
    bench.ok(&[add(3, 10, 1, 9, &[])]);
    assert_eq!(bench.flows(), ["0/10:8", "3/10:9"]);
    assert_eq!(bench.ok(&[Update::DeleteFlows(FlowFilter { table: Some(3), ..FlowFilter::default() })]), [1]);
    assert_eq!(bench.flows(), ["0/10:8"]);
}
