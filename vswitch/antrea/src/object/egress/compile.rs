//! What an Egress writes: marks of its Pods' packets, and what becomes of them.

use super::{Egress, before};
use crate::macs::HOST_MAC;
use crate::address::tunnel_destination;
use crate::object::peer::compile::{into_tunnel, out_of_own_tunnel};
use crate::node::compile::TO_ENGINE;
use crate::problem::{Code, Problems};
use crate::wire::writer::Writer;
use crate::{Facts, Family, Key, ObjectKind, Mac, CompiledObject, Problem};

pub(super) fn compile(egress: &Egress, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let sources = pods(egress, name, facts, compiled);
    if !facts.features().egress || !facts.node.has(Family::of(&egress.address)) {
        return;
    }
    // Without an effect its Pods leave as if it were not there.
    if egress.contested(name, facts, &mut Problems::default()) {
        return;
    }
    if egress.is_here(facts.node) {
        let Some(mark) = facts.ids.mark(&egress.address) else { return };
        here(egress, mark, &sources, facts, compiled);
    } else {
        elsewhere(egress, &sources, facts, compiled);
    }
}

/// Priorities and matches of packets of its Pods that are there, and have no other Egress: by their
/// ports, and by their addresses behind the L7 engine.
fn pods(egress: &Egress, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) -> Vec<(u16, String)> {
    let family = Family::of(&egress.address);
    let mut sources = Vec::new();
    for (at, pod) in egress.pods.iter().enumerate() {
        let field = format!("pods[{at}]");
        if facts.desired.pod(pod).is_none() {
            compiled.degraded.push(Code::Pending, field, format!("Pod {pod} is not there yet"));
            continue;
        }
        if let Some(other) = before(facts, name, pod, family) {
            let problem = Problem::new(Code::Conflict, field, format!("Pod {pod} has {other}"));
            compiled.degraded.add(problem.other(other));
            continue;
        }
        let Some(there) = facts.pod(pod) else { continue };
        let Some(port) = facts.ports.number(&there.port) else { continue };
        sources.push((200, format!("in_port={port}")));
        if facts.node.l7.is_some() {
            let addresses = there.addresses.iter().filter(|address| Family::of(address) == family);
            sources.extend(addresses.map(|address| (201, format!("reg0=0x7/0xf,{}={address}", family.source()))));
        }
    }
    sources
}

/// Its packets are marked: by ours, and by those of other Nodes' Pods, which come by the tunnel to
/// this address.
fn here(egress: &Egress, mark: u32, sources: &[(u16, String)], facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let family = Family::of(&egress.address);
    let (ip, address) = (family.ip(), egress.address);
    let rate = egress.bandwidth.filter(|_| facts.features().egress_traffic_shaping);
    let switch = facts.node.uplink.as_ref().filter(|_| !egress.is_hosts(facts.node));
    let next = if switch.is_some() { "L3DecTTL" } else { "L2ForwardingCalc" };
    let actions = match switch {
        None => Some(to_host(mark)),
        Some(_) => to_wire(family, mark, facts, compiled),
    };
    let actions = match actions {
        None => "drop".to_owned(),
        Some(actions) => format!("{actions},goto_table:{}", if rate.is_some() { "EgressQoS" } else { next }),
    };
    let field = tunnel_destination(&address);
    let line = format!("table=EgressMark, priority=200,ct_state=+trk,{ip},{field}={address} actions={actions}");
    compiled.shared(facts, "Pods of other Nodes", &line);
    for (priority, source) in sources {
        let line = format!("table=EgressMark, priority={priority},ct_state=+trk,{ip},{source} actions={actions}");
        compiled.own(facts, "a Pod of this Node", &line);
    }
    if let Some(rate) = rate {
        let line = format!("table=EgressQoS, priority=200,pkt_mark={mark:#x}/0xff actions=meter:{mark},goto_table:{next}");
        compiled.shared(facts, "no faster than this", &line);
        if facts.node.l7.is_some() {
            // What the engine reads is counted when it comes back.
            let line = format!(
                "table=EgressQoS, priority=201,ct_mark=0x80/0xc0,reg0=0x3/0xf,pkt_mark={mark:#x}/0xff actions=goto_table:{next}"
            );
            compiled.shared(facts, TO_ENGINE, &line);
        }
        compiled.meter(&format!(
            "meter={mark},kbps,burst,stats,bands=type=drop,rate={},burst_size={}",
            rate.rate_kbps, rate.burst_kb
        ));
    }
    if switch.is_some() {
        translate(egress, mark, facts, compiled);
    }
    if let Some(mut wire) = Writer::new(facts, compiled) {
        return wire.egress(address, switch.is_some());
    }
    if let Some(mut bridge) = crate::gateway::bridge::Writer::new(facts, compiled) {
        bridge.egress(address, switch.is_some());
    }
}

/// An internal port cannot carry the mark to the host: the source's MAC says it, too.
fn to_host(mark: u32) -> String {
    let [a, b, c, d, e] = HOST_MAC;
    let mac = Mac([a, b, c, d, e, u8::try_from(mark).unwrap_or_default()]);
    format!("set_field:{mark:#x}/0xff->pkt_mark,set_field:0x20/0xf0->reg0,set_field:{mac}->eth_src")
}

/// None: there is no way yet.
fn to_wire(family: Family, mark: u32, facts: &Facts<'_>, compiled: &mut CompiledObject) -> Option<String> {
    match facts.way_out(family) {
        Ok((own, hop)) => Some(format!(
            "set_field:{mark:#x}/0xff->pkt_mark,set_field:0x40/0xf0->reg0,set_field:{own}->eth_src,set_field:{hop}->eth_dst"
        )),
        Err(reason) => {
            compiled.degraded.push(Code::Pending, "address", reason);
            None
        }
    }
}

/// Sources become the address, in a zone of its own, and answers go back.
fn translate(egress: &Egress, mark: u32, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let family = Family::of(&egress.address);
    let (ip, destination, address) = (family.ip(), family.destination(), egress.address);
    let (main, zone) = (facts.node.zone(family), facts.node.egress_zone(family));
    let mut shared = |purpose, line: String| compiled.shared(facts, purpose, &line);
    shared(
        "answers to the address",
        format!("table=UnSNAT, priority=200,{ip},{destination}={address} actions=ct(table=ConntrackZone,zone={zone},nat)"),
    );
    shared(
        "its source has to be the address",
        format!(
            "table=SNATMark, priority=205,ct_state=+new+trk,{ip},reg0=0x40/0xf0,pkt_mark={mark:#x}/0xff \
             actions=ct(commit,table=SNAT,zone={main},exec(set_field:0x20/0x20->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))"
        ),
    );
    shared(
        "its source is the address",
        format!(
            "table=SNAT, priority=205,ct_state=+new+trk,{ip},reg0=0x40/0xf0,pkt_mark={mark:#x}/0xff \
             actions=ct(commit,table=L2ForwardingCalc,zone={zone},nat(src={address}))"
        ),
    );
    shared(
        "never with a Pod's address",
        format!(
            "table=L2ForwardingCalc, priority=195,ct_state=-snat+trk,{ip},reg0=0x40/0xf0,pkt_mark={mark:#x}/0xff actions=drop"
        ),
    );
    shared(
        "as the first packet of the connection",
        format!(
            "table=SNAT, priority=205,ct_state=-new-rpl+trk,ct_mark=0x20/0x20,{ip},reg0=0x40/0xf0 actions=ct(table=L2ForwardingCalc,zone={zone},nat)"
        ),
    );
}

/// The address is on another Node, or on none.
fn elsewhere(egress: &Egress, sources: &[(u16, String)], facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let ip = Family::of(&egress.address).ip();
    let peer = facts.peer(&egress.node);
    let peer = peer.as_ref().filter(|_| facts.node.tunnel.is_some());
    if peer.is_none() {
        let mut problem = Problem::new(Code::Pending, "node", format!("nobody has {} yet", egress.address));
        if !egress.node.is_empty() {
            let key = Key::new(ObjectKind::PeerNode, &egress.node);
            problem = Problem::new(Code::Pending, "node", format!("{key} is not there")).other(key);
        }
        compiled.degraded.add(problem);
    }
    let actions = match peer {
        Some(_) => {
            format!("{},set_field:0x80000/0x80000->reg0,goto_table:L2ForwardingCalc", into_tunnel(facts, &egress.address))
        }
        None => "drop".to_owned(),
    };
    for (priority, source) in sources {
        let line = format!("table=EgressMark, priority={priority},{ip},{source} actions={actions}");
        compiled.own(facts, "a Pod of this Node", &line);
    }
    let tunnel = peer.and_then(|peer| peer.tunnel_port.as_ref());
    if let Some(line) = tunnel.and_then(|port| out_of_own_tunnel(facts, port, &egress.address)) {
        // Two Egresses may have the address, or it may be the peer's own.
        compiled.shared(facts, "to the peer's tunnel", &line);
    }
}
