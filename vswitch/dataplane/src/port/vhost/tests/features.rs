//! Which features are offered, and what those that were negotiated do to packets.

use super::frontend::*;
use super::*;
use vswitch_dpdk::Csum;

/// Bits whose offer depends on the configuration, by name.
const SWITCHED: [(&str, u64); 6] = [
    ("csum", CSUM | GUEST_CSUM),
    ("tso", GUEST_TSO4 | HOST_TSO4 | GUEST_TSO6 | HOST_TSO6 | GUEST_ECN | HOST_ECN),
    ("mergeable", MRG_RXBUF),
    ("indirect", 1 << 28),
    ("packed", PACKED),
    ("mq", MQ),
];

#[test]
fn what_is_offered_follows_the_configuration() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(64));
    let all = VhostConfig { packed: true, queues: 2, ..config(&dir, "s", VhostMode::Server) };
    let cases = [
        (all.clone(), ""),
        (VhostConfig { tso: false, ..all.clone() }, "tso"),
        (VhostConfig { csum: false, tso: false, ..all.clone() }, "csum tso"),
        (VhostConfig { mergeable: false, ..all.clone() }, "mergeable"),
        (VhostConfig { indirect: false, ..all.clone() }, "indirect"),
        (VhostConfig { packed: false, ..all.clone() }, "packed"),
        (VhostConfig { queues: 1, ..all }, "mq"),
    ];
    for (config, missing) in cases {
        let _port = Port::new(&config, &pool);
        let mut guest = Frontend::connect(&config.path).expect("connects");
        let offered = guest.get(GET_FEATURES, &[]).expect("answered");
        for (name, bits) in SWITCHED {
            let expected = if missing.split(' ').any(|word| word == name) { 0 } else { bits };
            assert_eq!(offered & bits, expected, "{name} with {missing:?} switched off: {offered:x}");
        }
        // UFO both ways, legacy GSO, IOMMU.
        assert_eq!(offered & (1 << 10 | 1 << 14 | 1 << 6 | 1 << 33), 0, "{offered:x}");
        assert_eq!(offered & (VERSION_1 | PROTOCOL | MTU), VERSION_1 | PROTOCOL | MTU, "{offered:x}");
        let protocol = guest.get(GET_PROTOCOL_FEATURES, &[]).expect("answered");
        assert_eq!(protocol & MQ_PROTOCOL != 0, config.queues > 1, "{protocol:x}");
        assert_eq!(protocol & MTU_PROTOCOL, MTU_PROTOCOL, "{protocol:x}");
        let refused = guest.set(SET_FEATURES, &(VERSION_1 | 1 << 14).to_ne_bytes(), &[]).expect("answered");
        assert!(!refused, "features that were not offered");
    }
}

#[test]
fn a_front_end_may_say_the_mtu_that_its_guest_was_told() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let mut guest = guest(&path, BASIC | MTU, REPLY_ACK | MTU_PROTOCOL);
    wait("link up", || port.device.link().up);
    assert_eq!(port.device.offloads(), ["mrg_rxbuf", "mtu"]);
    for (mtu, accepted) in [
        (0, false),
        (67, false),
        (68, true),
        (1500, true),
        (9000, true),
        (65535, true),
        (65536, false),
        (1 << 32 | 1500, false),
        (u64::MAX, false),
    ] {
        assert_eq!(guest.set(NET_SET_MTU, &mtu.to_ne_bytes(), &[]).expect("answered"), accepted, "MTU {mtu}");
        both_ways(&mut port, &mut guest, &pool, 1);
    }
    // What counts is the port's.
    port.send(0, &[frame(0, 1523)], &pool);
    assert_eq!(port.dropped(DropReason::Oversize).1, 1);
    both_ways(&mut port, &mut guest, &pool, 2);
}

/// A TCP packet of 1 Ethernet, 20 IPv4 and 20 TCP bytes, with `payload` bytes behind and a
/// pseudo-header sum.
pub(super) fn tcp4(payload: usize) -> Vec<u8> {
    let mut packet = frame(5, 54 + payload);
    packet.truncate(54 + payload);
    packet[12..14].copy_from_slice(&[8, 0]);
    let len = u16::try_from(40 + payload).expect("fits");
    packet[14..34].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet[16..18].copy_from_slice(&len.to_be_bytes());
    packet[24..26].fill(0);
    let sum = ones(packet[14..34].chunks(2));
    packet[24..26].copy_from_slice(&(!sum).to_be_bytes());
    packet[34..54].copy_from_slice(&[4, 0, 4, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let pseudo = [&packet[26..34], &[0, 6], &(len - 20).to_be_bytes()].concat();
    packet[50..52].copy_from_slice(&ones(pseudo.chunks(2)).to_be_bytes());
    packet
}

/// Likewise over IPv6: 74 bytes of headers.
fn tcp6(payload: usize) -> Vec<u8> {
    let mut packet = frame(5, 74 + payload);
    packet[12..14].copy_from_slice(&[0x86, 0xdd]);
    let len = u16::try_from(20 + payload).expect("fits").to_be_bytes();
    packet[14..54].fill(0);
    packet[14] = 0x60;
    packet[18..20].copy_from_slice(&len);
    packet[20..22].copy_from_slice(&[6, 64]);
    packet[22] = 0xfd;
    packet[37] = 1;
    packet[38] = 0xfd;
    packet[53] = 2;
    packet[54..74].copy_from_slice(&[4, 0, 4, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let pseudo = [&packet[22..54], &[0, 6], &len].concat();
    packet[70..72].copy_from_slice(&ones(pseudo.chunks(2)).to_be_bytes());
    packet
}

pub(super) fn ones<'a>(words: impl Iterator<Item = &'a [u8]>) -> u16 {
    let sum = words.fold(0_u32, |sum, word| sum + u32::from(word[0]) * 256 + u32::from(word[1]));
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).expect("few words")
}

/// `struct virtio_net_hdr`: flags, GSO type, header length, segment size, checksum start and
/// offset.
pub(super) fn vnet(flags: u8, gso_type: u8, gso_size: u16, start: u16, offset: u16) -> [u8; 10] {
    let mut header = [flags, gso_type, 54, 0, 0, 0, 0, 0, 0, 0];
    header[4..6].copy_from_slice(&gso_size.to_le_bytes());
    header[6..8].copy_from_slice(&start.to_le_bytes());
    header[8..10].copy_from_slice(&offset.to_le_bytes());
    header
}

#[test]
fn the_librarys_flags_are_our_words() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (port, path) = serve(&dir, "s", &pool);
    let mut guest = running_guest(&port, &path, BASIC | CSUM | HOST_TSO4 | HOST_TSO6 | HOST_ECN);
    let long = |packet: Vec<u8>, start, gso_type| (packet, vnet(1, gso_type, 1000, start, 16));
    for (packet, header) in [long(tcp6(3000), 54, 4), long(tcp6(3000), 54, 0x84), long(tcp4(3000), 34, 1)] {
        guest.send(0, header, &packet).expect("sent");
        let mut burst = Burst::new();
        assert_eq!(port.device.rings.receive(0, &pool, &mut burst, &mut 64, None).packets, 1, "{header:?}");
        let mbuf = burst.take(0).expect("one");
        assert_eq!((mbuf.csum(), mbuf.gso_size(), mbuf.to_vec()), (Csum::Partial, 1000, packet), "{header:?}");
    }
    let cases = [
        ("no header", vnet(0, 0, 0, 0, 0), Csum::Unknown, 0),
        ("data valid is for the other direction", vnet(2, 0, 0, 0, 0), Csum::Unknown, 0),
        ("partial", vnet(1, 0, 0, 34, 16), Csum::Partial, 0),
        ("GSO", vnet(1, 1, 1448, 34, 16), Csum::Partial, 1448),
        ("GSO with ECN", vnet(1, 0x81, 536, 34, 16), Csum::Partial, 536),
        ("GSO of size 0", vnet(1, 1, 0, 34, 16), Csum::Partial, 0),
        ("largest size", vnet(1, 1, u16::MAX, 34, 16), Csum::Partial, u16::MAX),
        ("GSO of an unknown kind", vnet(1, 7, 1448, 34, 16), Csum::Partial, 0),
        ("checksum outside the packet", vnet(1, 0, 0, 60000, 16), Csum::Unknown, 0),
    ];
    for (what, header, csum, gso_size) in cases {
        guest.send(0, header, &tcp4(1400)).expect("sent");
        let mut burst = Burst::new();
        assert_eq!(port.device.rings.receive(0, &pool, &mut burst, &mut 64, None).packets, 1, "{what}");
        let mbuf = burst.take(0).expect("one");
        assert_eq!((mbuf.csum(), mbuf.gso_size()), (csum, gso_size), "{what}");
        assert_eq!(mbuf.to_vec(), tcp4(1400), "{what}");
    }
}

#[test]
fn tx_caps_are_those_of_the_guest() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (port, path) = serve(&dir, "s", &pool);
    let caps = |csum, tso4, tso6| TxCaps { csum, tso4, tso6, uso: false };
    for (features, expected) in [
        (0, caps(false, false, false)),
        (GUEST_CSUM, caps(true, false, false)),
        (GUEST_CSUM | GUEST_TSO4, caps(true, true, false)),
        (GUEST_CSUM | GUEST_TSO6 | GUEST_ECN, caps(true, false, true)),
        (GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6, caps(true, true, true)),
        (GUEST_TSO4 | GUEST_TSO6, caps(false, false, false)),
        (CSUM | HOST_TSO4 | HOST_TSO6, caps(false, false, false)),
    ] {
        let guest = running_guest(&port, &path, BASIC | features);
        assert_eq!((port.device.tx_caps(), port.tx[0].tx_caps()), (expected, expected), "features {features:x}");
        drop(guest);
        wait("link down", || !port.device.link().up);
    }
    assert_eq!(port.device.tx_caps(), TxCaps::default());
}

#[test]
fn offloads_that_were_not_negotiated_are_dropped() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    // Checksum offload only: the library takes GSO all the same.
    let mut guest = running_guest(&port, &path, BASIC | CSUM);
    guest.send(0, vnet(1, 1, 1448, 34, 16), &tcp4(1400)).expect("sent");
    assert!(port.receive().is_empty());
    assert_eq!(port.dropped(DropReason::VnetHeader), (1, 0));
    drop(guest);
    wait("link down", || !port.device.link().up);
    // To a guest without offloads, nothing unfinished is sent.
    let mut guest = running_guest(&port, &path, BASIC);
    let mut mbuf = pool.mbuf_from(&tcp4(100)).expect("an mbuf");
    mbuf.set_csum(Csum::Partial);
    let mut burst = Burst::new();
    burst.push(mbuf).expect("room");
    port.tx[0].send(&mut burst, &port.counters);
    assert_eq!(port.dropped(DropReason::VnetHeader), (1, 1));
    assert!(guest.receive(0).expect("readable").is_none());
}

/// Segmentation is negotiated for each IP version by itself, in each direction: the long packets of
/// the one that was left out neither come in nor go out.
#[test]
fn long_packets_are_for_those_who_take_their_ip_version() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let packets = [(tcp4(3000), vnet(1, 1, 1000, 34, 16)), (tcp6(3000), vnet(1, 4, 1000, 54, 16))];
    for (features, taken) in [
        (GUEST_CSUM | GUEST_TSO4 | CSUM | HOST_TSO4, [true, false]),
        (GUEST_CSUM | GUEST_TSO6 | CSUM | HOST_TSO6, [false, true]),
        (GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | CSUM | HOST_TSO4 | HOST_TSO6, [true, true]),
        (GUEST_CSUM | CSUM, [false, false]),
    ] {
        let mut guest = running_guest(&port, &path, BASIC | MRG_RXBUF | features);
        for ((packet, header), taken) in packets.iter().zip(taken) {
            let what = format!("features {features:x}, header {header:?}");
            let before = port.dropped(DropReason::VnetHeader);
            guest.send(0, *header, packet).expect("sent");
            let came = port.receive();
            assert_eq!(came, vec![packet.clone(); taken.into()], "{what}");
            // To a guest that took it when the packet was prepared for it.
            let mut mbuf = pool.mbuf_from(packet).expect("an mbuf");
            mbuf.set_csum(Csum::Partial);
            mbuf.set_gso_size(1000);
            let mut burst = Burst::new();
            burst.push(mbuf).expect("room");
            port.tx[0].send(&mut burst, &port.counters);
            let refused = u64::from(!taken);
            assert_eq!(port.dropped(DropReason::VnetHeader), (before.0 + refused, before.1 + refused), "{what}");
        }
        drop(guest);
        wait("link down", || !port.device.link().up);
    }
}
