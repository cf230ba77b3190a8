//! Information elements of a record, in the order in which a record has them.
//!
//! Numbers are those of IANA, of RFC 5103 for the answers, and of Antrea's registry. Antrea's Flow
//! Aggregator finds elements by their numbers: their order is free.

use crate::Flow;
use std::net::IpAddr;

/// Enterprise of elements of the other direction (RFC 5103).
pub const REVERSE: u32 = 29305;

/// Enterprise of Antrea's elements.
pub const ANTREA: u32 = 56506;

/// A family of addresses: a template for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Of an address.
    #[must_use]
    pub const fn of(address: &IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// A value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// One byte.
    U8(u8),
    /// Two bytes.
    U16(u16),
    /// Four bytes.
    U32(u32),
    /// Eight bytes.
    U64(u64),
    /// An address of the record's family. None, or one of the other family: all bytes are 0.
    Address(Option<IpAddr>),
    /// A text of variable length.
    Text(&'a str),
}

impl Value<'_> {
    /// The length that a template declares. 65535: it is variable.
    #[must_use]
    pub const fn declared_len(&self, family: Family) -> u16 {
        match (self, family) {
            (Self::U8(_), _) => 1,
            (Self::U16(_), _) => 2,
            (Self::U32(_), _) | (Self::Address(_), Family::V4) => 4,
            (Self::U64(_), _) => 8,
            (Self::Address(_), Family::V6) => 16,
            (Self::Text(_), _) => u16::MAX,
        }
    }
}

/// An information element.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// Its name; with two families that of IPv4.
    pub name: &'static str,
    /// Its enterprise. 0: IANA's.
    pub enterprise: u32,
    /// Its numbers, of IPv4 and of IPv6.
    pub ids: [u16; 2],
    /// Its value of a flow.
    pub value: fn(&Flow) -> Value<'_>,
}

impl Element {
    /// Its number.
    #[must_use]
    pub const fn id(&self, family: Family) -> u16 {
        self.ids[family as usize]
    }
}

const fn iana(name: &'static str, id: u16, value: fn(&Flow) -> Value<'_>) -> Element {
    Element { name, enterprise: 0, ids: [id, id], value }
}

const fn reverse(name: &'static str, id: u16, value: fn(&Flow) -> Value<'_>) -> Element {
    Element { name, enterprise: REVERSE, ids: [id, id], value }
}

const fn antrea(name: &'static str, id: u16, value: fn(&Flow) -> Value<'_>) -> Element {
    Element { name, enterprise: ANTREA, ids: [id, id], value }
}

/// Elements of addresses: one number for each family.
const fn address(name: &'static str, enterprise: u32, ids: [u16; 2], value: fn(&Flow) -> Value<'_>) -> Element {
    Element { name, enterprise, ids, value }
}

/// Seconds of a time in milliseconds. The field has 32 bits, until the year 2106.
fn seconds(ms: u64) -> Value<'static> {
    Value::U32(u32::try_from(ms / 1000).unwrap_or(u32::MAX))
}

fn service_address(flow: &Flow) -> Value<'_> {
    Value::Address(flow.service.as_ref().map(|service| service.address))
}

/// All elements of a record.
pub const ELEMENTS: [Element; 45] = [
    iana("flowStartSeconds", 150, |flow| seconds(flow.start_ms)),
    iana("flowEndSeconds", 151, |flow| seconds(flow.end_ms)),
    iana("flowStartMilliseconds", 152, |flow| Value::U64(flow.start_ms)),
    iana("flowEndMilliseconds", 153, |flow| Value::U64(flow.end_ms)),
    iana("flowEndReason", 136, |flow| Value::U8(flow.reason as u8)),
    address("sourceIPv4Address", 0, [8, 27], |flow| Value::Address(Some(flow.source))),
    address("destinationIPv4Address", 0, [12, 28], |flow| Value::Address(Some(flow.destination))),
    iana("sourceTransportPort", 7, |flow| Value::U16(flow.source_port)),
    iana("destinationTransportPort", 11, |flow| Value::U16(flow.destination_port)),
    iana("protocolIdentifier", 4, |flow| Value::U8(flow.protocol)),
    iana("packetTotalCount", 86, |flow| Value::U64(flow.forward.packets)),
    iana("octetTotalCount", 85, |flow| Value::U64(flow.forward.bytes)),
    iana("packetDeltaCount", 2, |flow| Value::U64(flow.forward.new_packets)),
    iana("octetDeltaCount", 1, |flow| Value::U64(flow.forward.new_bytes)),
    reverse("reversePacketTotalCount", 86, |flow| Value::U64(flow.reverse.packets)),
    reverse("reverseOctetTotalCount", 85, |flow| Value::U64(flow.reverse.bytes)),
    reverse("reversePacketDeltaCount", 2, |flow| Value::U64(flow.reverse.new_packets)),
    reverse("reverseOctetDeltaCount", 1, |flow| Value::U64(flow.reverse.new_bytes)),
    antrea("sourcePodName", 101, |flow| Value::Text(&flow.source_pod.name)),
    antrea("sourcePodNamespace", 100, |flow| Value::Text(&flow.source_pod.namespace)),
    antrea("sourceNodeName", 104, |flow| Value::Text(&flow.source_pod.node)),
    antrea("destinationPodName", 103, |flow| Value::Text(&flow.destination_pod.name)),
    antrea("destinationPodNamespace", 102, |flow| Value::Text(&flow.destination_pod.namespace)),
    antrea("destinationNodeName", 105, |flow| Value::Text(&flow.destination_pod.node)),
    antrea("destinationServicePort", 108, |flow| Value::U16(flow.service.as_ref().map_or(0, |service| service.port))),
    antrea("destinationServicePortName", 109, |flow| {
        Value::Text(flow.service.as_ref().map_or("", |service| &service.port_name))
    }),
    antrea("ingressNetworkPolicyName", 110, |flow| Value::Text(&flow.ingress.name)),
    antrea("ingressNetworkPolicyNamespace", 111, |flow| Value::Text(&flow.ingress.namespace)),
    antrea("ingressNetworkPolicyType", 115, |flow| Value::U8(flow.ingress.kind)),
    antrea("ingressNetworkPolicyRuleName", 141, |flow| Value::Text(&flow.ingress.rule)),
    antrea("ingressNetworkPolicyRuleAction", 139, |flow| Value::U8(flow.ingress.action as u8)),
    antrea("egressNetworkPolicyName", 112, |flow| Value::Text(&flow.egress_policy.name)),
    antrea("egressNetworkPolicyNamespace", 113, |flow| Value::Text(&flow.egress_policy.namespace)),
    antrea("egressNetworkPolicyType", 118, |flow| Value::U8(flow.egress_policy.kind)),
    antrea("egressNetworkPolicyRuleName", 142, |flow| Value::Text(&flow.egress_policy.rule)),
    antrea("egressNetworkPolicyRuleAction", 140, |flow| Value::U8(flow.egress_policy.action as u8)),
    antrea("tcpState", 136, |flow| Value::Text(&flow.tcp_state)),
    antrea("flowType", 137, |flow| Value::U8(flow.flow_type as u8)),
    antrea("egressName", 153, |flow| Value::Text(&flow.egress.name)),
    antrea("egressIP", 154, |flow| Value::Text(&flow.egress.address)),
    antrea("egressNodeName", 157, |flow| Value::Text(&flow.egress.node)),
    antrea("proxySnatPort", 172, |flow| Value::U16(flow.translated.map_or(0, |(_, port)| port))),
    address("destinationClusterIPv4", ANTREA, [106, 107], service_address),
    address("proxySnatIPv4", ANTREA, [170, 171], |flow| Value::Address(flow.translated.map(|(address, _)| address))),
    address("destinationServiceIPv4", ANTREA, [168, 169], service_address),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_element_is_there_once_and_its_length_is_that_of_all_flows() {
        for (family, address) in [(Family::V4, "10.0.0.1"), (Family::V6, "fd00::1")] {
            let address = address.parse().expect("an address");
            let plain = Flow::new(address, address);
            let full = Flow { translated: Some((address, 1)), tcp_state: "x".repeat(300), ..plain.clone() };
            let mut ids = BTreeSet::new();
            for element in ELEMENTS {
                assert!(ids.insert((element.enterprise, element.id(family))), "{}", element.name);
                let len = |flow: &Flow| (element.value)(flow).declared_len(family);
                assert_eq!(len(&plain), len(&full), "{}", element.name);
            }
        }
    }
}
