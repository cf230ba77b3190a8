//! What tells Pods of the wire from all others: `reg8` holds the zone of a packet's connections,
//! which is a VLAN's or the Node's own. One that is a VLAN's meets nothing that is not of that
//! VLAN: what is for no Pod there leaves by the uplink if a Pod sent it, and ends if it came from
//! the wire. See also `object/pod/wire.rs`.

use super::Writer;
use crate::Family;

/// A packet is of some VLAN: what their zones have in common (`Zones::of_vlan`).
const OF_A_VLAN: &str = "reg8=0x1000/0xd000";

/// A packet had a tag with a priority alone. (A bit that no zone has; whoever gets a zone loses
/// it.)
const HAD_PRIORITY: &str = "0x10000/0x10000";

/// Actions by which a packet begins with the Node's own zone.
pub(super) fn zone(write: &Writer<'_, '_>, family: Family) -> String {
    let node = write.node();
    if node.features.pod_vlans { format!("set_field:{:#x}->reg8,", node.zone(family)) } else { String::new() }
}

pub(super) fn compile(write: &mut Writer<'_, '_>) {
    let node = write.node();
    let Some(uplink) = node.uplink.as_ref().filter(|_| node.features.pod_vlans) else { return };
    let port = write.facts.in_port(&uplink.port);
    // IEEE 802.1Q: a tag of VLAN 0 says a priority, and no VLAN. What is behind it is no tag then:
    // nobody comes into a VLAN by two.
    let line = format_args!(
        "table=PipelineRootClassifier, priority=210,{port},vlan_tci=0x1000/0x1fff \
         actions=pop_vlan,set_field:{HAD_PRIORITY}->reg8,resubmit(,PipelineRootClassifier)"
    );
    write.flow("tagged with a priority alone", line);
    let line = format_args!(
        "table=PipelineRootClassifier, priority=211,{port},reg8={HAD_PRIORITY},vlan_tci=0x1000/0x1000 actions=drop"
    );
    write.flow("a tag behind a priority", line);
    // Without this, what is for the Node's MAC in some VLAN would be answered untagged.
    let line = format_args!("table=Classifier, priority=224,{port},vlan_tci=0x1000/0x1000 actions=drop");
    write.flow("of a VLAN without a Pod", line);
    let line =
        format_args!("table=VLAN, priority=190,{port},vlan_tci=0x1000/0x1000 actions=pop_vlan,goto_table:Output");
    write.flow("from a VLAN", line);
    for family in write.families() {
        let ip = family.ip();
        let line = format_args!(
            "table=L3Forwarding, priority=216,{ip},reg4=0x100000/0x100000 actions=set_field:0x40/0xf0->reg0,goto_table:L2ForwardingCalc"
        );
        write.flow("Pods of the wire to the wire", line);
        let line = format_args!("table=L3Forwarding, priority=215,{ip},{OF_A_VLAN} actions=drop");
        write.flow("for no Pod of its VLAN", line);
        // Its source is the wire's; who sent it is not asked for.
        let line = format_args!(
            "table=SNATMark, priority=207,{ip},reg0=0x4/0xf,{OF_A_VLAN} actions=goto_table:L2ForwardingCalc"
        );
        write.flow("to a Pod of the wire, as it is", line);
    }
    if let Some(port) = write.facts.load_port(&uplink.port, "reg1") {
        // Whatever its MAC says: Pods of other VLANs, and the host, are behind the wire.
        let line = format_args!(
            "table=L2ForwardingCalc, priority=205,{OF_A_VLAN},reg0=0x40/0xf0 \
             actions={port},set_field:0x200000/0x600000->reg0,goto_table:TrafficControl"
        );
        write.flow("Pods of the wire to the wire", line);
    }
}
