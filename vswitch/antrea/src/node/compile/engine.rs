//! Connections of L7 rules: to the application-aware engine and back.
//!
//! The engine reads TCP, so it must see one connection: both directions with the same addresses and
//! ports. It is given packets as they are between a client and the endpoint: behind the translation
//! of a Service's address, before that of the client's. So a request goes to it before `SNAT`, and
//! an answer before `ConntrackZone` translates its source back. What comes back has source 7, gets
//! its state again, and then the rest of the translation. (Antrea since 2.x does so for Services;
//! sources that an Egress translates reach its engine in one direction only.)
//!
//! `reg0[23]` says that the state was looked up. Priorities in `ConntrackZone` are below those of
//! packets that enter again, which have no state.

use super::Writer;
use crate::Family;

/// What flows are for that lead to the engine.
pub(crate) const LED: &str = "to the L7 engine";
/// What flows are for that are about packets from the engine.
pub(crate) const BACK: &str = "from the L7 engine";

/// Match of connections of an L7 rule. A Pod that is its own endpoint (0x40) passes no engine:
/// nobody else hears it.
const OF_ENGINE: &str = "ct_mark=0x80/0xc0";

pub(super) fn compile(write: &mut Writer<'_, '_>) {
    let Some((target, _)) = &write.node().l7 else { return };
    for family in write.families() {
        state(write, family);
        second_half(write, family);
    }
    let back = "table=TrafficControl, priority=210,reg0=0x200007/0x60000f actions=goto_table:Output";
    write.flow(BACK, back);
    let back = "table=Output, priority=214,reg0=0x200007/0x60000f actions=output:NXM_NX_REG1[]";
    write.flow(BACK, back);
    if write.node().features.proxy {
        let itself = "table=Output, priority=213,ct_mark=0xc0/0xc0,reg0=0x200000/0x600000 actions=IN_PORT";
        write.flow("to itself", itself);
    }
    // Without the engine's port nobody reads what only the engine may let pass.
    let actions = match write.facts.ports.number(target) {
        Some(target) => format!("push_vlan:0x8100,move:NXM_NX_CT_LABEL[64..75]->OXM_OF_VLAN_VID[],output:{target}"),
        None => "drop".to_owned(),
    };
    write.flow(
        LED,
        format_args!("table=Output, priority=212,ct_mark=0x80/0x80,reg0=0x200000/0x600000 actions={actions}"),
    );
}

/// Packets get their state before anything of them is translated.
fn state(write: &mut Writer<'_, '_>, family: Family) {
    let node = write.node();
    let (ip, zone) = (family.ip(), node.zone_of_packet(family));
    // Of a Pod of the wire what comes back has no zone: such a connection is translated at once.
    let main = if node.features.pod_vlans { format!(",reg8={:#x}", node.zone(family)) } else { String::new() };
    let lines = [
        format!(
            "203,{ip},reg0=0/0x800000{main} actions=set_field:0x800000/0x800000->reg0,ct(table=ConntrackZone,zone={zone})"
        ),
        format!(
            "202,ct_state=+rpl+trk,ct_mark=0x10/0x10,{ip},reg0=0x7/0xf \
             actions=set_field:0x200/0x200->reg0,ct(table=L3Forwarding,zone={zone},nat)"
        ),
        format!("202,ct_state=+rpl+trk,ct_mark=0/0x10,{ip},reg0=0x7/0xf actions=goto_table:L3Forwarding"),
        format!("202,ct_state=-rpl+trk,{ip},reg0=0x7/0xf actions=goto_table:L3Forwarding"),
        format!("201,ct_state=+rpl+trk,{OF_ENGINE},{ip}{main} actions=goto_table:ConntrackState"),
    ];
    for (at, line) in lines.iter().enumerate() {
        let purpose = if at == 0 {
            "state before translation"
        } else if at == 4 {
            LED
        } else {
            BACK
        };
        write.flow(purpose, format_args!("table=ConntrackZone, priority={line}"));
    }
}

/// What is not done with packets on their way to the engine is done behind it; what was done is not
/// done again.
fn second_half(write: &mut Writer<'_, '_>, family: Family) {
    let ip = family.ip();
    write.flow(BACK, format_args!("table=L3DecTTL, priority=210,{ip},reg0=0x7/0xf actions=goto_table:SNATMark"));
    if !write.node().features.egress {
        return;
    }
    let line = format_args!(
        "table=L3Forwarding, priority=191,ct_state=-rpl+trk,{ip},reg0=0x7/0xf actions=goto_table:EgressMark"
    );
    write.flow(BACK, line);
    let Some(uplink) = &write.node().uplink else { return };
    write.flow(BACK, format_args!("table=SNATMark, priority=207,{ip},reg0=0x47/0xff actions=goto_table:SNAT"));
    let line =
        format_args!("table=SNAT, priority=207,{OF_ENGINE},{ip},reg0=0x43/0xff actions=goto_table:L2ForwardingCalc");
    write.flow(LED, line);
    if let Some(port) = write.facts.load_port(&uplink.port, "reg1") {
        let line = format_args!(
            "table=L2ForwardingCalc, priority=196,{OF_ENGINE},{ip},reg0=0x43/0xff \
             actions={port},set_field:0x200000/0x600000->reg0,goto_table:TrafficControl"
        );
        write.flow(LED, line);
    }
}
