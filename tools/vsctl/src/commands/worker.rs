//! Workers and receive queues.

use crate::cli::Core;
use crate::client::Client;
use crate::output::{Answer, Columns, Done, Report, percent, ratio, table};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

pub(super) async fn show(client: &Client) -> Answer {
    Ok(Box::new(Workers(client.answer(client.workers().await?.list_workers(v1::ListWorkersRequest {}).await)?.workers)))
}

pub(super) async fn clear(client: &Client) -> Answer {
    client.answer(client.workers().await?.clear_statistics(v1::ClearStatisticsRequest {}).await)?;
    Ok(Box::new(Done))
}

pub(super) async fn rxq_show(client: &Client) -> Answer {
    Ok(Box::new(Rxqs(client.answer(client.workers().await?.list_rxqs(v1::ListRxqsRequest {}).await)?.rxqs)))
}

pub(super) async fn rxq_pin(client: &Client, port: &str, queue: u32, core: Core) -> Answer {
    let core = match core {
        Core::Auto => None,
        Core::On(core) => Some(core),
    };
    let request = v1::PinRxqRequest { port: port.to_owned(), queue, core };
    client.answer(client.workers().await?.pin_rxq(request).await)?;
    Ok(Box::new(Done))
}

pub(super) async fn rebalance(client: &Client) -> Answer {
    Ok(Box::new(Moved(client.answer(client.workers().await?.rebalance(v1::RebalanceRequest {}).await)?.moved)))
}

/// Parts of a worker's cycles in percent, and busy cycles per packet.
pub(super) struct Load {
    pub(super) busy: f64,
    pub(super) idle: f64,
    pub(super) sleep: f64,
    pub(super) cycles_per_packet: f64,
    pub(super) packets_per_burst: f64,
}

impl Load {
    pub(super) fn of(worker: &v1::Worker) -> Self {
        // Counts of a running worker, read one after the other: the sum may be anything, also too
        // much.
        let all = worker.busy_cycles.saturating_add(worker.idle_cycles).saturating_add(worker.sleep_cycles);
        Self {
            busy: percent(worker.busy_cycles, all),
            idle: percent(worker.idle_cycles, all),
            sleep: percent(worker.sleep_cycles, all),
            cycles_per_packet: ratio(worker.busy_cycles, worker.packets),
            packets_per_burst: ratio(worker.packets, worker.bursts),
        }
    }
}

/// `worker-show`.
struct Workers(Vec<v1::Worker>);

const WORKER_COLUMNS: Columns<'_> = &[
    ("WORKER", true),
    ("CORE", true),
    ("BUSY %", true),
    ("IDLE %", true),
    ("SLEEP %", true),
    ("CYCLES/PACKET", true),
    ("PACKETS", true),
    ("BURSTS", true),
    ("PACKETS/BURST", true),
    ("RXQS", true),
    ("HEARTBEAT", true),
];

impl Report for Workers {
    fn text(&self) -> String {
        let row = |worker: &v1::Worker| {
            let load = Load::of(worker);
            vec![
                worker.id.to_string(),
                worker.core.to_string(),
                format!("{:.1}", load.busy),
                format!("{:.1}", load.idle),
                format!("{:.1}", load.sleep),
                format!("{:.1}", load.cycles_per_packet),
                worker.packets.to_string(),
                worker.bursts.to_string(),
                format!("{:.1}", load.packets_per_burst),
                worker.rxqs.to_string(),
                match &worker.panicked {
                    Some(_) => "panicked".to_owned(),
                    None => format!("{} ms ago", worker.heartbeat_age_ms),
                },
            ]
        };
        table(WORKER_COLUMNS, self.0.iter().map(row))
    }

    fn json(&self) -> Value {
        let worker = |worker: &v1::Worker| {
            let load = Load::of(worker);
            json!({
                "id": worker.id,
                "core": worker.core,
                "tsc_hz": worker.tsc_hz,
                "busy_cycles": worker.busy_cycles,
                "idle_cycles": worker.idle_cycles,
                "sleep_cycles": worker.sleep_cycles,
                "busy_percent": load.busy,
                "idle_percent": load.idle,
                "sleep_percent": load.sleep,
                "cycles_per_packet": load.cycles_per_packet,
                "iterations": worker.iterations,
                "packets": worker.packets,
                "bursts": worker.bursts,
                "packets_per_burst": load.packets_per_burst,
                "heartbeat_age_ms": worker.heartbeat_age_ms,
                "rxqs": worker.rxqs,
                "panicked": worker.panicked,
                "nonvoluntary_switches": worker.nonvoluntary_switches,
            })
        };
        self.0.iter().map(worker).collect()
    }
}

/// `worker-rxq-show`: close to the lines of `ovs-appctl dpif-netdev/pmd-rxq-show`. Sorted by core,
/// as the switch gives it.
struct Rxqs(Vec<v1::Rxq>);

impl Report for Rxqs {
    fn text(&self) -> String {
        let mut text = String::new();
        let mut core = None;
        for rxq in &self.0 {
            if core != Some(rxq.core) {
                let _ = writeln!(text, "worker core_id {}:", rxq.core);
                core = Some(rxq.core);
            }
            let (port, queue, usage, bridge) = (&rxq.port, rxq.queue, rxq.usage_percent, &rxq.bridge);
            let pinned = if rxq.pinned { "  (pinned)" } else { "" };
            let _ = writeln!(
                text,
                "  port: {port:<16}  queue-id: {queue:>2}  usage: {usage:>5.1} %  packets: {}  bridge: {bridge}{pinned}",
                rxq.packets
            );
        }
        text
    }

    fn json(&self) -> Value {
        let rxq = |rxq: &v1::Rxq| {
            json!({
                "port": rxq.port,
                "bridge": rxq.bridge,
                "queue": rxq.queue,
                "core": rxq.core,
                "pinned": rxq.pinned,
                "usage_percent": rxq.usage_percent,
                "packets": rxq.packets,
            })
        };
        self.0.iter().map(rxq).collect()
    }
}

/// `worker-rxq-rebalance`.
struct Moved(u32);

impl Report for Moved {
    fn text(&self) -> String {
        format!("moved {} receive queues\n", self.0)
    }

    fn json(&self) -> Value {
        json!({ "moved": self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers() -> Workers {
        let busy = v1::Worker {
            id: 0,
            core: 3,
            tsc_hz: 2_600_000_000,
            busy_cycles: 500,
            idle_cycles: 250,
            sleep_cycles: 250,
            iterations: 20,
            packets: 8,
            bursts: 2,
            heartbeat_age_ms: 4,
            rxqs: 2,
            panicked: None,
            nonvoluntary_switches: Some(3),
            caches: None,
        };
        let late = v1::Worker { id: 1, core: 11, heartbeat_age_ms: 1200, ..Default::default() };
        let panicked = Some("index out of bounds".to_owned());
        Workers(vec![busy, late, v1::Worker { id: 2, core: 12, panicked, ..Default::default() }])
    }

    #[test]
    fn show_text() {
        let want = "\
WORKER  CORE  BUSY %  IDLE %  SLEEP %  CYCLES/PACKET  PACKETS  BURSTS  PACKETS/BURST  RXQS    HEARTBEAT
     0     3    50.0    25.0     25.0           62.5        8       2            4.0     2     4 ms ago
     1    11     0.0     0.0      0.0            0.0        0       0            0.0     0  1200 ms ago
     2    12     0.0     0.0      0.0            0.0        0       0            0.0     0     panicked
";
        assert_eq!(workers().text(), want);
    }

    #[test]
    fn show_json() {
        let want = json!({
            "id": 0, "core": 3, "tsc_hz": 2_600_000_000_u64, "busy_cycles": 500, "idle_cycles": 250, "sleep_cycles": 250,
            "busy_percent": 50.0, "idle_percent": 25.0, "sleep_percent": 25.0, "cycles_per_packet": 62.5,
            "iterations": 20, "packets": 8, "bursts": 2, "packets_per_burst": 4.0, "heartbeat_age_ms": 4, "rxqs": 2,
            "panicked": null, "nonvoluntary_switches": 3,
        });
        assert_eq!(workers().json()[0], want);
        assert_eq!(workers().json()[2]["panicked"], "index out of bounds");
        assert_eq!(workers().json()[1]["cycles_per_packet"], 0.0, "nothing to divide by");
    }

    #[test]
    fn rxqs_both_ways() {
        let rxq = |port: &str, queue, core, pinned, usage_percent| v1::Rxq {
            bridge: "br0".to_owned(),
            port: port.to_owned(),
            queue,
            core,
            pinned,
            usage_percent,
            packets: 9,
        };
        let rxqs =
            Rxqs(vec![rxq("p0", 0, 2, false, 12.25), rxq("p0", 1, 2, true, 0.0), rxq("vm0", 0, 3, false, 100.0)]);
        let want = "\
worker core_id 2:
  port: p0                queue-id:  0  usage:  12.2 %  packets: 9  bridge: br0
  port: p0                queue-id:  1  usage:   0.0 %  packets: 9  bridge: br0  (pinned)
worker core_id 3:
  port: vm0               queue-id:  0  usage: 100.0 %  packets: 9  bridge: br0
";
        assert_eq!(rxqs.text(), want);
        let want = json!({
            "port": "p0", "bridge": "br0", "queue": 1, "core": 2, "pinned": true, "usage_percent": 0.0, "packets": 9,
        });
        assert_eq!(rxqs.json()[1], want);
        assert_eq!(Moved(3).text(), "moved 3 receive queues\n");
        assert_eq!(Moved(3).json(), json!({ "moved": 3 }));
    }
}
