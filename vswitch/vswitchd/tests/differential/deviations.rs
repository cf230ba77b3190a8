//! Where our switch does something else than Open vSwitch 3.1, by choice. Each deviation has a
//! case, which shows it; the harness accepts no other difference, and no deviation without its
//! case. The generator makes nothing that meets one.

/// A chosen difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deviation {
    /// What cases call it (`# deviation: NAME`).
    pub(crate) name: &'static str,
    /// Why. For whoever reads the list.
    #[allow(dead_code)]
    pub(crate) reason: &'static str,
}

const fn deviation(name: &'static str, reason: &'static str) -> Deviation {
    Deviation { name, reason }
}

/// All of them.
pub(crate) const DEVIATIONS: [Deviation; 42] = [
    deviation(
        "insert-buckets",
        "a bucket inserted into a select group gets its share by weight, not all packets (a bug of Open vSwitch 3.1)",
    ),
    deviation(
        "select-groups-do-not-recirculate",
        "a packet counts everywhere with the length that it came with, behind a select group too",
    ),
    deviation(
        "later-fragments-keep-their-payload",
        "there is no L4 checksum in a later fragment; Open vSwitch overwrites payload",
    ),
    deviation("table-254", "tables are 0 to 253; Open vSwitch lets flows send packets to its internal table"),
    deviation(
        "contradicting-matches",
        "a field that is given twice with different values is a mistake: refused, and said where",
    ),
    deviation(
        "fields-without-protocol",
        "what is left of a match without them is the match: it replaces a flow with the same one",
    ),
    deviation(
        "checksum-behind-routing-header",
        "a new source changes the checksum behind a routing header, too (RFC 8200, 8.1)",
    ),
    deviation(
        "meters-fill-up",
        "a bucket fills up; Open vSwitch rounds the time that fills it down, to never in the extreme",
    ),
    deviation(
        "meters-behind-copies",
        "a meter in a clone or bucket drops that copy only, and may count a tag that was pushed before",
    ),
    deviation("64-kb-of-actions", "work is bounded by numbers of actions and operations, not by the size of a message"),
    deviation(
        "cut-off-headers",
        "a header that is cut off, or ARP for other addresses, is not written to; Open vSwitch writes, beyond the packet's end too",
    ),
    deviation("tags-that-come-back", "a tag below one that a clone or bucket pushed keeps its drop eligible indicator"),
    deviation("part-of-pcp", "a mask of a VLAN's TCI means what it says"),
    deviation("dscp-remark", "bands that raise the drop precedence work; Open vSwitch's datapaths have none"),
    deviation(
        "truncation-is-of-what-leaves",
        "output(max_len) cuts the packet as it leaves, not as it was before changes were taken back",
    ),
    deviation("load-of-a-whole-field", "load of all bits of a field is the same as set_field, and printed so"),
    deviation("bare-nat-is-identity", "ct(commit,nat) of a new connection translates nothing; its answers are found"),
    deviation(
        "no-free-tuple-is-a-drop",
        "a packet that cannot be translated as asked must not leave untranslated: it is dropped, by name",
    ),
    deviation("full-zone-is-a-drop", "a zone at its limit, or a full table, refuses new connections: dropped, by name"),
    deviation("icmp-ids-are-translated", "two hosts that ping with the same id behind one address both get answers"),
    deviation("sctp-ports-are-tracked", "SCTP's ports make connections, as TCP's and UDP's do"),
    deviation(
        "a-closed-tuple-keeps-its-port",
        "a connection that takes the place of a closed one may have its translated tuple, too",
    ),
    deviation(
        "a-taken-reply-tuple-gets-another-port",
        "a connection whose answers would be taken for another one's gets another source port, as in Linux; without ports it is dropped, by name",
    ),
    deviation(
        "sixty-four-recirculations",
        "Open vSwitch's datapath gives up at 6; published pipelines need 8 and more",
    ),
    deviation(
        "fragments",
        "all fragments have the ports of the first one behind ct(), as in Linux; no least size; one port's fragments only",
    ),
    deviation(
        "translations-stay-in-their-bucket",
        "what a bucket changes is undone behind it, what its ct(nat) changes too",
    ),
    deviation(
        "icmpv6-errors-about-tcp-are-right",
        "the checksum of an ICMPv6 error is where it belongs, however much of a TCP segment is quoted",
    ),
    deviation(
        "advertisements-are-checked",
        "an advertisement that RFC 4861 (7.1.2) forbids, or that nobody asked for, teaches nothing",
    ),
    deviation(
        "strangers-are-no-neighbours",
        "only who was asked for, or set, is a neighbour: nobody else can fill the table",
    ),
    deviation(
        "tunnel-options-are-checked",
        "an option that is unknown, or has a value that it cannot have, is refused; Open vSwitch ignores it",
    ),
    deviation(
        "a-tunnel-has-a-destination",
        "a packet whose tunnel has no destination is dropped, whatever the default route",
    ),
    deviation(
        "home-that-is-down",
        "nothing leaves by, or comes out of a tunnel at, a port that is administratively down",
    ),
    deviation("group-policy", "tunnels of Open vSwitch without a kernel take exts=gbp and do nothing"),
    deviation("gre-sequence", "a GRE checksum covers the sequence number that is sent, and each tunnel counts its own"),
    deviation(
        "outer-lengths-count",
        "what lies behind the end that the outer lengths say is padding, and no part of the inner packet",
    ),
    deviation("routes-have-no-mark", "a packet with a pkt_mark finds the same route as one without"),
    deviation(
        "one-kind-per-udp-port",
        "two kinds of tunnel on one UDP port are refused: packets would be taken for either",
    ),
    deviation(
        "a-question-a-second",
        "a neighbour is asked at most once a second, and its address changes at most once a second",
    ),
    deviation(
        "truncated-in-a-tunnel",
        "a packet that is cut off in front of a tunnel counts in the underlay with the length that it had",
    ),
    deviation("addresses-outlive-routes", "a port has its addresses until they are taken away, whatever route goes"),
    deviation("packet-outs-are-not-received", "a packet-out from a tunnel port was not received by it"),
    deviation("packet-ins-have-their-mark", "a packet-in of the underlay tells the pkt_mark that its flow matched on"),
];
