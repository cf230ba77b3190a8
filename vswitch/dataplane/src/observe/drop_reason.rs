//! Why a packet died: one name, one class, one sentence and one counter per cause.

/// What kind of cause a drop has: where an operator looks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropClass {
    /// A rule or a check of addresses denies the packet.
    Policy,
    /// The flows, groups and bridges lead it nowhere, or are more work than allowed.
    Pipeline,
    /// Something of the switch, a guest or the kernel was used up.
    Resource,
    /// Its bytes are not what a host may send.
    Malformed,
    /// A peer, a device or the network behind it.
    Link,
    /// The configuration of a port, a bridge or a tunnel.
    Config,
    /// A rate or a share that one port, zone or meter may have.
    Limit,
}

impl DropClass {
    /// All classes.
    pub const ALL: &[Self] =
        &[Self::Policy, Self::Pipeline, Self::Resource, Self::Malformed, Self::Link, Self::Config, Self::Limit];

    /// Name in metrics, JSON and command output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Pipeline => "pipeline",
            Self::Resource => "resource",
            Self::Malformed => "malformed",
            Self::Link => "link",
            Self::Config => "config",
            Self::Limit => "limit",
        }
    }

    /// By its name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|class| class.name() == name)
    }
}

macro_rules! drop_reasons {
    ($($(#[$meta:meta])* $variant:ident = $number:literal, $name:literal, $class:ident, $sentence:literal;)*) => {
        /// Why a packet was dropped. Numbers are stable: they appear in the API and are never
        /// reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $sentence] $variant = $number,)* }

        impl DropReason {
            /// All reasons, in order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name in metrics, JSON and command output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What happened, in one sentence for an operator.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }

            /// What kind of cause it is.
            #[must_use]
            pub const fn class(self) -> DropClass {
                match self { $(Self::$variant => DropClass::$class,)* }
            }
        }
    };
}

drop_reasons! {
    EthShort = 0, "eth_short", Malformed, "The frame was shorter than an Ethernet header (14 bytes); on a strict port: or nothing else.";
    Oversize = 1, "oversize", Config, "The frame was longer than the MTU of the port it came from or was to leave by.";
    AdminDown = 2, "admin_down", Config, "The port it came from or was to leave by is administratively down.";
    LinkDown = 3, "link_down", Link, "The port has no peer: no guest is connected, or the device has no carrier.";
    TxFull = 4, "tx_full", Resource, "The port's transmit queue was full: its peer takes packets more slowly than they come.";
    NoMbuf = 5, "no_mbuf", Resource, "The mbuf pool was empty.";
    VnetHeader = 6, "vnet_header", Malformed, "The virtio-net header of the packet contradicted its bytes.";
    Segmentation = 7, "segmentation", Malformed, "A GSO packet could not be segmented for a port that takes none.";
    BridgeSecure = 8, "bridge_secure", Config, "The bridge is in fail mode secure and nothing has been programmed.";
    ReservedMulticast = 9, "reserved_multicast", Pipeline, "Sent to 01:80:c2:00:00:0x, which a bridge never forwards (IEEE 802.1D).";
    SamePort = 10, "same_port", Pipeline, "The destination is on the port that the packet came from.";
    NoPort = 11, "no_port", Pipeline, "There was no port to send it to.";
    Depth = 12, "depth", Pipeline, "The packet crossed more patch ports than the limit: a loop between bridges.";
    PortGone = 13, "port_gone", Config, "The port was removed while the packet was on its way.";
    TxError = 14, "tx_error", Link, "The kernel or the device refused the packet.";
    FloodBudget = 15, "flood_budget", Limit, "A flooded copy too many: the floods of one burst would have taken too many mbufs.";
    Headroom = 16, "headroom", Pipeline, "There was no room in front of the packet for another VLAN tag.";
    Meter = 17, "meter", Limit, "A meter's drop band: the packet came faster than the meter's rate.";
    TableMiss = 18, "table_miss", Pipeline, "No flow of a table matched, and the table has no flow for what no other matches.";
    RuleDrop = 19, "rule_drop", Policy, "A flow matched that sends the packet nowhere.";
    ResubmitDepth = 20, "resubmit_depth", Pipeline, "More than 64 nested resubmits to the same or an earlier table, groups and patch ports.";
    ResubmitCount = 21, "resubmit_count", Pipeline, "More than 4096 resubmits.";
    RecircDepth = 22, "recirc_depth", Pipeline, "The packet went on in a table behind more than 64 ct() actions, one after the other.";
    NoReceive = 23, "no_receive", Config, "The port it came from is set not to receive.";
    NoForward = 24, "no_forward", Config, "The port it was to leave by is set not to forward.";
    NoBucket = 25, "no_bucket", Pipeline, "A group had no live bucket for it.";
    InvalidTtl = 26, "invalid_ttl", Pipeline, "dec_ttl met a TTL of 0 or 1.";
    StackDepth = 27, "stack_depth", Pipeline, "Too much was pushed on the packet's stack.";
    WorkLimit = 28, "work_limit", Pipeline, "Its actions were more work than one packet may cause: actions, outputs or nested clones.";
    VlanShort = 29, "vlan_short", Malformed, "Strict port: a VLAN tag was cut off.";
    MplsDepth = 30, "mpls_depth", Malformed, "Strict port: more than 16 MPLS labels, or the stack was cut off before its bottom.";
    IpLen = 31, "ip_len", Malformed, "Strict port: a length in the IP header contradicted the header or the frame.";
    IpVer = 32, "ip_ver", Malformed, "Strict port: the IP version was not that of the Ethernet type.";
    IpOpt = 33, "ip_opt", Malformed, "Strict port: the IPv4 options were malformed, or had a source route.";
    Ttl = 34, "ttl", Malformed, "Strict port: the packet came with a TTL or hop limit of 0, which no host sends.";
    Csum = 35, "csum", Malformed, "Strict port: a checksum was wrong: IPv4 header, TCP, UDP, ICMP or ICMPv6; or UDP over IPv6 had none.";
    TcpHdr = 36, "tcp_hdr", Malformed, "Strict port: the TCP header was cut off, had a bad offset or option, or flags that no TCP sends.";
    UdpLen = 37, "udp_len", Malformed, "Strict port: the UDP length was not that of the IP payload, or the header was cut off.";
    IcmpHdr = 38, "icmp_hdr", Malformed, "Strict port: an ICMP or ICMPv6 header was cut off.";
    NdOpt = 39, "nd_opt", Malformed, "Strict port: a neighbour discovery message was cut off, had a bad option, more than 32, or came over a router.";
    Ip6Ext = 40, "ip6_ext", Malformed, "Strict port: IPv6 extension headers were malformed, out of order, forbidden or more than 8.";
    Arp = 41, "arp", Malformed, "Strict port: an ARP packet was cut off, not of Ethernet and IPv4, or came from a group address.";
    CtFull = 42, "ct_full", Resource, "A new connection, and the connection table is full of connections that were answered.";
    CtZoneLimit = 43, "ct_zone_limit", Limit, "A new connection, and its zone has as many as its limit allows.";
    NatExhausted = 44, "nat_exhausted", Resource, "A new connection, and no free address and port to translate it to.";
    CtTupleTaken = 45, "ct_tuple_taken", Resource, "A new connection whose replies would be those of another one, and that can have no other port.";
    FragTimeout = 46, "frag_timeout", Link, "A fragment before ct() whose other fragments did not come within 15 s.";
    FragOverlap = 47, "frag_overlap", Malformed, "A fragment before ct() that overlaps another one, or comes twice.";
    FragFull = 48, "frag_full", Resource, "A fragment before ct(), when too many were waiting for others.";
    FragInvalid = 49, "frag_invalid", Malformed, "A fragment before ct() with a length or offset that no datagram has.";
    MissRate = 50, "miss_rate", Limit, "A packet of a new kind, and its port has had as many of them lately as it may ([slow_path] misses).";
    PacketInRate = 51, "packet_in_rate", Limit, "A packet for a controller, and its port has had as many lately as it may ([slow_path] packet_ins); the packet itself goes on.";
    LearnRate = 52, "learn_rate", Limit, "A flow to be learned, and its port has taught as many lately as it may ([slow_path] learns); the packet itself goes on.";
    NoRoute = 53, "no_route", Config, "A packet for a tunnel, and no route leads to the tunnel's other end.";
    NoNeighbour = 54, "no_neighbour", Link, "A packet for a tunnel, and the address of the next hop is not known; it was asked for, and more packets waited than may, or the answer did not come.";
    TunnelHeader = 55, "tunnel_header", Malformed, "A packet for one of our tunnels was malformed outside: IP, UDP, Geneve, VXLAN or GRE header.";
    TunnelNoPort = 56, "tunnel_no_port", Config, "A packet came by a tunnel, and no tunnel port is for its sender and id.";
    TunnelCsum = 57, "tunnel_csum", Malformed, "A packet came by a tunnel, and the outer UDP or GRE checksum was wrong.";
    TunnelOption = 58, "tunnel_option", Config, "A packet came by Geneve with a critical option that is not mapped to a field, or its options do not fit.";
    TunnelDepth = 59, "tunnel_depth", Pipeline, "More than two tunnels inside one another.";
    TunnelEcn = 60, "tunnel_ecn", Link, "A packet came by a tunnel with congestion marked outside, and inside none that can be told so (RFC 6040).";
    PathMtu = 61, "path_mtu", Config, "A packet that is longer than what leaves by its tunnel may be, or than a flow lets pass; its sender is told so, if it may be and was not just now.";
    Rejected = 62, "rejected", Policy, "A flow refused it: its sender is told, if he may be and was not told too much just now.";
    RejectRate = 63, "reject_rate", Limit, "A refused packet whose sender was not told: its port has had as many answers lately as it may.";
    SpoofVtep = 64, "spoof_vtep", Policy, "It was for our end of tunnels, and came in by a port that is not of the underlay: a Pod may not speak as another Node.";
    VhostDesc = 65, "vhost_desc", Malformed, "A guest's descriptors were no packet: a loop, outside its memory, or shorter than the virtio-net header; where its ring stays at them, once.";
    CtPortFull = 66, "ct_port_full", Limit, "A new connection, and its port has its share of the connection table, none of it unanswered (vsctl limits).";
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// By its name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }

    /// Index into counter arrays.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{DropClass, DropReason};
    use std::collections::HashSet;

    #[test]
    fn each_class_has_reasons_and_a_name_that_finds_it() {
        for class in DropClass::ALL {
            assert_eq!(DropClass::by_name(class.name()), Some(*class));
            assert!(DropReason::ALL.iter().any(|reason| reason.class() == *class), "{}", class.name());
        }
        assert_eq!(DropClass::by_name("rule_drop"), None);
        for reason in DropReason::ALL {
            assert_eq!(DropReason::by_name(reason.name()), Some(*reason));
        }
    }

    #[test]
    fn numbers_are_dense_and_names_unique() {
        let mut names = HashSet::new();
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i, "{}", reason.name());
            assert!(names.insert(reason.name()), "{} twice", reason.name());
            assert!(reason.sentence().ends_with('.'), "{}", reason.name());
        }
    }
}
