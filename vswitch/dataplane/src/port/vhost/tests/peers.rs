//! Real peers: `dpdk-testpmd` with virtio-user.

use super::testpmd::Testpmd;
use super::*;

/// Sends `n` frames through a testpmd and checks every byte that comes back.
#[track_caller]
fn echo(port: &mut Port, pool: &Mempool, testpmd: &Testpmd, n: u32) {
    // It says that it forwards before its receive queue is filled; a probe that comes back is the
    // proof.
    let probe = frame(u32::MAX, 60);
    let end = Instant::now() + LIMIT;
    while !port.receive().contains(&swapped(&probe)) {
        assert!(Instant::now() < end, "no echo; {:?}; testpmd:\n{}", port.device, testpmd.output());
        port.send(0, std::slice::from_ref(&probe), pool);
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(20));
    while !port.receive().is_empty() {}
    let tx = (port.counters.tx_packets.get(), port.counters.tx_bytes.get());
    let frames: Vec<_> = (0..n).map(|i| frame(i, 60 + (i as usize * 37) % 1455)).collect();
    let mut back = Vec::new();
    for chunk in frames.chunks(32) {
        port.send(0, chunk, pool);
        let end = Instant::now() + LIMIT;
        let sent = back.len() + chunk.len();
        while back.len() < sent && Instant::now() < end {
            back.extend(port.receive());
        }
    }
    let bytes: usize = frames.iter().map(Vec::len).sum();
    assert_eq!(port.counters.tx_packets.get() - tx.0, u64::from(n), "packets counted");
    assert_eq!(port.counters.tx_bytes.get() - tx.1, bytes as u64, "bytes counted");
    assert_eq!(back.len(), n as usize, "frames back of those sent");
    for (sent, got) in frames.iter().zip(&back) {
        assert_eq!(*got, swapped(sent), "frame {:?}", &sent[14..18]);
    }
}

#[test]
fn testpmd_echoes_and_both_sides_survive_the_other() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(2048));
    let config = config(&dir, "s", VhostMode::Client);
    let mut testpmd = Testpmd::start(&config.path, 1, "");
    let mut port = Port::new(&config, &pool);
    echo(&mut port, &pool, &testpmd, 1000);
    assert!(port.device.link().up);
    assert!(port.device.offloads().contains(&"mrg_rxbuf"), "{:?}", port.device.offloads());

    // The guest is killed and starts again: nothing is done here.
    testpmd.kill();
    wait("link down", || !port.device.link().up);
    let before = port.dropped(DropReason::LinkDown).1;
    port.send(0, &[frame(0, 60), frame(1, 60)], &pool);
    assert_eq!(port.dropped(DropReason::LinkDown).1 - before, 2);
    assert!(port.device.offloads().is_empty() && port.device.tx_caps() == TxCaps::default(), "nothing without a guest");
    drop(testpmd);
    let testpmd = Testpmd::start(&config.path, 1, "");
    echo(&mut port, &pool, &testpmd, 200);

    // The switch closes and opens again: nothing is done there.
    drop(port);
    let mut port = Port::new(&config, &pool);
    echo(&mut port, &pool, &testpmd, 200);
    drop((port, testpmd));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn testpmd_echoes_with_packed_rings_on_two_queues() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(2048));
    let config = VhostConfig { packed: true, queues: 2, ..config(&dir, "s", VhostMode::Client) };
    let testpmd = Testpmd::start(&config.path, 2, ",packed_vq=1,mrg_rxbuf=0");
    let mut port = Port::new(&config, &pool);
    echo(&mut port, &pool, &testpmd, 300);
    let offloads = port.device.offloads();
    assert!(offloads.contains(&"ring_packed") && offloads.contains(&"mq"), "{offloads:?}");
    assert!(!offloads.contains(&"mrg_rxbuf"), "{offloads:?}");
    wait("both queue pairs", || port.device.rings.send_pairs() == 0b11 && port.device.rings.receive_pairs() == 0b11);
    port.tx.swap(0, 1);
    echo(&mut port, &pool, &testpmd, 300);
    drop((port, testpmd));
    assert_eq!(pool.in_use(), 0);
}
