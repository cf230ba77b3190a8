//! From plain values to messages.

use std::path::Path;
use vswitch_control::health::{Condition, Health, Part, up_ms};
use vswitch_control::log_state::LogInfo;
use vswitch_control::{
    BridgeInfo, CachesInfo, FailMode, FdbInfo, FdbStats, MempoolInfo, PortEvent, PortEventKind, PortInfo, RxqInfo,
    WorkerInfo,
};
use vswitch_dataplane::observe::{DropReason, Fallback};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::port::{PortConfig, PortKind, TunnelConfig, VhostConfig, VhostMode, cidr_text};
use vswitch_proto::v1;
use vswitch_proto::v1::port_config::Kind;

fn mac(mac: Mac) -> v1::MacAddress {
    v1::MacAddress { octets: mac.0.to_vec() }
}

pub(super) const fn fail_mode(mode: FailMode) -> v1::FailMode {
    match mode {
        FailMode::Secure => v1::FailMode::Secure,
        FailMode::Standalone => v1::FailMode::Standalone,
    }
}

pub(super) fn bridge(bridge: &BridgeInfo) -> v1::Bridge {
    let config = v1::BridgeConfig {
        name: bridge.config.name.clone(),
        fail_mode: fail_mode(bridge.config.fail_mode).into(),
        fdb_entries: Some(bridge.config.fdb_entries),
        fdb_ageing_seconds: Some(bridge.config.fdb_ageing_s),
        strict: bridge.config.strict,
    };
    v1::Bridge {
        config: Some(config),
        ports: bridge.ports.iter().map(port).collect(),
        fdb: Some(fdb_stats(bridge.fdb)),
    }
}

pub(super) fn port(port: &PortInfo) -> v1::Port {
    v1::Port {
        bridge: port.bridge.clone(),
        config: Some(port_config(&port.config)),
        r#type: port.config.kind.name().to_owned(),
        number: port.number,
        mac: Some(mac(port.mac)),
        link_up: port.link_up,
        link_speed_mbps: port.link_speed_mbps,
        interface_mtu: port.interface_mtu,
        error: port.error.clone(),
        waiting: None,
        rx_queues: port.rx_queues.into(),
        tx_queues: port.tx_queues.into(),
        offloads: port.offloads.iter().map(|&offload| offload.to_owned()).collect(),
        capabilities: port.capabilities.iter().map(capability).collect(),
    }
}

fn capability(capability: &vswitch_dataplane::port::Capability) -> v1::PortCapability {
    v1::PortCapability {
        name: capability.name.to_owned(),
        asked: capability.asked,
        offered: capability.offered,
        used: capability.used,
        software_packets: capability.software,
    }
}

pub(super) fn port_config(port: &PortConfig) -> v1::PortConfig {
    v1::PortConfig {
        name: port.name.clone(),
        number: port.number,
        mac: port.mac.map(mac),
        mtu: Some(port.mtu.into()),
        admin_up: Some(port.admin_up),
        no_flood: port.no_flood,
        no_receive: port.no_receive,
        no_forward: port.no_forward,
        strict: port.strict,
        underlay: port.underlay,
        external_ids: port.external_ids.clone().into_iter().collect(),
        addresses: port.addresses.iter().map(cidr_text).collect(),
        kind: Some(port_kind(&port.kind)),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn port_kind(kind: &PortKind) -> Kind {
    match kind {
        PortKind::Dpdk { devargs, queues } => {
            Kind::Dpdk(v1::DpdkPort { devargs: devargs.clone(), queues: Some((*queues).into()) })
        }
        PortKind::VhostUser(port) => Kind::VhostUser(vhost(port)),
        PortKind::Tap { interface, queues } => {
            Kind::Tap(v1::TapPort { interface: interface.clone(), queues: Some((*queues).into()) })
        }
        PortKind::AfPacket { interface } => Kind::AfPacket(v1::AfPacketPort { interface: interface.clone() }),
        PortKind::Pcap { rx_file, tx_file, infinite_rx } => Kind::Pcap(v1::PcapPort {
            rx_file: rx_file.as_deref().map(text),
            tx_file: tx_file.as_deref().map(text),
            infinite_rx: *infinite_rx,
        }),
        PortKind::Patch { peer } => Kind::Patch(v1::PatchPort { peer: peer.clone() }),
        PortKind::Internal { queues } => Kind::Internal(v1::InternalPort { queues: Some((*queues).into()) }),
        PortKind::Dummy => Kind::Dummy(v1::DummyPort {}),
        PortKind::Tunnel(tunnel) => Kind::Tunnel(self::tunnel(tunnel)),
    }
}

fn tunnel(tunnel: &TunnelConfig) -> v1::TunnelPort {
    let kind = match tunnel.kind {
        vswitch_overlay::TunnelKind::Geneve => v1::TunnelKind::Geneve,
        vswitch_overlay::TunnelKind::Vxlan => v1::TunnelKind::Vxlan,
        vswitch_overlay::TunnelKind::Gre => v1::TunnelKind::Gre,
    };
    v1::TunnelPort { kind: kind.into(), options: tunnel.options().into_iter().collect() }
}

fn vhost(port: &VhostConfig) -> v1::VhostUserPort {
    let mode = match port.mode {
        VhostMode::Client => v1::VhostUserMode::Client,
        VhostMode::Server => v1::VhostUserMode::Server,
    };
    v1::VhostUserPort {
        path: text(&port.path),
        mode: mode.into(),
        queues: Some(port.queues.into()),
        csum: Some(port.csum),
        tso: Some(port.tso),
        mergeable: Some(port.mergeable),
        indirect: Some(port.indirect),
        packed: port.packed,
    }
}

pub(super) fn port_event(event: &PortEvent) -> v1::PortEvent {
    let kind = match event.kind {
        PortEventKind::Added => v1::PortEventKind::Added,
        PortEventKind::Removed => v1::PortEventKind::Removed,
        PortEventKind::LinkUp => v1::PortEventKind::LinkUp,
        PortEventKind::LinkDown => v1::PortEventKind::LinkDown,
        PortEventKind::Modified => v1::PortEventKind::Modified,
    };
    // The port is there once already
    let statistics = v1::PortStatistics { port: None, ..port_statistics(&event.port) };
    v1::PortEvent {
        sequence: event.sequence,
        kind: kind.into(),
        port: Some(port(&event.port)),
        statistics: Some(statistics),
    }
}

pub(super) fn port_statistics(info: &PortInfo) -> v1::PortStatistics {
    let totals = &info.totals;
    v1::PortStatistics {
        port: Some(port(info)),
        rx_packets: totals.rx_packets,
        rx_bytes: totals.rx_bytes,
        rx_dropped: totals.rx_dropped(),
        rx_missed: totals.rx_missed,
        rx_errors: totals.rx_errors,
        tx_packets: totals.tx_packets,
        tx_bytes: totals.tx_bytes,
        tx_dropped: totals.tx_dropped(),
        tx_errors: totals.tx_errors,
        rx_drops: drops(&totals.rx_drops),
        tx_drops: drops(&totals.tx_drops),
    }
}

fn drops(counts: &[u64; DropReason::COUNT]) -> Vec<v1::DropCount> {
    let counted = DropReason::ALL.iter().zip(counts).filter(|&(_, &packets)| packets > 0);
    counted
        .map(|(&reason, &packets)| v1::DropCount {
            number: reason as u32,
            reason: reason.name().to_owned(),
            sentence: reason.sentence().to_owned(),
            packets,
        })
        .collect()
}

pub(super) fn fdb_entry(entry: FdbInfo) -> v1::FdbEntry {
    v1::FdbEntry {
        port_number: entry.port_number,
        port: entry.port,
        vlan: entry.vlan.into(),
        mac: Some(mac(entry.mac)),
        age_seconds: entry.age_s,
    }
}

pub(super) const fn fdb_stats(stats: FdbStats) -> v1::FdbStats {
    let FdbStats { entries, statics, limit, learned, expired, evicted, moved, refused } = stats;
    v1::FdbStats { entries, statics, limit, learned, expired, evicted, moved, refused }
}

pub(super) fn worker(worker: &WorkerInfo) -> v1::Worker {
    let &WorkerInfo {
        id,
        core,
        tsc_hz,
        busy_cycles,
        idle_cycles,
        sleep_cycles,
        iterations,
        packets,
        bursts,
        heartbeat_age_ms,
        rxqs,
        ref panicked,
        nonvoluntary_switches,
        ref caches,
    } = worker;
    v1::Worker {
        id,
        core,
        tsc_hz,
        busy_cycles,
        idle_cycles,
        sleep_cycles,
        iterations,
        packets,
        bursts,
        heartbeat_age_ms,
        rxqs,
        panicked: panicked.clone(),
        nonvoluntary_switches,
        caches: Some(self::caches(caches)),
    }
}

fn caches(caches: &CachesInfo) -> v1::Caches {
    let &CachesInfo { program_hits, exact_hits, megaflow_hits, misses, lost_misses, fallbacks, .. } = caches;
    let &CachesInfo { opening_hits, spared, revalidated, retired, paths, megaflows, masks, .. } = caches;
    let fallback = |(why, packets): (Fallback, u64)| v1::FallbackCount {
        reason: why.name().to_owned(),
        sentence: why.sentence().to_owned(),
        packets,
    };
    let fallbacks = Fallback::ALL.into_iter().zip(fallbacks).map(fallback).collect();
    v1::Caches {
        program_hits,
        exact_hits,
        megaflow_hits,
        misses,
        lost_misses,
        fallbacks,
        spared,
        revalidated,
        retired,
        paths,
        megaflows,
        masks,
        opening_hits,
    }
}

pub(super) fn rxq(rxq: RxqInfo) -> v1::Rxq {
    let RxqInfo { bridge, port, queue, core, pinned, usage_percent, packets } = rxq;
    v1::Rxq { bridge, port, queue: queue.into(), core, pinned, usage_percent, packets }
}

pub(super) const fn mempool(mempool: MempoolInfo) -> v1::Mempool {
    let MempoolInfo { size, in_use, heap_bytes } = mempool;
    v1::Mempool { size, in_use, heap_bytes }
}

/// How the switch is.
pub(super) fn health(health: Health) -> v1::GetHealthResponse {
    let (serving, up_ms) = (health.is_serving(), up_ms());
    let part = |part: Part| {
        let condition = match part.condition {
            Condition::Good => v1::HealthCondition::Good,
            Condition::Degraded => v1::HealthCondition::Degraded,
            Condition::Failing => v1::HealthCondition::Failing,
        };
        v1::HealthPart { name: part.name.to_owned(), condition: condition.into(), reason: part.reason }
    };
    v1::GetHealthResponse { serving, parts: health.parts.into_iter().map(part).collect(), up_ms }
}

/// What became of lines of the log.
pub(super) const fn log(log: &LogInfo) -> v1::LogState {
    let [lost_error, lost_warn, lost_info, lost_debug, lost_trace] = log.lost;
    let (left_out, stuck_ms) = (log.left_out, log.stuck_ms);
    v1::LogState { lost_error, lost_warn, lost_info, lost_debug, lost_trace, left_out, stuck_ms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_testkit::double;

    #[test]
    fn drops_are_named_and_add_up() {
        let mut info = double::port("br0", "p0", 7);
        info.totals.rx_packets = 100;
        info.totals.rx_missed = 3;
        info.totals.rx_drops[DropReason::EthShort.index()] = 4;
        info.totals.rx_drops[DropReason::AdminDown.index()] = 5;
        info.totals.tx_drops[DropReason::TxFull.index()] = 6;
        let statistics = port_statistics(&info);
        assert_eq!((statistics.rx_dropped, statistics.tx_dropped), (3 + 4 + 5, 6));
        let names = |drops: &[v1::DropCount]| {
            drops.iter().map(|drop| (drop.number, drop.reason.clone(), drop.packets)).collect::<Vec<_>>()
        };
        assert_eq!(names(&statistics.rx_drops), [(0, "eth_short".to_owned(), 4), (2, "admin_down".to_owned(), 5)]);
        assert_eq!(names(&statistics.tx_drops), [(4, "tx_full".to_owned(), 6)]);
        assert_eq!(statistics.port.map(|port| (port.number, port.r#type)), Some((7, "internal".to_owned())));
    }
}
