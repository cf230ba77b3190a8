//! From policies for senders to those for receivers: routes, marks, translated sources.

use super::Writer;
use crate::node::{TrafficMode, Uplink};
use crate::{Cidr, Family, Node};

pub(super) fn compile(write: &mut Writer<'_, '_>) {
    for family in write.families() {
        established(write, family);
        routes(write, family);
        egress(write, family);
        let ip = family.ip();
        write.flow(
            "not routed by us",
            format_args!("table=L3DecTTL, priority=210,{ip},reg0=0x2/0xf actions=goto_table:SNATMark"),
        );
        write.flow("routed", format_args!("table=L3DecTTL, priority=200,{ip} actions=dec_ttl,goto_table:SNATMark"));
        if write.node().features.proxy {
            sources(write, family);
        }
        if let Some(uplink) = &write.node().uplink {
            wire(write, uplink, family);
        }
    }
    if write.node().features.proxy {
        let mac = write.node().gateway.mac;
        let sources = if write.node().uplink.is_some() { &["0x202", "0x204"][..] } else { &["0x202"] };
        for source in sources {
            let line = format_args!(
                "table=L3Forwarding, priority=190,ct_mark=0x10/0x10,reg0={source}/0x20f actions=set_field:{mac}->eth_dst,set_field:0x20/0xf0->reg0,goto_table:L3DecTTL"
            );
            write.flow("endpoints outside", line);
        }
    }
    // Above the table's miss, which would lead past the source's translation by the host to that by
    // the switch.
    write.flow("no rate", "table=EgressQoS, priority=190 actions=goto_table:L2ForwardingCalc");
}

/// What policies allowed once, and what belongs to it.
fn established(write: &mut Writer<'_, '_>, family: Family) {
    let antrea = write.node().features.antrea_policy;
    for (direction, metric) in [("EgressRule", "EgressMetric"), ("IngressRule", "IngressMetric")] {
        let (table, priority) =
            if antrea { (format!("AntreaPolicy{direction}"), 64990) } else { (direction.to_owned(), 210) };
        for state in ["-new+est", "-new+rel"] {
            let ip = family.ip();
            let line =
                format_args!("table={table}, priority={priority},ct_state={state},{ip} actions=goto_table:{metric}");
            write.flow("connections that were allowed", line);
        }
    }
}

/// Actions that lead to the host.
fn to_gateway(write: &Writer<'_, '_>) -> String {
    format!("set_field:{}->eth_dst,set_field:0x20/0xf0->reg0,goto_table:L3DecTTL", write.node().gateway.mac)
}

fn routes(write: &mut Writer<'_, '_>, family: Family) {
    let node = write.node();
    let (ip, destination, mac) = (family.ip(), family.destination(), node.gateway.mac);
    let gateway = to_gateway(write);
    if let Some(address) = node.gateway_address(family) {
        let line = format_args!("table=L3Forwarding, priority=210,{ip},{destination}={address} actions={gateway}");
        write.flow("route to the gateway", line);
    }
    let line =
        format_args!("table=L3Forwarding, priority=210,ct_state=+rpl+trk,ct_mark=0x2/0xf,{ip} actions={gateway}");
    write.flow("answers to what came by the gateway", line);
    // In policy only no packet is addressed directly: Pods know the virtual MAC address alone, and
    // each Pod has its own route.
    let bridged = node.pod_cidrs.iter().filter(|_| node.mode != TrafficMode::PolicyOnly);
    for cidr in bridged.filter(|cidr| cidr.family() == family) {
        let line = format_args!(
            "table=L3Forwarding, priority=200,{ip},reg0=0/0x200,{destination}={cidr} actions=goto_table:L2ForwardingCalc"
        );
        write.flow("Pods on this Node, addressed directly", line);
    }
    if node.mode == TrafficMode::PolicyOnly {
        write.flow(
            "everything else is the host's",
            format_args!("table=L3Forwarding, priority=190,{ip} actions={gateway}"),
        );
    } else if node.reenters() {
        // The host sent it to the virtual MAC, which the table's miss would leave as it is: that of
        // tunnels, or nobody's.
        let line = format_args!(
            "table=L3Forwarding, priority=190,{ip},reg0=0x2/0xf,reg4=0x20000000/0x20000000 actions={gateway}"
        );
        write.flow("a Service's packet back to the host", line);
    }
    if node.features.egress {
        let line = format_args!(
            "table=L3Forwarding, priority=190,ct_state=-rpl+trk,{ip},reg0=0x3/0xf,reg4=0/0x100000 actions=goto_table:EgressMark"
        );
        write.flow("Pods to the world outside", line);
        let line = format_args!(
            "table=L3Forwarding, priority=190,ct_state=-rpl+trk,{ip},reg0=0x1/0xf actions=set_field:{mac}->eth_dst,goto_table:EgressMark"
        );
        write.flow("Pods of other Nodes to the world outside", line);
    }
}

/// The flow for what no Egress applies to: of `EgressMark`; without Egresses, where Pods leave by
/// the wire all the same, of `L3Forwarding`.
pub(crate) fn no_egress(node: &Node, cidr: &Cidr) -> String {
    let (ip, destination) = (cidr.family().ip(), cidr.family().destination());
    if !node.features.egress && node.shared_gateway().is_some() {
        let mac = node.gateway.mac;
        return format!(
            "table=L3Forwarding, priority=189,{ip},reg0=0x3/0xf,{destination}={cidr} \
             actions=set_field:{mac}->eth_dst,set_field:0x20/0xf0->reg0,goto_table:L3DecTTL"
        );
    }
    format!(
        "table=EgressMark, priority=210,{ip},{destination}={cidr} actions=set_field:0x20/0xf0->reg0,goto_table:L2ForwardingCalc"
    )
}

fn egress(write: &mut Writer<'_, '_>, family: Family) {
    let node = write.node();
    let ours = node.transport.iter().map(|(address, _)| Cidr::host(*address));
    let except = ours.chain(node.service_cidrs.iter().copied()).chain(node.egress_except.iter().copied());
    for cidr in except.filter(|cidr| cidr.family() == family) {
        let line = no_egress(node, &cidr);
        write.flow("no Egress applies", line);
    }
    let ip = family.ip();
    let line = format_args!("table=EgressMark, priority=190,ct_state=+new+trk,{ip},reg0=0x1/0xf actions=drop");
    write.flow("an Egress that is not here any more", line);
}

/// Sources of Service connections that must come back this way.
fn sources(write: &mut Writer<'_, '_>, family: Family) {
    let node = write.node();
    let (ip, zone, snat) = (family.ip(), node.zone_of_packet(family), node.snat_zone(family));
    let hairpin = "set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark";
    let marks =
        [("reg0=0x22/0xff", hairpin), ("reg0=0x12/0xff,reg4=0x200000/0x2200000", "set_field:0x20/0x20->ct_mark")];
    for (matching, exec) in marks {
        let line = format_args!(
            "table=SNATMark, priority=200,ct_state=+new+trk,{ip},{matching} actions=ct(commit,table=SNAT,zone={zone},exec({exec}))"
        );
        write.flow("its source has to be ours", line);
    }
    let line = format_args!(
        "table=SNAT, priority=200,ct_state=-new-rpl+trk,ct_mark=0x20/0x20,{ip} actions=ct(table=L2ForwardingCalc,zone={snat},nat)"
    );
    write.flow("as the first packet of the connection", line);
    // All three marks, since later tables see this zone's.
    let service = "set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark";
    let both = format!("{service},set_field:0x40/0x40->ct_mark");
    let hairpin_source = format!("nat(src={})", node.virtual_service[family as usize]);
    let gateway = node.gateway_address(family).map(|address| format!("nat(src={address})"));
    let mut rules = vec![(200, "ct_mark=0x40/0x40", "reg0=0x2/0xf", hairpin_source.clone(), &both)];
    if let Some(gateway) = &gateway {
        rules.push((200, "ct_mark=0x40/0x40", "reg0=0x3/0xf", gateway.clone(), &both));
    }
    let service = service.to_owned();
    if let Some(gateway) = &gateway {
        rules.push((190, "ct_mark=0x20/0x20", "reg0=0x2/0xf", gateway.clone(), &service));
        if node.uplink.is_some() {
            rules.push((190, "ct_mark=0x20/0x20", "reg0=0x4/0xf", gateway.clone(), &service));
        }
    }
    if node.uplink.is_some() {
        // The host would not take a packet from its own address.
        rules.push((195, "ct_mark=0x20/0x20", "reg0=0x24/0xff", hairpin_source, &service));
    }
    for (priority, mark, from, nat, exec) in rules {
        let line = format_args!(
            "table=SNAT, priority={priority},ct_state=+new+trk,{mark},{ip},{from} actions=ct(commit,table=L2ForwardingCalc,zone={snat},{nat},exec({exec}))"
        );
        write.flow("its source is ours", line);
    }
}

/// What came from the wire: who asked is remembered, and answers go there.
fn wire(write: &mut Writer<'_, '_>, uplink: &Uplink, family: Family) {
    let node = write.node();
    let (ip, zone, mac) = (family.ip(), node.zone_of_packet(family), uplink.mac);
    let who = "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3],move:OXM_OF_PKT_REG5[0..47]->NXM_NX_CT_LABEL[76..123]";
    // Endpoints that are not here answer to us: those of other Nodes to the gateway's address,
    // those that the host leads to, to the virtual one.
    let marks = [
        (205, "reg0=0x4/0xf", String::new()),
        (206, "reg0=0x14/0xff,reg4=0x200000/0x2200000", ",set_field:0x20/0x20->ct_mark".to_owned()),
        (206, "reg0=0x24/0xff,reg4=0x200000/0x200000", ",set_field:0x20/0x20->ct_mark".to_owned()),
    ];
    for (priority, matching, more) in marks {
        let line = format_args!(
            "table=SNATMark, priority={priority},ct_state=+new+trk,{ip},{matching} actions=ct(commit,table=SNAT,zone={zone},exec({who}{more}))"
        );
        write.flow("the asker on the wire is remembered", line);
    }
    let line = format_args!(
        "table=L3Forwarding, priority=210,ct_state=+rpl+trk,ct_mark=0x4/0xf,{ip} actions=set_field:{mac}->eth_src,\
         move:NXM_NX_CT_LABEL[76..123]->NXM_OF_ETH_DST[],set_field:0x40/0xf0->reg0,goto_table:L3DecTTL"
    );
    write.flow("answers to the wire", line);
    let line = format_args!(
        "table=L3Forwarding, priority=190,{ip},reg0=0x6/0xf,dl_src={mac} actions=set_field:0x40/0xf0->reg0,goto_table:L2ForwardingCalc"
    );
    write.flow("redirected on its way to the wire", line);
}
