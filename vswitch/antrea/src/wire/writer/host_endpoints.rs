//! Services with policy Local whose endpoints are on the host: these see their clients' addresses.
//!
//! **Design**: the Pods' bridge chooses and translates, as for any endpoint, and sends the packet
//! back here with the Node's MAC address as its destination. It goes to the host with the client's
//! address, and its connection into zone `zones.host_endpoints`. What the host sends of such a
//! connection goes to the Pods' bridge, which translates it back. So the host needs no rule, no
//! route and no mark of its own: to it this is a client on the wire.
//!
//! **Limits**: a client that uses one source port both by a Service and directly, to one port of
//! the host, within the timeout of the first connection, reaches the host by the Service alone.

use super::connections::{LEAVES, OPENS};
use super::{FLOODED, FROM_WIRE, ORIGIN_KNOWN, TO_HOST, Writer, errors};
use crate::{Facts, Family};
use std::net::IpAddr;

impl Facts<'_> {
    /// Whether the bridge behind the uplink leads clients to endpoints on the host. A gateway
    /// bridge has flows of its own for that.
    pub(crate) fn leads_to_host(&self) -> bool {
        let external = self.node.uplink.as_ref().is_some_and(|uplink| uplink.external_traffic);
        self.wire.under.is_some() && external && self.node.gateway_bridge().is_none()
    }
}

impl Writer<'_, '_> {
    /// What the host sends by an endpoint's port.
    pub(crate) fn host_endpoint(&mut self, address: &IpAddr, protocol: &str, port: u16) {
        let (source, zone, vtep) = (Family::of(address).source(), self.node.zones.host_endpoints, self.under.vtep);
        let line = format!(
            "{FROM_WIRE},ct_state=-trk,{protocol},in_port={vtep},{source}={address},tp_src={port} \
             actions=ct(table=0,zone={zone})"
        );
        self.flow("from an endpoint on the host", LEAVES, line);
    }

    /// What is there without an endpoint: ways of packets whose connection is known.
    pub(super) fn host_endpoints(&mut self, family: Family) {
        let (ip, zone, mac) = (family.ip(), self.node.zones.host_endpoints, self.mac);
        let (patch, vtep) = (self.under.patch, self.under.vtep);
        for address in self.node.own_addresses(family) {
            self.host_address(&address);
        }
        let line = format!(
            "{FROM_WIRE},ct_state=+new+trk,{ip},ct_zone={zone},in_port={patch} \
             actions=ct(commit,zone={zone}),output:{vtep}"
        );
        self.flow("a client of an endpoint on the host", OPENS, line);
        let line = format!("{FROM_WIRE},{ip},ct_zone={zone},in_port={patch} actions=output:{vtep}");
        self.flow("to an endpoint on the host", LEAVES, line);
        let line = format!(
            "{FROM_WIRE},ct_state=+rpl+trk,{ip},ct_zone={zone},in_port={vtep} \
             actions=set_field:{mac}->eth_dst,output:{patch}"
        );
        self.flow("an endpoint on the host answers", OPENS, line);
        let line = format!("{FROM_WIRE},{ip},dl_src={mac},dl_dst={mac} actions={ORIGIN_KNOWN}");
        self.flow("nobody on the wire speaks to us in our name", FLOODED, line);
    }

    /// An address of the host: what comes for it from the Pods' bridge, and what the host sends
    /// that shows no port (fragments, errors).
    fn host_address(&mut self, address: &IpAddr) {
        let (family, mac, zone) = (Family::of(address), self.mac, self.node.zones.host_endpoints);
        let (ip, source, destination) = (family.ip(), family.source(), family.destination());
        let (patch, vtep) = (self.under.patch, self.under.vtep);
        let line = format!(
            "{FROM_WIRE},ct_state=-trk,{ip},in_port={patch},dl_dst={mac},{destination}={address} \
             actions=ct(table=0,zone={zone})"
        );
        self.flow("a Service's packet for the host", TO_HOST, line);
        let from = format!("in_port={vtep},{source}={address} actions=ct(table=0,zone={zone})");
        self.flow(
            "the host's fragments show their ports",
            LEAVES,
            format!("{FROM_WIRE},ct_state=-trk,{ip},nw_frag=yes,{from}"),
        );
        let (icmp, kinds) = errors(family);
        for kind in kinds {
            // A fragment has no type.
            let line = format!("{FROM_WIRE},ct_state=-trk,{icmp},nw_frag=no,icmp_type={kind},{from}");
            self.flow("whose error the host's is", LEAVES, line);
        }
    }
}
