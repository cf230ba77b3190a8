//! Why masks of ours may differ from Open vSwitch's.

use super::Decision;
use super::program::Program;
use vswitch_flow::Field;

/// Which of the two looks at more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Ours: for fewer packets.
    Narrower,
    /// Open vSwitch's.
    Wider,
}

/// Bits of a field that one of two decisions about a packet looks at, and the other does not.
#[derive(Debug)]
pub(super) struct Difference<'a> {
    pub(super) side: Side,
    pub(super) field: Field,
    pub(super) bits: u128,
    pub(super) ours: &'a Decision,
    pub(super) theirs: &'a Decision,
    pub(super) program: &'a Program,
}

/// A known cause.
pub(super) struct Reason {
    pub(super) name: &'static str,
    /// Why it is so. For whoever reads the list.
    #[allow(dead_code)]
    pub(super) why: &'static str,
    /// Whether it is the cause.
    pub(super) explains: fn(&Difference<'_>) -> bool,
}

/// Addresses and ports of packets.
const ENDS: [Field; 6] = [Field::NwSrc, Field::NwDst, Field::Ipv6Src, Field::Ipv6Dst, Field::TpSrc, Field::TpDst];

/// Of the first packet of their connection.
const TUPLE: [Field; 7] = [
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::CtNwProto,
];

/// All of them.
pub(super) const REASONS: [Reason; 12] = [
    Reason {
        name: "fewer-bits-suffice",
        why: "Ours is for more packets. It compares up to four matches of a mask one by one, where Open vSwitch uses all bits of a stage; it \
              leaves clauses alone that cannot win; and it has prefixes of more fields. That all its packets have the same result is \
              tested here by packets with flipped bits (`flips`), of lookups with all fields by \
              `compiled_equals_reference_and_uses_what_it_says`, of whole decisions by `a_decision_holds_for_all_packets_of_its_mask`.",
        explains: |d| d.side == Side::Wider,
    },
    Reason {
        name: "first-added-wins",
        why: "Of two flows of one priority that a packet fits, the first added is met. So masks are looked up that have a flow added before \
              the one that was found. Open vSwitch stops at the first flow found.",
        explains: |d| d.bits & !d.program.ties(d.field, d.theirs) == 0,
    },
    Reason {
        name: "moved-marks-are-read",
        why: "A move in exec() reads mark or label. Open vSwitch 3.1 forgets that it did.",
        explains: |d| {
            matches!(d.field, Field::CtMark | Field::CtLabel) && d.program.says(&["move:NXM_NX_CT", "move:ct_"])
        },
    },
    Reason {
        name: "fin-timeout-looks-at-flags",
        why: "A decision that shortens timeouts is for segments that end their connection: it looks at their flags, and so at the \
              protocol. Open vSwitch asks the flags of all packets that it counted since it last looked.",
        explains: |d| {
            d.program.says(&["fin_timeout", "fin_idle_timeout", "fin_hard_timeout"])
                && match d.field {
                    Field::TcpFlags => d.bits & !5 == 0,
                    Field::NwProto => d.ours.mask.get(Field::TcpFlags) == 5,
                    _ => false,
                }
        },
    },
    Reason {
        name: "headers-are-there",
        why: "What writes an IP header looks whether there is one: a malformed packet has protocol 0, and is left as it is. Open vSwitch \
              looks, too (`commit_set_nw_action`), and forgets that it did.",
        explains: |d| {
            d.field == Field::NwProto && ["set(ipv4(", "set(ipv6("].iter().any(|set| d.ours.actions.contains(set))
        },
    },
    Reason {
        name: "written-tuples-are-hashed",
        why: "A select group behind a change of addresses or ports chooses by what was written, and so by all of the tuple. The \
              datapath of Open vSwitch hashes the packet, and decides anew.",
        explains: |d| {
            ENDS.contains(&d.field)
                && d.program.says(&["type=select"])
                && d.theirs.mask.get(Field::DpHash) != 0
                && d.ours.mask.get(Field::DpHash) == 0
        },
    },
    Reason {
        name: "underlay-behind-ct",
        why: "A flow of the underlay looks at pkt_mark. Open vSwitch 3.1 forgets that where the packet came through ct() before.",
        explains: |d| d.field == Field::PktMark && d.ours.stage() != 0 && d.ours.actions.contains("tnl_push("),
    },
    Reason {
        name: "advertisements-are-noticed",
        why: "What leaves by a VTEP port of tunnels and is a neighbor advertisement is noted, so the protocol is looked at. Open \
              vSwitch looks, too (`terminate_native_tunnel`), and forgets that it did.",
        explains: |d| {
            d.field == Field::NwProto && d.theirs.packet.get(Field::EthType) == 0x86dd && d.program.says(&["tunnel "])
        },
    },
    Reason {
        name: "null-tags-go",
        why: "NORMAL takes off a second tag that names neither VLAN nor priority, so it looks at it. Open vSwitch takes it off, too, \
              and forgets that it looked.",
        explains: |d| {
            d.field == Field::VlanTci1 && d.program.says(&["NORMAL"]) && d.theirs.packet.get(Field::VlanTci1) != 0
        },
    },
    Reason {
        name: "no-tuple-is-printed",
        why: "A packet without a connection has no tuple. Open vSwitch does not print that it looked at it.",
        explains: |d| TUPLE.contains(&d.field) && d.theirs.packet.get(Field::CtNwProto) == 0,
    },
    Reason {
        name: "discovery-has-a-code",
        why: "A flow that matches neighbor discovery and no icmp_code: the datapath of Open vSwitch 3.1.0 forgets target and options \
              (CVE-2023-5366).",
        explains: |d| {
            matches!(d.field, Field::NdTarget | Field::ArpSha | Field::ArpTha)
                && d.theirs.mask.get(Field::TpDst) & 0xff != 0xff
        },
    },
    Reason {
        name: "tunnels-have-one-version",
        why: "A tunnel has addresses of one IP version. Open vSwitch prints those only.",
        explains: |d| {
            let of = |fields: [Field; 2]| fields.iter().any(|field| d.theirs.packet.get(*field) != 0);
            let (v4, v6) = ([Field::TunSrc, Field::TunDst], [Field::TunIpv6Src, Field::TunIpv6Dst]);
            v4.contains(&d.field) && of(v6) || v6.contains(&d.field) && of(v4)
        },
    },
];
