//! Counters.

use super::port;
use crate::client::Client;
use crate::output::{Answer, Report, percent, port_number};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

pub(super) async fn dump_ports(client: &Client, bridge: &str, port: Option<&str>) -> Answer {
    let request = v1::GetPortStatisticsRequest { bridge: bridge.to_owned(), port: port.map(str::to_owned) };
    Ok(Box::new(Ports(client.answer(client.statistics().await?.get_port_statistics(request).await)?.ports)))
}

pub(super) async fn mempool(client: &Client) -> Answer {
    let answer = client.answer(client.statistics().await?.get_mempool(v1::GetMempoolRequest {}).await)?;
    Ok(Box::new(Mempool(answer.mempool.unwrap_or_default())))
}

pub(super) async fn log(client: &Client) -> Answer {
    let answer = client.answer(client.statistics().await?.get_log(v1::GetLogRequest {}).await)?;
    Ok(Box::new(Lines(answer.log.unwrap_or_default())))
}

/// `dump-ports`: the lines of ovs-ofctl(8), and two more that say why packets were dropped, if any
/// were.
struct Ports(Vec<v1::PortStatistics>);

/// `missed=1, eth_short=2`, or nothing.
fn named(missed: u64, drops: &[v1::DropCount]) -> String {
    let missed = (missed > 0).then(|| format!("missed={missed}"));
    let drops = drops.iter().map(|drop| format!("{}={}", drop.reason, drop.packets));
    missed.into_iter().chain(drops).collect::<Vec<_>>().join(", ")
}

impl Report for Ports {
    fn text(&self) -> String {
        let mut text = String::new();
        for port in &self.0 {
            let number = port_number(port.port.as_ref().map_or(0, |port| port.number));
            let (packets, bytes, drop, errors) = (port.rx_packets, port.rx_bytes, port.rx_dropped, port.rx_errors);
            let _ = writeln!(text, "  port {number:>2}: rx pkts={packets}, bytes={bytes}, drop={drop}, errs={errors}");
            let (packets, bytes, drop, errors) = (port.tx_packets, port.tx_bytes, port.tx_dropped, port.tx_errors);
            let _ = writeln!(text, "           tx pkts={packets}, bytes={bytes}, drop={drop}, errs={errors}");
            for (way, drops) in [("rx", named(port.rx_missed, &port.rx_drops)), ("tx", named(0, &port.tx_drops))] {
                if !drops.is_empty() {
                    let _ = writeln!(text, "           {way} drops: {drops}");
                }
            }
        }
        text
    }

    fn json(&self) -> Value {
        self.0.iter().map(port_json).collect()
    }
}

fn port_json(statistics: &v1::PortStatistics) -> Value {
    let port = port::json(&statistics.port.clone().unwrap_or_default());
    let mut object = json!({
        "name": port["name"],
        "number": port["number"],
        "type": port["type"],
        "bridge": port["bridge"],
        "link_up": port["link_up"],
        "admin_up": port["admin_up"],
        "no_flood": port["no_flood"],
        "mac": port["mac"],
        "mtu": port["mtu"],
    });
    if let (Some(object), Value::Object(counters)) = (object.as_object_mut(), counters(statistics)) {
        object.extend(counters);
    }
    object
}

/// The counters alone.
pub(super) fn counters(statistics: &v1::PortStatistics) -> Value {
    let by_reason = |drops: &[v1::DropCount]| {
        drops.iter().map(|drop| (drop.reason.clone(), drop.packets.into())).collect::<Map<String, Value>>()
    };
    json!({
        "rx_packets": statistics.rx_packets,
        "rx_bytes": statistics.rx_bytes,
        "rx_dropped": statistics.rx_dropped,
        "rx_missed": statistics.rx_missed,
        "rx_errors": statistics.rx_errors,
        "tx_packets": statistics.tx_packets,
        "tx_bytes": statistics.tx_bytes,
        "tx_dropped": statistics.tx_dropped,
        "tx_errors": statistics.tx_errors,
        "rx_drops": by_reason(&statistics.rx_drops),
        "tx_drops": by_reason(&statistics.tx_drops),
    })
}

/// `mempool-show`.
struct Mempool(v1::Mempool);

impl Report for Mempool {
    fn text(&self) -> String {
        let v1::Mempool { size, in_use, heap_bytes } = self.0;
        let part = percent(in_use, size);
        let heap_mib = heap_bytes >> 20;
        format!("mbufs: {in_use} of {size} in use ({part:.1} %)\nheap: {heap_mib} MiB allocated\n")
    }

    fn json(&self) -> Value {
        json!({ "size": self.0.size, "in_use": self.0.in_use, "heap_bytes": self.0.heap_bytes })
    }
}

/// `log-show`.
pub(super) struct Lines(pub(super) v1::LogState);

impl Report for Lines {
    fn text(&self) -> String {
        let v1::LogState { lost_error, lost_warn, lost_info, lost_debug, lost_trace, left_out, stuck_ms } = self.0;
        let reader = if stuck_ms == 0 { "reads".to_owned() } else { format!("has not read for {stuck_ms} ms") };
        format!(
            "lost lines: error={lost_error} warn={lost_warn} info={lost_info} debug={lost_debug} trace={lost_trace}\n\
             left out: {left_out}\nreader: {reader}\n"
        )
    }

    fn json(&self) -> Value {
        let v1::LogState { lost_error, lost_warn, lost_info, lost_debug, lost_trace, left_out, stuck_ms } = self.0;
        json!({
            "lost": {
                "error": lost_error,
                "warn": lost_warn,
                "info": lost_info,
                "debug": lost_debug,
                "trace": lost_trace,
            },
            "left_out": left_out,
            "stuck_ms": stuck_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn ports() -> Ports {
        let drop = |number, reason: &str, packets| v1::DropCount {
            number,
            reason: reason.to_owned(),
            sentence: "It happened.".to_owned(),
            packets,
        };
        let busy = v1::PortStatistics {
            port: Some(testing::guest()),
            rx_packets: 100,
            rx_bytes: 6400,
            rx_dropped: 9,
            rx_missed: 2,
            rx_errors: 1,
            tx_packets: 80,
            tx_bytes: u64::MAX,
            tx_dropped: 5,
            tx_errors: 3,
            rx_drops: vec![drop(0, "eth_short", 4), drop(2, "admin_down", 3)],
            tx_drops: vec![drop(4, "tx_full", 5)],
        };
        Ports(vec![busy, v1::PortStatistics { port: Some(testing::local()), ..Default::default() }])
    }

    #[test]
    fn dump_ports_text() {
        let want = "  port  1: rx pkts=100, bytes=6400, drop=9, errs=1
           tx pkts=80, bytes=18446744073709551615, drop=5, errs=3
           rx drops: missed=2, eth_short=4, admin_down=3
           tx drops: tx_full=5
  port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0
           tx pkts=0, bytes=0, drop=0, errs=0
";
        assert_eq!(ports().text(), want);
    }

    #[test]
    fn dump_ports_json() {
        let want = json!([
            {
                "name": "vm0", "number": 1, "type": "vhost-user", "bridge": "br0", "link_up": true, "admin_up": true,
                "no_flood": false, "mac": "02:00:00:00:00:01", "mtu": 1500,
                "rx_packets": 100, "rx_bytes": 6400, "rx_dropped": 9, "rx_missed": 2, "rx_errors": 1,
                "tx_packets": 80, "tx_bytes": u64::MAX, "tx_dropped": 5, "tx_errors": 3,
                "rx_drops": { "eth_short": 4, "admin_down": 3 }, "tx_drops": { "tx_full": 5 },
            },
            {
                "name": "br0", "number": 4_294_967_294_u32, "type": "internal", "bridge": "br0", "link_up": true,
                "admin_up": true, "no_flood": false, "mac": "02:00:00:00:00:03", "mtu": 1500,
                "rx_packets": 0, "rx_bytes": 0, "rx_dropped": 0, "rx_missed": 0, "rx_errors": 0,
                "tx_packets": 0, "tx_bytes": 0, "tx_dropped": 0, "tx_errors": 0,
                "rx_drops": {}, "tx_drops": {},
            },
        ]);
        assert_eq!(ports().json(), want);
    }

    #[test]
    fn log_both_ways() {
        let mut log = Lines(v1::LogState { lost_warn: 2, lost_info: 7, left_out: 213, ..Default::default() });
        let lines = "lost lines: error=0 warn=2 info=7 debug=0 trace=0\nleft out: 213\n";
        assert_eq!(log.text(), format!("{lines}reader: reads\n"));
        log.0.stuck_ms = 3456;
        assert_eq!(log.text(), format!("{lines}reader: has not read for 3456 ms\n"));
        let lost = json!({ "error": 0, "warn": 2, "info": 7, "debug": 0, "trace": 0 });
        assert_eq!(log.json(), json!({ "lost": lost, "left_out": 213, "stuck_ms": 3456 }));
    }

    #[test]
    fn mempool_both_ways() {
        let mempool = Mempool(v1::Mempool { size: 16_000, in_use: 2_000, heap_bytes: 3 << 20 });
        assert_eq!(mempool.text(), "mbufs: 2000 of 16000 in use (12.5 %)\nheap: 3 MiB allocated\n");
        assert_eq!(mempool.json(), json!({ "size": 16_000, "in_use": 2_000, "heap_bytes": 3 << 20 }));
    }
}
