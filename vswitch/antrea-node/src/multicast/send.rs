//! What is sent: questions to Pods, by their ports; questions and reports to other Nodes, by the
//! tables.

use std::net::{IpAddr, Ipv4Addr};
use vswitch_antrea::igmp::{REPORTED_MAX, Sender, kind, query, report};
use vswitch_antrea::membership::LAST_QUERY_MS;
use vswitch_antrea::object::policy::igmp::{Judge, Message};
use vswitch_antrea::{Facts, Family, ObjectKind};
use vswitch_flow::action::port;
use vswitch_flow::text::PacketOut;
use vswitch_flow::{Action, Field, FlowKey};

/// Time for answers to general queries (RFC 9776, 8.3).
const RESPONSE_MS: u32 = 10_000;
/// Ports that one packet goes to: far below what one may.
const PORTS_MAX: usize = 512;

/// Packets that are to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox(Vec<PacketOut>);

/// Who asks: the gateway.
fn sender(facts: &Facts<'_>) -> Sender {
    let address = match facts.node.gateway_address(Family::V4) {
        Some(IpAddr::V4(address)) => address,
        // Policy only: nobody's, as a snooping switch asks (RFC 4541, 2.1.1).
        _ => Ipv4Addr::UNSPECIFIED,
    };
    Sender { mac: facts.node.gateway.mac, address }
}

/// Whether rules let a Pod hear a question; its port.
fn hears(facts: &Facts<'_>, rules: &Judge<'_>, pod: &str, group: Option<Ipv4Addr>) -> Option<u32> {
    let message =
        Message { pod, is_from_pod: false, kind: kind::QUERY, group, other: IpAddr::V4(sender(facts).address) };
    if rules.verdict(&message).is_some_and(|verdict| !verdict.is_allowed) {
        return None;
    }
    facts.ports.number(&facts.pod(pod)?.port)
}

impl Outbox {
    /// Them.
    pub(super) fn packets(&self) -> &[PacketOut] {
        &self.0
    }

    fn push(&mut self, packet: Vec<u8>, ports: &[u32]) {
        let mut metadata = FlowKey::default();
        metadata.set(Field::InPort, PacketOut::IN_PORT.into());
        let actions = ports.iter().map(|port| Action::Output { port: *port, max_len: None }).collect();
        self.0.push(PacketOut { metadata, packet, actions });
    }

    /// A general query to all Pods.
    pub(super) fn ask_all(&mut self, facts: &Facts<'_>, rules: &Judge<'_>, version: u8, interval_s: u32) {
        let packet = query(sender(facts), version, None, RESPONSE_MS.min(interval_s.saturating_mul(500)), interval_s);
        let pods = facts.desired.of(ObjectKind::Pod).filter_map(|(key, _)| hears(facts, rules, &key.name, None));
        let ports: Vec<u32> = pods.collect();
        for ports in ports.chunks(PORTS_MAX) {
            self.push(packet.clone(), ports);
        }
    }

    /// A question to one Pod, whether it is in a group still.
    pub(super) fn ask_one(
        &mut self,
        facts: &Facts<'_>,
        rules: &Judge<'_>,
        group: Ipv4Addr,
        pod: &str,
        version: u8,
        interval_s: u32,
    ) {
        if let Some(port) = hears(facts, rules, pod, Some(group)) {
            let wait_ms = u32::try_from(LAST_QUERY_MS).unwrap_or(u32::MAX);
            self.push(query(sender(facts), version, Some(group), wait_ms, interval_s), &[port]);
        }
    }

    /// A question to all other Nodes, what groups they have.
    pub(super) fn ask_nodes(&mut self, facts: &Facts<'_>) {
        if has_tunnels(facts) {
            self.push(query(sender(facts), 3, None, 1000, 0), &[port::TABLE]);
        }
    }

    /// A report to all other Nodes.
    pub(super) fn report(&mut self, facts: &Facts<'_>, groups: &[(Ipv4Addr, bool)], all: bool) {
        if has_tunnels(facts) {
            for groups in groups.chunks(REPORTED_MAX) {
                self.push(report(sender(facts), groups, !all), &[port::TABLE]);
            }
        }
    }
}

fn has_tunnels(facts: &Facts<'_>) -> bool {
    facts.node.tunnel.is_some() && facts.desired.of(ObjectKind::PeerNode).next().is_some()
}
