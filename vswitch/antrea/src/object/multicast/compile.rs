//! What leads packets to those who have joined a group: one flow of `MulticastRouting`, and its
//! group of buckets.

use super::{Ends, GATEWAY, Target, Way, to_node, to_pod};
use crate::address::tunnel_destination;
use crate::membership::{RECEIVERS_MAX, Receivers};
use crate::problem::Code;
use crate::{Facts, CompiledObject};
use std::fmt::Write as _;

const OUT: &str = "set_field:0x200000/0x600000->reg0";

pub(super) fn compile(target: Target, receivers: &Receivers, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let key = target.group();
    let Some(id) = facts.ids.group(&key) else { return };
    let total = receivers.pods.len() + receivers.nodes.len();
    if total > RECEIVERS_MAX {
        let reason = format!("{total} Pods and Nodes: the first {RECEIVERS_MAX} get its packets");
        compiled.degraded.push(Code::Limit, "", reason);
    }
    let matching = match target {
        Target::Everybody => "priority=200,ip,nw_dst=224.0.0.0/24".to_owned(),
        Target::Nodes => "priority=210,igmp,in_port=CONTROLLER".to_owned(),
        Target::Group(group) => format!("priority=200,ip,nw_dst={group}"),
    };
    let mut line = format!("group_id={id},type=all");
    let mut bucket = |way: &Way, actions: &str| {
        if let Some(bucket) = facts.ids.bucket(&key, way) {
            let _ = write!(line, ",bucket=bucket_id:{bucket},actions={OUT},{actions}");
        }
    };
    // The host leads them on to who has joined outside.
    if let Some(port) = facts.load_port(&facts.node.gateway.port, "reg1").filter(|_| target != Target::Nodes) {
        bucket(&GATEWAY, &format!("{port},resubmit(,MulticastOutput)"));
    }
    let ends = Ends::of(receivers);
    for name in ends.pods {
        let Some(way) = to_pod(facts.desired, name) else { continue };
        let port = facts.pod(name).and_then(|pod| facts.load_port(&pod.port, "reg1"));
        if let Some(port) = port {
            bucket(&way, &format!("{port},resubmit(,MulticastIngressRule)"));
        }
    }
    for name in ends.nodes {
        let Some(way) = to_node(facts.desired, name) else { continue };
        if let Some(port) = tunnel(facts, name) {
            let (end, field) = (way.0, tunnel_destination(&way.0));
            bucket(&way, &format!("{port},set_field:{end}->{field},resubmit(,MulticastOutput)"));
        }
    }
    compiled.group(facts, &line);
    compiled.own(facts, "to those who joined", &format!("table=MulticastRouting, {matching} actions=group:{id}"));
}

/// Loads the port of the tunnel to a Node. None: there is no tunnel to it.
fn tunnel(facts: &Facts<'_>, node: &str) -> Option<String> {
    let peer = facts.peer(node)?;
    let own = peer.tunnel_port.as_ref().filter(|_| facts.node.tunnel.is_some());
    facts.load_port(own.or(facts.node.tunnel.as_ref())?, "reg1")
}
