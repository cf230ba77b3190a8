//! How a connection looks: as a line of `ovs-appctl dpctl/dump-conntrack`, or as JSON.

use serde_json::{Value, json};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use vswitch_proto::v1;

/// What is shown beside tuples, zone, mark, label and state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    /// `-s`: counters, start, timeout.
    pub(super) statistics: bool,
    /// `-m`: id, status, the states of both ends, the connection that asked for it.
    pub(super) more: bool,
}

/// Name of an IP protocol, where Open vSwitch has one.
pub(crate) const fn protocol(number: u32) -> Option<&'static str> {
    Some(match number {
        1 => "icmp",
        2 => "igmp",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        58 => "icmpv6",
        132 => "sctp",
        136 => "udplite",
        _ => return None,
    })
}

/// Name of a state, as Open vSwitch writes it.
pub(crate) fn tcp_state(state: v1::TcpState) -> &'static str {
    state.as_str_name().strip_prefix("TCP_STATE_").unwrap_or("UNKNOWN")
}

/// An address; a wrong one from a newer switch shows as what it is.
fn address(octets: &[u8]) -> String {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Ipv4Addr::from(octets).to_string();
    }
    if let Ok(octets) = <[u8; 16]>::try_from(octets) {
        return Ipv6Addr::from(octets).to_string();
    }
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn label(octets: &[u8]) -> u128 {
    octets.iter().fold(0, |label, octet| label << 8 | u128::from(*octet))
}

fn put_tuple(tuple: &v1::ConnectionTuple, text: &mut String) {
    let _ = write!(text, "src={},dst={}", address(&tuple.src), address(&tuple.dst));
    let _ = match &tuple.icmp {
        Some(v1::IcmpEnds { id, r#type, code }) => write!(text, ",id={id},type={type},code={code}"),
        None => write!(text, ",sport={},dport={}", tuple.src_port, tuple.dst_port),
    };
}

/// Who speaks to whom, with the protocol: `tcp,src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=80`; not
/// told: a dash.
pub(crate) fn labelled(tuple: Option<&v1::ConnectionTuple>) -> String {
    let Some(tuple) = tuple else { return "-".to_owned() };
    let mut text = protocol(tuple.protocol).map_or_else(|| tuple.protocol.to_string(), str::to_owned);
    text.push(',');
    put_tuple(tuple, &mut text);
    text
}

/// Likewise, for programs.
pub(crate) fn labelled_json(tuple: Option<&v1::ConnectionTuple>) -> Value {
    let Some(tuple) = tuple else { return Value::Null };
    let mut json = tuple_json(tuple);
    json["protocol"] = tuple.protocol.into();
    json
}

fn put_direction(name: &str, tuple: Option<&v1::ConnectionTuple>, count: Option<v1::Count>, text: &mut String) {
    let _ = write!(text, ",{name}=(");
    put_tuple(&tuple.cloned().unwrap_or_default(), text);
    if let Some(v1::Count { packets, bytes }) = count.filter(|count| count.packets > 0 || count.bytes > 0) {
        let _ = write!(text, ",packets={packets},bytes={bytes}");
    }
    text.push(')');
}

/// Bits of what Open vSwitch calls status, by its names; those that mean nothing here are never
/// set.
fn status(connection: &v1::Connection) -> String {
    let flags = [
        (connection.master.is_some(), "EXPECTED"),
        (connection.replied, "SEEN_REPLY"),
        (connection.snat, "SRC_NAT"),
        (connection.dnat, "DST_NAT"),
    ];
    let set: Vec<_> = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    if set.is_empty() { "0".to_owned() } else { set.join("|") }
}

fn put_tcp(tcp: &v1::TcpConnection, more: bool, text: &mut String) {
    if !more {
        let _ = write!(text, ",protoinfo=(state={})", tcp_state(tcp.merged()));
        return;
    }
    let states = (tcp_state(tcp.original()), tcp_state(tcp.reply()));
    let _ = write!(text, ",protoinfo=(state_orig={},state_reply={}", states.0, states.1);
    let scales = (tcp.original_window_scale, tcp.reply_window_scale);
    if scales != (0, 0) {
        let _ = write!(text, ",wscale_orig={},wscale_reply={}", scales.0, scales.1);
    }
    text.push_str(",flags_orig=0,flags_reply=0)");
}

/// A connection as a line, without its end.
pub(super) fn line(connection: &v1::Connection, style: Style) -> String {
    let number = connection.original.as_ref().map_or(0, |tuple| tuple.protocol);
    let mut text = protocol(number).map_or_else(|| number.to_string(), str::to_owned);
    let counts = [connection.original_count, connection.reply_count].map(|count| count.filter(|_| style.statistics));
    put_direction("orig", connection.original.as_ref(), counts[0], &mut text);
    put_direction("reply", connection.reply.as_ref(), counts[1], &mut text);
    if style.statistics {
        let _ = write!(text, ",start={}", time(connection.start_unix_ms));
    }
    if style.more {
        let _ = write!(text, ",id={}", connection.id);
    }
    if connection.zone != 0 {
        let _ = write!(text, ",zone={}", connection.zone);
    }
    if style.more {
        let _ = write!(text, ",status={}", status(connection));
    }
    if style.statistics {
        let _ = write!(text, ",timeout={}", connection.timeout_ms / 1000);
    }
    if connection.mark != 0 {
        let _ = write!(text, ",mark={}", connection.mark);
    }
    let label = label(&connection.label);
    if label != 0 {
        let _ = write!(text, ",labels={label:#x}");
    }
    if let Some(tcp) = &connection.tcp {
        put_tcp(tcp, style.more, &mut text);
    }
    if let Some(master) = connection.master.as_ref().filter(|_| style.more) {
        text.push_str(",master=(");
        put_tuple(master, &mut text);
        text.push(')');
    }
    text
}

/// A moment in UTC, from milliseconds since 1970.
fn time(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}", ms % 1000)
}

/// Year, month and day, from days since 1970-01-01. Years begin in March here, so that the leap day
/// is their last.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153; // 0: March
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    (era * 400 + year_of_era + is_next_year as u64, month, day)
}

fn tuple_json(tuple: &v1::ConnectionTuple) -> Value {
    let (src, dst) = (address(&tuple.src), address(&tuple.dst));
    match &tuple.icmp {
        Some(icmp) => json!({ "src": src, "dst": dst, "id": icmp.id, "type": icmp.r#type, "code": icmp.code }),
        None => json!({ "src": src, "dst": dst, "sport": tuple.src_port, "dport": tuple.dst_port }),
    }
}

fn direction_json(tuple: Option<&v1::ConnectionTuple>, count: Option<v1::Count>) -> Value {
    let mut direction = tuple_json(&tuple.cloned().unwrap_or_default());
    let v1::Count { packets, bytes } = count.unwrap_or_default();
    (direction["packets"], direction["bytes"]) = (packets.into(), bytes.into());
    direction
}

/// A connection, for programs.
pub(super) fn json(connection: &v1::Connection) -> Value {
    let number = connection.original.as_ref().map_or(0, |tuple| tuple.protocol);
    let tcp = connection.tcp.as_ref().map(|tcp| {
        json!({
            "state": tcp_state(tcp.merged()),
            "state_orig": tcp_state(tcp.original()),
            "state_reply": tcp_state(tcp.reply()),
            "wscale_orig": tcp.original_window_scale,
            "wscale_reply": tcp.reply_window_scale,
        })
    });
    json!({
        "id": connection.id,
        "protocol": number,
        "protocol_name": protocol(number),
        "zone": connection.zone,
        "orig": direction_json(connection.original.as_ref(), connection.original_count),
        "reply": direction_json(connection.reply.as_ref(), connection.reply_count),
        "mark": connection.mark,
        "labels": format!("{:#x}", label(&connection.label)),
        "tcp": tcp,
        "replied": connection.replied,
        "snat": connection.snat,
        "dnat": connection.dnat,
        "timeout_ms": connection.timeout_ms,
        "age_ms": connection.age_ms,
        "start_unix_ms": connection.start_unix_ms,
        "master": connection.master.as_ref().map(tuple_json),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn tuple(protocol: u32, src: &[u8], dst: &[u8], ports: (u32, u32)) -> v1::ConnectionTuple {
        let (src, dst) = (src.to_vec(), dst.to_vec());
        v1::ConnectionTuple { src, dst, protocol, src_port: ports.0, dst_port: ports.1, icmp: None }
    }

    /// A connection between 10.0.0.1 and 10.0.0.2.
    pub(in super::super) fn connection(protocol: u32, ports: (u32, u32)) -> v1::Connection {
        v1::Connection {
            original: Some(tuple(protocol, &[10, 0, 0, 1], &[10, 0, 0, 2], ports)),
            reply: Some(tuple(protocol, &[10, 0, 0, 2], &[10, 0, 0, 1], (ports.1, ports.0))),
            timeout_ms: 59_999,
            start_unix_ms: 1_709_251_199_007,
            ..Default::default()
        }
    }

    fn tcp(original: v1::TcpState, reply: v1::TcpState, merged: v1::TcpState) -> Option<v1::TcpConnection> {
        let (original, reply, merged) = (original.into(), reply.into(), merged.into());
        Some(v1::TcpConnection { original, reply, merged, ..Default::default() })
    }

    /// Everything that a connection can have.
    fn full() -> v1::Connection {
        let mut full = connection(6, (2000, 80));
        full.id = 7;
        full.zone = 1;
        (full.mark, full.label) = (18, [vec![0; 15], vec![5]].concat());
        full.tcp = tcp(v1::TcpState::Established, v1::TcpState::SynSent, v1::TcpState::Established);
        (full.replied, full.snat, full.dnat) = (true, true, false);
        full.original_count = Some(v1::Count { packets: 3, bytes: 300 });
        full.reply_count = Some(v1::Count::default());
        full.master = Some(tuple(6, &[10, 0, 0, 1], &[10, 0, 0, 2], (1999, 21)));
        full
    }

    fn icmp(protocol: u32, src: &[u8], dst: &[u8], types: (u32, u32)) -> v1::Connection {
        let ends = |src, dst, r#type| {
            let icmp = Some(v1::IcmpEnds { id: 7, r#type, code: 0 });
            Some(v1::ConnectionTuple { icmp, ..tuple(protocol, src, dst, (0, 0)) })
        };
        v1::Connection {
            original: ends(src, dst, types.0),
            reply: ends(dst, src, types.1),
            zone: 1,
            ..Default::default()
        }
    }

    /// Lines of Open vSwitch 3.1's userspace datapath.
    #[test]
    fn lines_are_those_of_open_vswitch() {
        let both = "orig=(src=10.0.0.1,dst=10.0.0.2,sport=0,dport=0),reply=(src=10.0.0.2,dst=10.0.0.1,sport=0,dport=0)";
        for (number, name) in [(47, "47"), (2, "igmp"), (132, "sctp"), (136, "udplite"), (33, "dccp"), (4, "4")] {
            assert_eq!(line(&connection(number, (0, 0)), Style::default()), format!("{name},{both}"));
        }
        let mut dns = connection(17, (1000, 53));
        (dns.zone, dns.mark, dns.label) = (1, 18, [vec![0; 15], vec![5]].concat());
        assert_eq!(
            line(&dns, Style::default()),
            "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=53),reply=(src=10.0.0.2,dst=10.0.0.1,sport=53,dport=1000),zone=1,mark=18,labels=0x5"
        );
        let ping = icmp(1, &[10, 0, 0, 1], &[10, 0, 0, 2], (8, 0));
        assert_eq!(
            line(&ping, Style::default()),
            "icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id=7,type=8,code=0),reply=(src=10.0.0.2,dst=10.0.0.1,id=7,type=0,code=0),zone=1"
        );
        let ends = [1, 2].map(|last| [vec![0xfd], vec![0; 14], vec![last]].concat());
        let ping = icmp(58, &ends[0], &ends[1], (128, 129));
        assert_eq!(
            line(&ping, Style { more: true, statistics: false }),
            "icmpv6,orig=(src=fd00::1,dst=fd00::2,id=7,type=128,code=0),reply=(src=fd00::2,dst=fd00::1,id=7,type=129,code=0),id=0,zone=1,status=0"
        );
        let mut syn = connection(6, (3000, 80));
        syn.zone = 2;
        syn.tcp = tcp(v1::TcpState::SynSent, v1::TcpState::Closed, v1::TcpState::SynSent);
        let begin = "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=3000,dport=80),reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport=3000)";
        assert_eq!(line(&syn, Style::default()), format!("{begin},zone=2,protoinfo=(state=SYN_SENT)"));
        let more = "id=0,zone=2,status=0,protoinfo=(state_orig=SYN_SENT,state_reply=CLOSED,flags_orig=0,flags_reply=0)";
        assert_eq!(line(&syn, Style { more: true, statistics: false }), format!("{begin},{more}"));
    }

    #[test]
    fn what_open_vswitch_does_not_know_stands_where_it_would() {
        let want = "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=2000,dport=80,packets=3,bytes=300),\
            reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport=2000),start=2024-02-29T23:59:59.007,zone=1,timeout=59,mark=18,\
            labels=0x5,protoinfo=(state=ESTABLISHED)";
        assert_eq!(line(&full(), Style { statistics: true, more: false }), want);
        let mut scaled = full();
        scaled.tcp.get_or_insert_default().original_window_scale = 7;
        let want = "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=2000,dport=80),\
            reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport=2000),id=7,zone=1,status=EXPECTED|SEEN_REPLY|SRC_NAT,mark=18,\
            labels=0x5,protoinfo=(state_orig=ESTABLISHED,state_reply=SYN_SENT,wscale_orig=7,wscale_reply=0,\
            flags_orig=0,flags_reply=0),master=(src=10.0.0.1,dst=10.0.0.2,sport=1999,dport=21)";
        assert_eq!(line(&scaled, Style { statistics: false, more: true }), want);
    }

    #[test]
    fn json_has_everything() {
        let want = json!({
            "id": 7, "protocol": 6, "protocol_name": "tcp", "zone": 1,
            "orig": { "src": "10.0.0.1", "dst": "10.0.0.2", "sport": 2000, "dport": 80, "packets": 3, "bytes": 300 },
            "reply": { "src": "10.0.0.2", "dst": "10.0.0.1", "sport": 80, "dport": 2000, "packets": 0, "bytes": 0 },
            "mark": 18, "labels": "0x5",
            "tcp": {
                "state": "ESTABLISHED", "state_orig": "ESTABLISHED", "state_reply": "SYN_SENT",
                "wscale_orig": 0, "wscale_reply": 0,
            },
            "replied": true, "snat": true, "dnat": false,
            "timeout_ms": 59_999, "age_ms": 0, "start_unix_ms": 1_709_251_199_007_u64,
            "master": { "src": "10.0.0.1", "dst": "10.0.0.2", "sport": 1999, "dport": 21 },
        });
        assert_eq!(json(&full()), want);
        let ping = json(&icmp(1, &[10, 0, 0, 1], &[10, 0, 0, 2], (8, 0)));
        let orig =
            json!({ "src": "10.0.0.1", "dst": "10.0.0.2", "id": 7, "type": 8, "code": 0, "packets": 0, "bytes": 0 });
        assert_eq!((&ping["orig"], &ping["tcp"], &ping["labels"]), (&orig, &Value::Null, &json!("0x0")));
    }

    #[test]
    fn moments() {
        for (ms, want) in [
            (0, "1970-01-01T00:00:00.000"),
            (951_782_400_000, "2000-02-29T00:00:00.000"),
            (951_868_799_999, "2000-02-29T23:59:59.999"),
            (951_868_800_000, "2000-03-01T00:00:00.000"),
            (1_767_225_599_001, "2025-12-31T23:59:59.001"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000"),
        ] {
            assert_eq!(time(ms), want);
        }
    }
}
