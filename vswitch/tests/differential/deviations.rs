//! Where our switch does something else than Open vSwitch 3.1, by choice. Each deviation has a case, which shows it; the harness accepts no
//! other difference, and no deviation without its case. The generator makes nothing that meets one.

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
pub(crate) const DEVIATIONS: [Deviation; 16] = [
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
];
