//! Flows against those on the wire that claim an address of this Node, its Pods or its Services.

use crate::node::Uplink;
use crate::{Cidr, Facts, Family};

/// What flows are for that drop who says that it has an address of ours.
pub(crate) const IMPOSTORS: &str = "nobody on the wire has this address";

/// Flows against those on the wire who say that they have one of these addresses: to the Node, and
/// (unless `routed`: routers have packets from there) to Pods of the wire.
pub(crate) fn not_from_uplink(facts: &Facts<'_>, uplink: &Uplink, cidr: &Cidr, routed: bool) -> Vec<String> {
    let (ip, source, port) = (cidr.family().ip(), cidr.family().source(), facts.in_port(&uplink.port));
    if facts.features().pod_vlans && !routed {
        return impostors(&port, cidr);
    }
    vec![format!("table=Classifier, priority=220,{ip},{port},{source}={cidr} actions=drop")]
}

/// Flows against who says it to Pods of the wire as well, by packets or to neighbours. `from_wire`
/// matches where.
pub(crate) fn impostors(from_wire: &str, cidr: &Cidr) -> Vec<String> {
    let (ip, source) = (cidr.family().ip(), cidr.family().source());
    let packets = format!("table=Classifier, priority=228,{ip},{from_wire},{source}={cidr} actions=drop");
    let neighbours = match cidr.family() {
        Family::V4 => format!("table=ARPSpoofGuard, priority=211,arp,{from_wire},arp_spa={cidr} actions=drop"),
        Family::V6 => format!(
            "table=Classifier, priority=228,icmp6,{from_wire},icmp_type=136,icmp_code=0,nd_target={cidr} actions=drop"
        ),
    };
    vec![packets, neighbours]
}
