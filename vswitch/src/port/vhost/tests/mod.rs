//! vhost-user ports against real and hostile peers. Here: what the tests share.

mod calls;
mod chains;
mod features;
mod frontend;
mod hostile;
mod lifecycle;
mod messages;
mod offload;
mod peers;
mod refused;
mod sabotage;
mod testpmd;
mod unplug;

use super::*;
use crate::dpdk::Burst;
use crate::observe::{DropReason, PortCounters};
use frontend::{Frontend, MRG_RXBUF, PROTOCOL, VERSION_1};
use parking_lot::{Mutex, MutexGuard};
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

/// One test at a time: some count the descriptors of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
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
        *byte = (i * 31).to_le_bytes()[0].wrapping_add(number.to_le_bytes()[0]);
    }
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn swapped(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
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

/// A guest whose device the port uses: the last acknowledgement comes before that.
#[track_caller]
fn running_guest(port: &Port, path: &Path, features: u64) -> Frontend {
    let guest = guest(path, features, frontend::REPLY_ACK);
    wait("link up", 5, || port.device.link().up);
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
