//! What ports and clients share, how much of it is taken, and what each port has of it.
//!
//! **Design**: a reading of what other calls tell of the switch, one after the other. So the
//! numbers are not of one moment. Nothing here changes anything.
//!
//! **Threads**: one that may block.

use std::collections::{BTreeMap, HashMap};
use vswitch_conntrack::{Counts, PortCount};
use vswitch_control::{BridgeInfo, SwitchApi, SwitchError};
use vswitch_dataplane::limits;
use vswitch_dataplane::observe::DropReason;
use vswitch_proto::v1;

/// What `GetLimits` answers.
pub(super) fn limits(switch: &dyn SwitchApi, port: Option<&str>) -> Result<v1::GetLimitsResponse, SwitchError> {
    let bridges = switch.bridges();
    let counts = switch.conntrack().tracker().port_counts();
    let shared = if port.is_none() { shared(switch, &bridges, &counts) } else { Vec::new() };
    let mut ports = ports(switch, &bridges, counts);
    if let Some(name) = port {
        ports.retain(|port| port.port == name);
        if ports.is_empty() {
            let hint = "`vsctl limits` lists the ports that are there or have connections".to_owned();
            return Err(SwitchError::NotFound { what: "port", name: name.to_owned(), hint });
        }
    }
    Ok(v1::GetLimitsResponse { shared, ports })
}

fn shared(switch: &dyn SwitchApi, bridges: &[BridgeInfo], ports: &[PortCount]) -> Vec<v1::SharedLimit> {
    let mut shared = Vec::from(connections(switch.conntrack().tracker().counts(), ports));
    for bridge in bridges {
        shared.extend(of_bridge(switch, bridge));
    }
    shared.extend(of_workers(switch, bridges));
    shared.extend(of_switch(switch, bridges));
    shared
}

fn connections(counts: Counts, ports: &[PortCount]) -> [v1::SharedLimit; 2] {
    [
        v1::SharedLimit {
            resource: "connections".to_owned(),
            limit: Some(counts.connections_max),
            used: Some(counts.connections),
            per_port: "a share; alone 3/4, a card, a tunnel or the host 13/16".to_owned(),
            effect: "the port loses an unanswered one of its own, else its new one is dropped".to_owned(),
            counter: name(DropReason::CtPortFull),
            count: Some(counts.refused_port),
            ..v1::SharedLimit::default()
        },
        v1::SharedLimit {
            resource: "unanswered_connections".to_owned(),
            used: Some(ports.iter().map(|port| u64::from(port.unanswered)).sum()),
            per_port: "a share; alone 7/16, a card, a tunnel or the host 21/32".to_owned(),
            effect: "the port loses an old one of its own".to_owned(),
            counter: "dropped_early".to_owned(),
            count: Some(counts.dropped_early),
            ..v1::SharedLimit::default()
        },
    ]
}

fn of_bridge(switch: &dyn SwitchApi, bridge: &BridgeInfo) -> [v1::SharedLimit; 5] {
    let own = &bridge.config.name;
    let rates = switch.slow_path();
    let tables = switch.tables(own).unwrap_or_default();
    let meters = switch.meters(own, None).map_or(0, |meters| meters.len());
    let row = |resource: &str, limit: usize| v1::SharedLimit {
        resource: resource.to_owned(),
        scope: own.clone(),
        limit: Some(limit as u64),
        ..v1::SharedLimit::default()
    };
    [
        v1::SharedLimit {
            used: Some(bridge.fdb.entries.into()),
            per_port: format!("{} %", limits::FDB_PORT_QUOTA_PERCENT),
            effect: "an address of a port with more gives way, else the new one is not learned".to_owned(),
            counter: "refused (fdb-stats-show)".to_owned(),
            count: Some(bridge.fdb.refused),
            ..row("mac_addresses", bridge.fdb.limit as usize)
        },
        v1::SharedLimit {
            per_port: rate(rates.learns),
            effect: "the rule is not learned, and the packet goes on".to_owned(),
            counter: "learn_refused (dump-tables)".to_owned(),
            count: Some(tables.iter().map(|table| table.learn_refused).sum()),
            ..row("learned_rules", limits::LEARNED_PER_BRIDGE_MAX)
        },
        v1::SharedLimit {
            per_port: rate(rates.packet_ins),
            effect: "a subscriber that is so far behind loses packets".to_owned(),
            counter: name(DropReason::PacketInRate),
            count: Some(drops(std::slice::from_ref(bridge), DropReason::PacketInRate)),
            ..row("packet_ins", limits::PACKET_INS_QUEUED)
        },
        v1::SharedLimit {
            used: Some(tables.iter().map(|table| table.flows).sum()),
            effect: "the transaction is refused".to_owned(),
            ..row("flows", limits::FLOWS_PER_BRIDGE_MAX)
        },
        v1::SharedLimit {
            used: Some(meters as u64),
            effect: "the transaction is refused".to_owned(),
            ..row("meters", limits::METERS_MAX)
        },
    ]
}

fn of_workers(switch: &dyn SwitchApi, bridges: &[BridgeInfo]) -> Vec<v1::SharedLimit> {
    let rates = switch.slow_path();
    let mut rows = Vec::new();
    for worker in switch.workers() {
        let scope = format!("worker-{}", worker.core);
        rows.push(v1::SharedLimit {
            resource: "megaflows".to_owned(),
            scope: scope.clone(),
            limit: Some(limits::MEGAFLOWS_MAX as u64),
            used: Some(worker.caches.megaflows),
            per_port: rate(rates.misses),
            effect: "the least used ones give way".to_owned(),
            counter: name(DropReason::MissRate),
            count: Some(drops(bridges, DropReason::MissRate)),
        });
        rows.push(v1::SharedLimit {
            resource: "waiting_mbufs".to_owned(),
            scope,
            limit: Some(limits::WAITING_MBUFS_MAX as u64),
            per_port: String::new(),
            effect: format!("of packets for one next hop {} wait; more are dropped", rates.waiting),
            counter: name(DropReason::NoNeighbour),
            count: Some(drops(bridges, DropReason::NoNeighbour)),
            ..v1::SharedLimit::default()
        });
    }
    rows
}

fn of_switch(switch: &dyn SwitchApi, bridges: &[BridgeInfo]) -> [v1::SharedLimit; 4] {
    let (datagrams, mbufs) = switch.conntrack().waiting();
    let mempool = switch.mempool();
    let fragments = |resource: &str, limit: usize, used: usize, per_port: usize| v1::SharedLimit {
        resource: resource.to_owned(),
        limit: Some(limit as u64),
        used: Some(used as u64),
        per_port: per_port.to_string(),
        effect: "the oldest are given up, or the new one is dropped".to_owned(),
        counter: name(DropReason::FragFull),
        count: Some(drops(bridges, DropReason::FragFull)),
        ..v1::SharedLimit::default()
    };
    [
        fragments("fragmented_datagrams", limits::FRAGMENTED_MAX, datagrams, limits::FRAGMENTED_PER_PORT_MAX),
        fragments("fragment_mbufs", limits::FRAGMENT_MBUFS_MAX, mbufs, limits::FRAGMENT_MBUFS_PER_PORT_MAX),
        v1::SharedLimit {
            resource: "ports".to_owned(),
            limit: Some(limits::PORTS_MAX as u64),
            used: Some(bridges.iter().map(|bridge| bridge.ports.len() as u64).sum()),
            effect: "the port is not added".to_owned(),
            ..v1::SharedLimit::default()
        },
        v1::SharedLimit {
            resource: "mbufs".to_owned(),
            limit: Some(mempool.size),
            used: Some(mempool.in_use),
            effect: "packets and copies are dropped".to_owned(),
            counter: name(DropReason::NoMbuf),
            count: Some(drops(bridges, DropReason::NoMbuf)),
            ..v1::SharedLimit::default()
        },
    ]
}

fn name(reason: DropReason) -> String {
    reason.name().to_owned()
}

fn rate(per_second: u32) -> String {
    if per_second == 0 { String::new() } else { format!("{per_second} a second and worker") }
}

/// How often that happened at the ports of some bridges.
fn drops(bridges: &[BridgeInfo], reason: DropReason) -> u64 {
    let ports = bridges.iter().flat_map(|bridge| &bridge.ports);
    ports.map(|port| port.totals.rx_drops[reason.index()] + port.totals.tx_drops[reason.index()]).sum()
}

fn ports(switch: &dyn SwitchApi, bridges: &[BridgeInfo], counts: Vec<PortCount>) -> Vec<v1::PortLimit> {
    let mut ports = BTreeMap::new();
    for PortCount { name, number, connections, unanswered, limit, unanswered_limit, peak, refused, evicted } in counts {
        let gone = number.is_none() && !name.is_empty();
        let port = v1::PortLimit {
            port: name.clone(),
            gone,
            connections: connections.into(),
            connections_limit: limit.map(u64::from),
            connections_peak: peak.into(),
            connections_refused: refused,
            unanswered: unanswered.into(),
            unanswered_limit: unanswered_limit.map(u64::from),
            unanswered_evicted: evicted,
            ..v1::PortLimit::default()
        };
        ports.insert(name, port);
    }
    for bridge in bridges {
        let quota = u64::from(bridge.fdb.limit) * u64::from(limits::FDB_PORT_QUOTA_PERCENT) / 100;
        let mut learned: HashMap<String, u64> = HashMap::new();
        for address in switch.fdb(&bridge.config.name).unwrap_or_default() {
            *learned.entry(address.port).or_default() += 1;
        }
        for port in &bridge.ports {
            let name = &port.config.name;
            let row = ports
                .entry(name.clone())
                .or_insert_with(|| v1::PortLimit { port: name.clone(), ..v1::PortLimit::default() });
            row.mac_addresses = learned.get(name).copied().unwrap_or_default();
            row.mac_addresses_limit = Some(quota);
        }
    }
    ports.into_values().collect()
}
