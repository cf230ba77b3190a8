//! Packets that are too long for a tunnel, of each kind and over both families: what fits, who is
//! told what, and where pieces begin. (Ports take packets of 1,500 bytes.)

use super::bed::Bed;
use super::tunnels::long;
use crate::packet::strict;
use vswitch_overlay::TunnelKind;

/// Kinds of tunnels, with the other end, and how many bytes they put in front of a packet.
const TUNNELS: [(TunnelKind, &str, usize); 6] = [
    (TunnelKind::Geneve, "1.1.2.92", 50),
    (TunnelKind::Geneve, "fd00::92", 70),
    (TunnelKind::Vxlan, "1.1.2.92", 50),
    (TunnelKind::Vxlan, "fd00::92", 70),
    (TunnelKind::Gre, "1.1.2.92", 42),
    (TunnelKind::Gre, "fd00::92", 62),
];

fn bed(kind: TunnelKind, remote: &str, cached: bool) -> Bed {
    let mut bed = Bed::new(5);
    bed.shared.enable(cached);
    bed.add_tunnels(2, &[(3, kind, &format!("remote_ip={remote} key=5"))]);
    bed.knows_peer();
    let from = if remote.contains(':') { "tun_ipv6_src" } else { "tun_src" };
    bed.program(&[
        "in_port=2,ip,actions=ct(commit,zone=5,table=1)",
        "in_port=2,ipv6,actions=ct(commit,zone=5,table=1)",
        "table=1,actions=output:4",
        "in_port=3,actions=output:1",
        &format!("in_port=4,{from}={remote},tun_id=5,actions=output:2"),
    ]);
    bed
}

/// The message says how long a packet may be, shows which one was too long, and all its sums are
/// right.
fn assert_told(bed: &Bed, told: &[u8], frame: &[u8], mtu: usize, name: &str) {
    let mbuf = bed.pool.mbuf_from(told).expect("an mbuf");
    assert_eq!(strict::check(&mbuf), None, "{name}: {told:02x?}");
    let (icmp, says, mtu_at, from, len) =
        if frame[12..14] == [8, 0] { (34, [3, 4], 40, 26, 4) } else { (54, [2, 0], 60, 22, 16) };
    assert_eq!(told[icmp..icmp + 2], says, "{name}: type and code");
    assert_eq!(usize::from(u16::from_be_bytes([told[mtu_at], told[mtu_at + 1]])), mtu, "{name}: MTU");
    let quoted = &told[icmp + 8..];
    assert!(quoted.len() >= 68 && frame[14..].starts_with(quoted), "{name}: quotes {quoted:02x?}");
    // From whom it was for, to who has sent it.
    let sent = (&frame[6..12], &frame[from..from + len], &frame[from + len..from + 2 * len]);
    assert_eq!((&told[..6], &told[from + len..from + 2 * len], &told[from..from + len]), sent, "{name}: ends");
}

#[test]
fn the_longest_packet_gets_through_and_the_sender_of_a_longer_one_is_told() {
    for ((kind, remote, header), cached) in TUNNELS.iter().flat_map(|tunnel| [(tunnel, true), (tunnel, false)]) {
        for (v4, headers) in [(true, 28), (false, 48)] {
            let name = format!("{kind:?} to {remote}, v4={v4}, cached={cached}");
            let (mut bed, mtu) = (bed(*kind, remote, cached), 1500 - header);
            // On the slow path first, then on the fast one.
            for round in 1..=4 {
                let frame = long(v4, mtu - headers, false);
                bed.receive(2, &frame);
                let sent = bed.sent();
                let [(1, outer)] = &sent[..] else { panic!("{name}, round {round}: {sent:02x?}, {:?}", bed.died()) };
                assert!(outer.len() == 1514 && outer.ends_with(&frame), "{name}, round {round}: {} bytes", outer.len());
                let frame = long(v4, mtu - headers + 1, false);
                bed.receive(2, &frame);
                let sent = bed.sent();
                let [(2, told)] = &sent[..] else { panic!("{name}, round {round}: {sent:02x?}, {:?}", bed.died()) };
                assert_told(&bed, told, &frame, mtu, &name);
                assert_eq!(bed.died(), [(4, "path_mtu", round)], "{name}");
            }
            let hits = bed.shared.stats.program_hits.get();
            assert_eq!(hits > 0, cached, "{name}: {hits} on the fast path");
            assert_eq!(bed.pool.in_use(), 0, "{name}");
        }
    }
}

#[test]
fn what_may_be_cut_is_cut_to_what_fits() {
    for (kind, remote, header) in TUNNELS {
        let (mut bed, mtu) = (bed(kind, remote, true), 1500 - header);
        let frame = long(true, 1472, true);
        for round in 1..=3 {
            bed.receive(2, &frame);
            let sent = bed.sent();
            let (mut payload, name) = (Vec::new(), format!("{kind:?} to {remote}, round {round}"));
            for (port, outer) in &sent {
                let inner = &outer[header..];
                let mbuf = bed.pool.mbuf_from(outer).expect("an mbuf");
                assert_eq!((*port, strict::check(&mbuf)), (1, None), "{name}: {outer:02x?}");
                assert!(inner.len() <= mtu + 14, "{name}: {} bytes inside", inner.len());
                let offset = usize::from(u16::from_be_bytes([inner[20], inner[21]]) & 0x1fff) * 8;
                assert_eq!(offset, payload.len(), "{name}: in order");
                payload.extend_from_slice(&inner[34..]);
            }
            assert_eq!((sent.len(), &payload[..]), (2, &frame[34..]), "{name}");
        }
        assert_eq!((bed.died(), bed.pool.in_use()), (vec![], 0));
    }
}
