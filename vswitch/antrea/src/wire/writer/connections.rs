//! Ports of Services at the Node's own addresses, which the host's own connections may have as
//! their source port, too.
//!
//! **Design**: a port alone does not say whose a packet is, so its connection decides. Zone
//! `zones.uplink` has the connections of these ports with the mark of who has them. The first
//! packet decides: one that leaves the host makes its connection the host's; one that comes from
//! the wire makes it a Service's. Packets of other ports meet no `ct()`.
//!
//! A TCP segment of no known connection that opens none is a Service's if the Pods' bridge tracks
//! it so, else the host's: the connection may be older than these flows.
//!
//! **Limits**: a host's UDP connection that is older than these flows, or idle for longer than the
//! timeout, is known again when the host sends.

use super::{FROM_WIRE, ORIGIN_KNOWN, OURS, Writer};
use crate::Family;
use std::net::IpAddr;

/// Priorities of what the host and the Pods' bridge send, above `ORIGIN`: tunnels and resets; what
/// opens a connection; what is tracked; what is to be tracked.
const UNTRACKED: u16 = 315;
pub(super) const OPENS: u16 = 314;
pub(super) const LEAVES: u16 = 313;
const TRACKS: u16 = 312;
/// Priorities of what comes from the wire and was tracked: its connection is known; it opens one;
/// anything else.
const KNOWN: u16 = 307;
const NEW: u16 = 306;
const STRAY: u16 = 305;

/// Marks of connections, as OVN-Kubernetes has them.
const OF_SERVICES: &str = "0x1/0x3";
const OF_HOST: &str = "0x2/0x3";

/// `tcp`, `udp` and `sctp` of a family.
const fn protocols(family: Family) -> [&'static str; 3] {
    match family {
        Family::V4 => ["tcp", "udp", "sctp"],
        Family::V6 => ["tcp6", "udp6", "sctp6"],
    }
}

impl Writer<'_, '_> {
    /// A port of a Service at an address of the Node: both directions are tracked.
    pub(super) fn shared_port(&mut self, address: &IpAddr, protocol: &str, port: u16) {
        let (family, mac, zone) = (Family::of(address), self.mac, self.node.zones.uplink);
        let (source, destination) = (family.source(), family.destination());
        let (patch, vtep) = (self.under.patch, self.under.vtep);
        let track = format!("ct(table=0,zone={zone})");
        let line = format!("{FROM_WIRE},{protocol},dl_dst={mac},{destination}={address},tp_dst={port} actions={track}");
        self.flow("for a Service, or the host's connection", OURS, line);
        for from in [format!("in_port={vtep}"), format!("in_port={patch},dl_src={mac}")] {
            let line = format!("{FROM_WIRE},{protocol},{from},{source}={address},tp_src={port} actions={track}");
            self.flow("from a port of a Service", TRACKS, line);
        }
    }

    /// What connections decide, in a family.
    pub(super) fn connections(&mut self, family: Family) {
        self.leaving(family);
        self.coming(family);
        self.older(family);
    }

    /// From the host and from the Pods' bridge.
    fn leaving(&mut self, family: Family) {
        let ([tcp, udp, _], ip, zone) = (protocols(family), family.ip(), self.node.zones.uplink);
        let (patch, vtep, mac) = (self.under.patch, self.under.vtep, self.mac);
        for port in self.under.tunnels.iter().filter(|port| **port != 0) {
            let line = format!("{FROM_WIRE},{udp},in_port={vtep},tp_dst={port} actions={ORIGIN_KNOWN}");
            self.flow("the Node's tunnels", UNTRACKED, line);
        }
        let of_host = format!("ct_zone={zone},in_port={vtep}");
        let line = format!("{FROM_WIRE},ct_state=+new+trk,{tcp},tcp_flags=+rst,{of_host} actions={ORIGIN_KNOWN}");
        self.flow("a reset opens no connection", UNTRACKED, line);
        let line = format!(
            "{FROM_WIRE},ct_state=+new-rpl+trk,{ip},{of_host} \
             actions=ct(commit,zone={zone},exec(set_field:{OF_HOST}->ct_mark)),{ORIGIN_KNOWN}"
        );
        self.flow("the host's connection begins", OPENS, line);
        self.flow("from the host, tracked", LEAVES, format!("{FROM_WIRE},{ip},{of_host} actions={ORIGIN_KNOWN}"));
        let line = format!(
            "{FROM_WIRE},{ip},ct_zone={zone},in_port={patch},dl_src={mac} \
             actions=set_field:{vtep}->in_port,{ORIGIN_KNOWN}"
        );
        self.flow("from a Service, tracked", LEAVES, line);
    }

    /// A Service's connection begins.
    fn begins(&self) -> String {
        let zone = self.node.zones.uplink;
        format!("ct(commit,zone={zone},exec(set_field:{OF_SERVICES}->ct_mark)),{}", self.across())
    }

    /// From the wire.
    fn coming(&mut self, family: Family) {
        let ([tcp, udp, sctp], ip, zone) = (protocols(family), family.ip(), self.node.zones.uplink);
        let (begins, across) = (self.begins(), self.across());
        let line =
            format!("{FROM_WIRE},ct_state=+rpl+trk,ct_mark={OF_HOST},{ip},ct_zone={zone} actions={ORIGIN_KNOWN}");
        self.flow("answers to the host", KNOWN, line);
        let line = format!("{FROM_WIRE},ct_state=+trk,ct_mark={OF_SERVICES},{ip},ct_zone={zone} actions={across}");
        self.flow("of a Service's connection", KNOWN, line);
        for protocol in [format!("{tcp},tcp_flags=+syn-ack"), udp.to_owned(), sctp.to_owned()] {
            let line = format!("{FROM_WIRE},ct_state=+new+trk,{protocol},ct_zone={zone} actions={begins}");
            self.flow("a Service's connection begins", NEW, line);
        }
        for protocol in [udp, sctp] {
            let line = format!("{FROM_WIRE},{protocol},ct_zone={zone} actions={across}");
            self.flow("of no connection", STRAY, line);
        }
    }

    /// Segments of TCP of connections that are older than these flows: the Pods' bridge has those
    /// of Services.
    fn older(&mut self, family: Family) {
        let ([tcp, ..], zone, main) = (protocols(family), self.node.zones.uplink, self.node.zone(family));
        let begins = self.begins();
        let line = format!("{FROM_WIRE},{tcp},ct_zone={zone} actions=ct(table=0,zone={main})");
        self.flow("of an older connection", STRAY, line);
        let line = format!("{FROM_WIRE},ct_state=+new+trk,ct_mark=0/0x10,{tcp},ct_zone={main} actions={ORIGIN_KNOWN}");
        self.flow("of no Service's connection: the host's", KNOWN, line);
        let line = format!("{FROM_WIRE},{tcp},ct_zone={main} actions={begins}");
        self.flow("of a Service's older connection", NEW, line);
    }
}
