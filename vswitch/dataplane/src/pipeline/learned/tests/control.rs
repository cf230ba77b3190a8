//! Transactions and timeouts: learned flows are ordinary flows.

use super::*;
use crate::pipeline::state::RemovedReason;

fn delete(filter: FlowFilter) -> Update {
    Update::DeleteFlows(filter)
}

#[test]
fn transactions_take_learned_flows_as_flows() {
    let strict = || FlowFilter { strict: Some(7), matching: source(1), ..FlowFilter::default() };
    let cookie = |cookie| FlowFilter { cookie, cookie_mask: u64::MAX, ..FlowFilter::default() };
    let modify = |filter, cookie| {
        let actions: Arc<[Action]> = [output(9)].into();
        Update::ModifyFlows { filter, actions, reset_counts: false, cookie }
    };
    let table = |table| FlowFilter { table: Some(table), ..FlowFilter::default() };
    let (a, b, c) = ("7:5 10/20 2 1000 1", "7:5 10/20 2 1000 2", "3:c 0/0 2 1000 3");
    let same = FlowSpec { idle_timeout: 10, hard_timeout: 20, ..flow(7, 1, 5, &find_actions()) };
    // Update, its count, what is there then: two learned flows, one hand-made one.
    let cases: &[(&str, &[Update], u64, &[&str])] = &[
        ("delete all", &[delete(FlowFilter::default())], 3, &[]),
        ("delete strictly", &[delete(strict())], 1, &[c, b]),
        ("delete by cookie", &[delete(cookie(5))], 2, &[c]),
        ("delete by another cookie", &[delete(cookie(6))], 0, &[c, a, b]),
        ("delete by masked cookie", &[delete(FlowFilter { cookie_mask: 4, ..cookie(4) })], 3, &[]),
        ("delete by table", &[delete(table(2))], 0, &[c, a, b]),
        ("delete by match", &[delete(FlowFilter { matching: source(2), ..table(1) })], 1, &[c, a]),
        ("add over", &[Update::AddFlow(flow(7, 1, 9, &[]))], 1, &[c, "7:9 0/0 2 0 1", b]),
        ("modify", &[modify(cookie(5), None)], 2, &[c, a, b]),
        ("modify one", &[modify(strict(), Some(6))], 1, &[c, "7:6 10/20 2 1000 1", b]),
        ("modify, then delete", &[modify(cookie(5), Some(6)), delete(cookie(6))], 2, &[c]),
        ("sweep", &[Update::ReplaceFlows(table(1)), Update::AddFlow(flow(3, 3, 0xc, &[]))], 2, &[c]),
        ("sweep all but one", &[Update::ReplaceFlows(table(1)), Update::AddFlow(same)], 2, &[a]),
        ("replace all", &[Update::ReplaceAll { meters: false }], 3, &[]),
    ];
    for (name, updates, count, left) in cases {
        let mut bench = Bench::new();
        bench.apply(&[Update::AddFlow(flow(3, 3, 0xc, &[]))]);
        assert!(bench.learn(&learn(), 1) && bench.learn(&learn(), 2));
        for from in 1..=3 {
            find(&bench.state.program(), from).expect("a rule").stats.packets.store(2, Relaxed);
        }
        bench.now = 1000;
        let before = (bench.flows(), bench.state.program());
        let refused = [*updates, &[delete(FlowFilter { table: Some(254), ..FlowFilter::default() })]].concat();
        assert!(bench.state.apply(&refused, 99, Millis(1000)).is_err());
        assert!(before.0 == bench.flows() && Arc::ptr_eq(&before.1, &bench.state.program()), "{name}: rolled back");
        assert_eq!(bench.apply(updates)[0], *count, "{name}");
        assert_eq!(bench.flows(), *left, "{name}");
        assert_eq!(bench.state.tables().iter().map(|table| table.flows).sum::<u64>(), left.len() as u64, "{name}");
        let program = bench.state.program();
        if *count > 0 {
            assert_eq!(program.table(1).map(|table| table.changed), Some(bench.world), "{name}");
        }
        assert!(bench.learn(&learn(), 1) && bench.learn(&learn(), 2), "{name}: learned again");
        assert_eq!((bench.finds(1), bench.finds(2)), (Some(5), Some(5)), "{name}");
    }
}

/// Actions of a flow that [`learn`] makes.
fn find_actions() -> Vec<Action> {
    vec![Action::SetField { field: Field::Reg0, value: 5, mask: 0xffff_ffff }]
}

#[test]
fn an_add_checks_overlap_with_learned_flows() {
    let mut bench = Bench::new();
    bench.learn(&learn(), 1);
    let mut wide = FlowSpec { matching: Arc::default(), ..flow(7, 1, 1, &[]) };
    wide.flags.check_overlap = true;
    let refused = bench.state.apply(&[Update::AddFlow(wide)], 1, Millis(0)).expect_err("an overlap");
    assert_eq!(refused.code, "OFPFMFC_OVERLAP");
}

#[test]
fn learned_flows_expire_without_a_new_program() {
    let mut bench = Bench::new();
    let told = Learn { send_flow_rem: true, ..learn() };
    for from in 1..=600 {
        bench.now = u64::from(from);
        bench.learn(&told, from);
    }
    bench.now = 9000;
    assert!(bench.learn(&told, 2), "its hard timeout starts over, its idle timeout does not");
    find(&bench.state.program(), 3).expect("a rule").stats.used_ms.store(9000, Relaxed);
    let (program, epoch) = (bench.state.program(), bench.changes.epoch());
    assert!(!bench.expire(10_000));
    assert_eq!((bench.flows().len(), bench.changes.epoch()), (600, epoch));
    assert!(!bench.expire(10_600), "the program is the same");
    assert!(Arc::ptr_eq(&program, &bench.state.program()));
    assert_eq!(bench.flows(), ["7:5 10/20 0 10597 3"]);
    assert!(bench.changes.epoch() > epoch);
    let removed = bench.state.take_removed();
    assert!(removed.len() == 599 && removed.iter().all(|event| event.reason == RemovedReason::IdleTimeout));
    assert!(!bench.expire(19_000));
    assert_eq!(bench.flows().len(), 0, "ten seconds after the packet");
    // Used all the time, but not learned again.
    bench.learn(&told, 1);
    find(&bench.state.program(), 1).expect("a rule").stats.used_ms.store(100_000, Relaxed);
    bench.state.take_removed();
    assert!(!bench.expire(39_000));
    assert_eq!(bench.state.take_removed()[0].reason, RemovedReason::HardTimeout);
}

#[test]
fn a_replaced_flow_does_not_come_back() {
    let mut bench = Bench::new();
    let there = FlowSpec { hard_timeout: 5, ..flow(7, 1, 9, &[]) };
    bench.apply(&[Update::AddFlow(there)]);
    bench.now = 1000;
    bench.learn(&learn(), 1);
    // Both end at once: the learned one, and the hand-made one that it has replaced.
    assert!(bench.expire(6000));
    assert_eq!((bench.flows().len(), bench.finds(1)), (0, None));
    // The hand-made one may have been the last learn of a cookie.
    let last = last_learn(&Learn { cookie: 0x77, ..learn() });
    let mut bench = Bench::new();
    bench.apply(&[Update::AddFlow(flow(7, 1, 9, &[last])), Update::AddFlow(flow(8, 2, 0x77, &[]))]);
    bench.learn(&learn(), 1);
    assert!(bench.expire(1));
    assert_eq!(bench.flows(), ["7:5 0/0 0 1 1"]);
    // A refused transaction does not forget what was replaced.
    let mut bench = Bench::new();
    bench.apply(&[Update::AddFlow(flow(7, 1, 9, &[]))]);
    bench.learn(&learn(), 1);
    assert!(
        bench.state.apply(&[Update::AddFlow(FlowSpec { table: 254, ..flow(1, 1, 1, &[]) })], 2, Millis(0)).is_err()
    );
    bench.apply(&[Update::DeleteFlows(FlowFilter { cookie: 5, cookie_mask: u64::MAX, ..FlowFilter::default() })]);
    assert_eq!((bench.flows().len(), bench.finds(1)), (0, None));
}
