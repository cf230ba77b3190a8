//! TAP ports of several queues, queue by queue. Needs root.

use super::tap;
use crate::observe::PortCounters;
use vswitch_dpdk::kernel::testing::{Netns, eventually, ip, unique_name};
use vswitch_dpdk::{Burst, Mempool};

const HOST: [u8; 6] = [0x02, 0, 0, 0, 0x77, 1];
const QUEUES: u16 = 3;

/// Sum of 16-bit words as checksums have it, folded and inverted.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    (!u16::try_from((sum & 0xffff) + (sum >> 16)).expect("few words")).to_be_bytes()
}

/// An ICMP echo request of 10.77.0.`source` to the host, 10.77.0.1.
fn echo_request(source: u8) -> Vec<u8> {
    let mut ip = [&[0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0, 10, 77, 0, source][..], &[10, 77, 0, 1]].concat();
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    let mut icmp = [8, 0, 0, 0, 0, source, 0, 1];
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    [&HOST[..], &[2, 0, 0, 0, 0x77, source], &[8, 0], &ip, &icmp].concat()
}

#[test]
fn what_the_host_answers_comes_by_the_queue_that_asked() {
    let pool = Mempool::for_tests(512);
    let (netns, name, counters) = (Netns::new(), unique_name("t"), PortCounters::default());
    let (mut rx, mut tx, device) =
        tap::open(&name, Some(crate::packet::Mac(HOST)), 1500, QUEUES, &pool).expect("a port");
    assert_eq!((rx.len(), tx.len(), device.queues()), (3, 3, 3));
    ip(&format!("link set {name} netns {}", netns.name()));
    netns.ip(&format!("link set {name} up"));
    netns.ip(&format!("addr add 10.77.0.1/24 dev {name}"));
    let mut burst = Burst::new();
    for source in 2..30_u8 {
        netns.ip(&format!("neigh add 10.77.0.{source} lladdr 02:00:00:00:77:{source:02x} dev {name}"));
        let queue = usize::from(source) % usize::from(QUEUES);
        let mut ask = || {
            burst.push(pool.mbuf_from(&echo_request(source)).expect("an mbuf")).expect("room");
            tx[queue].send(&mut burst, &counters);
            eventually(&format!("10.77.0.{source} gets its answer"), || {
                (0..rx.len()).find(|queue| {
                    rx[*queue].receive(&mut burst, &counters);
                    let mut all = burst.drain().map(|mbuf| mbuf.to_vec());
                    all.any(|bytes| bytes[..6] == [2, 0, 0, 0, 0x77, source] && bytes[12..14] == [8, 0])
                })
            })
        };
        // The kernel answers the first before it remembers where it came from.
        ask();
        assert_eq!(ask(), queue, "the answer to 10.77.0.{source}");
    }
    assert_eq!(counters.tx_packets.get(), 2 * 28);
    let dropped = |drops: &crate::observe::Drops| drops.all().sum::<u64>();
    assert_eq!((dropped(&counters.rx_drops), dropped(&counters.tx_drops)), (0, 0), "drops");
}

#[test]
fn as_many_queues_as_there_may_be_and_their_descriptors_go() {
    let pool = Mempool::for_tests(64);
    let name = unique_name("t");
    for round in 0..2 {
        let opened =
            eventually("the name is free", || match tap::open(&name, None, 1500, crate::limits::QUEUES_MAX, &pool) {
                // A process that another test starts at this moment holds a copy of the descriptors
                // until it execs.
                Err(error) if error.error.raw_os_error() == Some(libc::EBUSY) => None,
                other => Some(other.expect("a port")),
            });
        assert_eq!(opened.0.len(), 64, "round {round}");
        let shown = ip(&format!("-d link show {name}"));
        assert!(shown.contains("multi_queue") && shown.contains("numtxqueues 256"), "{shown}");
    }
    eventually("the interface is gone", || {
        (!std::path::Path::new(&format!("/sys/class/net/{name}")).exists()).then_some(())
    });
    assert_eq!(pool.in_use(), 0, "mbufs leaked");
}
