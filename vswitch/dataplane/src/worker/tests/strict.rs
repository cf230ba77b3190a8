//! Strict ports, through both ways that packets take.

use super::bed::add;
use super::{World, frame, id, world};
use crate::observe::DropReason;
use crate::pipeline::state::PipelineState;
use crate::pipeline::{self, FdbKey, PortFacts};
use crate::time::Millis;
use crate::worker::Snapshot;
use std::collections::HashMap;
use std::sync::Arc;
use vswitch_flow::Action;
use vswitch_flow::action::port::NORMAL;

/// What is strict of a bridge with the ports 0 (the one), 1 and 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strict {
    Nothing,
    PortZero,
    Bridge,
}

/// Every combination with the way that packets take: a learning switch, or tables that say NORMAL.
fn combinations() -> impl Iterator<Item = (Strict, bool)> {
    let strict = [Strict::Nothing, Strict::PortZero, Strict::Bridge];
    strict.into_iter().flat_map(|strict| [(strict, false), (strict, true)])
}

/// The combination that gets as many packets as the list of hostile packets asks for.
const fn many(strict: Strict, tables: bool) -> bool {
    matches!(strict, Strict::Bridge) && !tables
}

fn strict_world(strict: Strict, tables: bool) -> World {
    let mut world = world(&[&[0, 1, 2]], &[], |_, _| ());
    let old = Arc::clone(world.walk.snapshot());
    let (bridges, changes) = (old.world.bridges.clone(), Arc::clone(&old.world.changes));
    let mut next = pipeline::World { number: 1, bridges, changes, ..pipeline::World::default() };
    let bridge = &mut next.bridges[0];
    bridge.strict = strict == Strict::Bridge;
    bridge.numbers = Arc::new((0..3).map(|port| (port + 1, id(port as usize))).collect::<HashMap<_, _>>());
    if tables {
        let mut pipeline = PipelineState::new(&next.changes);
        // Not the priority of the flow that makes a learning switch.
        let normal = add(0, 7, "", vec![Action::Output { port: NORMAL, max_len: None }]);
        pipeline.apply(&[normal], 1, Millis(0)).expect("a flow");
        bridge.program = pipeline.program();
    }
    let facts = |port: u32| PortFacts {
        bridge: 0,
        number: port + 1,
        name: format!("p{port}").as_str().into(),
        admin_up: true,
        link_up: Arc::default(),
        no_flood: false,
        no_forward: false,
        no_receive: false,
        peer: None,
        patch: false,
        tunnel: None,
        vtep: None,
        strict: strict == Strict::PortZero && port == 0,
        underlay: true,
    };
    next.ports = (0..3).map(|port| Some(facts(port))).collect();
    world.walk.adopt(Arc::new(Snapshot {
        world: Arc::new(next),
        ports: old.ports.clone(),
        rxqs: vec![Vec::new()],
        captures: None,
    }));
    world
}

/// From `source` to an address that nobody has; a type without rules.
fn good(source: u8, tail: u8) -> Vec<u8> {
    let mut good = frame(99, source, tail);
    good[12..14].copy_from_slice(&[0x88, 0xb5]);
    good
}

/// The same with a type that its bytes contradict: IPv4 of version 0.
fn bad(source: u8) -> Vec<u8> {
    frame(99, source, 0)
}

#[test]
fn malformed_packets_die_by_name_and_the_others_go_on_in_order() {
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &[0; 46]].concat();
    let frames = [good(1, 1), bad(1), good(1, 2), arp, bad(2), good(1, 3)];
    for (strict, tables) in combinations() {
        for size in [1, 32] {
            let what = format!("{strict:?}, tables: {tables}, bursts of {size}");
            let mut world = strict_world(strict, tables);
            world.receive(0, &frames, size);
            world.receive(1, &[bad(3)], size);
            let (zero, one) = (world.totals(0), world.totals(1));
            assert_eq!((zero.rx_packets, zero.rx_bytes), (6, 360), "{what}");
            let drops = |totals: &crate::observe::PortTotals| {
                [DropReason::IpVer, DropReason::Arp].map(|reason| totals.rx_drops[reason.index()])
            };
            let sent = world.wires[2].take();
            if strict == Strict::Nothing {
                assert_eq!((drops(&zero), drops(&one), zero.rx_dropped()), ([0, 0], [0, 0], 0), "{what}");
                assert_eq!(sent, [&frames[..], &[bad(3)]].concat(), "{what}");
            } else {
                assert_eq!((drops(&zero), zero.rx_dropped()), ([2, 1], 3), "{what}");
                let from_one = if strict == Strict::Bridge { vec![] } else { vec![bad(3)] };
                assert_eq!(one.rx_dropped(), 1 - from_one.len() as u64, "{what}");
                assert_eq!(sent, [vec![good(1, 1), good(1, 2), good(1, 3)], from_one].concat(), "{what}");
            }
            // What died taught the bridge nothing.
            let learned = world.walk.snapshot().world.bridges[0].fdb.stats().learned;
            assert_eq!(learned, [3, 2, 1][strict as usize], "{what}");
            assert_eq!(world.pool.in_use(), 0, "{what}: an mbuf was lost");
        }
    }
}

#[test]
fn a_strict_port_that_is_down_drops_for_that_reason() {
    for tables in [false, true] {
        let mut world = strict_world(Strict::PortZero, tables);
        let old = Arc::clone(world.walk.snapshot());
        let mut ports = old.ports.clone();
        ports[0].as_mut().expect("a port").admin_up = false;
        let world_of = Arc::clone(&old.world);
        world.walk.adopt(Arc::new(Snapshot { world: world_of, ports, rxqs: vec![Vec::new()], captures: None }));
        world.receive(0, &[bad(1), good(1, 1)], 32);
        let zero = world.totals(0);
        let down = zero.rx_drops[DropReason::AdminDown.index()];
        assert_eq!((zero.rx_packets, down, zero.rx_dropped()), (2, 2, 2), "tables: {tables}");
    }
}

/// P20, P21: addresses beyond the table's limit, and addresses that move. The same in both modes.
#[test]
fn the_table_of_addresses_stays_at_its_limit_and_static_addresses_stay() {
    for (strict, tables) in combinations() {
        let what = format!("{strict:?}, tables: {tables}");
        let mut world = strict_world(strict, tables);
        let fdb = Arc::clone(&world.walk.snapshot().world.bridges[0].fdb);
        let stay = FdbKey::new(0x0200_0000_fffe, 0);
        assert!(fdb.add_static(stay, id(1)));
        let mut received = 0;
        // More than there is room for; of one combination a million.
        for chunk in 0..if many(strict, tables) { 31_250_u16 } else { 160 } {
            let mut frames = Vec::new();
            for i in 0..32 {
                let mut frame = good(i, 0);
                frame[8..10].copy_from_slice(&chunk.to_be_bytes());
                frames.push(frame);
            }
            received += frames.len() as u64;
            world.receive(0, &frames, 32);
            world.wires.iter().for_each(|wire| drop(wire.take()));
        }
        let (stats, entries) = (fdb.stats(), fdb.entries());
        let of_port = entries.iter().filter(|entry| entry.port == id(0)).count();
        assert!(stats.entries <= 1024 && of_port <= 768 && of_port > 600, "{what}: {of_port}, {stats:?}");
        assert!(entries.iter().any(|entry| entry.port == id(1) && entry.seen_s.is_none()), "{what}: static");
        assert_eq!(world.totals(2).tx_packets, received, "{what}: all were flooded");
        let moved = stats.moved;
        for _ in 0..5 {
            world.receive(1, &[good(7, 0)], 1);
            world.receive(2, &[good(7, 0)], 1);
        }
        let moves = fdb.stats().moved - moved;
        assert!((9..=10).contains(&moves), "{what}: moved {moves} times");
        assert_eq!(world.pool.in_use(), 0, "{what}: an mbuf was lost");
    }
}

/// P22: LLDP, LACP and STP with nonsense in them, repeated. Whatever the mode, nobody parses them.
#[test]
fn control_protocols_are_dropped_by_the_bridge_and_leak_nothing() {
    for (strict, tables) in combinations() {
        let what = format!("{strict:?}, tables: {tables}");
        let mut world = strict_world(strict, tables);
        let mut frames = Vec::new();
        for (last, kind) in [(0x0e, [0x88, 0xcc]), (0x02, [0x88, 0x09]), (0x00, [0, 3])] {
            let mut frame = good(1, 0xff);
            frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, last]);
            frame[12..14].copy_from_slice(&kind);
            frames.push(frame);
        }
        let frames = frames.iter().cycle().take(30).cloned().collect::<Vec<_>>();
        let bursts = if many(strict, tables) { 1_000_000 / 30 } else { 100 };
        for _ in 0..bursts {
            world.receive(0, &frames, 32);
        }
        let (zero, all) = (world.totals(0), bursts * 30);
        let reserved = zero.rx_drops[DropReason::ReservedMulticast.index()];
        assert_eq!((reserved, zero.rx_dropped()), (all, all), "{what}");
        assert_eq!(world.pool.in_use(), 0, "{what}");
    }
}

/// What `NORMAL` does beside learning and looking up is done on the fast path, too: vendors'
/// protocols and cut tags are dropped, tags that say no VLAN are taken off.
#[test]
fn a_plain_learning_switch_is_normal() {
    let mut cdp = frame(0, 1, 0);
    cdp[..6].copy_from_slice(&[1, 0, 0x0c, 0xcc, 0xcc, 0xcc]);
    let plain = frame(9, 1, 7);
    let priority = [&plain[..12], &[0x81, 0, 0, 0], &plain[12..]].concat();
    let cut = [&plain[..12], &[0x81, 0, 0]].concat();
    for tables in [false, true] {
        let mut world = strict_world(Strict::Nothing, tables);
        world.receive(0, &[cdp.clone(), priority.clone(), cut.clone(), plain.clone()], 32);
        for port in [1, 2] {
            assert_eq!(world.wires[port].take(), [plain.clone(), plain.clone()], "tables: {tables}, port {port}");
        }
        let zero = world.totals(0);
        assert_eq!((zero.rx_packets, zero.rx_dropped()), (4, 2), "tables: {tables}");
        assert_eq!(zero.rx_drops[DropReason::ReservedMulticast.index()], 1, "tables: {tables}");
    }
}
