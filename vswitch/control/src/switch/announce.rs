//! Tells the links of VTEPs which addresses are theirs: gratuitous ARP (RFC 5227, 2.3), unsolicited
//! neighbour advertisements (RFC 4861, 7.2.6).
//!
//! **When**: a VTEP has a new address, another MAC address, or comes up; another port of its bridge
//! has a link again, so that there may be another wire. Each time [`TIMES`] times.
//!
//! **How**: as packets of the VTEP through the tables of its bridge, where rules may drop them.
//!
//! **Threads**: the monitor's.

use super::Switch;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::pipeline::World;
use vswitch_dataplane::port::PortId;
use vswitch_dataplane::worker::{Begin, Injection};
use vswitch_flow::action::port::TABLE;
use vswitch_flow::{Action, Field, FlowKey};
use vswitch_overlay::question::announcement;

/// How often an address is announced.
const TIMES: u32 = 2;
/// What lies between (RFC 5227: ANNOUNCE_INTERVAL).
const INTERVAL: Duration = Duration::from_secs(2);

/// Who was told what.
#[derive(Debug, Default)]
pub(super) struct Announcer {
    told: BTreeMap<(PortId, IpAddr), Announced>,
    /// Links of the ports of bridges that have VTEPs, by port: their bridge, and whether they were
    /// up.
    links: BTreeMap<PortId, bool>,
    /// The ports that were there at the first look are no news.
    begun: bool,
}

#[derive(Debug)]
struct Announced {
    mac: Mac,
    left: u32,
    next: Instant,
}

/// A frame to be sent as a packet of a VTEP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    vtep: (PortId, IpAddr),
    bridge: Arc<str>,
    in_port: u32,
    frame: Vec<u8>,
}

impl Announcer {
    /// What is due now in this world.
    pub(super) fn due(&mut self, world: &World, now: Instant) -> Vec<Due> {
        let woken = self.woken(world);
        let mut due = Vec::new();
        let mut told = std::mem::take(&mut self.told);
        for (index, facts) in world.ports.iter().enumerate() {
            let Some(facts) = facts.as_ref().filter(|facts| facts.admin_up) else { continue };
            let Some(vtep) = &facts.vtep else { continue };
            let id = PortId(u16::try_from(index).unwrap_or(u16::MAX));
            for address in &vtep.addresses {
                let known = told.remove(&(id, *address)).filter(|told| told.mac == vtep.mac);
                let mut told = known.unwrap_or(Announced { mac: vtep.mac, left: TIMES, next: now });
                if woken.contains(&facts.bridge) {
                    told.left = TIMES;
                }
                if told.left > 0 && told.next <= now {
                    (told.left, told.next) = (told.left - 1, now + INTERVAL);
                    let bridge = Arc::clone(&world.bridges[facts.bridge].name);
                    let frame = announcement(vtep.mac.0, *address);
                    due.push(Due { vtep: (id, *address), bridge, in_port: facts.number, frame });
                }
                self.told.insert((id, *address), told);
            }
        }
        due
    }

    /// What was due could not be sent: it is due again.
    fn again(&mut self, vtep: (PortId, IpAddr), now: Instant) {
        if let Some(told) = self.told.get_mut(&vtep) {
            (told.left, told.next) = (told.left + 1, now + INTERVAL);
        }
    }

    /// Bridges in which a link has come up, or come at all, since the last call.
    fn woken(&mut self, world: &World) -> Vec<usize> {
        let before = std::mem::take(&mut self.links);
        let mut woken = Vec::new();
        for (index, facts) in world.ports.iter().enumerate() {
            let Some(facts) = facts.as_ref().filter(|facts| facts.tunnel.is_none() && facts.vtep.is_none()) else {
                continue;
            };
            let id = PortId(u16::try_from(index).unwrap_or(u16::MAX));
            let up = facts.admin_up && facts.link_up.load(std::sync::atomic::Ordering::Relaxed);
            if up && self.begun && before.get(&id) != Some(&true) {
                woken.push(facts.bridge);
            }
            self.links.insert(id, up);
        }
        self.begun = true;
        woken
    }
}

impl Switch {
    /// Announces what is due.
    pub(super) fn announce(&self, announcer: &mut Announcer) {
        let world = Arc::clone(&self.publisher.current().world);
        let now = Instant::now();
        let Some(inbox) = self.publisher.inbox() else { return };
        for Due { vtep, bridge, in_port, frame } in announcer.due(&world, now) {
            let mut metadata = FlowKey::default();
            metadata.set(Field::InPort, in_port.into());
            let actions = [Action::Output { port: TABLE, max_len: None }];
            let begin = Begin::Actions(actions.as_slice().into());
            let injection = Injection { bridge: Arc::clone(&bridge), metadata, packet: frame, begin };
            // The monitor waits for no worker: one may be waiting for it.
            if let Err(error) = inbox.post(injection) {
                tracing::warn!(%bridge, %error, "an address of the switch could not be announced; it will be tried again");
                announcer.again(vtep, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use vswitch_dataplane::pipeline::{Bridge, FailMode, Fdb, PortFacts};
    use vswitch_dataplane::tunnel::LocalEndpoint;

    fn facts(number: u32, vtep: Option<LocalEndpoint>) -> PortFacts {
        PortFacts {
            bridge: 0,
            number,
            name: format!("p{number}").into(),
            admin_up: true,
            link_up: Arc::new(AtomicBool::new(true)),
            no_flood: false,
            no_forward: false,
            no_receive: false,
            peer: None,
            patch: false,
            tunnel: None,
            vtep: vtep.map(Arc::new),
            strict: false,
            underlay: true,
        }
    }

    fn vtep(mac: u8, addresses: &[&str]) -> LocalEndpoint {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        LocalEndpoint { mac: Mac([2, 0, 0, 0, 0, mac]), addresses }
    }

    fn world(ports: Vec<PortFacts>) -> World {
        let bridges = vec![Bridge::new("br", FailMode::Secure, Arc::new(Fdb::with_changes(16, 300, Arc::default())))];
        World { bridges, ports: ports.into_iter().map(Some).collect(), ..World::default() }
    }

    /// Number of the port and target address of what is due.
    fn said(announcer: &mut Announcer, world: &World, now: Instant) -> Vec<(u32, IpAddr)> {
        let due = announcer.due(world, now).into_iter();
        due.map(|due| {
            let frame = due.frame;
            let target: IpAddr = match frame[12..14] {
                [8, 6] => <[u8; 4]>::try_from(&frame[38..42]).expect("4 bytes").into(),
                _ => <[u8; 16]>::try_from(&frame[62..78]).expect("16 bytes").into(),
            };
            (due.in_port, target)
        })
        .collect()
    }

    #[test]
    fn an_address_is_announced_twice_and_again_when_it_moves_or_a_wire_comes() {
        let (mut announcer, start) = (Announcer::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let ips: [IpAddr; 2] = ["10.0.0.1".parse().expect("v4"), "fd00::1".parse().expect("v6")];
        let both = [(1, ips[0]), (1, ips[1])];
        let mut one = world(vec![facts(1, Some(vtep(1, &["10.0.0.1", "fd00::1"]))), facts(2, None)]);
        assert_eq!(said(&mut announcer, &one, at(0)), both, "new");
        assert_eq!(said(&mut announcer, &one, at(1)), [], "too soon");
        assert_eq!(said(&mut announcer, &one, at(2)), both, "the second time");
        assert_eq!(said(&mut announcer, &one, at(9)), [], "that was enough");

        let moved = world(vec![facts(1, Some(vtep(7, &["10.0.0.1"]))), facts(2, None)]);
        assert_eq!(said(&mut announcer, &moved, at(10)), [(1, ips[0])], "another MAC address");
        assert_eq!(said(&mut announcer, &one, at(20)), both, "and back");
        assert_eq!(said(&mut announcer, &one, at(30)), both);

        let uplink = Arc::clone(&one.ports[1].as_ref().expect("port 2").link_up);
        uplink.store(false, Ordering::Relaxed);
        assert_eq!(said(&mut announcer, &one, at(40)), [], "a wire is gone");
        uplink.store(true, Ordering::Relaxed);
        assert_eq!(said(&mut announcer, &one, at(41)), both, "a wire is there again");
        assert_eq!(said(&mut announcer, &one, at(43)), both);

        one.ports[0].as_mut().expect("port 1").admin_up = false;
        assert_eq!(said(&mut announcer, &one, at(50)), []);
        one.ports[0].as_mut().expect("port 1").admin_up = true;
        assert_eq!(said(&mut announcer, &one, at(51)), both, "it was down");
        announcer.again((PortId(0), ips[0]), at(51));
        assert_eq!(said(&mut announcer, &one, at(53)), both);
        assert_eq!(said(&mut announcer, &one, at(55)), [both[0]], "it was not sent");

        let mut more = world(vec![facts(1, Some(vtep(1, &["10.0.0.1"]))), facts(2, None), facts(3, None)]);
        assert_eq!(said(&mut announcer, &more, at(60)), [both[0]], "another wire");
        more.ports[2] = None;
        assert_eq!(said(&mut announcer, &more, at(62)), [both[0]]);
        assert_eq!(said(&mut announcer, &more, at(70)), [], "one less");
    }
}
