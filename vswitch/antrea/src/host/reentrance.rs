//! Service traffic that the host translates and that enters the switch again: in modes that route,
//! where the switch is no proxy ("Running Antrea In Policy Only Mode", Pod-To-Service).
//!
//! Packets of Pods for Services come by the gateway and have a mark. What the host makes of them
//! goes back to the gateway by a table of its own. Packets that come once more have a source MAC
//! address that the host does not track.

use super::table::{ip, set};
use super::{Draft, prefix};
use crate::{Cidr, Family, Node};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use vswitch_proto::antrea::v1;

/// Antrea's `antrea_service`: table, and place of the rule that leads there.
const TABLE: u32 = 300;
/// Mark of packets for Services.
const MARK: u32 = 0x800;
/// A next hop behind the gateway that nobody has: IPv4, IPv6.
const HOPS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(169, 254, 253, 1)), IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xfd01))];

pub(super) fn draft(node: &Node, draft: &mut Draft) {
    if !node.reenters() || node.service_cidrs.is_empty() {
        return;
    }
    let gateway = &node.gateway.port;
    draft.table.untracked.push(format!("iifname \"{gateway}\" ether saddr {} notrack", node.reentrance_mac));
    for family in node.families.iter().copied() {
        let services = node.service_cidrs.iter().filter(|cidr| cidr.family() == family).map(prefix);
        let services: Vec<String> = services.collect();
        if services.is_empty() {
            continue;
        }
        let hop = HOPS[family as usize];
        draft.neighbour(hop, node.virtual_mac, node);
        if let Some(everything) = Cidr::new(hop, 0) {
            draft.plan.routes.push(v1::HostRoute {
                destination: prefix(&everything),
                table: TABLE,
                via: hop.to_string(),
                interface: gateway.clone(),
                onlink: true,
                source: String::new(),
            });
        }
        draft.plan.rules.push(v1::HostRule {
            priority: TABLE,
            ipv6: family == Family::V6,
            mark: MARK,
            mask: MARK,
            in_interface: gateway.clone(),
            table: TABLE,
        });
        let (word, services) = (ip(family), set(services.into_iter()));
        let come = format!("iifname \"{gateway}\" {word} daddr");
        draft.table.marks.push(format!("{come} {services} meta mark set meta mark | {MARK:#x}"));
        draft.table.marks.push(format!("{come} != {services} meta mark set meta mark & {:#010x}", !MARK));
    }
}
