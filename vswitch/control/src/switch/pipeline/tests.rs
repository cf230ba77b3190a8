//! A switch with workers and without devices.

use super::*;
use crate::config::SwitchConfig;
use crate::info::{BridgeChange, BridgeConfig, FailMode};
use vswitch_dataplane::port::{PortConfig, PortKind};
use vswitch_flow::Action;
use vswitch_flow::action::port::NORMAL;
use vswitch_flow::spec::{FlowFlags, FlowSpec, GroupKind, GroupSpec, Selection};

fn switch() -> Arc<Switch> {
    let mut config = SwitchConfig::with_defaults(&[0]);
    config.dpdk.mbufs = Some(64);
    config.worker.idle_sleep_us = 100;
    let switch = Switch::start(&config).expect("starts");
    switch.add_bridge(BridgeConfig::new("br0")).expect("a bridge");
    switch
}

fn flow(priority: u16) -> FlowSpec {
    FlowSpec {
        table: 0,
        priority,
        matching: Arc::default(),
        cookie: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags { send_flow_rem: true, ..FlowFlags::default() },
        actions: [].into(),
    }
}

fn flows(switch: &Switch, bridge: &str) -> Vec<FlowSpec> {
    let infos = switch.flows(bridge, &FlowFilter::default()).expect("a bridge");
    infos.into_iter().map(|info| info.flow).collect()
}

#[test]
fn a_transaction_reaches_the_world_and_a_refused_one_does_not() {
    let switch = switch();
    let world = || Arc::clone(&switch.publisher.current().world);
    let before = world();
    let group = GroupSpec { id: 3, kind: GroupKind::All, selection: Selection::Default, buckets: Vec::new() };
    let applied = switch.write_pipeline("br0", &[Update::AddGroup(group), Update::AddFlow(flow(5))]);
    assert_eq!(applied.expect("applied").counts, [1, 1]);
    let after = world();
    assert_eq!((after.number, after.ports_changed), (before.number + 1, before.ports_changed));
    let program = &after.bridges[0].program;
    assert_eq!(program.table(0).map(|table| (table.rules.len(), table.changed)), Some((1, after.number)));
    assert_eq!(program.groups_changed, after.number);
    assert!(Arc::ptr_eq(&before.bridges[0].packet_ins, &after.bridges[0].packet_ins));

    let refused =
        switch.write_pipeline("br0", &[Update::AddFlow(flow(6)), Update::AddFlow(FlowSpec { table: 254, ..flow(7) })]);
    assert!(matches!(refused, Err(WriteError::Refused(Refused { index: 1, code: "OFPBRC_EPERM", .. }))), "{refused:?}");
    assert!(Arc::ptr_eq(&after, &world()), "nothing was published");
    assert_eq!(flows(&switch, "br0").len(), 1);
    assert_eq!(switch.groups("br0", None).expect("groups").len(), 1);
    assert_eq!(switch.meters("br0", Some(3)).expect("meters").len(), 0);
    assert!(matches!(switch.write_pipeline("nobr", &[]), Err(WriteError::Switch(SwitchError::NotFound { .. }))));
    assert!(switch.flows("nobr", &FlowFilter::default()).is_err());
}

#[test]
fn ports_and_programs_change_apart() {
    let switch = switch();
    switch.write_pipeline("br0", &[Update::AddFlow(flow(5))]).expect("applied");
    switch.add_port("br0", PortConfig::new("p1", PortKind::Patch { peer: "q1".to_owned() })).expect("a port");
    let world = Arc::clone(&switch.publisher.current().world);
    assert_eq!(world.ports_changed, world.number);
    assert_eq!(world.bridges[0].program.table(0).map(|table| table.rules.len()), Some(1));
    switch.write_pipeline("br0", &[Update::AddFlow(flow(6))]).expect("applied");
    let next = Arc::clone(&switch.publisher.current().world);
    assert_eq!((next.number, next.ports_changed), (world.number + 1, world.number));
    assert_eq!((next.ports.len(), &next.bridges[0].numbers), (1, &world.bridges[0].numbers));

    switch.add_table("br0", Some(3), "Classifier").expect("a table");
    let names = switch.names("br0").expect("names");
    assert_eq!((names.port("p1"), names.port_name(1), names.port("q1")), (Some(1), Some("p1"), None));
    assert_eq!(
        (names.table("Classifier"), names.table_name(3), names.table_name(0)),
        (Some(3), Some("Classifier"), None)
    );
}

#[test]
fn a_standalone_bridge_has_a_flow_that_can_be_seen_and_deleted() {
    let switch = switch();
    let standalone = BridgeConfig { fail_mode: FailMode::Standalone, ..BridgeConfig::new("br1") };
    switch.add_bridge(standalone).expect("a bridge");
    let actions: Arc<[Action]> = [Action::Output { port: NORMAL, max_len: None }].into();
    let normal = FlowSpec { actions, flags: FlowFlags::default(), ..flow(0) };
    assert_eq!(flows(&switch, "br1"), std::slice::from_ref(&normal));
    assert!(flows(&switch, "br0").is_empty());
    let set = |bridge: &str, mode| {
        let change = BridgeChange { fail_mode: Some(mode), ..BridgeChange::default() };
        switch.set_bridge(bridge, change).expect("a bridge");
    };
    set("br1", FailMode::Secure);
    assert!(flows(&switch, "br1").is_empty());
    set("br0", FailMode::Standalone);
    assert_eq!(flows(&switch, "br0"), std::slice::from_ref(&normal));
    // An agent's flows stay.
    switch.write_pipeline("br0", &[Update::AddFlow(flow(5))]).expect("applied");
    set("br0", FailMode::Secure);
    assert_eq!(flows(&switch, "br0"), [normal, flow(5)]);
    switch.write_pipeline("br0", &[Update::DeleteFlows(FlowFilter::default())]).expect("applied");
    assert!(flows(&switch, "br0").is_empty());
    switch.write_pipeline("br0", &[Update::AddFlow(flow(5))]).expect("applied");
    set("br0", FailMode::Standalone);
    assert_eq!(flows(&switch, "br0"), [flow(5)]);
}

#[test]
fn tables_have_names() {
    let switch = switch();
    switch.write_pipeline("br0", &[Update::AddFlow(FlowSpec { table: 1, ..flow(5) })]).expect("applied");
    // Number and name; the number, or what the error says.
    let cases: &[(Option<u8>, &str, Result<u8, &str>)] = &[
        (None, "Zero", Ok(0)),
        (None, "Two", Ok(2)),
        (Some(1), "HasFlows", Ok(1)),
        (Some(253), "a-b.c_9", Ok(253)),
        (Some(9), "Two", Err("it is table 2")),
        (Some(2), "Other", Err("its name is \"Two\"")),
        (Some(254), "Hidden", Err("254 is no table")),
        (None, "", Err("is not a table's name")),
        (None, "9lives", Err("is not a table's name")),
        (None, "a b", Err("is not a table's name")),
        (None, "All", Err("is not a table's name")),
        (None, "x234567890123456789012345678901", Ok(3)),
        (None, "x2345678901234567890123456789012", Err("is not a table's name")),
    ];
    for (number, name, expected) in cases {
        let result = switch.add_table("br0", *number, name).map_err(|error| error.to_string());
        match (&result, expected) {
            (Ok(number), Ok(expected)) => assert_eq!(number, expected, "{name:?}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{name:?}: {error}"),
            _ => panic!("{number:?} {name:?}: {result:?}, not {expected:?}"),
        }
    }
    let tables: Vec<_> = switch.tables("br0").expect("tables").into_iter().map(|t| (t.id, t.flows)).collect();
    assert_eq!(tables, [(0, 0), (1, 1), (2, 0), (3, 0), (253, 0)]);
    // Without its name a table keeps its flows, and may get another name.
    assert_eq!(switch.delete_table("br0", "HasFlows").map_err(|error| error.to_string()), Ok(1));
    let error = switch.delete_table("br0", "HasFlows").expect_err("it has gone").to_string();
    assert!(error.contains("table \"HasFlows\" does not exist; `vsctl dump-tables br0`"), "{error}");
    assert_eq!(switch.add_table("br0", Some(1), "Renamed").map_err(|error| error.to_string()), Ok(1));
    let named = |table: &TableInfo| (table.id == 1).then(|| (table.name.clone(), table.flows));
    let tables = switch.tables("br0").expect("tables");
    assert_eq!(tables.iter().find_map(named), Some((Some("Renamed".to_owned()), 1)));
}

#[test]
fn subscribers_hear_of_flows_that_go() {
    let switch = switch();
    let mut events = switch.subscribe_flows("br0").expect("a bridge");
    let timed = FlowSpec { hard_timeout: 1, ..flow(6) };
    switch.write_pipeline("br0", &[Update::AddFlow(flow(5)), Update::AddFlow(timed)]).expect("applied");
    let strict = FlowFilter { strict: Some(5), ..FlowFilter::default() };
    switch.write_pipeline("br0", &[Update::DeleteFlows(strict)]).expect("applied");
    assert_eq!(events.try_recv().expect("an event").flow.flow, flow(5));
    let start = std::time::Instant::now();
    let expired = loop {
        match events.try_recv() {
            Ok(event) => break event,
            Err(error) => assert!(start.elapsed().as_secs() < 60, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!((expired.flow.flow.priority, expired.reason), (6, pipeline::state::RemovedReason::HardTimeout));
    assert!(flows(&switch, "br0").is_empty());
}
