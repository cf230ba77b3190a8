//! Unfinished checksums and GSO packets, both ways, believed as far as they go.

use super::features::{ones, tcp4, vnet};
use super::frontend::*;
use super::*;
use vswitch_dpdk::{Csum, Mbuf};

const OFFLOADS: u64 = BASIC | CSUM | HOST_TSO4 | GUEST_CSUM | GUEST_TSO4;

fn receive(port: &mut Port) -> Vec<Mbuf> {
    let _inside = port.gate.lock();
    let (mut burst, mut all) = (Burst::new(), Vec::new());
    let copied = |mbuf: Mbuf| mbuf.copy(&port.pool).expect("mbufs");
    port.rx[0].receive(&mut burst, &port.counters, &mut |borrowed| all.extend(borrowed.drain().map(copied)));
    all.extend(burst.drain());
    all
}

fn udp4(payload: usize) -> Vec<u8> {
    let mut packet = tcp4(payload);
    packet[23] = 17;
    let len = u16::try_from(20 + payload).expect("fits");
    packet[34..42].copy_from_slice(&[4, 0, 4, 1, 0, 0, 0, 0]);
    packet[38..40].copy_from_slice(&len.to_be_bytes());
    packet[24..26].fill(0);
    let sum = ones(packet[14..34].chunks(2));
    packet[24..26].copy_from_slice(&(!sum).to_be_bytes());
    packet
}

#[test]
fn what_a_guest_says_of_its_packets_must_fit_them() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let mut guest = running_guest(&port, &path, OFFLOADS);
    let mut send = |guest: &mut Frontend, header, packet: &[u8]| {
        guest.send(0, header, packet).expect("sent");
        let mut got = receive(&mut port);
        assert!(got.len() <= 1);
        got.pop().map(|mbuf| {
            assert_eq!(mbuf.to_vec(), packet);
            (mbuf.csum(), mbuf.gso_size())
        })
    };
    let tcp = tcp4(1600);
    let big = |guest: &mut Frontend, send: &mut dyn FnMut(&mut Frontend, [u8; 10], &[u8]) -> _, size| {
        send(guest, vnet(1, 1, size, 34, 16), &tcp)
    };
    assert_eq!(send(&mut guest, vnet(1, 0, 0, 34, 16), &tcp4(1400)), Some((Csum::Partial, 0)));
    assert_eq!(big(&mut guest, &mut send, 536), Some((Csum::Partial, 536)));
    assert_eq!(send(&mut guest, vnet(1, 1, 1448, 34, 16), &tcp4(1400)), Some((Csum::Partial, 0)), "one segment anyway");
    assert_eq!(big(&mut guest, &mut send, 65535), None, "longer than the MTU, and not GSO in truth");
    assert_eq!(send(&mut guest, vnet(1, 4, 536, 34, 16), &tcp), Some((Csum::Partial, 536)), "its bytes say IPv4");
    assert_eq!(send(&mut guest, vnet(1, 3, 536, 34, 6), &udp4(1400)), None, "UFO");
    let mut lies = tcp4(1400);
    lies[16] = 0xff; // longer than the packet
    assert_eq!(send(&mut guest, vnet(1, 1, 536, 34, 16), &lies), None);
    let mut short = tcp4(1400);
    short[46] = 0xf0; // a TCP header of 60 bytes
    short.truncate(54);
    assert_eq!(send(&mut guest, vnet(1, 0, 0, 34, 16), &short), None);
    assert_eq!((port.dropped(DropReason::VnetHeader).0, port.dropped(DropReason::Oversize).0), (3, 1));
    // In a burst, the others live and keep their order.
    for i in 0..30_u32 {
        let header = if i % 3 == 0 { vnet(1, 3, 536, 34, 6) } else { [0; 10] };
        guest.send(0, header, &if i % 3 == 0 { udp4(1400) } else { frame(i, 60) }).expect("sent");
    }
    let expected: Vec<_> = (0..30).filter(|i| i % 3 != 0).map(|i| frame(i, 60)).collect();
    assert_eq!(port.receive(), expected);
    assert_eq!(port.dropped(DropReason::VnetHeader).0, 13);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn other_lies_of_a_header_change_nothing() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let mut guest = running_guest(&port, &path, OFFLOADS);
    let partial = Some((Csum::Partial, 0));
    let gso = Some((Csum::Partial, 536));
    let plain = Some((Csum::Unknown, 0));
    let (tcp, udp) = (tcp4(1400), udp4(1400));
    // Header, its length of headers and number of buffers, packet, what is made of it. Where the
    // sum is, the bytes say, not the header.
    let cases = [
        ("headers of no length", vnet(1, 1, 536, 34, 16), (0, 0), &tcp, gso),
        ("headers longer than the packet", vnet(1, 1, 536, 34, 16), (u16::MAX, 0), &tcp, gso),
        ("65,535 buffers", vnet(1, 0, 0, 34, 16), (54, u16::MAX), &tcp, partial),
        ("flags that nobody knows", vnet(0xfd, 0, 0, 34, 16), (54, 0), &tcp, partial),
        ("flags without the one that counts", vnet(0xfe, 0, 0, 34, 16), (54, 0), &tcp, plain),
        ("TCP segments of UDP: no segments", vnet(1, 1, 536, 34, 6), (42, 0), &udp, partial),
        ("TCP segments of UDP, with TCP's field", vnet(1, 1, 536, 34, 16), (42, 0), &udp, partial),
        ("a segment of one byte", vnet(1, 1, 1, 34, 16), (54, 0), &tcp, Some((Csum::Partial, 1))),
        ("a sum at the end", vnet(1, 0, 0, 1453, 16), (54, 0), &tcp, plain),
        ("a sum behind the end", vnet(1, 0, 0, 1454, 16), (54, 0), &tcp, plain),
        ("a field far away", vnet(1, 0, 0, 34, u16::MAX), (54, 0), &tcp, partial),
        ("a sum of everything", vnet(1, 0, 0, 0, 0), (54, 0), &tcp, partial),
    ];
    let mut otherwise = Vec::new();
    for (what, mut header, (headers, buffers), packet, expected) in cases {
        header[2..4].copy_from_slice(&headers.to_le_bytes());
        let bytes = [&header[..], &u16::to_le_bytes(buffers), packet].concat();
        guest.send_bytes(0, &bytes).expect("sent");
        let refused = port.dropped(DropReason::VnetHeader).0;
        let mut got = receive(&mut port);
        let made = got.pop().map(|mbuf| {
            assert_eq!(mbuf.to_vec(), *packet, "{what}: other bytes");
            (mbuf.csum(), mbuf.gso_size())
        });
        let refused = port.dropped(DropReason::VnetHeader).0 - refused;
        if made != expected || refused != u64::from(made.is_none()) {
            otherwise.push(format!("{what}: {made:?}, {refused} drops, not {expected:?}"));
        }
    }
    assert_eq!(otherwise, [""; 0]);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_guest_gets_unfinished_packets_with_the_header_for_them() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let mut guest = running_guest(&port, &path, OFFLOADS);
    let mut send = |guest: &mut Frontend, gso_size: u16, bytes: &[u8]| {
        let mut mbuf = pool.mbuf_from(bytes).expect("an mbuf");
        mbuf.set_csum(Csum::Partial);
        mbuf.set_gso_size(gso_size);
        let mut burst = Burst::new();
        burst.push(mbuf).expect("room");
        burst.push(pool.mbuf_from(&frame(3, 60)).expect("an mbuf")).expect("room");
        port.tx[0].send(&mut burst, &port.counters);
        let first = guest.receive(0).expect("readable").expect("the unfinished one");
        let second = guest.receive(0).expect("readable").expect("the finished one");
        assert_eq!((&second.0[..10], second.1), (&[0; 10][..], frame(3, 60)));
        first
    };
    let (header, bytes) = send(&mut guest, 0, &tcp4(1400));
    assert_eq!(header[..10], [1, 0, 0, 0, 0, 0, 34, 0, 16, 0], "partial");
    assert_eq!(bytes, tcp4(1400), "the pseudo-header sum is in place");
    let (header, bytes) = send(&mut guest, 536, &tcp4(1900));
    assert_eq!(header[..10], vnet(1, 1, 536, 34, 16), "GSO");
    // The one thing that differs: librte_vhost leaves the length out of a GSO packet's
    // pseudo-header sum.
    assert_eq!((&bytes[..50], &bytes[52..]), (&tcp4(1900)[..50], &tcp4(1900)[52..]));
    let without_len = ones([&bytes[26..34], &[0, 6]].concat().chunks(2));
    assert_eq!(bytes[50..52], without_len.to_be_bytes());
    assert_eq!(port.counters.tx_packets.get(), 4);
    drop(guest);
    assert_eq!(pool.in_use(), 0);
}
