//! What a transaction is judged by: order, final state, all or nothing.

use super::*;
use crate::pipeline::state::FlowRemoved;

#[test]
fn references_are_judged_on_the_final_state() {
    let uses = |reg0| add(0, 1, reg0, 1, &[Action::Group(1)]);
    let hidden = |reg0| add(0, 1, reg0, 2, &[clone(clone(Action::Group(1)))]);
    let metered = |reg0| add(0, 1, reg0, 3, &[Action::Meter(1)]);
    let (gone, meter_gone) = (Update::DeleteGroups(Some(1)), Update::DeleteMeters(None));
    let out_group = FlowFilter { out_group: Some(1), ..FlowFilter::default() };
    // Updates on top of a group 1 and a meter 1 with a flow each (reg0 1 and 2); the flows that are
    // there then, or the refusal.
    type Outcome = Result<&'static [&'static str], (usize, &'static str)>;
    let cases: &[(&str, &[Update], Outcome)] = &[
        ("the group goes", std::slice::from_ref(&gone), Ok(&["0/1:3"])),
        ("the meter goes", std::slice::from_ref(&meter_gone), Ok(&["0/1:1"])),
        ("the group comes again", &[gone.clone(), add_group(1)], Ok(&["0/1:1", "0/1:3"])),
        ("used, then gone", &[uses(3), hidden(4), gone.clone()], Ok(&["0/1:3"])),
        ("gone, then used", &[gone.clone(), uses(3)], Err((1, "OFPBAC_BAD_OUT_GROUP"))),
        ("gone, then used inside", &[gone.clone(), hidden(3)], Err((1, "OFPBAC_BAD_OUT_GROUP"))),
        ("gone, used, comes", &[gone.clone(), uses(3), add_group(1)], Ok(&["0/1:1", "0/1:3", "0/1:1"])),
        ("comes and goes", &[gone.clone(), add_group(1), uses(3), gone.clone()], Ok(&["0/1:3"])),
        ("gone, used, and the flow gone", &[gone.clone(), uses(3), delete(out_group)], Ok(&["0/1:3"])),
        (
            "used before it comes",
            &[add(0, 1, 9, 9, &[Action::Group(5)]), add_group(5)],
            Ok(&["0/1:1", "0/1:3", "0/1:9"]),
        ),
        ("never there", &[add(0, 1, 9, 9, &[Action::Group(5)])], Err((0, "OFPBAC_BAD_OUT_GROUP"))),
        (
            "no such meter",
            &[add_group(5), metered(9), add(0, 1, 9, 9, &[Action::Meter(5)])],
            Err((2, "OFPMMFC_INVALID_METER")),
        ),
        ("meter gone, then used", &[meter_gone.clone(), metered(9)], Err((1, "OFPMMFC_INVALID_METER"))),
    ];
    for (name, updates, outcome) in cases {
        let mut bench = Bench::default();
        bench.ok(&[add_group(1), add_meter(1), uses(1), metered(2)]);
        match outcome {
            Ok(flows) => {
                bench.ok(updates);
                assert_eq!(bench.flows(), *flows, "{name}");
            }
            Err(refused) => assert_eq!(bench.refused(updates), *refused, "{name}"),
        }
    }
}

#[test]
fn a_meter_of_packet_ins_may_be_missing() {
    let limited = Controller { meter: Some(9), ..Controller::default() };
    let mut bench = Bench::default();
    bench.ok(&[add(0, 1, 1, 1, &[Action::Controller(Box::new(limited))])]);
    bench.ok(&[add_meter(9)]);
    bench.ok(&[Update::DeleteMeters(Some(9))]);
    assert_eq!(bench.flows(), ["0/1:1"], "observed");
}

#[test]
fn flows_that_go_tell_why() {
    let told = |cookie, reg0, actions: &[Action]| {
        let flags = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
        Update::AddFlow(FlowSpec { flags, ..flow(0, 1, reg0, cookie, actions) })
    };
    let cookie = |cookie| FlowFilter { cookie, cookie_mask: u64::MAX, ..FlowFilter::default() };
    let cases: &[(&str, &[Update], &[&str])] = &[
        ("group", &[Update::DeleteGroups(None)], &["1:1 GroupDelete"]),
        ("meter", &[Update::DeleteMeters(Some(1))], &["1:2 MeterDelete"]),
        ("flow", &[delete(cookie(2))], &["1:2 Delete"]),
        ("flow first, then its group", &[delete(cookie(1)), Update::DeleteGroups(None)], &["1:1 Delete"]),
        ("last learn", &[delete(cookie(3))], &["1:3 Delete", "1:7 Delete"]),
        ("did not ask", &[delete(cookie(4))], &[]),
        ("swept", &[Update::ReplaceFlows(cookie(7)), told(8, 8, &[])], &["1:7 Delete"]),
        ("added over, modified", &[told(9, 5, &[]), told(9, 2, &[])], &[]),
        ("came and went", &[told(10, 10, &[]), delete(cookie(10))], &["1:a Delete"]),
    ];
    for (name, updates, events) in cases {
        let mut bench = Bench::default();
        bench.ok(&[
            add_group(1),
            add_meter(1),
            told(1, 1, &[Action::Group(1)]),
            told(2, 2, &[Action::Meter(1)]),
            told(3, 3, &[learn(0, 0x7)]),
            add(0, 1, 4, 4, &[]),
            told(0x7, 5, &[]),
        ]);
        bench.hit(1, 5);
        bench.ok(updates);
        let removed = bench.state.take_removed();
        let shown = |r: &FlowRemoved| format!("{}:{:x} {:?}", r.flow.flow.priority, r.flow.flow.cookie, r.reason);
        assert_eq!(removed.iter().map(shown).collect::<Vec<_>>(), *events, "{name}");
        let packets = removed.iter().filter(|r| r.flow.flow.cookie < 8).map(|r| r.flow.counters.packets);
        assert!(packets.into_iter().all(|packets| packets == 5), "{name}: final counters");
        assert!(bench.state.take_removed().is_empty(), "{name}: told once");
    }
}

#[test]
fn learned_cookies_go_with_their_last_learn() {
    let base = [
        add(0, 1, 1, 0xa, &[learn(5, 0x77)]),
        add(0, 2, 1, 0xb, &[output(1), learn(5, 0x77)]),
        add(0, 3, 1, 0xc, &[clone(learn(5, 0x77))]),
        add(5, 4, 1, 0x77, &[]),
        add(5, 5, 1, 0x78, &[]),
        add(6, 6, 1, 0x77, &[]),
    ];
    let strict = |priority| FlowFilter {
        strict: Some(priority),
        ..FlowFilter { matching: matching(&[(Field::Reg0, 1)]), ..table(0) }
    };
    let modify = |priority, actions: &[Action]| Update::ModifyFlows {
        filter: strict(priority),
        actions: actions.into(),
        reset_counts: false,
        cookie: None,
    };
    let gone: &[&str] = &["5/5:78", "6/6:77"];
    let kept: &[&str] = &["5/4:77", "5/5:78", "6/6:77"];
    let cases: &[(&str, &[Update], &[&str])] = &[
        ("one is left", &[delete(strict(1))], kept),
        ("both go", &[delete(strict(1)), delete(strict(2))], gone),
        ("modified to have none", &[delete(strict(1)), modify(2, &[])], gone),
        ("modified to have it still", &[delete(strict(1)), modify(2, &[learn(5, 0x77)])], kept),
        ("gone and back", &[delete(table(0)), add(0, 9, 9, 9, &[learn(5, 0x77)])], kept),
        ("added over", &[delete(strict(2)), add(0, 1, 1, 1, &[])], gone),
        ("in another table", &[delete(table(0)), add(0, 9, 9, 9, &[learn(6, 0x77)])], gone),
    ];
    for (name, updates, left) in cases {
        let mut bench = Bench::default();
        bench.ok(&base);
        bench.ok(updates);
        let flows = bench.flows();
        let learned: Vec<&str> = flows.iter().map(String::as_str).filter(|flow| !flow.starts_with("0/")).collect();
        assert_eq!(learned, *left, "{name}");
    }
    // What goes may have been the last learn of another cookie.
    let mut bench = Bench::default();
    bench.ok(&[add(0, 1, 1, 0, &[learn(1, 1)]), add(1, 1, 1, 1, &[learn(2, 2)]), add(2, 1, 1, 2, &[learn(1, 1)])]);
    bench.ok(&[add(3, 1, 1, 0, &[learn(1, 1)]), delete(table(3))]);
    assert_eq!(bench.flows().len(), 3);
    bench.ok(&[delete(table(2)), delete(table(0))]);
    assert!(bench.flows().is_empty(), "{:?}", bench.flows());
}

#[test]
fn a_bad_update_anywhere_changes_nothing() {
    let updates = [
        add_group(2),
        add_meter(2),
        add(0, 1, 1, 1, &[Action::Group(2), output(1)]),
        add(4, 9, 9, 9, &[Action::Meter(2)]),
        delete(FlowFilter { cookie: 8, cookie_mask: u64::MAX, ..FlowFilter::default() }),
        Update::ModifyFlows { filter: table(1), actions: [output(3)].into(), reset_counts: true, cookie: Some(3) },
        Update::ModifyGroup { spec: group(1, GroupKind::All, &[]), may_create: false },
        Update::InsertBuckets { group: 1, place: BucketPlace::Last, buckets: vec![bucket(70, &[])] },
        Update::ModifyMeter(meter(1, 7)),
        Update::DeleteGroups(Some(1)),
        Update::DeleteMeters(None),
        Update::ReplaceFlows(table(1)),
        add(1, 20, 1, 5, &[]),
        Update::ReplaceAll { meters: true },
        add(1, 21, 1, 6, &[learn(1, 6)]),
        delete(table(1)),
    ];
    // Nothing sweeps or deletes a bad reference among these.
    let additions = [add_group(2), add(0, 1, 1, 1, &[Action::Group(2)]), add_meter(2), add(4, 9, 9, 9, &[learn(1, 8)])];
    let batches: [(&[Update], Update); 3] = [
        (&updates, add(254, 1, 1, 1, &[])),
        (&updates, Update::DeleteFlows(table(254))),
        (&additions, add(3, 1, 1, 1, &[clone(Action::Group(404))])),
    ];
    for (batch, bad) in batches {
        for position in 0..=batch.len() {
            let mut bench = Bench::default();
            bench.ok(&[
                add_group(1),
                add_meter(1),
                add(0, 1, 1, 7, &[Action::Group(1)]),
                add(0, 2, 2, 8, &[Action::Meter(1), learn(1, 8)]),
                add(1, 3, 3, 8, &[]),
                Update::AddFlow(FlowSpec { idle_timeout: 9, ..flow(1, 4, 4, 9, &[]) }),
            ]);
            bench.hit(3, 2);
            bench.now = 2000;
            let mut batch = batch.to_vec();
            batch.insert(position, bad.clone());
            let program = bench.state.program();
            assert_eq!(bench.refused(&batch).0, position);
            assert!(Arc::ptr_eq(&program, &bench.state.program()), "not even the program is another");
            assert!(bench.removed().is_empty());
            batch.remove(position);
            bench.ok(&batch);
        }
    }
}
