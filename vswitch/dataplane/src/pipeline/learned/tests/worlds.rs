//! While workers go over from one program to the next: a packet sees the old one or the new one,
//! never a mix.

use super::*;

/// What the old and the new program's packets find.
fn finds(old: &Program, new: &Program, from: u32) -> (Option<u64>, Option<u64>) {
    (find(old, from).map(|rule| rule.cookie), find(new, from).map(|rule| rule.cookie))
}

#[test]
fn deletions_reach_packets_with_their_world() {
    let mut bench = Bench::new();
    bench.learn(&learn(), 1);
    bench.learn(&learn(), 2);
    let old = bench.state.program();
    let mut changes = vec![Update::DeleteFlows(FlowFilter { matching: source(1), ..FlowFilter::default() })];
    changes.push(Update::AddFlow(flow(7, 2, 0xadd, &[])));
    bench.apply(&changes);
    let new = bench.state.program();
    assert_eq!(finds(&old, &new, 1), (Some(5), None));
    assert_eq!(finds(&old, &new, 2), (Some(5), Some(0xadd)));
    let at = |program: &Program, learn: &Learn, from| program.learned.learn(learn, &packet(from), Millis(9), None);
    // Packets of the old world come before the transaction.
    let other = Learn { cookie: 6, ..learn() };
    assert!(at(&old, &other, 1) && at(&old, &other, 2) && at(&old, &other, 3));
    assert_eq!(finds(&old, &new, 1), (Some(6), None), "deleted after that");
    assert_eq!(finds(&old, &new, 2), (Some(6), Some(0xadd)), "added over after that");
    assert_eq!(finds(&old, &new, 3), (Some(6), Some(6)), "not touched");
    // Packets of the new world are learned from by all.
    assert!(at(&new, &learn(), 1) && at(&new, &learn(), 4));
    assert_eq!(finds(&old, &new, 1), (Some(5), Some(5)));
    assert_eq!(finds(&old, &new, 4), (Some(5), Some(5)));
    bench.state.adopted();
    assert!(at(&new, &learn(), 5) && at(&old, &other, 6));
    assert_eq!(finds(&old, &new, 5), (None, Some(5)), "nobody looks at the old one any more");
    assert_eq!(find(&new, 6).map(|rule| rule.cookie), Some(6), "not lost, though nobody should learn with it");
}

#[test]
fn the_last_learn_takes_its_flows_though_old_packets_still_learn() {
    let last = Learn { delete_learned: true, ..learn() };
    let mut bench = Bench::new();
    bench.apply(&[Update::AddFlow(FlowSpec { table: 0, ..flow(1, 1, 1, &[last_learn(&last)]) })]);
    bench.learn(&last, 1);
    let old = bench.state.program();
    bench.apply(&[Update::DeleteFlows(FlowFilter { table: Some(0), ..FlowFilter::default() })]);
    assert!(
        old.learned.learn(&last, &packet(1), Millis(1), None) && old.learned.learn(&last, &packet(2), Millis(1), None)
    );
    bench.state.adopted();
    assert_eq!((bench.finds(1), bench.finds(2)), (None, None));
    assert!(bench.flows().is_empty());
}

/// What is learned while the control side works on a transaction.
#[test]
fn learned_meanwhile() {
    let bench = Bench::new();
    bench.learn(&learn(), 1);
    let program = bench.state.program();
    let learned = &program.learned;
    let begun = learned.begin();
    assert_eq!(begun.rules(1).map(Classifier::len), Some(1));
    let other = Learn { cookie: 6, ..learn() };
    for from in [1, 2, 3] {
        learned.learn(&other, &packet(from), Millis(1), None);
    }
    learned.learn(&learn(), &packet(4), Millis(1), None);
    let six = FlowFilter { cookie: 6, cookie_mask: u64::MAX, matching: source(2), ..FlowFilter::default() };
    let removed = begun.rules(1).expect("a table").iter().map(|entry| &entry.data);
    let (next, meanwhile) = learned.commit(&program.tables, removed, vec![six]);
    assert_eq!(meanwhile.len(), 1, "selected by the filter");
    let left = |learned: &Learned| -> Vec<u128> {
        let tables = learned.tables();
        let rules = tables[1].as_ref().expect("a table").rules.iter();
        let mut left: Vec<u128> = rules.map(|entry| entry.matching.get(Field::NwSrc).0).collect();
        left.sort_unstable();
        left
    };
    // What a worker has put in the place of a removed one stays: the transaction knew nothing of
    // it.
    assert_eq!((left(learned), left(&next)), (vec![1, 2, 3, 4], vec![1, 3, 4]));
    // Nothing of it when the transaction is given up.
    let begun = next.begin();
    next.learn(&learn(), &packet(8), Millis(2), None);
    next.abandon(begun.replaced);
    assert_eq!(left(&next), [1, 3, 4, 8]);
}
