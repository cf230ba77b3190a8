//! A switch whose writer, or whose worker, does not move.

use super::pipeline::{TraceHow, TraceInput};
use super::*;
use crate::config::SwitchConfig;
use crate::info::{BridgeConfig, PortEventKind, SwitchError};
use std::sync::mpsc;
use std::time::Duration;
use vswitch_dataplane::port::{PortConfig, PortKind};
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_flow::text::{FlowCommand, NoNames, parse_flow};

/// A hang, not a delay, is what fails a test.
const LIMIT: Duration = Duration::from_secs(60);

/// Bridge br0 with the ports p1 and p2; packets of p1 leave by p2.
fn switch() -> Arc<Switch> {
    let mut config = SwitchConfig::with_defaults(&[0]);
    config.dpdk.mbufs = Some(64);
    config.enable_dummy = true;
    let switch = Switch::start(&config).expect("starts");
    switch.add_bridge(BridgeConfig::new("br0")).expect("a bridge");
    for port in ["p1", "p2"] {
        switch.add_port("br0", PortConfig::new(port, PortKind::Dummy)).expect("a port");
    }
    switch.write_pipeline("br0", &[flow("in_port=1,actions=output:2")]).expect("a flow");
    switch
}

fn flow(text: &str) -> Update {
    parse_flow(text, FlowCommand::Add, &NoNames).expect("a flow").value
}

/// Asks for everything that can be asked, and how many ports there are.
fn read(switch: &Switch) -> usize {
    let bridge = "br0";
    switch.names(bridge).expect("names");
    switch.fdb(bridge).expect("addresses");
    switch.fdb_stats(bridge).expect("numbers");
    switch.tables(bridge).expect("tables");
    switch.flows(bridge, &FlowFilter::default()).expect("flows");
    switch.count_flows(bridge, &[0], &mut |_| ()).expect("counts");
    switch.rule_stats(bridge, &[]).expect("counters");
    switch.groups(bridge, None).expect("groups");
    switch.meters(bridge, None).expect("meters");
    switch.controllers(bridge).expect("controllers");
    switch.option_map(bridge).expect("options");
    switch.subscribe_flows(bridge).expect("events");
    let input = TraceInput::Flow("in_port=1".to_owned());
    switch.trace(bridge, &input, &TraceHow::default()).expect("a story");
    let _ = (switch.megaflows(None), switch.rxqs(), switch.routes(), switch.neighbours(), switch.tunnel_listeners());
    let _ = (switch.neighbour_stats(), switch.mempool(), switch.workers(), switch.health());
    assert_eq!(switch.bridges().len(), 1);
    switch.ports(bridge).expect("ports").len()
}

/// A transaction may hold the locks for seconds.
#[test]
fn a_reader_takes_no_lock_of_the_writer() {
    let switch = switch();
    let (turn, state) = (switch.turn.lock(), switch.state.lock());
    let (told, answer) = mpsc::channel();
    let reader = Arc::clone(&switch);
    std::thread::spawn(move || told.send(read(&reader)));
    assert_eq!(answer.recv_timeout(LIMIT), Ok(2), "a reader waits for the writer");
    drop((turn, state));
    assert_eq!(switch.stop(), Stopped::Clean);
}

/// A worker waits for a transmit queue that somebody keeps. What a change leaves is done when it
/// moves: until then the device is not closed, and nobody is told.
#[test]
fn what_a_change_leaves_is_done_when_the_worker_moves() {
    let switch = switch();
    let shared = {
        let current = switch.publisher.current();
        let port = |name: &str| current.ports.iter().flatten().find(|port| port.shared.name == name).expect("a port");
        [Arc::clone(&port("p1").shared), Arc::clone(&port("p2").shared)]
    };
    let [_, to] = &shared;
    let kept = to.tx[0].lock();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.resize(60, 0);
    let stuck = switch.dummy_receive("p1", &frame);
    assert!(stuck.is_err(), "the worker has moved: {stuck:?}");

    let mut events = switch.subscribe();
    let late = switch.delete_port("br0", "p1").expect_err("the worker does not move");
    assert!(matches!(&late, SwitchError::Late(text) if text.contains("worker-0 has not moved")), "{late:?}");
    assert_eq!(read(&switch), 1, "it is removed");
    let busy = switch.add_bridge(BridgeConfig::new("br1")).expect_err("an earlier change waits");
    assert!(matches!(&busy, SwitchError::Busy(text) if text.contains("worker-0 has not moved")), "{busy:?}");
    assert!(events.try_recv().is_err(), "the worker may use the port");

    drop(kept);
    let weak = shared.each_ref().map(Arc::downgrade);
    drop(shared);
    let begin = std::time::Instant::now();
    while weak[0].upgrade().is_some() {
        assert!(begin.elapsed() < LIMIT, "the device is not closed");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(weak[1].upgrade().is_some(), "the other port is there");
    let event = events.try_recv().expect("told before it is closed");
    assert_eq!((event.kind, event.port.config.name.as_str()), (PortEventKind::Removed, "p1"));
    switch.add_bridge(BridgeConfig::new("br1")).expect("nothing is in the way");
    assert_eq!(switch.stop(), Stopped::Clean);
}

/// The switch stops, whatever a worker waits for, and touches nothing that it may use.
#[test]
fn a_switch_stops_without_a_worker_that_does_not_move() {
    let switch = switch();
    let to = {
        let current = switch.publisher.current();
        let port = current.ports.iter().flatten().find(|port| port.shared.name == "p2");
        Arc::clone(&port.expect("a port").shared)
    };
    let kept = to.tx[0].lock();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.resize(60, 0);
    switch.dummy_receive("p1", &frame).expect_err("the worker does not move");
    let (told, answer) = mpsc::channel();
    let stopping = Arc::clone(&switch);
    std::thread::spawn(move || told.send(stopping.stop()));
    assert_eq!(answer.recv_timeout(LIMIT), Ok(Stopped::Left));
    assert!(Arc::strong_count(&to) > 1, "the worker has it");
    drop(kept);
}
