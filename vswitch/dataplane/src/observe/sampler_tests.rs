//! Samples: what they hold, their rate, and what is counted of the rest.

use super::{Direction, DropPlace, DropReason, DropSampler, PortCounters, Remains};
use crate::limits::DROP_SAMPLES_QUEUED;
use crate::time::Millis;
use std::sync::Arc;
use vswitch_dpdk::Mempool;

fn watched() -> (PortCounters, Arc<DropSampler>) {
    let sampler = Arc::new(DropSampler::new(3));
    let place = DropPlace { port: 7, name: "p7".to_owned(), bridge: "br0".to_owned() };
    (PortCounters::watched(&Arc::new(place), &sampler), sampler)
}

#[test]
fn no_sample_is_taken_and_nothing_suppressed_without_a_watcher() {
    let (counters, sampler) = watched();
    counters.rx_drops.count(DropReason::NoPort, Remains::Bytes(&[1; 60]));
    assert_eq!((counters.rx_drops.get(DropReason::NoPort), sampler.suppressed(DropReason::NoPort)), (1, 0));
    assert!(sampler.take().is_none());
    // Counters of tests have no sampler at all.
    PortCounters::default().tx_drops.count_unseen(DropReason::NoPort, 3);
}

#[test]
fn a_sample_says_where_when_why_and_has_the_first_bytes_of_all_segments() {
    let (counters, sampler) = watched();
    sampler.set_rate(10);
    sampler.set_now(Millis(4321));
    let pool = Mempool::for_tests(8);
    let bytes: Vec<u8> = (0..=255).cycle().take(300).collect();
    // A head of 50 bytes, and a tail: the sample spans both.
    let mut packet = pool.mbuf_from(&bytes[..50]).expect("an mbuf");
    packet.chain(pool.mbuf_from(&bytes[50..]).expect("an mbuf"));
    counters.tx_drops.count(DropReason::TxFull, Remains::Packet(&packet));
    counters.refuse(DropReason::VnetHeader, Remains::Bytes(&bytes[..20]));
    counters.rx_drops.count_unseen(DropReason::VhostDesc, 1);
    let first = sampler.take().expect("a sample");
    assert_eq!((first.reason, first.direction, first.worker), (DropReason::TxFull, Direction::Out, 3));
    assert_eq!((first.place.name.as_str(), first.place.bridge.as_str(), first.place.port), ("p7", "br0", 7));
    assert_eq!((first.at, first.len, first.decider), (Millis(4321), 300, None));
    assert_eq!(first.bytes(), &bytes[..128]);
    let second = sampler.take().expect("a sample");
    assert_eq!((second.direction, second.len, second.bytes()), (Direction::In, 20, &bytes[..20]));
    assert_eq!((counters.rx_packets.get(), counters.rx_bytes.get()), (1, 20), "it came in");
    let third = sampler.take().expect("a sample");
    assert_eq!((third.reason, third.len, third.bytes()), (DropReason::VhostDesc, 0, &[][..]));
}

#[test]
fn each_reason_has_its_rate_per_second_and_the_rest_is_suppressed() {
    let (counters, sampler) = watched();
    sampler.set_rate(3);
    for second in 0..4 {
        sampler.set_now(Millis(second * 1000 + 17));
        for _ in 0..100 {
            counters.rx_drops.count(DropReason::RuleDrop, Remains::Nothing);
            counters.tx_drops.count(DropReason::TxFull, Remains::Nothing);
        }
        counters.rx_drops.count_unseen(DropReason::LearnRate, 50);
    }
    let samples: Vec<_> = std::iter::from_fn(|| sampler.take()).collect();
    let of = |reason| samples.iter().filter(|sample| sample.reason == reason).count() as u64;
    for (reason, samples, drops) in
        [(DropReason::RuleDrop, 12, 400), (DropReason::TxFull, 12, 400), (DropReason::LearnRate, 4, 200)]
    {
        assert_eq!((of(reason), sampler.suppressed(reason), sampler.lost(reason)), (samples, drops - samples, 0));
    }
}

#[test]
fn a_queue_that_is_not_emptied_loses_by_count() {
    let (counters, sampler) = watched();
    sampler.set_rate(u32::MAX);
    let died = DROP_SAMPLES_QUEUED as u64 + 5;
    for _ in 0..died {
        counters.rx_drops.count(DropReason::NoPort, Remains::Nothing);
    }
    assert_eq!((sampler.lost(DropReason::NoPort), sampler.suppressed(DropReason::NoPort)), (5, 0));
    assert_eq!(std::iter::from_fn(|| sampler.take()).count(), DROP_SAMPLES_QUEUED);
}
