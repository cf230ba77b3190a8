//! L7 rules with an engine that reads TCP: what it is not given both directions of, with one pair
//! of ends, it does not let pass.

use crate::frame::{ACK, SYN, Segment};
use crate::objects::{self, Families, Layout, Mode, Proxy};
use crate::switch::Told;
use crate::world::{Outcome, World};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A connection as the engine knows it.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The next byte of the client, and of the server.
    next: [u32; 2],
    answered: bool,
}

type Ends = (u16, (IpAddr, u16), (IpAddr, u16));

/// The engine.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    known: BTreeMap<Ends, Known>,
    /// Packets that are of no connection that it knows.
    pub(crate) strange: Vec<Segment>,
    /// Packets that it let pass: of clients, of servers.
    pub(crate) passed: [usize; 2],
}

impl Engine {
    /// Reads a packet; None: it does not pass.
    pub(crate) fn read(&mut self, segment: Segment) -> Option<Segment> {
        let vlan = segment.vlan.expect("a rule's VLAN");
        let [source, destination] =
            [(segment.source, segment.source_port), (segment.destination, segment.destination_port)];
        let end = segment.sequence.wrapping_add(segment.length());
        if segment.flags & (SYN | ACK) == SYN {
            self.known.insert((vlan, source, destination), Known { next: [end, 0], answered: false });
            self.passed[0] += 1;
            return Some(segment);
        }
        let of_server = self.known.contains_key(&(vlan, destination, source));
        let ends = if of_server { (vlan, destination, source) } else { (vlan, source, destination) };
        let side = usize::from(of_server);
        let fits = self.known.get_mut(&ends).is_some_and(|known| {
            let opens = of_server && segment.flags & SYN != 0 && !known.answered;
            let fits = opens || known.answered && segment.sequence == known.next[side];
            let fits = fits && (segment.acknowledged == known.next[1 - side]);
            if fits {
                (known.next[side], known.answered) = (end, true);
            }
            fits
        });
        if !fits {
            self.strange.push(segment);
            return None;
        }
        self.passed[side] += 1;
        Some(segment)
    }
}

fn layouts() -> Vec<Layout> {
    let mut layouts = Vec::new();
    for families in [Families::Both, Families::V4, Families::V6] {
        for (mode, proxy) in [
            (Mode::Encap, Proxy::All),
            (Mode::Encap, Proxy::On),
            (Mode::NoEncap, Proxy::All),
            (Mode::Hybrid, Proxy::On),
            (Mode::PolicyOnly, Proxy::On),
            (Mode::Encap, Proxy::Off),
        ] {
            layouts.push(Layout { mode, proxy, families, l7: true, uplink: proxy == Proxy::All, ..Layout::default() });
        }
    }
    layouts
}

/// The engine saw all of a connection and nothing else.
fn whole(world: &mut World, client: &'static str, to: IpAddr, port: u16, wanted: &str) {
    let before = world.engine.passed;
    let outcome = world.ask(client, usize::from(to.is_ipv6()), to, port);
    let shown = format!("{client} -> {to}:{port} of {:?} by {:?}", world.layout, world.ways);
    assert!(world.engine.strange.is_empty(), "{shown}: half a connection: {:?}", world.engine.strange);
    assert_eq!(outcome, Outcome::Answer(wanted.to_owned()), "{shown}");
    let passed = [0, 1].map(|side| world.engine.passed[side] - before[side]);
    assert_eq!(passed, [3, 2], "{shown}: what the engine read of client and server");
}

#[test]
fn the_engine_reads_whole_connections_direct_and_by_every_kind_of_service() {
    let mut world = World::new(Told::start());
    let mut asked = 0;
    for layout in layouts() {
        // Everybody who asks `b`: all of TCP, or one port.
        let port = if layout.families == Families::Both { 0 } else { 80 };
        world.settle(layout, objects::l7_rule("b", true, port));
        for &family in layout.families.each() {
            let of = |who| objects::address(&layout, who, family);
            let sees = |who: &str, source: IpAddr| format!("{who} sees {source}");
            let mut check = |client: &'static str, to, port| {
                let source = objects::address(&layout, client, family);
                whole(&mut world, client, to, port, &sees("b", source));
                asked += 1;
            };
            for client in ["a", "c", "outside"] {
                check(client, of("b"), 80);
            }
            if layout.proxy != Proxy::Off {
                check("a", objects::service("b", family), 80);
            }
            if layout.proxy == Proxy::All {
                for address in [objects::balancer("b", family), objects::external("b", family)] {
                    for client in ["a", "outside", "wire"] {
                        check(client, address, 80);
                    }
                }
                check("outside", of("host"), objects::node_port("b"));
                check("wire", objects::transport(family), objects::node_port("b"));
            }
        }
    }
    assert!(asked > 100, "{asked}");
}

#[test]
fn the_engine_reads_whole_connections_of_senders_whatever_their_way_out() {
    let mut world = World::new(Told::start());
    for egress in [None, Some("host"), Some("switch"), Some("other")] {
        for families in [Families::Both, Families::V4, Families::V6] {
            let layout =
                Layout { families, l7: true, uplink: true, proxy: Proxy::All, egress: true, ..Layout::default() };
            let mut extra = objects::l7_rule("a", false, 80);
            extra.extend(egress.into_iter().flat_map(|how| objects::egress(&layout, how)));
            world.settle(layout, extra);
            for &family in layout.families.each() {
                let of = |who| objects::address(&layout, who, family);
                let a = of("a");
                for (to, wanted) in [
                    (of("b"), format!("b sees {a}")),
                    (of("c"), format!("c sees {a}")),
                    (objects::service("b", family), format!("b sees {a}")),
                    (objects::service("c", family), format!("c sees {a}")),
                ] {
                    whole(&mut world, "a", to, 80, &wanted);
                }
                let (out, by, source) = match egress {
                    Some("switch") => ("wire", "up", objects::egress_address(family)),
                    Some("other") => ("far", "tun", a),
                    _ => ("outside", "gw", a),
                };
                whole(&mut world, "a", of("outside"), 80, &format!("{out} sees {source}"));
                assert!(world.ways.iter().any(|way| way == by), "{:?}", world.ways);
            }
        }
    }
}

#[test]
fn a_pod_that_is_its_own_endpoint_passes_no_engine() {
    let mut world = World::new(Told::start());
    let layout = Layout { families: Families::Both, l7: true, ..Layout::default() };
    world.settle(layout, objects::l7_rule("b", false, 80));
    for family in [0, 1] {
        let outcome = world.ask("b", family, objects::service("b", family), 80);
        let gateway = objects::address(&layout, "host", family);
        assert_eq!(outcome, Outcome::Answer(format!("b sees {gateway}")), "{:?}", world.ways);
        assert_eq!(world.engine.passed, [0, 0]);
    }
}
