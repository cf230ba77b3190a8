//! The walk, with ports of vectors.

mod borrowed;
mod cached;
mod captured;
mod chosen;
mod clauses;
mod counted;
mod ct;
mod decap;
mod equal;
mod first_packet;
mod forget;
mod learning;
mod packets;
mod programs;
mod refused;
mod revalidated;
mod same_port;
mod sampled;
mod segmented;
mod segmented_tunnels;
mod storm;
mod strict;
mod tables;
mod told;
mod too_long;
mod tunnels;
mod turns;
mod vteps;

use super::bed::{self, conntrack, id};
use super::{PortShared, PortView, Snapshot, Walk};
use crate::meter::Rates;
use crate::observe::PortCounters;
use crate::pipeline::{self, Bridge, FailMode, Fdb};
use crate::port::sim::{SimRxQueue, SimTxQueue, SimWire};
use crate::port::{Device, RxQueue, TxQueue};
use crate::time::Millis;
use parking_lot::Mutex;
use std::sync::Arc;
use vswitch_dpdk::{Burst, Mempool};

/// What a test bridge is made of: ports by index, some of them patches to others.
struct World {
    pool: Mempool,
    wires: Vec<Arc<SimWire>>,
    walk: Walk,
}

fn world(bridges: &[&[usize]], patches: &[(usize, usize)], change: impl Fn(usize, &mut PortView)) -> World {
    let ports = bridges.iter().map(|ports| ports.len()).sum();
    let wires: Vec<Arc<SimWire>> = (0..ports).map(|_| Arc::default()).collect();
    let mut views: Vec<Option<PortView>> = vec![None; ports];
    for (bridge, members) in bridges.iter().enumerate() {
        for &port in *members {
            let peer = patches.iter().find_map(|&(a, b)| match port {
                p if p == a => Some(b),
                p if p == b => Some(a),
                _ => None,
            });
            let tx = TxQueue::Sim(SimTxQueue(Arc::clone(&wires[port])));
            let shared = PortShared {
                id: id(port),
                name: format!("p{port}"),
                tx: if peer.is_some() { Box::new([]) } else { Box::new([Mutex::new(tx)]) },
                counters: Box::new([PortCounters::default()]),
                device: Device::Sim,
                sequence: std::sync::atomic::AtomicU32::new(0),
                held: Default::default(),
            };
            let peer = peer.map(id);
            let mut view = PortView { bridge, admin_up: true, frame_max: 1522, peer, shared: Arc::new(shared) };
            change(port, &mut view);
            views[port] = Some(view);
        }
    }
    let changes = Arc::<pipeline::Changes>::default();
    let bridges = bridges
        .iter()
        .map(|members| Bridge {
            flood: members.iter().map(|port| id(*port)).collect(),
            ..Bridge::new("br", FailMode::Standalone, Arc::new(Fdb::with_changes(1024, 300, Arc::clone(&changes))))
        })
        .collect();
    let world = Arc::new(pipeline::World { bridges, changes, ..pipeline::World::default() });
    let pool = Mempool::for_tests(512);
    let mut walk = Walk::new(0, pool.clone(), Arc::default(), conntrack(), Rates::NONE);
    walk.adopt(Arc::new(Snapshot { world, ports: views, rxqs: vec![Vec::new()], captures: None }));
    World { pool, wires, walk }
}

fn frame(destination: u8, source: u8, tail: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 8, 0];
    frame.resize(60, tail);
    frame
}

impl World {
    /// Receives the frames by one port in bursts of `size`.
    fn receive(&mut self, port: usize, frames: &[Vec<u8>], size: usize) {
        let mut queue = RxQueue::Sim(SimRxQueue(Arc::clone(&self.wires[port])));
        let counters = PortCounters::default();
        for chunk in frames.chunks(size) {
            chunk.iter().for_each(|frame| self.wires[port].put(&self.pool, frame));
            let mut burst = Burst::new();
            queue.receive(&mut burst, &counters, &mut |_| unreachable!("nothing is borrowed"));
            assert_eq!(burst.len(), chunk.len(), "bursts of {size}");
            self.walk.burst(&mut burst, id(port), Millis(0));
            self.walk.flush();
        }
    }

    fn totals(&self, port: usize) -> crate::observe::PortTotals {
        self.walk.snapshot().port(id(port)).expect("a port").shared.totals()
    }
}
