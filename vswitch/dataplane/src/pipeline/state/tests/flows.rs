//! Adding, modifying, deleting and selecting flows.

use super::*;

#[test]
fn an_add_over_an_equal_flow_replaces_all_but_its_counters() {
    let mut bench = Bench::default();
    let timed = FlowSpec { idle_timeout: 5, hard_timeout: 6, importance: 7, ..flow(3, 10, 1, 7, &[]) };
    assert_eq!(bench.ok(&[Update::AddFlow(timed), add(0, 10, 1, 8, &[output(2)])]), [1, 1]);
    assert_eq!(bench.flows(), ["0/10:8", "3/10:7"]);
    bench.ok(&[delete(table(0))]);
    bench.now = 4000;
    bench.hit(10, 3);
    let info = bench.flow(10);
    assert_eq!((info.counters.duration_ms, info.counters.packets, info.counters.bytes), (4000, 3, 180));
    bench.now = 9000;
    let events = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
    bench.ok(&[Update::AddFlow(FlowSpec { flags: events, ..flow(3, 10, 1, 9, &[output(1)]) })]);
    let info = bench.flow(10);
    assert_eq!(info.flow, FlowSpec { flags: events, ..flow(3, 10, 1, 9, &[output(1)]) });
    let counters = info.counters;
    assert_eq!((counters.duration_ms, counters.packets, counters.idle_age_s), (0, 3, 5), "the last hit is kept");
    let reset = FlowFlags { reset_counts: true, ..FlowFlags::default() };
    bench.ok(&[Update::AddFlow(FlowSpec { flags: reset, ..flow(3, 10, 1, 9, &[]) })]);
    let counters = bench.flow(10).counters;
    assert_eq!((counters.packets, counters.bytes, counters.idle_age_s), (0, 0, 5));
    assert!(bench.removed().is_empty(), "a flow that is replaced does not tell");
}

#[test]
fn overlap_is_looked_for_only_when_asked_for() {
    let both = FlowSpec { matching: matching(&[(Field::Reg0, 1), (Field::Reg1, 1)]), ..flow(0, 5, 0, 0, &[]) };
    let all = FlowSpec { matching: Arc::default(), ..flow(0, 5, 0, 0, &[]) };
    // What is there, what is added with check_overlap, whether it may be.
    let cases = [
        ("narrower", flow(0, 5, 1, 0, &[]), both.clone(), false),
        ("wider", both.clone(), flow(0, 5, 1, 0, &[]), false),
        ("everything", both.clone(), all.clone(), false),
        ("other value", flow(0, 5, 1, 0, &[]), flow(0, 5, 2, 0, &[]), true),
        ("other priority", flow(0, 5, 1, 0, &[]), FlowSpec { priority: 6, ..both.clone() }, true),
        ("other table", flow(0, 5, 1, 0, &[]), FlowSpec { table: 1, ..both.clone() }, true),
        ("identical", both.clone(), both, true),
    ];
    for (name, there, mut added, fits) in cases {
        let mut bench = Bench::default();
        bench.ok(&[Update::AddFlow(there), Update::AddFlow(FlowSpec { priority: 1, ..all.clone() })]);
        added.flags.check_overlap = true;
        if fits {
            bench.ok(&[Update::AddFlow(added)]);
        } else {
            assert_eq!(bench.refused(&[Update::AddFlow(added)]), (0, "OFPFMFC_OVERLAP"), "{name}");
        }
    }
}

#[test]
fn a_modify_changes_actions_alone() {
    let mut bench = Bench::default();
    let timed = FlowSpec { idle_timeout: 50, hard_timeout: 60, ..flow(1, 10, 1, 7, &[]) };
    bench.ok(&[Update::AddFlow(timed.clone()), add(1, 11, 2, 8, &[]), add(2, 12, 1, 9, &[])]);
    bench.hit(10, 2);
    bench.now = 5000;
    let modify = |filter, actions: &[Action], reset_counts, cookie| Update::ModifyFlows {
        filter,
        actions: actions.into(),
        reset_counts,
        cookie,
    };
    assert_eq!(bench.ok(&[modify(table(1), &[output(4)], false, None)]), [2]);
    let info = bench.flow(10);
    assert_eq!(info.flow, FlowSpec { actions: [output(4)].into(), ..timed.clone() });
    let counters = info.counters;
    assert_eq!((counters.duration_ms, counters.packets, counters.hard_age_s), (5000, 2, 0));
    assert!(bench.flow(12).flow.actions.is_empty());
    let strict = FlowFilter { strict: Some(10), matching: Arc::clone(&timed.matching), ..FlowFilter::default() };
    assert_eq!(bench.ok(&[modify(strict.clone(), &[output(5)], true, Some(0xc0))]), [1]);
    let info = bench.flow(10);
    assert_eq!((info.flow.cookie, info.counters.packets, info.counters.duration_ms), (0xc0, 0, 5000));
    let nothing = FlowFilter { strict: Some(99), ..strict };
    assert_eq!(bench.ok(&[modify(nothing, &[Action::Group(9)], false, None)]), [0], "nothing takes the list");
    assert_eq!(bench.refused(&[modify(table(1), &[Action::Group(9)], false, None)]), (0, "OFPBAC_BAD_OUT_GROUP"));
}

#[test]
fn filters_select() {
    let mut bench = Bench::default();
    let two = FlowSpec { matching: matching(&[(Field::Reg0, 1), (Field::Reg1, 5)]), ..flow(1, 12, 0, 0x12, &[]) };
    let truncated = Action::Output { port: 2, max_len: Some(100) };
    let packet_in = Action::Controller(Box::default());
    bench.ok(&[
        add_group(7),
        add(0, 10, 1, 0x10, &[output(2)]),
        add(1, 11, 1, 0x11, &[clone(output(2)), Action::Group(7)]),
        Update::AddFlow(two),
        add(1, 13, 2, 0x23, &[write(output(2))]),
        add(2, 14, 2, 0x24, &[clone(Action::Group(7)), truncated]),
        add(2, 15, 3, 0x24, &[packet_in, write(Action::Group(7))]),
        Update::AddFlow(FlowSpec { matching: Arc::default(), ..flow(2, 0, 0, 0, &[output(3)]) }),
    ]);
    let all = FlowFilter::default;
    let reg0 = |value| matching(&[(Field::Reg0, value)]);
    let cases: &[(&str, FlowFilter, &[&str])] = &[
        ("all", all(), &["0/10:10", "1/11:11", "1/12:12", "1/13:23", "2/14:24", "2/15:24", "2/0:0"]),
        ("table", table(1), &["1/11:11", "1/12:12", "1/13:23"]),
        ("loose", FlowFilter { matching: reg0(1), ..all() }, &["0/10:10", "1/11:11", "1/12:12"]),
        ("strict", FlowFilter { matching: reg0(1), strict: Some(11), ..all() }, &["1/11:11"]),
        ("strict, other priority", FlowFilter { matching: reg0(1), strict: Some(12), ..all() }, &[]),
        ("strict, everything", FlowFilter { strict: Some(0), ..all() }, &["2/0:0"]),
        ("cookie", FlowFilter { cookie: 0x24, cookie_mask: u64::MAX, ..all() }, &["2/14:24", "2/15:24"]),
        ("cookie, table", FlowFilter { cookie: 0x24, cookie_mask: u64::MAX, ..table(1) }, &[]),
        ("masked cookie", FlowFilter { cookie: 0x20, cookie_mask: 0xf0, ..all() }, &["1/13:23", "2/14:24", "2/15:24"]),
        ("bits outside the mask", FlowFilter { cookie: 0x2f, cookie_mask: 0xf0, ..table(1) }, &["1/13:23"]),
        ("out_port", FlowFilter { out_port: Some(2), ..all() }, &["0/10:10", "1/11:11", "1/13:23"]),
        ("to a controller", FlowFilter { out_port: Some(0xffff_fffd), ..all() }, &["2/15:24"]),
        ("out_group", FlowFilter { out_group: Some(7), ..all() }, &["1/11:11", "2/14:24", "2/15:24"]),
        ("other group", FlowFilter { out_group: Some(8), ..all() }, &[]),
    ];
    for (name, filter, selected) in cases {
        assert_eq!(bench.select(filter), *selected, "{name}");
        let mut copy = Bench::default();
        let there: Vec<Update> =
            bench.state.flows(&all(), Millis(0)).into_iter().map(|info| Update::AddFlow(info.flow)).collect();
        copy.ok(&[&[add_group(7)], &there[..]].concat());
        assert_eq!(copy.ok(&[delete(filter.clone())]), [selected.len() as u64], "{name}: deleted");
        let left: Vec<String> = bench.flows().into_iter().filter(|flow| !selected.contains(&&**flow)).collect();
        assert_eq!(copy.flows(), left, "{name}: left");
    }
}

#[test]
fn tables_are_0_to_253() {
    let mut bench = Bench::default();
    bench.ok(&[add(255, 1, 1, 1, &[]), add(253, 1, 1, 2, &[])]);
    assert_eq!(bench.flows(), ["0/1:1", "253/1:2"], "255 is table 0 in an add");
    let modify = Update::ModifyFlows { filter: table(254), actions: [].into(), reset_counts: false, cookie: None };
    for update in [add(254, 1, 1, 3, &[]), delete(table(254)), modify, Update::ReplaceFlows(table(254))] {
        assert_eq!(bench.refused(&[add(1, 1, 1, 1, &[]), update]), (1, "OFPBRC_EPERM"));
    }
    assert_eq!(bench.ok(&[delete(table(255))]), [2], "255 is all tables in a filter");
}

#[test]
fn only_tables_that_change_are_new_in_a_world() {
    let mut bench = Bench::default();
    bench.ok(&[add(0, 1, 1, 1, &[]), add(1, 1, 1, 1, &[])]);
    let before = bench.state.program();
    bench.ok(&[add(1, 2, 1, 1, &[]), add_group(1)]);
    let after = bench.state.program();
    assert_eq!((bench.changed(0), bench.changed(1), after.groups_changed), (1, 2, 2));
    assert!(Arc::ptr_eq(before.table(0).expect("a table"), after.table(0).expect("a table")));
    assert_eq!(before.table(1).map(|table| table.rules.len()), Some(1), "a program does not change");
    bench.ok(&[delete(table(0))]);
    assert_eq!((bench.changed(0), bench.changed(1), bench.state.program().groups_changed), (3, 2, 2));
    bench.refused(&[delete(table(1)), Update::DeleteGroups(None), add(254, 1, 1, 1, &[])]);
    assert_eq!((bench.changed(1), bench.state.program().groups_changed), (2, 2));
}
