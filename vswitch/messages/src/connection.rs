//! From what the tracker shows to messages.

use vswitch_conntrack::tcp::{State, Tcp};
use vswitch_conntrack::{Connection, Counts, Direction, EventKind, Family, Tuple};
use vswitch_proto::v1;

/// Bits of [`vswitch_conntrack::tcp::Peer::scale`] that are the shift.
const SCALE_SHIFT: u8 = 0x0f;

/// The time of both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Milliseconds of the tracker's clock.
    pub ms: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

fn address(family: Family, address: u128) -> Vec<u8> {
    let octets = address.to_be_bytes();
    match family {
        Family::V4 => octets[12..].to_vec(),
        Family::V6 => octets.to_vec(),
    }
}

fn tuple(tuple: &Tuple) -> v1::ConnectionTuple {
    let [kind, code] = tuple.dst.port.to_be_bytes().map(u32::from);
    let icmp = tuple.is_icmp().then(|| v1::IcmpEnds { id: tuple.src.port.into(), r#type: kind, code });
    let port = |port: u16| if icmp.is_some() { 0 } else { port.into() };
    v1::ConnectionTuple {
        src: address(tuple.family, tuple.src.addr),
        dst: address(tuple.family, tuple.dst.addr),
        protocol: tuple.protocol.into(),
        src_port: port(tuple.src.port),
        dst_port: port(tuple.dst.port),
        icmp,
    }
}

/// Which ends of the original direction are translated: source, destination. The identifier of ICMP
/// is the source's.
fn translated(connection: &Connection) -> (bool, bool) {
    let (plain, reply) = (connection.original.reversed(), connection.reply);
    if reply.is_icmp() {
        let id_differs = reply.src.port != plain.src.port;
        return (reply.dst.addr != plain.dst.addr || id_differs, reply.src.addr != plain.src.addr);
    }
    (reply.dst != plain.dst, reply.src != plain.src)
}

const fn tcp_state(state: State) -> v1::TcpState {
    match state {
        State::Closed => v1::TcpState::Closed,
        State::Listen => v1::TcpState::Listen,
        State::SynSent => v1::TcpState::SynSent,
        State::SynRecv => v1::TcpState::SynRecv,
        State::Established => v1::TcpState::Established,
        State::CloseWait => v1::TcpState::CloseWait,
        State::FinWait1 => v1::TcpState::FinWait1,
        State::Closing => v1::TcpState::Closing,
        State::LastAck => v1::TcpState::LastAck,
        State::FinWait2 => v1::TcpState::FinWait2,
        State::TimeWait => v1::TcpState::TimeWait,
    }
}

/// Both states in one, as Open vSwitch shows it.
pub fn merged(tcp: &Tcp) -> v1::TcpState {
    tcp_state(tcp.state())
}

fn tcp(tcp: &Tcp) -> v1::TcpConnection {
    let [original, reply] = [Direction::Original, Direction::Reply].map(|direction| tcp.peers[direction as usize]);
    v1::TcpConnection {
        original: tcp_state(original.state).into(),
        reply: tcp_state(reply.state).into(),
        merged: merged(tcp).into(),
        original_window_scale: (original.scale & SCALE_SHIFT).into(),
        reply_window_scale: (reply.scale & SCALE_SHIFT).into(),
    }
}

/// A connection.
pub fn connection(connection: &Connection, now: Now) -> v1::Connection {
    let age_ms = connection.age_ms(now.ms);
    let count = |direction: Direction| v1::Count {
        packets: connection.packets[direction as usize],
        bytes: connection.bytes[direction as usize],
    };
    let (snat, dnat) = translated(connection);
    v1::Connection {
        id: connection.id,
        original: Some(tuple(&connection.original)),
        reply: Some(tuple(&connection.reply)),
        zone: connection.original.zone.into(),
        mark: connection.mark,
        label: if connection.label == 0 { Vec::new() } else { connection.label.to_be_bytes().to_vec() },
        tcp: connection.tcp.as_ref().map(tcp),
        replied: connection.replied,
        timeout_ms: connection.timeout_ms,
        age_ms,
        start_unix_ms: now.unix_ms.saturating_sub(age_ms),
        original_count: Some(count(Direction::Original)),
        reply_count: Some(count(Direction::Reply)),
        snat,
        dnat,
        master: connection.master.as_ref().map(tuple),
    }
}

/// What happened.
pub const fn event_kind(kind: EventKind) -> v1::ConnectionEventKind {
    match kind {
        EventKind::New => v1::ConnectionEventKind::New,
        EventKind::Update => v1::ConnectionEventKind::Update,
        EventKind::End => v1::ConnectionEventKind::End,
    }
}

/// The table in numbers.
pub fn stats(counts: Counts, protocols: Vec<v1::ProtocolCount>) -> v1::GetConntrackStatsResponse {
    v1::GetConntrackStatsResponse {
        connections: counts.connections,
        connections_max: counts.connections_max,
        memory: counts.memory,
        created: counts.created,
        expired: counts.expired,
        flushed: counts.flushed,
        dropped_early: counts.dropped_early,
        refused_full: counts.refused_full,
        refused_zone: counts.refused_zone,
        refused_nat: counts.refused_nat,
        refused_taken: counts.refused_taken,
        events_lost: counts.events_lost,
        protocols,
        forgotten: counts.forgotten,
        refused_port: counts.refused_port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_conntrack::tcp::Peer;
    use vswitch_conntrack::{End, protocol};

    fn plain(protocol: u8, src: (u128, u16), dst: (u128, u16)) -> Connection {
        let end = |(addr, port)| End { addr, port };
        let original = Tuple { src: end(src), dst: end(dst), protocol, zone: 7, family: Family::V4 };
        Connection {
            id: 1 << 40,
            original,
            reply: original.reversed(),
            mark: 18,
            label: 5,
            tcp: None,
            replied: true,
            timeout_ms: 59_999,
            start_ms: 1000,
            packets: [3, 2],
            bytes: [300, 200],
            master: None,
        }
    }

    const NOW: Now = Now { ms: 3500, unix_ms: 1_000_000 };

    #[test]
    fn a_connection_with_everything() {
        let mut shown = plain(protocol::TCP, (0x0a00_0001, 1000), (0x0a00_0002, 80));
        let peer = |state, scale| Peer { state, scale, ..Peer::default() };
        shown.tcp = Some(Tcp { peers: [peer(State::SynRecv, 0x87), peer(State::SynSent, 0)] });
        shown.master = Some(shown.original.reversed());
        let got = connection(&shown, NOW);
        let tuple = |src: [u8; 4], dst: [u8; 4], src_port, dst_port| v1::ConnectionTuple {
            src: src.to_vec(),
            dst: dst.to_vec(),
            protocol: 6,
            src_port,
            dst_port,
            icmp: None,
        };
        let (forward, back) =
            (tuple([10, 0, 0, 1], [10, 0, 0, 2], 1000, 80), tuple([10, 0, 0, 2], [10, 0, 0, 1], 80, 1000));
        let want = v1::Connection {
            id: 1 << 40,
            original: Some(forward),
            reply: Some(back.clone()),
            zone: 7,
            mark: 18,
            label: [vec![0; 15], vec![5]].concat(),
            tcp: Some(v1::TcpConnection {
                original: v1::TcpState::SynRecv.into(),
                reply: v1::TcpState::SynSent.into(),
                merged: v1::TcpState::Established.into(),
                original_window_scale: 7,
                reply_window_scale: 0,
            }),
            replied: true,
            timeout_ms: 59_999,
            age_ms: 2500,
            start_unix_ms: 997_500,
            original_count: Some(v1::Count { packets: 3, bytes: 300 }),
            reply_count: Some(v1::Count { packets: 2, bytes: 200 }),
            snat: false,
            dnat: false,
            master: Some(back),
        };
        assert_eq!(got, want);
    }

    #[test]
    fn icmp_has_no_ports_and_addresses_have_their_length() {
        let ping = plain(protocol::ICMP, (1, 77), (2, 8 << 8));
        let got = connection(&ping, NOW);
        let original = got.original.expect("a tuple");
        assert_eq!((original.src_port, original.dst_port), (0, 0));
        assert_eq!(original.icmp, Some(v1::IcmpEnds { id: 77, r#type: 8, code: 0 }));
        assert_eq!(got.reply.expect("a tuple").icmp, Some(v1::IcmpEnds { id: 77, r#type: 0, code: 0 }));
        let mut six = plain(protocol::UDP, (1, 1), (2, 2));
        six.original.family = Family::V6;
        assert_eq!(connection(&six, NOW).original.expect("a tuple").src, [vec![0; 15], vec![1]].concat());
    }

    #[test]
    fn translation_shows() {
        type Change = fn(&mut Tuple);
        let cases: [(u8, Change, (bool, bool)); 8] = [
            (protocol::UDP, |_| {}, (false, false)),
            (protocol::UDP, |reply| reply.dst.addr = 9, (true, false)),
            (protocol::UDP, |reply| reply.dst.port = 9, (true, false)),
            (protocol::UDP, |reply| reply.src.addr = 9, (false, true)),
            (protocol::UDP, |reply| (reply.src.port, reply.dst.port) = (9, 9), (true, true)),
            (protocol::ICMP, |_| {}, (false, false)),
            (protocol::ICMP, |reply| reply.src.port = 9, (true, false)),
            (protocol::ICMP, |reply| reply.src.addr = 9, (false, true)),
        ];
        for (i, (protocol, change, want)) in cases.into_iter().enumerate() {
            let mut shown = plain(protocol, (1, 1000), (2, 8 << 8));
            change(&mut shown.reply);
            let got = connection(&shown, NOW);
            assert_eq!((got.snat, got.dnat), want, "case {i}");
        }
    }
}
