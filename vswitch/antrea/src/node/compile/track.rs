//! The tracker, and what comes before a Service's endpoint is chosen and after.

use super::Writer;
use crate::node::PacketCategory;
use crate::{Cidr, Family};

/// Whether the address is one of `NodePorts`: looked up only where that table is, since the next
/// one is for something else. `end` ends the action.
fn node_port(there: bool, end: &str) -> String {
    if there { format!("resubmit(,NodePortMark{end}") } else { String::new() }
}

pub(super) fn compile(write: &mut Writer<'_, '_>) {
    for family in write.families() {
        tracker(write, family);
    }
    if write.node().features.proxy {
        services(write);
        for family in write.families() {
            repeated(write, family);
        }
    } else {
        let node = write.node();
        for cidr in node.service_cidrs.iter().filter(|cidr| node.has(cidr.family())) {
            to_host(write, cidr);
        }
    }
}

fn tracker(write: &mut Writer<'_, '_>, family: Family) {
    let node = write.node();
    let (ip, destination) = (family.ip(), family.destination());
    let (zone, snat) = (node.zone_of_packet(family), node.snat_zone(family));
    let ours = [Some(node.virtual_service[family as usize]), node.gateway_address(family)];
    for address in ours.into_iter().flatten().filter(|_| node.features.proxy) {
        let line = format_args!(
            "table=UnSNAT, priority=200,{ip},{destination}={address} actions=ct(table=ConntrackZone,zone={snat},nat)"
        );
        write.flow("answers to translated sources", line);
    }
    write.flow(
        "tracks",
        format_args!("table=ConntrackZone, priority=200,{ip} actions=ct(table=ConntrackState,zone={zone},nat)"),
    );
    let states = [
        ("200,ct_state=+inv+trk", "drop"),
        ("190,ct_state=-new+trk,ct_mark=0/0x10", "goto_table:AntreaPolicyEgressRule"),
        ("190,ct_state=-new+trk,ct_mark=0x10/0x10", "set_field:0x200/0x200->reg0,goto_table:AntreaPolicyEgressRule"),
    ];
    for (matching, actions) in states {
        write.flow("by state", format_args!("table=ConntrackState, priority={matching},{ip} actions={actions}"));
    }
    // Of one-sided connections the tracker may think that they are invalid.
    if node.features.dsr && family == Family::V4 {
        let line = "table=ConntrackState, priority=210,ct_state=+inv+trk,ip,reg4=0x8000000/0x8000000 actions=goto_table:PreRoutingClassifier";
        write.flow("direct server return", line);
        let line = "table=DSRServiceMark, priority=190,ct_state=+inv+trk,ip,reg4=0/0x2000000 actions=drop";
        write.flow("of no such connection", line);
    }
}

/// First packets that come again before the answer: what the first one chose is looked up by its
/// original destination.
fn repeated(write: &mut Writer<'_, '_>, family: Family) {
    let mark = node_port(write.node().features.proxy_all, ",ct),");
    let ip = family.ip();
    let line = format_args!(
        "table=ConntrackState, priority=190,ct_state=+new+trk,ct_mark=0x10/0x10,{ip} actions=set_field:0x200/0x200->reg0,\
         set_field:0x40000/0x70000->reg4,{mark}resubmit(,ServiceLB,ct),set_field:0x20000/0x70000->reg4,goto_table:AntreaPolicyEgressRule"
    );
    write.flow("repeated first packets", line);
}

fn services(write: &mut Writer<'_, '_>) {
    let node = write.node();
    let mark = node_port(node.features.proxy_all, "),");
    for family in write.families() {
        let (ip, destination) = (family.ip(), family.destination());
        let line = format_args!(
            "table=PreRoutingClassifier, priority=200,{ip} actions={mark}resubmit(,SessionAffinity),resubmit(,ServiceLB)"
        );
        write.flow("new connections", line);
        let addresses = node.node_port_addresses.iter().filter(|address| Family::of(address) == family);
        let addresses = addresses.filter(|address| !address.is_loopback());
        for address in addresses.chain([&node.virtual_node_port[family as usize]]) {
            let line = format_args!(
                "table=NodePortMark, priority=200,{ip},{destination}={address} actions=set_field:0x80000/0x80000->reg4"
            );
            write.flow("an address of NodePorts", line);
        }
    }
    // The tables' misses would lead on, and this is a lookup only.
    for table in ["NodePortMark", "ServiceLB"] {
        let line = format_args!("table={table}, priority=100,reg4=0x40000/0x70000 actions=drop");
        write.flow("repeated first packets of nobody", line);
    }
    no_endpoint(write);
    let line = "table=EndpointDNAT, priority=190,reg4=0x20000/0x70000 actions=set_field:0x10000/0x70000->reg4,resubmit(,ServiceLB)";
    write.flow("the endpoint is gone: another choice", line);
}

/// A Service without endpoints.
fn no_endpoint(write: &mut Writer<'_, '_>) {
    let told = format!("controller(reason=no_match,id={},userdata=04)", super::output::CONTROLLER_SERVICE);
    let taken = write.node().taken_over.contains(&PacketCategory::ServiceReject);
    let how = (!taken).then_some(super::output::BY_SERVICE);
    for (priority, matching, actions) in
        super::output::refusing(&told, super::output::METER_SERVICE, how, 0x4000, 0x4000)
    {
        let line = format_args!("table=EndpointDNAT, priority={priority},{matching} actions={actions}");
        write.flow("a Service without endpoints", line);
    }
}

/// Services are the host's.
fn to_host(write: &mut Writer<'_, '_>, cidr: &Cidr) {
    let Some(gateway) = write.facts.load_port(&write.node().gateway.port, "reg1") else { return };
    let (ip, destination) = (cidr.family().ip(), cidr.family().destination());
    // In policy only Pods know the virtual address alone, which is not the host's.
    let mac = write.node().gateway.mac;
    let line = format_args!(
        "table=DNAT, priority=200,{ip},{destination}={cidr} actions=set_field:{mac}->eth_dst,{gateway},set_field:0x200000/0x600000->reg0,\
         goto_table:ConntrackCommit"
    );
    write.flow("Services are the host's", line);
}
