//! From the switching of a packet to its way out; what is told instead; and how much of that.

use super::Writer;
use crate::Family;
use crate::node::{LocalProbe, PacketCategory, PacketLimit, TrafficMode};

use crate::tell::{CONTROLLER_POLICY, METER_DNS, METER_POLICY, back};
pub(super) use crate::tell::{CONTROLLER_SERVICE, METER_IGMP, METER_SERVICE};

const METER_TRACEFLOW: u32 = 257;
/// Bit of operations (reg0[25..31]) that says: refuse.
const REFUSE: u32 = 2;

/// How policies refuse: as Antrea does, which is what `reject` does anyway.
const BY_POLICY: &str = "";
/// How Services without endpoints do: a port where nobody listens, so that a client hears
/// "connection refused".
pub(super) const BY_SERVICE: &str = "icmp=3,icmp6=4,";
/// Flows that tell a packet, and refuse it (`how`) unless the agent does (None): priority, match on
/// reg0, actions. What came from a tunnel is answered into it.
pub(super) fn refusing(told: &str, meter: u32, how: Option<&str>, value: u32, mask: u32) -> Vec<(u16, String, String)> {
    let matching = |value: u32, mask: u32| format!("reg0={value:#x}/{mask:#x}");
    let Some(how) = how else { return vec![(200, matching(value, mask), told.to_owned())] };
    let limited = format!("meter:{meter},{told}");
    // reg0[0..3] is 1: from a tunnel.
    vec![
        (200, matching(value, mask), format!("{limited},reject({how}{})", back(false))),
        (201, matching(value | 0x1, mask | 0xf), format!("{limited},reject({how}{})", back(true))),
    ]
}

pub(super) fn compile(write: &mut Writer<'_, '_>) {
    switching(write);
    receivers(write);
    for family in write.families() {
        let (ip, zone) = (family.ip(), write.node().zone_of_packet(family));
        let line = format_args!(
            "table=ConntrackCommit, priority=200,ct_state=+new+trk-snat,ct_mark=0/0x10,{ip} \
             actions=ct(commit,table=VLAN,zone={zone},exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))"
        );
        write.flow("a connection that nobody has committed yet", line);
    }
    out(write);
    told(write);
    meters(write);
}

fn switching(write: &mut Writer<'_, '_>) {
    let node = write.node();
    let out = "set_field:0x200000/0x600000->reg0,goto_table:TrafficControl";
    if let Some(port) = write.facts.load_port(&node.gateway.port, "reg1") {
        let line =
            format_args!("table=L2ForwardingCalc, priority=200,dl_dst={} actions={port},{out}", node.gateway.mac);
        write.flow("to the gateway", line);
    }
    if let Some(port) = node.tunnel.as_ref().and_then(|tunnel| write.facts.load_port(tunnel, "reg1")) {
        let line =
            format_args!("table=L2ForwardingCalc, priority=200,dl_dst={} actions={port},{out}", node.virtual_mac);
        write.flow("to tunnels", line);
    }
    if let Some(port) = node.uplink.as_ref().and_then(|uplink| write.facts.load_port(&uplink.port, "reg1")) {
        let line = format_args!("table=L2ForwardingCalc, priority=190,reg0=0x40/0xf0 actions={port},{out}");
        write.flow("to the wire", line);
    }
    let line = "table=TrafficControl, priority=210,reg0=0x200006/0x60000f actions=goto_table:Output";
    write.flow("back from where it was led", line);
}

/// Whom policies for receivers do not concern, and whom twice.
fn receivers(write: &mut Writer<'_, '_>) {
    let node = write.node();
    let matching = match &node.local_probe {
        LocalProbe::ByAddress => Some("reg0=0x2/0xf,reg4=0x10000000/0x10000000".to_owned()),
        LocalProbe::ByPort(port) => Some(write.facts.in_port(port)),
        LocalProbe::None => None,
    };
    for matching in matching.iter() {
        for family in write.families() {
            let ip = family.ip();
            let line = format_args!(
                "table=IngressSecurityClassifier, priority=210,ct_state=-rpl+trk,{ip},{matching} actions=goto_table:ConntrackCommit"
            );
            write.flow("the host itself", line);
        }
    }
    if node.features.proxy_all {
        let line = "table=IngressSecurityClassifier, priority=201,reg4=0x80000/0x80000 actions=goto_table:AntreaPolicyIngressRule";
        write.flow("policies of NodePorts", line);
    }
    // What routing says of the destination and what the MAC address comes to are two things: only
    // where both say so is it no Pod.
    let gateway = Some(node.gateway.port.as_str());
    let uplink = node.uplink.as_ref().map(|uplink| uplink.port.as_str());
    let to = |name: Option<&str>| name.and_then(|name| write.facts.ports.number(name));
    let mut elsewhere = vec!["reg0=0x10/0xf0".to_owned()];
    elsewhere.extend(to(gateway).map(|port| format!("reg0=0x20/0xf0,reg1={port:#x}")));
    // Without an uplink nothing is routed there.
    elsewhere
        .push(to(uplink).map_or_else(|| "reg0=0x40/0xf0".to_owned(), |port| format!("reg0=0x40/0xf0,reg1={port:#x}")));
    for destination in elsewhere {
        let line = format_args!(
            "table=IngressSecurityClassifier, priority=200,{destination} actions=goto_table:IngressMetric"
        );
        write.flow("not for a Pod of this Node", line);
    }
    if node.features.proxy {
        let line = "table=IngressSecurityClassifier, priority=200,ct_mark=0x40/0x40 actions=goto_table:ConntrackCommit";
        write.flow("to itself", line);
    }
}

fn out(write: &mut Writer<'_, '_>) {
    let node = write.node();
    if node.features.traffic_control {
        let line = "table=Output, priority=211,reg0=0x200000/0x600000,reg4=0x400000/0xc00000 actions=output:NXM_NX_REG1[],output:NXM_NX_REG9[]";
        write.flow("mirrored", line);
        let line =
            "table=Output, priority=211,reg0=0x200000/0x600000,reg4=0x800000/0xc00000 actions=output:NXM_NX_REG9[]";
        write.flow("redirected", line);
    }
    if node.features.proxy {
        write.flow("to itself", "table=Output, priority=210,ct_mark=0x40/0x40,reg0=0x200000/0x600000 actions=IN_PORT");
    }
    write.flow("out", "table=Output, priority=200,reg0=0x200000/0x600000 actions=output:NXM_NX_REG1[]");
    if node.reenters()
        && let Some(gateway) = write.facts.ports.number(&node.gateway.port)
    {
        let line = format_args!(
            "table=Output, priority=215,reg0=0x200000/0x600000,reg1={gateway:#x},reg4=0x20000000/0x20000000 \
             actions=set_field:{}->eth_src,IN_PORT",
            node.reentrance_mac
        );
        write.flow("a Service's packet back to the host", line);
        let line = "table=ConntrackCommit, priority=210,reg4=0x20000000/0x20000000 actions=goto_table:VLAN";
        write.flow("a Service's packet back to the host", line);
    }
}

/// Packets that policies tell of: logged (1), refused (2), recorded (4).
fn told(write: &mut Writer<'_, '_>) {
    let taken = write.node().taken_over.contains(&PacketCategory::PolicyReject);
    for operation in 1_u32..=7 {
        let told = format!("controller(reason=no_match,id={CONTROLLER_POLICY},userdata=01.{operation:02x})");
        let value = operation << 25 | 0x40_0000;
        let flows = if operation & REFUSE == 0 || taken {
            vec![(200, format!("reg0={value:#x}/0xfe600000"), format!("meter:{METER_POLICY},{told}"))]
        } else {
            refusing(&told, METER_POLICY, Some(BY_POLICY), value, 0xfe60_0000)
        };
        for (priority, matching, actions) in flows {
            write.flow(
                "what policies tell",
                format_args!("table=Output, priority={priority},{matching} actions={actions}"),
            );
        }
    }
}

/// How much is told. What policies refuse and what they log share a meter: the lower rate of those
/// that are given counts.
fn meters(write: &mut Writer<'_, '_>) {
    use PacketCategory::{Dns, Igmp, PolicyLog, PolicyReject, ServiceReject, Traceflow};
    let node = write.node();
    let meters: [(u32, bool, &[PacketCategory]); 5] = [
        (METER_POLICY, true, &[PolicyReject, PolicyLog]),
        (METER_TRACEFLOW, true, &[Traceflow]),
        (METER_DNS, node.features.antrea_policy, &[Dns]),
        (METER_SERVICE, node.features.proxy, &[ServiceReject]),
        (METER_IGMP, node.features.multicast, &[Igmp]),
    ];
    for (id, _, categories) in meters.into_iter().filter(|(_, there, _)| *there) {
        let given = node.packet_limits.iter().filter(|(category, _)| categories.contains(category));
        let limit = given.map(|(_, limit)| *limit).min_by_key(|limit| limit.rate_pps).unwrap_or_default();
        let PacketLimit { rate_pps, burst_packets } = limit;
        write
            .compiled
            .meter(&format!("meter={id},pktps,burst,stats,bands=type=drop,rate={rate_pps},burst_size={burst_packets}"));
    }
}

impl crate::Node {
    /// Whether packets for Services enter again after the host translated them.
    #[must_use]
    pub(crate) const fn reenters(&self) -> bool {
        match self.mode {
            TrafficMode::PolicyOnly => true,
            TrafficMode::NoEncap | TrafficMode::Hybrid => !self.features.proxy,
            TrafficMode::Encap => false,
        }
    }

    /// `ConntrackZone`'s flow for what the host sends to these addresses: judged as usual.
    pub(crate) fn entering(&self, port: &str, cidr: &crate::Cidr) -> String {
        let (ip, destination, zone) = (cidr.family().ip(), cidr.family().destination(), self.zone(cidr.family()));
        format!(
            "table=ConntrackZone, priority=220,{ip},{port},{destination}={cidr} actions=ct(table=ConntrackState,zone={zone},nat)"
        )
    }

    /// `ConntrackZone`'s flows for what a Pod sent to a Service, translated by the host: judged
    /// anew, each packet by itself. Fragments show their ports behind a `ct()` alone; that of a
    /// zone where none of them is anything but new, since nothing of it is committed there.
    pub(crate) fn entering_again(&self, port: &str, address: &std::net::IpAddr) -> [String; 2] {
        let family = Family::of(address);
        let (ip, source, zone) = (family.ip(), family.source(), self.egress_zone(family));
        let again = "set_field:0x20000000/0x20000000->reg4";
        [
            format!(
                "table=ConntrackZone, priority=210,{ip},{port},{source}={address} actions={again},goto_table:AntreaPolicyEgressRule"
            ),
            format!(
                "table=ConntrackZone, priority=211,{ip},nw_frag=yes,{port},{source}={address} \
                 actions={again},ct(table=AntreaPolicyEgressRule,zone={zone})"
            ),
        ]
    }
}
