//! Multicast of Pods, but for groups: where its packets leave the way of others, who reads IGMP,
//! where data goes that nobody here has joined.

use super::Writer;
use super::output::METER_IGMP;
use crate::tunnel_flows::groups_from_tunnel;

/// Controller that reads IGMP.
const CONTROLLER_IGMP: u16 = 62376;

pub(super) fn compile(write: &mut Writer<'_, '_>) {
    if !write.node().features.multicast {
        return;
    }
    let node = write.node();
    let line = "table=PipelineIPClassifier, priority=210,ip,nw_dst=224.0.0.0/4 actions=goto_table:MulticastEgressRule";
    write.flow("for groups", line);
    // Ours for other Nodes, and nothing else that a controller sends.
    let line = "table=Classifier, priority=200,igmp,in_port=CONTROLLER actions=goto_table:PipelineIPClassifier";
    write.flow("our reports", line);
    for tunnel in node.tunnel.iter() {
        for line in groups_from_tunnel(write.facts, tunnel) {
            write.flow("for groups, from the tunnel", line);
        }
    }
    // What a rule says of IGMP, its reader sees to; and it is no data.
    let line = "table=MulticastEgressRule, priority=64990,igmp,reg0=0x3/0xf actions=goto_table:MulticastRouting";
    write.flow("IGMP of Pods", line);
    let line = "table=MulticastEgressPodMetric, priority=210,igmp actions=goto_table:MulticastRouting";
    write.flow("IGMP is not counted", line);
    for source in [1_u32, 3] {
        let line = format_args!(
            "table=MulticastRouting, priority=210,igmp,reg0={source:#x}/0xf \
             actions=meter:{METER_IGMP},controller(reason=no_match,id={CONTROLLER_IGMP},userdata=03)"
        );
        write.flow("IGMP", line);
    }
    // A Pod that hears the host's report says nothing of its own (RFC 2236, 3).
    write.flow("IGMP of the host", "table=MulticastRouting, priority=210,igmp,reg0=0x2/0xf actions=drop");
    let out = "set_field:0x200000/0x600000->reg0";
    if let Some(port) = write.facts.load_port(&node.gateway.port, "reg1") {
        let line =
            format_args!("table=MulticastRouting, priority=190,ip actions={out},{port},goto_table:MulticastOutput");
        write.flow("nobody here has joined", line);
    }
    let line = "table=MulticastOutput, priority=200,reg0=0x200000/0x600000 actions=output:NXM_NX_REG1[]";
    write.flow("out", line);
}
