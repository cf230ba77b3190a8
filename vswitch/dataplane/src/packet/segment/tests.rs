use super::super::offload::{TxCaps, describe, finish};
use super::super::testing::{Spec, cut, cuts, naive_checksum, specs};
use super::*;
use proptest::prelude::*;

/// Sends a GSO packet out by a port with these capabilities.
fn send(mbuf: Mbuf, caps: TxCaps, pool: &Mempool) -> (Vec<Mbuf>, Result<(), DropReason>) {
    let mut sent = Vec::new();
    let result = finish(mbuf, caps, pool, &mut |mbuf| sent.push(mbuf));
    (sent, result.map(drop))
}

fn gso(pool: &Mempool, spec: &Spec, cuts: &[usize], gso_size: u16) -> Mbuf {
    let mut mbuf = cut(pool, &spec.partial(), cuts);
    mbuf.set_csum(Csum::Partial);
    mbuf.set_gso_size(gso_size);
    mbuf
}

/// What segment `index` of `count` should be: the packet that the builder makes of its share of the
/// payload.
fn expected(spec: &Spec, index: usize, count: usize, gso_size: usize) -> Spec {
    let payload = spec.payload.chunks(gso_size).nth(index).expect("a segment of the payload").to_vec();
    let mut flags = spec.tcp_flags;
    if index > 0 {
        flags &= !CWR;
    }
    if index + 1 < count {
        flags &= !(FIN | PSH);
    }
    let index16 = u16::try_from(index).expect("few segments");
    let before = u32::try_from(index * gso_size).expect("at most 64 KiB");
    Spec {
        payload,
        padding: 0,
        tcp_flags: flags,
        tcp_seq: spec.tcp_seq.wrapping_add(before),
        ipv4_id: spec.ipv4_id.wrapping_add(index16),
        ..spec.clone()
    }
}

#[test]
fn segments_are_the_packets_that_the_sender_would_have_made() {
    let pool = Mempool::for_tests(2048);
    let sizes = prop_oneof![1..50_u16, 500..3000_u16];
    proptest!(|((spec, cuts, gso_size, csum) in (specs(6000), cuts(), sizes, any::<bool>()))| {
        let size = usize::from(gso_size);
        let count = spec.payload.len().div_ceil(size);
        let caps = TxCaps { csum, ..TxCaps::default() };
        let (sent, result) = send(gso(&pool, &spec, &cuts, gso_size), caps, &pool);
        if count <= 1 {
            let bytes = if csum { spec.partial() } else { spec.complete() };
            prop_assert_eq!((result, sent.len(), sent[0].gso_size()), (Ok(()), 1, 0));
            prop_assert!(sent[0].to_vec() == bytes, "an ordinary packet changed");
            return Ok(());
        }
        if count > GSO_SEGMENTS_MAX {
            prop_assert_eq!((result, sent.len()), (Err(DropReason::Segmentation), 0));
            return Ok(());
        }
        prop_assert_eq!((result, sent.len()), (Ok(()), count));
        let mut payload = Vec::new();
        for (i, mut mbuf) in sent.into_iter().enumerate() {
            let segment = expected(&spec, i, count, size);
            let bytes = if csum { segment.partial() } else { segment.complete() };
            let state = if csum { Csum::Partial } else { Csum::Good };
            prop_assert_eq!((mbuf.csum(), mbuf.gso_size()), (state, 0), "segment {} of {}", i, count);
            let got = mbuf.to_vec();
            prop_assert!(same(&got, &bytes, &segment), "segment {i} of {count}:\n{got:02x?}\nnot\n{bytes:02x?}");
            prop_assert!(describe(&mut mbuf).is_ok());
            payload.extend_from_slice(&got[segment.payload_start()..]);
            if !csum {
                let l4 = [segment.pseudo(got.len() - segment.l4_start()), got[segment.l4_start()..].to_vec()].concat();
                prop_assert_eq!(naive_checksum(&l4), 0, "segment {} of {} verifies", i, count);
            }
        }
        prop_assert!(payload == spec.payload, "the payload differs");
    });
    assert_eq!(pool.in_use(), 0, "segments leaked");
}

/// Equal, or different only in which of the two zeros of ones' complement the checksum field holds.
fn same(got: &[u8], expected: &[u8], spec: &Spec) -> bool {
    let at = spec.checksum_at();
    let normal = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        if bytes[at..].starts_with(&[0xff, 0xff]) {
            bytes[at..][..2].fill(0);
        }
        bytes
    };
    got == expected || normal(got) == normal(expected)
}

#[test]
fn what_the_port_takes_goes_as_it_is() {
    let pool = Mempool::for_tests(256);
    let none = TxCaps::default();
    for (ipv4, l4, caps) in [
        (true, L4::Tcp, TxCaps { csum: true, tso4: true, ..none }),
        (false, L4::Tcp, TxCaps { csum: true, tso6: true, ..none }),
        (true, L4::Udp, TxCaps { csum: true, uso: true, ..none }),
        (false, L4::Udp, TxCaps { csum: true, uso: true, ..none }),
    ] {
        let spec = Spec::plain(ipv4, l4, 9000);
        let (sent, result) = send(gso(&pool, &spec, &[100], 1448), caps, &pool);
        assert_eq!((result, sent.len()), (Ok(()), 1), "{ipv4} {l4:?}");
        assert_eq!((sent[0].gso_size(), sent[0].csum()), (1448, Csum::Partial), "{ipv4} {l4:?}");
        assert_eq!(sent[0].to_vec(), spec.partial(), "{ipv4} {l4:?}");
        // Segmentation by others needs checksums by others.
        for caps in [TxCaps { csum: false, ..caps }, TxCaps { csum: true, ..none }, none] {
            let (sent, result) = send(gso(&pool, &spec, &[100], 1448), caps, &pool);
            assert_eq!((result, sent.len()), (Ok(()), 7), "{ipv4} {l4:?} {caps:?}");
        }
    }
    assert_eq!(pool.in_use(), 0, "segments leaked");
}

#[test]
fn segments_longer_than_an_mbuf_span_several() {
    let pool = Mempool::for_tests(256);
    let spec = Spec::plain(true, L4::Tcp, 60_000);
    let (sent, result) = send(gso(&pool, &spec, &[], 8948), TxCaps::default(), &pool);
    assert_eq!((result, sent.len(), sent[0].nb_segs()), (Ok(()), 7, 5));
    for (i, mbuf) in sent.iter().enumerate() {
        assert_eq!(mbuf.to_vec(), expected(&spec, i, 7, 8948).complete(), "segment {i}");
    }
}

#[test]
fn too_many_segments_are_refused_by_name() {
    let pool = Mempool::for_tests(2048);
    for (payload, sent, result) in [(1024, 1024, Ok(())), (1025, 0, Err(DropReason::Segmentation))] {
        let spec = Spec::plain(false, L4::Udp, payload);
        let (segments, got) = send(gso(&pool, &spec, &[], 1), TxCaps::default(), &pool);
        assert_eq!((segments.len(), got), (sent, result), "{payload} bytes of payload, one in each segment");
    }
    assert_eq!(pool.in_use(), 0, "segments leaked");
}

#[test]
fn an_empty_pool_ends_it_without_a_leak() {
    let pool = Mempool::for_tests(40);
    let spec = Spec::plain(true, L4::Tcp, 40_000);
    let mbuf = gso(&pool, &spec, &[], 3000); // 20 segments of it, 2 for each of 14 to send
    let used = pool.in_use();
    let (sent, result) = send(mbuf, TxCaps::default(), &pool);
    assert_eq!((result, sent.len()), (Err(DropReason::NoMbuf), (40 - used) / 2), "{used} in use before");
    drop(sent);
    assert_eq!(pool.in_use(), 0, "segments leaked");
}

#[test]
fn a_gso_packet_that_is_none_is_refused() {
    let pool = Mempool::for_tests(64);
    let spec = Spec::plain(true, L4::Tcp, 3000);
    let mut arp = spec.partial();
    arp[13] = 6;
    for (name, bytes, csum) in [("ARP", arp, Csum::Partial), ("whole checksum", spec.complete(), Csum::Unknown)] {
        let mut mbuf = cut(&pool, &bytes, &[]);
        mbuf.set_csum(csum);
        mbuf.set_gso_size(1000);
        let (sent, result) = send(mbuf, TxCaps::default(), &pool);
        assert_eq!((result, sent.len()), (Err(DropReason::Segmentation), 0), "{name}");
    }
    assert_eq!(pool.in_use(), 0, "segments leaked");
}
