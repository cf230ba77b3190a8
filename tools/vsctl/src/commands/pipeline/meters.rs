//! Meters.

use super::flows::seconds;
use super::groups::counts_json;
use crate::cli::Id;
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

async fn list(client: &Client, bridge: &str, meter: Option<Id>) -> Result<Vec<v1::MeterEntry>, Error> {
    let request = v1::ListMetersRequest { bridge: bridge.to_owned(), id: meter.and_then(|id| id.0) };
    let mut parts = client.answer(client.meters().await?.list_meters(request).await)?;
    let mut meters = Vec::new();
    while let Some(part) = parts.message().await.map_err(|status| client.error(status))? {
        meters.extend(part.meters);
    }
    Ok(meters)
}

pub(super) async fn dump(client: &Client, bridge: &str, meter: Option<Id>) -> Answer {
    Ok(Box::new(Meters(list(client, bridge, meter).await?)))
}

pub(super) async fn stats(client: &Client, bridge: &str, meter: Option<Id>) -> Answer {
    Ok(Box::new(Stats(list(client, bridge, meter).await?)))
}

/// `dump-meters`.
struct Meters(Vec<v1::MeterEntry>);

impl Report for Meters {
    fn text(&self) -> String {
        let mut text = "OFPST_METER_CONFIG reply (OF1.5) (xid=0x2):\n".to_owned();
        for (i, meter) in self.0.iter().enumerate() {
            // Like ovs-ofctl: blank lines between meters, none behind the last.
            let _ = writeln!(text, "{}{}", if i == 0 { "" } else { "\n" }, meter.text.trim_end());
        }
        text
    }

    fn json(&self) -> Value {
        let band = |band: &v1::Band| {
            let kind = if band.dscp_remark.is_some() { "dscp_remark" } else { "drop" };
            json!({ "type": kind, "rate": band.rate, "burst_size": band.burst_size, "prec_level": band.dscp_remark })
        };
        let meter = |entry: &v1::MeterEntry| {
            let meter = entry.meter.clone().unwrap_or_default();
            json!({
                "meter": meter.id,
                "unit": if meter.pktps { "pktps" } else { "kbps" },
                "burst": meter.burst,
                "stats": meter.stats,
                "bands": meter.bands.iter().map(band).collect::<Value>(),
            })
        };
        self.0.iter().map(meter).collect()
    }
}

/// `meter-stats`.
struct Stats(Vec<v1::MeterEntry>);

impl Report for Stats {
    fn text(&self) -> String {
        let mut text = "OFPST_METER reply (OF1.5) (xid=0x2):\n".to_owned();
        for (i, entry) in self.0.iter().enumerate() {
            let stats = entry.statistics.clone().unwrap_or_default();
            let total = stats.total.unwrap_or_default();
            let _ = writeln!(
                text,
                "{}meter:{} flow_count:{} packet_in_count:{} byte_in_count:{} duration:{}.{:03}s bands:",
                if i == 0 { "" } else { "\n" },
                entry.meter.as_ref().map_or(0, |meter| meter.id),
                stats.flow_count,
                total.packets,
                total.bytes,
                stats.duration_ms / 1000,
                stats.duration_ms % 1000
            );
            for (number, band) in stats.bands.iter().enumerate() {
                let _ = writeln!(text, "{number}: packet_count:{} byte_count:{}", band.packets, band.bytes);
            }
        }
        text
    }

    fn json(&self) -> Value {
        let meter = |entry: &v1::MeterEntry| {
            let stats = entry.statistics.clone().unwrap_or_default();
            let total = stats.total.unwrap_or_default();
            json!({
                "meter": entry.meter.as_ref().map_or(0, |meter| meter.id),
                "duration": seconds(stats.duration_ms),
                "flow_count": stats.flow_count,
                "packets": total.packets,
                "bytes": total.bytes,
                "bands": counts_json(&stats.bands),
            })
        };
        self.0.iter().map(meter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meters() -> Vec<v1::MeterEntry> {
        let band = v1::Band { rate: 100, burst_size: 10, dscp_remark: None };
        let meter = |id| v1::Meter { id, pktps: true, burst: true, stats: true, bands: vec![band] };
        let count = |packets, bytes| v1::Count { packets, bytes };
        let statistics = v1::MeterStatistics {
            duration_ms: 15,
            flow_count: 1,
            total: Some(count(8, 480)),
            bands: vec![count(5, 300)],
        };
        let text = |id| format!("meter={id} pktps burst stats bands=\ntype=drop rate=100 burst_size=10\n");
        let entry =
            |id| v1::MeterEntry { meter: Some(meter(id)), text: text(id), statistics: Some(statistics.clone()) };
        vec![entry(1), entry(2)]
    }

    #[test]
    fn meters_as_ovs_ofctl_prints_them() {
        let want = "\
OFPST_METER_CONFIG reply (OF1.5) (xid=0x2):
meter=1 pktps burst stats bands=
type=drop rate=100 burst_size=10

meter=2 pktps burst stats bands=
type=drop rate=100 burst_size=10
";
        assert_eq!(Meters(meters()).text(), want);
        let want = json!({
            "meter": 1, "unit": "pktps", "burst": true, "stats": true,
            "bands": [{ "type": "drop", "rate": 100, "burst_size": 10, "prec_level": null }],
        });
        assert_eq!(Meters(meters()).json()[0], want);
    }

    #[test]
    fn counters_as_ovs_ofctl_prints_them() {
        let want = "\
OFPST_METER reply (OF1.5) (xid=0x2):
meter:1 flow_count:1 packet_in_count:8 byte_in_count:480 duration:0.015s bands:
0: packet_count:5 byte_count:300

meter:2 flow_count:1 packet_in_count:8 byte_in_count:480 duration:0.015s bands:
0: packet_count:5 byte_count:300
";
        assert_eq!(Stats(meters()).text(), want);
        let want = json!({
            "meter": 2, "duration": 0.015, "flow_count": 1, "packets": 8, "bytes": 480,
            "bands": [{ "packets": 5, "bytes": 300 }],
        });
        assert_eq!(Stats(meters()).json()[1], want);
    }
}
