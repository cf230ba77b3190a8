//! Flows of a port of tunnels: the Node has one, and a peer may have one of its own.

use crate::Facts;

/// Classifier's flow of a tunnel port.
pub(crate) fn from_tunnel(facts: &Facts<'_>, port: &str) -> String {
    let port = facts.in_port(port);
    format!(
        "table=Classifier, priority=200,{port} actions=set_field:0x1/0xf->reg0,set_field:0x200/0x200->reg0,goto_table:UnSNAT"
    )
}

/// Flows of a tunnel's port: what comes out of it for groups is led to Pods, and to nobody who gets
/// it from its sender's Node.
pub(crate) fn groups_from_tunnel(facts: &Facts<'_>, port: &str) -> Vec<String> {
    if !facts.features().multicast {
        return Vec::new();
    }
    let of = |name: &str| facts.ports.number(name);
    let (Some(tunnel), Some(gateway)) = (of(port), of(&facts.node.gateway.port)) else { return Vec::new() };
    let output = "table=MulticastOutput, priority=210";
    let mut lines = vec![
        format!(
            "table=Classifier, priority=210,ip,in_port={tunnel},nw_dst=224.0.0.0/4 actions=set_field:0x1/0xf->reg0,goto_table:MulticastEgressRule"
        ),
        format!("{output},reg0=0x200001/0x60000f,reg1={gateway:#x} actions=drop"),
    ];
    lines.extend([1, 2].map(|from: u32| {
        let value = 0x20_0000 | from;
        format!("{output},reg0={value:#x}/0x60000f,reg1={tunnel:#x} actions=drop")
    }));
    lines
}
