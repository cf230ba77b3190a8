//! Transactions of the size of a node's policies (how long they take is measured by `perf/load`).

use super::*;

/// 5,000 conjunctive rules of 10 sources, 10 ports and 2 services.
fn policies() -> Vec<Update> {
    let mut updates = Vec::new();
    for i in 0..5000u32 {
        for s in 0..10u32 {
            let m = matching(&[(Field::EthType, 0x800), (Field::NwSrc, (i * 16 + s) as u128)]);
            updates.push(Update::AddFlow(FlowSpec {
                matching: m,
                ..flow(10, 200, 0, i as u64, &[Action::Conjunction { id: i + 1, clause: 0, clauses: 3 }])
            }));
            let m = matching(&[(Field::EthType, 0x800), (Field::InPort, (i * 16 + s) as u128)]);
            updates.push(Update::AddFlow(FlowSpec {
                matching: m,
                ..flow(10, 200, 0, i as u64, &[Action::Conjunction { id: i + 1, clause: 1, clauses: 3 }])
            }));
        }
        for s in 0..2u32 {
            let m = matching(&[
                (Field::EthType, 0x800),
                (Field::NwProto, 6),
                (Field::TpDst, (i * 2 + s) as u128 & 0xffff),
                (Field::Reg1, i as u128),
            ]);
            updates.push(Update::AddFlow(FlowSpec {
                matching: m,
                ..flow(10, 200, 0, i as u64, &[Action::Conjunction { id: i + 1, clause: 2, clauses: 3 }])
            }));
        }
        let m = matching(&[(Field::EthType, 0x800), (Field::ConjId, i as u128 + 1)]);
        updates.push(Update::AddFlow(FlowSpec { matching: m, ..flow(10, 190, 0, i as u64, &[output(1)]) }));
    }
    updates
}

#[test]
fn a_transaction_may_be_large() {
    let mut bench = Bench::default();
    let updates = policies();
    bench.ok(&updates);
    bench.ok(&[add(10, 1, 1, 1, &[])]);
    assert_eq!(bench.state.flows(&FlowFilter::default(), Millis(0)).len(), updates.len() + 1);
    let mut all = vec![Update::ReplaceAll { meters: false }];
    all.extend(updates.clone());
    bench.ok(&all);
    let mut bad = updates;
    bad.push(add(254, 1, 1, 1, &[]));
    bench.refused(&bad);
    assert!(bench.apply(&bad).is_err());
    bench.ok(&[delete(FlowFilter { cookie: 77, cookie_mask: u64::MAX, ..FlowFilter::default() })]);
    bench.ok(&[delete(FlowFilter { cookie: 76, cookie_mask: 0xffff_ffff, ..FlowFilter::default() })]);
    bench.ok(&[delete(FlowFilter::default())]);
    assert!(bench.state.flows(&FlowFilter::default(), Millis(0)).is_empty());
}
