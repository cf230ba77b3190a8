//! Next hops of tunnels: how they are asked, and what they say.

use crate::action::{Packet, Question};
use crate::observe::{DropReason, Remains};
use crate::packet::{Arp, Mac, arp};
use crate::pipeline::Start;
use crate::port::PortId;
use crate::worker::step::StepContext;
use std::net::{IpAddr, Ipv6Addr};
use vswitch_dpdk::Mbuf;
use vswitch_flow::extract::Layers;
use vswitch_flow::{Field, FlowKey};
use vswitch_overlay::Outside;

/// Bytes of a neighbour advertisement in front of its options (RFC 4861, 4.4).
const ADVERTISEMENT: usize = 24;
/// The option with the target's link-layer address.
const TARGET_ADDRESS: u8 = 2;
/// Options that are looked at.
const OPTIONS_MAX: usize = 8;

impl StepContext<'_> {
    /// A neighbour that we talk to sends: it is there, and that is its address. (Of one behind a
    /// router only the router is a neighbour.)
    pub(in crate::worker) fn hear_of_sender(&self, vtep: PortId, mbuf: &Mbuf, outside: &Outside) {
        if let (Some(bridge), Some([_, _, _, _, _, _, source @ ..])) =
            (self.bridge_of(vtep), mbuf.head().first_chunk::<12>())
            && source[0] & 1 == 0
        {
            self.snapshot.world.tunnels.neighbours.learn(bridge, outside.ends.src(), *source, self.now.0);
        }
    }

    /// Sends a question through the bridge of its VTEP. Whatever it leads to, no other question.
    pub(in crate::worker) fn send_question(&mut self, op: &Question) {
        let facts = self.snapshot.world.ports.get(op.vtep.index()).and_then(Option::as_ref);
        let Some(facts) = facts.filter(|facts| facts.admin_up && !self.asking) else { return };
        let Some(mbuf) = self.pool.mbuf_from(&op.frame) else {
            return self.count_drop_in(op.vtep, DropReason::NoMbuf, Remains::Bytes(&op.frame));
        };
        let mut key = FlowKey::default();
        key.set(Field::InPort, facts.number.into());
        self.outputs.owner.leave();
        self.asking = true;
        self.once(None, facts.bridge, op.vtep, key, Start::Table, mbuf);
        self.asking = false;
    }

    /// The number of a VTEP's bridge among neighbours.
    pub(in crate::worker) fn bridge_of(&self, vtep: PortId) -> Option<u32> {
        let world = &self.snapshot.world;
        let facts = world.ports.get(vtep.index())?.as_ref()?;
        world.bridges.get(facts.bridge).map(|bridge| bridge.id)
    }

    /// Notes what an ARP packet or a neighbour advertisement says, if it is an answer to what was
    /// asked.
    #[cold]
    #[inline(never)]
    pub(in crate::worker) fn snoop(&self, vtep: PortId, packet: &Packet) {
        let head = packet.mbuf.head();
        let world = &self.snapshot.world;
        let facts = world.ports.get(vtep.index()).and_then(Option::as_ref);
        let Some(own) = facts.and_then(|facts| facts.vtep.as_ref()) else { return };
        let own = &own.addresses;
        let said = arp_says(head, packet.layers, own).or_else(|| advertisement_says(head, packet.layers, own));
        let Some((ip, mac)) = said.filter(|(_, mac)| !mac.is_multicast() && !mac.is_zero()) else { return };
        if let Some(bridge) = self.bridge_of(vtep) {
            // Whoever depends on it hears of it by the epoch.
            self.snapshot.world.tunnels.neighbours.learn(bridge, ip, mac.0, self.now.0);
        }
    }
}

/// The sender of an ARP packet that answers us, or tells of itself.
fn arp_says(head: &[u8], layers: Layers, own: &[IpAddr]) -> Option<(IpAddr, Mac)> {
    if head.get(12..14)? != [8, 6] {
        return None;
    }
    let packet = Arp::parse(head.get(usize::from(layers.l3)..)?)?;
    let to_us = packet.operation() == arp::REPLY && own.contains(&packet.target().into());
    let answers = to_us || packet.sender() == packet.target();
    answers.then(|| (packet.sender().into(), packet.sender_mac()))
}

/// All nodes of a link (RFC 4291, 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The flag of an advertisement that counts more than what is known.
const OVERRIDE: u8 = 0x20;

/// The target of a neighbour advertisement to us, or to all that have it otherwise, and its
/// address.
fn advertisement_says(head: &[u8], layers: Layers, own: &[IpAddr]) -> Option<(IpAddr, Mac)> {
    let end = usize::from(layers.l3_end).min(head.len());
    let message = head.get(usize::from(layers.l4)..end)?;
    let header: &[u8; 40] = head.get(usize::from(layers.l3)..)?.first_chunk()?;
    let to: [u8; 16] = header[24..].try_into().ok()?;
    let (hop_limit, to) = (header[7], Ipv6Addr::from(to));
    let moved = to == ALL_NODES && message.get(4)? & OVERRIDE != 0;
    let to_us = own.contains(&to.into()) || moved;
    // Over a router it is none (RFC 4861, 7.1.2).
    if message.first_chunk::<2>()? != &[136, 0] || hop_limit != 255 || !to_us {
        return None;
    }
    let target: [u8; 16] = message.get(8..ADVERTISEMENT)?.try_into().ok()?;
    let mut options = message.get(ADVERTISEMENT..)?;
    for _ in 0..OPTIONS_MAX {
        let len = usize::from(*options.get(1)?) * 8;
        let option = options.get(..len).filter(|option| !option.is_empty())?;
        if option[0] == TARGET_ADDRESS {
            return Some((Ipv6Addr::from(target).into(), Mac(*option.get(2..)?.first_chunk()?)));
        }
        options = &options[len..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_overlay::question::announcement;

    /// What a frame with an unsolicited advertisement says, after `change`.
    fn says(change: impl FnOnce(&mut [u8])) -> Option<(IpAddr, Mac)> {
        let mut frame = announcement([2, 0, 0, 0, 0, 7], "fd00::7".parse().expect("an address"));
        change(&mut frame);
        let layers = Layers { l3: 14, l4: 54, l3_end: 86 };
        advertisement_says(&frame, layers, &["fd00::1".parse().expect("an address")])
    }

    #[test]
    fn who_moves_tells_all_nodes_and_overrides() {
        let moved = Some(("fd00::7".parse().expect("an address"), Mac([2, 0, 0, 0, 0, 7])));
        assert_eq!(says(|_| ()), moved);
        assert_eq!(says(|frame| frame[58] = 0), None, "it does not override");
        assert_eq!(says(|frame| frame[53] = 2), None, "to all routers");
        assert_eq!(says(|frame| frame[21] = 254), None, "it came over a router");
        let to_us = |frame: &mut [u8]| {
            frame[38..54].copy_from_slice(&"fd00::1".parse::<Ipv6Addr>().expect("an address").octets());
            frame[58] = 0;
        };
        assert_eq!(says(to_us), moved, "an answer need not override");
    }
}
