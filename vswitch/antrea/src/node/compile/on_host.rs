//! Endpoints on the host that see their clients: what the Pods' bridge does for them, without any
//! Service. The wire's part is `wire::writer::host_endpoints`.

use super::{FROM_UPLINK, Writer};
use crate::Family;
use crate::node::Uplink;

pub(super) fn compile(write: &mut Writer<'_, '_>) {
    let Some(uplink) = write.node().uplink.as_ref().filter(|_| write.facts.leads_to_host()) else { return };
    for family in write.families() {
        to_host(write, uplink, family);
    }
}

/// Connections from the wire to endpoints on the host with their clients' addresses
/// (`ct_mark[8]`): requests go back to the wire's bridge, and answers come from there in the Node's
/// own name. Nobody on the wire can: that bridge sees to it.
fn to_host(write: &mut Writer<'_, '_>, uplink: &Uplink, family: Family) {
    let (ip, source, mac) = (family.ip(), family.source(), uplink.mac);
    let own = format!("{},dl_src={mac},dl_dst={mac}", write.facts.in_port(&uplink.port));
    for address in write.node().own_addresses(family) {
        let line = format_args!("table=Classifier, priority=229,{ip},{own},{source}={address} actions={FROM_UPLINK}");
        write.flow("from an endpoint on the host", line);
    }
    let line = format_args!("table=ConntrackState, priority=211,ct_state=-rpl+trk,{ip},{own} actions=drop");
    write.flow("an endpoint on the host answers only", line);
    // Not routed: the host is where it ends.
    let line = format_args!(
        "table=L3Forwarding, priority=195,ct_state=-rpl+trk,ct_mark=0x110/0x110,{ip},reg0=0x4/0xf \
         actions=set_field:{mac}->eth_dst,set_field:0x40/0xf0->reg0,goto_table:SNATMark"
    );
    write.flow("to an endpoint on the host", line);
    let line = "table=Output, priority=210,ct_mark=0x100/0x100,reg0=0x200044/0x6000ff actions=IN_PORT";
    write.flow("to an endpoint on the host, and its answers", line);
}
