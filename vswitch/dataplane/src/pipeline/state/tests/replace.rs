//! Mark and sweep.

use super::*;

/// `priority:cookie duration packets`.
fn shown(bench: &Bench) -> Vec<String> {
    let infos = bench.state.flows(&FlowFilter::default(), Millis(bench.now));
    let text = |i: &FlowInfo| {
        format!("{}:{:x} {} {}", i.flow.priority, i.flow.cookie, i.counters.duration_ms, i.counters.packets)
    };
    infos.iter().map(text).collect()
}

fn bench() -> Bench {
    let mut bench = Bench::default();
    bench.ok(&[
        add_group(1),
        add_meter(1),
        add(0, 1, 1, 0x11, &[Action::Group(1)]),
        add(0, 2, 2, 0x12, &[]),
        add(1, 3, 3, 0x13, &[]),
        add(1, 4, 4, 0x24, &[]),
    ]);
    for priority in 1..=4 {
        bench.hit(priority, u64::from(priority));
    }
    bench.now = 1000;
    bench
}

#[test]
fn equal_flows_stay_as_they_are_and_the_rest_goes() {
    let mut bench = bench();
    let round = FlowFilter { cookie: 0x10, cookie_mask: 0xf0, ..FlowFilter::default() };
    let counts = bench.ok(&[
        Update::ReplaceFlows(round),
        add(0, 1, 1, 0x11, &[Action::Group(1)]),
        add(0, 2, 2, 0x12, &[output(9)]),
        add(2, 5, 5, 0x15, &[]),
    ]);
    assert_eq!(counts, [1, 1, 1, 1], "one flow was swept");
    // Equal; other actions; another cookie's; new.
    assert_eq!(shown(&bench), ["1:11 1000 1", "2:12 0 2", "4:24 1000 4", "5:15 0 0"]);
    assert_eq!((bench.changed(0), bench.changed(1), bench.changed(2)), (2, 2, 2));
    bench.ok(&[
        Update::ReplaceFlows(table(0)),
        add(0, 1, 1, 0x11, &[Action::Group(1)]),
        add(0, 2, 2, 0x12, &[output(9)]),
    ]);
    assert_eq!(bench.changed(0), 2, "nothing was new");
}

#[test]
fn what_was_added_before_the_sweep_began_is_swept() {
    let mut bench = bench();
    bench.ok(&[add(0, 9, 9, 9, &[]), add(0, 1, 1, 0x99, &[]), Update::ReplaceFlows(table(0)), add(0, 2, 2, 0x12, &[])]);
    assert_eq!(shown(&bench), ["2:12 1000 2", "3:13 1000 3", "4:24 1000 4"]);
}

#[test]
fn an_add_outside_a_replace_is_always_new() {
    let mut bench = bench();
    bench.ok(&[add(0, 2, 2, 0x12, &[])]);
    assert_eq!(bench.flow(2).counters.duration_ms, 0);
}

#[test]
fn replace_all_keeps_what_is_equal() {
    let mut bench = bench();
    let stats = |bench: &Bench, id| Arc::as_ptr(&bench.state.program().groups[&id].stats);
    let before = stats(&bench, 1);
    bench.ok(&[add_group(2), add_meter(2), add(3, 7, 7, 7, &[Action::Group(2)])]);
    bench.ok(&[
        Update::ReplaceAll { meters: true },
        add_meter(1),
        add_group(1),
        add(0, 1, 1, 0x11, &[Action::Group(1)]),
        Update::AddGroup(group(3, GroupKind::All, &[])),
    ]);
    assert_eq!(shown(&bench), ["1:11 1000 1"]);
    assert_eq!(stats(&bench, 1), before, "an equal group keeps its counters");
    let groups: Vec<_> = bench.state.groups(None, Millis(1000)).iter().map(|g| (g.group.id, g.duration_ms)).collect();
    assert_eq!(groups, [(1, 1000), (3, 0)]);
    let meters: Vec<_> = bench.state.meters(None, Millis(1000)).iter().map(|m| (m.meter.id, m.duration_ms)).collect();
    assert_eq!(meters, [(1, 1000)]);
    let other = Update::AddGroup(group(1, GroupKind::Select, &[]));
    bench.ok(&[Update::ReplaceAll { meters: false }, other.clone()]);
    let groups: Vec<_> = bench.state.groups(None, Millis(1000)).iter().map(|g| (g.group.id, g.duration_ms)).collect();
    assert_eq!((groups, bench.flows().len()), (vec![(1, 0)], 0), "another group of that id");
    assert_eq!(bench.state.meters(None, Millis(1000)).len(), 1, "meters were not asked for");
    let twice = [Update::ReplaceAll { meters: true }, add_group(1), other];
    assert_eq!(bench.refused(&twice), (2, "OFPGMFC_GROUP_EXISTS"));
    let stale = [Update::ReplaceAll { meters: true }, add(0, 1, 1, 1, &[Action::Group(1)])];
    assert_eq!(bench.refused(&stale), (1, "OFPBAC_BAD_OUT_GROUP"), "the group was swept");
    bench.ok(&[Update::ReplaceAll { meters: true }]);
    let state = &bench.state;
    assert!(
        bench.flows().is_empty()
            && state.groups(None, Millis(0)).is_empty()
            && state.meters(None, Millis(0)).is_empty()
    );
}
