//! Who reaches whom, whatever the Node is.

use crate::combinations;
use crate::objects::{self, Families, Layout, Mode, Proxy};
use crate::switch::Told;
use crate::world::{Outcome, World};
use std::net::IpAddr;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// Configurations beside those that have all pairs.
const MORE: usize = 100;

/// A question and what is to come of it.
struct Case {
    client: &'static str,
    to: IpAddr,
    port: u16,
    wanted: Outcome,
}

/// What a family's clients are to see.
struct Expected<'a> {
    layout: &'a Layout,
    family: usize,
    cases: Vec<Case>,
}

impl Expected<'_> {
    fn of(&self, who: &str) -> IpAddr {
        objects::address(self.layout, who, self.family)
    }

    fn add(&mut self, client: &'static str, to: IpAddr, port: u16, wanted: Outcome) {
        self.cases.push(Case { client, to, port, wanted });
    }

    /// He is reached, and sees the client.
    fn seen(&mut self, client: &'static str, to: IpAddr, port: u16, who: &str) {
        self.seen_as(client, to, port, who, self.of(client));
    }

    fn seen_as(&mut self, client: &'static str, to: IpAddr, port: u16, who: &str, source: IpAddr) {
        self.add(client, to, port, Outcome::Answer(format!("{who} sees {source}")));
    }

    fn pods(&mut self) {
        for (client, who) in
            [("a", "b"), ("b", "a"), ("a", "e"), ("a", "c"), ("a", "f"), ("c", "a"), ("f", "a"), ("outside", "a")]
        {
            self.seen(client, self.of(who), 80, who);
        }
        for (client, who) in [("a", "host"), ("host", "a"), ("host", "b")] {
            self.seen(client, self.of(who), 80, who);
        }
        for client in ["a", "c", "outside"] {
            self.add(client, self.of("d"), 80, Outcome::Silence);
        }
        // A probe of the host's own is no policy's; where it has a port of its own, or none is
        // known, its packets are anybody's.
        let by_address = self.layout.proxy == Proxy::All && !self.layout.probe;
        if by_address {
            self.seen("host", self.of("d"), 80, "d");
        } else {
            self.add("host", self.of("d"), 80, Outcome::Silence);
        }
        if self.layout.plain {
            self.seen("a", self.of("e"), 81, "e");
        } else {
            self.add("a", self.of("e"), 81, Outcome::Refused);
        }
        match (self.layout.egress, self.layout.uplink) {
            (true, true) => self.seen_as("a", self.of("outside"), 80, "wire", objects::egress_address(self.family)),
            _ => self.seen("a", self.of("outside"), 80, "outside"),
        }
        self.seen("b", self.of("outside"), 80, "outside");
    }

    fn services(&mut self) {
        for client in ["a", "e"] {
            for who in ["b", "c"] {
                self.seen(client, objects::service(who, self.family), 80, who);
            }
        }
        // A Pod that is its own endpoint.
        if self.layout.proxy != Proxy::Off && self.layout.mode != Mode::PolicyOnly {
            self.seen_as("b", objects::service("b", self.family), 80, "b", self.of("host"));
        }
        if self.layout.proxy != Proxy::All {
            return;
        }
        let hairpin = ["169.254.0.253", "fc01::aabb:ccdd:eeff"][self.family].parse().expect("an address");
        let masked = if objects::path(self.layout, "c") == "tun" { self.of("host") } else { hairpin };
        let direct = self.layout.dsr && self.family == 0;
        for address in [objects::balancer, objects::external] {
            for client in ["a", "outside"] {
                self.seen(client, address("b", self.family), 80, "b");
            }
            self.seen("a", address("c", self.family), 80, "c");
            if !direct {
                self.seen_as("outside", address("c", self.family), 80, "c", masked);
            }
            if self.layout.uplink {
                self.seen("wire", address("b", self.family), 80, "b");
            }
        }
        self.seen("outside", self.of("host"), objects::node_port("b"), "b");
        self.seen_as("outside", self.of("host"), objects::node_port("c"), "c", masked);
    }
}

/// What there is beside the usual.
fn extra(layout: &Layout) -> Vec<Object> {
    let mut extra = Vec::new();
    if layout.l7 {
        extra.extend(objects::l7_rule("b", true, 80));
    }
    if layout.egress {
        let mut egresses = objects::egress(layout, if layout.uplink { "switch" } else { "host" });
        if layout.shaping {
            let bandwidth = Some(v1::EgressBandwidth { rate_kbps: 1_000_000, burst_kb: 100_000 });
            for egress in &mut egresses {
                if let Object::Egress(egress) = egress {
                    egress.bandwidth = bandwidth;
                }
            }
        }
        extra.extend(egresses);
    }
    if layout.traffic_control {
        let mut control = v1::TrafficControl {
            name: "led-away".to_owned(),
            pods: vec!["default/e".to_owned()],
            target_port: "tc-out".to_owned(),
            return_port: "tc-in".to_owned(),
            ..v1::TrafficControl::default()
        };
        control.set_direction(v1::TrafficDirection::Both);
        control.set_action(v1::TrafficControlAction::Redirect);
        extra.push(Object::TrafficControl(control));
    }
    extra
}

#[test]
fn whoever_may_reaches_whomever_in_every_combination() {
    let mut world = World::new(Told::start());
    let (mut failures, mut asked) = (Vec::new(), 0);
    for layout in combinations::layouts(MORE) {
        world.settle(layout, extra(&layout));
        for family in layout.families.each() {
            let mut expected = Expected { layout: &layout, family: *family, cases: Vec::new() };
            expected.pods();
            expected.services();
            for Case { client, to, port, wanted } in expected.cases {
                asked += 1;
                let outcome = world.ask(client, *family, to, port);
                if outcome != wanted {
                    failures.push(format!(
                        "{client} -> {to}:{port}: {outcome:?}, not {wanted:?}, by {:?}: {layout:?}",
                        world.ways
                    ));
                }
            }
        }
        if !world.engine.strange.is_empty() {
            failures.push(format!("half a connection at the engine: {layout:?}: {:?}", world.engine.strange));
        }
        assert_eq!(layout.l7, world.engine.passed[0] > 0, "whether the engine reads: {layout:?}");
    }
    let shown = failures.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {asked}:\n{shown}", failures.len());
    assert!(asked > 3000, "{asked}");
}

/// "Running Antrea in policy only mode" on a cluster that gives its Nodes Pod CIDRs.
#[test]
fn policy_only_serves_nodes_that_have_a_pod_cidr() {
    let mut world = World::new(Told::start());
    for (proxy, without_cidr) in [(Proxy::Off, false), (Proxy::Off, true), (Proxy::On, false), (Proxy::All, false)] {
        let families = Families::Both;
        let layout = Layout { mode: Mode::PolicyOnly, proxy, without_cidr, families, ..Layout::default() };
        world.settle(layout, Vec::new());
        for family in [0, 1] {
            let to = objects::address(&layout, "b", family);
            let wanted = Outcome::Answer(format!("b sees {}", objects::address(&layout, "a", family)));
            assert_eq!(world.ask("a", family, to, 80), wanted, "{layout:?}: {:?}", world.ways);
            assert_eq!(world.ways, ["b", "a"], "not by the host");
        }
    }
}
