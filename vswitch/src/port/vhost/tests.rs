//! vhost-user ports against real and hostile peers.

use super::frontend::*;
use super::testpmd::Testpmd;
use super::*;
use crate::dpdk::{Burst, Csum};
use crate::observe::{DropReason, PortCounters};
use parking_lot::Mutex;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BASIC: u64 = VERSION_1 | MRG_RXBUF | PROTOCOL;

/// A port, and the test's thread as its worker: it is in the gate while it uses the queues; `quiesce` passes through.
struct Port {
    rx: Vec<VhostRxQueue>,
    tx: Vec<VhostTxQueue>,
    device: VhostDevice,
    gate: Arc<Mutex<()>>,
    counters: PortCounters,
}

fn open_port(config: &VhostConfig, pool: &Mempool) -> Result<Port, VhostError> {
    let gate = Arc::new(Mutex::new(()));
    let passed = Arc::clone(&gate);
    let (rx, tx, device) = open(config, 1500, Arc::new(move || drop(passed.lock())), pool)?;
    Ok(Port { rx, tx, device, gate, counters: PortCounters::default() })
}

impl Port {
    fn new(config: &VhostConfig, pool: &Mempool) -> Self {
        open_port(config, pool).expect("the port opens")
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let _inside = self.gate.lock();
        let mut burst = Burst::new();
        for queue in &mut self.rx {
            queue.receive(&mut burst, &self.counters);
        }
        burst.iter().map(crate::dpdk::Mbuf::to_vec).collect()
    }

    fn send(&mut self, queue: usize, frames: &[Vec<u8>], pool: &Mempool) {
        let _inside = self.gate.lock();
        for frames in frames.chunks(32) {
            let mut burst = Burst::new();
            for frame in frames {
                burst.push(pool.mbuf_from(frame).expect("an mbuf")).expect("room");
            }
            self.tx[queue].send(&mut burst, &self.counters);
            assert!(burst.is_empty());
        }
    }

    fn dropped(&self, reason: DropReason) -> (u64, u64) {
        (self.counters.rx_drops[reason.index()].get(), self.counters.tx_drops[reason.index()].get())
    }
}

fn dir() -> TempDir {
    tempfile::Builder::new().prefix("vhost-test-").tempdir().expect("a directory")
}

fn config(dir: &TempDir, name: &str, mode: VhostMode) -> VhostConfig {
    VhostConfig::new(dir.path().join(name), mode)
}

/// Waits for a condition; the message says what did not come.
#[track_caller]
fn wait(what: &str, seconds: u64, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !done() {
        assert!(Instant::now() < end, "{what}: not within {seconds} s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len.max(60)];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]); // IEEE local experimental
    for (i, byte) in frame[18..].iter_mut().enumerate() {
        *byte = (i as u32).wrapping_mul(31).wrapping_add(number) as u8;
    }
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn swapped(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}

/// Sends `n` frames through a testpmd and checks every byte that comes back.
#[track_caller]
fn echo(port: &mut Port, pool: &Mempool, testpmd: &Testpmd, n: u32) {
    // It says that it forwards before its receive queue is filled; a probe that comes back is the proof.
    let probe = frame(u32::MAX, 60);
    let end = Instant::now() + Duration::from_secs(20);
    while !port.receive().contains(&swapped(&probe)) {
        assert!(Instant::now() < end, "no echo; link {:?}; testpmd:\n{}", port.device.rings, testpmd.output());
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
        let end = Instant::now() + Duration::from_secs(5);
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
    let (dir, pool) = (dir(), Mempool::for_tests(2048));
    let config = config(&dir, "s", VhostMode::Client);
    let mut testpmd = Testpmd::start(&config.path, 1);
    let mut port = Port::new(&config, &pool);
    echo(&mut port, &pool, &testpmd, 1000);
    assert!(port.device.link().up);
    assert!(port.device.offloads().contains(&"mrg_rxbuf"), "{:?}", port.device.offloads());

    // The guest is killed and starts again: nothing is done here.
    testpmd.kill();
    wait("link down", 5, || !port.device.link().up);
    port.send(0, &[frame(0, 60)], &pool);
    assert_eq!(port.dropped(DropReason::LinkDown).1, 1 + port.dropped(DropReason::LinkDown).1 - 1);
    drop(testpmd);
    let testpmd = Testpmd::start(&config.path, 1);
    echo(&mut port, &pool, &testpmd, 200);

    // The switch closes and opens again: nothing is done there.
    drop(port);
    let mut port = Port::new(&config, &pool);
    echo(&mut port, &pool, &testpmd, 200);
    drop((port, testpmd));
    assert_eq!(pool.in_use(), 0);
}

fn serve(dir: &TempDir, name: &str, pool: &Mempool) -> (Port, PathBuf) {
    let config = config(dir, name, VhostMode::Server);
    (Port::new(&config, pool), config.path)
}

/// A guest with these features on a server socket, its first queue pair running.
fn guest(path: &Path, features: u64, protocol: u64) -> Frontend {
    let mut guest = Frontend::connect(path).expect("connects");
    guest.negotiate(features, protocol).expect("negotiates");
    guest.start_pair(0).expect("starts");
    guest
}

/// One frame each way.
#[track_caller]
fn both_ways(port: &mut Port, guest: &mut Frontend, pool: &Mempool, number: u32) {
    let (there, here) = (frame(number, 100), frame(!number, 1514));
    port.send(0, std::slice::from_ref(&there), pool);
    let (header, got) = guest.receive(0).expect("readable").expect("a frame is there at once");
    assert_eq!((header, got), ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], there), "to the guest");
    guest.send(0, [0; 10], &here).expect("sent");
    assert_eq!(port.receive(), [here], "from the guest");
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

#[test]
fn a_guest_of_hostile_reconnects_leaks_nothing() {
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let wait_idle = |port: &Port| wait("link down", 5, || !port.device.link().up);
    let mut flat = None;
    for round in 0..100 {
        {
            let mut guest = guest(&path, BASIC, REPLY_ACK);
            assert!(port.device.link().up, "round {round}");
            assert_eq!(port.device.offloads(), ["mrg_rxbuf"]);
            both_ways(&mut port, &mut guest, &pool, round);
        } // vanishes
        wait_idle(&port);
        flat.get_or_insert(pool.in_use());
    }
    assert_eq!(flat, Some(0), "mbufs in use without a guest");
    drop(port);
    assert_eq!(pool.in_use(), 0);
    assert!(!path.exists(), "the socket file is gone");
}
