//! A switch without ports and packets, for the tests of the services and the server.

use super::SwitchApi;
use crate::control::{
    BridgeChange, BridgeConfig, BridgeInfo, FdbFilter, FdbInfo, FdbStats, MempoolInfo, PortChange, PortEvent,
    PortEventKind, PortInfo, RxqInfo, SwitchError, WorkerInfo,
};
use crate::observe::PortTotals;
use crate::packet::Mac;
use crate::port::{PortConfig, PortKind};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokio::sync::broadcast;

/// A port as a switch would show it.
pub(in crate::control) fn port(bridge: &str, name: &str, number: u32) -> PortInfo {
    described(bridge, PortConfig::new(name, PortKind::Internal), number)
}

fn described(bridge: &str, config: PortConfig, number: u32) -> PortInfo {
    PortInfo {
        bridge: bridge.to_owned(),
        mac: config.mac.unwrap_or(Mac([2, 0, 0, 0, 0, 1])),
        config,
        number,
        link_up: true,
        link_speed_mbps: 0,
        error: None,
        rx_queues: 1,
        tx_queues: 1,
        offloads: vec!["rx-csum"],
        totals: PortTotals::default(),
    }
}

/// A bridge as a switch would show it.
pub(in crate::control) fn bridge(name: &str, ports: Vec<PortInfo>) -> BridgeInfo {
    BridgeInfo { config: BridgeConfig::new(name), ports, fdb: FdbStats::default() }
}

/// Keeps bridges, ports and static addresses in lists, and notes the other calls.
pub(in crate::control) struct Double {
    bridges: Mutex<Vec<BridgeInfo>>,
    fdb: Mutex<Vec<FdbInfo>>,
    events: broadcast::Sender<PortEvent>,
    sequence: AtomicU64,
    /// What `healthy` says.
    pub(in crate::control) healthy: AtomicBool,
    /// Calls that change nothing that could be asked for.
    pub(in crate::control) calls: Mutex<Vec<String>>,
}

impl Default for Double {
    fn default() -> Self {
        Self {
            bridges: Mutex::default(),
            fdb: Mutex::default(),
            events: broadcast::channel(16).0,
            sequence: AtomicU64::new(0),
            healthy: AtomicBool::new(true),
            calls: Mutex::default(),
        }
    }
}

fn missing(what: &'static str, name: &str) -> SwitchError {
    SwitchError::NotFound { what, name: name.to_owned(), hint: "look again".to_owned() }
}

impl Double {
    fn tell(&self, kind: PortEventKind, port: PortInfo) {
        let sequence = self.sequence.fetch_add(1, Relaxed) + 1;
        let _ = self.events.send(PortEvent { sequence, kind, port }); // nobody may listen
    }

    fn with_bridge<R>(
        &self,
        name: &str,
        f: impl FnOnce(&mut BridgeInfo) -> Result<R, SwitchError>,
    ) -> Result<R, SwitchError> {
        let mut bridges = self.bridges.lock();
        f(bridges.iter_mut().find(|bridge| bridge.config.name == name).ok_or_else(|| missing("bridge", name))?)
    }
}

impl SwitchApi for Double {
    fn add_bridge(&self, config: BridgeConfig) -> Result<(), SwitchError> {
        let mut bridges = self.bridges.lock();
        if bridges.iter().any(|bridge| bridge.config.name == config.name) {
            return Err(SwitchError::Exists { what: "bridge", name: config.name, hint: "use another".to_owned() });
        }
        bridges.push(BridgeInfo { config, ports: Vec::new(), fdb: FdbStats::default() });
        Ok(())
    }

    fn delete_bridge(&self, name: &str) -> Result<(), SwitchError> {
        self.with_bridge(name, |_| Ok(()))?;
        self.bridges.lock().retain(|bridge| bridge.config.name != name);
        Ok(())
    }

    fn set_bridge(&self, name: &str, change: BridgeChange) -> Result<(), SwitchError> {
        self.with_bridge(name, |bridge| {
            bridge.config.fail_mode = change.fail_mode.unwrap_or(bridge.config.fail_mode);
            bridge.config.strict = change.strict.unwrap_or(bridge.config.strict);
            Ok(())
        })
    }

    fn bridges(&self) -> Vec<BridgeInfo> {
        self.bridges.lock().clone()
    }

    fn add_port(&self, bridge: &str, config: PortConfig) -> Result<PortInfo, SwitchError> {
        if matches!(&config.kind, PortKind::Dpdk { .. }) {
            return Err(SwitchError::Device { name: config.name, reason: "no such device".to_owned() });
        }
        let port = self.with_bridge(bridge, |info| {
            let port = described(bridge, config, u32::try_from(info.ports.len()).unwrap_or(0) + 1);
            info.ports.push(port.clone());
            Ok(port)
        })?;
        self.tell(PortEventKind::Added, port.clone());
        Ok(port)
    }

    fn delete_port(&self, bridge: &str, name: &str) -> Result<(), SwitchError> {
        let port = self.with_bridge(bridge, |info| {
            let at = info.ports.iter().position(|port| port.config.name == name);
            Ok(info.ports.remove(at.ok_or_else(|| missing("port", name))?))
        })?;
        self.tell(PortEventKind::Removed, port);
        Ok(())
    }

    fn modify_port(&self, bridge: &str, name: &str, change: &PortChange) -> Result<PortInfo, SwitchError> {
        let port = self.with_bridge(bridge, |info| {
            let port = info.ports.iter_mut().find(|port| port.config.name == name);
            let port = port.ok_or_else(|| missing("port", name))?;
            port.config.admin_up = change.admin_up.unwrap_or(port.config.admin_up);
            port.config.no_flood = change.no_flood.unwrap_or(port.config.no_flood);
            port.config.strict = change.strict.unwrap_or(port.config.strict);
            port.config.mtu = change.mtu.unwrap_or(port.config.mtu);
            port.config.external_ids = change.external_ids.clone().unwrap_or(port.config.external_ids.clone());
            Ok(port.clone())
        })?;
        self.tell(PortEventKind::Modified, port.clone());
        Ok(port)
    }

    fn ports(&self, bridge: &str) -> Result<Vec<PortInfo>, SwitchError> {
        self.with_bridge(bridge, |info| Ok(info.ports.clone()))
    }

    fn subscribe(&self) -> broadcast::Receiver<PortEvent> {
        self.events.subscribe()
    }

    fn workers(&self) -> Vec<WorkerInfo> {
        vec![WorkerInfo { id: 0, core: 3, tsc_hz: 2_000_000_000, busy_cycles: 7, ..WorkerInfo::default() }]
    }

    fn clear_worker_stats(&self) {
        self.calls.lock().push("clear".to_owned());
    }

    fn rxqs(&self) -> Vec<RxqInfo> {
        let rxq = |core, port: &str, queue| RxqInfo {
            bridge: "br0".to_owned(),
            port: port.to_owned(),
            queue,
            core,
            pinned: false,
            usage_percent: 12.5,
            packets: 9,
        };
        vec![rxq(3, "p1", 0), rxq(2, "p1", 1), rxq(3, "p0", 1), rxq(3, "p0", 0)]
    }

    fn pin_rxq(&self, port: &str, queue: u16, core: Option<u32>) -> Result<(), SwitchError> {
        self.calls.lock().push(format!("pin {port} {queue} {core:?}"));
        Ok(())
    }

    fn rebalance(&self) -> usize {
        5
    }

    fn fdb(&self, bridge: &str) -> Result<Vec<FdbInfo>, SwitchError> {
        self.with_bridge(bridge, |_| Ok(self.fdb.lock().clone()))
    }

    fn fdb_stats(&self, bridge: &str) -> Result<FdbStats, SwitchError> {
        self.with_bridge(bridge, |_| Ok(FdbStats { limit: 8192, learned: 11, ..FdbStats::default() }))
    }

    fn fdb_add(&self, bridge: &str, port: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError> {
        self.with_bridge(bridge, |_| {
            self.fdb.lock().push(FdbInfo { port_number: 1, port: port.to_owned(), vlan, mac, age_s: None });
            Ok(())
        })
    }

    fn fdb_delete(&self, bridge: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError> {
        self.with_bridge(bridge, |_| {
            let mut fdb = self.fdb.lock();
            let at = fdb.iter().position(|entry| entry.vlan == vlan && entry.mac == mac);
            fdb.remove(at.ok_or_else(|| missing("address", &mac.to_string()))?);
            Ok(())
        })
    }

    fn fdb_flush(&self, bridge: &str, filter: &FdbFilter) -> Result<u64, SwitchError> {
        self.with_bridge(bridge, |_| {
            self.calls.lock().push(format!("flush {filter:?}"));
            Ok(std::mem::take(&mut *self.fdb.lock()).len() as u64)
        })
    }

    fn mempool(&self) -> MempoolInfo {
        MempoolInfo { size: 1000, in_use: 10, heap_bytes: 1 << 20 }
    }

    fn healthy(&self) -> bool {
        self.healthy.load(Relaxed)
    }
}
