//! Egress IPs that the host translates: by the source MAC address that the switch gives packets.

use super::table::ip;
use super::{Draft, prefix};
use crate::macs::HOST_MAC;
use crate::object::Object;
use crate::{Cidr, Facts, Family, Mac, ObjectKind};
use std::collections::BTreeMap;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

/// Bits of a packet's mark that are the Egress IP's number.
const BITS: u32 = 0xff;

pub(super) fn draft(facts: &Facts<'_>, draft: &mut Draft) {
    let node = facts.node;
    let egresses = facts.desired.of(ObjectKind::Egress).filter_map(|(key, entry)| match &entry.object {
        Object::Egress(egress) => egress.by_host(&key.name, facts),
        _ => None,
    });
    let marks: BTreeMap<u8, IpAddr> = egresses.collect();
    let gateway = &node.gateway.port;
    for (mark, address) in marks {
        let family = Family::of(&address);
        let beside = node.transport.iter().map(|(own, _)| own).find(|own| Family::of(own) == family);
        if let Some(beside) = beside.filter(|own| **own != address) {
            draft.plan.addresses.push(v1::HostAddress {
                address: prefix(&Cidr::host(address)),
                deprecated: true,
                beside: beside.to_string(),
                ..v1::HostAddress::default()
            });
        }
        let [a, b, c, d, e] = HOST_MAC;
        let mac = Mac([a, b, c, d, e, mark]);
        draft.table.marks.push(format!(
            "iifname \"{gateway}\" ether saddr {mac} meta mark set meta mark & {:#010x} | {mark:#x}",
            !BITS
        ));
        let word = ip(family);
        let proto = if family == Family::V4 { "ipv4" } else { "ipv6" };
        draft.table.sources.push(format!(
            "oifname != \"{gateway}\" meta nfproto {proto} meta mark & {BITS:#x} == {mark:#x} snat {word} to {address}"
        ));
    }
}
