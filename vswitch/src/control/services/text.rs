//! What `ovs-ofctl monitor` prints: packet-ins and flow-removed messages.

use crate::control::switch::pipeline::NameMap;
use crate::pipeline::PacketIn;
use crate::pipeline::state::{FlowRemoved, RemovedReason};
use std::fmt::Write;
use vswitch_flow::action::Reason;
use vswitch_flow::extract::extract;
use vswitch_flow::text::{Style, format_match};
use vswitch_flow::{FIRST_PACKET_WORD, Field, FlowKey, FlowMask, LAST_PACKET_WORD, SparseMatch};

/// OpenFlow's name of a reason (`ofputil_packet_in_reason_to_string`).
const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NoMatch => "no_match",
        Reason::Action => "action",
        Reason::InvalidTtl => "invalid_ttl",
        Reason::ActionSet => "action_set",
        Reason::Group => "group",
        Reason::PacketOut => "packet_out",
    }
}

/// The flags of ct_state, in the order in which Open vSwitch prints them.
const CT_STATE: [(&str, u128); 8] = [
    ("new", 0x01),
    ("est", 0x02),
    ("rel", 0x04),
    ("rpl", 0x08),
    ("inv", 0x10),
    ("trk", 0x20),
    ("snat", 0x40),
    ("dnat", 0x80),
];

/// Metadata that is not 0, as `format_metadata` of Open vSwitch: like a match, but ct_state's flags with bars.
fn metadata(packet_in: &PacketIn, style: Style, names: &NameMap) -> String {
    let key = &packet_in.metadata;
    let mut mask = FlowMask::default();
    for (i, word) in key.0.iter().enumerate() {
        if *word != 0 && !(FIRST_PACKET_WORD..LAST_PACKET_WORD).contains(&i) {
            mask.0[i] = u64::MAX;
        }
    }
    // Words hold several fields: those that are 0 are not printed.
    for field in Field::ALL.iter().copied().filter(|field| field.width() <= 32 && key.get(*field) == 0) {
        mask.set(field, 0);
    }
    let state = key.get(Field::CtState);
    mask.set(Field::CtState, 0);
    let mut text = String::new();
    if state != 0 {
        let flags: Vec<_> = CT_STATE.iter().filter(|(_, bit)| state & bit != 0).map(|(name, _)| *name).collect();
        let _ = write!(text, "ct_state={}", flags.join("|"));
    }
    let mut rest = String::new();
    format_match(&SparseMatch::new(key, &mask), style, names, &mut rest);
    if !text.is_empty() && !rest.is_empty() {
        text.push(',');
    }
    text + &rest
}

/// A packet-in as `ovs-ofctl monitor` prints it, without the newline at its end.
pub(super) fn packet_in(packet_in: &PacketIn, style: Style, names: &NameMap) -> String {
    let len = packet_in.packet.len();
    let mut text = "NXT_PACKET_IN2 (OF1.5) (xid=0x0):".to_owned();
    if packet_in.table != 0 {
        let _ = write!(text, " table_id={}", packet_in.table);
    }
    let _ = write!(
        text,
        " cookie={:#x} total_len={len} {} (via {}) data_len={len} (unbuffered)",
        packet_in.cookie,
        metadata(packet_in, style, names),
        reason(packet_in.reason)
    );
    if !packet_in.userdata.is_empty() {
        let octets: Vec<_> = packet_in.userdata.iter().map(|octet| format!("{octet:02x}")).collect();
        let _ = write!(text, "\n userdata={}", octets.join("."));
    }
    text.push('\n');
    packet(&packet_in.packet, &mut text);
    text
}

/// The headers of a packet, as `ofp_packet_to_string` of Open vSwitch.
fn packet(bytes: &[u8], text: &mut String) {
    let mut key = FlowKey::default();
    let _ = extract(bytes, bytes.len(), &mut key);
    let matching = SparseMatch::new(&key, &packet_mask(&key));
    format_match(&matching, Style::default(), &vswitch_flow::text::NoNames, text);
}

/// The fields that a packet of this type has.
fn packet_mask(key: &FlowKey) -> FlowMask {
    use Field as F;
    let mut mask = FlowMask::default();
    let mut add = |fields: &[Field]| fields.iter().for_each(|field| mask.add(*field));
    add(&[F::EthSrc, F::EthDst, F::EthType, F::VlanTci]);
    match key.get(F::EthType) {
        0x0800 => add(&[F::NwSrc, F::NwDst, F::NwProto, F::NwTos, F::NwTtl, F::NwFrag]),
        0x86dd => add(&[F::Ipv6Src, F::Ipv6Dst, F::Ipv6Label, F::NwProto, F::NwTos, F::NwTtl, F::NwFrag]),
        0x0806 | 0x8035 => {
            add(&[F::ArpSpa, F::ArpTpa, F::ArpOp, F::ArpSha, F::ArpTha]);
            return mask;
        }
        _ => return mask,
    }
    match (key.get(F::EthType), key.get(F::NwProto)) {
        (_, 6) => add(&[F::TpSrc, F::TpDst, F::TcpFlags]),
        (_, 17 | 132) => add(&[F::TpSrc, F::TpDst]),
        (0x0800, 1) => add(&[F::IcmpType, F::IcmpCode]),
        (0x86dd, 58) => {
            add(&[F::Icmpv6Type, F::Icmpv6Code]);
            if matches!(key.get(F::Icmpv6Type), 135 | 136) {
                add(&[F::NdTarget, F::NdSll, F::NdTll]);
            }
        }
        _ => {}
    }
    mask
}

/// A flow-removed message as `ovs-ofctl monitor` prints it, without the newline at its end.
pub(super) fn flow_removed(removed: &FlowRemoved, style: Style, names: &NameMap) -> String {
    let (flow, counters) = (&removed.flow.flow, &removed.flow.counters);
    let reason = match removed.reason {
        RemovedReason::IdleTimeout => "idle",
        RemovedReason::HardTimeout => "hard",
        RemovedReason::Delete => "delete",
        RemovedReason::GroupDelete => "group_delete",
        RemovedReason::MeterDelete => "meter_delete",
    };
    let mut text = "OFPT_FLOW_REMOVED (OF1.5) (xid=0x0): ".to_owned();
    let _ = write!(text, "priority={}", flow.priority);
    let mut matching = String::new();
    format_match(&flow.matching, style, names, &mut matching);
    if !matching.is_empty() {
        let _ = write!(text, ",{matching}");
    }
    let _ = write!(text, " reason={reason} table_id={}", flow.table);
    if flow.cookie != 0 {
        let _ = write!(text, " cookie:{:#x}", flow.cookie);
    }
    let _ = write!(text, " duration{}.{:03}s", counters.duration_ms / 1000, counters.duration_ms % 1000);
    let _ = write!(text, " idle{}", flow.idle_timeout);
    if flow.hard_timeout != 0 {
        let _ = write!(text, " hard{}", flow.hard_timeout);
    }
    let _ = write!(text, " pkts{} bytes{}", counters.packets, counters.bytes);
    text
}
