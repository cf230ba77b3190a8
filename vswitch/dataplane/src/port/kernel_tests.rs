//! The ports `tap` and `af_packet` on real interfaces, frame by frame. Needs root.

use super::kernel_testbed::{af_packet_port, on_both};
use super::{Link, af_packet, tap};
use crate::limits::BURST;
use crate::observe::{DropReason, PortCounters};
use crate::packet::VnetHdr;
use vswitch_dpdk::kernel::release_takes_uso;
use vswitch_dpdk::kernel::testing::{Netns, PlainSocket, eventually, filler, ip, run, unique_name};
use vswitch_dpdk::{Burst, Csum, Mbuf, Mempool};

const MAC: [u8; 6] = [0x02, 0xaa, 0xbb, 1, 2, 3];

/// A frame for [`MAC`] with VLAN tags and a type for local experiments.
fn frame(tags: &[u8], len: usize) -> Vec<u8> {
    [&MAC[..], &[2, 0, 0, 0, 0, 9], tags, &[0x88, 0xb5], &filler(len - 14)].concat()
}

fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for tags in [&[][..], &[0x81, 0, 0x60, 0x64], &[0x88, 0xa8, 0, 5, 0x81, 0, 0xef, 0xff], &[0x81, 0, 0, 0]] {
        // Linux drops tagged frames that end less than two bytes behind the tag.
        let shortest = if tags.is_empty() { 14 } else { 16 };
        // A packet socket allows four bytes more than the MTU, for an 802.1Q tag.
        let longest = if tags.len() > 4 { 1506 } else { 1514 };
        frames.extend([shortest, shortest + 1, 60, 1000, longest].map(|len| frame(tags, len)));
    }
    frames
}

#[test]
fn frames_cross_both_ways_byte_for_byte_with_their_tags() {
    let pool = Mempool::for_tests(256);
    on_both(&pool, |kind, port, peer, _| {
        for frame in frames() {
            peer.send([0; 10], &frame).expect("sent");
            let mbuf = port.receive_one(&MAC);
            assert_eq!(mbuf.to_vec(), frame, "{kind}: received {} bytes", frame.len());
            assert_eq!((mbuf.nb_segs(), mbuf.gso_size()), (1, 0), "{kind}");
        }
        port.send_all(&pool, &frames());
        for frame in frames() {
            let sent = peer.receive(&MAC).on_the_wire();
            assert_eq!(sent, frame, "{kind}: sent {} bytes", frame.len());
        }
        let bytes: usize = frames().iter().map(Vec::len).sum();
        let counted = (port.counters.tx_packets.get(), port.counters.tx_bytes.get());
        assert_eq!(counted, (frames().len() as u64, bytes as u64), "{kind}");
        assert_eq!(port.drops(), (vec![], vec![]), "{kind}");
    });
}

/// Sum of 16-bit words as checksums have it, folded.
fn sum(bytes: &[u8], start: u32) -> u16 {
    let sum = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>() + start;
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).expect("folded")
}

/// A TCP packet or train of UDP datagrams whose checksum field holds the pseudo-header sum, with
/// the header that describes it.
fn gso(ipv4: bool, udp: bool, tags: &[u8], payload: usize) -> (VnetHdr, Vec<u8>) {
    let (protocol, l4_header, csum_offset) = if udp { (17, 8, 6) } else { (6, 20, 16) };
    let l4_len = u16::try_from(l4_header + payload).expect("at most 64 KiB");
    let mut l3 = if ipv4 {
        let (len, addresses) = ((l4_len + 20).to_be_bytes(), [10, 0, 0, 1, 10, 0, 0, 2]);
        [&[0x45, 0][..], &len, &[0, 1, 0x40, 0, 64, protocol, 0, 0], &addresses].concat()
    } else {
        [&[0x60, 0, 0, 0][..], &l4_len.to_be_bytes(), &[protocol, 64], &[0xfd; 32]].concat()
    };
    let addresses = &l3[l3.len() - if ipv4 { 8 } else { 32 }..];
    let pseudo = sum(addresses, u32::from(l4_len) + u32::from(protocol)).to_be_bytes();
    if ipv4 {
        let checksum = !sum(&l3, 0);
        l3[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    let l4 = if udp {
        [&[0x12, 0x34, 0, 80][..], &l4_len.to_be_bytes(), &pseudo].concat()
    } else {
        [&[0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0][..], &pseudo, &[0, 0]].concat()
    };
    let l2 = [&MAC[..], &[2, 0, 0, 0, 0, 9], tags, if ipv4 { &[8, 0] } else { &[0x86, 0xdd] }].concat();
    let csum_start = u16::try_from(l2.len() + l3.len()).expect("small");
    let gso_type = match (udp, ipv4) {
        (true, _) => 5,
        (false, true) => 1,
        (false, false) => 4,
    };
    let hdr_len = csum_start + u16::try_from(l4_header).expect("small");
    let header = VnetHdr { flags: VnetHdr::NEEDS_CSUM, gso_type, hdr_len, gso_size: 1400, csum_start, csum_offset };
    (header, [l2, l3, l4, filler(payload)].concat())
}

#[test]
fn gso_packets_cross_both_ways_with_segment_size_and_partial_checksum() {
    let pool = Mempool::for_tests(256);
    on_both(&pool, |kind, port, peer, _| {
        for (ipv4, tags) in [(true, &[][..]), (true, &[0x81, 0, 0, 7]), (false, &[]), (false, &[0x81, 0, 0, 7])] {
            let what = format!("{kind}, IPv4 {ipv4}, {} bytes of tags", tags.len());
            let (header, bytes) = gso(ipv4, false, tags, 60_000);
            peer.send(header.to_bytes(), &bytes).expect("sent");
            let mbuf = port.receive_one(&MAC);
            assert!(mbuf.to_vec() == bytes, "received bytes differ: {what}");
            let meta = (mbuf.gso_size(), mbuf.csum(), mbuf.nb_segs());
            assert_eq!(meta, (1400, Csum::Partial, bytes.len().div_ceil(2048)), "{what}");

            let mut burst = Burst::new();
            burst.push(mbuf).expect("room");
            port.send(&mut burst);
            let sent = peer.receive(&MAC);
            assert!(sent.on_the_wire() == bytes, "sent bytes differ: {what}");
            let mut expected = header;
            // The kernel counts without a tag that it took out.
            let stripped = if sent.tag.is_some() { 4 } else { 0 };
            expected.csum_start -= stripped;
            let sent = VnetHdr { hdr_len: expected.hdr_len, ..VnetHdr::from_bytes(&sent.header) };
            assert_eq!(sent, expected, "{what}");
        }
        assert_eq!(port.drops(), (vec![], vec![]), "{kind}");
    });
}

/// UDP datagrams of 1400 bytes: a train of them goes out in one piece where the kernel can, and is
/// never announced to be welcome on the way in from a TAP.
#[test]
fn udp_trains_leave_whole_where_the_capabilities_say_so() {
    let pool = Mempool::for_tests(256);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("procfs");
    on_both(&pool, |kind, port, peer, _| {
        let caps = port.tx_caps();
        assert_eq!((caps.csum, caps.tso4, caps.tso6), (true, true, true), "{kind}");
        assert_eq!(caps.uso, release_takes_uso(&release), "{kind} on Linux {release}");
        for (refused, ipv4) in [(1, true), (2, false)] {
            let (header, bytes) = gso(ipv4, true, &[], 14_000);
            let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
            header.accept(&mut mbuf).expect("a valid header");
            let mut burst = Burst::new();
            burst.push(mbuf).expect("room");
            port.send(&mut burst);
            if caps.uso {
                let sent = peer.receive(&MAC);
                assert!(sent.on_the_wire() == bytes, "{kind}");
                let sent = VnetHdr { hdr_len: header.hdr_len, ..VnetHdr::from_bytes(&sent.header) };
                assert_eq!(sent, header, "{kind}");
                peer.send(header.to_bytes(), &bytes).expect("sent");
                let mbuf = port.receive_one(&MAC);
                let expected = if kind == "tap" { (bytes.len() - 9 * 1400, 0) } else { (bytes.len(), 1400) };
                assert_eq!((mbuf.len(), mbuf.gso_size()), expected, "{kind}");
            } else {
                assert_eq!(port.drops().1, [(DropReason::TxError, refused)], "{kind}");
            }
        }
    });
}

#[test]
fn an_af_packet_port_takes_all_that_comes_in_and_nothing_that_goes_out() {
    let pool = Mempool::for_tests(64);
    let (netns, host, mut port) = af_packet_port(&pool);
    let promiscuity = || {
        let shown = ip(&format!("-d link show {host}"));
        shown.split("promiscuity ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number").to_owned()
    };
    assert_eq!(promiscuity(), "1");
    // What the port and the host send by the interface comes first, if it comes.
    port.send_all(&pool, &[frame(&[], 61)]);
    PlainSocket::new(&host).expect("a socket").send([0; 10], &frame(&[], 62)).expect("sent");
    netns.plain_socket("eth0").send([0; 10], &frame(&[], 63)).expect("sent");
    assert_eq!(port.receive_one(&MAC).len(), 63);
    drop(port);
    // A process that another test starts at this moment holds a copy of the descriptor until it
    // execs.
    eventually("the interface is as it was", || (promiscuity() == "0").then_some(()));
}

#[test]
fn a_renamed_interface_stays_the_same_port() {
    let pool = Mempool::for_tests(64);
    let (netns, host, mut port) = af_packet_port(&pool);
    let mac = port.mac();
    let renamed = unique_name("r");
    ip(&format!("link set {host} down"));
    ip(&format!("link set {host} name {renamed}"));
    assert!(!port.link().up);
    ip(&format!("link set {renamed} up"));
    eventually("the peer is up", || netns.ip("link show eth0").contains("state UP").then_some(()));
    eventually("the link is up", || port.link().up.then_some(()));
    assert!(port.link().speed_mbps > 0, "a veth says 10 Gbit/s");
    port.set_mtu(1400);
    let shown = ip(&format!("link show {renamed}"));
    assert!(shown.contains("mtu 1400"), "{shown}");
    assert_eq!(port.mac(), mac);
    netns.plain_socket("eth0").send([0; 10], &frame(&[], 60)).expect("sent");
    assert_eq!(port.receive_one(&MAC).len(), 60);
    // Away and back with its index: the socket has lost it for good, and the port says so.
    let other = Netns::new();
    ip(&format!("link set {renamed} netns {}", other.name()));
    other.ip(&format!("link set {renamed} netns {}", std::process::id()));
    ip(&format!("link set {renamed} up"));
    assert_eq!((port.link(), port.mac()), (Link::default(), None));
}

#[test]
fn an_interface_that_is_down_drops_by_name_and_comes_back_whole() {
    let pool = Mempool::for_tests(256);
    on_both(&pool, |kind, port, peer, netns| {
        assert!(port.link().up, "{kind}");
        if kind == "tap" {
            netns.ip("link set eth0 down");
        } else {
            let host = netns_peer(netns);
            ip(&format!("link set {host} down"));
        }
        assert_eq!((port.link().up, port.trouble()), (false, None), "{kind}: down is no error");
        let frames: Vec<_> = (0..BURST).map(|_| frame(&[], 60)).collect();
        port.send_all(&pool, &frames);
        assert_eq!(port.drops(), (vec![], vec![(DropReason::LinkDown, BURST as u64)]), "{kind}");
        if kind == "tap" {
            netns.ip("link set eth0 up");
        } else {
            ip(&format!("link set {} up", netns_peer(netns)));
            eventually("the peer is up", || netns.ip("link show eth0").contains("state UP").then_some(()));
        }
        eventually("the link is up", || port.link().up.then_some(()));
        port.send_all(&pool, &frames);
        for _ in &frames {
            assert_eq!(peer.receive(&MAC).on_the_wire(), frame(&[], 60), "{kind}");
        }
        assert_eq!(port.counters.tx_packets.get(), BURST as u64, "{kind}");
        peer.send([0; 10], &frame(&[], 77)).expect("sent");
        assert_eq!(port.receive_one(&MAC).len(), 77, "{kind}");
    });
}

/// Name of the veth in our namespace whose peer is `eth0` of `netns`.
fn netns_peer(netns: &Netns) -> String {
    let shown = netns.ip("-o link show eth0");
    let index = shown.split("@if").nth(1).and_then(|rest| rest.split(':').next()).expect("eth0@ifN:").to_owned();
    let all = ip("-o link show");
    let line = all.lines().find(|line| line.starts_with(&format!("{index}:"))).expect("the peer is listed");
    line.split([' ', '@']).nth(1).expect("a name").to_owned()
}

#[test]
fn a_deleted_interface_leaves_a_quiet_port() {
    let pool = Mempool::for_tests(256);
    on_both(&pool, |kind, port, _, netns| {
        assert_eq!((port.mac().is_some(), port.trouble()), (true, None), "{kind}");
        netns.ip("link delete eth0");
        let mut burst = Burst::new();
        for _ in 0..300 {
            port.receive(&mut burst);
            burst.clear();
        }
        assert_eq!((port.link(), port.mac()), (Link::default(), None), "{kind}");
        let trouble = port.trouble().expect("an error for vsctl show");
        assert!(trouble.contains("the interface is gone: remove the port and add it again"), "{trouble}");
        port.send_all(&pool, &[frame(&[], 60), frame(&[], 60)]);
        assert_eq!(port.drops(), (vec![], vec![(DropReason::LinkDown, 2)]), "{kind}");
        port.missed();
    });
}

#[test]
fn a_packet_that_the_kernel_refuses_takes_no_other_with_it() {
    let pool = Mempool::for_tests(256);
    on_both(&pool, |kind, port, peer, netns| {
        let mut frames: Vec<_> = (20..26).map(|n| frame(&[], n * 10)).collect();
        // Too long for a veth; a TAP has no such limit, but wants whole Ethernet headers.
        frames[2] = if kind == "tap" { vec![0; 13] } else { frame(&[], 1600) };
        frames[5] = frames[2].clone();
        port.send_all(&pool, &frames);
        for n in [20, 21, 23, 24] {
            assert_eq!(peer.receive(&MAC).on_the_wire().len(), n * 10, "{kind}");
        }
        assert_eq!(port.drops(), (vec![], vec![(DropReason::TxError, 2)]), "{kind}");
        assert_eq!(port.counters.tx_packets.get(), 4, "{kind}");
        if kind == "af_packet" {
            netns.ip("link set eth0 mtu 1600");
            port.set_mtu(1600);
            port.send_all(&pool, &frames[2..3]);
            assert_eq!(port.counters.tx_packets.get(), 5, "{kind}");
        }
    });
}

#[test]
fn an_empty_pool_costs_one_drop_per_packet_and_never_wedges() {
    let pool = Mempool::for_tests(64);
    on_both(&pool, |kind, port, peer, _| {
        let mut held: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
        let mut burst = Burst::new();
        // More than the ring has frames, so that each is seen empty-handed; a TAP first uses up
        // what it has at hand.
        let total = 300;
        let mut received = 0;
        for _ in 0..total {
            peer.send([0; 10], &frame(&[], 60)).expect("sent");
            let before = port.counters.rx_drops.get(DropReason::NoMbuf) + received;
            eventually("packet or drop", || {
                port.receive(&mut burst);
                received += burst.len() as u64;
                held.extend(burst.drain());
                let now = port.counters.rx_drops.get(DropReason::NoMbuf) + received;
                (now > before).then_some(())
            });
        }
        let dropped = port.counters.rx_drops.get(DropReason::NoMbuf);
        assert_eq!(dropped + received, total, "{kind}");
        assert!(dropped >= total - 33, "{kind}: {dropped}");
        held.clear();
        let long = gso(true, false, &[], 50_000);
        peer.send(long.0.to_bytes(), &long.1).expect("sent");
        assert!(port.receive_one(&MAC).to_vec() == long.1, "{kind}: after the pool filled up");
    });
}

#[test]
fn a_full_ring_counts_what_it_missed_and_goes_on_in_order() {
    let pool = Mempool::for_tests(512);
    let (netns, _, mut port) = af_packet_port(&pool);
    let peer = netns.plain_socket("eth0");
    let mut burst = Burst::new();
    for round in 0..5_u64 {
        for i in 0..200 {
            let mut frame = frame(&[], 60);
            frame[59] = i;
            peer.send([0; 10], &frame).expect("sent");
        }
        eventually("200 frames are through the veth", || (port.missed() >= (round + 1) * 65).then_some(()));
        let mut next = 0;
        for _ in 0..10 {
            port.receive(&mut burst);
            for mbuf in burst.drain() {
                assert_eq!(mbuf.head()[59], next, "round {round}");
                next += 1;
            }
        }
        assert_eq!((u64::from(next), port.missed()), (135, (round + 1) * 65), "round {round}");
    }
}

#[test]
fn interfaces_that_cannot_be_ports_are_refused_with_a_hint() {
    let pool = Mempool::for_tests(64);
    let error = af_packet::open("no-such-name", &pool).expect_err("no interface").to_string();
    assert!(error.contains("no-such-name") && error.contains("SIOCGIFINDEX") && error.contains("create it"), "{error}");
    let error = af_packet::open("lo", &pool).expect_err("not Ethernet").to_string();
    assert!(error.contains("only Ethernet"), "{error}");
    let error = tap::open("lo", None, 1500, 2, &pool).expect_err("taken").to_string();
    assert!(error.contains("another name"), "{error}");
    assert_eq!(pool.in_use(), 0);
}

/// Descriptors, mappings and resident KiB of this process.
fn footprint() -> (usize, usize, u64) {
    let fds = std::fs::read_dir("/proc/self/fd").expect("procfs").count();
    let maps =
        std::fs::read_to_string("/proc/self/maps").expect("procfs").lines().filter(|l| l.contains("socket:")).count();
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    (fds, maps, rss.trim().trim_end_matches(" kB").parse().expect("a number"))
}

/// In a process of its own, since other tests open descriptors at the same time.
#[test]
fn fifty_ports_of_each_kind_leave_nothing_behind() {
    const CHILD: &str = "VSWITCH_TEST_FOOTPRINT";
    if std::env::var_os(CHILD).is_none() {
        let exe = std::env::current_exe().expect("this test binary");
        let exe = exe.to_str().expect("UTF-8");
        let test = "port::kernel_tests::fifty_ports_of_each_kind_leave_nothing_behind";
        run(&["env", &format!("{CHILD}=1"), exe, "--exact", test, "--test-threads=1"]);
        return;
    }
    let pool = Mempool::for_tests(256);
    let (netns, host) = Netns::with_veth();
    let peer = netns.plain_socket("eth0");
    let name = unique_name("t");
    let cycle = || {
        let (mut rx, _tx, device) = af_packet::open(&host, &pool).expect("a port");
        peer.send([0; 10], &frame(&[], 60)).expect("sent");
        let mut burst = Burst::new();
        eventually("a frame", || {
            rx.receive(&mut burst, &PortCounters::default());
            (!burst.is_empty()).then_some(())
        });
        assert!(device.link().up);
        let (_rx, _tx, device) = tap::open(&name, None, 1500, 3, &pool).expect("a port");
        assert!(device.link().up);
    };
    (0..10).for_each(|_| cycle());
    let before = footprint();
    (0..50).for_each(|_| cycle());
    let after = footprint();
    assert_eq!((after.0, after.1, pool.in_use()), (before.0, before.1, 0), "descriptors, rings, mbufs");
    assert!(after.2 < before.2 + 2048, "resident: {} KiB, then {} KiB", before.2, after.2);
}
