//! A port for tests and fuzz targets: packets in by a vector, packets out by a vector.

use crate::observe::PortCounters;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use vswitch_dpdk::{Burst, Mbuf, Mempool};

/// What the test puts in and finds.
#[derive(Debug, Default)]
pub struct SimWire {
    /// To be received.
    pub incoming: Mutex<VecDeque<Mbuf>>,
    /// Was sent.
    pub sent: Mutex<Vec<Vec<u8>>>,
}

impl SimWire {
    /// Queues a frame.
    pub fn put(&self, pool: &Mempool, frame: &[u8]) {
        self.incoming.lock().push_back(pool.mbuf_from(frame).expect("a test pool is large enough"));
    }

    /// Takes what was sent.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sent.lock())
    }
}

#[derive(Debug)]
pub struct SimRxQueue(pub Arc<SimWire>);

impl SimRxQueue {
    pub fn receive(&mut self, burst: &mut Burst) {
        let mut incoming = self.0.incoming.lock();
        while !burst.is_full() {
            let Some(mbuf) = incoming.pop_front() else { return };
            let _ = burst.push(mbuf);
        }
    }
}

#[derive(Debug)]
pub struct SimTxQueue(pub Arc<SimWire>);

impl SimTxQueue {
    pub fn send(&mut self, burst: &mut Burst, counters: &PortCounters) {
        let mut sent = self.0.sent.lock();
        for mbuf in burst.drain() {
            counters.tx_packets.add(1);
            counters.tx_bytes.add(mbuf.len() as u64);
            sent.push(mbuf.to_vec());
        }
    }
}
