//! What `ovs-ofctl monitor` prints: packet-ins and flow-removed messages.

use std::fmt::Write;
use vswitch_control::switch::pipeline::NameMap;
use vswitch_dataplane::pipeline::state::{FlowRemoved, RemovedReason};
use vswitch_dataplane::pipeline::{NO_COOKIE, PacketIn};
use vswitch_flow::action::Reason;
use vswitch_flow::extract::extract;
use vswitch_flow::text::{NoNames, Style, format_key, format_match};
use vswitch_flow::{Field, FlowKey, SparseMatch};
use vswitch_messages::metadata_mask;

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

fn hex(octets: &[u8], separator: &str) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(separator)
}

/// A packet-in as `ovs-ofctl monitor` prints it, without the newline at its end.
pub(super) fn packet_in(packet_in: &PacketIn, style: Style, names: &NameMap) -> String {
    let (key, len) = (&packet_in.metadata, packet_in.packet.len());
    let mut metadata = String::new();
    format_match(&SparseMatch::new(key, &metadata_mask(key)), style, names, &mut metadata);
    let mut text = "NXT_PACKET_IN2 (OF1.5) (xid=0x0):".to_owned();
    if packet_in.table != 0 {
        let _ = write!(text, " table_id={}", packet_in.table);
    }
    if packet_in.cookie != NO_COOKIE {
        let _ = write!(text, " cookie={:#x}", packet_in.cookie);
    }
    let _ =
        write!(text, " total_len={len} {} (via {}) data_len={len} (unbuffered)", metadata, reason(packet_in.reason));
    if !packet_in.userdata.is_empty() {
        let _ = write!(text, "\n userdata={}", hex(&packet_in.userdata, "."));
    }
    if !packet_in.token.is_empty() {
        let _ = write!(text, "\n continuation.token={}", hex(&packet_in.token, ""));
    }
    text.push('\n');
    packet(&packet_in.packet, &mut text);
    text
}

/// The headers of a packet, as `ofp_packet_to_string` of Open vSwitch: its fields, and the checksum
/// of its payload.
fn packet(bytes: &[u8], text: &mut String) {
    let mut key = FlowKey::default();
    let layers = extract(bytes, bytes.len(), &mut key);
    format_key(&key, Style::default(), &NoNames, text);
    let (name, at, len) = match (key.get(Field::EthType), key.get(Field::NwProto)) {
        (0x0800 | 0x86dd, 6) => ("tcp", 16, 2),
        (0x0800 | 0x86dd, 17) => ("udp", 6, 2),
        (0x0800 | 0x86dd, 132) => ("sctp", 8, 4),
        (0x0800, 1) => ("icmp", 2, 2),
        (0x86dd, 58) => ("icmp6", 2, 2),
        _ => return,
    };
    let start = usize::from(layers.l4) + at;
    if let Some(octets) = bytes.get(start..start + len).filter(|_| layers.l4 != u16::MAX) {
        let checksum = octets.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet));
        let _ = write!(text, " {name}_csum:{checksum:x}");
    }
}

/// Priority that is not printed.
const PRIORITY_DEFAULT: u16 = 32768;

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
    let mut matching = String::new();
    format_match(&flow.matching, style, names, &mut matching);
    if flow.priority != PRIORITY_DEFAULT {
        let comma = if matching.is_empty() { "" } else { "," };
        let _ = write!(text, "priority={}{comma}", flow.priority);
    }
    text.push_str(&matching);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vswitch_dataplane::pipeline::state::FlowInfo;
    use vswitch_flow::spec::{FlowFlags, FlowSpec};
    use vswitch_flow::text::{FlowCounters, parse_match};

    const UDP: &str = "02000000000202000000000108004500002000010000401166ca0a0000010a00000200010035000c26d761626364";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits");
        digits.chunks(2).map(pair).collect()
    }

    fn lines(packet: &[u8], set: &[(Field, u128)], token: &[u8]) -> String {
        with_cookie(0x10, packet, set, token)
    }

    fn with_cookie(cookie: u64, packet: &[u8], set: &[(Field, u128)], token: &[u8]) -> String {
        let mut metadata = FlowKey::default();
        set.iter().for_each(|(field, value)| metadata.set(*field, *value));
        let packet_in = PacketIn {
            table: 9,
            cookie,
            reason: Reason::NoMatch,
            controller: 0,
            userdata: [1, 2, 0xab].into(),
            metadata,
            packet: packet.to_vec(),
            received: None,
            continuation: None,
            token: token.to_vec(),
        };
        super::packet_in(&packet_in, Style::default(), &NameMap::default())
    }

    #[test]
    fn packet_ins_are_those_of_ovs_ofctl() {
        let udp = bytes(UDP);
        let set =
            [(Field::Reg0, 7), (Field::Metadata, 9), (Field::InPort, 1), (Field::CtState, 0x21), (Field::CtZone, 3)];
        let want = "NXT_PACKET_IN2 (OF1.5) (xid=0x0): table_id=9 cookie=0x10 total_len=46 \
                    ct_state=new|trk,ct_zone=3,reg0=0x7,metadata=0x9,in_port=1 (via no_match) data_len=46 (unbuffered)\n \
                    userdata=01.02.ab\n\
                    udp,vlan_tci=0x0000,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_src=10.0.0.1,nw_dst=10.0.0.2,\
                    nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,tp_src=1,tp_dst=53 udp_csum:26d7";
        assert_eq!(lines(&udp, &set, &[]), want);
        let bare = lines(&bytes("0200000000020200000000018888"), &set[2..3], &[9, 0xff]);
        let want = "\n userdata=01.02.ab\n continuation.token=09ff\n\
                    vlan_tci=0x0000,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,dl_type=0x8888";
        assert!(bare.ends_with(want), "{bare}");
        // Of a packet-out.
        let out = with_cookie(NO_COOKIE, &udp, &set[2..3], &[]);
        assert!(out.starts_with("NXT_PACKET_IN2 (OF1.5) (xid=0x0): table_id=9 total_len=46 in_port=1 "), "{out}");
        // Cut off in the middle of the header: no checksum, and nothing breaks.
        for len in 0..udp.len() {
            let cut = lines(&udp[..len], &[], &[]);
            assert_eq!(cut.contains("udp_csum"), len >= 42 && cut.contains("udp,"), "{len} bytes: {cut}");
        }
    }

    #[test]
    fn flow_removed_messages_are_those_of_ovs_ofctl() {
        let line = |priority, matching: &str, cookie, hard_timeout, reason| {
            let matching = parse_match(matching, &NoNames).expect("a match").value;
            let flow = FlowSpec {
                table: 4,
                priority,
                matching: Arc::new(matching),
                cookie,
                idle_timeout: 3,
                hard_timeout,
                importance: 0,
                flags: FlowFlags::default(),
                actions: [].into(),
            };
            let counters = FlowCounters { duration_ms: 3031, packets: 2, bytes: 120, ..FlowCounters::default() };
            let removed = FlowRemoved { flow: FlowInfo { flow, counters }, reason };
            flow_removed(&removed, Style::default(), &NameMap::default())
        };
        assert_eq!(
            line(77, "tcp,in_port=2", 5, 1, RemovedReason::HardTimeout),
            "OFPT_FLOW_REMOVED (OF1.5) (xid=0x0): priority=77,tcp,in_port=2 reason=hard table_id=4 cookie:0x5 \
             duration3.031s idle3 hard1 pkts2 bytes120"
        );
        let plain = line(32768, "", 0, 0, RemovedReason::Delete);
        assert_eq!(
            plain,
            "OFPT_FLOW_REMOVED (OF1.5) (xid=0x0):  reason=delete table_id=4 duration3.031s idle3 pkts2 bytes120"
        );
        assert!(line(3, "", 0, 0, RemovedReason::IdleTimeout).contains(": priority=3 reason=idle"));
    }
}
