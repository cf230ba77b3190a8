//! What the agent counts beside its work for the switch's objects: names that it tells, flows that
//! it exports. `/metrics` tells them ([`crate::probe`]).
//!
//! **Threads**: tasks count by atomic numbers. Each number has one writer.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// All that is counted.
#[derive(Debug, Default)]
pub struct Status {
    /// Names of addresses.
    pub names: NamesStatus,
    /// Records of connections that the switch tells.
    pub flows: FlowsStatus,
    targets: Mutex<Vec<Arc<TargetStatus>>>,
}

/// Names of addresses.
#[derive(Debug, Default)]
pub struct NamesStatus {
    /// Names that the agent has.
    pub known: AtomicU64,
    /// Addresses beyond the limit.
    pub left_out: AtomicU64,
    /// Names that the switch has. 0: it takes none.
    pub told: AtomicU64,
    /// Names that the switch has refused.
    pub refused: AtomicU64,
}

/// Records of connections.
#[derive(Debug, Default)]
pub struct FlowsStatus {
    /// Records that the switch has told.
    pub records: AtomicU64,
    /// Records that the switch has lost, as the agent read too slowly.
    pub lost: AtomicU64,
    /// Connections that the exporter remembers.
    pub connections: AtomicU64,
    /// Records of connections beyond the limit of those.
    pub untracked: AtomicU64,
}

/// One target of an export.
#[derive(Debug, Default)]
pub struct TargetStatus {
    /// As `--flow-export` has it.
    pub name: String,
    /// 1: the agent has a connection to it.
    pub connected: AtomicU64,
    /// Flows that were sent.
    pub sent: AtomicU64,
    /// Flows that were not sent.
    pub lost: AtomicU64,
}

/// A family of numbers: its name, type, help and samples.
type Family<'a> = (&'static str, &'static str, &'static str, Vec<(String, &'a AtomicU64)>);

impl Status {
    /// A target of exports, which is told from now on.
    pub fn target(&self, name: &str) -> Arc<TargetStatus> {
        let target = Arc::new(TargetStatus { name: name.to_owned(), ..TargetStatus::default() });
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&target));
        target
    }

    /// All numbers in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let alone = |number| vec![(String::new(), number)];
        let of_targets = |number: fn(&TargetStatus) -> &AtomicU64| {
            let label = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"");
            targets.iter().map(|of| (format!("{{target=\"{}\"}}", label(&of.name)), number(of))).collect()
        };
        let (names, flows) = (&self.names, &self.flows);
        let mut families: Vec<Family<'_>> = vec![
            ("vswitch_agent_names", "gauge", "Names of addresses that the agent has.", alone(&names.known)),
            ("vswitch_agent_names_left_out", "gauge", "Addresses beyond the limit of names.", alone(&names.left_out)),
            ("vswitch_agent_names_told", "gauge", "Names that the switch has.", alone(&names.told)),
            ("vswitch_agent_names_refused", "gauge", "Names that the switch has refused.", alone(&names.refused)),
        ];
        if !targets.is_empty() {
            let help = [
                "Records of connections that the switch has told.",
                "Records of connections that the switch has lost.",
                "Connections that the exporter remembers.",
                "Records of connections beyond the exporter's limit.",
                "Whether the agent has a connection to the target.",
                "Flows that were sent to the target.",
                "Flows that were not sent to the target.",
            ];
            families.extend([
                ("vswitch_agent_flow_records_total", "counter", help[0], alone(&flows.records)),
                ("vswitch_agent_flow_records_lost_total", "counter", help[1], alone(&flows.lost)),
                ("vswitch_agent_flow_connections", "gauge", help[2], alone(&flows.connections)),
                ("vswitch_agent_flow_records_untracked_total", "counter", help[3], alone(&flows.untracked)),
                ("vswitch_agent_flow_export_connected", "gauge", help[4], of_targets(|of| &of.connected)),
                ("vswitch_agent_flow_export_sent_total", "counter", help[5], of_targets(|of| &of.sent)),
                ("vswitch_agent_flow_export_lost_total", "counter", help[6], of_targets(|of| &of.lost)),
            ]);
        }
        let mut text = String::new();
        for (name, kind, help, samples) in families {
            // (A String takes all.)
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, number) in samples {
                let _ = writeln!(text, "{name}{labels} {}", number.load(Ordering::Relaxed));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_with_their_targets() {
        let status = Status::default();
        status.names.known.store(7, Ordering::Relaxed);
        assert!(status.metrics().contains("\nvswitch_agent_names 7\n"));
        assert!(!status.metrics().contains("flow"), "nothing is exported");
        status.target("ipfix:udp:h:4739").lost.store(3, Ordering::Relaxed);
        let metrics = status.metrics();
        assert!(
            metrics.contains("\nvswitch_agent_flow_export_lost_total{target=\"ipfix:udp:h:4739\"} 3\n"),
            "{metrics}"
        );
        assert_eq!(metrics.lines().filter(|line| line.starts_with("# TYPE")).count(), 11);
    }
}
