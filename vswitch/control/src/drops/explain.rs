//! What each drop means for an operator: its usual cause, where to look, what to change.

use vswitch_dataplane::observe::DropReason;

/// Help with a drop reason. Each part is a sentence or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What usually is behind it.
    pub cause: &'static str,
    /// Where to look.
    pub look: &'static str,
    /// What to change.
    pub change: &'static str,
}

macro_rules! explanations {
    ($($reason:ident: $cause:literal, $look:literal, $change:literal;)*) => {
        /// Help with a drop reason.
        #[must_use]
        pub const fn explain(reason: DropReason) -> Explanation {
            match reason {
                $(DropReason::$reason => Explanation { cause: $cause, look: $look, change: $change },)*
            }
        }
    };
}

explanations! {
    EthShort:
        "A sender or a test sends runts; a driver pads frames to 60 bytes.",
        "The sample's bytes: `vsctl drops samples --reason eth_short`.",
        "Mend the sender. Set the port to not strict if frames of 14 bytes are wanted.";
    Oversize:
        "The MTU of a Pod or guest is larger than that of a port on its way, or a tunnel's header was not subtracted.",
        "`vsctl list-ports BRIDGE`: the MTU of both ports. The sample's length.",
        "Set the same MTU on both ends, or raise it here: `vsctl mod-port BRIDGE PORT --mtu N`.";
    AdminDown:
        "An operator or the agent took the port down.",
        "`vsctl show`: the port says `admin: down`.",
        "`vsctl mod-port BRIDGE PORT up`, or send nothing there.";
    LinkDown:
        "No guest is connected to the port, its device has no carrier, or its interface is down.",
        "`vsctl show` and `vsctl health-show`: the port's link and the reason. `ip link` for interfaces of the kernel.",
        "Start the guest, plug the cable in, or set the interface up.";
    TxFull:
        "The guest or the reader behind the port is slower than what is sent to it, or does not run at times.",
        "`vsctl worker-rxq-show`, and the load of the guest's CPUs. The drops' rate: `vsctl drops`.",
        "Give the guest more CPU, more queues or longer rings. Limit senders with a meter.";
    NoMbuf:
        "Packets are held somewhere: guests that do not read, long floods, or a pool that is too small for the ports.",
        "`vsctl mempool-show`.",
        "Raise `[dpdk] mbufs` in the configuration. Find the port whose peer holds packets.";
    VnetHeader:
        "A guest or the kernel describes a checksum or segmentation that the bytes do not have. LRO of a card does so.",
        "The sample's bytes. `ethtool -k IF` for `large-receive-offload`.",
        "`ethtool -K IF lro off`. Mend the guest's driver.";
    Segmentation:
        "A long packet with headers that no segment can be made of, to a port that takes none whole.",
        "The sample's headers: IP options, extension headers, odd offsets.",
        "Switch TSO off in the sender, or let the receiver take TSO.";
    BridgeSecure:
        "The bridge is in fail mode secure, and neither a controller nor an operator has added a flow.",
        "`vsctl dump-flows BRIDGE` is empty.",
        "Add flows, or `vsctl set-fail-mode BRIDGE standalone`.";
    ReservedMulticast:
        "A neighbour sends STP, LACP, LLDP or pause frames, as switches do. A bridge never forwards them.",
        "The sample's destination address.",
        "Nothing, as a rule. A flow with an explicit output forwards them.";
    SamePort:
        "A neighbour floods, or two ways lead to the same port. A bridge does not send back.",
        "The MAC table: `vsctl fdb-show BRIDGE`.",
        "Nothing, if it is rare. `in_port` as an output sends back on purpose.";
    NoPort:
        "The bridge has no other port that takes packets.",
        "`vsctl show`: are the ports up and in this bridge?",
        "Add the missing port, or remove `no-flood` from the port that is to get it.";
    Depth:
        "Patch ports join bridges in a circle, or a broadcast multiplies there.",
        "`vsctl show`: follow the patch ports. `vsctl trace` shows the way.",
        "Remove one patch port of the circle.";
    PortGone:
        "A port was removed while packets were on their way to it.",
        "`vsctl port-events`: when it was removed.",
        "Nothing, if it stops. Else flows name a port that is not there any more.";
    TxError:
        "The kernel or the driver refused the packet: longer than the interface's MTU, or a firewall of the host.",
        "`dmesg`, `ip -s link show IF`, the sample's length.",
        "Make the MTU equal on both sides. Update the driver.";
    FloodBudget:
        "One burst of long packets is flooded to many ports.",
        "`vsctl fdb-show BRIDGE`: is the address unknown? Who sends: the port of the drops.",
        "Limit the sender, or set `no-flood` on ports that need no floods.";
    Headroom:
        "Actions push more VLAN tags or labels than there is room for.",
        "`vsctl trace` with the sample: its actions.",
        "Push fewer tags.";
    Meter:
        "The packets came faster than the meter allows.",
        "`vsctl dump-meters BRIDGE`, and the rule of the sample.",
        "Raise the meter's rate if the traffic is wanted.";
    TableMiss:
        "The pipeline has no rule for this packet, and no rule of priority 0.",
        "The sample's table, and `vsctl trace` with its bytes.",
        "Add a flow, or `table=N,priority=0,actions=...` for all others.";
    RuleDrop:
        "A rule denies the packet: a policy, an access list, or a flow with `actions=drop`.",
        "The sample names table, cookie and policy. `vsctl trace` shows each step.",
        "Change the policy or the flow if the traffic is wanted.";
    ResubmitDepth:
        "Tables resubmit backwards in a circle.",
        "`vsctl trace` with the sample.",
        "Break the circle: resubmit to later tables.";
    ResubmitCount:
        "A packet visits more tables than allowed, often by floods over many patch ports.",
        "`vsctl trace` with the sample.",
        "Shorten the pipeline.";
    RecircDepth:
        "Each `ct()` leads to another one without end.",
        "`vsctl trace` with the sample: the tables behind `ct()`.",
        "Do not return to a table in front of its own `ct()`.";
    NoReceive:
        "The port has the flag `no-receive`.",
        "`vsctl list-ports BRIDGE`.",
        "`vsctl mod-port BRIDGE PORT receive`.";
    NoForward:
        "The port has the flag `no-forward`.",
        "`vsctl list-ports BRIDGE`.",
        "`vsctl mod-port BRIDGE PORT forward`.";
    NoBucket:
        "The group has no bucket, or none whose port has a link: a Service without endpoints.",
        "`vsctl dump-groups BRIDGE`, and the links of the watched ports.",
        "Add an endpoint, or mend the links.";
    InvalidTtl:
        "The packet has crossed too many routers, or traceroute asks for it. A routing loop is possible.",
        "The sample's source, destination and TTL. `vsctl trace`.",
        "Nothing for traceroute. Else find the loop.";
    StackDepth:
        "Actions push registers in a circle.",
        "`vsctl trace` with the sample.",
        "Pop what is pushed.";
    WorkLimit:
        "The rules of one packet are more work than allowed: long lists, nested clones, very many outputs.",
        "`vsctl trace` with the sample.",
        "Shorten the lists. Use groups for many outputs.";
    VlanShort:
        "A sender cuts frames off inside the VLAN tag.",
        "The sample's bytes.",
        "Mend the sender.";
    MplsDepth:
        "A sender stacks too many labels, or cuts them off.",
        "The sample's bytes.",
        "Mend the sender. Set the port to not strict for deep stacks.";
    IpLen:
        "A broken sender, or an attack with lengths that lie.",
        "The sample's IP header.",
        "Mend the sender. Find out who owns the port.";
    IpVer:
        "A broken sender, or an attack on parsers.",
        "The sample's Ethernet type and first nibble.",
        "Mend the sender. Find out who owns the port.";
    IpOpt:
        "Source routing, which a strict port forbids, or broken options.",
        "The sample's IP header.",
        "Mend the sender. Set the port to not strict if the options are wanted.";
    Ttl:
        "A broken sender: no host sends a TTL of 0.",
        "The sample's IP header.",
        "Mend the sender.";
    Csum:
        "A sender or a device on the way breaks checksums. Captures of a sender with offload show wrong ones that are not sent so.",
        "The sample's checksum; `ethtool -k IF` of the sender.",
        "Switch checksum offload off in the sender, or update its driver.";
    TcpHdr:
        "A port scan, or a broken stack.",
        "The sample's TCP header and source.",
        "Nothing for scans. Mend the sender else.";
    UdpLen:
        "A broken sender, or an attack with lengths that lie.",
        "The sample's UDP header.",
        "Mend the sender.";
    IcmpHdr:
        "A broken sender, or an attack on parsers.",
        "The sample's ICMP header.",
        "Mend the sender.";
    NdOpt:
        "A forged neighbour discovery message, or one that came over a router.",
        "The sample's hop limit and options.",
        "Find out who owns the port.";
    Ip6Ext:
        "Extension headers that a strict port forbids: an evasion, or a rare protocol.",
        "The sample's extension headers.",
        "Mend the sender. Set the port to not strict if the headers are wanted.";
    Arp:
        "A broken or forged ARP packet.",
        "The sample's ARP fields.",
        "Find out who owns the port.";
    CtFull:
        "More connections are open than the table holds.",
        "`vsctl ct-stats-show`, and `vsctl limits` for the ports that have most.",
        "Raise `[conntrack] connections`, or limit the port that opens them.";
    CtZoneLimit:
        "The zone has as many connections as its limit allows.",
        "`vsctl ct-get-limits`.",
        "`vsctl ct-set-limits zone=N,limit=M`.";
    NatExhausted:
        "All ports of the translated address are in use towards this destination.",
        "`vsctl dump-conntrack` of the zone: how many go to one destination.",
        "Give the Egress or the `nat()` action more addresses or ports.";
    CtTupleTaken:
        "Two clients use the same ports towards the same server behind one address.",
        "`vsctl dump-conntrack` for the sample's destination.",
        "Give `nat()` a range of ports.";
    FragTimeout:
        "Some fragments of a datagram are lost on the way: an MTU that is too small, or a congested link.",
        "Drops and errors of the links before this port. The sample's fragment offset.",
        "Make fragments needless: the same MTU on the whole way.";
    FragOverlap:
        "A forged datagram, or a network that doubles packets.",
        "The sample's offset and length.",
        "Find out who owns the port.";
    FragFull:
        "A storm of fragments, or very large datagrams from many senders.",
        "The rate of the drops and their port.",
        "Limit the sender. Make fragments needless: a larger MTU.";
    FragInvalid:
        "A broken or forged fragment.",
        "The sample's offset and length.",
        "Find out who owns the port.";
    MissRate:
        "The port begins more new kinds of traffic than it may: a scan, or very many short connections.",
        "`vsctl worker-perf-show`: lost misses. `vsctl drops --by port`.",
        "Raise `[slow_path] misses`, if the traffic is wanted. Limit the sender else.";
    PacketInRate:
        "More packets go to a controller than its port may cause.",
        "`vsctl dump-flows BRIDGE`: flows with `controller`.",
        "Raise `[slow_path] packet_ins`, or send fewer packets to the controller.";
    LearnRate:
        "The port's packets teach more flows than it may.",
        "`vsctl dump-tables BRIDGE`: learn_refused.",
        "Raise `[slow_path] learns`, or learn from fewer packets.";
    NoRoute:
        "The route to the other end of the tunnel is missing or was removed.",
        "`vsctl route-show`, and the tunnel's remote address.",
        "`vsctl route-add PREFIX PORT [GATEWAY]`.";
    NoNeighbour:
        "The next hop does not answer ARP or neighbour discovery: it is down, or in another VLAN.",
        "`vsctl tnl-neigh-show`, and a ping to it from the host.",
        "Mend the next hop or the VLAN. The first packets of a tunnel are lost for a moment.";
    TunnelHeader:
        "A peer of another version, or a forged packet to the tunnel's port.",
        "The sample's outer headers.",
        "Check that the peer uses the same kind of tunnel and the same options.";
    TunnelNoPort:
        "A peer sends with a network id or from an address that no tunnel port has.",
        "`vsctl show`: `remote_ip` and `key` of the tunnel ports. The sample's outer source.",
        "Add the tunnel port, or correct its key.";
    TunnelCsum:
        "A device on the way breaks outer checksums.",
        "`ethtool -k` of the peer's card.",
        "Switch outer checksum offload off at the peer.";
    TunnelOption:
        "The peer sends a critical Geneve option that is not mapped here.",
        "`vsctl dump-tlv-map BRIDGE`, and the sample's options.",
        "Map the option, or let the peer not set it.";
    TunnelDepth:
        "A tunnel leads into another one without end: a route to a tunnel's end leads into that tunnel.",
        "`vsctl route-show`.",
        "Correct the route.";
    TunnelEcn:
        "A congested network marks tunnelled packets whose sender does not know ECN.",
        "The rate, and the load of the links.",
        "Relieve the link. The drop is what the standard asks for.";
    PathMtu:
        "The sender's packets do not fit into the tunnel or the policy's limit. It was told so, if it may be.",
        "The sample's length, and the MTU of the Pod.",
        "Set the Pod's MTU to the tunnel's. Let ICMP reach the sender.";
    Rejected:
        "A policy or a flow refuses the packet with an answer, such as a Service without endpoints.",
        "The sample names table, cookie and policy.",
        "Change the policy or the flow if the traffic is wanted.";
    RejectRate:
        "A sender insists on what is refused.",
        "`vsctl drops --by port`.",
        "Stop the sender. The packets die as `rejected` either way.";
    SpoofVtep:
        "A Pod or guest pretends to be another Node's tunnel.",
        "The port of the drops, and the sample's outer source.",
        "Find out who owns the port. If it is the underlay, configure it as such.";
    VhostDesc:
        "A guest's driver is broken or hostile.",
        "The log of the guest, and the port.",
        "Restart the guest, or mend its driver.";
    CtPortFull:
        "One port opens more connections than its share: a scan, or a server that answers nothing.",
        "`vsctl limits PORT`.",
        "Limit the sender, or raise `[conntrack] connections`.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_sentences_of_its_own() {
        for reason in DropReason::ALL {
            let Explanation { cause, look, change } = explain(*reason);
            for text in [cause, look, change] {
                assert!(text.len() > 10 && text.ends_with(['.', '?']), "{}: {text:?}", reason.name());
                assert!(text.starts_with(|c: char| c.is_uppercase() || c == '`'), "{}: {text:?}", reason.name());
                assert!(!text.contains('|') && !text.contains('\n'), "a cell of a table: {text:?}");
            }
        }
    }
}
