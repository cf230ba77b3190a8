//! A whole switch in this process, with dummy ports: what the facilities for tests promise, and
//! that the control side and the workers fit together. One test, since the clock is the process's.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use vswitch_conntrack::{End, EventKind, Filter, L4, Request, Seen, Tuple, protocol};
use vswitch_control::switch::pipeline::WriteError;
use vswitch_control::{BridgeConfig, Switch, SwitchConfig, SwitchError};
use vswitch_dataplane::port::{PortConfig, PortKind};
use vswitch_dataplane::time::Millis;
use vswitch_dpdk::lcore;
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_flow::text::{FlowCommand, NoNames, parse_flow, parse_packet_out};

fn config(enable_dummy: bool) -> SwitchConfig {
    let mut config = SwitchConfig::with_defaults(&lcore::available_cores());
    config.dpdk.hugepages = false;
    config.dpdk.memory_mb = 64;
    config.dpdk.mbufs = Some(4096);
    config.dpdk.file_prefix = Some(format!("dummy{}", std::process::id()));
    config.worker.idle_sleep_us = 1000;
    config.enable_dummy = enable_dummy;
    config
}

fn add_flow(switch: &Switch, line: &str) {
    let update = parse_flow(line, FlowCommand::Add, &NoNames).expect("a good line").value;
    switch.write_pipeline("br0", &[update]).expect("a good flow");
}

fn packets_of(switch: &Switch) -> Vec<(u8, u64, u64)> {
    let infos = switch.flows("br0", &FlowFilter::default()).expect("the bridge");
    infos.iter().map(|info| (info.flow.table, info.counters.packets, info.counters.bytes)).collect()
}

fn sent(switch: &Switch, port: &str, packet: &[u8]) -> Vec<(String, Vec<u8>)> {
    let sent = switch.dummy_receive(port, packet).expect("received");
    sent.into_iter().map(|sent| (sent.port.to_string(), sent.packet)).collect()
}

fn udp(last: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, last, 0, 7, 0, 53, 0, 26, 0, 0]);
    frame.resize(60, 0x5a);
    frame
}

fn switch() -> Arc<Switch> {
    let switch = Switch::start(&config(true)).expect("a switch");
    switch.add_bridge(BridgeConfig::new("br0")).expect("a bridge");
    for number in 1..=3 {
        let mut port = PortConfig::new(&format!("p{number}"), PortKind::Dummy);
        port.number = Some(number);
        switch.add_port("br0", port).expect("a port");
    }
    switch
}

#[test]
fn a_switch_with_dummy_ports_does_what_tests_need() {
    let switch = switch();
    add_flow(&switch, "table=0,priority=5,udp,nw_dst=10.0.0.2,actions=output:2,resubmit(,1)");
    add_flow(&switch, "table=1,priority=1,actions=output:3");

    // A call returns what the packet led to, in order; counters are exact at once; caches make no
    // difference.
    for round in 1..=20 {
        switch.cache_enable(round % 4 != 0);
        if round % 5 == 0 {
            switch.cache_flush();
        }
        let expected = [("p2".to_owned(), udp(2)), ("p3".to_owned(), udp(2))];
        assert_eq!(sent(&switch, "p1", &udp(2)), expected, "round {round}");
        assert_eq!(sent(&switch, "p1", &udp(9)), [], "round {round}");
        assert_eq!(packets_of(&switch), [(0, round, round * 60), (1, round, round * 60)], "round {round}");
    }
    switch.cache_enable(true);
    assert_eq!(sent(&switch, "p1", &udp(2)).len(), 2);
    let megaflows = switch.megaflows(Some("br0"));
    let decided: u64 = megaflows.iter().map(|megaflow| megaflow.packets).sum();
    assert!(decided > 0 && megaflows.iter().any(|megaflow| megaflow.actions == "p2,p3"), "{megaflows:?}");

    // Several packets at once keep their order.
    let burst =
        switch.dummy_receive_all("p2", (0..100).map(|i| [udp(2), vec![i]].concat()).collect()).expect("received");
    let order: Vec<u8> = burst.iter().filter(|sent| &*sent.port == "p3").map(|sent| sent.packet[60]).collect();
    assert_eq!(order, (0..100).collect::<Vec<u8>>());

    packets_from_controllers(&switch);
    time_is_what_it_is_told(&switch);
    connections_end_when_time_passes(&switch);
    wrong_calls_are_refused(&switch);
    switch.stop();
    let without = Switch::start(&config(false));
    if let Ok(without) = without {
        // (EAL starts once per process: only builds without DPDK get here.)
        without.add_bridge(BridgeConfig::new("br0")).expect("a bridge");
        let refused = without.add_port("br0", PortConfig::new("p1", PortKind::Dummy));
        let told = refused.expect_err("refused").to_string();
        assert!(told.contains("--enable-dummy"), "{told}");
        assert!(without.time_stop().is_err() && without.dummy_sent().is_err());
    }
}

fn packets_from_controllers(switch: &Switch) {
    let line = format!("in_port=99,packet={},actions=set_field:9->nw_ttl,output:3,output:IN_PORT", hex(&udp(2)));
    let packet = parse_packet_out(&line, &NoNames).expect("a good line").value;
    switch.packet_out("br0", &packet).expect("sent");
    let sent = switch.dummy_sent().expect("enabled");
    assert_eq!(sent.iter().map(|sent| (&*sent.port, sent.packet[22])).collect::<Vec<_>>(), [("p3", 9)]);
    let line = format!("in_port=1,packet={},actions=group:7", hex(&udp(2)));
    let packet = parse_packet_out(&line, &NoNames).expect("a good line").value;
    match switch.packet_out("br0", &packet) {
        Err(WriteError::Refused(refused)) => assert_eq!(refused.code, "OFPBAC_BAD_OUT_GROUP"),
        other => panic!("a missing group: {other:?}"),
    }
    let mut subscription =
        switch.subscribe_packets("br0", vswitch_dataplane::pipeline::Interest::of(3)).expect("a subscription");
    add_flow(switch, "table=0,priority=6,udp,nw_dst=10.0.0.3,actions=controller(id=3,pause),output:2");
    assert!(self::sent(switch, "p1", &udp(3)).is_empty(), "paused");
    let packet_in = subscription.receiver.try_recv().expect("a packet-in");
    switch.resume_packet("br0", &packet_in.token, &packet_in.packet).expect("resumed");
    assert_eq!(switch.dummy_sent().expect("enabled").len(), 1);
    assert!(switch.resume_packet("br0", &packet_in.token, &packet_in.packet).is_err(), "twice");
}

fn time_is_what_it_is_told(switch: &Switch) {
    switch.time_stop().expect("enabled");
    let idle = |switch: &Switch| {
        let update = parse_flow(
            "table=0,priority=9,idle_timeout=10,udp,nw_dst=10.0.0.4,actions=output:2",
            FlowCommand::Add,
            &NoNames,
        );
        switch.write_pipeline("br0", &[update.expect("a good line").value]).expect("a good flow");
    };
    idle(switch);
    for _ in 0..5 {
        // Every packet puts the timeout off, also those that caches decide.
        switch.time_warp(9_000).expect("enabled");
        assert_eq!(sent(switch, "p1", &udp(4)).len(), 1);
    }
    switch.time_warp(9_999).expect("enabled");
    assert_eq!(sent(switch, "p1", &udp(4)).len(), 1, "a millisecond before its time");
    switch.time_warp(11_000).expect("enabled");
    assert_eq!(sent(switch, "p1", &udp(4)).len(), 0, "it is gone");
}

/// Connections of a stopped clock: gone from the table when the warp that ends them returns, and
/// told so.
fn connections_end_when_time_passes(switch: &Switch) {
    let (conntrack, mut events) = (switch.conntrack(), switch.subscribe_connections().expect("a subscription"));
    let tracker = conntrack.tracker();
    let request = Request { commit: true, ..Request::default() };
    for port in 0..1000 {
        let (src, dst) = (End { addr: 1, port }, End { addr: 2, port: 53 });
        let tuple = Tuple { src, dst, protocol: protocol::UDP, ..Tuple::default() };
        tracker.track(&Seen { tuple, l4: L4::Udp, len: 60, ..Seen::default() }, &request, 0, Millis::now().0);
    }
    let shown = || {
        let mut shown = 0;
        tracker.dump(&Filter::default(), Millis::now().0, |connection| {
            assert!(connection.timeout_ms <= 60_000, "{connection:?}");
            shown += 1;
            ControlFlow::Continue(())
        });
        (shown, tracker.counts().connections)
    };
    switch.time_warp(59_999).expect("enabled");
    assert_eq!(shown(), (1000, 1000), "a millisecond before their time");
    switch.time_warp(1).expect("enabled");
    assert_eq!(shown(), (0, 0), "a minute without an answer");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (mut begun, mut ended) = (0, 0);
    runtime.block_on(async {
        while ended < 1000 {
            let next = tokio::time::timeout(Duration::from_secs(60), events.next()).await;
            let (events, lost) = next.expect("events within 5 s").expect("a switch");
            assert_eq!(lost, 0);
            begun += events.iter().filter(|event| event.kind == EventKind::New).count();
            ended += events.iter().filter(|event| event.kind == EventKind::End).count();
        }
    });
    assert_eq!((begun, ended), (1000, 1000));
}

fn wrong_calls_are_refused(switch: &Switch) {
    let tap = PortConfig { mtu: 1400, ..PortConfig::new("nothing", PortKind::Patch { peer: "else".to_owned() }) };
    switch.add_port("br0", tap).expect("a patch port");
    assert!(matches!(switch.dummy_receive("p9", &udp(2)), Err(SwitchError::NotFound { .. })));
    assert!(matches!(switch.dummy_receive("nothing", &udp(2)), Err(SwitchError::Invalid(_))));
    assert!(matches!(switch.dummy_receive("p1", &vec![0; 70_000]), Err(SwitchError::Device { .. })));
    switch.dummy_link("p2", false).expect("a dummy port");
    let port = switch.ports("br0").expect("a bridge").into_iter().find(|port| port.config.name == "p2");
    assert!(!port.expect("it is there").link_up);
    let before = switch.write_pipeline("br0", &[Update::DeleteFlows(FlowFilter::default())]).expect("deleted");
    assert!(before.counts[0] > 0);
    assert_eq!(sent(switch, "p1", &udp(2)), []);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
